// links: sluice/service/runtime/cache_store.c sluice/service/runtime/cache_rules.c
// The HTTP cache: requests that are looked up, stored, removed, and confirmed, in a cache of few blocks. A page that is found has
// the key and the fields of its request, and all bytes that were stored in it; no block is lost, and what is used is fresh
// enough for the request.
#include "../sluice/service/runtime/cache_store.h"

#include <stdbool.h>
#include <string.h>

#include "expect.h"

enum { BYTES = 24 * 4096, HEADS = 1024 };

/* The next head of the input: as far as a zero byte, with the end of a head. False if it is none. */
static bool next_head(const uint8_t **at, const uint8_t *end, uint8_t *to, struct service_text *line, struct service_text *headers)
{
    const uint8_t *zero = memchr(*at, 0, (size_t)(end - *at));
    uint64_t size = (uint64_t)((zero ? zero : end) - *at), first, block = 0;

    if (size > HEADS)
        size = HEADS;
    memcpy(to, *at, size);
    memcpy(to + size, "\r\n\r\n", 4);
    *at = zero ? zero + 1 : end;
    first = service_line(to, size + 4);
    if (first == 0 || service_headers(to + first, size + 4 - first, &block) != SERVICE_READY)
        return false;
    *line = (struct service_text){to, (uint32_t)first - 2};
    *headers = (struct service_text){to + first, (uint32_t)block};
    return true;
}

static uint8_t mark_of(const struct service_page *page) { return (uint8_t)(page->hash >> 8); }

/* All bytes of a page are those that store() has written. */
static void check_page(struct service_cache *cache, struct service_page *page, const struct service_cache_key *key)
{
    struct service_cursor cursor = service_cache_start(page);
    uint8_t bytes[700];
    uint64_t total = 0;
    uint32_t size;

    EXPECT(page->listed && page->refs >= 1 && page->key_size == key->size && memcmp(page->text, key->bytes, key->size) == 0);
    EXPECT(page->block_count <= cache->limit);
    while ((size = service_cache_read(cache, &cursor, page, bytes, sizeof bytes)) > 0) {
        for (uint32_t i = 0; i < size; i++)
            EXPECT(bytes[i] == mark_of(page));
        total += size;
    }
    EXPECT(total == page->size);
}

static void store(struct service_cache *cache, const struct service_cache_key *key, const struct service_wish *wish,
                  struct service_text headers, const struct service_freshness *known, uint32_t size)
{
    struct service_page *page = service_cache_begin(cache, key, headers, wish->headers);
    uint8_t bytes[512];
    bool good = page != NULL;

    if (!page)
        return;
    page->freshness = *known;
    memset(bytes, mark_of(page), sizeof bytes);
    for (; good && size; size -= size < sizeof bytes ? size : (uint32_t)sizeof bytes)
        good = service_cache_append(cache, page, bytes, size < sizeof bytes ? size : sizeof bytes);
    if (good) {
        service_cache_list(cache, page);
        EXPECT(service_cache_find(cache, key, wish->headers) == page);
    }
    service_cache_leave(cache, page);
}

static void check_use(const struct service_freshness *known, const struct service_wish *wish)
{
    static const int64_t ages[] = {0, 1, 60, 3600, INT32_MAX};

    EXPECT(known->lifetime >= 0 && known->age >= 0 && known->tag_size <= SERVICE_TAG && known->control_size <= SERVICE_CACHE_CONTROL);
    for (size_t i = 0; i < sizeof ages / sizeof ages[0]; i++) {
        bool fresh = service_usable(known, ages[i], wish), failed = service_usable_after_error(known, ages[i], wish);

        EXPECT(!fresh || (ages[i] < known->lifetime && !wish->validated));
        EXPECT(!failed || (known->survives >= 0 && !wish->validated && wish->max_age < 0));
        if (service_usable_while_asked(known, ages[i], wish))
            EXPECT(known->updates >= 0 && ages[i] - known->lifetime <= known->updates);
    }
    service_client_has(known, wish);
}

/* Blocks of pages, and those that are free, are all. */
static void check_blocks(const struct service_cache *cache)
{
    uint64_t count = cache->free_count;

    for (uint32_t i = 0; i < cache->bucket_count; i++)
        for (uint32_t each = cache->buckets[i]; each != SERVICE_CACHE_NONE;) {
            const struct service_page *page = (const void *)(cache->memory + each * (uint64_t)SERVICE_CACHE_BLOCK);

            EXPECT(page->refs == 1);
            count += page->block_count;
            each = page->next;
        }
    EXPECT(count == cache->blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct service_cache *cache = service_cache_make(BYTES);
    const uint8_t *at = data, *end = data + size;
    uint8_t first[HEADS + 4], second[HEADS + 4];

    EXPECT(cache);
    while (end - at > 3) {
        uint8_t action = at[0] % 4;
        uint32_t bytes = (uint32_t)(at[1] | at[2] << 8);
        struct service_text line, fields, status, headers;
        struct service_freshness known;
        struct service_cache_key key;
        struct service_page *page;
        struct service_wish wish;
        bool keyed;

        at += 3;
        if (!next_head(&at, end, first, &line, &fields))
            continue;
        service_read_wish(line, fields, &wish);
        keyed = service_cache_key(cache, 0, &wish, &key);
        if (!next_head(&at, end, second, &status, &headers) || !keyed)
            continue;
        page = service_cache_find(cache, &key, wish.headers);
        if (page) {
            check_page(cache, page, &key);
            check_use(&page->freshness, &wish);
        }
        if (action == 1 && service_read_freshness(200, headers, 1000000000, 1, &known)) {
            check_use(&known, &wish);
            store(cache, &key, &wish, headers, &known, bytes);
        } else if (action == 2 && page) {
            EXPECT(service_cache_remove(cache, &key) >= 1 && !service_cache_find(cache, &key, wish.headers));
        } else if (action == 3 && page && !service_read_refreshed(headers, 1000000000, 1, &page->freshness)) {
            service_cache_unlist(cache, page);
        }
        check_blocks(cache);
    }
    service_cache_free(cache);
    return 0;
}
