/* The packet sequence of one side: what has arrived, in which order it is delivered, what is missing.
 *
 * Positions are 64 bits wide, on a circle: meta of fewer bits is unwrapped around `next`. The order of three
 * of them is
 *
 *     start <= delivered <= next
 *
 * [delivered, next) is contiguous and waits to be delivered: either as a slice of the packet being processed
 * (struct sl_packet_data), or in held pieces. All pieces lie at or behind `delivered`. While packets come in order
 * and are delivered at once, nothing is held and nothing is copied.
 *
 * For each packet: begin, position, overlap, room, insert, then assemble or settle. What a function needs of
 * `rules` it takes from there each time: a stack's rules are constants, and fold away. */
#ifndef SL_SEQUENCE_H
#define SL_SEQUENCE_H

#include "core/bytes.h"
#include "stream/sequence_state.h"
#include "stream/sequence_wait.h"

/* In-order bytes of the packet being processed, not copied: on the C stack, zeroed for each packet. */
struct sl_packet_data {
    sl_bytes data;
    uint64_t position;
    bool present;
};

struct sl_overlap {
    uint64_t offset;   /* in the stream */
    uint32_t length;
    sl_bytes arrived;  /* the copy that has just arrived */
    sl_bytes old;      /* the one known before, as much of its beginning as is in memory; at == NULL: none */
};

struct sl_gap {
    uint64_t offset;   /* in the stream */
    uint64_t length;
    bool cut;          /* the bytes came, but the snap length took them */
};

enum {
    SL_BLOCKS_MANY = 1 << 16,   /* blocks of the pool in use, from which on each side may hold fewer small pieces: an eighth */
    SL_SMALL_LEAST = 8,         /* of SL_SMALL_MOST, and another eighth of that for each doubling, down to so many */
    SL_SMALL_MOST = 1024,       /* small pieces of a side while few blocks are in use */
    SL_HOLD_LEAST = 1 << 20,    /* bytes that a side may hold, however small the window is that its receiver offers */
};

struct sl_holding {
    uint64_t bytes;   /* of DATA pieces */
    uint32_t pieces, records;
};

/* The position that `meta` of this packet means. */
static inline uint64_t sl_sequence_position(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                            uint64_t meta) {
    if (rules->linear)
        return sl_min(meta, SL_FARTHEST);
    if (!seq->based)
        return meta;
    unsigned unused = 64 - rules->width;
    return seq->next + (uint64_t)((int64_t)((meta - seq->next) << unused) >> unused);
}

/* Does any of the positions [meta, meta + max(length, 1)) lie in [low, high)? All modulo 2^width; low == high
 * is an empty window. */
static inline bool sl_sequence_in_window(const struct sl_sequence_rules *rules, uint64_t meta, uint64_t length,
                                         uint64_t low, uint64_t high) {
    const uint64_t mask = sl_mask(rules->width);
    uint64_t size = (high - low) & mask;
    return size != 0 && (((meta - low) & mask) < size || ((low - meta) & mask) < sl_max(length, 1));
}

/* Has everything before this position come? */
static inline bool sl_sequence_in_order(const struct sl_sequence *seq, uint64_t position) {
    return !seq->based || !sl_position_before(seq->next, position);
}

/* Do undelivered contiguous bytes exist? */
static inline bool sl_sequence_waiting(const struct sl_sequence *seq, const struct sl_packet_data *direct) {
    (void)direct;
    return seq->delivered != seq->next;
}

/* Is there nothing to deliver, and nothing held, so that there is no hole either? */
static inline bool sl_sequence_idle(const struct sl_sequence *seq) {
    return !seq->held && seq->delivered == seq->next;
}

/* Does `next` stand before bytes that the snap length took? */
static inline bool sl_sequence_cut(const struct sl_sequence *seq) {
    const struct sl_piece *piece = seq->held ? seq->held->beyond : NULL;
    return piece && piece->node.position == seq->next && piece->kind == SL_PIECE_CUT;
}

static inline struct sl_holding sl_sequence_holding(const struct sl_sequence *seq) {
    const struct sl_held *held = seq->held;
    return held ? (struct sl_holding){held->bytes, held->pieces.count, held->records.count} : (struct sl_holding){0, 0, 0};
}

/* Bytes of the stream that are here and were not delivered: held, or lent. */
static inline uint64_t sl_sequence_bytes(const struct sl_sequence *seq, const struct sl_packet_data *direct) {
    return (seq->held ? seq->held->bytes : 0) + (direct->present && seq->lent ? direct->data.captured : 0);
}

/* --- the way of a packet --- */

/* Takes all pieces before `base` out, and of one that it lies in what is before it. */
SL_COLD void sl_sequence_drop_before(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                                     uint64_t base) {
    struct sl_held *held = seq->held;
    struct sl_piece *piece;
    while ((piece = sl_piece_first(held)) && sl_position_before(piece->node.position, base)) {
        uint64_t position = piece->node.position, length = piece->length, dropped = sl_min(base - position, length);
        uint8_t kind = piece->kind;
        if (dropped < length) {
            const uint8_t *rest = kind == SL_PIECE_DATA && rules->buffer_data ? piece->bytes + dropped : NULL;
            if (!sl_pieces_add(held, pool, sl_piece_next(piece), kind, base, length - dropped, rest))
                dropped = length;
        }
        sl_pieces_remove(held, pool, piece);
        if (kind == SL_PIECE_DATA && rules->accounts)
            sl_sequence_count_earlier(seq, pool, position, dropped);
    }
}

/* Moves the base to meta while nothing was delivered or given up: what is held beyond it stays. */
SL_COLD void sl_sequence_move(struct sl_sequence *seq, const struct sl_sequence_rules *rules, struct sl_pool *pool,
                              uint64_t meta) {
    uint64_t base = seq->next + (uint64_t)((int64_t)((meta - seq->next) << (64 - rules->width)) >> (64 - rules->width));
    if (seq->lent || seq->delivered - seq->start != seq->skipped || base == seq->delivered)
        return;
    seq->start = seq->next = seq->delivered = base;
    seq->skipped = seq->trailing = 0;
    if (seq->held) {
        sl_sequence_drop_before(seq, rules, pool, base);
        seq->held->beyond = sl_piece_first(seq->held);
        seq->held->armed = false;
        sl_sequence_advance(seq, rules, pool);
        sl_sequence_unhold(seq, pool);
    }
}

/* Sets the base. Without one, meta becomes it. With one, `rebase` moves it to meta, but only while nothing was
 * delivered or given up: 1 while no bytes are held either, and records and other pieces are then discarded; with 2 what
 * is held stays where it lies. A linear sequence always begins at 0. */
static inline void sl_sequence_begin(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                     struct sl_pool *pool, uint64_t meta, uint64_t rebase) {
    if (SL_LIKELY(seq->based && !rebase) || rules->linear)
        return;
    if (seq->based && rebase == 2) {
        sl_sequence_move(seq, rules, pool, meta);
        return;
    }
    if (seq->based) {
        if (seq->lent || seq->delivered - seq->start != seq->skipped || (seq->held && seq->held->bytes))
            return;
        sl_sequence_discard(seq, pool);
        sl_sequence_unhold(seq, pool);
    }
    seq->based = 1;
    seq->start = seq->next = seq->delivered = meta & sl_mask(rules->width);
    seq->skipped = seq->trailing = 0;
}

/* Iterates over the ranges of the captured bytes of `data` that are known already, in ascending order: first
 * what lies in [start, delivered), then each DATA piece. `*cursor` is 0 for the first call and belongs to
 * this function after it. False (and *out untouched) when there are no more. To be called before the insert;
 * the slices in *out are good until then. */
SL_COLD bool sl_sequence_overlap_more(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                      uint64_t position, sl_bytes data, uint64_t *cursor, struct sl_overlap *out) {
    /* As distances from `delivered`; what lies before it is negative. */
    int64_t at = (int64_t)(position + *cursor - seq->delivered);
    int64_t end = at + (int64_t)sl_min(data.captured - *cursor, at > 0 ? (uint64_t)(INT64_MAX - at) : UINT32_MAX);
    int64_t first = (int64_t)(seq->start - seq->delivered);
    uint64_t lo, hi, offset;
    sl_bytes old = {0};
    if (at < 0 && end > first && first < 0) {
        lo = seq->delivered + (uint64_t)(at > first ? at : first);
        hi = seq->delivered + (uint64_t)(end < 0 ? end : 0);
        offset = sl_sequence_old_offset(seq, lo);
        if (seq->held)
            old = sl_history_find(seq->held, rules->history, lo, (uint32_t)(hi - lo));
    } else {
        if (!seq->held || end <= 0)
            return false;
        at = at < 0 ? 0 : at;
        if (sl_pieces_hole(seq->held, seq->delivered + (uint64_t)at, seq->delivered + (uint64_t)end).leaf)
            return false;
        struct sl_piece *piece = sl_pieces_reach(seq->held, seq->delivered + (uint64_t)at);
        while (piece && piece->kind != SL_PIECE_DATA)
            piece = sl_piece_next(piece);
        if (!piece || piece->node.position - seq->delivered >= (uint64_t)end)
            return false;
        uint64_t from = piece->node.position - seq->delivered;
        lo = seq->delivered + sl_max((uint64_t)at, from);
        hi = seq->delivered + sl_min((uint64_t)end, from + piece->length);
        offset = sl_sequence_offset(seq, lo);
        if (rules->buffer_data)
            old = (sl_bytes){piece->bytes + (lo - piece->node.position), (uint32_t)(hi - lo), (uint32_t)(hi - lo)};
    }
    uint32_t length = (uint32_t)(hi - lo);
    *out = (struct sl_overlap){
        offset, length, sl_bytes_slice(data, lo - position, hi - position), {old.at, old.captured, length}};
    *cursor = hi - position;
    return true;
}

static inline bool sl_sequence_overlap(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                       uint64_t position, sl_bytes data, uint64_t *cursor, struct sl_overlap *out) {
    if (SL_LIKELY(!seq->held && position == seq->delivered) || *cursor >= data.captured)
        return false;
    return sl_sequence_overlap_more(seq, rules, position, data, cursor, out);
}

/* Has the pool what it takes to hold any part of `data` at `position`, with what may lie behind its bytes, and a record? */
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
 * memory. So while much is held a side may have fewer; all together then have some 100,000, and 8 each (`beyond`, 1,000,000
 * packets of 512 connections: 250 ns without, 68 with it). Large ones come no faster than their bytes do. FreeBSD holds 100
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
    if (!rules->limit_bytes && seq->held && seq->held->heard)
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
    /* Behind direct bytes and before `next` lie pieces, or else phantoms, if anything. */
    struct sl_piece *behind = sl_piece_first(seq->held);
    uint64_t end = seq->delivered + direct->data.captured, phantoms = behind == seq->held->beyond ? seq->next - end : 0;
    bool complete =
        sl_sequence_add(seq, pool, behind, SL_PIECE_DATA, seq->delivered, direct->data.captured, direct->data.at) &&
        sl_sequence_add(seq, pool, behind, SL_PIECE_PHANTOM, end, phantoms, NULL);
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

/* Takes the next bytes in order as they lie in the packet, without memory: up to the first piece held. When there is no
 * memory for what is behind that, the pieces that `data` covers give way to it instead, whatever the policy says. How
 * many bytes were taken; `next` stands behind them. */
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
            seq->next = end;   /* phantoms behind direct bytes: known by the distance, without a piece */
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

/* Passes `length` units that are in the stream, and what there is behind them of `units`; nothing waits. */
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
            seq->next += units;   /* phantoms behind direct bytes: known by the distance, without a piece */
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
 * those take no place that is known. `next` then stands behind all that is contiguous, or at a CUT. False
 * when the pool had no memory: what could not be copied is missing, and may come again.
 * A second insert for the same packet settles the first. */
static inline bool sl_sequence_insert(struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                      struct sl_pool *pool, struct sl_packet_data *direct, uint64_t position, sl_bytes data,
                                      uint64_t units) {
    return sl_sequence_insert_next(seq, rules, direct, position, data, units) ||
           sl_sequence_insert_any(seq, rules, pool, direct, position, data, units);
}

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

/* sl_sequence_assemble from pieces, perhaps behind the packet's own bytes. */
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
 * when bytes still wait. Otherwise *gap says what is given up, and `next` stands behind it and all that is contiguous
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
 * behind it and all that is contiguous there. */
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
    if (held->beyond)   /* behind it the next hole ends: while a limit is reached every packet gives one up */
        __builtin_prefetch(held->beyond->node.next);
    sl_sequence_unhold(seq, pool);
    return true;
}

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
