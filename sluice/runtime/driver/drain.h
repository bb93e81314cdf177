/* The end of a run whose stop was requested. */
#ifndef SL_DRAIN_H
#define SL_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds. */
enum { SL_DRAIN_MOST = 500 * 1000 * 1000, SL_DRAIN_IDLE = 100 * 1000 * 1000 };

/* Whether to continue after a stop was requested. Packets that arrived before the stop are still processed, including
 * those that the kernel, or a program that writes to a pipe and got the same signal, has not delivered yet. Continues
 * for at most SL_DRAIN_MOST. any: packets were received just now. since: 0 at first. */
static inline bool sl_drains(uint64_t now, bool any, uint64_t *since)
{
    if (!*since)
        *since = now;
    return now - *since < SL_DRAIN_MOST && (any || now - *since < SL_DRAIN_IDLE);
}

#endif
