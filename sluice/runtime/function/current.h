/* The packet being processed, for functions on events. A box maintains it only if a function calls one of these
 * accessors: declarations.h lists what each needs.
 *
 * All values are valid during the call of a handler. For an event without a packet (a timer, the end of input) the
 * frame is NULL, and time and number are those of the last packet. */
#ifndef SL_CURRENT_H
#define SL_CURRENT_H

#include "core/box.h"

/* The packet's time in nanoseconds since 1970, as captured. sl_now gives the largest one so far. */
static inline uint64_t sl_packet_time(const struct sl_event *event) { return event->box->time; }

/* The packet's number in its input, from 1. */
static inline uint64_t sl_packet_number(const struct sl_event *event) { return event->box->number; }

/* The whole packet, from its link layer on; NULL if there is none. */
static inline const struct sl_frame *sl_packet_frame(const struct sl_event *event) { return event->box->frame; }

/* The time of the box: the largest time of a packet so far, in nanoseconds. */
static inline uint64_t sl_now(const struct sl_box *box) { return box->now; }

/* The number of layers that the packet is in now, from the outermost to the one of the event. */
static inline uint32_t sl_path_depth(const struct sl_event *event) { return event->box->depth; }

/* The layer at `depth`, 0 being the outermost; it must be less than sl_path_depth. */
static inline const struct sl_layer_info *sl_path_layer(const struct sl_event *event, uint32_t depth) {
    return &event->box->layers[event->box->path[depth]];
}

/* The layer with this index (see struct sl_layer_info). */
static inline const struct sl_layer_info *sl_layer_at(const struct sl_box *box, uint32_t index) {
    return &box->layers[index];
}

/* The same for helpers that have a box, but no event. */
static inline uint64_t sl_box_time(const struct sl_box *box) { return box->time; }
static inline uint32_t sl_box_depth(const struct sl_box *box) { return box->depth; }
static inline const uint8_t *sl_box_path(const struct sl_box *box) { return box->path; }   /* indices of layers */

#endif
