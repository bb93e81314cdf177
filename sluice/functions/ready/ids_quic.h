/* Streams of QUIC whose keys are known, which the rules on TCP are evaluated on as well: on their bytes, on the messages of HTTP/3
 * and DNS (RFC 9250) that they carry, and on the hellos of TLS in the connection's handshake. Part of ids.c. */
#ifndef IDS_QUIC_H
#define IDS_QUIC_H

#include "ids_http3.h"

SLUICE_ON(quic, packet) { ids_carrier(event); }

SLUICE_ON(quic, end) {
    (void)data;
    struct ids *ids = SLUICE_WORKER_OF(event->box);
    struct ids_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (ids->carrier.state == state)
        ids->carrier.state = NULL;
    if (state)
        http3_session_end(&state->quic);
}

/* The connection of a stream's event; NULL: the event is of another connection than the packet, as where the end of a stream delivers
 * bytes, or nothing is inspected. */
static const struct ids_carrier *ids_quic_carrier(const struct sl_event *event)
{
    const struct ids_carrier *carrier = event->instance ? ids_carrier_of(event) : NULL;
    return carrier && log_quic_part(event, "connection") == carrier->flow.number ? carrier : NULL;
}

/* The flow of a stream, which is made where its connection is known, and the data that are inspected; NULL: nothing is inspected. */
static struct ids_flow *ids_quic_flow(const struct sl_event *event, struct ids_seen *seen)
{
    const struct ids_carrier *carrier = ids_quic_carrier(event);
    struct ids_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || (carrier && (carrier->state->passed || carrier->state->blocked)))
        return NULL;
    struct ids_flow *flow = carrier ? ids_flow_made(event->box, state, carrier->flow, false) : state->flow;
    if (!flow)
        return NULL;
    unsigned sender = log_quic_sender(event);
    *seen = ids_seen_of(event, flow, IDS_QUIC_BIT);
    if (carrier) {
        ids_carried_seen(event->box, seen, carrier, sender);
    } else {
        seen->side = sender;
        seen->established = true;
        seen->time = flow->side[sender].time;
        seen->number = flow->side[sender].number;
    }
    if (state->quic.stream)
        ((struct ids_http *)state->quic.stream->connection->user)->seen = seen;
    return flow;
}

SLUICE_ON(quic_stream, created) {
    const struct ids_carrier *carrier = ids_quic_carrier(event);
    struct ids *ids = SLUICE_WORKER_OF(event->box);
    struct ids_flow *flow = carrier && ids->table.http ? ids_flow_made(event->box, SLUICE_STATE_OF(event), carrier->flow, false) : NULL;
    if (!flow)
        return;
    struct http3_session *session =
        http3_session(event, &carrier->state->quic, &carrier->flow, &ids_3_session, &ids->qpack, &ids->budget);
    if (session)
        http3_on_created(event, &SLUICE_STATE_OF(event)->quic, session, flow);
}

SLUICE_ON(quic_stream, data) {
    struct ids_seen seen;
    struct ids_flow *flow = ids_quic_flow(event, &seen);
    const struct ids *ids = SLUICE_WORKER_OF(event->box);
    if (!flow)
        return;
    http3_on_data(event, &SLUICE_STATE_OF(event)->quic, data->offset, data->bytes);
    if (ids->table.dns && ids_is_dns(&seen) && ids_open_to(&seen))
        ids_dns_bytes(event->box, flow, &seen, data->bytes.at, data->bytes.captured);
    if (ids_has(event->box, IDS_STREAM) && ids_open_to(&seen))
        ids_stream_bytes(event->box, &flow->side[seen.side], &seen, data->bytes.at, data->bytes.captured);
}

SLUICE_ON(quic_stream, gap) {
    struct ids_seen seen;
    struct ids_flow *flow = ids_quic_flow(event, &seen);
    if (!flow)
        return;
    SLUICE_COUNTER_OF(event->box, ids_gaps)++;
    http3_on_gap(&SLUICE_STATE_OF(event)->quic, data->offset, data->length);
    if (flow->dns)
        flow->dns->side[seen.side].lost = true;
    if (ids_has(event->box, IDS_STREAM))
        ids_stream_gap(event->box, &flow->side[seen.side], &seen, data->offset + data->length);
}

SLUICE_ON(quic_stream, state) {
    struct ids_seen seen;
    if (ids_quic_flow(event, &seen))
        http3_on_state(event, &SLUICE_STATE_OF(event)->quic, data->after);
}

SLUICE_ON(quic_stream, end) {
    (void)data;
    struct ids_seen seen;
    struct ids_flow *flow = ids_quic_flow(event, &seen);
    if (!flow)
        return;
    struct ids_side *side = &flow->side[seen.side];
    http3_on_end(event, &SLUICE_STATE_OF(event)->quic);
    if (side->number) {   /* the end has the time of the last bytes */
        seen.time = side->time;
        seen.number = side->number;
    }
    if (ids_has(event->box, IDS_STREAM) && !side->over)
        ids_block_end(event->box, side, &seen, true);
}

/* The handshake (RFC 9001, 4): messages without records. Bytes that are delivered at the end of a stream follow a gap. */
SLUICE_ON(quic_crypto, data) {
    struct ids_seen seen;
    bool hellos = SLUICE_WORKER_OF(event->box)->table.tls && ids_quic_carrier(event) && log_quic_part(event, "level") == 0;
    struct ids_flow *flow = hellos ? ids_quic_flow(event, &seen) : NULL;
    if (flow && ids_open_to(&seen))
        ids_tls_bytes(event->box, flow, &seen, data->bytes.at, data->bytes.captured, true);
}

#endif
