/* Which part of the traffic an event belongs to, and so which instance of a function handles it.
 *
 * CHC, 3.3.1: traffic is divided by the header fields that key the function's objects, so that most objects are those of
 * one instance. A vertex has the fields; without any, the part is that of the flow as a whole. The stack, which sends
 * events, and an instance, which names its objects, must agree. */
#ifndef SL_ISOLATED_ROUTE_H
#define SL_ISOLATED_ROUTE_H

#include "function/shared_text.h"
#include "isolated/memory.h"

static inline uint64_t sl_iso_mix(uint64_t hash, uint64_t word) {
    return sl_fold(hash ^ word, UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 1);
}

/* The part of an event's flow; -1 if its instance is no flow, or has not these fields. */
static inline int32_t sl_iso_part_of(const struct sl_event *event, const struct sl_iso_vertex *vertex, uint64_t seed) {
    const struct sl_layer_info *owner = event->owner;
    uint64_t hash = seed;
    if (!event->instance || !owner->oriented)
        return -1;
    if (!vertex->fields) {   /* the same for both directions */
        hash = 0;
        for (unsigned side = 0; side < 2; side++) {
            uint64_t of = seed;
            const uint64_t *half = sl_event_half(event, side);
            for (uint32_t i = 0; i < owner->half_words; i++)
                of = sl_iso_mix(of, half[i]);
            hash += of;
        }
        return (int32_t)(sl_iso_mix(seed, hash) % SL_ISO_PARTS);
    }
    for (uint32_t i = 0; i < vertex->fields && i < SL_ISO_SCOPE; i++) {
        unsigned side = 0;
        const struct sl_key_part *part = sl_shared_part(owner, vertex->field[i], &side);
        if (!part || part->bits > 128)
            return -1;
        const uint64_t *half = sl_event_half(event, side & 1);
        if (part->bits <= 64) {
            hash = sl_iso_mix(hash, sl_part_number(part, half));
        } else {
            hash = sl_iso_mix(hash, half[part->word]);
            hash = sl_iso_mix(hash, half[part->word + 1]);
        }
    }
    return (int32_t)(hash % SL_ISO_PARTS);
}

/* The part of a packet without a flow: that of its IP addresses, whichever is the source; else 0. */
static inline int32_t sl_iso_part_of_packet(const struct sl_frame *frame, uint64_t seed) {
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0, size = 0, place = 0;
    if (found && frame->captured >= at + 20 && frame->at[at] >> 4 == 4)
        size = 4, place = at + 12;
    else if (found && frame->captured >= at + 40 && frame->at[at] >> 4 == 6)
        size = 16, place = at + 8;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < size; i++)
        sum += (uint64_t)(frame->at[place + i] ^ frame->at[place + size + i]) << 8 * (i & 7);
    return size ? (int32_t)(sl_iso_mix(seed, sum) % SL_ISO_PARTS) : 0;
}

/* --- the splitter, in the process of the stack --- */

enum { SL_ISO_PENDING = 4096 };   /* events of a packet for functions with several instances */

/* Events of the current packet wait until its flow is known: all of them go to one instance. */
static struct sl_iso_splitter {
    struct { uint32_t offset; int16_t part; uint8_t leader; } pending[SL_ISO_PENDING];
    uint32_t count, frame;
    int32_t part[SL_ISO_VERTICES];               /* of the packet's flow */
    uint32_t version[SL_ISO_VERTICES], submitted[SL_ISO_VERTICES];
    uint8_t owner[SL_ISO_VERTICES][SL_ISO_PARTS];
} sl_iso_splitter;

/* Takes the table of the controller, unless it is just being changed, into a batch that begins. */
static inline void sl_iso_take_routes(const struct sl_iso_control *control, struct sl_iso_slot *slot) {
    struct sl_iso_splitter *splitter = &sl_iso_splitter;
    for (uint32_t v = 0; v < control->vertex_count && v < SL_ISO_VERTICES; v++) {
        const struct sl_iso_vertex *vertex = &control->vertices[v];
        uint32_t version = __atomic_load_n(&vertex->version, __ATOMIC_ACQUIRE);
        if (version != splitter->version[v] && !(version & 1)) {
            uint8_t owner[SL_ISO_PARTS];
            memcpy(owner, vertex->owner, sizeof owner);
            if (__atomic_load_n(&vertex->version, __ATOMIC_ACQUIRE) == version) {
                memcpy(splitter->owner[v], owner, sizeof owner);
                splitter->version[v] = version;
            }
        }
        slot->version[v] = splitter->version[v];
        memcpy(slot->owner[v], splitter->owner[v], sizeof slot->owner[v]);
        splitter->part[v] = -1;
    }
    splitter->count = splitter->frame = 0;
}

#endif
