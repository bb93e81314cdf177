/* One instance among several of a function, whose state is in a store (CHC, chapter 3): what it does at the beginning and
 * the end of a batch, and what its objects need to know of the other instances.
 *
 * The slots of batches are the packet log: a slot is free again when the store has acknowledged all updates of its
 * packets. A process that takes the place of one that ended handles the batches again that are not, from the state that
 * the store has: that after the last commit. Operations on objects that instances share are recorded by the store, and
 * give the same results again. */
#ifndef SL_ISOLATED_INSTANCE_H
#define SL_ISOLATED_INSTANCE_H

#include "isolated/flow_state.h"

#include <sys/stat.h>

static struct sl_iso_instance {
    struct sl_store *store;              /* NULL: the function has no state outside */
    struct sl_shared_state *shared;
    const struct sl_iso_vertex *vertex;
    uint32_t number;                     /* of the vertex */
    uint32_t version;                    /* of the table of parts that it has taken up */
    bool begun;                          /* it has handled a batch */
    uint64_t watched;                    /* updates of the other instances that this one knows of */
    struct { uint64_t made, before; uint32_t place, batch; } waiting[SL_ISO_QUEUE];   /* batches that are not settled */
    uint32_t first, count;
} sl_iso_instance;

/* Notifies those that wait for this function. */
static inline void sl_iso_wake_waiting(const struct sl_iso *iso, const uint32_t *word) {
    bool sleeping = __atomic_load_n(&iso->stack->sleeping, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; !sleeping && i < iso->count; i++)
        sleeping = __atomic_load_n(&sl_iso_function_at(iso, i)->sleeping, __ATOMIC_SEQ_CST);
    if (sleeping)
        sl_iso_wake(word);
}

/* This function is done with a batch. Both words are stored at once: one without the other, after a kill, would let it
 * wait for a batch that does not come, or receive one twice. */
static inline void sl_iso_done(struct sl_iso_function *own, uint32_t batch) {
    union { uint32_t words[2]; uint64_t both; } done = {{batch, own->done + 1}};
    __atomic_store_n((__attribute__((may_alias)) uint64_t *)(void *)&own->done_batch, done.both, __ATOMIC_SEQ_CST);
}

/* --- the order of packets --- */

/* Events before this one are handled, and what they updated is in the store. After a crash it does not go back: what was
 * updated then still is. */
static inline void sl_iso_progress(uint64_t order) {
    struct sl_iso_function *own = sl_iso_own();
    if (order > own->progress)
        __atomic_store_n(&own->progress, order, __ATOMIC_RELEASE);
}

/* Has another instance handled all events before the current one? */
static inline bool sl_iso_passed(const struct sl_iso *iso, uint32_t other) {
    const struct sl_iso_slot *slot = sl_iso_receiver.slot;
    const struct sl_iso_function *side = sl_iso_function_at(iso, other);
    uint64_t order = sl_iso_receiver.here.order, progress = __atomic_load_n(&side->progress, __ATOMIC_ACQUIRE);
    if (progress > order || (progress == order && iso->self < other))   /* timers of two instances have one place */
        return true;
    if (slot->functions >> other & 1)
        return sl_iso_is_done(iso, other, slot->batch);
    /* It does not get this batch: is it done with those before? */
    const struct sl_iso_queue *queue = &iso->stack->queue[other];
    uint32_t count = __atomic_load_n(&queue->count, __ATOMIC_ACQUIRE), done = __atomic_load_n(&side->done, __ATOMIC_ACQUIRE);
    if (count == done || __atomic_load_n(&iso->control->absent, __ATOMIC_ACQUIRE) >> other & 1)
        return true;
    return (int32_t)(sl_iso_slot_at(iso, queue->entry[done % SL_ISO_QUEUE])->batch - slot->batch) > 0;
}

static void sl_iso_wait_order(void) {
    const struct sl_iso *iso = sl_iso_receiver.iso;
    if (iso->control->off & SL_ISO_OFF_ORDER)
        return;
    for (uint64_t left = sl_iso_instance.vertex->instances & ~((uint64_t)1 << iso->self); left; left &= left - 1) {
        uint32_t other = sl_iso_first(left);
        for (uint32_t spins = 0; !sl_iso_passed(iso, other) && !__atomic_load_n(&iso->control->ending, __ATOMIC_RELAXED);
             spins++) {
            if (spins < SL_ISO_SPINS) {
                sl_iso_pause();
            } else {   /* its progress is no word that wakes anyone */
                struct timespec most = {0, 50 * 1000};
                sl_iso_own()->waits = 1;
                nanosleep(&most, NULL);
                sl_iso_instance.store->poll(sl_iso_instance.store, 0);   /* what they wait for is transmitted */
            }
        }
    }
    sl_iso_own()->waits = 0;
}

static uint64_t sl_iso_clock(void) { return sl_iso_receiver.here.order; }

/* --- objects --- */

static int32_t sl_iso_part(const void *given) {
    struct sl_store *store = sl_iso_instance.store;
    const struct sl_iso *iso = sl_iso_receiver.iso;
    int32_t part = sl_iso_part_of(given, sl_iso_instance.vertex, iso->control->seed);
    if (part < 0 || store->owned[part >> 3] >> (part & 7) & 1 || iso->control->off & SL_ISO_OFF_MARKS)
        return part;
    return SL_STORE_OTHERS;   /* the event is of a packet of this instance's, and of a flow of another one's */
}

static bool sl_iso_adopted(const void *given) {
    const struct sl_event *event = given;
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    const struct sl_mirrors *mirrors = receiver->program->mirrors(receiver->box, event->owner->index);
    bool off = receiver->iso->control->off & SL_ISO_OFF_STATE;
    return !off && mirrors && event->instance->slot < mirrors->count && mirrors->adopted[event->instance->slot];
}

/* Updates of watched objects by the other instances so far. */
static inline uint64_t sl_iso_watched_updates(void) {
    const struct sl_iso *iso = sl_iso_receiver.iso;
    uint64_t sum = 0;
    for (uint64_t left = sl_iso_instance.vertex->instances & ~((uint64_t)1 << iso->self); left; left &= left - 1)
        sum += __atomic_load_n(&sl_iso_function_at(iso, sl_iso_first(left))->watched, __ATOMIC_ACQUIRE);
    return sum;
}

static bool sl_iso_changed(void) {
    uint64_t sum = sl_iso_watched_updates();
    bool changed = sum != sl_iso_instance.watched;
    sl_iso_instance.watched = sum;
    return changed;
}

static void sl_iso_updated(bool watched, uint32_t object) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_iso_function *own = sl_iso_own();
    if (watched)
        __atomic_store_n(&own->watched, own->watched + 1, __ATOMIC_RELEASE);
    if (receiver->log)
        receiver->log->updates[receiver->frame] ^= receiver->iso->self << 16 | (object & 0xffff);
}

static bool sl_iso_waits(bool waits) {
    bool before = sl_iso_own()->waits;
    sl_iso_own()->waits = waits;
    return before;
}

/* --- batches --- */

static inline void sl_iso_instance_open(void) {
    static const struct sl_store_chain chain = {sl_iso_clock,   sl_iso_wait_order, sl_iso_part,
                                                sl_iso_adopted, sl_iso_changed,    sl_iso_updated, sl_iso_waits};
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_iso_instance *instance = &sl_iso_instance;
    const struct sl_iso_control *control = receiver->iso->control;
    struct sl_shared_state *shared = receiver->box->shared;
    if (!(control->stateful >> receiver->iso->self & 1) || !shared || !shared->store)
        return;
    *instance = (struct sl_iso_instance){.store = shared->store, .shared = shared};
    instance->number = control->vertex[receiver->iso->self];
    instance->vertex = &control->vertices[instance->number];
    instance->store->chain = &chain;
    instance->version = instance->store->version;
    receiver->next_batch = control->off & SL_ISO_OFF_LOG ? sl_iso_own()->done : sl_iso_own()->settled;
}

/* Does a store have the timers and the state of flows? Those that a batch may change are noted then. */
static inline bool sl_iso_stores_flows(void) {
    return sl_iso_instance.store && (sl_iso_receiver.program->timers || sl_iso_receiver.program->stored);
}

/* Notes an event of a flow; called before it is handled. */
static inline void sl_iso_note_flow(const struct sl_event *event, struct sl_mirrors *mirrors) {
    if (SL_UNLIKELY(sl_iso_stores_flows()))
        sl_iso_touch(event, mirrors, sl_iso_instance.vertex);
}

/* As sl_flow_changed (function/stored.h): the flow is one that this batch has touched. */
static inline void sl_iso_flow_changed(struct sl_box *box, const struct sl_flow_place *place) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_event event = {.box = box, .owner = &box->layers[place->owner]};
    struct sl_mirrors *mirrors = receiver->program->mirrors(box, place->owner);
    event.instance = mirrors ? sl_mirror_at(mirrors, place->slot) : NULL;
    if (event.instance && sl_event_number(&event) == place->number)
        sl_iso_note_flow(&event, mirrors);
}

/* In the function's text, by the name of stored.h. */
#define sl_flow_changed(box, place) sl_iso_flow_changed(box, place)

/* Gives up the parts of the traffic that other instances have from this batch on: what the batches before updated is
 * transmitted already, and the store performs one after the other. They are marked as committed, also if they updated
 * nothing: a process that takes the place of this one must not handle them again, without the parts. */
static inline void sl_iso_give_up_parts(void) {
    const struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_iso_instance *instance = &sl_iso_instance;
    struct sl_box *box = receiver->box;
    const uint8_t *owner = receiver->slot->owner[instance->number];
    uint8_t leaving[SL_ISO_PARTS / 8] = {0};
    bool any = false;
    for (uint32_t part = 0; part < SL_ISO_PARTS; part++)
        if (owner[part] != receiver->iso->self && instance->store->owned[part >> 3] >> (part & 7) & 1) {
            leaving[part >> 3] |= (uint8_t)(1 << (part & 7));
            any = true;
        }
    if (!any)
        return;
    for (uint32_t i = 0; i < box->layer_count; i++) {
        struct sl_mirrors *mirrors = receiver->program->mirrors(box, i);
        for (uint32_t slot = 0; mirrors && slot < mirrors->count; slot++) {
            struct sl_event event = {.box = box, .layer = &box->layers[i], .owner = &box->layers[i],
                                     .instance = mirrors->at[slot]};
            int32_t part = sl_iso_part_of(&event, instance->vertex, receiver->iso->control->seed);
            if (part >= 0 && leaving[part >> 3] >> (part & 7) & 1) {
                sl_mirror_end(mirrors, box, slot);
                sl_iso_own()->flows--;
            }
        }
    }
    sl_shared_leave(instance->shared, leaving);
    sl_shared_return(instance->shared);
    instance->store->alone = false;
    instance->store->marks = true;
    instance->store->commit(instance->store, receiver->slot->before);
    instance->store->release(instance->store, leaving, owner);
    instance->store->poll(instance->store, 0);   /* transmits it: the others wait for it */
}

/* Takes the parts of the traffic that are this instance's from this batch on, once the instances that had them have given
 * them up. What this one had to give up, it has: no two instances wait for each other. */
static inline void sl_iso_take_parts(uint32_t version) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_iso_instance *instance = &sl_iso_instance;
    const uint8_t *owner = receiver->slot->owner[instance->number];
    uint8_t parts[SL_ISO_PARTS / 8] = {0};
    bool any = false;
    for (uint32_t part = 0; part < SL_ISO_PARTS; part++)
        if (owner[part] == receiver->iso->self && !(instance->store->owned[part >> 3] >> (part & 7) & 1)) {
            parts[part >> 3] |= (uint8_t)(1 << (part & 7));
            any = true;
        }
    bool owned;
    sl_iso_own()->waits = 1;
    do
        owned = instance->store->own(instance->store, parts, receiver->iso->self, version);
    while (!owned && !__atomic_load_n(&receiver->iso->control->ending, __ATOMIC_RELAXED) &&
           !instance->store->fault(instance->store)[0]);
    sl_iso_own()->waits = 0;
    if (owned && any && sl_iso_stores_flows())
        sl_iso_load_flows(instance->store, parts);
}

/* Has this instance all of the traffic, so that no other one uses what they share? Timers of the box fire in all of them,
 * and at the end all of them close. */
static inline bool sl_iso_alone(void) {
    const struct sl_iso_instance *instance = &sl_iso_instance;
    bool several = (instance->vertex->instances & (instance->vertex->instances - 1)) != 0;
    if (sl_iso_receiver.slot->kind == SL_ISO_END || (several && sl_iso_receiver.program->box_timers))
        return false;
    for (uint32_t i = 0; i < SL_ISO_PARTS / 8; i++)
        if (instance->store->owned[i] != 0xff)
            return false;
    return true;
}

/* Before a batch. True if the process before this one has committed it. */
static inline bool sl_iso_instance_begin(void) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    struct sl_iso_instance *instance = &sl_iso_instance;
    const struct sl_iso_slot *slot = receiver->slot;
    /* a new process of the stack that has not read the input again begins all flows again: the store may have their state */
    bool new_root = receiver->iso->control->roots && !receiver->iso->control->replays;
    for (uint32_t i = 0; i < receiver->box->layer_count; i++) {
        struct sl_mirrors *mirrors = receiver->program->mirrors(receiver->box, i);
        if (mirrors)
            mirrors->before = new_root ? UINT64_MAX : slot->created_before;
    }
    if (!instance->store)
        return false;
    if (slot->last <= receiver->iso->control->committed[receiver->iso->self] && slot->kind != SL_ISO_END)
        return true;
    if (!receiver->repeats) {   /* what it decided so far does not count: it begins with the batch again */
        receiver->log->used = 0;
        memset(receiver->log->drops, 0, slot->packets * sizeof *receiver->log->drops);
    }
    memset(receiver->log->updates, 0, sizeof receiver->log->updates);
    memset(receiver->log->committed, 0, sizeof receiver->log->committed);
    __atomic_store_n(&receiver->log->batch, slot->batch, __ATOMIC_RELEASE);
    instance->store->floor = (instance->count ? instance->waiting[instance->first].before : slot->before) + 1;
    if (!instance->begun && sl_iso_stores_flows())   /* of the process before this one */
        sl_iso_load_flows(instance->store, instance->store->owned);
    instance->begun = true;
    uint32_t version = slot->version[instance->number];
    if ((int32_t)(version - instance->version) > 0 && !(receiver->iso->control->off & SL_ISO_OFF_MARKS)) {
        sl_iso_give_up_parts();
        sl_iso_take_parts(version);
        instance->version = version;
    }
    bool alone = sl_iso_alone();
    if (instance->store->alone && !alone)
        sl_shared_return(instance->shared);
    instance->store->alone = alone;
    return false;
}

/* The store has acknowledged what the oldest batch updated. Both words are stored at once, as in sl_iso_done. */
static inline void sl_iso_settle(void) {
    struct sl_iso_instance *instance = &sl_iso_instance;
    struct sl_iso_function *own = sl_iso_own();
    while (instance->count && instance->store->acknowledged >= instance->waiting[instance->first].made) {
        struct sl_iso_log *log =
            sl_iso_log_of(sl_iso_receiver.iso, sl_iso_receiver.iso->self, instance->waiting[instance->first].place);
        if (!instance->store->fault(instance->store)[0])
            memcpy(log->committed, log->updates, sizeof log->committed);
        union { uint32_t words[2]; uint64_t both; } settled = {{instance->waiting[instance->first].batch, own->settled + 1}};
        __atomic_store_n((__attribute__((may_alias)) uint64_t *)(void *)&own->settled_batch, settled.both, __ATOMIC_SEQ_CST);
        instance->first = (instance->first + 1) % SL_ISO_QUEUE;
        instance->count--;
        sl_iso_wake_waiting(sl_iso_receiver.iso, &own->settled_batch);
    }
}

/* A batch that is committed, and what it decided is in the log. */
static inline void sl_iso_instance_skip(struct sl_iso_function *own) {
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    receiver->next_batch++;
    if (!receiver->repeats)
        sl_iso_done(own, receiver->slot->batch);
    memcpy(receiver->log->committed, receiver->log->updates, sizeof receiver->log->committed);
    union { uint32_t words[2]; uint64_t both; } settled = {{receiver->slot->batch, own->settled + 1}};
    __atomic_store_n((__attribute__((may_alias)) uint64_t *)(void *)&own->settled_batch, settled.both, __ATOMIC_SEQ_CST);
    sl_iso_wake_waiting(receiver->iso, &own->done_batch);
}

/* The batch is handled: its updates are committed. */
static inline void sl_iso_instance_end(void) {
    struct sl_iso_instance *instance = &sl_iso_instance;
    struct sl_iso_receiver *receiver = &sl_iso_receiver;
    if (!instance->store)
        return;
    int rows = (int)receiver->iso->control->row_file[receiver->iso->self];
    struct stat size;
    if (rows && fflush(NULL) == 0 && fstat(rows, &size) == 0)
        instance->store->rows = (uint64_t)size.st_size;
    if (sl_iso_stores_flows())
        sl_iso_store_flows(instance->store);
    instance->store->commit(instance->store, receiver->slot->last);
    sl_shared_committed(instance->shared);
    receiver->here.order = receiver->slot->last + 1;   /* of what functions update when they close */
}

/* What the batch decided is known to the stack. last: there are no more; all is acknowledged. */
static inline void sl_iso_instance_done(bool last) {
    struct sl_iso_instance *instance = &sl_iso_instance;
    const struct sl_iso_slot *slot = sl_iso_receiver.slot;
    if (!instance->store)
        return;
    sl_iso_progress(slot->last + 1);
    uint32_t place = (instance->first + instance->count++) % SL_ISO_QUEUE;
    instance->waiting[place].made = last ? 0 : instance->store->made;
    instance->waiting[place].before = slot->before;
    instance->waiting[place].place = sl_iso_receiver.place;
    instance->waiting[place].batch = slot->batch;
    instance->store->poll(instance->store, 0);
    sl_iso_settle();
}

/* Waits for the store, if it has something to acknowledge. False: it has not. */
static inline bool sl_iso_poll_store(void) {
    struct sl_iso_instance *instance = &sl_iso_instance;
    if (!instance->store || !instance->count)
        return false;
    instance->store->poll(instance->store, 1);
    sl_iso_settle();
    return true;
}

#endif
