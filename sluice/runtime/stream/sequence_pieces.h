/* The data that a sequence holds: pieces, records and history. sequence.h gives them their meaning. */
#ifndef SL_SEQUENCE_PIECES_H
#define SL_SEQUENCE_PIECES_H

#include "core/bytes.h"
#include "stream/ordered.h"
#include "core/pool.h"

enum sl_piece_kind {
    SL_PIECE_DATA,      /* bytes, or only their extent if the sequence buffers none */
    SL_PIECE_CUT,       /* bytes that the snap length cut off */
    SL_PIECE_PHANTOM,   /* sequence space without bytes: SYN, FIN */
};

struct sl_piece {
    struct sl_node node;
    uint64_t length;   /* never 0 */
    uint8_t kind;      /* enum sl_piece_kind */
    uint8_t bytes[];
};

/* Adjacent DATA pieces are joined up to this number of bytes. Otherwise each later segment of a sender of tiny or
 * overlapping segments would iterate over all of them. Segments of usual size are not joined, so they are not moved. */
#define SL_PIECE_JOINED (2048 - (uint32_t)sizeof(struct sl_piece))

/* A piece with fewer units is small. */
#define SL_PIECE_SMALL 256

/* The maximum number of bytes of a DATA piece; longer ones are held as several pieces. */
#define SL_PIECE_MOST (SL_POOL_MOST - (uint32_t)sizeof(struct sl_piece))

struct sl_record {
    struct sl_node node;
    uint64_t words[];
};

/* Ranges of positions before the base whose bytes have arrived, so that each position is counted once. */
enum { SL_EARLIER_MOST = 7 };
struct sl_earlier {
    uint64_t count;
    struct { uint64_t low, high; } range[SL_EARLIER_MOST];
};

struct sl_held {
    struct sl_ordered pieces;    /* disjoint */
    struct sl_ordered records;   /* those of one position are in the order of arrival */
    struct sl_piece *hint;       /* the result of the last search: the first piece that ends after each position in */
    uint64_t hint_from, hint_to; /* [hint_from, hint_to); a search in this range examines no piece */
    struct sl_piece *beyond;     /* the first piece that does not lie before `next`, or NULL */
    uint8_t *history;                /* the last delivered bytes, the newest at history[history_used - 1] */
    uint64_t history_end;            /* the position after the newest */
    uint32_t history_used, history_size;
    uint64_t bytes;                  /* units of all DATA pieces */
    /* Acknowledgements of the receiver (see sl_sequence_acknowledge): */
    uint64_t edge;                   /* the end of the receiver's window; valid if `has_edge` */
    uint64_t window;                 /* the largest window that the receiver has offered */
    uint64_t received;               /* the highest position before which the receiver has received everything */
    uint64_t settled;                /* the value of `received` at `since`; holes before it are given up after the grace period */
    uint64_t since;                  /* packet time */
    /* Bytes without a position in the stream, since the last report: */
    uint64_t before, repeated, outside;
    struct sl_earlier *earlier;      /* NULL while there are none */
    uint64_t waits_since, waits_to;  /* if `waits`: since when everything held before this position has waited */
    bool waits;
    bool has_edge, armed;            /* edge, window and received are valid; settled and since are valid */
    struct sl_holder holder;         /* ordered by the time at which sides began to hold pieces or records */
    struct sl_sequence *owner;
};
_Static_assert(sizeof(struct sl_held) <= 256, "a block of four cache lines");

/* Called before a piece or record is added: if it is the first one, the side begins to hold data. */
static inline void sl_held_begin(struct sl_held *held, struct sl_pool *pool) {
    if (!held->pieces.first && !held->records.first)
        sl_holder_renew(pool, &held->holder);
}

/* --- pieces --- */

/* The node is the first member of both, so that their addresses are equal, and NULL stays NULL. */
static inline struct sl_piece *sl_piece_of(struct sl_node *node) { return (struct sl_piece *)(void *)node; }

static inline struct sl_record *sl_record_of(struct sl_node *node) { return (struct sl_record *)(void *)node; }

static inline struct sl_piece *sl_piece_first(const struct sl_held *held) { return sl_piece_of(held->pieces.first); }

static inline struct sl_piece *sl_piece_last(const struct sl_held *held) { return sl_piece_of(held->pieces.last); }

static inline struct sl_piece *sl_piece_next(const struct sl_piece *piece) { return sl_piece_of(piece->node.next); }

static inline struct sl_piece *sl_piece_previous(const struct sl_piece *piece) {
    return sl_piece_of(piece->node.previous);
}

/* Whether a piece ends after `position`. */
static inline bool sl_piece_reaches(const struct sl_piece *piece, uint64_t position) {
    return sl_position_before(position, piece->node.position + piece->length);
}

/* Counts a piece if it is small: `by` is 1 after the piece is added, -1 (of uint32_t) before it is removed; both are
 * done around a change of its length. */
static inline void sl_pieces_count_small(struct sl_held *held, const struct sl_piece *piece, uint32_t by) {
    held->pieces.small += piece->length < SL_PIECE_SMALL ? by : 0;
}

/* Sets the length of a piece of the list. The caller updates the index. */
static inline void sl_piece_resize(struct sl_held *held, struct sl_piece *piece, uint64_t length) {
    sl_pieces_count_small(held, piece, -1u);
    piece->length = length;
    sl_pieces_count_small(held, piece, 1);
}

/* Remembers a piece as the first that ends after each position from `from` on. */
static inline struct sl_piece *sl_pieces_remember(struct sl_held *held, struct sl_piece *piece, uint64_t from) {
    held->hint_from = from;
    held->hint_to = piece->node.position + piece->length;
    return held->hint = piece;
}

/* The position from which on a piece is the first that ends later. Only the piece before it is examined. Searches use
 * positions within half of the circle. */
static inline uint64_t sl_piece_from(const struct sl_piece *piece) {
    const struct sl_piece *previous = sl_piece_previous(piece);
    return previous ? previous->node.position + previous->length : piece->node.position - (UINT64_C(1) << 62);
}

/* The first piece that ends after `position`, or NULL. */
static inline struct sl_piece *sl_pieces_reach(struct sl_held *held, uint64_t position) {
    if (position - held->hint_from < held->hint_to - held->hint_from)
        return held->hint;
    struct sl_piece *last = sl_piece_last(held);
    if (!last || !sl_piece_reaches(last, position))
        return NULL;
    struct sl_piece *piece = sl_piece_of(sl_ordered_find(&held->pieces, position));
    if (piece && sl_piece_reaches(piece, position))
        return sl_pieces_remember(held, piece, piece->node.position);
    piece = piece ? sl_piece_next(piece) : sl_piece_first(held);
    return sl_pieces_remember(held, piece, sl_piece_from(piece));
}

/* A block for a piece with room for `room` bytes; NULL when there is no memory. Its bytes, and where it belongs, are left
 * to the caller. */
static inline struct sl_piece *sl_piece_take(struct sl_pool *pool, uint8_t kind, uint64_t position, uint64_t length,
                                             size_t room) {
    size_t size = sl_max(offsetof(struct sl_piece, bytes) + room, sizeof(struct sl_piece));
    struct sl_piece *piece = sl_pool_take(pool, size);
    if (piece) {
        piece->node.position = position;
        piece->node.size = (uint32_t)size;
        piece->length = length;
        piece->kind = kind;
    }
    return piece;
}

/* Gives a piece that was taken and has no bytes yet those of `bytes`, unless that is NULL, and counts it. */
static inline void sl_piece_fill(struct sl_held *held, struct sl_piece *piece, const uint8_t *bytes) {
    if (bytes)
        memcpy(piece->bytes, bytes, (size_t)piece->length);
    if (piece->kind == SL_PIECE_DATA)
        held->bytes += piece->length;
}

/* A new piece with room for `room` bytes in front of `after` (NULL: at the end). NULL when there is no memory. Its
 * bytes, and `beyond`, are left to the caller. */
static inline struct sl_piece *sl_pieces_add_block(struct sl_held *held, struct sl_pool *pool, struct sl_piece *after,
                                                   uint8_t kind, uint64_t position, uint64_t length, size_t room) {
    struct sl_piece *piece = sl_piece_take(pool, kind, position, length, room);
    if (!piece)
        return NULL;
    sl_held_begin(held, pool);
    bool indexed = held->pieces.root;
    if (!sl_ordered_add(&held->pieces, pool, &piece->node, length, after ? &after->node : NULL)) {
        sl_pool_give(pool, piece, piece->node.size);
        return NULL;
    }
    sl_pieces_count_small(held, piece, 1);
    if (!indexed && held->pieces.root)   /* the first pieces, which an index was made of */
        for (const struct sl_piece *each = sl_piece_first(held); each; each = sl_piece_next(each))
            sl_ordered_resize(&held->pieces, &each->node, each->length);
    return sl_pieces_remember(held, piece, sl_piece_from(piece));
}

/* A new piece in front of `after` (NULL: at the end), DATA filled from `bytes` unless that is NULL. NULL
 * when there is no memory. `beyond` is left to the caller. */
static inline struct sl_piece *sl_pieces_add(struct sl_held *held, struct sl_pool *pool, struct sl_piece *after,
                                             uint8_t kind, uint64_t position, uint64_t length, const uint8_t *bytes) {
    struct sl_piece *piece = sl_pieces_add_block(held, pool, after, kind, position, length, bytes ? (size_t)length : 0);
    if (piece)
        sl_piece_fill(held, piece, bytes);
    return piece;
}

/* Where [low, high) lies between two pieces and touches neither, if that is known without a look at any; see
 * sl_ordered_hole. */
static inline struct sl_hole sl_pieces_hole(const struct sl_held *held, uint64_t low, uint64_t high) {
    const bool hinted = held->hint_to != held->hint_from;
    if (hinted && low - held->hint_from < held->hint_to - held->hint_from)
        return (struct sl_hole){NULL, 0};   /* the piece after it is at hand */
    if (hinted && held->hint == sl_piece_last(held) && !sl_position_before(low, held->hint_to))
        return (struct sl_hole){NULL, 0};   /* after the last one there is no hole */
    return sl_ordered_hole(&held->pieces, low, high);
}

/* A new DATA piece of at most SL_PIECE_MOST bytes where sl_pieces_hole says that it touches none. False, with nothing done,
 * where it does not, or there is no memory. */
SL_COLD bool sl_pieces_add_apart(struct sl_held *held, struct sl_pool *pool, uint64_t position, uint64_t length,
                                 const uint8_t *bytes) {
    struct sl_hole hole = sl_pieces_hole(held, position, position + length);
    if (!hole.leaf)
        return false;
    struct sl_piece *piece = sl_piece_take(pool, SL_PIECE_DATA, position, length, bytes ? (size_t)length : 0);
    if (!piece)
        return false;
    const struct sl_index_entry *before = &hole.leaf->entries[hole.place];
    uint64_t from = before->position + before->length;
    if (!sl_ordered_add_in_hole(&held->pieces, pool, &piece->node, length, hole)) {
        sl_pool_give(pool, piece, piece->node.size);
        return false;
    }
    sl_pieces_count_small(held, piece, 1);
    if (held->beyond == sl_piece_next(piece))
        held->beyond = piece;
    sl_piece_fill(held, piece, bytes);
    sl_pieces_remember(held, piece, from);
    return true;
}

static inline void sl_pieces_remove(struct sl_held *held, struct sl_pool *pool, struct sl_piece *piece) {
    sl_ordered_remove(&held->pieces, pool, &piece->node);
    sl_pieces_count_small(held, piece, -1u);
    if (held->hint == piece)
        held->hint_to = held->hint_from;
    if (held->beyond == piece)
        held->beyond = sl_piece_next(piece);
    if (piece->kind == SL_PIECE_DATA)
        held->bytes -= piece->length;
    sl_pool_give(pool, piece, piece->node.size);
}

/* Makes one piece of a piece and the one of its kind after it, which it touches; also of their `bytes`, if they hold any.
 * NULL when there is no memory for them, and then they stay as they are. */
static inline struct sl_piece *sl_pieces_join(struct sl_held *held, struct sl_pool *pool, struct sl_piece *piece,
                                              bool bytes) {
    struct sl_piece *after = sl_piece_next(piece), *joined = piece;
    size_t size = offsetof(struct sl_piece, bytes) + (size_t)(piece->length + after->length);
    if (bytes && size > piece->node.size) {
        /* use all of the block, so that bytes that arrive one by one are not moved each time */
        size = (size_t)SL_POOL_LEAST << sl_pool_class(size);
        if (!(joined = sl_pool_take(pool, size)))
            return NULL;
        memcpy(joined, piece, offsetof(struct sl_piece, bytes) + (size_t)piece->length);
        joined->node.size = (uint32_t)size;
        sl_ordered_replace(&held->pieces, &piece->node, &joined->node);
        held->beyond = held->beyond == piece ? joined : held->beyond;
        sl_pool_give(pool, piece, piece->node.size);
    }
    if (bytes)
        memcpy(joined->bytes + joined->length, after->bytes, (size_t)after->length);
    sl_piece_resize(held, joined, joined->length + after->length);
    held->bytes += after->kind == SL_PIECE_DATA ? after->length : 0;   /* its removal subtracts them */
    sl_pieces_remove(held, pool, after);
    sl_ordered_resize(&held->pieces, &joined->node, joined->length);
    return sl_pieces_remember(held, joined, joined->node.position);
}

/* --- records --- */

static inline size_t sl_record_size(unsigned words) { return sizeof(struct sl_record) + 8 * (size_t)words; }

/* Adds a copy of `words` after the records whose position is not beyond this one. Returns false if memory runs out. */
static inline bool sl_records_add(struct sl_held *held, struct sl_pool *pool, uint64_t position,
                                  const uint64_t *words, unsigned count) {
    struct sl_record *record = sl_pool_take(pool, sl_record_size(count));
    if (!record)
        return false;
    record->node.position = position;
    record->node.size = (uint32_t)sl_record_size(count);
    if (count)
        memcpy(record->words, words, 8 * (size_t)count);
    sl_held_begin(held, pool);
    struct sl_node *last = held->records.last, *after = NULL;
    if (last && sl_position_before(position, last->position)) {
        struct sl_node *before = sl_ordered_find(&held->records, position);
        after = before ? before->next : held->records.first;
    }
    if (!sl_ordered_add(&held->records, pool, &record->node, 0, after)) {
        sl_pool_give(pool, record, record->node.size);
        return false;
    }
    return true;
}

static inline void sl_records_remove_first(struct sl_held *held, struct sl_pool *pool) {
    struct sl_node *record = held->records.first;
    sl_ordered_remove(&held->records, pool, record);
    sl_pool_give(pool, record, record->size);
}

/* --- history --- */

/* Appends delivered bytes that begin at `position`. The history has the last `keep` bytes of a contiguous run, fewer if
 * memory runs out. keep is bounded by half of the largest block. */
SL_COLD void sl_history_append(struct sl_held *held, struct sl_pool *pool, uint32_t keep, uint64_t position,
                               const uint8_t *at, uint64_t n) {
    keep = (uint32_t)sl_min(keep, SL_POOL_MOST / 2);
    if (position != held->history_end)
        held->history_used = 0;   /* after a gap or a phantom, offsets into the bytes would be wrong */
    held->history_end = position + n;
    if (n >= keep) {
        held->history_used = 0;
        at += n - keep;
        n = keep;
    }
    uint32_t added = (uint32_t)n;
    if (held->history_used + added > held->history_size) {
        /* room for twice as much, so that the bytes are moved to the front once per `keep` bytes */
        uint32_t old = (uint32_t)sl_min(held->history_used, keep - added);
        const uint8_t *from = held->history ? held->history + (held->history_used - old) : NULL;
        uint32_t most = 2 * keep;
        uint32_t size = (uint32_t)sl_min(most, sl_max(2 * (uint64_t)held->history_size, 2 * ((uint64_t)old + added)));
        uint8_t *larger = held->history_size < most ? sl_pool_take(pool, size) : NULL;
        if (larger) {
            if (held->history) {
                memcpy(larger, from, old);
                sl_pool_give(pool, held->history, held->history_size);
            }
            held->history = larger;
            held->history_size = size;
            held->history_used = old;
        } else if (old + added <= held->history_size) {
            if (old)
                memmove(held->history, from, old);
            held->history_used = old;
        } else {
            held->history_used = 0;
            if (added > held->history_size) {
                at += added - held->history_size;
                added = held->history_size;
            }
        }
    }
    if (added)
        memcpy(held->history + held->history_used, at, added);
    held->history_used += added;
}

/* The delivered bytes from `position` on, at most `n`, as far as they are in the history of the last `keep` bytes. None
 * are captured if the first one is not. */
static inline sl_bytes sl_history_find(const struct sl_held *held, uint32_t keep, uint64_t position, uint32_t n) {
    uint64_t known = sl_min(held->history_used, sl_min(keep, SL_POOL_MOST / 2));
    uint64_t back = held->history_end - position;
    if (back == 0 || back > known)
        return (sl_bytes){NULL, 0, n};
    return (sl_bytes){held->history + (held->history_used - back), (uint32_t)sl_min(n, back), n};
}

#endif
