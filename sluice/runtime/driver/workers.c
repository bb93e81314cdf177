#define _GNU_SOURCE
#include "driver/workers.h"

#include "driver/crash.h"
#include "driver/worker.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum {
    READ_AHEAD = 8,          /* packets between the one whose headers are prefetched and the one that is passed */
    TIME_EVERY = 1024,       /* packets between two times that workers without packets are given the time */
    SPINS = 64,              /* looks at a full ring before the reader sleeps */
    SLEEP_LEAST = 20000,                         /* nanoseconds */
    SLEEP_FULL_MOST = 200000,                    /* of the reader in front of a full ring, which empties meanwhile */
    SLEEP_JOIN = 2000000,
};

static void sleep_for(uint64_t nanoseconds)
{
    struct timespec time = {0, (long)nanoseconds};
    nanosleep(&time, NULL);
}

/* --- the reader's thread --- */

int sl_workers_start(struct sl_workers *workers, const struct sl_drive *drive)
{
    if (workers->threads || workers->finished)
        return 0;
    workers->keeps = drive->in && sl_source_keeps(drive->in);
    workers->stopping = SL_RING_GOES_ON;
    struct sl_isolation *isolation = workers->isolation;
    if (!isolation || sl_isolation_begin(workers))
        workers->threads = calloc(workers->count, sizeof *workers->threads);
    uint32_t threads = workers->thread_count ? workers->thread_count : workers->count;
    workers->pool = calloc(threads, sizeof *workers->pool);
    bool homes = !workers->path || workers->homes.lines || sl_homes_open(&workers->homes);
    int result = workers->threads && workers->pool && homes ? 0 : ENOMEM;
    sigset_t all, before;
    sigfillset(&all);   /* signals are for the thread that receives packets */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sl_crash_watch(workers);
    for (uint32_t i = 0; i < workers->count && !result; i++) {
        struct sl_worker *w = &workers->threads[i];
        *w = (struct sl_worker){.workers = workers, .box = workers->boxes[i], .number = i,
                                .state = isolation ? isolation->states[i] : NULL};
        bool memory = workers->sources ? sl_worker_open_rings(w)
                                       : (w->ring = isolation ? sl_isolation_ring() : sl_packet_ring_open()) != NULL;
        w->drive = (struct sl_drive){.process = drive->process, .tick = drive->tick, .finish_step = drive->finish_step,
                                     .box = w->box};
        if (workers->ports) {
            w->drive.ports = workers->ports[i % threads];
            w->drive.port_count = drive->port_count;
            w->drive.peer = drive->peer;
            w->drive.on_fault = drive->on_fault;
        }
        w->owner = w->wanted = i % threads;
        w->source = workers->sources ? workers->sources[i] : NULL;
        result = !memory ? ENOMEM : isolation ? sl_isolation_start(w, sl_worker_process) : 0;
        w->runs = !result;
    }
    for (uint32_t i = 0; i < threads && !isolation && !result; i++) {
        struct sl_worker_thread *thread = &workers->pool[i];
        *thread = (struct sl_worker_thread){.workers = workers, .number = i};
        void *(*run)(void *of) = workers->sources ? sl_worker_receives : sl_worker_thread;
        result = pthread_create(&thread->thread, NULL, run, thread);
        thread->runs = !result;
    }
    for (uint32_t i = 0; i < workers->count && result && workers->threads && workers->pool; i++) {
        struct sl_worker *w = &workers->threads[i];   /* those of threads that do not run end in the first one */
        w->wanted = workers->pool[w->wanted].runs ? w->wanted : 0;
        __atomic_store_n(&w->owner, w->wanted, __ATOMIC_RELEASE);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!result)
        return 0;
    snprintf(workers->message, sizeof workers->message, "%u workers cannot be started: %s", threads, strerror(result));
    sl_workers_abandon(workers);
    return -1;
}

static uint32_t pool_size(const struct sl_workers *workers)
{
    return workers->thread_count ? workers->thread_count : workers->count;
}

const char *sl_workers_pause(struct sl_workers *workers)
{
    if (workers->isolation)
        return "isolated workers cannot be paused, and their functions not be replaced: end the run and start it again";
    for (uint32_t i = 0; i < workers->count && workers->threads; i++) {
        struct sl_worker *w = &workers->threads[i];
        if (!workers->sources)   /* else a worker writes to the rings */
            sl_ring_publish(w->ring);
        while (__atomic_load_n(&w->owner, __ATOMIC_ACQUIRE) != w->wanted)   /* no box is between two threads */
            sleep_for(SLEEP_LEAST);
    }
    __atomic_store_n(&workers->pauses, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < pool_size(workers) && workers->threads; i++)   /* near the end of the run, some have ended */
        while (!__atomic_load_n(&workers->pool[i].paused, __ATOMIC_ACQUIRE) &&
               !__atomic_load_n(&workers->pool[i].ended, __ATOMIC_ACQUIRE))
            sleep_for(SLEEP_LEAST);
    return NULL;
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
    for (uint32_t i = 0; i < pool_size(workers) && workers->threads; i++)   /* the next pause finds none that still waits */
        while (__atomic_load_n(&workers->pool[i].paused, __ATOMIC_ACQUIRE))
            sleep_for(SLEEP_LEAST);
}

static void balance(struct sl_workers *workers)
{
    if (workers->thread_count && workers->threads)
        sl_workers_balance(workers);
}

static void look_for_crashes(struct sl_workers *workers)
{
    if (workers->isolation && workers->threads)
        sl_isolation_look(workers, sl_worker_process);
}

/* Waits until the worker has given something back. */
static void wait_for(struct sl_workers *workers, unsigned looks)
{
    if (looks < SPINS)
        return;
    look_for_crashes(workers);
    balance(workers);
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

void sl_workers_choose(struct sl_workers *workers, const struct sl_frame *frames, size_t count, unsigned *chosen)
{
    struct sl_path_keys keys[SL_CHOSEN_TOGETHER];
    count = count < SL_CHOSEN_TOGETHER ? count : SL_CHOSEN_TOGETHER;
    for (size_t i = 0; i < count; i++) {
        if (i + READ_AHEAD < count) {   /* the choice of a worker reads the headers, and nothing has read them before */
            __builtin_prefetch(frames[i + READ_AHEAD].at);
            __builtin_prefetch(frames[i + READ_AHEAD].at + SL_RING_LINE_BYTES);
        }
        chosen[i] = workers->worker(&frames[i], workers->count, workers->seed);
        if (workers->path) {
            workers->path(&frames[i], workers->seed, &keys[i]);
            sl_homes_prefetch(&workers->homes, &keys[i]);
        }
    }
    if (!workers->path)
        return;
    while (workers->all_hand_over && __atomic_exchange_n(&workers->choosing, 1, __ATOMIC_ACQUIRE))
        sched_yield();
    for (size_t i = 0; i < count; i++)
        chosen[i] = sl_homes_choose(&workers->homes, &keys[i], chosen[i]);
    __atomic_store_n(&workers->choosing, 0, __ATOMIC_RELEASE);
}

/* A box's time is the largest of all packets so far, also of those that other boxes got. Where packets are in order, that
 * is the time of the packet itself. */
static void put_packet(struct sl_workers *workers, const struct sl_frame *frame, unsigned chosen)
{
    struct sl_worker *w = &workers->threads[chosen];
    if (workers->only && chosen != workers->only - 1) {
        workers->clock = frame->time > workers->clock ? frame->time : workers->clock;
        return;
    }
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
    unsigned chosen[SL_CHOSEN_TOGETHER];
    for (size_t i = 0; i < count && workers->threads; i++) {
        if (i % SL_CHOSEN_TOGETHER == 0)
            sl_workers_choose(workers, frames + i, count - i, chosen);
        put_packet(workers, &frames[i], chosen[i % SL_CHOSEN_TOGETHER]);
        /* by number of packets: the same capture gives the same times */
        if (++workers->passed % TIME_EVERY == 0)
            for (uint32_t k = 0; k < workers->count; k++)
                put_time(workers, &workers->threads[k]);
    }
    for (uint32_t i = 0; i < workers->count && workers->threads; i++)
        sl_ring_publish(workers->threads[i].ring);
    balance(workers);
}

void sl_workers_time(struct sl_workers *workers, uint64_t clock)
{
    look_for_crashes(workers);
    for (uint32_t i = 0; clock && i < workers->count; i++)
        __atomic_store_n(&workers->threads[i].ring->common->clock, clock, __ATOMIC_RELEASE);
}

void sl_workers_secrets(struct sl_workers *workers, uint32_t kind, sl_bytes secrets)
{
    struct sl_frame frame = {.at = secrets.at, .captured = secrets.captured, .length = secrets.length, .number = kind};
    for (uint32_t i = 0; i < workers->count && workers->threads; i++) {
        struct sl_worker *w = &workers->threads[i];
        if (!workers->sources)
            put(workers, w, SL_RING_SECRETS, &frame, true, true);
        else if (!w->done)   /* at once: a ring that is full does not empty while its worker is paused */
            sl_box_secrets(w->box, kind, secrets);
    }
}

uint64_t sl_workers_received(const struct sl_workers *workers)
{
    uint64_t received = workers->received;
    for (uint32_t i = 0; workers->threads && i < workers->count; i++)
        received += __atomic_load_n(&workers->threads[i].received, __ATOMIC_RELAXED);
    return received;
}

struct sl_source *sl_workers_failed_source(const struct sl_workers *workers)
{
    for (uint32_t i = 0; workers->threads && i < workers->count; i++)
        if (__atomic_load_n(&workers->threads[i].source_failed, __ATOMIC_ACQUIRE))
            return workers->sources[i];
    return NULL;
}

bool sl_workers_drained(const struct sl_workers *workers)
{
    for (uint32_t i = 0; workers->threads && i < workers->count; i++)
        if (!__atomic_load_n(&workers->threads[i].drained, __ATOMIC_ACQUIRE))
            return false;
    return true;
}

bool sl_workers_drain(struct sl_workers *workers)
{
    __atomic_store_n(&workers->stopping, SL_RING_ENDED, __ATOMIC_RELEASE);
    return sl_workers_drained(workers);
}

bool sl_workers_failed(const struct sl_workers *workers)
{
    return __atomic_load_n(&workers->failed, __ATOMIC_ACQUIRE) || workers->memory_failed;
}

/* Ends the rings. */
static void end_rings(struct sl_workers *workers, bool abandoned)
{
    if (workers->sources) {   /* each worker ends when it has received all */
        __atomic_store_n(&workers->stopping, abandoned ? SL_RING_ABANDONED : SL_RING_ENDED, __ATOMIC_RELEASE);
        return;
    }
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        if (!w->runs)
            continue;
        if (!abandoned)
            put_time(workers, w);   /* what has expired by now ends so, and not by the end of the input */
        sl_ring_end(w->ring, abandoned ? SL_RING_ABANDONED : SL_RING_ENDED);
    }
}

static void join(struct sl_workers *workers)
{
    for (uint32_t i = 0; i < pool_size(workers); i++)
        if (workers->pool[i].runs)
            pthread_join(workers->pool[i].thread, NULL);
    sl_crash_unwatch();
    free(workers->pool);
    workers->pool = NULL;
    if (workers->isolation)
        sl_isolation_join(workers);
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        workers->no_port += w->drive.no_port;
        workers->no_checksum += w->drive.no_checksum;
        workers->unseen_fault += w->drive.unseen_fault;
        workers->received += w->received;
        if (workers->isolation)
            continue;   /* what the driver has allocated was in its process */
        sl_packet_ring_close(w->ring);
        sl_worker_close_rings(w);
        sl_drive_close(&w->drive);
    }
    free(workers->threads);
    workers->threads = NULL;
    sl_homes_close(&workers->homes);
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
        balance(workers);
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
    if (!workers->threads) {
        sl_homes_close(&workers->homes);
        return;
    }
    end_rings(workers, true);
    join(workers);
}
