/* Workers that receive packets themselves, from sockets among which the kernel divides them (io/fanout.h). The first worker
 * also gets packets that the kernel cannot decide on, and hands them over, by the rings of the other workers. */
#define _GNU_SOURCE
#include "driver/worker.h"

#include "driver/busy.h"
#include "driver/drain.h"
#include "driver/trial.h"

enum {
    BURST = 256,                                /* packets that a box gets at once */
    WAIT = 1000000,                             /* nanoseconds: the rings are looked at so often */
};

/* Keeps the packets that are the worker's own, and passes the others on. Returns the number of the former. */
static uint32_t hand_over(struct sl_worker *w, struct sl_frame *frames, uint32_t count)
{
    struct sl_workers *workers = w->workers;
    uint32_t own = 0;
    for (uint32_t i = 0; i < count; i++) {
        unsigned chosen = workers->worker(&frames[i], workers->count, workers->seed);
        bool failed = false;
        if (chosen == w->number) {
            frames[own++] = frames[i];
            continue;
        }
        struct sl_packet_ring *ring = workers->threads[chosen].ring;
        if (sl_ring_has_entry(ring) && sl_ring_has_bytes(ring, frames[i].captured, &failed)) {
            sl_ring_put(ring, SL_RING_PACKET, &frames[i], true);
            __atomic_store_n(&workers->handed_over, workers->handed_over + 1, __ATOMIC_RELAXED);
        } else {
            workers->dropped++;
            workers->dropped_bytes += frames[i].length;
        }
    }
    for (uint32_t i = 0; own < count && i < workers->count; i++)
        if (i != w->number)
            sl_ring_publish(workers->threads[i].ring);
    return own;
}

/* Copies for the trial of a new version of a function. */
static void copy_for_trial(struct sl_workers *workers, const struct sl_frame *frames, uint32_t count)
{
    int trial = workers->reader ? __atomic_load_n(&workers->reader->trial, __ATOMIC_ACQUIRE) : 0;
    uint64_t left_out = trial ? sl_trial_copy(trial, frames, count) : 0;
    if (left_out)
        __atomic_add_fetch(&workers->reader->trial_left_out, left_out, __ATOMIC_RELAXED);
}

/* Receives and processes a burst. False if there was none. */
static bool receive(struct sl_worker *w)
{
    struct sl_workers *workers = w->workers;
    struct sl_frame frames[BURST];
    int32_t got = sl_source_receive(w->source, frames, BURST);
    if (got < 0)
        __atomic_store_n(&w->source_failed, 1, __ATOMIC_RELEASE);
    if (got > 0) {
        struct sl_busy *busy = workers->busy ? &workers->busy[w->number] : NULL;
        uint64_t begin = sl_busy_begin(busy);
        __atomic_store_n(&w->received, w->received + (uint32_t)got, __ATOMIC_RELAXED);
        copy_for_trial(workers, frames, (uint32_t)got);
        uint32_t own = w->number ? (uint32_t)got : hand_over(w, frames, (uint32_t)got);
        if (own) {
            sl_drive_burst(&w->drive, frames, own);
            sl_drive_flush(&w->drive);
        }
        workers->by_thread[w->number] += own;
        sl_busy_end(busy, begin, own);
        sl_worker_look_for_failure(w);
    }
    sl_source_release(w->source);
    return got > 0;
}

/* Lets what has expired by now end so, and not by the end of the input. The first worker writes to no ring any more. */
static void end_receiving(struct sl_worker *w)
{
    sl_drive_tick(&w->drive, sl_source_clock(w->source));
    for (uint32_t i = 0; !w->number && i < w->workers->count; i++)
        sl_ring_end(w->workers->threads[i].ring, SL_RING_ENDED);
}

void *sl_worker_receives(void *of)
{
    struct sl_worker_thread *thread = of;
    struct sl_worker *w = &thread->workers->threads[thread->number];
    uint64_t ending = 0;
    while (!w->done) {
        uint32_t stopping = __atomic_load_n(&w->workers->stopping, __ATOMIC_ACQUIRE);
        uint64_t clock = sl_source_clock(w->source);   /* read first: packets that arrive later have later times */
        if (stopping == SL_RING_ABANDONED) {
            sl_worker_end(w, true);
            continue;
        }
        if (__atomic_load_n(&w->workers->pauses, __ATOMIC_ACQUIRE)) {
            sl_worker_pause(thread);
            continue;
        }
        bool any = !w->drained && !w->source_failed && receive(w);
        if (stopping && !w->drained && (w->source_failed || !sl_drains(sl_worker_now(), any, &ending))) {
            __atomic_store_n(&w->drained, 1, __ATOMIC_RELEASE);
            end_receiving(w);
        }
        /* its box is not ended before its own packets have */
        uint32_t ended = __atomic_load_n(&w->ring->common->ended, __ATOMIC_ACQUIRE);
        if ((!ended || w->drained) && sl_worker_serve(w, w->number))
            any = true;
        if (any || w->done)
            continue;
        sl_drive_tick(&w->drive, clock);
        sl_drive_flush(&w->drive);
        sl_source_wait(w->source, WAIT);
    }
    return sl_worker_ended(thread);
}
