/* The beginning of streams, for functions that subscribe to a flow while it runs (Microboxes, section 6: dynamic
 * subscription with buffer). A chain sets how many bytes of a side are stored.
 *
 * Bytes are stored in the order in which they were delivered, so that a new subscriber gets them in that order. Once a
 * side has more bytes than the bound, its bytes are freed: its beginning cannot be delivered any more. */
#ifndef SL_KEEP_H
#define SL_KEEP_H

#include "core/box.h"

#include <stdlib.h>

/* The bounds, and the memory that is in use; one for each worker. */
struct sl_keep {
    uint64_t used;
    uint64_t no_memory;   /* sides that were given up as `memory` was in use, or flows had too many pieces */
};

/* What is stored of a flow. */
struct sl_kept {
    uint8_t *at;                  /* pieces, one after the other */
    uint32_t used, room, last;    /* bytes; where the last piece begins */
    uint32_t bytes[2];            /* of each side */
    uint64_t next[2];             /* the offset after the last bytes of each side */
    bool lost[2];                 /* the beginning of the side is not stored any more */
    uint32_t changes;             /* see sl_iso_keep */
    uint64_t served;              /* the functions that have the stream from its beginning; in the process of the stack */
};

/* Bytes that follow each other, or that follow a gap. The captured bytes come after it. */
struct sl_kept_piece { uint64_t offset; uint32_t captured, length, side, unused; };

static inline uint32_t sl_kept_padded(uint32_t size) { return (size + 7) & ~7u; }

static inline struct sl_kept_piece *sl_kept_at(const struct sl_kept *kept, uint32_t at) {
    return (struct sl_kept_piece *)(void *)(kept->at + at);
}

/* The size of a piece with its bytes. */
static inline uint32_t sl_kept_size(const struct sl_kept_piece *piece) {
    return (uint32_t)sizeof *piece + sl_kept_padded(piece->captured);
}

static inline void sl_kept_free(struct sl_kept *kept, struct sl_keep *keep) {
    keep->used -= kept->room;
    free(kept->at);
    kept->at = NULL;
    kept->used = kept->room = 0;
}

/* Gives a side up. */
SL_COLD void sl_kept_lose(struct sl_kept *kept, struct sl_keep *keep, unsigned side) {
    uint32_t to = 0;
    kept->lost[side] = true;
    for (uint32_t from = 0, size; from < kept->used; from += size) {
        struct sl_kept_piece *piece = sl_kept_at(kept, from);
        size = sl_kept_size(piece);
        if (piece->side == side)
            continue;
        kept->last = to;
        memmove(kept->at + to, piece, size);
        to += size;
    }
    kept->used = to;
    if (!to)
        sl_kept_free(kept, keep);
}

/* Gives both up, as there is no memory. */
SL_COLD void sl_kept_refuse(struct sl_kept *kept, struct sl_keep *keep) {
    keep->no_memory += !kept->lost[0] + !kept->lost[1];
    kept->lost[0] = kept->lost[1] = true;
    sl_kept_free(kept, keep);
}

/* Makes room for `more` bytes. A flow has at most `most` bytes with the heads of its pieces, all flows have `memory`. */
SL_COLD bool sl_kept_grow(struct sl_kept *kept, struct sl_keep *keep, uint64_t more, uint64_t most, uint64_t memory) {
    uint64_t room = sl_min(most, sl_max(kept->used + more, sl_max(2 * (uint64_t)kept->room, 512)));
    if (kept->used + more > room || keep->used + (room - kept->room) > memory)
        return false;
    uint8_t *larger = realloc(kept->at, room);
    if (!larger)
        return false;
    keep->used += room - kept->room;
    kept->at = larger;
    kept->room = (uint32_t)room;
    return true;
}

/* Stores delivered bytes of a side, at most `most` of each side, and `memory` of all flows. Bytes that are stored
 * already are ignored. */
static inline void sl_kept_add(struct sl_kept *kept, struct sl_keep *keep, unsigned side, uint64_t offset,
                               sl_bytes bytes, uint32_t most, uint64_t memory) {
    if (SL_LIKELY(kept->lost[side &= 1]) || offset + bytes.length <= kept->next[side])
        return;
    kept->next[side] = offset + bytes.length;
    if (bytes.captured > most - kept->bytes[side]) {
        sl_kept_lose(kept, keep, side);
        return;
    }
    struct sl_kept_piece *last = kept->used ? sl_kept_at(kept, kept->last) : NULL;
    bool joins = last && last->side == side && last->captured == last->length && last->offset + last->length == offset;
    uint32_t before = joins ? sl_kept_padded(last->captured) : 0;
    uint32_t more = joins ? sl_kept_padded(last->captured + bytes.captured) - before
                          : (uint32_t)sizeof *last + sl_kept_padded(bytes.captured);
    if (more > kept->room - kept->used && !sl_kept_grow(kept, keep, more, 3 * (uint64_t)most + 4096, memory)) {
        sl_kept_refuse(kept, keep);
        return;
    }
    if (!joins) {
        kept->last = kept->used;
        *sl_kept_at(kept, kept->last) = (struct sl_kept_piece){.offset = offset, .side = side};
    }
    last = sl_kept_at(kept, kept->last);
    if (bytes.captured)
        memcpy((uint8_t *)(last + 1) + last->captured, bytes.at, bytes.captured);
    last->captured += bytes.captured;
    last->length += bytes.length;
    kept->used += more;
    kept->bytes[side] += bytes.captured;
}

/* What gets stored bytes. */
typedef void (*sl_kept_call)(const struct sl_event *event, uint64_t offset, sl_bytes bytes, uint64_t to);

/* Calls `call` for what is stored of the instance of `event`, as events of its stream: up to offset upto[side], unless
 * upto is NULL. Returns how many sides began, and cannot be given from their beginning. */
static inline uint32_t sl_kept_again(const struct sl_kept *kept, const struct sl_event *event, const uint64_t *upto,
                                     sl_kept_call call, uint64_t to) {
    struct sl_event again = *event;
    again.layer = event->owner;
    again.unit = (sl_bytes){NULL, 0, 0};
    for (uint32_t at = 0; at < kept->used; at += sl_kept_size(sl_kept_at(kept, at))) {
        const struct sl_kept_piece *piece = sl_kept_at(kept, at);
        sl_bytes bytes = {(const uint8_t *)(piece + 1), piece->captured, piece->length};
        uint64_t end = upto ? upto[piece->side] : UINT64_MAX;
        if (piece->offset >= end)
            continue;
        bytes.length = (uint32_t)sl_min(bytes.length, end - piece->offset);
        bytes.captured = sl_min(bytes.captured, bytes.length);
        again.side = piece->side;
        call(&again, piece->offset, bytes, to);
    }
    return (kept->lost[0] && (!upto || upto[0])) + (kept->lost[1] && (!upto || upto[1]));
}

#endif
