/* Secondary keys of instances (connection ids, verification tags): a map from a key to the instance that it was given
 * to.
 *
 * An entry holds the slot and the number of the instance. Numbers are unique, so an entry of an instance that has ended
 * finds nothing, and the end of an instance does not have to remove its keys. Such entries stay until their slot is
 * needed; the oldest entry is replaced first. */
#ifndef SL_ALIAS_H
#define SL_ALIAS_H

#include "core/table.h"

/* Follows the key of an entry. */
struct sl_alias_owner {
    uint64_t number;   /* of the instance */
    uint32_t slot;     /* in the table of the instance */
    uint32_t side;     /* of packets that this key finds */
};

struct sl_aliases {
    struct sl_table table;
    uint32_t oldest;   /* slot of the entry that is replaced next */
};

static inline struct sl_alias_owner *sl_alias_owner(struct sl_instance *entry, unsigned key_words) {
    return (struct sl_alias_owner *)(void *)(sl_instance_key(entry) + key_words);
}

/* Opens a map for `most` keys of key_words words. Returns 0, or -1 as sl_table_open does. */
SL_COLD int sl_aliases_open(struct sl_aliases *aliases, unsigned key_words, uint32_t most, uint64_t seed) {
    aliases->oldest = 0;
    size_t bytes = sizeof(struct sl_instance) + 8 * (size_t)key_words + sizeof(struct sl_alias_owner);
    return sl_table_open(&aliases->table, bytes, key_words, most, seed);
}

/* The owner of a key. If there is none, its number is 0, which no stored instance has. */
static inline struct sl_alias_owner sl_alias_find(const struct sl_aliases *aliases, const uint64_t *key,
                                                  unsigned key_words) {
    if (!aliases->table.live)
        return (struct sl_alias_owner){0, 0, 0};   /* no entries: skip the hash */
    uint32_t hash = sl_table_hash(&aliases->table, key, key_words);
    struct sl_instance *entry = sl_table_find(&aliases->table, key, key_words, hash);
    return entry ? *sl_alias_owner(entry, key_words) : (struct sl_alias_owner){0, 0, 0};
}

/* Gives a key to an instance. Returns whether another key had to be removed to make room. */
static inline bool sl_alias_add(struct sl_aliases *aliases, const uint64_t *key, unsigned key_words,
                                struct sl_alias_owner owner) {
    struct sl_table *table = &aliases->table;
    if (owner.number == 0)
        return false;
    uint32_t hash = sl_table_hash(table, key, key_words);
    struct sl_instance *entry = sl_table_find(table, key, key_words, hash);
    bool full = !entry && table->live >= table->max_instances;
    if (full) {   /* the new entry gets the slot of the old one */
        sl_table_remove(table, sl_table_slot(table, aliases->oldest));
        aliases->oldest = (aliases->oldest + 1) % table->max_instances;
    }
    if (!entry)
        entry = sl_table_create(table, key, key_words, hash);
    *sl_alias_owner(entry, key_words) = owner;
    return full;
}

#endif
