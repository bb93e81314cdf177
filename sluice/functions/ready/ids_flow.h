/* What is stored of a flow and of the worker, and the path from a part that holds to an alert. */
#ifndef IDS_FLOW_H
#define IDS_FLOW_H

#include "ids_rule.h"

enum {
    IDS_HOT_MOST = 256,       /* parts of one side that wait for more of the stream */
    IDS_HELD_MOST = 256,      /* rules that one side remembers: those that have alerted, or of which a part holds */
};

/* A part whose pattern was found, and that does not hold yet. `at`: the end of the pattern in the stream. */
struct ids_hot { uint64_t at; uint32_t part; };
struct ids_held { uint32_t rule, bits; };
enum { IDS_ALERTED = 1u << 31 };   /* of ids_held.bits */

/* One side's stream: bytes [begin, end) are in `window`. */
struct ids_side {
    uint64_t origin, begin, end;
    uint8_t *window;
    uint32_t room;
    hs_stream_t *patterns;
    struct ids_hot *hot;
    uint32_t hot_count, hot_room;
    struct ids_held *held;
    uint32_t held_count, held_room;
    uint64_t time, number;    /* of the packet that brought the last bytes */
    bool over;                /* it is not inspected any further */
};

struct ids_http;

struct ids_flow {
    struct log_flow flow;
    struct flow_ends ends;
    struct ids_side side[2];
    struct ids_http *http;
    uint64_t *bits;
};

struct ids_state {
    struct ids_flow *flow;
    uint32_t path;
    bool established, sent[2], left_out;
};
SLUICE_STATE(struct ids_state)

struct ids {
    struct log_output log;
    struct log_budget budget;
    struct ids_table table;
    struct ids_work work;
    struct ids_counts counts;
    hs_scratch_t *scratch;
    hs_stream_t *packet[IDS_GROUPS];   /* for what is complete: packets and buffers */
    uint64_t *alerts;         /* by rule */
    uint32_t *found;          /* parts whose pattern one scan has found */
    uint32_t found_count;
    uint64_t *mark, scans;    /* by part: the scan that has found it */
    uint64_t flows, block;
    bool flush_due;           /* the timer is set that writes what is buffered */
    size_t stream_size;       /* of the state of one stream's patterns */
};
SLUICE_WORKER(struct ids)

/* Memory of flows, within the budget; NULL beyond it. */
static inline void *ids_take(struct sl_box *box, size_t size) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (!log_take(&ids->budget, size)) {
        SLUICE_COUNTER_OF(box, ids_no_room)++;
        return NULL;
    }
    void *made = calloc(1, size);
    if (!made) {
        log_give(&ids->budget, size);
        SLUICE_COUNTER_OF(box, ids_no_room)++;
    }
    return made;
}

static inline void ids_give(struct sl_box *box, void *at, size_t size) {
    if (at)
        log_give(&SLUICE_WORKER_OF(box)->budget, size);
    free(at);
}

/* Twice the room for items of a list, up to `most` items; false beyond it. */
static inline bool ids_grow(struct sl_box *box, void **items, uint32_t *room, uint32_t most, size_t size) {
    uint32_t larger = *room ? 2 * *room : 4;
    if (larger > most)
        return false;
    void *made = ids_take(box, larger * size);
    if (!made)
        return false;
    if (*items)
        memcpy(made, *items, *room * size);
    ids_give(box, *items, *room * size);
    *items = made;
    *room = larger;
    return true;
}

static inline size_t ids_bits_size(const struct ids *ids) { return ((size_t)ids->table.bit_count + 63) / 64 * 8; }

/* Alerts are written a second after the first that is buffered, so that those of an interface are seen soon. */
SLUICE_TIMER(box, flush) {
    struct ids *ids = SLUICE_WORKER_OF(event->box);
    ids->flush_due = false;
    if (ids->log.out)
        fflush(ids->log.out);   /* an error stays with the file, and is reported at the end */
}

SL_COLD void ids_alert(struct sl_box *box, const struct ids_seen *seen, uint32_t number) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_rule *rule = &ids->table.rules[number];
    if (rule->silent)
        return;
    if (!ids_counts_allow(&ids->counts, box->seed, seen, number, rule)) {
        SLUICE_COUNTER_OF(box, ids_below_thresholds)++;
        return;
    }
    SLUICE_COUNTER_OF(box, ids_alerts)++;
    ids->alerts[number]++;
    if (SLUICE_PARAMETER_OF(box, fast))
        ids_fast(&ids->log, seen, rule);
    else
        ids_row(&ids->log, box, seen, rule);
    if (!ids->flush_due)
        ids->flush_due = SLUICE_ARM_BOX(box, flush, 1000000000);
}

/* Evaluates a part; does it hold? Bits of the flow are tested before the bytes, which costs less. */
static inline bool ids_evaluate(struct sl_box *box, const struct ids_part *part, const struct ids_seen *seen,
                                const struct ids_view *views) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_rule *rule = &ids->table.rules[part->rule];
    if (!ids_applies(rule, seen) || !ids_bits_allow(seen, rule))
        return false;
    bool holds = ids_part_holds(&ids->work, views, part);
    SLUICE_COUNTER_OF(box, ids_bounded_matches) += ids->work.bounded;
    return holds;
}

/* --- rules of a side --- */

static inline uint32_t ids_held_bits(const struct ids_side *side, uint32_t rule) {
    for (uint32_t i = 0; i < side->held_count; i++)
        if (side->held[i].rule == rule)
            return side->held[i].bits;
    return 0;
}

/* Remembers that bits of a rule hold; false where there is no room for it. */
static inline bool ids_hold(struct sl_box *box, struct ids_side *side, uint32_t rule, uint32_t bits) {
    for (uint32_t i = 0; i < side->held_count; i++)
        if (side->held[i].rule == rule) {
            side->held[i].bits |= bits;
            return true;
        }
    void *list = side->held;
    if (side->held_count == side->held_room && !ids_grow(box, &list, &side->held_room, IDS_HELD_MOST, sizeof *side->held)) {
        SLUICE_COUNTER_OF(box, ids_many_rules)++;
        return false;
    }
    side->held = list;
    side->held[side->held_count++] = (struct ids_held){rule, bits};
    return true;
}

/* A part of a rule on streams holds: with all of its parts the rule alerts. A rule with a part on the stream alerts once for
 * a side, one on HTTP alone once for each message. True where bits of the flow changed. */
static inline bool ids_part_found(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen,
                                  const struct ids_part *part) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_rule *rule = &ids->table.rules[part->rule];
    uint32_t held = ids_held_bits(side, part->rule) | part->bit;
    bool once = rule->needed & IDS_ON_STREAM;
    if ((held & rule->needed) != rule->needed) {
        ids_hold(box, side, part->rule, part->bit);
        return false;
    }
    if (once && (held & IDS_ALERTED || !ids_hold(box, side, part->rule, part->bit | IDS_ALERTED)))
        return false;
    bool changed = ids_bits_change(seen, rule);
    ids_alert(box, seen, part->rule);
    return changed;
}

#endif
