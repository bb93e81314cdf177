#define _GNU_SOURCE
#include "driver/bench.h"

#include "driver/measure.h"
#include "native/contexts.h"

#include <sys/resource.h>

struct boxed {
    sl_process_function process;
    struct sl_box *box;
};

static void boxed_burst(void *user, const struct sl_frame *frames, size_t count, size_t ahead)
{
    const struct boxed *boxed = user;
    sl_box_coming(boxed->box, (uint32_t)ahead);
    boxed->process(boxed->box, frames, count, NULL);
}

/* Runs a stack once over a trace. Returns 0, or -1; then bench->message has the reason, and is empty if the box could
 * not be opened. */
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
