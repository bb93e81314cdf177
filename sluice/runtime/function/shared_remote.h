/* Shared objects in a store: the call of an operation, and what several instances of a function do besides.
 *
 * With several instances (isolated/instance.h) an object is one of three kinds (CHC, table 3.5). A cached one belongs to
 * a part of the traffic, which one instance owns: operations are local, and their updates are committed with the batch.
 * A watched one is read here until the store says that it has changed. Others are in the store. */
#ifndef SL_SHARED_REMOTE_H
#define SL_SHARED_REMOTE_H

#include "function/shared_finish.h"
#include "function/shared_objects.h"
#include "function/shared_text.h"

static inline bool sl_shared_reads(enum sl_store_operation operation) {
    return operation == SL_STORE_READ || operation == SL_STORE_GET || operation == SL_STORE_CONTAINS ||
           operation == SL_STORE_MAP_READ || operation == SL_STORE_LOAD;
}

/* Not inline: the path that a local object never takes. */
SL_COLD enum sl_store_status sl_shared_call(struct sl_object *object, enum sl_store_operation operation, int64_t number,
                                            int64_t other, struct sl_store_result *result, const char *name) {
    struct sl_shared_state *state = object->of->state;
    const struct sl_shared_info *info = object->of->info;
    const struct sl_store_chain *chain = state->store->chain;
    struct sl_store_result waited = {0};
    bool reads = sl_shared_reads(operation), plain = operation == SL_STORE_LOAD;
    bool apart = operation == SL_STORE_GET || operation == SL_STORE_FILL;   /* never part of a commit */
    bool shared = chain && !object->cached && !plain;
    if (!object->key && !sl_object_name(object))
        return SL_STORE_FAILED;
    if (shared && state->store->strict && !state->store->alone && (result || info->access != SL_WRITE_MOSTLY)) {
        chain->order();
        result = result ? result : &waited;   /* the next instance may rely on it */
    }
    /* What another instance changes meanwhile must not change what a replay reads: the store records reads, too. */
    bool recorded = !reads || (shared && !object->of->watched);
    if (recorded) {
        uint64_t clock = (chain ? chain->clock() : state->box->number) << 8;
        state->last_id = clock > state->last_id ? clock : state->last_id + 1;
    }
    struct sl_store_call call = {
        .operation = operation, .recovered = info->recovered, .key = object->key, .key_length = object->key_length,
        .id = recorded ? state->last_id : 0, .number = number, .other = other,
        .bytes = sl_object_bytes(object), .length = info->bytes, .name = name, .open = &object->open,
        .part = object->cached && !plain && !apart ? (uint32_t)object->part + 1 : 0, .shared = object->taken,
    };
    enum sl_store_status status = state->store->call(state->store, &call, result);
    if (chain && !reads) {
        object->valid = false;   /* the store forgets with the update that this instance has read it */
        chain->updated(object->of->watched, (uint32_t)(object->of - state->of[0]) + 1);
    }
    object->of->refused += status == SL_STORE_REFUSED;
    state->failed += status == SL_STORE_FAILED;
    return status;
}

static inline enum sl_store_status sl_shared_remote(struct sl_object *object, enum sl_store_operation operation,
                                                    int64_t number, int64_t other, int64_t *result) {
    struct sl_store_result got = {0};
    enum sl_store_status status = sl_shared_call(object, operation, number, other, result ? &got : NULL, NULL);
    if (result)
        *result = got.number;
    return status;
}

#define SL_SHARED_IS_REMOTE(object) SL_UNLIKELY((object)->of->state->store != NULL && !(object)->cached)

SL_COLD bool sl_shared_take(struct sl_object *object);

/* The same for an operation that would wait for the store: where it may, it takes the object, and does not wait. */
#define SL_SHARED_WAITS(object, result) (SL_SHARED_IS_REMOTE(object) && !((result) && sl_shared_take(object)))

/* An update of a cached object, which was applied here: it is committed with the batch. */
static inline void sl_shared_through(struct sl_object *object, enum sl_store_status status,
                                     enum sl_store_operation operation, int64_t number, int64_t other, const char *name) {
    if (SL_UNLIKELY(object->cached) && status == SL_STORE_DONE) {
        object->written = true;
        sl_shared_call(object, operation, number, other, NULL, name);
    }
}

/* Is the value of a watched object here, as of this place in the order of packets? */
SL_COLD bool sl_shared_fresh(struct sl_object *object) {
    struct sl_store *store = object->of->state->store;
    if (!object->of->watched || !object->valid)
        return false;
    if (store->strict) {
        store->chain->order();
        /* Its callback may come later than a reply on the other connection. */
        store->generation += store->chain->changed();
    }
    store->poll(store, 0);
    return object->valid && object->generation == store->generation;
}

/* The value of a watched object is read now. */
static inline void sl_shared_watch(struct sl_object *object, uint64_t generation) {
    object->valid = object->of->watched;
    object->generation = generation;
}

/* --- cached objects --- */

/* Items of a list or set, `ITEM,`, or of a map, `KEY=VALUE,`. False if they make no sense, or do not fit. */
static inline bool sl_shared_read_items(struct sl_object *object, const char *text) {
    while (*text) {
        char *end;
        int64_t item = strtoll(text, &end, 10), value = 0;
        if (end != text && *end == '=')
            value = strtoll(end + 1, &end, 10);
        if (*end != ',' || end == text)
            return false;
        if (object->of->info->type == SL_SHARED_LIST ? sl_list_push(object, item) != SL_STORE_DONE
                                                     : !sl_map_entry(object, item, true, value))
            return false;
        text = end + 1;
    }
    return true;
}

/* Reads the value of a cached object from the store. */
static inline bool sl_shared_load(struct sl_object *object) {
    char *text = NULL;
    bool is_struct = object->of->info->type == SL_SHARED_STRUCT;
    struct sl_store_result got = {.text = is_struct ? NULL : &text};
    if (is_struct) {
        got.bytes = sl_object_bytes(object);
        got.length = object->of->info->bytes;
    }
    enum sl_store_status status = sl_shared_call(object, is_struct ? SL_STORE_GET : SL_STORE_LOAD, 0, 0, &got, NULL);
    bool loaded = status == SL_STORE_DONE || status == SL_STORE_ABSENT;
    object->present = status == SL_STORE_DONE;
    if (status == SL_STORE_DONE && !is_struct) {
        if (object->of->info->type == SL_SHARED_COUNTER || object->of->info->type == SL_SHARED_NUMBER)
            object->value.number = strtoll(text, NULL, 10);
        else
            loaded = sl_shared_read_items(object, text);
    }
    free(text);
    return loaded;
}

/* Table 3.5 of CHC, the last column: what instances share is cached for as long as all of the traffic goes to one of them. Its
 * key remains that of a shared object; its updates are committed as those of a part, each of which this instance owns. What is
 * written mostly is not taken: its updates do not wait anyway, and are combined. */
SL_COLD bool sl_shared_take(struct sl_object *object) {
    struct sl_shared *shared = object->of;
    const struct sl_store *store = shared->state->store;
    if (!store->alone || shared->unloaded || shared->info->access == SL_WRITE_MOSTLY || shared->info->scope == SL_SCOPE_FLOW)
        return false;
    if (!object->key && !sl_object_name(object))
        return false;
    sl_object_clear(object);
    object->part = 0;
    object->cached = object->taken = true;
    object->written = false;
    if (sl_shared_load(object))
        return true;
    sl_object_clear(object);
    object->cached = object->taken = false;
    shared->unloaded = true;
    return false;
}

/* Decides what an object of an event is that this instance had not. NULL if its value cannot be read. */
SL_COLD struct sl_object *sl_shared_adopt(const struct sl_event *event, struct sl_object *object) {
    struct sl_shared *shared = object->of;
    const struct sl_store_chain *chain = shared->state->store->chain;
    if (!shared->cached || !event->owner->oriented)
        return object;
    object->part = chain->part(event);
    object->cached = object->part >= 0;
    if (object->cached && shared->info->scope == SL_SCOPE_FLOW && !chain->adopted(event))
        return object;
    if (object->part != SL_STORE_OTHERS && !object->cached)
        return object;
    if (object->cached && sl_shared_load(object))
        return object;
    shared->state->failed++;
    sl_object_remove(object);
    return NULL;
}

/* A cached object is given up: it remains here, without a value, until that is committed. */
static inline void sl_shared_vacate(struct sl_object *object) {
    struct sl_shared_state *state = object->of->state;
    sl_shared_call(object, SL_STORE_DROP, 0, 0, NULL, NULL);
    object->written = true;
    sl_object_clear(object);
    if (object->vacant)
        return;
    if (state->vacated == state->vacant_room) {
        size_t room = state->vacant_room ? 2 * state->vacant_room : 64;
        struct sl_object **larger = realloc(state->vacant, room * sizeof *larger);
        if (!larger)
            return;   /* it stays until the end */
        state->vacant = larger;
        state->vacant_room = room;
    }
    object->vacant = true;
    state->vacant[state->vacated++] = object;
}

#endif
