/* How much of its time a thread spends with packets, which `sluice top` shows. drive.h has the numbers. */
#ifndef SL_BUSY_H
#define SL_BUSY_H

#include "driver/drive.h"

#include <time.h>

/* busy: NULL if no time is measured. */
static inline uint64_t sl_busy_begin(const struct sl_busy *busy)
{
    struct timespec t;
    if (!busy)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void sl_busy_end(struct sl_busy *busy, uint64_t begin, uint64_t packets)
{
    if (!busy)
        return;
    uint64_t took = sl_busy_begin(busy) - begin;
    __atomic_store_n(&busy->packets, busy->packets + packets, __ATOMIC_RELAXED);
    __atomic_store_n(&busy->nanoseconds, busy->nanoseconds + took, __ATOMIC_RELAXED);
    if (took > busy->longest)
        __atomic_store_n(&busy->longest, took, __ATOMIC_RELAXED);
}

#endif
