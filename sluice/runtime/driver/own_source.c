/* Workers that receive packets themselves: from sockets among which the kernel divides packets (io/fanout.h), or from the
 * receive queues of cards (io/queues.h). A packet of another worker is handed over by a ring: each pair of workers has one from
 * the first such packet on. Where the kernel divides them by their keys, only the first worker has packets for others. */
#define _GNU_SOURCE
#include "driver/worker.h"

#include "driver/busy.h"
#include "driver/crash.h"
#include "driver/drain.h"
#include "driver/trial.h"

enum {
    BURST = 256,                                /* packets that a box gets at once */
    WAIT_LEAST = 20000, WAIT_MOST = 1000000,    /* nanoseconds: the rings are looked at so often */
    BYTES_ALL = 4 * SL_RING_BYTES, BYTES_LEAST = SL_RING_BYTES / 4,   /* of copies: in all rings to a worker, and in one */
};

static uint64_t bytes_of_ring(uint32_t workers)
{
    uint64_t bytes = SL_RING_BYTES;
    while (bytes > BYTES_LEAST && bytes * workers > BYTES_ALL)
        bytes /= 2;
    return bytes;
}

/* The ring from a worker to another one; NULL without memory. */
static struct sl_packet_ring *ring_to(const struct sl_worker *w, unsigned other)
{
    struct sl_packet_ring **place = &w->workers->threads[other].from[w->number], *ring = *place;   /* this thread alone sets it */
    if (!ring && (ring = sl_packet_ring_open())) {
        ring->room_least = bytes_of_ring(w->workers->count);
        __atomic_store_n(place, ring, __ATOMIC_RELEASE);
    }
    return ring;
}

static struct sl_packet_ring *ring_from(const struct sl_worker *w, unsigned other)
{
    return __atomic_load_n(&w->from[other], __ATOMIC_ACQUIRE);
}

/* Keeps the packets that are the worker's own, and passes the others on. Returns the number of the former. */
static uint32_t hand_over(struct sl_worker *w, struct sl_frame *frames, uint32_t count)
{
    struct sl_workers *workers = w->workers;
    unsigned chosen[SL_CHOSEN_TOGETHER];
    uint32_t own = 0, handed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i % SL_CHOSEN_TOGETHER == 0)
            sl_workers_choose(workers, frames + i, count - i, chosen);
        const unsigned other = chosen[i % SL_CHOSEN_TOGETHER];
        bool failed = false;
        if (other == w->number) {
            frames[own++] = frames[i];
            continue;
        }
        struct sl_packet_ring *ring = ring_to(w, other);
        if (ring && sl_ring_has_entry(ring) && sl_ring_has_bytes(ring, frames[i].captured, &failed)) {
            sl_ring_put(ring, SL_RING_PACKET, &frames[i], true);
            handed++;
        } else {
            __atomic_add_fetch(&workers->dropped, 1, __ATOMIC_RELAXED);
            __atomic_add_fetch(&workers->dropped_bytes, frames[i].length, __ATOMIC_RELAXED);
        }
    }
    if (!handed)
        return own;
    __atomic_add_fetch(&workers->handed_over, handed, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_packet_ring *ring = i == w->number ? NULL : workers->threads[i].from[w->number];
        if (ring && ring->handed != ring->written)
            sl_ring_publish(ring);
    }
    return own;
}

/* Gives packets numbers that those of no other worker have, as functions take two packets with the same one for one packet. */
static void renumber(const struct sl_worker *w, struct sl_frame *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        frames[i].number = (frames[i].number - 1) * w->workers->count + w->number + 1;
}

/* Copies for the trial of a new version of a function. */
static void copy_for_trial(struct sl_workers *workers, const struct sl_frame *frames, uint32_t count)
{
    int trial = workers->reader ? __atomic_load_n(&workers->reader->trial, __ATOMIC_ACQUIRE) : 0;
    uint64_t left_out = trial ? sl_trial_copy(trial, frames, count) : 0;
    if (left_out)
        __atomic_add_fetch(&workers->reader->trial_left_out, left_out, __ATOMIC_RELAXED);
}

static void process(struct sl_worker *w, const struct sl_frame *frames, uint32_t count)
{
    if (count) {
        sl_drive_burst(&w->drive, frames, count);
        sl_drive_flush(&w->drive);
    }
    w->workers->by_thread[w->number] += count;
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
        renumber(w, frames, (uint32_t)got);
        copy_for_trial(workers, frames, (uint32_t)got);
        const bool keeps = workers->none_hands_over || (w->number && !workers->all_hand_over);
        uint32_t own = keeps ? (uint32_t)got : hand_over(w, frames, (uint32_t)got);
        process(w, frames, own);
        sl_busy_end(busy, begin, own);
        sl_worker_look_for_failure(w);
    }
    sl_source_release(w->source);
    return got > 0;
}

/* Processes packets that others have handed over, at most a burst: those of the ring with the earliest one, up to the time of
 * the earliest in another ring. False if there was none. */
static bool serve(struct sl_worker *w)
{
    struct sl_packet_ring *first = NULL;
    uint64_t earliest = UINT64_MAX, next = UINT64_MAX;
    for (uint32_t i = 0; i < w->workers->count; i++) {
        struct sl_packet_ring *ring = ring_from(w, i);
        if (!ring || !sl_ring_has_run(ring))
            continue;
        uint64_t time = ring->common->frames[ring->common->taken % SL_RING_ENTRIES].time;
        next = time < earliest ? earliest : time < next ? time : next;
        if (time < earliest || !first) {
            earliest = time;
            first = ring;
        }
    }
    if (!first)
        return false;
    struct sl_busy *busy = w->workers->busy ? &w->workers->busy[w->number] : NULL;
    uint64_t begin = sl_busy_begin(busy);
    struct sl_frame *frames;
    enum sl_ring_kind kind;   /* packets only */
    uint32_t most = sl_ring_run(first, BURST, &frames, &kind), count = 1;
    while (count < most && frames[count].time <= next)
        count++;
    process(w, frames, count);
    sl_ring_take(first, count);
    sl_busy_end(busy, begin, count);
    sl_worker_look_for_failure(w);
    return true;
}

bool sl_worker_open_rings(struct sl_worker *w)
{
    w->from = calloc(w->workers->count, sizeof(struct sl_packet_ring *));
    return w->from != NULL;
}

void sl_worker_close_rings(struct sl_worker *w)
{
    for (uint32_t i = 0; w->from && i < w->workers->count; i++)
        sl_packet_ring_close(w->from[i]);
    free(w->from);
    w->from = NULL;
}

void *sl_worker_receives(void *of)
{
    struct sl_worker_thread *thread = of;
    struct sl_worker *w = &thread->workers->threads[thread->number];
    uint64_t ending = 0, wait = WAIT_LEAST;
    sl_crash_enter();
    sl_crash_busy(w);
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
        /* before the look at the rings: what they have got by then is processed before the box ends */
        bool ends = w->drained && sl_workers_drained(w->workers), handed = serve(w);
        bool received = !w->drained && !w->source_failed && receive(w);
        if (stopping && !w->drained && (w->source_failed || !sl_drains(sl_worker_now(), received, &ending))) {
            __atomic_store_n(&w->drained, 1, __ATOMIC_RELEASE);
            /* what has expired by now ends so, and not by the end of the input */
            sl_drive_tick(&w->drive, sl_source_clock(w->source));
        }
        if (handed || received) {
            wait = WAIT_LEAST;
            continue;
        }
        if (ends) {
            sl_worker_end(w, false);
            continue;
        }
        sl_drive_tick(&w->drive, clock);
        sl_drive_flush(&w->drive);
        sl_source_wait(w->source, wait);
        wait = 2 * wait < WAIT_MOST ? 2 * wait : WAIT_MOST;
    }
    return sl_worker_ended(thread);
}
