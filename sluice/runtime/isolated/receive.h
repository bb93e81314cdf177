/* A function of an isolated chain, in its own process: receives event messages, calls the handlers, and notes what they
 * decide and publish in its log.
 *
 * Included before the function's text. The generated program (codegen/isolated/receiver.py) calls sl_iso_receive_batches
 * with what depends on the stack. */
#ifndef SL_ISOLATED_RECEIVE_H
#define SL_ISOLATED_RECEIVE_H

#include "function/records.h"
#include "isolated/instance.h"

/* --- events --- */

/* The packets up to an event have come: time advances, and timers fire. */
static inline void sl_iso_advance(uint64_t order) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_box *box = receiver->box;
    const struct sl_iso_slot *slot = receiver->slot;
    while (receiver->next < slot->packets && slot->frame_order[receiver->next] <= order) {
        const struct sl_frame *frame = &slot->frames[receiver->next++];
        if (!receiver->program->fire)
            continue;
        if (!receiver->timed)
            sl_timers_begin(box, frame->time, receiver->program->timers);
        receiver->timed = true;
        box->now = sl_max(box->now, frame->time);
        box->time = frame->time;
        box->number = frame->number;
        receiver->here = (struct sl_iso_place){slot->frame_order[receiver->next - 1], 1, {sl_iso_rank()}};
        sl_iso_progress(receiver->here.order);
        receiver->published = 0;
        if (receiver->frame != receiver->next && receiver->frame)
            sl_output_packet(box, &slot->frames[receiver->frame - 1]);
        receiver->frame = receiver->next;
        box->frame = NULL;
        if (sl_timers_due(box))
            receiver->program->fire(box);
    }
}

/* Sets what a message says of the packet and of time. */
static inline void sl_iso_enter(const struct sl_iso_message *message) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_box *box = receiver->box;
    if (message->frame != receiver->frame) {
        if (receiver->frame)
            sl_output_packet(box, &receiver->slot->frames[receiver->frame - 1]);
        receiver->frame = message->frame;
    }
    box->now = sl_max(box->now, message->now);
    box->time = message->time;
    box->number = message->packet;
    box->frame = message->frame ? &receiver->slot->frames[message->frame - 1] : NULL;
    box->scratch.used = 0;
    box->depth = message->depth;
    const uint8_t *path = (const uint8_t *)(message + 1) + 8u * (message->words + (uint32_t)message->fields);
    if (message->paths > 1 && box->units)
        memcpy(box->units, path, message->depth * sizeof(sl_bytes));
    memcpy(box->path, path + (message->paths > 1 ? message->depth * sizeof(sl_bytes) : 0), message->depth);
}

/* The functions before this one that had dropped the packet before an event. */
static inline uint64_t sl_iso_dropped(uint32_t frame, uint64_t order) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    uint64_t dropped = 0;
    for (uint64_t left = frame ? receiver->iso->control->drops[receiver->iso->self] & receiver->slot->functions : 0; left;
         left &= left - 1) {
        const struct sl_iso_log *log = sl_iso_log_of(receiver->iso, sl_iso_first(left), receiver->place);
        uint64_t at = log->batch == receiver->slot->batch ? __atomic_load_n(&log->drops[frame - 1], __ATOMIC_RELAXED) : 0;
        if (at && at <= order)
            dropped |= left & -left;
    }
    return dropped;
}

/* The event of a message. False without memory for the copy of its instance. */
static inline bool sl_iso_event_of(const struct sl_iso_message *message, struct sl_event *event) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_box *box = receiver->box;
    *event = (struct sl_event){.box = box, .layer = &box->layers[message->layer], .side = message->side,
                               .owner = &box->layers[message->owner], .unit = message->unit};
    struct sl_mirrors *mirrors = message->number ? receiver->program->mirrors(box, message->owner) : NULL;
    if (!mirrors)
        return !message->number;
    bool known;
    event->instance = sl_mirror_update(mirrors, box, event->owner, message, &known);
    if (event->instance && !known) {
        sl_iso_own()->flows++;
        sl_iso_own()->flows_lost += message->number <= box->lost_before;
    }
    if (event->instance)
        sl_iso_note_flow(event, mirrors);
    return event->instance != NULL;
}

/* Handles a message of the stack. */
static inline void sl_iso_handle(const struct sl_iso_message *message) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso_program *program = receiver->program;
    struct sl_box *box = receiver->box;
    uint64_t dropped = sl_iso_dropped(message->frame, message->order);
    struct sl_event event;
    if (message->type >= program->types || (dropped && !program->deferred && program->withheld[message->type]))
        return;
    sl_iso_enter(message);
    receiver->here = (struct sl_iso_place){message->order, 1, {sl_iso_rank()}};
    receiver->published = 0;
    __atomic_store_n(&sl_iso_own()->begun, message->order, __ATOMIC_RELEASE);
    if (!sl_iso_event_of(message, &event)) {
        (sl_fail)(box, "isolated function", "no memory for the copy of an instance");
        return;
    }
    if (program->deferred)
        box->output.dropped_by = dropped;
    program->event(box, &event, message);
    if (program->ends[message->type] && event.instance) {
        sl_mirror_end(program->mirrors(box, message->owner), box, message->slot);
        sl_iso_own()->flows--;
    }
}

/* sl_watched_word and sl_stopped for the event that is handled. */
static inline uint64_t sl_iso_watched_word(const struct sl_event *event, uint32_t word) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    return receiver->before.order == receiver->here.order ? receiver->before.watched[word] : sl_watched_word(event, word);
}

static inline uint64_t sl_iso_watched(const struct sl_event *event) { return sl_iso_watched_word(event, 0); }

static inline uint64_t sl_iso_stopped(const struct sl_event *event, bool of_both) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    return receiver->before.order == receiver->here.order ? receiver->before.stopped : sl_stopped(event, of_both);
}

/* An event is published on account of an event that this function receives, too. */
static inline void sl_iso_before(const struct sl_iso_message *message) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_box *box = receiver->box;
    if (receiver->before.order == message->order)
        return;
    struct sl_event event = {.box = box, .layer = &box->layers[message->layer], .side = message->side,
                             .owner = &box->layers[message->owner]};
    struct sl_mirrors *mirrors = message->number ? receiver->program->mirrors(box, message->owner) : NULL;
    struct sl_instance *instance = mirrors ? sl_mirror_at(mirrors, message->slot) : NULL;
    if (instance && sl_mirror_number(event.owner, instance) == message->number)
        event.instance = instance;
    if (receiver->program->keep && message->type < receiver->program->types && sl_iso_event_of(message, &event))
        receiver->program->keep(box, &event, message);
    receiver->before.order = message->order;
    for (uint32_t word = 0; word < SL_WATCH_WORDS; word++)
        receiver->before.watched[word] = sl_watched_word(&event, word);
    receiver->before.stopped =
        sl_stopped(&event, message->type < receiver->program->types && receiver->program->ends[message->type]);
}

/* --- published events --- */

static int sl_iso_compare_arrivals(const void *one, const void *other) {
    return sl_iso_compare_places(&((const struct sl_iso_arrival *)one)->own, &((const struct sl_iso_arrival *)other)->own);
}

/* Collects what functions before this one published in this batch. */
static inline void sl_iso_arrive(uint32_t from) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso_log *log = sl_iso_log_of(receiver->iso, from, receiver->place);
    size_t used = __atomic_load_n(&log->used, __ATOMIC_ACQUIRE), at = 0;
    if (log->batch != receiver->slot->batch)
        return;
    used = sl_min(used, SL_ISO_LOG_BYTES - sizeof *log);
    for (uint32_t size; at < used; at += size) {
        const struct sl_iso_entry *entry = (const struct sl_iso_entry *)(const void *)((const uint8_t *)(log + 1) + at);
        if (!(size = sl_iso_entry_size(entry, used - at))) {
            sl_iso_own()->not_published++;
            return;
        }
        uint32_t number = __atomic_load_n(&entry->event, __ATOMIC_RELAXED);
        if (entry->action != SL_ISO_PUBLISH || size < sizeof *entry + sizeof(struct sl_iso_message) ||
            number >= receiver->program->published_events || !receiver->program->wants[number])
            continue;
        if (receiver->arrived == receiver->room) {
            size_t room = receiver->room ? 2 * receiver->room : 256;
            struct sl_iso_arrival *larger = realloc(receiver->arrivals, room * sizeof *larger);
            if (!larger) {
                sl_iso_own()->not_published++;
                return;
            }
            receiver->arrivals = larger;
            receiver->room = room;
        }
        struct sl_iso_arrival *arrival = &receiver->arrivals[receiver->arrived];
        *arrival = (struct sl_iso_arrival){.entry = entry, .number = number, .from = from, .size = size, .own = entry->place};
        __asm__ volatile("" ::: "memory");   /* from here on, only the copy is read */
        if (arrival->own.length >= 2 * SL_ISO_NESTED || arrival->own.order > receiver->slot->last) {
            sl_iso_own()->not_published++;
            continue;
        }
        arrival->own.path[arrival->own.length++] = sl_iso_rank();
        receiver->arrived++;
    }
}

/* May this function read these bytes, which another one names? */
static inline bool sl_iso_valid(sl_bytes bytes, uint32_t from) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    uintptr_t at = (uintptr_t)bytes.at, slot = (uintptr_t)receiver->slot;
    uintptr_t log = (uintptr_t)sl_iso_log_of(receiver->iso, from, receiver->place);
    if (bytes.captured > bytes.length)
        return false;
    return !bytes.captured ||
           (at >= slot && at - slot < SL_ISO_SLOT_BYTES && bytes.captured <= SL_ISO_SLOT_BYTES - (at - slot)) ||
           (at >= log && at - log < SL_ISO_LOG_BYTES && bytes.captured <= SL_ISO_LOG_BYTES - (at - log));
}

/* Is a published event one for this instance? All instances of a function receive what others publish; the one that has
 * the flow handles it, or, of an event without a flow, the one that has the first part of the traffic. */
static inline bool sl_iso_is_own(const struct sl_iso_message *message) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso *iso = receiver->iso;
    uint32_t number = iso->control->vertex[iso->self];
    const struct sl_iso_vertex *vertex = &iso->control->vertices[number];
    if (!(vertex->instances >> iso->self & 1) || !(vertex->instances & (vertex->instances - 1)))
        return true;
    struct { struct sl_instance instance; uint64_t key[SL_SHARED_FLOW_WORDS]; uint8_t rest[4096]; } copy = {0};
    const struct sl_layer_info *owner = &receiver->box->layers[message->owner];
    struct sl_event event = {.box = receiver->box, .layer = owner, .owner = owner};
    int32_t part = 0;
    if (message->number && message->words <= SL_SHARED_FLOW_WORDS && owner->swapped_offset < sizeof copy) {
        memcpy(copy.key, message + 1, 8u * message->words);
        *((uint8_t *)&copy + owner->swapped_offset) = message->swapped;
        event.instance = &copy.instance;
        part = sl_iso_part_of(&event, vertex, iso->control->seed);
    }
    return receiver->slot->owner[number][part < 0 ? 0 : part] == iso->self;
}

/* Handles a published event. It is copied first: its function may change it any time. */
static inline void sl_iso_handle_published(const struct sl_iso_arrival *arrival) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_box *box = receiver->box;
    static uint8_t copy[SL_ISO_LOG_BYTES] __attribute__((aligned(16)));
    size_t size = arrival->size - sizeof *arrival->entry;
    memcpy(copy, arrival->entry + 1, size);
    struct sl_iso_message *message = (struct sl_iso_message *)(void *)copy;
    struct sl_event event;
    bool valid = message->layer < box->layer_count && message->owner < box->layer_count && message->side < 2 &&
                 message->depth < SL_DEPTH_MOST && message->paths < 3 &&
                 sl_iso_in_packet(receiver->slot, message->frame, arrival->own.order, message->frame != 0) &&
                 sl_iso_valid(message->unit, arrival->from);
    if (valid) {
        const struct sl_layer_info *owner = &box->layers[message->owner];
        uint32_t words = message->number && message->words ? sl_iso_key_words(owner) : 0;
        uint32_t fields = message->number ? sl_iso_field_count(owner, message->mask) : 0;
        struct sl_mirrors *mirrors = message->number ? receiver->program->mirrors(box, message->owner) : NULL;
        struct sl_instance *known = mirrors ? sl_mirror_at(mirrors, message->slot) : NULL;
        size_t head = sizeof *message + 8u * (words + fields) +
                      (message->paths > 1 ? sizeof(sl_bytes) : 0) * message->depth + sl_iso_padded(message->depth);
        valid = message->words == words && message->fields == fields &&
                message->data == head && message->size >= head && message->size <= size &&
                (!message->number || mirrors) && message->number <= receiver->slot->created && message->swapped < 2 &&
                (!known || sl_mirror_number(owner, known) <= message->number);
        for (uint32_t i = 0; valid && message->paths > 1 && i < message->depth; i++)
            valid = sl_iso_valid(sl_iso_units(message)[i], arrival->from);
    }
    if (valid) {
        const uint8_t *path = copy + message->data - sl_iso_padded(message->depth);
        for (uint32_t i = 0; valid && i < message->depth; i++)
            valid = path[i] < box->layer_count;
    }
    if (valid && !sl_iso_is_own(message))
        return;
    if (valid) {
        sl_iso_enter(message);
        receiver->here = arrival->own;
        receiver->published = 0;
        __atomic_store_n(&sl_iso_own()->begun, arrival->own.order, __ATOMIC_RELEASE);
        valid = sl_iso_event_of(message, &event) &&
                receiver->program->published(box, &event, message, arrival->number, arrival->from);
    }
    sl_iso_own()->not_published += !valid;
}

/* --- batches --- */

/* Waits for the functions before this one; what they dropped and published is complete then. */
static inline bool sl_iso_wait_before(void) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso *iso = receiver->iso;
    for (uint64_t left = iso->control->before[iso->self] & receiver->slot->functions; left; left &= left - 1)
        if (!sl_iso_wait_done(iso, sl_iso_first(left), receiver->slot->batch, &sl_iso_own()->sleeping))
            return false;
    return true;
}

/* An event at which the function before the crash was. If it fails closed, the packet is dropped. */
static inline void sl_iso_skip(const struct sl_iso_message *message, uint64_t crashed) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    if (message->order != crashed && !receiver->program->deferred)
        return;
    sl_iso_own()->skipped++;
    if (!message->frame || !(receiver->iso->control->closed >> receiver->iso->self & 1))
        return;
    sl_iso_enter(message);
    receiver->here = (struct sl_iso_place){message->order, 1, {sl_iso_rank()}};
    sl_iso_note_drop(receiver->box);
}

/* The same of a published event, whose message is not trusted: its order says which packet it is of. */
static inline void sl_iso_skip_published(const struct sl_iso_arrival *arrival, uint64_t crashed) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso_slot *slot = receiver->slot;
    uint64_t order = arrival->own.order;
    uint32_t frame = 0;
    if (order != crashed && !receiver->program->deferred)
        return;
    sl_iso_own()->skipped++;
    while (frame < slot->packets && slot->frame_order[frame] < order)
        frame++;
    if (!frame || !(receiver->iso->control->closed >> receiver->iso->self & 1))
        return;
    if (receiver->frame && receiver->frame != frame)
        sl_output_packet(receiver->box, &slot->frames[receiver->frame - 1]);
    receiver->frame = frame;
    receiver->box->frame = &slot->frames[frame - 1];
    receiver->here = arrival->own;
    sl_iso_note_drop(receiver->box);
}

static inline void sl_iso_handle_batch(uint64_t resume) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso *iso = receiver->iso;
    const struct sl_iso_slot *slot = receiver->slot;
    struct sl_box *box = receiver->box;
    const uint32_t *reference = sl_iso_references(iso, receiver->place, iso->self);
    receiver->next = receiver->frame = 0;
    receiver->arrived = 0;
    box->finish.again = slot->kind == SL_ISO_STEP || slot->kind == SL_ISO_END;   /* instances end, as in the stack */
    sl_output_begin(box, slot->packets ? slot->frames : NULL, NULL);
    for (uint64_t left = iso->control->before[iso->self] & slot->functions; left; left &= left - 1)
        sl_iso_arrive(sl_iso_first(left));
    if (receiver->arrived)
        qsort(receiver->arrivals, receiver->arrived, sizeof *receiver->arrivals, sl_iso_compare_arrivals);
    for (size_t i = 0, k = 0; i < slot->references[iso->self] || k < receiver->arrived;) {
        const struct sl_iso_message *message =
            i < slot->references[iso->self]
                ? (const struct sl_iso_message *)(const void *)((const uint8_t *)slot + 8 * (size_t)reference[i]) : NULL;
        const struct sl_iso_arrival *arrival = k < receiver->arrived ? &receiver->arrivals[k] : NULL;
        bool first = arrival && (!message || arrival->own.order <= message->order);   /* its publisher is before */
        uint64_t order = first ? arrival->own.order : message->order;
        k += first;
        i += !first;
        if (order <= resume || order == iso->control->poison[iso->self]) {
            if (first)
                sl_iso_skip_published(arrival, order <= resume ? resume : order);
            else
                sl_iso_skip(message, order <= resume ? resume : order);
            continue;
        }
        sl_iso_advance(order);
        sl_iso_progress(order);
        if (first && message && message->order == order)
            sl_iso_before(message);
        if (first)
            sl_iso_handle_published(arrival);
        else
            sl_iso_handle(message);
    }
    sl_iso_advance(UINT64_MAX);
    if (receiver->frame)
        sl_output_packet(box, &slot->frames[receiver->frame - 1]);
    box->frame = NULL;
    receiver->frame = 0;
    sl_output_end(box, 0);
    box->output.taken = true;
    box->now = sl_max(box->now, slot->now);
    if (receiver->program->fire && slot->kind == SL_ISO_TICK && receiver->timed) {
        receiver->here = (struct sl_iso_place){slot->last, 1, {sl_iso_rank()}};
        box->time = box->now;
        receiver->program->fire(box);
    }
}

/* The slot of the next batch. False if the chain ends. */
static inline bool sl_iso_next_batch(uint32_t *place) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_iso *iso = receiver->iso;
    struct sl_iso_function *own = sl_iso_own();
    const struct sl_iso_queue *queue = &iso->stack->queue[iso->self];
    const uint32_t most = sl_iso_spins(iso);
    for (uint32_t spins = 0;; spins++) {
        uint32_t count = __atomic_load_n(&queue->count, __ATOMIC_ACQUIRE);
        if (SL_UNLIKELY(__atomic_load_n(&iso->control->leave, __ATOMIC_RELAXED) >> iso->self & 1))
            return false;
        if (count != receiver->next_batch) {
            *place = queue->entry[receiver->next_batch % SL_ISO_QUEUE];
            return true;
        }
        if (__atomic_load_n(&iso->control->ending, __ATOMIC_RELAXED))
            return false;
        if (spins < most)
            sl_iso_pause();
        else if (!sl_iso_poll_store())
            sl_iso_sleep(&queue->count, count, &own->sleeping);
    }
}

/* Receives batches until the input ends: true; false if the chain ends before. `end` is called with the last batch,
 * before those that wait for this function continue. */
static inline bool sl_iso_receive_batches(struct sl_box *box, const struct sl_iso *iso,
                                          const struct sl_iso_program *program, void (*end)(struct sl_box *box)) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    *receiver = (struct sl_iso_receiver){.iso = iso, .program = program, .box = box};
    struct sl_iso_function *own = sl_iso_own();
    uint64_t resume = iso->control->resume[iso->self];
    box->lost_before = iso->control->lost_before[iso->self];
    receiver->next_batch = own->done;
    sl_iso_instance_open();
    __atomic_store_n(&own->running, 1, __ATOMIC_RELEASE);
    while (sl_iso_next_batch(&receiver->place)) {
        receiver->slot = sl_iso_slot_at(iso, receiver->place);
        receiver->log = sl_iso_log_of(iso, iso->self, receiver->place);
        receiver->repeats = receiver->next_batch != own->done;
        bool known = sl_iso_instance_begin();   /* it was committed by the process before this one */
        if (known) {
            sl_iso_instance_skip(own);
            continue;
        }
        if (receiver->log->batch != receiver->slot->batch || receiver->log->used > SL_ISO_LOG_BYTES - sizeof *receiver->log) {
            receiver->log->used = 0;
            memset(receiver->log->drops, 0, receiver->slot->packets * sizeof *receiver->log->drops);
            __atomic_store_n(&receiver->log->batch, receiver->slot->batch, __ATOMIC_RELEASE);
        }
        if (!sl_iso_wait_before())
            return false;
        sl_iso_handle_batch(resume);
        bool last = receiver->slot->kind == SL_ISO_END;
        sl_iso_instance_end();
        if (last)
            end(box);
        else if (program->deferred)
            sl_batch_flush(&box->batch);
        receiver->next_batch++;
        if (!receiver->repeats)
            sl_iso_done(own, receiver->slot->batch);
        sl_iso_wake_waiting(iso, &own->done_batch);
        sl_iso_instance_done(last);
        if (last)
            return true;
    }
    return false;
}

#endif
