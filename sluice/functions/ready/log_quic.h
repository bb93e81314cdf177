/* The layers above QUIC, such as its streams: their events follow that of the connection's packet, of which a function remembers
 * the connection. */
#ifndef LOG_QUIC_H
#define LOG_QUIC_H

#include "log_row.h"

/* The connection of the current packet. */
struct log_quic {
    struct log_flow flow;
    void *state;                     /* the function's, of the connection; NULL: none */
    uint64_t packet;                 /* number of the packet */
};

/* Remembers the connection of a packet, in its event `packet`. `path`: see log_flow_of. */
static inline void log_quic_packet(struct log_quic *quic, const struct sl_event *event, uint32_t path, void *state) {
    quic->flow = log_flow_of(event, path);
    quic->state = state;
    quic->packet = sl_packet_number(event);
}

/* The value of a part of the key of a layer above; 0: it has no such part. */
static inline uint64_t log_quic_part(const struct sl_event *event, const char *name) {
    const struct sl_key_part *part = sl_key_part_named(event->owner, name);
    return part ? sl_part_number(part, sl_event_half(event, 0)) : 0;
}

/* The side of the connection that sends on a stream. */
static inline unsigned log_quic_sender(const struct sl_event *event) { return (unsigned)log_quic_part(event, "sender") & 1; }

/* Whether an event of a layer above is of this connection, in its packet. Bytes may also be delivered when a stream ends, without
 * a packet of its connection. */
static inline bool log_quic_carries(const struct log_quic *quic, const struct sl_event *event) {
    return quic->state && quic->packet == sl_packet_number(event) && quic->flow.number == log_quic_part(event, "connection");
}

#endif
