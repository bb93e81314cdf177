/* Inspects complete data: packets, messages of SCTP, and the buffers of messages of HTTP, TLS and DNS. */
#ifndef IDS_WHOLE_H
#define IDS_WHOLE_H

#include "ids_stream.h"

static void ids_set_view(struct ids_view *view, const void *at, size_t length) {
    *view = (struct ids_view){length ? at : (const void *)"", 0, length, true, 0};
}

/* Begins a collection of parts that may hold. */
static inline void ids_scan_begin(struct sl_box *box) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    ids->scans++;
    ids->found_count = 0;
}

/* Adds a part, once. */
static inline void ids_found_add(struct ids *ids, uint32_t part) {
    if (ids->mark[part] == ids->scans)
        return;
    ids->mark[part] = ids->scans;
    ids->found[ids->found_count++] = part;
}

/* Of hs_scan_stream on a whole packet or buffer: collects the parts. */
static int ids_on_pattern(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *user) {
    (void)from, (void)to, (void)flags;
    struct ids_scan *scan = user;
    struct ids *ids = SLUICE_WORKER_OF(scan->box);
    const struct ids_group *group = &ids->table.groups[scan->base];
    if (id < group->count)
        ids_found_add(ids, group->part[id]);
    return 0;
}

/* Adds the parts of a group to those that are found: by their patterns in a buffer, and those without one. */
static void ids_scan_group(struct sl_box *box, unsigned number, const struct ids_view *view) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_group *group = &ids->table.groups[number];
    for (uint32_t i = 0; i < group->always_count; i++)
        ids_found_add(ids, group->always[i]);
    if (!group->database || !view->at || view->end == view->begin)
        return;
    struct ids_scan scan = {box, NULL, NULL, number};
    hs_reset_stream(group->whole, 0, ids->scratch, NULL, NULL);
    hs_scan_stream(group->whole, (const char *)view->at, (unsigned)(view->end - view->begin), 0, ids->scratch,
                   ids_on_pattern, &scan);
}

/* Evaluates the parts that were collected. `side`: of a stream or message; NULL: they are about a packet. `sides`: 1 requests,
 * 2 responses. `body`: those that look at the body of a message, or those that do not. */
static void ids_found_evaluate(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen,
                               const struct ids_view *views, uint32_t sides, bool body) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    uint32_t count = ids->found_count;
    bool passing = ids->table.passes, again = passing, passed = false;
    while (count && !passed && ids_open_to(seen)) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < count; i++) {
            const struct ids_part *part = &ids->table.parts[ids->found[i]];
            const struct ids_rule *rule = &ids->table.rules[part->rule];
            /* Parts of rules on streams are not those on packets; and of a message of SCTP nothing but its payload is read. */
            bool other = !part->bit != (!side && seen->protocol != IDS_SCTP_BIT) || (!side && part->bit && rule->needed != part->bit);
            if (other || part->needs_body != body || !(part->sides & sides) || !ids_is_about(&ids->table, rule, seen))
                continue;
            bool turn = !passing || rule->action == IDS_PASS;
            if (!turn || passed || !ids_open_to(seen) || !ids_evaluate(box, part, seen, views)) {
                ids->found[left++] = ids->found[i];
            } else if (side) {
                again |= ids_part_found(box, side, seen, part);
            } else {
                again |= ids_bits_change(seen, rule);
                ids_alert(box, seen, part->rule, part->bit != 0);   /* a message is sent again where it was dropped */
                passed |= rule->action == IDS_PASS;
            }
        }
        count = left;
        passing = false;
        if (!again)
            break;
        again = false;
    }
}

#endif
