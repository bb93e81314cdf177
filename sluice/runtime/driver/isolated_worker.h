/* What a worker that is a process shares with its caller: for isolation.c, the caller's side, and isolated_worker.c, the
 * process's. */
#ifndef SL_ISOLATED_WORKER_H
#define SL_ISOLATED_WORKER_H

#include "core/box.h"
#include "driver/isolation.h"
#include "driver/worker.h"

enum { SL_ISOLATED_TEXT = 64 };

struct shared_report {
    char name[SL_ISOLATED_TEXT], function[SL_ISOLATED_TEXT];
    uint64_t value;
};

struct sl_worker_state {
    /* The run of entries that the worker has, or had last. The counters are those before the first one that it is not
     * done with: both are exchanged by one store, so that a process may be killed at any time. */
    uint64_t begin;            /* position of the first one in the ring */
    uint32_t run;              /* how many */
    uint32_t is_packets;       /* they are packets */
    uint64_t mark;             /* twice the number that it is done with, plus the copy of the counters that holds then */
    uint32_t ends;             /* its box is being ended */
    uint32_t done;             /* it has ended */
    uint64_t no_port, no_checksum, unseen_fault;   /* those of its driver */
    /* Of the crash, as the process itself sees it; `signal` is 0 if it was killed: */
    int signal;
    uint32_t function;         /* from 1; 0: it was in none */
    uint32_t at;               /* place of the packet after those that it was done with */
    uint64_t packet;           /* its number; 0: none */
    uint64_t flow;
    char layer[SL_ISOLATED_TEXT];
    uint64_t flows_lost;       /* by all crashes so far */
    uint64_t created;
    char failure[256];
    uint32_t report_count, refused_count;
    struct shared_report reports[SL_REPORTS_MOST];
    struct sl_refused refused[SL_REFUSED_MOST];
    uint64_t counters[];       /* two copies: those of the box, then those of each function */
};

#define SL_ISOLATED_RING_SIZE (sizeof(struct sl_ring_common) + SL_RING_SHARED_BYTES)

static inline uint64_t *sl_isolated_counters(const struct sl_isolation *isolation, struct sl_worker_state *state, uint64_t mark)
{
    return state->counters + (mark & 1) * isolation->counters_all;
}

/* In a new process: begins what a worker needs there, before it processes packets. */
void sl_isolated_begin(struct sl_worker *worker);

#endif
