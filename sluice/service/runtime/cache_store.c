#include "cache_store.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

_Static_assert(sizeof(struct service_page) + SERVICE_CACHE_KEY + 512 <= SERVICE_CACHE_BLOCK, "a page begins in one block");

struct service_cache *service_cache_make(uint64_t size)
{
    struct service_cache *cache = calloc(1, sizeof *cache);
    uint64_t blocks = size / (SERVICE_CACHE_BLOCK + 2 * sizeof(uint32_t));

    if (!cache)
        return NULL;
    pthread_mutex_init(&cache->lock, NULL);
    cache->blocks = cache->bucket_count = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX - 1;
    cache->size = cache->blocks * (uint64_t)(SERVICE_CACHE_BLOCK + 2 * sizeof(uint32_t));
    cache->limit = cache->blocks / SERVICE_CACHE_SHARE ? cache->blocks / SERVICE_CACHE_SHARE : 1;
    cache->free = cache->oldest = cache->newest = SERVICE_CACHE_NONE;
    cache->free_count = cache->blocks;
    cache->memory = mmap(NULL, cache->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cache->memory == MAP_FAILED || getrandom(&cache->seed, sizeof cache->seed, 0) != sizeof cache->seed) {
        free(cache);
        return NULL;
    }
    cache->links = (uint32_t *)(void *)(cache->memory + cache->blocks * (uint64_t)SERVICE_CACHE_BLOCK);
    cache->buckets = cache->links + cache->blocks;
    memset(cache->buckets, 0xff, cache->bucket_count * sizeof *cache->buckets);
    return cache;
}

void service_cache_free(struct service_cache *cache)
{
    if (!cache)
        return;
    munmap(cache->memory, cache->size);
    free(cache);
}

static struct service_page *page_at(const struct service_cache *cache, uint32_t block)
{
    return (struct service_page *)(void *)(cache->memory + block * (uint64_t)SERVICE_CACHE_BLOCK);
}

static uint32_t block_of(const struct service_cache *cache, const struct service_page *page)
{
    return (uint32_t)(((const uint8_t *)page - cache->memory) / SERVICE_CACHE_BLOCK);
}

/* The bytes of a page before its head, in its first block. */
static uint32_t front(const struct service_page *page)
{
    return (uint32_t)sizeof *page + page->key_size + page->vary_size + page->values_size;
}

/* --- keys */

static bool add(struct service_cache_key *key, struct service_text text, bool lower)
{
    if (text.length + 1 > SERVICE_CACHE_KEY - key->size)
        return false;
    for (uint32_t i = 0; i < text.length; i++)
        key->bytes[key->size++] = lower ? service_lower(text.at[i]) : text.at[i];
    key->bytes[key->size++] = 0; /* in no text of a request: parts of a key cannot run into each other */
    return true;
}

bool service_cache_key(const struct service_cache *cache, uint32_t port, const struct service_wish *wish,
                       struct service_cache_key *key)
{
    uint64_t hash = cache->seed;

    key->bytes[0] = (uint8_t)port;
    key->size = 1;
    if (!add(key, wish->host, true) || !add(key, wish->uri, false))
        return false;
    for (uint32_t i = 0; i < key->size; i++) /* the seed is secret, so that no client can fill one bucket */
        hash = service_mix(hash, key->bytes[i] + cache->seed);
    key->hash = (uint64_t)service_hash_end(hash);
    return true;
}

/* Writes the names of the fields that a response varies with, in lower case, and the request's values of each. False if they
 * are too long or too many, each of which is searched for at a look-up, or if it varies with everything. */
static bool write_variant(struct service_page *page, struct service_text vary, struct service_text headers)
{
    uint8_t *out = page->text + page->key_size;
    uint32_t room = SERVICE_CACHE_KEY - page->key_size, names = 0, values = 0, count = 0;
    struct service_text value;

    for (uint32_t at = 0; service_next_header(vary, service_literal("vary"), &at, &value);) {
        if (names + value.length + 1 > room)
            return false;
        for (uint32_t i = 0; i < value.length; i++)
            if (value.at[i] != ' ' && value.at[i] != '\t')
                out[names++] = service_lower(value.at[i]);
        out[names++] = ',';
    }
    if (memchr(out, '*', names))
        return false;
    page->vary_size = (uint16_t)names;
    for (uint32_t at = 0; at < names;) {
        uint32_t size = (uint32_t)((uint8_t *)memchr(out + at, ',', names - at) - (out + at));
        struct service_text name = {out + at, size};

        if (++count > SERVICE_CACHE_NAMES)
            return false;
        for (uint32_t from = 0; size && service_next_header(headers, name, &from, &value); out[names + values++] = ',') {
            if (names + values + value.length + 2 > room)
                return false;
            memcpy(out + names + values, value.at, value.length);
            values += value.length;
        }
        if (names + values + 1 > room)
            return false;
        out[names + values++] = 0;
        at += size + 1;
    }
    page->values_size = (uint16_t)values;
    return true;
}

/* Whether the fields of a request are those of the request of a page. */
static bool fits(const struct service_page *page, struct service_text headers)
{
    const uint8_t *names = page->text + page->key_size, *values = names + page->vary_size;
    uint32_t done = 0;
    struct service_text value;

    for (uint32_t at = 0; at < page->vary_size;) {
        uint32_t size = (uint32_t)((const uint8_t *)memchr(names + at, ',', page->vary_size - at) - (names + at));
        struct service_text name = {names + at, size};

        for (uint32_t from = 0; size && service_next_header(headers, name, &from, &value);) {
            if (value.length + 1 > page->values_size - done || memcmp(values + done, value.at, value.length) != 0 ||
                values[done + value.length] != ',')
                return false;
            done += value.length + 1;
        }
        if (done >= page->values_size || values[done++] != 0)
            return false;
        at += size + 1;
    }
    return done == page->values_size;
}

/* --- memory */

/* A free block; pages that were not used for the longest time are replaced. SERVICE_CACHE_NONE if all are being read. */
static uint32_t take_block(struct service_cache *cache)
{
    uint32_t found;

    while (cache->free_count == 0) {
        uint32_t each = cache->oldest;

        while (each != SERVICE_CACHE_NONE && page_at(cache, each)->refs > 1)
            each = page_at(cache, each)->newer;
        if (each == SERVICE_CACHE_NONE)
            return SERVICE_CACHE_NONE;
        service_cache_unlist(cache, page_at(cache, each));
        cache->evicted++;
    }
    cache->free_count--;
    if (cache->free == SERVICE_CACHE_NONE) {
        found = cache->unused++;
    } else {
        found = cache->free;
        cache->free = cache->links[found];
    }
    cache->links[found] = SERVICE_CACHE_NONE;
    return found;
}

void service_cache_leave(struct service_cache *cache, struct service_page *page)
{
    if (--page->refs)
        return;
    cache->free_count += page->block_count;
    cache->links[page->last] = cache->free;
    cache->free = block_of(cache, page);
}

struct service_page *service_cache_begin(struct service_cache *cache, const struct service_cache_key *key,
                                         struct service_text vary, struct service_text headers)
{
    uint32_t block = take_block(cache);
    struct service_page *page;

    if (block == SERVICE_CACHE_NONE)
        return NULL;
    page = page_at(cache, block);
    *page = (struct service_page){.hash = key->hash, .last = block, .block_count = 1, .refs = 1, .key_size = (uint16_t)key->size};
    memcpy(page->text, key->bytes, key->size);
    if (write_variant(page, vary, headers))
        return page;
    service_cache_leave(cache, page);
    return NULL;
}

bool service_cache_append(struct service_cache *cache, struct service_page *page, const uint8_t *bytes, uint64_t size)
{
    while (size) {
        uint32_t at = (uint32_t)((front(page) + page->size) % SERVICE_CACHE_BLOCK), room = SERVICE_CACHE_BLOCK - at;

        if (at == 0) {
            uint32_t block = page->block_count < cache->limit ? take_block(cache) : SERVICE_CACHE_NONE;

            if (block == SERVICE_CACHE_NONE)
                return false;
            cache->links[page->last] = block;
            page->last = block;
            page->block_count++;
        }
        if (room > size)
            room = (uint32_t)size;
        memcpy(cache->memory + page->last * (uint64_t)SERVICE_CACHE_BLOCK + at, bytes, room);
        page->size += room;
        bytes += room;
        size -= room;
    }
    return true;
}

/* --- the table */

/* Puts a page at the end of the order of use. */
static void use(struct service_cache *cache, struct service_page *page)
{
    uint32_t block = block_of(cache, page);

    page->older = cache->newest;
    page->newer = SERVICE_CACHE_NONE;
    *(cache->newest == SERVICE_CACHE_NONE ? &cache->oldest : &page_at(cache, cache->newest)->newer) = block;
    cache->newest = block;
}

static void unuse(struct service_cache *cache, struct service_page *page)
{
    *(page->older == SERVICE_CACHE_NONE ? &cache->oldest : &page_at(cache, page->older)->newer) = page->newer;
    *(page->newer == SERVICE_CACHE_NONE ? &cache->newest : &page_at(cache, page->newer)->older) = page->older;
}

static bool has_key(const struct service_page *page, const struct service_cache_key *key)
{
    return page->hash == key->hash && page->key_size == key->size && memcmp(page->text, key->bytes, key->size) == 0;
}

struct service_page *service_cache_find(struct service_cache *cache, const struct service_cache_key *key,
                                        struct service_text headers)
{
    uint32_t each = cache->buckets[key->hash % cache->bucket_count];

    for (; each != SERVICE_CACHE_NONE; each = page_at(cache, each)->next) {
        struct service_page *page = page_at(cache, each);

        if (has_key(page, key) && fits(page, headers)) {
            unuse(cache, page);
            use(cache, page);
            return page;
        }
    }
    return NULL;
}

void service_cache_unlist(struct service_cache *cache, struct service_page *page)
{
    uint32_t *link = &cache->buckets[page->hash % cache->bucket_count], block = block_of(cache, page);

    if (!page->listed)
        return;
    while (*link != block)
        link = &page_at(cache, *link)->next;
    *link = page->next;
    unuse(cache, page);
    page->listed = false;
    service_cache_leave(cache, page);
}

/* Whether two pages fit the same requests. */
static bool same(const struct service_page *a, const struct service_page *b)
{
    return a->hash == b->hash && a->key_size == b->key_size && a->vary_size == b->vary_size &&
           a->values_size == b->values_size && memcmp(a->text, b->text, front(a) - sizeof *a) == 0;
}

void service_cache_list(struct service_cache *cache, struct service_page *page)
{
    uint32_t *bucket = &cache->buckets[page->hash % cache->bucket_count], count = 0;

    for (uint32_t each = *bucket, next; each != SERVICE_CACHE_NONE; each = next) {
        struct service_page *other = page_at(cache, each);

        next = other->next;
        if (same(other, page)) {
            service_cache_unlist(cache, other);
        } else if (++count >= SERVICE_CACHE_CHAIN) { /* the first ones were stored last */
            service_cache_unlist(cache, other);
            cache->evicted++;
        }
    }
    page->next = *bucket;
    *bucket = block_of(cache, page);
    use(cache, page);
    page->listed = true;
    page->refs++;
}

uint32_t service_cache_remove(struct service_cache *cache, const struct service_cache_key *key)
{
    uint32_t count = 0;

    for (uint32_t each = cache->buckets[key->hash % cache->bucket_count], next; each != SERVICE_CACHE_NONE; each = next) {
        struct service_page *page = page_at(cache, each);

        next = page->next;
        if (has_key(page, key)) {
            service_cache_unlist(cache, page);
            count++;
        }
    }
    return count;
}

/* --- reading */

struct service_cursor service_cache_start(const struct service_page *page)
{
    return (struct service_cursor){.block = SERVICE_CACHE_NONE, .at = front(page), .left = page->size};
}

uint32_t service_cache_read(const struct service_cache *cache, struct service_cursor *cursor, const struct service_page *page,
                            uint8_t *to, uint32_t room)
{
    uint32_t done = 0;

    if (cursor->block == SERVICE_CACHE_NONE)
        cursor->block = block_of(cache, page);
    while (done < room && cursor->left) {
        uint32_t size;

        if (cursor->at == SERVICE_CACHE_BLOCK) {
            cursor->block = cache->links[cursor->block];
            cursor->at = 0;
        }
        size = SERVICE_CACHE_BLOCK - cursor->at;
        size = size < room - done ? size : room - done;
        size = size < cursor->left ? size : (uint32_t)cursor->left;
        memcpy(to + done, cache->memory + cursor->block * (uint64_t)SERVICE_CACHE_BLOCK + cursor->at, size);
        cursor->at += size;
        cursor->left -= size;
        done += size;
    }
    return done;
}
