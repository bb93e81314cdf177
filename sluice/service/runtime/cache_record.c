/* Responses of the backend, which are stored while they pass; those that change what is stored. */
#include "cache_parts.h"

#include <time.h>

enum { FIELDS = 1200 }; /* bytes of the fields that are written with each use of a page */

/* Writes the head of a response into the page in which it is stored, without the fields that are not. */
static bool store_head(struct service_cache *cache, struct service_page *page, struct service_text line,
                       struct service_text headers)
{
    bool good = service_cache_append(cache, page, line.at, line.length + 2);
    uint32_t each;

    for (uint32_t at = 0; good && at < headers.length; at += each) {
        struct service_text name;

        each = (uint32_t)service_line(headers.at + at, headers.length - at);
        name = service_field_of(headers.at + at, each).name;
        if (!service_field_dropped(name, headers) && !service_same_word(name, service_literal("etag")) &&
            !(page->freshness.last_modified[0] && service_same_word(name, service_literal("last-modified"))))
            good = service_cache_append(cache, page, headers.at + at, each);
    }
    page->head_size = (uint32_t)page->size;
    return good;
}

static int64_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

/* Begins to store a response, if it may be. */
static void store(struct service_channel *c, struct service_cached *s, uint32_t status, struct service_text line,
                  struct service_text headers)
{
    struct service_cache *cache = service_cache_of(c);
    struct service_core *core = c->instance->core;
    struct service_freshness known;
    struct service_cache_key key;
    struct service_wish wish;
    bool good;

    good = s->stores && line.length + headers.length + FIELDS <= core->buffers.size &&
           s->rest.kind != SERVICE_TO_THE_END && s->left <= (uint64_t)cache->limit * SERVICE_CACHE_BLOCK &&
           service_read_freshness(status, headers, seconds_now(), service_cache_elapsed(core->now, s->since), &known);
    if (good) {
        service_cache_asked(s, &wish);
        service_cache_key(cache, c->port, &wish, &key);
    }
    pthread_mutex_lock(&cache->lock);
    good = good && !s->spoiled && (s->made = service_cache_begin(cache, &key, headers, wish.headers));
    if (good) {
        s->made->freshness = known;
        s->made->chunked = s->rest.kind == SERVICE_CHUNKS;
        good = store_head(cache, s->made, line, headers);
    }
    if (!good && s->page && status < 500) /* the stored page is no longer current */
        service_cache_unlist(cache, s->page);
    pthread_mutex_unlock(&cache->lock);
    if (!good && s->stores) {
        service_count(c->instance, SERVICE_CACHE_REFUSED, 1);
        service_cache_forget(c, s, true);
    }
}

/* The backend has confirmed the stored page. */
static void refresh(struct service_channel *c, struct service_cached *s, struct service_text headers)
{
    struct service_cache *cache = service_cache_of(c);
    struct service_core *core = c->instance->core;

    pthread_mutex_lock(&cache->lock);
    if (!service_read_refreshed(headers, seconds_now(), service_cache_elapsed(core->now, s->since), &s->page->freshness))
        service_cache_unlist(cache, s->page);
    s->page->stored = core->now;
    service_cache_end_lead(cache, s);
    pthread_mutex_unlock(&cache->lock);
    service_count(c->instance, SERVICE_CACHE_CONFIRMED, 1);
}

/* A request that was answered well may have changed the stored pages of its URI (RFC 9111, section 4.4). */
static void invalidate(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = service_cache_of(c);
    struct service_cache_key key;
    struct service_wish wish;
    uint32_t count;

    service_cache_asked(s, &wish);
    service_cache_key(cache, c->port, &wish, &key);
    pthread_mutex_lock(&cache->lock);
    count = service_cache_remove(cache, &key);
    for (struct service_cached *each = *service_cache_leaders(cache, key.hash); each; each = each->next)
        each->spoiled = each->spoiled || each->hash == key.hash;
    pthread_mutex_unlock(&cache->lock);
    service_count(c->instance, SERVICE_CACHE_INVALIDATED, count);
}

/* The bytes are no message of HTTP: they pass unchanged, and the program fails on them. */
static void garble(struct service_channel *c, struct service_cached *s)
{
    service_cache_forget(c, s, false);
    s->phase = SERVICE_CACHE_BODY;
    s->left = 0;
    s->rest = (struct service_tail){.kind = SERVICE_TO_THE_END, .allowed = SERVICE_UNBOUNDED};
}

/* The bytes in `raw` that do not belong to the response which has ended. No more was due. */
static void drop_rest(struct service_channel *c, struct service_cached *s)
{
    if (service_buffer_held(s->raw)) {
        service_count(c->instance, SERVICE_UNASKED, 1);
        service_cache_disconnect(c, s);
    }
    service_cache_give(c, &s->raw);
}

bool service_cache_read_head(struct service_channel *c, struct service_cached *s)
{
    uint32_t capacity = c->instance->core->buffers.size, size;
    struct service_text line, headers, status;
    enum service_parsed found = service_cache_split(s->raw, &line, &headers, &size);
    bool empty;

    if (found == SERVICE_MORE && s->raw->end - s->raw->start < capacity)
        return false;
    status = service_word(line, 1);
    s->rest = (struct service_tail){.left = 1, .allowed = SERVICE_UNBOUNDED};
    empty = service_bodiless(status, s->head_only);
    if (found != SERVICE_READY || status.length != 3 || !service_framing(headers, true, empty, &s->rest, &s->left)) {
        garble(c, s);
        return true;
    }
    s->phase = SERVICE_CACHE_BODY;
    s->interim = status.at[0] == '1' && memcmp(status.at, "101", 3) != 0;
    if (s->unsafe && s->asked && (status.at[0] == '2' || status.at[0] == '3'))
        invalidate(c, s);
    if (s->validates && memcmp(status.at, "304", 3) == 0) {
        refresh(c, s, headers);
        s->raw->start += size;
        drop_rest(c, s);
        s->phase = SERVICE_CACHE_SERVES;
        return true;
    }
    if (!s->interim) {
        bool bad = false;
        uint32_t code = (uint32_t)service_decimal(status, &bad);

        if (s->page && (code == 500 || (code >= 502 && code <= 504)) && service_cache_survives(c, s)) {
            service_cache_use_stale(c, s);
            return true;
        }
        store(c, s, code, line, headers);
    }
    s->left += size;
    s->head = size;
    return true;
}

/* The response has passed as a whole. */
static void complete(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = service_cache_of(c);

    if (s->interim) {
        s->interim = false;
        s->phase = SERVICE_CACHE_HEAD;
        return;
    }
    if (s->made) {
        pthread_mutex_lock(&cache->lock);
        s->made->stored = c->instance->core->now;
        if (!s->spoiled) {
            service_cache_list(cache, s->made);
            service_count(c->instance, SERVICE_CACHE_STORED, 1);
        }
        service_cache_count_evicted(c, cache);
        pthread_mutex_unlock(&cache->lock);
    }
    drop_rest(c, s);
    service_cache_end(c, s);
}

/* Stores bytes of a body that were just moved. */
static void record(struct service_channel *c, struct service_cached *s, const uint8_t *bytes, uint32_t size)
{
    struct service_cache *cache = service_cache_of(c);
    uint32_t head = s->head < size ? s->head : size; /* which is stored already */
    bool good;

    s->head -= head;
    if (!s->made || size == head)
        return;
    pthread_mutex_lock(&cache->lock);
    good = !s->spoiled && service_cache_append(cache, s->made, bytes + head, size - head);
    pthread_mutex_unlock(&cache->lock);
    if (good)
        return;
    service_count(c->instance, SERVICE_CACHE_REFUSED, 1);
    service_cache_forget(c, s, true);
}

bool service_cache_pass(struct service_channel *c, struct service_cached *s)
{
    while (s->phase == SERVICE_CACHE_BODY) {
        uint32_t held = service_buffer_held(s->raw), moved;

        if (s->left == 0 && s->rest.kind == SERVICE_NO_TAIL) {
            complete(c, s);
            return true;
        }
        if (s->left == 0) {
            uint64_t need;
            enum service_parsed found =
                service_next_part(&s->rest, s->raw->bytes + s->raw->start, held, &s->left, &need);

            if (found == SERVICE_MORE && held < c->instance->core->buffers.size)
                return false;
            if (found != SERVICE_READY)
                garble(c, s);
            continue;
        }
        moved = service_cache_move(c, s, s->left);
        if (moved == 0)
            return false;
        s->left -= moved;
        record(c, s, s->raw->bytes + s->raw->start - moved, moved);
    }
    return true;
}
