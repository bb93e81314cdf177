/* Nodes in the order of their positions (ordered.h): against an array, how far a search has to go, and without memory. */
#include "stream/ordered.h"
#include "core/pool.h"
#include "check.h"
#include "ordered_check.h"

enum { NODES = 100000 };

static struct sl_pool pool;

/* Puts a node where it belongs, after those that have its position. */
static bool add(struct sl_ordered *ordered, struct sl_node *node, uint64_t position) {
    node->position = position;
    struct sl_node *before = sl_ordered_find(ordered, position);
    return sl_ordered_add(ordered, &pool, node, 0, before ? before->next : ordered->first);
}

static void test_orders_of_arrival(void) {
    CASE("a search is short, in whatever order the nodes came; also over the end of 64 bits");
    static struct sl_node nodes[NODES];
    for (unsigned order = 0; order < 5; order++) {
        struct sl_ordered ordered = {0};
        for (uint64_t i = 0; i < NODES; i++) {
            const uint64_t places[] = {i, NODES - i, i * 7919 % NODES, i & 1 ? i : 2 * NODES - i, i & ~UINT64_C(255)};
            CHECK(add(&ordered, &nodes[i], places[order] - NODES / 2));
        }
        ordered_check(&ordered, NODES);
        CHECK(ordered.root->height < 6);   /* at least 7 entries a part: 7 to the sixth is more than NODES */
        CHECK(pool.used <= 256 * (NODES / 7 + NODES / 49 + NODES / 343 + 100));
        while (ordered.first)
            sl_ordered_remove(&ordered, &pool, ordered.first);
        CHECK(!ordered.last && !ordered.root && ordered.count == 0 && pool.used == 0);
    }
}

/* Random additions, removals and replacements; `few` positions, so that many nodes have the same, of which only the
 * first of all is taken out; and without memory for the index now and then. */
static void test_against_array(bool few) {
    enum { MOST = 200, STEPS = 40000 };
    struct choices choices = {.seed = 7};
    static struct sl_node memory[2 * MOST];
    struct sl_node *unused[2 * MOST], *array[MOST];
    unsigned count = 0, free = 2 * MOST, refused = 0;
    for (unsigned i = 0; i < free; i++)
        unused[i] = &memory[i];
    struct sl_ordered ordered = {0};
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t position = UINT64_MAX - 50 + choose(&choices, few ? 100 : 2000);
        /* more come than go, and then more go than come */
        unsigned what = choose(&choices, 8), growing = step / 1000 % 2 ? 3 : 5, place = 0;
        if (what < growing && count < MOST) {
            while (place < count && !sl_position_before(position, array[place]->position))
                place++;
            bool known = place && array[place - 1]->position == position;
            struct sl_node *node = unused[--free];
            const struct sl_pool whole = pool;
            bool starved = choose(&choices, 4) == 0;
            if (starved)
                pool = (struct sl_pool){0};
            bool added = (few || !known) && add(&ordered, node, position);
            if (starved)
                pool = whole;
            if (added) {
                memmove(array + place + 1, array + place, (count++ - place) * sizeof *array);
                array[place] = node;
            } else {
                CHECK(starved || (!few && known));
                refused += few || !known;
                free++;
            }
        } else if (count) {
            place = few ? 0 : choose(&choices, count);
            bool alone = !few || count == 1 || array[1]->position != array[0]->position;
            unused[free++] = array[place];
            if (choose(&choices, 4) || !alone) {
                sl_ordered_remove(&ordered, &pool, array[place]);
                memmove(array + place, array + place + 1, (--count - place) * sizeof *array);
            } else {
                struct sl_node *node = unused[0], *old = array[place];
                memmove(unused, unused + 1, --free * sizeof *unused);
                node->position = old->position;
                sl_ordered_replace(&ordered, old, node);
                array[place] = node;
            }
        }
        ordered_check(&ordered, count);
        const struct sl_node *at = ordered.first, *found = NULL;
        for (unsigned i = 0; i < count; i++, at = at->next) {
            CHECK(at == array[i]);
            found = sl_position_before(position, at->position) ? found : at;
        }
        CHECK(sl_ordered_find(&ordered, position) == found);
    }
    CHECK(refused > 10);
    while (ordered.first)
        sl_ordered_remove(&ordered, &pool, ordered.first);
    CHECK(pool.used == 0);
}

/* Nodes of some length each, none on another one, over the end of 64 bits: whatever is said of a hole is so, and of those
 * that there are most are known. */
static void test_holes(void) {
    enum { MOST = 2000, WIDE = 40000, LONGEST = 12 };
    CASE("holes that the index knows: there, between these two nodes, touching neither");
    struct choices choices = {.seed = 3};
    static struct sl_node nodes[MOST];
    static uint32_t owner[WIDE + 1];   /* 1 + the node that covers it */
    static unsigned lengths[MOST];
    struct sl_ordered ordered = {0};
    const uint64_t origin = UINT64_MAX - WIDE / 2;
    unsigned count = 0, apart = 0, known = 0, added = 0, full = 0;
    while (count < MOST) {
        unsigned length = 1 + choose(&choices, LONGEST), low = 1 + choose(&choices, WIDE - LONGEST - 1), high = low + length;
        unsigned before = low - 1, after = high;
        while (before && !owner[before])
            before--;
        while (after < WIDE && !owner[after])
            after++;
        bool is_free = !owner[low] && after >= high && (after == WIDE || !before || owner[after] != owner[before]);
        for (unsigned at = low; at < high; at++)
            is_free &= !owner[at];
        bool is_apart = is_free && !owner[low - 1] && !owner[high] && owner[before] && owner[after];
        struct sl_hole hole = sl_ordered_hole(&ordered, origin + low, origin + high);
        apart += is_apart && ordered.root;
        if (hole.leaf) {
            CHECK(is_apart);
            CHECK(sl_entry_node(&hole.leaf->entries[hole.place]) == &nodes[owner[before] - 1]);
            CHECK(sl_entry_node(&hole.leaf->entries[hole.place + 1]) == &nodes[owner[after] - 1]);
            known++;
        }
        if (!is_free)
            continue;
        struct sl_node *node = &nodes[count];
        node->position = origin + low;
        lengths[count] = length;
        if (hole.leaf && choose(&choices, 4)) {
            if (hole.leaf->count == SL_INDEX_MOST) {
                const struct sl_pool whole = pool;
                pool = (struct sl_pool){0};
                CHECK(!sl_ordered_add_in_hole(&ordered, &pool, node, length, hole));   /* no memory to split it */
                pool = whole;
                ordered_check(&ordered, count);
                hole = sl_ordered_hole(&ordered, origin + low, origin + high);
                full++;
            }
            CHECK(sl_ordered_add_in_hole(&ordered, &pool, node, length, hole));
            added++;
        } else {
            struct sl_node *previous = sl_ordered_find(&ordered, node->position);
            /* as what covers more than an entry can say, now and then */
            uint64_t told = choose(&choices, 8) ? length : UINT16_MAX + length;
            CHECK(sl_ordered_add(&ordered, &pool, node, told, previous ? previous->next : ordered.first));
        }
        for (unsigned at = low; at < high; at++)
            owner[at] = count + 1;
        count++;
        if (choose(&choices, 3) == 0) {   /* one covers less from now on */
            unsigned other = choose(&choices, count), end = (unsigned)(nodes[other].position - origin) + lengths[other];
            if (lengths[other] > 1) {
                lengths[other]--;
                owner[end - 1] = 0;
                sl_ordered_resize(&ordered, &nodes[other], lengths[other]);
            }
        }
        ordered_check(&ordered, count);
    }
    CHECK(apart > 1000 && known * 10 > apart * 7 && added > 500 && full > 10);
    while (ordered.first)
        sl_ordered_remove(&ordered, &pool, ordered.first);
    CHECK(pool.used == 0);
}

static void test_memory(void) {
    CASE("what nodes take besides their own is predicted");
    static struct sl_node nodes[NODES];
    for (unsigned at_once = 1; at_once < 40; at_once += 6) {
        struct sl_ordered ordered = {0};
        uint64_t i = 0;
        while (i < 5000) {
            uint64_t before = pool.used, most = sl_ordered_memory(&ordered, at_once);
            for (unsigned n = 0; n < at_once; n++, i++)
                CHECK(add(&ordered, &nodes[i], i * 7919 % NODES));
            CHECK(pool.used <= before + most);
        }
        while (ordered.first)
            sl_ordered_remove(&ordered, &pool, ordered.first);
    }
}

int main(void) {
    CHECK(sl_pool_open(&pool, 1 << 26) == 0);
    test_orders_of_arrival();
    CASE("against an array");
    test_against_array(false);
    CASE("against an array, of few positions");
    test_against_array(true);
    test_holes();
    test_memory();
    sl_pool_close(&pool);
    return 0;
}
