/* prefetch.h: what is asked for leaves no trace but how far it has come, and looks at nothing that is gone. */
#include "core/prefetch.h"
#include "stream/sequence.h"

#include "check.h"

struct kept {
    struct sl_instance head;
    uint64_t key[1];
    struct sl_sequence sequence[2];
};

static const struct sl_sequence_rules rules = {.width = 32, .buffer_data = true, .limit_bytes = 1 << 16,
                                               .limit_pieces = 100, .limit_records = 1};

static struct kept *begin(struct sl_table *table, uint64_t key) {
    struct kept *kept = (struct kept *)(void *)sl_table_create(table, &key, 1, sl_table_hash(table, &key, 1));
    CHECK(kept);
    for (unsigned side = 0; side < 2; side++) {
        sl_sequence_reset(&kept->sequence[side], &rules);
        sl_sequence_begin(&kept->sequence[side], &rules, NULL, 0, false);
    }
    return kept;
}

/* Bytes far ahead, one by one. */
static void hold(struct kept *kept, struct sl_pool *pool, unsigned pieces) {
    struct sl_packet_data direct = {.present = false};
    for (uint64_t k = 0; k < pieces; k++)
        CHECK(sl_sequence_insert(&kept->sequence[1], &rules, pool, &direct, 10 + 2 * k, (sl_bytes){(const uint8_t *)"x", 1, 1}, 1));
}

/* A table with four instances, of the keys 0 to 3. */
static void open_four(struct sl_table *table, struct sl_pool *pool, struct kept *made[4]) {
    CHECK(sl_table_open(table, sizeof(struct kept), 1, 8, 7) == 0 && sl_pool_open(pool, 1 << 20) == 0);
    table->sequences_at = offsetof(struct kept, sequence);
    table->sequence_count = 2;
    for (uint64_t key = 0; key < 4; key++)
        made[key] = begin(table, key);
}

static void test_held(void) {
    CASE("of packets that come soon what their instances hold is asked for, then what leads to one of its pieces");
    struct sl_table table;
    struct sl_pool pool;
    struct kept *made[4];
    open_four(&table, &pool, made);
    hold(made[0], &pool, 2);     /* a list without an index */
    hold(made[1], &pool, 90);    /* with one */
    hold(made[3], &pool, 20);
    struct sl_lookahead lookahead = {.count = 0};
    struct sl_frame frames[SL_GROUP] = {{.at = NULL}};
    sl_lookahead_group(&lookahead, frames, 10, 0, 58);
    for (uint32_t packet = 0; packet < 10; packet++) {
        uint64_t key = packet % 5;   /* of 4 there is none */
        lookahead.packet = packet;
        sl_lookahead_want(&lookahead, &table, sl_table_hash(&table, &key, 1));
    }
    sl_lookahead_stage2(&lookahead, false);
    for (size_t i = 0; i < 10; i++) {
        lookahead.held_much = i >= 2;
        sl_lookahead_packet(&lookahead, frames, i, 58);
        CHECK_EQUAL((size_t)(lookahead.predicted - lookahead.wanted), sl_min(10, i + 1 + SL_INSTANCE_LEAD));
        CHECK_EQUAL((size_t)(lookahead.held - lookahead.wanted), i < 2 ? 0 : sl_min(10, i + 1 + SL_HELD_LEAD));
        CHECK_EQUAL((size_t)(lookahead.led - lookahead.wanted), i < 2 ? 0 : sl_min(10, i + 1 + SL_INDEX_LEAD));
        if (i == 3) {   /* one ends that was predicted, with all that it held */
            for (unsigned side = 0; side < 2; side++)
                sl_sequence_clear(&made[3]->sequence[side], &rules, &pool);
            sl_table_remove(&table, &made[3]->head);
        }
    }
    CHECK(!table.predicted[4] && table.predicted[6] == &made[1]->head);
    for (unsigned k = 0; k < 3; k++)
        for (unsigned side = 0; side < 2; side++)
            sl_sequence_clear(&made[k]->sequence[side], &rules, &pool);
    CHECK_EQUAL(pool.used, 0);
    sl_pool_close(&pool);
    sl_table_close(&table);
}

static void test_each(void) {
    CASE("in the table of most packets each one's look-up is predicted, but of those that have none, or are no more of the group");
    struct sl_table table;
    struct sl_pool pool;
    struct kept *made[4];
    open_four(&table, &pool, made);
    hold(made[0], &pool, 2);
    hold(made[1], &pool, 90);
    struct sl_lookahead lookahead = {.count = 0};
    struct sl_frame frames[SL_GROUP] = {{.at = NULL}};
    for (unsigned group = 0; group < 2; group++) {   /* the second is shorter */
        const size_t count = group ? 9 : SL_GROUP;
        memset(table.predicted, 0, sizeof table.predicted);
        sl_lookahead_group(&lookahead, frames, count, 0, 58);
        for (lookahead.packet = 0; lookahead.packet < count; lookahead.packet++) {
            uint64_t key = (lookahead.packet + group) % 5;   /* of 4 there is none */
            if (lookahead.packet % 7 == 6)
                sl_lookahead_want_none(&lookahead);
            else
                sl_lookahead_want_each(&lookahead, &table, sl_table_hash(&table, &key, 1));
        }
        sl_lookahead_stage2(&lookahead, group);
        CHECK_EQUAL(lookahead.others, group ? SL_GROUP : 0);
        sl_lookahead_each_begin(&lookahead, &table, count, sizeof(struct kept));
        for (size_t i = 0; i < count; i++) {
            sl_lookahead_each(&lookahead, &table, i + SL_INSTANCE_LEAD, sizeof(struct kept));
            for (size_t packet = 0; packet < SL_GROUP; packet++) {
                uint64_t key = (packet + group) % 5;
                bool asked = packet < count && packet <= i + SL_INSTANCE_LEAD && packet % 7 != 6 && key != 4;
                CHECK(table.predicted[packet] == (asked ? &made[key]->head : NULL));
            }
            sl_lookahead_packet(&lookahead, frames, i, 58);
            sl_lookahead_held_each(&lookahead, &table, i);
            lookahead.packet = (uint32_t)i;
            for (unsigned k = 0; k < 4; k++)   /* one that holds it prefetches the packets after it, if they are its own */
                for (uint32_t distance = 1; distance <= 2; distance++) {
                    size_t other = i + distance;
                    bool its = other < count && other % 7 != 6 && (other + group) % 5 == k;
                    const uint8_t bytes[100] = {0};
                    CHECK(sl_lookahead_next(&lookahead, &table, &made[k]->head, distance, bytes, (uint32_t)(i % 3 * 50)) == its);
                }
        }
    }
    for (unsigned k = 0; k < 2; k++)
        for (unsigned side = 0; side < 2; side++)
            sl_sequence_clear(&made[k]->sequence[side], &rules, &pool);
    sl_pool_close(&pool);
    sl_table_close(&table);
}

static void test_other(void) {
    CASE("a key is asked for where it is another than the one before");
    struct sl_table table;
    CHECK(sl_table_open(&table, sizeof(struct kept), 2, 8, 7) == 0);
    struct sl_lookahead lookahead = {.count = 0};
    uint64_t wanted[2] = {0, 0};
    const uint64_t keys[][2] = {{1, 2}, {1, 2}, {1, 3}, {2, 3}, {2, 3}, {1, 2}};
    const uint32_t asked[] = {1, 1, 2, 3, 3, 4};
    sl_lookahead_group(&lookahead, NULL, 6, 0, 58);
    for (lookahead.packet = 0; lookahead.packet < 6; lookahead.packet++) {
        sl_lookahead_want_other(&lookahead, &table, keys[lookahead.packet], 2, wanted);
        CHECK_EQUAL(lookahead.count, asked[lookahead.packet]);
        CHECK(memcmp(wanted, keys[lookahead.packet], sizeof wanted) == 0);
    }
    CHECK_EQUAL(lookahead.wanted[3].packet, 5);
    CHECK_EQUAL(lookahead.wanted[3].hash, sl_table_hash(&table, keys[5], 2));
    sl_table_close(&table);

    CASE("an instance is confirmed while it is live and has the key");
    CHECK(sl_table_open(&table, sizeof(struct kept), 1, 8, 7) == 0);
    const uint64_t key = 5, other = 6;
    struct sl_instance *instance = sl_table_create(&table, &key, 1, 9);
    CHECK(!sl_table_confirm(NULL, &key, 1, false) && !sl_table_confirm(instance, &other, 1, false));
    CHECK(sl_table_confirm(instance, &key, 1, false) == instance);
    CHECK(table.newest == instance);
    sl_table_remove(&table, instance);
    CHECK(!sl_table_confirm(instance, &key, 1, false));

    CASE("the newest instance is the last that was created");
    CHECK(!sl_table_confirm(table.newest, &key, 1, false));
    sl_table_create(&table, &key, 1, 9);
    instance = sl_table_create(&table, &other, 1, 9);
    CHECK(table.newest == instance && sl_table_confirm(table.newest, &other, 1, false) == instance);
    sl_table_close(&table);
}

int main(void) {
    test_held();
    test_each();
    test_other();
    return 0;
}
