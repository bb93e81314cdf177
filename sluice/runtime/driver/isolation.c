#define _GNU_SOURCE
#include "driver/isolated_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    NUMBERS_LEFT_OUT = 1 << 16,   /* of instances: those since the worker shared its counters */
};

static const uint64_t look_every = 1000 * 1000;                       /* nanoseconds between two looks for crashes */
static const uint64_t pause_least = 10 * 1000 * 1000, pause_most = 1000 * 1000 * 1000;   /* before another start */

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *map_shared(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool sl_isolation_begin(struct sl_workers *workers)
{
    struct sl_isolation *isolation = workers->isolation;
    isolation->counters_all = isolation->counter_count;
    for (uint32_t i = 0; i < isolation->function_count; i++)
        isolation->counters_all += isolation->function_counters[i];
    isolation->state_size = sizeof(struct sl_worker_state) + 2 * isolation->counters_all * sizeof(uint64_t);
    isolation->workers = workers->count;
    isolation->states = calloc(workers->count, sizeof *isolation->states);
    for (uint32_t i = 0; i < workers->count && isolation->states; i++)
        if (!(isolation->states[i] = map_shared(isolation->state_size)))
            return false;
    return isolation->states;
}

struct sl_packet_ring *sl_isolation_ring(void)
{
    struct sl_packet_ring *ring = aligned_alloc(SL_RING_LINE_BYTES, sizeof *ring);
    struct sl_ring_common *common = map_shared(SL_ISOLATED_RING_SIZE);
    if (!ring || !common) {
        free(ring);
        if (common)
            munmap(common, SL_ISOLATED_RING_SIZE);
        return NULL;
    }
    memset(ring, 0, sizeof *ring);
    ring->common = common;
    ring->bytes = (uint8_t *)(common + 1);
    ring->room = SL_RING_BYTES;
    ring->shared = true;
    return ring;
}

int sl_isolation_start(struct sl_worker *worker, void *(*work)(void *worker))
{
    pid_t caller = getpid(), process = fork();
    if (process < 0)
        return errno;
    if (process) {
        worker->process = process;
        worker->start_again = 0;
        return 0;
    }
    sigset_t all;
    sigfillset(&all);   /* signals are for the caller, who ends the workers */
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != caller)
        _exit(1);
    sl_isolated_begin(worker);
    work(worker);
    _exit(0);   /* nothing of the caller's is ended here */
}

static void gather(struct sl_worker *w)
{
    const struct sl_isolation *isolation = w->workers->isolation;
    struct sl_worker_state *state = w->state;
    struct sl_box *box = w->box;
    const uint64_t *counters = sl_isolated_counters(isolation, state, __atomic_load_n(&state->mark, __ATOMIC_ACQUIRE));
    memcpy(box->counters, counters, isolation->counter_count * sizeof *counters);
    counters += isolation->counter_count;
    for (uint32_t i = 0; i < isolation->function_count; counters += isolation->function_counters[i++])
        if (isolation->function_counters[i] && box->function_counters[i])
            memcpy(box->function_counters[i], counters, isolation->function_counters[i] * sizeof *counters);
    box->created = state->created ? state->created : box->created;
    w->drive.no_port = state->no_port;
    w->drive.no_checksum = state->no_checksum;
    w->drive.unseen_fault = state->unseen_fault;
    box->report_count = sl_min(state->report_count, SL_REPORTS_MOST);
    for (uint32_t i = 0; i < box->report_count; i++) {
        struct shared_report *report = &state->reports[i];
        report->name[SL_ISOLATED_TEXT - 1] = report->function[SL_ISOLATED_TEXT - 1] = 0;   /* the process may have written anything */
        box->reports[i] = (struct sl_report){report->name, report->value, *report->function ? report->function : NULL};
    }
    memcpy(box->refused, state->refused, sizeof state->refused);
    box->refused_count = sl_min(state->refused_count, SL_REFUSED_MOST);
    memcpy(box->failure, state->failure, sizeof box->failure - 1);
}

void sl_isolation_gather(const struct sl_workers *workers)
{
    for (uint32_t i = 0; i < workers->count && workers->threads && workers->isolation; i++)
        gather(&workers->threads[i]);
}

/* Instances that the box has: those that began, less those that ended. */
static uint64_t alive(const struct sl_isolation *isolation, const uint64_t *counters)
{
    uint64_t began = 0, ended = 0;
    for (uint32_t i = 0; i < isolation->counter_count; i++) {
        if (strcmp(isolation->counters[i].name, "instances") == 0)
            began += counters[i];
        else if (strncmp(isolation->counters[i].name, "ended:", 6) == 0)
            ended += counters[i];
    }
    return began > ended ? began - ended : 0;
}

/* Writes what is known of a crash, on standard error and, of the first one, to the message of the run. */
static void report(const struct sl_worker *w, int status, uint64_t packets, uint64_t flows)
{
    struct sl_isolation *isolation = w->workers->isolation;
    const struct sl_worker_state *state = w->state;
    char text[sizeof isolation->message];
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int used = number ? snprintf(text, sizeof text, "worker %u crashed: %s", w->number, strsignal(number))
                      : snprintf(text, sizeof text, "worker %u ended: status %d", w->number, WEXITSTATUS(status));
    if (state->signal && state->function && state->function <= isolation->function_count)
        used += snprintf(text + used, sizeof text - (size_t)used, " in function %.200s, on an event of %.*s",
                         isolation->function_names[state->function - 1], SL_ISOLATED_TEXT - 1, *state->layer ? state->layer : "the box");
    if (state->signal && state->flow)
        used += snprintf(text + used, sizeof text - (size_t)used, " (flow %llu)", (unsigned long long)state->flow);
    if (state->signal && state->packet)
        used += snprintf(text + used, sizeof text - (size_t)used, ", at packet %llu", (unsigned long long)state->packet);
    snprintf(text + used, sizeof text - (size_t)used, "; %llu packets and %llu flows lost%s", (unsigned long long)packets,
             (unsigned long long)flows, w->given_up ? "; it is not started again" : "");
    if (w->crashes <= 10 || w->crashes % 100 == 0 || w->given_up)
        fprintf(stderr, "sluice: warning: %s\n", text);
    if (!isolation->message[0])
        memcpy(isolation->message, text, sizeof text);
}

/* A process ended before its time. Its next one begins after the packet of the crash; without a trace of it, as after
 * SIGKILL, after the group of packets that it had. Those of the group are lost: what they counted is not in the counters.
 * What the process has written about itself may be wrong, but leads to no entry that it did not get. Where it has
 * spoilt its ring, all that waited there is lost. */
static void lose(struct sl_worker *w, int status)
{
    struct sl_isolation *isolation = w->workers->isolation;
    struct sl_worker_state *state = w->state;
    bool spoilt = sl_ring_is_spoilt(w->ring);
    uint64_t taken = sl_ring_given_back(w->ring), handed = w->ring->handed;
    if (spoilt && state->begin - taken <= handed - taken)
        taken = state->begin;   /* it is newer */
    uint64_t run = state->begin == taken ? sl_min(state->run, handed - taken) : 0, done = sl_min(state->mark >> 1, run);
    uint64_t group = sl_min(run - done, state->is_packets ? SL_ISOLATED_GROUP : run);
    if (state->signal && state->is_packets)
        group = sl_min(group, (uint64_t)state->at + 1);
    uint64_t first = taken + done, next = spoilt ? handed : first + group;
    uint64_t packets = sl_ring_packets(w->ring, first, next);
    uint64_t lost = alive(isolation, sl_isolated_counters(isolation, state, state->mark));
    uint64_t flows = lost - sl_min(lost, state->flows_lost), when = now();
    sl_ring_restore(w->ring, next);
    w->crashes++;
    isolation->crashes++;
    isolation->packets_lost += packets;
    isolation->flows_lost += flows;
    state->flows_lost += flows;
    w->given_up = state->ends || w->crashes == SL_CRASHES_MOST;
    report(w, status, packets, flows);
    gather(w);
    if (w->workers->group)
        sl_group_recover(w->workers->group, w->number);
    /* at once after the first crash; those in quick succession wait longer and longer where packets cannot */
    uint64_t pause = w->crashed && when - w->crashed < 10 * pause_most ? pause_least << sl_min(w->crashes, 8) : 0;
    w->start_again = when + (w->workers->drops ? sl_min(pause, pause_most) : 0);
    w->crashed = when;
    w->process = 0;
    w->done = w->given_up;
    state->created += NUMBERS_LEFT_OUT;
    w->box->created = state->created;
    state->done = 0;
    state->signal = 0;
    state->run = state->at = state->function = 0;
    state->mark &= 1;
    state->flow = state->packet = 0;
    state->layer[0] = 0;
}

/* Takes what waits for a worker that is not started again. */
static void take_back(struct sl_worker *w)
{
    struct sl_packet_ring *ring = w->ring;
    uint64_t taken = sl_ring_given_back(ring);
    w->workers->isolation->packets_lost += sl_ring_packets(ring, taken, ring->handed);
    sl_ring_restore(ring, ring->handed);
}

/* Whether a worker has ended its box, as it was to. */
static bool has_ended(const struct sl_worker *w)
{
    return w->ring->ended && __atomic_load_n(&w->state->done, __ATOMIC_ACQUIRE) == 1;
}

void sl_isolation_look(struct sl_workers *workers, void *(*work)(void *worker))
{
    uint64_t time = now();
    if (time - workers->looked < look_every)
        return;
    workers->looked = time;
    for (uint32_t i = 0; i < workers->count && workers->threads; i++) {
        struct sl_worker *w = &workers->threads[i];
        int status;
        w->done = w->done || has_ended(w);
        if (w->state->failure[0] && w->drive.on_fault == SL_DRIVE_STOP)
            workers->failed = 1;
        if (w->process && waitpid(w->process, &status, WNOHANG) == w->process) {
            w->done = has_ended(w);
            if (w->done)
                w->process = 0;
            else
                lose(w, status);
        }
        if (!w->process && !w->given_up && !w->done && w->start_again <= time && sl_isolation_start(w, work))
            w->start_again = time + pause_least;   /* there may be memory again */
        if (w->given_up)
            take_back(w);
    }
}

void sl_isolation_join(struct sl_workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        if (w->process && !has_ended(w))
            kill(w->process, SIGKILL);
        if (w->process)
            waitpid(w->process, NULL, 0);
        w->process = 0;
        if (w->given_up)
            take_back(w);
        if (w->ring)
            munmap(w->ring->common, SL_ISOLATED_RING_SIZE);
        free(w->ring);
        w->ring = NULL;
        if (w->state)   /* else it could not be started */
            gather(w);
    }
}

void sl_isolation_close(struct sl_isolation *isolation)
{
    for (uint32_t i = 0; i < isolation->workers && isolation->states; i++)
        if (isolation->states[i])
            munmap(isolation->states[i], isolation->state_size);
    free(isolation->states);
    isolation->states = NULL;
}
