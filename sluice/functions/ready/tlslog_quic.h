/* Connections of QUIC: their crypto streams are instances of the layer above, whose events follow the packet's. Part of tlslog.c. */
#ifndef TLSLOG_QUIC_H
#define TLSLOG_QUIC_H

SLUICE_ON(quic, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(quic, packet) {
    if (event->instance)
        log_quic_packet(&SLUICE_WORKER_OF(event->box)->quic, event, SLUICE_STATE_OF(event)->path, SLUICE_STATE_OF(event));
}

SLUICE_ON(quic_crypto, data) {
    struct tlslog *tls = SLUICE_WORKER_OF(event->box);
    /* Bytes that are delivered at the end of a stream, without a packet of the connection, follow a gap and are
     * ignored. */
    if (!event->instance || !log_quic_carries(&tls->quic, event))
        return;
    uint64_t level = log_quic_part(event, "level");
    unsigned side = log_quic_sender(event);
    struct tlslog_connection *connection = tlslog_connection(event->box, tls->quic.state, &tls->quic.flow, 'q');
    if (!connection)
        return;
    if (level > 2) {   /* 1-RTT: the handshake is over */
        connection->side[side].secured = true;
        return;
    }
    uint8_t which = (uint8_t)(side + (level == 2 ? 2 : 0)), attempt = (uint8_t)log_quic_part(event, "attempt");
    if (attempt != connection->attempt && level == 0) {   /* the handshake restarts, for example after a Retry */
        connection->attempt = attempt;
        for (unsigned i = 0; i < 2; i++)
            tls_message_drop(&connection->side[i].message);
    }
    struct tls_side *stream = &connection->side[which];
    struct tlslog_reading reading = {event->box, connection, (uint8_t)side, which, true};
    struct tls_reading callbacks = tlslog_callbacks(&reading);
    tlslog_begun(&reading);
    connection->side[side].secured |= level == 2;   /* Handshake packets are protected */
    if (stream->state != TLS_STOPPED && !tls_messages(stream, &callbacks, data->bytes.at, data->bytes.captured))
        tlslog_stopped(event->box, stream->stop);
}

SLUICE_ON(quic, end) {
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        tlslog_row(event->box, SLUICE_STATE_OF(event)->connection);
}

#endif
