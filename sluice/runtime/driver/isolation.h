/* Workers that are processes: a crash of a function ends one of them, and the others go on.
 *
 *     struct sl_isolation isolation = {.counters = tcp_ip_counters, .counter_count = tcp_ip_counter_count,
 *                                      .function_counters = counts, .function_count = 1, .function_names = names};
 *     sl_group_isolate(group);                       // before boxes are opened
 *     struct sl_workers workers = {..., .isolation = &isolation};
 *     ...as in workers.h...
 *     sl_isolation_close(&isolation);                // after the boxes were closed
 *
 * A worker's process is a copy (fork) of the caller's, whose own boxes no packet reaches: so a new copy has an empty
 * box, and its streams are picked up where they are. The ring is in shared memory. After each group of packets a
 * worker copies to shared memory what it has counted; the caller's boxes get it by sl_isolation_gather, and so does the next
 * process of a worker that crashed, which counts on from there. */
#ifndef SL_ISOLATION_H
#define SL_ISOLATION_H

#include "driver/embed.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_CRASHES_MOST = 1000,   /* a worker that crashed so often is not started again */
    SL_ISOLATED_GROUP = 32,   /* packets that a worker processes at once, and loses at most: a box knows the place of one
                               * in its group (SL_GROUP) */
};

struct sl_workers;
struct sl_worker;
struct sl_packet_ring;
struct sl_worker_state;   /* what a worker has in shared memory */

struct sl_isolation {
    const struct sl_counter_info *counters;   /* of each box: NAME_counters */
    uint32_t counter_count;
    uint32_t function_count;
    const uint32_t *function_counters;        /* by function, how many it declares */
    const char *const *function_names;

    uint64_t crashes;          /* of all workers */
    uint64_t packets_lost;     /* that a worker had when it crashed, or got after the last crash that is allowed */
    uint64_t flows_lost;       /* instances of all layers that crashed workers had */
    char message[512];         /* of the first crash: the worker, the signal, the function, the packet, the instance */

    /* The driver's own: */
    struct sl_worker_state **states;   /* by worker */
    size_t state_size, counters_all;
    uint32_t workers;
};

/* Copies to the boxes of this process what the workers have counted, reported and refused so far. */
void sl_isolation_gather(const struct sl_workers *workers);

/* Frees what figures of the boxes refer to. */
void sl_isolation_close(struct sl_isolation *isolation);

/* --- what workers.c calls --- */

/* Makes the shared memory of the workers. False without memory. */
bool sl_isolation_begin(struct sl_workers *workers);

/* Starts the process of a worker, which calls `work` with it and ends: 0, or errno. */
int sl_isolation_start(struct sl_worker *worker, void *(*work)(void *worker));

/* A ring in shared memory; NULL without memory. */
struct sl_packet_ring *sl_isolation_ring(void);

/* In the worker's process: it has a run of entries; it begins to end its box; so many entries of the run are done, and
 * what it has counted is shared with the caller. */
void sl_isolation_run(const struct sl_worker *worker, uint32_t entries, bool is_packets);
void sl_isolation_ends(const struct sl_worker *worker);
void sl_isolation_publish(const struct sl_worker *worker, uint32_t done);

/* In the worker's process: its box has ended, and nothing more is done. */
void sl_isolation_ended(const struct sl_worker *worker);

/* Starts processes again in the place of those that crashed. Cheap: at most once in a millisecond it looks for them. */
void sl_isolation_look(struct sl_workers *workers, void *(*work)(void *worker));

/* Waits for the processes that have ended, ends the others, and frees the rings. */
void sl_isolation_join(struct sl_workers *workers);

#ifdef __cplusplus
}
#endif

#endif
