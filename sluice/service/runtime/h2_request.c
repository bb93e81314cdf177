/* A request of HTTP/2 as one of HTTP/1.1 (RFC 9113, section 8.3.1). nghttp2 has refused malformed ones; what could be read
 * as something else by a parser of HTTP/1.1 is refused here again. */
#include "h2_parts.h"

static bool same(struct service_text text, const char *other)
{
    return service_same(text, service_literal(other));
}

void service_h2_append(struct service_h2 *h2, struct service_buffer **buffer, const void *bytes, uint32_t size)
{
    struct service_buffers *pool = &h2->self->core->buffers;

    if (!*buffer)
        *buffer = service_buffer_take(pool);
    if (!*buffer || size > pool->size - (*buffer)->end) {
        h2->no_buffer |= !*buffer;
        h2->too_large |= *buffer != NULL;
        return;
    }
    if (size)
        memcpy((*buffer)->bytes + (*buffer)->end, bytes, size);
    (*buffer)->end += size;
}

static void append_text(struct service_h2 *h2, struct service_buffer **buffer, const char *text)
{
    service_h2_append(h2, buffer, text, (uint32_t)strlen(text));
}

void service_h2_append_field(struct service_h2 *h2, struct service_text name, struct service_text value)
{
    h2->too_large |= !service_plain(value.at, value.length, true);
    h2->length |= same(name, "content-length");
    service_h2_append(h2, &h2->fields, name.at, name.length);
    append_text(h2, &h2->fields, ": ");
    service_h2_append(h2, &h2->fields, value.at, value.length);
    append_text(h2, &h2->fields, "\r\n");
}

/* Copies a pseudo header to where a text of `room` bytes ends with 0. Control characters and spaces would end it in a line of
 * HTTP/1.1. */
static void keep(struct service_h2 *h2, char *to, uint32_t room, struct service_text value)
{
    for (uint32_t i = 0; i < value.length; i++)
        h2->too_large |= value.at[i] <= ' ' || value.at[i] == 0x7f;
    if (value.length >= room) {
        h2->too_large = true;
        return;
    }
    memcpy(to, value.at, value.length);
    to[value.length] = 0;
}

void service_h2_field(struct service_h2 *h2, struct service_text name, struct service_text value)
{
    if (++h2->field_count > SERVICE_H2_FIELDS) {
        h2->too_large = true;
    } else if (same(name, ":method")) {
        keep(h2, h2->method, sizeof h2->method, value);
    } else if (same(name, ":authority") || (same(name, "host") && !h2->authority[0])) {
        keep(h2, h2->authority, sizeof h2->authority, value);
    } else if (same(name, ":path")) {
        for (uint32_t i = 0; i < value.length; i++)
            h2->too_large |= value.at[i] <= ' ' || value.at[i] == 0x7f;
        service_h2_append(h2, &h2->path, value.at, value.length);
    } else if (same(name, "cookie")) { /* parts of one field (section 8.2.3) */
        h2->too_large |= !service_plain(value.at, value.length, true);
        if (h2->cookie)
            append_text(h2, &h2->cookie, "; ");
        service_h2_append(h2, &h2->cookie, value.at, value.length);
    } else if (name.length && name.at[0] != ':' && !same(name, "host") && !same(name, "te")) {
        service_h2_append_field(h2, name, value);
    }
}

void service_h2_forget_head(struct service_h2 *h2)
{
    struct service_buffers *pool = &h2->self->core->buffers;
    struct service_buffer **all[] = {&h2->path, &h2->fields, &h2->cookie};

    for (int i = 0; i < 3; i++) {
        if (*all[i])
            service_buffer_give(pool, *all[i]);
        *all[i] = NULL;
    }
    h2->method[0] = h2->authority[0] = h2->status[0] = 0;
    h2->field_count = 0;
    h2->length = h2->too_large = h2->no_buffer = false;
}

static void append_buffer(struct service_h2 *h2, struct service_buffer **to, const struct service_buffer *from)
{
    if (from)
        service_h2_append(h2, to, from->bytes + from->start, service_buffer_held(from));
}

/* Answers a request in the place of the program. */
static void refuse(struct service_h2_stream *stream, const char *status)
{
    nghttp2_nv field = service_h2_field_of(":status", service_literal(status));

    nghttp2_submit_response(stream->h2->session, stream->id, &field, 1, NULL);
    stream->state = SERVICE_H2_DONE;
}

bool service_h2_write_head(struct service_h2_stream *stream, bool whole)
{
    struct service_h2 *h2 = stream->h2;
    struct service_buffer **to = &stream->head;

    stream->over = whole;
    stream->chunked = !whole && !h2->length;
    stream->bodiless = strcmp(h2->method, "HEAD") == 0;
    append_text(h2, to, h2->method);
    append_text(h2, to, " ");
    append_buffer(h2, to, h2->path);
    append_text(h2, to, " HTTP/1.1\r\nHost: ");
    append_text(h2, to, h2->authority);
    append_text(h2, to, "\r\n");
    append_buffer(h2, to, h2->fields);
    if (h2->cookie) {
        append_text(h2, to, "Cookie: ");
        append_buffer(h2, to, h2->cookie);
        append_text(h2, to, "\r\n");
    }
    if (stream->chunked)
        append_text(h2, to, "Transfer-Encoding: chunked\r\n");
    append_text(h2, to, "\r\n");
    if (h2->no_buffer) { /* the client may try again */
        service_h2_reset(stream, NGHTTP2_REFUSED_STREAM, SERVICE_H2_REFUSED);
        return false;
    }
    if (h2->too_large) {
        service_count(h2->self, SERVICE_H2_TOO_LARGE, 1);
        refuse(stream, "431");
        return false;
    }
    if (strcmp(h2->method, "CONNECT") == 0 || !h2->path) {
        refuse(stream, "501");
        return false;
    }
    return true;
}
