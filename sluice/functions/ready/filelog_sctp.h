/* Files that HTTP carries in the streams of SCTP: each is read as a connection of TCP is, in the clear or in TLS. Part of filelog.c. */
#ifndef FILELOG_SCTP_H
#define FILELOG_SCTP_H

/* Begins to read a stream. Returns NULL at a bound. */
static struct filelog_connection *filelog_sctp_begin(const struct sl_event *association, struct log_sctp_stream *stream)
{
    struct log_flow flow = log_flow_of(association, SLUICE_STATE_OF(association)->path);
    struct log_sctp *streams = SLUICE_STATE_OF(association)->sctp;
    bool many = streams->reading >= LOG_SCTP_READING;
    struct filelog_connection *connection = stream->user = many ? NULL : filelog_connection_new(association->box, &flow);
    SLUICE_COUNTER_OF(association->box, file_connections_left_out) += many;
    stream->over = !connection;
    if (!connection)
        return NULL;
    streams->reading++;
    connection->sctp = connection->smtp_over = connection->http->from_start = true;
    filelog_tls_prepare(connection);
    return connection;
}

static void filelog_sctp_close(struct log_sctp *streams, struct log_sctp_stream *stream)
{
    if (stream->user) {
        filelog_connection_free(stream->user);
        streams->reading--;
    }
    stream->user = NULL;
    stream->over = true;
}

/* Handles a message; `bytes`: its content if it has several chunks. */
static void filelog_sctp_message(const struct sl_event *event, const sl_bytes *bytes)
{
    struct sl_box *box = event->box;
    const struct sl_event *association = &SLUICE_WORKER_OF(box)->association.event;
    struct filelog_state *state = association->instance ? SLUICE_STATE_OF(association) : NULL;
    struct log_sctp_message message;
    if (!state || state->over || !log_sctp_read(event, bytes, &message))
        return;
    if (message.unordered) {
        SLUICE_COUNTER_OF(box, file_sctp_unordered) += http_begins(message.bytes);
        return;
    }
    struct log_sctp_stream *stream = log_sctp_stream(&state->sctp, &SLUICE_WORKER_OF(box)->files.budget, message.stream);
    if (!stream) {
        SLUICE_COUNTER_OF(box, file_no_memory)++;
        return;
    }
    unsigned side = association->side & 1;
    bool first = !stream->seen[side], follows = log_sctp_follows(stream, side, &message);
    struct filelog_connection *connection = stream->user || stream->over ? stream->user : filelog_sctp_begin(association, stream);
    if (!connection)
        return;
    connection->event = event;
    if (first && message.number)   /* numbers begin with 0 (RFC 9260, 6.5): there were messages before the capture */
        connection->http->from_start = false;
    if (!follows)
        filelog_gap(connection, side, LOG_SCTP_UNKNOWN);
    filelog_sent(connection, side, message.bytes);
    if (message.bytes.captured < message.bytes.length)
        filelog_gap(connection, side, message.bytes.length - message.bytes.captured);
    if (filelog_is_over(connection))
        filelog_sctp_close(state->sctp, stream);
}

/* Frees the streams of an association. */
static void filelog_sctp_free(struct sl_box *box, struct filelog_state *state)
{
    for (struct log_sctp_stream *stream = state->sctp ? state->sctp->first : NULL; stream; stream = stream->next)
        filelog_sctp_close(state->sctp, stream);
    log_sctp_free(&state->sctp, &SLUICE_WORKER_OF(box)->files.budget);
}

SLUICE_ON(sctp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->files.log, event->box);
}

SLUICE_ON(sctp, data) { log_sctp_chunk(&SLUICE_WORKER_OF(event->box)->association, event); }

SLUICE_ON(sctp_message, packet) { filelog_sctp_message(event, NULL); }

SLUICE_ON(sctp_message, data) { filelog_sctp_message(event, &data->bytes); }

SLUICE_ON(sctp, end) {
    struct filelog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    log_sctp_forget(&SLUICE_WORKER_OF(event->box)->association, event);
    for (struct log_sctp_stream *stream = state && state->sctp ? state->sctp->first : NULL; stream; stream = stream->next) {
        struct filelog_connection *connection = stream->user;
        if (!connection)
            continue;
        connection->event = event;
        if (connection->tls)
            tls_connection_end(connection->tls);
        if (!connection->http_over)
            file_http_end(connection->http);
    }
}

#endif
