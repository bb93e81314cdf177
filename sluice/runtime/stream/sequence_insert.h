/* A packet enters the sequence: in order, or at any position. Part of stream/sequence.h. */
#ifndef SL_SEQUENCE_INSERT_H
#define SL_SEQUENCE_INSERT_H

#include "stream/sequence_room.h"

/* Takes the next bytes in order as they lie in the packet, without memory: up to the first piece held. When there is no
 * memory for what is after that, the pieces that `data` covers give way to it instead, whatever the policy says. How
 * many bytes were taken; `next` stands after them. */
SL_COLD uint64_t sl_sequence_take(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                  struct sl_packet_data *direct, uint64_t position, sl_bytes data) {
    struct sl_held *held = seq->held;
    uint64_t taken = data.captured;
    if (held && held->pieces.first && taken) {
        sl_sequence_uncover(seq, pool, position, position + taken);   /* none begins before `next`, so none is parted */
        struct sl_piece *piece = sl_piece_first(held), *next;
        if (piece && piece->node.position - position < taken) {
            if (!sl_sequence_has_memory(seq, rules, pool, position, data))
                for (; piece && piece->node.position - position + piece->length <= taken; piece = next) {
                    next = sl_piece_next(piece);
                    sl_pieces_remove(held, pool, piece);
                }
            if (piece)
                taken = sl_min(taken, piece->node.position - position);
        }
    }
    if (taken && rules->buffer_data) {
        *direct = (struct sl_packet_data){sl_bytes_slice(data, 0, taken), position, true};
        seq->lent = 1;
        seq->next = position + taken;
    } else if (taken) {
        sl_sequence_pass(seq, taken);
        seq->next = seq->delivered;
    }
    return taken;
}

/* sl_sequence_insert for whatever is not simply the next bytes. */
SL_COLD bool sl_sequence_insert_any(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                    struct sl_pool *pool, struct sl_packet_data *direct, uint64_t position, sl_bytes data,
                                    uint64_t units) {
    bool complete = sl_sequence_settle(seq, rules, pool, direct);

    data = sl_bytes_slice(data, 0, units);
    if (rules->linear && position > SL_FARTHEST)
        return complete;
    if (sl_position_before(position, seq->delivered)) {
        uint64_t known = seq->delivered - position;
        if (rules->accounts && sl_position_before(position, seq->start))
            sl_sequence_count_earlier(seq, pool, position, sl_min(seq->start - position, data.captured));
        if (units <= known)
            return complete;
        data = sl_bytes_slice(data, known, UINT64_MAX);
        units -= known;
        position = seq->delivered;
    }
    units = sl_min(units, SL_FARTHEST - (rules->linear ? position : position - seq->delivered));
    if (units == 0)
        return complete;
    data = sl_bytes_slice(data, 0, units);

    uint64_t cut = position + data.captured, phantom = position + data.length, end = position + units;
    uint64_t from = position;
    bool in_order = position == seq->next && seq->delivered == seq->next;
    bool is_ahead = sl_position_before(seq->next, position);
    if (in_order)
        from += sl_sequence_take(seq, rules, pool, direct, position, data);
    if (in_order && from == phantom && !(seq->held && seq->held->pieces.first)) {
        if (seq->lent)
            seq->next = end;   /* phantoms after direct bytes: known by the distance, without a piece */
        else if (phantom != end)
            sl_sequence_skip(seq, end - phantom);
        sl_sequence_unhold(seq, pool);
        return complete;
    }
    if (!sl_sequence_hold(seq, pool))
        return false;
    if (is_ahead && cut == end && units <= SL_PIECE_MOST &&
        sl_pieces_add_apart(seq->held, pool, position, units, rules->buffer_data ? data.at : NULL))
        return complete;
    if (from != cut)
        complete &= sl_sequence_fill(seq, rules, pool, SL_PIECE_DATA, position, from, cut,
                                     rules->buffer_data ? data.at : NULL);
    if (cut != phantom)
        complete &= sl_sequence_fill(seq, rules, pool, SL_PIECE_CUT, cut, cut, phantom, NULL);
    if (phantom != end)
        complete &= sl_sequence_fill(seq, rules, pool, SL_PIECE_PHANTOM, phantom, phantom, end, NULL);
    if (is_ahead)
        sl_sequence_join(seq, rules, pool, position, end);
    sl_sequence_advance(seq, rules, pool);
    sl_sequence_unhold(seq, pool);
    return complete;
}

/* Whether `data` is what is next in order, all captured, while nothing waits or is held. */
static inline bool sl_sequence_is_next(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                       uint64_t position, sl_bytes data, uint64_t units) {
    return position == seq->next && !seq->held && !seq->lent && data.captured == data.length && data.length <= units &&
           (!rules->linear || position <= SL_FARTHEST - units);
}

/* Passes `length` units that are in the stream, and what there is after them of `units`; nothing waits. */
static inline void sl_sequence_pass_by(struct sl_sequence *seq, uint64_t length, uint64_t units) {
    if (length) {
        sl_sequence_pass(seq, length);
        seq->next = seq->delivered;
    }
    if (units != length)
        sl_sequence_skip(seq, units - length);
}

/* sl_sequence_insert of what is next in order, all captured, while nothing waits or is held: the way of nearly all
 * packets. False, with nothing done, where that is not so. */
static inline bool sl_sequence_insert_next(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                           struct sl_packet_data *direct, uint64_t position, sl_bytes data, uint64_t units) {
    if (SL_LIKELY(sl_sequence_is_next(seq, rules, position, data, units))) {
        if (data.length && rules->buffer_data) {
            *direct = (struct sl_packet_data){data, position, true};
            seq->lent = 1;
            seq->next += units;   /* phantoms after direct bytes: known by the distance, without a piece */
        } else {
            sl_sequence_pass_by(seq, data.length, units);
        }
        return true;
    }
    return false;
}

/* sl_sequence_insert_next and sl_sequence_assemble at once, without history: the data need not be remembered in
 * between. In *offset the stream offset of its first byte. */
static inline bool sl_sequence_forward(struct sl_sequence *seq, const struct sl_sequence_rules *rules, uint64_t position,
                                       sl_bytes data, uint64_t units, uint64_t *offset) {
    if (SL_LIKELY(sl_sequence_is_next(seq, rules, position, data, units))) {
        *offset = sl_sequence_offset(seq, position);
        sl_sequence_pass_by(seq, data.length, units);
        return true;
    }
    return false;
}

/* Inserts `units` of sequence space at `position`: first the captured bytes of `data` (clipped to units),
 * then those that the snap length took (CUT), then space without bytes (PHANTOM). What lies before
 * `delivered` is dropped. Bytes that are next in order while nothing waits are left in *direct, up to the first piece held,
 * not copied: they must be assembled or settled before the packet's memory goes. Everything else is copied;
 * where bytes are held already, the policy decides whose stay. DATA takes the place of CUT and PHANTOM;
 * those take no place that is known. `next` then stands after all that is contiguous, or at a CUT. False
 * when the pool had no memory: what could not be copied is missing, and may come again.
 * A second insert for the same packet settles the first. */
static inline bool sl_sequence_insert(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                      struct sl_pool *pool, struct sl_packet_data *direct, uint64_t position, sl_bytes data,
                                      uint64_t units) {
    return sl_sequence_insert_next(seq, rules, direct, position, data, units) ||
           sl_sequence_insert_any(seq, rules, pool, direct, position, data, units);
}

#endif
