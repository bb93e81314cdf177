/* The instances of one layer, found by key: linear hashing (Litwin 1980) over an array that never moves.
 *
 * The index grows by a few buckets at a time as instances are created, so no packet waits for a rehash. A bucket is one
 * cache line of eight entries. An entry contains the full hash, so a split never touches an instance, and a look-up
 * touches one only to compare its key. A full bucket turns its last entry into a link to an overflow bucket. The hash
 * is keyed, but only speed depends on its quality. */
#ifndef SL_TABLE_H
#define SL_TABLE_H

#include "core/table_lookup.h"

/* The number of entries of a bucket. They are at the front; empty ones, or the link, follow. */
static inline unsigned sl_bucket_count(const struct sl_bucket *bucket) {
    unsigned none = sl_bucket_words(bucket->place, 0) | sl_bucket_words(bucket->place, SL_BUCKET_LINK);
    return (unsigned)__builtin_ctz(none | 1u << SL_BUCKET_ENTRIES);
}

/* Adds an entry to the chain of a home bucket that has a link, or no room. Only the home bucket and the first overflow
 * bucket can have room; the others are full. So neither this function nor the removal has to search a chain for
 * room. */
SL_COLD void sl_bucket_add_after(struct sl_table *table, struct sl_bucket *home, uint32_t hash, uint32_t place) {
    struct sl_bucket *bucket = home, *first = sl_bucket_next(table, home);
    unsigned n = first ? sl_bucket_count(bucket = first) : SL_BUCKET_ENTRIES;
    if (n == SL_BUCKET_ENTRIES || bucket->place[n] == SL_BUCKET_LINK) {
        uint32_t number = table->spill_used;
        if (table->spill_free) {
            number = table->spill_free - 1;
            table->spill_free = table->spill[number].hash[0];
        } else {
            table->spill_used++;
        }
        bucket = &table->spill[number];
        *bucket = (struct sl_bucket){{0}, {0}};
        n = 0;
        if (!first) {   /* the last entry of the home bucket makes room for the link */
            bucket->hash[0] = home->hash[7];
            bucket->place[0] = home->place[7];
            n = 1;
        } else {
            bucket->hash[7] = home->hash[7];
            bucket->place[7] = SL_BUCKET_LINK;
        }
        home->hash[7] = number;
        home->place[7] = SL_BUCKET_LINK;
    }
    bucket->hash[n] = hash;
    bucket->place[n] = place;
}

/* Adds an entry to the chain of a home bucket. */
static inline void sl_bucket_add(struct sl_table *table, struct sl_bucket *home, uint32_t hash, uint32_t place) {
    unsigned n = sl_bucket_count(home);
    if (SL_LIKELY(n < SL_BUCKET_ENTRIES && home->place[n] == 0)) {
        home->hash[n] = hash;
        home->place[n] = place;
    } else {
        sl_bucket_add_after(table, home, hash, place);
    }
}

static inline void sl_table_free_spill(struct sl_table *table, uint32_t number) {
    table->spill[number].hash[0] = table->spill_free;
    table->spill_free = number + 1;
}

/* Splits a chain of several buckets: its entries are added again, one by one. */
SL_COLD void sl_table_split_chain(struct sl_table *table, struct sl_bucket *old) {
    struct sl_bucket entries = *old;
    *old = (struct sl_bucket){{0}, {0}};
    for (;;) {
        unsigned n = sl_bucket_count(&entries);
        struct sl_bucket *next = sl_bucket_next(table, &entries);
        uint32_t number = entries.hash[7];
        struct sl_bucket rest = next ? *next : (struct sl_bucket){{0}, {0}};
        if (next)
            sl_table_free_spill(table, number);   /* copied, so that the two new chains can reuse its memory */
        for (unsigned i = 0; i < n; i++)
            sl_bucket_add(table, sl_table_home(table, entries.hash[i]), entries.hash[i], entries.place[i]);
        if (!next)
            return;
        entries = rest;
    }
}

/* Adds one home bucket: splits the next bucket in order by one more bit of the hash. */
static inline void sl_table_split(struct sl_table *table) {
    uint32_t half = table->low_mask + 1;
    struct sl_bucket *old = &table->home[table->buckets - half], *added = old + half;
    if (++table->buckets > table->mask) {
        table->low_mask = table->mask;
        table->mask = 2 * table->mask + 1;
    }
    if (__builtin_expect(sl_bucket_next(table, old) != NULL, 0)) {
        sl_table_split_chain(table, old);
        return;
    }
    /* Buckets are split in order: prefetches those of the next step, which may lie beyond the last one. */
    __builtin_prefetch((const void *)((uintptr_t)old + SL_BUCKETS_STEP * sizeof *old), 1);
    __builtin_prefetch((const void *)((uintptr_t)added + SL_BUCKETS_STEP * sizeof *added), 1);
    /* The number of entries of each bucket is known here. Counting them in the buckets, with a load as wide as half a
     * bucket, would wait for the narrow stores directly before it, which cannot be forwarded to the load. The loop does
     * not depend on the number of entries either, because no branch predictor could predict it: empty entries are
     * copied as well, after the others. */
    const struct sl_bucket entries = *old;
    struct sl_bucket *const to[2] = {old, added};
    unsigned n[2] = {0, 0};
    *old = (struct sl_bucket){{0}, {0}};
    for (unsigned i = 0; i < SL_BUCKET_ENTRIES; i++) {
        unsigned moved = (entries.hash[i] & half) != 0, at = n[moved]++;
        to[moved]->hash[at] = entries.hash[i];
        to[moved]->place[at] = entries.place[i];
    }
}

/* Updates `near` after the number of live instances has changed. */
static inline void sl_table_weigh(struct sl_table *table) {
    bool near = table->live * (uint64_t)table->instance_bytes <= SL_TABLE_NEAR;
    table->near = near ? table->max_instances : 0;
}

_Static_assert((SL_TABLE_HUGE_FROM / sizeof(struct sl_bucket) - SL_BUCKETS_LEAST) % SL_BUCKETS_STEP == 0 &&
                   SL_BUCKETS_LEAST % SL_BUCKETS_STEP == 0,
               "a step begins where huge pages do, and goes beyond no level");

/* Adds several home buckets. To add one at a time would take a branch that is mispredicted at every third
 * connection. */
SL_COLD void sl_table_grow(struct sl_table *table) {
    if (__builtin_expect(table->buckets == SL_TABLE_HUGE_FROM / sizeof *table->home, 0))
        sl_huge_rest(table->home, table->home_bytes, SL_TABLE_HUGE_FROM);
    for (unsigned i = 0; i < SL_BUCKETS_STEP; i++)
        sl_table_split(table);
}

/* `n` bytes of a key, from `offset` on; 0 where they are missing (no packet provided them). */
static inline uint64_t sl_key_word(sl_bytes part, uint32_t offset, unsigned n) {
    return part.captured >= offset + n ? sl_load_be(part.at + offset, n) : 0;
}

/* Creates an instance with this key, which no live instance has. Deadline (SL_NEVER), hash, slot and key are written;
 * the rest is as the last instance in the slot left it (zero if there was none). Returns NULL if max_instances are
 * live. The slot is the one freed last; if none is free, the first that was never used. key_words and instance_bytes,
 * the table's own, are literals. */
SL_INLINED struct sl_instance *sl_table_begin(struct sl_table *table, const uint64_t *key, unsigned key_words,
                                              uint32_t hash, size_t instance_bytes) {
    uint32_t slot;
    struct sl_instance *instance;
    if (table->free_slot) {
        slot = table->free_slot - 1;
        instance = sl_table_place(table, slot, instance_bytes);
        table->free_slot = instance->hash;
    } else if (table->high_water < table->max_instances) {
        slot = table->high_water++;
        if (__builtin_expect(slot == table->many, 0))
            sl_huge_rest(table->instances, instance_bytes * table->max_instances, SL_TABLE_HUGE_FROM);
        instance = sl_table_place(table, slot, instance_bytes);
        /* Only the next slot was predicted, but connections often begin several at a time. */
        size_t coming = SL_FRESH_LEAD * instance_bytes;
        sl_instance_prefetch((uintptr_t)instance + coming, instance_bytes, 0, true);
    } else {
        return NULL;
    }
    table->newest = instance;
    instance->deadline = SL_NEVER;
    instance->hash = hash;
    instance->slot = slot;
    memcpy(sl_instance_key(instance), key, 8 * (size_t)key_words);
    sl_bucket_add(table, sl_table_home(table, hash), hash, slot + 1);
    if (++table->live > (uint64_t)table->buckets * SL_BUCKET_LOAD)
        sl_table_grow(table);
    sl_table_weigh(table);
    return instance;
}

/* The same if they are not known at compile time. */
SL_COLD struct sl_instance *sl_table_create(struct sl_table *table, const uint64_t *key, unsigned key_words,
                                            uint32_t hash) {
    return sl_table_begin(table, key, key_words, hash, table->instance_bytes);
}

/* Removes a live instance; its slot is the next to be used again. Nothing shrinks. */
SL_COLD void sl_table_remove(struct sl_table *table, struct sl_instance *instance) {
    struct sl_bucket *home = sl_table_home(table, instance->hash), *bucket = home;
    unsigned found;
    while (!(found = sl_bucket_words(bucket->place, instance->slot + 1)))
        bucket = sl_bucket_next(table, bucket);
    unsigned i = (unsigned)__builtin_ctz(found);
    /* The hole is filled from the bucket that need not be full. */
    struct sl_bucket *first = sl_bucket_next(table, home), *from = first ? first : home;
    unsigned last = sl_bucket_count(from) - 1;
    bucket->hash[i] = from->hash[last];
    bucket->place[i] = from->place[last];
    from->hash[last] = from->place[last] = 0;
    if (first && last == 0) {
        uint32_t number = home->hash[7];
        home->hash[7] = first->hash[7];
        home->place[7] = first->place[7];
        sl_table_free_spill(table, number);
    }
    instance->deadline = SL_NEVER;
    instance->hash = table->free_slot;
    table->free_slot = instance->slot + 1;
    instance->slot = SL_SLOT_FREE;
    sl_instance_key(instance)[0] = UINT64_MAX;   /* see sl_table_confirm */
    table->live--;
    sl_table_weigh(table);
}

#endif
