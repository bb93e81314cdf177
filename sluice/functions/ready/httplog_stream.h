/* The streams of an HTTP/2 connection: their exchanges are found by a hash of the stream's number. */
#ifndef HTTPLOG_STREAM_H
#define HTTPLOG_STREAM_H

#include "httplog_exchange.h"

static struct httplog_exchange *httplog_stream_find(const struct httplog_connection *connection, uint64_t stream)
{
    struct httplog_exchange *exchange = *httplog_index_of(connection->streams, stream);
    while (exchange && exchange->stream != stream)
        exchange = exchange->next_stream;
    return exchange;
}

/* Returns the exchange of a stream; a new one if the frame may begin it. NULL: the stream has no row, or had it. */
static struct httplog_exchange *httplog_stream(struct httplog_connection *connection, bool response, bool promised, uint32_t stream)
{
    struct httplog_streams *streams = connection->streams;
    struct httplog_exchange *exchange = httplog_stream_find(connection, stream);
    uint32_t *highest = stream % 2 ? &streams->highest : &streams->promised;
    bool new = stream > *highest && (stream % 2 || promised);
    if (!response || promised)
        *highest = (uint32_t)sl_max(*highest, stream);
    if (exchange || !new)
        return exchange;
    exchange = httplog_exchange_make(connection);
    if (exchange)
        httplog_index_add(connection, exchange, stream);
    else
        SLUICE_COUNTER_OF(connection->box, http_2_streams_left_out)++;
    return exchange;
}

/* Ends a message prematurely. */
static void httplog_stream_break(struct httplog_connection *connection, struct http_message *message, const char *why)
{
    message->broken = true;
    message->error = why;
    connection->streams->changed = true;
}

static void httplog_streams_free(struct httplog_connection *connection)
{
    if (!connection->streams)
        return;
    for (unsigned i = 0; i < 2; i++)
        http2_side_free(&connection->streams->side[i]);
    log_give(httplog_budget(connection->box), sizeof *connection->streams);
    free(connection->streams);
    connection->streams = NULL;
}

#endif
