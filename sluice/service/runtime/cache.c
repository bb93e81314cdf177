#include "cache.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "message.h"

enum {
    WAIT_MOST = 5, /* seconds for which a request waits for another one */
    FIELDS = 1200, /* bytes of the fields that are written with each use of a page */
};

static struct service_cache *cache_of(const struct service_channel *c) { return service_lane_of(c)->config->cache; }

/* The state of a channel is in the memory of the lane that allocated its instance. */
static struct service_cached *state_of(const struct service_channel *c)
{
    const struct service_instance *self = c->instance;

    return &self->home->cached[service_slot(self) * self->home->channels + (uint64_t)(c - self->channels)];
}

bool service_cache_serves(const struct service_channel *c)
{
    const struct service_lane *lane = service_lane_of(c);

    return lane->config->cache && lane->core.program->ports[c->port].notes && c->reopens && !c->address &&
           lane->config->backends[c->port] && lane->config->backends[c->port][c->index].length;
}

void service_cache_join(struct service_channel *c) { state_of(c)->joined = true; }

bool service_cache_joined(const struct service_channel *c) { return state_of(c)->joined; }

bool service_cache_waits(const struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++)
        if (self->channels[i].cached && state_of(&self->channels[i])->waits)
            return true;
    return false;
}

/* A buffer of the pool; null if there is none: the instance waits for one. */
static struct service_buffer *take_buffer(struct service_channel *c)
{
    struct service_buffer *found = service_buffer_take(&c->instance->core->buffers);

    if (!found) {
        c->instance->starved = true;
        service_count(c->instance, SERVICE_WAITED_BUFFER, 1);
    }
    return found;
}

static void give_buffer(struct service_channel *c, struct service_buffer **place)
{
    if (*place)
        service_buffer_give(&c->instance->core->buffers, *place);
    *place = NULL;
}

/* --- lists of channels; the caller holds the lock */

static struct service_cached **leaders_of(struct service_cache *cache, uint64_t hash)
{
    return &cache->leaders[hash % SERVICE_CACHE_LEADERS];
}

static void link_state(struct service_cached **list, struct service_cached *s)
{
    s->before = NULL;
    s->next = *list;
    if (*list)
        (*list)->before = s;
    *list = s;
}

static void unlink_state(struct service_cached **list, struct service_cached *s)
{
    *(s->before ? &s->before->next : list) = s->next;
    if (s->next)
        s->next->before = s->before;
}

static bool has_leader(struct service_cache *cache, uint64_t hash)
{
    struct service_cached *each = *leaders_of(cache, hash);

    while (each && each->hash != hash)
        each = each->next;
    return each;
}

/* Those that wait for a response get a turn of their worker. */
static void wake(struct service_cache *cache, uint64_t hash)
{
    uint64_t one = 1;

    for (struct service_cached *each = cache->waiting; each; each = each->next) {
        struct service_lane *lane = service_lane_of(each->channel);

        if (each->hash != hash || __atomic_exchange_n(&each->ready, true, __ATOMIC_RELEASE))
            continue;
        if (!atomic_exchange(&lane->cache_woken, true) && write(lane->worker->wake, &one, sizeof one) < 0)
            continue; /* the counter is at its end: the worker is woken anyway */
    }
}

/* A leader ends: instances that waited for it continue. */
static void end_lead(struct service_cache *cache, struct service_cached *s)
{
    if (!s->leads)
        return;
    unlink_state(leaders_of(cache, s->hash), s);
    s->leads = false;
    wake(cache, s->hash);
}

static bool passes(const struct service_cache *cache, uint64_t hash, uint32_t now)
{
    return cache->passes[hash % SERVICE_CACHE_PASSES].hash == hash && cache->passes[hash % SERVICE_CACHE_PASSES].until > now;
}

/* The response cannot be stored: requests like it do not wait for each other for a while. */
static void set_pass(struct service_cache *cache, uint64_t hash, uint32_t now)
{
    cache->passes[hash % SERVICE_CACHE_PASSES].hash = hash;
    cache->passes[hash % SERVICE_CACHE_PASSES].until = now + SERVICE_CACHE_PASS_TIME;
}

static void count_evicted(struct service_channel *c, struct service_cache *cache)
{
    if (cache->evicted)
        service_count(c->instance, SERVICE_CACHE_EVICTED, cache->evicted);
    cache->evicted = 0;
}

void service_cache_wake(struct service_lane *lane)
{
    struct service_cache *cache = lane->config->cache;

    if (!atomic_load_explicit(&lane->cache_woken, memory_order_relaxed) || !atomic_exchange(&lane->cache_woken, false))
        return;
    pthread_mutex_lock(&cache->lock);
    for (struct service_cached *each = cache->waiting; each; each = each->next)
        if (__atomic_load_n(&each->ready, __ATOMIC_RELAXED) && service_lane_of(each->channel) == lane)
            service_lane_queue(lane, each->channel->instance);
    pthread_mutex_unlock(&cache->lock);
}

void service_cache_tick(struct service_lane *lane)
{
    struct service_cache *cache = lane->config->cache;

    pthread_mutex_lock(&cache->lock);
    for (struct service_cached *each = cache->waiting; each; each = each->next) {
        if (service_lane_of(each->channel) != lane)
            continue;
        each->channel->due_since = lane->core.now; /* its backend has no request yet */
        if (lane->core.now - each->since >= WAIT_MOST) {
            __atomic_store_n(&each->ready, true, __ATOMIC_RELEASE);
            service_lane_queue(lane, each->channel->instance);
        }
    }
    pthread_mutex_unlock(&cache->lock);
}

/* --- the life of a request */

/* Nothing is stored of the current response. */
static void forget(struct service_channel *c, struct service_cached *s, bool uncacheable)
{
    struct service_cache *cache = cache_of(c);

    pthread_mutex_lock(&cache->lock);
    if (uncacheable)
        set_pass(cache, s->hash, c->instance->core->now);
    if (s->made)
        service_cache_leave(cache, s->made);
    s->made = NULL;
    s->stores = false;
    end_lead(cache, s);
    count_evicted(c, cache);
    pthread_mutex_unlock(&cache->lock);
}

/* The request is answered, or dropped. */
static void end_request(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = cache_of(c);

    if (s->made || s->leads || s->waits || s->page) {
        pthread_mutex_lock(&cache->lock);
        if (s->made)
            service_cache_leave(cache, s->made);
        if (s->page)
            service_cache_leave(cache, s->page);
        if (s->waits)
            unlink_state(&cache->waiting, s);
        end_lead(cache, s);
        pthread_mutex_unlock(&cache->lock);
    }
    give_buffer(c, &s->asked);
    s->made = s->page = NULL;
    s->waits = s->ready = s->alone = s->stores = s->spoiled = s->unsafe = s->validates = s->composed = s->interim = false;
    s->phase = SERVICE_CACHE_IDLE;
    s->since = 0;
    s->left = 0;
    s->rest.kind = SERVICE_NO_TAIL;
    c->instance->progressed = true;
}

/* Ends the connection to the backend. Another one would parse the rest of a request as the next one. */
static void disconnect(struct service_channel *c, struct service_cached *s)
{
    service_socket_disconnect(c);
    s->joined = false;
    s->drops = s->pass || s->tail.kind;
    c->writable = true;
    c->readable = false;
}

void service_cache_open(struct service_channel *c)
{
    struct service_cached *s = state_of(c);

    memset(s, 0, sizeof *s);
    s->channel = c;
    c->cached = true;
    c->link = SERVICE_OPEN;
    c->writable = true;
}

void service_cache_close(struct service_channel *c)
{
    struct service_cached *s = state_of(c);

    end_request(c, s);
    give_buffer(c, &s->raw);
    s->joined = false;
    s->pass = 0;
    s->tail.kind = SERVICE_NO_TAIL;
    c->cached = false;
}

/* The head of a request or response: its first line and its fields. `size` includes the empty line. */
static enum service_parsed split(const struct service_buffer *buffer, struct service_text *line, struct service_text *headers,
                                 uint32_t *size)
{
    const uint8_t *at = buffer->bytes + buffer->start;
    uint64_t held = buffer->end - buffer->start, first = service_line(at, held), block = 0;
    enum service_parsed found = first ? service_headers(at + first, held - first, &block) : SERVICE_MORE;

    *line = (struct service_text){at, first ? (uint32_t)first - 2 : 0};
    *headers = (struct service_text){at + first, (uint32_t)block};
    *size = (uint32_t)(first + block) + 2;
    return found;
}

/* Parses the cache fields of the request in `asked`. */
static void read_asked(const struct service_cached *s, struct service_wish *wish)
{
    struct service_text line, headers;
    uint32_t size;

    split(s->asked, &line, &headers, &size);
    service_read_wish(line, headers, wish);
}

/* Appends a text to a buffer. False if it does not fit. */
static bool put(struct service_buffer *buffer, uint32_t room, const void *bytes, uint64_t size)
{
    if (size > room - buffer->end)
        return false;
    memcpy(buffer->bytes + buffer->end, bytes, size);
    buffer->end += (uint32_t)size;
    return true;
}

static bool put_field(struct service_buffer *buffer, uint32_t room, const char *name, const void *value, uint64_t size)
{
    return size == 0 || (put(buffer, room, name, strlen(name)) && put(buffer, room, value, size) && put(buffer, room, "\r\n", 2));
}

/* Writes the request with the conditions of a stored page instead of its own. False if there is no room for it. */
static bool add_conditions(struct service_channel *c, struct service_cached *s, const struct service_freshness *known)
{
    struct service_buffers *pool = &c->instance->core->buffers;
    struct service_buffer *made = service_buffer_take(pool);
    struct service_text line, headers, name, value;
    uint32_t size, each;
    bool good;

    if (!made)
        return false;
    split(c->out, &line, &headers, &size);
    good = put(made, pool->size, line.at, line.length + 2);
    for (; good && (each = service_field(headers, &name, &value)); headers.at += each, headers.length -= each)
        if (!service_same_word(name, service_literal("if-none-match")) &&
            !service_same_word(name, service_literal("if-modified-since")))
            good = put(made, pool->size, headers.at, each);
    good = good && put_field(made, pool->size, "If-None-Match: ", known->tag, known->tag_size) &&
           put_field(made, pool->size, "If-Modified-Since: ", known->last_modified, strlen(known->last_modified)) &&
           put(made, pool->size, "\r\n", 2);
    s->pass = made->end;
    good = good && put(made, pool->size, c->out->bytes + c->out->start + size, c->out->end - c->out->start - size);
    if (!good) {
        service_buffer_give(pool, made);
        s->pass = size;
        return false;
    }
    service_buffer_give(pool, c->out);
    c->out = made;
    return true;
}

/* The seconds since another one. The clocks of workers, between which an instance can move, may differ by one. */
static uint32_t elapsed(uint32_t now, uint32_t since) { return now > since ? now - since : 0; }

/* The seconds of a page's age. */
static int64_t age_of(const struct service_page *page, uint32_t now)
{
    return page->freshness.age + elapsed(now, page->stored);
}

/* Decides how to answer a request, from the cache or the backend. */
static void look_up(struct service_channel *c, struct service_cached *s, const struct service_wish *wish,
                    const struct service_cache_key *key)
{
    struct service_cache *cache = cache_of(c);
    struct service_instance *self = c->instance;
    uint32_t now = self->core->now;
    struct service_freshness known;
    struct service_page *page;
    bool usable;

    pthread_mutex_lock(&cache->lock);
    page = service_cache_find(cache, key, wish->headers);
    if (page && page->chunked && wish->old)
        page = NULL;
    usable = page && service_usable(&page->freshness, age_of(page, now), wish);
    s->stores = !wish->head && !wish->no_store;
    if (usable || wish->stored) {
        s->page = usable ? page : NULL;
        s->phase = SERVICE_CACHE_SERVES;
    } else if (s->stores && !s->alone && !passes(cache, key->hash, now) && has_leader(cache, key->hash)) {
        s->phase = SERVICE_CACHE_WAITS;
        s->waits = true;
        link_state(&cache->waiting, s);
    } else {
        s->phase = SERVICE_CACHE_HEAD;
        if (s->stores) {
            s->leads = true;
            link_state(leaders_of(cache, key->hash), s);
        }
        if (page && s->stores && service_has_validator(&page->freshness))
            s->page = page;
    }
    if (s->page) {
        s->page->refs++;
        known = s->page->freshness;
    }
    pthread_mutex_unlock(&cache->lock);
    if (s->phase == SERVICE_CACHE_HEAD) {
        s->validates = s->page && add_conditions(c, s, &known);
        service_count(self, page ? SERVICE_CACHE_STALE : SERVICE_CACHE_MISSES, 1);
    } else if (s->phase == SERVICE_CACHE_SERVES) {
        service_count(self, usable ? SERVICE_CACHE_HITS : SERVICE_CACHE_MISSES, 1);
    } else if (s->since == 0) {
        service_count(self, SERVICE_CACHE_WAITED, 1);
    }
}

/* Looks at the request that `out` begins with. False if it is malformed; it may wait for more of it, or for a buffer. */
static bool begin(struct service_channel *c, struct service_cached *s)
{
    struct service_buffers *pool = &c->instance->core->buffers;
    struct service_text line, headers;
    struct service_cache_key key;
    struct service_wish wish;
    uint64_t body;
    uint32_t size;
    enum service_parsed found = split(c->out, &line, &headers, &size);

    if (found == SERVICE_MORE && c->out->start)
        service_buffer_compact(c->out);
    if (found == SERVICE_MORE)
        return c->out->end < pool->size;
    s->drops = false;
    s->tail = (struct service_tail){.left = 1, .allowed = UINT32_MAX};
    if (found == SERVICE_MALFORMED || !service_framing(headers, false, false, &s->tail, &body))
        return false;
    service_read_wish(line, headers, &wish);
    s->head_only = wish.head;
    s->unsafe = wish.unsafe;
    if ((wish.plain || wish.unsafe) && service_cache_key(cache_of(c), c->port, &wish, &key)) {
        s->asked = take_buffer(c);
        if (!s->asked) {
            s->tail.kind = SERVICE_NO_TAIL;
            return true;
        }
        put(s->asked, pool->size, line.at, size);
        s->hash = key.hash;
    }
    s->pass = size + body;
    if (s->asked && wish.plain) {
        look_up(c, s, &wish, &key);
    } else {
        s->phase = SERVICE_CACHE_HEAD;
        service_count(c->instance, SERVICE_CACHE_UNCACHEABLE, 1);
    }
    c->instance->progressed = true;
    if (s->phase == SERVICE_CACHE_WAITS || s->phase == SERVICE_CACHE_SERVES) {
        s->pass = 0;
        if (s->phase == SERVICE_CACHE_SERVES)
            c->out->start += size;
        else
            give_buffer(c, &s->asked);
        c->readable = s->phase == SERVICE_CACHE_SERVES || c->readable;
    }
    if (s->since == 0 || s->phase == SERVICE_CACHE_HEAD)
        s->since = c->instance->core->now;
    return true;
}

/* The leader has ended, or it has taken too long: the request is looked at again. */
static void resume(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = cache_of(c);

    pthread_mutex_lock(&cache->lock);
    unlink_state(&cache->waiting, s);
    pthread_mutex_unlock(&cache->lock);
    s->waits = s->ready = false;
    s->alone = c->instance->core->now - s->since >= WAIT_MOST;
    s->phase = SERVICE_CACHE_IDLE;
    c->due_since = c->instance->core->now;
}

/* --- to the backend */

/* Sends the received part of the current request. False if the connection is broken, or the request malformed. */
static bool send_request(struct service_channel *c, struct service_cached *s, bool *blocked)
{
    struct service_instance *self = c->instance;
    uint64_t there = c->out->end - c->out->start, need;
    ssize_t sent;

    *blocked = true;
    if (s->pass == 0) {
        enum service_parsed found = service_next_part(&s->tail, c->out->bytes + c->out->start, there, &s->pass, &need);

        if (found == SERVICE_MALFORMED)
            service_fail(self, SERVICE_BAD_MESSAGE);
        if (found == SERVICE_MORE && c->out->start)
            service_buffer_compact(c->out);
        if (found != SERVICE_READY)
            return found == SERVICE_MORE;
    }
    if (s->drops) {
        need = s->pass < there ? s->pass : there;
        s->pass -= need;
        c->out->start += (uint32_t)need;
        self->progressed = true;
        *blocked = false;
        return true;
    }
    if (c->fd < 0 && c->link == SERVICE_OPEN && !service_socket_connect(c))
        return false;
    if (c->link != SERVICE_OPEN)
        return true;
    sent = service_socket_give(c, c->out->bytes + c->out->start, s->pass < there ? s->pass : there);
    if (sent < 0 && errno == EAGAIN) {
        service_blocked(c);
        return true;
    }
    if (sent < 0 && errno != EINTR) {
        service_socket_fail(c);
        return false;
    }
    *blocked = false;
    if (sent > 0) {
        s->pass -= (uint64_t)sent;
        c->out->start += (uint32_t)sent;
        service_moved(&c->out_bytes, (uint64_t)sent);
        self->progressed = true;
        service_count(self, SERVICE_BYTES_OUT, (uint64_t)sent);
    }
    return true;
}

bool service_cache_flush(struct service_channel *c)
{
    struct service_cached *s = state_of(c);

    while (c->out && c->out->start < c->out->end) {
        bool blocked = false;

        if (s->waits && __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE))
            resume(c, s);
        if (s->pass || s->tail.kind) {
            if (!send_request(c, s, &blocked))
                return false;
        } else if (s->phase == SERVICE_CACHE_IDLE) {
            if (!begin(c, s)) {
                service_fail(c->instance, SERVICE_BAD_MESSAGE);
                return false;
            }
            blocked = s->phase == SERVICE_CACHE_IDLE; /* waits for more of it, or for a buffer */
        } else {
            blocked = true; /* the request before is not answered yet */
        }
        if (blocked)
            return true;
    }
    c->out_since = 0;
    if (c->out)
        give_buffer(c, &c->out);
    return true;
}

/* --- from the cache */

/* Writes the head of a stored response, or of a 304 in its place. False if there is no buffer for it. */
static bool compose(struct service_channel *c, struct service_cached *s)
{
    static const char missing[] = "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n";
    static const char unchanged[] = "HTTP/1.1 304 Not Modified\r\n";
    struct service_cache *cache = cache_of(c);
    uint32_t room = c->instance->core->buffers.size;
    struct service_page *page = s->page;
    const struct service_freshness *known;
    struct service_wish wish;
    char age[24];

    if (!s->raw && !(s->raw = take_buffer(c)))
        return false;
    s->raw->start = s->raw->end = 0;
    s->composed = true;
    s->cursor.left = 0;
    if (!page)
        return put(s->raw, room, missing, sizeof missing - 1);
    read_asked(s, &wish);
    known = &page->freshness;
    pthread_mutex_lock(&cache->lock);
    if (service_client_has(known, &wish)) {
        put(s->raw, room, unchanged, sizeof unchanged - 1);
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
    return put(s->raw, room, "\r\n", 2);
}

/* Room in `in`: how many bytes; 0 if there is none for now. */
static uint32_t room_of(struct service_channel *c)
{
    uint32_t size = c->instance->core->buffers.size;

    if (!c->in && !(c->in = take_buffer(c)))
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

/* Moves `most` bytes of `raw` at most to `in`; how many. */
static uint32_t move_raw(struct service_channel *c, struct service_cached *s, uint64_t most)
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

/* Copies a stored response, as far as there is room. False if it has to wait. */
static bool serve(struct service_channel *c, struct service_cached *s)
{
    uint32_t room, size;

    if (!s->composed && !compose(c, s))
        return false;
    while (service_buffer_held(s->raw))
        if (move_raw(c, s, UINT64_MAX) == 0)
            return false;
    while (s->cursor.left) {
        room = room_of(c);
        if (room == 0)
            return false;
        size = service_cache_read(cache_of(c), &s->cursor, s->page, c->in->bytes + c->in->end, room);
        filled(c, size);
        service_count(c->instance, SERVICE_CACHE_BYTES, size);
    }
    give_buffer(c, &s->raw);
    end_request(c, s);
    c->readable = c->fd >= 0;
    return true;
}

/* --- from the backend */

/* Writes the head of a response into the page in which it is stored, without the fields that are not. */
static bool store_head(struct service_cache *cache, struct service_page *page, struct service_text line,
                       struct service_text headers)
{
    struct service_text left = headers, name, value;
    bool good = service_cache_append(cache, page, line.at, line.length + 2);
    uint32_t each;

    for (; good && (each = service_field(left, &name, &value)); left.at += each, left.length -= each)
        if (!service_field_dropped(name, headers) && !service_same_word(name, service_literal("etag")) &&
            !(page->freshness.last_modified[0] && service_same_word(name, service_literal("last-modified"))))
            good = service_cache_append(cache, page, left.at, each);
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
    struct service_cache *cache = cache_of(c);
    struct service_core *core = c->instance->core;
    struct service_freshness known;
    struct service_cache_key key;
    struct service_wish wish;
    bool good;

    good = s->stores && line.length + headers.length + FIELDS <= core->buffers.size &&
           s->rest.kind != SERVICE_TO_THE_END && s->left <= (uint64_t)cache->limit * SERVICE_CACHE_BLOCK &&
           service_read_freshness(status, headers, seconds_now(), elapsed(core->now, s->since), &known);
    if (good) {
        read_asked(s, &wish);
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
        forget(c, s, true);
    }
}

/* The backend has confirmed the stored page. */
static void refresh(struct service_channel *c, struct service_cached *s, struct service_text headers)
{
    struct service_cache *cache = cache_of(c);
    struct service_core *core = c->instance->core;

    pthread_mutex_lock(&cache->lock);
    if (!service_read_refreshed(headers, seconds_now(), elapsed(core->now, s->since), &s->page->freshness))
        service_cache_unlist(cache, s->page);
    s->page->stored = core->now;
    end_lead(cache, s);
    pthread_mutex_unlock(&cache->lock);
    service_count(c->instance, SERVICE_CACHE_CONFIRMED, 1);
}

/* A request that was answered well may have changed the stored pages of its URI (RFC 9111, section 4.4). */
static void invalidate(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = cache_of(c);
    struct service_cache_key key;
    struct service_wish wish;
    uint32_t count;

    read_asked(s, &wish);
    service_cache_key(cache, c->port, &wish, &key);
    pthread_mutex_lock(&cache->lock);
    count = service_cache_remove(cache, &key);
    for (struct service_cached *each = *leaders_of(cache, key.hash); each; each = each->next)
        each->spoiled = each->spoiled || each->hash == key.hash;
    pthread_mutex_unlock(&cache->lock);
    service_count(c->instance, SERVICE_CACHE_INVALIDATED, count);
}

/* The bytes are no message of HTTP: they pass unchanged, and the program fails on them. */
static void garble(struct service_channel *c, struct service_cached *s)
{
    forget(c, s, false);
    s->phase = SERVICE_CACHE_BODY;
    s->left = 0;
    s->rest = (struct service_tail){.kind = SERVICE_TO_THE_END, .allowed = UINT32_MAX};
}

/* The bytes in `raw` that do not belong to the response which has ended. No more was due. */
static void drop_rest(struct service_channel *c, struct service_cached *s)
{
    if (service_buffer_held(s->raw)) {
        service_count(c->instance, SERVICE_UNASKED, 1);
        disconnect(c, s);
    }
    give_buffer(c, &s->raw);
}

/* Parses the head of a response. False if it is incomplete. */
static bool read_head(struct service_channel *c, struct service_cached *s)
{
    uint32_t capacity = c->instance->core->buffers.size, size;
    struct service_text line, headers, status;
    enum service_parsed found = split(s->raw, &line, &headers, &size);
    bool empty;

    if (found == SERVICE_MORE && s->raw->end - s->raw->start < capacity)
        return false;
    status = service_word(line, 1);
    s->rest = (struct service_tail){.left = 1, .allowed = UINT32_MAX};
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

        store(c, s, (uint32_t)service_decimal(status, &bad), line, headers);
    }
    s->left += size;
    s->head = size;
    return true;
}

/* The response has passed as a whole. */
static void complete(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = cache_of(c);

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
        count_evicted(c, cache);
        pthread_mutex_unlock(&cache->lock);
    }
    drop_rest(c, s);
    end_request(c, s);
}

/* Stores bytes of a body that were just moved. */
static void record(struct service_channel *c, struct service_cached *s, const uint8_t *bytes, uint32_t size)
{
    struct service_cache *cache = cache_of(c);
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
    forget(c, s, true);
}

/* Moves the received part of a response to `in`. False if it is incomplete, or if there is no room. */
static bool pass_response(struct service_channel *c, struct service_cached *s)
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
        moved = move_raw(c, s, s->left);
        if (moved == 0)
            return false;
        s->left -= moved;
        record(c, s, s->raw->bytes + s->raw->start - moved, moved);
    }
    return true;
}

/* A response has ended. */
static void end_response(struct service_channel *c, struct service_cached *s)
{
    bool whole = s->phase == SERVICE_CACHE_BODY && s->left == 0 && s->rest.kind == SERVICE_TO_THE_END && !c->cut;

    if (!whole)
        forget(c, s, false);
    c->in_ended = true;
    c->readable = false;
    c->instance->progressed = true;
}

/* Reads once from the backend. False if the connection is broken; `more`: bytes were received. */
static bool receive(struct service_channel *c, struct service_cached *s, bool *more)
{
    uint32_t size = c->instance->core->buffers.size, room;
    ssize_t got;

    *more = false;
    if (!s->raw && !(s->raw = take_buffer(c)))
        return true;
    if (s->raw->start)
        service_buffer_compact(s->raw);
    room = size - s->raw->end;
    if (room == 0)
        return true;
    got = service_socket_take(c, s->raw->bytes + s->raw->end, room);
    if (got > 0) {
        s->raw->end += (uint32_t)got;
        c->readable = (uint32_t)got == room || c->hung_up || c->secure;
        c->instance->progressed = *more = true;
        if (s->phase == SERVICE_CACHE_BODY)
            c->due_since = c->instance->core->now;
        service_count(c->instance, SERVICE_BYTES_IN, (uint64_t)got);
        return true;
    }
    if (got < 0 && errno == EINTR) {
        *more = true;
        return true;
    }
    c->readable = false;
    if (service_buffer_held(s->raw) == 0)
        give_buffer(c, &s->raw);
    if (got < 0 && errno != EAGAIN) {
        forget(c, s, false);
        service_socket_fail(c);
        return false;
    }
    if (got == 0)
        end_response(c, s);
    return true;
}

/* A connection on which nothing is due: it has ended, or its bytes are no answer. */
static void probe(struct service_channel *c, struct service_cached *s)
{
    uint8_t byte;
    ssize_t got = service_socket_take(c, &byte, 1);

    c->readable = false;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    service_count(c->instance, got > 0 ? SERVICE_UNASKED : SERVICE_REOPENED, 1);
    disconnect(c, s);
}

bool service_cache_fill(struct service_channel *c)
{
    struct service_cached *s = state_of(c);

    for (;;) {
        bool more = false;

        if (s->phase == SERVICE_CACHE_SERVES) {
            c->readable = true; /* until it is copied as a whole */
            if (c->in_ended || !serve(c, s))
                return true;
        } else if (s->phase == SERVICE_CACHE_IDLE || s->phase == SERVICE_CACHE_WAITS) {
            if (c->fd < 0)
                c->readable = false;
            if (c->readable)
                probe(c, s);
            return true;
        } else {
            bool moved = s->raw && (s->phase == SERVICE_CACHE_HEAD ? service_buffer_held(s->raw) && read_head(c, s)
                                                                  : pass_response(c, s));

            if (moved)
                continue;
            if (s->left && service_buffer_held(s->raw)) { /* `in` has no room */
                c->readable = true;
                return true;
            }
            if (!c->readable || c->fd < 0 || c->in_ended)
                return true;
            if (!receive(c, s, &more))
                return false;
            if (!more)
                return true;
        }
    }
}
