/* The stack's side of an isolated chain: events become messages to the functions, which run in processes of their own.
 *
 * The generated function of the stack (codegen/isolated/sender.py) subscribes to what any function of the chain
 * subscribes to, and calls sl_iso_send. The driver calls sl_iso_process in place of the stack's own function: it copies
 * the packets of a burst into shared memory, lets the stack process them there, hands the batch to the functions, and,
 * if some of them decide, waits for them and carries out their decisions (decide.h). */
#ifndef SL_ISOLATED_SEND_H
#define SL_ISOLATED_SEND_H

#include "function/sluice.h"
#include "isolated/route.h"

typedef void (*sl_iso_process_function)(struct sl_box *, const struct sl_frame *, size_t, struct sl_verdict *);
typedef uint64_t (*sl_iso_tick_function)(struct sl_box *, uint64_t);
typedef bool (*sl_iso_step_function)(struct sl_box *, uint32_t);

enum { SL_ISO_BYTES_MOST = 16, SL_ISO_NONE = 0xffff };   /* fields of bytes of an event */
enum { SL_ISO_CLOCKS = 1 << 20 };   /* events of a batch, for which the clock is reserved; more take what is next */

/* The events that functions receive. */
struct sl_iso_events {
    const uint16_t *types;         /* by handler of the sender and layer: the number of the event, or SL_ISO_NONE */
    const uint16_t (*bytes)[SL_ISO_BYTES_MOST];   /* by number: the places of bytes in the data, up to SL_ISO_NONE */
    uint32_t layers;
    uint32_t paths;                /* see struct sl_iso_message */
};

/* The sender; a process has one. */
static struct sl_iso_sender {
    const struct sl_iso *iso;
    sl_iso_process_function process;
    sl_iso_tick_function tick;
    sl_iso_step_function step;
    struct sl_iso_slot *slot;      /* of the current batch; NULL: it has not begun */
    uint32_t place;                /* of the slot */
    uint32_t kind;
    uint64_t order;                /* number of the last event */
    uint32_t frame;                /* the last packet, from 1, that has a place in the order */
    uint64_t taking;               /* functions that receive this batch */
    uint64_t created;              /* the newest instance before it */
    uint64_t sampled;              /* the last packet that was counted, see sl_iso_sample */
    uint64_t input;                /* packets of batches so far */
    /* of a process that takes the place of another one (recover.h) */
    const struct sl_iso_slot *undecided;   /* a batch whose packets have not left */
    uint64_t replayed;             /* packets of `input` that were processed again */
    bool silent;                   /* packets are processed without events */
    struct sl_iso_events events;
} sl_iso_sender;

/* Is no function at work on the batch in a slot? */
static inline bool sl_iso_slot_free(const struct sl_iso *iso, uint32_t place) {
    const struct sl_iso_slot *slot = sl_iso_slot_at(iso, place);
    for (uint64_t left = slot->functions; left; left &= left - 1)
        if (!sl_iso_is_settled(iso, sl_iso_first(left), slot->batch))
            return false;
    return true;
}

/* Deletes the packets of a slot from the packet log: all their updates are in the store. */
static inline void sl_iso_delete(const struct sl_iso *iso, uint32_t place) {
    const struct sl_iso_slot *slot = sl_iso_slot_at(iso, place);
    uint64_t stateful = slot->functions & iso->control->stateful;
    for (uint32_t i = 0; stateful && i <= slot->packets; i++) {
        uint32_t sum = 0;
        for (uint64_t left = stateful; left; left &= left - 1) {
            const struct sl_iso_log *log = sl_iso_log_of(iso, sl_iso_first(left), place);
            sum ^= log->batch == slot->batch ? log->updates[i] ^ log->committed[i] : 0;
        }
        iso->stack->uncommitted += sum != 0;
    }
}

/* Batches that a function has received, and is not done with. */
static inline uint32_t sl_iso_waiting(const struct sl_iso *iso, uint32_t function) {
    uint32_t waiting = iso->stack->queue[function].count -
                       __atomic_load_n(&sl_iso_function_at(iso, function)->done, __ATOMIC_ACQUIRE);
    return waiting <= SL_ISO_QUEUE ? waiting : 0;   /* else the function has overwritten it */
}

/* Waits for the oldest batch. */
static inline bool sl_iso_wait_oldest(const struct sl_iso *iso) {
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < SL_ISO_SLOTS; i++)
        if (oldest == UINT32_MAX || (int32_t)(sl_iso_slot_at(iso, i)->batch - sl_iso_slot_at(iso, oldest)->batch) < 0)
            oldest = i;
    const struct sl_iso_slot *slot = sl_iso_slot_at(iso, oldest);
    for (uint64_t left = slot->functions; left; left &= left - 1)
        if (!sl_iso_wait_settled(iso, sl_iso_first(left), slot->batch, &iso->stack->sleeping))
            return false;
    return true;
}

/* Is the packet log full, so that packets are dropped before the stack sees them (CHC, 3.4)? */
static inline bool sl_iso_log_full(const struct sl_iso *iso) {
    if (iso->control->log_waits || !iso->control->stateful)
        return false;
    for (uint32_t place = 0; place < SL_ISO_SLOTS; place++)
        if (sl_iso_slot_free(iso, place))
            return false;
    return true;
}

/* Waits until the store has the clocks of the events of a batch: a root that takes the place of this one begins with
 * later ones. */
static inline bool sl_iso_wait_clock(const struct sl_iso *iso, uint64_t order) {
    const uint64_t *limit = &iso->control->clock_limit;
    struct timespec most = {0, 1000 * 1000};
    for (uint64_t now; (now = __atomic_load_n(limit, __ATOMIC_ACQUIRE)) && order + SL_ISO_CLOCKS > now;) {
        if (__atomic_load_n(&iso->control->ending, __ATOMIC_RELAXED))
            return false;
        nanosleep(&most, NULL);
    }
    return true;
}

/* Begins a batch: finds a slot that is free, or waits for one. This is the back-pressure of functions that are slower
 * than the stack; a function that loses events instead takes at most two slots, or one where there are many of them. */
SL_COLD bool sl_iso_begin(void) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    const struct sl_iso *iso = sender->iso;
    uint64_t absent = __atomic_load_n(&iso->control->absent, __ATOMIC_ACQUIRE), lossy = iso->control->lossy & ~absent;
    uint32_t most = __builtin_popcountll(lossy) > SL_ISO_SLOTS / 2 - 1 ? 1 : 2, place = 0;
    while (!sl_iso_slot_free(iso, place))
        if (++place == SL_ISO_SLOTS) {
            if (!sl_iso_wait_oldest(iso))
                return false;
            place = 0;
        }
    sl_iso_delete(iso, place);
    if (!sl_iso_wait_clock(iso, sender->order))
        return false;
    sender->taking = ~absent;
    for (uint64_t left = sender->kind == SL_ISO_END ? 0 : lossy; left; left &= left - 1)
        if (sl_iso_waiting(iso, sl_iso_first(left)) >= most)
            sender->taking &= ~(left & -left);
    struct sl_iso_slot *slot = sl_iso_slot_at(iso, place);
    slot->functions = 0;
    slot->unseen = absent;
    slot->packets = 0;
    slot->before = sender->order;
    slot->created_before = sender->created;
    slot->input_before = sender->input;
    sl_iso_take_routes(iso->control, slot);
    slot->kind = sender->kind;
    slot->used = (uint32_t)sl_iso_padded(sizeof *slot);
    memset(slot->references, 0, sizeof slot->references);
    sender->slot = slot;
    sender->place = place;
    sender->frame = 0;
    return true;
}

/* Room in the current slot, or NULL. */
static inline void *sl_iso_room(size_t size) {
    struct sl_iso_slot *slot = sl_iso_sender.slot;
    size = sl_iso_padded(size);
    if (size > SL_ISO_SLOT_BYTES - slot->used)
        return NULL;
    void *at = (uint8_t *)slot + slot->used;
    slot->used += (uint32_t)size;
    return at;
}

/* Bytes as a message refers to them: those of a packet of the batch where they are, others as a copy. */
static inline sl_bytes sl_iso_bytes(sl_bytes bytes) {
    const uint8_t *memory = (const uint8_t *)sl_iso_sender.slot;
    if (!bytes.captured || (bytes.at >= memory && bytes.at < memory + SL_ISO_SLOT_BYTES))
        return bytes;
    uint8_t *copy = sl_iso_room(bytes.captured);
    if (!copy)   /* the length says that bytes are missing, as after a cut at the snap length */
        return (sl_bytes){NULL, 0, bytes.length};
    memcpy(copy, bytes.at, bytes.captured);
    bytes.at = copy;
    return bytes;
}

/* Gives the packets up to the current one their place in the order. */
static inline void sl_iso_enter_packet(struct sl_iso_sender *sender, uint32_t frame) {
    sender->order++;
    while (sender->frame < frame)
        sender->slot->frame_order[sender->frame++] = sender->order;
}

/* The functions that receive an event, where subscriptions differ for single flows. */
SL_COLD uint64_t sl_iso_of_flow(const struct sl_iso_control *control, const struct sl_event *event, uint32_t type,
                                uint64_t to) {
    uint64_t number = sl_event_number(event);
    for (uint32_t i = 0; number && i < sl_min(control->flow_count, SL_ISO_FLOWS); i++) {
        const struct sl_iso_flow *flow = &control->flows[i];
        if (__atomic_load_n(&flow->number, __ATOMIC_ACQUIRE) == number && flow->type == type)
            to = flow->subscribed ? to | flow->function : to & ~flow->function;
    }
    return to;
}

/* Adds a message to those of a function. */
static inline void sl_iso_refer(const struct sl_iso *iso, struct sl_iso_slot *slot, uint32_t function, uint32_t offset) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    bool takes = sender->taking >> function & 1;
    if (takes && slot->references[function] < SL_ISO_REFERENCES) {
        sl_iso_references(iso, sender->place, function)[slot->references[function]++] = offset;
    } else {
        iso->stack->no_room[function]++;
        slot->unseen |= (uint64_t)1 << function;
    }
}

/* The events of a packet go to the instances that have its flow. */
static inline void sl_iso_split(const struct sl_iso *iso) {
    struct sl_iso_splitter *splitter = &sl_iso_splitter;
    struct sl_iso_slot *slot = sl_iso_sender.slot;
    const struct sl_frame *frame = splitter->frame ? &slot->frames[splitter->frame - 1] : NULL;
    int32_t fallback = -1;
    uint64_t counted = 0;
    for (uint32_t i = 0; i < splitter->count; i++) {
        uint32_t v = iso->control->vertex[splitter->pending[i].leader];
        int32_t part = splitter->pending[i].part >= 0 ? splitter->pending[i].part : splitter->part[v];
        if (part < 0)
            part = fallback = fallback < 0 ? sl_iso_part_of_packet(frame, iso->control->seed) : fallback;
        if (frame && !(counted >> v & 1))
            iso->stack->packets[v][part]++;
        counted |= (uint64_t)1 << v;
        sl_iso_refer(iso, slot, splitter->owner[v][part], splitter->pending[i].offset);
    }
    for (uint32_t v = 0; v < iso->control->vertex_count; v++)
        splitter->part[v] = -1;
    splitter->count = 0;
}

/* A message of a function with several instances waits until the flow of its packet is known. */
static inline void sl_iso_pend(const struct sl_iso *iso, const struct sl_event *event, uint32_t leader, uint32_t frame,
                               uint32_t offset) {
    struct sl_iso_splitter *splitter = &sl_iso_splitter;
    uint32_t v = iso->control->vertex[leader];
    int32_t part = sl_iso_part_of(event, &iso->control->vertices[v], iso->control->seed);
    if (splitter->count == SL_ISO_PENDING)
        sl_iso_split(iso);
    splitter->pending[splitter->count].offset = offset;
    splitter->pending[splitter->count].part = (int16_t)part;
    splitter->pending[splitter->count++].leader = (uint8_t)leader;
    if (frame && part >= 0 && splitter->part[v] < 0)
        splitter->part[v] = part;
}

/* Counts a packet by the part of its first flow, as each vertex would divide the traffic. */
SL_COLD void sl_iso_sample(const struct sl_iso *iso, const struct sl_event *event) {
    uint64_t number = event->box->frame ? event->box->number : 0;
    if (!number || number == sl_iso_sender.sampled)
        return;
    for (uint32_t v = 0; v < iso->control->vertex_count; v++) {
        int32_t part = sl_iso_part_of(event, &iso->control->vertices[v], iso->control->seed);
        if (part < 0)
            continue;
        iso->stack->packets[v][part]++;
        sl_iso_sender.sampled = number;
    }
}

/* The functions that have subscribed to an event. */
static inline uint64_t sl_iso_subscribers(const struct sl_event *event, uint16_t type) {
    const struct sl_iso *iso = sl_iso_sender.iso;
    if (!iso)
        return 0;
    uint64_t to = __atomic_load_n(&iso->control->subscribed[type], __ATOMIC_RELAXED);
    return SL_UNLIKELY(iso->control->flow_count) ? sl_iso_of_flow(iso->control, event, type, to) : to;
}

/* A message for an event of number `type`, with `size` bytes of data that the caller writes, to some functions. NULL if
 * there are none, or no room. */
static inline struct sl_iso_message *sl_iso_send(const struct sl_event *event, uint16_t type, size_t size, uint64_t to) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    if (!sender->iso)
        return NULL;
    const struct sl_iso *iso = sender->iso;
    if (SL_UNLIKELY(sender->silent))
        return NULL;
    if (SL_UNLIKELY(iso->control->samples))
        sl_iso_sample(iso, event);
    if (!to || (SL_UNLIKELY(!sender->slot) && !sl_iso_begin()))
        return NULL;
    for (uint64_t lost = to & ~sender->taking & iso->control->lossy; SL_UNLIKELY(lost); lost &= lost - 1)
        iso->stack->lost[sl_iso_first(lost)]++;
    uint64_t routed = to & iso->control->routed;
    to = (to & sender->taking) | routed;
    struct sl_iso_slot *slot = sender->slot;
    const struct sl_frame *frame = event->box->frame;
    uint32_t number = frame ? (uint32_t)(frame - slot->frames) + 1 : 0;
    if (number > sender->frame)
        sl_iso_enter_packet(sender, number);
    if (SL_UNLIKELY(routed) && number && number != sl_iso_splitter.frame) {
        sl_iso_split(iso);
        sl_iso_splitter.frame = number;
    }
    sender->order++;
    uint8_t reads = iso->control->reads[type];
    uint64_t mask = sl_iso_mask(iso->control, event, reads);
    size_t head = sl_iso_head(event, (uint8_t)sender->events.paths, reads, mask);
    struct sl_iso_message *message = to ? sl_iso_room(head + sl_iso_padded(size)) : NULL;
    if (!message) {
        slot->unseen |= to;
        for (uint64_t left = to; left; left &= left - 1)
            iso->stack->no_room[sl_iso_first(left)]++;
        return NULL;
    }
    sl_iso_write(message, event, type, (uint8_t)sender->events.paths, reads, mask, head, size);
    iso->stack->messages++;
    iso->stack->message_bytes += message->size;
    message->order = sender->order;
    message->frame = number;
    message->unit = sl_iso_bytes(event->unit);
    for (uint32_t i = 0; message->paths > 1 && i < message->depth; i++)
        sl_iso_units(message)[i] = sl_iso_bytes(sl_iso_units(message)[i]);
    uint32_t offset = (uint32_t)((uint8_t *)message - (uint8_t *)slot) / 8;
    for (uint64_t left = to & ~routed; left; left &= left - 1)
        sl_iso_refer(iso, slot, sl_iso_first(left), offset);
    for (uint64_t left = routed; SL_UNLIKELY(left); left &= left - 1)
        sl_iso_pend(iso, event, sl_iso_first(left), number, offset);
    return message;
}

/* The number of the event that a handler of the sender sends. */
static inline uint16_t sl_iso_type(const struct sl_event *event, uint32_t handler) {
    const struct sl_iso_events *events = &sl_iso_sender.events;
    return events->types ? events->types[handler * events->layers + event->layer->index]
                         : SL_ISO_NONE;   /* the box runs without functions */
}

/* Sends an event to those of the functions `among` that have subscribed. */
static inline void sl_iso_handler_to(const struct sl_event *event, uint32_t handler, const void *data, size_t size,
                                     uint64_t among) {
    const struct sl_iso_events *events = &sl_iso_sender.events;
    uint16_t type = sl_iso_type(event, handler);
    struct sl_iso_message *message =
        type != SL_ISO_NONE ? sl_iso_send(event, type, size, sl_iso_subscribers(event, type) & among) : NULL;
    if (!message)
        return;
    uint8_t *copy = (uint8_t *)message + message->data;
    memcpy(copy, data, size);
    for (const uint16_t *at = events->bytes[type]; *at != SL_ISO_NONE; at++) {
        sl_bytes bytes;
        memcpy(&bytes, copy + *at, sizeof bytes);
        bytes = sl_iso_bytes(bytes);
        memcpy(copy + *at, &bytes, sizeof bytes);
    }
}

/* What each handler of the sender does with an event. */
static inline void sl_iso_handler(const struct sl_event *event, uint32_t handler, const void *data, size_t size) {
    sl_iso_handler_to(event, handler, data, size, UINT64_MAX);
}

/* Before an event of a stream: functions that have subscribed since it began get its beginning, by `call`, for the event
 * that `handler` sends. Returns how many sides had been given up, for each of these functions. */
static inline uint64_t sl_iso_keep(const struct sl_event *event, uint32_t handler, struct sl_kept *kept,
                                   sl_kept_call call) {
    uint16_t type = sl_iso_type(event, handler);
    uint64_t to = type != SL_ISO_NONE ? sl_iso_subscribers(event, type) : 0;
    if (SL_UNLIKELY(sl_iso_sender.silent)) {
        kept->served |= to;   /* by the process before */
        kept->changes = sl_iso_sender.iso->control->changes;
        return 0;
    }
    if (!to || (SL_UNLIKELY(!sl_iso_sender.slot) && !sl_iso_begin()))
        return 0;
    to &= sl_iso_sender.taking | sl_iso_sender.iso->control->routed;   /* the others are served with a later batch */
    if (SL_UNLIKELY(kept->changes != sl_iso_sender.iso->control->changes)) {
        const struct sl_iso_control *control = sl_iso_sender.iso->control;
        for (uint32_t function = 0; function < SL_ISO_FUNCTIONS; function++)
            if ((int32_t)(control->changed[function] - kept->changes) > 0)
                kept->served &= ~((uint64_t)1 << function);
        kept->changes = control->changes;
    }
    uint64_t more = to & ~kept->served, missed = 0;
    if (SL_LIKELY(!more))
        return 0;
    kept->served |= more;
    if (kept->used || kept->lost[0] || kept->lost[1])
        missed = sl_kept_again(kept, event, NULL, call, more) * (uint64_t)__builtin_popcountll(more);
    return missed;
}

/* Appends a batch. Its number and the count are stored at once, so that after a kill either both or none are. */
static inline void sl_iso_enqueue(struct sl_iso_queue *queue, uint32_t place, uint32_t batch) {
    union { uint32_t words[2]; uint64_t both; } next = {{queue->count + 1, batch}};
    queue->entry[queue->count % SL_ISO_QUEUE] = place;
    __atomic_store_n((__attribute__((may_alias)) uint64_t *)(void *)queue, next.both, __ATOMIC_SEQ_CST);
}

/* Hands the batch to the functions. Returns those that receive it. */
static inline uint64_t sl_iso_submit(const struct sl_box *box) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    const struct sl_iso *iso = sender->iso;
    struct sl_iso_slot *slot = sender->slot;
    if (slot->packets > sender->frame)
        sl_iso_enter_packet(sender, slot->packets);
    if (sl_iso_splitter.count)
        sl_iso_split(iso);
    uint64_t to = iso->control->always | (slot->kind == SL_ISO_END ? ~UINT64_C(0) : 0);
    for (uint32_t function = 0; function < iso->count; function++)
        to |= (uint64_t)(slot->references[function] != 0) << function;
    for (uint32_t v = 0; v < iso->control->vertex_count; v++) {   /* those that give a part up, or get one */
        if (slot->version[v] != sl_iso_splitter.submitted[v])
            to |= iso->control->vertices[v].instances;
        sl_iso_splitter.submitted[v] = slot->version[v];
    }
    to &= sender->taking & (iso->count < 64 ? ((uint64_t)1 << iso->count) - 1 : ~UINT64_C(0));
    /* A process that takes the place of this one finds the batch by its number: from then on it is the newest one. */
    __atomic_store_n(&slot->batch, iso->stack->batches + 1, __ATOMIC_SEQ_CST);
    slot->now = box->now;
    slot->last = sender->order;
    slot->created = sender->created = box->created;
    slot->input = sender->input += slot->packets;
    slot->functions = to;
    __atomic_store_n(&iso->stack->batches, slot->batch, __ATOMIC_SEQ_CST);
    iso->stack->clock = sender->order;
    for (uint64_t left = to; left; left &= left - 1) {
        struct sl_iso_queue *queue = &iso->stack->queue[sl_iso_first(left)];
        sl_iso_enqueue(queue, sender->place, slot->batch);
        if (__atomic_load_n(&sl_iso_function_at(iso, sl_iso_first(left))->sleeping, __ATOMIC_SEQ_CST))
            sl_iso_wake(&queue->count);
    }
    sender->slot = NULL;
    return to;
}

#endif
