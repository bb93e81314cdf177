/* A stateful firewall: rules from a file in nftables' syntax, which sluice/functions/firewall reads, decide on each packet of IP.
 *
 * Connections are those of the stack, as far as their first packet was accepted: until then each packet is a new one, as in
 * Linux' connection tracking, whose states these are. A connection is established once the other side has sent a packet. Each
 * packet is decided on once, by its outermost IP header: in the layer of TCP, UDP or ICMP directly in it, or, where it has
 * none, or none that is valid, in that of IP. Fragments wait until their datagram is whole, and share its verdict. */
#include "sluice.h"

#include "firewall_ftp.h"
#include "firewall_rules.h"
#include "output_file.h"
#include "reject.h"

SLUICE_INLINE
SLUICE_PARAMETER(rules, text, "", "file of rules in nftables' syntax")
SLUICE_PARAMETER(table, text, "", "the table that was made of it, in place of rules")
SLUICE_PARAMETER(out, text, "", "file that the rows of log statements and counters are written to; without one standard output")
SLUICE_PARAMETER(pick_up, flag, yes, "connections of TCP may be new in their middle")
SLUICE_PARAMETER(ftp, number, 21, "port of FTP's control connections, whose data connections are related; 0: none")
SLUICE_PARAMETER(ftp_connections, number, 4096, "control connections that are read at once, at most")

SLUICE_COUNTER(firewall_accepted, "packets that rules accepted")
SLUICE_COUNTER(firewall_dropped, "packets that rules dropped")
SLUICE_COUNTER(firewall_rejected, "packets that rules rejected")
SLUICE_COUNTER(firewall_not_answered, "of these those whose sender got no answer")
SLUICE_COUNTER(firewall_invalid, "packets that belong to no connection, nor begin one")
SLUICE_COUNTER(firewall_connections, "connections that were accepted")
SLUICE_COUNTER(firewall_related, "packets that are related to a connection: ICMP errors, and first packets of data connections")
SLUICE_COUNTER(firewall_not_tracked, "accepted packets whose connection was not stored, as there was no room")
SLUICE_COUNTER(firewall_ftp_left_out, "control connections of FTP that were not read, as there were too many")
SLUICE_COUNTER(firewall_too_long, "packets that were dropped as they took too many steps through the rules")
SLUICE_COUNTER(firewall_undecided, "packets of IP that no layer decided on; they passed")

SLUICE_SHARED(connections, set, all, read_mostly, recover, "connections that were accepted, by the hash of their ends")
SLUICE_SHARED(expected, set, all, read_mostly, zero, "data connections that FTP announced, by the hash of their ends")

struct firewall_flow {
    uint64_t hash;
    struct firewall_ftp *ftp;
    uint8_t original;    /* the side whose first packet was accepted */
    bool confirmed, replied, related;
};
SLUICE_STATE(struct firewall_flow)

struct firewall {
    struct firewall_table table;
    FILE *out;
    uint64_t began, decided;      /* the number of the packet whose IP header was seen last, and of the one decided on last */
    uint64_t settled;             /* of the last one that was decided on, or waits as a fragment */
    uint32_t ip;                  /* the place in its frame of the IP header of `began` */
    bool has_tcp, has_udp, has_icmp, has_icmp6, has_ext, has_frag;   /* layers of the stack */
    uint64_t outside;             /* of the one that lay outside the window last */
    uint64_t controls;            /* control connections of FTP that are read */
    bool accepted;                /* the verdict on `decided` */
    struct firewall_expectations expected;
};
SLUICE_WORKER(struct firewall)

/* --- rows --- */

static void firewall_put_end(FILE *out, unsigned version, const char *address_name, const char *port_name,
                             const struct firewall_end *end, bool has_port) {
    char text[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    sl_store_be32(bytes, version == 4 ? end->address.low : end->address.high >> 32);
    sl_store_be32(bytes + 4, end->address.high);
    sl_store_be32(bytes + 8, end->address.low >> 32);
    sl_store_be32(bytes + 12, end->address.low);
    fprintf(out, ",\"%s\":\"%s\"", address_name, inet_ntop(version == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text));
    if (has_port)
        fprintf(out, ",\"%s\":%u", port_name, end->port);
}

struct firewall_logged { const struct sl_event *event; const struct firewall_packet *packet; };

static void firewall_log(const void *user, const struct firewall_text *text) {
    static const char *const states[] = {"new", "established", "related", "invalid", "untracked"};
    const struct firewall_logged *logged = user;
    const struct firewall_packet *packet = logged->packet;
    FILE *out = SLUICE_WORKER_OF(logged->event->box)->out;
    uint64_t time = sl_packet_time(logged->event);
    fprintf(out, "{\"firewall\":\"log\",%.*s,\"time\":\"%llu.%09llu\",\"packet\":%llu", (int)text->length, text->at,
            (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
            (unsigned long long)sl_packet_number(logged->event));
    if (packet->has_protocol) {
        firewall_put_end(out, packet->version, "src", "sport", &packet->from, packet->has_ports);
        firewall_put_end(out, packet->version, "dst", "dport", &packet->to, packet->has_ports);
        fprintf(out, ",\"proto\":%u", packet->protocol);
    }
    fprintf(out, ",\"state\":\"%s\",\"length\":%llu}\n", states[packet->state], (unsigned long long)packet->length);
}

static void firewall_put_counter(FILE *out, const char *what, const struct firewall_counter *counter) {
    fprintf(out, "{\"firewall\":\"%s\",%.*s,\"packets\":%llu,\"bytes\":%llu}\n", what, (int)counter->label.length, counter->label.at,
            (unsigned long long)counter->packets, (unsigned long long)counter->bytes);
}

/* --- connections --- */

/* A data connection was announced. */
static void firewall_expect(struct sl_box *box, uint64_t hash) {
    struct firewall_expectations *expected = &SLUICE_WORKER_OF(box)->expected;
    struct sl_object *object = SLUICE_SHARED_ALL(box, expected);
    struct firewall_expected *place = &expected->at[expected->next];
    if (place->hash && place->hash != hash)
        sl_shared_remove(object, (int64_t)place->hash, NULL);
    *place = (struct firewall_expected){hash, sl_now(box) + FIREWALL_EXPECTED_FOR};
    expected->next = (expected->next + 1) % FIREWALL_EXPECTED;
    sl_shared_insert(object, (int64_t)hash, NULL);
}

/* Was a new connection of TCP announced? The announcement serves once. */
static bool firewall_is_expected(struct sl_box *box, const struct firewall_packet *packet) {
    struct firewall *firewall = SLUICE_WORKER_OF(box);
    struct sl_object *object = SLUICE_SHARED_ALL(box, expected);
    struct firewall_end from = packet->from;
    from.port = 0;
    int64_t hash = (int64_t)firewall_flow_hash(~sl_seed(box), FIREWALL_TCP, from, packet->to), there = 0;
    if (!SLUICE_PARAMETER_OF(box, ftp) || sl_shared_contains(object, hash, &there) != SL_STORE_DONE || !there)
        return false;
    bool here = false, fresh = false;   /* announced here; less than FIREWALL_EXPECTED_FOR ago */
    for (uint32_t i = 0; i < FIREWALL_EXPECTED; i++) {
        struct firewall_expected *place = &firewall->expected.at[i];
        if (place->hash != (uint64_t)hash)
            continue;
        here = true;
        fresh |= place->until >= sl_now(box);
        place->hash = 0;   /* the same ends may be announced again */
    }
    sl_shared_remove(object, hash, NULL);
    return fresh || !here;
}

/* The combinations of flags that segments have (RFC 9293, 3.10.7; as in Linux' connection tracking), without PSH, ECE, CWR. */
static bool firewall_valid_flags(uint8_t flags) {
    enum { FIN = 1, SYN = 2, RST = 4, ACK = 16, URG = 32 };
    switch (flags & (FIN | SYN | RST | ACK | URG)) {
    case SYN: case SYN | URG: case SYN | ACK: case RST: case RST | ACK: case FIN | ACK: case FIN | ACK | URG: case ACK: case ACK | URG:
        return true;
    default:
        return false;
    }
}

/* May a packet begin a connection? */
static bool firewall_begins(const struct sl_event *event, const struct firewall_packet *packet) {
    switch (packet->protocol) {
    case FIREWALL_TCP: {
        uint8_t flags = packet->flags & 0x17;   /* ACK, RST, SYN, FIN */
        return flags == 2 || (flags == 16 && SLUICE_PARAMETER_OF(event->box, pick_up));
    }
    case FIREWALL_UDP: return true;
    case FIREWALL_ICMP: return packet->type == 8;
    default: return packet->type == 128;
    }
}

/* The state of a packet of TCP or UDP, or of an echo. */
static void firewall_track(const struct sl_event *event, struct firewall_packet *packet) {
    struct firewall *firewall = SLUICE_WORKER_OF(event->box);
    struct firewall_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    bool tcp = packet->protocol == FIREWALL_TCP;
    packet->state = FIREWALL_INVALID;
    if (tcp && (!packet->has_flags || !firewall_valid_flags(packet->flags)))
        return;
    if (flow && flow->confirmed) {
        if (firewall->outside == sl_packet_number(event) && !sl_is_inside(event->box))
            return;
        packet->has_direction = true;
        packet->direction = event->side != flow->original;
        flow->replied |= packet->direction;
        packet->state = flow->replied ? FIREWALL_ESTABLISHED : flow->related ? FIREWALL_RELATED : FIREWALL_NEW;
    } else if (firewall_begins(event, packet)) {
        packet->has_direction = true;
        packet->state = tcp && firewall_is_expected(event->box, packet) ? FIREWALL_RELATED : FIREWALL_NEW;
        SLUICE_COUNTER_OF(event->box, firewall_related) += packet->state == FIREWALL_RELATED;
    }
}

/* The first packet of a connection was accepted. */
static void firewall_confirm(const struct sl_event *event, const struct firewall_packet *packet) {
    struct sl_box *box = event->box;
    struct firewall *firewall = SLUICE_WORKER_OF(box);
    struct firewall_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!flow) {
        SLUICE_COUNTER_OF(box, firewall_not_tracked)++;
        return;
    }
    flow->confirmed = true;
    flow->original = (uint8_t)event->side;
    flow->related = packet->state == FIREWALL_RELATED;
    flow->hash = firewall_packet_hash(sl_seed(box), packet, event->unit);
    sl_shared_insert(SLUICE_SHARED_ALL(box, connections), (int64_t)flow->hash, NULL);
    SLUICE_COUNTER_OF(box, firewall_connections)++;
    uint64_t port = SLUICE_PARAMETER_OF(box, ftp);
    if (packet->protocol != FIREWALL_TCP || !port || packet->to.port != port)
        return;
    flow->ftp = firewall->controls < SLUICE_PARAMETER_OF(box, ftp_connections) ? calloc(1, sizeof *flow->ftp) : NULL;
    if (!flow->ftp) {
        SLUICE_COUNTER_OF(box, firewall_ftp_left_out)++;
        return;
    }
    firewall->controls++;
    flow->ftp->client = packet->from;
    flow->ftp->server = packet->to;
    flow->ftp->client_side = (uint8_t)event->side;
    flow->ftp->version = packet->version;
    SLUICE_REGISTER_FLOW(event, tcp, data);
    SLUICE_REGISTER_FLOW(event, tcp, gap);
}

/* --- verdicts --- */

/* Lets the rules decide on the current packet. */
static void firewall_apply(const struct sl_event *event, const struct firewall_packet *packet) {
    struct sl_box *box = event->box;
    struct firewall *firewall = SLUICE_WORKER_OF(box);
    struct firewall_logged logged = {event, packet};
    SLUICE_COUNTER_OF(box, firewall_invalid) += packet->state == FIREWALL_INVALID;
    struct firewall_decision decision = firewall_decide(&firewall->table, packet, sl_now(box), firewall_log, &logged);
    SLUICE_COUNTER_OF(box, firewall_too_long) += decision.too_long;
    firewall->decided = firewall->settled = sl_packet_number(event);
    firewall->accepted = decision.verdict == FIREWALL_PASS;
    if (firewall->accepted) {
        SLUICE_COUNTER_OF(box, firewall_accepted)++;
        return;
    }
    SLUICE_DROP(box);
    if (decision.verdict == FIREWALL_STOP) {
        SLUICE_COUNTER_OF(box, firewall_dropped)++;
        return;
    }
    SLUICE_COUNTER_OF(box, firewall_rejected)++;
    bool reset = decision.code4 == FIREWALL_RESET;
    bool answered = reset ? reject_reset(box) : reject_unreachable(box, (uint8_t)decision.code4, (uint8_t)decision.code6);
    SLUICE_COUNTER_OF(box, firewall_not_answered) += !answered;
}

static bool firewall_is_decided(const struct sl_event *event) {
    return SLUICE_WORKER_OF(event->box)->decided == sl_packet_number(event);
}

/* Reads the current packet. False: it is no IP packet, or none is processed. */
static bool firewall_packet_of(const struct sl_event *event, sl_bytes unit, struct firewall_packet *packet) {
    const struct firewall *firewall = SLUICE_WORKER_OF(event->box);
    const struct sl_frame *frame = sl_packet_frame(event);
    bool found = frame && firewall->began == sl_packet_number(event);
    uint32_t at = found ? firewall->ip : frame ? sl_frame_ip(frame, &found) : 0;
    if (found)
        firewall_read(frame, at, unit, packet);
    return found;
}

/* Decides on a packet that is tracked. */
static void firewall_tracked(const struct sl_event *event) {
    struct firewall_packet packet;
    if (firewall_is_decided(event) || !firewall_packet_of(event, event->unit, &packet))
        return;
    firewall_track(event, &packet);
    firewall_apply(event, &packet);
    const struct firewall_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    bool begins = packet.state == FIREWALL_NEW || packet.state == FIREWALL_RELATED;
    if (begins && (!flow || !flow->confirmed) && SLUICE_WORKER_OF(event->box)->accepted)
        firewall_confirm(event, &packet);
}

/* Decides on one that is not, in the given state. */
static void firewall_other(const struct sl_event *event, sl_bytes unit, enum firewall_state state) {
    struct firewall_packet packet;
    if (firewall_is_decided(event) || !firewall_packet_of(event, unit, &packet))
        return;
    packet.state = (uint8_t)state;
    firewall_apply(event, &packet);
}

static void firewall_icmp(const struct sl_event *event, unsigned version) {
    if (firewall_is_decided(event))
        return;
    uint8_t type = event->unit.captured ? event->unit.at[0] : 255;
    bool echo = version == 4 ? type == 0 || type == 8 : type == 128 || type == 129;
    bool error = version == 4 ? (type >= 3 && type <= 5) || type == 11 || type == 12 : type >= 1 && type <= 4;
    if (echo) {
        firewall_tracked(event);
        return;
    }
    int64_t there = 0;
    uint64_t hash = error ? firewall_quoted(sl_seed(event->box), event->unit, version) : 0;
    if (hash && sl_shared_contains(SLUICE_SHARED_ALL(event->box, connections), (int64_t)hash, &there) != SL_STORE_DONE)
        there = 0;
    SLUICE_COUNTER_OF(event->box, firewall_related) += there != 0;
    firewall_other(event, event->unit, !error ? FIREWALL_UNTRACKED : there ? FIREWALL_RELATED : FIREWALL_INVALID);
}

/* --- IP --- */

/* Is there a layer of TCP, UDP or ICMP for a packet's payload, once it is whole? `needs`: the bytes without which that layer
 * has no event. ICMP over IPv6, and ICMPv6 over IPv4, have none. `next`: the type of the header after IP. */
static bool firewall_is_tracked(const struct firewall *firewall, const struct sl_ip_place *ip, uint8_t next, uint32_t *needs) {
    *needs = ip->protocol == FIREWALL_TCP ? 14 : 4;
    if (ip->version == 6 && next != ip->protocol && !(next == 44 ? firewall->has_frag : firewall->has_ext))
        return false;   /* extension headers that the stack does not read */
    return (ip->protocol == FIREWALL_TCP && firewall->has_tcp) || (ip->protocol == FIREWALL_UDP && firewall->has_udp) ||
           (ip->version == 4 && ip->protocol == FIREWALL_ICMP && firewall->has_icmp) ||
           (ip->version == 6 && ip->protocol == FIREWALL_ICMP6 && firewall->has_icmp6);
}

/* Which layers the stack has: protocols without one are decided on by their IP packets alone. */
static void firewall_layers(const struct sl_box *box, struct firewall *firewall) {
    const struct { const char *name; bool *has; } known[] = {
        {"tcp", &firewall->has_tcp}, {"udp", &firewall->has_udp}, {"icmp", &firewall->has_icmp},
        {"icmp6", &firewall->has_icmp6}, {"ext", &firewall->has_ext}, {"frag", &firewall->has_frag}};
    for (uint32_t i = 0; i < sl_layer_count(box); i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            *known[k].has |= strcmp(sl_layer_at(box, i)->layer, known[k].name) == 0;
}

/* The outermost IP header of the current packet: decides on packets without a layer above. */
static void firewall_ip(const struct sl_event *event) {
    struct firewall *firewall = SLUICE_WORKER_OF(event->box);
    const struct sl_frame *frame = sl_packet_frame(event);
    struct sl_ip_place ip;
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0, needs;
    if (!frame || firewall->began == sl_packet_number(event))
        return;
    if (!found) {   /* after a label or a header that only the stack parses: where the stack found it */
        uintptr_t place = (uintptr_t)event->unit.at - (uintptr_t)frame->at;
        found = event->unit.captured && place < frame->captured;
        at = found ? (uint32_t)place : 0;
    }
    if (!found || event->unit.at != frame->at + at)
        return;
    firewall->ip = at;
    SLUICE_COUNTER_OF(event->box, firewall_undecided) += firewall->began > firewall->settled;
    firewall->began = sl_packet_number(event);
    if (!sl_ip_read(frame, at, &ip)) {
        firewall_other(event, (sl_bytes){0}, FIREWALL_INVALID);
        return;
    }
    uint32_t here = frame->captured > ip.payload ? frame->captured - ip.payload : 0;
    sl_bytes unit = {here ? frame->at + ip.payload : NULL, here, here};
    bool whole = ip.first && ip.last;
    if (!firewall_is_tracked(firewall, &ip, frame->at[at + (ip.version == 4 ? 9 : 6)], &needs))
        firewall_other(event, ip.first ? unit : (sl_bytes){0}, FIREWALL_UNTRACKED);
    else if (whole && here < needs)
        firewall_other(event, unit, FIREWALL_INVALID);
    else if (!whole)
        firewall->settled = firewall->began;   /* by the datagram that it completes, if it does */
}

/* A fragment of a tracked protocol waits for its datagram. */
static void firewall_hold(const struct sl_event *event, bool fragment) {
    const struct firewall *firewall = SLUICE_WORKER_OF(event->box);
    if (!fragment || firewall->began != sl_packet_number(event) || firewall->decided == firewall->began)
        return;
    if (event->instance)
        SLUICE_HOLD(event);
    else
        firewall_other(event, (sl_bytes){0}, FIREWALL_INVALID);
}

SLUICE_ON(ipv4, packet) {
    firewall_ip(event);
    firewall_hold(event, event->unit.captured >= 20 && (sl_load_be16(event->unit.at + 6) & 0x3fff));
}
SLUICE_ON(ipv6, packet) { firewall_ip(event); }
SLUICE_ON(frag, packet) { firewall_hold(event, true); }

/* A datagram in fragments has ended: it was whole, and decided on, or will not become so. */
static void firewall_release(const struct sl_event *event) {
    if (!event->instance)
        return;
    const struct firewall *firewall = SLUICE_WORKER_OF(event->box);
    if (sl_packet_frame(event) && firewall_is_decided(event) && firewall->accepted)
        SLUICE_RELEASE(event);
    else
        SLUICE_DISCARD(event);
}
SLUICE_ON(ipv4, end) { firewall_release(event); }
SLUICE_ON(frag, end) { firewall_release(event); }

/* --- the layers above --- */

SLUICE_ON(tcp, out_of_wnd) { SLUICE_WORKER_OF(event->box)->outside = sl_packet_number(event); }
SLUICE_ON(tcp, packet) { firewall_tracked(event); }
SLUICE_ON(udp, packet) { firewall_tracked(event); }
SLUICE_ON(icmp, packet) { firewall_icmp(event, 4); }
SLUICE_ON(icmp6, packet) { firewall_icmp(event, 6); }
SLUICE_ON(tcp, orphan) { firewall_other(event, event->unit, FIREWALL_INVALID); }
SLUICE_ON(any, malformed) { firewall_other(event, (sl_bytes){0}, FIREWALL_INVALID); }
SLUICE_ON(any, dropped) { firewall_other(event, (sl_bytes){0}, FIREWALL_INVALID); }

SLUICE_ON_DEMAND(tcp, data) {
    struct firewall_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && flow->ftp)
        firewall_ftp_bytes(flow->ftp, sl_seed(event->box), event->side & 1, data->bytes, firewall_expect, event->box);
}
SLUICE_ON_DEMAND(tcp, gap) {
    struct firewall_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && flow->ftp)
        flow->ftp->lost[event->side & 1] = true;
}

static void firewall_end(const struct sl_event *event, uint64_t reason) {
    struct firewall_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && flow->confirmed && reason != SL_END_EOF)
        sl_shared_remove(SLUICE_SHARED_ALL(event->box, connections), (int64_t)flow->hash, NULL);
}
SLUICE_ON(tcp, end) { firewall_end(event, data->reason); }
SLUICE_ON(udp, end) { firewall_end(event, data->reason); }
SLUICE_ON(icmp, end) { firewall_end(event, data->reason); }
SLUICE_ON(icmp6, end) { firewall_end(event, data->reason); }

SLUICE_DESTROY {
    if (!state->ftp)
        return;
    free(state->ftp);
    state->ftp = NULL;
    SLUICE_WORKER_OF(box)->controls--;
}

SLUICE_OPEN {
    struct firewall *firewall = SLUICE_WORKER_OF(box);
    firewall_layers(box, firewall);
    const char *path = SLUICE_PARAMETER_OF(box, table), *wrong = "there is no table: rules=FILE is read by sluice run and sluice chain";
    if (*path)
        wrong = firewall_table_open(&firewall->table, path);
    if (wrong) {
        fprintf(stderr, "firewall: %s%s%s\n", path, *path ? ": " : "", wrong);
        firewall_table_free(&firewall->table);
        return -1;
    }
    firewall->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return firewall->out ? 0 : -1;
}

SLUICE_CLOSE {
    struct firewall *firewall = SLUICE_WORKER_OF(box);
    SLUICE_COUNTER_OF(box, firewall_undecided) += firewall->began > firewall->settled;
    for (uint32_t i = 0; firewall->out && i < firewall->table.counter_count; i++)
        firewall_put_counter(firewall->out, "counter", &firewall->table.counters[i]);
    for (uint32_t i = 0; firewall->out && i < firewall->table.base_count; i++)
        firewall_put_counter(firewall->out, "policy", &firewall->table.bases[i].policy);
    if (firewall->out)
        sl_rows_close(box, firewall->out, "firewall");
    firewall_table_free(&firewall->table);
}
