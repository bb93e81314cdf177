/* Several boxes of one stack, each in a thread of its own. A driver (drive.h) that has workers passes each packet to the
 * box that NAME_worker chooses, through a ring (ring.h).
 *
 *     struct sl_workers workers = {.worker = tcp_ip_worker, .boxes = boxes, .count = 2, .group = group};
 *     struct sl_drive drive = {.process = tcp_ip_process, .tick = tcp_ip_tick, .finish_step = tcp_ip_finish_step,
 *                              .workers = &workers, .in = source};
 *     enum sl_driven ended = sl_drive(&drive);
 *     sl_drive_finish(&drive);
 *     if (workers.message[0]) ...print it...
 *     ...read counters and reports of each box, and add them up...
 *     sl_drive_close(&drive);
 *
 * Without `ports` the boxes are passive: nothing that a function decides leaves. What memory and how many instances each box may have is
 * given when it is opened. */
#ifndef SL_WORKERS_H
#define SL_WORKERS_H

#include "driver/drive.h"
#include "driver/group.h"
#include "driver/homes.h"
#include "driver/isolation.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_WORKERS_MOST = 64, SL_WORKER_BOXES_MOST = 1024 };

typedef unsigned (*sl_worker_function)(const struct sl_frame *frame, unsigned workers, uint64_t seed);

typedef void (*sl_path_function)(const struct sl_frame *frame, uint64_t seed, struct sl_path_keys *keys);

struct sl_worker;          /* a box and its ring */
struct sl_worker_thread;

struct sl_workers {
    sl_worker_function worker;
    struct sl_box *const *boxes;   /* opened with `group` and their number as worker */
    uint32_t count;                /* of them, at most SL_WORKER_BOXES_MOST */
    /* Threads, at most SL_WORKERS_MOST, if they are fewer than boxes: each has several, which move from a busy thread to
     * another one (balance.c). 0: each box has a thread of its own. */
    uint32_t thread_count;
    bool drops;                    /* a packet whose worker's ring is full is dropped; else the source waits */
    uint64_t seed;                 /* of the choice of workers */
    struct sl_group *group;        /* where rows come together */

    uint64_t dropped;              /* packets that a ring had no room for */
    uint64_t dropped_bytes;        /* on the wire, of these */
    char message[SL_SOURCE_MESSAGE];   /* what a function could not do, which ended the run; or why there are no threads */

    /* The driver's own: */
    struct sl_worker *threads;     /* by box */
    struct sl_worker_thread *pool;
    uint64_t clock;                /* the largest time of a packet so far */
    uint64_t passed;               /* packets since the last time that all workers were given the time */
    bool keeps;                    /* the source keeps the bytes of packets */
    bool memory_failed, finished;
    uint32_t failed;               /* a function of some box failed */
    struct sl_busy *busy;          /* the caller's, by thread; NULL: no time is measured */
    /* Inline: by thread, the output of each port, which no other thread uses; the driver has `peer` and no ports, and the
     * boxes were opened with sl_options.forwards. NULL: the boxes are passive. */
    struct sl_source *const *const *ports;
    uint64_t no_port, no_checksum, unseen_fault;   /* of all workers, at the end; see drive.h */
    uint32_t pauses;               /* workers wait once their rings are empty */
    struct sl_isolation *isolation;   /* the workers are processes (isolation.h), which cannot be paused; NULL: threads */
    uint64_t looked, balanced;     /* when isolation.c looked for crashes the last time, and balance.c at the threads */
    uint64_t moved;                /* how often a box went to another thread */
    uint64_t by_thread[SL_WORKERS_MOST];   /* packets; of processes each has its own */
    sl_path_function path;         /* the caller's: NAME_path, if the stack has one; NULL: `worker` alone chooses */
    struct sl_homes homes;         /* where the keys are */
    /* The caller's: packets of other boxes than number `only` - 1 only advance the time, as other processes have these boxes, with
     * the same seed. 0: all are processed. */
    uint32_t only;
    /* The caller's, by worker: where it receives packets itself. They are divided by the kernel, by the same hash (io/fanout.h):
     * the first worker hands over those on which the kernel cannot decide. Or, if `all_hand_over`, by another hash, as of
     * cards (io/queues.h): each worker hands over packets of others. No groups of boxes, no processes. NULL: the reader
     * passes all packets to them. */
    struct sl_source *const *sources;
    struct sl_drive *reader;       /* the driver's own, with `sources` */
    uint64_t received;             /* by workers that have ended */
    uint64_t handed_over;          /* packets */
    uint32_t stopping;             /* enum sl_ring_ended */
    bool all_hand_over;
    bool none_hands_over;   /* no packet has an instance: each worker processes what it receives */
    uint32_t choosing;             /* a worker uses `homes`, which they share then */
    /* The caller's: names of the functions of the boxes, for a report of a crash (crash.h); NULL and 0: there is none. */
    const char *const *function_names;
    uint32_t function_count;
};

/* What the driver calls. Starts the threads, where they do not run yet: 0, or -1 with a message. */
int sl_workers_start(struct sl_workers *workers, const struct sl_drive *drive);

/* Passes packets to their workers. */
void sl_workers_burst(struct sl_workers *workers, const struct sl_frame *frames, size_t count);

/* No packet that comes later is earlier than `clock` (as sl_source_clock). */
void sl_workers_time(struct sl_workers *workers, uint64_t clock);

/* Passes secrets to all of them, for the packets that come from now on. With `sources`: while they are paused. */
void sl_workers_secrets(struct sl_workers *workers, uint32_t kind, sl_bytes secrets);

/* Waits until all workers have processed what they were passed, and do nothing. Then the caller's thread may use the boxes,
 * until sl_workers_resume, after which they call these functions. Between two bursts only. NULL, or why this is not
 * possible: processes have boxes of their own, which this process cannot use. */
const char *sl_workers_pause(struct sl_workers *workers);
void sl_workers_resume(struct sl_workers *workers, const struct sl_drive *drive);

/* Packets that workers have received themselves, so far. */
uint64_t sl_workers_received(const struct sl_workers *workers);

/* The source of a worker that cannot receive any more; NULL: none. */
struct sl_source *sl_workers_failed_source(const struct sl_workers *workers);

/* With `sources`: workers receive what has arrived by now, and no more. True once they have. */
bool sl_workers_drain(struct sl_workers *workers);

/* Whether the run is to end, as a function failed. */
bool sl_workers_failed(const struct sl_workers *workers);

/* No more packets come: each worker processes what it was passed, and ends its box. Then rows are written. `waiting` is
 * called meanwhile. */
void sl_workers_finish(struct sl_workers *workers, void (*waiting)(const struct sl_drive *drive), const struct sl_drive *drive);

/* Ends threads that still run, without ending their boxes. */
void sl_workers_abandon(struct sl_workers *workers);

#ifdef __cplusplus
}
#endif

#endif
