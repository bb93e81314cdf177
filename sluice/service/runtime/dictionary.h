/* Dictionaries of a program's state: entries of one size, in memory that is reserved at start.
 *
 * Keys are compared as bytes. A bucket is a chain of entries; a list in the order of their first insertion finds the
 * oldest entry, which a dictionary of global state replaces when it is full.
 */
#ifndef SERVICE_DICTIONARY_H
#define SERVICE_DICTIONARY_H

#include "value.h"

enum { SERVICE_KEY = 256, SERVICE_NONE = UINT32_MAX }; /* bytes of a key; no entry */

struct service_key {
    uint32_t length;
    uint8_t bytes[SERVICE_KEY];
};

struct service_entry {
    uint32_t next; /* in its bucket, or among the free ones */
    uint32_t older, newer;
    uint32_t hash;
    struct service_key key;
    _Alignas(16) uint8_t value[];
};

struct service_dictionary {
    uint32_t capacity, count;
    uint32_t stride; /* bytes of an entry */
    uint32_t free, unused, oldest, newest;
    uint32_t buckets[]; /* as many as entries; the entries follow */
};

#define SERVICE_STRIDE(value_size) ((sizeof(struct service_entry) + (value_size) + 15) / 16 * 16)
#define SERVICE_DICTIONARY_SIZE(capacity, value_size) \
    ((sizeof(struct service_dictionary) + 4 * (size_t)(capacity) + 15) / 16 * 16 + \
     (size_t)(capacity) * SERVICE_STRIDE(value_size))

static inline struct service_entry *service_entry_at(struct service_dictionary *d, uint32_t index)
{
    uint8_t *first = (uint8_t *)d + (sizeof *d + 4 * (size_t)d->capacity + 15) / 16 * 16;

    return (struct service_entry *)(void *)(first + (size_t)index * d->stride);
}

/* An empty dictionary, in zeroed memory of SERVICE_DICTIONARY_SIZE. */
static inline void service_dictionary_begin(struct service_dictionary *d, uint32_t capacity, size_t value_size)
{
    d->capacity = capacity;
    d->stride = (uint32_t)SERVICE_STRIDE(value_size);
    d->free = d->oldest = d->newest = SERVICE_NONE;
    for (uint32_t i = 0; i < capacity; i++)
        d->buckets[i] = SERVICE_NONE;
}

/* Appends bytes to a key; false if they do not fit. */
static inline bool service_key_add(struct service_key *key, const void *bytes, uint32_t length)
{
    if (length > SERVICE_KEY - key->length)
        return false;
    if (length)
        memcpy(key->bytes + key->length, bytes, length);
    key->length += length;
    return true;
}

static inline bool service_key_integer(struct service_key *key, int64_t value)
{
    return service_key_add(key, &value, sizeof value);
}

/* A string, after its length: parts of a key cannot run into each other. */
static inline bool service_key_text(struct service_key *key, struct service_text text)
{
    return service_key_integer(key, text.length) && service_key_add(key, text.at, text.length);
}

static inline uint32_t service_key_hash(const struct service_key *key)
{
    struct service_text text = {key->bytes, key->length};

    return (uint32_t)service_hash_text(text);
}

/* The place of a link to the entry of a key, in its bucket; it contains SERVICE_NONE without such an entry. */
static inline uint32_t *service_dictionary_link(struct service_dictionary *d, const struct service_key *key, uint32_t hash)
{
    uint32_t *link = &d->buckets[hash % d->capacity];

    while (*link != SERVICE_NONE) {
        struct service_entry *entry = service_entry_at(d, *link);

        if (entry->hash == hash && entry->key.length == key->length &&
            memcmp(entry->key.bytes, key->bytes, key->length) == 0)
            break;
        link = &entry->next;
    }
    return link;
}

/* The value of a key, or null. */
static inline void *service_dictionary_find(struct service_dictionary *d, const struct service_key *key)
{
    uint32_t found = *service_dictionary_link(d, key, service_key_hash(key));

    return found == SERVICE_NONE ? NULL : service_entry_at(d, found)->value;
}

/* Removes the entry of a link. */
static inline void service_dictionary_unlink(struct service_dictionary *d, uint32_t *link)
{
    uint32_t index = *link;
    struct service_entry *entry = service_entry_at(d, index);

    *link = entry->next;
    *(entry->older == SERVICE_NONE ? &d->oldest : &service_entry_at(d, entry->older)->newer) = entry->newer;
    *(entry->newer == SERVICE_NONE ? &d->newest : &service_entry_at(d, entry->newer)->older) = entry->older;
    entry->next = d->free;
    d->free = index;
    d->count--;
}

static inline void service_dictionary_remove(struct service_dictionary *d, const struct service_key *key)
{
    uint32_t *link = service_dictionary_link(d, key, service_key_hash(key));

    if (*link != SERVICE_NONE)
        service_dictionary_unlink(d, link);
}

/* Removes the entry that was inserted first. */
static inline void service_dictionary_evict(struct service_dictionary *d)
{
    struct service_entry *entry = service_entry_at(d, d->oldest);

    service_dictionary_unlink(d, service_dictionary_link(d, &entry->key, entry->hash));
}

/* The place of the value of a key, whose entry is made if there is none; null if the dictionary is full. */
static inline void *service_dictionary_put(struct service_dictionary *d, const struct service_key *key)
{
    uint32_t hash = service_key_hash(key), *link = service_dictionary_link(d, key, hash), index = *link;
    struct service_entry *entry;

    if (index != SERVICE_NONE)
        return service_entry_at(d, index)->value;
    if (d->free != SERVICE_NONE) {
        index = d->free;
        d->free = service_entry_at(d, index)->next;
    } else if (d->unused < d->capacity) {
        index = d->unused++;
    } else {
        return NULL;
    }
    entry = service_entry_at(d, index);
    entry->next = SERVICE_NONE;
    entry->hash = hash;
    entry->key.length = key->length;
    memcpy(entry->key.bytes, key->bytes, key->length);
    entry->older = d->newest;
    entry->newer = SERVICE_NONE;
    *(d->newest == SERVICE_NONE ? &d->oldest : &service_entry_at(d, d->newest)->newer) = index;
    d->newest = index;
    *link = index;
    d->count++;
    return entry->value;
}

#endif
