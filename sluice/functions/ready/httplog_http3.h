/* The exchanges of an HTTP/3 connection: a row for each request stream, and for each push. */
#ifndef HTTPLOG_HTTP3_H
#define HTTPLOG_HTTP3_H

#include "httplog_http2.h"

/* --- callbacks of http3_stream.h --- */

static bool httplog_3_known(struct http3_connection *http)
{
    static bool noted;
    struct httplog_connection *connection = http->user;
    SLUICE_COUNTER_OF(connection->box, http_version_3)++;
    for (unsigned i = 0; i < 2; i++) {
        connection->side[i].known = true;
        connection->side[i].response = i != http->client;
        connection->side[i].state = HTTP_FRAMES;
    }
    if (http->qpack->create)
        return httplog_streams(connection);
    SLUICE_COUNTER_OF(connection->box, http_3_not_read)++;
    if (!__atomic_test_and_set(&noted, __ATOMIC_RELAXED))
        fputs("sluice: note: httplog: libnghttp3 (Debian 13: apt install libnghttp3-9; Debian 12, Ubuntu 24.04: libnghttp3-3) cannot be "
              "loaded: HTTP/3 is counted, and not read\n", stderr);
    return false;
}

/* The message of a stream, or the promised request; NULL: it has no row. */
static struct http_message *httplog_3_message(const struct http3_stream *stream, uint64_t key, bool promised)
{
    struct httplog_connection *connection = stream->connection->user;
    struct httplog_exchange *exchange = httplog_stream_find(connection, key);
    if (!exchange)
        return NULL;
    return promised || stream->sender == stream->connection->client ? &exchange->request : &exchange->response;
}

/* Returns the message; a new one if there is none. */
static struct http_message *httplog_3_make(const struct http3_stream *stream, uint64_t key, bool promised)
{
    struct httplog_connection *connection = stream->connection->user;
    if (!httplog_stream_find(connection, key)) {
        struct httplog_exchange *exchange = httplog_exchange_make(connection);
        if (exchange)
            httplog_index_add(connection, exchange, key);
        else
            SLUICE_COUNTER_OF(connection->box, http_3_streams_left_out)++;
    }
    return httplog_3_message(stream, key, promised);
}

static void httplog_3_begin(struct http3_stream *stream, uint64_t key, bool promised)
{
    bool first = promised || !stream->begun;
    struct http_message *message = first ? httplog_3_make(stream, key, promised) : httplog_3_message(stream, key, promised);
    if (!message || message->begun || httplog_is_over(message))
        return;
    message->begun = true;
    message->time = stream->time;
    message->major = 3;
}

static void httplog_3_field(struct http3_stream *stream, uint64_t key, bool promised, const struct http2_field *field)
{
    httplog_field(stream->connection->user, httplog_3_message(stream, key, promised), field);
}

static void httplog_3_headed(struct http3_stream *stream, uint64_t key, bool promised, bool interim)
{
    struct httplog_connection *connection = stream->connection->user;
    struct http_message *message = httplog_3_message(stream, key, promised);
    if (!message)
        return;
    if (interim) {
        uint64_t body = message->body, missing = message->missing;   /* of the final response, as its block may wait */
        httplog_interim(connection, httplog_stream_find(connection, key));
        message->body = body;
        message->missing = missing;
        return;
    }
    message->headed = true;
    if (promised)   /* a promised request has no body (RFC 9114, 4.6) */
        message->complete = connection->streams->changed = true;
}

static void httplog_3_data(struct http3_stream *stream, uint64_t length, uint64_t missing)
{
    struct http_message *message = httplog_3_message(stream, stream->key, false);
    if (!message)
        return;
    message->body += length;
    message->missing += missing;
}

static void httplog_3_complete(struct http3_stream *stream)
{
    struct httplog_connection *connection = stream->connection->user;
    struct http_message *message = httplog_3_message(stream, stream->key, false);
    if (message)
        message->complete = connection->streams->changed = true;
}

static void httplog_3_broken(struct http3_stream *stream, const char *why)
{
    struct httplog_connection *connection = stream->connection->user;
    struct sl_box *box = connection->box;
    bool message = stream->kind == HTTP3_MESSAGE, reset = message && stream->was_reset;
    bool gap = !strcmp(why, "GAP"), head = !strcmp(why, "HEAD_TOO_LONG"), memory = !strcmp(why, "NO_MEMORY"), end = !strcmp(why, "EOF");
    bool block = !strcmp(why, "COMPRESSION_ERROR"), blocked = !strcmp(why, "BLOCKED"), table = !strcmp(why, "TABLE_TOO_LARGE");
    SLUICE_COUNTER_OF(box, http_3_resets) += reset;
    SLUICE_COUNTER_OF(box, http_3_gaps) += gap;
    SLUICE_COUNTER_OF(box, http_3_long_heads) += head;
    SLUICE_COUNTER_OF(box, http_no_memory) += memory;
    SLUICE_COUNTER_OF(box, http_incomplete) += end;
    SLUICE_COUNTER_OF(box, http_3_undecodable) += block;
    SLUICE_COUNTER_OF(box, http_3_blocked) += blocked;
    SLUICE_COUNTER_OF(box, http_3_large_tables) += table;
    SLUICE_COUNTER_OF(box, http_3_refused) += !reset && !gap && !head && !memory && !end && !block && !blocked && !table;
    if (!message || !connection->streams)
        return;
    struct http_message *broken =
        stream->begun ? httplog_3_message(stream, stream->key, false) : httplog_3_make(stream, stream->key, false);
    if (broken && !httplog_is_over(broken))
        httplog_stream_break(connection, broken, why);
}

static const struct http3_owner httplog_3_owner = {httplog_3_known, httplog_3_begin, httplog_3_field, httplog_3_headed,
                                                   httplog_3_data, NULL, httplog_3_complete, httplog_3_broken};

#endif
