/* bytes.h and pool.h. */
#include "core/pool.h"
#include "check.h"

#include <unistd.h>

static void test_bytes(void) {
    CASE("a slice clips at the end, in both measures");
    static const uint8_t wire[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const struct { uint64_t lo, hi; uint32_t from, captured, length; } rows[] = {
        {0, 10, 0, 6, 10}, {0, 0, 0, 0, 0}, {2, 5, 2, 3, 3},  {5, 6, 5, 1, 1},  {6, 7, 6, 0, 1},  {5, 8, 5, 1, 3},
        {9, 20, 6, 0, 1},  {10, 20, 6, 0, 0}, {20, 30, 6, 0, 0}, {5, 2, 2, 0, 0}, {3, UINT64_MAX, 3, 3, 7},
        {UINT64_MAX, UINT64_MAX, 6, 0, 0}, {UINT64_MAX, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_bytes cut = sl_bytes_slice((sl_bytes){wire, 6, 10}, rows[i].lo, rows[i].hi);
        CHECK_EQUAL(cut.captured, rows[i].captured);
        CHECK_EQUAL(cut.length, rows[i].length);
        CHECK(cut.captured == 0 || cut.at == wire + rows[i].from);
    }
    sl_bytes none = sl_bytes_slice((sl_bytes){NULL, 0, 5}, 1, 3);
    CHECK(none.at == NULL && none.captured == 0 && none.length == 2);

    CASE("loads of 1 to 8 bytes read no more than those");
    const uint64_t big[9] = {0, 0x01, 0x0102, 0x010203, 0x01020304, 0x0102030405, 0x010203040506, 0x01020304050607,
                             0x0102030405060708};
    const uint64_t little[9] = {0, 0x01, 0x0201, 0x030201, 0x04030201, 0x0504030201, 0x060504030201,
                                0x07060504030201, 0x0807060504030201};
    CHECK(sl_load_be(NULL, 0) == 0 && sl_load_le(NULL, 0) == 0);
    for (unsigned n = 1; n <= 8; n++) {
        uint8_t *exact = malloc(n);   /* the sanitizer guards its end */
        for (unsigned i = 0; i < n; i++)
            exact[i] = (uint8_t)(i + 1);
        CHECK_EQUAL(sl_load_be(exact, n), big[n]);
        CHECK_EQUAL(sl_load_le(exact, n), little[n]);
        free(exact);
    }
    CHECK_EQUAL(sl_load_le16(wire + 1), 0x0201);
    CHECK_EQUAL(sl_load_le32(wire + 1), 0x04030201);
    CHECK_EQUAL(sl_load_le64(wire + 1), 0x0807060504030201);

    CASE("shifts and divisions are total");
    CHECK_EQUAL(sl_shift_left(1, 63), UINT64_C(1) << 63);
    CHECK_EQUAL(sl_shift_left(1, 64), 0);
    CHECK_EQUAL(sl_shift_right(UINT64_MAX, 64), 0);
    CHECK_EQUAL(sl_shift_right(UINT64_MAX, UINT64_MAX), 0);
    CHECK_EQUAL(sl_divide(5, 0), 0);
    CHECK_EQUAL(sl_modulo(5, 0), 0);
    CHECK_EQUAL(sl_modulo(5, 3), 2);

    CASE("serial numbers, every boundary of the circle");
    const unsigned widths[] = {2, 8, 16, 32, 63, 64};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        unsigned width = widths[i];
        uint64_t half = UINT64_C(1) << (width - 1), mask = sl_mask(width);
        for (uint64_t a = mask - 1, n = 0; n < 4; n++, a = (a + 1) & mask) {
            CHECK(!sl_serial_less(a, a, width));
            CHECK(sl_serial_less(a, (a + 1) & mask, width));
            CHECK(!sl_serial_less((a + 1) & mask, a, width));
            CHECK(sl_serial_less(a, (a + half - 1) & mask, width));
            CHECK(!sl_serial_less(a, (a + half) & mask, width));
            CHECK(!sl_serial_less((a + half) & mask, a, width));
            CHECK(!sl_serial_less(a, (a + half + 1) & mask, width));
            for (uint64_t step = 0; step < 3; step++) {
                uint64_t near = (a + step) & mask, far = (a + half - 1 + step) & mask;
                CHECK(sl_serial_at_most(a, near, width) == (near == a || sl_serial_less(a, near, width)));
                CHECK(sl_serial_at_most(a, far, width) == (far == a || sl_serial_less(a, far, width)));
            }
        }
    }
    CHECK(!sl_serial_less(0, 1, 1) && !sl_serial_less(1, 0, 1));

    CASE("the internet checksum: RFC 1071's example, odd lengths, in parts");
    static const uint8_t example[8] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    CHECK_EQUAL(sl_internet_checksum(example, 8, 0), 0xddf2);
    CHECK_EQUAL(sl_internet_checksum(NULL, 0, 0), 0);
    CHECK_EQUAL(sl_internet_checksum(NULL, 0, 0x12345), 0x2346);
    uint8_t bytes[257];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += i % 2 ? bytes[i] : (uint64_t)bytes[i] << 8;
        while (sum >> 16)
            sum = (sum & 0xffff) + (sum >> 16);
        CHECK_EQUAL(sl_internet_checksum(bytes, n, 0), sum);
        size_t part = n / 3 & ~(size_t)1;
        CHECK_EQUAL(sl_internet_checksum(bytes + part, n - part, sl_internet_checksum(bytes, part, 0)), sum);
    }
}

static void test_budget(void) {
    CASE("size classes: powers of two from 64 to 131072");
    struct sl_pool pool;
    CHECK(sl_pool_open(&pool, 1 << 20) == 0);
    for (size_t size = 64; size <= SL_POOL_MOST; size *= 2) {
        void *exact = sl_pool_take(&pool, size);
        CHECK(exact && pool.used == size);
        sl_pool_give(&pool, exact, size);
        void *above_half = sl_pool_take(&pool, size / 2 + 1);
        CHECK(above_half && pool.used == size);
        sl_pool_give(&pool, above_half, size / 2 + 1);
        CHECK(pool.used == 0);
    }
    CHECK(pool.refused == 0);
    CHECK(!sl_pool_has(&pool, SL_POOL_MOST + 1) && !sl_pool_take(&pool, SL_POOL_MOST + 1) && pool.refused == 1);
    sl_pool_close(&pool);

    CASE("the budget is used to its last block, and no further");
    const uint64_t budgets[] = {0, 1, 63, 64, 65, 4096, 100000, 131072, 131136, 300000};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        CHECK(sl_pool_open(&pool, budgets[i]) == 0);
        uint64_t taken = 0;
        while (sl_pool_has(&pool, 64)) {
            CHECK(sl_pool_take(&pool, 64) != NULL);
            taken++;
        }
        CHECK_EQUAL(taken, budgets[i] / 64);
        CHECK(!sl_pool_take(&pool, 1) && pool.refused == 1);
        CHECK(pool.used == taken * 64 && pool.reserved == pool.used && pool.reserved <= budgets[i]);
        sl_pool_close(&pool);
    }

    CASE("after a flood of small blocks the pool can give large ones again");
    CHECK(sl_pool_open(&pool, 1 << 20) == 0);
    static void *small[16384];
    for (int i = 0; i < 16384; i++)
        CHECK((small[i] = sl_pool_take(&pool, 64)) != NULL);
    CHECK(!sl_pool_has(&pool, 64));
    for (int i = 0; i < 16384; i++)   /* odd ones first, so that no two buddies are free for a while */
        sl_pool_give(&pool, small[i < 8192 ? 2 * i + 1 : 2 * (i - 8192)], 64);
    for (int i = 0; i < 8; i++)
        CHECK(sl_pool_take(&pool, SL_POOL_MOST) != NULL);
    CHECK(pool.used == pool.budget && pool.reserved == pool.budget && pool.refused == 0);
    sl_pool_close(&pool);
}

static void test_magazines(void) {
    CASE("a block that was given back is the next of its size, though its neighbour is free; and joins it when it has to");
    struct sl_pool pool;
    CHECK(sl_pool_open(&pool, SL_POOL_MOST) == 0);
    uint8_t *half = sl_pool_take(&pool, SL_POOL_MOST / 2);
    sl_pool_give(&pool, half, SL_POOL_MOST / 2);
    for (size_t size = 64; size <= SL_POOL_MOST / 4; size *= 2) {
        void *one = sl_pool_take(&pool, size), *other = sl_pool_take(&pool, size);
        sl_pool_give(&pool, other, size);
        sl_pool_give(&pool, one, size);
        CHECK(sl_pool_take(&pool, size) == one && sl_pool_take(&pool, size) == other);
        sl_pool_give(&pool, one, size);
        sl_pool_give(&pool, other, size);
    }
    CHECK(sl_pool_has(&pool, SL_POOL_MOST) && sl_pool_take(&pool, SL_POOL_MOST) == half);
    CHECK(pool.refused == 0);
    sl_pool_close(&pool);

    CASE("what lies in magazines joins before new memory is touched, and is there for who asks for much");
    CHECK(sl_pool_open(&pool, 3 * SL_POOL_MOST) == 0);
    void *parts[2 * SL_MAGAZINE_MOST];
    for (unsigned i = 0; i < 2 * SL_MAGAZINE_MOST; i++)
        parts[i] = sl_pool_take(&pool, SL_POOL_MOST / SL_MAGAZINE_MOST);
    for (unsigned i = 0; i < SL_MAGAZINE_MOST; i++)
        sl_pool_give(&pool, parts[i], SL_POOL_MOST / SL_MAGAZINE_MOST);
    CHECK(sl_pool_take(&pool, SL_POOL_MOST) && pool.reserved == 2 * SL_POOL_MOST);
    for (unsigned i = SL_MAGAZINE_MOST; i < 2 * SL_MAGAZINE_MOST; i++)
        sl_pool_give(&pool, parts[i], SL_POOL_MOST / SL_MAGAZINE_MOST);
    CHECK(sl_pool_suffices(&pool, 2 * SL_POOL_MOST) && !sl_pool_suffices(&pool, 2 * SL_POOL_MOST + 1));
    sl_pool_close(&pool);

    CASE("small blocks are cut several at once, beside each other");
    CHECK(sl_pool_open(&pool, 4 * SL_POOL_MOST) == 0);
    uint8_t *first = sl_pool_take(&pool, 64);
    for (unsigned i = 1; i < 1 << SL_POOL_CUT; i++)
        CHECK(pool.magazines[0].count == (1 << SL_POOL_CUT) - i && sl_pool_take(&pool, 64) == first + 64 * i);
    sl_pool_close(&pool);
}

static void test_promises(void) {
    CASE("what suffices is handed out, whatever was taken and given back before, in blocks of any sizes in any order");
    enum { SLOTS = 200, STEPS = 300, ROUNDS = 200 };
    unsigned kept = 0, large = 0, cut = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct choices choices = {.seed = seed};
        struct sl_pool pool;
        struct { void *at; size_t size; } slots[SLOTS] = {0};
        CHECK(sl_pool_open(&pool, 1 + choose(&choices, 8 * SL_POOL_MOST)) == 0);
        for (int step = 0; step < STEPS; step++) {
            unsigned i = choose(&choices, SLOTS);
            if (slots[i].at)
                sl_pool_give(&pool, slots[i].at, slots[i].size);
            slots[i].size = (size_t)64 << choose(&choices, SL_POOL_CLASSES);
            slots[i].at = choose(&choices, 2) ? sl_pool_take(&pool, slots[i].size) : NULL;
            uint64_t left = choose(&choices, 1u << choose(&choices, 20));
            if (!sl_pool_suffices(&pool, left))
                continue;
            void *taken[4096];
            size_t sizes[4096];
            unsigned count = 0, most = SL_POOL_CLASSES;
            large += left > SL_POOL_MOST;
            while (left >= 64 && count < 4096) {
                size_t size = (size_t)64 << choose(&choices, most);
                if (size > left) {
                    most = sl_pool_class(size);
                    continue;
                }
                taken[count] = sl_pool_take(&pool, size);
                CHECK(taken[count]);
                cut += pool.magazines[sl_pool_class(size)].count == (1 << SL_POOL_CUT) - 1;
                sizes[count++] = size;
                left -= size;
            }
            kept++;
            while (count--)
                sl_pool_give(&pool, taken[count], sizes[count]);
        }
        sl_pool_close(&pool);
    }
    CHECK(kept > ROUNDS && large > ROUNDS && cut > ROUNDS);
}

static void test_pages(void) {
    CASE("large memory lies so that a huge page begins where it is large enough for one");
    enum { FROM = 1 << 16 };
    const size_t sizes[] = {1, 4096, FROM, FROM + 1, SL_HUGE_PAGE, 5 * (size_t)SL_HUGE_PAGE + 12345};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *at = sl_map(sizes[i], FROM);
        CHECK(at && (sizes[i] <= FROM || ((uintptr_t)at + FROM) % SL_HUGE_PAGE == 0));
        CHECK(at[0] == 0 && at[sizes[i] - 1] == 0);
        at[0] = at[sizes[i] - 1] = 1;
        sl_huge_rest(at, sizes[i], FROM);
        CHECK(sl_prefault(at, sizes[i]) == 0 && at[sizes[i] - 1]);
        CHECK(munmap(at, sizes[i]) == 0);
    }
    CHECK(!sl_map(SIZE_MAX, FROM));
}

static void test_random(void) {
    CASE("random takes and gives: blocks are aligned, keep their bytes, and all come back");
    enum { SLOTS = 64 };
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct choices choices = {.seed = seed};
        struct sl_pool pool;
        struct { uint8_t *at; size_t size; uint8_t mark; } slots[SLOTS] = {0};
        CHECK(sl_pool_open(&pool, 1 + choose(&choices, 65536) * 8) == 0);
        uint64_t used = 0, blocks = 0;
        for (int step = 0; step < 2000; step++) {
            unsigned i = choose(&choices, SLOTS);
            if (slots[i].at) {
                for (size_t at = 0; at < slots[i].size; at += 61)
                    CHECK(slots[i].at[at] == slots[i].mark);
                sl_pool_give(&pool, slots[i].at, slots[i].size);
                used -= (uint64_t)64 << sl_pool_class(slots[i].size);
                blocks--;
                slots[i].at = NULL;
            } else {
                size_t size = 1 + choose(&choices, 65536) % (1u << choose(&choices, 17));
                bool has = sl_pool_has(&pool, size);
                slots[i].at = sl_pool_take(&pool, size);
                CHECK(has == (slots[i].at != NULL));
                if (!slots[i].at)
                    continue;
                CHECK((uintptr_t)slots[i].at % 64 == 0);
                slots[i].size = size;
                slots[i].mark = (uint8_t)step;
                memset(slots[i].at, slots[i].mark, size);
                used += (uint64_t)64 << sl_pool_class(size);
                blocks++;
            }
            CHECK_EQUAL(pool.used, used);
            CHECK_EQUAL(pool.blocks, blocks);
            CHECK(pool.used <= pool.reserved && pool.reserved <= pool.budget);
        }
        for (int i = 0; i < SLOTS; i++)
            if (slots[i].at)
                sl_pool_give(&pool, slots[i].at, slots[i].size);
        CHECK(pool.used == 0);
        /* All of it has grown together again. */
        for (uint64_t left = pool.reserved; left >= SL_POOL_MOST; left -= SL_POOL_MOST)
            CHECK(sl_pool_take(&pool, SL_POOL_MOST) != NULL);
        sl_pool_close(&pool);
    }
}

static bool in_order(const struct sl_pool *pool, const struct sl_holder *holders, const char *order) {
    const struct sl_holder *at = pool->oldest, *before = NULL;
    for (; *order; order++, before = at, at = at->newer)
        if (at != &holders[*order - 'a'] || at->older != before)
            return false;
    return !at && pool->newest == before;
}

static void test_holders(void) {
    CASE("holders stand in the order in which they began to hold");
    struct sl_pool pool = {0};
    struct sl_holder holders[3] = {{0}, {0}, {0}};
    for (unsigned i = 0; i < 3; i++)
        sl_holder_add(&pool, &holders[i]);
    CHECK(in_order(&pool, holders, "abc"));
    sl_holder_renew(&pool, &holders[0]);
    CHECK(in_order(&pool, holders, "bca"));
    sl_holder_renew(&pool, &holders[0]);
    CHECK(in_order(&pool, holders, "bca"));
    sl_holder_remove(&pool, &holders[2]);
    CHECK(in_order(&pool, holders, "ba"));
    sl_holder_remove(&pool, &holders[1]);
    CHECK(in_order(&pool, holders, "a"));
    sl_holder_renew(&pool, &holders[0]);
    sl_holder_remove(&pool, &holders[0]);
    CHECK(in_order(&pool, holders, ""));
}

static void test_charge(void) {
    CASE("memory that is allocated elsewhere is charged to the budget: at most half of it, and none that blocks have");
    struct sl_pool pool;
    CHECK(sl_pool_open(&pool, 8 * SL_POOL_MOST) == 0);
    CHECK(!sl_pool_charge(&pool, 4 * SL_POOL_MOST + 1) && !sl_pool_charge(&pool, UINT64_MAX));
    CHECK(sl_pool_charge(&pool, 3 * SL_POOL_MOST - 100) && pool.budget == 5 * SL_POOL_MOST + 64);
    CHECK(!sl_pool_charge(&pool, SL_POOL_MOST + 65) && sl_pool_charge(&pool, SL_POOL_MOST + 64));
    CHECK(pool.budget == 4 * SL_POOL_MOST && !sl_pool_charge(&pool, 1));
    for (unsigned i = 0; i < 4; i++)
        CHECK(sl_pool_take(&pool, SL_POOL_MOST));
    CHECK(!sl_pool_take(&pool, 1));
    sl_pool_close(&pool);

    CHECK(sl_pool_open(&pool, 8 * SL_POOL_MOST) == 0);
    for (unsigned i = 0; i < 7; i++)
        CHECK(sl_pool_take(&pool, SL_POOL_MOST));
    CHECK(!sl_pool_charge(&pool, SL_POOL_MOST + 1) && sl_pool_charge(&pool, SL_POOL_MOST) && !sl_pool_take(&pool, 1));
    sl_pool_close(&pool);

    CASE("the pages that were populated for it go back to the kernel");
    CHECK(sl_pool_open(&pool, 8 * SL_POOL_MOST) == 0 && sl_pool_prefault(&pool) == 0);
    memset(pool.memory, 1, pool.mapped);
    CHECK(sl_pool_charge(&pool, SL_POOL_MOST));
    CHECK(pool.memory[pool.budget - 1] == 1 && pool.memory[pool.budget] == 0 && pool.memory[pool.mapped - 1] == 0);
    sl_pool_close(&pool);
}

static void test_ready(void) {
    CASE("a pool is pressed when the budget is nearly cut up, and ready when a part of it is free in large blocks");
    enum { BLOCKS = 8 * SL_POOL_MOST / 2048 };
    static void *taken[BLOCKS];
    struct sl_pool pool;
    CHECK(sl_pool_open(&pool, 8 * SL_POOL_MOST) == 0);
    unsigned n = 0;
    while (!pool.pressed) {
        CHECK(sl_pool_ready(&pool));
        taken[n++] = sl_pool_take(&pool, 2048);
    }
    CHECK(pool.budget - pool.reserved < pool.budget / SL_POOL_SPARE);
    while (n < BLOCKS)
        taken[n++] = sl_pool_take(&pool, 2048);
    CHECK(pool.refused == 0 && !sl_pool_ready(&pool));

    /* Every second block: half of the budget is free, and no packet of 1,500 bytes has room for certain. */
    for (unsigned i = 0; i < BLOCKS; i += 2)
        sl_pool_give(&pool, taken[i], 2048);
    CHECK(pool.used == pool.budget / 2 && !sl_pool_ready(&pool));
    for (unsigned i = 1; i < 2 * SL_POOL_PACKETS; i += 2) {
        CHECK(!sl_pool_ready(&pool));
        sl_pool_give(&pool, taken[i], 2048);
    }
    CHECK(sl_pool_ready(&pool));
    for (unsigned i = 0; i < SL_POOL_PACKETS; i++)
        CHECK(sl_pool_take(&pool, SL_POOL_PACKET));
    CHECK(pool.refused == 0 && !sl_pool_ready(&pool));
    sl_pool_close(&pool);

    CASE("the smallest pools and one without any memory");
    CHECK(sl_pool_open(&pool, 0) == 0 && sl_pool_ready(&pool));
    sl_pool_close(&pool);
    CHECK(sl_pool_open(&pool, 1024) == 0 && sl_pool_ready(&pool));
    CHECK(sl_pool_take(&pool, 1024) && pool.pressed && !sl_pool_ready(&pool));
    sl_pool_close(&pool);
}

static void test_scratch(void) {
    CASE("scratch hands out what it has");
    uint8_t memory[16];
    struct sl_scratch scratch = {memory, sizeof memory, 0};
    CHECK(sl_scratch_take(&scratch, 10) == memory);
    CHECK(sl_scratch_take(&scratch, 7) == NULL);
    CHECK(sl_scratch_take(&scratch, 6) == memory + 10);
    CHECK(sl_scratch_take(&scratch, 1) == NULL);
}

static void test_prefault(void) {
    CASE("the memory of a pool that is prefaulted is there before it is used, and only then");
    enum { BUDGET = 4 << 20 };
    static unsigned char there[BUDGET / 4096];
    const size_t pages = BUDGET / (size_t)sysconf(_SC_PAGESIZE);
    for (int prefault = 0; prefault < 2; prefault++) {
        struct sl_pool pool;
        CHECK(sl_pool_open(&pool, BUDGET) == 0);
        CHECK(!prefault || sl_pool_prefault(&pool) == 0);
        CHECK(mincore(pool.memory, BUDGET, there) == 0);
        size_t count = 0;
        for (size_t i = 0; i < pages; i++)
            count += there[i] & 1;
        CHECK_EQUAL(count, prefault ? pages : 0);
        CHECK_EQUAL(pool.reserved, 0);
        void *taken = sl_pool_take(&pool, SL_POOL_MOST);
        CHECK(taken != NULL);
        memset(taken, 1, SL_POOL_MOST);
        sl_pool_give(&pool, taken, SL_POOL_MOST);
        sl_pool_close(&pool);
    }
    struct sl_pool none;
    CHECK(sl_pool_open(&none, 0) == 0 && sl_pool_prefault(&none) == 0);
    sl_pool_close(&none);
}

int main(void) {
    test_bytes();
    test_budget();
    test_magazines();
    test_promises();
    test_prefault();
    test_pages();
    test_random();
    test_holders();
    test_charge();
    test_ready();
    test_scratch();
    return 0;
}
