/* Detection by rules: evaluates a table of rules, which `sluice ids` makes of rules in Snort's syntax, on reassembled
 * streams, on HTTP messages and on packets, and writes the alerts.
 *
 * ids_table.h reads the table into what ids_types.h describes. ids_match.h, ids_bytes.h and ids_rule.h evaluate one rule;
 * ids_stream.h, ids_whole.h, ids_message.h, ids_http.h, ids_http2.h, ids_http3.h, ids_opened.h, ids_tls.h, ids_dns.h and
 * ids_packet.h say on what. ids_flow.h carries out what it decides, ids_alert.h writes the alert, ids_frames.h its packets. */
#include "sluice.h"

SLUICE_INLINE

SLUICE_PARAMETER(rules, text, "", "file of rules, several with + between them (sluice run and sluice ids make the table of it)")
SLUICE_PARAMETER(vars, text, "", "variables of the rules, as HOME_NET=10.0.0.0/8+HTTP_PORTS=80")
SLUICE_PARAMETER(lenient, flag, "no", "skip rules that cannot be used, and list them")
SLUICE_PARAMETER(table, text, "", "file with the table of rules, in place of rules")
SLUICE_PARAMETER(out, text, "", "file that the alerts are written to; without one standard output")
SLUICE_PARAMETER(keylog, text, "", "file of TLS secrets, in the format of SSLKEYLOGFILE, with which TLS over TCP is read")
SLUICE_PARAMETER(packets, text, "", "capture file that the packets that match are written to")
SLUICE_PARAMETER(profile, text, "", "file that the checks, matches and nanoseconds of each rule are written to")
SLUICE_PARAMETER(streams, flag, "yes", "rules on TCP are evaluated on messages of SCTP and streams of QUIC, too")
SLUICE_PARAMETER(fast, flag, "no", "write lines of the fast log, not JSON")
SLUICE_PARAMETER(counts, text, "", "file that the number of alerts of each rule is written to")
SLUICE_PARAMETER(block, number, 4096, "bytes of a stream that are inspected together with the block before them, 2048 to 1048576")
SLUICE_PARAMETER(body, number, 65536, "bytes of a request's body that are inspected, at most")
SLUICE_PARAMETER(search, number, 4096, "bytes of each side of a connection in which a first HTTP message may begin")
SLUICE_PARAMETER(flows, number, 262144, "flows that are inspected at once, at most")
SLUICE_PARAMETER(memory, number, 1073741824, "bytes that all of them store together, at most")
SLUICE_PARAMETER(thresholds, number, 65536, "counters of thresholds, at most 16777216")
SLUICE_PARAMETER(pcre_limit, number, 250000, "steps of one pcre, at most: beyond it the rule does not match")

/* The event for other functions: `packet` is the whole packet that completes the match; empty where there is none. */
SLUICE_PUBLISH(ids_alert, {
    uint32_t gid; uint32_t sid; uint32_t rev; uint32_t priority; bool blocked; sl_bytes msg; sl_bytes packet;
})

SLUICE_COUNTER(ids_alerts, "alerts")
SLUICE_COUNTER(ids_logged, "matches of rules whose action is log")
SLUICE_COUNTER(ids_blocked, "packets of flows that a rule has blocked, which were dropped after its match")
SLUICE_COUNTER(ids_not_rejected, "packets of rules that reject, which could only be dropped: nothing could be sent about them")
SLUICE_COUNTER(ids_packets_not_written, "packets that match and could not be written, as of another link type")
SLUICE_COUNTER(ids_tls_malformed, "hellos of TLS that could not be read to their end")
SLUICE_COUNTER(ids_below_thresholds, "matches of rules that a threshold or detection_filter does not report")
SLUICE_COUNTER(ids_bounded_matches, "evaluations of rules that were given up: too many steps of a pcre or bytes of contents")
SLUICE_COUNTER(ids_many_rules, "rules that a side of a flow has no room to remember, beyond 256")
SLUICE_COUNTER(ids_no_room, "times that the bound of memory was reached: what it was for is not inspected")
SLUICE_COUNTER(ids_flows_left_out, "flows that are not inspected, as too many were open")
SLUICE_COUNTER(ids_begun_anew, "flows with HTTP, or opened TLS, whose messages begin again with their next bytes, as another process has them now")
SLUICE_COUNTER(ids_gaps, "gaps in streams, across which rules do not match")
SLUICE_COUNTER(ids_cut_packets, "packets of which the snap length cut off a part of the payload")
SLUICE_COUNTER(ids_dns_cut, "DNS messages over TCP that are longer than the 2048 bytes that are inspected")
SLUICE_COUNTER(ids_http_messages, "HTTP messages that were inspected")
SLUICE_COUNTER(ids_http_incomplete, "HTTP messages that were not read to their end")
SLUICE_COUNTER(ids_http_2_ended, "sides of HTTP/2 connections that are not read further after a gap, an error, or at a bound")
SLUICE_COUNTER(ids_http_3_ended, "streams of HTTP/3 that are not read further after a gap, an error, or at a bound")
SLUICE_COUNTER(ids_http_3_not_read, "connections with HTTP/3 whose messages are not inspected: without libnghttp3")
SLUICE_COUNTER(ids_http_streams_left_out, "requests of HTTP/2 of which only the head was inspected, as too many were open")
SLUICE_COUNTER(ids_tls_opened, "connections of TLS whose application data are inspected")
SLUICE_COUNTER(ids_tls_without_key, "sides of TLS connections that are not opened: their secrets are not in the key log")
SLUICE_COUNTER(ids_tls_ciphers, "sides of TLS connections that are not opened: their version is below 1.2, or their cipher none with AES-GCM, AES-CCM, AES-CBC or ChaCha20-Poly1305")
SLUICE_COUNTER(ids_tls_refused, "sides of TLS connections that are not opened further after a record that is not valid, or not authentic")
SLUICE_COUNTER(ids_tls_gaps, "sides of TLS connections that are not opened further after a gap")
SLUICE_COUNTER(ids_http_cut, "HTTP messages of which a path, a header or a body is longer than what is inspected")

#include "ids_opened.h"
#include "ids_packet.h"
#include "ids_begin.h"

/* --- flows --- */

/* The flow of a state, made when it is needed first, of these ends; NULL beyond the bounds. `own_bits`: it is not one of a
 * connection's streams. */
static struct ids_flow *ids_flow_made(struct sl_box *box, struct ids_state *state, struct log_flow ends, bool own_bits)
{
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (state->flow || state->left_out)
        return state->flow;
    bool many = ids->flows >= SLUICE_PARAMETER_OF(box, flows);
    struct ids_flow *flow = many ? NULL : ids_take(box, sizeof *flow);
    uint64_t *bits = flow && own_bits && ids->table.bit_count ? ids_take(box, ids_bits_size(ids)) : NULL;
    if (!flow) {
        SLUICE_COUNTER_OF(box, ids_flows_left_out)++;
        state->left_out = true;
        return NULL;
    }
    ids->flows++;
    flow->bits = bits;
    flow->flow = ends;
    flow_ends_of(&flow->ends, &flow->flow);
    return state->flow = flow;
}

static struct ids_flow *ids_flow_of(const struct sl_event *event)
{
    struct ids_state *state = SLUICE_STATE_OF(event);
    return state->flow || state->left_out ? state->flow : ids_flow_made(event->box, state, log_flow_of(event, state->path), true);
}

static void ids_flow_free(struct sl_box *box, struct ids_state *state)
{
    struct ids *ids = SLUICE_WORKER_OF(box);
    struct ids_flow *flow = state->flow;
    if (!flow)
        return;
    for (unsigned side = 0; side < 2; side++)
        ids_side_free(box, &flow->side[side]);
    if (flow->http)
        ids_http_free(flow->http);
    ids_opened_free(box, flow);
    if (flow->message)
        ids_message_free(flow->message);
    ids_tls_free(box, flow->tls);
    ids_give(box, flow->dns, sizeof *flow->dns);
    ids_give(box, flow->bits, ids_bits_size(ids));
    ids_give(box, flow, sizeof *flow);
    ids->flows--;
    state->flow = NULL;
}

static struct ids_seen ids_seen_of(const struct sl_event *event, const struct ids_flow *flow, uint8_t protocol)
{
    struct ids_state *state = SLUICE_STATE_OF(event);
    SLUICE_WORKER_OF(event->box)->work.left = IDS_SCAN_MOST;   /* each event has its own */
    return (struct ids_seen){
        .flow = &flow->flow,
        .ends = &flow->ends,
        .bits = flow->bits,
        .time = sl_packet_time(event),
        .number = sl_packet_number(event),
        .side = event->side & 1,
        .event = event,
        .passed = &state->passed,
        .blocked = &state->blocked,
        .protocol = protocol,
        .established = state->established,
        .http = flow->http && (flow->http->side[0].known || flow->http->side[1].known),
    };
}

/* --- events --- */

SLUICE_ON(any, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

/* A connection is established when its handshake is complete, or when it was picked up in its middle. */
SLUICE_ON(tcp, state) {
    const char *name = event->owner->state[data->after].name;
    bool opening = strcmp(name, "CLOSED") == 0 || strncmp(name, "SYN_", 4) == 0 || strcmp(name, "RESET") == 0;
    SLUICE_STATE_OF(event)->established |= !opening;
}

/* The flow of data or of a gap, where rules are about streams; NULL: it is not inspected, or no more. */
static struct ids_flow *ids_stream_flow(const struct sl_event *event)
{
    struct sl_box *box = event->box;
    const struct ids_table *table = &SLUICE_WORKER_OF(box)->table;
    if (!event->instance || !(table->http || table->tls || table->dns || ids_has(box, IDS_STREAM)))
        return NULL;
    const struct ids_state *state = SLUICE_STATE_OF(event);
    if (state->passed || state->blocked)
        return NULL;
    struct ids_flow *flow = ids_flow_of(event);
    if (flow && table->http && !flow->http)
        flow->http = ids_http_open(box, flow, sl_field_value(event->instance, sl_layer_field(event->owner, "syn")) & 1);
    if (flow && !flow->opened && !flow->unopened && (table->http || ids_has(box, IDS_STREAM)))
        ids_opened_prepare(box, flow);
    return flow;
}

/* The packets of a side's stream, where those that match are written. */
static struct ids_frames *ids_frames_of(const struct sl_box *box, struct ids_flow *flow, unsigned side)
{
    return SLUICE_WORKER_OF(box)->packets ? &flow->side[side].frames : NULL;
}

SLUICE_ON(tcp, data) {
    struct sl_box *box = event->box;
    struct ids_flow *flow = ids_stream_flow(event);
    if (!flow)
        return;
    const struct ids_table *table = &SLUICE_WORKER_OF(box)->table;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_TCP_BIT);
    struct ids_frames *frames = seen.frames = ids_frames_of(box, flow, seen.side);
    if (frames && !frames->based && event->unit.captured >= 14) {   /* the packet that delivers is the first of its bytes */
        frames->base = (uint32_t)(sl_load_be(event->unit.at + 4, 4) + (event->unit.at[13] >> 1 & 1) - data->offset);
        frames->based = true;
    }
    ids_pass_bytes(flow, &seen, data->bytes.at, data->bytes.captured);
    seen.http = flow->http && (flow->http->side[0].known || flow->http->side[1].known);
    if (table->tls)
        ids_tls_bytes(box, flow, &seen, data->bytes.at, data->bytes.captured, false);
    if (table->dns && ids_is_dns(&seen))
        ids_dns_bytes(box, flow, &seen, data->bytes.at, data->bytes.captured);
    if (ids_has(box, IDS_STREAM) && ids_open_to(&seen))
        ids_stream_bytes(box, &flow->side[seen.side], &seen, data->bytes.at, data->bytes.captured);
}

SLUICE_ON(tcp, gap) {
    struct ids_flow *flow = ids_stream_flow(event);
    if (!flow)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_TCP_BIT);
    SLUICE_COUNTER_OF(event->box, ids_gaps)++;
    ids_pass_gap(flow, &seen, data->length);
    if (flow->tls)
        tls_side_gap(&flow->tls->side[seen.side]);
    if (flow->dns)
        flow->dns->side[seen.side].lost = true;
    if (ids_has(event->box, IDS_STREAM))
        ids_stream_gap(event->box, &flow->side[seen.side], &seen, data->offset + data->length);
}

SLUICE_ON(tcp, end) {
    struct ids_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (!flow || SLUICE_STATE_OF(event)->blocked)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_TCP_BIT);
    if (flow->opened && ids_open_to(&seen)) {
        flow->opened->seen = &seen;
        tls_connection_end(flow->opened->tls);
    }
    for (seen.side = 0; seen.side < 2 && ids_open_to(&seen); seen.side++) {
        struct ids_side *side = &flow->side[seen.side];
        seen.frames = ids_frames_of(event->box, flow, seen.side);
        if (side->number) {   /* the end has the time of the last bytes */
            seen.time = side->time;
            seen.number = side->number;
        }
        if (flow->http)
            ids_http_end(flow->http, &seen);
        if (ids_has(event->box, IDS_STREAM) && !side->over)
            ids_block_end(event->box, side, &seen, true);
        if (flow->opened && ids_has(event->box, IDS_STREAM) && !flow->opened->side[seen.side].over)
            ids_block_end(event->box, &flow->opened->side[seen.side], &seen, true);
    }
}

/* --- packets --- */

/* Stores a packet of a stream, for where it matches. */
static void ids_store_frame(const struct sl_event *event)
{
    struct sl_box *box = event->box;
    struct ids *ids = SLUICE_WORKER_OF(box);
    sl_bytes payload = ids_payload(event, IDS_TCP_BIT);
    const struct sl_frame *frame = sl_packet_frame(event);
    struct ids_flow *flow = payload.length && frame && ids_has(box, IDS_STREAM) ? ids_stream_flow(event) : NULL;
    struct ids_side *side = flow ? &flow->side[event->side & 1] : NULL;
    if (!side || side->over)
        return;
    uint32_t at = (uint32_t)(sl_load_be(event->unit.at + 4, 4) + (event->unit.at[13] >> 1 & 1));
    if (!ids_frames_add(&ids->budget, &side->frames, frame, at, (uint32_t)payload.length))
        SLUICE_COUNTER_OF(box, ids_no_room)++;
}

/* A packet of TCP, UDP or ICMP. A flow is stored where rules have bits, else it is made for the packet. */
static void ids_on_packet(const struct sl_event *event, uint8_t protocol, unsigned number)
{
    struct sl_box *box = event->box;
    if (!event->instance)
        return;
    struct ids_state *state = SLUICE_STATE_OF(event);
    state->sent[event->side & 1] = true;
    if (state->blocked) {
        SLUICE_COUNTER_OF(box, ids_blocked) += SLUICE_DROP(box);
        return;
    }
    state->established |= protocol != IDS_TCP_BIT && state->sent[0] && state->sent[1];
    bool dns = protocol == IDS_UDP_BIT && SLUICE_WORKER_OF(box)->table.dns;
    if (state->passed || !(ids_has(box, number) || dns))
        return;
    struct ids_flow here = {0}, *flow = &here;
    if (SLUICE_WORKER_OF(box)->table.bit_count) {
        flow = ids_flow_of(event);
    } else {
        here.flow = log_flow_of(event, state->path);
        flow_ends_of(&here.ends, &here.flow);
    }
    if (!flow)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, protocol);
    bool ported = number < IDS_PORTED;
    ids_packet(event, &seen, ported ? ids_group_of(&SLUICE_WORKER_OF(box)->table, number, seen.side, flow->ends.port[1]) : number);
}

SLUICE_ON(ipv4, packet) {
    if (ids_has(event->box, IDS_IP))
        ids_ip_packet(event);
}
SLUICE_ON(tcp, packet) {
    if (SLUICE_WORKER_OF(event->box)->packets && event->instance)
        ids_store_frame(event);
    ids_on_packet(event, IDS_TCP_BIT, IDS_TCP);
}
SLUICE_ON(udp, packet) { ids_on_packet(event, IDS_UDP_BIT, IDS_UDP); }
SLUICE_ON(icmp, packet) { ids_on_packet(event, IDS_ICMP_BIT, IDS_ICMP); }
SLUICE_ON(icmp6, packet) { ids_on_packet(event, IDS_ICMP_BIT, IDS_ICMP); }

#include "ids_carried.h"
#include "ids_quic.h"
#include "ids_stored.h"

SLUICE_DESTROY {
    http3_stream_free(&state->quic);
    http3_session_end(&state->quic);
    ids_flow_free(box, state);
}
