/* Layer 4 load balancing: connections of TCP and UDP to a virtual IPv4 address go to the server with the fewest
 * connections. The destination address is rewritten, ports and link addresses are not.
 *
 * Packets of servers that answer are rewritten to have the virtual address as their source. In a capture taken at
 * the clients, answers have that address already: they leave with the server's, so that both directions of the
 * output are as the servers saw them. */
#include "ip4_rewrite.h"

SLUICE_INLINE
SLUICE_PARAMETER(address, text, "192.0.2.10", "virtual IPv4 address")
SLUICE_PARAMETER(port, number, 0, "of the service; 0: all ports")
SLUICE_PARAMETER(servers, text, "10.0.0.11+10.0.0.12", "IPv4 addresses of servers, with + between them; at most 1024")

SLUICE_COUNTER(balanced, "connections that got a server")
SLUICE_COUNTER(no_server, "connections that got none, as the store failed; their packets are dropped")
SLUICE_COUNTER(other_server, "connections that got none, as servers in the store that are no parameters have the fewest; dropped, too")
SLUICE_COUNTER(unchanged, "packets that could not be rewritten, as a header was not captured; they are dropped")

/* 0: the connection got none. */
struct balance_server { uint32_t address; };

SLUICE_SHARED(active, map, all, read_write, recover, "connections of each server, by its address")
SLUICE_SHARED(bytes, counter, dst, write_mostly, zero, "bytes of IP packets of each server")
SLUICE_SHARED(server, struct balance_server, flow, read_mostly, recover, "the server of a connection")

enum { BALANCE_SERVERS = 1024, BALANCE_ATTEMPTS = 64 };
enum balance_role { BALANCE_OTHER, BALANCE_CLIENT, BALANCE_ANSWER };

struct balance_flow {
    struct sl_object *server, *bytes;   /* NULL: no server */
    uint8_t role;
    uint8_t side;   /* of the server, or of the virtual address */
    bool known;     /* the role is */
    bool asked;     /* for a server */
};
SLUICE_STATE(struct balance_flow)

struct balance { uint32_t address, count, server[BALANCE_SERVERS]; };
SLUICE_WORKER(struct balance)

static bool balance_is_server(const struct balance *balance, uint32_t address) {
    for (uint32_t i = 0; i < balance->count; i++)
        if (balance->server[i] == address)
            return true;
    return false;
}

/* Takes up what another instance has stored for a connection that it had before. False: it has no server. */
static bool balance_take_up(const struct sl_event *event, struct balance_flow *flow) {
    struct sl_object *object = SLUICE_SHARED_OF(event, server);
    flow->asked = sl_shared_present(object);
    if (flow->asked) {
        const struct balance_server *server = sl_shared_struct(object);
        flow->server = object;
        flow->bytes = SLUICE_SHARED_AT(event->box, bytes, server->address);
    }
    return flow->asked;
}

/* Gives a connection a server. */
static void balance_choose(const struct sl_event *event, struct balance_flow *flow) {
    if (balance_take_up(event, flow))
        return;
    struct sl_object *active = SLUICE_SHARED_ALL(event->box, active);
    int64_t least = 0;
    bool known = false;
    /* A server that is no parameter has one more connection after each attempt, so that another one has the fewest. */
    for (unsigned attempt = 0; attempt < BALANCE_ATTEMPTS && !known; attempt++) {
        if (sl_shared_map_least(active, 1, &least) != SL_STORE_DONE) {
            SLUICE_COUNTER_OF(event->box, no_server)++;
            return;
        }
        known = balance_is_server(SLUICE_WORKER_OF(event->box), (uint32_t)least);
    }
    if (!known) {
        SLUICE_COUNTER_OF(event->box, other_server)++;
        return;
    }
    struct sl_object *object = SLUICE_SHARED_OF(event, server);
    struct balance_server *server = sl_object_bytes_of(object);
    if (!server) {
        sl_shared_map_add(active, least, -1, NULL);
        SLUICE_COUNTER_OF(event->box, no_server)++;
        return;
    }
    server->address = (uint32_t)least;
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

static void balance_rewrite(const struct sl_event *event, bool source, uint32_t address) {
    const uint8_t *at = ip4_address_place(event, source);
    uint8_t bytes[4];
    sl_store_be32(bytes, address);
    if (!at || !SLUICE_REWRITE(event->box, at, bytes, 4)) {
        SLUICE_COUNTER_OF(event->box, unchanged)++;
        SLUICE_DROP(event->box);
    }
}

static void balance_packet(const struct sl_event *event) {
    struct balance_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && !flow->known)   /* another instance had it before */
        balance_begin(event, true);
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
    if (!flow->asked)
        balance_choose(event, flow);
    flow->asked = true;
    const struct balance_server *server = sl_shared_struct(flow->server);
    if (!server) {
        SLUICE_DROP(event->box);
        return;
    }
    if (source)   /* the total length is ten bytes before it */
        sl_shared_add(flow->bytes, (int64_t)sl_load_be16(source - 10), NULL);
    balance_rewrite(event, event->side == 1, server->address);
}

static void balance_end(const struct sl_event *event, uint64_t reason) {
    struct balance_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && !flow->known && reason != SL_END_EOF) {
        balance_begin(event, true);
        if (flow->role == BALANCE_CLIENT)
            balance_take_up(event, flow);
    }
    if (!flow || !flow->server || reason == SL_END_EOF)
        return;   /* at the end of input connections go on elsewhere: their state remains */
    const struct balance_server *server = sl_shared_struct(flow->server);
    if (server)
        sl_shared_map_add(SLUICE_SHARED_ALL(event->box, active), server->address, -1, NULL);
    sl_shared_drop(flow->server);
    flow->server = NULL;
}

enum { BALANCE_SYN = 2, BALANCE_ACK = 16 };   /* RFC 9293, 3.1 */

SLUICE_ON(tcp, created) {
    bool opens = event->unit.captured > 13 && (event->unit.at[13] & (BALANCE_SYN | BALANCE_ACK)) == BALANCE_SYN;
    balance_begin(event, !opens);
}
SLUICE_ON(tcp, packet) { balance_packet(event); }
SLUICE_ON(tcp, end) { balance_end(event, data->reason); }
/* A server may send datagrams of its own accord: its answers are those from the service's port. */
SLUICE_ON(udp, created) { balance_begin(event, SLUICE_PARAMETER_OF(event->box, port) != 0); }
SLUICE_ON(udp, packet) { balance_packet(event); }
SLUICE_ON(udp, end) { balance_end(event, data->reason); }

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
        balance_servers(box, balance, SLUICE_PARAMETER_OF(box, servers)))
        return 0;
    fprintf(stderr, "balance: address and servers are IPv4 addresses, as in address=192.0.2.10,servers=10.0.0.1+10.0.0.2\n");
    return -1;
}
