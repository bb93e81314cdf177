/* The memory of an HTTP cache, which all workers of a service share: responses in blocks of one size, found by their URI and by
 * the request fields that they vary with. The one that was used least recently is replaced when no block is free.
 *
 * A page is a stored response. Its blocks do not change once it is listed, so that they are read without the lock; a page that
 * is removed while it is read is freed after that.
 */
#ifndef SERVICE_CACHE_STORE_H
#define SERVICE_CACHE_STORE_H

#include <pthread.h>

#include "cache_rules.h"

enum {
    SERVICE_CACHE_BLOCK = 4096,
    SERVICE_CACHE_KEY = 1536,     /* bytes of a key, and of the fields that a page varies with */
    SERVICE_CACHE_CHAIN = 32,     /* pages in a bucket: a longer chain loses its oldest one */
    SERVICE_CACHE_SHARE = 8,      /* a page has at most this part of all blocks */
    SERVICE_CACHE_LEADERS = 1024, /* lists of requests that are on their way to a backend, and of those that wait for them */
    SERVICE_CACHE_NAMES = 16,     /* fields that a stored response varies with */
    SERVICE_CACHE_PASSES = 4096,  /* keys whose responses were not storable just now */
    SERVICE_CACHE_PASS_TIME = 10, /* seconds for which requests for such a key do not wait for each other */
    SERVICE_CACHE_NONE = UINT32_MAX,
};

struct service_cached;

struct service_page {
    uint64_t hash, size;     /* of its key; bytes of its head and its body */
    uint32_t next;           /* in its bucket */
    uint32_t older, newer;   /* in the order of use */
    uint32_t last, block_count;
    uint32_t refs;           /* those that read it, and the table */
    uint32_t stored;         /* the second in which it was stored, or confirmed */
    uint32_t head_size;
    uint16_t key_size, vary_size, values_size;
    bool listed;
    bool chunked;            /* its body is in chunks */
    struct service_freshness freshness;
    uint8_t text[];          /* its key, the names of the fields that it varies with, and the values of its request */
};

/* A place in the bytes of a page. */
struct service_cursor {
    uint32_t block, at;
    uint64_t left;
};

struct service_cache {
    pthread_mutex_t lock;
    uint8_t *memory;
    uint64_t size, seed;
    uint32_t *links, *buckets; /* of each block the next one of its page; of each bucket the first page */
    uint32_t blocks, unused, free, free_count, bucket_count, oldest, newest;
    uint32_t limit;            /* blocks of a page */
    uint64_t evicted;          /* pages, since it was counted last */
    struct service_cached *leaders[SERVICE_CACHE_LEADERS], *waiting[SERVICE_CACHE_LEADERS];
    struct {
        uint64_t hash;
        uint32_t until; /* seconds */
    } passes[SERVICE_CACHE_PASSES];
};

/* A key: the number of the program's port, the host in lower case, and the URI. */
struct service_cache_key {
    uint64_t hash;
    uint32_t size;
    uint8_t bytes[SERVICE_CACHE_KEY];
};

/* A cache of `size` bytes; null if there is no memory. */
struct service_cache *service_cache_make(uint64_t size);
void service_cache_free(struct service_cache *cache);

/* The key of a request; false if it is too long. */
bool service_cache_key(const struct service_cache *cache, uint32_t port, const struct service_wish *wish,
                       struct service_cache_key *key);

/* --- the caller holds the lock */

/* The page for a request, which counts as used now; null if there is none. */
struct service_page *service_cache_find(struct service_cache *cache, const struct service_cache_key *key,
                                        struct service_text headers);

/* A page that is not listed yet, with one reference; null if there is no room, or if `vary` names too much. `vary`: header
 * fields of the response; `headers`: those of the request. */
struct service_page *service_cache_begin(struct service_cache *cache, const struct service_cache_key *key,
                                         struct service_text vary, struct service_text headers);

/* Adds bytes to a page that is not listed. False if there is no room for them. */
bool service_cache_append(struct service_cache *cache, struct service_page *page, const uint8_t *bytes, uint64_t size);

/* Lists a page, in the place of one that fits the same requests. */
void service_cache_list(struct service_cache *cache, struct service_page *page);

/* Removes a page from the table; it is freed when no one reads it. */
void service_cache_unlist(struct service_cache *cache, struct service_page *page);

/* Removes all pages of a key; returns their number. */
uint32_t service_cache_remove(struct service_cache *cache, const struct service_cache_key *key);

/* One reference less. */
void service_cache_leave(struct service_cache *cache, struct service_page *page);

/* --- no lock is needed, as long as the page has a reference of the caller */

/* The beginning of a page, and its next bytes: how many, at most `room`. */
struct service_cursor service_cache_start(const struct service_page *page);
uint32_t service_cache_read(const struct service_cache *cache, struct service_cursor *cursor, const struct service_page *page,
                            uint8_t *to, uint32_t room);

#endif
