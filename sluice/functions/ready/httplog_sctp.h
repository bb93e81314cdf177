/* HTTP in the streams of SCTP: each is read as a connection of TCP is, in the clear or in TLS. Part of httplog.c. */
#ifndef HTTPLOG_SCTP_H
#define HTTPLOG_SCTP_H

/* Begins to read a stream. Returns NULL at a bound. */
static struct httplog_connection *httplog_sctp_begin(const struct sl_event *association, struct log_sctp_stream *stream)
{
    struct log_sctp *streams = SLUICE_STATE_OF(association)->sctp;
    bool many = streams->reading >= LOG_SCTP_READING;
    struct httplog_connection *connection = stream->user = many ? NULL : httplog_connection_begin(association->box);
    SLUICE_COUNTER_OF(association->box, http_connections_left_out) += many;
    stream->over = !connection;
    if (!connection)
        return NULL;
    streams->reading++;
    connection->flow = log_flow_of(association, SLUICE_STATE_OF(association)->path);
    connection->from_its_beginning = true;
    httplog_tls_prepare(connection);
    return connection;
}

static void httplog_sctp_close(struct log_sctp *streams, struct log_sctp_stream *stream)
{
    if (stream->user) {
        httplog_connection_free(stream->user);
        streams->reading--;
    }
    stream->user = NULL;
    stream->over = true;
}

/* Handles a message; `bytes`: its content if it has several chunks. */
static void httplog_sctp_message(const struct sl_event *event, const sl_bytes *bytes)
{
    struct sl_box *box = event->box;
    const struct sl_event *association = &SLUICE_WORKER_OF(box)->association.event;
    struct httplog_state *state = association->instance ? SLUICE_STATE_OF(association) : NULL;
    struct log_sctp_message message;
    if (!state || state->over || !log_sctp_read(event, bytes, &message))
        return;
    if (message.unordered) {
        SLUICE_COUNTER_OF(box, http_sctp_unordered) += http_begins(message.bytes);
        return;
    }
    struct log_sctp_stream *stream = log_sctp_stream(&state->sctp, httplog_budget(box), message.stream);
    if (!stream) {
        SLUICE_COUNTER_OF(box, http_no_memory)++;
        return;
    }
    unsigned side = association->side & 1;
    bool first = !stream->seen[side], follows = log_sctp_follows(stream, side, &message);
    struct httplog_connection *connection = stream->user || stream->over ? stream->user : httplog_sctp_begin(association, stream);
    if (!connection)
        return;
    if (first && message.number)   /* numbers begin with 0 (RFC 9260, 6.5): there were messages before the capture */
        connection->from_its_beginning = false;
    if (!follows)
        httplog_gap(connection, side, LOG_SCTP_UNKNOWN);
    httplog_bytes(connection, side, message.bytes.at, message.bytes.captured);
    if (message.bytes.captured < message.bytes.length)
        httplog_gap(connection, side, message.bytes.length - message.bytes.captured);
    if (httplog_settled(connection))
        httplog_sctp_close(state->sctp, stream);
}

/* Frees the streams of an association. */
static void httplog_sctp_free(struct sl_box *box, struct httplog_state *state)
{
    for (struct log_sctp_stream *stream = state->sctp ? state->sctp->first : NULL; stream; stream = stream->next)
        httplog_sctp_close(state->sctp, stream);
    log_sctp_free(&state->sctp, httplog_budget(box));
}

SLUICE_ON(sctp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(sctp, data) { log_sctp_chunk(&SLUICE_WORKER_OF(event->box)->association, event); }

SLUICE_ON(sctp_message, packet) { httplog_sctp_message(event, NULL); }

SLUICE_ON(sctp_message, data) { httplog_sctp_message(event, &data->bytes); }

SLUICE_ON(sctp, end) {
    struct httplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    log_sctp_forget(&SLUICE_WORKER_OF(event->box)->association, event);
    for (struct log_sctp_stream *stream = state && state->sctp ? state->sctp->first : NULL; stream; stream = stream->next)
        if (stream->user)
            httplog_end(stream->user);
}

#endif
