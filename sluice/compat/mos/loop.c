/* The loop that takes packets through the contexts of a run, in one thread.
 *
 * Each packet goes to the context that the stack's dispatch chooses. Where each context has a run of its own (run.c), each
 * run reads all packets and processes those of its context: no run waits for another one, and time is the same in all.
 * Packets of capture files come in the order of their times, and time is packet time: a context gets the same every time. */
#include "monitor.h"

#include "sluice_mos.h"

#include <poll.h>

enum {
    SAME_EACH_TIME = 0,      /* the seed that chooses contexts: a run gives the same each time */
    BURST = 256,             /* packets of an interface that are received at once */
    WAIT = 10,               /* milliseconds: how long timers and a stop may be delayed while no packet comes */
};

static _Thread_local struct mos_run *here;   /* the run of this thread */

struct mos_run *mos_run_here(void) { return here; }

/* --- packets --- */

static int device_of(const struct mos_run *run, const struct sl_frame *frame)
{
    return (run->burst.input ? run->burst.input : &run->inputs[frame->port])->device;
}

/* A packet of the burst goes where its device's packets go: as the callbacks left it, or, without a callback, as it came. */
static void leave(struct mos_context *context, size_t i)
{
    const struct sl_frame *frame = &here->burst.frames[i];
    struct mos_packet *packet = &context->packet;
    const bool seen = packet->source == frame;
    packet->source = NULL;
    if (!mos_forwards(device_of(here, frame), frame->link_type) || (seen && packet->dropped))
        return;
    struct sl_frame out = seen ? packet->frame : *frame;
    if (out.flags & SL_FRAME_CHECKSUM_PARTIAL)
        mos_frame_complete(&out, packet->memory);
    mos_output(device_of(here, frame), &out);
}

/* Packets up to number i of the burst: each leaves before time goes on to the next one. */
static void go_on_to(struct mos_context *context, size_t i)
{
    struct mos_burst *burst = &here->burst;
    while (burst->timed <= i && !mos_stopped()) {
        if (burst->left < burst->timed)
            leave(context, burst->left++);
        here->now = sl_max(here->now, burst->times[burst->timed]);
        mos_advance(here->contexts, here->count, here->now);
        mos_sockets_free_closed(context);
        burst->timed += !mos_stopped();
    }
}

bool mos_packet_begin(struct mos_context *context, const struct sl_frame *frame)
{
    struct mos_packet *packet = &context->packet;
    if (packet->source == frame)
        return !mos_stopped();
    go_on_to(context, (size_t)(frame - here->burst.frames));
    *packet = (struct mos_packet){.memory = packet->memory, .bytes = (uint8_t *)(uintptr_t)frame->at, .frame = *frame,
                                  .source = frame, .device = device_of(here, frame)};
    packet->frame.captured = (uint32_t)sl_min(frame->captured, MOS_FRAME_MOST);
    return !mos_stopped();
}

/* times: the largest of any packet so far, for each of them. */
static void process(struct mos_context *context, const struct sl_frame *frames, const uint64_t *times, size_t count,
                    const struct mos_input *input)
{
    here->burst = (struct mos_burst){.frames = frames, .times = times, .input = input};
    sluice_mos_process(context->box, frames, count, NULL);
    if (count)
        go_on_to(context, count - 1);
    if (here->burst.left < here->burst.timed)
        leave(context, here->burst.left);   /* the last, or the one during which it was stopped */
    context->packet.source = NULL;
    mos_sockets_free_closed(context);
}

static unsigned worker_of(const struct sl_frame *frame, unsigned workers)
{
    return workers > 1 ? sluice_mos_worker(frame, workers, SAME_EACH_TIME) : 0;
}

/* Of at most BURST packets those of this run's context; time goes on by the others, too. */
static void process_own(const struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    struct sl_frame own[BURST];
    uint64_t times[BURST], now = here->now;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        now = sl_max(now, frames[i].time);
        times[kept] = now;
        if (worker_of(&frames[i], here->parts) == here->part)
            own[kept++] = frames[i];
    }
    if (kept)
        process(here->contexts[0], own, times, kept, input);
    here->now = now;
    if (count && !mos_stopped())
        mos_advance(here->contexts, here->count, now);
}

/* Of at most BURST packets runs of one context each: several contexts see packets in the order of time, too. */
static void process_all(const struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    uint64_t times[BURST], now = here->now;
    for (size_t i = 0; i < count; i++)
        times[i] = now = sl_max(now, frames[i].time);
    for (size_t first = 0, next; first < count && !mos_stopped(); first = next) {
        unsigned worker = worker_of(&frames[first], here->count);
        next = here->count > 1 ? first + 1 : count;
        while (next < count && worker_of(&frames[next], here->count) == worker)
            next++;
        process(here->contexts[worker], frames + first, times + first, next - first, input);
    }
}

static void process_frames(const struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    for (size_t first = 0; first < count; first += BURST) {
        const size_t together = (size_t)sl_min(count - first, BURST);
        if (here->parts > 1)
            process_own(frames + first, together, input);
        else
            process_all(frames + first, together, input);
    }
}

/* Packets of an interface that packets are forwarded from, but for those that this host itself sends there. */
static void process_received(struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!(frames[i].flags & SL_FRAME_OUTGOING) || !input->forwards)
            frames[kept++] = frames[i];
    process_frames(frames, kept, input);
}

/* In place of a box's functions, for the driver. */
static void process_burst(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts)
{
    (void)box, (void)verdicts;
    process_frames(frames, count, NULL);
    if (mos_stopped())
        sl_drive_stop(&here->drive);
}

static uint64_t tick(struct sl_box *box, uint64_t clock)
{
    (void)box;
    if (mos_stopped())
        sl_drive_stop(&here->drive);
    if (!clock)
        return SL_NEVER;   /* captures: time goes on with packets */
    here->now = sl_max(here->now, clock);
    mos_advance(here->contexts, here->count, here->now);
    return mos_next_due(here->contexts, here->count);
}

/* Interfaces, one after the other: an answer comes after what it answers has been forwarded, and to hold packets back until
 * those of the other interfaces are known to be later would delay every round trip. */
static void run_interfaces(void)
{
    struct pollfd fds[MOS_DEVICES];
    for (unsigned i = 0; i < here->input_count; i++) {
        fds[i] = (struct pollfd){.fd = -1};
        here->inputs[i].source->back_end->descriptors(here->inputs[i].source, &fds[i], 1);
    }
    while (!mos_stopped()) {
        bool idle = true, open = false;
        for (unsigned i = 0; i < here->input_count; i++) {
            struct sl_frame frames[BURST];
            int32_t got = sl_source_receive(here->inputs[i].source, frames, BURST);
            if (got > 0)
                process_received(frames, (size_t)got, &here->inputs[i]);
            sl_source_release(here->inputs[i].source);
            idle = idle && got <= 0;
            open = open || got >= 0;
            if (got < 0)
                fds[i].fd = -1;   /* its socket reports an error for ever, and poll would return at once */
        }
        if (!open)
            break;   /* no interface is left */
        tick(NULL, sl_source_clock(here->inputs[0].source));
        if (idle)
            poll(fds, here->input_count, WAIT);
    }
}

/* As one source, in the order of time. */
static bool run_merged(void)
{
    char message[SL_SOURCE_MESSAGE];
    struct sl_source **sources = calloc(here->input_count, sizeof(struct sl_source *)), *all = NULL;
    for (unsigned i = 0; sources && i < here->input_count; i++)
        sources[i] = here->inputs[i].source;
    if (!sources || sl_merge_source_open(&all, sources, here->input_count, true, message, sizeof message)) {
        fprintf(stderr, "libsluice_mos: %s\n", sources ? message : "not enough memory");
        here->input_count = sources ? 0 : here->input_count;   /* they are closed */
        return true;
    }
    here->drive = (struct sl_drive){.process = process_burst, .tick = tick, .in = all};
    return sl_drive(&here->drive) == SL_DRIVEN_STOPPED;
}

static bool forwards_live(void)
{
    bool forwards = false;
    for (unsigned i = 0; i < here->input_count; i++) {
        if (!here->inputs[i].live)
            return false;
        forwards = forwards || here->inputs[i].forwards;
    }
    return forwards;
}

void mos_run_open(struct mos_run *run)
{
    here = run;
    run->input_count = run->count ? mos_inputs_open(run->inputs, run->part == 0) : 0;
    if (run->parts == 1)
        mos_outputs_begin(run->inputs, run->input_count);
    if (mos_translated_open(run))
        fputs("libsluice_mos: not enough memory for translated addresses\n", stderr);
}

void mos_run_packets(struct mos_run *run)
{
    bool stopped = false;
    if (run->input_count && forwards_live())
        run_interfaces();
    else if (run->input_count)
        stopped = run_merged();
    mos_inputs_report(run->inputs, run->input_count, !stopped && run->part == 0);
    for (unsigned i = 0; i < run->count; i++) {
        mos_flows_end(run->contexts[i]);
        sluice_mos_finish(run->contexts[i]->box);
    }
    if (run->parts == 1)
        mos_outputs_close();
    if (run->drive.in)
        sl_source_close(run->drive.in, NULL, 0);   /* and those that it merges */
    else
        for (unsigned i = 0; i < run->input_count; i++)
            sl_source_close(run->inputs[i].source, NULL, 0);
    mos_translated_close(run);
    here = NULL;
}
