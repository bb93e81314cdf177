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

/* How many layers the stack has: all indices are less. */
static inline uint32_t sl_layer_count(const struct sl_box *box) { return box->layer_count; }

/* The limit of instances of each table. */
static inline uint32_t sl_max_instances(const struct sl_box *box) { return box->max_instances; }

/* The seed of hashes, so that a sender cannot choose keys that collide. */
static inline uint64_t sl_seed(const struct sl_box *box) { return box->seed; }

/* How many link types packets had with which the stack does not begin. */
static inline uint32_t sl_refused_link_types(const struct sl_box *box) { return box->refused_count; }

/* The number of the worker among those of its run, from 0. */
static inline uint32_t sl_worker_number(const struct sl_box *box) { return box->worker; }

/* The same as above for helpers that have a box, but no event. */
static inline uint64_t sl_box_time(const struct sl_box *box) { return box->time; }
static inline const struct sl_frame *sl_box_frame(const struct sl_box *box) { return box->frame; }
static inline uint32_t sl_box_depth(const struct sl_box *box) { return box->depth; }
static inline const uint8_t *sl_box_path(const struct sl_box *box) { return box->path; }   /* indices of layers */

#endif
