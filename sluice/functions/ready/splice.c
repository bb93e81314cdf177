/* Splices connections (Maltz and Bhagwat, 1998; the Splicer of Microboxes): the box answers a client's handshake, waits for the
 * request, chooses a server by it, opens a connection to that, and joins both. From then on packets are only translated.
 *
 * The number of the box' SYN/ACK is a SYN cookie. While more than `half_open` clients have not acknowledged theirs, nothing is
 * stored of further ones; options are then in the low bits of the time stamp, which the client returns.
 *
 * The client's bytes before the join are not acknowledged as long as the request is whole without that: if they are lost, the
 * client sends them again. If the client needs an acknowledgement to go on, the box gives it, and from then on it repeats these
 * bytes until the server has acknowledged them. */
#include "splice_join.h"

SLUICE_INLINE
SLUICE_PARAMETER(address, text, "192.0.2.10", "of the service, IPv4 or IPv6")
SLUICE_PARAMETER(port, number, 80, "of the service")
SLUICE_PARAMETER(servers, text, "10.0.0.11+10.0.0.12", "addresses of servers, ADDRESS or ADDRESS:PORT, with + between them; at most 64")
SLUICE_PARAMETER(by, text, "path", "what chooses among servers: a hash of the request's path, its host, or the client's address (path, host, client)")
SLUICE_PARAMETER(routes, text, "", "file with lines HOST PATH SERVER[+SERVER...]: the servers of requests to a host (* is any), by the beginning of their path")
SLUICE_PARAMETER(half_open, number, 4096, "clients that have not acknowledged their SYN/ACK, above which nothing is stored of further ones")
SLUICE_PARAMETER(connections, number, 262144, "connections at once")
SLUICE_PARAMETER(waiting, number, 16384, "bytes of a request that is not whole; with more, a hash of the client's address chooses")
SLUICE_PARAMETER(memory, number, 67108864, "bytes of all requests that wait")
SLUICE_PARAMETER(wait, seconds, 10, "for a whole request")
SLUICE_PARAMETER(connect, seconds, 4, "for the answer of a server, after which the next one is tried")
SLUICE_PARAMETER(down, seconds, 10, "for which a server that did not answer gets no connections while others do")
SLUICE_PARAMETER(options, text, "scale+sack+stamps", "options of TCP that the servers have; one that a server refuses is not offered for a minute")

SLUICE_COUNTER(splice_syns, "SYNs of clients")
SLUICE_COUNTER(splice_cookies, "of these those of which nothing was stored")
SLUICE_COUNTER(splice_not_answered, "SYNs that were dropped, as there are too many connections, or nothing could be sent")
SLUICE_COUNTER(splice_accepted, "clients that acknowledged their SYN/ACK")
SLUICE_COUNTER(splice_unknown, "segments of clients of no connection; they are dropped, and reset")
SLUICE_COUNTER(splice_joined, "connections whose server answered")
SLUICE_COUNTER(splice_by_client, "connections whose first bytes are no request, or too many; the client's address chose")
SLUICE_COUNTER(splice_failed, "attempts to open a connection that a server refused or did not answer")
SLUICE_COUNTER(splice_no_server, "connections that were reset, as no server answered")
SLUICE_COUNTER(splice_no_request, "connections that were reset, as the request did not come in time")
SLUICE_COUNTER(splice_no_handshake, "clients that were forgotten, as they did not acknowledge their SYN/ACK")
SLUICE_COUNTER(splice_no_memory, "segments of requests that were dropped, as there is no room")
SLUICE_COUNTER(splice_out_of_order, "segments before the join that were dropped, as bytes before them are missing")
SLUICE_COUNTER(splice_repeated, "segments that the box sent again")
SLUICE_COUNTER(splice_gave_up, "connections that were reset, as the server did not acknowledge the request")
SLUICE_COUNTER(splice_less_options, "connections whose server refused an option that the client had been offered")
SLUICE_COUNTER(splice_translated, "segments of joined connections")
SLUICE_COUNTER(splice_not_translated, "segments that could not be translated: in fragments, or cut; they are dropped")
SLUICE_COUNTER(splice_errors, "ICMP errors about segments of joined connections")
SLUICE_COUNTER(splice_errors_dropped, "ICMP errors about segments of other connections, or that could not be translated; they are dropped")

struct splice_flow {
    struct splice_connection *c;
    bool answered;   /* without storing anything */
};
SLUICE_STATE(struct splice_flow)
SLUICE_WORKER(struct splice)

#define SPLICE_SECOND ((uint64_t)1000000000)
#define SPLICE_REFUSED_FOR (60 * SPLICE_SECOND)   /* for which an option is not offered after a server has refused it */
enum { SPLICE_TRIES = 6, SPLICE_LINGER = 10 };

static uint64_t splice_time(double seconds) { return (uint64_t)(seconds * 1e9); }

static void splice_forget(const struct sl_event *event, struct splice_flow *flow) {
    if (flow->c)
        splice_free(SLUICE_WORKER_OF(event->box), flow->c);
    flow->c = NULL;
}

#include "splice_handshake.h"
#include "splice_server.h"
#include "splice_client.h"

/* --- events --- */

/* Is the address and port at these places that of the service? */
static bool splice_is_service(const struct splice *splice, const uint8_t *address, const uint8_t *port) {
    const struct splice_endpoint *service = &splice->servers.service;
    return sl_load_be16(port) == service->port && !memcmp(address, service->address, splice->servers.version == 4 ? 4 : 16);
}

SLUICE_ON(tcp, packet) {
    struct sl_box *box = event->box;
    const struct splice *splice = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_packet_frame(event);
    struct tcp_place place;
    if (!event->instance || !sl_is_inline(box))
        return;
    if (!tcp_place_of(event, frame, &place) || place.ip.version != splice->servers.version) {
        if (SLUICE_STATE_OF(event)->c) {   /* in fragments, or cut: its numbers would be those of the other end */
            SLUICE_COUNTER_OF(box, splice_not_translated)++;
            SLUICE_DROP(box);
        }
        return;
    }
    uint32_t size = place.ip.version == 4 ? 4 : 16;
    const uint8_t *source = frame->at + place.ip.ip + (size == 4 ? 12 : 8), *destination = source + size;
    if (splice_is_service(splice, destination, place.at + 2)) {
        splice_from_client(event, SLUICE_STATE_OF(event), &place);
        return;
    }
    struct splice_connection *c = splice_find(splice, destination, place.at + 2, source, place.at);
    if (c) {
        splice_from_server(box, c, &place);
        sl_flow_changed(box, &c->of);
    }
}

#include "splice_icmp.h"

SLUICE_ON(icmp, packet) { splice_error(event); }
SLUICE_ON(icmp6, packet) { splice_error(event); }

SLUICE_TIMER(tcp, splice) {
    struct sl_box *box = event->box;
    struct splice *splice = SLUICE_WORKER_OF(box);
    struct splice_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    struct splice_connection *c = flow ? flow->c : NULL;
    if (!c)
        return;
    bool overdue = sl_now(box) >= c->deadline, again = c->tries++ < SPLICE_TRIES;
    uint64_t next = SPLICE_SECOND << sl_min(c->tries, SPLICE_TRIES);
    switch ((enum splice_phase)c->phase) {
    case SPLICE_ANSWERED:   /* RFC 9293, 3.8.1; the client may wait for the server to begin */
        if (c->tries > 3) {
            SLUICE_COUNTER_OF(box, splice_no_handshake)++;
            splice_forget(event, flow);
            return;
        }
        SLUICE_COUNTER_OF(box, splice_repeated)++;
        splice_send_syn_ack(event, c);
        break;
    case SPLICE_REQUEST:
        SLUICE_COUNTER_OF(box, splice_no_request)++;
        splice_refuse(event, flow);
        return;
    case SPLICE_OPENING:
        if (overdue && !splice_next_server(box, c)) {
            SLUICE_COUNTER_OF(box, splice_no_server)++;
            splice_refuse(event, flow);
            return;
        }
        if (!overdue) {
            SLUICE_COUNTER_OF(box, splice_repeated)++;
            splice_send_syn(box, splice, c);
        }
        next = sl_min(next, c->deadline - sl_now(box));
        break;
    case SPLICE_JOINED:
        if (c->ended == 3) {
            splice_forget(event, flow);
            return;
        }
        if (!c->held)
            return;
        if (!again) {
            SLUICE_COUNTER_OF(box, splice_gave_up)++;
            splice_refuse(event, flow);
            return;
        }
        SLUICE_COUNTER_OF(box, splice_repeated)++;
        splice_send_held(box, splice, c, false);
        next = SPLICE_SECOND / 4 << sl_min(c->tries, SPLICE_TRIES);
        break;
    case SPLICE_REFUSED:
        splice_forget(event, flow);
        return;
    }
    SLUICE_ARM(event, tcp, splice, next);
}

/* The bytes of a client that are held. */
static void splice_held_stored(struct sl_stored *stored, struct splice *splice, struct splice_connection *c, uint64_t most) {
    uint32_t count = c->count, room = c->room;
    if (!sl_stored_more(stored, c->held != NULL))
        return;
    SL_STORED(stored, room);
    if (stored->reads && (room < count || room > 2 * most || !(c->held = malloc(room)))) {
        stored->failed = true;
        return;
    }
    c->room = room;
    splice->held += stored->reads ? room : 0;
    sl_stored_bytes(stored, c->held, count);
}

SLUICE_STORED(recover, "the connections that are joined: numbers, options, and the client's bytes that the server has not acknowledged") {
    struct splice *splice = SLUICE_WORKER_OF(box);
    SL_STORED(stored, state->answered);
    if (!sl_stored_more(stored, state->c != NULL))
        return;
    struct splice_connection *c = stored->reads ? splice_new(splice) : state->c;
    if (!c) {
        stored->failed = true;
        return;
    }
    SL_STORED(stored, c->of);
    sl_stored_bytes(stored, &c->number_shift, offsetof(struct splice_connection, held) - offsetof(struct splice_connection, number_shift));
    SL_STORED(stored, c->count);
    SL_STORED(stored, c->passed);
    sl_stored_bytes(stored, &c->link_type, sizeof *c - offsetof(struct splice_connection, link_type));
    splice_held_stored(stored, splice, c, SLUICE_PARAMETER_OF(box, waiting));
    if (!stored->reads)
        return;
    bool listed = c->listed;
    c->listed = false;
    splice->half_open += c->phase == SPLICE_ANSWERED;
    stored->failed |= c->phase > SPLICE_REFUSED || c->server >= splice->servers.count || c->version != splice->servers.version ||
                      c->link > TCP_LINK_MOST || c->passed > c->count;
    if (stored->failed) {
        splice_free(splice, c);
        return;
    }
    if (listed)
        splice_list(box, splice, c);
    state->c = c;
}

SLUICE_DESTROY {
    struct splice *splice = SLUICE_WORKER_OF(box);
    if (state->c && splice->bucket)   /* after SLUICE_CLOSE all are freed */
        splice_free(splice, state->c);
    state->c = NULL;
}

/* The options of TCP that the servers have; false if the text has another word. */
static bool splice_read_options(const char *text, uint8_t *out) {
    static const struct { const char *name; uint8_t bit; } known[] = {{"scale", SPLICE_SCALE}, {"sack", SPLICE_SACK}, {"stamps", SPLICE_STAMPS}};
    for (*out = 0; *text; text += *text == '+') {
        size_t length = strcspn(text, "+"), i = 0;
        while (i < 3 && (strlen(known[i].name) != length || memcmp(known[i].name, text, length) != 0))
            i++;
        if (i == 3)
            return length == 4 && memcmp(text, "none", 4) == 0 && !text[4];
        *out |= known[i].bit;
        text += length;
    }
    return true;
}

static int splice_wrong(const char *what) {
    fprintf(stderr, "splice: %s\n", what);
    return -1;
}

SLUICE_OPEN {
    struct splice *splice = SLUICE_WORKER_OF(box);
    struct splice_servers *servers = &splice->servers;
    const char *address = SLUICE_PARAMETER_OF(box, address), *by = SLUICE_PARAMETER_OF(box, by);
    const char *routes = SLUICE_PARAMETER_OF(box, routes);
    uint64_t port = SLUICE_PARAMETER_OF(box, port), most = SLUICE_PARAMETER_OF(box, connections);
    uint64_t waiting = SLUICE_PARAMETER_OF(box, waiting);
    if (SLUICE_WORKERS(box) > 1)
        return splice_wrong("it runs in one worker: a client's packets and its server's would be at different ones");
    servers->service.port = (uint16_t)port;
    if (!port || port > 65535 || !splice_endpoint_read(address, strlen(address), &servers->service, &servers->version))
        return splice_wrong("address is an IPv4 or IPv6 address, port from 1 to 65535, as in address=192.0.2.10,port=80");
    splice->all = splice_servers_read(servers, SLUICE_PARAMETER_OF(box, servers));
    if (!splice->all)
        return splice_wrong("servers are at most 64 addresses of the version of the service's, as in servers=10.0.0.1+10.0.0.2:8080");
    if (*routes && !splice_routes_read(servers, routes))
        return -1;
    splice->by_path = strcmp(by, "path") == 0;
    splice->by_host = strcmp(by, "host") == 0;
    if (!splice->by_path && !splice->by_host && strcmp(by, "client") != 0)
        return splice_wrong("by is path, host or client");
    splice->waits = splice->by_path || splice->by_host || servers->routes;
    if (!splice_read_options(SLUICE_PARAMETER_OF(box, options), &splice->options))
        return splice_wrong("options are none, or some of scale+sack+stamps");
    if (!most || most > 1 << 24 || waiting < 512 || waiting > 1 << 20 || !(SLUICE_PARAMETER_OF(box, wait) > 0) ||
        !(SLUICE_PARAMETER_OF(box, connect) > 0) || SLUICE_PARAMETER_OF(box, wait) > 1e6 || SLUICE_PARAMETER_OF(box, connect) > 1e6)
        return splice_wrong("connections is from 1 to 16,777,216, waiting from 512 to 1,048,576, wait and connect up to 1,000,000 seconds");
    for (splice->buckets = 1024; splice->buckets < most;)
        splice->buckets *= 2;
    splice->most = most;
    splice->scale = 7;
    sl_siphash_key(splice->key, sl_seed(box), "splicing");
    splice->bucket = calloc(splice->buckets, sizeof *splice->bucket);
    splice->segment = malloc(SPLICE_SEGMENT);
    return splice->bucket && splice->segment ? 0 : splice_wrong("no memory");
}

SLUICE_CLOSE {
    struct splice *splice = SLUICE_WORKER_OF(box);
    for (struct splice_slab *slab = splice->slabs, *next; slab; slab = next) {
        next = slab->next;
        for (unsigned i = 0; i < SPLICE_SLAB; i++)
            free(slab->of[i].held);
        free(slab);
    }
    splice->slabs = NULL;
    splice->free = NULL;
    free(splice->bucket);
    splice->bucket = NULL;
    free(splice->segment);
    splice_servers_free(&splice->servers);
}
