/* Look-up of a request, and its answer from the cache; the request that validates a stored response. */
#include "cache_parts.h"

#include <stdio.h>

static bool put_field(struct service_buffer *buffer, uint32_t room, const char *name, const void *value, uint64_t size)
{
    return size == 0 || (service_cache_put(buffer, room, name, strlen(name)) && service_cache_put(buffer, room, value, size) &&
                         service_cache_put(buffer, room, "\r\n", 2));
}

/* Writes the request with the conditions of a stored page instead of its own. False if there is no room for it. */
static bool add_conditions(struct service_channel *c, struct service_cached *s, const struct service_freshness *known)
{
    static const char *const own[] = {"if-none-match", "if-modified-since"};
    struct service_buffers *pool = &c->instance->core->buffers;
    struct service_buffer *made = service_buffer_take(pool);
    struct service_text line, headers;
    uint32_t size, each;
    bool good;

    if (!made)
        return false;
    service_cache_split(c->out, &line, &headers, &size);
    good = service_cache_put(made, pool->size, line.at, line.length + 2);
    for (uint32_t at = 0; good && at < headers.length; at += each) {
        each = (uint32_t)service_line(headers.at + at, headers.length - at);
        if (!service_named(service_field_of(headers.at + at, each).name, own, sizeof own / sizeof own[0]))
            good = service_cache_put(made, pool->size, headers.at + at, each);
    }
    good = good && put_field(made, pool->size, "If-None-Match: ", known->tag, known->tag_size) &&
           put_field(made, pool->size, "If-Modified-Since: ", known->last_modified, strlen(known->last_modified)) &&
           service_cache_put(made, pool->size, "\r\n", 2);
    s->pass = made->end;
    good = good &&
           service_cache_put(made, pool->size, c->out->bytes + c->out->start + size, c->out->end - c->out->start - size);
    if (!good) {
        service_buffer_give(pool, made);
        s->pass = size;
        return false;
    }
    service_buffer_give(pool, c->out);
    c->out = made;
    return true;
}

/* The seconds of a page's age. */
static int64_t age_of(const struct service_page *page, uint32_t now)
{
    return page->freshness.age + service_cache_elapsed(now, page->stored);
}

void service_cache_look_up(struct service_channel *c, struct service_cached *s, const struct service_wish *wish,
                           const struct service_cache_key *key)
{
    struct service_cache *cache = service_cache_of(c);
    struct service_instance *self = c->instance;
    uint32_t now = self->core->now;
    struct service_freshness known;
    struct service_page *page;
    bool usable, led, stale;

    pthread_mutex_lock(&cache->lock);
    page = service_cache_find(cache, key, wish->headers);
    if (page && page->chunked && wish->old)
        page = NULL;
    usable = page && service_usable(&page->freshness, age_of(page, now), wish);
    led = !usable && service_cache_has_leader(cache, key->hash);
    stale = led && page && service_usable_while_asked(&page->freshness, age_of(page, now), wish);
    usable = usable || stale;
    s->stores = !wish->head && !wish->no_store;
    if (usable || wish->stored) {
        s->page = usable ? page : NULL;
        s->phase = SERVICE_CACHE_SERVES;
    } else if (led && s->stores && !s->alone && !service_cache_passes(cache, key->hash, now)) {
        s->phase = SERVICE_CACHE_WAITS;
        service_cache_wait(cache, s);
    } else {
        s->phase = SERVICE_CACHE_HEAD;
        if (s->stores) {
            s->leads = true;
            service_cache_link(service_cache_leaders(cache, key->hash), s);
        }
        if (page && s->stores && (service_has_validator(&page->freshness) || page->freshness.survives >= 0))
            s->page = page;
    }
    if (s->page) {
        s->page->refs++;
        known = s->page->freshness;
    }
    pthread_mutex_unlock(&cache->lock);
    if (s->phase == SERVICE_CACHE_HEAD) {
        s->validates = s->page && service_has_validator(&known) && add_conditions(c, s, &known);
        service_count(self, page ? SERVICE_CACHE_STALE : SERVICE_CACHE_MISSES, 1);
    } else if (s->phase == SERVICE_CACHE_SERVES) {
        service_count(self, stale ? SERVICE_CACHE_USED_STALE : usable ? SERVICE_CACHE_HITS : SERVICE_CACHE_MISSES, 1);
    } else if (s->since == 0) {
        service_count(self, SERVICE_CACHE_WAITED, 1);
    }
}

bool service_cache_survives(struct service_channel *c, const struct service_cached *s)
{
    struct service_cache *cache = service_cache_of(c);
    struct service_wish wish;
    bool found;

    service_cache_asked(s, &wish);
    pthread_mutex_lock(&cache->lock); /* another worker may confirm the page now */
    found = service_usable_after_error(&s->page->freshness, age_of(s->page, c->instance->core->now), &wish);
    pthread_mutex_unlock(&cache->lock);
    return found;
}

void service_cache_use_stale(struct service_channel *c, struct service_cached *s)
{
    service_cache_forget(c, s, true);
    service_cache_give(c, &s->raw);
    service_cache_disconnect(c, s);
    s->phase = SERVICE_CACHE_SERVES;
    c->in_ended = c->hung_up = false;
    c->readable = c->instance->progressed = true;
    service_count(c->instance, SERVICE_CACHE_USED_STALE, 1);
}

/* Writes the head of a stored response, or of a 304 in its place. False if there is no buffer for it. */
static bool compose(struct service_channel *c, struct service_cached *s)
{
    static const char missing[] = "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n";
    static const char unchanged[] = "HTTP/1.1 304 Not Modified\r\n";
    struct service_cache *cache = service_cache_of(c);
    uint32_t room = c->instance->core->buffers.size;
    struct service_page *page = s->page;
    const struct service_freshness *known;
    struct service_wish wish;
    char age[24];

    if (!s->raw && !(s->raw = service_buffer_for(c->instance)))
        return false;
    s->raw->start = s->raw->end = 0;
    s->composed = true;
    s->cursor.left = 0;
    if (!page)
        return service_cache_put(s->raw, room, missing, sizeof missing - 1);
    service_cache_asked(s, &wish);
    known = &page->freshness;
    pthread_mutex_lock(&cache->lock);
    if (service_client_has(known, &wish)) {
        service_cache_put(s->raw, room, unchanged, sizeof unchanged - 1);
        put_field(s->raw, room, "Vary: ", page->text + page->key_size, page->vary_size ? page->vary_size - 1u : 0);
    } else {
        s->cursor = service_cache_start(page);
        s->raw->end = service_cache_read(cache, &s->cursor, page, s->raw->bytes, page->head_size);
        if (wish.head)
            s->cursor.left = 0;
    }
    put_field(s->raw, room, "Date: ", known->date, strlen(known->date));
    put_field(s->raw, room, "ETag: ", known->tag, known->tag_size);
    put_field(s->raw, room, "Last-Modified: ", known->last_modified, strlen(known->last_modified));
    put_field(s->raw, room, "Cache-Control: ", known->control, known->control_size);
    put_field(s->raw, room, "Expires: ", known->expires, strlen(known->expires));
    put_field(s->raw, room, "Age: ", age,
              (uint64_t)snprintf(age, sizeof age, "%lld", (long long)age_of(page, c->instance->core->now)));
    pthread_mutex_unlock(&cache->lock);
    return service_cache_put(s->raw, room, "\r\n", 2);
}

/* Room in `in`: how many bytes; 0 if there is none for now. */
static uint32_t room_of(struct service_channel *c)
{
    uint32_t size = c->instance->core->buffers.size;

    if (!c->in && !(c->in = service_buffer_for(c->instance)))
        return 0;
    if (c->in->start && c->taken == 0 && !c->pinned && c->in->end == size)
        service_buffer_compact(c->in);
    return size - c->in->end;
}

/* `size` bytes were written to the end of `in`. */
static void filled(struct service_channel *c, uint32_t size)
{
    c->in->end += size;
    c->due_since = c->instance->core->now;
    c->instance->progressed = true;
}

uint32_t service_cache_move(struct service_channel *c, struct service_cached *s, uint64_t most)
{
    uint32_t size = service_buffer_held(s->raw), room = size && most ? room_of(c) : 0;

    if (size > most)
        size = (uint32_t)most;
    if (size > room)
        size = room;
    if (size) {
        memcpy(c->in->bytes + c->in->end, s->raw->bytes + s->raw->start, size);
        s->raw->start += size;
        filled(c, size);
    }
    return size;
}

bool service_cache_serve(struct service_channel *c, struct service_cached *s)
{
    uint32_t room, size;

    if (!s->composed && !compose(c, s))
        return false;
    while (service_buffer_held(s->raw))
        if (service_cache_move(c, s, UINT64_MAX) == 0)
            return false;
    while (s->cursor.left) {
        room = room_of(c);
        if (room == 0)
            return false;
        size = service_cache_read(service_cache_of(c), &s->cursor, s->page, c->in->bytes + c->in->end, room);
        filled(c, size);
        service_count(c->instance, SERVICE_CACHE_BYTES, size);
    }
    service_cache_give(c, &s->raw);
    service_cache_end(c, s);
    c->readable = c->fd >= 0;
    return true;
}
