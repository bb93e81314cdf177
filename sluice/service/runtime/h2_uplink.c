/* Connections of HTTP/2 to backends. Channels with such a backend are connected to a pair of sockets instead, which is used again
 * as any connection to a backend is; each request on it becomes a stream of a connection that the worker's channels share.
 *
 * A connection takes as many streams as the backend lets it have; more requests open another one, up to SERVICE_UPLINKS
 * besides those that accept no more streams, and then wait: not within nghttp2, where one whose client has gone would wait, too.
 * A request that the backend has refused, or that it cannot have seen, is sent again if it has no body; the program sees
 * anything else as a connection that a backend has closed.
 */
#include "h2_parts.h"

#include <sys/epoll.h>

#include "tls.h"

/* More streams than can have been given to a connection, and have no number yet, follow it. */
enum { LAST = INT32_MAX - (1 << 20) };

/* Streams that a backend lets a connection have. */
static uint32_t room_of(const struct service_h2 *h2)
{
    return nghttp2_session_get_remote_settings(h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

/* Begins to connect a backend. Null if that is not possible. */
static struct service_h2 *connect_uplink(struct service_lane *lane, uint32_t backend)
{
    struct service_instance *instance = service_lane_uplink(lane);
    struct service_h2 *h2 = instance ? service_h2_allocate(sizeof *h2) : NULL;

    if (!h2) {
        if (instance)
            service_lane_give(lane, instance);
        return NULL;
    }
    *h2 = (struct service_h2){.self = instance,
                              .peer = &instance->channels[backend],
                              .uplink = true,
                              .heard_at = lane->core.now,
                              .next = lane->uplinks[backend]};
    lane->uplinks[backend] = h2;
    instance->h2 = h2;
    h2->peer->reopens = false; /* the channels of its streams are those that are counted */
    if (service_h2_make_uplink(h2) && service_socket_dial(h2->peer)) {
        service_count(instance, SERVICE_H2_UPLINKS, 1);
        return h2;
    }
    service_count(instance, instance->fault ? instance->fault : SERVICE_H2_MEMORY, 1);
    service_lane_give(lane, instance);
    return NULL;
}

/* Whether a connection has hardly any numbers left for streams, which are never used again (RFC 9113, section 5.1.1): it takes no
 * more, and ends after those that it has. */
static bool worn_out(struct service_h2 *h2)
{
    if (nghttp2_session_get_next_stream_id(h2->session) < LAST)
        return false;
    h2->goaway = true;
    nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    service_lane_queue(service_lane_of(h2->peer), h2->self);
    return true;
}

/* The connection for one more stream: that with the fewest. Null if there is none. */
static struct service_h2 *choose(struct service_lane *lane, uint32_t backend)
{
    struct service_h2 *found = NULL, *other;
    uint32_t count = 0, all = 0;

    if (atomic_load_explicit(&lane->worker->team->stopping, memory_order_relaxed))
        return NULL;
    for (struct service_h2 *each = lane->uplinks[backend]; each; each = each->next, all++) {
        if (each->goaway || each->failed || each->self->fault || worn_out(each))
            continue;
        count++;
        if (!found || each->active < found->active)
            found = each;
    }
    if (count == SERVICE_UPLINKS || all == SERVICE_ALL_UPLINKS || (found && found->active < room_of(found)))
        return found;
    other = connect_uplink(lane, backend);
    return other ? other : found;
}

/* A stream waits for room no more. */
static void stop_waiting(struct service_h2_stream *stream)
{
    if (!stream->waits)
        return;
    if (stream->waits_before)
        stream->waits_before->waits_after = stream->waits_after;
    else
        stream->h2->waiting = stream->waits_after;
    if (stream->waits_after)
        stream->waits_after->waits_before = stream->waits_before;
    else
        stream->h2->waiting_last = stream->waits_before;
    stream->waits = false;
}

/* The request is the next one of a connection. */
static void join(struct service_h2_stream *stream, struct service_h2 *h2)
{
    stream->h2 = h2;
    service_h2_ready(stream);
    service_lane_queue(stream->lane, h2->self);
}

/* Whether a request cannot be sent by its connection, whose room others have that were chosen for it in the same turn. It then goes
 * to another connection, or waits for the end of their streams. */
static bool has_no_room(struct service_h2_stream *stream)
{
    struct service_h2 *h2 = stream->h2, *other;
    bool admitted = stream->admitted && h2->active < room_of(h2);

    stream->admitted = false;
    if (stream->waits || admitted || (h2->active < room_of(h2) && !h2->waiting))
        return stream->waits;
    other = choose(stream->lane, stream->backend);
    if (other && other != h2 && other->active < room_of(other)) {
        join(stream, other);
        return true;
    }
    stream->waits = true;
    stream->waits_before = h2->waiting_last;
    stream->waits_after = NULL;
    if (h2->waiting_last)
        h2->waiting_last->waits_after = stream;
    else
        h2->waiting = stream;
    h2->waiting_last = stream;
    service_count(h2->self, SERVICE_H2_WAITED, 1);
    return true;
}

void service_h2_admit(struct service_h2 *h2)
{
    uint32_t room = room_of(h2), left = h2->goaway ? UINT32_MAX : room - (h2->active < room ? h2->active : room);

    for (struct service_h2_stream *stream; left && (stream = h2->waiting); left--) {
        stop_waiting(stream);
        stream->admitted = true;
        service_h2_ready(stream);
        h2->self->progressed = true;
    }
}

/* A request comes: a connection is chosen for it. */
static void attach(struct service_h2_stream *stream)
{
    struct service_h2 *h2 = choose(stream->lane, stream->backend);

    if (h2) {
        join(stream, h2);
        return;
    }
    stream->h2 = NULL;
    service_core_count(&stream->lane->core, SERVICE_H2_GIVEN_UP, 1);
    service_h2_break(stream);
}

int service_h2_pair(struct service_channel *c)
{
    struct service_lane *lane = service_lane_of(c);
    struct service_h2_stream *stream = service_h2_allocate(sizeof *stream);
    int other;

    if (!stream)
        return -1;
    *stream = (struct service_h2_stream){
        .lane = lane, .backend = service_backend_of(c), .fd = -1, .writable = true, .next = lane->pairs};
    other = service_h2_open_pair(stream, SERVICE_PAIR);
    if (other < 0) {
        service_h2_release(stream);
        return -1;
    }
    if (lane->pairs)
        lane->pairs->before = stream;
    lane->pairs = stream;
    return other;
}

void service_h2_free(struct service_h2_stream *stream)
{
    if (stream->fd >= 0 || stream->id || stream->queued)
        return;
    if (stream->before)
        stream->before->next = stream->next;
    else
        stream->lane->pairs = stream->next;
    if (stream->next)
        stream->next->before = stream->before;
    service_h2_release(stream);
}

void service_h2_break(struct service_h2_stream *stream)
{
    stop_waiting(stream);
    service_h2_close_pair(stream);
    service_h2_give_back(stream);
    service_h2_release(stream->request);
    stream->request = NULL;
    if (stream->id) { /* its memory stays until the session reports its end */
        nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        service_lane_queue(stream->lane, stream->h2->self);
    }
    service_h2_free(stream);
}

void service_h2_settle(struct service_h2_stream *stream)
{
    if (stream->closes || stream->state != SERVICE_H2_DONE) { /* the program closes it */
        if (!stream->request->shut)
            shutdown(stream->fd, SHUT_WR);
        stream->request->shut = true;
        return;
    }
    service_h2_release(stream->request);
    stream->request = NULL;
    stream->state = SERVICE_H2_HEAD;
    stream->over = stream->sent = stream->chunked = stream->bodiless = stream->deferred = false;
    stream->chunk = stream->mark_at = stream->mark_size = 0;
    if (stream->queued)
        return;
    stream->h2 = NULL;
    if (stream->readable || stream->input)
        attach(stream);
}

bool service_h2_repeat(struct service_h2_stream *stream)
{
    struct service_h2_request *request = stream->request;
    struct service_h2_head head = {request->head, request->line, request->size};

    if (request->size == 0 || request->answered || request->tries > SERVICE_H2_REPEATS)
        return false;
    stream->h2 = choose(stream->lane, stream->backend);
    if (!stream->h2 || !service_h2_ask(stream, &head))
        return false;
    service_count(stream->h2->self, SERVICE_H2_REPEATED, 1);
    service_lane_queue(stream->lane, stream->h2->self);
    return true;
}

/* Reads a request as far as its head, and sends that. False if it is none. */
static bool read_request(struct service_h2_stream *stream)
{
    struct service_h2_head head;
    enum service_parsed found = service_h2_find_head(stream, &head);

    if (found == SERVICE_MORE)
        return true;
    if (found == SERVICE_MALFORMED || !service_h2_ask(stream, &head))
        return false;
    service_h2_drop_head(stream, &head);
    service_count(stream->h2->self, SERVICE_H2_ASKED, 1);
    return true;
}

/* Sends the response, as far as the program accepts it. False if it accepts no more; the stream is not used then. */
static bool pass(struct service_h2_stream *stream)
{
    if (!service_h2_send(stream)) {
        service_h2_break(stream);
        return false;
    }
    if (stream->sent && !stream->id)
        service_h2_settle(stream);
    return true;
}

void service_h2_run_pair(const struct service_h2 *h2, struct service_h2_stream *stream)
{
    if (stream->fd < 0) {
        service_h2_free(stream);
        return;
    }
    if (stream->h2 && stream->h2 != h2) { /* its request was sent again by another connection */
        service_h2_ready(stream);
        service_lane_queue(stream->lane, stream->h2->self);
        return;
    }
    if (stream->request && stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->h2->session, stream->id);
    }
    if (stream->request) {
        pass(stream); /* a response of which all is here needs no connection any more */
        return;
    }
    if (!stream->h2 || stream->h2->goaway) { /* its connection has ended, or takes no more streams */
        stop_waiting(stream);
        attach(stream);
    } else if (has_no_room(stream)) {
        return;
    } else if (read_request(stream)) {
        if (stream->h2->self->starved)
            service_h2_ready(stream);
        else if (!stream->request)
            stream->h2 = NULL;
    } else {
        service_count(stream->h2->self, SERVICE_H2_UNASKED, 1);
        service_h2_break(stream);
    }
}

void service_h2_pair_event(void *target, uint32_t events)
{
    struct service_h2_stream *stream = target;

    if (stream->fd < 0)
        return;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) { /* the program has closed it */
        service_h2_break(stream);
        return;
    }
    stream->readable |= (events & EPOLLIN) != 0;
    stream->writable |= (events & EPOLLOUT) != 0;
    if (stream->h2) {
        service_h2_ready(stream);
        service_lane_queue(stream->lane, stream->h2->self);
    } else if (stream->request) {
        pass(stream);
    } else if (stream->readable || stream->input) {
        attach(stream);
    }
}

bool service_h2_reached(struct service_h2 *h2)
{
    struct service_channel *c = h2->peer;

    if (c->link != SERVICE_OPEN)
        return false;
    if (!c->secure || h2->heard)
        return true;
    if (!service_tls_ready(c))
        return false;
    if (!service_tls_speaks(c, "h2"))
        service_fail(h2->self, SERVICE_H2_UNSPOKEN);
    return !h2->self->fault;
}

bool service_h2_silent(struct service_instance *self)
{
    struct service_h2 *h2 = self->h2;
    uint32_t limit = service_lane_of(h2->peer)->config->timeout, since = self->core->now - h2->heard_at;

    if (!h2->uplink || !limit || (h2->heard && !h2->active))
        return false;
    if (since > limit) /* it ends now: it may not be queued */
        return true;
    if (since > limit / 2 && h2->heard && !h2->pinged) {
        h2->pinged = true;
        nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
        service_lane_queue(service_lane_of(h2->peer), self);
    }
    return false;
}

/* The connection of a stream has ended. */
static void leave(struct service_h2_stream *stream, bool worked)
{
    bool asked = stream->request && stream->request->asked;

    stop_waiting(stream);
    stream->id = 0;
    stream->h2 = NULL;
    stream->deferred = false;
    if (stream->fd < 0)
        service_h2_free(stream);
    else if (!stream->request && worked)
        attach(stream);
    else if (stream->request && stream->over)
        pass(stream);
    else if (!worked || asked || !stream->request || !service_h2_repeat(stream))
        service_h2_break(stream);
}

void service_h2_end_uplink(struct service_h2 *h2)
{
    struct service_lane *lane = service_lane_of(h2->peer);
    struct service_h2 **link = &lane->uplinks[h2->peer - h2->self->channels];
    struct service_h2_stream *next;

    while (*link != h2)
        link = &(*link)->next;
    *link = h2->next;
    for (struct service_h2_stream *stream = h2->ready; stream; stream = next) {
        next = stream->ready;
        stream->queued = false;
        if (stream->h2 != h2) /* its request was sent again by another connection */
            service_h2_run_pair(h2, stream);
    }
    if (h2->session)
        nghttp2_session_del(h2->session);
    h2->session = NULL;
    h2->self->h2 = NULL;
    for (struct service_h2_stream *stream = lane->pairs; stream; stream = next) {
        next = stream->next;
        if (stream->h2 == h2)
            leave(stream, h2->heard);
    }
    service_h2_release(h2);
}

void service_h2_close_pairs(struct service_lane *lane)
{
    struct service_h2_stream *next;

    for (struct service_h2_stream *stream = lane->pairs; stream; stream = next) {
        next = stream->next;
        service_h2_break(stream);
    }
}
