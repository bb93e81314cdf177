/* What a sequence holds when it holds anything: pieces, records, history. Lists, and nothing of what they
 * mean; that is sequence.h.
 *
 * Positions may lie anywhere on the circle of 64 bits, so they are compared by their distance from an origin
 * that none of the compared ones lies before: the delivered position. */
#ifndef SL_SEQUENCE_PIECES_H
#define SL_SEQUENCE_PIECES_H

#include "bytes.h"
#include "pool.h"

enum sl_piece_kind {
    SL_PIECE_DATA,      /* bytes; or only their extent, when the sequence buffers none */
    SL_PIECE_CUT,       /* bytes that the snap length took */
    SL_PIECE_PHANTOM,   /* sequence space without bytes: SYN, FIN */
};

struct sl_piece {
    struct sl_piece *previous, *next;
    uint64_t position;
    uint64_t length;   /* never 0 */
    uint32_t size;     /* of this block */
    uint8_t kind;      /* enum sl_piece_kind */
    uint8_t bytes[];
};

/* A DATA piece has at most so many bytes; longer ones are held as several. */
#define SL_PIECE_MOST (SL_POOL_MOST - (uint32_t)sizeof(struct sl_piece))

struct sl_record {
    struct sl_record *previous, *next;
    uint64_t position;
    uint64_t words[];
};

struct sl_held {
    struct sl_piece *first, *last;   /* ascending, disjoint */
    struct sl_piece *hint;           /* where the last search ended: the next one is often near; or NULL */
    struct sl_piece *ahead;          /* the first piece that does not lie before `next`, or NULL */
    struct sl_record *first_record, *last_record, *record_hint;
    uint8_t *history;                /* the last delivered bytes, the newest at history[history_used - 1] */
    uint64_t history_end;            /* the position behind the newest */
    uint32_t history_used, history_size;
    uint64_t bytes;                  /* units of all DATA pieces */
    uint32_t pieces, records;
};

/* --- pieces --- */

/* The first piece that ends behind `position`, or NULL. */
static inline struct sl_piece *sl_pieces_reach(struct sl_held *held, uint64_t origin, uint64_t position) {
    const uint64_t distance = position - origin;
    struct sl_piece *piece = held->last;
    if (!piece || piece->position - origin + piece->length <= distance)
        return NULL;
    if (held->first->position - origin + held->first->length > distance)
        return held->first;
    if (held->hint)
        piece = held->hint;
    if (piece->position - origin + piece->length > distance) {
        while (piece->previous && piece->previous->position - origin + piece->previous->length > distance)
            piece = piece->previous;
    } else {
        while (piece->position - origin + piece->length <= distance)
            piece = piece->next;   /* the last piece ends behind it: seen above */
    }
    return held->hint = piece;
}

/* A new piece with room for `room` bytes in front of `behind` (NULL: at the end). NULL when there is no memory. Its
 * length and its bytes, and `ahead`, are left to the caller. */
static inline struct sl_piece *sl_pieces_add_block(struct sl_held *held, struct sl_pool *pool, struct sl_piece *behind,
                                                   uint8_t kind, uint64_t position, size_t room) {
    size_t size = sl_max(offsetof(struct sl_piece, bytes) + room, sizeof(struct sl_piece));
    struct sl_piece *piece = sl_pool_take(pool, size);
    if (!piece)
        return NULL;
    piece->position = position;
    piece->size = (uint32_t)size;
    piece->kind = kind;
    piece->next = behind;
    piece->previous = behind ? behind->previous : held->last;
    *(piece->previous ? &piece->previous->next : &held->first) = piece;
    *(behind ? &behind->previous : &held->last) = piece;
    held->hint = piece;
    held->pieces++;
    return piece;
}

/* A new piece in front of `behind` (NULL: at the end), DATA filled from `bytes` unless that is NULL. NULL
 * when there is no memory. `ahead` is left to the caller. */
static inline struct sl_piece *sl_pieces_add(struct sl_held *held, struct sl_pool *pool, struct sl_piece *behind,
                                             uint8_t kind, uint64_t position, uint64_t length, const uint8_t *bytes) {
    struct sl_piece *piece = sl_pieces_add_block(held, pool, behind, kind, position, bytes ? (size_t)length : 0);
    if (!piece)
        return NULL;
    piece->length = length;
    if (bytes)
        memcpy(piece->bytes, bytes, (size_t)length);
    if (kind == SL_PIECE_DATA)
        held->bytes += length;
    return piece;
}

static inline void sl_pieces_remove(struct sl_held *held, struct sl_pool *pool, struct sl_piece *piece) {
    *(piece->previous ? &piece->previous->next : &held->first) = piece->next;
    *(piece->next ? &piece->next->previous : &held->last) = piece->previous;
    if (held->hint == piece)
        held->hint = piece->previous ? piece->previous : piece->next;
    if (held->ahead == piece)
        held->ahead = piece->next;
    held->pieces--;
    if (piece->kind == SL_PIECE_DATA)
        held->bytes -= piece->length;
    sl_pool_give(pool, piece, piece->size);
}

/* --- records --- */

static inline size_t sl_record_size(unsigned words) { return sizeof(struct sl_record) + 8 * (size_t)words; }

/* Keeps a copy of `words` behind the records whose position is not beyond this one. False: no memory. */
static inline bool sl_records_add(struct sl_held *held, struct sl_pool *pool, uint64_t position,
                                  const uint64_t *words, unsigned count) {
    struct sl_record *record = sl_pool_take(pool, sl_record_size(count));
    if (!record)
        return false;
    record->position = position;
    if (count)
        memcpy(record->words, words, 8 * (size_t)count);

    /* `before`: the last record that stays in front. Records may lie on either side of any origin. */
    struct sl_record *before = held->last_record;
    if (before && (int64_t)(position - before->position) < 0) {
        if ((int64_t)(position - held->first_record->position) < 0) {
            before = NULL;
        } else {
            before = held->record_hint ? held->record_hint : before;
            while (before->previous && (int64_t)(position - before->position) < 0)
                before = before->previous;
            while (before->next && (int64_t)(position - before->next->position) >= 0)
                before = before->next;
        }
    }
    record->previous = before;
    record->next = before ? before->next : held->first_record;
    *(before ? &before->next : &held->first_record) = record;
    *(record->next ? &record->next->previous : &held->last_record) = record;
    held->record_hint = record;
    held->records++;
    return true;
}

static inline void sl_records_remove_first(struct sl_held *held, struct sl_pool *pool, unsigned count) {
    struct sl_record *record = held->first_record;
    held->first_record = record->next;
    *(record->next ? &record->next->previous : &held->last_record) = NULL;
    if (held->record_hint == record)
        held->record_hint = record->next;
    held->records--;
    sl_pool_give(pool, record, sl_record_size(count));
}

/* --- history --- */

/* Appends delivered bytes that begin at `position`, so that the last `keep` of an unbroken run are known.
 * keep is bounded by half of the largest block. Without memory less is known. */
SL_COLD void sl_history_append(struct sl_held *held, struct sl_pool *pool, uint32_t keep, uint64_t position,
                               const uint8_t *at, uint64_t n) {
    keep = (uint32_t)sl_min(keep, SL_POOL_MOST / 2);
    if (position != held->history_end)
        held->history_used = 0;   /* a gap or a phantom in between: offsets into the bytes would lie */
    held->history_end = position + n;
    if (n >= keep) {
        held->history_used = 0;
        at += n - keep;
        n = keep;
    }
    uint32_t fresh = (uint32_t)n;
    if (held->history_used + fresh > held->history_size) {
        /* Room for twice as much, so that the bytes are moved to the front once in `keep` bytes. */
        uint32_t old = (uint32_t)sl_min(held->history_used, keep - fresh);
        const uint8_t *from = held->history ? held->history + (held->history_used - old) : NULL;
        uint32_t most = 2 * keep;
        uint32_t size = (uint32_t)sl_min(most, sl_max(2 * (uint64_t)held->history_size, 2 * ((uint64_t)old + fresh)));
        uint8_t *larger = held->history_size < most ? sl_pool_take(pool, size) : NULL;
        if (larger) {
            if (held->history) {
                memcpy(larger, from, old);
                sl_pool_give(pool, held->history, held->history_size);
            }
            held->history = larger;
            held->history_size = size;
            held->history_used = old;
        } else if (old + fresh <= held->history_size) {
            if (old)
                memmove(held->history, from, old);
            held->history_used = old;
        } else {
            held->history_used = 0;
            if (fresh > held->history_size) {
                at += fresh - held->history_size;
                fresh = held->history_size;
            }
        }
    }
    if (fresh)
        memcpy(held->history + held->history_used, at, fresh);
    held->history_used += fresh;
}

/* The delivered bytes of [position, position + n), or NULL unless all of them are among the last `keep`. */
static inline const uint8_t *sl_history_find(const struct sl_held *held, uint32_t keep, uint64_t position, uint64_t n) {
    uint64_t known = sl_min(held->history_used, sl_min(keep, SL_POOL_MOST / 2));
    uint64_t back = held->history_end - position;
    if (back == 0 || back > known || n > back)
        return NULL;
    return held->history + (held->history_used - back);
}

#endif
