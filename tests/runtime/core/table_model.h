/* The table against a naive one: an array from key to slot, and the stack of free slots. Driven by choices,
 * so that the random test and the fuzzer are the same program. */
#ifndef TABLE_MODEL_H
#define TABLE_MODEL_H

#include "core/table.h"
#include "check.h"

enum { MODEL_KEYS = 4096, MODEL_NONE = -1 };

struct table_model {
    int slot_of[MODEL_KEYS];
    uint32_t free[MODEL_KEYS];
    unsigned free_count, live;
    uint32_t high_water;
};

struct test_instance {
    struct sl_instance head;
    uint64_t key[2];
    uint64_t mark;
};

/* Every entry of the index is counted, stands in the chain that its hash leads to, and chains are packed. */
static inline void table_check(const struct sl_table *table) {
    uint64_t entries = 0;
    for (uint32_t i = 0; i < table->buckets; i++) {
        const struct sl_bucket *bucket = &table->home[i];
        for (int depth = 0; bucket; depth++) {
            unsigned n = sl_bucket_count(bucket);
            const struct sl_bucket *next = sl_bucket_next(table, bucket);
            CHECK(depth == 0 || n > 0);
            CHECK(depth == 1 || !next || n == 7);
            for (unsigned e = 0; e < n; e++) {
                const struct sl_instance *instance = sl_table_at(table, bucket->place[e] - 1);
                CHECK(instance && instance->hash == bucket->hash[e]);
                CHECK(sl_table_home(table, instance->hash) == &table->home[i]);
            }
            entries += n;
            bucket = next;
        }
    }
    CHECK_EQUAL(entries, table->live);
}

/* `steps` creations, removals and look-ups of up to `keys` keys. hashes: how many different hashes there are
 * (0: the table's own), since what the table does must not depend on them. */
static inline void table_drive(struct choices *choices, uint64_t steps, unsigned keys, uint32_t max_instances,
                               uint32_t hashes) {
    static struct table_model model;
    model.free_count = model.live = 0;
    model.high_water = 0;
    for (unsigned i = 0; i < keys; i++)
        model.slot_of[i] = MODEL_NONE;
    struct sl_table table;
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, max_instances, choices->seed) == 0);
    unsigned phase = 0;
    for (uint64_t step = 0; step < steps && (!choices->at || choices->left); step++) {
        /* Waves: more creations than removals for a while, then the other way round. */
        if (choose(choices, 256) == 0)
            phase = choose(choices, 8);
        unsigned number = choose(choices, keys);
        uint64_t key[2] = {number * UINT64_C(0x10001), ~(uint64_t)number};
        uint32_t hash = hashes ? number % hashes : sl_table_hash(&table, key, 2);
        struct test_instance *found = (struct test_instance *)(void *)sl_table_find(&table, key, 2, hash);
        unsigned packet = choose(choices, 4);   /* predicted some steps ago, with whatever key, and what became of it */
        struct sl_instance *predicted = sl_table_find_predicted(&table, packet, key, 2, choose(choices, 2));
        CHECK(!predicted || predicted == &found->head);
        sl_table_predict(&table, packet, sl_table_home(&table, hash), hash, table.instance_bytes);
        int slot = model.slot_of[number];
        CHECK((found != NULL) == (slot != MODEL_NONE));
        if (found) {
            CHECK(found->head.slot == (uint32_t)slot && found->mark == number);
            CHECK(sl_table_at(&table, (uint32_t)slot) == &found->head);
            if (choose(choices, 8) >= phase) {
                sl_table_remove(&table, &found->head);
                CHECK(sl_table_at(&table, (uint32_t)slot) == NULL);
                model.slot_of[number] = MODEL_NONE;
                model.free[model.free_count++] = (uint32_t)slot;
                model.live--;
            }
        } else if (choose(choices, 8) <= phase) {
            found = (struct test_instance *)(void *)sl_table_create(&table, key, 2, hash);
            CHECK((found != NULL) == (model.live < max_instances));
            if (found) {
                uint32_t expected = model.free_count ? model.free[--model.free_count] : model.high_water++;
                CHECK_EQUAL(found->head.slot, expected);
                CHECK(found->head.deadline == SL_NEVER && found->head.hash == hash);
                CHECK(found->key[0] == key[0] && found->key[1] == key[1]);
                found->mark = number;
                model.slot_of[number] = (int)expected;
                model.live++;
            }
        }
        CHECK(table.live == model.live && table.high_water == model.high_water);
        if (step % 65536 == 1000)
            table_check(&table);
    }
    table_check(&table);
    sl_table_close(&table);
}

#endif
