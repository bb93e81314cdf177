/* What generated code asks the box (box.h) that needs no stack. */
#include "../../sluice/runtime/sluice.h"
#include "check.h"

static void test_key_pair(void) {
    CASE("halves of a key are put in order by their first word that differs");
    enum { MOST = 3 };
    struct choices choices = {.seed = 5};
    unsigned swapped = 0, same = 0;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t one[MOST], other[MOST], key[2 * MOST];
        for (unsigned w = 0; w < MOST; w++) {
            one[w] = choose(&choices, 3) ? choose(&choices, 2) : UINT64_MAX;
            other[w] = choose(&choices, 3) ? choose(&choices, 2) : UINT64_MAX;
        }
        for (unsigned words = 1; words <= MOST; words++) {
            unsigned at = 0;
            while (at < words && one[at] == other[at])
                at++;
            bool higher = at < words && one[at] > other[at];
            CHECK(sl_key_pair(key, one, other, words) == higher);
            CHECK(memcmp(key, higher ? other : one, 8 * words) == 0);
            CHECK(memcmp(key + words, higher ? one : other, 8 * words) == 0);
            swapped += higher;
            same += at == words;
        }
    }
    CHECK(swapped > 1000 && same > 1000);
}

/* An instance with a sequence, as the compiler lays it out. */
struct test_instance {
    struct sl_instance head;
    uint64_t key[2];
    struct sl_sequence sequence[1];
};

static void test_evict_ahead(void) {
    CASE("what the next evictions want is asked for, also of free slots, and of one alone");
    struct sl_table table;
    struct sl_pool pool;
    struct sl_held *held = NULL;
    CHECK(sl_table_open(&table, sizeof(struct test_instance), 2, 8, 1) == 0 && sl_pool_open(&pool, 1 << 20) == 0);
    table.sequences_at = offsetof(struct test_instance, sequence);
    table.sequence_count = 1;
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t key[2] = {i, 0};
        struct test_instance *made = (void *)sl_table_create(&table, key, 2, sl_table_hash(&table, key, 2));
        CHECK(made != NULL);
        CHECK(i % 2 || ((made->sequence[0].held = held = sl_pool_take(&pool, sizeof *held)) != NULL));
        if (i % 2 == 0)
            *held = (struct sl_held){0};
        for (uint32_t slot = 0; slot <= table.high_water; slot++)
            sl_evict_ahead(&table, slot);
    }
    for (uint32_t slot = 0; slot < 8; slot++) {
        struct test_instance *instance = (void *)sl_table_at(&table, slot);
        if (instance->sequence[0].held)
            sl_pool_give(&pool, instance->sequence[0].held, sizeof *held);
        instance->sequence[0].held = NULL;   /* as the end of every instance leaves it */
        sl_table_remove(&table, &instance->head);
        for (uint32_t from = 0; from < 8; from++)
            sl_evict_ahead(&table, from);
    }
    sl_table_close(&table);
    sl_pool_close(&pool);
}

int main(void) {
    test_key_pair();
    test_evict_ahead();
    return 0;
}
