/* The table of rules, as sluice/functions/detect/table.py writes it: read into memory, with its numbers checked.
 *
 * Hyperscan's databases in it are code of a kind: the library tests their checksum, and runs them. So `sluice` reads no table
 * that another user could change, and the callbacks compare the ids that a database gives with the group's patterns.
 *
 * Numbers have 32 bits and are little-endian; bytes have their length in front. */
#ifndef IDS_TABLE_H
#define IDS_TABLE_H

#include "ids_types.h"
#include "table_reader.h"

struct ids_table {
    uint8_t *bytes;
    uint32_t bit_count, address_sets, port_sets, rule_count, part_count;
    struct ids_addresses *addresses;
    struct ids_ports *ports;
    struct ids_rule *rules;
    struct ids_part *parts;
    uint32_t group_count;
    struct ids_group *groups;
    struct ids_port_map ports_of[IDS_PORTED][2];   /* of packets of clients, and of servers */
    bool http, tls, dns;      /* a group of theirs has parts */
    bool passes;              /* a rule's action is to pass */
    struct table_chunk *chunks;   /* all that is allocated */
};

struct ids_reader {
    struct table_reader from;
    struct ids_table *table;
};

SL_COLD struct ids_range4 *ids_ranges(struct ids_reader *reader, uint32_t count) {
    struct ids_range4 *found = table_items(&reader->from, count, sizeof *found);
    for (uint32_t i = 0; found && i < count; i++) {
        found[i].low = table_number(&reader->from);
        found[i].high = table_number(&reader->from);
    }
    return found;
}

SL_COLD void ids_read_sets(struct ids_reader *reader) {
    struct ids_table *table = reader->table;
    table->address_sets = table_number(&reader->from);
    table->addresses = table_items(&reader->from, table->address_sets, sizeof *table->addresses);
    for (uint32_t i = 0; !reader->from.wrong && i < table->address_sets; i++) {
        struct ids_addresses *set = &table->addresses[i];
        set->count4 = table_number(&reader->from);
        set->v4 = ids_ranges(reader, set->count4);
        set->count6 = table_number(&reader->from);
        set->v6 = table_items(&reader->from, set->count6, sizeof *set->v6);
        for (uint32_t k = 0; !reader->from.wrong && k < set->count6; k++) {
            const uint8_t *range = table_bytes(&reader->from, 32);
            if (range)
                memcpy(&set->v6[k], range, 32);
        }
    }
    table->port_sets = table_number(&reader->from);
    table->ports = table_items(&reader->from, table->port_sets, sizeof *table->ports);
    for (uint32_t i = 0; !reader->from.wrong && i < table->port_sets; i++) {
        table->ports[i].count = table_number(&reader->from);
        table->ports[i].at = ids_ranges(reader, table->ports[i].count);
    }
}

SL_COLD void ids_read_rule(struct ids_reader *reader, struct ids_rule *rule) {
    struct ids_table *table = reader->table;
    rule->sid = table_number(&reader->from);
    rule->gid = table_number(&reader->from);
    rule->rev = table_number(&reader->from);
    rule->priority = table_number(&reader->from);
    rule->action = table_below(&reader->from, IDS_ACTIONS);
    table->passes |= rule->action == IDS_PASS;
    rule->protocols = table_number(&reader->from);
    rule->src = table_below(&reader->from, table->address_sets + 1);
    rule->sports = table_below(&reader->from, table->port_sets + 1);
    rule->dst = table_below(&reader->from, table->address_sets + 1);
    rule->dports = table_below(&reader->from, table->port_sets + 1);
    rule->both_directions = table_number(&reader->from);
    rule->flow = table_number(&reader->from);
    rule->silent = table_number(&reader->from);
    rule->sameip = table_number(&reader->from);
    rule->needed = table_number(&reader->from);
    rule->compares = table_number(&reader->from);
    rule->compare = table_items(&reader->from, rule->compares, sizeof *rule->compare);
    for (uint32_t i = 0; !reader->from.wrong && i < rule->compares; i++) {
        struct ids_compare *compare = &rule->compare[i];
        compare->field = table_below(&reader->from, IDS_FIELDS);
        compare->low = table_number(&reader->from);
        compare->high = table_number(&reader->from);
        compare->mask = table_number(&reader->from);
        compare->negated = table_number(&reader->from);
    }
    rule->has_flags = table_number(&reader->from);
    rule->flags = table_number(&reader->from);
    rule->flag_mode = table_number(&reader->from);
    rule->flags_ignored = table_number(&reader->from);
    rule->threshold = table_number(&reader->from);
    rule->by_dst = table_number(&reader->from);
    rule->count = table_number(&reader->from);
    rule->seconds = table_number(&reader->from);
    rule->bit_count = table_number(&reader->from);
    rule->bits = table_items(&reader->from, rule->bit_count, sizeof *rule->bits);
    for (uint32_t i = 0; !reader->from.wrong && i < rule->bit_count; i++) {
        struct ids_bits *bits = &rule->bits[i];
        bits->action = table_number(&reader->from);
        bits->some = table_number(&reader->from);
        bits->count = table_number(&reader->from);
        bits->bit = table_numbers(&reader->from, bits->count, table->bit_count);
    }
    rule->alert_length = table_number(&reader->from);
    rule->alert = (const char *)table_bytes(&reader->from, rule->alert_length);
    rule->msg_length = table_number(&reader->from);
    rule->msg = (const char *)table_bytes(&reader->from, rule->msg_length);
    rule->fast_length = table_number(&reader->from);
    rule->fast = (const char *)table_bytes(&reader->from, rule->fast_length);
}

SL_COLD struct ids_operand ids_operand(struct ids_reader *reader) {
    int32_t number = (int32_t)table_number(&reader->from);
    return (struct ids_operand){number, table_below(&reader->from, IDS_VARIABLES + 1)};
}

SL_COLD void ids_read_match(struct ids_reader *reader, struct ids_match *match) {
    match->kind = table_below(&reader->from, IDS_KINDS);
    match->negated = table_number(&reader->from);
    match->options = table_number(&reader->from);   /* of a pcre or a version; of a content whether it has no case */
    match->nocase = match->options;
    match->relative = table_number(&reader->from);
    match->buffer = table_below(&reader->from, IDS_BUFFERS);
    match->offset = ids_operand(reader);
    match->depth = ids_operand(reader);
    match->distance = ids_operand(reader);
    match->within = ids_operand(reader);
    match->length = table_number(&reader->from);
    match->text = table_bytes(&reader->from, match->length);
    if (match->kind == IDS_PCRE) {
        match->whole = table_number(&reader->from);
        match->steps = table_number(&reader->from);
        match->anchored = table_number(&reader->from);
    } else if (match->kind >= IDS_BYTE_TEST && match->kind <= IDS_DATA_AT) {
        match->count = table_below(&reader->from, IDS_DIGITS + 1);
        match->base = table_below(&reader->from, 17);
        match->little = table_number(&reader->from);
        match->mask = table_number(&reader->from);
        match->operator = table_below(&reader->from, IDS_OPERATORS);
        match->multiplier = table_number(&reader->from);
        match->align = table_below(&reader->from, 5);
        match->start = table_below(&reader->from, IDS_FROM_END + 1);
        match->slot = table_below(&reader->from, IDS_VARIABLES);
        if (!match->base && match->count > 8)
            table_wrong(&reader->from, "a number has too many bytes");
        if (!match->align)
            table_wrong(&reader->from, "a number is aligned to 0 bytes");
    } else if (match->kind == IDS_CONTENT && !match->length) {
        table_wrong(&reader->from, "a content is empty");
    }
    if (reader->from.wrong || match->kind != IDS_PCRE)
        return;
    uint32_t options = (match->options & IDS_PCRE_OPTIONS) | IDS_PCRE_BYTES | (match->steps ? PCRE2_AUTO_CALLOUT : 0);
    int error;
    PCRE2_SIZE place;
    match->code = pcre2_compile(match->text, match->length, options, &error, &place, NULL);
    if (!match->code)
        table_wrong(&reader->from, "a pcre cannot be compiled");
    else
        (void)pcre2_jit_compile(match->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);   /* without it, it is interpreted */
}

SL_COLD void ids_read_groups(struct ids_reader *reader) {
    struct ids_table *table = reader->table;
    table->group_count = table_number(&reader->from);
    if (table->group_count < IDS_FIXED)
        table_wrong(&reader->from, "a group is missing");
    table->groups = table_items(&reader->from, table->group_count, sizeof *table->groups);
    for (uint32_t i = 0; !reader->from.wrong && i < table->group_count; i++) {
        struct ids_group *group = &table->groups[i];
        group->always_count = table_number(&reader->from);
        group->always = table_numbers(&reader->from, group->always_count, table->part_count);
        group->count = table_number(&reader->from);
        group->part = table_numbers(&reader->from, group->count, table->part_count);
        uint32_t length = table_number(&reader->from);
        const uint8_t *stored = table_bytes(&reader->from, length);
        if (!reader->from.wrong && group->count && hs_deserialize_database((const char *)stored, length, &group->database))
            table_wrong(&reader->from, "its patterns were compiled by another version of Hyperscan, or for another processor");
        bool used = group->count || group->always_count;
        group->window = group->always_count;
        for (uint32_t k = 0; !reader->from.wrong && k < group->count; k++)
            group->window |= !table->parts[group->part[k]].alone;
        table->http |= used && i > IDS_HTTP && i <= IDS_HTTP_ALWAYS;
        table->tls |= used && (i == IDS_TLS_NAME || i == IDS_TLS_ALWAYS);
        table->dns |= used && (i == IDS_DNS_NAME || i == IDS_DNS_ALWAYS);
    }
    for (unsigned i = 0; !reader->from.wrong && i < 2 * IDS_PORTED; i++) {
        struct ids_port_map *map = &table->ports_of[i / 2][i % 2];
        map->count = table_number(&reader->from);
        map->at = table_items(&reader->from, map->count, sizeof *map->at);
        for (uint32_t k = 0; !reader->from.wrong && k < map->count; k++) {
            map->at[k].low = table_below(&reader->from, 65536);
            map->at[k].group = table_below(&reader->from, table->group_count);
        }
        if (!reader->from.wrong && (!map->count || map->at[0].low))
            table_wrong(&reader->from, "ports have no group");
    }
}

/* The group of the rules about packets of one side with this port of the server: the last item from there on. */
static inline uint32_t ids_group_of(const struct ids_table *table, unsigned which, unsigned side, uint16_t port) {
    const struct ids_port_map *map = &table->ports_of[which][side];
    uint32_t low = 0, high = map->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (map->at[middle].low <= port)
            low = middle;
        else
            high = middle;
    }
    return map->at[low].group;
}

SL_COLD void ids_table_free(struct ids_table *table) {
    for (uint32_t i = 0; table->parts && i < table->part_count; i++)
        for (uint32_t k = 0; table->parts[i].match && k < table->parts[i].count; k++)
            pcre2_code_free(table->parts[i].match[k].code);
    for (uint32_t i = 0; table->groups && i < table->group_count; i++)
        hs_free_database(table->groups[i].database);
    table_chunks_free(table->chunks);
    free(table->bytes);
    *table = (struct ids_table){0};
}

/* Reads a table from its bytes, which it then owns. Returns its error, or NULL. */
SL_COLD const char *ids_table_read(struct ids_table *table, uint8_t *bytes, size_t size) {
    *table = (struct ids_table){.bytes = bytes};
    struct ids_reader reader = {{bytes, size, NULL, &table->chunks}, table};
    const uint8_t *magic = table_bytes(&reader.from, 8);
    if (!magic || memcmp(magic, IDS_MAGIC, 8))
        return "it is no table of rules of this version";
    table->bit_count = table_number(&reader.from);
    ids_read_sets(&reader);
    table->rule_count = table_number(&reader.from);
    table->rules = table_items(&reader.from, table->rule_count, sizeof *table->rules);
    for (uint32_t i = 0; !reader.from.wrong && i < table->rule_count; i++)
        ids_read_rule(&reader, &table->rules[i]);
    table->part_count = table_number(&reader.from);
    table->parts = table_items(&reader.from, table->part_count, sizeof *table->parts);
    for (uint32_t i = 0; !reader.from.wrong && i < table->part_count; i++) {
        struct ids_part *part = &table->parts[i];
        part->rule = table_below(&reader.from, table->rule_count);
        part->bit = table_number(&reader.from);
        part->sides = table_number(&reader.from);
        part->needs_body = table_number(&reader.from);
        part->whole = table_number(&reader.from);
        part->alone = table_number(&reader.from);
        part->count = table_number(&reader.from);
        part->match = table_items(&reader.from, part->count, sizeof *part->match);
        for (uint32_t k = 0; !reader.from.wrong && k < part->count; k++)
            ids_read_match(&reader, &part->match[k]);
        part->alone &= !reader.from.wrong && part->count == 1 && part->match[0].kind == IDS_CONTENT;
    }
    ids_read_groups(&reader);
    return reader.from.wrong;
}

/* Reads the table of a file. Returns its error, or NULL. */
SL_COLD const char *ids_table_open(struct ids_table *table, const char *path) {
    *table = (struct ids_table){0};
    const char *wrong = NULL;
    size_t used = 0;
    uint8_t *bytes = table_file(path, &used, &wrong);
    if (!bytes)
        return wrong;
    return ids_table_read(table, bytes, used);
}

#endif
