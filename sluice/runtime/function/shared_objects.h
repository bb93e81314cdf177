/* Shared objects, local part: the objects of each declaration, found by key, and their values if they are local.
 *
 * A declaration (SLUICE_SHARED) has a table of objects of bounded size; an object that does not fit is refused and
 * counted. With a store the table contains handles: the object's key in the store, and the cached value of
 * flow-scoped structs. */
#ifndef SL_SHARED_OBJECTS_H
#define SL_SHARED_OBJECTS_H

#include "core/box.h"
#include "function/store.h"

enum {
    SL_SHARED_FIELDS = 4,              /* header fields of a scope */
    SL_SHARED_KEY_WORDS = 1 + 2 * SL_SHARED_FIELDS,
    SL_SHARED_FLOW_WORDS = 20,         /* of both halves of an instance's key */
    SL_SHARED_TEXT = 512,              /* of a key */
    SL_SHARED_ITEMS = 1 << 20,         /* of a list, set or map */
    SL_SHARED_ITEMS_ALL = 1 << 23,     /* of all objects of a declaration together */
};

enum sl_shared_scope { SL_SCOPE_FLOW, SL_SCOPE_ALL, SL_SCOPE_FIELDS };
enum sl_shared_access { SL_WRITE_MOSTLY, SL_READ_MOSTLY, SL_READ_WRITE };

/* What a function declares. */
struct sl_shared_info {
    const char *function, *name;
    enum sl_shared_type type;
    enum sl_shared_scope scope;
    enum sl_shared_access access;
    bool recovered;                          /* loss is `recover` */
    uint32_t bytes;                          /* of a struct */
    const char *field[SL_SHARED_FIELDS];     /* the header fields that key it; NULL after the last */
};

struct sl_shared_state;

/* A declaration in a running box. */
struct sl_shared {
    const struct sl_shared_info *info;
    struct sl_shared_state *state;
    struct sl_table objects;
    struct sl_object *single;   /* of scope `all` */
    uint32_t key_words, payload;
    bool cached, watched;       /* with several instances: see struct sl_store */
    bool unloaded;              /* a value did not fit here: none is taken from the store */
    uint64_t items;             /* in lists, sets and maps */
    uint64_t refused;           /* objects, items and values that did not fit */
};

/* All declarations of a box. */
struct sl_shared_state {
    struct sl_box *box;
    struct sl_store *store;     /* NULL: objects are local */
    const char *file;           /* where the final state is written to; NULL: nowhere */
    struct sl_shared *const *of;       /* by function: its declarations */
    const uint32_t *count;             /* and their number */
    uint32_t functions;
    uint64_t last_id;
    uint64_t failed;            /* operations without a result, as the store did not reply */
    uint64_t refused;           /* states of connections that did not fit (stored.h) */
    struct sl_object **vacant;  /* objects that were dropped in this batch; some may be in use again */
    size_t vacated, vacant_room;
};

struct sl_list {
    int64_t *item;   /* a ring */
    uint32_t first, count, room;
    bool filled;
};

/* Of a set or map: a hash table with linear probing (Knuth, TAOCP 3, 6.4), at most half full. */
struct sl_map_entry { int64_t key, value; bool used; };
struct sl_map {
    struct sl_map_entry *entry;
    uint32_t count, room;   /* room: 0, or a power of two */
};

/* An object; it follows its key in the table. A struct's bytes follow it, and then the words of a flow's key. */
struct sl_object {
    struct sl_shared *of;
    char *key;              /* in the store; NULL until it is needed */
    uint32_t key_length, open;
    const struct sl_layer_info *layer;   /* of the flow */
    union {
        int64_t number;
        struct sl_list list;
        struct sl_map map;
    } value;
    bool present;           /* a number, or a struct, that was set */
    bool cached;            /* its value is here, and updates are committed */
    bool taken;             /* a cached one that instances share, while one of them has all of the traffic */
    bool written;           /* a taken one: it was changed here */
    bool left;              /* a taken one that the function has no use for: it is removed when others get traffic */
    bool vacant;            /* a cached one that was dropped in this batch */
    bool valid;             /* a watched one: its value is here, as of `generation` */
    int32_t part;           /* of the traffic, of a cached one */
    uint64_t generation;
};

static inline void *sl_object_bytes(struct sl_object *object) { return object + 1; }

static inline struct sl_instance *sl_object_instance(struct sl_object *object) {
    return (struct sl_instance *)(void *)((char *)object - object->of->payload);
}

static inline const uint64_t *sl_object_key(struct sl_object *object) { return sl_instance_key(sl_object_instance(object)); }

/* The words of both halves of the key of the flow that an object is of: the active side's first. */
static inline uint64_t *sl_object_flow(struct sl_object *object) {
    return (uint64_t *)(void *)((char *)(object + 1) + (object->of->info->bytes + 7) / 8 * 8);
}

/* Opens the tables of a declaration; -1 without memory. */
SL_COLD int sl_shared_open(struct sl_shared *shared, const struct sl_shared_info *info, struct sl_shared_state *state,
                           uint32_t most, uint64_t seed) {
    bool fields = info->scope == SL_SCOPE_FIELDS, flow = info->scope == SL_SCOPE_FLOW;
    *shared = (struct sl_shared){.info = info, .state = state, .key_words = fields ? SL_SHARED_KEY_WORDS : 1};
    shared->payload = (uint32_t)(sizeof(struct sl_instance) + 8 * shared->key_words);
    size_t bytes = shared->payload + sizeof(struct sl_object) + (info->bytes + 7) / 8 * 8;
    if (state->store && state->store->cached) {
        char name[2 + SL_SHARED_TEXT];
        snprintf(name, sizeof name, ",%s,", info->name);
        shared->cached = strstr(state->store->cached, name) != NULL;
        shared->watched = strstr(state->store->watched, name) != NULL;
    }
    return sl_table_open(&shared->objects, bytes + (flow ? 8 * SL_SHARED_FLOW_WORDS : 0), shared->key_words,
                         info->scope == SL_SCOPE_ALL ? 1 : most, seed);
}

/* Frees the memory of an object. */
static inline void sl_object_free(struct sl_object *object) {
    free(object->key);
    if (object->of->info->type == SL_SHARED_LIST)
        free(object->value.list.item);
    else if (object->of->info->type == SL_SHARED_SET || object->of->info->type == SL_SHARED_MAP)
        free(object->value.map.entry);
}

/* It has no value here any more. */
static inline void sl_object_clear(struct sl_object *object) {
    enum sl_shared_type type = object->of->info->type;
    if (type == SL_SHARED_LIST || type == SL_SHARED_SET || type == SL_SHARED_MAP) {
        object->of->items -= type == SL_SHARED_LIST ? object->value.list.count : object->value.map.count;
        free(type == SL_SHARED_LIST ? (void *)object->value.list.item : (void *)object->value.map.entry);
    }
    memset(&object->value, 0, sizeof object->value);
    memset(sl_object_bytes(object), 0, object->of->info->bytes);
    object->present = object->valid = false;
}

/* Removes an object from its table. */
static inline void sl_object_remove(struct sl_object *object) {
    struct sl_shared *shared = object->of;
    sl_object_clear(object);
    if (shared->single == object)
        shared->single = NULL;
    sl_object_free(object);
    sl_table_remove(&shared->objects, sl_object_instance(object));
}

SL_COLD void sl_shared_close(struct sl_shared *shared) {
    for (uint32_t slot = 0; shared->objects.instances && slot < shared->objects.high_water; slot++) {
        struct sl_instance *instance = sl_table_at(&shared->objects, slot);
        if (instance)
            sl_object_free((struct sl_object *)(void *)((char *)instance + shared->payload));
    }
    sl_table_close(&shared->objects);
    shared->single = NULL;
}

/* The object with a key; it is created if there is none. NULL, counted, if it does not fit. */
static inline struct sl_object *sl_shared_find(struct sl_shared *shared, const uint64_t *key, bool *created) {
    uint32_t hash = sl_table_hash(&shared->objects, key, shared->key_words);
    struct sl_instance *found = sl_table_find(&shared->objects, key, shared->key_words, hash);
    *created = !found;
    if (!found && !(found = sl_table_create(&shared->objects, key, shared->key_words, hash))) {
        *created = false;
        shared->refused++;
        return NULL;
    }
    struct sl_object *object = (struct sl_object *)(void *)((char *)found + shared->payload);
    if (*created) {
        memset(object, 0, shared->objects.instance_bytes - shared->payload);
        object->of = shared;
    } else if (SL_UNLIKELY(object->left)) {
        object->left = false;
    }
    return object;
}

/* The object in the slot of a declaration's table that follows *hand, which goes round; NULL: the slot is free. */
static inline struct sl_object *sl_shared_next(const struct sl_shared *shared, uint32_t *hand) {
    *hand = *hand + 1 < shared->objects.high_water ? *hand + 1 : 0;
    struct sl_instance *found = sl_table_at(&shared->objects, *hand);
    return found ? (struct sl_object *)(void *)((char *)found + shared->payload) : NULL;
}

/* --- local values --- */

/* Counts that a value does not fit. */
static inline enum sl_store_status sl_shared_refuse(struct sl_object *object) {
    object->of->refused++;
    return SL_STORE_REFUSED;
}

static inline bool sl_number_fits(int64_t number) {
    return number <= SL_STORE_NUMBER_MOST && number >= -SL_STORE_NUMBER_MOST;
}

/* Sets a number; refused if it is too large. */
static inline enum sl_store_status sl_number_set(struct sl_object *object, int64_t number) {
    if (SL_UNLIKELY(!sl_number_fits(number)))
        return sl_shared_refuse(object);
    object->value.number = number;
    object->present = true;
    return SL_STORE_DONE;
}

/* The sum of two numbers, one of which fits; too large a sum does not fit either. */
static inline int64_t sl_number_sum(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

SL_COLD bool sl_list_room(struct sl_list *list) {
    uint32_t room = list->room ? 2 * list->room : 64;
    int64_t *larger = room <= SL_SHARED_ITEMS ? malloc(room * sizeof *larger) : NULL;
    if (!larger)
        return false;
    for (uint32_t i = 0; i < list->count; i++)
        larger[i] = list->item[(list->first + i) & (list->room - 1)];
    free(list->item);
    list->item = larger;
    list->first = 0;
    list->room = room;
    return true;
}

static inline enum sl_store_status sl_list_push(struct sl_object *object, int64_t item) {
    struct sl_list *list = &object->value.list;
    if (object->of->items >= SL_SHARED_ITEMS_ALL || (list->count == list->room && !sl_list_room(list)))
        return sl_shared_refuse(object);
    object->of->items++;
    list->item[(list->first + list->count++) & (list->room - 1)] = item;
    return SL_STORE_DONE;
}

static inline enum sl_store_status sl_list_pop(struct sl_object *object, int64_t *item) {
    struct sl_list *list = &object->value.list;
    if (!list->count)
        return SL_STORE_ABSENT;
    *item = list->item[list->first];
    list->first = (list->first + 1) & (list->room - 1);
    list->count--;
    object->of->items--;
    return SL_STORE_DONE;
}

/* The place of a key: its entry, or the free one where it would be. The map has room. */
static inline uint32_t sl_map_place(const struct sl_map *map, int64_t key, uint64_t seed) {
    uint32_t place = (uint32_t)(sl_fold((uint64_t)key ^ seed, UINT64_C(0x9e3779b97f4a7c15) ^ seed >> 1) & (map->room - 1));
    while (map->entry[place].used && map->entry[place].key != key)
        place = (place + 1) & (map->room - 1);
    return place;
}

SL_COLD bool sl_map_room(struct sl_map *map, uint64_t seed) {
    struct sl_map larger = {.count = map->count, .room = map->room ? 2 * map->room : 8};
    if (larger.room > 2 * SL_SHARED_ITEMS || !(larger.entry = calloc(larger.room, sizeof *larger.entry)))
        return false;
    for (uint32_t i = 0; i < map->room; i++)
        if (map->entry[i].used)
            larger.entry[sl_map_place(&larger, map->entry[i].key, seed)] = map->entry[i];
    free(map->entry);
    *map = larger;
    return true;
}

/* An entry of a set or map. If there is none: NULL, or, with `create`, a new one with `value`; NULL, counted, if it
 * does not fit. */
static inline struct sl_map_entry *sl_map_entry(struct sl_object *object, int64_t key, bool create, int64_t value) {
    struct sl_map *map = &object->value.map;
    uint64_t seed = object->of->state->box->seed;
    uint32_t place = map->room ? sl_map_place(map, key, seed) : 0;
    if (map->room && map->entry[place].used)
        return &map->entry[place];
    if (!create)
        return NULL;
    if (object->of->items >= SL_SHARED_ITEMS_ALL || (2 * map->count >= map->room && !sl_map_room(map, seed))) {
        sl_shared_refuse(object);
        return NULL;
    }
    place = sl_map_place(map, key, seed);
    map->entry[place] = (struct sl_map_entry){key, value, true};
    map->count++;
    object->of->items++;
    return &map->entry[place];
}

/* Removes a key; false if it is not there. Entries after it move up, so that none is separated from its place. */
static inline bool sl_map_remove(struct sl_object *object, int64_t key) {
    struct sl_map *map = &object->value.map;
    uint64_t seed = object->of->state->box->seed;
    struct sl_map_entry *found = sl_map_entry(object, key, false, 0);
    if (!found)
        return false;
    found->used = false;
    map->count--;
    object->of->items--;
    for (uint32_t next = (uint32_t)(found - map->entry + 1) & (map->room - 1); map->entry[next].used;
         next = (next + 1) & (map->room - 1)) {
        struct sl_map_entry moved = map->entry[next];
        map->entry[next].used = false;
        map->entry[sl_map_place(map, moved.key, seed)] = moved;
    }
    return true;
}

/* The entry with the least value, of equal ones that of the least key; NULL if the map is empty. */
static inline struct sl_map_entry *sl_map_least(struct sl_object *object) {
    struct sl_map *map = &object->value.map;
    struct sl_map_entry *least = NULL;
    for (uint32_t i = 0; i < map->room; i++) {
        struct sl_map_entry *entry = &map->entry[i];
        if (entry->used && (!least || entry->value < least->value ||
                            (entry->value == least->value && entry->key < least->key)))
            least = entry;
    }
    return least;
}

#endif
