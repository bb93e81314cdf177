/* Shared objects of functions: state that outlives a box where a store holds it (sluice/state), and local otherwise.
 *
 * SLUICE_SHARED(name, type, scope, access, loss, help) declares them:
 *   type     counter, number, struct NAME, list, set, map
 *   scope    flow: an object for each instance; all: one; else the header fields that key it, as src or dst+dport
 *   access   write_mostly, read_mostly, read_write
 *   loss     recover: the run fails if an update is lost; zero: it may begin again from nothing
 *
 * SLUICE_SHARED_OF(event, name) is the object of the event's flow, or that of its header fields: src and sport are
 * those of the active side, dst and dport those of the other one. SLUICE_SHARED_SIDE(event, name, side) takes src
 * from that side. SLUICE_SHARED_ALL(box, name) is the one object of scope `all`, SLUICE_SHARED_AT(box, name, number)
 * that of a number that stands for the fields. A pointer is valid until sl_shared_drop or the end; that of a flow
 * may be stored in SLUICE_STATE. NULL: there is no room for it, which is counted. All operations take NULL, and then
 * fail.
 *
 * An operation with a result waits for the store; a result of NULL does not (CHC, 3.3.3: non-blocking updates). The
 * result is 0 unless the status is SL_STORE_DONE. Numbers, and keys of maps, have magnitudes below 2^53; an update
 * beyond that is refused and counted. */
#ifndef SL_SHARED_H
#define SL_SHARED_H

#include "function/shared_remote.h"

/* --- which object --- */

static inline struct sl_object *sl_shared_at(struct sl_shared *shared, const uint64_t *key) {
    bool created;
    return sl_shared_find(shared, key, &created);
}

/* The one object of scope `all`. */
static inline struct sl_object *sl_shared_all(struct sl_shared *shared) {
    static const uint64_t key[1];
    if (SL_UNLIKELY(!shared->single))
        shared->single = sl_shared_at(shared, key);
    return shared->single;
}

/* The object of a number. */
static inline struct sl_object *sl_shared_number(struct sl_shared *shared, uint64_t number) {
    uint64_t key[SL_SHARED_KEY_WORDS] = {0, number};
    return sl_shared_at(shared, key);
}

/* The object of an event; `side` is the side that `src` means. */
static inline struct sl_object *sl_shared_of(const struct sl_event *event, struct sl_shared *shared, unsigned side) {
    if (shared->info->scope == SL_SCOPE_ALL)
        return sl_shared_all(shared);
    if (!event->instance)
        return NULL;
    uint64_t key[SL_SHARED_KEY_WORDS] = {0};
    bool flow = shared->info->scope == SL_SCOPE_FLOW, created;
    if (flow)
        key[0] = sl_event_number(event);
    else if (!sl_shared_fields(event, shared, side, key))
        return NULL;
    struct sl_object *object = sl_shared_find(shared, key, &created);
    if (object && created && flow)
        sl_object_of_flow(object, event);
    if (object && created && SL_UNLIKELY(shared->cached) && shared->state->store->chain)
        return sl_shared_adopt(event, object);
    return object;
}

/* Gives an object up: it no longer exists, and the pointer is not valid. */
static inline void sl_shared_drop(struct sl_object *object) {
    if (!object)
        return;
    if (SL_UNLIKELY(object->cached)) {
        sl_shared_vacate(object);
        return;
    }
    if (SL_SHARED_IS_REMOTE(object))
        sl_shared_remote(object, SL_STORE_DROP, 0, 0, NULL);
    sl_object_remove(object);
}

/* Gives the memory of an object up, which remains in the store; without one, as sl_shared_drop. What was taken and changed
 * here is given up with the other taken ones (sl_shared_return). */
static inline void sl_shared_forget(struct sl_object *object) {
    bool written = object && object->cached && (!object->taken || object->written);
    if (object && object->taken)
        object->left = true;
    if (object && (written || (SL_SHARED_IS_REMOTE(object) && object->open)))
        return;   /* there are updates of it that are not transmitted */
    if (object)
        sl_object_remove(object);
}

/* The same of an object that a store has, and that this instance need not find again: another one may drop it. Without a
 * store it remains. */
static inline void sl_shared_leave_to_store(struct sl_object *object) {
    if (object && (object->taken || SL_SHARED_IS_REMOTE(object)))
        sl_shared_forget(object);
}

/* Refuses a number of an update that is beyond the bound, and counts it: the server would round it. */
static inline bool sl_shared_beyond(struct sl_object *object, int64_t number, int64_t other, int64_t *result) {
    if (SL_LIKELY(sl_number_fits(number) && sl_number_fits(other)))
        return false;
    sl_shared_refuse(object);
    if (result)
        *result = 0;
    return true;
}

/* --- counters and numbers --- */

/* Adds to a counter or a number; *result is the sum. */
static inline enum sl_store_status sl_shared_add(struct sl_object *object, int64_t number, int64_t *result) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, number, 0, result))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, result))
        return sl_shared_remote(object, SL_STORE_ADD, number, 0, result);
    enum sl_store_status status = sl_number_set(object, sl_number_sum(object->value.number, number));
    sl_shared_through(object, status, SL_STORE_ADD, number, 0, NULL);
    if (result)
        *result = status == SL_STORE_DONE ? object->value.number : 0;
    return status;
}

/* The value; 0 if it was never set. */
static inline enum sl_store_status sl_shared_read(struct sl_object *object, int64_t *result) {
    *result = 0;
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_WAITS(object, true) && !sl_shared_fresh(object)) {
        uint64_t generation = object->of->state->store->generation;
        enum sl_store_status status = sl_shared_remote(object, SL_STORE_READ, 0, 0, result);
        object->value.number = *result;
        if (status == SL_STORE_DONE)
            sl_shared_watch(object, generation);
        return status;
    }
    *result = object->value.number;
    return SL_STORE_DONE;
}

static inline enum sl_store_status sl_shared_set(struct sl_object *object, int64_t number) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, number, 0, NULL))
        return SL_STORE_REFUSED;
    if (SL_SHARED_IS_REMOTE(object))
        return sl_shared_remote(object, SL_STORE_SET, number, 0, NULL);
    enum sl_store_status status = sl_number_set(object, number);
    sl_shared_through(object, status, SL_STORE_SET, number, 0, NULL);
    return status;
}

static inline enum sl_store_status sl_shared_extreme(struct sl_object *object, enum sl_store_operation operation,
                                                     int64_t number, int64_t *result) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, number, 0, result))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, result))
        return sl_shared_remote(object, operation, number, 0, result);
    int64_t now = object->value.number;
    bool sets = !object->present || (operation == SL_STORE_MINIMUM ? number < now : number > now);
    enum sl_store_status status = sets ? sl_number_set(object, number) : SL_STORE_DONE;
    sl_shared_through(object, status, operation, number, 0, NULL);
    if (result)
        *result = status == SL_STORE_DONE ? object->value.number : 0;
    return status;
}

/* Sets a number to a less one, or one that was never set; *result is the value then. */
static inline enum sl_store_status sl_shared_minimum(struct sl_object *object, int64_t number, int64_t *result) {
    return sl_shared_extreme(object, SL_STORE_MINIMUM, number, result);
}

static inline enum sl_store_status sl_shared_maximum(struct sl_object *object, int64_t number, int64_t *result) {
    return sl_shared_extreme(object, SL_STORE_MAXIMUM, number, result);
}

/* Sets a number to `number` if it is `expected`; *before is what it was. */
static inline enum sl_store_status sl_shared_compare(struct sl_object *object, int64_t expected, int64_t number,
                                                     int64_t *before) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, expected, number, before))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, before))
        return sl_shared_remote(object, SL_STORE_COMPARE, expected, number, before);
    int64_t was = object->value.number;
    enum sl_store_status status = was == expected ? sl_number_set(object, number) : SL_STORE_DONE;
    sl_shared_through(object, status, SL_STORE_COMPARE, expected, number, NULL);
    if (before)
        *before = status == SL_STORE_DONE ? was : 0;
    return status;
}

/* An operation of the function itself, see SLUICE_OPERATION. */
static inline enum sl_store_status sl_shared_custom(struct sl_object *object, const char *name,
                                                    int64_t (*apply)(int64_t value, int64_t argument, int64_t other),
                                                    int64_t argument, int64_t other, int64_t *result) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, argument, other, result))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, result)) {
        struct sl_store_result got = {0};
        enum sl_store_status status =
            sl_shared_call(object, SL_STORE_CUSTOM, argument, other, result ? &got : NULL, name);
        if (result)
            *result = got.number;
        return status;
    }
    enum sl_store_status status = sl_number_set(object, apply(object->value.number, argument, other));
    sl_shared_through(object, status, SL_STORE_CUSTOM, argument, other, name);
    if (result)
        *result = status == SL_STORE_DONE ? object->value.number : 0;
    return status;
}

/* --- structs --- */

/* The bytes of a struct; NULL if the store does not reply. A flow-scoped one is cached. The function changes them,
 * and then calls sl_shared_put. */
static inline void *sl_shared_struct(struct sl_object *object) {
    if (SL_UNLIKELY(!object))
        return NULL;
    void *bytes = sl_object_bytes(object);
    const struct sl_store *store = object->of->state->store;
    bool cached = object->of->info->scope == SL_SCOPE_FLOW && (!store || (store->caches && !store->chain));
    if (cached || !SL_SHARED_WAITS(object, true) || sl_shared_fresh(object))
        return bytes;
    uint64_t generation = store->generation;
    struct sl_store_result got = {.bytes = bytes, .length = object->of->info->bytes};
    enum sl_store_status status = sl_shared_call(object, SL_STORE_GET, 0, 0, &got, NULL);
    if (status == SL_STORE_ABSENT)
        memset(bytes, 0, object->of->info->bytes);
    if (status != SL_STORE_DONE && status != SL_STORE_ABSENT)
        return NULL;
    sl_shared_watch(object, generation);
    return bytes;
}

/* Was a number or a flow-scoped struct set, by whichever instance had the flow? Does not wait for the store. */
static inline bool sl_shared_present(const struct sl_object *object) { return object && object->present; }

/* The bytes of a struct that the function is about to set as a whole, whatever the store has; NULL if there is no
 * object. */
static inline void *sl_object_bytes_of(struct sl_object *object) { return object ? sl_object_bytes(object) : NULL; }

/* Stores the changed bytes of a struct. */
static inline enum sl_store_status sl_shared_put(struct sl_object *object) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    object->present = true;
    if (SL_SHARED_IS_REMOTE(object))
        return sl_shared_remote(object, SL_STORE_PUT, 0, 0, NULL);
    sl_shared_through(object, SL_STORE_DONE, SL_STORE_PUT, 0, 0, NULL);
    return SL_STORE_DONE;
}

/* --- lists --- */

/* Appends the numbers from `first` to `last`, once in the life of a list. */
static inline enum sl_store_status sl_shared_fill(struct sl_object *object, int64_t first, int64_t last) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    enum sl_store_status status = SL_STORE_DONE;
    if (SL_UNLIKELY(object->of->state->store != NULL)) {   /* it knows whether that was done before */
        int64_t filled = 0;
        status = sl_shared_remote(object, SL_STORE_FILL, first, last, &filled);
        if (!object->cached || !filled)
            return status;
    }
    for (int64_t item = first; !object->value.list.filled && item <= last && status == SL_STORE_DONE; item++)
        status = sl_list_push(object, item);
    object->value.list.filled = true;
    return status;
}

static inline enum sl_store_status sl_shared_push(struct sl_object *object, int64_t item) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_IS_REMOTE(object))
        return sl_shared_remote(object, SL_STORE_PUSH, item, 0, NULL);
    enum sl_store_status status = sl_list_push(object, item);
    sl_shared_through(object, status, SL_STORE_PUSH, item, 0, NULL);
    return status;
}

/* Takes the first item. SL_STORE_ABSENT: the list is empty. */
static inline enum sl_store_status sl_shared_pop(struct sl_object *object, int64_t *item) {
    *item = 0;
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_WAITS(object, true))
        return sl_shared_remote(object, SL_STORE_POP, 0, 0, item);
    enum sl_store_status status = sl_list_pop(object, item);
    sl_shared_through(object, status, SL_STORE_POP, 0, 0, NULL);
    return status;
}

/* --- sets --- */

/* *added: it was not in the set. */
static inline enum sl_store_status sl_shared_insert(struct sl_object *object, int64_t item, int64_t *added) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_WAITS(object, added))
        return sl_shared_remote(object, SL_STORE_INSERT, item, 0, added);
    bool there = sl_map_entry(object, item, false, 0) != NULL;
    if (added)
        *added = !there;
    enum sl_store_status status = there || sl_map_entry(object, item, true, 0) ? SL_STORE_DONE : SL_STORE_REFUSED;
    sl_shared_through(object, status, SL_STORE_INSERT, item, 0, NULL);
    return status;
}

static inline enum sl_store_status sl_shared_remove(struct sl_object *object, int64_t item, int64_t *removed) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_WAITS(object, removed))
        return sl_shared_remote(object, SL_STORE_REMOVE, item, 0, removed);
    bool there = sl_map_remove(object, item);
    if (removed)
        *removed = there;
    sl_shared_through(object, SL_STORE_DONE, SL_STORE_REMOVE, item, 0, NULL);
    return SL_STORE_DONE;
}

static inline enum sl_store_status sl_shared_contains(struct sl_object *object, int64_t item, int64_t *there) {
    *there = 0;
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_WAITS(object, true))
        return sl_shared_remote(object, SL_STORE_CONTAINS, item, 0, there);
    *there = sl_map_entry(object, item, false, 0) != NULL;
    return SL_STORE_DONE;
}

/* --- maps of numbers --- */

static inline enum sl_store_status sl_map_set(struct sl_object *object, int64_t key, int64_t value, int64_t *result) {
    bool fits = sl_number_fits(value);
    struct sl_map_entry *entry = fits ? sl_map_entry(object, key, true, value) : NULL;
    if (result)
        *result = entry ? value : 0;
    if (!entry)
        return fits ? SL_STORE_REFUSED : sl_shared_refuse(object);
    entry->value = value;
    return SL_STORE_DONE;
}

static inline enum sl_store_status sl_shared_map_add(struct sl_object *object, int64_t key, int64_t number, int64_t *result) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, key, number, result))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, result))
        return sl_shared_remote(object, SL_STORE_MAP_ADD, key, number, result);
    const struct sl_map_entry *entry = sl_map_entry(object, key, false, 0);
    enum sl_store_status status = sl_map_set(object, key, sl_number_sum(entry ? entry->value : 0, number), result);
    sl_shared_through(object, status, SL_STORE_MAP_ADD, key, number, NULL);
    return status;
}

/* SL_STORE_ABSENT: the map does not have the key. */
static inline enum sl_store_status sl_shared_map_read(struct sl_object *object, int64_t key, int64_t *result) {
    *result = 0;
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (SL_SHARED_WAITS(object, true))
        return sl_shared_remote(object, SL_STORE_MAP_READ, key, 0, result);
    const struct sl_map_entry *entry = sl_map_entry(object, key, false, 0);
    *result = entry ? entry->value : 0;
    return entry ? SL_STORE_DONE : SL_STORE_ABSENT;
}

static inline enum sl_store_status sl_shared_map_extreme(struct sl_object *object, enum sl_store_operation operation,
                                                         int64_t key, int64_t number, int64_t *result) {
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, key, number, result))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, result))
        return sl_shared_remote(object, operation, key, number, result);
    const struct sl_map_entry *entry = sl_map_entry(object, key, false, 0);
    bool keeps = entry && (operation == SL_STORE_MAP_MINIMUM ? entry->value < number : entry->value > number);
    enum sl_store_status status = sl_map_set(object, key, keeps ? entry->value : number, result);
    sl_shared_through(object, status, operation, key, number, NULL);
    return status;
}

static inline enum sl_store_status sl_shared_map_minimum(struct sl_object *object, int64_t key, int64_t number,
                                                         int64_t *result) {
    return sl_shared_map_extreme(object, SL_STORE_MAP_MINIMUM, key, number, result);
}

static inline enum sl_store_status sl_shared_map_maximum(struct sl_object *object, int64_t key, int64_t number,
                                                         int64_t *result) {
    return sl_shared_map_extreme(object, SL_STORE_MAP_MAXIMUM, key, number, result);
}

/* Adds to the least value, of equal ones to that of the least key; *key is its key. SL_STORE_ABSENT: the map is
 * empty. It takes time in proportion to the map. */
static inline enum sl_store_status sl_shared_map_least(struct sl_object *object, int64_t number, int64_t *key) {
    *key = 0;
    if (SL_UNLIKELY(!object))
        return SL_STORE_FAILED;
    if (sl_shared_beyond(object, number, 0, key))
        return SL_STORE_REFUSED;
    if (SL_SHARED_WAITS(object, true))
        return sl_shared_remote(object, SL_STORE_MAP_LEAST, number, 0, key);
    const struct sl_map_entry *least = sl_map_least(object);
    if (!least)
        return SL_STORE_ABSENT;
    enum sl_store_status status = sl_map_set(object, least->key, sl_number_sum(least->value, number), NULL);
    *key = status == SL_STORE_DONE ? least->key : 0;
    sl_shared_through(object, status, SL_STORE_MAP_LEAST, number, 0, NULL);
    return status;
}

#endif
