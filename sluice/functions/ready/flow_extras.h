/* The members that flowlog adds to the rows of flow_log: bytes on the wire, round-trip times of the handshake,
 * retransmitted and reordered segments, TTLs, VLANs and tunnels, and what `dpi` says of the flow. */
#ifndef FLOW_EXTRAS_H
#define FLOW_EXTRAS_H

#include "log_row.h"

#include "function/stored.h"

enum { FLOW_VLANS = 4, FLOW_TUNNELS = 8, FLOW_LAYERS = 256 };
enum { FLOW_TCP_FIN = 1, FLOW_TCP_SYN = 2, FLOW_TCP_RST = 4, FLOW_TCP_ACK = 16 };   /* RFC 9293, 3.1 */

/* The kinds of layers that rows report. */
enum flow_kind {
    FLOW_OTHER, FLOW_IPV4, FLOW_IPV6, FLOW_TCP, FLOW_VLAN, FLOW_MPLS, FLOW_GRE, FLOW_ERSPAN, FLOW_GTP, FLOW_VXLAN, FLOW_GENEVE,
    FLOW_L2TP, FLOW_PPPOE, FLOW_TEREDO,
};

static const struct { const char *prototype; enum flow_kind kind; } flow_kinds[] = {
    {"ipv4", FLOW_IPV4}, {"ipv6", FLOW_IPV6}, {"tcp", FLOW_TCP}, {"vlan", FLOW_VLAN}, {"mpls", FLOW_MPLS}, {"gre", FLOW_GRE},
    {"erspan", FLOW_ERSPAN}, {"erspan3", FLOW_ERSPAN}, {"gtp", FLOW_GTP}, {"vxlan", FLOW_VXLAN}, {"vxlan_gpe", FLOW_VXLAN},
    {"geneve", FLOW_GENEVE}, {"l2tp", FLOW_L2TP}, {"pppoe", FLOW_PPPOE}, {"teredo", FLOW_TEREDO}};

struct flow_extras_worker {
    struct log_hashes hashes;
    struct log_text text;
    uint64_t applications_left_out;  /* which have no row, or for which there was no memory */
    uint8_t kind[FLOW_LAYERS];       /* by the layer's index */
};

/* One direction of a flow. */
struct flow_extras_way {
    /* Bytes on the wire; the number of the last retransmitting packet; retransmitting packets; reordered segments. */
    uint64_t wire, again_at, again, reordered;
    uint32_t farthest;               /* highest sequence number sent, plus 1 */
    bool sent;
    uint8_t ttl_least, ttl_most;
};

/* A tunnel: a layer that carries packets or frames, with the addresses of the IP packet that encloses it. */
struct flow_tunnel {
    uint8_t kind, address;           /* `address`: the size of the addresses, 4 or 16; 0: there are none */
    bool has_id;
    uint32_t id;
    uint8_t from[16], to[16];
};

struct flow_extras {
    struct flow_extras_way way[2];
    uint64_t syn, answer, ack;       /* times of the handshake; 0: not seen */
    uint16_t vlan[FLOW_VLANS];
    uint8_t vlans, tunnels;
    uint64_t known_at, known;        /* number of the current packet; how many of its bytes were sent before */
    struct flow_tunnel tunnel[FLOW_TUNNELS];
    char *application;               /* members of the row, by `dpi`; NULL: there are none */
};

/* The members in the state of a flow. */
__attribute__((unused)) static inline void flow_extras_stored(struct sl_stored *stored, struct flow_extras *extras) {
    uint32_t size = extras->application ? (uint32_t)strlen(extras->application) + 1 : 0;
    sl_stored_bytes(stored, extras, offsetof(struct flow_extras, application));
    SL_STORED(stored, size);
    if (size && stored->reads && (stored->failed || size > stored->size - stored->used || !(extras->application = malloc(size))))
        stored->failed = true;
    else if (size)
        sl_stored_bytes(stored, extras->application, size);
    if (size && extras->application)
        extras->application[size - 1] = 0;
    extras->vlans = (uint8_t)sl_min(extras->vlans, FLOW_VLANS);
    extras->tunnels = (uint8_t)sl_min(extras->tunnels, FLOW_TUNNELS);
    for (unsigned i = 0; i < extras->tunnels; i++)
        if (extras->tunnel[i].kind > FLOW_TEREDO)
            extras->tunnel[i].kind = FLOW_OTHER;
}

SL_COLD bool flow_extras_open(struct flow_extras_worker *worker, const struct sl_box *box) {
    for (uint32_t i = 0; i < sl_layer_count(box) && i < FLOW_LAYERS; i++)
        for (unsigned k = 0; k < sizeof flow_kinds / sizeof *flow_kinds; k++)
            if (strcmp(sl_layer_at(box, i)->prototype, flow_kinds[k].prototype) == 0)
                worker->kind[i] = (uint8_t)flow_kinds[k].kind;
    return log_hashes_open(&worker->hashes);
}

/* Reads the identifier of a tunnel from its header. Returns false if it has none. */
static inline bool flow_tunnel_id(enum flow_kind kind, sl_bytes unit, uint32_t *id) {
    const uint8_t *at = unit.at;
    if (unit.captured < 8 && !(kind == FLOW_MPLS && unit.captured >= 4) && !(kind == FLOW_PPPOE && unit.captured >= 6) &&
        !(kind == FLOW_ERSPAN && unit.captured >= 4))
        return false;
    switch (kind) {
    case FLOW_MPLS: *id = (uint32_t)sl_load_be32(at) >> 12; return true;          /* RFC 3032, 2.1 */
    case FLOW_GTP: *id = (uint32_t)sl_load_be32(at + 4); return true;             /* TS 29.281, 5.1 */
    case FLOW_VXLAN: case FLOW_GENEVE: *id = (uint32_t)sl_load_be(at + 4, 3); return true;   /* RFC 7348, 5; RFC 8926, 3.4 */
    case FLOW_PPPOE: *id = (uint32_t)sl_load_be16(at + 2); return true;           /* RFC 2516, 4 */
    case FLOW_ERSPAN: *id = (uint32_t)sl_load_be16(at + 2) & 0x3ff; return true;
    case FLOW_GRE: {                                                              /* RFC 2890, 2; RFC 2637, 4.1 */
        uint32_t key = at[0] & 0x80 ? 8 : 4;
        if (!(at[0] & 0x20) || unit.captured < key + 4)
            return false;
        *id = (uint32_t)((at[1] & 7) == 1 ? sl_load_be16(at + key + 2) : sl_load_be32(at + key));
        return true;
    }
    case FLOW_L2TP: *id = (uint32_t)sl_load_be32(at + (at[0] & 0x40 ? 4 : 2)); return true;   /* tunnel and session: RFC 2661, 3.1 */
    default: return false;
    }
}

/* Stores the addresses of an IP packet. */
static inline void flow_tunnel_ends(struct flow_tunnel *tunnel, enum flow_kind kind, sl_bytes ip) {
    uint32_t size = kind == FLOW_IPV4 ? 4 : 16, from = kind == FLOW_IPV4 ? 12 : 8;
    if (ip.captured < from + 2 * size)
        return;
    tunnel->address = (uint8_t)size;
    memcpy(tunnel->from, ip.at + from, size);
    memcpy(tunnel->to, ip.at + from + size, size);
}

static inline bool flow_is_tunnel(enum flow_kind kind) { return kind >= FLOW_MPLS; }

/* Called at the beginning of a flow: stores the VLANs and tunnels on the path of its first packet. */
SL_COLD void flow_extras_begin(struct flow_extras *extras, const struct flow_extras_worker *worker, const struct sl_box *box) {
    enum flow_kind below = FLOW_OTHER;
    sl_bytes ip = {0};
    for (uint32_t i = 0; i + 1 < sl_box_depth(box); i++) {   /* the last layer is that of the flow */
        enum flow_kind kind = (enum flow_kind)worker->kind[sl_box_path(box)[i]];
        sl_bytes unit = sl_layer_unit(box, i);
        bool is_ip = kind == FLOW_IPV4 || kind == FLOW_IPV6;
        bool direct = is_ip && i && (worker->kind[sl_box_path(box)[i - 1]] == FLOW_IPV4 || worker->kind[sl_box_path(box)[i - 1]] == FLOW_IPV6);
        if (kind == FLOW_VLAN && unit.captured >= 2 && extras->vlans < FLOW_VLANS)
            extras->vlan[extras->vlans++] = (uint16_t)(sl_load_be16(unit.at) & 0xfff);
        if ((flow_is_tunnel(kind) || direct) && extras->tunnels < FLOW_TUNNELS) {
            struct flow_tunnel *tunnel = &extras->tunnel[extras->tunnels++];
            tunnel->kind = (uint8_t)kind;
            tunnel->has_id = flow_tunnel_id(kind, unit, &tunnel->id);
            if (below != FLOW_OTHER)
                flow_tunnel_ends(tunnel, below, ip);
        }
        if (is_ip) {
            below = kind;
            ip = unit;
        }
    }
}

/* Updates the minimum and maximum of the TTL, or hop limit, from the innermost IP header below the flow's layer. */
static inline void flow_extras_ttl(struct flow_extras_way *way, const struct flow_extras_worker *worker, const struct sl_box *box) {
    for (uint32_t i = sl_box_depth(box); i-- > 0;) {
        enum flow_kind kind = (enum flow_kind)worker->kind[sl_box_path(box)[i]];
        if (kind != FLOW_IPV4 && kind != FLOW_IPV6)
            continue;
        sl_bytes unit = sl_layer_unit(box, i);
        uint8_t ttl = unit.captured > 8 ? unit.at[kind == FLOW_IPV4 ? 8 : 7] : 0;
        way->ttl_least = way->ttl_most ? (uint8_t)sl_min(way->ttl_least, ttl) : ttl;
        way->ttl_most = (uint8_t)sl_max(way->ttl_most, ttl);
        return;
    }
}

/* Processes a TCP segment: its role in the handshake, and whether it is reordered by RFC 4737, 3.3, that is, whether it
 * begins below the highest position sent before and contains bytes that were not sent before. */
static inline void flow_extras_segment(struct flow_extras *extras, const struct sl_event *event, unsigned number, uint32_t length) {
    struct flow_extras_way *way = &extras->way[number];
    uint8_t flags = event->unit.at[13];
    uint64_t time = sl_packet_time(event);
    if ((flags & (FLOW_TCP_SYN | FLOW_TCP_ACK)) == FLOW_TCP_SYN && !extras->answer)
        extras->syn = number == 0 ? time : extras->syn;
    else if ((flags & (FLOW_TCP_SYN | FLOW_TCP_ACK)) == (FLOW_TCP_SYN | FLOW_TCP_ACK) && number == 1 && !extras->answer)
        extras->answer = time;
    else if ((flags & (FLOW_TCP_SYN | FLOW_TCP_ACK | FLOW_TCP_RST)) == FLOW_TCP_ACK && number == 0 && extras->answer && !extras->ack)
        extras->ack = time;
    if (flags & FLOW_TCP_RST)
        return;
    uint32_t known = extras->known_at == sl_packet_number(event) ? (uint32_t)sl_min(extras->known, length) : 0;
    uint32_t begin = (uint32_t)sl_load_be32(event->unit.at + 4) + (flags & FLOW_TCP_SYN ? 1 : 0);
    way->reordered += way->sent && length > known && (int32_t)(way->farthest - begin) > 0;
    if (!length && !(flags & (FLOW_TCP_SYN | FLOW_TCP_FIN)))
        return;
    uint32_t after = begin + length + (flags & FLOW_TCP_FIN);
    if (!way->sent || (int32_t)(after - way->farthest) > 0)
        way->farthest = after;
    way->sent = true;
}

/* Processes a packet of a flow. `first`: this is the flow's first message or segment in the packet. */
static inline void flow_extras_packet(struct flow_extras *extras, const struct flow_extras_worker *worker, const struct sl_event *event,
                                      unsigned number, bool first, uint64_t length) {
    struct flow_extras_way *way = &extras->way[number];
    if (first && sl_packet_frame(event)) {
        way->wire += sl_packet_frame(event)->length;
        flow_extras_ttl(way, worker, event->box);
    }
    if (worker->kind[event->layer->index] == FLOW_TCP && event->unit.captured >= 20)
        flow_extras_segment(extras, event, number, (uint32_t)length);
}

/* Processes retransmitted bytes. Called before flow_extras_packet for the same packet. */
static inline void flow_extras_again(struct flow_extras *extras, const struct sl_event *event, unsigned number, uint64_t length) {
    if (extras->known_at != sl_packet_number(event))
        extras->known = 0;
    extras->known_at = sl_packet_number(event);
    extras->known += length;
    struct flow_extras_way *way = &extras->way[number];
    way->again += way->again_at != sl_packet_number(event);
    way->again_at = sl_packet_number(event);
}

static inline void flow_extras_time(struct log_text *text, const char *name, uint64_t from, uint64_t to) {
    if (from && to >= from)
        log_seconds(text, name, to - from);
    else
        log_word(text, name, NULL);
}

SL_COLD void flow_extras_tunnel(struct log_text *text, const struct flow_tunnel *tunnel) {
    static const char *const words[] = {"", "ipv4", "ipv6", "", "", "mpls", "gre", "erspan", "gtp", "vxlan", "geneve",
                                        "l2tp", "pppoe", "teredo"};
    char address[INET6_ADDRSTRLEN];
    int family = tunnel->address == 4 ? AF_INET : AF_INET6;
    log_format(text, "{\"kind\":\"%s\"", words[tunnel->kind]);
    if (tunnel->has_id)
        log_number(text, "id", tunnel->id);
    else
        log_word(text, "id", NULL);
    log_word(text, "src", tunnel->address ? inet_ntop(family, tunnel->from, address, sizeof address) : NULL);
    log_word(text, "dst", tunnel->address ? inet_ntop(family, tunnel->to, address, sizeof address) : NULL);
    log_put(text, "}");
}

static inline void flow_extras_name(struct log_text *text, const char *name, sl_bytes value) {
    log_name(text, name);
    if (value.captured)
        log_string(text, value.at, value.captured);
    else
        log_put(text, "null");
}

/* Stores what a flow carries as members of its row. risks: their names, a newline between them. Returns false where there is
 * no memory. */
SL_COLD __attribute__((unused)) bool flow_extras_application(struct flow_extras_worker *worker, struct flow_extras *extras,
                                                             sl_bytes application, sl_bytes category, bool guessed,
                                                             sl_bytes hostname, sl_bytes risks) {
    struct log_text *text = &worker->text;
    text->used = 0;
    text->failed = false;
    flow_extras_name(text, "application", application);
    flow_extras_name(text, "category", category);
    log_flag(text, "guessed", guessed);
    flow_extras_name(text, "hostname", hostname);
    log_put(text, ",\"risks\":[");
    for (uint32_t at = 0, end; at < risks.captured; at = end + 1) {
        for (end = at; end < risks.captured && risks.at[end] != '\n'; end++)
            ;
        log_put(text, at ? "," : "");
        log_string(text, risks.at + at, end - at);
    }
    log_put(text, "]");
    log_bytes(text, "", 1);
    char *members = text->failed ? NULL : malloc(text->used);
    if (!members)
        return false;
    memcpy(members, text->at, text->used);
    free(extras->application);
    extras->application = members;
    return true;
}

/* The members of a row as text; NULL if memory is exhausted. `flow` has the first sender's half first. */
SL_COLD const struct log_text *flow_extras_text(struct flow_extras_worker *worker, const struct flow_extras *extras,
                                                const struct log_flow *flow, uint64_t first, uint64_t last, uint32_t type,
                                                uint32_t code) {
    struct log_text *text = &worker->text;
    static const char *const names[2][4] = {{"src_bytes", "src_rexmit_pkts", "src_reordered_pkts", "src_ttl"},
                                            {"dst_bytes", "dst_rexmit_pkts", "dst_reordered_pkts", "dst_ttl"}};
    text->used = 0;
    text->failed = false;
    log_number(text, "flow", flow->number);
    log_community(text, &worker->hashes, flow, 0, (uint8_t)type, (uint8_t)code);
    log_seconds(text, "duration", last > first ? last - first : 0);
    flow_extras_time(text, "rtt", extras->syn, extras->ack);
    flow_extras_time(text, "rtt_server", extras->syn, extras->answer);
    flow_extras_time(text, "rtt_client", extras->answer, extras->ack);
    for (unsigned i = 0; i < 2; i++) {
        const struct flow_extras_way *way = &extras->way[i];
        log_number(text, names[i][0], way->wire);
        log_number(text, names[i][1], way->again);
        log_number(text, names[i][2], way->reordered);
        log_name(text, names[i][3]);
        if (way->ttl_most)
            log_format(text, "[%u,%u]", way->ttl_least, way->ttl_most);
        else
            log_put(text, "null");
    }
    log_put(text, ",\"vlan\":[");
    for (unsigned i = 0; i < extras->vlans; i++)
        log_format(text, "%s%u", i ? "," : "", extras->vlan[i]);
    log_put(text, "],\"tunnels\":[");
    for (unsigned i = 0; i < extras->tunnels; i++) {
        log_put(text, i ? "," : "");
        flow_extras_tunnel(text, &extras->tunnel[i]);
    }
    log_put(text, "]");
    if (extras->application)
        log_put(text, extras->application);
    return text->failed ? NULL : text;
}

#endif
