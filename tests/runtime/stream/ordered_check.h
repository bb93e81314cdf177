/* The invariants of ordered.h. */
#ifndef ORDERED_CHECK_H
#define ORDERED_CHECK_H

#include "stream/ordered.h"
#include "check.h"

/* A part of the index has the nodes of the list from `at` on, of which none lies before `low` or after `high` (NULL: any);
 * the node after them. */
static inline struct sl_node *index_check(const struct sl_index *index, struct sl_node *at, const uint64_t *low,
                                          const uint64_t *high, uint32_t *count) {
    CHECK(index->count >= 1 && index->count <= SL_INDEX_MOST);
    for (unsigned i = 0; i < index->count; i++) {
        const uint64_t *from = i ? &index->entries[i].position : low;
        const uint64_t *to = i + 1 < index->count ? &index->entries[i + 1].position : high;
        if (index->height) {
            CHECK(sl_entry_part(&index->entries[i])->height == index->height - 1);
            at = index_check(sl_entry_part(&index->entries[i]), at, from, to, count);
        } else {
            CHECK(at == sl_entry_node(&index->entries[i]) && at->position == index->entries[i].position);
            CHECK(!low || !sl_position_before(at->position, *low));
            CHECK(!high || !sl_position_before(*high, at->position));
            at = at->next;
            ++*count;
        }
    }
    return at;
}

/* The index has the nodes of the list, in its order. */
static inline void ordered_check(const struct sl_ordered *ordered, uint32_t count) {
    uint32_t found = 0;
    CHECK(ordered->count == count && (ordered->root || count <= SL_INDEX_FROM));
    if (ordered->root)
        CHECK(index_check(ordered->root, ordered->first, NULL, NULL, &found) == NULL && found == count);
    const struct sl_node *previous = NULL;
    for (const struct sl_node *node = ordered->first; node; previous = node, node = node->next)
        CHECK(node->previous == previous && (!previous || !sl_position_before(node->position, previous->position)));
    CHECK(ordered->last == previous);
}

#endif
