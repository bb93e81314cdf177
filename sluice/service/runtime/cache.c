#include "cache_parts.h"

#include <errno.h>

bool service_cache_serves(const struct service_channel *c)
{
    const struct service_lane *lane = service_lane_of(c);

    return lane->config->cache && lane->core.program->ports[c->port].notes && c->reopens && !c->address &&
           lane->config->backends[c->port] && lane->config->backends[c->port][c->index].length;
}

void service_cache_join(struct service_channel *c) { service_cache_state(c)->joined = true; }

bool service_cache_joined(const struct service_channel *c) { return service_cache_state(c)->joined; }

void service_cache_count_evicted(struct service_channel *c, struct service_cache *cache)
{
    if (cache->evicted)
        service_count(c->instance, SERVICE_CACHE_EVICTED, cache->evicted);
    cache->evicted = 0;
}

void service_cache_forget(struct service_channel *c, struct service_cached *s, bool uncacheable)
{
    struct service_cache *cache = service_cache_of(c);

    pthread_mutex_lock(&cache->lock);
    if (uncacheable)
        service_cache_set_pass(cache, s->hash, c->instance->core->now);
    if (s->made)
        service_cache_leave(cache, s->made);
    s->made = NULL;
    s->stores = false;
    service_cache_end_lead(cache, s);
    service_cache_count_evicted(c, cache);
    pthread_mutex_unlock(&cache->lock);
}

void service_cache_end(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = service_cache_of(c);

    if (s->made || s->leads || s->phase == SERVICE_CACHE_WAITS || s->page) {
        pthread_mutex_lock(&cache->lock);
        if (s->made)
            service_cache_leave(cache, s->made);
        if (s->page)
            service_cache_leave(cache, s->page);
        if (s->phase == SERVICE_CACHE_WAITS)
            service_cache_end_wait(cache, s);
        service_cache_end_lead(cache, s);
        pthread_mutex_unlock(&cache->lock);
    }
    service_cache_give(c, &s->asked);
    s->made = s->page = NULL;
    s->ready = s->alone = s->stores = s->spoiled = s->unsafe = s->validates = s->composed = s->interim = false;
    s->phase = SERVICE_CACHE_IDLE;
    s->since = 0;
    s->left = 0;
    s->rest.kind = SERVICE_NO_TAIL;
    c->instance->progressed = true;
}

void service_cache_disconnect(struct service_channel *c, struct service_cached *s)
{
    service_socket_disconnect(c);
    s->joined = false;
    s->drops = s->pass || s->tail.kind;
    c->writable = true;
    c->readable = false;
}

void service_cache_open(struct service_channel *c)
{
    struct service_cached *s = service_cache_state(c);

    memset(s, 0, sizeof *s);
    s->channel = c;
    c->cached = true;
    c->link = SERVICE_OPEN;
    c->writable = true;
}

void service_cache_close(struct service_channel *c)
{
    struct service_cached *s = service_cache_state(c);

    service_cache_end(c, s);
    service_cache_give(c, &s->raw);
    s->joined = false;
    s->pass = 0;
    s->tail.kind = SERVICE_NO_TAIL;
    c->cached = false;
}

enum service_parsed service_cache_split(const struct service_buffer *buffer, struct service_text *line,
                                        struct service_text *headers, uint32_t *size)
{
    const uint8_t *at = buffer->bytes + buffer->start;
    uint64_t held = buffer->end - buffer->start, first = service_line(at, held), block = 0;
    enum service_parsed found = first ? service_headers(at + first, held - first, &block) : SERVICE_MORE;

    *line = (struct service_text){at, first ? (uint32_t)first - 2 : 0};
    *headers = (struct service_text){at + first, (uint32_t)block};
    *size = (uint32_t)(first + block) + 2;
    return found;
}

void service_cache_asked(const struct service_cached *s, struct service_wish *wish)
{
    struct service_text line, headers;
    uint32_t size;

    service_cache_split(s->asked, &line, &headers, &size);
    service_read_wish(line, headers, wish);
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
    enum service_parsed found = service_cache_split(c->out, &line, &headers, &size);

    if (found == SERVICE_MORE && c->out->start)
        service_buffer_compact(c->out);
    if (found == SERVICE_MORE)
        return c->out->end < pool->size;
    s->drops = false;
    s->tail = (struct service_tail){.left = 1, .allowed = SERVICE_UNBOUNDED};
    if (found == SERVICE_MALFORMED || !service_framing(headers, false, false, &s->tail, &body))
        return false;
    service_read_wish(line, headers, &wish);
    s->head_only = wish.head;
    s->unsafe = wish.unsafe;
    if ((wish.plain || wish.unsafe) && service_cache_key(service_cache_of(c), c->port, &wish, &key)) {
        s->asked = service_buffer_for(c->instance);
        if (!s->asked) {
            s->tail.kind = SERVICE_NO_TAIL;
            return true;
        }
        service_cache_put(s->asked, pool->size, line.at, size);
        s->hash = key.hash;
    }
    s->pass = size + body;
    if (s->asked && wish.plain) {
        service_cache_look_up(c, s, &wish, &key);
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
            service_cache_give(c, &s->asked);
        c->readable = s->phase == SERVICE_CACHE_SERVES || c->readable;
    }
    if (s->since == 0 || s->phase == SERVICE_CACHE_HEAD)
        s->since = c->instance->core->now;
    return true;
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
    struct service_cached *s = service_cache_state(c);

    while (c->out && c->out->start < c->out->end) {
        bool blocked = false;

        if (s->phase == SERVICE_CACHE_WAITS && __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE))
            service_cache_resume(c, s);
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
        service_cache_give(c, &c->out);
    return true;
}

/* --- from the backend */

/* A response has ended. */
static void end_response(struct service_channel *c, struct service_cached *s)
{
    bool whole = s->phase == SERVICE_CACHE_BODY && s->left == 0 && s->rest.kind == SERVICE_TO_THE_END && !c->cut;

    if (!whole)
        service_cache_forget(c, s, false);
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
    if (!s->raw && !(s->raw = service_buffer_for(c->instance)))
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
        service_cache_give(c, &s->raw);
    if (got < 0 && errno != EAGAIN) {
        service_cache_forget(c, s, false);
        service_socket_fail(c);
        return false;
    }
    if (got == 0 && s->phase == SERVICE_CACHE_BODY && service_socket_cut(c, &s->rest)) {
        service_cache_forget(c, s, false);
        service_fail(c->instance, SERVICE_RESET);
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
    service_cache_disconnect(c, s);
}

bool service_cache_fill(struct service_channel *c)
{
    struct service_cached *s = service_cache_state(c);

    for (;;) {
        bool more = false;

        if (s->phase == SERVICE_CACHE_SERVES) {
            c->readable = true; /* until it is copied as a whole */
            if (c->in_ended || !service_cache_serve(c, s))
                return true;
        } else if (s->phase == SERVICE_CACHE_IDLE || s->phase == SERVICE_CACHE_WAITS) {
            if (c->fd < 0)
                c->readable = false;
            if (c->readable)
                probe(c, s);
            return true;
        } else {
            bool moved = s->raw && (s->phase == SERVICE_CACHE_HEAD
                                        ? service_buffer_held(s->raw) && service_cache_read_head(c, s)
                                        : service_cache_pass(c, s));

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

bool service_cache_rescue(struct service_channel *c)
{
    struct service_cached *s = service_cache_state(c);

    if (s->phase != SERVICE_CACHE_HEAD || s->interim || !s->page || !service_cache_survives(c, s))
        return false;
    service_cache_use_stale(c, s);
    return true;
}
