#include "driver/worker.h"

#include <time.h>

/* When boxes move between threads. Each has a part of the connections, and moves with everything that is theirs: tables,
 * streams, state of functions, and the packets that wait in its ring. The thread that has it gives it away between two
 * bursts (worker.c), so that no packet is lost, processed twice, or overtaken by one of its connection. */

static const uint64_t period = 20 * 1000 * 1000;   /* nanoseconds between two decisions */

/* Percent of the period: a thread that is less busy keeps its boxes; and by how much another one is less busy. */
enum { BUSY = 60, APART = 20 };

/* Of the boxes of `from`, the one by which both threads come nearest to each other; NULL if none brings them nearer. */
static struct sl_worker *best(struct sl_workers *workers, uint32_t from, uint64_t apart)
{
    struct sl_worker *found = NULL;
    uint64_t least = apart;
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        uint64_t twice = 2 * w->spent_since, rest = twice > apart ? twice - apart : apart - twice;
        if (w->wanted == from && !__atomic_load_n(&w->done, __ATOMIC_ACQUIRE) && rest < least) {
            least = rest;
            found = w;
        }
    }
    return found;
}

void sl_workers_balance(struct sl_workers *workers)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, since = now - workers->balanced;
    uint64_t spent[SL_WORKERS_MOST] = {0};
    if (since < period)
        return;
    bool first = !workers->balanced, moving = false;
    workers->balanced = now;
    for (uint32_t i = 0; i < workers->count; i++) {
        struct sl_worker *w = &workers->threads[i];
        uint64_t all = __atomic_load_n(&w->spent, __ATOMIC_RELAXED);
        w->spent_since = all - w->spent_before;
        w->spent_before = all;
        spent[w->wanted] += w->spent_since;
        moving = moving || __atomic_load_n(&w->owner, __ATOMIC_ACQUIRE) != w->wanted;
    }
    uint32_t most = 0, least = 0;
    for (uint32_t i = 1; i < workers->thread_count; i++) {
        most = spent[i] > spent[most] ? i : most;
        least = spent[i] < spent[least] ? i : least;
    }
    uint64_t apart = spent[most] - spent[least];
    if (first || moving || spent[most] < since / 100 * BUSY || apart < since / 100 * APART)
        return;
    struct sl_worker *w = best(workers, most, apart);
    if (!w)
        return;
    __atomic_store_n(&w->wanted, least, __ATOMIC_RELEASE);
    workers->moved++;
}
