/* Packets to the external address when they arrive (arrival.h): they get the inside end that has their port, if they pass the filter.
 * Others arrive as they are: their events count and drop them. A part of nat.c. */
#ifndef NAT_ARRIVAL_H
#define NAT_ARRIVAL_H

/* Replaces the destination of an arriving packet: its address at `address`, and the number at `place`. */
static bool nat_readdress(struct sl_box *box, const uint8_t *address, const uint8_t *place, const struct nat_inside *to) {
    uint8_t bytes[4], number[2];
    sl_store_be32(bytes, to->address);
    sl_store_be16(number, to->port);
    return SLUICE_REWRITE(box, address, bytes, 4) && SLUICE_REWRITE(box, place, number, 2);
}

/* An echo reply, or an error about a packet of an inside endpoint. */
static bool nat_arrives_icmp(struct sl_box *box, const uint8_t *address, sl_bytes unit) {
    uint64_t *why = NULL;
    if (unit.captured < NAT_ECHO)
        return false;
    if (quoted_by(unit.at[0])) {
        struct quoted_packet quoted;
        const struct nat_inside *inside = nat_quoted_inside(box, unit, &quoted);
        return inside && nat_requote(box, unit, address, &quoted, true, inside->address, inside->port);
    }
    const struct nat_inside *inside =
        unit.at[0] == NAT_REPLY ? nat_inside_of(box, NAT_ICMP, (uint16_t)sl_load_be16(unit.at + 4), (uint32_t)sl_load_be32(address - 4), 0, &why) : NULL;
    struct nat_inside to = inside ? *inside : (struct nat_inside){0};
    return inside && nat_readdress(box, address, unit.at + 4, &to);
}

/* The external port of an inside endpoint; 0: it has none. */
static uint16_t nat_external_port(struct sl_box *box, uint8_t protocol, uint32_t address, uint16_t port) {
    struct sl_object *object = SLUICE_SHARED_AT(box, endpoint, nat_endpoint_number(protocol, address, port));
    const struct nat_endpoint *endpoint = sl_shared_struct(object);
    const uint16_t external = endpoint ? (uint16_t)endpoint->port : 0;
    if (endpoint && !external)
        sl_shared_forget(object);
    return external;
}

/* A segment or datagram to an external port. */
static bool nat_arrives_port(struct sl_box *box, const struct sl_ip_place *ip, const uint8_t *address, sl_bytes unit) {
    uint64_t *why = NULL;
    const bool tcp = ip->protocol == NAT_TCP;
    if (unit.captured < (tcp ? NAT_TCP_HEADER : NAT_PORTS))
        return false;
    const struct nat *nat = SLUICE_WORKER_OF(box);
    uint32_t from = (uint32_t)sl_load_be32(address - 4);
    uint16_t other = (uint16_t)sl_load_be16(unit.at), port = (uint16_t)sl_load_be16(unit.at + 2);
    const bool between = (from & nat->mask) == nat->inside;
    if (between) {   /* the filter compares the external end that it has outside */
        other = nat->filter == NAT_ADDRESS_PORT ? nat_external_port(box, ip->protocol, from, other) : other;
        from = nat->address;
    }
    const struct nat_inside *inside = nat_inside_of(box, ip->protocol, port, from, other, &why);
    if (!inside)
        return false;
    const struct nat_inside to = *inside;
    if (!nat_readdress(box, address, unit.at + 2, &to))
        return false;
    struct tcp_place place = {*ip, unit.at, tcp ? 4u * (unit.at[12] >> 4) : 0};
    if (tcp && !between && nat_is_control(box, to.port, other) && place.header >= 20 && place.header <= unit.captured)
        nat_ftp_back(box, &place, port, from, other);
    return true;
}

static bool nat_arrives(struct sl_box *box) {
    const struct nat *nat = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_box_frame(box);
    struct sl_ip_place ip;
    bool found = false;
    const uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || frame->captured < at + 20 || frame->at[at] >> 4 != 4 || sl_load_be32(frame->at + at + 16) != nat->address ||
        !sl_ip_read(frame, at, &ip) || !ip.first || !ip.last || ip.payload > frame->captured)
        return false;
    const uint32_t here = frame->captured - ip.payload;
    const sl_bytes unit = {frame->at + ip.payload, here, here};
    const uint8_t *address = frame->at + at + 16;
    if (ip.protocol == NAT_ICMP)
        return (sl_load_be32(address - 4) & nat->mask) != nat->inside && nat_arrives_icmp(box, address, unit);
    return (ip.protocol == NAT_TCP || ip.protocol == NAT_UDP) && nat_arrives_port(box, &ip, address, unit);
}

#endif
