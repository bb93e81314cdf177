/* Reads bytes of a stream without removing them: bytes that wait for earlier ones, and delivered bytes that SLUICE_KEEP
 * stores. */
#ifndef SL_PEEK_H
#define SL_PEEK_H

#include "function/control.h"

/* The state of one side's stream. */
struct sl_stream_view {
    uint64_t delivered;   /* stream offset up to which all bytes were delivered or given up */
    uint64_t held;        /* bytes beyond this offset, which wait */
    uint32_t pieces;      /* pieces that they are in; adjacent pieces need not be joined */
};

static inline struct sl_sequence *sl_event_sequence(const struct sl_event *event, unsigned side) {
    const struct sl_layer_info *owner = event->owner;
    if (!event->instance || side >= owner->sides || !owner->rules || owner->rules->whole)
        return NULL;
    return (struct sl_sequence *)(void *)((char *)event->instance + owner->sequence_offset) + side;
}

/* Are the bytes of a side stored, and not only their extents? */
static inline bool sl_event_buffers(const struct sl_event *event, unsigned side) {
    const struct sl_control *control = sl_event_control(event);
    return event->owner->rules->buffer_data && (!control || control->buffer_data[side]);
}

/* The state of a stream; all zero for an instance without streams of bytes. */
static inline struct sl_stream_view sl_view(const struct sl_event *event, unsigned side) {
    const struct sl_sequence *seq = sl_event_sequence(event, side);
    if (!seq)
        return (struct sl_stream_view){0, 0, 0};
    uint64_t delivered = sl_sequence_offset(seq, seq->delivered);
    if (!seq->held)
        return (struct sl_stream_view){delivered, 0, 0};
    return (struct sl_stream_view){delivered, sl_event_buffers(event, side) ? seq->held->bytes : 0, seq->held->pieces.count};
}

/* Copies at most `size` bytes of one side's stream from `offset` on, without removing them. Returns their number, up to
 * the first byte that is missing or no longer stored. Bytes that the current event delivers are in the event, not
 * here. */
static inline uint32_t sl_peek(const struct sl_event *event, unsigned side, uint64_t offset, void *to, uint32_t size) {
    struct sl_sequence *seq = sl_event_sequence(event, side);
    if (!seq || !seq->held || !sl_event_buffers(event, side))
        return 0;
    struct sl_held *held = seq->held;
    uint64_t delivered = sl_sequence_offset(seq, seq->delivered);
    uint32_t copied = 0;
    if (offset < delivered) {
        uint64_t position = seq->start + offset + (seq->skipped - seq->trailing);
        sl_bytes old = sl_history_find(held, event->owner->rules->history, position,
                                       (uint32_t)sl_min(size, delivered - offset));
        if (!old.captured || old.captured > size)
            return 0;
        memcpy(to, old.at, old.captured);
        copied = old.captured;
    }
    while (copied < size && offset + copied >= delivered) {
        uint64_t position = seq->start + seq->skipped + offset + copied;
        struct sl_piece *piece = sl_pieces_reach(held, position);
        if (!piece || piece->kind != SL_PIECE_DATA || sl_position_before(position, piece->node.position))
            break;
        uint64_t into = position - piece->node.position, n = sl_min(piece->length - into, size - copied);
        memcpy((uint8_t *)to + copied, piece->bytes + into, (size_t)n);
        copied += (uint32_t)n;
    }
    return copied;
}

#endif
