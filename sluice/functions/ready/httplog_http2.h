/* The exchanges of an HTTP/2 connection: a row for each stream. Requests and responses are paired by the stream's number, so
 * that none has to wait for the other. */
#ifndef HTTPLOG_HTTP2_H
#define HTTPLOG_HTTP2_H

#include "httplog_stream.h"

/* --- callbacks of the sides --- */

static unsigned httplog_side_number(const struct http2_side *side) { return side != ((struct httplog_connection *)side->user)->streams->side; }

static struct http_message *httplog_message(struct http2_side *side)
{
    struct httplog_connection *connection = side->user;
    struct httplog_exchange *exchange = connection->streams->current[httplog_side_number(side)];
    if (!exchange)
        return NULL;
    /* A server's messages are responses, but for the request that it promises. */
    return side->response && !exchange->promising ? &exchange->response : &exchange->request;
}

static void httplog_2_headers(struct http2_side *side, uint32_t stream, bool promised)
{
    struct httplog_connection *connection = side->user;
    struct httplog_streams *streams = connection->streams;
    struct httplog_exchange *exchange = httplog_stream(connection, side->response, promised, stream);
    SLUICE_COUNTER_OF(connection->box, http_version_2) += !streams->counted;
    streams->counted = true;
    streams->current[httplog_side_number(side)] = exchange;
    if (!exchange)
        return;
    exchange->promising = promised;
    struct http_message *message = httplog_message(side);
    if (httplog_is_over(message)) {
        streams->current[httplog_side_number(side)] = NULL;
    } else if (!message->begun) {
        message->begun = true;
        message->time = sl_box_time(connection->box);
        message->major = 2;
    }
}

static void httplog_field_text(const struct httplog_connection *connection, struct http_message *message, struct log_text *text,
                               const struct http2_field *field, size_t most)
{
    if (!text->used)   /* of several fields, the first is stored */
        http_message_append(message, httplog_budget(connection->box), text, (const char *)field->value, field->value_length, most);
}

/* A field of a header block of HTTP/2 or HTTP/3. Fields of trailers are not part of the row. */
static void httplog_field(const struct httplog_connection *connection, struct http_message *message, const struct http2_field *field)
{
    uint64_t number;
    if (!message || message->headed)
        return;
    if (http2_field_is(field, ":method")) {
        httplog_field_text(connection, message, &message->verb, field, HTTP_VALUE_MOST);
    } else if (http2_field_is(field, ":path")) {
        httplog_field_text(connection, message, &message->path, field, HTTP_PATH_MOST);
    } else if (http2_field_is(field, ":authority")) {
        httplog_field_text(connection, message, &message->header[HTTP_HOST], field, HTTP_VALUE_MOST);
    } else if (http2_field_is(field, ":protocol")) {   /* RFC 8441, 4 */
        httplog_field_text(connection, message, &message->header[HTTP_UPGRADE], field, HTTP_VALUE_MOST);
    } else if (http2_field_is(field, ":status")) {
        if (http2_field_number(field, &number) && number <= UINT16_MAX)
            message->status = (uint16_t)number;
    } else if (http2_field_is(field, "content-length")) {
        if (!message->has_length)
            message->has_length = http2_field_number(field, &message->length);
    } else {
        for (unsigned i = 0; i < HTTP_UPGRADE; i++)
            if (http2_field_is(field, http_header_names[i]))
                httplog_field_text(connection, message, &message->header[i], field, HTTP_VALUE_MOST);
    }
}

static void httplog_2_field(struct http2_side *side, const struct http2_field *field)
{
    httplog_field(side->user, httplog_message(side), field);
}

static void httplog_2_headed(struct http2_side *side)
{
    struct httplog_connection *connection = side->user;
    struct http_message *message = httplog_message(side);
    if (!message)
        return;
    struct httplog_exchange *exchange = connection->streams->current[httplog_side_number(side)];
    if (message == &exchange->response && message->status / 100 == 1 && !side->ends) {
        httplog_interim(connection, exchange);
        return;
    }
    message->headed = true;
    if (exchange->promising) {   /* a promised request has no body (RFC 9113, 8.4.1) */
        message->complete = connection->streams->changed = true;
        exchange->promising = false;
        connection->streams->current[httplog_side_number(side)] = NULL;
    }
}

static void httplog_2_body(struct http2_side *side, uint32_t stream)
{
    struct httplog_connection *connection = side->user;
    struct httplog_exchange **current = &connection->streams->current[httplog_side_number(side)];
    *current = httplog_stream_find(connection, stream);
    if (*current && (!httplog_message(side)->headed || httplog_is_over(httplog_message(side))))
        *current = NULL;
}

static void httplog_2_data(struct http2_side *side, uint64_t length, uint64_t missing)
{
    struct http_message *message = httplog_message(side);
    if (!message)
        return;
    message->body += length;
    message->missing += missing;
}

static void httplog_2_complete(struct http2_side *side)
{
    struct httplog_connection *connection = side->user;
    struct http_message *message = httplog_message(side);
    if (message)
        message->complete = connection->streams->changed = true;
}

/* An end gives a stream up: its messages that are not complete do not become so. */
static void httplog_2_reset(struct http2_side *side, uint32_t stream, uint32_t code)
{
    static const char *const codes[] = {   /* RFC 9113, 7 */
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"};
    struct httplog_connection *connection = side->user;
    /* A server's reset may be delivered before the request; a client's concerns a stream that has begun. */
    struct httplog_exchange *exchange =
        side->response ? httplog_stream(connection, true, false, stream) : httplog_stream_find(connection, stream);
    const char *why = code < sizeof codes / sizeof *codes ? codes[code] : "UNKNOWN_ERROR";
    if (!exchange)
        return;
    SLUICE_COUNTER_OF(connection->box, http_2_resets)++;
    if (exchange->request.begun && !httplog_is_over(&exchange->request) && !httplog_is_read(connection, exchange))
        httplog_stream_break(connection, &exchange->request, why);
    if (!httplog_is_over(&exchange->response))
        httplog_stream_break(connection, &exchange->response, why);
}

static const struct http2_owner httplog_2_owner = {httplog_2_headers, httplog_2_field, httplog_2_headed, httplog_2_body,
                                                   httplog_2_data, httplog_2_complete, httplog_2_reset, NULL};

/* --- the connection --- */

/* Returns the streams of a connection; NULL without memory, which ends the parsing of the connection. */
static struct httplog_streams *httplog_streams(struct httplog_connection *connection)
{
    if (connection->streams || connection->given_up)
        return connection->streams;
    struct httplog_streams *streams = log_allocate(httplog_budget(connection->box), sizeof *streams);
    if (!streams) {
        SLUICE_COUNTER_OF(connection->box, http_no_memory)++;
        connection->given_up = true;
        return NULL;
    }
    for (unsigned i = 0; i < 2; i++) {
        streams->side[i].owner = &httplog_2_owner;
        streams->side[i].hpack = &SLUICE_WORKER_OF(connection->box)->hpack;
        streams->side[i].user = connection;
    }
    connection->streams = streams;
    return streams;
}

/* A side has ended, or is no longer parsed: breaks its messages that are not complete. */
static void httplog_side_end(struct httplog_connection *connection, unsigned number, const char *why)
{
    struct http_side *side = &connection->side[number];
    connection->streams->changed = true;
    connection->streams->current[number] = NULL;
    for (struct httplog_exchange *at = connection->first; at; at = at->next) {
        struct http_message *message = side->response ? &at->response : &at->request;
        if (!at->stream || !message->begun || httplog_is_over(message))
            continue;
        httplog_stream_break(connection, message, why);
        if (strcmp(why, "NO_MEMORY"))
            httplog_count(connection, message);
    }
    http_stop(side, why);
}

/* Counts why a side is not read further, and ends it. A server without a header block, and without a client, may have been
 * another protocol. */
static void httplog_side_stop(struct httplog_connection *connection, unsigned number, const char *why)
{
    struct sl_box *box = connection->box;
    if (connection->streams->counted) {
        bool gap = !strcmp(why, "GAP"), table = !strcmp(why, "TABLE_TOO_LARGE"), head = !strcmp(why, "HEAD_TOO_LONG");
        bool memory = !strcmp(why, "NO_MEMORY"), block = !strcmp(why, "COMPRESSION_ERROR");
        SLUICE_COUNTER_OF(box, http_2_gaps) += gap;
        SLUICE_COUNTER_OF(box, http_2_large_tables) += table;
        SLUICE_COUNTER_OF(box, http_2_long_heads) += head;
        SLUICE_COUNTER_OF(box, http_no_memory) += memory;
        SLUICE_COUNTER_OF(box, http_2_undecodable) += block;
        SLUICE_COUNTER_OF(box, http_2_refused) += !gap && !table && !head && !memory && !block;
    }
    httplog_side_end(connection, number, why);
}

/* Bytes of HTTP/2 of a side, from its first one on. */
static void httplog_frames(struct http_side *from, const uint8_t *at, uint32_t length)
{
    struct httplog_connection *connection = httplog_of(from);
    struct httplog_streams *streams = httplog_streams(connection);
    unsigned number = from != connection->side;
    if (!streams) {
        http_stop(from, NULL);
        return;
    }
    struct http2_side *side = &streams->side[number];
    if (!side->inflater && !side->error && !http2_begin(side, from->response))
        http2_end(side, "NO_MEMORY");
    if (!from->response && !streams->counted) {
        SLUICE_COUNTER_OF(connection->box, http_version_2)++;
        streams->counted = true;
    }
    http2_bytes(side, at, length);
    if (side->error)
        httplog_side_stop(connection, number, side->error);
}

/* Handles missing bytes of a connection with HTTP/2. */
static void httplog_frames_gap(struct httplog_connection *connection, unsigned number, uint64_t length)
{
    struct http2_side *side = &connection->streams->side[number];
    if (connection->side[number].state == HTTP_FRAMES && side->inflater)
        http2_gap(side, length);
    else if (connection->side[number].state != HTTP_STOPPED)   /* its beginning is missing */
        http2_end(side, "GAP");
    else
        return;
    if (side->error)
        httplog_side_stop(connection, number, side->error);
}

#endif
