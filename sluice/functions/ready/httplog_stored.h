/* The state of a connection of HTTP/1 in a store. Part of httplog.c.
 *
 * What libraries know of HTTP/2, HTTP/3 and TLS is not stored, nor are the streams of SCTP: another process does not read such a
 * connection further. */
#ifndef HTTPLOG_STORED_H
#define HTTPLOG_STORED_H

#include "http_stored.h"

/* The message of a side, as its place in the list of exchanges: a request is 1, 3, ..., a response 2, 4, ...; 0: none. */
static uint32_t httplog_place_of(const struct httplog_connection *connection, const struct http_message *message)
{
    uint32_t place = 1;
    for (const struct httplog_exchange *exchange = connection->first; message && exchange; exchange = exchange->next, place += 2)
        if (message == &exchange->request || message == &exchange->response)
            return place + (message == &exchange->response);
    return 0;
}

static struct http_message *httplog_message_at(struct httplog_connection *connection, uint32_t place)
{
    struct httplog_exchange *exchange = connection->first;
    for (uint32_t at = 1; place && exchange; exchange = exchange->next, at += 2)
        if (place - at < 2)
            return place == at ? &exchange->request : &exchange->response;
    return NULL;
}

static void httplog_exchanges_stored(struct sl_stored *stored, struct httplog_connection *connection)
{
    struct log_budget *budget = httplog_budget(connection->box);
    for (struct httplog_exchange *at = connection->first; sl_stored_more(stored, at != NULL); at = at ? at->next : NULL) {
        struct httplog_exchange *exchange = stored->reads ? httplog_exchange_make(connection) : at;
        if (!exchange) {
            stored->failed = true;
            return;
        }
        http_message_stored(stored, &exchange->request, budget);
        http_message_stored(stored, &exchange->response, budget);
        SL_STORED(stored, exchange->interim);
        SL_STORED(stored, exchange->interim_count);
        SL_STORED(stored, exchange->tunnel);
        SL_STORED(stored, exchange->upgraded);
        exchange->interim_count = (uint8_t)sl_min(exchange->interim_count, HTTP_INFORMATIONAL);
    }
}

static void httplog_connection_stored(struct sl_stored *stored, struct httplog_connection *connection)
{
    log_flow_stored(stored, &SLUICE_WORKER_OF(connection->box)->log, connection->box, &connection->flow);
    SL_STORED(stored, connection->from_its_beginning);
    SL_STORED(stored, connection->resume);
    SL_STORED(stored, connection->given_up);
    httplog_exchanges_stored(stored, connection);
    for (unsigned i = 0; i < 2; i++) {
        struct http_side *side = &connection->side[i];
        uint32_t place = httplog_place_of(connection, side->message);
        http_side_stored(stored, side);
        SL_STORED(stored, place);
        if (stored->reads)
            side->message = httplog_message_at(connection, place);
        stored->failed |= place && !side->message;
    }
}

SLUICE_STORED(zero, "exchanges of HTTP/1 without a row, and messages under way") {
    struct httplog_connection *connection = state->connection;
    bool unknown = connection && (connection->streams || connection->tls), over = state->over || unknown || state->sctp;
    bool quic = state->quic.over || state->quic.session, lost = unknown || state->quic.session || state->sctp;
    log_path_stored(stored, &SLUICE_WORKER_OF(box)->log, box, &state->path);
    SL_STORED(stored, quic);
    SL_STORED(stored, over);
    SL_STORED(stored, lost);
    if (stored->reads) {
        state->quic.over = quic;
        state->over = over;
        SLUICE_COUNTER_OF(box, http_not_continued) += lost;
    }
    if (!sl_stored_more(stored, connection && !over))
        return;
    if (stored->reads && !(connection = state->connection = httplog_connection_begin(box))) {
        stored->failed = true;
        return;
    }
    httplog_connection_stored(stored, connection);
}

#endif
