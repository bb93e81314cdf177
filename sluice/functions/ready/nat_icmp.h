/* ICMP through the function nat (RFC 5508): echoes, whose identifier is their port, and errors, which quote a packet that was
 * translated. A part of nat.c. */
#ifndef NAT_ICMP_H
#define NAT_ICMP_H

enum { NAT_QUOTED_MOST = 60 + 20, NAT_REPLY = 0, NAT_REQUEST = 8 };

/* A checksum after a 16-bit word of what it covers has changed (RFC 1624, [Eqn. 3]). */
static uint16_t nat_checksum(uint16_t sum, uint16_t before, uint16_t after) {
    uint32_t total = (uint16_t)~sum + (uint32_t)(uint16_t)~before + after;
    total = (total & 0xffff) + (total >> 16);
    return (uint16_t)~((total & 0xffff) + (total >> 16));
}

/* Stores words, and updates the checksums that cover them; NULL: there is none. */
static void nat_store(uint8_t *at, const uint8_t *bytes, unsigned length, uint8_t *first, uint8_t *second) {
    for (unsigned i = 0; i < length; i += 2) {
        uint8_t *sums[2] = {first, second};
        for (unsigned k = 0; k < 2; k++)
            if (sums[k])
                sl_store_be16(sums[k], nat_checksum((uint16_t)sl_load_be16(sums[k]), (uint16_t)sl_load_be16(at + i),
                                                    (uint16_t)sl_load_be16(bytes + i)));
        memcpy(at + i, bytes + i, 2);
    }
}

/* The packet that an error quotes: a copy, as far as it was captured. */
struct nat_quoted { uint8_t bytes[NAT_QUOTED_MOST]; uint32_t length, header; uint8_t protocol; };

static bool nat_quote(const struct sl_event *event, struct nat_quoted *quoted) {
    if (event->unit.captured < 8 + 20 + 8)
        return false;
    const uint8_t *ip = event->unit.at + 8;
    quoted->header = 4 * (ip[0] & 15u);
    quoted->length = (uint32_t)sl_min(event->unit.captured - 8, quoted->header + 20);
    quoted->protocol = ip[9];
    if (ip[0] >> 4 != 4 || quoted->header < 20 || quoted->length < quoted->header + 8 || sl_load_be16(ip + 6) & 0x1fff)
        return false;
    memcpy(quoted->bytes, ip, quoted->length);
    return quoted->protocol == NAT_TCP || quoted->protocol == NAT_UDP || quoted->protocol == NAT_ICMP;
}

/* Where the number of the quoted source or destination is: a port, or the identifier of an echo. */
static uint8_t *nat_quoted_number(struct nat_quoted *quoted, bool source) {
    return quoted->bytes + quoted->header + (quoted->protocol == NAT_ICMP ? 4 : source ? 0 : 2);
}

/* Replaces an end of the quoted packet, and the address of the error itself. */
static void nat_requote(const struct sl_event *event, struct nat_quoted *quoted, bool source, uint32_t address, uint16_t number) {
    uint8_t *transport = quoted->bytes + quoted->header, bytes[4], *sum = NULL;
    const uint8_t *outer = ip4_address_place(event, !source);
    if (quoted->protocol == NAT_TCP && quoted->length >= quoted->header + 18)
        sum = transport + 16;
    else if (quoted->protocol == NAT_UDP && sl_load_be16(transport + 6))
        sum = transport + 6;
    sl_store_be32(bytes, address);
    nat_store(quoted->bytes + (source ? 12 : 16), bytes, 4, quoted->bytes + 10, sum);
    sl_store_be16(bytes, number);
    nat_store(nat_quoted_number(quoted, source), bytes, 2, quoted->protocol == NAT_ICMP ? transport + 2 : sum, NULL);
    sl_store_be32(bytes, address);
    if (outer && SLUICE_REWRITE(event->box, event->unit.at + 8, quoted->bytes, quoted->length) && SLUICE_REWRITE(event->box, outer, bytes, 4)) {
        SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
        SLUICE_COUNTER_OF(event->box, errors_translated)++;
        return;
    }
    nat_drop(event, &SLUICE_COUNTER_OF(event->box, unchanged));
}

/* An error from the outside about what an inside endpoint sent. Who sends it is not filtered: a router on the path does. */
static void nat_error_in(const struct sl_event *event, const struct nat *nat) {
    struct nat_quoted quoted;
    bool ours = nat_quote(event, &quoted) && sl_load_be32(quoted.bytes + 12) == nat->address;
    struct sl_object *object =
        ours ? SLUICE_SHARED_AT(event->box, inside_of, sl_load_be16(nat_quoted_number(&quoted, true))) : NULL;
    const struct nat_inside *inside = sl_shared_struct(object);
    if (inside && inside->protocol == quoted.protocol) {
        nat_requote(event, &quoted, true, inside->address, inside->port);
        return;
    }
    if (inside && !inside->protocol)
        sl_shared_forget(object);
    nat_drop(event, &SLUICE_COUNTER_OF(event->box, unmapped));
}

/* An error from the inside about what an outside host sent to an inside endpoint. */
static void nat_error_out(const struct sl_event *event, const struct nat *nat) {
    struct nat_quoted quoted;
    struct sl_object *object = NULL;
    if (nat_quote(event, &quoted) && quoted.protocol != NAT_ICMP)
        object = SLUICE_SHARED_AT(event->box, endpoint,
                                  nat_endpoint_number(quoted.protocol, (uint32_t)sl_load_be32(quoted.bytes + 16),
                                                      (uint16_t)sl_load_be16(nat_quoted_number(&quoted, false))));
    const struct nat_endpoint *endpoint = sl_shared_struct(object);
    if (endpoint && endpoint->port) {
        nat_requote(event, &quoted, false, nat->address, (uint16_t)endpoint->port);
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
        SLUICE_STATE_OF(event)->known = true;   /* its end takes up no mapping */
    if (!place || event->unit.captured < 8) {
        nat_guard(event);
        return;
    }
    uint32_t from = (uint32_t)sl_load_be32(place), to = (uint32_t)sl_load_be32(place + 4);
    bool error = (unit[0] >= 3 && unit[0] <= 5) || unit[0] == 11 || unit[0] == 12;
    bool out = (from & nat->mask) == nat->inside && (to & nat->mask) != nat->inside && to != nat->address;
    uint16_t id = (uint16_t)sl_load_be16(unit + 4);
    if (out && unit[0] == NAT_REQUEST && event->instance) {
        struct nat_flow *flow = SLUICE_STATE_OF(event);
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
        nat_error_in(event, nat);
    } else if (error && out) {
        nat_error_out(event, nat);
    } else if (to == nat->address) {
        nat_drop(event, &SLUICE_COUNTER_OF(box, unmapped));
    } else {
        nat_guard(event);
    }
}

#endif
