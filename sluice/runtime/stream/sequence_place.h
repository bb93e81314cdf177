/* The position of a packet in the sequence of its side, and which of its bytes are already known. Part of
 * stream/sequence.h. */
#ifndef SL_SEQUENCE_PLACE_H
#define SL_SEQUENCE_PLACE_H

#include "core/bytes.h"
#include "stream/sequence_state.h"
#include "stream/sequence_wait.h"

/* In-order bytes of the current packet, which are not copied. On the C stack; initialised for each packet. */
struct sl_packet_data {
    sl_bytes data;
    uint64_t position;
    bool present;
};

struct sl_overlap {
    uint64_t offset;   /* in the stream */
    uint32_t length;
    sl_bytes arrived;  /* the copy that has just arrived */
    sl_bytes old;      /* the known copy, as far as its beginning is in memory; at == NULL: none */
};

struct sl_gap {
    uint64_t offset;   /* in the stream */
    uint64_t length;
    bool cut;          /* the bytes arrived, but the snap length cut them off */
};

enum {
    SL_BLOCKS_MANY = 1 << 16,   /* with this number of used blocks of the pool, the bound on small pieces of a side is an eighth */
    SL_SMALL_LEAST = 8,         /* of SL_SMALL_MOST; each doubling divides it by 8 again, down to this number */
    SL_SMALL_MOST = 1024,       /* small pieces of a side while few blocks are in use */
    SL_HOLD_LEAST = 1 << 20,    /* bytes that a side may hold even if the receiver offers a smaller window */
};

struct sl_holding {
    uint64_t bytes;   /* of DATA pieces */
    uint32_t pieces, records;
};

/* The position of `meta`. */
static inline uint64_t sl_sequence_position(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                            uint64_t meta) {
    if (rules->linear)
        return sl_min(meta, SL_FARTHEST);
    if (!seq->based)
        return meta;
    unsigned unused = 64 - rules->width;
    return seq->next + (uint64_t)((int64_t)((meta - seq->next) << unused) >> unused);
}

/* Whether any of the positions [meta, meta + max(length, 1)) lies in [low, high), modulo 2^width. low == high is an empty
 * window. */
static inline bool sl_sequence_in_window(const struct sl_sequence_rules *rules, uint64_t meta, uint64_t length,
                                         uint64_t low, uint64_t high) {
    const uint64_t mask = sl_mask(rules->width);
    uint64_t size = (high - low) & mask;
    return size != 0 && (((meta - low) & mask) < size || ((low - meta) & mask) < sl_max(length, 1));
}

/* Whether everything before this position has arrived. */
static inline bool sl_sequence_in_order(const struct sl_sequence *seq, uint64_t position) {
    return !seq->based || !sl_position_before(seq->next, position);
}

/* Whether contiguous bytes wait for delivery. */
static inline bool sl_sequence_waiting(const struct sl_sequence *seq, const struct sl_packet_data *direct) {
    (void)direct;
    return seq->delivered != seq->next;
}

/* Whether nothing waits for delivery and nothing is held, so that there is no hole either. */
static inline bool sl_sequence_idle(const struct sl_sequence *seq) {
    return !seq->held && seq->delivered == seq->next;
}

/* Whether the bytes at `next` were cut off by the snap length. */
static inline bool sl_sequence_cut(const struct sl_sequence *seq) {
    const struct sl_piece *piece = seq->held ? seq->held->beyond : NULL;
    return piece && piece->node.position == seq->next && piece->kind == SL_PIECE_CUT;
}

static inline struct sl_holding sl_sequence_holding(const struct sl_sequence *seq) {
    const struct sl_held *held = seq->held;
    return held ? (struct sl_holding){held->bytes, held->pieces.count, held->records.count} : (struct sl_holding){0, 0, 0};
}

/* Bytes of the stream that have arrived and were not delivered: held, or lent. */
static inline uint64_t sl_sequence_bytes(const struct sl_sequence *seq, const struct sl_packet_data *direct) {
    return (seq->held ? seq->held->bytes : 0) + (direct->present && seq->lent ? direct->data.captured : 0);
}

/* Removes all pieces before `base`, and the part before `base` of a piece that contains it. */
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

/* Moves the base to meta, if nothing was delivered or given up. Data held beyond it stays. */
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

/* Sets the base to meta if there is none. Otherwise `rebase` moves it to meta, if nothing was delivered or given up. With
 * 1, no bytes may be held either, and records and other pieces are discarded; with 2, held data stays at its positions. A
 * linear sequence always begins at 0. */
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

/* Iterates over the ranges of the captured bytes of `data` that are already known, in ascending order: first the range in
 * [start, delivered), then each DATA piece. The caller sets `*cursor` to 0 before the first call. Returns false, and leaves
 * *out unchanged, if there are no more. Called before the insertion; the slices in *out are valid until then. */
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

#endif
