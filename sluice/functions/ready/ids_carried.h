/* Messages of SCTP, which the rules on TCP are evaluated on as well, as on the streams of QUIC (ids_quic.h). Their ends, and their
 * flowbits, are those of the connection, whose event precedes theirs in a packet. Part of ids.c. */
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

SLUICE_ON(sctp, packet) { ids_carrier(event); }

/* The connection of an event of a layer above it, where rules are evaluated there; NULL: none are. */
static const struct ids_carrier *ids_carrier_of(const struct sl_event *event)
{
    const struct ids *ids = SLUICE_WORKER_OF(event->box);
    bool known = ids->carrier.state && ids->carrier.packet == sl_packet_number(event) && sl_packet_frame(event);
    bool rules = ids_has(event->box, IDS_STREAM) || ids->table.http || ids->table.tls || ids->table.dns;
    return known && rules && SLUICE_PARAMETER_OF(event->box, streams) ? &ids->carrier : NULL;
}

/* The flowbits of a connection; NULL where no rule has any. */
static uint64_t *ids_carrier_bits(struct sl_box *box, const struct ids_carrier *carrier)
{
    if (!SLUICE_WORKER_OF(box)->table.bit_count)
        return NULL;
    const struct ids_flow *flow = ids_flow_made(box, carrier->state, carrier->flow, true);
    return flow ? flow->bits : NULL;
}

static void ids_carried_seen(struct sl_box *box, struct ids_seen *seen, const struct ids_carrier *carrier, unsigned side)
{
    seen->bits = ids_carrier_bits(box, carrier);
    seen->side = side;
    seen->established = true;
    seen->passed = &carrier->state->passed;
    seen->blocked = &carrier->state->blocked;
}

/* HTTP that begins with a message. */
static void ids_message_http(struct sl_box *box, const struct ids_seen *seen, sl_bytes bytes)
{
    if (!http_begins(bytes))
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
    const struct ids_carrier *carrier = ids_carrier_of(event);
    if (!carrier || carrier->state->passed || carrier->state->blocked)
        return;
    struct sl_box *box = event->box;
    struct flow_ends ends;
    flow_ends_of(&ends, &carrier->flow);
    struct ids_seen seen = {.flow = &carrier->flow, .ends = &ends, .time = sl_packet_time(event), .protocol = IDS_SCTP_BIT,
                            .number = sl_packet_number(event), .event = event};
    struct ids_view views[IDS_BUFFERS] = {{0}};
    ids_carried_seen(box, &seen, carrier, carrier->side);
    ids_set_view(&views[IDS_PAYLOAD], bytes.at, bytes.captured);
    SLUICE_WORKER_OF(box)->work.left = IDS_SCAN_MOST;
    if (SLUICE_WORKER_OF(box)->table.http)
        ids_message_http(box, &seen, bytes);
    if (SLUICE_WORKER_OF(box)->table.tls && ids_open_to(&seen))
        ids_tls_whole(box, &seen, bytes);
    if (SLUICE_WORKER_OF(box)->table.dns && ids_open_to(&seen) && ids_is_dns(&seen)) {
        struct ids_view named[IDS_BUFFERS] = {{0}};
        ids_dns_inspect(box, NULL, &seen, bytes, named);
    }
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
