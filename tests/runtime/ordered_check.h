/* The invariants of ordered.h. */
#ifndef ORDERED_CHECK_H
#define ORDERED_CHECK_H

#include "../../sluice/runtime/ordered.h"
#include "check.h"

/* The nodes below one of this rank are those of the list from `at` on; the node behind them. */
static inline struct sl_node *tree_check(const struct sl_node *root, struct sl_node *at, uint32_t rank, uint32_t *count) {
    if (!root)
        return at;
    CHECK(root->rank <= rank);
    at = tree_check(root->left, at, root->rank, count);
    CHECK(at == root);
    ++*count;
    return tree_check(root->right, at->next, root->rank, count);
}

/* The tree has the nodes of the list, in its order, and none lies below one of a lower rank. */
static inline void ordered_check(const struct sl_ordered *ordered, uint32_t count) {
    uint32_t found = 0;
    CHECK(tree_check(ordered->root, ordered->first, UINT32_MAX, &found) == NULL && found == count);
    const struct sl_node *previous = NULL;
    for (const struct sl_node *node = ordered->first; node; previous = node, node = node->next)
        CHECK(node->previous == previous && (!previous || !sl_position_before(node->position, previous->position)));
    CHECK(ordered->last == previous);
}

#endif
