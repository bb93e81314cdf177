/* Nodes in the order of their positions (ordered.h): against an array, and how far a search has to go. */
#include "../../sluice/runtime/ordered.h"
#include "../../sluice/runtime/pool.h"
#include "check.h"
#include "ordered_check.h"

enum { NODES = 100000 };

static struct sl_pool pool = {.random = 1};

static unsigned depth(const struct sl_node *root) {
    if (!root)
        return 0;
    unsigned left = depth(root->left), right = depth(root->right);
    return 1 + (left > right ? left : right);
}

/* Puts a node where it belongs, behind those that have its position. */
static void add(struct sl_ordered *ordered, struct sl_node *node, uint64_t position) {
    node->position = position;
    struct sl_node *before = sl_ordered_find(ordered, position);
    sl_ordered_add(ordered, node, before ? before->next : ordered->first, sl_pool_random(&pool));
}

static void test_orders_of_arrival(void) {
    CASE("a search is short, in whatever order the nodes came; also over the end of 64 bits");
    static struct sl_node nodes[NODES];
    for (unsigned order = 0; order < 5; order++) {
        struct sl_ordered ordered = {0};
        for (uint64_t i = 0; i < NODES; i++) {
            const uint64_t places[] = {i, NODES - i, i * 7919 % NODES, i & 1 ? i : 2 * NODES - i, i & ~UINT64_C(255)};
            add(&ordered, &nodes[i], places[order] - NODES / 2);
        }
        ordered_check(&ordered, NODES);
        CHECK(depth(ordered.root) < 64);   /* 1.39 log2 n is 23 on average, the deepest about twice as deep */
    }
}

/* Random additions, removals and replacements, of few positions, so that many nodes have the same. */
static void test_against_array(void) {
    CASE("against an array");
    enum { MOST = 200, STEPS = 20000 };
    struct choices choices = {.seed = 7};
    static struct sl_node memory[2 * MOST];
    struct sl_node *unused[2 * MOST], *array[MOST];
    unsigned count = 0, free = 2 * MOST;
    for (unsigned i = 0; i < free; i++)
        unused[i] = &memory[i];
    struct sl_ordered ordered = {0};
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t position = UINT64_MAX - 50 + choose(&choices, 100);
        unsigned what = choose(&choices, 3), place = 0;
        if (what < 2 && count < MOST) {
            while (place < count && !sl_position_before(position, array[place]->position))
                place++;
            struct sl_node *node = unused[--free];
            add(&ordered, node, position);
            memmove(array + place + 1, array + place, (count++ - place) * sizeof *array);
            array[place] = node;
        } else if (count) {
            place = choose(&choices, count);
            while (place && array[place - 1]->position == array[place]->position)
                place--;   /* the first of its position */
            unused[free++] = array[place];
            if (choose(&choices, 4)) {
                sl_ordered_remove(&ordered, array[place]);
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
}

int main(void) {
    test_orders_of_arrival();
    test_against_array();
    return 0;
}
