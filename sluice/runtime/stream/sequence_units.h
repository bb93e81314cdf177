/* A sequence of units: meta counts whole units of any length (SCTP's TSN counts chunks), not bytes.
 *
 * It is a struct sl_sequence whose positions are those of units, one a piece: what sequence.h says of positions, gaps,
 * records and memory holds here, too. Each unit is delivered on its own, so that its boundaries stay. In order, and
 * with nothing held, a unit is delivered as it lies in the packet.
 *
 * For each packet: begin, position, overlap, room, insert (0 or 1 unit), then assemble, one unit a call, or settle. */
#ifndef SL_SEQUENCE_UNITS_H
#define SL_SEQUENCE_UNITS_H

#include "stream/sequence.h"

/* What the bytes of a piece begin with: how many of the unit's were captured, and how many there were. */
struct sl_unit_size {
    uint32_t captured, length;
};

/* A unit of more captured bytes is not held. */
#define SL_UNIT_MOST (SL_PIECE_MOST - (uint32_t)sizeof(struct sl_unit_size))

static inline sl_bytes sl_unit_bytes(const struct sl_piece *piece) {
    struct sl_unit_size size;
    memcpy(&size, piece->bytes, sizeof size);
    return (sl_bytes){piece->bytes + sizeof size, size.captured, size.length};
}

/* Takes a piece out, which held a unit. */
static inline void sl_units_remove(struct sl_held *held, struct sl_pool *pool, struct sl_piece *piece) {
    held->bytes += piece->length - sl_unit_bytes(piece).captured;   /* the other takes its length in positions away */
    sl_pieces_remove(held, pool, piece);
}

/* The piece at `position`, which is not before `delivered`, or NULL; in *after the first one after it. */
static inline struct sl_piece *sl_units_find(const struct sl_sequence *seq, uint64_t position, struct sl_piece **after) {
    struct sl_piece *piece = seq->held ? sl_pieces_reach(seq->held, position) : NULL;
    bool here = piece && piece->node.position == position;
    *after = here ? sl_piece_next(piece) : piece;
    return here ? piece : NULL;
}

/* Is the unit at `position` known: delivered, given up, or held? Then *out says what is known of it. */
SL_COLD bool sl_units_overlap_any(const struct sl_sequence *seq, uint64_t position, sl_bytes data, struct sl_overlap *out) {
    if (sl_position_before(position, seq->delivered)) {
        if (sl_position_before(position, seq->start))
            return false;
        *out = (struct sl_overlap){sl_sequence_old_offset(seq, position), 1, data, {NULL, 0, 0}};
        return true;
    }
    struct sl_piece *after, *piece = sl_units_find(seq, position, &after);
    if (!piece)
        return false;
    *out = (struct sl_overlap){sl_sequence_offset(seq, position), 1, data, sl_unit_bytes(piece)};
    return true;
}

/* As sl_sequence_overlap: there is one at most. Lengths and offsets count units. */
static inline bool sl_units_overlap(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                    uint64_t position, sl_bytes data, uint64_t *cursor, struct sl_overlap *out) {
    (void)rules;
    if (SL_LIKELY(!seq->held && position == seq->delivered) || *cursor)
        return false;
    *cursor = 1;
    return sl_units_overlap_any(seq, position, data, out);
}

/* Has the pool what it takes to hold one more unit, and a record? */
static inline bool sl_units_memory(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                   struct sl_pool *pool, sl_bytes data) {
    return data.captured <= SL_UNIT_MOST &&
           sl_pool_suffices(pool, 2 * SL_POOL_LEAST + 2 * (uint64_t)data.captured + 2 * sl_record_size(rules->record_words) +
                                      (seq->held ? 0 : 2 * sizeof(struct sl_held)));
}

/* Can the unit be held, by the limits and the memory there is? What is in order while nothing waits leaves at once, and
 * what is known takes no room. */
static inline bool sl_units_room(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                 struct sl_pool *pool, uint64_t position, sl_bytes data, uint64_t units) {
    if (SL_LIKELY(seq->delivered == seq->next && !sl_position_before(seq->next, position)) || !units ||
        sl_position_before(position, seq->delivered))
        return true;
    struct sl_piece *after;
    if (sl_units_find(seq, position, &after))
        return true;
    struct sl_holding held = sl_sequence_holding(seq);
    return held.bytes + data.captured <= sl_sequence_limit(seq, rules, pool) && held.pieces < rules->limit_pieces &&
           sl_units_memory(seq, rules, pool, data);
}

/* Holds a unit in front of `after`. False without memory. */
SL_COLD bool sl_units_add(struct sl_sequence *seq, struct sl_pool *pool, struct sl_piece *after, uint64_t position,
                          sl_bytes data) {
    struct sl_unit_size size = {data.captured, data.length};
    struct sl_piece *piece = NULL;
    if (data.captured <= SL_UNIT_MOST && sl_sequence_hold(seq, pool))
        piece = sl_pieces_add_block(seq->held, pool, after, SL_PIECE_DATA, position, 1, sizeof size + data.captured);
    if (!piece) {
        sl_sequence_unhold(seq, pool);
        return false;
    }
    seq->held->bytes += data.captured;
    memcpy(piece->bytes, &size, sizeof size);
    if (data.captured)
        memcpy(piece->bytes + sizeof size, data.at, data.captured);
    return true;
}

/* The end of a packet: a unit in *direct that was not assembled is copied. False when there was no memory: then it is as
 * if it had not arrived. */
static inline bool sl_units_settle(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                   struct sl_packet_data *direct) {
    (void)rules;
    if (SL_LIKELY(!direct->present))
        return true;
    direct->present = false;
    if (!seq->lent)
        return true;   /* cleared since */
    seq->lent = 0;
    if (sl_units_add(seq, pool, seq->held ? sl_piece_first(seq->held) : NULL, seq->delivered, direct->data))
        return true;
    seq->next = seq->delivered;
    if (seq->held)
        seq->held->beyond = sl_piece_first(seq->held);
    return false;
}

/* Is there memory to settle? If not, the unit can still be assembled. */
static inline bool sl_units_fits(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                 struct sl_pool *pool, const struct sl_packet_data *direct) {
    return SL_LIKELY(!direct->present || !seq->lent) || sl_units_memory(seq, rules, pool, direct->data);
}

/* sl_units_insert for whatever is not simply the next unit. */
SL_COLD bool sl_units_insert_any(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                 struct sl_packet_data *direct, uint64_t position, sl_bytes data, uint64_t units) {
    bool complete = sl_units_settle(seq, rules, pool, direct);
    if (!units || sl_position_before(position, seq->delivered) || (rules->linear && position >= SL_FARTHEST))
        return complete;
    if (position == seq->next && seq->delivered == seq->next) {
        *direct = (struct sl_packet_data){data, position, true};
        seq->lent = 1;
        seq->next++;
    } else {
        struct sl_piece *after, *piece = sl_units_find(seq, position, &after);
        if (piece)
            return complete;   /* the first copy stays */
        if (!sl_units_add(seq, pool, after, position, data))
            return false;
        if (seq->held->beyond == after)
            seq->held->beyond = after ? sl_piece_previous(after) : sl_piece_last(seq->held);
    }
    if (seq->held)
        sl_sequence_advance(seq, rules, pool);
    sl_sequence_unhold(seq, pool);
    return complete;
}

/* sl_units_insert of the next unit in order, while nothing waits or is held; false, with nothing done, where that is not
 * so. */
static inline bool sl_units_insert_next(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                        struct sl_packet_data *direct, uint64_t position, sl_bytes data, uint64_t units) {
    if (SL_LIKELY(position == seq->next && !seq->held && !seq->lent && units &&
                  !(rules->linear && position >= SL_FARTHEST))) {
        seq->next++;
        *direct = (struct sl_packet_data){data, position, true};
        seq->lent = 1;
        return true;
    }
    return false;
}

/* Inserts the unit at `position` (units: 1), or nothing (0). What is known stays. The next one in order, while nothing
 * waits, is left in *direct: it must be assembled or settled before the packet's memory goes. `next` then stands after
 * all that is contiguous. False when the pool had no memory. */
static inline bool sl_units_insert(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                   struct sl_packet_data *direct, uint64_t position, sl_bytes data, uint64_t units) {
    return sl_units_insert_next(seq, rules, direct, position, data, units) ||
           sl_units_insert_any(seq, rules, pool, direct, position, data, units);
}

/* sl_units_assemble of a unit that is held. */
SL_COLD sl_bytes sl_units_assemble_held(struct sl_sequence *seq, struct sl_pool *pool, struct sl_scratch *scratch) {
    struct sl_piece *piece = sl_piece_first(seq->held);
    sl_bytes unit = sl_unit_bytes(piece);
    uint8_t *to = unit.captured ? sl_scratch_take(scratch, unit.captured) : NULL;
    if (unit.captured && !to)
        return (sl_bytes){NULL, 0, 0};
    if (to)
        memcpy(to, unit.at, unit.captured);
    unit.at = to;
    sl_units_remove(seq->held, pool, piece);
    sl_sequence_pass(seq, 1);
    sl_sequence_unhold(seq, pool);
    return unit;
}

/* The next contiguous unit that has a length, and in *offset its number, from 0: as it lies in the packet, or a copy in
 * `scratch`. Empty when nothing waits, or the scratch has no room. */
static inline sl_bytes sl_units_assemble(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                         struct sl_pool *pool, struct sl_packet_data *direct, struct sl_scratch *scratch,
                                         uint64_t *offset) {
    (void)rules;
    sl_bytes unit = {NULL, 0, 0};
    *offset = sl_sequence_offset(seq, seq->delivered);
    while (!unit.length && seq->delivered != seq->next) {
        uint64_t before = seq->delivered;
        *offset = sl_sequence_offset(seq, before);
        if (SL_LIKELY(direct->present && seq->lent)) {
            unit = direct->data;
            direct->present = false;
            seq->lent = 0;
            sl_sequence_pass(seq, 1);
        } else {
            unit = sl_units_assemble_held(seq, pool, scratch);
            if (seq->delivered == before)
                break;
        }
    }
    return unit;
}

#endif
