/* Layer 4 load balancing: connections of TCP and UDP to a virtual IPv4 address go to the server with the fewest
 * connections. The destination address is rewritten, ports and link addresses are not.
 *
 * Packets of servers that answer are rewritten to have the virtual address as their source: when they arrive, before the stack
 * reads them, so that the stack has one connection with the virtual address, and all functions of the box see that in both
 * directions. In a process of its own, as in an isolated chain, the function gets them from a stack that has read them with
 * the server's, and rewrites them there. In a capture taken at the clients, answers have the virtual address already: they
 * leave with the server's, so that both directions of the output are as the servers saw them.
 *
 * Health is what connections show: after `failures` attempts in a row that a server resets or does not answer, it gets no new
 * connections for `down` seconds. Where all servers are down, all are tried. */
#include "ip4_rewrite.h"

SLUICE_INLINE
SLUICE_PARAMETER(address, text, "192.0.2.10", "virtual IPv4 address")
SLUICE_PARAMETER(port, number, 0, "of the service; 0: all ports")
SLUICE_PARAMETER(servers, text, "10.0.0.11+10.0.0.12", "IPv4 addresses of servers, with + between them; at most 1024")
SLUICE_PARAMETER(failures, number, 3, "attempts in a row without success, after which a server is down; 0: none is")
SLUICE_PARAMETER(wait, seconds, 3, "after which an attempt without an answer has failed")
SLUICE_PARAMETER(down, seconds, 30, "for which a server that is down gets no new connections")

SLUICE_COUNTER(failed, "attempts that a server reset, or did not answer")
SLUICE_COUNTER(went_down, "times that a server went down")
SLUICE_COUNTER(all_down, "connections that got a server that is down, as all were")
SLUICE_COUNTER(balanced, "connections that got a server")
SLUICE_COUNTER(no_server, "connections that got none, as the store failed; their packets are dropped")
SLUICE_COUNTER(other_server, "connections that got none, as servers in the store that are no parameters have the fewest; dropped, too")
SLUICE_COUNTER(unchanged, "packets that could not be rewritten, as a header was not captured; they are dropped")

/* Of a connection to the virtual address: its server, 0 where it got none; until when the attempt to open it may last, in
 * nanoseconds, 0 where it has succeeded or failed, or of UDP. */
struct balance_server { uint64_t address, until; };

/* The last SYN/ACK on the wire to a client's end: the server, and the time in milliseconds. */
struct balance_answer { uint64_t address; int64_t time; };

/* Of a client's end and a port of the service: the servers of its connections, 0: it has none. */
struct balance_called { uint64_t tcp, udp; };

SLUICE_SHARED(active, map, all, read_write, recover, "connections of each server, by its address")
SLUICE_SHARED(bytes, counter, dst, write_mostly, zero, "bytes of IP packets of each server")
SLUICE_SHARED(server, struct balance_server, flow, read_mostly, recover, "the server of a connection")

SLUICE_SHARED(failures, map, all, read_write, zero, "attempts without success since the last one that had it, by server")
SLUICE_SHARED(down, map, all, read_mostly, zero, "until when a server is down, in milliseconds, by its address")
SLUICE_SHARED(answered, struct balance_answer, src+sport+dport, read_write, zero, "which server answered an attempt on the wire, by the client's end and the service's port")

SLUICE_SHARED(called, struct balance_called, dst, read_mostly, zero, "the servers of a client's end, by address, port and the service's port, for answers when they arrive")

enum { BALANCE_SERVERS = 1024, BALANCE_ATTEMPTS = 64 };
enum balance_role { BALANCE_OTHER, BALANCE_CLIENT, BALANCE_ANSWER };

struct balance_flow {
    struct sl_object *server, *bytes;   /* NULL: not requested, or the store failed */
    uint8_t role;
    uint8_t side;   /* of the server, or of the virtual address */
    bool known;     /* the role is */
    bool asked;     /* a server was requested */
};
SLUICE_STATE(struct balance_flow)

struct balance {
    uint32_t address, count, server[BALANCE_SERVERS];
    uint32_t sorted[BALANCE_SERVERS];   /* the servers, as numbers */
};
SLUICE_WORKER(struct balance)

static int balance_compare(const void *one, const void *other) {
    const uint32_t *a = one, *b = other;
    return *a < *b ? -1 : *a > *b;
}

static bool balance_is_server(const struct balance *balance, uint32_t address) {
    return bsearch(&address, balance->sorted, balance->count, sizeof address, balance_compare);
}

/* The servers of a client's end. */
static struct sl_object *balance_called_at(struct sl_box *box, uint32_t client, uint16_t port, uint16_t service) {
    return SLUICE_SHARED_AT(box, called, (uint64_t)client << 32 | (uint64_t)port << 16 | service);
}

/* Notes the server of a connection, for its answers when they arrive; 0: it has none any more. */
static void balance_note_called(const struct sl_event *event, uint64_t server, bool tcp) {
    const unsigned service = SLUICE_STATE_OF(event)->side, client = service ^ 1u;
    struct sl_object *object = sl_translates(event->box) ? balance_called_at(event->box, ip4_address(event, client), ip4_port(event, client),
                                                                            ip4_port(event, service)) : NULL;
    struct balance_called *called = sl_object_bytes_of(object);
    if (!called)
        return;
    *(tcp ? &called->tcp : &called->udp) = server;
    if (called->tcp || called->udp)
        sl_shared_put(object);
    else
        sl_shared_drop(object);
}

/* The server of a connection of a client's end to a port of the service; 0: it has none. */
static uint64_t balance_server_of(struct sl_box *box, uint32_t client, uint16_t port, uint16_t service, bool tcp) {
    struct sl_object *object = balance_called_at(box, client, port, service);
    const struct balance_called *called = sl_shared_struct(object);
    const uint64_t server = !called ? 0 : tcp ? called->tcp : called->udp;
    if (called && !called->tcp && !called->udp)
        sl_shared_forget(object);
    return server;
}

#include "balance_icmp.h"

/* An answer of a server, when it arrives: it gets the virtual address. */
SLUICE_ARRIVAL {
    const struct balance *balance = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_box_frame(box);
    struct sl_ip_place ip;
    bool found = false;
    const uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || frame->captured < at + 20 || frame->at[at] >> 4 != 4)
        return false;
    const uint8_t *source = frame->at + at + 12;
    const uint32_t from = (uint32_t)sl_load_be32(source);
    const bool error = source[-3] == 1;   /* the protocol; any router may send one */
    if ((!error && !balance_is_server(balance, from)) || !sl_ip_read(frame, at, &ip) ||
        !ip.first || !ip.last || ip.payload + 4 > frame->captured)
        return false;
    const uint8_t *unit = frame->at + ip.payload;
    if (error)
        return balance_error_arrives(box, source, (sl_bytes){unit, frame->captured - ip.payload, frame->captured - ip.payload});
    if ((ip.protocol != 6 && ip.protocol != 17) ||
        from != balance_server_of(box, (uint32_t)sl_load_be32(source + 4), (uint16_t)sl_load_be16(unit + 2),
                                  (uint16_t)sl_load_be16(unit), ip.protocol == 6))
        return false;
    uint8_t address[4];
    sl_store_be32(address, balance->address);
    return SLUICE_REWRITE(box, source, address, 4);
}

static int64_t balance_now(const struct sl_box *box) { return (int64_t)(sl_now(box) / 1000000); }

static bool balance_is_down(struct sl_box *box, int64_t server) {
    int64_t until = 0;
    return SLUICE_PARAMETER_OF(box, failures) && sl_shared_map_read(SLUICE_SHARED_ALL(box, down), server, &until) == SL_STORE_DONE &&
           until > balance_now(box);
}

/* The server of a connection whose attempt has neither succeeded nor failed; NULL: it has, or is none of TCP. */
static struct balance_server *balance_attempt(const struct balance_flow *flow) {
    struct balance_server *server = flow && flow->role == BALANCE_CLIENT ? sl_shared_struct(flow->server) : NULL;
    return server && server->until ? server : NULL;
}

/* An attempt to open a connection to a server has succeeded, or failed. */
static void balance_settle(struct sl_box *box, const struct balance_flow *flow, struct balance_server *attempt, bool succeeded) {
    struct sl_object *failures = SLUICE_SHARED_ALL(box, failures);
    uint64_t most = SLUICE_PARAMETER_OF(box, failures);
    int64_t count = 0, server = (int64_t)attempt->address;
    SLUICE_COUNTER_OF(box, failed) += !succeeded;
    attempt->until = 0;
    sl_shared_put(flow->server);
    if (!most)
        return;
    if (succeeded) {
        sl_shared_map_minimum(failures, server, 0, NULL);
    } else if (sl_shared_map_add(failures, server, 1, &count) == SL_STORE_DONE && (uint64_t)count >= most) {
        SLUICE_COUNTER_OF(box, went_down) += !balance_is_down(box, server);
        sl_shared_map_maximum(SLUICE_SHARED_ALL(box, down), server, balance_now(box) + (int64_t)(SLUICE_PARAMETER_OF(box, down) * 1e3), NULL);
        sl_shared_map_minimum(failures, server, (int64_t)most - 1, NULL);   /* one more failure after that, and it is down again */
    }
}

/* Of the servers that are not down, the one with the fewest connections; 0: all are down. */
static int64_t balance_least_up(struct sl_box *box, struct sl_object *active) {
    const struct balance *balance = SLUICE_WORKER_OF(box);
    int64_t found = 0, fewest = 0;
    for (uint32_t i = 0; i < balance->count; i++) {
        int64_t server = balance->server[i], count = 0;
        if (balance_is_down(box, server) || sl_shared_map_read(active, server, &count) != SL_STORE_DONE || (found && count >= fewest))
            continue;
        found = server;
        fewest = count;
    }
    return found;
}

/* Restores the state that another instance has stored for a connection. False: it has no server. */
static bool balance_take_up(const struct sl_event *event, struct balance_flow *flow) {
    struct sl_object *object = SLUICE_SHARED_OF(event, server);
    flow->asked = sl_shared_present(object);
    if (flow->asked) {
        const struct balance_server *server = sl_shared_struct(object);
        flow->server = object;
        flow->bytes = server && server->address ? SLUICE_SHARED_AT(event->box, bytes, server->address) : NULL;
    }
    return flow->asked;
}

/* Gives a connection a server. until: when an attempt to open it has failed, 0 for UDP. */
static void balance_choose(const struct sl_event *event, struct balance_flow *flow, uint64_t until) {
    if (balance_take_up(event, flow))
        return;
    struct sl_object *active = SLUICE_SHARED_ALL(event->box, active);
    int64_t least = 0;
    bool known = false, failed = false;
    /* A server that is no parameter has one more connection after each attempt, so that another one has the fewest. */
    for (unsigned attempt = 0; attempt < BALANCE_ATTEMPTS && !known && !failed; attempt++) {
        failed = sl_shared_map_least(active, 1, &least) != SL_STORE_DONE;
        known = !failed && balance_is_server(SLUICE_WORKER_OF(event->box), (uint32_t)least);
    }
    if (known && balance_is_down(event->box, least)) {
        int64_t up = balance_least_up(event->box, active);
        SLUICE_COUNTER_OF(event->box, all_down) += !up;
        if (up && sl_shared_map_add(active, up, 1, NULL) == SL_STORE_DONE) {
            sl_shared_map_add(active, least, -1, NULL);
            least = up;
        }
    }
    if (failed) {
        SLUICE_COUNTER_OF(event->box, no_server)++;
        return;
    }
    struct sl_object *object = SLUICE_SHARED_OF(event, server);
    struct balance_server *server = sl_object_bytes_of(object);
    if (!known) {
        sl_shared_put(object);   /* that it has none: another instance must not give it one later */
        flow->server = object;
        SLUICE_COUNTER_OF(event->box, other_server)++;
        return;
    }
    if (!server) {
        sl_shared_map_add(active, least, -1, NULL);
        SLUICE_COUNTER_OF(event->box, no_server)++;
        return;
    }
    server->address = (uint64_t)least;
    server->until = until;
    sl_shared_put(object);
    flow->server = object;
    flow->bytes = SLUICE_SHARED_AT(event->box, bytes, (uint64_t)least);
    SLUICE_COUNTER_OF(event->box, balanced)++;
}

/* `answers`: the first packet may answer one that was not seen from here. */
static void balance_begin(const struct sl_event *event, bool answers) {
    if (!event->instance)
        return;
    const struct balance *balance = SLUICE_WORKER_OF(event->box);
    struct balance_flow *flow = SLUICE_STATE_OF(event);
    flow->known = true;
    uint64_t port = SLUICE_PARAMETER_OF(event->box, port);
    if (ip4_address(event, 1) == balance->address && (!port || port == ip4_port(event, 1))) {
        flow->role = BALANCE_CLIENT;
        flow->side = 1;
        return;
    }
    /* The active side of a connection that is first seen by its SYN/ACK is the receiver of that. */
    for (uint8_t side = 0; side < 2 && answers; side++)
        if (balance_is_server(balance, ip4_address(event, side)) && (!port || port == ip4_port(event, side))) {
            flow->role = BALANCE_ANSWER;
            flow->side = side;
            return;
        }
}

/* The role of a connection whose first packet is an answer that was translated when it arrived, and ended, by expiry, the connection
 * that it answers. */
static void balance_take_arrived(const struct sl_event *event, struct balance_flow *flow) {
    const uint64_t port = SLUICE_PARAMETER_OF(event->box, port);
    const uint8_t side = event->side & 1;
    if (sl_arrived(event->box) && ip4_address_place(event, true) && ip4_address(event, side) == SLUICE_WORKER_OF(event->box)->address &&
        (!port || port == ip4_port(event, side))) {
        flow->role = BALANCE_CLIENT;
        flow->side = side;
    }
}

static void balance_rewrite(const struct sl_event *event, bool source, uint32_t address) {
    const uint8_t *at = ip4_address_place(event, source);
    uint8_t bytes[4];
    sl_store_be32(bytes, address);
    if (!at || !SLUICE_REWRITE(event->box, at, bytes, 4)) {
        SLUICE_COUNTER_OF(event->box, unchanged)++;
        SLUICE_DROP(event->box);
    }
}

enum { BALANCE_SYN = 2, BALANCE_RST = 4, BALANCE_ACK = 16 };   /* RFC 9293, 3.1 */

/* On the wire, packets from the server are of another flow: its SYN/ACK there shows that it answers, also clients that never
 * acknowledge, as those of a flood. */
static void balance_note_answer(const struct sl_event *event) {
    struct sl_object *object = SLUICE_SHARED_OF(event, answered);
    struct balance_answer *answer = sl_object_bytes_of(object);
    if (!answer)
        return;
    *answer = (struct balance_answer){ip4_address(event, event->side), balance_now(event->box)};
    sl_shared_put(object);
}

/* Has its server answered an attempt on the wire that began at a time, in nanoseconds? */
static bool balance_was_answered(const struct sl_event *event, const struct balance_server *attempt, uint64_t began) {
    struct sl_object *object = SLUICE_SHARED_OF(event, answered);
    const struct balance_answer *answer = sl_shared_struct(object);
    bool answered = answer && answer->address == attempt->address && answer->time >= (int64_t)(began / 1000000);
    if (answer && !answer->address)
        sl_shared_forget(object);
    return answered;
}

/* Updates the server's health by a segment of a connection to the virtual address. */
static void balance_health(const struct sl_event *event) {
    struct balance_flow *flow = event->instance && event->unit.captured >= 14 ? SLUICE_STATE_OF(event) : NULL;
    uint8_t flags = flow ? event->unit.at[13] & (BALANCE_SYN | BALANCE_RST | BALANCE_ACK) : 0;
    if (flow && flow->role == BALANCE_ANSWER && event->side == flow->side && flags == (BALANCE_SYN | BALANCE_ACK) &&
        SLUICE_PARAMETER_OF(event->box, failures))
        balance_note_answer(event);
    struct balance_server *attempt = balance_attempt(flow);
    if (!attempt)
        return;
    bool of_server = event->side == flow->side;
    if (of_server && flags & BALANCE_RST)
        balance_settle(event->box, flow, attempt, false);
    else if (of_server ? flags == (BALANCE_SYN | BALANCE_ACK) : flags == BALANCE_ACK)
        balance_settle(event->box, flow, attempt, true);
}

SLUICE_TIMER(tcp, attempt) {
    struct balance_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    struct balance_server *attempt = balance_attempt(flow);
    if (!attempt)
        return;
    uint64_t wait = (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9), began = attempt->until > wait ? attempt->until - wait : 0;
    balance_settle(event->box, flow, attempt, balance_was_answered(event, attempt, began));
}

static void balance_packet(const struct sl_event *event, uint64_t until, bool tcp) {
    struct balance_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && !flow->known)   /* another instance had it before */
        balance_begin(event, true);
    if (flow && flow->role == BALANCE_OTHER)
        balance_take_arrived(event, flow);
    if (!flow || flow->role == BALANCE_OTHER)
        return;
    const uint8_t *source = ip4_address_place(event, true);
    if (!source && !ip4_is_fragment(event))
        return;   /* a connection in a tunnel leaves as it is */
    if (flow->role == BALANCE_ANSWER) {
        const struct balance *balance = SLUICE_WORKER_OF(event->box);
        if (event->side == flow->side)
            balance_rewrite(event, true, balance->address);
        return;
    }
    const bool asked = flow->asked;
    if (!asked && sl_is_dropped(event->box))
        return;   /* another function does not let the connection begin */
    if (!asked && sl_arrived(event->box) && !balance_take_up(event, flow))
        return;   /* the next packet of the client gets a server */
    if (!flow->asked)
        balance_choose(event, flow, until);
    flow->asked = true;
    const struct balance_server *server = sl_shared_struct(flow->server);
    if (!asked && server && server->address)
        balance_note_called(event, server->address, tcp);
    if (!server || !server->address) {
        SLUICE_DROP(event->box);
        return;
    }
    if (source)   /* the total length is ten bytes before it */
        sl_shared_add(flow->bytes, (int64_t)sl_load_be16(source - 10), NULL);
    if (!sl_arrived(event->box))
        balance_rewrite(event, event->side == flow->side, (uint32_t)server->address);
}

static void balance_end(const struct sl_event *event, uint64_t reason, bool tcp) {
    struct balance_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && !flow->known && reason != SL_END_EOF) {
        balance_begin(event, true);
        if (flow->role == BALANCE_CLIENT)
            balance_take_up(event, flow);
    }
    if (!flow || !flow->server || reason == SL_END_EOF)
        return;   /* at the end of input connections go on elsewhere: their state remains */
    const struct balance_server *server = sl_shared_struct(flow->server);
    if (server && server->address) {
        balance_note_called(event, 0, tcp);
        sl_shared_map_add(SLUICE_SHARED_ALL(event->box, active), (int64_t)server->address, -1, NULL);
    }
    sl_shared_drop(flow->server);
    flow->server = NULL;
}

SLUICE_ON(tcp, created) {
    bool opens = event->unit.captured > 13 && (event->unit.at[13] & (BALANCE_SYN | BALANCE_ACK)) == BALANCE_SYN;
    balance_begin(event, !opens);
}
SLUICE_ON(tcp, packet) {
    struct balance_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    bool asked = flow && flow->asked;
    uint64_t now = sl_packet_time(event), wait = (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9);
    balance_packet(event, now + wait, true);
    const struct balance_server *attempt = asked ? NULL : balance_attempt(flow);
    if (attempt && SLUICE_PARAMETER_OF(event->box, failures))
        SLUICE_ARM(event, tcp, attempt, attempt->until > now ? attempt->until - now : 1);
    balance_health(event);
}
SLUICE_ON(tcp, end) {
    balance_end(event, data->reason, true);
    if (event->instance && data->reason != SL_END_EOF && SLUICE_STATE_OF(event)->role == BALANCE_ANSWER && SLUICE_PARAMETER_OF(event->box, failures))
        sl_shared_drop(SLUICE_SHARED_OF(event, answered));
}
/* A server may send unsolicited datagrams: its answers are those from the service's port. */
SLUICE_ON(udp, created) { balance_begin(event, SLUICE_PARAMETER_OF(event->box, port) != 0); }
SLUICE_ON(udp, packet) { balance_packet(event, 0, false); }
SLUICE_ON(udp, end) { balance_end(event, data->reason, false); }

/* Reads the servers, and makes them known to the store. */
static bool balance_servers(struct sl_box *box, struct balance *balance, const char *text) {
    while (*text && balance->count < BALANCE_SERVERS) {
        char one[32];
        size_t length = strcspn(text, "+");
        if (length >= sizeof one)
            return false;
        memcpy(one, text, length);
        one[length] = 0;
        uint32_t *address = &balance->server[balance->count++];
        if (!ip4_read(one, address, NULL) ||
            sl_shared_map_add(SLUICE_SHARED_ALL(box, active), *address, 0, NULL) != SL_STORE_DONE)
            return false;
        text += length + (text[length] == '+');
    }
    return balance->count && !*text;
}

SLUICE_OPEN {
    struct balance *balance = SLUICE_WORKER_OF(box);
    if (ip4_read(SLUICE_PARAMETER_OF(box, address), &balance->address, NULL) &&
        balance_servers(box, balance, SLUICE_PARAMETER_OF(box, servers))) {
        memcpy(balance->sorted, balance->server, sizeof balance->sorted);
        qsort(balance->sorted, balance->count, sizeof *balance->sorted, balance_compare);
        return 0;
    }
    fprintf(stderr, "balance: address and servers are IPv4 addresses, as in address=192.0.2.10,servers=10.0.0.1+10.0.0.2\n");
    return -1;
}
