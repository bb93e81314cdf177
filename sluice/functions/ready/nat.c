/* Source NAT with ports (RFC 3022, 2.2, traditional NAPT; RFC 4787, 5382 and 5508). Packets of TCP, UDP and ICMP echoes over IPv4
 * from the inside leave with the external address and a port (an identifier of echoes) from a list that all instances of the
 * function share. An inside endpoint has one port for all that it contacts (endpoint-independent mapping, RFC 4787, REQ-1),
 * which is released when its last connection ends. What comes to the port from outside passes by `filter`.
 *
 * Packets to the external address are rewritten to the inside address that has the port: when they arrive, before the stack
 * reads them, so that the stack has one connection with the inside end, and all functions of the box see that in both
 * directions. In a process of its own, as in an isolated chain, the function gets them from a stack that has read them with
 * the external address, and rewrites them there, as those between two inside hosts in any box.
 *
 * In a capture taken inside, answers have the inside address already: they leave as they looked outside, so that both
 * directions of the output are as the outside saw them. A mapping lives as long as a connection of its endpoint, which
 * packets of both directions refresh (RFC 4787, 4.3, REQ-6). */
#include "sluice.h"

#include "ip4_rewrite.h"
#include "nat_numbers.h"

SLUICE_INLINE
SLUICE_PARAMETER(address, text, "192.0.2.1", "external IPv4 address")
SLUICE_PARAMETER(inside, text, "10.0.0.0/8", "IPv4 addresses that are translated")
SLUICE_PARAMETER(first_port, number, 1024, "of the ports that are given out")
SLUICE_PARAMETER(last_port, number, 65535, "of these")

SLUICE_PARAMETER(filter, text, "none", "which outside hosts reach a mapped port: none is filtered, or all but those of the address, or the address and port, that were contacted (address, port)")

SLUICE_PARAMETER(forward, text, "", "external ports of TCP that inside endpoints always have: PORT:ADDRESS:PORT, with + between them; ports that are not given out")
SLUICE_PARAMETER(ftp, number, 21, "port of control connections of FTP, whose announcements of inside hosts are translated; 0: none")

SLUICE_COUNTER(translated, "connections that got a port")
SLUICE_COUNTER(no_port, "connections that got none, as none was free or the store failed; their packets are dropped")
SLUICE_COUNTER(unmapped, "packets to the external address for a port that no connection has; they are dropped")
SLUICE_COUNTER(unsolicited, "packets of connections that began outside, to an inside address; they are dropped")
SLUICE_COUNTER(unsupported, "packets from the inside that are no TCP, UDP or echoes, malformed, or of no connection, and fragments; they are dropped")
SLUICE_COUNTER(filtered, "packets from outside that the filter dropped")
SLUICE_COUNTER(hairpinned, "packets from the inside to the external address, which go back to the inside (RFC 4787, REQ-9)")
SLUICE_COUNTER(errors_translated, "ICMP errors whose quoted packet was translated (RFC 5508, REQ-4, REQ-5)")
SLUICE_COUNTER(ftp_announced, "ends of data connections that inside hosts announced, and that got an external port")
SLUICE_COUNTER(ftp_refused, "announcements that leave as they are: of another host's address, a port below 1024, numbers in several segments, or without room")
SLUICE_COUNTER(ftp_unread, "segments of FTP whose lines are not read: of more than 2,048 bytes, or not captured whole")
SLUICE_COUNTER(ftp_forgotten, "segments of FTP that are sent again after four further announcements; they are dropped")
SLUICE_COUNTER(unchanged, "packets that could not be rewritten, as a header was not captured; they are dropped")

/* Of a connection from the inside; 0: it got no port. */
struct nat_mapping { uint32_t port; };
/* Of an inside endpoint: its port, and the connections that have it. */
struct nat_endpoint { uint32_t port, flows; };
/* Of an external port: which inside endpoint has it, for which protocol (that of the IP header; 0: none). */
struct nat_inside { uint32_t address; uint16_t port; uint16_t protocol; };

SLUICE_SHARED(ports, list, all, read_write, recover, "ports that are free")
SLUICE_SHARED(packets, counter, all, write_mostly, zero, "packets that were translated")
SLUICE_SHARED(tcp_packets, counter, all, write_mostly, zero, "of these those of TCP")
SLUICE_SHARED(mapping, struct nat_mapping, flow, read_mostly, recover, "the external port of a connection")
SLUICE_SHARED(inside_of, struct nat_inside, dport, read_mostly, recover, "the inside endpoint of an external port")
/* Connections of an endpoint may be those of several instances: each reads its counts in the order of packets. */
SLUICE_SHARED(endpoint, struct nat_endpoint, dport, read_write, recover, "the external port of an inside endpoint, by protocol, address and port")
SLUICE_SHARED(contacted, set, dport, read_mostly, recover, "outside ends that an external port has contacted, for the filter")

SLUICE_SHARED(control, struct nat_control, dport, read_write, recover, "control connections of FTP, by external port and outside end")

struct nat_flow {
    struct sl_object *mapping;   /* of a connection from the inside; NULL: no port */
    uint64_t endpoint;           /* the number of the inside endpoint that has that */
    uint64_t called;             /* of NAT_BETWEEN: that of the other endpoint, whose port it keeps; 0: none */
    uint16_t called_port;        /* that port */
    uint8_t role;                /* enum nat_role */
    uint8_t external;            /* the side that has the external address */
    uint8_t inside;              /* the side of the inside endpoint */
    bool known;                  /* the role is */
    bool asked;                  /* a port was requested */
};
SLUICE_STATE(struct nat_flow)

enum { NAT_ICMP = 1, NAT_TCP = 6, NAT_UDP = 17 };   /* the protocols of the IP header */
enum { NAT_TCP_HEADER = 14, NAT_PORTS = 4, NAT_ECHO = 8 };   /* bytes with which packets enter these layers */
/* NAT_ANSWERS: a connection that an outside host opened to an external port, with the inside end. NAT_BETWEEN: of two inside hosts,
 * each of which has the external end of the other; NAT_HAIRPIN: one direction of that, where packets are not translated when they
 * arrive. */
enum nat_role { NAT_OTHER, NAT_FROM_INSIDE, NAT_ANSWERS, NAT_TO_EXTERNAL, NAT_UNSOLICITED, NAT_HAIRPIN, NAT_BETWEEN };
enum nat_filter { NAT_ALL, NAT_ADDRESS, NAT_ADDRESS_PORT };

struct nat {
    uint32_t address, inside, mask;
    enum nat_filter filter;
    uint64_t done;   /* the number of the last packet that was translated or dropped */
};
SLUICE_WORKER(struct nat)

static void nat_drop(const struct sl_event *event, uint64_t *counter) {
    ++*counter;
    SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
    SLUICE_DROP(event->box);
}

/* Replaces an address of the current packet, that of the source or of the destination, and the number at `place`. */
static bool nat_rewrite(const struct sl_event *event, bool source, uint32_t address, const uint8_t *place, uint16_t port) {
    uint8_t number[2];
    sl_store_be16(number, port);
    const uint8_t *at = ip4_address_place(event, source);
    uint8_t bytes[4];
    sl_store_be32(bytes, address);
    if (at && place + 2 <= event->unit.at + event->unit.captured && SLUICE_REWRITE(event->box, at, bytes, 4) &&
        SLUICE_REWRITE(event->box, place, number, 2)) {
        SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
        return true;
    }
    nat_drop(event, &SLUICE_COUNTER_OF(event->box, unchanged));
    return false;
}

/* Where the port of the source or of the destination is in a packet of TCP or UDP. */
static const uint8_t *nat_port_place(const struct sl_event *event, bool source) { return event->unit.at + (source ? 0 : 2); }

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

/* The identifier of the echoes of an instance, which its key has. */
static uint16_t nat_identifier(const struct sl_event *event) {
    const struct sl_key_part *part = sl_key_part_named(event->owner, "id");
    return part ? (uint16_t)sl_part_number(part, sl_event_half(event, 0)) : 0;
}

/* The number of an inside endpoint; the port of echoes is their identifier. */
static uint64_t nat_endpoint_number(uint8_t protocol, uint32_t address, uint16_t port) {
    return (uint64_t)protocol << 48 | (uint64_t)address << 16 | port;
}

/* Gives an inside endpoint a port, unless it has one. SL_STORE_ABSENT: none is free. */
static enum sl_store_status nat_assign(struct sl_box *box, struct nat_endpoint *endpoint, uint8_t protocol, uint32_t address, uint16_t number) {
    int64_t port = 0;
    enum sl_store_status status = endpoint->port ? SL_STORE_DONE : sl_shared_pop(SLUICE_SHARED_ALL(box, ports), &port);
    if (endpoint->port || status != SL_STORE_DONE)
        return status;
    struct sl_object *object = SLUICE_SHARED_AT(box, inside_of, (uint64_t)port);
    struct nat_inside *inside = sl_object_bytes_of(object);
    if (!inside) {
        sl_shared_push(SLUICE_SHARED_ALL(box, ports), port);
        return SL_STORE_REFUSED;
    }
    *inside = (struct nat_inside){address, number, protocol};
    sl_shared_put(object);
    *endpoint = (struct nat_endpoint){(uint32_t)port, 0};
    return SL_STORE_DONE;
}

/* Releases the port of an inside endpoint without connections. */
static void nat_release(struct sl_box *box, struct sl_object *endpoint, uint32_t port) {
    sl_shared_drop(SLUICE_SHARED_AT(box, inside_of, port));   /* before another endpoint can get the port */
    if (SLUICE_WORKER_OF(box)->filter != NAT_ALL)
        sl_shared_drop(SLUICE_SHARED_AT(box, contacted, port));
    sl_shared_drop(endpoint);
    sl_shared_push(SLUICE_SHARED_ALL(box, ports), port);
}

/* A connection that had the port of an inside endpoint has ended. */
static void nat_leave(struct sl_box *box, uint64_t number) {
    struct sl_object *object = SLUICE_SHARED_AT(box, endpoint, number);
    struct nat_endpoint *endpoint = sl_shared_struct(object);
    if (endpoint && endpoint->flows > 1) {
        endpoint->flows--;
        sl_shared_put(object);
        sl_shared_leave_to_store(object);
    } else if (endpoint) {
        nat_release(box, object, endpoint->port);
    }
}

/* The outside end of a connection, as the filter compares it. */
static int64_t nat_outside(const struct nat *nat, uint32_t address, uint16_t port) {
    return nat->filter == NAT_ADDRESS ? (int64_t)address : (int64_t)((uint64_t)address << 16 | port);
}

/* Restores the state that another instance has stored for a connection. False: it has no mapping. */
static bool nat_take_up(const struct sl_event *event, struct nat_flow *flow, uint8_t protocol, uint16_t number) {
    flow->mapping = SLUICE_SHARED_OF(event, mapping);
    flow->asked = sl_shared_present(flow->mapping);
    flow->endpoint = nat_endpoint_number(protocol, ip4_address(event, flow->inside), number);
    return flow->asked;
}

/* Gives a connection of an inside endpoint with an outside one its port. One that the outside opened has none where the endpoint
 * has none yet. */
static void nat_map(const struct sl_event *event, struct nat_flow *flow, uint8_t protocol, uint16_t number, uint16_t to) {
    struct sl_box *box = event->box;
    const struct nat *nat = SLUICE_WORKER_OF(box);
    if (nat_take_up(event, flow, protocol, number))
        return;
    struct nat_mapping *mapping = sl_object_bytes_of(flow->mapping);
    struct sl_object *object = mapping ? SLUICE_SHARED_AT(box, endpoint, flow->endpoint) : NULL;
    struct nat_endpoint *endpoint = sl_shared_struct(object);
    const uint32_t inside = ip4_address(event, flow->inside);
    const uint32_t outside = flow->role == NAT_BETWEEN ? nat->address : ip4_address(event, flow->inside ^ 1u);
    enum sl_store_status status = SL_STORE_FAILED;
    if (endpoint && (flow->role != NAT_ANSWERS || endpoint->port))
        status = nat_assign(box, endpoint, protocol, inside, number);
    if (status == SL_STORE_DONE) {
        mapping->port = endpoint->port;
        sl_shared_put(flow->mapping);
        endpoint->flows++;
        sl_shared_put(object);
        if (nat->filter != NAT_ALL)
            sl_shared_insert(SLUICE_SHARED_AT(box, contacted, mapping->port), nat_outside(nat, outside, to), NULL);
        SLUICE_COUNTER_OF(box, translated)++;
        sl_shared_leave_to_store(object);
        return;
    }
    if (endpoint)
        sl_shared_forget(object);
    if (status == SL_STORE_ABSENT) {
        sl_shared_put(flow->mapping);   /* that it has none: another instance must not give it one later */
    } else {
        sl_shared_drop(flow->mapping);
        flow->mapping = NULL;
    }
}

/* The inside endpoint that has an external port, if packets from an outside end pass the filter; NULL: *why counts those that do
 * not. */
static const struct nat_inside *nat_inside_of(struct sl_box *box, uint8_t protocol, uint16_t port, uint32_t from, uint16_t from_port, uint64_t **why) {
    const struct nat *nat = SLUICE_WORKER_OF(box);
    struct sl_object *object = SLUICE_SHARED_AT(box, inside_of, port);
    const struct nat_inside *inside = sl_shared_struct(object);
    int64_t there = 1;
    if (!inside || inside->protocol != protocol) {
        if (inside && !inside->protocol)
            sl_shared_forget(object);
        *why = &SLUICE_COUNTER_OF(box, unmapped);
        return NULL;
    }
    bool forwarded = port < SLUICE_PARAMETER_OF(box, first_port) || port > SLUICE_PARAMETER_OF(box, last_port);
    if (nat->filter != NAT_ALL && !forwarded &&
        sl_shared_contains(SLUICE_SHARED_AT(box, contacted, port), nat_outside(nat, from, from_port), &there) != SL_STORE_DONE)
        there = 0;
    if (!there && nat->filter == NAT_ADDRESS_PORT &&   /* any port of a server that a data connection was announced to */
        sl_shared_contains(SLUICE_SHARED_AT(box, contacted, port), nat_outside(nat, from, 0), &there) != SL_STORE_DONE)
        there = 0;
    *why = &SLUICE_COUNTER_OF(box, filtered);
    return there ? inside : NULL;
}

/* The same for the current packet, which is dropped if there is none. */
static const struct nat_inside *nat_inside_at(const struct sl_event *event, uint8_t protocol, uint16_t port, uint32_t from, uint16_t from_port) {
    uint64_t *why = NULL;
    const struct nat_inside *inside = nat_inside_of(event->box, protocol, port, from, from_port, &why);
    if (!inside)
        nat_drop(event, why);
    return inside;
}

/* created: by the current packet; else another instance of the function had the connection before. */
static void nat_begin(const struct sl_event *event, bool created, bool tcp) {
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
    flow->inside = !from_inside;
    bool answers = tcp && to_inside && !from_inside && created && event->side == 1;
    if (tcp && to_inside && !from_inside && !created) {
        flow->mapping = SLUICE_SHARED_OF(event, mapping);   /* dropped at the end, also if it was not set */
        answers = sl_shared_present(flow->mapping);
    }
    flow->role = from_inside && to == nat->address           ? NAT_HAIRPIN
                 : tcp && to_inside && from == nat->address  ? NAT_HAIRPIN
                 : from == nat->address || to == nat->address ? NAT_TO_EXTERNAL
                 : from_inside && !to_inside               ? NAT_FROM_INSIDE
                 : answers                                 ? NAT_ANSWERS
                 : to_inside && !from_inside               ? NAT_UNSOLICITED
                                                           : NAT_OTHER;
}

static void nat_count(const struct sl_event *event, bool tcp) {
    sl_shared_add(SLUICE_SHARED_ALL(event->box, packets), 1, NULL);
    if (tcp)
        sl_shared_add(SLUICE_SHARED_ALL(event->box, tcp_packets), 1, NULL);
}

#include "nat_hairpin.h"

/* The role of a connection whose current packet was translated when it arrived, and which was none of the function's before. */
static void nat_take_arrived(const struct sl_event *event, struct nat_flow *flow) {
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    const unsigned from = event->side & 1;
    const bool between = (ip4_address(event, from) & nat->mask) == nat->inside;
    flow->role = between ? NAT_BETWEEN : NAT_ANSWERS;
    flow->inside = (uint8_t)(between ? from : from ^ 1u);
}

#include "nat_ftp.h"

/* Does the current segment open a connection? */
static bool nat_opens(const struct sl_event *event) {
    return event->unit.captured >= NAT_TCP_HEADER && (event->unit.at[13] & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

static void nat_packet(const struct sl_event *event, bool tcp) {
    if (!event->instance || !ip4_address_place(event, true)) {
        nat_guard(event);   /* a connection in a tunnel leaves as it is */
        return;
    }
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    struct nat_flow *flow = SLUICE_STATE_OF(event);
    uint8_t protocol = tcp ? NAT_TCP : NAT_UDP;
    if (!flow->known)   /* another instance had it before */
        nat_begin(event, false, tcp);
    const bool arrived = sl_arrived(event->box);
    if (arrived && (flow->role == NAT_OTHER || flow->role == NAT_UNSOLICITED))
        nat_take_arrived(event, flow);
    const bool refused = flow->role == NAT_UNSOLICITED || (flow->role == NAT_ANSWERS && !flow->asked && !arrived);
    if (refused && event->side == flow->inside && (!tcp || nat_opens(event)))
        flow->role = NAT_FROM_INSIDE;   /* what came from outside before was dropped: it must not keep an inside host from beginning */
    if (arrived && flow->role == NAT_BETWEEN) {
        nat_between(event, flow, protocol);
        return;
    }
    const bool control = tcp && nat_is_control(event->box, ip4_port(event, 0), ip4_port(event, 1));
    if (flow->role == NAT_FROM_INSIDE || flow->role == NAT_ANSWERS || flow->role == NAT_HAIRPIN) {
        if (!flow->asked && sl_is_dropped(event->box))
            return;   /* another function does not let the connection begin */
        if (!flow->asked)
            nat_map(event, flow, protocol, ip4_port(event, flow->inside), ip4_port(event, flow->inside ^ 1u));
        flow->asked = true;
        const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
        if (arrived && flow->role == NAT_ANSWERS && (!mapping || !mapping->port)) {
            /* The packet itself ended the connection that had the port, which had expired: after it was translated. */
            flow->role = NAT_UNSOLICITED;
            flow->asked = false;
            nat_drop(event, &SLUICE_COUNTER_OF(event->box, unmapped));
            return;
        }
        if (arrived) {   /* it has the inside end already */
            nat_count(event, tcp);
            return;
        }
        if (!mapping || !mapping->port) {
            nat_drop(event, flow->role == NAT_ANSWERS ? &SLUICE_COUNTER_OF(event->box, unsolicited) : &SLUICE_COUNTER_OF(event->box, no_port));
            return;
        }
        bool source = event->side == flow->inside;
        if (flow->role == NAT_HAIRPIN) {
            nat_hairpin(event, protocol, (uint16_t)mapping->port, tcp);
            return;
        }
        nat_count(event, tcp);
        if (control && source && nat_ftp_out(event, flow, (uint16_t)mapping->port))
            return;
        if (control && !source)
            nat_ftp_in(event, (uint16_t)mapping->port, flow->inside ^ 1u);
        nat_rewrite(event, source, nat->address, nat_port_place(event, source), (uint16_t)mapping->port);
    } else if (flow->role == NAT_TO_EXTERNAL) {
        /* Packets from the outside. Packets of the inside endpoint have its own address, and are of another flow. */
        unsigned outside = flow->external ^ 1u;
        if (event->side == flow->external) {
            nat_drop(event, &SLUICE_COUNTER_OF(event->box, unmapped));
            return;
        }
        const struct nat_inside *inside =
            nat_inside_at(event, protocol, ip4_port(event, flow->external), ip4_address(event, outside), ip4_port(event, outside));
        if (!inside)
            return;
        struct nat_inside to = *inside;
        nat_count(event, tcp);
        if (tcp && nat_is_control(event->box, to.port, ip4_port(event, outside)))
            nat_ftp_in(event, ip4_port(event, flow->external), outside);
        nat_rewrite(event, false, to.address, nat_port_place(event, false), to.port);
    } else if (flow->role == NAT_UNSOLICITED) {
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsolicited));
    } else {
        nat_guard(event);
    }
}

/* protocol: of the connection. */
static void nat_end(const struct sl_event *event, uint64_t reason, uint8_t protocol) {
    struct nat_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!flow || reason == SL_END_EOF)
        return;   /* at the end of input connections go on elsewhere: their state remains */
    if (!flow->known) {
        nat_begin(event, false, protocol == NAT_TCP);
        if (flow->role == NAT_FROM_INSIDE || flow->role == NAT_ANSWERS || flow->role == NAT_HAIRPIN)
            nat_take_up(event, flow, protocol, protocol == NAT_ICMP ? nat_identifier(event) : ip4_port(event, flow->inside));
    }
    const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
    if (mapping && mapping->port) {
        if (protocol == NAT_TCP && flow->role != NAT_HAIRPIN && flow->role != NAT_BETWEEN && nat_is_control(event->box, ip4_port(event, 0), ip4_port(event, 1)))
            nat_control_end(event->box, nat_control_at(event->box, mapping->port, ip4_address(event, flow->inside ^ 1u),
                                                       ip4_port(event, flow->inside ^ 1u)));
        nat_leave(event->box, flow->endpoint);
    }
    if (flow->called)
        nat_leave(event->box, flow->called);
    flow->called = 0;
    sl_shared_drop(flow->mapping);
    flow->mapping = NULL;
}

#include "nat_icmp.h"

SLUICE_ON(tcp, created) { nat_begin(event, true, true); }
SLUICE_ON(tcp, packet) { nat_packet(event, true); }
SLUICE_ON(tcp, end) { nat_end(event, data->reason, NAT_TCP); }
SLUICE_ON(udp, created) { nat_begin(event, true, false); }
SLUICE_ON(udp, packet) { nat_packet(event, false); }
SLUICE_ON(udp, end) { nat_end(event, data->reason, NAT_UDP); }

SLUICE_ON(icmp, packet) { nat_icmp(event); }
SLUICE_ON(icmp, end) { nat_end(event, data->reason, NAT_ICMP); }
SLUICE_ON(icmp, malformed) { nat_guard(event); }
SLUICE_ON(icmp, dropped) { nat_guard(event); }
SLUICE_ON(tcp, malformed) { nat_guard(event); }
SLUICE_ON(tcp, orphan) { nat_guard(event); }
SLUICE_ON(tcp, dropped) { nat_guard(event); }
SLUICE_ON(udp, malformed) { nat_guard(event); }
SLUICE_ON(udp, dropped) { nat_guard(event); }
SLUICE_ON(ipv4, malformed) { nat_guard(event); }
SLUICE_ON(ipv4, dropped) { nat_guard(event); }

#include "nat_arrival.h"

SLUICE_ARRIVAL { return nat_arrives(box); }

/* Untranslated packets must not leave with an inside address. A header of TCP or UDP that was not captured causes no
 * event of these layers. */
SLUICE_ON(ipv4, packet) {
    const uint8_t *ip = event->unit.at;
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    if (event->unit.captured < 20 || !ip4_is_outermost(event))
        return;
    bool tcp = ip[9] == NAT_TCP, icmp = ip[9] == NAT_ICMP, fragment = sl_load_be16(ip + 6) & 0x3fff;
    if (fragment && sl_load_be32(ip + 16) == nat->address)
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsupported));
    if (!nat_goes_out(nat, ip))
        return;
    if (fragment || (!tcp && !icmp && ip[9] != NAT_UDP))
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unsupported));
    else if (event->unit.captured < 4 * (ip[0] & 15u) + (tcp ? NAT_TCP_HEADER : icmp ? NAT_ECHO : NAT_PORTS))
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unchanged));
}

#include "nat_forward.h"

SLUICE_OPEN {
    struct nat *nat = SLUICE_WORKER_OF(box);
    static const char *const filters[] = {"none", "address", "port"};
    const char *filter = SLUICE_PARAMETER_OF(box, filter);
    while (nat->filter <= NAT_ADDRESS_PORT && strcmp(filter, filters[nat->filter]))
        nat->filter++;
    uint64_t first = SLUICE_PARAMETER_OF(box, first_port), last = SLUICE_PARAMETER_OF(box, last_port);
    if (!ip4_read(SLUICE_PARAMETER_OF(box, address), &nat->address, NULL) ||
        !ip4_read(SLUICE_PARAMETER_OF(box, inside), &nat->inside, &nat->mask) || nat->filter > NAT_ADDRESS_PORT || !first || first > last || last > 65535) {
        fprintf(stderr, "nat: address is an IPv4 address, inside one with /BITS, ports are from 1 to 65535, and filter is none, address or port\n");
        return -1;
    }
    if (sl_shared_fill(SLUICE_SHARED_ALL(box, ports), (int64_t)first, (int64_t)last) != SL_STORE_DONE) {
        fprintf(stderr, "nat: the list of ports could not be filled\n");
        return -1;
    }
    return nat_forward(box, SLUICE_PARAMETER_OF(box, forward)) ? 0 : -1;
}
