/* The handshake of a connection in a store, so far. Part of tlslog.c. */
#ifndef TLSLOG_STORED_H
#define TLSLOG_STORED_H

SLUICE_STORED(zero, "the handshake of a connection so far: its hellos, certificates, and records under way") {
    struct tlslog *tls = SLUICE_WORKER_OF(box);
    log_path_stored(stored, &tls->log, box, &state->path);
    uint32_t random = state->random;
    bool over = state->over, sealed = state->connection && state->connection->tls, streams = tlslog_sctp_reads(state);
    SL_STORED(stored, random);
    SL_STORED(stored, over);
    SL_STORED(stored, streams);
    SLUICE_COUNTER_OF(box, tls_not_continued) += stored->reads && streams;
    state->random = random & INT32_MAX;
    state->over = over;
    if (!sl_stored_more(stored, state->connection != NULL))
        return;
    struct tlslog_connection *connection = sl_stored_block(stored, state->connection, sizeof *connection, sizeof *connection);
    if (!connection)
        return;
    state->connection = connection;
    connection->box = box;
    tls->open += stored->reads;
    SL_STORED(stored, sealed);
    SLUICE_COUNTER_OF(box, tls_not_continued) += stored->reads && sealed;
    log_flow_stored(stored, &tls->log, box, &connection->flow);
    sl_stored_bytes(stored, &connection->time, offsetof(struct tlslog_connection, hello) - offsetof(struct tlslog_connection, time));
    tls_hello_stored(stored, &connection->hello);
    tls_hello_stored(stored, &connection->answer);
    log_text_stored(stored, &connection->certificates);
    uint64_t size = connection->stored;
    SL_STORED(stored, size);
    if (stored->reads && !stored->failed) {
        connection->stored = size;
        tls->budget.used += size;
    }
    sl_stored_bytes(stored, connection->chosen, offsetof(struct tlslog_connection, side) - offsetof(struct tlslog_connection, chosen));
    connection->chosen[sizeof connection->chosen - 1] = 0;
    connection->client &= 1;
    connection->alerts = (uint8_t)sl_min(connection->alerts, TLSLOG_ALERTS);
    for (unsigned i = 0; i < TLSLOG_SIDES; i++)
        tls_side_stored(stored, &connection->side[i], &tls->budget);
    for (unsigned i = 0; i < 2; i++)
        dtls_side_stored(stored, &connection->datagrams[i], &tls->budget);
}

#endif
