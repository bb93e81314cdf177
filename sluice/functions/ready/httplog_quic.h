/* The events of QUIC: streams are instances of a layer above, whose events follow those of the packet. Part of httplog.c. */
#ifndef HTTPLOG_QUIC_H
#define HTTPLOG_QUIC_H

/* An instance of a connection, or of one of its streams, has ended. With the last one, the remaining rows are written. */
static void httplog_quic_release(struct httplog_connection *connection)
{
    if (--connection->quic->references)
        return;
    if (connection->streams && !connection->quic->discarded)
        httplog_write(connection, true);
    httplog_connection_free(connection);
}

/* The connection of a stream that begins. NULL: it is not read. */
static struct httplog_connection *httplog_quic_connection(const struct sl_event *event)
{
    struct httplog *http = SLUICE_WORKER_OF(event->box);
    struct httplog_state *state = http->quic.state;
    uint64_t attempt = log_quic_part(event, "attempt");
    if (!log_quic_carries(&http->quic, event) || state->over)
        return NULL;
    if (state->connection && state->connection->quic->attempt != attempt) {
        state->connection->quic->discarded = true;
        httplog_quic_release(state->connection);
        state->connection = NULL;
    }
    if (state->connection)
        return state->connection;
    struct httplog_connection *connection = httplog_connection_begin(event->box, state);
    if (!connection)
        return NULL;
    connection->flow = http->quic.flow;
    if (httplog_quic_begin(connection, attempt))
        return connection;
    httplog_free(state);
    state->over = true;
    return NULL;
}

/* A stream of which something is to be read; NULL: it is over. */
static struct http3_stream *httplog_quic_open(const struct sl_event *event)
{
    struct http3_stream *stream = event->instance ? SLUICE_STATE_OF(event)->stream : NULL;
    if (!stream || stream->stage == HTTP3_OVER)
        return NULL;
    const struct httplog_connection *connection = stream->connection->user;
    if (!connection->quic->discarded)
        return stream;
    http3_over(stream);
    return NULL;
}

/* Writes the rows of exchanges that have ended. */
static void httplog_quic_settle(const struct http3_stream *stream)
{
    struct httplog_connection *connection = stream->connection->user;
    if (connection->streams)
        httplog_write(connection, false);
}

static void httplog_quic_stream_free(struct sl_box *box, struct httplog_state *state)
{
    struct http3_stream *stream = state->stream;
    if (!stream)
        return;
    struct httplog_connection *connection = stream->connection->user;
    http3_over(stream);
    free(stream);
    log_give(httplog_budget(box), sizeof *stream);
    state->stream = NULL;
    httplog_quic_release(connection);
}

SLUICE_ON(quic, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(quic, packet) {
    if (event->instance)
        log_quic_packet(&SLUICE_WORKER_OF(event->box)->quic, event, SLUICE_STATE_OF(event)->path, SLUICE_STATE_OF(event));
}

SLUICE_ON(quic_stream, created) {
    struct httplog_connection *connection = event->instance ? httplog_quic_connection(event) : NULL;
    if (connection)
        httplog_quic_stream(event, connection);
}

/* The code of a RESET_STREAM frame (RFC 9000, 19.4). Event `reset` of the layer has it as well, but a function for stacks without QUIC
 * can only have handlers of built-in events. */
static uint64_t httplog_quic_code(const struct sl_event *event)
{
    const uint8_t *at = event->unit.at + 1;
    uint32_t length = event->unit.captured ? event->unit.captured - 1 : 0;
    uint64_t number, code;
    return http3_take(&at, &length, &number) && http3_take(&at, &length, &code) ? code : 0;
}

/* Ends a stream if all its bytes up to its end were delivered. */
static void httplog_quic_look(const struct sl_event *event, struct http3_stream *stream)
{
    bool ended = sl_field_value(event->instance, sl_layer_field(event->owner, "ended"));
    if (ended && stream->received == sl_field_value(event->instance, sl_layer_field(event->owner, "size")))
        http3_end(stream);
}

/* A frame may have no bytes but the end. */
SLUICE_ON(quic_stream, state) {
    struct http3_stream *stream = httplog_quic_open(event);
    if (!stream)
        return;
    if (!strcmp(event->owner->state[data->after].name, "RESET")) {
        http3_reset(stream, httplog_quic_code(event));
    } else {
        httplog_quic_look(event, stream);
    }
    httplog_quic_settle(stream);
}

SLUICE_ON(quic_stream, data) {
    struct http3_stream *stream = httplog_quic_open(event);
    if (!stream)
        return;
    if (stream->stage != HTTP3_EARLY || !stream->received)
        stream->time = sl_box_time(event->box);
    stream->received = data->offset + data->bytes.captured;
    http3_bytes(stream, data->bytes.at, data->bytes.captured);
    httplog_quic_look(event, stream);
    httplog_quic_settle(stream);
}

SLUICE_ON(quic_stream, gap) {
    struct http3_stream *stream = httplog_quic_open(event);
    if (!stream)
        return;
    stream->received = data->offset + data->length;
    http3_gap(stream, data->length);
    httplog_quic_settle(stream);
}

SLUICE_ON(quic_stream, end) {
    struct http3_stream *stream = httplog_quic_open(event);
    if (stream) {
        httplog_quic_look(event, stream);   /* after a gap, the machine is not DONE */
        http3_stream_close(stream, "EOF");
        httplog_quic_settle(stream);
    }
    if (event->instance)
        httplog_quic_stream_free(event->box, SLUICE_STATE_OF(event));
}

SLUICE_ON(quic, end) {
    struct httplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    struct httplog *http = SLUICE_WORKER_OF(event->box);
    if (http->quic.state == state)
        http->quic.state = NULL;
    if (!state || !state->connection)
        return;
    httplog_quic_release(state->connection);
    state->connection = NULL;
    state->over = true;
}

#endif
