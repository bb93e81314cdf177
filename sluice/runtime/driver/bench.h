/* Measures boxes over a capture in memory: the loop of `sluice bench`. */
#ifndef SL_BENCH_H
#define SL_BENCH_H

#include "driver/drive.h"
#include "io/capture.h"

enum { SL_BURST = 32 };   /* packets that are processed together */

/* Nanoseconds of the thread's CPU time, and by the clock on the wall. */
struct sl_elapsed {
    uint64_t cpu, wall;
};

/* A compiled stack that is measured, and what is found of it. */
struct sl_measured {
    sl_open_function open;
    sl_process_function process;
    sl_box_function finish, close;
    const struct sl_options *options;
    struct sl_elapsed *results;   /* of each run, the loop over all packets alone; room for all runs */
    uint64_t *counters;           /* those of the last run; room for counter_count */
    uint32_t counter_count;
    struct sl_report reports[SL_REPORTS_MOST];   /* of the last run */
    uint32_t report_count;
};

struct sl_bench {
    uint64_t packets, bytes;      /* of one run */
    uint64_t peak_rss_bytes;      /* of the process */
    char message[SL_CAPTURE_MESSAGE];
};

/* Loads the capture at `path` into memory, and has `count` stacks process all of it `repeat` times, each time in a new
 * box, on one pinned thread. They take turns, there and back (of three: 0 1 2, 2 1 0, 0 1 2), so that what else a
 * machine does falls on neighbours alike. Packets are `warm` when each burst was copied into a small ring right before
 * it is processed, which is not timed; else they lie in memory as in the file. 0, or -1 with bench->message. */
int sl_bench(struct sl_measured *stacks, unsigned count, const char *path, bool warm, unsigned repeat,
             struct sl_bench *bench);

#endif
