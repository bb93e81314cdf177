/* Connections of DTLS, in the flows of UDP, and the associations of SCTP. Part of tlslog.c. */
#ifndef TLSLOG_DTLS_H
#define TLSLOG_DTLS_H

/* The content of a datagram that may be DTLS, without the preamble of CAPWAP (RFC 5415, 4.2); empty if it is none. */
static sl_bytes tlslog_datagram(const struct sl_event *event, uint64_t length)
{
    sl_bytes bytes = log_datagram(event, length);
    bool capwap = bytes.captured > TLSLOG_CAPWAP_PREAMBLE && bytes.at[0] == 1 &&
                  (log_has_port(event, TLSLOG_CAPWAP_CONTROL) || log_has_port(event, TLSLOG_CAPWAP_DATA));
    if (capwap)
        bytes = sl_bytes_slice(bytes, TLSLOG_CAPWAP_PREAMBLE, bytes.length);
    bool other = !bytes.captured || bytes.at[0] < DTLS_FIRST_TYPE || bytes.at[0] > DTLS_LAST_TYPE;
    return other ? (sl_bytes){NULL, 0, 0} : bytes;
}

/* Writes the row of a connection of DTLS, of which nothing more is read. */
static void tlslog_datagrams_end(struct sl_box *box, struct tlslog_state *state)
{
    tlslog_row(box, state->connection);
    if (state->connection->has_client)   /* its hello may have come in parts */
        state->random = state->connection->hello.random & INT32_MAX;
    state->over = true;
    tlslog_free(box, state);
}

SLUICE_ON(udp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

/* Handles a datagram, or a message of SCTP, that may be DTLS. `of`: the event of what carries it. */
static void tlslog_records(const struct sl_event *of, struct tlslog_state *state, sl_bytes bytes, bool sctp)
{
    struct sl_box *box = of->box;
    struct tlslog_connection *connection = state->connection;
    uint32_t random = dtls_random(bytes) & INT32_MAX;
    if (random && connection && connection->has_client && (connection->hello.random & INT32_MAX) != random)
        tlslog_datagrams_end(box, state);
    if (random && !state->connection && (!state->over || state->random != random)) {
        state->over = false;
        state->random = random;
    }
    if (!state->connection && (state->over || !dtls_begins(bytes)))
        return;
    struct log_flow flow = log_flow_of(of, state->path);
    connection = tlslog_connection(box, state, &flow, 'd');
    if (!connection)
        return;
    connection->sctp = sctp;
    uint8_t number = of->side & 1;
    struct tlslog_reading reading = {box, connection, number, number, false};
    struct tls_reading callbacks = tlslog_callbacks(&reading);
    tlslog_begun(&reading);
    tlslog_stopped(box, dtls_datagram(&connection->datagrams[number], &callbacks, bytes));
    connection->side[number].secured = connection->datagrams[number].secured;
    if (connection->side[0].secured && connection->side[1].secured)
        tlslog_datagrams_end(box, state);
}

SLUICE_ON(udp, packet) {
    sl_bytes bytes = tlslog_datagram(event, data->length);
    if (bytes.captured)
        tlslog_records(event, SLUICE_STATE_OF(event), bytes, false);
}

SLUICE_ON(udp, end) {
    (void)data;
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        tlslog_row(event->box, SLUICE_STATE_OF(event)->connection);
}

#endif
