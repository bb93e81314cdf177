/* Shared by logs of protocols over TCP: which side is the client. */
#ifndef LOG_STREAM_H
#define LOG_STREAM_H

#include "log_held.h"
#include "log_row.h"

/* Whether the active side's SYN was captured. */
static inline bool log_from_syn(const struct sl_event *event) {
    const struct sl_field_info *field = sl_layer_field(event->owner, "syn");
    return field && (sl_field_value(event->instance, field) & 1);
}

/* The port of a side of the flow. */
static inline uint16_t log_stream_port(const struct sl_event *event, unsigned side) {
    const struct sl_key_part *port = sl_port_part(event->owner);
    return port ? (uint16_t)sl_part_number(port, sl_event_half(event, side)) : 0;
}

/* The client's side: the one that opened the connection; of one whose SYN is missing, the peer of a well-known port. */
static inline unsigned log_client(const struct sl_event *event, uint16_t port) {
    return !log_from_syn(event) && log_stream_port(event, 0) == port && log_stream_port(event, 1) != port;
}

#endif
