/* Bytes leave the sequence in order, and holes are given up. Part of stream/sequence.h. */
#ifndef SL_SEQUENCE_DELIVER_H
#define SL_SEQUENCE_DELIVER_H

#include "stream/sequence_insert.h"

/* sl_sequence_assemble of the packet's own bytes alone. */
static inline sl_bytes sl_sequence_assemble_direct(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                                  struct sl_pool *pool, struct sl_packet_data *direct) {
    if (rules->history && sl_sequence_hold(seq, pool)) {
        sl_history_append(seq->held, pool, rules->history, direct->position, direct->data.at, direct->data.captured);
        sl_sequence_unhold(seq, pool);
    }
    sl_sequence_pass(seq, direct->data.captured);
    direct->present = false;
    seq->lent = 0;
    return direct->data;
}

/* sl_sequence_assemble from pieces, perhaps after the packet's own bytes. */
SL_COLD sl_bytes sl_sequence_assemble_pieces(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                             struct sl_pool *pool, struct sl_packet_data *direct, struct sl_scratch *scratch) {
    struct sl_held *held = seq->held;
    bool lent = direct->present && seq->lent;
    uint64_t total = lent ? direct->data.captured : 0, most = sl_min(scratch->size - scratch->used, UINT32_MAX);
    uint64_t unknown = 0;   /* units from the first CUT of a datagram on */
    bool alone = total > most;
    for (struct sl_piece *piece = sl_piece_first(held); piece != held->beyond && !alone; piece = sl_piece_next(piece)) {
        uint64_t length = piece->kind == SL_PIECE_DATA ? piece->length : 0;
        if (rules->whole && (unknown || piece->kind == SL_PIECE_CUT)) {
            unknown += piece->length;
            continue;
        }
        if (length > most - total)
            break;
        total += length;
    }
    uint8_t *to = total && !alone ? sl_scratch_take(scratch, total) : NULL;
    sl_bytes all = {to, (uint32_t)total, (uint32_t)(total + unknown)};
    if (lent) {
        sl_bytes own = sl_sequence_assemble_direct(seq, rules, pool, direct);
        if (alone) {
            all = own;
        } else {
            memcpy(to, own.at, own.captured);
            to += own.captured;
        }
        total -= own.captured;
    }
    struct sl_piece *piece;
    while ((piece = sl_piece_first(held)) != held->beyond) {
        uint64_t length = piece->length;
        if (rules->whole && piece->kind == SL_PIECE_CUT)
            break;   /* what is held beyond it is discarded with the instance */
        if (piece->kind == SL_PIECE_DATA) {
            if (length > total)
                break;
            memcpy(to, piece->bytes, (size_t)length);
            to += length;
            total -= length;
            if (rules->history)
                sl_history_append(held, pool, rules->history, piece->node.position, piece->bytes, length);
            sl_sequence_pass(seq, length);
        } else {
            uint64_t next = seq->next;
            sl_sequence_skip(seq, length);
            seq->next = next;
        }
        sl_pieces_remove(held, pool, piece);
    }
    sl_sequence_unhold(seq, pool);
    return all;
}

/* All bytes of [delivered, next) as one slice, and in *offset the stream offset of the first: the packet's
 * own bytes where only *direct has any, else a copy in `scratch`. delivered becomes next. When the scratch has no
 * room for all, only as many of the first are delivered as fit (the rest waits; an empty slice when none does).
 * Of a datagram in fragments of which the snap length took a part, the slice has the bytes before that part, and the
 * length of the datagram. Empty when nothing waits. */
static inline __attribute__((always_inline)) sl_bytes sl_sequence_assemble(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                            struct sl_pool *pool, struct sl_packet_data *direct, struct sl_scratch *scratch,
                                            uint64_t *offset) {
    *offset = sl_sequence_offset(seq, seq->delivered);
    if (SL_LIKELY(direct->present && seq->lent && (!seq->held || sl_piece_first(seq->held) == seq->held->beyond))) {
        uint64_t phantoms = seq->next - seq->delivered - direct->data.captured;
        sl_bytes all = sl_sequence_assemble_direct(seq, rules, pool, direct);
        if (phantoms)
            sl_sequence_skip(seq, phantoms);
        return all;
    }
    if (SL_LIKELY(seq->delivered == seq->next))
        return (sl_bytes){NULL, 0, 0};
    return sl_sequence_assemble_pieces(seq, rules, pool, direct, scratch);
}

/* Gives up what is missing at `next`, up to `position` or to the first piece before it. False when that is nothing, or
 * when bytes still wait. Otherwise *gap says what is given up, and `next` stands after it and all that is contiguous
 * there. */
SL_COLD bool sl_sequence_skip_to(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                 uint64_t position, struct sl_gap *gap) {
    struct sl_piece *piece = seq->held ? seq->held->beyond : NULL;
    if (piece && sl_position_before(piece->node.position, position))
        position = piece->node.position;
    if (seq->delivered != seq->next || !sl_position_before(seq->next, position))
        return false;
    *gap = (struct sl_gap){sl_sequence_offset(seq, seq->next), position - seq->next, false};
    sl_sequence_pass(seq, gap->length);
    seq->next = seq->delivered;
    if (piece) {
        sl_sequence_advance(seq, rules, pool);
        sl_sequence_unhold(seq, pool);
    }
    return true;
}

/* Gives up what is missing at `next`: a CUT there, else all up to the first piece or record beyond. False
 * when nothing is beyond, or when bytes still wait. Otherwise *gap says what is given up, and `next` stands
 * after it and all that is contiguous there. */
SL_COLD bool sl_sequence_give_up(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                 struct sl_gap *gap) {
    struct sl_held *held = seq->held;
    if (!held || seq->delivered != seq->next)
        return false;
    struct sl_piece *piece = held->beyond;
    uint64_t length = UINT64_MAX;
    bool cut = sl_sequence_cut(seq);
    if (cut) {
        length = piece->length;
        sl_pieces_remove(held, pool, piece);
    } else {
        const struct sl_node *record = held->records.first;
        while (record && !sl_position_before(seq->next, record->position))
            record = record->next;
        if (!piece && !record)
            return false;
        if (piece)
            length = piece->node.position - seq->next;
        if (record)
            length = sl_min(length, record->position - seq->next);
    }
    *gap = (struct sl_gap){sl_sequence_offset(seq, seq->next), length, cut};
    sl_sequence_pass(seq, length);
    seq->next = seq->delivered;
    sl_sequence_advance(seq, rules, pool);
    if (held->beyond)   /* after it the next hole ends: while a limit is reached every packet gives one up */
        __builtin_prefetch(held->beyond->node.next);
    sl_sequence_unhold(seq, pool);
    return true;
}

#endif
