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

static const struct http3_session_owner httplog_3_session = {&httplog_3_owner, httplog_3_begin_session, httplog_3_no_memory,
                                                             httplog_3_settle, httplog_3_end_session};

/* --- events --- */

SLUICE_ON(quic, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(quic, packet) {
    if (event->instance)
        log_quic_packet(&SLUICE_WORKER_OF(event->box)->quic, event, SLUICE_STATE_OF(event)->path, &SLUICE_STATE_OF(event)->quic);
}

SLUICE_ON(quic_stream, created) {
    struct httplog *http = SLUICE_WORKER_OF(event->box);
    if (!event->instance || !log_quic_carries(&http->quic, event))
        return;
    struct http3_session *session =
        http3_session(event, http->quic.state, &http->quic.flow, &httplog_3_session, &http->qpack, &http->budget);
    if (session)
        http3_on_created(event, &SLUICE_STATE_OF(event)->quic, session, NULL);
}

SLUICE_ON(quic_stream, state) {
    if (event->instance)
        http3_on_state(event, &SLUICE_STATE_OF(event)->quic, data->after);
}

SLUICE_ON(quic_stream, data) {
    if (event->instance)
        http3_on_data(event, &SLUICE_STATE_OF(event)->quic, data->offset, data->bytes);
}

SLUICE_ON(quic_stream, gap) {
    if (event->instance)
        http3_on_gap(&SLUICE_STATE_OF(event)->quic, data->offset, data->length);
}

SLUICE_ON(quic_stream, end) {
    (void)data;
    if (event->instance)
        http3_on_end(event, &SLUICE_STATE_OF(event)->quic);
}

SLUICE_ON(quic, end) {
    (void)data;
    struct http3_state *state = event->instance ? &SLUICE_STATE_OF(event)->quic : NULL;
    struct httplog *http = SLUICE_WORKER_OF(event->box);
    if (http->quic.state == state)
        http->quic.state = NULL;
    if (state)
        http3_session_end(state);
}

#endif
