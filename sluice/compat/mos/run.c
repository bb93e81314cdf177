/* Runs: the threads that take packets through contexts, from their begin to their end.
 *
 * As in mOS, each context has a thread, and the callbacks of its flows run there. The first call of mtcp_app_join runs the
 * context that it is given in the calling thread, and those of the others in threads of the library's own, as all are where
 * a program has end hosts beside its monitors. Where packets are forwarded, one thread runs all contexts: packets leave in
 * the order in which they came, and those of one flow may belong to several contexts once a program has rewritten their
 * addresses. */
#include "monitor.h"

#include <signal.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool began;
    unsigned running;               /* runs that have not ended */
    unsigned unopened;              /* runs that have not opened their devices yet */
    bool opened;                    /* all have: packets that are sent from now on will be seen */
    bool threads;                   /* of the library's own, which are to be joined */
    bool destroy;                   /* mtcp_destroy was called while it ran in mtcp_app_join: a signal's handler may do so */
    unsigned count;                 /* of runs */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct mos_run runs[MOS_CONTEXTS];

bool mos_loop_runs(void) { return __atomic_load_n(&state.running, __ATOMIC_SEQ_CST) > 0; }

bool mos_loop_is_of(const struct mos_context *context) { return mos_run_here() && mos_run_here() == context->run; }

/* --- which runs there are --- */

/* Can each context have a run of its own? */
static bool separable(void)
{
    for (int i = 0; i < mos_configuration.device_count; i++) {
        const struct mos_device *device = &mos_configuration.devices[i];
        if (mos_configuration.forward && device->to)
            return false;
    }
    return true;
}

/* Under the lock. */
static void make_runs(void)
{
    struct mos_context *contexts[MOS_CONTEXTS];
    const unsigned count = mos_contexts(contexts), parts = count && separable() ? count : 1;
    for (unsigned i = 0; i < parts; i++) {
        struct mos_run *run = &runs[i];
        *run = (struct mos_run){.part = i, .parts = parts, .count = parts > 1 ? 1 : count};
        memcpy(run->contexts, &contexts[i], run->count * sizeof *contexts);
        for (unsigned k = 0; k < run->count; k++)
            run->contexts[k]->run = run;
    }
    state.count = parts;
    state.began = true;
    state.unopened = parts;
    __atomic_store_n(&state.running, parts, __ATOMIC_SEQ_CST);
}

/* --- a run --- */

static void opened(void)
{
    pthread_mutex_lock(&state.lock);
    if (--state.unopened == 0)
        __atomic_store_n(&state.opened, true, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

static void ended(void)
{
    pthread_mutex_lock(&state.lock);
    __atomic_fetch_sub(&state.running, 1, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

static void *run(void *of)
{
    mos_run_open(of);
    opened();
    mos_run_packets(of);
    ended();
    return NULL;
}

/* Starts all runs but one, which the caller runs itself; NULL: all. Under the lock. Signals are for the program's own
 * threads. */
static void start_threads(const struct mos_run *but)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (struct mos_run *each = runs; each < runs + state.count; each++) {
        if (each == but)
            continue;
        const int error = pthread_create(&each->thread, NULL, run, each);
        each->started = !error;
        if (!error) {
            __atomic_store_n(&state.threads, true, __ATOMIC_SEQ_CST);
        } else {
            fprintf(stderr, "libsluice_mos: no thread for the monitors of context %d: %s\n", each->contexts[0]->public.cpu,
                    strerror(error));
            __atomic_fetch_sub(&state.running, 1, __ATOMIC_SEQ_CST);
            state.unopened--;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Waits for the threads of the library's own, once. */
static void join_threads(void)
{
    if (!__atomic_exchange_n(&state.threads, false, __ATOMIC_SEQ_CST))
        return;
    for (unsigned i = 0; i < state.count; i++)
        if (runs[i].started)
            pthread_join(runs[i].thread, NULL);   /* also where it has ended */
}

/* --- the program's calls --- */

/* mtcp_destroy was called while it ran. Taken once: by the loop as it ends, or by the caller, if the loop has ended before. */
static bool take_request(void) { return __atomic_exchange_n(&state.destroy, false, __ATOMIC_SEQ_CST); }

static void wait_for_end(void)
{
    pthread_mutex_lock(&state.lock);
    while (state.running)
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

void mtcp_app_join(mctx_t mctx)
{
    if (!mctx || mos_run_here())
        return;
    pthread_mutex_lock(&state.lock);
    const bool begins = !state.began;
    struct mos_run *own = NULL;
    if (begins) {
        make_runs();
        own = mos_context_of(mctx)->run;
        start_threads(own ? own : &runs[0]);
    }
    pthread_mutex_unlock(&state.lock);
    if (!begins) {   /* it runs in other threads, or has ended */
        wait_for_end();
        return;
    }
    run(own ? own : &runs[0]);
    join_threads();
    wait_for_end();
    if (take_request())
        mtcp_destroy();
}

void mos_run_beside(void)
{
    if (__atomic_load_n(&state.opened, __ATOMIC_ACQUIRE) || !mos_monitors())
        return;
    pthread_mutex_lock(&state.lock);
    if (!state.began) {
        make_runs();
        start_threads(NULL);
    }
    while (state.running && state.unopened)   /* so that it sees the program's own first packets */
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

bool mos_loop_finish(bool may_wait)
{
    if (may_wait && !mos_run_here())
        join_threads();
    if (!mos_loop_runs())
        return true;
    __atomic_store_n(&state.destroy, true, __ATOMIC_SEQ_CST);
    return !mos_loop_runs() && take_request();
}

void mos_loop_forget(void)
{
    pthread_mutex_lock(&state.lock);
    state.began = false;
    __atomic_store_n(&state.opened, false, __ATOMIC_RELEASE);   /* end hosts that still return read these */
    __atomic_store_n(&state.running, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&state.threads, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&state.destroy, false, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&state.lock);
}
