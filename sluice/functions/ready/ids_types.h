/* The rules in memory, as their table has them. The numbers of the enumerations are those of sluice/functions/detect. */
#ifndef IDS_TYPES_H
#define IDS_TYPES_H

#include "core/bytes.h"

#if !__has_include(<hs/hs.h>) || !__has_include(<pcre2.h>)
#error rules are matched by Hyperscan or Vectorscan and PCRE2: install libhyperscan-dev and libpcre2-dev (Debian)
#endif
#define PCRE2_CODE_UNIT_WIDTH 8
#include <hs/hs.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

SLUICE_LIBRARY("hs")
SLUICE_LIBRARY("pcre2-8")

#define IDS_MAGIC "sluiceI2"

enum ids_buffer {   /* detect/buffers.py */
    IDS_PAYLOAD, IDS_URI, IDS_RAW_URI, IDS_HEADER, IDS_RAW_HEADER, IDS_METHOD, IDS_COOKIE, IDS_CLIENT_BODY, IDS_STAT_CODE,
    IDS_STAT_MSG, IDS_HOST, IDS_USER_AGENT, IDS_TLS_SNI, IDS_TLS_VERSION, IDS_DNS_QUERY, IDS_BUFFERS
};
enum ids_group_number {   /* detect/parts.py */
    IDS_STREAM, IDS_TCP, IDS_UDP, IDS_PORTED, IDS_ICMP = IDS_PORTED, IDS_HTTP = IDS_ICMP /* + buffer, from 1 on */,
    IDS_HTTP_ALWAYS = 15, IDS_IP, IDS_TLS_NAME, IDS_TLS_ALWAYS, IDS_DNS_NAME, IDS_DNS_ALWAYS, IDS_FIXED
};
enum { IDS_ON_STREAM = 1, IDS_ON_HTTP = 2, IDS_ON_TLS = 4, IDS_ON_DNS = 8 };   /* parts of a rule */
enum {   /* detect/model.py, FLOW_BITS */
    IDS_TO_SERVER = 1, IDS_TO_CLIENT = 2, IDS_ESTABLISHED = 4, IDS_NOT_ESTABLISHED = 8
};
enum {   /* detect/model.py, protocols */
    IDS_TCP_BIT = 1, IDS_UDP_BIT = 2, IDS_ICMP_BIT = 4, IDS_SCTP_BIT = 8, IDS_QUIC_BIT = 16, IDS_OTHER_BIT = 32
};
enum ids_action { IDS_ALERT, IDS_LOG, IDS_PASS, IDS_DROP, IDS_SILENT_DROP, IDS_REJECT, IDS_ACTIONS };
enum ids_field {
    IDS_DSIZE, IDS_TTL, IDS_TOS, IDS_ID, IDS_SEQ, IDS_ACK, IDS_WINDOW, IDS_ITYPE, IDS_ICODE, IDS_ICMP_ID, IDS_ICMP_SEQ,
    IDS_FRAGOFFSET, IDS_FRAGBITS, IDS_IPOPTS, IDS_IP_PROTO, IDS_REBUILT, IDS_FIELDS
};
enum ids_bit_action { IDS_SET, IDS_ISSET, IDS_ISNOTSET, IDS_UNSET, IDS_TOGGLE };
enum ids_threshold_kind { IDS_NO_THRESHOLD, IDS_LIMIT, IDS_THRESHOLD, IDS_BOTH, IDS_FILTER };
enum ids_kind {   /* detect/table.py */
    IDS_CONTENT, IDS_PCRE, IDS_BYTE_TEST, IDS_BYTE_JUMP, IDS_BYTE_EXTRACT, IDS_DATA_AT, IDS_SIZE, IDS_VERSION, IDS_KINDS
};
enum ids_operator { IDS_LESS, IDS_GREATER, IDS_EQUAL, IDS_AT_MOST, IDS_AT_LEAST, IDS_AND, IDS_XOR, IDS_OPERATORS };
enum ids_start { IDS_FROM_PLACE, IDS_FROM_BEGINNING, IDS_FROM_END };
enum { IDS_VARIABLES = 16, IDS_DIGITS = 20 };   /* detect/byte_options.py */
/* detect/libraries.py: the options of a pcre, and those that are always set, as bytes are searched. */
#define IDS_PCRE_BYTES (PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UTF)
#define IDS_PCRE_OPTIONS \
    (PCRE2_CASELESS | PCRE2_DOTALL | PCRE2_MULTILINE | PCRE2_EXTENDED | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UNGREEDY)
#define IDS_NONE INT32_MIN   /* an offset, depth, distance or within that is not given */

struct ids_range4 { uint32_t low, high; };
struct ids_range6 { uint8_t low[16], high[16]; };
struct ids_addresses { uint32_t count4, count6; struct ids_range4 *v4; struct ids_range6 *v6; };
struct ids_ports { uint32_t count; struct ids_range4 *at; };
struct ids_compare { uint32_t field, low, high, mask, negated; };
struct ids_bits { uint32_t action, some, count, *bit; };

/* A number of an option, or, where `variable` is not 0, 1 + the slot of the variable that has it. */
struct ids_operand { int32_t number; uint32_t variable; };

struct ids_match {
    enum ids_kind kind;
    bool negated, relative, nocase;
    uint32_t buffer, options;
    union {
        struct { struct ids_operand offset, depth, distance, within; };
        struct { struct ids_operand place, value, post; };   /* of bytes */
        struct { struct ids_operand low, high; };            /* of a size */
    };
    const uint8_t *text;      /* of a content; in small letters for one without case */
    uint32_t length;
    pcre2_code *code;
    bool whole, steps, anchored;   /* of a pcre, detect/model.py */
    uint32_t count, base, little, mask, operator, multiplier, align, start, slot;   /* of bytes, detect/model.py */
};

struct ids_part {
    uint32_t rule, bit, sides, needs_body;
    uint32_t whole;           /* decided at the end of a block of the stream */
    bool alone;               /* its pattern is all of it */
    uint32_t count;
    struct ids_match *match;
};

struct ids_rule {
    uint32_t sid, gid, rev, priority, action, protocols;
    uint32_t src, sports, dst, dports;   /* 0: any; else 1 + number of the set */
    uint32_t both_directions, flow, silent, sameip;
    uint32_t needed;          /* bits of its parts on streams */
    uint32_t compares;
    struct ids_compare *compare;
    uint32_t has_flags, flags, flag_mode, flags_ignored;
    uint32_t threshold, by_dst, count, seconds;
    uint32_t bit_count;
    struct ids_bits *bits;
    const char *alert, *msg, *fast;   /* not terminated */
    uint32_t alert_length, msg_length, fast_length;
};

struct ids_group {
    uint32_t always_count, *always;   /* parts without a pattern */
    uint32_t count, *part;    /* the part of each pattern */
    hs_database_t *database;  /* NULL: there is no pattern */
    bool window;              /* a part needs more of a stream than the place of its pattern */
    size_t stream_size;       /* of the state of one stream */
    hs_stream_t *whole;       /* for complete data: packets and buffers */
};

/* From port `low` on, up to the next item, the group of rules. */
struct ids_port_group { uint32_t low, group; };
struct ids_port_map { uint32_t count; struct ids_port_group *at; };

#endif
