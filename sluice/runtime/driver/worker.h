/* One worker of several: for workers.c and isolation.c only. */
#ifndef SL_WORKER_H
#define SL_WORKER_H

#include "driver/ring.h"
#include "driver/workers.h"

#include <pthread.h>
#include <sys/types.h>

/* A thread or process, its box and its ring. Of a process it is in shared memory. */
struct sl_worker {
    pthread_t thread;
    struct sl_workers *workers;
    struct sl_packet_ring *ring;
    struct sl_box *box;
    struct sl_drive drive;   /* what is done with its box */
    uint32_t number;
    bool runs;
    bool abandoned;     /* the box is not ended; set before the ring ends */
    uint64_t time;      /* the reader's: the largest time that the ring has passed */
    uint32_t done;      /* the thread is about to end */
    uint32_t paused;    /* it does nothing until workers->pauses is 0 */
    /* Of a process; 0 of a thread: */
    pid_t process;
    uint32_t crashes;
    uint64_t crashed;      /* when it did the last time: nanoseconds of the monotonic clock */
    uint64_t start_again;  /* when it is started again; 0: it runs */
    bool given_up;         /* it is not */
    struct sl_worker_state *state;
};

#endif
