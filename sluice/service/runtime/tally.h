/* Counters of each backend for metrics and programs: requests, answers, failures, and how long answers took. Each worker counts
 * for itself, and only if something reads them: a request costs two looks at the clock then.
 */
#ifndef SERVICE_TALLY_H
#define SERVICE_TALLY_H

#include <time.h>

#include "service.h"

enum { SERVICE_TIMES = 16 };

/* The upper bounds of answers' times, in microseconds. */
static const uint32_t service_times[SERVICE_TIMES] = {100,   250,   500,    1000,   2500,   5000,    10000,   25000,
                                                      50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000};

struct service_tally {
    uint64_t requests, answers, failures; /* failures: those after which it counts as down */
    uint64_t timed, nanoseconds;          /* answers whose time is known, and the sum of these times */
    uint64_t within[SERVICE_TIMES];       /* those that took at most service_times[i], and more than the bound before it */
};

static inline void service_tally_add(uint64_t *place, uint64_t by)
{
    __atomic_store_n(place, *place + by, __ATOMIC_RELAXED); /* the thread of metrics reads it */
}

/* Microseconds, which wrap around after 71 minutes. */
static inline uint32_t service_tally_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
}

/* The tally of the backend of a channel; null if nothing is counted. */
static inline struct service_tally *service_tally_of(const struct service_channel *c)
{
    const struct service_core *core = c->instance->core;

    return core->tallies && c->reopens ? &core->tallies[core->first[c->port] + c->index] : NULL;
}

/* requests(), answers(), failures(): one of the counters of the backend of a channel, of all workers. */
int64_t service_tallied(const struct service_channel *c, size_t offset);

/* A request was sent; `alone`: no other answer is due on its connection. */
static inline void service_tally_request(struct service_channel *c, bool alone)
{
    struct service_tally *tally = service_tally_of(c);

    if (!tally)
        return;
    service_tally_add(&tally->requests, 1);
    if (alone)
        c->asked_at = service_tally_clock() | 1; /* 0 is no time */
}

/* Its last answer was received, or as much of it as the program needs. */
static inline void service_tally_answer(struct service_channel *c)
{
    struct service_tally *tally = service_tally_of(c);
    uint64_t took;
    int i = 0;

    if (!tally)
        return;
    service_tally_add(&tally->answers, 1);
    if (!c->asked_at)
        return;
    took = (uint64_t)(uint32_t)(service_tally_clock() + 1 - c->asked_at) * 1000;
    c->asked_at = 0;
    service_tally_add(&tally->timed, 1);
    service_tally_add(&tally->nanoseconds, took);
    while (i < SERVICE_TIMES && took > service_times[i] * UINT64_C(1000))
        i++;
    if (i < SERVICE_TIMES)
        service_tally_add(&tally->within[i], 1);
}

#endif
