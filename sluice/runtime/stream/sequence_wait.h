/* A time bound on reordering: how long held bytes wait for what is missing before them.
 *
 * A side remembers one moment, with the end of all that was held then. When it is `wait` ago, the holes before that end are
 * overdue; what has come since waits from then on. So bytes wait for at least `wait`, and at most twice as long. */
#ifndef SL_SEQUENCE_WAIT_H
#define SL_SEQUENCE_WAIT_H

#include "stream/sequence_state.h"

/* Is a hole at `next` overdue at packet time `now`? Also records what is held now. */
SL_COLD bool sl_sequence_overdue_held(struct sl_sequence *seq, uint64_t now, uint64_t wait) {
    struct sl_held *held = seq->held;
    if (!held->beyond || held->beyond->node.position == seq->next) {
        held->waits = false;
        return false;
    }
    if (!held->waits || !sl_position_before(seq->next, held->waits_to)) {
        const struct sl_piece *last = sl_piece_last(held);
        held->waits = true;
        held->waits_since = now;
        held->waits_to = last->node.position + last->length;
    }
    return now - held->waits_since >= wait;
}

static inline bool sl_sequence_overdue(struct sl_sequence *seq, uint64_t now, uint64_t wait) {
    return SL_UNLIKELY(seq->held != NULL) && sl_sequence_overdue_held(seq, now, wait);
}

#endif
