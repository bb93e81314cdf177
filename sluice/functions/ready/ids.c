/* Detection by rules: evaluates a table of rules, which `sluice ids` makes of rules in Snort's syntax, on reassembled
 * streams, on HTTP messages and on packets, and writes the alerts.
 *
 * ids_table.h reads the table; ids_match.h and ids_rule.h evaluate one rule; ids_stream.h, ids_http.h and ids_packet.h say
 * on what, ids_alert.h what an alert is. */
#include "sluice.h"

SLUICE_PARAMETER(rules, text, "", "file of rules, several with + between them (sluice run and sluice ids make the table of it)")
SLUICE_PARAMETER(vars, text, "", "variables of the rules, as HOME_NET=10.0.0.0/8+HTTP_PORTS=80")
SLUICE_PARAMETER(lenient, flag, "no", "skip rules that cannot be used, and list them")
SLUICE_PARAMETER(table, text, "", "file with the table of rules, in place of rules")
SLUICE_PARAMETER(out, text, "", "file that the alerts are written to; without one standard output")
SLUICE_PARAMETER(fast, flag, "no", "write lines of the fast log, not JSON")
SLUICE_PARAMETER(counts, text, "", "file that the number of alerts of each rule is written to")
SLUICE_PARAMETER(block, number, 4096, "bytes of a stream that are inspected together with the block before them, 2048 to 1048576")
SLUICE_PARAMETER(body, number, 65536, "bytes of a request's body that are inspected, at most")
SLUICE_PARAMETER(search, number, 4096, "bytes of each side of a connection in which a first HTTP message may begin")
SLUICE_PARAMETER(flows, number, 262144, "flows that are inspected at once, at most")
SLUICE_PARAMETER(memory, number, 1073741824, "bytes that all of them store together, at most")
SLUICE_PARAMETER(thresholds, number, 65536, "counters of thresholds, at most 16777216")
SLUICE_PARAMETER(pcre_limit, number, 100000, "steps of one pcre, at most: beyond it the rule does not match")

SLUICE_COUNTER(ids_alerts, "alerts")
SLUICE_COUNTER(ids_below_thresholds, "matches of rules that a threshold or detection_filter does not report")
SLUICE_COUNTER(ids_bounded_matches, "evaluations of rules that were given up: too many steps of a pcre or bytes of contents")
SLUICE_COUNTER(ids_many_rules, "rules that a side of a flow has no room to remember, beyond 256")
SLUICE_COUNTER(ids_no_room, "times that the bound of memory was reached: what it was for is not inspected")
SLUICE_COUNTER(ids_flows_left_out, "flows that are not inspected, as too many were open")
SLUICE_COUNTER(ids_gaps, "gaps in streams, across which rules do not match")
SLUICE_COUNTER(ids_cut_packets, "packets of which the snap length cut off a part of the payload")
SLUICE_COUNTER(ids_http_messages, "HTTP messages that were inspected")
SLUICE_COUNTER(ids_http_incomplete, "HTTP messages that were not read to their end")
SLUICE_COUNTER(ids_http_cut, "HTTP messages of which a path, a header or a body is longer than what is inspected")

#include "ids_packet.h"

/* --- flows --- */

/* The flow of an event, made when it is needed first; NULL beyond the bounds. */
static struct ids_flow *ids_flow_of(const struct sl_event *event)
{
    struct sl_box *box = event->box;
    struct ids_state *state = SLUICE_STATE_OF(event);
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (state->flow || state->left_out)
        return state->flow;
    bool many = ids->flows >= SLUICE_PARAMETER_OF(box, flows);
    struct ids_flow *flow = many ? NULL : ids_take(box, sizeof *flow);
    uint64_t *bits = flow && ids->table.bit_count ? ids_take(box, ids_bits_size(ids)) : NULL;
    if (!flow) {
        SLUICE_COUNTER_OF(box, ids_flows_left_out)++;
        state->left_out = true;
        return NULL;
    }
    ids->flows++;
    flow->bits = bits;
    flow->flow = log_flow_of(event, state->path);
    flow_ends_of(&flow->ends, &flow->flow);
    return state->flow = flow;
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
        .protocol = protocol,
        .established = state->established,
        .http = flow->http && (flow->http->side[0].known || flow->http->side[1].known),
    };
}

static bool ids_has(const struct sl_box *box, unsigned number)
{
    const struct ids_group *group = &SLUICE_WORKER_OF(box)->table.groups[number];
    return group->count || group->always_count;
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

/* The flow of data or of a gap, where rules are about streams; NULL: it is not inspected. */
static struct ids_flow *ids_stream_flow(const struct sl_event *event)
{
    struct sl_box *box = event->box;
    bool http = SLUICE_WORKER_OF(box)->table.http;
    if (!event->instance || !(http || ids_has(box, IDS_STREAM)))
        return NULL;
    struct ids_flow *flow = ids_flow_of(event);
    if (flow && http && !flow->http)
        flow->http = ids_http_open(box, flow, sl_field_value(event->instance, sl_layer_field(event->owner, "syn")) & 1);
    return flow;
}

SLUICE_ON(tcp, data) {
    struct sl_box *box = event->box;
    struct ids_flow *flow = ids_stream_flow(event);
    if (!flow)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_TCP_BIT);
    if (flow->http)
        ids_http_bytes(flow->http, &seen, data->bytes.at, data->bytes.captured);
    seen.http = flow->http && (flow->http->side[0].known || flow->http->side[1].known);
    if (ids_has(box, IDS_STREAM))
        ids_stream_bytes(box, &flow->side[seen.side], &seen, data->bytes.at, data->bytes.captured);
}

SLUICE_ON(tcp, gap) {
    struct ids_flow *flow = ids_stream_flow(event);
    if (!flow)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_TCP_BIT);
    SLUICE_COUNTER_OF(event->box, ids_gaps)++;
    if (flow->http)
        ids_http_gap(flow->http, &seen, data->length);
    if (ids_has(event->box, IDS_STREAM))
        ids_stream_gap(event->box, &flow->side[seen.side], &seen, data->offset + data->length);
}

SLUICE_ON(tcp, end) {
    struct ids_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (!flow)
        return;
    struct ids_seen seen = ids_seen_of(event, flow, IDS_TCP_BIT);
    for (seen.side = 0; seen.side < 2; seen.side++) {
        struct ids_side *side = &flow->side[seen.side];
        if (side->number) {   /* what ends is dated as the last bytes */
            seen.time = side->time;
            seen.number = side->number;
        }
        if (flow->http)
            ids_http_end(flow->http, &seen);
        if (ids_has(event->box, IDS_STREAM) && !side->over)
            ids_block_end(event->box, side, &seen, true);
    }
}

/* A packet of TCP, UDP or ICMP. A flow is stored where rules have bits, else it is made for the packet. */
static void ids_on_packet(const struct sl_event *event, uint8_t protocol, unsigned number)
{
    struct sl_box *box = event->box;
    if (!event->instance)
        return;
    struct ids_state *state = SLUICE_STATE_OF(event);
    state->sent[event->side & 1] = true;
    state->established |= protocol != IDS_TCP_BIT && state->sent[0] && state->sent[1];
    if (!ids_has(box, number))
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
    ids_packet(event, &seen, number);
}

SLUICE_ON(tcp, packet) { ids_on_packet(event, IDS_TCP_BIT, IDS_TCP); }
SLUICE_ON(udp, packet) { ids_on_packet(event, IDS_UDP_BIT, IDS_UDP); }
SLUICE_ON(icmp, packet) { ids_on_packet(event, IDS_ICMP_BIT, IDS_ICMP); }
SLUICE_ON(icmp6, packet) { ids_on_packet(event, IDS_ICMP_BIT, IDS_ICMP); }

SLUICE_DESTROY { ids_flow_free(box, state); }

/* --- begin and end --- */

/* What one scan of packets and buffers needs; false without memory. */
SL_COLD bool ids_open_scans(struct ids *ids)
{
    bool made = true;
    for (unsigned i = 0; i < IDS_GROUPS; i++) {
        hs_database_t *database = ids->table.groups[i].database;
        if (!database)
            continue;
        made &= hs_alloc_scratch(database, &ids->scratch) == HS_SUCCESS;
        made &= i != IDS_STREAM || hs_stream_size(database, &ids->stream_size) == HS_SUCCESS;
        made &= i == IDS_STREAM || hs_open_stream(database, 0, &ids->packet[i]) == HS_SUCCESS;
    }
    ids->work.data = pcre2_match_data_create(32, NULL);
    ids->work.context = pcre2_match_context_create(NULL);
    ids->work.stack = pcre2_jit_stack_create(32 << 10, 1 << 20, NULL);   /* NULL: the one of 32 KiB that PCRE2 has */
    if (ids->work.context && ids->work.stack)
        pcre2_jit_stack_assign(ids->work.context, NULL, ids->work.stack);
    ids->alerts = calloc(ids->table.rule_count + 1, sizeof *ids->alerts);
    ids->found = calloc(ids->table.part_count + 1, sizeof *ids->found);
    ids->mark = calloc(ids->table.part_count + 1, sizeof *ids->mark);
    ids->counts.at = calloc(ids->counts.mask + 1, sizeof *ids->counts.at);
    return made && ids->work.data && ids->work.context && ids->alerts && ids->found && ids->mark && ids->counts.at;
}

SLUICE_OPEN {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const char *path = SLUICE_PARAMETER_OF(box, table);
    if (!*path) {
        fprintf(stderr, "ids: no rules: give rules=FILE\n");
        return -1;
    }
    const char *wrong = ids_table_open(&ids->table, path);
    if (wrong) {
        fprintf(stderr, "ids: %s: %s\n", path, wrong);
        return -1;
    }
    ids->budget.most = SLUICE_PARAMETER_OF(box, memory);
    ids->block = sl_min(sl_max(SLUICE_PARAMETER_OF(box, block), 2048), 1048576);
    for (ids->counts.mask = 15; ids->counts.mask + 1 < sl_min(SLUICE_PARAMETER_OF(box, thresholds), 1 << 24);)
        ids->counts.mask = 2 * ids->counts.mask + 1;
    if (!ids_open_scans(ids)) {
        fprintf(stderr, "ids: no memory\n");
        return -1;
    }
    uint32_t limit = (uint32_t)sl_min(SLUICE_PARAMETER_OF(box, pcre_limit), UINT32_MAX);
    pcre2_set_match_limit(ids->work.context, limit);
    pcre2_set_depth_limit(ids->work.context, (uint32_t)sl_min(limit, 1000));
    return log_open(&ids->log, box, "ids", SLUICE_PARAMETER_OF(box, out));
}

SL_COLD void ids_write_counts(struct sl_box *box, const struct ids *ids)
{
    FILE *file = fopen(SLUICE_PARAMETER_OF(box, counts), "w");
    bool failed = !file;
    for (uint32_t i = 0; file && i < ids->table.rule_count; i++)
        if (ids->alerts[i])
            fprintf(file, "%u %u %llu\n", ids->table.rules[i].gid, ids->table.rules[i].sid, (unsigned long long)ids->alerts[i]);
    failed |= file && fclose(file);
    if (failed)
        sl_fail(box, "ids: the counts of alerts could not be written", strerror(errno));
}

SLUICE_CLOSE {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (ids->alerts && *SLUICE_PARAMETER_OF(box, counts))
        ids_write_counts(box, ids);
    if (ids->log.out)
        log_close(&ids->log, box, "ids rows", "ids rows lost for want of memory", "ids flows without layers");
    sl_report(box, "ids rules", ids->table.rule_count);
    if (ids->counts.replaced)
        sl_report(box, "ids counters of thresholds given up", ids->counts.replaced);
    for (unsigned i = 0; i < IDS_GROUPS; i++)
        if (ids->packet[i])
            hs_close_stream(ids->packet[i], ids->scratch, NULL, NULL);
    hs_free_scratch(ids->scratch);
    pcre2_match_data_free(ids->work.data);
    pcre2_match_context_free(ids->work.context);
    pcre2_jit_stack_free(ids->work.stack);
    free(ids->alerts);
    free(ids->found);
    free(ids->mark);
    free(ids->counts.at);
    ids_table_free(&ids->table);
}
