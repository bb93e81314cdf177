/* The library's set-up, and its contexts. */
#include "endpoint.h"
#include "loop.h"

#include "sluice_mos.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>

enum { SIGNALS = 65 };

static struct {
    bool read;                       /* the configuration */
    pthread_mutex_t lock;            /* of the following: end hosts make their contexts in separate threads */
    struct mos_context *contexts[MOS_CONTEXTS];   /* in mos_context_memory, or NULL */
    bool releasing[MOS_CONTEXTS];
    uint64_t seed;
    mtcp_sighandler_t handlers[SIGNALS];
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned calls[MOS_CONTEXTS];   /* of end hosts, in progress: not cleared, as threads may be in one */

static _Thread_local unsigned handlers;   /* of signals, that this thread runs: they neither lock nor free */

/* --- set-up --- */

int mtcp_init(const char *config_file)
{
    if (mos_configuration_read(config_file))
        return -1;
    library.read = true;
    if (getrandom(&library.seed, sizeof library.seed, 0) != sizeof library.seed)
        library.seed = 1;
    return 0;
}

int mtcp_getconf(struct mtcp_conf *conf)
{
    if (!conf) {
        errno = EFAULT;
        return -1;
    }
    *conf = mos_configuration.conf;
    return 0;
}

int mtcp_setconf(const struct mtcp_conf *conf)
{
    if (!conf || conf->num_cores < 0 || conf->max_concurrency < 0 || conf->rcvbuf_size < 0) {
        errno = EINVAL;
        return -1;
    }
    struct mtcp_conf *own = &mos_configuration.conf;
    own->num_cores = conf->num_cores > 0 ? conf->num_cores : own->num_cores;
    own->max_concurrency = conf->max_concurrency > 0 ? conf->max_concurrency : own->max_concurrency;
    own->rcvbuf_size = conf->rcvbuf_size;
    own->tcp_timeout = conf->tcp_timeout;
    int before = own->tcp_tw_interval;   /* one value by two names: the one that was changed counts */
    own->tcp_tw_interval = own->tcp_timewait = conf->tcp_tw_interval != before ? conf->tcp_tw_interval : conf->tcp_timewait;
    return 0;
}

/* After the program's handler, waits of end hosts return: also those of threads that did not get the signal. */
static void on_signal(int signum)
{
    const int error = errno;
    handlers++;
    if (library.handlers[signum])
        library.handlers[signum](signum);
    handlers--;
    for (unsigned cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        mos_hosts_interrupt(cpu);
    errno = error;
}

mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler)
{
    if (signum < 1 || signum >= SIGNALS) {
        errno = EINVAL;
        return SIG_ERR;
    }
    mtcp_sighandler_t own = library.handlers[signum];
    bool is_function = handler != SIG_IGN && handler != SIG_DFL && handler != SIG_ERR;
    library.handlers[signum] = is_function ? handler : NULL;
    mtcp_sighandler_t before = signal(signum, is_function ? on_signal : handler);
    if (before == SIG_ERR)
        library.handlers[signum] = own;
    return before == on_signal ? own : before;
}

static uint64_t nanoseconds(int seconds) { return seconds > 0 ? (uint64_t)seconds * 1000000000u : 0; }

static void free_context(struct mos_context *context)
{
    mos_hosts_close(context->hosts);
    context->hosts = NULL;
    if (context->box)
        sluice_mos_close(context->box);
    mos_sockets_free(context);
    mos_flow_index_close(context);
    mos_registrations_forget(context);
    mos_spare_free(&context->spare);
    free(context->timers);
    free(context->packet.memory);
    free(context->shown);
    free(context->again);
    memset(context, 0, sizeof *context);
}

static struct mos_context *new_context(int cpu)
{
    const struct mtcp_conf *conf = &mos_configuration.conf;
    if (!library.read || cpu < 0 || cpu >= conf->num_cores || cpu >= MOS_CONTEXTS || library.contexts[cpu]) {
        errno = EINVAL;
        return NULL;
    }
    struct mos_context *context = &mos_context_memory[cpu];
    context->public.cpu = cpu;
    context->thread = pthread_self();
    context->seed = library.seed;
    context->open.after = conf->tcp_timeout > 0 ? nanoseconds(conf->tcp_timeout) : SL_NEVER;
    context->time_wait.after = nanoseconds(conf->tcp_tw_interval);
    context->packet.memory = malloc(MOS_FRAME_ROOM);
    context->shown = malloc(MOS_SHOWN_ROOM);
    context->again = malloc(UINT16_MAX);
    const uint64_t instances = 2 * (uint64_t)conf->max_concurrency;   /* also for SYNs without a flow */
    const struct sl_options options = {
        .seed = library.seed,
        .memory = (uint64_t)128 << 20,   /* fragments, and extents that flows have received out of order */
        .max_instances = (uint32_t)sl_min(instances, SL_TABLE_MOST),
        .timeouts = true,
    };
    context->box = context->packet.memory && context->shown && context->again ? sluice_mos_open(&options) : NULL;
    if (!context->box) {
        fputs("libsluice_mos: not enough memory for a context\n", stderr);
        free_context(context);
        errno = ENOMEM;
        return NULL;
    }
    mos_boxed_for(context->box, context);
    return context;
}

mctx_t mtcp_create_context(int cpu)
{
    pthread_mutex_lock(&library.lock);
    struct mos_context *context = new_context(cpu);
    if (context) {
        mos_context_set_stopped(context, false);
        __atomic_store_n(&library.contexts[cpu], context, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&library.lock);
    return context ? &context->public : NULL;
}

unsigned mos_contexts(struct mos_context **contexts)
{
    unsigned count = 0;
    pthread_mutex_lock(&library.lock);
    for (int cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        if (library.contexts[cpu] && !library.releasing[cpu])
            contexts[count++] = library.contexts[cpu];
    pthread_mutex_unlock(&library.lock);
    return count;
}

/* Ends a context: calls of end hosts fail from now on, and the loop ends after the current packet. */
static void stop(const struct mos_context *context)
{
    mos_context_set_stopped(context, true);
    mos_set_stopped(true);
    mos_hosts_interrupt(mos_context_core(context));
}

/* Chosen under the lock, under which a run chooses its contexts, too: once, and not while anything uses it. */
static bool begin_release(unsigned cpu)
{
    if (handlers)
        return false;   /* the call that it interrupts, the next one, or mtcp_destroy does it */
    pthread_mutex_lock(&library.lock);
    const bool free_now = library.contexts[cpu] && !library.releasing[cpu] && !mos_loop_runs() &&
                          mos_context_stopped(&mos_context_memory[cpu]) && !__atomic_load_n(&calls[cpu], __ATOMIC_SEQ_CST);
    library.releasing[cpu] = library.releasing[cpu] || free_now;
    pthread_mutex_unlock(&library.lock);
    return free_now;
}

/* Frees a context that has stopped, unless something uses it still. */
static void release(unsigned cpu)
{
    if (!begin_release(cpu))
        return;
    mos_flows_end(&mos_context_memory[cpu]);
    free_context(&mos_context_memory[cpu]);
    pthread_mutex_lock(&library.lock);
    library.contexts[cpu] = NULL;
    library.releasing[cpu] = false;
    bool stopping = false;
    for (unsigned other = 0; other < MOS_CONTEXTS; other++)
        stopping = stopping || (library.contexts[other] && mos_context_stopped(&mos_context_memory[other]));
    mos_set_stopped(stopping);
    pthread_mutex_unlock(&library.lock);
}

struct mos_context *mos_call_begin(mctx_t mctx)
{
    struct mos_context *context = mos_context_of(mctx);
    if (context)   /* first, and then mos_hosts_of looks whether it has stopped: release reads the two the other way round */
        __atomic_fetch_add(&calls[mos_context_core(context)], 1, __ATOMIC_SEQ_CST);
    return context;
}

void mos_call_end(struct mos_context **called)
{
    const struct mos_context *context = *called;
    if (!context)
        return;
    const int error = errno;
    if (__atomic_sub_fetch(&calls[mos_context_core(context)], 1, __ATOMIC_SEQ_CST) == 0 && mos_context_stopped(context))
        release(mos_context_core(context));
    errno = error;
}

static struct mos_context *context_at(unsigned cpu) { return __atomic_load_n(&library.contexts[cpu], __ATOMIC_ACQUIRE); }

/* Perhaps from a signal's handler, and perhaps of a context that is gone already: what runs or waits ends first, in whichever
 * thread, and the last call to return or mtcp_destroy frees it. */
int mtcp_destroy_context(mctx_t mctx)
{
    struct mos_context *context = NULL;
    for (unsigned cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        if (context_at(cpu) && mctx == &mos_context_memory[cpu].public)
            context = &mos_context_memory[cpu];
    if (!context) {
        errno = EINVAL;
        return -1;
    }
    stop(context);
    if (pthread_equal(context->thread, pthread_self()))
        release(mos_context_core(context));
    return 0;
}

bool mos_contexts_stop(void)
{
    for (unsigned cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        if (context_at(cpu))
            stop(&mos_context_memory[cpu]);
    return !handlers;
}

void mos_contexts_release(void)
{
    for (unsigned cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        release(cpu);
    mos_events_forget();
    mos_configuration_free();
    library.read = false;
}
