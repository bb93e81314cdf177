/* table.h. */
#include "table_model.h"

static void test_slots(void) {
    CASE("slots: the one freed last first, then the first never used");
    struct sl_table table;
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, 4, 7) == 0);
    struct sl_instance *made[5];
    for (uint64_t i = 0; i < 5; i++) {
        uint64_t key[2] = {i, 0};
        made[i] = sl_table_create(&table, key, 2, sl_table_hash(&table, key, 2));
        CHECK((made[i] != NULL) == (i < 4));
        CHECK(!made[i] || made[i]->slot == i);
    }
    CHECK(table.live == 4 && table.high_water == 4 && table.max_instances == 4);
    sl_table_remove(&table, made[1]);
    sl_table_remove(&table, made[3]);
    CHECK(table.live == 2 && table.high_water == 4);
    CHECK(!sl_table_at(&table, 1) && !sl_table_at(&table, 3) && sl_table_at(&table, 2) == made[2]);
    CHECK(!sl_table_at(&table, 4) && !sl_table_at(&table, UINT32_MAX));
    CHECK(made[1]->deadline == SL_NEVER);   /* a sweep passes it by the deadline alone */
    const uint64_t key[2] = {9, 9};
    const uint64_t other[2] = {9, 8};
    CHECK(sl_table_create(&table, key, 2, 1) == made[3]);
    CHECK(sl_table_create(&table, other, 2, 1) == made[1]);
    CHECK(sl_table_find(&table, key, 2, 1) == made[3] && sl_table_find(&table, other, 2, 1) == made[1]);
    sl_table_close(&table);

    CASE("what is not cleared: the bytes after the key");
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, 1, 7) == 0);
    struct test_instance *instance = (struct test_instance *)(void *)sl_table_create(&table, key, 2, 5);
    CHECK(instance->mark == 0);
    instance->mark = 77;
    sl_table_remove(&table, &instance->head);
    CHECK((struct test_instance *)(void *)sl_table_create(&table, other, 2, 5) == instance && instance->mark == 77);
    sl_table_close(&table);

    CASE("an empty entry is not found, whatever the hash");
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, 4, 7) == 0);
    const uint64_t zero[2] = {0, 0};
    CHECK(!sl_table_find(&table, zero, 2, 0));
    sl_table_remove(&table, sl_table_create(&table, zero, 2, 0));
    CHECK(!sl_table_find(&table, zero, 2, 0));
    sl_table_close(&table);

    CASE("numbers that make no sense are refused");
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, 0, 7) == -1);
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 4, 1, 7) == -1);
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, UINT32_MAX, 7) == -1);
}

static void test_patterns(void) {
    CASE("connections of 256 clients from many ports each to one server fall on buckets as by chance");
    enum { BUCKETS = 1 << 14, EACH = 3, KEYS = BUCKETS * EACH };
    static uint32_t found[BUCKETS];
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct sl_table table;
        CHECK(sl_table_open(&table, 64, 2, 4, seed) == 0);
        memset(found, 0, sizeof found);
        for (uint64_t i = 0; i < KEYS; i++) {
            uint64_t key[2] = {0x0a000000 + i % 256 + ((1024 + i / 256) << 32), 0x0a090001 + (UINT64_C(80) << 32)};
            found[sl_table_hash(&table, key, 2) % BUCKETS]++;
        }
        uint64_t unlike = 0;   /* of a Poisson distribution the variance is the mean */
        for (unsigned i = 0; i < BUCKETS; i++)
            unlike += (uint64_t)(((int64_t)found[i] - EACH) * ((int64_t)found[i] - EACH));
        CHECK(unlike < KEYS * 11 / 10);
        sl_table_close(&table);
    }
}

static void test_hash(void) {
    CASE("the hash depends on the seed, and on each word");
    struct sl_table a, b;
    CHECK(sl_table_open(&a, 64, 2, 4, 1) == 0 && sl_table_open(&b, 64, 2, 4, 2) == 0);
    unsigned same = 0, collisions = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t key[3] = {i, i + 1, i + 2};
        same += sl_table_hash(&a, key, 2) == sl_table_hash(&b, key, 2);
        for (unsigned words = 1; words <= 3; words++) {
            uint32_t hash = sl_table_hash(&a, key, words);
            for (unsigned bit = 0; bit < 64 * words; bit++) {
                key[bit / 64] ^= UINT64_C(1) << bit % 64;
                collisions += hash == sl_table_hash(&a, key, words);
                key[bit / 64] ^= UINT64_C(1) << bit % 64;
            }
        }
    }
    CHECK(same < 3 && collisions < 3);
    sl_table_close(&a);
    sl_table_close(&b);
}

static bool far;   /* whether what is predicted comes from memory */

static struct sl_instance *foresee(struct sl_table *table, unsigned packet, const uint64_t *key) {
    table->near = far ? 0 : table->max_instances;
    uint32_t hash = sl_table_hash(table, key, 2);
    sl_table_predict(table, packet, sl_table_home(table, hash), hash, table->instance_bytes);
    CHECK(sl_table_find_predicted(table, packet, key, 2, true) == sl_table_find_predicted(table, packet, key, 2, false));
    return sl_table_find_predicted(table, packet, key, 2, true);
}

static void test_foreseen(void) {
    CASE("what was predicted is found as long as it lives and has the key, by the packet that it was predicted for");
    struct sl_table table;
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, 100, 7) == 0);
    const uint64_t zero[2] = {0, 0}, one[2] = {1, 1}, two[2] = {2, 2};
    CHECK(!foresee(&table, 0, zero) && !foresee(&table, 0, one));   /* also not a slot that was never used */
    struct sl_instance *made = sl_table_create(&table, one, 2, sl_table_hash(&table, one, 2));
    CHECK(!sl_table_find_predicted(&table, 0, one, 2, true));              /* made since */
    CHECK(foresee(&table, 3, one) == made);
    CHECK(!sl_table_find_predicted(&table, 3, two, 2, true) && !sl_table_find_predicted(&table, 4, one, 2, true));
    sl_table_remove(&table, made);
    CHECK(!sl_table_find_predicted(&table, 3, one, 2, true));              /* ended since, its key still there */
    CHECK(sl_table_create(&table, two, 2, sl_table_hash(&table, two, 2)) == made);
    CHECK(!sl_table_find_predicted(&table, 3, one, 2, true) && sl_table_find_predicted(&table, 3, two, 2, true) == made);
    CHECK(!foresee(&table, 3, one));                                /* a look-up that finds nothing is forgotten */
    for (uint64_t i = 3; i < 100; i++) {                            /* splits and overflows in between */
        uint64_t key[2] = {i, i};
        CHECK(foresee(&table, i % SL_GROUP, two) == made);
        sl_table_create(&table, key, 2, sl_table_hash(&table, key, 2));
        CHECK(sl_table_find_predicted(&table, i % SL_GROUP, two, 2, true) == made);
    }
    sl_table_close(&table);
}

static void test_million(void) {
    CASE("a million instances: found, in short chains, with an index of at most 24 bytes each, which none waits for");
    enum { N = 1000000 };
    struct sl_table table;
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, N, 3) == 0);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t key[2] = {i, i >> 3};
        uint32_t buckets = table.buckets;
        CHECK(sl_table_create(&table, key, 2, sl_table_hash(&table, key, 2)) != NULL);
        /* A few home buckets are split at a time, and as many as it takes. */
        CHECK(table.buckets == buckets || table.buckets == buckets + SL_BUCKETS_STEP);
        CHECK(table.live <= (uint64_t)table.buckets * SL_BUCKET_LOAD);
    }
    CHECK(table.near == 0);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t key[2] = {i, i >> 3};
        struct sl_instance *found = sl_table_find(&table, key, 2, sl_table_hash(&table, key, 2));
        CHECK(found && found->slot == i);
    }
    CHECK(((uint64_t)table.buckets + table.spill_used) * sizeof(struct sl_bucket) <= 24 * (uint64_t)N);
    printf("  index: %.1f bytes an instance, %u of %u buckets overflowed\n",
           (double)(table.buckets + table.spill_used) * sizeof(struct sl_bucket) / N, table.spill_used, table.buckets);
    table_check(&table);
    for (uint32_t slot = 0; slot < N; slot++)
        sl_table_remove(&table, sl_table_at(&table, slot));
    CHECK(table.live == 0 && table.near == N);
    table_check(&table);
    sl_table_close(&table);
}

static void test_ready(void) {
    CASE("the first instances may have their memory at the start, and more come when it is used up");
    const uint32_t most[] = {1, 3, 100000};
    for (unsigned i = 0; i < sizeof most / sizeof *most; i++) {
        struct sl_table table;
        CHECK(sl_table_open(&table, 176, 2, most[i], 1) == 0);
        sl_table_ready(&table);
        for (uint32_t slot = 0; slot < most[i]; slot++) {   /* beyond the first huge page */
            const uint64_t key[2] = {slot, 1};
            struct sl_instance *made = sl_table_create(&table, key, 2, sl_table_hash(&table, key, 2));
            CHECK(made && made->slot == slot && ((const uint64_t *)(const void *)made)[21] == 0);
            memset(made + 2, 0xff, 176 - 2 * sizeof *made);
        }
        table_check(&table);
        sl_table_close(&table);
    }
}

int main(void) {
    test_ready();
    test_slots();
    test_hash();
    test_patterns();
    test_foreseen();
    far = true;
    test_foreseen();
    far = false;
    test_million();
    CASE("against a naive table: 1,000,000 steps");
    table_drive(&(struct choices){.seed = 1}, 1000000, MODEL_KEYS, MODEL_KEYS, 0);
    CASE("against a naive table: fewer instances than keys");
    table_drive(&(struct choices){.seed = 2}, 200000, 1000, 100, 0);
    CASE("against a naive table: all keys share 1, 3 or 50 hashes");
    table_drive(&(struct choices){.seed = 3}, 20000, 300, 300, 1);
    table_drive(&(struct choices){.seed = 4}, 50000, 1000, 1000, 3);
    table_drive(&(struct choices){.seed = 5}, 100000, MODEL_KEYS, MODEL_KEYS, 50);
    return 0;
}
