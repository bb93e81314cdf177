/* The clients' side of `splice`: their bytes before the join, and their segments. Included after splice_server.h. */
#ifndef SPLICE_CLIENT_H
#define SPLICE_CLIENT_H

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

#endif
