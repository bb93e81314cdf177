/* TLS and DTLS over SCTP. TLS is within streams (RFC 3436); DTLS is one connection for the whole association, whose messages are
 * records (RFC 6083). Part of tlslog.c. */
#ifndef TLSLOG_SCTP_H
#define TLSLOG_SCTP_H

/* Whether TLS was found in a stream. */
static bool tlslog_sctp_has_begun(const struct log_sctp_stream *stream)
{
    const struct tlslog_state *its = stream ? stream->user : NULL;
    return its && its->connection && (its->connection->side[0].begun || its->connection->side[1].begun);
}

/* Whether a stream of an association has TLS that is being read. */
static bool tlslog_sctp_reads(const struct tlslog_state *state)
{
    const struct log_sctp_stream *stream = state->sctp ? state->sctp->first : NULL;
    while (stream && !tlslog_sctp_has_begun(stream))
        stream = stream->next;
    return stream;
}

/* Whether a message belongs to the DTLS of its association. A host may use TLS in some streams, and send a message like a hello of DTLS
 * in another one: then both are read. */
static bool tlslog_sctp_is_dtls(const struct tlslog_state *state, const struct log_sctp_message *message)
{
    const struct log_sctp_stream *stream = message->unordered ? NULL : log_sctp_find(state->sctp, message->stream);
    const struct tlslog_state *its = stream ? stream->user : NULL;
    if (tlslog_sctp_has_begun(stream))
        return false;
    if (dtls_begins(message->bytes))
        return true;
    bool known = (state->connection || state->over) && dtls_is_record(message->bytes);
    return known && !(its && its->over && dtls_is_sealed(message->bytes.at));   /* it may be the rest of a record of TLS */
}

static void tlslog_sctp_message(const struct sl_event *event, const sl_bytes *bytes)
{
    struct sl_box *box = event->box;
    struct tlslog *tls = SLUICE_WORKER_OF(box);
    const struct sl_event *association = &tls->association.event;
    struct tlslog_state *state = association->instance ? SLUICE_STATE_OF(association) : NULL;
    struct log_sctp_message message;
    if (!state || !log_sctp_read(event, bytes, &message))
        return;
    if (tlslog_sctp_is_dtls(state, &message)) {   /* of DTLS, application data may be unordered */
        tlslog_records(association, state, message.bytes, true);
        return;
    }
    struct log_sctp_stream *stream = message.unordered ? NULL : log_sctp_stream(&state->sctp, &tls->budget, message.stream);
    if (!stream) {
        SLUICE_COUNTER_OF(box, tls_no_memory) += !message.unordered;
        return;
    }
    uint8_t side = association->side & 1;
    bool follows = log_sctp_follows(stream, side, &message);
    struct tlslog_state *its = stream->user;
    if (!its && !stream->over) {
        bool many = state->sctp->reading >= LOG_SCTP_READING;
        its = stream->user = many ? NULL : log_allocate(&tls->budget, sizeof *its);
        SLUICE_COUNTER_OF(box, tls_connections_left_out) += many;
        SLUICE_COUNTER_OF(box, tls_no_memory) += !many && !its;
        stream->over = !its;
        state->sctp->reading += its && tlslog_begin(association, its, state->path);
    }
    if (!its || !its->connection)
        return;
    its->connection->sctp = true;
    if (!follows)
        tlslog_gap(its->connection, side, LOG_SCTP_UNKNOWN);
    tlslog_bytes(event, its, side, message.bytes.at, message.bytes.captured);
    if (its->connection && message.bytes.captured < message.bytes.length)
        tlslog_gap(its->connection, side, message.bytes.length - message.bytes.captured);
    state->sctp->reading -= !its->connection;
}

/* Frees the streams of an association. */
static void tlslog_sctp_free(struct sl_box *box, struct tlslog_state *state)
{
    struct log_budget *budget = &SLUICE_WORKER_OF(box)->budget;
    for (struct log_sctp_stream *stream = state->sctp ? state->sctp->first : NULL; stream; stream = stream->next) {
        struct tlslog_state *its = stream->user;
        if (!its)
            continue;
        tlslog_free(box, its);
        log_give(budget, sizeof *its);
        free(its);
    }
    log_sctp_free(&state->sctp, budget);
}

SLUICE_ON(sctp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(sctp, data) { log_sctp_chunk(&SLUICE_WORKER_OF(event->box)->association, event); }

SLUICE_ON(sctp_message, packet) { tlslog_sctp_message(event, NULL); }

SLUICE_ON(sctp_message, data) { tlslog_sctp_message(event, &data->bytes); }

SLUICE_ON(sctp, end) {
    struct tlslog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    log_sctp_forget(&SLUICE_WORKER_OF(event->box)->association, event);
    if (!state)
        return;
    if (state->connection)
        tlslog_row(event->box, state->connection);
    for (struct log_sctp_stream *stream = state->sctp ? state->sctp->first : NULL; stream; stream = stream->next) {
        const struct tlslog_state *its = stream->user;
        if (its && its->connection)
            tlslog_end(its->connection);
    }
}

#endif
