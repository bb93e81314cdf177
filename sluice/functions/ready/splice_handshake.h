/* The handshake of `splice` with clients. Included after its declarations. */
#ifndef SPLICE_HANDSHAKE_H
#define SPLICE_HANDSHAKE_H

/* Reads the options of a SYN that `offered` has too. */
static void splice_read_syn(struct splice_connection *c, const struct tcp_place *place, unsigned offered) {
    uint8_t header[60], *scale, *stamp;
    memcpy(header, place->at, place->header);
    scale = sl_edit_option(header, place->header, 3, 3);
    stamp = sl_edit_option(header, place->header, 8, 10);
    c->client_scale = scale ? (uint8_t)sl_min(*scale, 14) : SPLICE_NO_SCALE;
    c->stamp = stamp ? (uint32_t)sl_load_be32(stamp) : 0;
    c->options = (uint8_t)(offered & ((scale ? SPLICE_SCALE : 0u) | (stamp ? SPLICE_STAMPS : 0u) |
                                      (sl_edit_option(header, place->header, 4, 2) ? SPLICE_SACK : 0u)));
    c->mss = (uint16_t)sl_min(sl_max(tcp_mss(place), SPLICE_MSS_LEAST), SPLICE_MSS_MOST);
    c->window = (uint16_t)sl_load_be16(place->at + 14);
    c->client = (uint32_t)sl_load_be32(place->at + 4);
    c->client_next = c->client + 1;
}

/* Stores the headers of a client's segment. */
static void splice_read_head(struct splice_connection *c, const struct sl_frame *frame, const struct tcp_place *place) {
    uint32_t ip = place->ip.version == 4 ? 20 : 40;
    c->version = place->ip.version;
    c->link = (uint8_t)place->ip.ip;
    c->link_type = (uint16_t)frame->link_type;
    c->port = (uint16_t)frame->port;
    memcpy(c->head, frame->at, c->link + ip);
    memcpy(c->head + c->link + ip, place->at, 4);
}

static bool splice_send_syn_ack(const struct sl_event *event, const struct splice_connection *c) {
    uint8_t options[40];
    struct splice *splice = SLUICE_WORKER_OF(event->box);
    uint16_t mss = (uint16_t)sl_min(c->mss, c->version == 4 ? 1460 : 1440);
    uint32_t length = splice_syn_options(options, mss, c->options, c->box_scale, c->box_stamp, c->stamp);
    return splice_send(event->box, splice, c, true, &(struct tcp_fields){
        .number = c->cookie, .acknowledged = c->client + 1, .flags = TCP_SYN | TCP_ACK,
        .window = (uint16_t)sl_min(SLUICE_PARAMETER_OF(event->box, waiting), 65535), .options = options, .option_length = length});
}

/* The options that clients are offered: those of the parameter that no server refused a short time ago. A single answer,
 * of a server that is being replaced or of an attacker, removes an option for further clients for that time only. */
static unsigned splice_offered(const struct splice *splice, uint64_t now) {
    unsigned offered = splice->options;
    for (unsigned bit = 0; bit < 3; bit++)
        if (splice->refused[bit] && now - splice->refused[bit] < SPLICE_REFUSED_FOR)
            offered &= ~(1u << bit);
    return offered;
}

/* Answers a SYN: from a new connection, or, while there are too many, from one that is not stored. */
static void splice_answer(const struct sl_event *event, struct splice_flow *flow, const struct tcp_place *place) {
    struct sl_box *box = event->box;
    struct splice *splice = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_packet_frame(event);
    bool store = splice->half_open < SLUICE_PARAMETER_OF(box, half_open);
    struct splice_connection *c = store ? splice_new(splice) : NULL, forgotten = {0};
    SLUICE_COUNTER_OF(box, splice_syns)++;
    SLUICE_DROP(box);
    if (store && !c) {
        SLUICE_COUNTER_OF(box, splice_not_answered)++;
        return;
    }
    SLUICE_COUNTER_OF(box, splice_cookies) += !store;
    flow->c = c;
    flow->answered = !store;
    c = c ? c : &forgotten;
    c->of = sl_flow_place_of(event);
    splice_read_head(c, frame, place);
    splice_read_syn(c, place, splice_offered(splice, sl_now(box)));
    c->cookie = syn_cookie(splice->key, place, frame->at, c->client, sl_now(box) / SYN_COOKIE_TICK, syn_cookie_size(c->mss));
    c->box_scale = splice->scale;
    c->box_stamp = splice_clock(box);
    if (!store) {   /* the client's reply has all the state */
        c->options = c->options & SPLICE_STAMPS ? c->options : 0;
        c->box_scale = 7;
        c->box_stamp = (c->box_stamp & ~63u) | (c->options & SPLICE_SACK ? 16 : 0) |
                       (c->options & SPLICE_SCALE ? c->client_scale : SPLICE_NO_SCALE);
    } else {   /* once it is forgotten, its options are unknown: its number must not be recognised as a cookie */
        c->cookie ^= 1;
        splice->half_open++;
        SLUICE_ARM(event, tcp, splice, SPLICE_SECOND);
    }
    SLUICE_COUNTER_OF(box, splice_not_answered) += !splice_send_syn_ack(event, c);
}

/* Makes the connection of a client that acknowledges a cookie of which nothing was stored; NULL: it is none. */
static struct splice_connection *splice_recognise(const struct sl_event *event, struct splice_flow *flow, const struct tcp_place *place) {
    struct splice *splice = SLUICE_WORKER_OF(event->box);
    const struct sl_frame *frame = sl_packet_frame(event);
    uint32_t client = (uint32_t)sl_load_be32(place->at + 4) - 1, cookie = (uint32_t)sl_load_be32(place->at + 8) - 1;
    uint16_t mss = syn_cookie_mss(splice->key, place, frame->at, client, cookie, sl_now(event->box));
    struct splice_connection *c = mss ? splice_new(splice) : NULL;
    if (!c)
        return NULL;
    uint8_t header[60], *stamp;
    memcpy(header, place->at, place->header);
    stamp = sl_edit_option(header, place->header, 8, 10);
    splice_read_head(c, frame, place);
    c->client = client;
    c->client_next = client + 1;
    c->cookie = cookie;
    c->mss = mss;
    c->box_scale = 7;
    if (stamp) {
        uint32_t bits = (uint32_t)sl_load_be32(stamp + 4);
        c->stamp = (uint32_t)sl_load_be32(stamp);
        c->box_stamp = bits;
        c->client_scale = bits & 15;
        c->options = (uint8_t)(SPLICE_STAMPS | (bits & 16 ? SPLICE_SACK : 0) | (c->client_scale != SPLICE_NO_SCALE ? SPLICE_SCALE : 0));
    }
    c->phase = SPLICE_REQUEST;
    c->of = sl_flow_place_of(event);
    flow->c = c;
    return c;
}

#endif
