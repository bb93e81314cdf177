/* A time bound on reordering: how long held bytes wait for what is missing before them.
 *
 * A side remembers a few moments, each with the end of all that was held then. When the oldest of them is `wait` ago,
 * the holes before its end are overdue. Moments that lie closer together than a part of `wait` are one, so that a side
 * needs a fixed amount of memory: bytes wait for at most `wait`, and for at least SL_WAITS_MOST - 1 parts of it. */
#ifndef SL_SEQUENCE_WAIT_H
#define SL_SEQUENCE_WAIT_H

#include "stream/sequence_state.h"

/* Is a hole at `next` overdue at packet time `now`? Also records what is held now. Without memory for that, nothing is
 * overdue. */
SL_COLD bool sl_sequence_overdue_held(struct sl_sequence *seq, struct sl_pool *pool, uint64_t now, uint64_t wait) {
    struct sl_held *held = seq->held;
    struct sl_waits *waits = held->waits;
    if (!held->ahead || held->ahead->node.position == seq->next) {
        if (waits)
            waits->count = 0;
        return false;
    }
    if (!waits) {
        waits = held->waits = sl_pool_take(pool, sizeof *waits);
        if (!waits)
            return false;
        waits->count = 0;
    }
    uint64_t count = 0;
    for (uint64_t i = 0; i < waits->count; i++)
        if (sl_position_before(seq->next, waits->moment[i].end))
            waits->moment[count++] = waits->moment[i];
    const struct sl_piece *last = sl_piece_last(held);
    uint64_t end = last->node.position + last->length;
    if (!count || sl_position_before(waits->moment[count - 1].end, end)) {
        if (!count || (count < SL_WAITS_MOST && now - waits->moment[count - 1].time >= wait / SL_WAITS_MOST))
            waits->moment[count++].time = now;
        waits->moment[count - 1].end = end;
    }
    waits->count = count;
    return now - waits->moment[0].time >= wait;
}

static inline bool sl_sequence_overdue(struct sl_sequence *seq, struct sl_pool *pool, uint64_t now, uint64_t wait) {
    return SL_UNLIKELY(seq->held != NULL) && sl_sequence_overdue_held(seq, pool, now, wait);
}

#endif
