/* A response of HTTP/1.1 as one of HTTP/2 (RFC 9113, section 8.3.2). */
#include "h2_parts.h"

#include <errno.h>
#include <poll.h>

/* Reads the program's output. False at its end. */
static bool fill(struct service_h2_stream *stream)
{
    struct service_instance *self = stream->h2->self;
    struct service_buffers *pool = &self->core->buffers;
    ssize_t got;

    if (!stream->readable || stream->ended)
        return !stream->ended;
    if (!stream->response && !(stream->response = service_buffer_for(self)))
        return true;
    if (stream->response->start)
        service_buffer_compact(stream->response);
    if (stream->response->end == pool->size)
        return true;
    got = recv(stream->fd, stream->response->bytes + stream->response->end, pool->size - stream->response->end, MSG_DONTWAIT);
    if (got > 0) {
        stream->response->end += (uint32_t)got;
        self->progressed = true;
        return true;
    }
    if (got < 0 && errno == EINTR)
        return true;
    stream->readable = false;
    stream->ended = got == 0 || errno != EAGAIN;
    return !stream->ended;
}

static void drop_empty(struct service_h2_stream *stream)
{
    if (stream->response && service_buffer_held(stream->response) == 0) {
        service_buffer_give(&stream->h2->self->core->buffers, stream->response);
        stream->response = NULL;
    }
}

/* The framing of chunks before data, and trailers, which are dropped. False if it is not there, or is wrong. */
static bool next_part(struct service_h2_stream *stream, bool *bad)
{
    struct service_buffer *held = stream->response;
    uint64_t take = 0, need = 0, line = 0;
    uint8_t state = stream->tail.state;

    if (!held || service_buffer_held(held) == 0)
        return false;
    if (state == 0 && stream->tail.kind == SERVICE_CHUNKS)
        line = service_line(held->bytes + held->start, service_buffer_held(held));
    stream->tail.allowed = UINT32_MAX;
    switch (service_next_part(&stream->tail, held->bytes + held->start, service_buffer_held(held), &take, &need)) {
    case SERVICE_MALFORMED:
        *bad = true;
        return false;
    case SERVICE_MORE:
        *bad = service_buffer_held(held) == stream->h2->self->core->buffers.size;
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

/* Bytes of a body for nghttp2. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *argument)
{
    struct service_h2_stream *stream = source->ptr;
    size_t size = 0;
    bool bad = false;

    (void)session, (void)id, (void)argument;
    while (size < room) {
        uint32_t held = service_buffer_held(stream->response);

        if (stream->left && held) {
            uint64_t some = stream->left < held ? stream->left : held;

            some = some < room - size ? some : room - size;
            memcpy(to + size, stream->response->bytes + stream->response->start, some);
            stream->response->start += (uint32_t)some;
            stream->left -= some;
            size += some;
        } else if (stream->left == 0 && stream->tail.kind == SERVICE_NO_TAIL) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
            stream->state = SERVICE_H2_DONE;
            break;
        } else if (stream->left || !next_part(stream, &bad)) {
            uint32_t before = service_buffer_held(stream->response);

            if (bad)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
            drop_empty(stream);
            if (!fill(stream)) {
                if (stream->tail.kind != SERVICE_TO_THE_END || service_buffer_held(stream->response) || !is_whole(stream))
                    return size ? (ssize_t)size : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                stream->tail.kind = SERVICE_NO_TAIL; /* its end is the end of the body */
                stream->left = 0;
            } else if (service_buffer_held(stream->response) == before) {
                break; /* there is nothing now */
            }
        }
    }
    drop_empty(stream);
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

/* The fields of a head, whose names are lower case then: their number; -1 if there are too many. */
static int read_fields(uint8_t *at, uint64_t size, nghttp2_nv *fields)
{
    int count = 1;

    for (uint64_t line; size && (line = service_line(at, size)); at += line, size -= line) {
        uint32_t name = 0;
        struct service_text value;

        for (; at[name] != ':'; name++)
            at[name] = service_lower(at[name]);
        if (of_connection((struct service_text){at, name}))
            continue;
        if (count == SERVICE_H2_FIELDS)
            return -1;
        value = service_trim((struct service_text){at + name + 1, (uint32_t)line - 3 - name});
        fields[count++] = (nghttp2_nv){at, (uint8_t *)(uintptr_t)value.at, name, value.length, NGHTTP2_NV_FLAG_NONE};
    }
    return count;
}

/* Sends the head in the buffer, of `line` bytes for its first line and `size` of its fields. */
static bool send_head(struct service_h2_stream *stream, uint8_t *at, uint64_t line, uint64_t size)
{
    static const struct service_text connection = {(const uint8_t *)"connection", 10}, close = {(const uint8_t *)"close", 5};
    nghttp2_nv fields[SERVICE_H2_FIELDS] = {{(uint8_t *)":status", at + 9, 7, 3, NGHTTP2_NV_FLAG_NONE}};
    struct service_text block = {at + line, (uint32_t)size}, status = {at + 9, 3};
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_body};
    nghttp2_session *session = stream->h2->session;
    bool interim = status.at[0] == '1';
    int count;

    if (!service_framing(block, true, service_bodiless(status, stream->bodiless), &stream->tail, &stream->left))
        return false;
    stream->closes = service_has(block, connection, close) || at[7] == '0';
    count = read_fields(at + line, size, fields);
    if (count < 0 || memcmp(status.at, "101", 3) == 0)
        return false;
    stream->informs = interim;
    if (interim)
        return nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, stream->id, NULL, fields, (size_t)count, NULL) == 0;
    stream->state = SERVICE_H2_BODY;
    if (service_bodiless(status, stream->bodiless)) {
        stream->left = 0;
        stream->tail.kind = SERVICE_NO_TAIL;
    }
    if (stream->left == 0 && stream->tail.kind == SERVICE_NO_TAIL)
        stream->state = SERVICE_H2_DONE;
    return nghttp2_submit_response(session, stream->id, fields, (size_t)count,
                                   stream->state == SERVICE_H2_DONE ? NULL : &provider) == 0;
}

/* Whether a line is a status line, of HTTP/1.0 or 1.1, with a status of three digits (RFC 9112, section 4). */
static bool is_status_line(const uint8_t *at, uint64_t line)
{
    if (line < 14 || memcmp(at, "HTTP/1.", 7) != 0 || at[8] != ' ' || at[9] < '1')
        return false;
    for (int i = 9; i < 12; i++)
        if (at[i] < '0' || at[i] > '9')
            return false;
    return at[12] == ' ' || at[12] == '\r';
}

bool service_h2_answer(struct service_h2_stream *stream)
{
    while (stream->state == SERVICE_H2_HEAD && !stream->informs) {
        bool more = fill(stream);
        uint32_t held = service_buffer_held(stream->response);
        uint8_t *at = held ? stream->response->bytes + stream->response->start : NULL;
        uint64_t line = held ? service_line(at, held) : 0, size = 0;
        enum service_parsed found = line ? service_headers(at + line, held - line, &size) : SERVICE_MORE;

        if (found == SERVICE_MORE) {
            if (!more || held == stream->h2->self->core->buffers.size)
                return false;
            if (!stream->readable || stream->h2->self->starved) {
                drop_empty(stream);
                return true;
            }
            continue;
        }
        if (found == SERVICE_MALFORMED || !is_status_line(at, line))
            return false;
        stream->tail = (struct service_tail){0};
        if (!send_head(stream, at, line, size))
            return false;
        stream->response->start += (uint32_t)(line + size + 2);
        drop_empty(stream);
        stream->h2->self->progressed = true;
    }
    if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->h2->session, stream->id);
    }
    return true;
}
