/* Token buckets by packet time, as the time at which the bucket is full again (the virtual scheduling algorithm of ITU-T I.371,
 * annex A, which is equivalent): one number each, and no work without packets. */
#ifndef TOKEN_BUCKET_H
#define TOKEN_BUCKET_H

#include "core/table.h"

/* A rate: `rate` units in `nanoseconds`, and so many of them at once. */
struct token_rate { uint64_t rate, nanoseconds, burst; };

/* The duration of a number of units at a rate, rounded. */
static inline uint64_t token_time(const struct token_rate *rate, uint64_t units) {
    sl_uint128 time = ((sl_uint128)units * rate->nanoseconds + rate->rate / 2) / rate->rate;
    return time > UINT64_MAX / 4 ? UINT64_MAX / 4 : (uint64_t)time;
}

/* Removes units from the bucket that is full again at `*full`, if there are so many; else none. */
static inline bool token_take(const struct token_rate *rate, uint64_t *full, uint64_t now, uint64_t units) {
    uint64_t then = sl_max(*full, now), room = token_time(rate, rate->burst);
    sl_uint128 after = (sl_uint128)then + token_time(rate, units);
    if (after > (sl_uint128)now + room || after > UINT64_MAX)
        return false;
    *full = (uint64_t)after;
    return true;
}

#endif
