/* The edits of one side of a TCP connection: which bytes of its stream are replaced by others, and where the numbers of
 * the stream as it was sent (input) are in the stream as the receiver gets it (output).
 *
 * A position is a sequence number without wrapping: its low 32 bits are the number. An edit replaces the input bytes
 * [at, at + length) by `now` bytes. All of its output belongs to byte `at`: the other bytes of the edit have none. So any
 * division of the input into segments, as of retransmissions, gives the same bytes at the same places of the output. An
 * edit that does not change the length assigns each byte to its own, so that it leaves the sizes of segments alone.
 *
 * Edits whose output the receiver has acknowledged are folded: only the sum of their changes is stored. */
#ifndef SL_EDIT_MAP_H
#define SL_EDIT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SL_EDITS_MOST = 1 << 16 };                       /* edits of a side that are not acknowledged */
static const uint64_t sl_edit_bytes_most = 16 << 20;    /* bytes of these */

struct sl_edit {
    uint64_t at;
    int64_t shift;     /* output position of `at`, minus `at` */
    uint32_t length, now;
    uint8_t *bytes;    /* `now` of them; allocated */
};

struct sl_edit_map {
    struct sl_edit *edit;
    uint32_t first, count, room;   /* the edits are those at first to count - 1; those before are folded, and free */
    uint64_t folded;               /* positions up to this one have `shift` */
    int64_t shift;
    uint64_t bytes;                /* of all edits */
};

static inline uint64_t sl_edit_end(const struct sl_edit *edit) { return edit->at + edit->length; }
static inline uint64_t sl_edit_out_at(const struct sl_edit *edit) { return edit->at + (uint64_t)edit->shift; }
static inline uint64_t sl_edit_out_end(const struct sl_edit *edit) { return sl_edit_out_at(edit) + edit->now; }
static inline int64_t sl_edit_shift_after(const struct sl_edit *edit) {
    return edit->shift + (int64_t)edit->now - (int64_t)edit->length;
}

/* Bytes of memory that it takes; an allocation costs some more than it has room for. */
static inline uint64_t sl_edit_map_held(const struct sl_edit_map *map) {
    return map->bytes + map->room * sizeof *map->edit + (uint64_t)(map->count - map->first) * 32;
}

/* Does the map change neither numbers nor bytes? */
static inline bool sl_edit_map_is_identity(const struct sl_edit_map *map) { return map->first == map->count && !map->shift; }

/* The index of the first edit with at >= position, or, with `out`, with an output that begins at or after it. */
static inline uint32_t sl_edit_find(const struct sl_edit_map *map, uint64_t position, bool out) {
    uint32_t lo = map->first, hi = map->count;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        const struct sl_edit *edit = &map->edit[middle];
        if ((out ? sl_edit_out_at(edit) : edit->at) < position)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* The output position of an input position: within an edit, the end of its output. */
static inline uint64_t sl_edit_out(const struct sl_edit_map *map, uint64_t position) {
    uint32_t i = sl_edit_find(map, position, false);   /* the edit before it is the last that begins before position */
    if (i == map->first)
        return position + (uint64_t)map->shift;
    const struct sl_edit *edit = &map->edit[i - 1];
    if (position >= sl_edit_end(edit))
        return position + (uint64_t)sl_edit_shift_after(edit);
    return edit->length == edit->now ? position + (uint64_t)edit->shift : sl_edit_out_end(edit);
}

/* The last input position whose output position is at most this one: what an acknowledgement of it acknowledges. */
static inline uint64_t sl_edit_in(const struct sl_edit_map *map, uint64_t position) {
    uint32_t i = sl_edit_find(map, position + 1, true);   /* the edit before it is the last that begins up to position */
    if (i == map->first)
        return position - (uint64_t)map->shift;
    const struct sl_edit *edit = &map->edit[i - 1];
    if (position >= sl_edit_out_end(edit))
        return position - (uint64_t)sl_edit_shift_after(edit);
    return edit->length == edit->now ? position - (uint64_t)edit->shift : edit->at;
}

/* The first input position whose output position is at least this one: the beginning of a block that was received
 * (RFC 2018). */
static inline uint64_t sl_edit_in_from(const struct sl_edit_map *map, uint64_t position) {
    uint32_t i = sl_edit_find(map, position, true);   /* the edit before it is the last that begins before position */
    if (i == map->first)
        return position - (uint64_t)map->shift;
    const struct sl_edit *edit = &map->edit[i - 1];
    if (position > sl_edit_out_end(edit))
        return position - (uint64_t)sl_edit_shift_after(edit);
    return edit->length == edit->now ? position - (uint64_t)edit->shift : edit->at + 1;
}

/* The output of the input bytes [from, from + count), appended at `out`, which has room for sl_edit_out(from + count) -
 * sl_edit_out(from) bytes. from >= map->folded. Returns the end of the output. */
static inline uint8_t *sl_edit_apply(const struct sl_edit_map *map, uint64_t from, const uint8_t *bytes, uint64_t count,
                                     uint8_t *out) {
    const uint64_t end = from + count;
    uint32_t i = sl_edit_find(map, from, false);
    if (i > map->first && sl_edit_end(&map->edit[i - 1]) > from)
        i--;   /* it begins within this edit */
    for (uint64_t at = from; at < end;) {
        const struct sl_edit *edit = i < map->count ? &map->edit[i++] : NULL;
        uint64_t begin = edit && edit->at < end ? edit->at : end;
        if (begin > at) {
            memcpy(out, bytes + (at - from), (size_t)(begin - at));
            out += begin - at;
            at = begin;
        }
        if (!edit || at >= end)
            break;
        uint64_t stop = sl_edit_end(edit) < end ? sl_edit_end(edit) : end;
        if (edit->length == edit->now) {
            memcpy(out, edit->bytes + (at - edit->at), (size_t)(stop - at));
            out += stop - at;
        } else if (at == edit->at && edit->now) {
            memcpy(out, edit->bytes, edit->now);
            out += edit->now;
        }
        at = stop;
    }
    return out;
}

/* Adds an edit after all others. Edits that begin at or after `at` are removed, so their output must not have been sent.
 * False, and nothing changes, at a bound or without memory; length must not be 0. */
static inline bool sl_edit_add(struct sl_edit_map *map, uint64_t at, uint32_t length, const void *bytes, uint32_t now) {
    uint32_t count = sl_edit_find(map, at, false);
    if (!length || at < map->folded || count - map->first >= SL_EDITS_MOST || map->bytes + now > sl_edit_bytes_most)
        return false;
    if (count > map->first && sl_edit_end(&map->edit[count - 1]) > at)
        return false;
    if (map->first && map->first >= count - map->first) {   /* the free ones are at least half of all */
        memmove(map->edit, map->edit + map->first, (map->count - map->first) * sizeof *map->edit);
        map->count -= map->first;
        count -= map->first;
        map->first = 0;
    }
    if (count == map->room) {
        uint32_t room = map->room ? 2 * map->room : 8;
        struct sl_edit *larger = realloc(map->edit, room * sizeof *larger);
        if (!larger)
            return false;
        map->edit = larger;
        map->room = room;
    }
    uint8_t *copy = malloc(now ? now : 1);
    if (!copy)
        return false;
    if (now)
        memcpy(copy, bytes, now);
    while (map->count > count) {
        map->bytes -= map->edit[--map->count].now;
        free(map->edit[map->count].bytes);
    }
    int64_t shift = count > map->first ? sl_edit_shift_after(&map->edit[count - 1]) : map->shift;
    map->edit[map->count++] = (struct sl_edit){at, shift, length, now, copy};
    map->bytes += now;
    return true;
}

/* The receiver has acknowledged the output up to this position: folds the edits before it. */
static inline void sl_edit_fold(struct sl_edit_map *map, uint64_t acknowledged) {
    while (map->first < map->count && sl_edit_out_end(&map->edit[map->first]) <= acknowledged) {
        struct sl_edit *edit = &map->edit[map->first++];
        map->folded = sl_edit_end(edit);
        map->shift = sl_edit_shift_after(edit);
        map->bytes -= edit->now;
        free(edit->bytes);
    }
    if (map->first == map->count)
        map->first = map->count = 0;
    if (!map->count && map->room > 1024) {   /* after many edits */
        free(map->edit);
        map->edit = NULL;
        map->room = 0;
    }
}

static inline void sl_edit_map_close(struct sl_edit_map *map) {
    while (map->first < map->count)
        free(map->edit[map->first++].bytes);
    free(map->edit);
    *map = (struct sl_edit_map){0};
}

#endif
