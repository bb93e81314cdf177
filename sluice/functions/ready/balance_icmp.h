/* ICMP errors through the function balance, which quote a packet of a connection to the virtual address (RFC 792): those about what
 * went to a server get the virtual address when they arrive, those about an answer the server's when they leave. A part of
 * balance.c. */
#ifndef BALANCE_ICMP_H
#define BALANCE_ICMP_H

#include "quoted_packet.h"

/* Reads the packet that an error quotes: its header and ports. unit: the error, from its ICMP header on. False: it is none. */
static bool balance_quote(sl_bytes unit, struct quoted_packet *quoted) {
    return quoted_read_ip4(quoted, unit) && quoted_by(unit.at[0]) && (quoted->ip.protocol == 6 || quoted->ip.protocol == 17);
}

/* The server of the quoted connection of a client, which is its source or destination; 0: it has none. */
static uint64_t balance_quoted_server(struct sl_box *box, const struct quoted_packet *quoted, bool client_sent) {
    const uint8_t *ip = quoted->bytes, *port = ip + quoted->ip.payload;
    return balance_server_of(box, (uint32_t)sl_load_be32(ip + (client_sent ? 12 : 16)), (uint16_t)sl_load_be16(port + (client_sent ? 0 : 2)),
                             (uint16_t)sl_load_be16(port + (client_sent ? 2 : 0)), quoted->ip.protocol == 6);
}

/* An arriving error about a packet that went to a server; `source`: the place of its sender, which may be the server. */
static bool balance_error_arrives(struct sl_box *box, const uint8_t *source, sl_bytes unit) {
    struct quoted_packet quoted;
    const uint64_t server = balance_quote(unit, &quoted) ? balance_quoted_server(box, &quoted, true) : 0;
    if (!server || server != sl_load_be32(quoted.bytes + 16))
        return false;
    uint8_t address[4];
    sl_store_be32(address, SLUICE_WORKER_OF(box)->address);
    quoted_replace(&quoted, 16, address, 4);
    return SLUICE_REWRITE(box, unit.at + QUOTED_ERROR_HEADER, quoted.bytes, quoted.frame.captured) &&
           (server != sl_load_be32(source) || SLUICE_REWRITE(box, source, address, 4));
}

/* An error about an answer, which goes to its server. */
SLUICE_ON(icmp, packet) {
    struct quoted_packet quoted;
    const uint8_t *to = ip4_address_place(event, false);
    const uint32_t virtual = SLUICE_WORKER_OF(event->box)->address;
    if (!to || sl_load_be32(to) != virtual || !balance_quote(event->unit, &quoted) || sl_load_be32(quoted.bytes + 12) != virtual)
        return;
    const uint64_t server = balance_quoted_server(event->box, &quoted, false);
    uint8_t address[4];
    sl_store_be32(address, server);
    quoted_replace(&quoted, 12, address, 4);
    if (server && (!SLUICE_REWRITE(event->box, event->unit.at + QUOTED_ERROR_HEADER, quoted.bytes, quoted.frame.captured) ||
                   !SLUICE_REWRITE(event->box, to, address, 4))) {
        SLUICE_COUNTER_OF(event->box, unchanged)++;
        SLUICE_DROP(event->box);
    }
}

#endif
