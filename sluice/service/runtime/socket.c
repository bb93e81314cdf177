/* Connections: a channel is watched from its beginning, and reads and writes until it may not. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cache.h"
#include "folder.h"
#include "h2.h"
#include "message.h"
#include "prelude.h"
#include "tls.h"

static struct service_poll *poll_of(const struct service_channel *c) { return &service_lane_of(c)->worker->poll; }

bool service_socket_adopt(struct service_channel *c, int fd, bool tls)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->fd = fd;
    c->link = SERVICE_OPEN;
    c->readable = c->writable = true;
    if (tls && !service_tls_accept(c))
        service_count(c->instance, SERVICE_TLS_REFUSED, 1);
    else if (service_poll_add(poll_of(c), fd, SERVICE_WATCH_CHANNEL, (uint64_t)(uintptr_t)c))
        return true;
    service_io_close(c);
    return false;
}

/* The address of a backend; that to which `bind` has bound the channel, if there is one. */
static struct service_address address_of(const struct service_channel *c)
{
    struct service_address found = service_lane_of(c)->config->backends[c->port][c->index];

    if (c->address && found.storage.ss_family == AF_INET)
        ((struct sockaddr_in *)&found.storage)->sin_addr.s_addr = htonl(c->address);
    return found;
}

/* One more connection to the backend of a channel. False if it has as many as it may. */
static bool join(struct service_channel *c)
{
    struct service_backend *backend = service_backend_state(c);
    uint32_t most = c->instance->core->most;

    if (!backend || atomic_fetch_add_explicit(&backend->load, 1, memory_order_relaxed) < most || most == 0)
        return true;
    atomic_fetch_sub_explicit(&backend->load, 1, memory_order_relaxed);
    return false;
}

static void leave(struct service_channel *c)
{
    struct service_backend *backend = service_backend_state(c);

    if (backend)
        atomic_fetch_sub_explicit(&backend->load, 1, memory_order_relaxed);
}

/* Closes the descriptor of a channel, with its TLS. */
static void close_socket(struct service_channel *c)
{
    if (c->secure)
        service_tls_end(c);
    if (c->fd >= 0) {
        service_poll_remove(poll_of(c), c->fd, true);
        close(c->fd);
    }
    c->fd = -1;
    c->out_since = 0;
}

/* There is no socket for a channel. */
static bool fail_to_open(struct service_channel *c, enum service_counter reason)
{
    if (c->cached) /* what is stored may be used: the channel itself stays, and counts its connection when it ends */
        close_socket(c);
    else if (c->fd >= 0)
        service_io_close(c);
    else
        leave(c);
    if (c->cached)
        c->link = SERVICE_OPEN;
    service_fail(c->instance, reason);
    return false;
}

bool service_socket_dial(struct service_channel *c)
{
    struct service_address address = address_of(c);
    int on = 1;

    c->fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return fail_to_open(c, SERVICE_CONNECT_FAILED);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->link = SERVICE_CONNECTING;
    if (address.name && !service_tls_connect(c, &address))
        return fail_to_open(c, SERVICE_TLS_MEMORY);
    service_count(c->instance, SERVICE_CONNECTED, 1);
    if ((connect(c->fd, (const struct sockaddr *)&address.storage, address.length) != 0 && errno != EINPROGRESS) ||
        !service_poll_add(poll_of(c), c->fd, SERVICE_WATCH_CHANNEL, (uint64_t)(uintptr_t)c))
        return fail_to_open(c, SERVICE_CONNECT_FAILED);
    return true;
}

/* The connection of a channel: one of the pool, a stream of HTTP/2, or one that begins. False if there is none; the fault is
 * set. */
static bool open_socket(struct service_channel *c)
{
    bool stream = service_lane_of(c)->config->backends[c->port][c->index].http2, watched;

    c->fd = service_kept_take(c);
    c->reused = c->fd >= 0 && !stream;
    c->stream = stream;
    if (c->fd >= 0) {
        watched = service_poll_change(poll_of(c), c->fd, SERVICE_WATCH_CHANNEL, (uint64_t)(uintptr_t)c);
    } else if (stream) { /* of the address that is configured, not of one that `bind` has given */
        c->fd = c->address ? -1 : service_h2_pair(c);
        watched = c->fd >= 0 && service_poll_add(poll_of(c), c->fd, SERVICE_WATCH_CHANNEL, (uint64_t)(uintptr_t)c);
    } else {
        return service_socket_dial(c);
    }
    c->link = c->fd >= 0 ? SERVICE_OPEN : SERVICE_CLOSED;
    c->readable = c->writable = true;
    return watched || fail_to_open(c, SERVICE_CONNECT_FAILED);
}

bool service_io_open(struct service_channel *c)
{
    if (!service_lane_of(c)->config->backends[c->port]) {
        service_fail(c->instance, SERVICE_CLOSED_CHANNEL);
        return false;
    }
    c->readable = c->writable = c->hung_up = c->in_ended = c->out_ended = c->cut = false;
    if (service_cache_serves(c)) { /* it is connected when a request has to go there */
        service_cache_open(c);
        return true;
    }
    if (!join(c)) {
        service_fail(c->instance, SERVICE_BACKEND_FULL);
        return false;
    }
    if (service_folder_of(c) >= 0) {
        service_folder_begin(c);
        return true;
    }
    return open_socket(c);
}

/* Handles epoll's report on a channel. False if its connection could not be made. */
bool service_socket_event(struct service_channel *c, uint32_t events)
{
    if (c->link == SERVICE_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
        int error = 0;
        socklen_t length = sizeof error;

        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0 ||
            (service_lane_of(c)->config->sends_proxy && !service_prelude_send(c))) {
            service_fail(c->instance, SERVICE_CONNECT_FAILED);
            return false;
        }
        c->link = SERVICE_OPEN;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->hung_up = true;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        c->writable = true;
    if (c->secure && c->link == SERVICE_OPEN) /* each of its functions may have waited for either */
        c->readable = c->writable = true;
    return true;
}

/* Reads from a connection; as read(2). */
static ssize_t take(struct service_channel *c, void *bytes, size_t size)
{
    return c->secure ? service_tls_read(c, bytes, size) : read(c->fd, bytes, size);
}

static ssize_t give(struct service_channel *c, const void *bytes, size_t size)
{
    return c->secure ? service_tls_send(c, bytes, size) : send(c->fd, bytes, size, MSG_NOSIGNAL);
}

/* Why a connection has failed, by `errno`. */
static enum service_counter failure(const struct service_channel *c)
{
    if (c->secure && errno == EPROTO)
        return SERVICE_TLS_BROKEN;
    return c->secure && errno == ENOMEM ? SERVICE_TLS_MEMORY : SERVICE_RESET;
}

bool service_socket_cut(const struct service_channel *c, const struct service_tail *tail)
{
    struct pollfd found = {.fd = c->fd, .events = POLLIN};

    return c->stream && tail->kind == SERVICE_TO_THE_END && poll(&found, 1, 0) == 1 && found.revents & (POLLHUP | POLLERR);
}

bool service_io_fill(struct service_channel *c)
{
    struct service_instance *self = c->instance;
    struct service_buffers *pool = &self->core->buffers;

    if (c->fd < 0 && !c->cached)
        return service_folder_fill(c);
    if (c->secure && !service_tls_ready(c))
        return !self->fault;
    if (c->cached)
        return service_cache_fill(c);
    while (c->readable) {
        ssize_t got;
        uint32_t room;

        if (!c->in && !(c->in = service_buffer_for(self)))
            return true;
        /* Half of the buffer is free at least: a byte is moved once for each one that is received. */
        if (c->in->start >= pool->size / 2 && c->taken == 0 && !c->pinned && pool->size - c->in->end < pool->size / 2)
            service_buffer_compact(c->in);
        if (c->in->start && c->taken == 0 && !c->pinned && c->need > pool->size - c->in->start)
            service_buffer_compact(c->in);
        room = pool->size - c->in->end;
        if (room == 0)
            return true;
        got = take(c, c->in->bytes + c->in->end, room);
        if (got > 0) {
            c->in->end += (uint32_t)got;
            /* Less than there was room for is all that had come; but the end may have come with it, and is reported
             * only once. */
            c->readable = (uint32_t)got == room || c->hung_up || c->secure;
            if (service_transit(c))
                c->due_since = self->core->now;
            self->progressed = true;
            service_count(self, SERVICE_BYTES_IN, (uint64_t)got);
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        c->readable = false;
        service_empty_in(c);
        if (got < 0 && errno != EAGAIN && c->reopens && service_left(c) && !c->in_ended) {
            c->in_ended = c->cut = self->progressed = true; /* an answer that has come before a reset is complete */
            return true;
        }
        if (got < 0 && errno != EAGAIN) {
            service_fail(self, failure(c));
            return false;
        }
        if (got == 0 && service_socket_cut(c, &c->tail)) {
            service_fail(self, SERVICE_RESET);
            return false;
        }
        if (got == 0 && !c->in_ended) {
            c->in_ended = true;
            self->progressed = true;
        }
    }
    return true;
}

bool service_socket_answered(struct service_channel *c)
{
    struct service_instance *self = c->instance;
    uint8_t byte;

    if (!c->reopens || c->secure || (!service_left(c) && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0))
        return false;
    if (c->out)
        service_buffer_give(&self->core->buffers, c->out);
    c->out = NULL;
    c->out_since = 0;
    c->writable = false;
    c->readable = c->hung_up = c->cut = self->progressed = true;
    return true;
}

bool service_io_flush(struct service_channel *c)
{
    struct service_instance *self = c->instance;

    if (c->fd < 0 && !c->cached)
        return service_folder_flush(c);
    if (c->secure && !service_tls_ready(c))
        return !self->fault;
    if (c->cached)
        return service_cache_flush(c);
    while (c->out && c->out->start < c->out->end) {
        ssize_t sent = give(c, c->out->bytes + c->out->start, c->out->end - c->out->start);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            service_blocked(c);
            return true;
        }
        if (sent < 0 && service_socket_answered(c))
            return true;
        if (sent < 0) {
            service_fail(self, failure(c));
            return false;
        }
        c->out->start += (uint32_t)sent;
        service_moved(&c->out_bytes, (uint64_t)sent);
        self->progressed = true;
        service_count(self, SERVICE_BYTES_OUT, (uint64_t)sent);
    }
    c->out_since = 0;
    if (c->out) {
        service_buffer_give(&self->core->buffers, c->out);
        c->out = NULL;
    }
    if (c->out_ending && !c->out_ended && !c->from && !service_parks(c)) {
        if (c->secure && !service_tls_shut(c)) {
            c->writable = false;
            return true;
        }
        shutdown(c->fd, SHUT_WR);
        c->out_ended = true;
        self->progressed = true;
    }
    return true;
}

void service_io_close(struct service_channel *c)
{
    struct service_buffers *pool = &c->instance->core->buffers;

    if (c->link != SERVICE_CLOSED) {
        if (!c->cached || service_cache_joined(c))
            leave(c);
        if (c->fd < 0 && !c->cached)
            service_folder_end(c);
    }
    if (c->pipe)
        service_pipe_give(c);
    close_socket(c);
    if (c->cached)
        service_cache_close(c);
    c->link = SERVICE_CLOSED;
    c->readable = c->writable = c->parked = false;
    if (c->in)
        service_buffer_give(pool, c->in);
    if (c->out)
        service_buffer_give(pool, c->out);
    c->in = c->out = NULL;
}

/* --- of a channel whose responses are cached, cache.h */

bool service_socket_connect(struct service_channel *c)
{
    if (!join(c)) {
        service_fail(c->instance, SERVICE_BACKEND_FULL);
        return false;
    }
    service_cache_join(c);
    c->hung_up = c->cut = false;
    return open_socket(c);
}

void service_socket_disconnect(struct service_channel *c)
{
    if (service_cache_joined(c))
        leave(c);
    close_socket(c);
    c->link = SERVICE_OPEN;
    c->hung_up = false;
}

ssize_t service_socket_take(struct service_channel *c, void *bytes, size_t size) { return take(c, bytes, size); }

ssize_t service_socket_give(struct service_channel *c, const void *bytes, size_t size) { return give(c, bytes, size); }

void service_socket_fail(struct service_channel *c) { service_fail(c->instance, failure(c)); }
