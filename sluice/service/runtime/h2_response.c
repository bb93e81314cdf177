/* A response of HTTP/1.1 as one of HTTP/2 (RFC 9113, section 8.3.2). */
#include "h2_parts.h"

/* Sends a head. */
static bool send_head(struct service_h2_stream *stream, const struct service_h2_head *head)
{
    static const struct service_text connection = {(const uint8_t *)"connection", 10}, close = {(const uint8_t *)"close", 5};
    uint8_t *fields_at = head->at + head->line;
    struct service_text block = {fields_at, (uint32_t)head->size}, status = {head->at + 9, 3};
    nghttp2_nv fields[SERVICE_H2_FIELDS] = {service_h2_field_of(":status", status)};
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = service_h2_read_body};
    nghttp2_session *session = stream->h2->session;
    bool interim = status.at[0] == '1';
    int count;

    if (!service_framing(block, true, service_bodiless(status, stream->bodiless), &stream->tail, &stream->left))
        return false;
    stream->closes = service_has(block, connection, close) || head->at[7] == '0';
    count = service_h2_read_fields(fields_at, head->size, fields, 1, false);
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
        struct service_h2_head head;
        enum service_parsed found = service_h2_find_head(stream, &head);

        if (found == SERVICE_MORE)
            return true;
        if (found == SERVICE_MALFORMED || !is_status_line(head.at, head.line))
            return false;
        stream->tail = (struct service_tail){0};
        if (!send_head(stream, &head))
            return false;
        service_h2_drop_head(stream, &head);
        stream->h2->self->progressed = true;
    }
    if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->h2->session, stream->id);
    }
    return true;
}
