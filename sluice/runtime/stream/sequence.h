/* The packet sequence of one side: the data that arrived, the order of its delivery, and what is missing.
 *
 * Positions are 64 bits wide, on a circle: meta of fewer bits is unwrapped around `next`. The order of three
 * of them is
 *
 *     start <= delivered <= next
 *
 * [delivered, next) is contiguous and waits for delivery: as a slice of the current packet (struct sl_packet_data), or in
 * held pieces. All pieces lie at or after `delivered`. If packets arrive in order and are delivered at once, nothing is
 * held and nothing is copied.
 *
 * For each packet: begin, position, overlap, room, insert, then assemble or settle. Functions read `rules` each time: the
 * rules of a stack are constants, which the C compiler folds. */
#ifndef SL_SEQUENCE_H
#define SL_SEQUENCE_H
#include "stream/sequence_deliver.h"

/* --- acknowledgements --- */

/* The receiver has received everything before `received`, and accepts bytes before `edge` (both in the width of meta).
 * Returns true if it acknowledged the bytes that are missing at `next` at least `grace` nanoseconds ago, and something is
 * held after them: these bytes were sent and not captured, so they will not arrive.
 *
 * What is further along than a window after `next`, and after the last bytes that are held or that far before them, is not
 * believed: a sender has not sent it, and anyone can make a packet that acknowledges it. */
SL_COLD bool sl_sequence_acknowledge_held(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                          uint64_t received, uint64_t edge, uint64_t now, uint64_t grace) {
    struct sl_held *held = seq->held;
    uint64_t window = (edge - received) & sl_mask(rules->width);
    uint64_t to = sl_sequence_position(seq, rules, received);
    const struct sl_piece *last = sl_piece_last(held);
    uint64_t most = held->has_edge ? sl_max(held->window, window) : window;
    if (!sl_position_before(seq->next + most, to) ||
        (last && !sl_position_before(last->node.position + last->length + most, to) &&
         !sl_position_before(to + most, last->node.position))) {
        if (!held->has_edge || sl_position_before(held->edge, to + window))
            held->edge = to + window;
        held->window = most;
        if (!held->has_edge || sl_position_before(held->received, to))
            held->received = to;
        held->has_edge = true;
    }
    if (!held->has_edge || !held->beyond || held->beyond->node.position == seq->next || !sl_position_before(seq->next, held->received)) {
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

/* Ignores the acknowledgement of `next`: a function changed the numbers of the bytes (function/edit.h). */
static inline void sl_sequence_wait_on(struct sl_sequence *seq) {
    if (seq->held)
        seq->held->armed = false;
}

/* The position before which holes are given up, because the receiver has acknowledged them. */
static inline uint64_t sl_sequence_settled(const struct sl_sequence *seq) {
    return seq->held && seq->held->armed ? seq->held->settled : seq->next;
}

/* Bytes without a position in the stream, by reason. */
struct sl_left_out {
    uint64_t before;     /* before the base */
    uint64_t repeated;   /* before the base, at positions whose bytes had arrived */
    uint64_t outside;    /* beyond what the receiver could accept */
};

/* If the held data begins beyond what the receiver accepts, the bytes before it were never sent: discards this data.
 * Sets *out to the numbers of bytes without a position since the last call. Returns whether there are any. Held data is
 * not discarded while bytes wait for delivery. */
SL_COLD bool sl_sequence_leave_out(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                   struct sl_left_out *out) {
    struct sl_held *held = seq->held;
    if (!held)
        return false;
    if (seq->delivered == seq->next && rules->bounded) {
        uint64_t most = held->has_edge ? seq->next + held->window : seq->next + SL_FAR;
        if (held->has_edge && sl_position_before(most, held->edge))
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

/* --- records: fields of packets beyond `next`, for conditions on virtual ordered packets --- */

/* Whether `position` is beyond `next` while the maximum number of records is held. Then the caller gives up a hole, which
 * releases records, before it adds another one. */
static inline bool sl_sequence_full(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                    uint64_t position) {
    return seq->held && seq->held->records.count >= rules->limit_records && sl_position_before(seq->next, position);
}

/* Stores a record of rules->record_words words at `position`. Returns false if memory runs out. */
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

/* Moves the lowest record (of several at one position, the earliest) into `words` if it is not beyond `next`. Returns
 * false if there is no such record. */
static inline bool sl_sequence_release(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                       struct sl_pool *pool, uint64_t *words) {
    if (SL_LIKELY(!seq->held) || !seq->held->records.first ||
        sl_position_before(seq->next, seq->held->records.first->position))
        return false;
    sl_sequence_release_first(seq, rules, pool, words);
    return true;
}

/* --- switching the buffering of bytes off and on --- */

/* Switches buffering off (rules->buffer_data becomes false): bytes that wait are passed, and of other held pieces only
 * the extents stay. Returns the number of bytes that were held. */
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

/* Switches buffering on (rules->buffer_data becomes true): the bytes of the held extents are unknown, like those that the
 * snap length cut off. */
SL_COLD void sl_sequence_forget_bytes(struct sl_sequence *seq) {
    if (!seq->held)
        return;
    for (struct sl_piece *piece = seq->held->beyond; piece; piece = sl_piece_next(piece))
        if (piece->kind == SL_PIECE_DATA)
            piece->kind = SL_PIECE_CUT;
    seq->held->bytes = 0;
}

/* Frees all memory; the positions stay. No bytes wait for delivery. */
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

/* At the end of an instance: frees all memory, and empties the sequence. */
static inline void sl_sequence_clear(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                     struct sl_pool *pool) {
    if (seq->held)
        sl_sequence_release_all(seq, pool);
    sl_sequence_reset(seq, rules);
}

/* After a drain that gave up all holes, because the side was the longest holder: frees records, history, and the ranges
 * before the base. If bytes still wait for delivery, they stay, and the side becomes the newest holder. */
static inline void sl_sequence_gave_up(struct sl_sequence *seq, struct sl_pool *pool) {
    if (seq->held && !seq->held->pieces.first)
        sl_sequence_release_all(seq, pool);
    else if (seq->held)
        sl_holder_renew(pool, &seq->held->holder);
}

#endif
