/* table.h: what is looked up in a table that no cache has all of is asked for into the second level. */
#if defined __AVX512VL__
#include <immintrin.h>   /* which has prefetches of its own */
#elif defined __SSE2__
#include <emmintrin.h>
#endif

static unsigned asked_near, asked_far;
#define ASKED(at, written, level, ...) ((void)(at), (level) == 2 ? (void)asked_far++ : (void)asked_near++)
#define __builtin_prefetch(...) ASKED(__VA_ARGS__, 0, 3, 0)
#include "core/prefetch.h"

#include "check.h"

enum { N = 1000 };

/* Instances so large that not all of them are near. */
struct large {
    struct sl_instance head;
    uint64_t key[1];
    uint8_t rest[2 * SL_TABLE_NEAR / N];
};

static unsigned predicted;

static bool asks_near(struct sl_table *table, uint64_t key) {
    uint32_t hash = sl_table_hash(table, &key, 1);
    struct sl_lookahead lookahead = {.packet = 3};
    asked_near = asked_far = 0;
    table->predicted[3] = NULL;
    sl_lookahead_want_each(&lookahead, table, hash);
    CHECK_EQUAL(asked_near + asked_far, 1);
    sl_lookahead_each(&lookahead, table, 3, sizeof(struct large));
    CHECK(asked_near == 0 || asked_far == 0);
    if (table->predicted[3]) {   /* else there is none, or it is after an overflow bucket */
        CHECK(table->predicted[3] == sl_table_find(table, &key, 1, hash));
        CHECK(asked_near + asked_far > SL_INSTANCE_LINES);
        predicted++;
    }
    return asked_near;
}

static void test_near(void) {
    CASE("as long as live instances have fewer bytes than caches, they come near; else to the second level, and near again");
    struct sl_table table;
    CHECK(sl_table_open(&table, sizeof(struct large), 1, N, 7) == 0);
    for (unsigned round = 0; round < 2; round++) {   /* the second uses slots again, and makes the index no larger */
        for (uint64_t key = 0; key < N; key++) {
            bool near = key * sizeof(struct large) <= SL_TABLE_NEAR;
            CHECK_EQUAL(asks_near(&table, key), near);
            CHECK(key == 0 || asks_near(&table, key - 1) == near);
            CHECK(sl_table_create(&table, &key, 1, sl_table_hash(&table, &key, 1)) != NULL);
        }
        for (uint64_t key = N; key-- > 0;) {
            uint32_t hash = sl_table_hash(&table, &key, 1);
            sl_table_remove(&table, sl_table_find(&table, &key, 1, hash));
            CHECK_EQUAL(asks_near(&table, key / 2), key * sizeof(struct large) <= SL_TABLE_NEAR);
        }
    }
    CHECK(predicted > N);
    sl_table_close(&table);
}

int main(void) {
    test_near();
    return 0;
}
