/* What a DNS message says, as members of a row of a log. */
#ifndef DNS_ROW_H
#define DNS_ROW_H

#include "dns_message.h"
#include "log_row.h"

static const char *const dns_row_reasons[] = {NULL, "short", "compression pointer", "name too long", "label type"};

/* Writes the records of a section, without EDNS's options (RFC 6891), which `options` gets; `left`: how many may still be listed. */
static inline void dns_row_records(struct log_text *row, struct dns_reader *reader, const char *name, uint32_t count, uint64_t *left,
                                   struct dns_record *options) {
    struct dns_record record;
    uint32_t listed = 0;
    log_name(row, name);
    log_put(row, "[");
    for (uint32_t i = 0; i < count && dns_record(reader, &record); i++) {
        if (record.type == DNS_OPT) {
            *options = record;
            continue;
        }
        if (!*left)
            continue;
        --*left;
        log_put(row, listed++ ? ",{\"name\":" : "{\"name\":");
        log_string(row, record.name.text, record.name.length);
        log_put(row, ",\"type\":");
        DNS_WORD(row, dns_types, record.type, "TYPE");
        log_number(row, "ttl", record.ttl);
        log_put(row, ",\"data\":");
        dns_data(row, reader, &record);
        log_put(row, "}");
    }
    log_put(row, "]");
}

/* Writes the questions of a message. The parts of the first one are members of the row. */
static inline void dns_row_questions(struct log_text *row, struct dns_reader *reader, uint32_t count) {
    struct dns_question question;
    for (uint32_t i = 0; i < count && !row->failed && dns_question(reader, &question); i++) {
        log_put(row, i == 0 ? ",\"query\":" : i == 1 ? ",\"more_queries\":[{\"query\":" : ",{\"query\":");
        log_string(row, question.name.text, question.name.length);
        log_put(row, ",\"qtype\":");
        DNS_WORD(row, dns_types, question.type, "TYPE");
        log_put(row, ",\"qclass\":");
        /* mDNS: the highest bit requests a unicast response (RFC 6762, 5.4) */
        DNS_WORD(row, dns_classes, question.class_ & 0x7fffu, "CLASS");
        log_put(row, i ? "}" : "");
        if (i + 1 == count || reader->place >= reader->length) {
            log_put(row, i ? "]" : "");
            return;
        }
    }
    if (row->at[row->used - 1] == '}')
        log_put(row, "]");
}

/* Writes the members of a row that describe the contents of a message, with at most `left` records. Returns false if the message is
 * malformed. */
static inline bool dns_row_message(struct log_text *row, sl_bytes message, bool response, uint64_t left) {
    struct dns_reader reader = {message.at, message.captured, DNS_HEADER, DNS_WHOLE};
    struct dns_record options = {.type = 0};
    uint32_t flags = (uint32_t)sl_load_be16(message.at + 2), counts[4];
    for (unsigned i = 0; i < 4; i++)
        counts[i] = (uint32_t)sl_load_be16(message.at + 4 + 2 * i);
    log_number(row, "id", sl_load_be16(message.at));
    log_number(row, "opcode", flags >> 11 & 15);
    dns_row_questions(row, &reader, counts[0]);
    log_flag(row, "authoritative", flags >> 10 & 1);
    log_flag(row, "truncated", flags >> 9 & 1);
    log_flag(row, "recursion_desired", flags >> 8 & 1);
    log_flag(row, "recursion_available", flags >> 7 & 1);
    log_number(row, "answer_count", counts[1]);
    dns_row_records(row, &reader, "answers", reader.reason ? 0 : counts[1], &left, &options);
    dns_row_records(row, &reader, "authorities", reader.reason ? 0 : counts[2], &left, &options);
    dns_row_records(row, &reader, "additionals", reader.reason ? 0 : counts[3], &left, &options);
    uint32_t code = flags & 15;
    if (options.type == DNS_OPT)
        code |= options.ttl >> 24 << 4;   /* RFC 6891, 6.1.3 */
    log_name(row, "rcode");
    if (response)
        DNS_WORD(row, dns_codes, code, "RCODE");
    else
        log_put(row, "null");
    log_name(row, "edns");
    if (options.type == DNS_OPT)
        log_format(row, "{\"version\":%u,\"udp_size\":%u,\"dnssec_ok\":%s}", options.ttl >> 16 & 255, options.class_,
                   options.ttl & 0x8000 ? "true" : "false");
    else
        log_put(row, "null");
    if (!left)
        log_flag(row, "answers_left_out", true);
    log_word(row, "malformed", dns_row_reasons[reader.reason]);
    return reader.reason == DNS_WHOLE;
}

#endif
