/* Streams of QUIC and messages of SCTP, which the rules on TCP are evaluated on as well. Their ends are those of the
 * connection, whose event precedes theirs in a packet. Part of ids.c. */
#ifndef IDS_CARRIED_H
#define IDS_CARRIED_H

#include "log_quic.h"

/* Remembers the connection of the current packet. */
static void ids_carrier(const struct sl_event *event)
{
    if (!event->instance)
        return;
    SLUICE_WORKER_OF(event->box)->carrier = (struct ids_carrier){
        log_flow_of(event, SLUICE_STATE_OF(event)->path), SLUICE_STATE_OF(event), sl_packet_number(event), event->side & 1};
    if (SLUICE_STATE_OF(event)->blocked && SLUICE_DROP(event->box))
        SLUICE_COUNTER_OF(event->box, ids_blocked)++;
}

SLUICE_ON(quic, packet) { ids_carrier(event); }
SLUICE_ON(sctp, packet) { ids_carrier(event); }

/* The connection of an event of a layer above it, where rules on streams, or, `http`, on HTTP, are evaluated there; NULL: they
 * are not. */
static const struct ids_carrier *ids_carrier_of(const struct sl_event *event, bool http)
{
    const struct ids *ids = SLUICE_WORKER_OF(event->box);
    bool known = ids->carrier.state && ids->carrier.packet == sl_packet_number(event) && sl_packet_frame(event);
    bool rules = ids_has(event->box, IDS_STREAM) || (http && ids->table.http);
    return known && rules && SLUICE_PARAMETER_OF(event->box, streams) ? &ids->carrier : NULL;
}

static void ids_carried_seen(struct ids_seen *seen, const struct ids_carrier *carrier, unsigned side)
{
    seen->side = side;
    seen->established = true;
    seen->passed = &carrier->state->passed;
    seen->blocked = &carrier->state->blocked;
}

SLUICE_ON(quic_stream, data) {
    const struct ids_carrier *carrier = event->instance ? ids_carrier_of(event, false) : NULL;
    if (carrier && log_quic_part(event, "connection") != carrier->flow.number)
        return;               /* a stream of another connection, whose end delivers bytes */
    struct ids_flow *flow = carrier ? ids_flow_made(event, carrier->flow) : NULL;
    if (!flow || carrier->state->passed || carrier->state->blocked)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_QUIC_BIT);
    ids_carried_seen(&seen, carrier, log_quic_sender(event));
    ids_stream_bytes(event->box, &flow->side[seen.side], &seen, data->bytes.at, data->bytes.captured);
}

/* The flow of a stream that rules have seen bytes of, and its side; NULL if there is none. */
static struct ids_flow *ids_quic_flow(const struct sl_event *event, struct ids_seen *seen)
{
    struct ids_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (!flow)
        return NULL;
    *seen = ids_seen_of(event, flow, IDS_QUIC_BIT);
    seen->side = log_quic_sender(event);
    seen->established = true;
    return flow;
}

SLUICE_ON(quic_stream, gap) {
    struct ids_seen seen;
    struct ids_flow *flow = ids_quic_flow(event, &seen);
    if (!flow)
        return;
    SLUICE_COUNTER_OF(event->box, ids_gaps)++;
    ids_stream_gap(event->box, &flow->side[seen.side], &seen, data->offset + data->length);
}

SLUICE_ON(quic_stream, end) {
    struct ids_seen seen;
    struct ids_flow *flow = ids_quic_flow(event, &seen);
    if (!flow)
        return;
    struct ids_side *side = &flow->side[seen.side];
    seen.time = side->time;
    seen.number = side->number;
    if (!side->over)
        ids_block_end(event->box, side, &seen, true);
}

/* HTTP that begins with a message. */
static void ids_message_http(struct sl_box *box, const struct ids_seen *seen, sl_bytes bytes)
{
    if (bytes.captured < HTTP_BEGINNING || !(http_is_request(bytes.at, false) || http_is_response(bytes.at)))
        return;
    struct ids_http *http = ids_http_open(box, NULL, false);
    if (!http)
        return;
    ids_http_bytes(http, seen, bytes.at, bytes.captured);
    ids_http_end(http, seen);
    ids_http_free(http);
}

/* A whole message: the rules on streams are evaluated on each, for itself. */
static void ids_message_seen(const struct sl_event *event, sl_bytes bytes)
{
    const struct ids_carrier *carrier = ids_carrier_of(event, true);
    if (!carrier || carrier->state->passed || carrier->state->blocked)
        return;
    struct sl_box *box = event->box;
    struct flow_ends ends;
    flow_ends_of(&ends, &carrier->flow);
    struct ids_seen seen = {.flow = &carrier->flow, .ends = &ends, .time = sl_packet_time(event), .protocol = IDS_SCTP_BIT,
                            .number = sl_packet_number(event), .event = event};
    struct ids_view views[IDS_BUFFERS] = {{0}};
    ids_carried_seen(&seen, carrier, carrier->side);
    ids_set_view(&views[IDS_PAYLOAD], bytes.at, bytes.captured);
    SLUICE_WORKER_OF(box)->work.left = IDS_SCAN_MOST;
    if (SLUICE_WORKER_OF(box)->table.http)
        ids_message_http(box, &seen, bytes);
    if (!ids_open_to(&seen) || !ids_has(box, IDS_STREAM))
        return;
    ids_scan_begin(box);
    ids_scan_group(box, ids_group_of(&SLUICE_WORKER_OF(box)->table, IDS_STREAM, seen.side, ends.port[1]), &views[IDS_PAYLOAD]);
    ids_found_evaluate(box, NULL, &seen, views, 3, false);
}

/* Chunks DATA (RFC 9260, 3.3.1) and I-DATA (RFC 8260, 2.1): one with the flags B and E is a whole message; of others the layer
 * delivers the message when its last fragment has arrived. */
SLUICE_ON(sctp_message, packet) {
    uint32_t header = event->unit.captured && event->unit.at[0] == 64 ? 20 : 16;
    if (event->unit.captured > header && (event->unit.at[1] & 3) == 3)
        ids_message_seen(event, sl_bytes_slice(event->unit, header, header + data->length));
}
SLUICE_ON(sctp_message, data) { ids_message_seen(event, data->bytes); }

#endif
