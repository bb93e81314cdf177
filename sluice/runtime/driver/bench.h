/* Measures boxes on a capture in memory: the loop of `sluice bench`. */
#ifndef SL_BENCH_H
#define SL_BENCH_H

#include "driver/drive.h"
#include "io/capture.h"

enum { SL_BURST = 32 };   /* packets per burst */

/* Nanoseconds of CPU time of the thread, and of wall-clock time. */
struct sl_elapsed {
    uint64_t cpu, wall;
};

/* A compiled stack to be measured, and its results. */
struct sl_measured {
    sl_open_function open;
    sl_process_function process;
    sl_box_function finish, close;
    const struct sl_options *options;
    struct sl_elapsed *results;   /* for each run: the time of the loop over all packets */
    uint64_t *counters;           /* of the last run; counter_count elements */
    uint32_t counter_count;
    struct sl_report reports[SL_REPORTS_MOST];   /* of the last run */
    uint32_t report_count;
};

struct sl_bench {
    uint64_t packets, bytes;      /* of one run */
    uint64_t peak_rss_bytes;      /* of the process */
    char message[SL_CAPTURE_MESSAGE];
};

/* Loads the capture at `path` into memory. Then each of `count` stacks processes all of it `repeat` times, each time in
 * a new box, on one pinned thread. The stacks alternate back and forth (three stacks: 0 1 2, 2 1 0, 0 1 2), so that
 * load on the machine affects adjacent runs equally. If `warm`, each burst is copied into a small ring just before it
 * is processed, and the copy is not timed; otherwise packets are processed where they are in the file. Returns 0, or -1
 * with bench->message. */
int sl_bench(struct sl_measured *stacks, unsigned count, const char *path, bool warm, unsigned repeat,
             struct sl_bench *bench);

#endif
