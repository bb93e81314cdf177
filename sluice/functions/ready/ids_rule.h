/* Whether a rule applies to the data: protocol, addresses and ports, direction, and the fields of a packet's headers. */
#ifndef IDS_RULE_H
#define IDS_RULE_H

#include "ids_alert.h"
#include "ids_match.h"

static inline bool ids_in_ports(const struct ids_table *table, uint32_t set, uint16_t port) {
    if (!set)
        return true;
    const struct ids_ports *ports = &table->ports[set - 1];
    for (uint32_t i = 0; i < ports->count; i++)
        if (port >= ports->at[i].low && port <= ports->at[i].high)
            return true;
    return false;
}

/* Sets are sorted: the range is found by bisection. */
static inline bool ids_in_addresses(const struct ids_table *table, uint32_t set, const uint8_t *address, uint8_t size) {
    if (!set)
        return true;
    if (!size)
        return false;
    const struct ids_addresses *addresses = &table->addresses[set - 1];
    uint32_t low = 0, high = size == 4 ? addresses->count4 : addresses->count6, number = (uint32_t)sl_load_be(address, 4);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool above = size == 4 ? number > addresses->v4[middle].high : memcmp(address, addresses->v6[middle].high, 16) > 0;
        bool below = size == 4 ? number < addresses->v4[middle].low : memcmp(address, addresses->v6[middle].low, 16) < 0;
        if (!above && !below)
            return true;
        if (above)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static inline bool ids_header_of(const struct ids_table *table, const struct ids_rule *rule, const struct flow_ends *ends,
                                 unsigned from) {
    return ids_in_ports(table, rule->dports, ends->port[from ^ 1]) && ids_in_ports(table, rule->sports, ends->port[from]) &&
           ids_in_addresses(table, rule->src, ends->address[from], ends->size) &&
           ids_in_addresses(table, rule->dst, ends->address[from ^ 1], ends->size);
}

static inline bool ids_flags_match(const struct ids_rule *rule, uint8_t flags) {
    uint32_t set = flags & ~rule->flags_ignored;
    switch (rule->flag_mode) {
    case 1: return (set & rule->flags) == rule->flags;
    case 2: return (set & rule->flags) != 0;
    case 3: return (set & rule->flags) == 0;
    default: return set == rule->flags;
    }
}

/* Does the rule apply, by the properties that do not change: addresses, ports, direction? */
static inline bool ids_is_about(const struct ids_table *table, const struct ids_rule *rule, const struct ids_seen *seen) {
    if (!(rule->protocols & seen->protocol) || (rule->flow & (seen->side ? IDS_TO_SERVER : IDS_TO_CLIENT)))
        return false;
    const struct flow_ends *ends = seen->ends;
    if (rule->sameip && (!ends->size || memcmp(ends->address[0], ends->address[1], ends->size)))
        return false;
    return ids_header_of(table, rule, ends, seen->side) || (rule->both_directions && ids_header_of(table, rule, ends, seen->side ^ 1));
}

/* Is it, as far as it may change: the state of the flow, and the fields of a packet? */
static inline bool ids_applies(const struct ids_rule *rule, const struct ids_seen *seen) {
    if ((rule->flow & IDS_ESTABLISHED && !seen->established) || (rule->flow & IDS_NOT_ESTABLISHED && seen->established))
        return false;
    if (!rule->compares && !rule->has_flags)
        return true;
    const struct ids_headers *headers = seen->headers;
    if (!headers || (rule->has_flags && !ids_flags_match(rule, headers->flags)))
        return false;
    for (uint32_t i = 0; i < rule->compares; i++) {
        const struct ids_compare *compare = &rule->compare[i];
        uint32_t value = headers->field[compare->field] & compare->mask;
        if (!(headers->known >> compare->field & 1) ||
            (value >= compare->low && value <= compare->high) == (compare->negated != 0))
            return false;
    }
    return true;
}

#endif
