/* The table of rules, as sluice/functions/detect/table.py writes it: read into memory, with its numbers checked.
 *
 * Hyperscan's databases in it are code of a kind: the library tests their checksum, and runs them. So `sluice` reads no table
 * that another user could change, and the callbacks compare the ids that a database gives with the group's patterns.
 *
 * Numbers have 32 bits and are little-endian; bytes have their length in front. */
#ifndef IDS_TABLE_H
#define IDS_TABLE_H

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

#define IDS_MAGIC "sluiceI1"

enum ids_buffer {   /* detect/buffers.py */
    IDS_PAYLOAD, IDS_URI, IDS_RAW_URI, IDS_HEADER, IDS_RAW_HEADER, IDS_METHOD, IDS_COOKIE, IDS_CLIENT_BODY, IDS_STAT_CODE,
    IDS_STAT_MSG, IDS_HOST, IDS_USER_AGENT, IDS_BUFFERS
};
enum ids_group_number {   /* detect/parts.py */
    IDS_STREAM, IDS_TCP, IDS_UDP, IDS_ICMP, IDS_HTTP = IDS_ICMP /* + buffer, from 1 on */, IDS_HTTP_ALWAYS = IDS_HTTP + IDS_BUFFERS,
    IDS_GROUPS
};
enum { IDS_ON_STREAM = 1, IDS_ON_HTTP = 2 };   /* parts of a rule */
enum {   /* detect/model.py, FLOW_BITS */
    IDS_TO_SERVER = 1, IDS_TO_CLIENT = 2, IDS_ESTABLISHED = 4, IDS_NOT_ESTABLISHED = 8
};
enum ids_field { IDS_DSIZE, IDS_TTL, IDS_TOS, IDS_ID, IDS_SEQ, IDS_ACK, IDS_WINDOW, IDS_ITYPE, IDS_ICODE, IDS_FIELDS };
enum ids_bit_action { IDS_SET, IDS_ISSET, IDS_ISNOTSET, IDS_UNSET, IDS_TOGGLE };
enum ids_threshold_kind { IDS_NO_THRESHOLD, IDS_LIMIT, IDS_THRESHOLD, IDS_BOTH, IDS_FILTER };
/* detect/libraries.py: what a pcre may be compiled with, and what it always is, as bytes are searched. */
#define IDS_PCRE_BYTES (PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UTF)
#define IDS_PCRE_OPTIONS \
    (PCRE2_CASELESS | PCRE2_DOTALL | PCRE2_MULTILINE | PCRE2_EXTENDED | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UNGREEDY)
#define IDS_NONE INT32_MIN   /* an offset, depth, distance or within that is not given */

struct ids_range4 { uint32_t low, high; };
struct ids_range6 { uint8_t low[16], high[16]; };
struct ids_addresses { uint32_t count4, count6; struct ids_range4 *v4; struct ids_range6 *v6; };
struct ids_ports { uint32_t count; struct ids_range4 *at; };
struct ids_compare { uint32_t field, low, high, negated; };
struct ids_bits { uint32_t action, some, count, *bit; };

struct ids_match {
    bool pcre, negated, relative, nocase;
    uint32_t buffer;
    int32_t offset, depth, distance, within;
    const uint8_t *text;      /* of a content; in small letters for one without case */
    uint32_t length;
    pcre2_code *code;
};

struct ids_part {
    uint32_t rule, bit, sides, needs_body;
    uint32_t whole;           /* decided at the end of a block of the stream */
    uint32_t count;
    struct ids_match *match;
};

struct ids_rule {
    uint32_t sid, gid, protocols;
    uint32_t src, sports, dst, dports;   /* 0: any; else 1 + number of the set */
    uint32_t both_ways, flow, silent, sameip;
    uint32_t needed;          /* bits of its parts on streams */
    uint32_t compares;
    struct ids_compare *compare;
    uint32_t has_flags, flags, flag_mode, flags_ignored;
    uint32_t threshold, by_dst, count, seconds;
    uint32_t bit_count;
    struct ids_bits *bits;
    const char *alert, *fast; /* not terminated */
    uint32_t alert_length, fast_length;
};

struct ids_group {
    uint32_t always_count, *always;   /* parts without a pattern */
    uint32_t count, *part;    /* the part of each pattern */
    hs_database_t *database;  /* NULL: there is no pattern */
};

struct ids_chunk { struct ids_chunk *next; };

struct ids_table {
    uint8_t *bytes;
    uint32_t bit_count, address_sets, port_sets, rule_count, part_count;
    struct ids_addresses *addresses;
    struct ids_ports *ports;
    struct ids_rule *rules;
    struct ids_part *parts;
    struct ids_group groups[IDS_GROUPS];
    bool http;                /* a group of HTTP has parts */
    struct ids_chunk *chunks; /* all that is allocated */
};

struct ids_reader {
    struct ids_table *table;
    const uint8_t *at;
    size_t left;
    const char *wrong;        /* the first thing that is */
};

SL_COLD void ids_wrong(struct ids_reader *reader, const char *what) {
    reader->wrong = reader->wrong ? reader->wrong : what;
    reader->left = 0;
}

SL_COLD uint32_t ids_number(struct ids_reader *reader) {
    if (reader->left < 4) {
        ids_wrong(reader, "it is cut");
        return 0;
    }
    const uint8_t *at = reader->at;
    reader->at += 4;
    reader->left -= 4;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A number below `bound`. */
SL_COLD uint32_t ids_below(struct ids_reader *reader, uint32_t bound) {
    uint32_t value = ids_number(reader);
    if (value >= bound) {
        ids_wrong(reader, "a number is out of its range");
        return 0;
    }
    return value;
}

SL_COLD const uint8_t *ids_bytes(struct ids_reader *reader, uint32_t length) {
    if (length > reader->left) {
        ids_wrong(reader, "it is cut");
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += length;
    reader->left -= length;
    return at;
}

/* Zeroed memory of the table for `count` items; NULL without memory, or where the table has not so many bytes left. */
SL_COLD void *ids_items(struct ids_reader *reader, uint32_t count, size_t size) {
    if (count > reader->left) {
        ids_wrong(reader, "it is cut");
        return NULL;
    }
    struct ids_chunk *chunk = calloc(1, sizeof *chunk + (count + 1) * size);
    if (!chunk) {
        ids_wrong(reader, "no memory");
        return NULL;
    }
    chunk->next = reader->table->chunks;
    reader->table->chunks = chunk;
    return chunk + 1;
}

SL_COLD uint32_t *ids_numbers(struct ids_reader *reader, uint32_t count, uint32_t bound) {
    uint32_t *found = ids_items(reader, count, sizeof *found);
    for (uint32_t i = 0; found && i < count; i++)
        found[i] = ids_below(reader, bound);
    return found;
}

SL_COLD struct ids_range4 *ids_ranges(struct ids_reader *reader, uint32_t count) {
    struct ids_range4 *found = ids_items(reader, count, sizeof *found);
    for (uint32_t i = 0; found && i < count; i++) {
        found[i].low = ids_number(reader);
        found[i].high = ids_number(reader);
    }
    return found;
}

SL_COLD void ids_read_sets(struct ids_reader *reader) {
    struct ids_table *table = reader->table;
    table->address_sets = ids_number(reader);
    table->addresses = ids_items(reader, table->address_sets, sizeof *table->addresses);
    for (uint32_t i = 0; !reader->wrong && i < table->address_sets; i++) {
        struct ids_addresses *set = &table->addresses[i];
        set->count4 = ids_number(reader);
        set->v4 = ids_ranges(reader, set->count4);
        set->count6 = ids_number(reader);
        set->v6 = ids_items(reader, set->count6, sizeof *set->v6);
        for (uint32_t k = 0; !reader->wrong && k < set->count6; k++) {
            const uint8_t *range = ids_bytes(reader, 32);
            if (range)
                memcpy(&set->v6[k], range, 32);
        }
    }
    table->port_sets = ids_number(reader);
    table->ports = ids_items(reader, table->port_sets, sizeof *table->ports);
    for (uint32_t i = 0; !reader->wrong && i < table->port_sets; i++) {
        table->ports[i].count = ids_number(reader);
        table->ports[i].at = ids_ranges(reader, table->ports[i].count);
    }
}

SL_COLD void ids_read_rule(struct ids_reader *reader, struct ids_rule *rule) {
    struct ids_table *table = reader->table;
    rule->sid = ids_number(reader);
    rule->gid = ids_number(reader);
    rule->protocols = ids_number(reader);
    rule->src = ids_below(reader, table->address_sets + 1);
    rule->sports = ids_below(reader, table->port_sets + 1);
    rule->dst = ids_below(reader, table->address_sets + 1);
    rule->dports = ids_below(reader, table->port_sets + 1);
    rule->both_ways = ids_number(reader);
    rule->flow = ids_number(reader);
    rule->silent = ids_number(reader);
    rule->sameip = ids_number(reader);
    rule->needed = ids_number(reader);
    rule->compares = ids_number(reader);
    rule->compare = ids_items(reader, rule->compares, sizeof *rule->compare);
    for (uint32_t i = 0; !reader->wrong && i < rule->compares; i++) {
        struct ids_compare *compare = &rule->compare[i];
        compare->field = ids_below(reader, IDS_FIELDS);
        compare->low = ids_number(reader);
        compare->high = ids_number(reader);
        compare->negated = ids_number(reader);
    }
    rule->has_flags = ids_number(reader);
    rule->flags = ids_number(reader);
    rule->flag_mode = ids_number(reader);
    rule->flags_ignored = ids_number(reader);
    rule->threshold = ids_number(reader);
    rule->by_dst = ids_number(reader);
    rule->count = ids_number(reader);
    rule->seconds = ids_number(reader);
    rule->bit_count = ids_number(reader);
    rule->bits = ids_items(reader, rule->bit_count, sizeof *rule->bits);
    for (uint32_t i = 0; !reader->wrong && i < rule->bit_count; i++) {
        struct ids_bits *bits = &rule->bits[i];
        bits->action = ids_number(reader);
        bits->some = ids_number(reader);
        bits->count = ids_number(reader);
        bits->bit = ids_numbers(reader, bits->count, table->bit_count);
    }
    rule->alert_length = ids_number(reader);
    rule->alert = (const char *)ids_bytes(reader, rule->alert_length);
    rule->fast_length = ids_number(reader);
    rule->fast = (const char *)ids_bytes(reader, rule->fast_length);
}

SL_COLD void ids_read_match(struct ids_reader *reader, struct ids_match *match) {
    match->pcre = ids_number(reader);
    match->negated = ids_number(reader);
    uint32_t options = ids_number(reader);   /* of a pcre; of a content whether it has no case */
    match->nocase = options;
    match->relative = ids_number(reader);
    match->buffer = ids_below(reader, IDS_BUFFERS);
    match->offset = (int32_t)ids_number(reader);
    match->depth = (int32_t)ids_number(reader);
    match->distance = (int32_t)ids_number(reader);
    match->within = (int32_t)ids_number(reader);
    match->length = ids_number(reader);
    match->text = ids_bytes(reader, match->length);
    if (reader->wrong || !match->pcre) {
        if (!match->length)
            ids_wrong(reader, "a content is empty");
        return;
    }
    int error;
    PCRE2_SIZE place;
    match->code = pcre2_compile(match->text, match->length, (options & IDS_PCRE_OPTIONS) | IDS_PCRE_BYTES, &error, &place, NULL);
    if (!match->code)
        ids_wrong(reader, "a pcre cannot be compiled");
    else
        (void)pcre2_jit_compile(match->code, PCRE2_JIT_COMPLETE);   /* without it, it is interpreted */
}

SL_COLD void ids_read_groups(struct ids_reader *reader) {
    struct ids_table *table = reader->table;
    uint64_t listed = 0;
    for (unsigned i = 0; !reader->wrong && i < IDS_GROUPS; i++) {
        struct ids_group *group = &table->groups[i];
        group->always_count = ids_number(reader);
        group->always = ids_numbers(reader, group->always_count, table->part_count);
        group->count = ids_number(reader);
        group->part = ids_numbers(reader, group->count, table->part_count);
        listed += (uint64_t)group->always_count + group->count;
        if (listed > table->part_count)   /* each part is in one group: lists of found parts have room for all */
            ids_wrong(reader, "a part is in two groups");
        uint32_t length = ids_number(reader);
        const uint8_t *stored = ids_bytes(reader, length);
        if (!reader->wrong && group->count && hs_deserialize_database((const char *)stored, length, &group->database))
            ids_wrong(reader, "its patterns were compiled by another version of Hyperscan, or for another processor");
        table->http |= i > IDS_HTTP && (group->count || group->always_count);
    }
}

SL_COLD void ids_table_free(struct ids_table *table) {
    for (uint32_t i = 0; table->parts && i < table->part_count; i++)
        for (uint32_t k = 0; table->parts[i].match && k < table->parts[i].count; k++)
            pcre2_code_free(table->parts[i].match[k].code);
    for (unsigned i = 0; i < IDS_GROUPS; i++)
        hs_free_database(table->groups[i].database);
    for (struct ids_chunk *next, *at = table->chunks; at; at = next) {
        next = at->next;
        free(at);
    }
    free(table->bytes);
    *table = (struct ids_table){0};
}

/* Reads a table from its bytes, which become its own. What is wrong with it, or NULL. */
SL_COLD const char *ids_table_read(struct ids_table *table, uint8_t *bytes, size_t size) {
    *table = (struct ids_table){.bytes = bytes};
    struct ids_reader reader = {table, bytes, size, NULL};
    const uint8_t *magic = ids_bytes(&reader, 8);
    if (!magic || memcmp(magic, IDS_MAGIC, 8))
        return "it is no table of rules of this version";
    table->bit_count = ids_number(&reader);
    ids_read_sets(&reader);
    table->rule_count = ids_number(&reader);
    table->rules = ids_items(&reader, table->rule_count, sizeof *table->rules);
    for (uint32_t i = 0; !reader.wrong && i < table->rule_count; i++)
        ids_read_rule(&reader, &table->rules[i]);
    table->part_count = ids_number(&reader);
    table->parts = ids_items(&reader, table->part_count, sizeof *table->parts);
    for (uint32_t i = 0; !reader.wrong && i < table->part_count; i++) {
        struct ids_part *part = &table->parts[i];
        part->rule = ids_below(&reader, table->rule_count);
        part->bit = ids_number(&reader);
        part->sides = ids_number(&reader);
        part->needs_body = ids_number(&reader);
        part->whole = ids_number(&reader);
        part->count = ids_number(&reader);
        part->match = ids_items(&reader, part->count, sizeof *part->match);
        for (uint32_t k = 0; !reader.wrong && k < part->count; k++)
            ids_read_match(&reader, &part->match[k]);
    }
    ids_read_groups(&reader);
    return reader.wrong;
}

/* Reads the table of a file. What is wrong with it, or NULL. */
SL_COLD const char *ids_table_open(struct ids_table *table, const char *path) {
    *table = (struct ids_table){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return strerror(errno);
    uint8_t *bytes = NULL;
    size_t used = 0, room = 0, got = 1;
    while (got) {
        if (used == room) {
            room = room ? 2 * room : 1 << 16;
            uint8_t *larger = room <= (size_t)1 << 31 ? realloc(bytes, room) : NULL;
            if (!larger) {
                free(bytes);
                fclose(file);
                return "no memory";
            }
            bytes = larger;
        }
        got = fread(bytes + used, 1, room - used, file);
        used += got;
    }
    fclose(file);
    return ids_table_read(table, bytes, used);
}

#endif
