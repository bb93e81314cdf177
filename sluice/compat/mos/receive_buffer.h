/* The receive buffer of one end, as mOS has it: a ring over the stream, which readers consume each at its own pace.
 *
 * The sequence of the stack's TCP (stream/sequence.h) has the received ranges, whether bytes are stored or not: it holds
 * the extents of out-of-order bytes. Bytes lie in the ring by their offset in the stream; the stored range is
 * [base, base + size). Bytes that a reader has not read yet are evicted only if the caller permits it: it is an error
 * that the program may prevent (MOS_ON_ERROR), else its next read fails once. */
#ifndef MOS_RECEIVE_BUFFER_H
#define MOS_RECEIVE_BUFFER_H

#include "stream/sequence.h"

#define MOS_NO_FIN (UINT64_MAX - 1)   /* no offset, nor is the one after it */

/* Memory of buffers that ended, all of one size, for the next ones: short connections would else return it to the system,
 * and get it back page by page. Bounded by MOS_SPARE_MOST bytes. */
struct mos_spare { uint8_t *first; uint32_t size, count; };
enum { MOS_SPARE_MOST = 4 << 20 };

void mos_spare_free(struct mos_spare *spare);

struct mos_buffer {
    struct mos_spare *spare; /* where its memory comes from; or NULL */
    uint8_t *bytes;          /* NULL until there is something to keep */
    uint32_t size;           /* 0: none are stored */
    bool last;               /* of overlapping bytes the last copy stays, else the first */
    uint64_t base;
    const struct sl_sequence *sequence;   /* of the other end's side */
    uint64_t origin;         /* the position of byte 0 in it */
    uint64_t fin;            /* the place of a FIN, which has a number and is no byte; or MOS_NO_FIN */
    uint64_t most;           /* nothing after it has been in order; UINT64_MAX: not known */
    bool has_begun;          /* there are bytes, so `origin` stays */
};

/* The read position of one program. */
struct mos_reader { uint64_t read, lost; };

void mos_buffer_begin(struct mos_buffer *buffer, const struct sl_sequence *sequence, struct mos_spare *spare);
void mos_buffer_free(struct mos_buffer *buffer);

/* Byte 0 has this number, unless there are bytes of the stream. */
void mos_buffer_set_origin(struct mos_buffer *buffer, uint32_t number);
static inline void mos_buffer_begins_at(struct mos_buffer *buffer, uint32_t number) {
    if (SL_UNLIKELY(!buffer->has_begun))
        mos_buffer_set_origin(buffer, number);
}

/* The offset of a number near `next`: before the stream's beginning it is negative. */
static inline int64_t mos_buffer_offset(const struct mos_buffer *buffer, uint32_t number) {
    const uint64_t next = buffer->sequence->based ? buffer->sequence->next : buffer->origin;
    return (int64_t)(next - buffer->origin) + (int32_t)(number - (uint32_t)next);
}

/* Sets another size; keeps the newest bytes that fit. False without memory: it is unchanged. */
bool mos_buffer_resize(struct mos_buffer *buffer, uint32_t size);

/* Memory for its size; false where there is none. */
bool mos_buffer_reserve(struct mos_buffer *buffer);

/* Everything before it was received or skipped. */
static inline uint64_t mos_buffer_next(const struct mos_buffer *buffer) {
    const int64_t units = buffer->sequence->based ? (int64_t)(buffer->sequence->next - buffer->origin) : 0;
    const uint64_t next = units > 0 ? (uint64_t)units : 0;
    return sl_min(next - (next == buffer->fin + 1), buffer->most);
}

/* Does [from, to) have bytes that were received before? Extents that only touch it do not count. */
bool mos_buffer_knows(const struct mos_buffer *buffer, uint64_t from, uint64_t to);

/* The next expected offset once [from, to) was received. */
uint64_t mos_buffer_next_with(const struct mos_buffer *buffer, uint64_t from, uint64_t to);

/* The lowest offset that can be stored along with the byte before `end`. */
static inline uint64_t mos_buffer_base_for(const struct mos_buffer *buffer, uint64_t end) {
    return end > buffer->base + buffer->size ? end - buffer->size : buffer->base;
}

/* Stores the bytes of [from, to): where some are known, the copy by the policy. Bytes before the lowest offset
 * that is stored then are dropped. The received ranges, in the sequence, do not change. Its memory was reserved. */
void mos_buffer_keep(struct mos_buffer *buffer, uint64_t from, uint64_t to, const uint8_t *bytes);

/* The same for the next bytes, where nothing is out of order. */
void mos_buffer_append(struct mos_buffer *buffer, uint32_t length, const uint8_t *bytes);

/* Holes before the lowest stored offset are skipped: bytes to fill them cannot be stored. */
void mos_buffer_skip(struct mos_buffer *buffer, const struct sl_sequence_rules *rules, struct sl_pool *pool);

/* How many bytes from `offset` on are there one after the other, and may be copied. */
uint64_t mos_buffer_there(const struct mos_buffer *buffer, uint64_t offset);
void mos_buffer_copy_out(const struct mos_buffer *buffer, uint64_t offset, uint64_t count, uint8_t *to);

/* The extents out of order, in ascending order: the first, or NULL; sl_piece_next gives the next. */
static inline const struct sl_piece *mos_buffer_extents(const struct mos_buffer *buffer) {
    return buffer->sequence->held ? buffer->sequence->held->beyond : NULL;
}

/* After the last byte received. */
uint64_t mos_buffer_farthest(const struct mos_buffer *buffer);

/* --- readers --- */

/* Bytes that a reader has not read and would lose if the stored range began at `base`. */
static inline uint64_t mos_reader_loses(const struct mos_reader *reader, uint64_t base) {
    return reader->read < base ? base - reader->read : 0;
}

/* The stored range begins at `base` now; `wanted` loses the bytes that it has not read. */
static inline void mos_reader_follow(struct mos_reader *reader, uint64_t base, bool wanted) {
    uint64_t unread = mos_reader_loses(reader, base);
    reader->lost += wanted ? unread : 0;
    reader->read += unread;
}

#endif
