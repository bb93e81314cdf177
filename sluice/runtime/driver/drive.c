#define _GNU_SOURCE
#include "driver/drive.h"
#include "function/checksum_fix.h"

#include "driver/busy.h"
#include "driver/drain.h"
#include "driver/trial.h"
#include "driver/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    READ = 256,                 /* packets per call of process: several bursts, so that the box can prefetch the next */
    TOGETHER = 64,              /* packets per call of send */
    PROGRESS_BYTES = 8 << 20,   /* bytes of a file between two calls of progress */
    PROGRESS_PACKETS = 1024,    /* packets between two queries of the position */
    FINISH_SLOTS = 1 << 16,     /* table slots that one finish step examines */
};

static const uint64_t progress_nanoseconds = 100 * 1000 * 1000;
static const uint64_t wait_most = 20 * 1000 * 1000;   /* nanoseconds: maximum delay of a stop or of progress */
static const uint64_t never = UINT64_MAX;

struct sl_leaving {
    uint32_t count;
    struct sl_frame frames[TOGETHER];
};

/* --- transmitting --- */

static void send_port(struct sl_drive *drive, uint32_t port)
{
    struct sl_leaving *leaving = &drive->leaving[port];
    if (leaving->count)
        sl_source_send(drive->ports[port], leaving->frames, leaving->count);
    if (leaving->count && drive->copy)   /* afterwards, as a file may be slower than the wire */
        sl_source_send(drive->copy, leaving->frames, leaving->count);
    leaving->count = 0;
}

static void leave(struct sl_drive *drive, uint32_t port, const struct sl_frame *frame)
{
    if (port >= drive->port_count || !drive->ports[port]) {
        drive->no_port++;
        return;
    }
    struct sl_leaving *leaving = &drive->leaving[port];
    leaving->frames[leaving->count++] = *frame;
    if (leaving->count == TOGETHER)
        send_port(drive, port);
}

/* The output port for packets that were received at `port`. */
static uint32_t peer_of(const struct sl_drive *drive, uint32_t port)
{
    if (!drive->peer)
        return 0;
    return port < drive->port_count ? drive->peer[port] : UINT32_MAX;
}

/* Completes the checksum of a packet, if its sender left that to a card. Its bytes are in the ring of an interface, or
 * copies of the box. False, and counted, if it is unknown. */
static bool complete(struct sl_drive *drive, struct sl_frame *frame)
{
    if (!(frame->flags & SL_FRAME_CHECKSUM_PARTIAL))
        return true;
    if (!sl_checksum_complete((uint8_t *)(uintptr_t)frame->at, frame)) {
        drive->no_checksum++;
        return false;
    }
    frame->flags &= (uint8_t)~SL_FRAME_CHECKSUM_PARTIAL;
    return true;
}

/* Transmits the packets that functions sent or released and that precede packet `before` of the burst. */
static void leave_sent(struct sl_drive *drive, const struct sl_sent **sent, uint32_t *left, uint64_t before)
{
    for (; *left && (*sent)->after <= before; ++*sent, --*left) {
        struct sl_frame frame = (*sent)->frame;
        if (complete(drive, &frame))
            leave(drive, (*sent)->back && drive->peer ? frame.port : peer_of(drive, frame.port), &frame);
    }
}

static void leave_burst(struct sl_drive *drive, const struct sl_frame *frames, size_t count, const struct sl_verdict *verdicts)
{
    const struct sl_sent *sent;
    uint32_t left = sl_box_sent(drive->box, &sent);
    for (size_t i = 0; i < count; i++) {
        const struct sl_verdict *verdict = &verdicts[i];
        leave_sent(drive, &sent, &left, i);
        if (verdict->action != SL_PASS)
            continue;
        struct sl_frame frame = frames[i];
        if (verdict->flags & SL_VERDICT_CHANGED) {
            frame.length = frame.length - frame.captured + verdict->length;
            frame.captured = verdict->length;
            frame.at = verdict->at;
        }
        if (complete(drive, &frame))
            leave(drive, verdict->flags & SL_VERDICT_REDIRECTED ? verdict->port : peer_of(drive, frame.port), &frame);
    }
    leave_sent(drive, &sent, &left, UINT64_MAX);
    for (uint32_t port = 0; port < drive->port_count; port++)
        send_port(drive, port);   /* now: the bytes are valid only for this burst */
}

/* Transmits packets that the box does not process. */
static void leave_unseen(struct sl_drive *drive, const struct sl_frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sl_frame frame = frames[i];
        if (complete(drive, &frame))
            leave(drive, peer_of(drive, frame.port), &frame);
    }
    for (uint32_t port = 0; port < drive->port_count; port++)
        send_port(drive, port);
}

static bool begin_leaving(struct sl_drive *drive)
{
    if (!drive->leaving)
        drive->leaving = calloc(drive->port_count, sizeof *drive->leaving);
    return drive->leaving != NULL;
}

/* Returns false if a capture file cannot be written to; an interface may take packets again. */
static bool flush(struct sl_drive *drive)
{
    bool complete = true;
    for (uint32_t port = 0; drive->ports && port < drive->port_count; port++)
        if (drive->ports[port] && sl_source_flush(drive->ports[port]))
            complete = complete && drive->peer;
    return (!drive->copy || sl_source_flush(drive->copy) == 0) && complete;
}

/* --- packets that the box cannot process --- */

static bool is_faulty(const struct sl_drive *drive)
{
    return drive->peer && !drive->workers && (drive->fault || sl_box_failure(drive->box)[0]);
}

/* Whether a burst is not processed; then it was transmitted or dropped, and counted. */
static bool is_unseen(struct sl_drive *drive, const struct sl_frame *frames, size_t count)
{
    bool faulty = drive->on_fault != SL_DRIVE_STOP && is_faulty(drive);
    if (!faulty && !(drive->on_overload == SL_DRIVE_OPEN && drive->in && sl_source_is_congested(drive->in)))
        return false;
    *(faulty ? &drive->unseen_fault : &drive->unseen_overload) += count;
    if (drive->tick && begin_leaving(drive)) {   /* packets that functions hold wait no longer than they may */
        drive->tick(drive->box, frames[0].time);
        leave_burst(drive, NULL, 0, NULL);
    }
    if (!faulty || drive->on_fault == SL_DRIVE_OPEN)
        leave_unseen(drive, frames, count);
    return true;
}

/* --- receiving --- */

void sl_drive_burst(struct sl_drive *drive, const struct sl_frame *frames, size_t count)
{
    if (drive->trial)
        drive->trial_left_out += sl_trial_copy(drive->trial, frames, count);
    if (drive->workers) {
        if (!sl_workers_start(drive->workers, drive))
            sl_workers_burst(drive->workers, frames, count);
        return;
    }
    if (!drive->ports || !begin_leaving(drive)) {
        drive->no_port += drive->ports ? count : 0;   /* out of memory for the send buffers */
        drive->process(drive->box, frames, count, NULL);
        return;
    }
    if (drive->peer && is_unseen(drive, frames, count))
        return;
    if (drive->leaves_out && drive->in)
        sl_box_overloaded(drive->box, sl_source_is_congested(drive->in));
    struct sl_verdict verdicts[READ];
    for (size_t first = 0; first < count; first += READ) {
        size_t together = count - first < READ ? count - first : READ;
        drive->process(drive->box, frames + first, together, verdicts);
        if (drive->on_fault != SL_DRIVE_OPEN && is_faulty(drive))
            drive->unseen_fault += together;   /* functions have not decided on all of them */
        else
            leave_burst(drive, frames + first, together, verdicts);
    }
}

uint64_t sl_drive_tick(struct sl_drive *drive, uint64_t now)
{
    uint64_t due = drive->tick && !drive->workers ? drive->tick(drive->box, now) : never;
    if (drive->ports && begin_leaving(drive))
        leave_burst(drive, NULL, 0, NULL);
    return due;
}

void sl_drive_flush(struct sl_drive *drive) { flush(drive); }

static void hand_secrets(void *user, uint32_t kind, sl_bytes secrets)
{
    const struct sl_drive *drive = user;
    if (drive->workers)
        sl_workers_secrets(drive->workers, kind, secrets);
    else if (drive->box)
        sl_box_secrets(drive->box, kind, secrets);
}

static uint64_t monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct pace {
    /* `packets`: the count at which the position is queried next. `bytes`, `time`: when progress is called next. */
    uint64_t packets, bytes, time;
};

/* Calls progress if it is due. Returns true if progress stops the run. */
static bool report(struct sl_drive *drive, struct pace *pace)
{
    uint64_t now = monotonic(), position, size;
    if (!drive->progress || (now < pace->time && drive->packets < pace->packets))
        return false;
    pace->packets = drive->packets + PROGRESS_PACKETS;   /* with 1000 files, a query takes 1000 calls */
    if (drive->workers && drive->workers->sources)   /* which their threads use */
        position = size = 0;
    else
        sl_source_progress(drive->in, &position, &size);
    if (now < pace->time && position < pace->bytes)
        return false;
    pace->bytes = position + PROGRESS_BYTES;
    pace->time = now + progress_nanoseconds;
    return drive->progress(drive->user, position, size, drive->packets) != 0;
}

/* No packet is available: advances time, transmits what functions sent, and flushes output before waiting. */
static void idle(struct sl_drive *drive, uint64_t clock, bool *buffered)
{
    uint64_t due = sl_drive_tick(drive, clock), wait = wait_most;
    if (*buffered) {
        flush(drive);
        fflush(NULL);   /* make rows of functions visible to readers while the wire is idle */
        *buffered = drive->workers != NULL;   /* workers may still write some */
    }
    if (clock && due != never)
        wait = due <= clock ? 0 : due - clock < wait ? due - clock : wait;
    if (wait)
        sl_source_wait(drive->in, wait);
}

/* While workers receive packets themselves: progress, and the end of the run. */
static enum sl_driven look_at_workers(struct sl_drive *drive, struct pace *pace)
{
    struct timespec pause = {0, (long)wait_most};
    bool stopped = false, failed = false;
    while (!stopped && !failed && !__atomic_load_n(&drive->stop, __ATOMIC_RELAXED)) {
        nanosleep(&pause, NULL);
        uint64_t before = drive->packets;
        drive->packets = sl_workers_received(drive->workers);
        if (drive->packets == before)
            fflush(NULL);   /* as idle() */
        stopped = report(drive, pace) || sl_workers_failed(drive->workers);
        failed = sl_workers_failed_source(drive->workers) != NULL;
    }
    /* before the sources are asked for their counters */
    while (!stopped && !sl_workers_drain(drive->workers)) {
        nanosleep(&pause, NULL);
        stopped = report(drive, pace);
    }
    return failed ? SL_DRIVEN_FAULT : SL_DRIVEN_STOPPED;
}

enum sl_driven sl_drive(struct sl_drive *drive)
{
    struct sl_frame frames[READ];
    struct pace pace = {PROGRESS_PACKETS, PROGRESS_BYTES, monotonic() + progress_nanoseconds};
    bool stopped = false, buffered = true;
    uint64_t stopping = 0;
    int32_t got = 1;
    if (drive->workers)
        drive->workers->reader = drive;
    if (drive->workers && sl_workers_start(drive->workers, drive))
        return SL_DRIVEN_STOPPED;
    if (drive->workers && drive->workers->sources)
        return look_at_workers(drive, &pace);
    sl_source_on_secrets(drive->in, hand_secrets, drive);
    while (!stopped && (!__atomic_load_n(&drive->stop, __ATOMIC_RELAXED) || sl_drains(monotonic(), got > 0, &stopping))) {
        uint64_t clock = sl_source_clock(drive->in);   /* read first: packets that arrive later have later times */
        got = sl_source_receive(drive->in, frames, READ);
        if (got < 0)
            break;
        if (got) {
            uint64_t begin = sl_busy_begin(drive->busy);
            drive->packets += (uint32_t)got;
            sl_drive_burst(drive, frames, (size_t)got);
            sl_busy_end(drive->busy, begin, (uint32_t)got);
            buffered = true;
        }
        sl_source_release(drive->in);
        if (got && (clock || drive->peer))
            stopped = !flush(drive);   /* a file then has these packets, whatever happens to this process */
        if (drive->workers)
            sl_workers_time(drive->workers, clock);
        if (!got)
            idle(drive, clock, &buffered);
        stopped = stopped || report(drive, &pace) || (drive->workers && sl_workers_failed(drive->workers)) ||
                  (drive->on_fault == SL_DRIVE_STOP && is_faulty(drive));
    }
    sl_source_on_secrets(drive->in, NULL, NULL);
    flush(drive);
    return got == SL_SOURCE_END ? SL_DRIVEN_END : got == SL_SOURCE_FAULT ? SL_DRIVEN_FAULT : SL_DRIVEN_STOPPED;
}

void sl_drive_stop(struct sl_drive *drive)
{
    __atomic_store_n(&drive->stop, 1, __ATOMIC_RELAXED);
}

static void waiting(const struct sl_drive *drive)
{
    if (drive->progress)
        drive->progress(drive->user, 0, 0, drive->packets);
}

void sl_drive_finish(struct sl_drive *drive)
{
    bool more = true;
    if (drive->workers) {
        if (!sl_workers_start(drive->workers, drive))
            sl_workers_finish(drive->workers, waiting, drive);
        if (drive->workers->sources)
            drive->packets = sl_workers_received(drive->workers);
        return;
    }
    while (more) {
        more = drive->finish_step(drive->box, FINISH_SLOTS);
        if (drive->ports && begin_leaving(drive))
            leave_burst(drive, NULL, 0, NULL);
        if (more)
            waiting(drive);
    }
    flush(drive);
}

void sl_drive_close(struct sl_drive *drive)
{
    if (drive->workers)
        sl_workers_abandon(drive->workers);
    free(drive->leaving);
    drive->leaving = NULL;
}
