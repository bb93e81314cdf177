/* Shared by logs of messages over UDP: the content of a datagram, its ports, and its flow. */
#ifndef LOG_DATAGRAM_H
#define LOG_DATAGRAM_H

#include "log_reader.h"
#include "log_row.h"

enum { LOG_UDP_HEADER = 8 };

/* The content of the datagram of a `udp packet` event with a flow; empty if there is none. */
static inline sl_bytes log_datagram(const struct sl_event *event, uint64_t length) {
    if (!event->instance || event->unit.captured < LOG_UDP_HEADER || !length)
        return (sl_bytes){NULL, 0, 0};
    return sl_bytes_slice(event->unit, LOG_UDP_HEADER, LOG_UDP_HEADER + length);
}

/* The port of a side of the flow. */
static inline uint16_t log_port_of(const struct sl_event *event, unsigned side) {
    const struct sl_key_part *port = sl_port_part(event->owner);
    return port ? (uint16_t)sl_part_number(port, sl_event_half(event, side)) : 0;
}

/* Whether an end of the flow has this port. */
static inline bool log_has_port(const struct sl_event *event, uint16_t port) {
    return log_port_of(event, 0) == port || log_port_of(event, 1) == port;
}

/* Begins a row about the message of the current packet, which the event's side has sent. */
static inline struct log_text *log_message(struct log_output *log, const struct sl_event *event) {
    struct log_flow flow = log_flow_of(event, log_path_of(log, event->box));
    return log_begin(log, event->box, &flow, event->side, sl_packet_time(event));
}

#endif
