/* The state of a sequence, and the operations that maintain its invariants. Between two operations of sequence.h:
 *
 *     - the pieces are ascending and disjoint, none is empty, and none lies before `delivered`;
 *     - those before `next` leave no hole in [delivered, next), are no CUT, and the first is DATA;
 *     - `beyond` is the first of the others; when it lies at `next`, it is a CUT;
 *     - while bytes are lent to the packet's stack, those before `next` lie after these bytes.
 *
 * Stacks call sequence.h, not this. */
#ifndef SL_SEQUENCE_STATE_H
#define SL_SEQUENCE_STATE_H

#include "core/bytes.h"
#include "core/pool.h"
#include "stream/sequence_pieces.h"
#include "stream/sequence_policy.h"

struct sl_sequence_rules {
    uint8_t width;            /* bits of meta, 1 to 64 */
    bool linear;              /* meta counts from 0 and never wraps */
    uint8_t policy;           /* enum sl_policy */
    bool whole;               /* for the caller: a gap ends the instance */
    bool buffer_data;         /* false: the bytes have no subscriber; only their extents are held */
    bool accounts;            /* bytes without a position in the stream are counted: before the base, or outside */
    bool bounded;             /* bytes that the receiver would not accept have no position in the stream */
    uint32_t limit_bytes;     /* of the pieces held; 0: the box's, see struct sl_pool */
    uint32_t limit_pieces;
    uint32_t limit_records;
    uint32_t history;         /* delivered bytes to remember, up to 65536 */
    uint8_t record_words;
};

struct sl_sequence {
    uint64_t start;       /* position of stream offset 0 */
    uint64_t next;        /* the next expected position */
    uint64_t delivered;   /* everything before it was delivered or given up */
    struct sl_held *held; /* NULL while there are no pieces, records or history */
    uint32_t skipped;     /* phantom units in [start, delivered) */
    uint16_t trailing;    /* of those, the ones directly before `delivered` */
    uint8_t based;        /* start is known */
    uint8_t lent;         /* [delivered, next) begins with the bytes of a struct sl_packet_data */
};
_Static_assert(sizeof(struct sl_sequence) == 40, "two of them and an instance's head share two cache lines");

/* The sequence of a side. The address is calculated once: gcc 12 otherwise calculates it again for nearly every field,
 * from the instance and the side, and runs out of registers. */
static inline struct sl_sequence *sl_sequence_of(struct sl_sequence *sequences, uint64_t side) {
    struct sl_sequence *seq = &sequences[side];
    __asm__("" : "+r"(seq));
    return seq;
}

/* The highest position of a linear sequence, and the maximum distance of the end of a piece: beyond it, "before" and
 * "after" are ambiguous. */
#define SL_FARTHEST ((uint64_t)INT64_MAX)

/* Bytes at this distance from all known positions belong to another stream: a quarter of TCP's number space. */
#define SL_FAR (UINT64_C(1) << 30)

/* Initialises an empty sequence. Memory that it held before is not freed. */
static inline void sl_sequence_reset(struct sl_sequence *seq, const struct sl_sequence_rules *rules) {
    *seq = (struct sl_sequence){.based = rules->linear};
}

/* The stream offset of a position that is not before `delivered`. */
static inline uint64_t sl_sequence_offset(const struct sl_sequence *seq, uint64_t position) {
    return position - seq->start - seq->skipped;
}

/* The stream offset of a position in [start, delivered). It is exact if the phantoms in this range lie at its end (a FIN);
 * otherwise they are assumed to lie at its beginning. */
static inline uint64_t sl_sequence_old_offset(const struct sl_sequence *seq, uint64_t position) {
    uint64_t units = sl_min(position - seq->start, seq->delivered - seq->trailing - seq->start);
    uint64_t inner = seq->skipped - seq->trailing;
    return units > inner ? units - inner : 0;
}

/* --- memory --- */

/* Allocates seq->held if needed. Returns false if memory runs out. sl_sequence_unhold frees it if it is empty. */
static inline bool sl_sequence_hold(struct sl_sequence *seq, struct sl_pool *pool) {
    if (!seq->held && (seq->held = sl_pool_take(pool, sizeof(struct sl_held)))) {
        *seq->held = (struct sl_held){.owner = seq, .holder = {.kind = SL_HOLDER_SIDE}};
        sl_holder_add(pool, &seq->held->holder);
    }
    return seq->held != NULL;
}

static inline void sl_sequence_unhold(struct sl_sequence *seq, struct sl_pool *pool) {
    if (seq->held && !seq->held->pieces.first && !seq->held->records.first && !seq->held->history &&
        !seq->held->earlier && !seq->held->outside) {
        sl_holder_remove(pool, &seq->held->holder);
        sl_pool_give(pool, seq->held, sizeof(struct sl_held));
        seq->held = NULL;
    }
}

/* Counts n bytes at `position`, before the base: as `before` where no other copy has arrived, otherwise as `repeated`.
 * Bytes too far before the base belong to another stream, and count as `outside`, as do all if memory for the ranges runs
 * out. */
SL_COLD void sl_sequence_count_earlier(struct sl_sequence *seq, struct sl_pool *pool, uint64_t position, uint64_t n) {
    if (!n || !sl_sequence_hold(seq, pool))
        return;
    struct sl_held *held = seq->held;
    if (seq->start - position >= SL_FAR) {
        held->outside += n;
        return;
    }
    if (!held->earlier && (held->earlier = sl_pool_take(pool, sizeof *held->earlier)))
        held->earlier->count = 0;
    struct sl_earlier *earlier = held->earlier;
    if (!earlier) {
        held->outside += n;
        return;
    }
    uint64_t low = position, high = position + n, known = 0;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < earlier->count; i++) {
        uint64_t from = earlier->range[i].low, to = earlier->range[i].high;
        if (sl_position_before(high, from) || sl_position_before(to, low)) {
            earlier->range[kept].low = from;
            earlier->range[kept++].high = to;
            continue;
        }
        uint64_t overlap_from = sl_position_before(from, position) ? position : from;
        uint64_t overlap_to = sl_position_before(position + n, to) ? position + n : to;
        known += sl_position_before(overlap_from, overlap_to) ? overlap_to - overlap_from : 0;
        low = sl_position_before(from, low) ? from : low;
        high = sl_position_before(high, to) ? to : high;
    }
    if (kept == SL_EARLIER_MOST) {   /* the space between the last two ranges counts as known */
        kept--;
        low = sl_position_before(earlier->range[kept].low, low) ? earlier->range[kept].low : low;
        high = sl_position_before(high, earlier->range[kept].high) ? earlier->range[kept].high : high;
    }
    earlier->range[kept].low = low;
    earlier->range[kept].high = high;
    earlier->count = kept + 1;
    known = sl_min(known, n);
    held->before += n - known;
    held->repeated += known;
}

/* Frees all pieces and records. */
SL_COLD void sl_sequence_discard(struct sl_sequence *seq, struct sl_pool *pool) {
    while (seq->held && seq->held->pieces.first)
        sl_pieces_remove(seq->held, pool, sl_piece_first(seq->held));
    while (seq->held && seq->held->records.first)
        sl_records_remove_first(seq->held, pool);
}

/* --- operations --- */

/* Passes n phantom units at `delivered`. No bytes wait after it. */
static inline void sl_sequence_skip(struct sl_sequence *seq, uint64_t n) {
    bool delivered_any = seq->delivered - seq->start != seq->skipped;
    seq->next = seq->delivered += n;
    if (!delivered_any || n > UINT32_MAX - seq->skipped) {
        seq->start += n;   /* the same offset for all that follows */
    } else {
        seq->skipped += (uint32_t)n;
        seq->trailing = (uint16_t)sl_min(seq->trailing + n, UINT16_MAX);
    }
}

/* Moves `delivered` over units of the stream. */
static inline void sl_sequence_pass(struct sl_sequence *seq, uint64_t n) {
    seq->delivered += n;
    seq->trailing = 0;
}

/* Moves `next` over contiguous pieces up to a CUT. A fragmented datagram continues over a CUT, because its headers give the
 * length. Phantoms, and pieces without bytes, are passed at once. */
static inline void sl_sequence_advance(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                       struct sl_pool *pool) {
    struct sl_held *held = seq->held;
    struct sl_piece *piece;
    while ((piece = held->beyond) && piece->node.position == seq->next && (piece->kind != SL_PIECE_CUT || rules->whole)) {
        uint64_t length = piece->length;
        if (piece->kind == SL_PIECE_PHANTOM && seq->delivered == seq->next) {
            sl_pieces_remove(held, pool, piece);
            sl_sequence_skip(seq, length);
        } else if (!rules->buffer_data) {
            sl_pieces_remove(held, pool, piece);
            sl_sequence_pass(seq, length);
            seq->next = seq->delivered;
        } else {
            held->beyond = sl_piece_next(piece);
            seq->next += length;
        }
    }
}

/* Called when the range from `position` to the piece `after` is empty: moves `next` back to it. */
static inline void sl_sequence_retreat(struct sl_sequence *seq, uint64_t position, struct sl_piece *after) {
    if (position - seq->delivered < seq->next - seq->delivered) {
        seq->next = position;
        seq->held->beyond = after;
    }
}

/* Adds a piece of this kind in front of `after`; several pieces if the data is longer than a block. */
static inline bool sl_sequence_add(struct sl_sequence *seq, struct sl_pool *pool, struct sl_piece *after, uint8_t kind,
                                   uint64_t position, uint64_t length, const uint8_t *bytes) {
    struct sl_held *held = seq->held;
    while (length) {
        uint64_t part = bytes ? sl_min(length, SL_PIECE_MOST) : length;
        struct sl_piece *piece = sl_pieces_add(held, pool, after, kind, position, part, bytes);
        if (!piece) {
            sl_sequence_retreat(seq, position, after);
            return false;
        }
        if (held->beyond == after && position - seq->delivered >= seq->next - seq->delivered)
            held->beyond = piece;
        position += part;
        length -= part;
        if (bytes)
            bytes += part;
    }
    return true;
}

/* Removes pieces other than DATA from [lo, hi), whose bytes have arrived. One may be a phantom that waits. */
static inline bool sl_sequence_uncover(struct sl_sequence *seq, struct sl_pool *pool, uint64_t lo, uint64_t hi) {
    const uint64_t origin = seq->delivered;
    struct sl_piece *piece = sl_pieces_reach(seq->held, lo), *next;
    for (; piece && piece->node.position - origin < hi - origin; piece = next) {
        next = sl_piece_next(piece);
        if (piece->kind == SL_PIECE_DATA)
            continue;
        uint64_t position = piece->node.position, end = position + piece->length;
        bool sticks_out_right = end - origin > hi - origin;
        if (position - origin < lo - origin) {
            sl_piece_resize(seq->held, piece, lo - position);
            sl_ordered_resize(&seq->held->pieces, &piece->node, piece->length);
            seq->held->hint_to = seq->held->hint_from;
            sl_sequence_retreat(seq, lo, next);
            if (sticks_out_right)
                return sl_sequence_add(seq, pool, next, piece->kind, hi, end - hi, NULL);
        } else {
            uint8_t kind = piece->kind;
            sl_pieces_remove(seq->held, pool, piece);
            sl_sequence_retreat(seq, position, next);
            if (sticks_out_right)
                return sl_sequence_add(seq, pool, next, kind, hi, end - hi, NULL);
        }
    }
    return true;
}

/* Joins adjacent pieces of one kind in [lo, hi], all after `next`. DATA pieces are joined only under a policy that does not
 * depend on where their segments began. */
static inline void sl_sequence_join(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                    uint64_t lo, uint64_t hi) {
    const bool first_or_last = rules->policy == SL_POLICY_FIRST || rules->policy == SL_POLICY_LAST;
    struct sl_piece *piece = sl_pieces_reach(seq->held, lo), *after, *joined;
    if (piece && piece->node.previous)
        piece = sl_piece_previous(piece);
    for (; piece && (after = sl_piece_next(piece)) && !sl_position_before(hi, after->node.position); piece = joined) {
        bool bytes = piece->kind == SL_PIECE_DATA && rules->buffer_data;
        bool joins = piece->kind == after->kind && !sl_position_before(after->node.position, lo) &&
                     piece->node.position + piece->length == after->node.position &&
                     (!bytes || (first_or_last && piece->length + after->length <= SL_PIECE_JOINED));
        if (!joins || !(joined = sl_pieces_join(seq->held, pool, piece, bytes)))
            joined = after;
    }
}

/* Fills [from, hi), the end of a segment that begins at lo and has the bytes `data`: adds pieces of this kind where there
 * are none. Existing pieces stay, but their bytes are replaced if the policy says so. Returns false if memory ran out;
 * what needed no memory is done. */
SL_COLD bool sl_sequence_fill(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                              uint8_t kind, uint64_t lo, uint64_t from, uint64_t hi, const uint8_t *data) {
    const uint64_t origin = seq->delivered, start = lo - origin, end = hi - origin;
    bool complete = true;
    if (kind == SL_PIECE_DATA)
        complete = sl_sequence_uncover(seq, pool, from, hi);
    struct sl_piece *piece = sl_pieces_reach(seq->held, from);
    for (uint64_t at = from - origin; at < end;) {
        const uint8_t *bytes = data ? data + (at - start) : NULL;
        uint64_t old_start = piece ? piece->node.position - origin : UINT64_MAX;
        if (at < old_start) {
            uint64_t stop = sl_min(old_start, end);
            complete &= sl_sequence_add(seq, pool, piece, kind, origin + at, stop - at, bytes);
            at = stop;
        } else {
            uint64_t old_end = old_start + piece->length, stop = sl_min(old_end, end);
            if (bytes && sl_policy_new_wins(rules->policy, start, end, old_start, old_end))
                memcpy(piece->bytes + (at - old_start), bytes, (size_t)(stop - at));
            at = stop;
            piece = sl_piece_next(piece);
        }
    }
    return complete;
}

#endif
