/* The library's set-up, and its contexts. */
#include "endpoint.h"

#include "sluice_mos.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>

enum { SIGNALS = 65 };

void mos_boxed_for(struct sl_box *box, struct mos_context *context);

static struct {
    bool read;                       /* the configuration */
    pthread_mutex_t lock;            /* of what follows: end hosts make their contexts in threads of their own */
    struct mos_context *contexts[MOS_CONTEXTS];
    bool stopping;                   /* one of them */
    uint64_t seed;
    mtcp_sighandler_t handlers[SIGNALS];
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct mos_context *mos_context_of(mctx_t mctx) { return (struct mos_context *)(void *)mctx; }

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
    if (library.handlers[signum])
        library.handlers[signum](signum);
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
    free(context->timers);
    free(context->packet.memory);
    free(context->shown);
    free(context);
}

static struct mos_context *new_context(int cpu)
{
    const struct mtcp_conf *conf = &mos_configuration.conf;
    if (!library.read || cpu < 0 || cpu >= conf->num_cores || cpu >= MOS_CONTEXTS || library.contexts[cpu]) {
        errno = EINVAL;
        return NULL;
    }
    struct mos_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->public.cpu = cpu;
    context->thread = pthread_self();
    context->open.after = conf->tcp_timeout > 0 ? nanoseconds(conf->tcp_timeout) : SL_NEVER;
    context->time_wait.after = nanoseconds(conf->tcp_tw_interval);
    context->packet.memory = malloc(MOS_FRAME_ROOM);
    context->shown = malloc(MOS_SHOWN_ROOM);
    const uint64_t instances = 2 * (uint64_t)conf->max_concurrency;   /* also for SYNs without a flow */
    const struct sl_options options = {
        .seed = library.seed,
        .memory = (uint64_t)64 << 20,   /* fragments */
        .max_instances = (uint32_t)sl_min(instances, SL_TABLE_MOST),
        .timeouts = true,
    };
    context->box = context->packet.memory && context->shown ? sluice_mos_open(&options) : NULL;
    const uint32_t of_all = (uint32_t)sl_min(instances * MOS_CONTEXTS, SL_TABLE_MOST);
    if (!context->box || mos_translated_open(of_all, library.seed)) {
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
    if (context)
        library.contexts[cpu] = context;
    pthread_mutex_unlock(&library.lock);
    return context ? &context->public : NULL;
}

unsigned mos_contexts(struct mos_context **contexts)
{
    unsigned count = 0;
    pthread_mutex_lock(&library.lock);
    for (int cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        if (library.contexts[cpu])
            contexts[count++] = library.contexts[cpu];
    pthread_mutex_unlock(&library.lock);
    return count;
}

bool mos_stopped(void) { return __atomic_load_n(&library.stopping, __ATOMIC_RELAXED); }

/* Nothing of it goes on: calls of end hosts fail from now on, and the loop ends after the current packet. */
static void stop(struct mos_context *context)
{
    context->stopping = true;
    __atomic_store_n(&library.stopping, true, __ATOMIC_RELAXED);
    mos_hosts_interrupt((unsigned)context->public.cpu);
}

static void release(struct mos_context *context)
{
    mos_flows_end(context);
    pthread_mutex_lock(&library.lock);
    library.contexts[context->public.cpu] = NULL;
    bool stopping = false;
    for (int cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        stopping = stopping || (library.contexts[cpu] && library.contexts[cpu]->stopping);
    library.stopping = stopping;
    pthread_mutex_unlock(&library.lock);
    free_context(context);
}

/* Perhaps from a signal's handler, and perhaps of a context that is gone already: what runs or waits ends first, in whichever
 * thread, and mtcp_destroy frees it. */
int mtcp_destroy_context(mctx_t mctx)
{
    struct mos_context *context = NULL;
    for (int cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        if (library.contexts[cpu] && mctx == &library.contexts[cpu]->public)
            context = library.contexts[cpu];
    if (!context) {
        errno = EINVAL;
        return -1;
    }
    bool used = mos_hosts_waiting(context->hosts) || !pthread_equal(context->thread, pthread_self());
    stop(context);
    if (!mos_loop_runs() && !used)
        release(context);
    return 0;
}

int mtcp_destroy(void)
{
    if (mos_loop_runs()) {
        for (int cpu = 0; cpu < MOS_CONTEXTS; cpu++)
            if (library.contexts[cpu])
                stop(library.contexts[cpu]);
        if (!mos_loop_finish())
            return 0;   /* from a callback, or a signal's handler: the loop calls it again once it has ended */
    }
    for (int cpu = 0; cpu < MOS_CONTEXTS; cpu++)
        if (library.contexts[cpu] && !mos_hosts_waiting(library.contexts[cpu]->hosts))
            release(library.contexts[cpu]);
    mos_translated_close();
    mos_events_forget();
    mos_configuration_free();
    library.read = false;
    mos_loop_forget();
    return 0;
}
