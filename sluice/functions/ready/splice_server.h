/* The servers' side of `splice`: which server a connection gets, its handshake, and its segments. Included after the declarations
 * of splice.c. */
#ifndef SPLICE_SERVER_H
#define SPLICE_SERVER_H

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
    splice_list(box, splice, c);
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

/* Selects servers by the client's bytes so far, if these suffice; `all`: they do. */
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

#endif
