/* Evaluates the chains of rules for a packet: each chain with a hook in order, until one drops it. As in nftables, accepting
 * ends the chain with the hook, and the next one decides too; dropping is final. */
#ifndef FIREWALL_RULES_H
#define FIREWALL_RULES_H

#include "firewall_packet.h"

enum { FIREWALL_DEPTH = 16 };                /* nested jumps, as in nftables */
enum { FIREWALL_STEPS_MOST = 1 << 20 };      /* of one packet in one chain with a hook: jumps can multiply */

enum firewall_verdict { FIREWALL_PASS, FIREWALL_STOP, FIREWALL_REFUSE };
struct firewall_decision { uint8_t verdict; bool too_long; uint16_t code4, code6; };

static inline bool firewall_below(struct firewall_number a, struct firewall_number b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

/* Is a number in one of the ascending ranges? */
static inline bool firewall_in(const struct firewall_set *set, struct firewall_number value) {
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (firewall_below(set->at[middle].last, value))
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && !firewall_below(value, set->at[low].first);
}

/* Does a match hold? */
static inline bool firewall_holds(const struct firewall_table *table, const struct firewall_step *step,
                                  const struct firewall_packet *packet) {
    struct firewall_number value;
    if (!firewall_value(packet, step->field, &value))
        return false;
    bool holds = step->kind == FIREWALL_MATCH  ? firewall_in(&table->sets[step->value], value)
                 : step->kind == FIREWALL_BITS ? (value.low & step->mask) == step->value
                                               : (value.low & step->mask) != 0;
    return holds != (bool)step->negated;
}

static inline bool firewall_limited(struct firewall_limit *limit, const struct firewall_packet *packet, uint64_t now) {
    return token_take(&limit->rate, &limit->full, now, limit->bytes ? packet->length : 1) != limit->over;
}

static inline void firewall_count(struct firewall_counter *counter, const struct firewall_packet *packet) {
    counter->packets++;
    counter->bytes += packet->length;
}

/* The decision of one chain with a hook. log(user, text) is called for each log statement. */
static inline struct firewall_decision firewall_walk(struct firewall_table *table, struct firewall_base *base,
                                                     const struct firewall_packet *packet, uint64_t now,
                                                     void (*log)(const void *user, const struct firewall_text *text), const void *user) {
    struct { uint32_t chain, step; } stack[FIREWALL_DEPTH];
    unsigned depth = 0;
    uint32_t chain = base->chain, at = 0, steps = 0;
    while (steps++ < FIREWALL_STEPS_MOST) {
        if (at >= table->chains[chain].count) {   /* the end of a chain returns */
            if (!depth)
                break;
            chain = stack[--depth].chain;
            at = stack[depth].step;
            continue;
        }
        const struct firewall_step *step = &table->chains[chain].step[at++];
        switch (step->kind) {
        case FIREWALL_COUNT: firewall_count(&table->counters[step->value], packet); break;
        case FIREWALL_LOG: log(user, &table->logs[step->value]); break;
        case FIREWALL_LIMIT: at = firewall_limited(&table->limits[step->value], packet, now) ? at : step->end; break;
        case FIREWALL_ACCEPT: return (struct firewall_decision){FIREWALL_PASS, false, 0, 0};
        case FIREWALL_DROP: return (struct firewall_decision){FIREWALL_STOP, false, 0, 0};
        case FIREWALL_REJECT: return (struct firewall_decision){FIREWALL_REFUSE, false, (uint16_t)step->mask, (uint16_t)step->value};
        case FIREWALL_RETURN: at = table->chains[chain].count; break;
        case FIREWALL_JUMP:
            if (depth == FIREWALL_DEPTH)
                return (struct firewall_decision){FIREWALL_STOP, true, 0, 0};
            stack[depth].chain = chain;
            stack[depth++].step = step->end;
            /* fall through */
        case FIREWALL_GOTO:
            chain = step->value;
            at = 0;
            break;
        default: at = firewall_holds(table, step, packet) ? at : step->end;
        }
    }
    firewall_count(&base->policy, packet);
    bool too_long = steps > FIREWALL_STEPS_MOST;
    return (struct firewall_decision){too_long || base->drop ? FIREWALL_STOP : FIREWALL_PASS, too_long, 0, 0};
}

/* The decision of all of them. */
static inline struct firewall_decision firewall_decide(struct firewall_table *table, const struct firewall_packet *packet, uint64_t now,
                                                       void (*log)(const void *user, const struct firewall_text *text), const void *user) {
    for (uint32_t i = 0; i < table->base_count; i++) {
        struct firewall_base *base = &table->bases[i];
        if (base->family && base->family != packet->version)
            continue;
        struct firewall_decision decision = firewall_walk(table, base, packet, now, log, user);
        if (decision.verdict != FIREWALL_PASS)
            return decision;
    }
    return (struct firewall_decision){FIREWALL_PASS, false, 0, 0};
}

#endif
