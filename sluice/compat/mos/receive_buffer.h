/* The receive buffer of one end, as mOS has it: a ring over the stream, which readers consume each at its own pace.
 *
 * What was received is known as ranges whether bytes are kept or not. Bytes of the stream lie in the ring by their offset;
 * what is kept is [base, base + size). Bytes that somebody has not read yet give way only when the caller says so: it is an
 * error that the program may prevent (MOS_ON_ERROR), else its next read fails once. */
#ifndef MOS_RECEIVE_BUFFER_H
#define MOS_RECEIVE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Ranges out of order at most; beyond them the first hole is given up. */
enum { MOS_RANGES = 256 };

struct mos_range { uint64_t from, to; };

struct mos_buffer {
    uint8_t *bytes;          /* NULL until there is something to keep */
    uint32_t size;           /* 0: none are kept */
    bool last;               /* of overlapping bytes the last copy stays, else the first */
    uint64_t base;
    uint64_t next;           /* everything before it was received or given up */
    uint64_t farthest;       /* behind the last byte received */
    struct mos_range *ranges;   /* beyond next, ascending, neither overlapping nor touching */
    unsigned count, room;
};

/* What one program has read of it. */
struct mos_reader { uint64_t read, lost; };

static inline void mos_buffer_free(struct mos_buffer *buffer) {
    free(buffer->bytes);
    free(buffer->ranges);
    *buffer = (struct mos_buffer){0};
}

/* Does [from, to) have bytes that were received before? Ranges that only touch it do not count. */
static inline bool mos_buffer_knows(const struct mos_buffer *buffer, uint64_t from, uint64_t to) {
    if (from < to && from < buffer->next)
        return true;
    for (unsigned i = 0; i < buffer->count; i++)
        if (from < buffer->ranges[i].to && buffer->ranges[i].from < to)
            return true;
    return false;
}

/* What would be next expected once [from, to) was received. */
static inline uint64_t mos_buffer_next_with(const struct mos_buffer *buffer, uint64_t from, uint64_t to) {
    if (from > buffer->next || to <= buffer->next)
        return buffer->next;
    uint64_t next = to;
    for (unsigned i = 0; i < buffer->count && buffer->ranges[i].from <= next; i++)
        next = buffer->ranges[i].to > next ? buffer->ranges[i].to : next;
    return next;
}

static inline void mos_buffer_drop_ranges(struct mos_buffer *buffer, unsigned count) {
    memmove(buffer->ranges, buffer->ranges + count, (buffer->count - count) * sizeof *buffer->ranges);
    buffer->count -= count;
}

/* Everything before `offset` was received or is given up. */
static inline void mos_buffer_skip_to(struct mos_buffer *buffer, uint64_t offset) {
    if (offset > buffer->next)
        buffer->next = offset;
    unsigned count = 0;
    for (; count < buffer->count && buffer->ranges[count].from <= buffer->next; count++)
        if (buffer->ranges[count].to > buffer->next)
            buffer->next = buffer->ranges[count].to;
    if (count)
        mos_buffer_drop_ranges(buffer, count);
}

/* [from, to) was received. */
static inline void mos_buffer_note(struct mos_buffer *buffer, uint64_t from, uint64_t to) {
    if (from >= to || to <= buffer->next)
        return;
    if (to > buffer->farthest)
        buffer->farthest = to;
    if (from <= buffer->next) {
        mos_buffer_skip_to(buffer, to);
        return;
    }
    unsigned first = 0;
    while (first < buffer->count && buffer->ranges[first].to < from)
        first++;
    unsigned behind = first;   /* those from first on that it overlaps or touches become one with it */
    for (; behind < buffer->count && buffer->ranges[behind].from <= to; behind++) {
        from = buffer->ranges[behind].from < from ? buffer->ranges[behind].from : from;
        to = buffer->ranges[behind].to > to ? buffer->ranges[behind].to : to;
    }
    if (behind == first) {
        if (buffer->count == MOS_RANGES) {
            if (buffer->base < buffer->ranges[0].from)
                buffer->base = buffer->ranges[0].from;   /* what lies before it has a hole */
            mos_buffer_skip_to(buffer, buffer->ranges[0].from);
            mos_buffer_note(buffer, from, to);
            return;
        }
        if (buffer->count == buffer->room) {
            unsigned room = buffer->room ? 2 * buffer->room : 4;
            struct mos_range *ranges = realloc(buffer->ranges, room * sizeof *ranges);
            if (!ranges)
                return;
            buffer->ranges = ranges;
            buffer->room = room;
        }
        memmove(buffer->ranges + first + 1, buffer->ranges + first, (buffer->count - first) * sizeof *buffer->ranges);
        buffer->count++;
    } else {
        memmove(buffer->ranges + first + 1, buffer->ranges + behind, (buffer->count - behind) * sizeof *buffer->ranges);
        buffer->count -= behind - first - 1;
    }
    buffer->ranges[first] = (struct mos_range){from, to};
}

/* The lowest offset that can be kept along with the byte before `end`. */
static inline uint64_t mos_buffer_base_for(const struct mos_buffer *buffer, uint64_t end) {
    return end > buffer->base + buffer->size ? end - buffer->size : buffer->base;
}

static inline void mos_buffer_copy_in(struct mos_buffer *buffer, uint64_t from, uint64_t to, const uint8_t *bytes) {
    while (from < to) {
        uint32_t place = (uint32_t)(from % buffer->size);
        uint64_t here = to - from < buffer->size - place ? to - from : buffer->size - place;
        memcpy(buffer->bytes + place, bytes, here);
        from += here;
        bytes += here;
    }
}

/* Keeps the bytes of [from, to): where some are known the copy that the policy says. What lies before the lowest offset
 * that is kept then is forgotten. The ranges do not change; see mos_buffer_note. */
static inline void mos_buffer_keep(struct mos_buffer *buffer, uint64_t from, uint64_t to, const uint8_t *bytes) {
    if (!buffer->size || from >= to)
        return;
    if (!buffer->bytes && !(buffer->bytes = malloc(buffer->size)))
        return;
    buffer->base = mos_buffer_base_for(buffer, to);
    if (from < buffer->base) {
        if (to <= buffer->base)
            return;
        bytes += buffer->base - from;
        from = buffer->base;
    }
    if (buffer->last) {
        mos_buffer_copy_in(buffer, from, to, bytes);
        return;
    }
    uint64_t at = from < buffer->next ? (to < buffer->next ? to : buffer->next) : from;
    for (unsigned i = 0; at < to; i++) {
        uint64_t stop = i < buffer->count && buffer->ranges[i].from < to ? buffer->ranges[i].from : to;
        if (at < stop)
            mos_buffer_copy_in(buffer, at, stop, bytes + (at - from));
        if (i >= buffer->count)
            break;
        at = buffer->ranges[i].to > at ? buffer->ranges[i].to : at;
    }
}

/* How many bytes from `offset` on are there one behind the other, and may be copied. */
static inline uint64_t mos_buffer_there(const struct mos_buffer *buffer, uint64_t offset) {
    if (!buffer->bytes || offset < buffer->base)
        return 0;
    if (offset < buffer->next)
        return buffer->next - offset;
    for (unsigned i = 0; i < buffer->count; i++)
        if (buffer->ranges[i].from <= offset && offset < buffer->ranges[i].to)
            return buffer->ranges[i].to - offset;
    return 0;
}

static inline void mos_buffer_copy_out(const struct mos_buffer *buffer, uint64_t offset, uint64_t count, uint8_t *to) {
    while (count) {
        uint32_t place = (uint32_t)(offset % buffer->size);
        uint64_t here = count < buffer->size - place ? count : buffer->size - place;
        memcpy(to, buffer->bytes + place, here);
        offset += here;
        to += here;
        count -= here;
    }
}

/* Another size; of what is kept as much as fits, the newest. False without memory: then it is as it was. */
static inline bool mos_buffer_resize(struct mos_buffer *buffer, uint32_t size) {
    if (size == buffer->size)
        return true;
    uint8_t *bytes = NULL;
    uint64_t end = buffer->farthest, base = buffer->base;
    if (size && buffer->bytes) {
        bytes = malloc(size);
        if (!bytes)
            return false;
        if (end > base + size)
            base = end - size;
        for (uint64_t at = base; at < end; at++)
            bytes[at % size] = buffer->bytes[at % buffer->size];
    }
    free(buffer->bytes);
    buffer->bytes = bytes;
    buffer->size = size;
    buffer->base = bytes ? base : end;
    return true;
}

/* --- readers --- */

/* Bytes that a reader has not read and would lose if what is kept began at `base`. */
static inline uint64_t mos_reader_loses(const struct mos_reader *reader, uint64_t base) {
    return reader->read < base ? base - reader->read : 0;
}

/* What is kept begins at `base` now; `wanted`: what it has not read by then is lost to it. */
static inline void mos_reader_follow(struct mos_reader *reader, uint64_t base, bool wanted) {
    uint64_t unread = mos_reader_loses(reader, base);
    reader->lost += wanted ? unread : 0;
    reader->read += unread;
}

#endif
