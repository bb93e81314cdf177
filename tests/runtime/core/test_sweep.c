/* sweep.h: what has expired is found within two rounds, and while nothing can expire nothing is looked at. What evictions
 * want is asked for without harm. */
#include "core/sweep.h"

#include "check.h"

enum { INSTANCES = 100, SHORT = 1000, LONG = 30000, ROUND = INSTANCES / SL_SWEEP_STEP + 1 };

static const uint64_t timeouts[] = {LONG, SL_NEVER, SHORT};

struct swept {
    struct sl_box box;
    struct sl_table table;
    struct sl_sweep sweep;
};

static void open_empty(struct swept *swept) {
    *swept = (struct swept){.box = {.now = 0}};
    CHECK(sl_table_open(&swept->table, sizeof(struct sl_instance) + 8, 1, INSTANCES, 7) == 0);
    swept->sweep = sl_sweep_new();
    sl_sweep_layer(&swept->sweep, timeouts, 2);
    CHECK_EQUAL(swept->sweep.shortest, LONG);
    sl_sweep_layer(&swept->sweep, timeouts + 1, 2);
    CHECK_EQUAL(swept->sweep.shortest, SHORT);
}

static struct sl_instance *begin(struct swept *swept, uint64_t key, uint64_t timeout) {
    struct sl_instance *made = sl_table_create(&swept->table, &key, 1, sl_table_hash(&swept->table, &key, 1));
    CHECK(made);
    made->deadline = sl_deadline(&swept->box, timeout);
    return made;
}

/* One step, whose finds end: how many. Fewer slots than it may look at are what it looked at before it came to rest. */
static unsigned step(struct swept *swept) {
    unsigned found = 0;
    uint32_t left = sl_sweep_step(&swept->box, &swept->table, &swept->sweep);
    CHECK(left <= SL_SWEEP_STEP);
    struct sl_instance *instance;
    while ((instance = sl_sweep_next(&swept->box, &swept->table, &swept->sweep, &left))) {
        CHECK(sl_expired(&swept->box, instance));
        sl_table_remove(&swept->table, instance);
        found++;
    }
    CHECK_EQUAL(left, 0);
    sl_sweep_prefetch(&swept->box, &swept->table, swept->sweep.slot);
    return found;
}

static void round_of_steps(struct swept *swept, unsigned expected) {
    unsigned found = 0;
    for (unsigned i = 0; i < ROUND; i++)
        found += step(swept);
    CHECK_EQUAL(found, expected);
}

static bool rests(struct swept *swept) {
    return sl_sweep_step(&swept->box, &swept->table, &swept->sweep) == 0;
}

static void test_rest(void) {
    CASE("a sweep rests until the first instance expires");
    struct swept swept;
    open_empty(&swept);
    CHECK(rests(&swept));   /* there is nothing yet */
    struct sl_instance *made[INSTANCES];
    for (uint64_t key = 0; key < INSTANCES; key++)
        made[key] = begin(&swept, key, LONG + key);
    made[3]->deadline = SL_NEVER;
    made[70]->deadline = 700;
    CHECK(!rests(&swept));
    round_of_steps(&swept, 0);
    round_of_steps(&swept, 0);
    round_of_steps(&swept, 0);   /* knows of all of them */
    CHECK(rests(&swept));
    swept.box.now = 699;
    CHECK(rests(&swept));
    swept.box.now = 700;
    CHECK(!rests(&swept));
    round_of_steps(&swept, 1);

    CASE("and until the shortest timeout is over, of what gets a deadline without its knowledge");
    round_of_steps(&swept, 0);
    CHECK(rests(&swept));
    made[0]->deadline = sl_deadline(&swept.box, SHORT);
    swept.box.now = 700 + SHORT - 1;
    CHECK(rests(&swept));
    swept.box.now = 700 + SHORT;
    round_of_steps(&swept, 1);
    swept.box.now = SL_NEVER - 1;
    round_of_steps(&swept, INSTANCES - 3);
    CHECK_EQUAL(swept.table.live, 1);   /* the one that time does not end */

    CASE("what a function gives back is found, and the sweep does not rest any more");
    round_of_steps(&swept, 0);
    round_of_steps(&swept, 0);
    CHECK(rests(&swept));
    sl_give_back(&swept.box, made[3]);
    CHECK(!rests(&swept));
    round_of_steps(&swept, 1);
    CHECK_EQUAL(swept.table.live, 0);
    round_of_steps(&swept, 0);
    CHECK(!rests(&swept));
    sl_table_close(&swept.table);
}

static void test_bound(void) {
    CASE("whatever begins, lives on and ends: what has expired is gone two rounds later");
    struct swept swept;
    open_empty(&swept);
    struct choices choices = {.seed = 5};
    uint64_t seen_expired[INSTANCES] = {0}, key = 0, rested = 0;
    for (uint64_t number = 1; number < 200000; number++) {
        swept.box.now += choose(&choices, 64) ? choose(&choices, 20) : choose(&choices, 3 * SHORT);
        for (uint32_t slot = 0; slot < swept.table.high_water; slot++) {
            const struct sl_instance *instance = sl_table_at(&swept.table, slot);
            if (!instance || !sl_expired(&swept.box, instance))
                seen_expired[slot] = 0;
            else if (!seen_expired[slot])
                seen_expired[slot] = number;
            CHECK(!seen_expired[slot] || number - seen_expired[slot] <= 2 * ROUND);
        }
        struct sl_instance *one = sl_table_at(&swept.table, (uint32_t)choose(&choices, INSTANCES));
        if (!one && swept.table.live < INSTANCES)
            begin(&swept, key++, timeouts[2 * choose(&choices, 2)]);
        else if (one && choose(&choices, 4) == 0)
            sl_table_remove(&swept.table, one);
        else if (one && !sl_expired(&swept.box, one))   /* else a look-up would end it */
            one->deadline = sl_deadline(&swept.box, timeouts[choose(&choices, 3)]);
        rested += rests(&swept);
        step(&swept);
    }
    CHECK(rested > 1000);
    sl_table_close(&swept.table);
}

/* An instance with a sequence, as the compiler lays it out. */
struct keeping {
    struct sl_instance head;
    uint64_t key[2];
    struct sl_sequence sequence[1];
};

static void test_evict_ahead(void) {
    CASE("what the next evictions want is asked for, also of free slots, and of one alone");
    struct sl_table table;
    struct sl_pool pool;
    struct sl_held *held = NULL;
    CHECK(sl_table_open(&table, sizeof(struct keeping), 2, 8, 1) == 0 && sl_pool_open(&pool, 1 << 20) == 0);
    table.sequences_at = offsetof(struct keeping, sequence);
    table.sequence_count = 1;
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t key[2] = {i, 0};
        struct keeping *made = (void *)sl_table_create(&table, key, 2, sl_table_hash(&table, key, 2));
        CHECK(made != NULL);
        CHECK(i % 2 || ((made->sequence[0].held = held = sl_pool_take(&pool, sizeof *held)) != NULL));
        if (i % 2 == 0)
            *held = (struct sl_held){0};
        for (uint32_t slot = 0; slot <= table.high_water; slot++)
            sl_evict_prefetch(&table, slot);
    }
    for (uint32_t slot = 0; slot < 8; slot++) {
        struct keeping *instance = (void *)sl_table_at(&table, slot);
        if (instance->sequence[0].held)
            sl_pool_give(&pool, instance->sequence[0].held, sizeof *held);
        instance->sequence[0].held = NULL;   /* as the end of every instance leaves it */
        sl_table_remove(&table, &instance->head);
        for (uint32_t from = 0; from < 8; from++)
            sl_evict_prefetch(&table, from);
    }
    sl_table_close(&table);
    sl_pool_close(&pool);
}

int main(void) {
    test_rest();
    test_bound();
    test_evict_ahead();
    return 0;
}
