/* What an isolated function decides and publishes: its log, and the functions of output.h that write to it.
 *
 * Included before the function's text, in which the names of output.h mean the functions here. */
#ifndef SL_ISOLATED_NOTE_H
#define SL_ISOLATED_NOTE_H

#include "function/edit_connection.h"
#include "function/sluice.h"
#include "isolated/mirror.h"
#include "isolated/order.h"

/* What generated code knows. */
struct sl_iso_program {
    void (*event)(struct sl_box *box, const struct sl_event *event, const struct sl_iso_message *message);
    /* Calls the subscribers of a published event; false if its data make no sense. */
    bool (*published)(struct sl_box *box, const struct sl_event *event, const struct sl_iso_message *message,
                      uint32_t number, uint32_t from);
    struct sl_mirrors *(*mirrors)(struct sl_box *box, uint32_t layer);   /* of the layer's instances; NULL: it has none */
    void (*fire)(struct sl_box *box);    /* fires timers that are due; NULL: there are no timers */
    /* Stores the bytes of an event, see function/keep.h; NULL: there is no need. */
    void (*keep)(struct sl_box *box, const struct sl_event *event, const struct sl_iso_message *message);
    /* Writes or reads what the function stores of an instance of a layer (function/stored.h); NULL: it stores nothing. */
    void (*stored)(struct sl_box *box, uint32_t owner, struct sl_instance *instance, struct sl_stored *stored);
    bool recovered;                      /* the run fails if that does not fit */
    const uint8_t *withheld;             /* by event, whether a drop withholds it */
    const uint8_t *ends;                 /* by event, whether it ends the instance */
    const uint8_t *wants;                /* by number of a published event, whether a function subscribes to it */
    uint32_t types, timers, published_events;
    bool box_timers;                     /* it has timers that belong to no connection */
    bool deferred;                       /* handlers run at the end of a batch, as those in Python do */
};

/* A published event that waits for its place in the order. */
struct sl_iso_arrival {
    const struct sl_iso_entry *entry;
    struct sl_iso_place own;             /* of the entry, and this function's number */
    uint32_t number, from, size;
};

/* A process has one. */
static struct sl_iso_receiver {
    const struct sl_iso *iso;
    const struct sl_iso_program *program;
    struct sl_box *box;
    const struct sl_iso_slot *slot;      /* of the current batch */
    struct sl_iso_log *log;
    uint32_t place;                      /* of the slot */
    struct sl_iso_place here;            /* of the event that is handled */
    uint32_t published;                  /* while it is handled */
    uint32_t next_batch;                 /* place in the queue of the next batch */
    uint32_t next;                       /* the next packet whose time has not come */
    uint32_t frame;                      /* the current packet, from 1 */
    bool timed;                          /* there was a packet */
    bool repeats;                        /* the batch is handled again, and what it decided has left */
    struct sl_iso_arrival *arrivals;
    size_t arrived, room;
    /* The handlers on demand that receive event `before`, and the functions that are stopped for it, as they were before
     * what is published on its account: a registration takes effect with the next event. */
    struct { uint64_t order, watched[SL_WATCH_WORDS], stopped; } before;
} sl_iso_receiver;

static inline struct sl_iso_function *sl_iso_own(void) {
    return sl_iso_function_at(sl_iso_receiver.iso, sl_iso_receiver.iso->self);
}

/* The number of this function in the order of the fused chain. */
static inline uint32_t sl_iso_rank(void) { return sl_iso_receiver.iso->control->rank[sl_iso_receiver.iso->self]; }

/* --- the log --- */

/* Bytes of entries that a log may have. Drops of packets always have room: one for each packet, and those that a crash
 * leaves twice. */
static inline size_t sl_iso_log_most(enum sl_iso_action action) {
    size_t most = SL_ISO_LOG_BYTES - sizeof(struct sl_iso_log);
    return action == SL_ISO_DROP ? most : most - 2 * SL_ISO_PACKETS * sizeof(struct sl_iso_entry);
}

/* Room for an entry with so many bytes; NULL if there is none. It counts only once sl_iso_noted is called. */
static inline struct sl_iso_entry *sl_iso_entry_new(enum sl_iso_action action, size_t bytes, uint64_t *counter) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_iso_log *log = receiver->log;
    size_t size = sizeof(struct sl_iso_entry) + sl_iso_padded(bytes);
    if (!log || size + log->used > sl_iso_log_most(action)) {
        (*counter)++;
        return NULL;
    }
    struct sl_iso_entry *entry = (struct sl_iso_entry *)(void *)((uint8_t *)(log + 1) + log->used);
    entry->size = (uint32_t)size;
    entry->action = (uint16_t)action;
    entry->frame = receiver->frame;
    entry->current = receiver->box->frame != NULL;
    entry->place = receiver->here;
    return entry;
}

static inline void sl_iso_noted(const struct sl_iso_entry *entry) {
    struct sl_iso_log *log = sl_iso_receiver.log;
    __atomic_store_n(&log->used, log->used + entry->size, __ATOMIC_RELEASE);
}

static inline bool sl_iso_note(enum sl_iso_action action, uint32_t at, const void *bytes, uint32_t length) {
    if (SL_UNLIKELY(sl_iso_receiver.repeats))
        return true;   /* CHC, 3.4.3: duplicate outputs are suppressed */
    struct sl_iso_entry *entry = sl_iso_entry_new(action, bytes ? length : 0, &sl_iso_own()->not_decided);
    if (!entry)
        return false;
    entry->at = at;
    entry->length = length;
    if (bytes)
        memcpy(entry + 1, bytes, length);
    sl_iso_noted(entry);
    return true;
}

static inline bool sl_iso_note_drop(struct sl_box *box) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    if (!sl_drop_by(box, 1))
        return false;
    if (!receiver->repeats && !receiver->log->drops[receiver->frame - 1]) {
        sl_iso_note(SL_ISO_DROP, 0, NULL, 0);
        receiver->log->drops[receiver->frame - 1] = receiver->here.order;
    }
    return true;
}

static inline bool sl_iso_note_rewrite(struct sl_box *box, const uint8_t *at, const void *bytes, uint32_t length) {
    return sl_rewrite(box, at, bytes, length) &&
           sl_iso_note(SL_ISO_REWRITE, (uint32_t)(at - box->frame->at), bytes, length);
}

static inline bool sl_iso_note_redirect(struct sl_box *box, uint16_t port) {
    return sl_redirect(box, port) && sl_iso_note(SL_ISO_REDIRECT, 0, NULL, port);
}

static inline bool sl_iso_note_send(struct sl_box *box, const void *bytes, uint32_t length, bool back) {
    return sl_send_to(box, bytes, length, back) && sl_iso_note(SL_ISO_SEND, back, bytes, length);
}

static inline bool sl_iso_note_send_apart(struct sl_box *box, const struct sl_frame *frame, const void *bytes, uint32_t length,
                                          bool back) {
    const struct sl_iso_apart apart = {frame->time, frame->link_type, frame->port};
    if (SL_UNLIKELY(sl_iso_receiver.repeats))
        return true;
    if (!sl_send_apart(box, frame, bytes, length, back))
        return false;
    struct sl_iso_entry *entry = sl_iso_entry_new(SL_ISO_SEND_APART, sizeof apart + length, &sl_iso_own()->not_decided);
    if (!entry)
        return false;
    entry->at = back;
    entry->length = (uint32_t)sizeof apart + length;
    memcpy(entry + 1, &apart, sizeof apart);
    memcpy((uint8_t *)(entry + 1) + sizeof apart, bytes, length);
    sl_iso_noted(entry);
    return true;
}

static inline bool sl_iso_note_reset(struct sl_box *box) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    if (!sl_reset_by(box, 1) || !sl_iso_note(SL_ISO_RESET, 0, NULL, 0))
        return false;
    if (!receiver->repeats && !receiver->log->drops[receiver->frame - 1])
        receiver->log->drops[receiver->frame - 1] = receiver->here.order;
    return true;
}

/* In the function's text, by the names of output.h. */
#define sl_drop_by(box, function) sl_iso_note_drop(box)
#define sl_rewrite(box, at, bytes, length) sl_iso_note_rewrite(box, at, bytes, length)
#define sl_redirect(box, port) sl_iso_note_redirect(box, port)
#define sl_send(box, bytes, length) sl_iso_note_send(box, bytes, length, false)
#define sl_send_to(box, bytes, length, back) sl_iso_note_send(box, bytes, length, back)
#define sl_send_apart(box, frame, bytes, length, back) sl_iso_note_send_apart(box, frame, bytes, length, back)
#define sl_reset_by(box, function) sl_iso_note_reset(box)

/* --- publishing --- */

/* Bytes as others can read them: those of the batch where they are, others as a copy in the log. */
static inline sl_bytes sl_iso_publish_bytes(struct sl_iso_entry *entry, sl_bytes bytes) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const uint8_t *slot = (const uint8_t *)receiver->slot;
    if (!bytes.captured || (bytes.at >= slot && bytes.at < slot + SL_ISO_SLOT_BYTES))
        return bytes;
    const struct sl_iso_log *log = receiver->log;
    size_t used = (size_t)((uint8_t *)entry - (uint8_t *)(log + 1)) + entry->size;
    if (sl_iso_padded(bytes.captured) + used > sl_iso_log_most(SL_ISO_PUBLISH)) {
        sl_iso_own()->not_published++;
        return (sl_bytes){NULL, 0, bytes.length};
    }
    uint8_t *copy = (uint8_t *)entry + entry->size;
    memcpy(copy, bytes.at, bytes.captured);
    entry->size += (uint32_t)sl_iso_padded(bytes.captured);
    bytes.at = copy;
    return bytes;
}

/* Begins a published event with `size` bytes of data, which the caller writes; NULL if there is no room. */
static inline struct sl_iso_entry *sl_iso_publish(const struct sl_event *event, uint16_t number, uint8_t paths,
                                                  size_t size, struct sl_iso_message **message) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso_control *control = receiver->iso->control;
    uint8_t reads = control->publishes[receiver->iso->self];
    uint64_t mask = sl_iso_mask(control, event, reads);
    size_t head = sl_iso_head(event, paths, reads, mask);
    uint64_t *counter = &sl_iso_own()->not_published;
    if (SL_UNLIKELY(receiver->repeats))
        return NULL;
    if (receiver->here.length + 2 > 2 * SL_ISO_NESTED) {
        (*counter)++;
        return NULL;
    }
    struct sl_iso_entry *entry = sl_iso_entry_new(SL_ISO_PUBLISH, head + sl_iso_padded(size), counter);
    if (!entry)
        return NULL;
    entry->event = number;
    entry->place.path[entry->place.length++] = receiver->published++;
    *message = (struct sl_iso_message *)(void *)(entry + 1);
    sl_iso_write(*message, event, number, paths, reads, mask, head, size);
    (*message)->frame = event->box->frame ? receiver->frame : 0;
    (*message)->order = receiver->here.order;
    (*message)->unit = sl_iso_publish_bytes(entry, event->unit);
    for (uint32_t i = 0; paths > 1 && i < (*message)->depth; i++)
        sl_iso_units(*message)[i] = sl_iso_publish_bytes(entry, sl_iso_units(*message)[i]);
    return entry;
}

#endif
