/* The packet sequence of one side: what has arrived, in which order it is delivered, what is missing.
 *
 * Positions are 64 bits wide, on a circle: meta of fewer bits is unwrapped around `next`. The order of three
 * of them is
 *
 *     start <= delivered <= next
 *
 * [delivered, next) is contiguous and waits to be delivered: either as a slice of the packet being processed
 * (struct sl_packet_data), or in held pieces. All pieces lie at or after `delivered`. While packets come in order
 * and are delivered at once, nothing is held and nothing is copied.
 *
 * For each packet: begin, position, overlap, room, insert, then assemble or settle. What a function needs of
 * `rules` it takes from there each time: a stack's rules are constants, and fold away. */
#ifndef SL_SEQUENCE_H
#define SL_SEQUENCE_H
#include "stream/sequence_deliver.h"

/* --- what the receiver says --- */

/* The receiver has received everything before `received`, and takes what lies before `edge` (both as meta). True when it
 * is `grace` nanoseconds since it said so of what is missing at `next`, and something is held further along: what it has
 * received was sent and not captured, and will not come any more. */
SL_COLD bool sl_sequence_acknowledge_held(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                          uint64_t received, uint64_t edge, uint64_t now, uint64_t grace) {
    struct sl_held *held = seq->held;
    uint64_t window = (edge - received) & sl_mask(rules->width);
    uint64_t to = sl_sequence_position(seq, rules, received);
    if (!held->heard || sl_position_before(held->edge, to + window))
        held->edge = to + window;
    held->window = held->heard ? sl_max(held->window, window) : window;
    if (!held->heard || sl_position_before(held->received, to))
        held->received = to;
    held->heard = true;
    if (!held->beyond || held->beyond->node.position == seq->next || !sl_position_before(seq->next, held->received)) {
        held->armed = false;
        return false;
    }
    if (!held->armed || !sl_position_before(seq->next, held->settled)) {
        held->armed = true;
        held->settled = held->received;
        held->since = now;
    }
    return now - held->since >= grace;
}

static inline bool sl_sequence_acknowledge(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                           uint64_t received, uint64_t edge, uint64_t now, uint64_t grace) {
    return SL_UNLIKELY(seq->held != NULL) && sl_sequence_acknowledge_held(seq, rules, received, edge, now, grace);
}

/* What the receiver says of `next` does not count: its numbers are those of other bytes (function/edit.h). */
static inline void sl_sequence_wait_on(struct sl_sequence *seq) {
    if (seq->held)
        seq->held->armed = false;
}

/* Before which position holes are to be given up, as the receiver has what was in them. */
static inline uint64_t sl_sequence_settled(const struct sl_sequence *seq) {
    return seq->held && seq->held->armed ? seq->held->settled : seq->next;
}

/* Bytes that have no place in the stream. */
struct sl_left_out {
    uint64_t before;     /* the base */
    uint64_t repeated;   /* the same positions again */
    uint64_t outside;    /* of what the receiver could have taken */
};

/* Where what is held begins further from `next` than the receiver would take, no byte in between was sent: discards it,
 * with what lies beyond. Returns all bytes without a place since the last call; `*any` says whether there are any. Not
 * while bytes wait. */
SL_COLD bool sl_sequence_leave_out(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                   struct sl_left_out *out) {
    struct sl_held *held = seq->held;
    if (!held)
        return false;
    if (seq->delivered == seq->next && rules->bounded) {
        uint64_t most = held->heard ? seq->next + held->window : seq->next + SL_FAR;
        if (held->heard && sl_position_before(most, held->edge))
            most = held->edge;
        if (held->beyond && sl_position_before(most, held->beyond->node.position)) {
            struct sl_piece *piece;
            while ((piece = held->beyond)) {
                if (piece->kind == SL_PIECE_DATA)
                    held->outside += piece->length;
                sl_pieces_remove(held, pool, piece);
            }
        }
        if (!held->beyond) {
            struct sl_node *record;
            while ((record = held->records.last) && sl_position_before(most, record->position)) {
                sl_ordered_remove(&held->records, pool, record);
                sl_pool_give(pool, record, record->size);
            }
        }
    }
    *out = (struct sl_left_out){held->before, held->repeated, held->outside};
    held->before = held->repeated = held->outside = 0;
    sl_sequence_unhold(seq, pool);
    return out->before || out->repeated || out->outside;
}

/* --- records: what conditions on virtual ordered packets will need of packets beyond `next` --- */

/* Is `position` beyond `next`, and are there as many records as there may be? Then a hole is to be given up, which lets
 * records go, before one more is kept. */
static inline bool sl_sequence_full(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                    uint64_t position) {
    return seq->held && seq->held->records.count >= rules->limit_records && sl_position_before(seq->next, position);
}

/* Keeps rules->record_words words for `position`. False: no memory. */
SL_COLD bool sl_sequence_record(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                uint64_t position, const uint64_t *words) {
    if (!sl_sequence_hold(seq, pool))
        return false;
    bool kept = sl_records_add(seq->held, pool, position, words, rules->record_words);
    sl_sequence_unhold(seq, pool);
    return kept;
}

SL_COLD void sl_sequence_release_first(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                       struct sl_pool *pool, uint64_t *words) {
    if (rules->record_words)
        memcpy(words, sl_record_of(seq->held->records.first)->words, 8 * (size_t)rules->record_words);
    sl_records_remove_first(seq->held, pool);
    sl_sequence_unhold(seq, pool);
}

/* Takes the lowest record (the earliest of equals) out into `words` when it is not beyond `next` any more.
 * False when there is none such. */
static inline bool sl_sequence_release(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                       struct sl_pool *pool, uint64_t *words) {
    if (SL_LIKELY(!seq->held) || !seq->held->records.first ||
        sl_position_before(seq->next, seq->held->records.first->position))
        return false;
    sl_sequence_release_first(seq, rules, pool, words);
    return true;
}

/* --- whether bytes are wanted, where that may change --- */

/* The bytes of what waits or is held are wanted no more: what waits is passed, of the rest the extents stay. From now on
 * rules->buffer_data is false. How many bytes that were. */
SL_COLD uint64_t sl_sequence_pass_bytes(struct sl_sequence *seq, struct sl_pool *pool) {
    struct sl_held *held = seq->held;
    struct sl_piece *piece;
    if (!held)
        return 0;
    uint64_t bytes = held->bytes;
    while ((piece = sl_piece_first(held)) != held->beyond) {
        uint64_t next = seq->next;
        if (piece->kind == SL_PIECE_DATA)
            sl_sequence_pass(seq, piece->length);
        else
            sl_sequence_skip(seq, piece->length);
        seq->next = next;
        sl_pieces_remove(held, pool, piece);
    }
    sl_sequence_unhold(seq, pool);
    return bytes;
}

/* Bytes are wanted again: those of the extents held came, and are not here, as if the snap length had taken them. From now
 * on rules->buffer_data is true. */
SL_COLD void sl_sequence_forget_bytes(struct sl_sequence *seq) {
    if (!seq->held)
        return;
    for (struct sl_piece *piece = seq->held->beyond; piece; piece = sl_piece_next(piece))
        if (piece->kind == SL_PIECE_DATA)
            piece->kind = SL_PIECE_CUT;
    seq->held->bytes = 0;
}

/* All memory goes back; the positions stay. Nothing waits that was not delivered. */
SL_COLD void sl_sequence_release_all(struct sl_sequence *seq, struct sl_pool *pool) {
    struct sl_held *held = seq->held;
    if (!held)
        return;
    sl_sequence_discard(seq, pool);
    if (held->history)
        sl_pool_give(pool, held->history, held->history_size);
    if (held->earlier)
        sl_pool_give(pool, held->earlier, sizeof *held->earlier);
    sl_holder_remove(pool, &held->holder);
    sl_pool_give(pool, held, sizeof *held);
    seq->held = NULL;
}

/* The end of an instance: all memory goes back, the sequence is empty. */
static inline void sl_sequence_clear(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                     struct sl_pool *pool) {
    if (seq->held)
        sl_sequence_release_all(seq, pool);
    sl_sequence_reset(seq, rules);
}

/* After a drain that gave up all holes, because the side is the longest holder: frees what is left, which is records,
 * history, and the ranges before the base. If bytes still wait, they stay, and the side becomes the newest holder. */
static inline void sl_sequence_gave_up(struct sl_sequence *seq, struct sl_pool *pool) {
    if (seq->held && !seq->held->pieces.first)
        sl_sequence_release_all(seq, pool);
    else if (seq->held)
        sl_holder_renew(pool, &seq->held->holder);
}

#endif
