#define _GNU_SOURCE
#include "driver/run.h"

#include "driver/measure.h"
#include "native/contexts.h"

#include <sys/resource.h>

/* Bursts that a box gets at once, so that it looks from one to the next. */
enum { READ = 8 * SL_BURST };

struct reading {
    sl_process_function process;
    struct sl_box *box;
    struct sl_frame frames[READ];
    size_t count;
};

static void process_read(struct reading *reading)
{
    reading->process(reading->box, reading->frames, reading->count);
    reading->count = 0;
}

/* Secrets are for the packets behind them. */
static void hand_on(void *user, uint32_t kind, sl_bytes secrets)
{
    struct reading *reading = user;
    process_read(reading);
    sl_box_secrets(reading->box, kind, secrets);
}

uint64_t sl_run(sl_process_function process, struct sl_box *box, struct sl_capture *capture,
                int (*progress)(void *user, uint64_t position, uint64_t size, uint64_t packets), void *user,
                int *stopped)
{
    const uint64_t every = 8 << 20;
    struct reading reading = {.process = process, .box = box};
    uint64_t packets = 0, next_report = every;
    int got = 1;
    *stopped = 0;
    sl_capture_on_secrets(capture, hand_on, &reading);
    while (got == 1) {
        struct sl_frame frame;
        for (size_t i = 0; i < READ && (got = sl_capture_next(capture, &frame)) == 1; i++) {
            reading.frames[reading.count++] = frame;
            packets++;
        }
        process_read(&reading);
        if (progress && sl_capture_position(capture) >= next_report) {
            next_report = sl_capture_position(capture) + every;
            if (progress(user, sl_capture_position(capture), sl_capture_size(capture), packets)) {
                *stopped = 2;
                break;
            }
        }
    }
    sl_capture_on_secrets(capture, NULL, NULL);
    if (got < 0 && !*stopped)
        *stopped = 1;
    return packets;
}

struct boxed {
    sl_process_function process;
    struct sl_box *box;
};

static void boxed_burst(void *user, const struct sl_frame *frames, size_t count, size_t ahead)
{
    const struct boxed *boxed = user;
    sl_box_coming(boxed->box, (uint32_t)ahead);
    boxed->process(boxed->box, frames, count);
}

/* One run of a stack over a trace. 0, or -1, with a message unless there was no memory. */
static int bench_run(struct sl_measured *stack, unsigned run, const struct sl_trace *trace, struct sl_ring *ring,
                     struct sl_bench *bench)
{
    struct sl_box *box = stack->open(stack->options);
    if (!box)
        return -1;
    for (size_t i = 0; i < trace->secrets.count; i++)
        sl_box_secrets(box, trace->secrets.all[i].kind, trace->secrets.all[i].bytes);
    struct boxed boxed = {stack->process, box};
    stack->results[run] = sl_measure(trace, ring, boxed_burst, &boxed);
    stack->finish(box);
    if (stack->counter_count)
        memcpy(stack->counters, box->counters, stack->counter_count * sizeof *stack->counters);
    memcpy(stack->reports, box->reports, sizeof stack->reports);
    stack->report_count = box->report_count;
    snprintf(bench->message, sizeof bench->message, "%s", box->failure);
    stack->close(box);
    return bench->message[0] ? -1 : 0;
}

int sl_bench(struct sl_measured *stacks, unsigned count, const char *path, bool warm, unsigned repeat,
             struct sl_bench *bench)
{
    struct sl_trace trace;
    struct sl_ring ring = {0};
    if (sl_trace_load(&trace, path, bench->message, sizeof bench->message))
        return -1;
    int result = warm ? sl_ring_open(&ring, &trace) : 0;
    bench->packets = trace.count;
    bench->bytes = trace.bytes;
    sl_pin();
    for (unsigned turn = 0; turn < repeat * count && !result; turn++) {
        unsigned run = turn / count, at = turn % count;
        result = bench_run(&stacks[run % 2 ? count - 1 - at : at], run, &trace, warm ? &ring : NULL, bench);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    bench->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    if (result && !bench->message[0])
        snprintf(bench->message, sizeof bench->message, "not enough memory");
    free(ring.bytes);
    sl_trace_free(&trace);
    return result;
}

const uint64_t *sl_box_counters(const struct sl_box *box) { return box->counters; }

void sl_box_coming(struct sl_box *box, uint32_t packets) { box->ahead.coming = packets; }

void sl_box_secrets(struct sl_box *box, uint32_t kind, sl_bytes secrets)
{
    for (struct sl_natives *natives = box->natives; natives; natives = natives->next)
        if (natives->module->secrets)
            natives->module->secrets(natives->worker, kind, secrets);
}

const char *sl_box_failure(const struct sl_box *box) { return box->failure; }

uint32_t sl_box_reports(const struct sl_box *box, struct sl_report *reports, uint32_t most)
{
    memcpy(reports, box->reports, sl_min(most, box->report_count) * sizeof *reports);
    return box->report_count;
}

uint32_t sl_box_refused(const struct sl_box *box, struct sl_refused *refused, uint32_t most)
{
    memcpy(refused, box->refused, sl_min(most, box->refused_count) * sizeof *refused);
    return box->refused_count;
}
