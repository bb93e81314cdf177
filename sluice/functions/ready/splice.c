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

/* --- the server --- */

static void splice_refuse(const struct sl_event *event, struct splice_flow *flow) {
    splice_reset_client(event->box, SLUICE_WORKER_OF(event->box), flow->c);
    splice_forget(event, flow);
}

/* Opens the connection to the next server of those that are candidates; false: all were tried. */
static bool splice_open_server(struct sl_box *box, struct splice_connection *c) {
    struct splice *splice = SLUICE_WORKER_OF(box);
    struct splice_request request = {NULL, NULL, 0, 0};
    uint64_t left = c->candidates & ~c->tried;
    if (!left)
        return false;
    if (c->held)
        splice_request_read(c->held, c->count, &request);
    bool by_path = splice->by_path && request.path, by_host = splice->by_host && request.host;
    const uint8_t *text = by_path ? request.path : by_host ? request.host : splice_client_address(c);
    uint32_t length = by_path ? request.path_length : by_host ? request.host_length : splice_address_size(c);
    splice_unlist(splice, c);
    c->server = (uint8_t)splice_highest(&splice->servers, splice_up(&splice->servers, left, sl_now(box)), text, length);
    c->tried |= (uint64_t)1 << c->server;
    c->phase = SPLICE_OPENING;
    c->tries = 0;
    c->deadline = sl_now(box) + splice_time(SLUICE_PARAMETER_OF(box, connect));
    splice_list(splice, c);
    splice_send_syn(box, splice, c);
    return true;
}

/* The server of a connection has refused it, or not answered; the next one is tried. False: there is none. */
static bool splice_next_server(struct sl_box *box, struct splice_connection *c) {
    struct splice *splice = SLUICE_WORKER_OF(box);
    SLUICE_COUNTER_OF(box, splice_failed)++;
    splice->servers.down[c->server] = sl_now(box) + splice_time(SLUICE_PARAMETER_OF(box, down));
    return splice_open_server(box, c);
}

/* Chooses servers for what the client has sent so far, if that is enough; `all`: it is. */
static void splice_choose(const struct sl_event *event, struct splice_flow *flow, bool all) {
    struct splice *splice = SLUICE_WORKER_OF(event->box);
    struct splice_connection *c = flow->c;
    struct splice_request request = {NULL, NULL, 0, 0};
    enum splice_read read = splice->waits ? splice_request_read(c->held, c->held ? c->count : 0, &request) : SPLICE_WHOLE;
    if (read == SPLICE_MORE && !all)
        return;
    SLUICE_COUNTER_OF(event->box, splice_by_client) += read != SPLICE_WHOLE;
    c->candidates = read == SPLICE_WHOLE ? splice_routed(&splice->servers, &request, splice->all) : splice->all;
    splice_open_server(event->box, c);
    SLUICE_ARM(event, tcp, splice, SPLICE_SECOND);
}

/* The server's SYN/ACK: both connections become one. */
static void splice_join(struct sl_box *box, struct splice_connection *c, const struct tcp_place *place) {
    struct splice *splice = SLUICE_WORKER_OF(box);
    struct splice_connection server;
    splice_read_syn(&server, place, c->options);
    c->agreed = server.options;
    c->number_shift = c->cookie - server.client;
    c->server_next = server.client_next;
    c->server_mss = server.mss;
    c->server_scale = c->agreed & SPLICE_SCALE ? server.client_scale : 0;
    c->server_stamp = server.stamp;
    if (c->agreed & SPLICE_SCALE)
        splice->scale = c->server_scale;
    if (c->agreed != c->options) {
        SLUICE_COUNTER_OF(box, splice_less_options)++;
        for (unsigned bit = 0; bit < 3; bit++)
            if ((c->options & ~c->agreed) >> bit & 1)
                splice->refused[bit] = sl_max(sl_now(box), 1);
    }
    uint32_t clock = splice_clock(box);   /* time stamps that the client gets do not decrease (RFC 7323, 5.3) */
    c->stamp_shift = ((int32_t)(clock - c->box_stamp) > 0 ? clock : c->box_stamp) - server.stamp;
    c->phase = SPLICE_JOINED;
    c->tries = 0;
    SLUICE_COUNTER_OF(box, splice_joined)++;
    splice_send_held(box, splice, c, true);
}

static void splice_forward(struct sl_box *box, const struct splice_connection *c, bool of_client, const struct tcp_place *place) {
    if (splice_translate(box, SLUICE_WORKER_OF(box), c, of_client, place)) {
        SLUICE_COUNTER_OF(box, splice_translated)++;
        return;
    }
    SLUICE_COUNTER_OF(box, splice_not_translated)++;
    SLUICE_DROP(box);
}

/* A segment of a server. */
static void splice_from_server(struct sl_box *box, struct splice_connection *c, const struct tcp_place *place) {
    uint8_t flags = place->at[13];
    uint32_t acknowledged = (uint32_t)sl_load_be32(place->at + 8);
    if (c->phase == SPLICE_JOINED && SL_LIKELY(!(flags & TCP_SYN))) {
        uint32_t passed = acknowledged - (c->client + 1);
        if (SL_UNLIKELY(c->held != NULL) && flags & TCP_ACK && passed <= c->count && passed > c->passed) {
            c->passed = passed;
            c->tries = 0;
        } else if (SL_UNLIKELY(c->held != NULL) && flags & TCP_ACK && (int32_t)(passed - c->count) > 0) {
            c->passed = c->count;
        }
        if (SL_UNLIKELY(c->held != NULL) && c->passed == c->count)
            splice_drop_held(SLUICE_WORKER_OF(box), c);
        uint32_t number = (uint32_t)sl_load_be32(place->at + 4), length = place->ip.end - place->ip.payload - place->header;
        if (SL_UNLIKELY(flags & (TCP_RST | TCP_FIN)))   /* a reset of another number ends nothing (RFC 5961, 3.2) */
            c->ended |= (uint8_t)(!(flags & TCP_RST) ? 2 : number == c->server_next ? 3 : 0);
        if (number + length - c->server_next < 1u << 31)
            c->server_next = number + length + (flags & TCP_FIN);
        splice_forward(box, c, false, place);
        return;
    }
    SLUICE_DROP(box);
    if (c->phase == SPLICE_JOINED) {   /* it did not get the acknowledgement */
        SLUICE_COUNTER_OF(box, splice_repeated)++;
        splice_send_held(box, SLUICE_WORKER_OF(box), c, false);
    } else if (acknowledged == c->client + 1 && (flags & (TCP_SYN | TCP_ACK | TCP_RST)) == (TCP_SYN | TCP_ACK)) {
        splice_join(box, c, place);
    } else if (acknowledged == c->client + 1 && flags & TCP_RST && !splice_next_server(box, c)) {
        SLUICE_COUNTER_OF(box, splice_no_server)++;
        splice_reset_client(box, SLUICE_WORKER_OF(box), c);
        splice_unlist(SLUICE_WORKER_OF(box), c);
        c->phase = SPLICE_REFUSED;   /* its timer frees it */
    }
}

/* --- the client --- */

/* Bytes of a client before the join. */
static void splice_take(const struct sl_event *event, struct splice_flow *flow, const uint8_t *bytes, uint32_t number, uint32_t count) {
    struct sl_box *box = event->box;
    struct splice *splice = SLUICE_WORKER_OF(box);
    struct splice_connection *c = flow->c;
    uint64_t most = SLUICE_PARAMETER_OF(box, waiting);
    uint32_t offset = number - (c->client + 1);
    if (offset > c->count) {
        SLUICE_COUNTER_OF(box, splice_out_of_order) += (int32_t)(offset - c->count) > 0;
        return;
    }
    uint32_t known = c->count - offset;
    if (known >= count) {   /* the client waits for an acknowledgement */
        splice_acknowledge(box, splice, c, most);
        return;
    }
    bool full = c->phase == SPLICE_REQUEST && (uint64_t)c->count + (count - known) > most;
    if (!full && !splice_hold(splice, c, bytes + known, count - known, most, SLUICE_PARAMETER_OF(box, memory))) {
        SLUICE_COUNTER_OF(box, splice_no_memory)++;
        return;
    }
    if (c->phase == SPLICE_REQUEST)
        splice_choose(event, flow, full);
    if (c->phase == SPLICE_REQUEST)
        splice_acknowledge(box, splice, c, most);
}

/* A segment of a client that has a connection, before the join. */
static void splice_before_join(const struct sl_event *event, struct splice_flow *flow, const struct tcp_place *place) {
    struct sl_box *box = event->box;
    struct splice_connection *c = flow->c;
    uint32_t number = (uint32_t)sl_load_be32(place->at + 4), acknowledged = (uint32_t)sl_load_be32(place->at + 8);
    uint8_t flags = place->at[13], header[60], *stamp;
    SLUICE_DROP(box);
    if (flags & TCP_RST) {
        if (number == c->client_next)   /* RFC 5961, 3.2 */
            splice_forget(event, flow);
        return;
    }
    if (!(flags & TCP_ACK) || acknowledged != c->cookie + 1) {
        SLUICE_COUNTER_OF(box, splice_unknown)++;
        return;
    }
    memcpy(header, place->at, place->header);
    stamp = c->options & SPLICE_STAMPS ? sl_edit_option(header, place->header, 8, 10) : NULL;
    c->stamp = stamp ? (uint32_t)sl_load_be32(stamp) : c->stamp;
    c->window = (uint16_t)sl_load_be16(place->at + 14);
    if (c->phase == SPLICE_ANSWERED || !c->deadline) {
        SLUICE_COUNTER_OF(box, splice_accepted)++;
        struct splice *splice = SLUICE_WORKER_OF(box);
        splice->half_open -= c->phase == SPLICE_ANSWERED;
        c->phase = SPLICE_REQUEST;
        c->tries = 0;
        c->deadline = sl_now(box) + splice_time(SLUICE_PARAMETER_OF(box, wait));
        SLUICE_ARM(event, tcp, splice, splice_time(SLUICE_PARAMETER_OF(box, wait)));
        if (!splice->waits)
            splice_choose(event, flow, true);
    }
    uint32_t at = place->ip.payload + place->header, end = place->ip.end;
    if (end > sl_packet_frame(event)->captured) {
        SLUICE_COUNTER_OF(box, splice_not_translated)++;
        return;
    }
    if (end > at) {
        if (number + (end - at) - c->client_next < 1u << 31)
            c->client_next = number + (end - at);
        splice_take(event, flow, place->at + place->header, number, end - at);
    }
    if (flags & TCP_FIN && c->phase == SPLICE_REQUEST && number + (end - at) == c->client + 1 + c->count)
        splice_choose(event, flow, true);   /* nothing follows; the client sends its FIN again */
}

/* A segment to the service. */
static void splice_from_client(const struct sl_event *event, struct splice_flow *flow, const struct tcp_place *place) {
    struct sl_box *box = event->box;
    struct splice_connection *c = flow->c;
    uint32_t number = (uint32_t)sl_load_be32(place->at + 4);
    uint8_t flags = place->at[13];
    if (SL_LIKELY(c && c->phase == SPLICE_JOINED && !(flags & TCP_SYN && c->ended == 3))) {
        uint32_t length = place->ip.end - place->ip.payload - place->header;
        if (flags & TCP_RST ? number == c->client_next : flags & TCP_FIN)
            c->ended |= flags & TCP_RST ? 3 : 1;
        if (number + length - c->client_next < 1u << 31)
            c->client_next = number + length + (flags & TCP_FIN);
        if (SL_UNLIKELY(c->ended == 3 && !c->lingers))
            c->lingers = SLUICE_ARM(event, tcp, splice, SPLICE_LINGER * SPLICE_SECOND);
        splice_forward(box, c, true, place);
        return;
    }
    if ((flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN) {
        if (c && c->phase == SPLICE_ANSWERED && c->client == number) {
            SLUICE_DROP(box);
            SLUICE_COUNTER_OF(box, splice_repeated)++;
            splice_send_syn_ack(event, c);
            return;
        }
        if (c && c->client == number && c->phase != SPLICE_REFUSED) {
            SLUICE_DROP(box);
            return;
        }
        splice_forget(event, flow);
        splice_answer(event, flow, place);
        return;
    }
    if (c && c->phase == SPLICE_REFUSED) {
        splice_forget(event, flow);
        c = NULL;
    } else if (!c && (flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_ACK) {
        c = splice_recognise(event, flow, place);
    }
    if (c) {
        splice_before_join(event, flow, place);
        return;
    }
    SLUICE_DROP(box);
    SLUICE_COUNTER_OF(box, splice_unknown) += !(flags & TCP_RST);
    if (!(flags & TCP_RST) && !flow->answered) {
        uint8_t out[SL_RESET_MOST];
        sl_send_to(box, out, sl_make_reset(sl_packet_frame(event), &place->ip, true, out), true);
    }
}

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
    if (c)
        splice_from_server(box, c, &place);
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
    sl_store_be32(splice->key, box->seed >> 32);
    sl_store_be32(splice->key + 4, box->seed);
    memcpy(splice->key + 8, "splicing", 8);
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
