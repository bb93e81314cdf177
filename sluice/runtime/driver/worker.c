#define _GNU_SOURCE
#include "driver/worker.h"

#include "driver/busy.h"
#include "driver/crash.h"

#include <time.h>

enum {
    BURST = 256,             /* packets that a box gets at once */
    SPINS = 64,              /* looks at a ring before the thread sleeps */
    SLEEP_LEAST = 20000, SLEEP_MOST = 1000000,   /* nanoseconds, of a worker without packets */
};

static void sleep_for(uint64_t nanoseconds)
{
    struct timespec time = {0, (long)nanoseconds};
    nanosleep(&time, NULL);
}

uint64_t sl_worker_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sl_worker_look_for_failure(struct sl_worker *w)
{
    if (w->drive.on_fault == SL_DRIVE_STOP && sl_box_failure(w->box)[0])
        __atomic_store_n(&w->workers->failed, 1, __ATOMIC_RELEASE);
}

static void do_run(struct sl_worker *w, struct sl_frame *frames, uint32_t count, enum sl_ring_kind kind)
{
    if (kind == SL_RING_PACKET && w->state) {
        sl_isolation_run(w, count, true);
        for (uint32_t done = 0; done < count;) {
            uint32_t part = count - done < SL_ISOLATED_GROUP ? count - done : SL_ISOLATED_GROUP;
            sl_box_coming(w->box, count - done - part);
            sl_drive_burst(&w->drive, frames + done, part);
            sl_isolation_publish(w, done += part);
        }
        sl_drive_flush(&w->drive);
        return;
    }
    if (kind == SL_RING_PACKET) {
        sl_drive_burst(&w->drive, frames, count);
        sl_drive_flush(&w->drive);
        return;
    }
    if (w->state)
        sl_isolation_run(w, count, false);
    for (uint32_t i = 0; i < count; i++) {
        const struct sl_frame *frame = &frames[i];
        if (kind == SL_RING_SECRETS)
            sl_box_secrets(w->box, (uint32_t)frame->number, (sl_bytes){frame->at, frame->captured, frame->length});
        else
            sl_drive_tick(&w->drive, frame->time);
    }
    if (w->state)
        sl_isolation_publish(w, count);
}

/* What the thread or process has done: its number is that of the box where boxes do not move. */
static void count_run(struct sl_worker *w, uint32_t thread, uint64_t begin, uint32_t packets)
{
    struct sl_workers *workers = w->workers;
    workers->by_thread[thread] += packets;
    if (begin)
        __atomic_store_n(&w->spent, w->spent + (sl_worker_now() - begin), __ATOMIC_RELAXED);
}

void sl_worker_end(struct sl_worker *w, bool abandoned)
{
    sl_crash_busy(w);
    if (!abandoned) {
        if (w->workers->group)
            sl_group_ends(w->workers->group, w->number);
        if (w->state)
            sl_isolation_ends(w);
        sl_drive_finish(&w->drive);
    }
    if (w->state)
        sl_isolation_ended(w);
    __atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
}

bool sl_worker_serve(struct sl_worker *w, uint32_t thread)
{
    struct sl_frame *frames;
    enum sl_ring_kind kind;
    /* before the look at the ring: all packets that it is about have been published then */
    uint32_t ended = __atomic_load_n(&w->ring->common->ended, __ATOMIC_ACQUIRE);
    uint32_t count = sl_ring_run(w->ring, BURST, &frames, &kind);
    if (count) {
        struct sl_busy *busy = w->workers->busy ? &w->workers->busy[thread] : NULL;
        uint64_t begin = sl_busy_begin(busy), moves = w->workers->thread_count ? sl_worker_now() : 0;
        uint32_t packets = kind == SL_RING_PACKET ? count : 0;
        sl_crash_busy(w);
        do_run(w, frames, count, kind);
        sl_busy_end(busy, begin, packets);
        count_run(w, thread, moves, packets);
        sl_ring_take(w->ring, count);
        sl_worker_look_for_failure(w);
    } else if (ended && !w->done) {
        sl_worker_end(w, ended == SL_RING_ABANDONED);
    }
    return count;
}

/* Nothing is in the ring: time goes on by the clock, if the source has one. */
static void advance(struct sl_worker *w)
{
    uint64_t clock = __atomic_load_n(&w->ring->common->clock, __ATOMIC_ACQUIRE);
    if (!clock || w->done || sl_ring_has_run(w->ring))   /* packets are before the clock */
        return;
    if (w->state)
        sl_isolation_run(w, 0, false);
    sl_crash_busy(w);
    sl_drive_tick(&w->drive, clock);
    if (w->state)
        sl_isolation_publish(w, 0);
}

static void rest(unsigned looks)
{
    if (looks < SPINS)
        return;
    uint64_t sleep = (uint64_t)SLEEP_LEAST << (looks - SPINS < 6 ? looks - SPINS : 6);
    sleep_for(sleep < SLEEP_MOST ? sleep : SLEEP_MOST);
}

void *sl_worker_process(void *of)
{
    struct sl_worker *w = of;
    for (unsigned looks = 0; !w->done;) {
        if (sl_worker_serve(w, w->number)) {
            looks = 0;
            continue;
        }
        if (looks >= SPINS)
            advance(w);
        rest(looks++);
    }
    return NULL;
}

/* Whether the thread has the box. A box that the reader wants another thread to have is given to it, with the packets in
 * its ring: this thread has processed none of them in part. */
static bool has(const struct sl_worker_thread *thread, struct sl_worker *w)
{
    if (__atomic_load_n(&w->owner, __ATOMIC_ACQUIRE) != thread->number)
        return false;
    uint32_t wanted = __atomic_load_n(&w->wanted, __ATOMIC_ACQUIRE);
    if (wanted == thread->number)
        return true;
    if (thread->workers->ports)
        w->drive.ports = thread->workers->ports[wanted];
    __atomic_store_n(&w->owner, wanted, __ATOMIC_RELEASE);
    return false;
}

void sl_worker_pause(struct sl_worker_thread *thread)
{
    __atomic_store_n(&thread->paused, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&thread->workers->pauses, __ATOMIC_ACQUIRE))
        sleep_for(SLEEP_LEAST);
    __atomic_store_n(&thread->paused, 0, __ATOMIC_RELEASE);
}

void *sl_worker_ended(struct sl_worker_thread *thread)
{
    sl_crash_leave();
    __atomic_store_n(&thread->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

void *sl_worker_thread(void *of)
{
    struct sl_worker_thread *thread = of;
    struct sl_workers *workers = thread->workers;
    unsigned looks = 0;
    sl_crash_enter();
    for (;;) {
        /* before the look at the rings, as `ended` */
        uint32_t pauses = __atomic_load_n(&workers->pauses, __ATOMIC_ACQUIRE), done = 0;
        bool any = false;
        for (uint32_t i = 0; i < workers->count; i++) {
            struct sl_worker *w = &workers->threads[i];
            any = (has(thread, w) && sl_worker_serve(w, thread->number)) || any;
            done += __atomic_load_n(&w->done, __ATOMIC_ACQUIRE);
        }
        if (done == workers->count)
            return sl_worker_ended(thread);
        if (any) {
            looks = 0;
        } else if (pauses) {
            sl_worker_pause(thread);
        } else {
            for (uint32_t i = 0; i < workers->count && looks >= SPINS; i++)
                if (has(thread, &workers->threads[i]))
                    advance(&workers->threads[i]);
            rest(looks++);
        }
    }
}
