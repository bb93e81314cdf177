/* The thread of the loop: the one that calls mtcp_app_join first, or, where a program has end hosts beside its monitors,
 * one of the library's own, as in mOS. */
#include "loop.h"

#include <signal.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool began, opened;
    bool beside;                    /* in a thread of the library's own, which is to be joined */
    bool destroy;                   /* mtcp_destroy was called while it ran in mtcp_app_join: a signal's handler may do so */
    pthread_t thread;               /* of the library's own */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The devices are: packets that are sent from now on will be seen. */
static void opened(void)
{
    pthread_mutex_lock(&state.lock);
    __atomic_store_n(&state.opened, true, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

static void run(void)
{
    mos_loop_open();
    opened();
    mos_loop_run();
}

static void ended(void)
{
    pthread_mutex_lock(&state.lock);
    mos_loop_set_runs(false);
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

static void *run_thread(void *argument)
{
    (void)argument;
    run();
    ended();
    return NULL;
}

/* mtcp_destroy was called while it ran. Taken once: by the loop as it ends, or by the caller, if the loop has ended before. */
static bool take_request(void) { return __atomic_exchange_n(&state.destroy, false, __ATOMIC_SEQ_CST); }

void mtcp_app_join(mctx_t mctx)
{
    if (!mctx || mos_loop_is_here())
        return;
    pthread_mutex_lock(&state.lock);
    if (state.began) {   /* in another thread */
        while (mos_loop_runs())
            pthread_cond_wait(&state.changed, &state.lock);
        pthread_mutex_unlock(&state.lock);
        return;
    }
    state.began = true;
    mos_loop_set_runs(true);
    pthread_mutex_unlock(&state.lock);
    run();
    ended();
    if (take_request())
        mtcp_destroy();
}

/* Signals are for the program's own threads. */
static int start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&state.thread, NULL, run_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void mos_run_beside(void)
{
    if (__atomic_load_n(&state.opened, __ATOMIC_ACQUIRE) || !mos_monitors())
        return;
    pthread_mutex_lock(&state.lock);
    if (!state.began) {
        state.began = state.beside = true;
        mos_loop_set_runs(true);
        int error = start_thread();
        if (error) {
            fprintf(stderr, "libsluice_mos: no thread for the monitors: %s\n", strerror(error));
            state.beside = false;
            mos_loop_set_runs(false);
        }
    }
    while (mos_loop_runs() && !state.opened)   /* so that it receives the program's own first packets */
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

/* It has ended; waits for a separate thread if it may. False where the caller is in it, or may not wait, or it runs in
 * mtcp_app_join: that calls mtcp_destroy again. */
static bool finish(bool may_wait)
{
    if (may_wait && !mos_loop_is_here() && __atomic_exchange_n(&state.beside, false, __ATOMIC_SEQ_CST)) {
        pthread_join(state.thread, NULL);   /* also where it has ended */
        return true;
    }
    if (!mos_loop_runs())
        return true;
    __atomic_store_n(&state.destroy, true, __ATOMIC_SEQ_CST);
    return !mos_loop_runs() && take_request();
}

/* It may begin again. */
static void forget(void)
{
    pthread_mutex_lock(&state.lock);
    state.began = false;
    __atomic_store_n(&state.opened, false, __ATOMIC_RELEASE);   /* end hosts that still return read these two */
    mos_loop_set_runs(false);
    __atomic_store_n(&state.beside, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&state.destroy, false, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&state.lock);
}

int mtcp_destroy(void)
{
    const bool may_free = mos_contexts_stop();
    if (!finish(may_free))
        return 0;   /* the loop ends first */
    if (!may_free)
        return 0;   /* the calls that end free their contexts */
    mos_contexts_release();
    forget();
    return 0;
}
