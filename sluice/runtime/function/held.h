/* Packets that functions hold until they have decided: verdict SL_HELD of an inline box.
 *
 * A held packet is copied. It belongs to the instance of the event for which a function held it, and is transmitted once
 * all functions that hold it have released the packets of this instance, or dropped once one of them discards them. The
 * bytes, the number of packets and the time are bounded (sl_options.held_bytes, held_nanoseconds); at a bound,
 * sl_options.held_open decides whether packets pass or are dropped. Every packet is counted once: held = released +
 * discarded + expired + ended.
 *
 * The copies are in one ring, in the order of arrival. As all wait equally long at most, the oldest is the first to
 * expire. Packets of an instance are found by a hash table of lists. */
#ifndef SL_HELD_H
#define SL_HELD_H

#include "core/box.h"

enum {
    SL_HELD_MOST = 32768,          /* packets; all of them fit into the queue of packets to be transmitted */
    SL_HELD_BUCKETS = 4096,
    SL_HELD_UNIT = 128,            /* size of an entry is a multiple, so that the rest of the ring always fits one */
};

struct sl_held_entry {
    struct sl_frame frame;     /* its bytes follow the entry */
    uint64_t instance;         /* number; 0: none */
    uint64_t deadline;
    uint64_t holders;          /* bits of functions; 0: the entry is free */
    uint64_t next;             /* in the list of its bucket: position + 1; 0: the last */
    uint64_t size;             /* in the ring */
};

/* Positions count up; a position modulo `size` is a place in the ring. */
struct sl_held_packets {
    uint8_t *ring;
    uint64_t size, begin, end;
    uint32_t count;
    uint64_t first[SL_HELD_BUCKETS], last[SL_HELD_BUCKETS];   /* position + 1; 0: none */
};

static inline struct sl_held_entry *sl_held_at(const struct sl_held_packets *held, uint64_t position) {
    return (struct sl_held_entry *)(void *)(held->ring + position % held->size);
}

static inline uint32_t sl_held_bucket(const struct sl_box *box, uint64_t instance) {
    return (uint32_t)((instance ^ box->seed) * 0x9e3779b97f4a7c15u >> 52) % SL_HELD_BUCKETS;
}

static inline uint64_t sl_held_need(uint32_t captured) {
    return (sizeof(struct sl_held_entry) + captured + SL_HELD_UNIT - 1) / SL_HELD_UNIT * SL_HELD_UNIT;
}

/* The position for `need` more bytes in one piece; UINT64_MAX if there is no room. */
static inline uint64_t sl_held_room(const struct sl_held_packets *held, uint64_t need) {
    uint64_t rest = held->size - held->end % held->size, at = need <= rest ? held->end : held->end + rest;
    bool fits = held->count < SL_HELD_MOST && need <= held->size && at + need - held->begin <= held->size;
    return fits ? at : UINT64_MAX;
}

SL_COLD struct sl_held_packets *sl_held_open(uint64_t bytes) {
    struct sl_held_packets *held = calloc(1, sizeof *held);
    uint64_t size = sl_max(bytes, SL_HELD_UNIT) / SL_HELD_UNIT * SL_HELD_UNIT;
    if (held && !(held->ring = malloc(size))) {
        free(held);
        held = NULL;
    }
    if (held)
        held->size = size;
    return held;
}

/* Whether a packet of so many bytes can be held. Allocates the ring for the first one. */
static inline bool sl_held_fits(struct sl_box *box, uint32_t captured) {
    struct sl_output *output = &box->output;
    if (!output->waiting && !(output->waiting = sl_held_open(output->held_bytes)))
        return false;
    return sl_held_room(output->waiting, sl_held_need(captured)) != UINT64_MAX;
}

/* Copies a packet, for which there is room. */
static inline void sl_held_put(struct sl_box *box, const struct sl_frame *frame, uint64_t instance, uint64_t holders) {
    struct sl_held_packets *held = box->output.waiting;
    uint64_t need = sl_held_need(frame->captured), at = sl_held_room(held, need);
    if (at != held->end) {   /* the rest of the ring is too small: a free entry covers it */
        struct sl_held_entry *rest = sl_held_at(held, held->end);
        rest->holders = 0;
        rest->size = at - held->end;
    }
    struct sl_held_entry *entry = sl_held_at(held, at);
    uint64_t deadline = box->now + sl_min(box->output.held_nanoseconds, UINT64_MAX - box->now);
    *entry = (struct sl_held_entry){*frame, instance, deadline, holders, 0, need};
    memcpy(entry + 1, frame->at, frame->captured);
    entry->frame.at = NULL;
    held->end = at + need;
    held->count++;
    uint32_t bucket = sl_held_bucket(box, instance);
    if (held->first[bucket])
        sl_held_at(held, held->last[bucket] - 1)->next = at + 1;
    else
        held->first[bucket] = at + 1;
    held->last[bucket] = at + 1;
}

/* Removes an entry from its list and frees it. before: the entry before it in the list; NULL: it is the first. */
static inline void sl_held_remove(struct sl_box *box, struct sl_held_entry *entry, struct sl_held_entry *before,
                                  uint64_t before_position) {
    struct sl_held_packets *held = box->output.waiting;
    uint32_t bucket = sl_held_bucket(box, entry->instance);
    if (before)
        before->next = entry->next;
    else
        held->first[bucket] = entry->next;
    if (!entry->next)
        held->last[bucket] = before ? before_position + 1 : 0;
    entry->holders = 0;
    held->count--;
    while (held->begin != held->end && !sl_held_at(held, held->begin)->holders)
        held->begin += sl_held_at(held, held->begin)->size;
    if (!held->count)   /* the whole ring is free for the next packet, which is then the oldest */
        held->begin = held->end = 0;
}

/* Queues a held packet for transmission: before the current packet. False without memory or room. */
static inline bool sl_held_send(struct sl_box *box, const struct sl_held_entry *entry) {
    struct sl_output *output = &box->output;
    uint32_t length = entry->frame.captured;
    sl_sent_reset(output);
    if (output->sent_count == SL_SENT_WAITING || !sl_sent_room(output, 1, length)) {
        output->not_sent++;
        return false;
    }
    memcpy(output->sent_bytes + output->sent_used, entry + 1, length);
    struct sl_sent *sent = &output->sent[output->packet_from++];   /* before what functions sent for this packet */
    memmove(sent + 1, sent, (output->sent_count++ - (output->packet_from - 1)) * sizeof *sent);
    *sent = (struct sl_sent){.frame = entry->frame, .after = output->in_burst ? output->place : 0, .held = true};
    sent->frame.at = (const uint8_t *)(uintptr_t)output->sent_used;
    output->sent_used += length;
    return true;
}

/* Ends the holding of an instance's packets by some functions. passes: those that no other function holds are
 * transmitted; else all are dropped. */
static inline void sl_held_decide(struct sl_box *box, uint64_t instance, uint64_t functions, bool passes) {
    struct sl_held_packets *held = box->output.waiting;
    struct sl_held_entry *before = NULL;
    uint64_t before_position = 0;
    for (uint64_t at = held ? held->first[sl_held_bucket(box, instance)] : 0, next; at; at = next) {
        struct sl_held_entry *entry = sl_held_at(held, at - 1);
        next = entry->next;
        if (entry->instance == instance && !(entry->holders &= ~functions)) {
            if (passes)
                sl_held_send(box, entry);
            box->output.released += passes;
            box->output.discarded += !passes;
            sl_held_remove(box, entry, before, before_position);
            continue;
        }
        before = entry;
        before_position = at - 1;
    }
}

/* Transmits or drops packets that have waited too long, or, at the end of input, all. */
SL_COLD void sl_held_expire(struct sl_box *box, bool all) {
    struct sl_held_packets *held = box->output.waiting;
    while (held->count) {
        struct sl_held_entry *entry = sl_held_at(held, held->begin);   /* the oldest, so the first of its list */
        if (!all && entry->deadline > box->now)
            return;
        if (box->output.held_open)
            sl_held_send(box, entry);
        *(all ? &box->output.held_ended : &box->output.expired) += 1;
        sl_held_remove(box, entry, NULL, 0);
    }
}

/* --- for functions --- */

/* Holds the current packet for the instance of an event; `function`: the bit of the function that decides so. Returns
 * false if there is no packet, the box is not inline, or the packet is held for another instance. If there is no room for
 * it when its processing ends, it passes or is dropped as sl_options.held_open says. */
static inline bool sl_hold_by(const struct sl_event *event, uint64_t function) {
    struct sl_output *output = &event->box->output;
    uint64_t instance = sl_event_number(event);
    if (!event->box->frame || !output->forwards || (output->holders && output->held_for != instance))
        return false;
    output->holders |= function;
    output->held_for = instance;
    return true;
}

/* Releases the packets that a function holds for the instance of an event, at the end of the current packet, unless it
 * discards them before. The current packet is one of them, even if the function holds it after this call. */
static inline void sl_release_by(const struct sl_event *event, uint64_t function) {
    struct sl_box *box = event->box;
    struct sl_output *output = &box->output;
    uint64_t instance = sl_event_number(event);
    if (output->releasing && output->release_for != instance) {
        sl_held_decide(box, output->release_for, output->releasing, true);
        output->releasing = 0;
    }
    output->releasing |= function;
    output->release_for = instance;
    if (!box->frame) {
        sl_held_decide(box, instance, function, true);
        output->releasing = 0;
    }
}

/* Drops the packets that are held for the instance of an event, by any function. The current packet is dropped if it is
 * held for it. */
static inline void sl_discard(const struct sl_event *event) {
    struct sl_box *box = event->box;
    struct sl_output *output = &box->output;
    uint64_t instance = sl_event_number(event);
    sl_held_decide(box, instance, UINT64_MAX, false);
    if (output->release_for == instance)
        output->releasing = 0;
    if (box->frame && output->holders && output->held_for == instance) {
        output->holders = 0;
        sl_drop_by(box, 0);
    }
}

#endif
