/* Data of a packet for rules: the outermost IP header, the transport header in it, the link header, and the state of its
 * connection. */
#ifndef FIREWALL_PACKET_H
#define FIREWALL_PACKET_H

#include "firewall_table.h"

enum firewall_state { FIREWALL_NEW, FIREWALL_ESTABLISHED, FIREWALL_RELATED, FIREWALL_INVALID, FIREWALL_UNTRACKED };
enum { FIREWALL_TCP = 6, FIREWALL_UDP = 17, FIREWALL_ICMP = 1, FIREWALL_ICMP6 = 58 };

struct firewall_end { struct firewall_number address; uint16_t port; };

struct firewall_packet {
    struct firewall_end from, to;
    uint64_t length;                 /* of the IP packet, in bytes; of a datagram in fragments, the last one */
    const uint8_t *ether;            /* the link header, or NULL */
    uint16_t id;
    uint8_t version, protocol, ttl, dscp, flags, type, code;
    uint8_t state, direction;        /* enum firewall_state; 1: a reply */
    bool has_protocol, has_ports, has_flags, has_type, has_direction;
};

static inline struct firewall_number firewall_address(const uint8_t *at, unsigned version) {
    if (version == 4)
        return (struct firewall_number){0, sl_load_be32(at)};
    return (struct firewall_number){sl_load_be64(at), sl_load_be64(at + 8)};
}

/* Reads the transport header as far as it was captured. */
static inline void firewall_read_transport(struct firewall_packet *packet, sl_bytes unit) {
    static const uint8_t with_ports[] = {FIREWALL_TCP, FIREWALL_UDP, 33, 132, 136};   /* DCCP, SCTP, UDP-Lite */
    bool ports = packet->has_protocol && memchr(with_ports, packet->protocol, sizeof with_ports);
    bool types = packet->has_protocol && (packet->protocol == FIREWALL_ICMP || packet->protocol == FIREWALL_ICMP6);
    if (ports && unit.captured >= 4) {
        packet->from.port = (uint16_t)sl_load_be16(unit.at);
        packet->to.port = (uint16_t)sl_load_be16(unit.at + 2);
        packet->has_ports = true;
    }
    if (packet->has_protocol && packet->protocol == FIREWALL_TCP && unit.captured >= 14) {
        packet->flags = unit.at[13];
        packet->has_flags = true;
    }
    if (types && unit.captured >= 2) {
        packet->type = unit.at[0];
        packet->code = unit.at[1];
        packet->has_type = true;
    }
}

/* Reads the headers of the current packet, whose IP header is at `at`; `unit`: the transport header, of a whole datagram. */
static inline void firewall_read(const struct sl_frame *frame, uint32_t at, sl_bytes unit, struct firewall_packet *packet) {
    struct sl_ip_place place;
    *packet = (struct firewall_packet){0};
    uint32_t here = frame->captured > at ? frame->captured - at : 0;
    const uint8_t *ip = frame->at + at;
    packet->ether = frame->link_type == 1 && frame->captured >= 14 ? frame->at : NULL;
    packet->version = here && ip[0] >> 4 == 6 ? 6 : 4;
    packet->length = frame->length > at ? frame->length - at : 0;
    if (!sl_ip_read(frame, at, &place))
        return;
    packet->has_protocol = true;
    packet->protocol = (uint8_t)place.protocol;
    packet->length = place.end > at ? place.end - at : packet->length;
    if (packet->version == 4) {
        packet->from.address = firewall_address(ip + 12, 4);
        packet->to.address = firewall_address(ip + 16, 4);
        packet->ttl = ip[8];
        packet->dscp = ip[1] >> 2;
        packet->id = (uint16_t)sl_load_be16(ip + 4);
    } else {
        packet->from.address = firewall_address(ip + 8, 6);
        packet->to.address = firewall_address(ip + 24, 6);
        packet->ttl = ip[7];
        packet->dscp = (uint8_t)(sl_load_be16(ip) >> 6 & 63);
    }
    firewall_read_transport(packet, unit);
}

/* The value of a field. False: the packet has none, and the match does not hold. */
static inline bool firewall_value(const struct firewall_packet *packet, uint32_t field, struct firewall_number *value) {
    const uint8_t *ether = packet->ether;
    uint64_t low = 0;
    bool has = packet->has_protocol;
    switch (field) {
    case FIREWALL_NFPROTO: low = packet->version; has = true; break;
    case FIREWALL_PROTOCOL: low = packet->protocol; break;
    case FIREWALL_SADDR: *value = packet->from.address; return has;
    case FIREWALL_DADDR: *value = packet->to.address; return has;
    case FIREWALL_SPORT: low = packet->from.port; has = packet->has_ports; break;
    case FIREWALL_DPORT: low = packet->to.port; has = packet->has_ports; break;
    case FIREWALL_FLAGS: low = packet->flags; has = packet->has_flags; break;
    case FIREWALL_TTL: low = packet->ttl; break;
    case FIREWALL_DSCP: low = packet->dscp; break;
    case FIREWALL_LENGTH: low = packet->length; has = true; break;
    case FIREWALL_ID: low = packet->id; break;
    case FIREWALL_TYPE: low = packet->type; has = packet->has_type; break;
    case FIREWALL_CODE: low = packet->code; has = packet->has_type; break;
    case FIREWALL_STATE: low = packet->state; has = true; break;
    case FIREWALL_DIRECTION: low = packet->direction; has = packet->has_direction; break;
    case FIREWALL_ETHER_DADDR: low = ether ? sl_load_be(ether, 6) : 0; has = ether != NULL; break;
    case FIREWALL_ETHER_SADDR: low = ether ? sl_load_be(ether + 6, 6) : 0; has = ether != NULL; break;
    case FIREWALL_ETHER_TYPE: low = ether ? sl_load_be16(ether + 12) : 0; has = ether != NULL; break;
    default: has = false;
    }
    *value = (struct firewall_number){0, low};
    return has;
}

/* The number of a flow, for both directions: a keyed hash of its protocol and ends, below 2^52. Only the box knows
 * the key, so that a sender cannot choose ends whose hash is that of another flow. */
static inline uint64_t firewall_mix(uint64_t hash, uint64_t word) {
    sl_uint128 product = (sl_uint128)(hash ^ word ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    hash = (uint64_t)product ^ (uint64_t)(product >> 64);
    return hash ^ hash >> 32;
}

static inline uint64_t firewall_flow_hash(uint64_t seed, uint8_t protocol, struct firewall_end a, struct firewall_end b) {
    bool swap = a.address.high != b.address.high ? a.address.high > b.address.high
                : a.address.low != b.address.low ? a.address.low > b.address.low
                                                 : a.port > b.port;
    const struct firewall_end *first = swap ? &b : &a, *second = swap ? &a : &b;
    uint64_t hash = firewall_mix(seed, (uint64_t)protocol << 32 | (uint64_t)first->port << 16 | second->port);
    hash = firewall_mix(firewall_mix(hash, first->address.high), first->address.low);
    hash = firewall_mix(firewall_mix(hash, second->address.high), second->address.low);
    return firewall_mix(hash, seed) >> 12;
}

/* The number in the place of ports: the identifier of an echo. */
static inline uint16_t firewall_echo_id(const uint8_t *icmp) { return (uint16_t)sl_load_be16(icmp + 4); }

/* The hash of the flow of a packet; `unit`: its transport header. */
static inline uint64_t firewall_packet_hash(uint64_t seed, const struct firewall_packet *packet, sl_bytes unit) {
    struct firewall_end from = packet->from, to = packet->to;
    if (packet->has_type && unit.captured >= 6)
        from.port = to.port = firewall_echo_id(unit.at);
    return firewall_flow_hash(seed, packet->protocol, from, to);
}

/* The hash of the flow that an ICMP error quotes; 0 if it quotes none as far as it was captured (RFC 792; RFC 4443, 3). */
static inline uint64_t firewall_quoted(uint64_t seed, sl_bytes unit, unsigned version) {
    if (unit.captured < 8 + 20 + 8)
        return 0;
    const uint8_t *ip = unit.at + 8;
    uint32_t header = version == 4 ? 4 * (ip[0] & 15u) : 40;
    if (ip[0] >> 4 != version || header < 20 || unit.captured < 8 + header + 8)
        return 0;
    uint8_t protocol = version == 4 ? ip[9] : ip[6];
    const uint8_t *transport = ip + header;
    struct firewall_end from = {firewall_address(ip + (version == 4 ? 12 : 8), version), 0};
    struct firewall_end to = {firewall_address(ip + (version == 4 ? 16 : 24), version), 0};
    if (version == 4 && sl_load_be16(ip + 6) & 0x1fff)
        return 0;   /* not the first fragment: it has no ports */
    if (protocol == FIREWALL_TCP || protocol == FIREWALL_UDP) {
        from.port = (uint16_t)sl_load_be16(transport);
        to.port = (uint16_t)sl_load_be16(transport + 2);
    } else if (protocol == FIREWALL_ICMP || protocol == FIREWALL_ICMP6) {
        from.port = to.port = firewall_echo_id(transport);
    } else {
        return 0;
    }
    return firewall_flow_hash(seed, protocol, from, to);
}

#endif
