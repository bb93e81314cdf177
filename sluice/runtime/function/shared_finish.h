/* Shared objects at the end of a burst and of the input: updates are transmitted and acknowledged, counts reported,
 * and the final state of local objects is written. */
#ifndef SL_SHARED_FINISH_H
#define SL_SHARED_FINISH_H

#include "core/create.h"
#include "function/shared_text.h"

#include <errno.h>

/* --- the final state of local objects, as sluice/state/rows.py reads it from a store --- */

static inline int sl_number_order(const void *a, const void *b) {
    int64_t x = ((const struct sl_map_entry *)a)->key, y = ((const struct sl_map_entry *)b)->key;
    return (x > y) - (x < y);
}

static inline void sl_write_value(FILE *out, struct sl_object *object) {
    const struct sl_shared_info *info = object->of->info;
    const struct sl_list *list = &object->value.list;
    struct sl_map *map = &object->value.map;
    switch (info->type) {
    case SL_SHARED_COUNTER: case SL_SHARED_NUMBER:
        fprintf(out, "%" PRId64, object->value.number);
        break;
    case SL_SHARED_STRUCT:
        fputc('"', out);
        for (uint32_t i = 0; i < info->bytes; i++)
            fprintf(out, "%02x", ((const uint8_t *)sl_object_bytes(object))[i]);
        fputc('"', out);
        break;
    case SL_SHARED_LIST:
        fputc('[', out);
        for (uint32_t i = 0; i < list->count; i++)
            fprintf(out, "%s%" PRId64, i ? ", " : "", list->item[(list->first + i) & (list->room - 1)]);
        fputc(']', out);
        break;
    default: {   /* it is the end: free entries go last, so that the others can be sorted */
        uint32_t count = 0;
        for (uint32_t i = 0; i < map->room; i++)
            if (map->entry[i].used)
                map->entry[count++] = map->entry[i];
        map->room = count;
        if (count)
            qsort(map->entry, count, sizeof *map->entry, sl_number_order);
        bool set = info->type == SL_SHARED_SET;
        fputc(set ? '[' : '{', out);
        for (uint32_t i = 0; i < count; i++)
            if (set)
                fprintf(out, "%s%" PRId64, i ? ", " : "", map->entry[i].key);
            else
                fprintf(out, "%s\"%" PRId64 "\": %" PRId64, i ? ", " : "", map->entry[i].key, map->entry[i].value);
        fputc(set ? ']' : '}', out);
    }
    }
}

/* Does a store have anything of such an object? It has no empty lists, sets and maps. */
static inline bool sl_object_exists(const struct sl_object *object) {
    switch (object->of->info->type) {
    case SL_SHARED_LIST: return object->value.list.count > 0;
    case SL_SHARED_SET: case SL_SHARED_MAP: return object->value.map.count > 0;
    default: return object->present;
    }
}

static const char *const sl_shared_types[] = {"counter", "number", "struct", "list", "set", "map"};

SL_COLD void sl_shared_write(FILE *out, struct sl_shared *shared) {
    for (uint32_t slot = 0; slot < shared->objects.high_water; slot++) {
        struct sl_instance *instance = sl_table_at(&shared->objects, slot);
        struct sl_object *object = instance ? (struct sl_object *)(void *)((char *)instance + shared->payload) : NULL;
        if (!object || !sl_object_exists(object))
            continue;
        struct sl_text key = {.length = 0};
        sl_text_key(&key, object);
        key.at[key.length] = 0;
        fprintf(out, "{\"function\": \"%s\", \"object\": \"%s\", \"key\": \"%s\", \"type\": \"%s\", \"value\": ",
                shared->info->function, shared->info->name, key.at, sl_shared_types[shared->info->type]);
        sl_write_value(out, object);
        fputs("}\n", out);
    }
}

/* All updates are acknowledged: the logs of the objects are no longer needed. */
SL_COLD void sl_shared_settle(struct sl_shared *shared, struct sl_store *store) {
    for (uint32_t slot = 0; slot < shared->objects.high_water; slot++) {
        struct sl_instance *instance = sl_table_at(&shared->objects, slot);
        struct sl_object *object = instance ? (struct sl_object *)(void *)((char *)instance + shared->payload) : NULL;
        struct sl_store_call call = {.operation = SL_STORE_FORGET};
        if (!object || !object->key || (object->cached && !object->taken) || shared->info->type == SL_SHARED_STRUCT)
            continue;
        call.key = object->key;
        call.key_length = object->key_length;
        call.open = &object->open;
        store->call(store, &call, NULL);
    }
}

/* --- used by generated code --- */

/* The end of a burst. */
static inline void sl_shared_flush(struct sl_shared_state *state) {
    if (SL_UNLIKELY(state->store != NULL))
        state->store->flush(state->store);
}

/* The updates of a batch were committed: objects that were dropped in it are removed. */
static inline void sl_shared_committed(struct sl_shared_state *state) {
    for (size_t i = 0; i < state->vacated; i++) {
        state->vacant[i]->vacant = false;
        if (!sl_object_exists(state->vacant[i]))
            sl_object_remove(state->vacant[i]);
    }
    state->vacated = 0;
}

/* Removes the cached objects of parts of the traffic that another instance gets. parts: their bits. */
SL_COLD void sl_shared_leave(struct sl_shared_state *state, const uint8_t *parts) {
    for (uint32_t i = 0; i < state->functions; i++)
        for (uint32_t k = 0; k < state->count[i]; k++) {
            struct sl_shared *shared = &state->of[i][k];
            for (uint32_t slot = 0; shared->cached && slot < shared->objects.high_water; slot++) {
                struct sl_instance *instance = sl_table_at(&shared->objects, slot);
                struct sl_object *object = instance ? (struct sl_object *)(void *)((char *)instance + shared->payload) : NULL;
                if (object && object->cached && !object->taken && parts[object->part >> 3] >> (object->part & 7) & 1)
                    sl_object_remove(object);
            }
        }
}

/* Other instances get traffic: what this one had taken is in the store, where all of it is committed. What its function has
 * left goes: another instance may drop it, and this one would not be notified. */
SL_COLD void sl_shared_return(struct sl_shared_state *state) {
    for (uint32_t i = 0; i < state->functions; i++)
        for (uint32_t k = 0; k < state->count[i]; k++) {
            struct sl_shared *shared = &state->of[i][k];
            for (uint32_t slot = 0; slot < shared->objects.high_water; slot++) {
                struct sl_instance *instance = sl_table_at(&shared->objects, slot);
                struct sl_object *object = instance ? (struct sl_object *)(void *)((char *)instance + shared->payload) : NULL;
                if (object && object->left) {
                    sl_object_remove(object);
                } else if (object && object->taken) {
                    sl_object_clear(object);
                    object->cached = object->taken = false;
                }
            }
        }
}

/* The end of input: updates are acknowledged, what was counted is reported, the final state is written. */
SL_COLD void sl_shared_finish(struct sl_shared_state *state) {
    struct sl_box *box = state->box;
    uint64_t refused = state->refused;
    for (uint32_t i = 0; i < state->functions; i++)
        for (uint32_t k = 0; k < state->count[i]; k++)
            refused += state->of[i][k].refused;
    if (state->store) {
        struct sl_store *store = state->store;
        if (store->commit)
            store->commit(store, store->chain->clock());
        store->finish(store);
        for (uint32_t i = 0; i < state->functions && !store->fault(store)[0]; i++)
            for (uint32_t k = 0; k < state->count[i]; k++)
                sl_shared_settle(&state->of[i][k], store);
        store->finish(store);
        const struct sl_store_counts *counts = store->counts(store);
        refused += counts->refused;
        sl_report(box, "store_operations", counts->operations);
        sl_report(box, "store_requests", counts->requests);
        sl_report(box, "store_waits", counts->waits);
        const struct { const char *name; uint64_t value; } faults[] = {
            {"store_reconnections", counts->reconnections}, {"store_retransmitted", counts->retransmitted},
            {"store_errors", counts->errors},               {"store_failed_operations", state->failed},
            {"store_lost_updates", counts->lost},           {"store_lost_updates_zero", counts->lost_zero},
            {"store_not_owner", counts->not_owner},         {"store_repeated_commits", counts->repeated},
            {"store_callbacks", counts->callbacks},         {"store_unreplicated", counts->unreplicated},
            {"store_unlogged", counts->unlogged}};
        for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
            if (faults[i].value)
                sl_report(box, faults[i].name, faults[i].value);
        if (store->fault(store)[0])
            (sl_fail)(box, "store", store->fault(store));
    } else if (state->file) {
        FILE *out = sl_create(state->file);
        for (uint32_t i = 0; out && i < state->functions; i++)
            for (uint32_t k = 0; k < state->count[i]; k++)
                sl_shared_write(out, &state->of[i][k]);
        if (!out || fclose(out) != 0)
            (sl_fail)(box, state->file, strerror(errno));
    }
    if (refused)
        sl_report(box, "state_refused", refused);
    free(state->vacant);
    state->vacant = NULL;
    state->vacated = state->vacant_room = 0;
}

#endif
