/* The order of what isolated functions decide and publish: that of the fused chain. */
#ifndef SL_ISOLATED_ORDER_H
#define SL_ISOLATED_ORDER_H

#include "isolated/memory.h"

static inline int sl_iso_compare_places(const struct sl_iso_place *one, const struct sl_iso_place *other) {
    if (one->order != other->order)
        return one->order < other->order ? -1 : 1;
    for (uint32_t i = 0; i < one->length && i < other->length; i++)
        if (one->path[i] != other->path[i])
            return one->path[i] < other->path[i] ? -1 : 1;
    return one->length < other->length ? -1 : one->length > other->length;
}

/* Can something with this number happen at a packet? Its events have numbers after its own and before that of the next
 * one; timers that fire before it have its own. frame: from 1; 0 without a packet. current: the packet is processed. */
static inline bool sl_iso_in_packet(const struct sl_iso_slot *slot, uint32_t frame, uint64_t order, bool current) {
    if (order > slot->last || frame > slot->packets)
        return false;
    if (!frame)
        return !current;
    if (!current)
        return order == slot->frame_order[frame - 1];
    return order > slot->frame_order[frame - 1] && (frame == slot->packets || order < slot->frame_order[frame]);
}

/* Is this an entry, within `left` bytes of a log? Its size is read once, as its function may change it any time. */
static inline uint32_t sl_iso_entry_size(const struct sl_iso_entry *entry, size_t left) {
    if (left < sizeof *entry)
        return 0;
    uint32_t size = __atomic_load_n(&entry->size, __ATOMIC_RELAXED);
    return size >= sizeof *entry && size <= left && size % 8 == 0 ? size : 0;
}

#endif
