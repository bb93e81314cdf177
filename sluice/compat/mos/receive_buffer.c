#include "receive_buffer.h"

#include <stdlib.h>
#include <string.h>

/* --- memory --- */

static uint8_t *take_memory(struct mos_spare *spare, uint32_t size)
{
    if (!spare || !spare->count || spare->size != size)
        return malloc(size);
    uint8_t *bytes = spare->first;
    memcpy(&spare->first, bytes, sizeof spare->first);
    spare->count--;
    return bytes;
}

static void give_memory(struct mos_spare *spare, uint8_t *bytes, uint32_t size)
{
    if (spare && bytes && !spare->count)
        spare->size = size;
    if (!spare || !bytes || spare->size != size || size < sizeof spare->first || size > MOS_SPARE_MOST / (spare->count + 1)) {
        free(bytes);
        return;
    }
    memcpy(bytes, &spare->first, sizeof spare->first);
    spare->first = bytes;
    spare->count++;
}

void mos_spare_free(struct mos_spare *spare)
{
    while (spare->count)
        free(take_memory(spare, spare->size));
}

void mos_buffer_begin(struct mos_buffer *buffer, const struct sl_sequence *sequence, struct mos_spare *spare)
{
    *buffer = (struct mos_buffer){.spare = spare, .sequence = sequence, .fin = MOS_NO_FIN, .most = UINT64_MAX};
}

void mos_buffer_free(struct mos_buffer *buffer)
{
    give_memory(buffer->spare, buffer->bytes, buffer->size);
    mos_buffer_begin(buffer, NULL, NULL);
}

void mos_buffer_set_origin(struct mos_buffer *buffer, uint32_t number)
{
    const struct sl_sequence *sequence = buffer->sequence;
    buffer->origin = number;
    if (!sequence->based)
        return;
    buffer->origin = sequence->start + (uint64_t)(int64_t)(int32_t)(number - (uint32_t)sequence->start);
    buffer->has_begun = sequence->held || sl_position_before(buffer->origin, sequence->next);
}

/* --- received bytes --- */

/* The first extent out of order that ends after `offset`, or NULL. */
static const struct sl_piece *reach(const struct mos_buffer *buffer, uint64_t offset)
{
    return buffer->sequence->held ? sl_pieces_reach(buffer->sequence->held, buffer->origin + offset) : NULL;
}

static uint64_t begin_of(const struct mos_buffer *buffer, const struct sl_piece *extent)
{
    return extent->node.position - buffer->origin;
}

static uint64_t end_of(const struct mos_buffer *buffer, const struct sl_piece *extent)
{
    return begin_of(buffer, extent) + extent->length;
}

bool mos_buffer_knows(const struct mos_buffer *buffer, uint64_t from, uint64_t to)
{
    if (from >= to || from < mos_buffer_next(buffer))
        return from < to;
    const struct sl_piece *extent = reach(buffer, from);
    return extent && begin_of(buffer, extent) < to;
}

uint64_t mos_buffer_next_with(const struct mos_buffer *buffer, uint64_t from, uint64_t to)
{
    uint64_t next = mos_buffer_next(buffer);
    if (from > next || to <= next)
        return next;
    next = to;
    const struct sl_piece *extent = mos_buffer_extents(buffer);
    for (; extent && begin_of(buffer, extent) <= next; extent = sl_piece_next(extent))
        next = sl_max(next, end_of(buffer, extent));
    return next;
}

void mos_buffer_skip(struct mos_buffer *buffer, const struct sl_sequence_rules *rules, struct sl_pool *pool)
{
    struct sl_sequence *sequence = (struct sl_sequence *)(uintptr_t)buffer->sequence;
    struct sl_gap gap;
    while (mos_buffer_next(buffer) < sl_min(buffer->base, buffer->most) &&
           sl_sequence_skip_to(sequence, rules, pool, buffer->origin + buffer->base, &gap))
        continue;
}

uint64_t mos_buffer_farthest(const struct mos_buffer *buffer)
{
    const struct sl_piece *extent = mos_buffer_extents(buffer) ? sl_piece_last(buffer->sequence->held) : NULL;
    while (extent && extent->kind == SL_PIECE_PHANTOM)
        extent = sl_piece_previous(extent);
    return extent ? sl_max(end_of(buffer, extent), mos_buffer_next(buffer)) : mos_buffer_next(buffer);
}

/* --- bytes --- */

bool mos_buffer_resize(struct mos_buffer *buffer, uint32_t size)
{
    if (size == buffer->size)
        return true;
    uint8_t *bytes = NULL;
    uint64_t end = mos_buffer_farthest(buffer), base = buffer->base;
    if (size && buffer->bytes) {
        bytes = take_memory(buffer->spare, size);
        if (!bytes)
            return false;
        base = end > base + size ? end - size : base;
        for (uint64_t at = base; at < end; at++)
            bytes[at % size] = buffer->bytes[at % buffer->size];
    }
    give_memory(buffer->spare, buffer->bytes, buffer->size);
    buffer->bytes = bytes;
    buffer->size = size;
    buffer->base = bytes ? base : end;
    return true;
}

bool mos_buffer_reserve(struct mos_buffer *buffer)
{
    if (!buffer->bytes && buffer->size)
        buffer->bytes = take_memory(buffer->spare, buffer->size);
    return buffer->bytes;
}

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
    if (from >= to || !mos_buffer_reserve(buffer))
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
        if (piece && piece->kind == SL_PIECE_PHANTOM)
            continue;   /* the number of a FIN, whose place has bytes */
        uint64_t stop = piece ? sl_min(begin_of(buffer, piece), to) : to;
        if (at < stop)
            copy_in(buffer, at, stop, bytes + (at - from));
        if (!piece)
            break;
        at = sl_max(at, end_of(buffer, piece));
    }
}

void mos_buffer_append(struct mos_buffer *buffer, uint32_t length, const uint8_t *bytes)
{
    const uint64_t from = mos_buffer_next(buffer), to = from + length;
    buffer->base = mos_buffer_base_for(buffer, to);
    const uint64_t kept = sl_max(from, buffer->base);
    copy_in(buffer, kept, to, bytes + (kept - from));
}

uint64_t mos_buffer_there(const struct mos_buffer *buffer, uint64_t offset)
{
    if (!buffer->bytes || offset < buffer->base)
        return 0;
    if (offset < mos_buffer_next(buffer))
        return mos_buffer_next(buffer) - offset;
    const struct sl_piece *piece = reach(buffer, offset);
    return piece && begin_of(buffer, piece) <= offset ? end_of(buffer, piece) - offset : 0;
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
