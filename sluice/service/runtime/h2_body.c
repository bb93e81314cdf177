/* What a stream passes between its frames and the pair of sockets to the program: the same for requests of clients and for
 * responses of backends, and the other way for what the program sends. */
#include "h2_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

/* Sends bytes: returns their number, or -1 if the program accepts no more. */
static ssize_t give(struct service_h2_stream *stream, const void *bytes, size_t size)
{
    ssize_t sent = send(stream->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent >= 0) {
        if (sent > 0)
            service_h2_progress(stream);
        return sent;
    }
    stream->writable = false;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* Sends bytes of a buffer, and gives it back when it is empty. */
static ssize_t give_buffer(struct service_h2_stream *stream, struct service_buffer **buffer, uint32_t most)
{
    uint32_t held = service_buffer_held(*buffer);
    ssize_t sent = give(stream, (*buffer)->bytes + (*buffer)->start, held < most ? held : most);

    if (sent > 0)
        (*buffer)->start += (uint32_t)sent;
    if (service_buffer_held(*buffer) == 0) {
        service_buffer_give(&stream->lane->core.buffers, *buffer);
        *buffer = NULL;
    }
    return sent;
}

/* Data has left the window of its stream. That of a backend's connection is open whatever the streams hold, so that a slow
 * client does not stop those of others. */
static void consumed(struct service_h2_stream *stream, size_t size)
{
    if (!stream->h2 || !stream->id)
        return;
    if (stream->h2->uplink)
        nghttp2_session_consume_stream(stream->h2->session, stream->id, size);
    else
        nghttp2_session_consume(stream->h2->session, stream->id, size);
}

bool service_h2_take(struct service_h2_stream *stream, const uint8_t *data, size_t size)
{
    struct service_buffers *pool = &stream->lane->core.buffers;

    if (!stream->body)
        stream->body = service_buffer_take(pool);
    if (stream->body && size > pool->size - stream->body->end)
        service_buffer_compact(stream->body);
    if (!stream->body || size > pool->size - stream->body->end) /* the window is as large as a buffer */
        return false;
    memcpy(stream->body->bytes + stream->body->end, data, size);
    stream->body->end += (uint32_t)size;
    service_h2_ready(stream);
    return true;
}

static void set_mark(struct service_h2_stream *stream, const char *format, uint32_t size)
{
    stream->mark_at = 0;
    stream->mark_size = (uint8_t)snprintf(stream->mark, sizeof stream->mark, format, size);
}

bool service_h2_send(struct service_h2_stream *stream)
{
    ssize_t sent = 1;

    while (sent > 0 && stream->writable && !stream->sent) {
        if (stream->head) {
            sent = give_buffer(stream, &stream->head, UINT32_MAX);
        } else if (stream->mark_at < stream->mark_size) {
            sent = give(stream, stream->mark + stream->mark_at, (size_t)(stream->mark_size - stream->mark_at));
            if (sent > 0)
                stream->mark_at += (uint8_t)sent;
        } else if (stream->chunk) {
            sent = give_buffer(stream, &stream->body, stream->chunk);
            if (sent > 0) {
                stream->chunk -= (uint32_t)sent;
                consumed(stream, (size_t)sent);
                if (stream->chunk == 0 && stream->chunked)
                    set_mark(stream, "\r\n", 0);
            }
        } else if (stream->body) {
            stream->chunk = service_buffer_held(stream->body);
            if (stream->chunked)
                set_mark(stream, "%x\r\n", stream->chunk);
        } else if (stream->over) {
            stream->sent = true;
            if (stream->chunked) {
                stream->sent = false;
                stream->chunked = false;
                set_mark(stream, "0\r\n\r\n", 0);
            }
        } else {
            break;
        }
    }
    return sent >= 0;
}

bool service_h2_fill(struct service_h2_stream *stream)
{
    struct service_instance *self = stream->h2->self;
    struct service_buffers *pool = &self->core->buffers;
    uint32_t room;
    ssize_t got;

    if (!stream->readable || stream->ended)
        return !stream->ended;
    if (!stream->input && !(stream->input = service_buffer_for(self)))
        return true;
    if (stream->input->start)
        service_buffer_compact(stream->input);
    room = pool->size - stream->input->end;
    if (room == 0)
        return true;
    got = recv(stream->fd, stream->input->bytes + stream->input->end, room, MSG_DONTWAIT);
    if (got > 0) {
        stream->input->end += (uint32_t)got;
        if (stream->h2->uplink && (uint32_t)got < room) /* its end is reported by itself */
            stream->readable = false;
        self->progressed = true;
        return true;
    }
    if (got < 0 && errno == EINTR)
        return true;
    stream->readable = false;
    stream->ended = got == 0 || errno != EAGAIN;
    return !stream->ended;
}

void service_h2_drop_input(struct service_h2_stream *stream)
{
    if (stream->input && service_buffer_held(stream->input) == 0) {
        service_buffer_give(&stream->lane->core.buffers, stream->input);
        stream->input = NULL;
    }
}

enum service_parsed service_h2_find_head(struct service_h2_stream *stream, struct service_h2_head *head)
{
    for (;;) {
        bool more = service_h2_fill(stream);
        uint32_t held = service_buffer_held(stream->input);
        enum service_parsed found;

        *head = (struct service_h2_head){.at = held ? stream->input->bytes + stream->input->start : NULL};
        head->line = held ? service_line(head->at, held) : 0;
        found = head->line ? service_headers(head->at + head->line, held - head->line, &head->size) : SERVICE_MORE;
        if (found != SERVICE_MORE)
            return found;
        if (!more || held == stream->lane->core.buffers.size)
            return SERVICE_MALFORMED;
        if (!stream->readable || stream->h2->self->starved) {
            service_h2_drop_input(stream);
            return SERVICE_MORE;
        }
    }
}

void service_h2_drop_head(struct service_h2_stream *stream, const struct service_h2_head *head)
{
    stream->input->start += (uint32_t)(head->line + head->size + 2);
    service_h2_drop_input(stream);
}

/* The framing of chunks before data, and trailers, which are dropped. False if it is not there, or is wrong. */
static bool next_part(struct service_h2_stream *stream, bool *bad)
{
    struct service_buffer *held = stream->input;
    uint64_t take = 0, need = 0, line = 0;
    uint8_t state = stream->tail.state;

    if (!held || service_buffer_held(held) == 0)
        return false;
    if (state == 0 && stream->tail.kind == SERVICE_CHUNKS)
        line = service_line(held->bytes + held->start, service_buffer_held(held));
    stream->tail.allowed = SERVICE_UNBOUNDED; /* of each part: there may be any number */
    switch (service_next_part(&stream->tail, held->bytes + held->start, service_buffer_held(held), &take, &need)) {
    case SERVICE_MALFORMED:
        *bad = true;
        return false;
    case SERVICE_MORE:
        *bad = service_buffer_held(held) == stream->lane->core.buffers.size;
        return false;
    case SERVICE_READY:
        break;
    }
    if (stream->tail.kind == SERVICE_TO_THE_END) {
        stream->left = take;
    } else if (state == 0) {
        held->start += (uint32_t)line;
        stream->left = take - line;
    } else {
        held->start += (uint32_t)take;
    }
    return true;
}

/* Whether the end of the bytes is the end of the body: the program has shut its side, and not closed it, as it does after
 * a fault. It closes it after a shutdown only when this side has closed its own. */
static bool is_whole(const struct service_h2_stream *stream)
{
    struct pollfd found = {.fd = stream->fd, .events = POLLIN};

    return poll(&found, 1, 0) == 1 && !(found.revents & (POLLHUP | POLLERR));
}

ssize_t service_h2_read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                             nghttp2_data_source *source, void *argument)
{
    struct service_h2_stream *stream = source->ptr;
    size_t size = 0;
    bool bad = false;

    (void)session, (void)id, (void)argument;
    if (stream->fd < 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    while (size < room) {
        uint32_t held = service_buffer_held(stream->input);

        if (stream->left && held) {
            uint64_t some = stream->left < held ? stream->left : held;

            some = some < room - size ? some : room - size;
            memcpy(to + size, stream->input->bytes + stream->input->start, some);
            stream->input->start += (uint32_t)some;
            stream->left -= some;
            size += some;
        } else if (stream->left == 0 && stream->tail.kind == SERVICE_NO_TAIL) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
            stream->state = SERVICE_H2_DONE;
            break;
        } else if (stream->left || !next_part(stream, &bad)) {
            uint32_t before = service_buffer_held(stream->input);

            if (bad)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
            service_h2_drop_input(stream);
            if (!service_h2_fill(stream)) {
                if (stream->tail.kind != SERVICE_TO_THE_END || service_buffer_held(stream->input) || !is_whole(stream))
                    return size ? (ssize_t)size : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                stream->tail.kind = SERVICE_NO_TAIL; /* its end is the end of the body */
                stream->left = 0;
            } else if (service_buffer_held(stream->input) == before) {
                break; /* there is nothing now */
            }
        }
    }
    service_h2_drop_input(stream);
    service_moved(&stream->slow_bytes, size);
    if (size == 0 && !(*flags & NGHTTP2_DATA_FLAG_EOF)) {
        stream->deferred = true;
        if (stream->h2->self->starved) /* no event of its socket comes when there is a buffer again */
            service_h2_ready(stream);
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)size;
}

/* Whether a field is one of the connection (RFC 9113, section 8.2.2). */
static bool of_connection(struct service_text name)
{
    static const char *const all[] = {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding",
                                      "upgrade"};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (service_same(name, service_literal(all[i])))
            return true;
    return false;
}

int service_h2_read_fields(uint8_t *at, uint64_t size, nghttp2_nv *fields, int count, bool request)
{
    for (uint64_t line; size && (line = service_line(at, size)); at += line, size -= line) {
        uint32_t length = 0;
        struct service_text name, value;

        for (; at[length] != ':'; length++)
            at[length] = service_lower(at[length]);
        name = (struct service_text){at, length};
        if (of_connection(name) || (request && service_same(name, service_literal("host"))))
            continue;
        if (count == SERVICE_H2_FIELDS)
            return -1;
        value = service_trim((struct service_text){at + length + 1, (uint32_t)line - 3 - length});
        fields[count++] = (nghttp2_nv){at, (uint8_t *)(uintptr_t)value.at, length, value.length, NGHTTP2_NV_FLAG_NONE};
    }
    return count;
}
