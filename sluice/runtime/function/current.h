/* The packet that is being processed, for functions on events. A box maintains this only where a function calls one of
 * these accessors: declarations.h has what each needs.
 *
 * All of it is valid during the call of a handler. Of an event without a packet (a timer, the end of input) the frame is
 * NULL, and time and number are those of the last packet. */
#ifndef SL_CURRENT_H
#define SL_CURRENT_H

#include "core/box.h"

/* The packet's time in nanoseconds since 1970, as it was captured. sl_now has the largest one so far. */
static inline uint64_t sl_packet_time(const struct sl_event *event) { return event->box->time; }

/* The packet's number in its input, from 1. */
static inline uint64_t sl_packet_number(const struct sl_event *event) { return event->box->number; }

/* The whole packet, from its link layer on; NULL where there is none. */
static inline const struct sl_frame *sl_packet_frame(const struct sl_event *event) { return event->box->frame; }

/* The time of the box: the largest time of a packet so far, in nanoseconds. */
static inline uint64_t sl_now(const struct sl_box *box) { return box->now; }

/* How many layers the packet is in now, from the outermost to the one of the event. */
static inline uint32_t sl_path_depth(const struct sl_event *event) { return event->box->depth; }

/* The layer at `depth`, 0 being the outermost; it must be less than sl_path_depth. */
static inline const struct sl_layer_info *sl_path_layer(const struct sl_event *event, uint32_t depth) {
    return &event->box->layers[event->box->path[depth]];
}

/* The layer with this index (struct sl_layer_info has it). */
static inline const struct sl_layer_info *sl_layer_at(const struct sl_box *box, uint32_t index) {
    return &box->layers[index];
}

/* The same by the box, for helpers that have no event. */
static inline uint64_t sl_box_time(const struct sl_box *box) { return box->time; }
static inline uint32_t sl_box_depth(const struct sl_box *box) { return box->depth; }
static inline const uint8_t *sl_box_path(const struct sl_box *box) { return box->path; }   /* indexes of layers */

#endif
