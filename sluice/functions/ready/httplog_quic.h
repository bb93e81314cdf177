/* HTTP/3 sessions, and the events of QUIC, by http3_quic.h. Part of httplog.c. */
#ifndef HTTPLOG_QUIC_H
#define HTTPLOG_QUIC_H

static bool httplog_3_begin_session(struct sl_box *box, struct http3_session *session)
{
    struct httplog_connection *connection = httplog_connection_begin(box);
    if (!connection)
        return false;
    connection->flow = session->flow;
    connection->from_its_beginning = true;   /* without its beginning, there are no keys */
    session->http.user = connection;
    return true;
}

static void httplog_3_no_memory(struct sl_box *box) { SLUICE_COUNTER_OF(box, http_no_memory)++; }

/* Writes the rows of exchanges that have ended. */
static void httplog_3_settle(struct http3_session *session)
{
    struct httplog_connection *connection = session->http.user;
    if (connection->streams)
        httplog_write(connection, false);
}

/* Writes the remaining rows. */
static void httplog_3_end_session(struct http3_session *session)
{
    const struct http3_connection *http = &session->http;
    struct httplog_connection *connection = http->user;
    bool read = http->known && !http->unread;
    SLUICE_COUNTER_OF(connection->box, http_3_unknown) += http->stored && !http->known;
    SLUICE_COUNTER_OF(connection->box, http_3_streams_left_out) += read ? http->early_lost : 0;
    SLUICE_COUNTER_OF(connection->box, http_3_refused) += read ? http->early_refused : 0;
    if (connection->streams && !session->discarded)
        httplog_write(connection, true);
    httplog_connection_free(connection);
}

static const struct http3_session_owner httplog_quic_session = {&httplog_3_owner, httplog_3_begin_session, httplog_3_no_memory,
                                                                httplog_3_settle, httplog_3_end_session};

static struct log_output *httplog_quic_log(struct sl_box *box) { return &SLUICE_WORKER_OF(box)->log; }

static struct log_budget *httplog_quic_budget(struct sl_box *box) { return httplog_budget(box); }

#include "http3_events.h"

#endif
