/* Writes a row for each message of ICMP (RFC 792) and ICMPv6 (RFC 4443, 4861); an echo request and its reply are one row.
 *
 * A request without a reply gets its row when its conversation ends, or when more requests wait than `waiting`. */
#include "sluice.h"

#include "log_reader.h"
#include "log_row.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(waiting, number, 64, "echo requests of one conversation that wait for their replies, at most")
SLUICE_PARAMETER(all_waiting, number, 262144, "echo requests of all conversations that wait, at most")

SLUICE_COUNTER(icmp_short, "messages that end within their first four bytes, or echoes within their first eight")
SLUICE_COUNTER(icmp_early, "echo requests that were written before a reply could come, as too many waited")
SLUICE_COUNTER(icmp_no_memory, "echo requests that were written at once for want of memory")

struct icmplog_echo {
    struct icmplog_echo *next;
    uint64_t time;
    uint32_t bytes, path;
    uint16_t id, number;
    uint8_t type, side;
};

struct icmplog_state { struct icmplog_echo *first; uint32_t count; };
SLUICE_STATE(struct icmplog_state)

struct icmplog { struct log_output log; uint64_t waiting; };
SLUICE_WORKER(struct icmplog)

static const struct log_named icmplog_names[] = {
    {0, "echo reply"}, {3, "destination unreachable"}, {4, "source quench"}, {5, "redirect"}, {8, "echo request"},
    {9, "router advertisement"}, {10, "router solicitation"}, {11, "time exceeded"}, {12, "parameter problem"},
    {13, "timestamp request"}, {14, "timestamp reply"}, {15, "information request"}, {16, "information reply"},
    {17, "address mask request"}, {18, "address mask reply"}, {42, "extended echo request"}, {43, "extended echo reply"}};
static const struct log_named icmplog_names6[] = {
    {1, "destination unreachable"}, {2, "packet too big"}, {3, "time exceeded"}, {4, "parameter problem"}, {128, "echo request"},
    {129, "echo reply"}, {130, "multicast listener query"}, {131, "multicast listener report"}, {132, "multicast listener done"},
    {133, "router solicitation"}, {134, "router advertisement"}, {135, "neighbor solicitation"}, {136, "neighbor advertisement"},
    {137, "redirect"}, {143, "multicast listener report v2"}, {160, "extended echo request"}, {161, "extended echo reply"}};

static bool icmplog_newer(const struct sl_event *event) { return !strcmp(event->owner->prototype, "icmp6"); }

/* Writes the ends of the packet that an error quotes. */
static void icmplog_quoted(struct log_text *row, struct log_reader quote)
{
    bool newer = quote.left && quote.at[0] >> 4 == 6, older = quote.left && quote.at[0] >> 4 == 4;
    uint32_t head = newer ? 40 : older ? 4 * (quote.at[0] & 15u) : 0;
    log_name(row, "quoted");
    if ((!newer && !older) || head < 20 || quote.left < (newer ? 40u : 20u)) {
        log_put(row, "null");
        return;
    }
    const uint8_t *at = quote.at;
    uint8_t protocol = at[newer ? 6 : 9];
    bool later = older && (sl_load_be16(at + 6) & 0x1fff);   /* a fragment without ports */
    bool ports = (protocol == 6 || protocol == 17 || protocol == 132) && quote.left >= head + 4 && !later;
    log_format(row, "{\"protocol\":%u", protocol);
    log_ip(row, "src", at + (newer ? 8 : 12), newer ? 16 : 4);
    log_number_if(row, "sport", ports, ports ? sl_load_be16(at + head) : 0);
    log_ip(row, "dst", at + (newer ? 24 : 16), newer ? 16 : 4);
    log_number_if(row, "dport", ports, ports ? sl_load_be16(at + head + 2) : 0);
    log_put(row, "}");
}

/* Begins a row with the members that all messages have. */
static struct log_text *icmplog_begin(const struct sl_event *event, uint32_t path, unsigned side, uint64_t time, uint8_t type,
                                      uint8_t code)
{
    struct log_output *log = &SLUICE_WORKER_OF(event->box)->log;
    struct log_flow flow = log_flow_of(event, path);
    char text[16];
    flow.icmp_type = type;
    flow.icmp_code = code;
    struct log_text *row = log_begin(log, event->box, &flow, side, time);
    bool newer = icmplog_newer(event);
    log_number(row, "version", newer ? 6 : 4);
    log_number(row, "type", type);
    log_number(row, "code", code);
    log_word(row, "name", newer ? LOG_NAMED(icmplog_names6, type, text) : LOG_NAMED(icmplog_names, type, text));
    return row;
}

/* Writes the row of an echo: a request, a reply, or both. */
static void icmplog_echo_row(const struct sl_event *event, const struct icmplog_echo *request, const struct icmplog_echo *reply)
{
    const struct icmplog_echo *first = request ? request : reply;
    struct log_text *row = icmplog_begin(event, first->path, first->side, first->time, first->type, 0);
    log_number(row, "id", first->id);
    log_number(row, "sequence", first->number);
    log_number_if(row, "bytes", request, request ? request->bytes : 0);
    log_number_if(row, "response_bytes", reply, reply ? reply->bytes : 0);
    if (request && reply)
        log_seconds(row, "delay", reply->time > request->time ? reply->time - request->time : 0);
    else
        log_word(row, "delay", NULL);
    log_put(row, ",\"mtu\":null,\"gateway\":null,\"target\":null,\"quoted\":null");
    log_finish(&SLUICE_WORKER_OF(event->box)->log);
}

/* Removes the first request, or the one at `place`. */
static void icmplog_remove(struct icmplog *icmp, struct icmplog_state *state, struct icmplog_echo **place)
{
    struct icmplog_echo *echo = *place;
    *place = echo->next;
    state->count--;
    icmp->waiting--;
    free(echo);
}

static void icmplog_request(const struct sl_event *event, const struct icmplog_echo *request)
{
    struct icmplog *icmp = SLUICE_WORKER_OF(event->box);
    struct icmplog_state *state = SLUICE_STATE_OF(event);
    bool many = icmp->waiting >= SLUICE_PARAMETER_OF(event->box, all_waiting);
    struct icmplog_echo *echo = many ? NULL : malloc(sizeof *echo), **place = &state->first;
    if (!echo) {
        SLUICE_COUNTER_OF(event->box, icmp_early) += many;
        SLUICE_COUNTER_OF(event->box, icmp_no_memory) += !many;
        icmplog_echo_row(event, request, NULL);
        return;
    }
    *echo = *request;
    while (*place)
        place = &(*place)->next;
    *place = echo;
    state->count++;
    icmp->waiting++;
    if (state->count > sl_max(1, SLUICE_PARAMETER_OF(event->box, waiting))) {
        SLUICE_COUNTER_OF(event->box, icmp_early)++;
        icmplog_echo_row(event, state->first, NULL);
        icmplog_remove(icmp, state, &state->first);
    }
}

static void icmplog_reply(const struct sl_event *event, const struct icmplog_echo *reply)
{
    struct icmplog_state *state = SLUICE_STATE_OF(event);
    struct icmplog_echo **place = &state->first;
    while (*place && ((*place)->number != reply->number || (*place)->id != reply->id))
        place = &(*place)->next;
    icmplog_echo_row(event, *place, reply);
    if (*place)
        icmplog_remove(SLUICE_WORKER_OF(event->box), state, place);
}

/* Writes the row of a message that is no echo. */
static void icmplog_row(const struct sl_event *event, uint32_t path)
{
    struct log_reader rest = log_reader(event->unit);
    bool newer = icmplog_newer(event);
    uint8_t type = event->unit.at[0], code = event->unit.at[1];
    struct log_text *row = icmplog_begin(event, path, event->side, sl_packet_time(event), type, code);
    bool eight = rest.left >= 8;
    const uint8_t *at = rest.at;
    bool numbered = !newer && (type == 13 || type == 14 || type == 15 || type == 16 || type == 17 || type == 18);
    log_number_if(row, "id", numbered && eight, numbered && eight ? sl_load_be16(at + 4) : 0);
    log_number_if(row, "sequence", numbered && eight, numbered && eight ? sl_load_be16(at + 6) : 0);
    log_number(row, "bytes", event->unit.length > 8 ? event->unit.length - 8 : 0);
    log_put(row, ",\"response_bytes\":null,\"delay\":null");
    bool too_big = newer ? type == 2 : type == 3 && code == 4;   /* RFC 1191, 4: the next hop's MTU */
    log_number_if(row, "mtu", too_big && eight, !eight ? 0 : newer ? sl_load_be32(at + 4) : sl_load_be16(at + 6));
    log_ip(row, "gateway", !newer && type == 5 && eight ? at + 4 : newer && type == 137 && rest.left >= 24 ? at + 8 : NULL, newer ? 16 : 4);
    log_ip(row, "target", newer && (type == 135 || type == 136) && rest.left >= 24 ? at + 8 : NULL, 16);
    bool error = newer ? type < 128 : type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
    log_read_part(&rest, 8);
    if (error && !rest.failed)
        icmplog_quoted(row, rest);
    else
        log_word(row, "quoted", NULL);
    log_finish(&SLUICE_WORKER_OF(event->box)->log);
}

static void icmplog_packet(const struct sl_event *event)
{
    if (!event->instance)
        return;
    bool newer = icmplog_newer(event);
    uint8_t type = event->unit.captured ? event->unit.at[0] : 0;
    bool request = type == (newer ? 128 : 8), reply = type == (newer ? 129 : 0);
    if (event->unit.captured < (request || reply ? 8u : 4u)) {
        SLUICE_COUNTER_OF(event->box, icmp_short)++;
        return;
    }
    uint32_t path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
    if (!request && !reply) {
        icmplog_row(event, path);
        return;
    }
    struct icmplog_echo echo = {NULL, sl_packet_time(event), event->unit.length - 8, path,
                                (uint16_t)sl_load_be16(event->unit.at + 4), (uint16_t)sl_load_be16(event->unit.at + 6), type, event->side};
    if (request)
        icmplog_request(event, &echo);
    else
        icmplog_reply(event, &echo);
}

static void icmplog_end(const struct sl_event *event)
{
    struct icmplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    while (state && state->first) {
        icmplog_echo_row(event, state->first, NULL);
        icmplog_remove(SLUICE_WORKER_OF(event->box), state, &state->first);
    }
}

SLUICE_ON(icmp, packet) { (void)data; icmplog_packet(event); }
SLUICE_ON(icmp6, packet) { (void)data; icmplog_packet(event); }
SLUICE_ON(icmp, end) { (void)data; icmplog_end(event); }
SLUICE_ON(icmp6, end) { (void)data; icmplog_end(event); }

SLUICE_DESTROY {
    while (state->first)
        icmplog_remove(SLUICE_WORKER_OF(box), state, &state->first);
}

SLUICE_STORED(zero, "echo requests that wait for their replies") {
    struct icmplog *icmp = SLUICE_WORKER_OF(box);
    for (struct icmplog_echo **at = &state->first; sl_stored_more(stored, *at != NULL); at = &(*at)->next) {
        if (!(*at = sl_stored_block(stored, *at, sizeof **at, offsetof(struct icmplog_echo, time))))
            return;
        (*at)->side &= 1;
        log_path_stored(stored, &icmp->log, box, &(*at)->path);
        state->count += stored->reads;
        icmp->waiting += stored->reads;
    }
}

SLUICE_OPEN { return log_open(&SLUICE_WORKER_OF(box)->log, box, "icmp", SLUICE_PARAMETER_OF(box, out)); }

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "icmplog rows", "icmplog rows lost for want of memory",
              "icmplog flows without layers");
}
