/* Source NAT with a port for each connection (RFC 3022, 2.2, traditional NAPT). Packets of TCP and UDP over IPv4
 * from the inside leave with the external address and a port from a list that all instances of the function share.
 * The port is released when the connection ends.
 *
 * Packets to the external address are rewritten to the inside address that has the port. In a capture taken inside,
 * answers have the inside address already: they leave as they looked outside, so that both directions of the output
 * are as the outside saw them. A mapping is refreshed by packets from the inside only (RFC 4787, 4.3, REQ-6). */
#include "sluice.h"

#include "ip4_rewrite.h"

SLUICE_INLINE
SLUICE_PARAMETER(address, text, "192.0.2.1", "external IPv4 address")
SLUICE_PARAMETER(inside, text, "10.0.0.0/8", "IPv4 addresses that are translated")
SLUICE_PARAMETER(first_port, number, 1024, "of the ports that are given out")
SLUICE_PARAMETER(last_port, number, 65535, "of these")

SLUICE_COUNTER(translated, "connections that got a port")
SLUICE_COUNTER(no_port, "connections that got none, as none was free or the store failed; their packets are dropped")
SLUICE_COUNTER(unmapped, "packets to the external address for a port that no connection has; they are dropped")
SLUICE_COUNTER(unsolicited, "packets of connections that began outside, to an inside address; they are dropped")
SLUICE_COUNTER(unsupported, "packets from the inside that are no TCP or UDP, fragments, malformed, or of no connection; they are dropped")
SLUICE_COUNTER(unchanged, "packets that could not be rewritten, as a header was not captured; they are dropped")

/* Of a connection from the inside; 0: it got no port. */
struct nat_mapping { uint32_t port; };
/* Of an external port: which inside endpoint has it, for which protocol (that of the IP header; 0: none). */
struct nat_inside { uint32_t address; uint16_t port; uint16_t protocol; };

SLUICE_SHARED(ports, list, all, read_write, recover, "ports that are free")
SLUICE_SHARED(packets, counter, all, write_mostly, zero, "packets that were translated")
SLUICE_SHARED(tcp_packets, counter, all, write_mostly, zero, "of these those of TCP")
SLUICE_SHARED(mapping, struct nat_mapping, flow, read_mostly, recover, "the external port of a connection")
SLUICE_SHARED(inside_of, struct nat_inside, dport, read_mostly, recover, "the inside endpoint of an external port")

struct nat_flow {
    struct sl_object *mapping;   /* of a connection from the inside; NULL: no port */
    struct sl_object *inside;    /* of the port of that */
    uint8_t role;                /* enum nat_role */
    uint8_t external;            /* the side that has the external address */
    bool known;                  /* the role is */
    bool asked;                  /* for a port */
};
SLUICE_STATE(struct nat_flow)

enum { NAT_TCP = 6, NAT_UDP = 17 };   /* the protocols of the IP header */
enum { NAT_TCP_HEADER = 14, NAT_PORTS = 4 };   /* bytes with which packets enter these layers */
enum nat_role { NAT_OTHER, NAT_FROM_INSIDE, NAT_TO_EXTERNAL, NAT_UNSOLICITED };

struct nat {
    uint32_t address, inside, mask;
    uint64_t done;   /* the number of the last packet that was translated or dropped */
};
SLUICE_WORKER(struct nat)

static void nat_drop(const struct sl_event *event, uint64_t *counter) {
    ++*counter;
    SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
    SLUICE_DROP(event->box);
}

/* Replaces address and port of the current packet: those of the source, or of the destination. */
static void nat_rewrite(const struct sl_event *event, bool source, uint32_t address, uint16_t port) {
    uint8_t number[2];
    sl_store_be16(number, port);
    const uint8_t *at = ip4_address_place(event, source);
    uint8_t bytes[4];
    sl_store_be32(bytes, address);
    if (at && event->unit.captured >= 4 && SLUICE_REWRITE(event->box, at, bytes, 4) &&
        SLUICE_REWRITE(event->box, event->unit.at + (source ? 0 : 2), number, 2))
        SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
    else
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unchanged));
}

/* Does an IPv4 header go from the inside to the outside? */
static bool nat_goes_out(const struct nat *nat, const uint8_t *ip) {
    return (sl_load_be32(ip + 12) & nat->mask) == nat->inside && (sl_load_be32(ip + 16) & nat->mask) != nat->inside;
}

/* Drops the current packet if it would leave with an inside address: what the handlers above neither translated nor
 * dropped, such as a packet of no connection. */
static void nat_guard(const struct sl_event *event) {
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    const struct sl_frame *frame = sl_packet_frame(event);
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (found && nat->done != sl_packet_number(event) && frame->captured >= at + 20 && frame->at[at] >> 4 == 4 &&
        nat_goes_out(nat, frame->at + at))
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsupported));
}

/* Takes up what another instance has stored for a connection that it had before. False: it has no mapping. */
static bool nat_take_up(const struct sl_event *event, struct nat_flow *flow) {
    flow->mapping = SLUICE_SHARED_OF(event, mapping);
    flow->asked = sl_shared_present(flow->mapping);
    if (flow->asked) {
        const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
        flow->inside = mapping && mapping->port ? SLUICE_SHARED_AT(event->box, inside_of, mapping->port) : NULL;
    }
    return flow->asked;
}

/* Gives a connection from the inside a port. */
static void nat_map(const struct sl_event *event, struct nat_flow *flow, bool tcp) {
    int64_t port;
    if (nat_take_up(event, flow))
        return;
    enum sl_store_status status = sl_shared_pop(SLUICE_SHARED_ALL(event->box, ports), &port);
    if (status != SL_STORE_DONE) {
        if (status == SL_STORE_ABSENT)
            sl_shared_put(flow->mapping);   /* that it has none: another instance must not give it one later */
        return;
    }
    flow->inside = SLUICE_SHARED_AT(event->box, inside_of, (uint64_t)port);
    struct nat_mapping *mapping = sl_object_bytes_of(flow->mapping);
    struct nat_inside *inside = sl_object_bytes_of(flow->inside);
    if (!mapping || !inside) {
        sl_shared_push(SLUICE_SHARED_ALL(event->box, ports), port);
        sl_shared_drop(flow->mapping);
        sl_shared_drop(flow->inside);
        flow->mapping = flow->inside = NULL;
        return;
    }
    mapping->port = (uint32_t)port;
    *inside = (struct nat_inside){ip4_address(event, 0), ip4_port(event, 0), tcp ? NAT_TCP : NAT_UDP};
    sl_shared_put(flow->mapping);
    sl_shared_put(flow->inside);
    SLUICE_COUNTER_OF(event->box, translated)++;
}

static void nat_begin(const struct sl_event *event) {
    if (!event->instance)
        return;
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    struct nat_flow *flow = SLUICE_STATE_OF(event);
    flow->known = true;
    uint32_t from = ip4_address(event, 0), to = ip4_address(event, 1);
    if (!from || !to)
        return;   /* IPv6 */
    bool from_inside = (from & nat->mask) == nat->inside, to_inside = (to & nat->mask) == nat->inside;
    /* The active side of a connection that is first seen by its SYN/ACK is the receiver of that. */
    flow->external = from == nat->address ? 0 : 1;
    flow->role = from == nat->address || to == nat->address ? NAT_TO_EXTERNAL
                 : from_inside && !to_inside               ? NAT_FROM_INSIDE
                 : to_inside && !from_inside               ? NAT_UNSOLICITED
                                                           : NAT_OTHER;
}

static void nat_count(const struct sl_event *event, bool tcp) {
    sl_shared_add(SLUICE_SHARED_ALL(event->box, packets), 1, NULL);
    if (tcp)
        sl_shared_add(SLUICE_SHARED_ALL(event->box, tcp_packets), 1, NULL);
}

static void nat_packet(const struct sl_event *event, bool tcp) {
    if (!event->instance || !ip4_address_place(event, true)) {
        nat_guard(event);   /* a connection in a tunnel leaves as it is */
        return;
    }
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    struct nat_flow *flow = SLUICE_STATE_OF(event);
    if (!flow->known)   /* another instance had it before */
        nat_begin(event);
    if (flow->role == NAT_FROM_INSIDE) {
        if (!flow->asked)
            nat_map(event, flow, tcp);
        flow->asked = true;
        const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
        if (!mapping || !mapping->port) {
            nat_drop(event, &SLUICE_COUNTER_OF(event->box, no_port));
            return;
        }
        nat_count(event, tcp);
        nat_rewrite(event, event->side == 0, nat->address, (uint16_t)mapping->port);
    } else if (flow->role == NAT_TO_EXTERNAL) {
        /* Packets from the outside. What the inside endpoint sends has its own address, and is of another flow. */
        struct sl_object *object = SLUICE_SHARED_AT(event->box, inside_of, ip4_port(event, flow->external));
        const struct nat_inside *inside = event->side != flow->external ? sl_shared_struct(object) : NULL;
        if (!inside || inside->protocol != (tcp ? NAT_TCP : NAT_UDP)) {
            if (inside && !inside->protocol)
                sl_shared_forget(object);
            nat_drop(event, &SLUICE_COUNTER_OF(event->box, unmapped));
            return;
        }
        nat_count(event, tcp);
        nat_rewrite(event, false, inside->address, inside->port);
    } else if (flow->role == NAT_UNSOLICITED) {
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsolicited));
    } else {
        nat_guard(event);
    }
}

static void nat_end(const struct sl_event *event, uint64_t reason) {
    struct nat_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && !flow->known && reason != SL_END_EOF) {
        nat_begin(event);
        if (flow->role == NAT_FROM_INSIDE)
            nat_take_up(event, flow);
    }
    if (!flow || !flow->mapping || reason == SL_END_EOF)
        return;   /* at the end of input connections go on elsewhere: their state remains */
    sl_shared_drop(flow->inside);   /* before another connection can get the port */
    const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
    if (mapping && mapping->port)
        sl_shared_push(SLUICE_SHARED_ALL(event->box, ports), mapping->port);
    sl_shared_drop(flow->mapping);
    flow->mapping = flow->inside = NULL;
}

SLUICE_ON(tcp, created) { nat_begin(event); }
SLUICE_ON(tcp, packet) { nat_packet(event, true); }
SLUICE_ON(tcp, end) { nat_end(event, data->reason); }
SLUICE_ON(udp, created) { nat_begin(event); }
SLUICE_ON(udp, packet) { nat_packet(event, false); }
SLUICE_ON(udp, end) { nat_end(event, data->reason); }

SLUICE_ON(tcp, malformed) { nat_guard(event); }
SLUICE_ON(tcp, orphan) { nat_guard(event); }
SLUICE_ON(tcp, dropped) { nat_guard(event); }
SLUICE_ON(udp, malformed) { nat_guard(event); }
SLUICE_ON(udp, dropped) { nat_guard(event); }
SLUICE_ON(ipv4, malformed) { nat_guard(event); }
SLUICE_ON(ipv4, dropped) { nat_guard(event); }

/* What is not translated must not leave with an inside address. A header of TCP or UDP that was not captured causes no
 * event of these layers. */
SLUICE_ON(ipv4, packet) {
    const uint8_t *ip = event->unit.at;
    if (event->unit.captured < 20 || !ip4_is_outermost(event) || !nat_goes_out(SLUICE_WORKER_OF(event->box), ip))
        return;
    bool tcp = ip[9] == NAT_TCP, fragment = sl_load_be16(ip + 6) & 0x3fff;
    if (fragment || (!tcp && ip[9] != NAT_UDP))
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsupported));
    else if (event->unit.captured < 4 * (ip[0] & 15u) + (tcp ? NAT_TCP_HEADER : NAT_PORTS))
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unchanged));
}

SLUICE_OPEN {
    struct nat *nat = SLUICE_WORKER_OF(box);
    uint64_t first = SLUICE_PARAMETER_OF(box, first_port), last = SLUICE_PARAMETER_OF(box, last_port);
    if (!ip4_read(SLUICE_PARAMETER_OF(box, address), &nat->address, NULL) ||
        !ip4_read(SLUICE_PARAMETER_OF(box, inside), &nat->inside, &nat->mask) || !first || first > last || last > 65535) {
        fprintf(stderr, "nat: address is an IPv4 address, inside one with /BITS, and ports are from 1 to 65535\n");
        return -1;
    }
    if (sl_shared_fill(SLUICE_SHARED_ALL(box, ports), (int64_t)first, (int64_t)last) != SL_STORE_DONE) {
        fprintf(stderr, "nat: the list of ports could not be filled\n");
        return -1;
    }
    return 0;
}
