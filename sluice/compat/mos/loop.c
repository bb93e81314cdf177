/* The loop that processes packets in the contexts.
 *
 * As in mOS, each context has a thread, in which the callbacks of its flows run: workers of the driver's (driver/workers.h),
 * to which the thread of the loop passes each packet by the stack's dispatch, or by the ends that a program has given to its
 * flow. With one context, or where packets of capture files are forwarded, that thread runs them all: packets leave in the
 * order in which they came, and answers to rewritten ones find their flow, although it does not wait for them. Packets of
 * capture files are in the order of their times, and time is packet time: a context gets the same each time. */
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

/* --- packets --- */

/* Time advances before the stack looks for the instance of a packet's flow, which may end by then: with each packet, where
 * anything may happen before the last. */
static void process(struct mos_context *context, const struct sl_frame *frames, size_t count)
{
    mos_burst_begin(context, frames);
    if (mos_burst_is_still(frames, count))
        sluice_mos_process(context->box, frames, count, NULL);
    else
        for (size_t i = 0; i < count && mos_burst_reaches(context, i); i++)
            sluice_mos_process(context->box, &frames[i], 1, NULL);
    mos_burst_end(context, count);
}

/* In this thread: runs of packets of one context each, so that several contexts get packets in the order of time, too. */
static void process_here(const struct sl_frame *frames, size_t count)
{
    for (size_t first = 0, next; first < count && !mos_stopped(); first = next) {
        unsigned worker = mos_here->count > 1 ? sluice_mos_worker(&frames[first], mos_here->count, SAME_EACH_TIME) : 0;
        next = mos_here->count > 1 ? first + 1 : count;
        while (next < count && sluice_mos_worker(&frames[next], mos_here->count, SAME_EACH_TIME) == worker)
            next++;
        process(mos_here->contexts[worker], frames + first, next - first);
    }
}

static void pass(const struct sl_frame *frames, size_t count) { sl_workers_burst(loop.drive.workers, frames, count); }

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
        return SL_NEVER;   /* captures: time advances with packets */
    mos_here->now = sl_max(mos_here->now, clock);
    mos_advance(mos_here->contexts, mos_here->count, mos_here->now);
    return mos_next_due(mos_here->contexts, mos_here->count);
}

static void pass_time(uint64_t clock) { sl_workers_time(loop.drive.workers, clock); }

static void advance_here(uint64_t clock) { tick_here(clock); }

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
    if (loop.input_count == 1 && sources) {
        loop.drive.in = loop.inputs[0].source;
        free(sources);
        return sl_drive(&loop.drive) == SL_DRIVEN_STOPPED;
    }
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

/* The callback of the loop's thread for each packet. An answer to rewritten addresses arrives after its request has been
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
static void enter(struct mos_context *context)
{
    mos_here = context->run;
    mos_context_start(context);
    const uint64_t begin = __atomic_load_n(&loop.begin, __ATOMIC_ACQUIRE);
    if (!context->started && begin && !mos_stopped())
        mos_advance(mos_here->contexts, mos_here->count, begin);
}

/* The callback of a worker, with the box of its context. */
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
    mos_here->now = sl_max(mos_here->now, clock);
    if (!mos_stopped())
        mos_advance(mos_here->contexts, mos_here->count, mos_here->now);
    return SL_NEVER;
}

static bool finish_own(struct sl_box *box, uint32_t slots)
{
    mos_here = mos_boxed_context(box)->run;
    mos_context_start(mos_here->contexts[0]);
    mos_flows_end(mos_here->contexts[0]);
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
        mos_interfaces_run(loop.inputs, loop.input_count, &(struct mos_passed_on){pass, pass_time});
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
    mos_here = &loop.runs[0];
    for (unsigned i = 0; i < mos_here->count; i++)
        mos_context_start(mos_here->contexts[i]);
    if (mos_interfaces_forward(loop.inputs, loop.input_count)) {
        mos_interfaces_run(loop.inputs, loop.input_count, &(struct mos_passed_on){process_here, advance_here});
    } else if (loop.input_count) {
        loop.drive = (struct sl_drive){.process = process_burst, .tick = tick};
        stopped = run_merged();
    }
    for (unsigned i = 0; i < mos_here->count; i++) {
        mos_flows_end(mos_here->contexts[i]);
        sluice_mos_finish(mos_here->contexts[i]->box);
    }
    mos_here = NULL;
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
        run->inputs = loop.inputs;
        contexts[i]->run = run;
    }
    if (mos_translated_open(contexts, count))
        fputs("libsluice_mos: not enough memory for translated addresses\n", stderr);
}

static void report(uint64_t count, const char *what)
{
    if (count)
        fprintf(stderr, "libsluice_mos: %llu %s\n", (unsigned long long)count, what);
}

/* Of all contexts. */
static void report_losses(void)
{
    struct mos_losses all = {0};
    for (unsigned i = 0; i < loop.run_count; i++)
        for (unsigned own = 0; own < loop.runs[i].count; own++) {
            const struct mos_losses *losses = &loop.runs[i].contexts[own]->losses;
            all.given_up += losses->given_up;
            all.unbuffered += losses->unbuffered;
            all.flows += losses->flows;
        }
    report(all.given_up, "bytes of streams were given up, as too many pieces or bytes were out of order");
    report(all.unbuffered, "bytes of streams were lost: no memory for receive buffers; set a smaller rmem_size");
    report(all.flows, "flows were not seen by a monitor: no memory; set a smaller max_concurrency");
}

void mos_loop_run(void)
{
    const bool stopped = loop.run_count > 1 && loop.input_count ? run_workers() : run_here();
    report_losses();
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
