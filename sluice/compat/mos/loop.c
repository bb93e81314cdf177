/* The loop that takes packets through the contexts.
 *
 * As in mOS, each context has a thread, in which the callbacks of its flows run: workers of the driver's (driver/workers.h),
 * to which the thread of the loop passes each packet by the stack's dispatch, or by the ends that a program has given to its
 * flow. With one context, or where packets of capture files are forwarded, that thread runs them all: packets leave in the
 * order in which they came, and what answers rewritten ones finds their flow, although it does not wait for them. Packets of
 * capture files come in the order of their times, and time is packet time: a context gets the same each time. */
#include "loop.h"

#include "driver/workers.h"
#include "sluice_mos.h"

enum { SAME_EACH_TIME = 0 };   /* the seed that chooses contexts */

static struct {
    struct sl_drive drive;
    struct mos_input *inputs;       /* by the port of a packet */
    unsigned input_count;
    struct mos_run runs[MOS_CONTEXTS];   /* by thread */
    unsigned run_count;
    uint64_t begin;                 /* the time of the first packet, 0: there was none: from there on timers count */
} loop;

/* The thread's own run. The model costs no call in a shared library, and a program that loads one later has room for 8 bytes. */
static _Thread_local struct mos_run *here __attribute__((tls_model("initial-exec")));

bool mos_loop_is_of(const struct mos_context *context) { return here && here == context->run; }

bool mos_loop_is_here(void) { return here != NULL; }

/* --- packets --- */

static int device_of(const struct sl_frame *frame)
{
    return loop.inputs[frame->port].device;
}

/* A packet of the burst goes where its device's packets go: as the callbacks left it, or, without a callback, as it came. */
static void leave(struct mos_context *context, size_t i)
{
    const struct sl_frame *frame = &here->burst.frames[i];
    struct mos_packet *packet = &context->packet;
    const bool seen = packet->source == frame;
    packet->source = NULL;
    if (!here->forwards || !mos_forwards(&here->outputs, device_of(frame), frame->link_type) || (seen && packet->dropped))
        return;
    struct sl_frame out = seen ? packet->frame : *frame;
    if (out.flags & SL_FRAME_CHECKSUM_PARTIAL)
        mos_frame_complete(&out, packet->memory);
    mos_output(&here->outputs, device_of(frame), &out);
}

/* Packets up to number i of the burst: each leaves before time goes on to the next one. */
static void go_on_to(struct mos_context *context, size_t i)
{
    struct mos_burst *burst = &here->burst;
    while (burst->timed <= i && !mos_stopped()) {
        if (burst->left < burst->timed)
            leave(context, burst->left++);
        here->now = sl_max(here->now, burst->frames[burst->timed].time);
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
                                  .source = frame, .device = device_of(frame)};
    packet->frame.captured = (uint32_t)sl_min(frame->captured, MOS_FRAME_MOST);
    return !mos_stopped();
}

static void process(struct mos_context *context, const struct sl_frame *frames, size_t count)
{
    here->burst = (struct mos_burst){.frames = frames};
    sluice_mos_process(context->box, frames, count, NULL);
    if (count)
        go_on_to(context, count - 1);
    if (here->burst.left < here->burst.timed)
        leave(context, here->burst.left);   /* the last, or the one during which it was stopped */
    context->packet.source = NULL;
    mos_sockets_free_closed(context);
}

/* In this thread: runs of packets of one context each, so that several contexts see packets in the order of time, too. */
static void process_here(const struct sl_frame *frames, size_t count)
{
    for (size_t first = 0, next; first < count && !mos_stopped(); first = next) {
        unsigned worker = here->count > 1 ? sluice_mos_worker(&frames[first], here->count, SAME_EACH_TIME) : 0;
        next = here->count > 1 ? first + 1 : count;
        while (next < count && sluice_mos_worker(&frames[next], here->count, SAME_EACH_TIME) == worker)
            next++;
        process(here->contexts[worker], frames + first, next - first);
    }
}

void mos_loop_process(const struct sl_frame *frames, size_t count)
{
    if (loop.drive.workers)
        sl_workers_burst(loop.drive.workers, frames, count);
    else
        process_here(frames, count);
}

/* In place of a box's functions, for the driver. */
static void process_burst(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts)
{
    (void)box, (void)verdicts;
    process_here(frames, count);
    if (mos_stopped())
        sl_drive_stop(&loop.drive);
}

static uint64_t tick_here(uint64_t clock)
{
    if (!clock)
        return SL_NEVER;   /* captures: time goes on with packets */
    here->now = sl_max(here->now, clock);
    mos_advance(here->contexts, here->count, here->now);
    return mos_next_due(here->contexts, here->count);
}

void mos_loop_tick(uint64_t clock)
{
    if (loop.drive.workers)
        sl_workers_time(loop.drive.workers, clock);
    else
        tick_here(clock);
}

static uint64_t tick(struct sl_box *box, uint64_t clock)
{
    (void)box;
    if (mos_stopped())
        sl_drive_stop(&loop.drive);
    return tick_here(clock);
}

/* As one source, in the order of time. */
static bool run_merged(void)
{
    char message[SL_SOURCE_MESSAGE];
    struct sl_source **sources = calloc(loop.input_count, sizeof(struct sl_source *)), *all = NULL;
    for (unsigned i = 0; sources && i < loop.input_count; i++)
        sources[i] = loop.inputs[i].source;
    if (!sources || sl_merge_source_open(&all, sources, loop.input_count, true, message, sizeof message)) {
        fprintf(stderr, "libsluice_mos: %s\n", sources ? message : "not enough memory");
        loop.input_count = sources ? 0 : loop.input_count;   /* they are closed */
        return true;
    }
    loop.drive.in = all;
    return sl_drive(&loop.drive) == SL_DRIVEN_STOPPED;
}

/* --- contexts in threads --- */

/* What the thread of the loop calls for each packet. An answer to rewritten addresses comes after what it answers has been
 * forwarded, so it finds the flow. */
static unsigned worker_of(const struct sl_frame *frame, unsigned workers, uint64_t seed)
{
    if (!loop.begin)
        __atomic_store_n(&loop.begin, frame->time, __ATOMIC_RELEASE);
    const struct mos_run *run = loop.runs[0].forwards ? mos_translated_run(frame) : NULL;
    if (run)
        return (unsigned)(run - loop.runs);
    return sluice_mos_worker(frame, workers, seed);
}

/* A worker is about to process for this context. */
static void enter(const struct mos_context *context)
{
    here = context->run;
    const uint64_t begin = __atomic_load_n(&loop.begin, __ATOMIC_ACQUIRE);
    if (!context->started && begin && !mos_stopped())
        mos_advance(here->contexts, here->count, begin);
}

/* What a worker calls, with the box of its context. */
static void process_own(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts)
{
    struct mos_context *context = mos_boxed_context(box);
    (void)verdicts;
    enter(context);
    if (!mos_stopped())
        process(context, frames, count);
}

static uint64_t tick_own(struct sl_box *box, uint64_t clock)
{
    enter(mos_boxed_context(box));
    here->now = sl_max(here->now, clock);
    if (!mos_stopped())
        mos_advance(here->contexts, here->count, here->now);
    return SL_NEVER;
}

static bool finish_own(struct sl_box *box, uint32_t slots)
{
    here = mos_boxed_context(box)->run;
    mos_flows_end(here->contexts[0]);
    return sluice_mos_finish_step(box, slots);
}

static int is_stopped(void *user, uint64_t position, uint64_t size, uint64_t packets)
{
    (void)user, (void)position, (void)size, (void)packets;
    return mos_stopped();
}

/* True when the run was stopped. */
static bool run_workers(void)
{
    struct sl_box *boxes[MOS_CONTEXTS];
    struct sl_workers workers = {.worker = worker_of, .boxes = boxes, .count = loop.run_count, .seed = SAME_EACH_TIME};
    for (unsigned i = 0; i < loop.run_count; i++)
        boxes[i] = loop.runs[i].contexts[0]->box;
    loop.drive = (struct sl_drive){.process = process_own, .tick = tick_own, .finish_step = finish_own,
                                   .progress = is_stopped, .workers = &workers};
    bool stopped = false;
    if (!mos_interfaces_forward(loop.inputs, loop.input_count))
        stopped = run_merged();
    else if (!sl_workers_start(&workers, &loop.drive))
        mos_interfaces_run(loop.inputs, loop.input_count);
    sl_drive_finish(&loop.drive);
    sl_drive_close(&loop.drive);
    loop.drive.workers = NULL;
    if (workers.message[0])
        fprintf(stderr, "libsluice_mos: %s\n", workers.message);
    return stopped;
}

/* In this thread; true when the run was stopped. */
static bool run_here(void)
{
    bool stopped = false;
    here = &loop.runs[0];
    if (mos_interfaces_forward(loop.inputs, loop.input_count)) {
        mos_interfaces_run(loop.inputs, loop.input_count);
    } else if (loop.input_count) {
        loop.drive = (struct sl_drive){.process = process_burst, .tick = tick};
        stopped = run_merged();
    }
    for (unsigned i = 0; i < here->count; i++) {
        mos_flows_end(here->contexts[i]);
        sluice_mos_finish(here->contexts[i]->box);
    }
    here = NULL;
    return stopped;
}

/* --- from begin to end --- */

void mos_loop_open(void)
{
    struct mos_context *contexts[MOS_CONTEXTS];
    const unsigned count = mos_contexts(contexts);
    memset(&loop, 0, sizeof loop);
    if (count)
        loop.input_count = mos_inputs_open(&loop.inputs);
    const bool forwards = mos_devices_forward(), live = mos_interfaces_forward(loop.inputs, loop.input_count);
    loop.run_count = !count || (forwards && !live) ? 1 : count;
    for (unsigned i = 0; i < count; i++) {
        struct mos_run *run = &loop.runs[loop.run_count > 1 ? i : 0];
        run->contexts[run->count++] = contexts[i];
        run->forwards = forwards;
        contexts[i]->run = run;
    }
    if (mos_translated_open(contexts, count))
        fputs("libsluice_mos: not enough memory for translated addresses\n", stderr);
}

void mos_loop_run(void)
{
    const bool stopped = loop.run_count > 1 && loop.input_count ? run_workers() : run_here();
    mos_inputs_report(stopped);
    for (unsigned i = 0; i < loop.run_count; i++)
        mos_outputs_close(&loop.runs[i].outputs);
    mos_files_close();
    if (loop.drive.in)
        sl_source_close(loop.drive.in, NULL, 0);   /* and those that it merges */
    else
        for (unsigned i = 0; i < loop.input_count; i++)
            sl_source_close(loop.inputs[i].source, NULL, 0);
    mos_translated_close();
}
