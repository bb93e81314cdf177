/* The effects of a match of a rule: its bits of the flow, its threshold, and the alert as a row in eve.json's shape or a
 * line of the fast log. */
#ifndef IDS_ALERT_H
#define IDS_ALERT_H

#include "http_side.h"
#include "flow_ends.h"

#include "ids_frames.h"
#include "ids_table.h"

#include <time.h>

/* Fields of a packet's headers that rules compare; `known` has a bit for each that the packet has. */
struct ids_headers {
    uint32_t known, field[IDS_FIELDS];
    uint8_t flags;
};

/* The data that a rule is compared with: the sender, the time, and, of a packet, its headers. */
struct ids_seen {
    const struct log_flow *flow;
    const struct flow_ends *ends;
    uint64_t *bits;           /* of the flow; NULL where none has been set */
    uint64_t time, number;    /* of the packet */
    unsigned side;            /* of the sender: 0 is the client */
    uint8_t protocol;         /* IDS_TCP_BIT, ... */
    bool established, http;
    bool *passed, *blocked;   /* of the flow: a rule lets the rest of it pass, or blocks it; NULL: there is no flow */
    const struct sl_event *event;
    struct ids_frames *frames;   /* the stored packets of the side's stream, of which the alert is about [begin, end) */
    uint64_t begin, end;
    const struct ids_headers *headers;      /* of the packet that is inspected; NULL: a stream is */
    const struct http_message *message;     /* of HTTP, that is inspected */
};

struct ids_count {            /* of a threshold: alerts of a rule about an address */
    uint64_t begin;           /* of the time in which they are counted */
    uint32_t rule, count;     /* rule: 1 + its number; 0: the entry is free */
    uint8_t size, address[16];
};

enum { IDS_PROBES = 8 };

struct ids_counts { struct ids_count *at; uint64_t mask; uint64_t replaced; };

/* --- flowbits --- */

static inline bool ids_bit(const struct ids_seen *seen, uint32_t bit) {
    return seen->bits && seen->bits[bit / 64] >> bit % 64 & 1;
}

/* Do the bits of the flow allow the rule? */
static inline bool ids_bits_allow(const struct ids_seen *seen, const struct ids_rule *rule) {
    for (uint32_t i = 0; i < rule->bit_count; i++) {
        const struct ids_bits *bits = &rule->bits[i];
        if (bits->action != IDS_ISSET && bits->action != IDS_ISNOTSET)
            continue;
        uint32_t set = 0;
        for (uint32_t k = 0; k < bits->count; k++)
            set += ids_bit(seen, bits->bit[k]);
        uint32_t held = bits->action == IDS_ISSET ? set : bits->count - set;
        if (bits->some ? !held : held < bits->count)
            return false;
    }
    return true;
}

/* Sets the bits that a matching rule sets; true where one changed. */
static inline bool ids_bits_change(const struct ids_seen *seen, const struct ids_rule *rule) {
    bool changed = false;
    for (uint32_t i = 0; i < rule->bit_count && seen->bits; i++) {
        const struct ids_bits *bits = &rule->bits[i];
        for (uint32_t k = 0; k < bits->count; k++) {
            uint64_t *word = &seen->bits[bits->bit[k] / 64], mask = (uint64_t)1 << bits->bit[k] % 64, before = *word;
            switch (bits->action) {
            case IDS_SET: *word |= mask; break;
            case IDS_UNSET: *word &= ~mask; break;
            case IDS_TOGGLE: *word ^= mask; break;
            default: break;
            }
            changed |= before != *word;
        }
    }
    return changed;
}

/* --- thresholds --- */

/* The counter of a rule for an address. If all its slots are in use, the oldest is evicted. */
static inline struct ids_count *ids_count_of(struct ids_counts *counts, uint64_t seed, uint32_t rule, const uint8_t *address,
                                             uint8_t size, uint64_t now) {
    uint64_t hash = (seed ^ rule) * 0x9e3779b97f4a7c15, word;
    for (unsigned i = 0; i < size; i += 4) {
        word = sl_load_be(address + i, 4);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
    }
    struct ids_count *oldest = NULL;
    for (unsigned i = 0; i < IDS_PROBES; i++) {
        struct ids_count *at = &counts->at[(hash + i) & counts->mask];
        if (at->rule == rule + 1 && at->size == size && memcmp(at->address, address, size) == 0)
            return at;
        if (!oldest || (oldest->rule && (!at->rule || at->begin < oldest->begin)))
            oldest = at;
    }
    counts->replaced += oldest->rule != 0;
    *oldest = (struct ids_count){.begin = now, .rule = rule + 1, .size = size};
    memcpy(oldest->address, address, size);
    return oldest;
}

/* Counts a match of a rule; does it alert? */
static inline bool ids_counts_allow(struct ids_counts *counts, uint64_t seed, const struct ids_seen *seen, uint32_t number,
                                    const struct ids_rule *rule) {
    if (rule->threshold == IDS_NO_THRESHOLD)
        return true;
    const uint8_t *address = seen->ends->address[rule->by_dst ? seen->side ^ 1 : seen->side];
    struct ids_count *count = ids_count_of(counts, seed, number, address, seen->ends->size, seen->time);
    if (seen->time >= count->begin && seen->time - count->begin >= (uint64_t)rule->seconds * 1000000000) {
        count->begin = seen->time;
        count->count = 0;
    }
    count->count += count->count < UINT32_MAX;
    switch (rule->threshold) {
    case IDS_LIMIT: return count->count <= rule->count;
    case IDS_FILTER: return count->count > rule->count;
    case IDS_BOTH: return count->count == rule->count;
    default:
        if (count->count < rule->count)
            return false;
        count->count = 0;
        return true;
    }
}

/* --- rows --- */

static inline const char *ids_protocol_name(const struct ids_seen *seen) {
    switch (seen->protocol) {
    case IDS_TCP_BIT: return "TCP";
    case IDS_UDP_BIT: return "UDP";
    case IDS_SCTP_BIT: return "SCTP";
    case IDS_QUIC_BIT: return "QUIC";
    case IDS_OTHER_BIT: return "IP";
    default: return seen->ends->size == 16 ? "IPv6-ICMP" : "ICMP";
    }
}

SL_COLD void ids_http_method(struct log_text *row, const struct http_message *message) {
    const char *method = llhttp_method_name((llhttp_method_t)message->method);
    log_put(row, "\"http_method\":");
    log_string(row, message->verb.used ? message->verb.at : method, message->verb.used ? message->verb.used : strlen(method));
}

SL_COLD void ids_http_row(struct log_text *row, const struct ids_seen *seen) {
    const struct http_message *message = seen->message;
    const struct { const char *name; const struct log_text *text; } members[] = {
        {"hostname", &message->header[HTTP_HOST]},
        {"url", &message->path},
        {"http_user_agent", &message->header[HTTP_AGENT]},
        {"http_content_type", &message->header[HTTP_TYPE]},
    };
    log_put(row, ",\"app_proto\":\"http\"");
    log_put(row, ",\"http\":{");
    if (message->status)
        log_format(row, "\"status\":%u", message->status);
    else
        ids_http_method(row, message);
    for (unsigned i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].text->used) {
            log_name(row, members[i].name);
            log_string(row, members[i].text->at, members[i].text->used);
        }
    log_put(row, "}");
}

SL_COLD void ids_row(struct log_output *log, const struct sl_box *box, const struct ids_seen *seen, const struct ids_rule *rule,
                     bool blocked) {
    struct log_text *row = &log->row;
    time_t seconds = (time_t)(seen->time / 1000000000);
    char text[64];
    struct tm when;
    gmtime_r(&seconds, &when);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &when);
    row->used = 0;
    row->failed = false;
    log_format(row, "{\"timestamp\":\"%s.%06u+0000\"", text, (unsigned)(seen->time % 1000000000 / 1000));
    log_number(row, "flow_id", seen->flow->number);
    log_number(row, "pcap_cnt", seen->number);
    log_put(row, ",\"event_type\":\"alert\"");
    log_end(row, seen->flow, seen->side, "src_ip", "src_port");
    log_end(row, seen->flow, seen->side ^ 1, "dest_ip", "dest_port");
    log_word(row, "proto", ids_protocol_name(seen));
    if (seen->headers && seen->headers->known & 1u << IDS_ITYPE) {
        log_number(row, "icmp_type", seen->headers->field[IDS_ITYPE]);
        log_number(row, "icmp_code", seen->headers->field[IDS_ICODE]);
    }
    log_put(row, blocked ? ",\"alert\":{\"action\":\"blocked\"," : ",\"alert\":{\"action\":\"allowed\",");
    if (rule->alert_length)
        log_bytes(row, rule->alert + 1, rule->alert_length - 1);   /* after its brace */
    if (seen->message)
        ids_http_row(row, seen);
    else if (seen->http)
        log_put(row, ",\"app_proto\":\"http\"");
    log_word(row, "direction", seen->side ? "to_client" : "to_server");
    log_community(row, &log->hashes, seen->flow, seen->side, 0, 0);
    log_layers(row, log, box, seen->flow->path);
    log_finish(log);
}

SL_COLD void ids_fast_end(struct log_text *row, const struct ids_seen *seen, unsigned side) {
    char text[INET6_ADDRSTRLEN];
    const struct flow_ends *ends = seen->ends;
    log_put(row, ends->size ? inet_ntop(ends->size == 4 ? AF_INET : AF_INET6, ends->address[side], text, sizeof text) : "?");
    if (ends->ports)
        log_format(row, ":%u", ends->port[side]);
}

SL_COLD void ids_fast(struct log_output *log, const struct ids_seen *seen, const struct ids_rule *rule, bool blocked) {
    struct log_text *row = &log->row;
    time_t seconds = (time_t)(seen->time / 1000000000);
    char text[64];
    struct tm when;
    gmtime_r(&seconds, &when);
    strftime(text, sizeof text, "%m/%d/%Y-%H:%M:%S", &when);
    row->used = 0;
    row->failed = false;
    log_format(row, "%s.%06u  %s", text, (unsigned)(seen->time % 1000000000 / 1000),
               blocked ? "[Drop] " : "");
    log_bytes(row, rule->fast, rule->fast_length);
    log_format(row, " {%s} ", ids_protocol_name(seen));
    ids_fast_end(row, seen, seen->side);
    log_put(row, " -> ");
    ids_fast_end(row, seen, seen->side ^ 1);
    log_write(log);
}

#endif
