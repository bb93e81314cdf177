/* Whether there is room to hold what a packet brings, and how its bytes are held when they were not delivered. Part of
 * stream/sequence.h. */
#ifndef SL_SEQUENCE_ROOM_H
#define SL_SEQUENCE_ROOM_H

#include "stream/sequence_place.h"

/* Has the pool what it takes to hold any part of `data` at `position`, with what may lie after its bytes, and a record? */
SL_COLD bool sl_sequence_memory(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                struct sl_pool *pool, uint64_t position, sl_bytes data) {
    const uint64_t origin = seq->delivered, end = position - origin + data.captured;
    uint64_t from = sl_position_before(position, origin) ? origin : position, blocks = 2 + (data.captured < data.length);
    struct sl_piece *piece = seq->held ? sl_pieces_reach(seq->held, from) : NULL;
    if (piece && piece->node.position - origin < end)
        blocks++;   /* it may be parted */
    for (; piece && piece->node.position - origin < end; piece = sl_piece_next(piece))
        blocks++;
    uint64_t besides = seq->held ? sl_ordered_memory(&seq->held->pieces, blocks) + sl_ordered_memory(&seq->held->records, 1)
                                 : (uint64_t)SL_POOL_LEAST << sl_pool_class(sizeof(struct sl_held));
    /* a block is rounded up to less than twice its bytes */
    return sl_pool_suffices(pool, blocks * SL_POOL_LEAST + (rules->buffer_data ? 2 * (uint64_t)data.captured : 0) +
                                      2 * sl_record_size(rules->record_words) + besides);
}

/* Mostly four blocks of the largest class are untouched, and what is held takes three at most: a piece of the least class
 * between any two that are held, and twice the bytes. What is cut eight at once meanwhile joins again before one is
 * touched. */
static inline bool sl_sequence_has_memory(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                          struct sl_pool *pool, uint64_t position, sl_bytes data) {
    return SL_LIKELY(pool->budget - pool->reserved >= 4 * SL_POOL_MOST && data.captured < SL_POOL_MOST / 2 &&
                     (!seq->held || seq->held->pieces.count < SL_POOL_MOST / SL_POOL_LEAST - 2)) ||
           sl_sequence_memory(seq, rules, pool, position, data);
}

/* How many small pieces a side may hold before it may hold no further one. A piece of one byte takes some 90 bytes, with its
 * part of the index, and a packet of 60 brings it: where many scatter them no cache has what is held, and each packet waits for
 * memory. So while much is held a side may have fewer; all together then have some 100,000, and 8 each (bench/notes.md,
 * "What an attack waits for"). Large ones come no faster than their bytes do. FreeBSD holds 100
 * segments of any size unless told otherwise, since its list of them was attacked so (CVE-2018-6922). */
static inline uint64_t sl_sequence_small_most(const struct sl_sequence_rules *rules, const struct sl_pool *pool) {
    if (SL_LIKELY(pool->blocks < SL_BLOCKS_MANY))
        return sl_min(rules->limit_pieces, SL_SMALL_MOST);
    unsigned doubled = 47 - (unsigned)__builtin_clzll(pool->blocks);   /* since SL_BLOCKS_MANY */
    uint64_t share = sl_min(rules->limit_pieces, SL_SMALL_MOST) >> sl_min(3 * (doubled + 1), 32);
    return sl_max(share, SL_SMALL_LEAST);
}

/* How many bytes a side may hold: by its rules or the box's options, and no more than its receiver would take. */
static inline uint64_t sl_sequence_limit(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                         const struct sl_pool *pool) {
    uint64_t limit = rules->limit_bytes ? rules->limit_bytes : pool->hold;
    if (!rules->limit_bytes && seq->held && seq->held->has_edge)
        limit = sl_min(limit, sl_max(seq->held->window, SL_HOLD_LEAST));
    return limit;
}

/* sl_sequence_room for what may have to be held. */
SL_COLD bool sl_sequence_room_to_hold(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                      struct sl_pool *pool, uint64_t position, sl_bytes data, uint64_t units) {
    const struct sl_held *held = seq->held;
    /* a datagram would end, and how many of these there are has a bound of its own */
    const bool exempt = rules->whole || !held || sl_min(data.length, units) >= SL_PIECE_SMALL;
    return (held ? held->bytes : 0) + data.captured <= sl_sequence_limit(seq, rules, pool) &&
           (held ? held->pieces.count : 0) < rules->limit_pieces &&
           (exempt || held->pieces.small < sl_sequence_small_most(rules, pool)) &&
           sl_sequence_has_memory(seq, rules, pool, position, data);
}

/* May `data` with `units` of sequence space be inserted without going over the limits? What is in order while nothing
 * waits may always (it fills the hole, and leaves with what it frees), and so may what was delivered before. */
static inline bool sl_sequence_room(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                    struct sl_pool *pool, uint64_t position, sl_bytes data, uint64_t units) {
    if (SL_LIKELY(seq->delivered == seq->next) && !sl_position_before(seq->next, position))
        return true;
    if (!units || !sl_position_before(seq->delivered, position + data.captured))
        return true;
    return sl_sequence_room_to_hold(seq, rules, pool, position, data, units);
}

/* sl_sequence_settle when there is something to settle. */
SL_COLD bool sl_sequence_settle_direct(struct sl_sequence *seq, struct sl_pool *pool, struct sl_packet_data *direct) {
    direct->present = false;
    if (!seq->lent)
        return true;   /* cleared since */
    seq->lent = 0;
    if (!sl_sequence_hold(seq, pool)) {
        seq->next = seq->delivered;
        return false;
    }
    /* After direct bytes and before `next` lie pieces, or else phantoms, if anything. */
    struct sl_piece *after = sl_piece_first(seq->held);
    uint64_t end = seq->delivered + direct->data.captured, phantoms = after == seq->held->beyond ? seq->next - end : 0;
    bool complete =
        sl_sequence_add(seq, pool, after, SL_PIECE_DATA, seq->delivered, direct->data.captured, direct->data.at) &&
        sl_sequence_add(seq, pool, after, SL_PIECE_PHANTOM, end, phantoms, NULL);
    sl_sequence_unhold(seq, pool);
    return complete;
}

/* Is there memory to settle? If not, the bytes can still be assembled. */
static inline bool sl_sequence_fits(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                    struct sl_pool *pool, const struct sl_packet_data *direct) {
    return SL_LIKELY(!direct->present || !seq->lent) ||
           sl_sequence_has_memory(seq, rules, pool, direct->position, direct->data);
}

/* The end of a packet: bytes in *direct that were not assembled are copied. False when there was no memory:
 * then `next` comes back to what could not be copied, as if it had not arrived. */
static inline bool sl_sequence_settle(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                      struct sl_pool *pool, struct sl_packet_data *direct) {
    (void)rules;
    return SL_LIKELY(!direct->present) || sl_sequence_settle_direct(seq, pool, direct);
}

#endif
