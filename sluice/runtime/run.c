#define _GNU_SOURCE
#include "run.h"

#include "natives.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static void hand_on(void *user, uint32_t kind, sl_bytes secrets) { sl_box_secrets(user, kind, secrets); }

uint64_t sl_run(sl_process_function process, struct sl_box *box, struct sl_capture *capture,
                int (*progress)(void *user, uint64_t position, uint64_t size, uint64_t packets), void *user,
                int *stopped)
{
    const uint64_t every = 8 << 20;
    struct sl_frame burst[SL_BURST];
    uint64_t packets = 0, next_report = every;
    int got = 1;
    *stopped = 0;
    sl_capture_on_secrets(capture, hand_on, box);
    while (got == 1) {
        size_t count = 0;
        while (count < SL_BURST && (got = sl_capture_next(capture, &burst[count])) == 1)
            count++;
        process(box, burst, count);
        packets += count;
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

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The whole file in memory of our own, so that no page fault of the file falls into the timed loop. */
static uint8_t *load(const char *path, size_t *size, char *message)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(message, SL_CAPTURE_MESSAGE, "%s: %s", path, strerror(errno));
        return NULL;
    }
    uint8_t *bytes = NULL;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        bytes = malloc(*size);
        if (bytes && fread(bytes, 1, *size, file) != *size) {
            free(bytes);
            bytes = NULL;
        }
    }
    fclose(file);
    if (!bytes)
        snprintf(message, SL_CAPTURE_MESSAGE, "%s: cannot be loaded into memory", path);
    return bytes;
}

/* The secrets of a capture, in their order. */
struct secrets {
    struct secret { uint32_t kind; sl_bytes bytes; } *all;
    size_t count, room;
    bool complete;   /* there was memory for all of them */
};

static void keep(void *user, uint32_t kind, sl_bytes bytes)
{
    struct secrets *kept = user;
    if (kept->count == kept->room) {
        kept->room = kept->room ? 2 * kept->room : 8;
        struct secret *more = realloc(kept->all, kept->room * sizeof *more);
        if (!more) {
            kept->room = kept->count;
            kept->complete = false;
            return;
        }
        kept->all = more;
    }
    kept->all[kept->count++] = (struct secret){kind, bytes};
}

static void pin(void)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

int sl_bench(sl_open_function open, sl_process_function process, sl_box_function finish, sl_box_function close,
             const struct sl_options *options, const char *path, unsigned repeat, struct sl_bench_result *results,
             struct sl_bench *bench)
{
    size_t size = 0, room = 0;
    uint8_t *bytes = load(path, &size, bench->message);
    if (!bytes)
        return -1;
    struct sl_capture *capture;
    char why[SL_CAPTURE_MESSAGE];
    if (sl_capture_open_memory(&capture, bytes, size, why, sizeof why)) {
        snprintf(bench->message, sizeof bench->message, "%.200s: %.300s", path, why);
        free(bytes);
        return -1;
    }
    struct secrets secrets = {.complete = true};
    sl_capture_on_secrets(capture, keep, &secrets);
    struct sl_frame *frames = NULL, frame;
    size_t count = 0;
    int result = -1, got;
    while ((got = sl_capture_next(capture, &frame)) == 1) {
        if (count == room) {
            room = room ? 2 * room : 1024;
            struct sl_frame *more = realloc(frames, room * sizeof *frames);
            if (!more)
                goto done;
            frames = more;
        }
        frames[count++] = frame;
        bench->bytes += frame.length;
    }
    if (got < 0) {   /* a part of a trace is not what was to be measured */
        snprintf(bench->message, sizeof bench->message, "%.200s: %.300s", path, sl_capture_fault(capture));
        goto done;
    }
    if (!secrets.complete)
        goto done;
    bench->packets = count;
    pin();
    for (unsigned run = 0; run < repeat; run++) {
        struct sl_box *box = open(options);
        if (!box)
            goto done;
        for (size_t i = 0; i < secrets.count; i++)
            sl_box_secrets(box, secrets.all[i].kind, secrets.all[i].bytes);
        uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
        for (size_t at = 0; at < count; at += SL_BURST)
            process(box, frames + at, count - at < SL_BURST ? count - at : SL_BURST);
        results[run].cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
        results[run].wall_ns = now(CLOCK_MONOTONIC) - wall;
        finish(box);
        memcpy(bench->counters, box->counters, bench->counter_count * sizeof *bench->counters);
        memcpy(bench->reports, box->reports, sizeof bench->reports);
        bench->report_count = box->report_count;
        snprintf(bench->message, sizeof bench->message, "%s", box->failure);
        close(box);
        if (bench->message[0])
            goto done;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    bench->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    result = 0;
done:
    if (result && !bench->message[0])
        snprintf(bench->message, sizeof bench->message, "not enough memory");
    sl_capture_close(capture);
    free(secrets.all);
    free(frames);
    free(bytes);
    return result;
}

const uint64_t *sl_box_counters(const struct sl_box *box) { return box->counters; }

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
