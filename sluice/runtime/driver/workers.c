#define _GNU_SOURCE
#include "driver/workers.h"

#include "driver/busy.h"
#include "driver/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum {
    BURST = 256,             /* packets that a box gets at once */
    READ_AHEAD = 8,          /* packets between the one whose headers are prefetched and the one that is passed */
    TIME_EVERY = 1024,       /* packets between two times that workers without packets are given the time */
    SPINS = 64,              /* looks at a ring before the thread sleeps */
    SLEEP_LEAST = 20000, SLEEP_MOST = 1000000,   /* nanoseconds, of a worker without packets */
    SLEEP_FULL_MOST = 200000,                    /* of the reader in front of a full ring, which empties meanwhile */
    SLEEP_JOIN = 2000000,
};

static void sleep_for(uint64_t nanoseconds)
{
    struct timespec time = {0, (long)nanoseconds};
    nanosleep(&time, NULL);
}

/* --- the worker's thread --- */

/* A function failed: the reader stops, and so the others end. */
static void look_for_failure(struct sl_worker *w)
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

/* Nothing is in the ring: time goes on by the clock, if the source has one. */
static void worker_idle(struct sl_worker *w, unsigned looks, uint64_t clock)
{
    if (looks < SPINS)
        return;
    if (clock && w->state)
        sl_isolation_run(w, 0, false);
    if (clock)
        sl_drive_tick(&w->drive, clock);
    if (clock && w->state)
        sl_isolation_publish(w, 0);
    uint64_t sleep = (uint64_t)SLEEP_LEAST << (looks - SPINS < 6 ? looks - SPINS : 6);
    sleep_for(sleep < SLEEP_MOST ? sleep : SLEEP_MOST);
}

/* Waits until the reader resumes. */
static void pause_worker(struct sl_worker *w)
{
    __atomic_store_n(&w->paused, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&w->workers->pauses, __ATOMIC_ACQUIRE))
        sleep_for(SLEEP_LEAST);
    __atomic_store_n(&w->paused, 0, __ATOMIC_RELEASE);
}

static void *worker_main(void *of)
{
    struct sl_worker *w = of;
    unsigned looks = 0;
    for (;;) {
        struct sl_frame *frames;
        enum sl_ring_kind kind;
        /* both before the look at the ring: all packets that they are about have been published then */
        uint32_t ended = __atomic_load_n(&w->ring->ended, __ATOMIC_ACQUIRE);
        uint32_t pauses = __atomic_load_n(&w->workers->pauses, __ATOMIC_ACQUIRE);
        uint64_t clock = __atomic_load_n(&w->ring->clock, __ATOMIC_ACQUIRE);
        uint32_t count = sl_ring_run(w->ring, BURST, &frames, &kind);
        if (count) {
            struct sl_busy *busy = w->workers->busy ? &w->workers->busy[w->number] : NULL;
            uint64_t begin = sl_busy_begin(busy);
            do_run(w, frames, count, kind);
            sl_busy_end(busy, begin, kind == SL_RING_PACKET ? count : 0);
            sl_ring_take(w->ring, count);
            look_for_failure(w);
            looks = 0;
        } else if (ended) {
            break;
        } else if (pauses) {
            pause_worker(w);
        } else {
            worker_idle(w, looks++, clock);
        }
    }
    if (!w->abandoned) {
        if (w->workers->group)
            sl_group_ends(w->workers->group, w->number);
        if (w->state)
            sl_isolation_ends(w);
        sl_drive_finish(&w->drive);
    }
    if (w->state)
        sl_isolation_publish(w, 0);
    __atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* --- the reader's thread --- */

int sl_workers_start(struct sl_workers *workers, const struct sl_drive *drive)
{
    if (workers->threads || workers->finished)
        return 0;
    workers->keeps = drive->in && sl_source_keeps(drive->in);
    struct sl_isolation *isolation = workers->isolation;
    if (!isolation)
        workers->threads = calloc(workers->count, sizeof *workers->threads);
    else if (!sl_isolation_begin(workers))
        workers->threads = NULL;
    int result = workers->threads ? 0 : ENOMEM;
    sigset_t all, before;
    sigfillset(&all);   /* signals are for the thread that receives packets */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < workers->count && !result; i++) {
        struct sl_worker *w = &workers->threads[i];
        *w = (struct sl_worker){.workers = workers, .ring = isolation ? sl_isolation_ring() : sl_packet_ring_open(),
                                .box = workers->boxes[i], .number = i, .state = isolation ? isolation->states[i] : NULL};
        w->drive = (struct sl_drive){.process = drive->process, .tick = drive->tick, .finish_step = drive->finish_step,
                                     .box = w->box};
        if (workers->ports) {
            w->drive.ports = workers->ports[i];
            w->drive.port_count = drive->port_count;
            w->drive.peer = drive->peer;
            w->drive.on_fault = drive->on_fault;
        }
        if (!w->ring)
            result = ENOMEM;
        else
            result = isolation ? sl_isolation_start(w, worker_main) : pthread_create(&w->thread, NULL, worker_main, w);
        w->runs = !result;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!result)
        return 0;
    snprintf(workers->message, sizeof workers->message, "%u workers cannot be started: %s", workers->count, strerror(result));
    sl_workers_abandon(workers);
    return -1;
}

void sl_workers_pause(struct sl_workers *workers)
{
    for (uint32_t i = 0; i < workers->count && workers->threads; i++)
        sl_ring_publish(workers->threads[i].ring);
    __atomic_store_n(&workers->pauses, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < workers->count && workers->threads; i++)
        while (!__atomic_load_n(&workers->threads[i].paused, __ATOMIC_ACQUIRE) &&
               !__atomic_load_n(&workers->threads[i].done, __ATOMIC_ACQUIRE))
            sleep_for(SLEEP_LEAST);
}

void sl_workers_resume(struct sl_workers *workers, const struct sl_drive *drive)
{
    for (uint32_t i = 0; i < workers->count && workers->threads; i++) {
        struct sl_drive *own = &workers->threads[i].drive;
        own->process = drive->process;
        own->tick = drive->tick;
        own->finish_step = drive->finish_step;
    }
    __atomic_store_n(&workers->pauses, 0, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < workers->count && workers->threads; i++)   /* the next pause finds none that still waits */
        while (__atomic_load_n(&workers->threads[i].paused, __ATOMIC_ACQUIRE))
            sleep_for(SLEEP_LEAST);
}

static void look_for_crashes(struct sl_workers *workers)
{
    if (workers->isolation && workers->threads)
        sl_isolation_look(workers, worker_main);
}

/* Waits until the worker has given something back. */
static void wait_for(struct sl_workers *workers, unsigned looks)
{
    if (looks < SPINS)
        return;
    look_for_crashes(workers);
    for (uint32_t i = 0; i < workers->count && looks == SPINS; i++)
        sl_ring_publish(workers->threads[i].ring);
    uint64_t sleep = (uint64_t)SLEEP_LEAST << (looks - SPINS < 4 ? looks - SPINS : 4);
    sleep_for(sleep < SLEEP_FULL_MOST ? sleep : SLEEP_FULL_MOST);
}

/* Adds an entry to a ring. False if it has no room, or never will. waits: for room. */
static bool put(struct sl_workers *workers, struct sl_worker *w, enum sl_ring_kind kind, const struct sl_frame *frame,
                bool copies, bool waits)
{
    if (workers->isolation && copies && frame->captured > SL_RING_SHARED_BYTES)
        return false;   /* never */
    for (unsigned looks = 0;; looks++) {
        bool failed = false;
        if (sl_ring_has_entry(w->ring) && (!copies || sl_ring_has_bytes(w->ring, frame->captured, &failed))) {
            sl_ring_put(w->ring, kind, frame, copies);
            return true;
        }
        workers->memory_failed = workers->memory_failed || failed;
        if (failed || !waits)
            return false;
        wait_for(workers, looks);
    }
}

static void put_time(struct sl_workers *workers, struct sl_worker *w)
{
    if (w->time < workers->clock && put(workers, w, SL_RING_TIME, &(struct sl_frame){.time = workers->clock}, false,
                                        !workers->drops))
        w->time = workers->clock;
}

/* A box's time is the largest of all packets so far, also of those that other boxes got. Where packets are in order, that
 * is the time of the packet itself. */
static void put_packet(struct sl_workers *workers, const struct sl_frame *frame)
{
    struct sl_worker *w = &workers->threads[workers->worker(frame, workers->count, workers->seed)];
    if (frame->time < workers->clock)
        put_time(workers, w);
    else
        workers->clock = frame->time;
    if (put(workers, w, SL_RING_PACKET, frame, !workers->keeps, !workers->drops)) {
        w->time = frame->time > w->time ? frame->time : w->time;
    } else if (workers->isolation && !workers->drops) {
        workers->isolation->packets_lost++;
    } else {
        workers->dropped++;
        workers->dropped_bytes += frame->length;
    }
}

void sl_workers_burst(struct sl_workers *workers, const struct sl_frame *frames, size_t count)
{
    for (size_t i = 0; i < count && workers->threads; i++) {
        if (i + READ_AHEAD < count) {   /* the choice of a worker reads the headers, and nothing has read them before */
            __builtin_prefetch(frames[i + READ_AHEAD].at);
            __builtin_prefetch(frames[i + READ_AHEAD].at + SL_RING_LINE_BYTES);
        }
        put_packet(workers, &frames[i]);
        /* by number of packets: the same capture gives the same times */
        if (++workers->passed % TIME_EVERY == 0)
            for (uint32_t k = 0; k < workers->count; k++)
                put_time(workers, &workers->threads[k]);
    }
    for (uint32_t i = 0; i < workers->count && workers->threads; i++)
        sl_ring_publish(workers->threads[i].ring);
}

void sl_workers_time(struct sl_workers *workers, uint64_t clock)
{
    look_for_crashes(workers);
    for (uint32_t i = 0; clock && i < workers->count; i++)
        __atomic_store_n(&workers->threads[i].ring->clock, clock, __ATOMIC_RELEASE);
}

void sl_workers_secrets(struct sl_workers *workers, uint32_t kind, sl_bytes secrets)
{
    struct sl_frame frame = {.at = secrets.at, .captured = secrets.captured, .length = secrets.length, .number = kind};
    for (uint32_t i = 0; i < workers->count && workers->threads; i++)
        put(workers, &workers->threads[i], SL_RING_SECRETS, &frame, true, true);
}

bool sl_workers_failed(const struct sl_workers *workers)
{
    return __atomic_load_n(&workers->failed, __ATOMIC_ACQUIRE) || workers->memory_failed;
}

/* Ends the rings. */
static void end_rings(struct sl_workers *workers, bool abandoned)
{
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        if (!w->runs)
            continue;
        if (!abandoned)
            put_time(workers, w);   /* what has expired by now ends so, and not by the end of the input */
        sl_ring_publish(w->ring);
        w->abandoned = abandoned;
        __atomic_store_n(&w->ring->ended, 1, __ATOMIC_RELEASE);
    }
}

static void join(struct sl_workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        if (w->runs && !workers->isolation)
            pthread_join(w->thread, NULL);
        if (!workers->isolation)
            sl_packet_ring_close(w->ring);
        workers->no_port += w->drive.no_port;
        workers->no_checksum += w->drive.no_checksum;
        workers->unseen_fault += w->drive.unseen_fault;
        if (workers->isolation)
            continue;   /* what the driver has allocated was in its process */
        sl_drive_close(&w->drive);
    }
    if (workers->isolation)
        sl_isolation_join(workers);
    else
        free(workers->threads);
    workers->threads = NULL;
}

void sl_workers_finish(struct sl_workers *workers, void (*waiting)(const struct sl_drive *drive), const struct sl_drive *drive)
{
    if (!workers->threads)
        return;
    workers->finished = true;
    workers->drops = false;
    end_rings(workers, false);
    for (uint32_t i = 0; i < workers->count;) {
        if (__atomic_load_n(&workers->threads[i].done, __ATOMIC_ACQUIRE)) {
            i++;
            continue;
        }
        sleep_for(SLEEP_JOIN);
        look_for_crashes(workers);
        waiting(drive);
    }
    join(workers);
    for (uint32_t i = 0; i < workers->count && !workers->message[0]; i++)
        snprintf(workers->message, sizeof workers->message, "%s", sl_box_failure(workers->boxes[i]));
    if (workers->memory_failed && !workers->message[0])
        snprintf(workers->message, sizeof workers->message, "workers: no memory for the copy of a packet");
    char reason[SL_SOURCE_MESSAGE];
    if (workers->group && sl_group_write(workers->group, reason, sizeof reason) && !workers->message[0])
        memcpy(workers->message, reason, sizeof reason);
}

void sl_workers_abandon(struct sl_workers *workers)
{
    if (!workers->threads)
        return;
    end_rings(workers, true);
    join(workers);
}
