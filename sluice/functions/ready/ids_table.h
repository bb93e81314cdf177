/* The table of rules, as sluice/functions/detect/table.py writes it: read into memory, with its numbers checked.
 *
 * Hyperscan's databases in it are code of a kind: the library tests their checksum, and runs them. So `sluice` reads no table
 * that another user could change, and the callbacks compare the ids that a database gives with the group's patterns.
 *
 * Numbers have 32 bits and are little-endian; bytes have their length in front. */
#ifndef IDS_TABLE_H
#define IDS_TABLE_H

#include "ids_types.h"

struct ids_chunk { struct ids_chunk *next; };

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
    rule->rev = ids_number(reader);
    rule->priority = ids_number(reader);
    rule->action = ids_below(reader, IDS_ACTIONS);
    table->passes |= rule->action == IDS_PASS;
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
        compare->mask = ids_number(reader);
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
    rule->msg_length = ids_number(reader);
    rule->msg = (const char *)ids_bytes(reader, rule->msg_length);
    rule->fast_length = ids_number(reader);
    rule->fast = (const char *)ids_bytes(reader, rule->fast_length);
}

SL_COLD struct ids_operand ids_operand(struct ids_reader *reader) {
    int32_t number = (int32_t)ids_number(reader);
    return (struct ids_operand){number, ids_below(reader, IDS_VARIABLES + 1)};
}

SL_COLD void ids_read_match(struct ids_reader *reader, struct ids_match *match) {
    match->kind = ids_below(reader, IDS_KINDS);
    match->negated = ids_number(reader);
    match->options = ids_number(reader);   /* of a pcre or a version; of a content whether it has no case */
    match->nocase = match->options;
    match->relative = ids_number(reader);
    match->buffer = ids_below(reader, IDS_BUFFERS);
    match->offset = ids_operand(reader);
    match->depth = ids_operand(reader);
    match->distance = ids_operand(reader);
    match->within = ids_operand(reader);
    match->length = ids_number(reader);
    match->text = ids_bytes(reader, match->length);
    if (match->kind == IDS_PCRE) {
        match->whole = ids_number(reader);
        match->steps = ids_number(reader);
        match->anchored = ids_number(reader);
    } else if (match->kind >= IDS_BYTE_TEST && match->kind <= IDS_DATA_AT) {
        match->count = ids_below(reader, IDS_DIGITS + 1);
        match->base = ids_below(reader, 17);
        match->little = ids_number(reader);
        match->mask = ids_number(reader);
        match->operator = ids_below(reader, IDS_OPERATORS);
        match->multiplier = ids_number(reader);
        match->align = ids_below(reader, 5);
        match->start = ids_below(reader, IDS_FROM_END + 1);
        match->slot = ids_below(reader, IDS_VARIABLES);
        if (!match->base && match->count > 8)
            ids_wrong(reader, "a number has too many bytes");
        if (!match->align)
            ids_wrong(reader, "a number is aligned to 0 bytes");
    } else if (match->kind == IDS_CONTENT && !match->length) {
        ids_wrong(reader, "a content is empty");
    }
    if (reader->wrong || match->kind != IDS_PCRE)
        return;
    uint32_t options = (match->options & IDS_PCRE_OPTIONS) | IDS_PCRE_BYTES | (match->steps ? PCRE2_AUTO_CALLOUT : 0);
    int error;
    PCRE2_SIZE place;
    match->code = pcre2_compile(match->text, match->length, options, &error, &place, NULL);
    if (!match->code)
        ids_wrong(reader, "a pcre cannot be compiled");
    else
        (void)pcre2_jit_compile(match->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);   /* without it, it is interpreted */
}

SL_COLD void ids_read_groups(struct ids_reader *reader) {
    struct ids_table *table = reader->table;
    table->group_count = ids_number(reader);
    if (table->group_count < IDS_FIXED)
        ids_wrong(reader, "a group is missing");
    table->groups = ids_items(reader, table->group_count, sizeof *table->groups);
    for (uint32_t i = 0; !reader->wrong && i < table->group_count; i++) {
        struct ids_group *group = &table->groups[i];
        group->always_count = ids_number(reader);
        group->always = ids_numbers(reader, group->always_count, table->part_count);
        group->count = ids_number(reader);
        group->part = ids_numbers(reader, group->count, table->part_count);
        uint32_t length = ids_number(reader);
        const uint8_t *stored = ids_bytes(reader, length);
        if (!reader->wrong && group->count && hs_deserialize_database((const char *)stored, length, &group->database))
            ids_wrong(reader, "its patterns were compiled by another version of Hyperscan, or for another processor");
        bool used = group->count || group->always_count;
        group->window = group->always_count;
        for (uint32_t k = 0; !reader->wrong && k < group->count; k++)
            group->window |= !table->parts[group->part[k]].alone;
        table->http |= used && i > IDS_HTTP && i <= IDS_HTTP_ALWAYS;
        table->tls |= used && (i == IDS_TLS_NAME || i == IDS_TLS_ALWAYS);
        table->dns |= used && (i == IDS_DNS_NAME || i == IDS_DNS_ALWAYS);
    }
    for (unsigned i = 0; !reader->wrong && i < 2 * IDS_PORTED; i++) {
        struct ids_port_map *map = &table->ports_of[i / 2][i % 2];
        map->count = ids_number(reader);
        map->at = ids_items(reader, map->count, sizeof *map->at);
        for (uint32_t k = 0; !reader->wrong && k < map->count; k++) {
            map->at[k].low = ids_below(reader, 65536);
            map->at[k].group = ids_below(reader, table->group_count);
        }
        if (!reader->wrong && (!map->count || map->at[0].low))
            ids_wrong(reader, "ports have no group");
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
        part->alone = ids_number(&reader);
        part->count = ids_number(&reader);
        part->match = ids_items(&reader, part->count, sizeof *part->match);
        for (uint32_t k = 0; !reader.wrong && k < part->count; k++)
            ids_read_match(&reader, &part->match[k]);
        part->alone &= !reader.wrong && part->count == 1 && part->match[0].kind == IDS_CONTENT;
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
