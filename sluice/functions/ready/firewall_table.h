/* The table of rules that sluice/functions/firewall/table.py writes: chains of steps, and what the steps refer to. A chain
 * jumps only to chains that follow it in the table, so that there is no endless loop. */
#ifndef FIREWALL_TABLE_H
#define FIREWALL_TABLE_H

#include "table_reader.h"
#include "token_bucket.h"

#define FIREWALL_MAGIC "sluiceF1"

enum firewall_kind { FIREWALL_MATCH, FIREWALL_BITS, FIREWALL_ANY_BIT, FIREWALL_COUNT, FIREWALL_LIMIT, FIREWALL_LOG, FIREWALL_ACCEPT,
                     FIREWALL_DROP, FIREWALL_REJECT, FIREWALL_RETURN, FIREWALL_JUMP, FIREWALL_GOTO, FIREWALL_KINDS };
enum firewall_field { FIREWALL_NFPROTO, FIREWALL_PROTOCOL, FIREWALL_SADDR, FIREWALL_DADDR, FIREWALL_SPORT, FIREWALL_DPORT,
                      FIREWALL_FLAGS, FIREWALL_TTL, FIREWALL_DSCP, FIREWALL_LENGTH, FIREWALL_ID, FIREWALL_TYPE, FIREWALL_CODE,
                      FIREWALL_STATE, FIREWALL_DIRECTION, FIREWALL_ETHER_SADDR, FIREWALL_ETHER_DADDR, FIREWALL_ETHER_TYPE,
                      FIREWALL_FIELDS };
enum { FIREWALL_RESET = 0xffff };   /* in place of ICMP's codes */

struct firewall_number { uint64_t high, low; };
struct firewall_set { struct { struct firewall_number first, last; } *at; uint32_t count; };
struct firewall_text { const char *at; uint32_t length; };   /* members of a JSON object */
struct firewall_counter { struct firewall_text label; uint64_t packets, bytes; };
struct firewall_limit { struct token_rate rate; uint64_t full; bool bytes, over; };

struct firewall_step {
    uint32_t kind, negated, field, mask;   /* mask: or a code of ICMP */
    uint32_t value;   /* of bits; the set, counter, limit, text or chain; or a code of ICMPv6 */
    uint32_t end;     /* the step after the rule */
};
struct firewall_chain { struct firewall_step *step; uint32_t count; };
struct firewall_base { struct firewall_counter policy; uint32_t chain, family; bool drop; };   /* family: 4, 6, or 0 for both */

struct firewall_table {
    uint8_t *bytes;
    struct table_chunk *chunks;
    struct firewall_set *sets;
    struct firewall_counter *counters;
    struct firewall_limit *limits;
    struct firewall_text *logs;
    struct firewall_chain *chains;
    struct firewall_base *bases;
    uint32_t set_count, counter_count, limit_count, log_count, chain_count, base_count;
};

SL_COLD struct firewall_text firewall_read_text(struct table_reader *reader) {
    uint32_t length = table_number(reader);
    const char *at = (const char *)table_bytes(reader, length);
    return (struct firewall_text){at, at ? length : 0};
}

SL_COLD void firewall_read_step(struct table_reader *reader, const struct firewall_table *table, uint32_t chain, uint32_t number,
                                struct firewall_step *step) {
    uint32_t bound[FIREWALL_KINDS] = {[FIREWALL_MATCH] = table->set_count, [FIREWALL_COUNT] = table->counter_count,
                                      [FIREWALL_LIMIT] = table->limit_count, [FIREWALL_LOG] = table->log_count,
                                      [FIREWALL_JUMP] = table->chain_count, [FIREWALL_GOTO] = table->chain_count};
    step->kind = table_below(reader, FIREWALL_KINDS);
    step->negated = table_below(reader, 2);
    step->field = table_below(reader, FIREWALL_FIELDS);
    step->mask = table_number(reader);
    step->value = bound[step->kind] ? table_below(reader, bound[step->kind]) : table_number(reader);
    step->end = table_below(reader, table->chains[chain].count + 1);
    bool jumps = step->kind == FIREWALL_JUMP || step->kind == FIREWALL_GOTO;
    bool refers = jumps || step->kind == FIREWALL_MATCH || step->kind == FIREWALL_COUNT || step->kind == FIREWALL_LIMIT ||
                  step->kind == FIREWALL_LOG;
    if (!reader->wrong && (step->end <= number || (refers && !bound[step->kind]) || (jumps && step->value <= chain)))
        table_wrong(reader, "a step refers to nothing, or back");
}

SL_COLD void firewall_read_chains(struct table_reader *reader, struct firewall_table *table) {
    table->chain_count = table_number(reader);
    table->chains = table_items(reader, table->chain_count, sizeof *table->chains);
    for (uint32_t i = 0; !reader->wrong && i < table->chain_count; i++) {
        struct firewall_chain *chain = &table->chains[i];
        chain->count = table_number(reader);
        chain->step = table_items(reader, chain->count, sizeof *chain->step);
        for (uint32_t k = 0; !reader->wrong && k < chain->count; k++)
            firewall_read_step(reader, table, i, k, &chain->step[k]);
    }
    table->base_count = table_number(reader);
    table->bases = table_items(reader, table->base_count, sizeof *table->bases);
    for (uint32_t i = 0; !reader->wrong && i < table->base_count; i++) {
        struct firewall_base *base = &table->bases[i];
        base->chain = table_below(reader, table->chain_count);
        base->family = table_below(reader, 7);
        base->drop = table_below(reader, 2);
        base->policy.label = firewall_read_text(reader);
    }
}

SL_COLD void firewall_read_sets(struct table_reader *reader, struct firewall_table *table) {
    table->set_count = table_number(reader);
    table->sets = table_items(reader, table->set_count, sizeof *table->sets);
    for (uint32_t i = 0; !reader->wrong && i < table->set_count; i++) {
        struct firewall_set *set = &table->sets[i];
        set->count = table_number(reader);
        set->at = table_items(reader, set->count, sizeof *set->at);
        for (uint32_t k = 0; !reader->wrong && k < set->count; k++) {
            set->at[k].first.high = table_long(reader);
            set->at[k].first.low = table_long(reader);
            set->at[k].last.high = table_long(reader);
            set->at[k].last.low = table_long(reader);
        }
    }
}

/* Reads the table of a file. Returns its error, or NULL. */
SL_COLD const char *firewall_table_open(struct firewall_table *table, const char *path) {
    *table = (struct firewall_table){0};
    const char *wrong = NULL;
    size_t size = 0;
    table->bytes = table_file(path, &size, &wrong);
    if (!table->bytes)
        return wrong;
    struct table_reader reader = {table->bytes, size, NULL, &table->chunks};
    const uint8_t *magic = table_bytes(&reader, 8);
    if (!magic || memcmp(magic, FIREWALL_MAGIC, 8))
        return "it is no table of rules of this version";
    firewall_read_sets(&reader, table);
    table->counter_count = table_number(&reader);
    table->counters = table_items(&reader, table->counter_count, sizeof *table->counters);
    for (uint32_t i = 0; !reader.wrong && i < table->counter_count; i++)
        table->counters[i].label = firewall_read_text(&reader);
    table->limit_count = table_number(&reader);
    table->limits = table_items(&reader, table->limit_count, sizeof *table->limits);
    for (uint32_t i = 0; !reader.wrong && i < table->limit_count; i++) {
        struct firewall_limit *limit = &table->limits[i];
        uint64_t rate = table_long(&reader), seconds = table_long(&reader), burst = table_long(&reader);
        limit->bytes = table_below(&reader, 2);
        limit->over = table_below(&reader, 2);
        if (!rate || !seconds || seconds > UINT64_MAX / 1000000000 || burst > UINT64_MAX - rate)
            table_wrong(&reader, "a limit is out of its range");
        /* as nftables: bytes of the rate itself are part of the burst */
        limit->rate = (struct token_rate){rate, seconds * 1000000000, burst + (limit->bytes ? rate : 0)};
    }
    table->log_count = table_number(&reader);
    table->logs = table_items(&reader, table->log_count, sizeof *table->logs);
    for (uint32_t i = 0; !reader.wrong && i < table->log_count; i++)
        table->logs[i] = firewall_read_text(&reader);
    firewall_read_chains(&reader, table);
    return reader.wrong;
}

SL_COLD void firewall_table_free(struct firewall_table *table) {
    table_chunks_free(table->chunks);
    free(table->bytes);
    *table = (struct firewall_table){0};
}

#endif
