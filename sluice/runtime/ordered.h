/* Nodes in the order of their positions: a list to walk, and a tree over it to search.
 *
 * A sender chooses where its segments lie, so that neither a list (which every one of them may have to walk) nor a tree
 * whose shape follows the order of arrival would do. Each node draws a rank at random, and the one of the highest rank
 * is the root: a treap (Seidel and Aragon, "Randomized Search Trees", 1996), in which a search passes 1.4 log2 n nodes
 * on average, whatever the order. Nodes are put in and taken out by unzipping and zipping the two sides of the path
 * (Tarjan, Levy, Timmel, "Zip Trees", 2021): no rotations, no links to parents, and no memory but the node's.
 *
 * Positions may lie anywhere on the circle of 64 bits, all of one list within a half of it. */
#ifndef SL_ORDERED_H
#define SL_ORDERED_H

#include "bytes.h"

struct sl_node {
    struct sl_node *previous, *next;
    struct sl_node *left, *right;   /* of the tree */
    uint64_t position;
    uint32_t rank;
    uint32_t size;   /* of the block that it is the head of */
};

struct sl_ordered {
    struct sl_node *first, *last, *root;
};

/* Does position a lie before b, by the shorter way round? */
static inline bool sl_position_before(uint64_t a, uint64_t b) { return (int64_t)(a - b) < 0; }

/* The last node that does not lie behind `position`, or NULL. */
static inline struct sl_node *sl_ordered_find(const struct sl_ordered *ordered, uint64_t position) {
    struct sl_node *found = NULL, *at = ordered->root;
    while (at) {
        bool behind = sl_position_before(position, at->position);
        found = behind ? found : at;
        at = behind ? at->left : at->right;
    }
    return found;
}

/* Puts a node in front of `behind` (NULL: at the end), where its position belongs; `random` is its rank. */
static inline void sl_ordered_add(struct sl_ordered *ordered, struct sl_node *node, struct sl_node *behind,
                                  uint32_t random) {
    node->rank = random;
    node->next = behind;
    node->previous = behind ? behind->previous : ordered->last;
    *(node->previous ? &node->previous->next : &ordered->first) = node;
    *(behind ? &behind->previous : &ordered->last) = node;

    struct sl_node **link = &ordered->root, *at;
    while ((at = *link) && at->rank >= random)
        link = sl_position_before(node->position, at->position) ? &at->left : &at->right;
    *link = node;
    struct sl_node **left = &node->left, **right = &node->right;
    while (at) {
        if (sl_position_before(node->position, at->position)) {
            *right = at;
            right = &at->left;
            at = at->left;
        } else {
            *left = at;
            left = &at->right;
            at = at->right;
        }
    }
    *left = *right = NULL;
}

/* Takes a node out: the first of those that have its position. */
static inline void sl_ordered_remove(struct sl_ordered *ordered, struct sl_node *node) {
    *(node->previous ? &node->previous->next : &ordered->first) = node->next;
    *(node->next ? &node->next->previous : &ordered->last) = node->previous;

    struct sl_node **link = &ordered->root;
    while (*link != node)
        link = sl_position_before((*link)->position, node->position) ? &(*link)->right : &(*link)->left;
    struct sl_node *left = node->left, *right = node->right;
    while (left && right) {
        struct sl_node *higher = left->rank >= right->rank ? left : right;
        *link = higher;
        link = higher == left ? &left->right : &right->left;
        *(higher == left ? &left : &right) = *link;
    }
    *link = left ? left : right;
}

/* Puts a node in the place of another one, whose position it has. */
static inline void sl_ordered_replace(struct sl_ordered *ordered, struct sl_node *old, struct sl_node *node) {
    struct sl_node **link = &ordered->root;
    while (*link != old)
        link = sl_position_before((*link)->position, old->position) ? &(*link)->right : &(*link)->left;
    *link = node;
    *(old->previous ? &old->previous->next : &ordered->first) = node;
    *(old->next ? &old->next->previous : &ordered->last) = node;
    node->previous = old->previous;
    node->next = old->next;
    node->left = old->left;
    node->right = old->right;
    node->rank = old->rank;
}

#endif
