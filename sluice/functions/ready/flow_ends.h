/* The two ends of a flow as numbers: addresses in network byte order, and ports. */
#ifndef FLOW_ENDS_H
#define FLOW_ENDS_H

#include "log_row.h"

/* The ends of a flow, by side. */
struct flow_ends {
    uint8_t size;             /* of an address: 4, 16, or 0 for one that is no IP address */
    bool ports;
    uint16_t port[2];
    uint8_t address[2][16];
};

static inline void flow_ends_of(struct flow_ends *ends, const struct log_flow *flow) {
    const struct sl_key_part *address = sl_address_part(flow->layer), *port = sl_port_part(flow->layer);
    ends->size = (uint8_t)log_address(address, flow->half[0], ends->address[0]);
    log_address(address, flow->half[1], ends->address[1]);
    ends->ports = log_has(port);
    for (unsigned side = 0; side < 2; side++)
        ends->port[side] = ends->ports ? (uint16_t)sl_part_number(port, flow->half[side]) : 0;
}

#endif
