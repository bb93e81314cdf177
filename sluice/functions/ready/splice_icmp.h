/* ICMP errors about segments of joined connections (RFC 792; RFC 4443, 2.4; RFC 1191 and 8201 need them): a router quotes a segment
 * with the addresses and numbers of its side of the box; the end that sent it uses those of the other. */
#ifndef SPLICE_ICMP_H
#define SPLICE_ICMP_H

#include "quoted_packet.h"

enum { SPLICE_ICMP_HEADER = 8 };

static bool splice_is_error(const uint8_t *icmp, unsigned version) {
    return version == 4 ? icmp[0] == 3 || icmp[0] == 11 || icmp[0] == 12 : icmp[0] >= 1 && icmp[0] <= 4;
}

/* Copies the segment that an error quotes; false: the event has no whole error about a segment of TCP. */
static bool splice_quote(const struct sl_event *event, const struct sl_ip_place *outer, struct quoted_packet *quoted) {
    const struct sl_frame *frame = sl_packet_frame(event);
    if (!outer->first || !outer->last || outer->protocol != (outer->version == 4 ? 1 : 58) ||
        event->unit.at != frame->at + outer->payload || event->unit.captured < SPLICE_ICMP_HEADER + 28 ||
        !splice_is_error(event->unit.at, outer->version))
        return false;
    return quoted_read(quoted, event->unit.at + SPLICE_ICMP_HEADER, event->unit.captured - SPLICE_ICMP_HEADER, QUOTED_MOST) &&
           quoted->ip.version == outer->version && quoted->ip.protocol == 6 &&
           quoted->ip.first && quoted->ip.payload + 8 <= quoted->frame.captured;
}

/* The connection of a client and its port, with whichever server. */
static struct splice_connection *splice_of_client(const struct splice *splice, const uint8_t *client, const uint8_t *port) {
    struct splice_connection *found = NULL;
    for (uint32_t i = 0; i < splice->servers.count && !found; i++) {
        const struct splice_endpoint *server = &splice->servers.server[i];
        found = splice_find(splice, client, port, server->address, (const uint8_t[]){(uint8_t)(server->port >> 8), (uint8_t)server->port});
    }
    return found;
}

static void splice_error(const struct sl_event *event) {
    struct sl_box *box = event->box;
    const struct splice *splice = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_packet_frame(event);
    struct quoted_packet quoted;
    struct sl_ip_place outer;
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (!sl_is_inline(box) || !found || !sl_ip_read(frame, at, &outer) || outer.version != splice->servers.version ||
        !splice_quote(event, &outer, &quoted))
        return;
    const uint32_t size = outer.version == 4 ? 4 : 16, addresses = size == 4 ? 12 : 8, ports = quoted.ip.payload;
    const uint8_t *source = quoted.bytes + addresses, *destination = source + size, *port = quoted.bytes + ports;
    bool to_server = splice_is_service(splice, source, port);   /* it was sent to the client, as if by the service */
    const struct splice_connection *c = to_server ? splice_of_client(splice, destination, port + 2)
                                                  : splice_find(splice, source, port, destination, port + 2);
    if (!c && !to_server)
        return;
    if (!c || c->phase != SPLICE_JOINED) {   /* sent by the box itself */
        SLUICE_COUNTER_OF(box, splice_errors_dropped)++;
        SLUICE_DROP(box);
        return;
    }
    const struct splice_endpoint *end = to_server ? &splice->servers.server[c->server] : &splice->servers.service;
    uint8_t number[4], place[2] = {(uint8_t)(end->port >> 8), (uint8_t)end->port};
    uint32_t numbered = ports + (to_server ? 4 : 8);   /* the box translates only the numbers of servers */
    quoted_replace(&quoted, addresses + (to_server ? 0 : size), end->address, size);
    quoted_replace(&quoted, ports + (to_server ? 0 : 2), place, 2);
    if (numbered + 4 <= quoted.frame.captured) {
        sl_store_be32(number, (uint32_t)sl_load_be32(quoted.bytes + numbered) + (to_server ? -c->number_shift : c->number_shift));
        quoted_replace(&quoted, numbered, number, 4);
    }
    if (SLUICE_REWRITE(box, event->unit.at + SPLICE_ICMP_HEADER, quoted.bytes, quoted.frame.captured) &&
        (!to_server || SLUICE_REWRITE(box, frame->at + outer.ip + addresses + size, end->address, size))) {
        SLUICE_COUNTER_OF(box, splice_errors)++;
        return;
    }
    SLUICE_COUNTER_OF(box, splice_errors_dropped)++;
    SLUICE_DROP(box);
}

#endif
