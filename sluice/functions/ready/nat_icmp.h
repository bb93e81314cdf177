/* ICMP through the function nat (RFC 5508): echoes, whose identifier is their port, and errors, which quote a packet that was
 * translated. A part of nat.c. */
#ifndef NAT_ICMP_H
#define NAT_ICMP_H

#include "quoted_packet.h"

enum { NAT_REPLY = 0, NAT_REQUEST = 8 };

/* Reads the packet that an error quotes: its header and, at most, 20 bytes. unit: the error, from its ICMP header on. */
static bool nat_quote(sl_bytes unit, struct quoted_packet *quoted) {
    const uint8_t protocol = quoted_read_ip4(quoted, unit) ? quoted->ip.protocol : 0;
    return protocol == NAT_TCP || protocol == NAT_UDP || protocol == NAT_ICMP;
}

/* Where the number of the quoted source or destination is: a port, or the identifier of an echo. */
static uint32_t nat_quoted_number(const struct quoted_packet *quoted, bool source) {
    return quoted->ip.payload + (quoted->ip.protocol == NAT_ICMP ? 4 : source ? 0 : 2);
}

/* Replaces an end of the quoted packet, and the address of the error itself, which is at `outer`. False: it could not. */
static bool nat_requote(struct sl_box *box, sl_bytes unit, const uint8_t *outer, struct quoted_packet *quoted, bool source,
                        uint32_t address, uint16_t number) {
    uint8_t bytes[4], port[2];
    sl_store_be32(bytes, address);
    sl_store_be16(port, number);
    quoted_replace(quoted, source ? 12 : 16, bytes, 4);
    quoted_replace(quoted, nat_quoted_number(quoted, source), port, 2);
    if (!outer || !SLUICE_REWRITE(box, unit.at + QUOTED_ERROR_HEADER, quoted->bytes, quoted->frame.captured) ||
        !SLUICE_REWRITE(box, outer, bytes, 4))
        return false;
    SLUICE_COUNTER_OF(box, errors_translated)++;
    return true;
}

/* The same for the current packet, which is dropped if it could not. */
static void nat_translate_error(const struct sl_event *event, struct quoted_packet *quoted, bool source, uint32_t address, uint16_t number) {
    if (nat_requote(event->box, event->unit, ip4_address_place(event, !source), quoted, source, address, number))
        SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
    else
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unchanged));
}

/* The inside endpoint whose packet an error from the outside quotes; NULL: there is none. The error's sender is not filtered: it is
 * a router on the path. */
static const struct nat_inside *nat_quoted_inside(struct sl_box *box, sl_bytes unit, struct quoted_packet *quoted) {
    bool ours = nat_quote(unit, quoted) && sl_load_be32(quoted->bytes + 12) == SLUICE_WORKER_OF(box)->address;
    struct sl_object *object =
        ours ? SLUICE_SHARED_AT(box, inside_of, sl_load_be16(quoted->bytes + nat_quoted_number(quoted, true))) : NULL;
    const struct nat_inside *inside = sl_shared_struct(object);
    if (inside && inside->protocol == quoted->ip.protocol)
        return inside;
    if (inside && !inside->protocol)
        sl_shared_forget(object);
    return NULL;
}

/* An error from the outside about a packet of an inside endpoint. */
static void nat_error_in(const struct sl_event *event) {
    struct quoted_packet quoted;
    const struct nat_inside *inside = nat_quoted_inside(event->box, event->unit, &quoted);
    if (inside)
        nat_translate_error(event, &quoted, true, inside->address, inside->port);
    else
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unmapped));
}

/* An error from the inside about a packet of an outside host to an inside endpoint. */
static void nat_error_out(const struct sl_event *event, const struct nat *nat) {
    struct quoted_packet quoted;
    struct sl_object *object = NULL;
    if (nat_quote(event->unit, &quoted) && quoted.ip.protocol != NAT_ICMP)
        object = SLUICE_SHARED_AT(event->box, endpoint,
                                  nat_endpoint_number(quoted.ip.protocol, (uint32_t)sl_load_be32(quoted.bytes + 16),
                                                      (uint16_t)sl_load_be16(quoted.bytes + nat_quoted_number(&quoted, false))));
    const struct nat_endpoint *endpoint = sl_shared_struct(object);
    if (endpoint && endpoint->port) {
        nat_translate_error(event, &quoted, false, nat->address, (uint16_t)endpoint->port);
        sl_shared_leave_to_store(object);
        return;
    }
    if (endpoint)
        sl_shared_forget(object);
    nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsupported));
}

static void nat_icmp(const struct sl_event *event) {
    struct sl_box *box = event->box;
    const struct nat *nat = SLUICE_WORKER_OF(box);
    const uint8_t *place = ip4_address_place(event, true), *unit = event->unit.at;
    if (event->instance)
        SLUICE_STATE_OF(event)->known = true;   /* its end restores no mapping */
    if (!place || event->unit.captured < 8) {
        nat_guard(event);
        return;
    }
    uint32_t from = (uint32_t)sl_load_be32(place), to = (uint32_t)sl_load_be32(place + 4);
    const bool error = quoted_by(unit[0]);
    if (sl_arrived(box)) {   /* it has the inside end already */
        if (!error)
            nat_count(event, false);
        return;
    }
    bool out = (from & nat->mask) == nat->inside && (to & nat->mask) != nat->inside && to != nat->address;
    uint16_t id = (uint16_t)sl_load_be16(unit + 4);
    if (out && unit[0] == NAT_REQUEST && event->instance) {
        struct nat_flow *flow = SLUICE_STATE_OF(event);
        if (!flow->asked && sl_is_dropped(box))
            return;
        flow->inside = event->side & 1;   /* an unsolicited reply may have been the first packet */
        if (!flow->asked)
            nat_map(event, flow, NAT_ICMP, id, 0);
        flow->asked = true;
        const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
        if (!mapping || !mapping->port) {
            nat_drop(event, &SLUICE_COUNTER_OF(box, no_port));
            return;
        }
        nat_count(event, false);
        nat_rewrite(event, true, nat->address, unit + 4, (uint16_t)mapping->port);
    } else if (to == nat->address && unit[0] == NAT_REPLY) {
        const struct nat_inside *inside = nat_inside_at(event, NAT_ICMP, id, from, 0);
        if (!inside)
            return;
        nat_count(event, false);
        nat_rewrite(event, false, inside->address, unit + 4, inside->port);
    } else if (error && to == nat->address) {
        nat_error_in(event);
    } else if (error && out) {
        nat_error_out(event, nat);
    } else if (to == nat->address) {
        nat_drop(event, &SLUICE_COUNTER_OF(box, unmapped));
    } else {
        nat_guard(event);
    }
}

#endif
