#include "receive_buffer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Extents only: bytes lie in the ring. */
static const struct sl_sequence_rules rules = {.width = 64, .linear = true, .policy = SL_POLICY_FIRST};

void mos_buffer_begin(struct mos_buffer *buffer)
{
    *buffer = (struct mos_buffer){0};
    sl_sequence_reset(&buffer->sequence, &rules);
}

void mos_buffer_free(struct mos_buffer *buffer, struct sl_pool *pool)
{
    free(buffer->bytes);
    sl_sequence_clear(&buffer->sequence, &rules, pool);
    mos_buffer_begin(buffer);
}

void mos_buffer_resize(struct mos_buffer *buffer, uint32_t size)
{
    if (size == buffer->size)
        return;
    uint8_t *bytes = NULL;
    uint64_t end = buffer->farthest, base = buffer->base;
    if (size && buffer->bytes) {
        bytes = malloc(size);
        if (!bytes)
            return;
        base = end > base + size ? end - size : base;
        for (uint64_t at = base; at < end; at++)
            bytes[at % size] = buffer->bytes[at % buffer->size];
    }
    free(buffer->bytes);
    buffer->bytes = bytes;
    buffer->size = size;
    buffer->base = bytes ? base : end;
}

/* --- what was received --- */

/* The first extent out of order that ends after `offset`, or NULL. */
static const struct sl_piece *reach(const struct mos_buffer *buffer, uint64_t offset)
{
    return buffer->sequence.held ? sl_pieces_reach(buffer->sequence.held, offset) : NULL;
}

bool mos_buffer_knows(const struct mos_buffer *buffer, uint64_t from, uint64_t to)
{
    if (from >= to || from < mos_buffer_next(buffer))
        return from < to;
    const struct sl_piece *piece = reach(buffer, from);
    return piece && piece->node.position < to;
}

uint64_t mos_buffer_next_with(const struct mos_buffer *buffer, uint64_t from, uint64_t to)
{
    uint64_t next = mos_buffer_next(buffer);
    if (from > next || to <= next)
        return next;
    next = to;
    const struct sl_piece *piece = mos_buffer_extents(buffer);
    for (; piece && piece->node.position <= next; piece = sl_piece_next(piece))
        next = sl_max(next, piece->node.position + piece->length);
    return next;
}

/* Everything before `offset` was received or is given up, or before the first extent that lies before it. */
static void skip_to(struct mos_buffer *buffer, struct sl_pool *pool, uint64_t offset)
{
    struct sl_gap gap;
    while (mos_buffer_next(buffer) < offset && sl_sequence_skip_to(&buffer->sequence, &rules, pool, offset, &gap))
        continue;
}

/* Its first hole is given up, and what lies before that, as a stream with a hole cannot be read. */
static void give_up(struct mos_buffer *buffer, struct sl_pool *pool)
{
    const struct sl_piece *first = mos_buffer_extents(buffer);
    if (!first)
        return;
    buffer->base = sl_max(buffer->base, first->node.position);
    skip_to(buffer, pool, first->node.position);
}

/* Of all that hold extents the one that does so for the longest time gives up all its holes. False where none does. */
static bool relieve(struct sl_pool *pool)
{
    struct sl_holder *oldest = pool->oldest;
    if (!oldest)
        return false;
    struct sl_sequence *sequence = SL_HOLDER_OF(oldest, struct sl_held)->owner;
    struct mos_buffer *buffer = (struct mos_buffer *)(void *)((char *)sequence - offsetof(struct mos_buffer, sequence));
    while (mos_buffer_extents(buffer))
        give_up(buffer, pool);
    sl_sequence_release_all(sequence, pool);
    return true;
}

void mos_buffer_note(struct mos_buffer *buffer, struct sl_pool *pool, uint64_t from, uint64_t to)
{
    struct sl_sequence *sequence = &buffer->sequence;
    if (from < to && to > mos_buffer_next(buffer)) {
        buffer->farthest = sl_max(buffer->farthest, to);
        while (from > sequence->next && sequence->held && sequence->held->pieces.count >= MOS_EXTENTS)
            give_up(buffer, pool);
        const uint64_t length = to - from;
        const sl_bytes extent = {NULL, (uint32_t)length, (uint32_t)length};
        struct sl_packet_data direct = {0};
        bool noted = sl_sequence_insert(sequence, &rules, pool, &direct, from, extent, length);
        while (!noted && relieve(pool))
            noted = sl_sequence_insert(sequence, &rules, pool, &direct, from, extent, length);
        if (!noted) {
            buffer->base = sl_max(buffer->base, from);
            skip_to(buffer, pool, to);
        }
    }
    if (buffer->size)
        skip_to(buffer, pool, buffer->base);
}

/* --- bytes --- */

static void copy_in(struct mos_buffer *buffer, uint64_t from, uint64_t to, const uint8_t *bytes)
{
    while (from < to) {
        uint32_t place = (uint32_t)(from % buffer->size);
        uint64_t part = sl_min(to - from, buffer->size - place);
        memcpy(buffer->bytes + place, bytes, part);
        from += part;
        bytes += part;
    }
}

void mos_buffer_keep(struct mos_buffer *buffer, uint64_t from, uint64_t to, const uint8_t *bytes)
{
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
        copy_in(buffer, from, to, bytes);
        return;
    }
    uint64_t at = sl_max(from, sl_min(to, mos_buffer_next(buffer)));
    for (const struct sl_piece *piece = reach(buffer, at); at < to; piece = sl_piece_next(piece)) {
        uint64_t stop = piece ? sl_min(piece->node.position, to) : to;
        if (at < stop)
            copy_in(buffer, at, stop, bytes + (at - from));
        if (!piece)
            break;
        at = sl_max(at, piece->node.position + piece->length);
    }
}

uint64_t mos_buffer_there(const struct mos_buffer *buffer, uint64_t offset)
{
    if (!buffer->bytes || offset < buffer->base)
        return 0;
    if (offset < mos_buffer_next(buffer))
        return mos_buffer_next(buffer) - offset;
    const struct sl_piece *piece = reach(buffer, offset);
    return piece && piece->node.position <= offset ? piece->node.position + piece->length - offset : 0;
}

void mos_buffer_copy_out(const struct mos_buffer *buffer, uint64_t offset, uint64_t count, uint8_t *to)
{
    while (count) {
        uint32_t place = (uint32_t)(offset % buffer->size);
        uint64_t part = sl_min(count, buffer->size - place);
        memcpy(to, buffer->bytes + place, part);
        offset += part;
        to += part;
        count -= part;
    }
}
