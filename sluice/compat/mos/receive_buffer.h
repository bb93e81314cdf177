/* The receive buffer of one end, as mOS has it: a ring over the stream, which readers consume each at its own pace.
 *
 * What was received is known by a sequence of the runtime's (stream/sequence.h), whether bytes are kept or not: it holds the
 * extents of what is out of order, in a pool of the context's. Bytes lie in the ring by their offset in the stream; what is
 * kept is [base, base + size). Bytes that a reader has not read yet give way only when the caller says so: it is an error
 * that the program may prevent (MOS_ON_ERROR), else its next read fails once. */
#ifndef MOS_RECEIVE_BUFFER_H
#define MOS_RECEIVE_BUFFER_H

#include "stream/sequence.h"

/* Extents out of order at most; beyond them the first hole is given up. */
enum { MOS_EXTENTS = 256 };

struct mos_buffer {
    uint8_t *bytes;          /* NULL until there is something to keep */
    uint32_t size;           /* 0: none are kept */
    bool last;               /* of overlapping bytes the last copy stays, else the first */
    uint64_t base;
    uint64_t farthest;       /* after the last byte received */
    struct sl_sequence sequence;   /* its positions are offsets */
};

/* What one program has read of it. */
struct mos_reader { uint64_t read, lost; };

void mos_buffer_begin(struct mos_buffer *buffer);
void mos_buffer_free(struct mos_buffer *buffer, struct sl_pool *pool);

/* Another size; of what is kept as much as fits, the newest. Without memory it stays as it was. */
void mos_buffer_resize(struct mos_buffer *buffer, uint32_t size);

/* Everything before it was received or given up. */
static inline uint64_t mos_buffer_next(const struct mos_buffer *buffer) { return buffer->sequence.next; }

/* Does [from, to) have bytes that were received before? Extents that only touch it do not count. */
bool mos_buffer_knows(const struct mos_buffer *buffer, uint64_t from, uint64_t to);

/* What would be next expected once [from, to) was received. */
uint64_t mos_buffer_next_with(const struct mos_buffer *buffer, uint64_t from, uint64_t to);

/* The lowest offset that can be kept along with the byte before `end`. */
static inline uint64_t mos_buffer_base_for(const struct mos_buffer *buffer, uint64_t end) {
    return end > buffer->base + buffer->size ? end - buffer->size : buffer->base;
}

/* Keeps the bytes of [from, to): where some are known the copy that the policy says. What lies before the lowest offset
 * that is kept then is forgotten. What was received does not change; see mos_buffer_note. */
void mos_buffer_keep(struct mos_buffer *buffer, uint64_t from, uint64_t to, const uint8_t *bytes);

/* [from, to) was received. Where there is no memory, or there are too many extents, holes are given up. */
void mos_buffer_note(struct mos_buffer *buffer, struct sl_pool *pool, uint64_t from, uint64_t to);

/* How many bytes from `offset` on are there one after the other, and may be copied. */
uint64_t mos_buffer_there(const struct mos_buffer *buffer, uint64_t offset);
void mos_buffer_copy_out(const struct mos_buffer *buffer, uint64_t offset, uint64_t count, uint8_t *to);

/* The extents out of order, in ascending order: the first, or NULL; sl_piece_next gives the next. */
static inline const struct sl_piece *mos_buffer_extents(const struct mos_buffer *buffer) {
    return buffer->sequence.held ? sl_piece_first(buffer->sequence.held) : NULL;
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
