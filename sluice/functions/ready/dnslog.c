/* Writes a row for each exchange of DNS: a query with its response and their delay, or the part that was seen.
 *
 * DNS is parsed over UDP and TCP on port 53, mDNS (RFC 6762) on 5353 and LLMNR (RFC 4795) on 5355. UDP datagrams on
 * other ports are parsed if they consist of exactly one message with one question. A response belongs to the query of
 * its flow with the same id and question, even if it was captured first. A repeated query without a response so far is
 * a retry. A message is held until its counterpart arrives, its flow ends, or the number of held messages exceeds a
 * bound. mDNS does not pair messages (RFC 6762, 6.7), so each message is a row. */
#include "sluice.h"

#include "dns_row.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(queries, number, 64, "queries of one flow that wait for their responses at most")
SLUICE_PARAMETER(all_queries, number, 65536, "queries of all flows that wait at most")
SLUICE_PARAMETER(memory, number, 67108864, "bytes of these messages, and of those that come in pieces over TCP, at most")
SLUICE_PARAMETER(answers, number, 1024, "records that one row lists at most; the others are counted in it")

SLUICE_COUNTER(dns_malformed, "messages of DNS that could not be read to their end")
SLUICE_COUNTER(dns_cut, "messages that the snap length cut off, read as far as they are there")
SLUICE_COUNTER(dns_not_dns, "datagrams on a port of DNS that have no header of it")
SLUICE_COUNTER(dns_early, "queries that were written before a response could come, as too many waited")
SLUICE_COUNTER(dns_gaps, "sides of TCP connections of which nothing more is read, as bytes are missing")
SLUICE_COUNTER(dns_no_memory, "messages that are not in the log for want of memory, or of the bound's")

enum { DNSLOG_PORT = 53, DNSLOG_NETBIOS = 137, DNSLOG_MDNS = 5353, DNSLOG_LLMNR = 5355 };
enum { DNSLOG_TCP_MOST = 65537 };   /* maximum bytes of a message over TCP with its length field */
#define DNSLOG_REORDERED UINT64_C(1000000000)   /* nanoseconds by which a response may precede its query */

/* A query that waits for its response, or a response that waits for its query, with the message for the row. */
struct dnslog_query {
    struct dnslog_query *next;
    uint64_t time, last;      /* times of the first and the last transmission */
    uint32_t retries, length, wire;   /* `length`: bytes of `message`; `wire`: length on the wire */
    uint8_t side;             /* the side that sent the query */
    bool response;
    uint8_t message[];
};

struct dnslog_side {
    uint8_t *bytes;           /* an incomplete message over TCP, with its length field */
    uint32_t used, room;
    bool lost;                /* after a gap: the beginning of the next message is unknown */
};

struct dnslog_flow {
    struct dnslog_query *first;
    uint32_t count, path;
    struct dnslog_side *sides;   /* the two sides of a TCP connection with DNS; else NULL */
};
SLUICE_STATE(struct dnslog_flow)

struct dnslog {
    struct log_output log;
    struct log_budget budget;
    uint64_t waiting, most, most_all, answers;
};
SLUICE_WORKER(struct dnslog)

static uint16_t dnslog_port(const struct sl_event *event, unsigned side)
{
    const struct sl_key_part *port = sl_port_part(event->owner);
    return port ? (uint16_t)sl_part_number(port, sl_event_half(event, side)) : 0;
}

/* The DNS port of a flow; 0 if it has none. */
static uint16_t dnslog_service(const struct sl_event *event)
{
    for (unsigned side = 0; side < 2; side++) {
        uint16_t port = dnslog_port(event, side);
        if (port == DNSLOG_PORT || port == DNSLOG_MDNS || port == DNSLOG_LLMNR)
            return port;
    }
    return 0;
}

/* Whether a flow is NetBIOS's name service, which uses the same message format (RFC 1002, 4.2), but other names and
 * types. */
static bool dnslog_is_netbios(const struct sl_event *event)
{
    return dnslog_port(event, 0) == DNSLOG_NETBIOS || dnslog_port(event, 1) == DNSLOG_NETBIOS;
}

/* Whether a datagram on another port is a DNS message: one question and records that end exactly at its end. */
static bool dnslog_looks(sl_bytes message)
{
    const uint8_t *at = message.at;
    /* tests for one question, opcode 0 and a zero reserved bit; below, for a number of records that fits in the
     * length */
    if (message.captured < DNS_HEADER + 5 || message.captured < message.length || sl_load_be16(at + 4) != 1 ||
        at[2] & 0x78 || at[3] & 0x40)
        return false;
    struct dns_reader reader = {at, message.captured, DNS_HEADER, DNS_WHOLE};
    struct dns_question question;
    struct dns_record record;
    uint32_t records = (uint32_t)(sl_load_be16(at + 6) + sl_load_be16(at + 8) + sl_load_be16(at + 10));
    if (records > message.captured / 11 || !dns_question(&reader, &question) || !question.type ||
        (question.class_ != 1 && question.class_ != 3 && question.class_ != 255))
        return false;
    for (; records; records--)
        if (!dns_record(&reader, &record))
            return false;
    return reader.place == message.captured;
}

/* --- rows --- */

/* A message of an exchange, and the times of its first and last transmission. */
struct dnslog_part {
    sl_bytes message;
    uint64_t time, last;
    uint32_t retries;
};

static struct dnslog_part dnslog_stored(const struct dnslog_query *query)
{
    return (struct dnslog_part){{query->message, query->length, query->wire}, query->time, query->last, query->retries};
}

static bool dnslog_is_cut(const struct dnslog_part *part) { return part && part->message.captured < part->message.length; }

/* Writes the row of a query, of a response, or of both. `client`: the side that sent the query. */
static void dnslog_row(const struct sl_event *event, const struct dnslog_part *query, const struct dnslog_part *response,
                       unsigned client)
{
    struct dnslog *dns = SLUICE_WORKER_OF(event->box);
    struct log_flow flow = log_flow_of(event, SLUICE_STATE_OF(event)->path);
    uint16_t service = dnslog_service(event);
    struct log_text *row = log_begin(&dns->log, event->box, &flow, client, query ? query->time : response->time);
    bool tcp = strcmp(event->owner->prototype, "tcp") == 0;
    log_word(row, "proto", service == DNSLOG_MDNS ? "mdns" : service == DNSLOG_LLMNR ? "llmnr" : tcp ? "tcp" : "udp");
    log_flag(row, "request", query != NULL);
    log_flag(row, "response", response != NULL);
    if (query && response)
        log_seconds(row, "delay", response->time > query->last ? response->time - query->last : 0);
    else
        log_word(row, "delay", NULL);
    log_number(row, "retries", query ? query->retries : 0);
    log_number(row, "query_bytes", query ? query->message.length : 0);
    log_number(row, "response_bytes", response ? response->message.length : 0);
    log_flag(row, "cut", dnslog_is_cut(query) || dnslog_is_cut(response));
    if (!dns_row_message(row, response ? response->message : query->message, response != NULL, dns->answers))
        SLUICE_COUNTER_OF(event->box, dns_malformed)++;
    log_finish(&dns->log);
}

/* Writes the row of a message whose counterpart was not seen. */
static void dnslog_alone(const struct sl_event *event, const struct dnslog_query *query)
{
    struct dnslog_part part = dnslog_stored(query);
    dnslog_row(event, query->response ? NULL : &part, query->response ? &part : NULL, query->side);
}

/* --- waiting messages --- */

/* Removes a message from its flow's list, and frees it. */
static void dnslog_remove(struct dnslog *dns, struct dnslog_flow *flow, struct dnslog_query **place)
{
    struct dnslog_query *query = *place;
    *place = query->next;
    flow->count--;
    dns->waiting--;
    log_give(&dns->budget, sizeof *query + query->length);
    free(query);
}

/* The offset of the end of the first question; DNS_HEADER if there is none. */
static uint32_t dnslog_question_end(const uint8_t *at, uint32_t length)
{
    struct dns_reader reader = {at, length, DNS_HEADER, DNS_WHOLE};
    struct dns_question question;
    return sl_load_be16(at + 4) && dns_question(&reader, &question) ? reader.place : DNS_HEADER;
}

/* Whether a message belongs to the same exchange as a waiting one: the id, opcode and question are equal. For a
 * response without a question (as in RFC 2308, 2.1), the question is ignored. Names are compared without case (RFC
 * 4343). */
static bool dnslog_same(const struct dnslog_query *query, sl_bytes message, bool response)
{
    if (memcmp(query->message, message.at, 2) || ((query->message[2] ^ message.at[2]) & 0x78))
        return false;
    uint32_t own = dnslog_question_end(query->message, query->length), other = dnslog_question_end(message.at, message.captured);
    if (response && other == DNS_HEADER)
        return true;
    if (own != other)
        return false;
    for (uint32_t i = DNS_HEADER; i < own; i++) {
        uint8_t a = query->message[i], b = message.at[i];
        if (a != b && !((a ^ b) == 0x20 && (a | 0x20) >= 'a' && (a | 0x20) <= 'z'))
            return false;
    }
    return true;
}

/* Finds the waiting message of the same exchange: a response if `waiting`, else a query. `response`: whether `message`
 * is a response. */
static struct dnslog_query **dnslog_find(struct dnslog_flow *flow, sl_bytes message, unsigned side, bool response, bool waiting)
{
    struct dnslog_query **place = &flow->first;
    while (*place && ((*place)->side != side || (*place)->response != waiting || !dnslog_same(*place, message, response)))
        place = &(*place)->next;
    return place;
}

/* Appends a message to the waiting ones of its flow. */
static void dnslog_wait(const struct sl_event *event, sl_bytes message, bool response)
{
    struct dnslog *dns = SLUICE_WORKER_OF(event->box);
    struct dnslog_flow *flow = SLUICE_STATE_OF(event);
    struct dnslog_query *query = malloc(sizeof *query + message.captured), **place = &flow->first;
    if (!query) {
        SLUICE_COUNTER_OF(event->box, dns_no_memory)++;
        return;
    }
    uint8_t side = (uint8_t)(response ? event->side ^ 1 : event->side);
    *query = (struct dnslog_query){NULL, sl_packet_time(event), sl_packet_time(event), 0, message.captured, message.length, side, response};
    memcpy(query->message, message.at, message.captured);
    if (dns->waiting >= dns->most_all || !log_take(&dns->budget, sizeof *query + query->length)) {
        SLUICE_COUNTER_OF(event->box, dns_early)++;
        dnslog_alone(event, query);
        free(query);
        return;
    }
    while (*place)
        place = &(*place)->next;
    *place = query;
    dns->waiting++;
    if (++flow->count > dns->most) {
        SLUICE_COUNTER_OF(event->box, dns_early)++;
        dnslog_alone(event, flow->first);
        dnslog_remove(dns, flow, &flow->first);
    }
}

/* Processes a query: a retry, a query whose response was captured first, or a query that waits for its response. */
static void dnslog_query(const struct sl_event *event, sl_bytes message)
{
    struct dnslog *dns = SLUICE_WORKER_OF(event->box);
    struct dnslog_flow *flow = SLUICE_STATE_OF(event);
    struct dnslog_query **same = dnslog_find(flow, message, event->side, false, false);
    if (*same) {
        (*same)->retries++;
        (*same)->last = sl_packet_time(event);
        return;
    }
    same = dnslog_find(flow, message, event->side, false, true);
    if (!*same || sl_packet_time(event) > (*same)->time + DNSLOG_REORDERED) {
        dnslog_wait(event, message, false);
        return;
    }
    struct dnslog_part query = {message, sl_packet_time(event), sl_packet_time(event), 0};
    struct dnslog_part response = dnslog_stored(*same);
    dnslog_row(event, &query, &response, event->side);
    dnslog_remove(dns, flow, same);
}

static void dnslog_response(const struct sl_event *event, sl_bytes message)
{
    struct dnslog_flow *flow = SLUICE_STATE_OF(event);
    struct dnslog_query **query = dnslog_find(flow, message, event->side ^ 1, true, false);
    if (!*query) {
        dnslog_wait(event, message, true);
        return;
    }
    struct dnslog_part asked = dnslog_stored(*query), response = {message, sl_packet_time(event), sl_packet_time(event), 0};
    dnslog_row(event, &asked, &response, event->side ^ 1);
    dnslog_remove(SLUICE_WORKER_OF(event->box), flow, query);
}

/* Processes a complete message. */
static void dnslog_read(const struct sl_event *event, sl_bytes message)
{
    SLUICE_COUNTER_OF(event->box, dns_cut) += message.captured < message.length;
    if (message.captured < DNS_HEADER) {
        SLUICE_COUNTER_OF(event->box, dns_not_dns)++;
        return;
    }
    bool response = message.at[2] & 0x80;
    struct dnslog_part part = {message, sl_packet_time(event), sl_packet_time(event), 0};
    if (dnslog_service(event) == DNSLOG_MDNS)   /* multicast, with unsolicited responses (RFC 6762, 6.7 and 8.3) */
        dnslog_row(event, response ? NULL : &part, response ? &part : NULL, event->side);
    else if (response)
        dnslog_response(event, message);
    else
        dnslog_query(event, message);
}

/* --- events --- */

SLUICE_ON(udp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(udp, packet) {
    if (!event->instance || event->unit.captured < 8 || !data->length)
        return;
    sl_bytes message = sl_bytes_slice(event->unit, 8, 8 + data->length);
    if (dnslog_service(event) || (dnslog_looks(message) && !dnslog_is_netbios(event)))
        dnslog_read(event, message);
}

SLUICE_ON(tcp, created) {
    if (event->instance && dnslog_service(event))
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

/* Ensures space for `size` bytes of a message that arrives in pieces. Returns false on failure. */
static bool dnslog_room(struct dnslog *dns, struct dnslog_side *side, uint32_t size)
{
    if (size <= side->room)
        return true;
    uint32_t room = (uint32_t)sl_max(512, sl_min(2 * (uint64_t)size, DNSLOG_TCP_MOST));
    if (!log_take(&dns->budget, room - side->room))
        return false;
    uint8_t *larger = realloc(side->bytes, room);
    if (!larger) {
        log_give(&dns->budget, room - side->room);
        return false;
    }
    side->bytes = larger;
    side->room = room;
    return true;
}

/* Messages over TCP are preceded by their length (RFC 1035, 4.2.2). */
SLUICE_ON(tcp, data) {
    if (!event->instance || dnslog_service(event) != DNSLOG_PORT)
        return;
    struct dnslog_flow *flow = SLUICE_STATE_OF(event);
    if (!flow->sides && !(flow->sides = calloc(2, sizeof *flow->sides))) {
        SLUICE_COUNTER_OF(event->box, dns_no_memory)++;
        return;
    }
    struct dnslog_side *side = &flow->sides[event->side & 1];
    const uint8_t *at = data->bytes.at;
    uint32_t left = data->bytes.captured;
    while (left && !side->lost) {
        uint32_t whole = side->used < 2 ? 2 : 2 + (uint32_t)sl_load_be16(side->bytes);
        uint32_t take = (uint32_t)sl_min(whole - side->used, left);
        if (!dnslog_room(SLUICE_WORKER_OF(event->box), side, side->used + take)) {
            SLUICE_COUNTER_OF(event->box, dns_no_memory)++;
            side->lost = true;
            return;
        }
        memcpy(side->bytes + side->used, at, take);
        side->used += take;
        at += take;
        left -= take;
        if (side->used < 2 || side->used < (whole = 2 + (uint32_t)sl_load_be16(side->bytes)))
            continue;
        dnslog_read(event, (sl_bytes){side->bytes + 2, whole - 2, whole - 2});
        side->used = 0;
    }
}

SLUICE_ON(tcp, gap) {
    if (!event->instance || dnslog_service(event) != DNSLOG_PORT)
        return;
    struct dnslog_flow *flow = SLUICE_STATE_OF(event);
    if (!flow->sides)
        flow->sides = calloc(2, sizeof *flow->sides);
    if (!flow->sides || flow->sides[event->side & 1].lost)
        return;
    flow->sides[event->side & 1].lost = true;
    SLUICE_COUNTER_OF(event->box, dns_gaps)++;
}

static void dnslog_end(const struct sl_event *event)
{
    struct dnslog_flow *flow = SLUICE_STATE_OF(event);
    while (flow->first) {
        dnslog_alone(event, flow->first);
        dnslog_remove(SLUICE_WORKER_OF(event->box), flow, &flow->first);
    }
}

SLUICE_ON(udp, end) {
    if (event->instance)
        dnslog_end(event);
}

SLUICE_ON(tcp, end) {
    if (event->instance)
        dnslog_end(event);
}

SLUICE_DESTROY {
    while (state->first)
        dnslog_remove(SLUICE_WORKER_OF(box), state, &state->first);
    for (unsigned side = 0; state->sides && side < 2; side++) {
        log_give(&SLUICE_WORKER_OF(box)->budget, state->sides[side].room);
        free(state->sides[side].bytes);
    }
    free(state->sides);
}

/* A message that comes in pieces, of one side of a connection. */
static void dnslog_side_stored(struct sl_stored *stored, struct dnslog *dns, struct dnslog_side *side)
{
    uint32_t used = side->used;
    SL_STORED(stored, side->lost);
    SL_STORED(stored, used);
    if (stored->reads && used && (used > DNSLOG_TCP_MOST || !dnslog_room(dns, side, used))) {
        stored->failed = true;
        return;
    }
    if (used)
        sl_stored_bytes(stored, side->bytes, used);
    side->used = used;
}

SLUICE_STORED(zero, "messages that wait for their counterparts, or for their ends") {
    struct dnslog *dns = SLUICE_WORKER_OF(box);
    log_path_stored(stored, &dns->log, box, &state->path);
    for (struct dnslog_query **at = &state->first; sl_stored_more(stored, *at != NULL); at = &(*at)->next) {
        uint32_t length = *at ? (*at)->length : 0;
        SL_STORED(stored, length);
        stored->failed |= length < DNS_HEADER;
        if (!(*at = sl_stored_block(stored, *at, sizeof **at + (size_t)length, offsetof(struct dnslog_query, time))))
            return;
        (*at)->length = length;
        (*at)->side &= 1;
        if (stored->reads) {
            state->count++;
            dns->waiting++;
            dns->budget.used += sizeof **at + length;
        }
    }
    const size_t size = 2 * sizeof *state->sides;
    if (!sl_stored_more(stored, state->sides != NULL) || !(state->sides = sl_stored_block(stored, state->sides, size, size)))
        return;
    for (unsigned side = 0; side < 2; side++)
        dnslog_side_stored(stored, dns, &state->sides[side]);
}

SLUICE_OPEN {
    struct dnslog *dns = SLUICE_WORKER_OF(box);
    dns->budget.most = SLUICE_PARAMETER_OF(box, memory);
    dns->most = sl_max(1, SLUICE_PARAMETER_OF(box, queries));
    dns->most_all = SLUICE_PARAMETER_OF(box, all_queries);
    dns->answers = SLUICE_PARAMETER_OF(box, answers);
    return log_open(&dns->log, box, "dns", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "dnslog rows", "dnslog rows lost for want of memory",
              "dnslog flows without layers");
}
