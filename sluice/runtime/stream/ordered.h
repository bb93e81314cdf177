/* Nodes in the order of their positions: a list to walk, and an index over it to search.
 *
 * A sender chooses where its segments lie, so that neither a list (which every one of them may have to walk) nor a tree
 * whose shape follows the order of arrival would do. A search waits for memory at each step, once the pieces of many
 * connections do not fit into the cache together; so few steps are better than short ones, and the index is a B+-tree
 * (Comer, "The Ubiquitous B-Tree", 1979) whose nodes are eight cache lines, asked for at once: two or three of them lead to
 * one of a thousand. (Four lines take 1.2 times as long where single bytes lie far ahead; sixteen no less, and 1.08 times
 * where they lie next to each other, for all that has to be moved.)
 *
 * Full ones are split on the way down, and given back when nothing is in them any more, not joined before (Johnson and
 * Shasha, "B-Trees with Inserts and Deletes: Why Free-at-Empty Is Better Than Merge-at-Half", 1993). A few nodes have no
 * index: nearly all lists stay so short, and need no memory but their nodes'.
 *
 * Positions may lie anywhere on the circle of 64 bits, all of one list within a half of it. */
#ifndef SL_ORDERED_H
#define SL_ORDERED_H

#include "core/bytes.h"
#include "core/pool.h"

struct sl_node {
    struct sl_node *previous, *next;
    uint64_t position;
    uint32_t size;   /* of the block that it is the head of */
};

enum {
    SL_INDEX_MOST = 31,    /* entries of a part of the index */
    SL_INDEX_FROM = 8,     /* a list of so many nodes gets an index with its next one */
    SL_INDEX_HEIGHT = 12,  /* a part is full again after 15 more entries: each level takes 15 times as many nodes as came before */
};

/* An entry of a part of the index. A pool's addresses have 48 bits. In the rest of the word there is room for what a node
 * covers, so that one which comes where no other is needs not look at its neighbours: of many connections each of these
 * would be waited for. */
struct sl_index_entry {
    uint64_t position;
    uint64_t at : SL_ADDRESS_BITS;            /* the node, or the part */
    uint64_t length : 64 - SL_ADDRESS_BITS;   /* of a node: what it covers from its position on; 0: only the node knows */
};

/* A part of the index. Of a leaf, the entries are nodes and their positions; of another, parts, where none of an entry's
 * nodes lies before its position, nor after the next one's. The first position of these means nothing: what is before
 * the second entry is in the first. */
struct sl_index {
    struct sl_index_entry entries[SL_INDEX_MOST];
    uint32_t count;    /* never 0 */
    uint32_t height;   /* above the leaves */
};
enum { SL_INDEX_BLOCK = 512 };   /* of the pool, for a part */
_Static_assert(sizeof(struct sl_index) <= SL_INDEX_BLOCK, "a part's block");
_Static_assert(SL_INDEX_MOST == 31 && SL_INDEX_BLOCK == 512, "loops over a part are unrolled: five steps, eight lines");

struct sl_ordered {
    struct sl_node *first, *last;
    struct sl_index *root;   /* or NULL */
    uint32_t count;
    uint32_t small;          /* of these, as counted by the code that adds and removes them */
};

/* Does position a lie before b, by the shorter way round? */
static inline bool sl_position_before(uint64_t a, uint64_t b) { return (int64_t)(a - b) < 0; }

/* --- the index --- */

static inline struct sl_index_entry sl_index_entry(uint64_t position, const void *at, uint64_t length) {
    return (struct sl_index_entry){
        .position = position,
        .at = (uintptr_t)at & ((UINT64_C(1) << SL_ADDRESS_BITS) - 1),
        .length = length <= UINT16_MAX ? (uint16_t)length : 0,
    };
}

static inline struct sl_node *sl_entry_node(const struct sl_index_entry *entry) {
    return (struct sl_node *)(uintptr_t)entry->at;
}

static inline struct sl_index *sl_entry_part(const struct sl_index_entry *entry) {
    return (struct sl_index *)(uintptr_t)entry->at;
}

/* The last entry that does not lie after `position`, or else the first. Its branches go wrong half of the time; without any
 * a segment far ahead takes no less, as each step then waits for what the one before it has loaded, and one whose place is
 * predicted, as right in front of the one before, takes 1.3 times as long. gcc 12 would make moves of them. */
static inline unsigned sl_index_find(const struct sl_index *index, uint64_t position) {
    unsigned place = 0;
#pragma GCC unroll 5
    for (unsigned step = (SL_INDEX_MOST + 1) / 2; step; step /= 2)
        if (place + step < index->count && !sl_position_before(position, index->entries[place + step].position)) {
            place += step;
            __asm__("" : "+r"(place));
        }
    return place;
}

/* Asks for all lines of a part, of which a search would else wait for one after the other. */
SL_PREFETCH void sl_index_prefetch(const struct sl_index *index) {
#pragma GCC unroll 8
    for (size_t at = 0; at < sizeof *index; at += 64)
        __builtin_prefetch((const char *)index + at);
}

/* The leaf in which a position belongs. */
static inline struct sl_index *sl_index_leaf(struct sl_index *index, uint64_t position) {
    sl_index_prefetch(index);
    while (index->height) {
        index = sl_entry_part(&index->entries[sl_index_find(index, position)]);
        sl_index_prefetch(index);
    }
    return index;
}

/* The entry of a node that is the only one of its position. */
static inline struct sl_index_entry *sl_index_of(struct sl_index *root, uint64_t position) {
    struct sl_index *leaf = sl_index_leaf(root, position);
    return &leaf->entries[sl_index_find(leaf, position)];
}

static inline void sl_index_insert(struct sl_index *index, unsigned place, struct sl_index_entry entry) {
    struct sl_index_entry *at = &index->entries[place];
    memmove(at + 1, at, (index->count++ - place) * sizeof *at);
    *at = entry;
}

/* Parts a full entry of `index`, which is not full, in two. False: no memory. */
SL_COLD bool sl_index_split(struct sl_index *index, unsigned place, struct sl_pool *pool) {
    struct sl_index *left = sl_entry_part(&index->entries[place]), *right = sl_pool_take(pool, sizeof *right);
    if (!right)
        return false;
    left->count = (SL_INDEX_MOST + 1) / 2;
    right->count = SL_INDEX_MOST - left->count;
    right->height = left->height;
    memcpy(right->entries, &left->entries[left->count], right->count * sizeof right->entries[0]);
    sl_index_insert(index, place + 1, sl_index_entry(right->entries[0].position, right, 0));
    return true;
}

/* Makes an index of a list without one, or of a full one one that is higher. False: no memory. */
SL_COLD bool sl_index_grow(struct sl_ordered *ordered, struct sl_pool *pool) {
    struct sl_index *root = sl_pool_take(pool, sizeof *root);
    if (!root)
        return false;
    root->count = 0;
    root->height = 0;
    if (!ordered->root) {
        for (struct sl_node *node = ordered->first; node; node = node->next)
            root->entries[root->count++] = sl_index_entry(node->position, node, 0);
    } else {
        root->count = 1;
        root->height = ordered->root->height + 1;
        root->entries[0] = sl_index_entry(0, ordered->root, 0);
        if (!sl_index_split(root, 0, pool)) {
            sl_pool_give(pool, root, sizeof *root);
            return false;
        }
    }
    ordered->root = root;
    return true;
}

/* Puts a node after those that do not lie after it. False, without it there: no memory. */
SL_COLD bool sl_index_add(struct sl_ordered *ordered, struct sl_pool *pool, struct sl_node *node, uint64_t length) {
    const uint64_t position = node->position;
    if ((!ordered->root || ordered->root->count == SL_INDEX_MOST) && !sl_index_grow(ordered, pool))
        return false;
    struct sl_index *index = ordered->root;
    while (index->height) {
        unsigned place = sl_index_find(index, position);
        if (sl_entry_part(&index->entries[place])->count == SL_INDEX_MOST) {
            if (!sl_index_split(index, place, pool))
                return false;
            place = sl_index_find(index, position);
        }
        index = sl_entry_part(&index->entries[place]);
    }
    unsigned place = sl_index_find(index, position);
    place += !sl_position_before(position, index->entries[place].position);
    sl_index_insert(index, place, sl_index_entry(position, node, length));
    return true;
}

/* Takes out the entry of a node that is the first of all, or the only one of its position. */
SL_COLD void sl_index_remove(struct sl_ordered *ordered, struct sl_pool *pool, const struct sl_node *node) {
    struct { struct sl_index *index; unsigned place; } way[SL_INDEX_HEIGHT];
    struct sl_index *index = ordered->root;
    unsigned depth = 0, place;
    for (;; index = sl_entry_part(&index->entries[place])) {
        place = node->previous ? sl_index_find(index, node->position) : 0;
        way[depth].index = index;
        way[depth++].place = place;
        if (!index->height)
            break;
    }
    do {
        index = way[--depth].index;
        place = way[depth].place;
        struct sl_index_entry *at = &index->entries[place];
        memmove(at, at + 1, (--index->count - place) * sizeof *at);
        if (index->count)
            break;
        sl_pool_give(pool, index, sizeof *index);
        if (!depth)
            ordered->root = NULL;
    } while (depth);
    while ((index = ordered->root) && index->height && index->count == 1) {
        ordered->root = sl_entry_part(&index->entries[0]);
        sl_pool_give(pool, index, sizeof *index);
    }
}

/* --- the list --- */

/* The last node that does not lie after `position`, or NULL. */
static inline struct sl_node *sl_ordered_find(const struct sl_ordered *ordered, uint64_t position) {
    struct sl_node *node = ordered->last;
    if (ordered->root) {
        const struct sl_index *leaf = sl_index_leaf(ordered->root, position);
        unsigned place = sl_index_find(leaf, position);
        node = sl_entry_node(&leaf->entries[place]);
        __builtin_prefetch(node);
        if (place + 1 < leaf->count)
            __builtin_prefetch(sl_entry_node(&leaf->entries[place + 1]));   /* the code that adds one prefetches that, too */
    }
    while (node && sl_position_before(position, node->position))
        node = node->previous;   /* with an index once at most: the first of its leaf lies after */
    return node;
}

/* Puts a node in front of `after` (NULL: at the end), after all that have its position. `length`: what it covers, or 0.
 * False, with nothing done: no memory. */
static inline bool sl_ordered_add(struct sl_ordered *ordered, struct sl_pool *pool, struct sl_node *node, uint64_t length,
                                  struct sl_node *after) {
    if ((ordered->root || ordered->count >= SL_INDEX_FROM) && !sl_index_add(ordered, pool, node, length))
        return false;
    ordered->count++;
    node->next = after;
    node->previous = after ? after->previous : ordered->last;
    *(node->previous ? &node->previous->next : &ordered->first) = node;
    *(after ? &after->previous : &ordered->last) = node;
    return true;
}

/* A place between two nodes that is known without a look at them: after entry `place` of a leaf, and in front of the next
 * one. */
struct sl_hole {
    struct sl_index *leaf;
    unsigned place;
};

/* Where [low, high) lies between two nodes and touches neither, if the index says so by itself; else leaf is NULL, which
 * says nothing. Prefetches both nodes: an insertion between them writes to them. */
static inline struct sl_hole sl_ordered_hole(const struct sl_ordered *ordered, uint64_t low, uint64_t high) {
    if (!ordered->root)
        return (struct sl_hole){NULL, 0};
    struct sl_index *leaf = sl_index_leaf(ordered->root, low);
    unsigned place = sl_index_find(leaf, low);
    const struct sl_index_entry *before = &leaf->entries[place], *after = before + 1;
    if (place + 1 >= leaf->count || !before->length || !sl_position_before(before->position + before->length, low) ||
        !sl_position_before(high, after->position))
        return (struct sl_hole){NULL, 0};
    __builtin_prefetch(sl_entry_node(before), 1);
    __builtin_prefetch(sl_entry_node(after), 1);
    return (struct sl_hole){leaf, place};
}

/* Puts a node of this length into a hole. Its neighbours are written, and not waited for. False, without it there: no
 * memory. */
static inline bool sl_ordered_add_in_hole(struct sl_ordered *ordered, struct sl_pool *pool, struct sl_node *node,
                                          uint64_t length, struct sl_hole hole) {
    node->previous = sl_entry_node(&hole.leaf->entries[hole.place]);
    node->next = sl_entry_node(&hole.leaf->entries[hole.place + 1]);
    if (hole.leaf->count < SL_INDEX_MOST)
        sl_index_insert(hole.leaf, hole.place + 1, sl_index_entry(node->position, node, length));
    else if (!sl_index_add(ordered, pool, node, length))
        return false;
    ordered->count++;
    node->previous->next = node;
    node->next->previous = node;
    return true;
}

/* The node, the only one of its position, covers another length than it was added with. */
static inline void sl_ordered_resize(struct sl_ordered *ordered, const struct sl_node *node, uint64_t length) {
    if (ordered->root)
        *sl_index_of(ordered->root, node->position) = sl_index_entry(node->position, node, length);
}

/* Takes a node out that is the first of all, or the only one of its position. */
static inline void sl_ordered_remove(struct sl_ordered *ordered, struct sl_pool *pool, struct sl_node *node) {
    if (ordered->root)
        sl_index_remove(ordered, pool, node);
    ordered->count--;
    *(node->previous ? &node->previous->next : &ordered->first) = node->next;
    *(node->next ? &node->next->previous : &ordered->last) = node->previous;
}

/* Puts a node in the place of another one, the only one of their position. */
static inline void sl_ordered_replace(struct sl_ordered *ordered, struct sl_node *old, struct sl_node *node) {
    if (ordered->root) {
        struct sl_index_entry *entry = sl_index_of(ordered->root, old->position);
        *entry = sl_index_entry(old->position, node, entry->length);
    }
    *(old->previous ? &old->previous->next : &ordered->first) = node;
    *(old->next ? &old->next->previous : &ordered->last) = node;
    node->previous = old->previous;
    node->next = old->next;
}

/* The most memory that so many more nodes may take besides their own. */
static inline uint64_t sl_ordered_memory(const struct sl_ordered *ordered, uint64_t nodes) {
    uint64_t height = ordered->root ? ordered->root->height + 1 : 0;
    return !height && ordered->count + nodes <= SL_INDEX_FROM ? 0 : (2 * nodes + height + 1) * SL_INDEX_BLOCK;
}

#endif
