/* One worker of several: for workers.c, worker.c, own_source.c, balance.c, isolation.c and isolated_worker.c only. */
#ifndef SL_WORKER_H
#define SL_WORKER_H

#include "driver/ring.h"
#include "driver/workers.h"

#include <pthread.h>
#include <sys/types.h>

enum { SL_CHOSEN_TOGETHER = 32 };   /* packets whose workers are chosen together, so that memory for keys is prefetched */

/* A box and its ring; one that receives packets itself has rings from the others. A thread has one or several, or a process
 * has a copy of one: what it changes there, the caller does not see. */
struct sl_worker {
    struct sl_workers *workers;
    struct sl_packet_ring *ring;
    struct sl_box *box;
    struct sl_drive drive;   /* what is done with its box */
    uint32_t number;
    bool runs;
    uint64_t time;      /* the reader's: the largest time that the ring has passed */
    uint32_t done;      /* the box has ended */
    uint32_t owner;     /* the thread that has it, which alone gives it away */
    uint32_t wanted;    /* the thread that is to have it, set by the reader */
    uint64_t spent;     /* nanoseconds with its packets, where boxes move */
    uint64_t spent_before, spent_since;   /* the reader's: `spent` at the last balance, and the difference then */
    /* Of a worker that receives packets itself; else NULL and 0: */
    struct sl_source *source;
    uint64_t received;
    uint32_t source_failed;
    uint32_t drained;      /* it receives no more, and hands over no more packets */
    struct sl_packet_ring **from;   /* by worker, what that one has handed over; NULL: nothing so far */
    /* Of a process; 0 of a thread: */
    pid_t process;
    uint32_t crashes;
    uint64_t crashed;      /* when it did the last time: nanoseconds of the monotonic clock */
    uint64_t start_again;  /* when it is started again; 0: it runs */
    bool given_up;         /* it is not */
    struct sl_worker_state *state;
};

struct sl_worker_thread {
    pthread_t thread;
    struct sl_workers *workers;
    uint32_t number;
    bool runs;
    uint32_t paused;    /* it does nothing until workers->pauses is 0 */
    uint32_t ended;     /* it does nothing any more */
};

/* What a thread does with its struct sl_worker_thread, until all boxes have ended; and a process with its struct
 * sl_worker. */
void *sl_worker_thread(void *of);
void *sl_worker_process(void *of);

/* The same for a thread that receives packets itself (own_source.c), with one box. */
void *sl_worker_receives(void *of);
bool sl_worker_open_rings(struct sl_worker *w);
void sl_worker_close_rings(struct sl_worker *w);

/* Whether no worker receives packets itself any more. Those that they have handed over are in the rings then. */
bool sl_workers_drained(const struct sl_workers *workers);

/* The workers of the first SL_CHOSEN_TOGETHER of `count` packets, or of all if there are fewer. */
void sl_workers_choose(struct sl_workers *workers, const struct sl_frame *frames, size_t count, unsigned *chosen);

/* Processes what the worker's ring has, at most a burst; ends the box once the ring has ended. False if there was nothing to
 * do. thread: the number of the calling thread. */
bool sl_worker_serve(struct sl_worker *w, uint32_t thread);

/* The box ends; abandoned: without an end of its instances. */
void sl_worker_end(struct sl_worker *w, bool abandoned);

/* The thread does nothing until the reader resumes. */
void sl_worker_pause(struct sl_worker_thread *thread);

/* What a thread returns: the reader waits for it no more. */
void *sl_worker_ended(struct sl_worker_thread *thread);

/* If a function failed, the reader stops, and so the others end. */
void sl_worker_look_for_failure(struct sl_worker *w);

/* Nanoseconds of the monotonic clock. */
uint64_t sl_worker_now(void);

/* Moves a box from a thread that is busy to one that is not, if it is time to. For the reader. */
void sl_workers_balance(struct sl_workers *workers);

#endif
