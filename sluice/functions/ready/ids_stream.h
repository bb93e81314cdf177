/* Inspects one side's stream in blocks. The patterns of all rules are searched in streaming mode, so each byte is read once.
 * Where one is found, its part is evaluated on a window: the block that the pattern lies in as far as it was received, and the
 * block before it.
 *
 * Blocks begin at multiples of their size from the beginning of the stream (or from the end of the last gap), so what a
 * rule sees does not depend on how the stream was cut into segments. A part that more bytes cannot undo is decided when
 * they arrive; one with a negation, or an expression with a lookahead, at the end of the block or of the stream. */
#ifndef IDS_STREAM_H
#define IDS_STREAM_H

#include "ids_flow.h"

/* For the callback of a scan. */
struct ids_scan {
    struct sl_box *box;
    struct ids_side *side;
    const struct ids_seen *seen;
    uint64_t base;            /* the place of the scan's byte 0 in the stream */
};

/* Where there is no room, a part takes the place of the one that waits for longest, and is evaluated first: who fills the list,
 * and the bound on the work, before an attack does not hide that. */
static void ids_replace_hot(struct ids_side *side, struct ids_hot hot) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < side->hot_count; i++)
        if (side->hot[i].at < side->hot[oldest].at)
            oldest = i;
    if (!side->hot_count)
        return;
    memmove(side->hot + 1, side->hot, oldest * sizeof *side->hot);
    side->hot[0] = hot;
}

static void ids_add_hot(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, uint32_t number, uint64_t at) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_part *part = &ids->table.parts[number];
    for (uint32_t i = 0; i < side->hot_count; i++)
        if (side->hot[i].part == number) {
            side->hot[i].at = at;
            side->hot[i].count++;
            return;
        }
    if (!ids_is_about(&ids->table, &ids->table.rules[part->rule], seen) ||
        ids_held_bits(side, part->rule) & (IDS_ALERTED | part->bit))
        return;
    void *list = side->hot;
    if (side->hot_count == side->hot_room && !ids_grow(box, &list, &side->hot_room, IDS_HOT_MOST, sizeof *side->hot)) {
        SLUICE_COUNTER_OF(box, ids_many_rules)++;
        ids_replace_hot(side, (struct ids_hot){at, number, 1});
        return;
    }
    side->hot = list;
    side->hot[side->hot_count++] = (struct ids_hot){at, number, 1};
}

/* Does a content that ends there lie where it must? */
static inline bool ids_lies_well(const struct ids_match *match, uint64_t end) {
    uint64_t offset = match->offset.number == IDS_NONE ? 0 : (uint64_t)match->offset.number;
    return end >= offset + match->length && (match->depth.number == IDS_NONE || end <= offset + (uint64_t)match->depth.number);
}

/* Of hs_scan_stream: the places that it gives count from the last reset, which is the origin of the blocks. */
static int ids_on_stream_pattern(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *user) {
    (void)from, (void)flags;
    struct ids_scan *scan = user;
    struct ids *ids = SLUICE_WORKER_OF(scan->box);
    const struct ids_group *group = &ids->table.groups[scan->side->group];
    if (id >= group->count)
        return 0;
    const struct ids_part *part = &ids->table.parts[group->part[id]];
    if (!part->alone || ids_lies_well(&part->match[0], scan->base + to))
        ids_add_hot(scan->box, scan->side, scan->seen, group->part[id], scan->base + to);
    return 0;
}

static struct ids_view ids_stream_view(const struct ids_side *side, bool last) {
    return (struct ids_view){side->window, side->begin, side->end, last, 0};
}

/* A part whose pattern was found at its place, and is all of it: only the flow decides. */
static inline bool ids_alone_holds(struct ids *ids, const struct ids_part *part, const struct ids_seen *seen, uint64_t end) {
    const struct ids_rule *rule = &ids->table.rules[part->rule];
    ids->work.first = end - sl_min(end, part->match[0].length);
    ids->work.last = end;
    bool holds = ids_applies(rule, seen) && ids_bits_allow(seen, rule);
    if (ids->costs) {
        ids->costs[part->rule].checks++;
        ids->costs[part->rule].matches += holds;
    }
    return holds;
}

/* Evaluates a part that waits; does it hold? One that counts its matches holds after the last one, and is then evaluated again.
 * Writes whether bits of the flow changed. */
static bool ids_hot_holds(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, const struct ids_part *part,
                          struct ids_hot hot, struct ids_view *views, bool *again) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    bool repeats = ids_repeats(&ids->table.rules[part->rule]), held = false;
    for (uint32_t i = 0; !i || (repeats && (!part->alone || i < hot.count)); i++) {
        uint64_t from = views[IDS_PAYLOAD].from = repeats ? ids_held_after(side, part->rule) : 0;
        if (!ids_open_to(seen) || !(part->alone ? ids_alone_holds(ids, part, seen, hot.at) : ids_evaluate(box, part, seen, views)))
            break;
        held = true;
        *again |= ids_part_found(box, side, seen, part);
        if (ids_held_bits(side, part->rule) & IDS_ALERTED || (!part->alone && ids_held_after(side, part->rule) <= from))
            return true;
    }
    /* One of which bytes after its last match may still hold goes on waiting. */
    return held && (!repeats || part->alone || hot.at <= ids_held_after(side, part->rule));
}

/* Evaluates the parts that wait. `ended`: the block or the stream has ended. Rules that pass are first. Bits that one rule
 * sets may let another one match, whichever is first in the list: it is repeated until no bit changes. */
static void ids_evaluate_hot(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, bool ended, bool last) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    struct ids_view views[IDS_BUFFERS] = {ids_stream_view(side, last)};
    bool passing = ids->table.passes, again = passing;
    while (side->hot_count && ids_open_to(seen)) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < side->hot_count; i++) {
            struct ids_hot hot = side->hot[i];
            const struct ids_part *part = &ids->table.parts[hot.part];
            bool turn = !passing || ids->table.rules[part->rule].action == IDS_PASS;
            if (!turn || !ids_open_to(seen) || (part->whole && !ended) ||
                !ids_hot_holds(box, side, seen, part, hot, views, &again))
                side->hot[left++] = hot;
        }
        side->hot_count = left;
        passing = false;
        if (!again)
            break;
        again = false;
    }
}

/* Evaluates the parts without a pattern, at the end of a block or of the stream. */
static void ids_evaluate_always(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, bool last) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_group *group = &ids->table.groups[side->group];
    struct ids_view views[IDS_BUFFERS] = {ids_stream_view(side, last)};
    bool changed = false;
    for (int passing = ids->table.passes; passing >= 0; passing--)
        for (uint32_t i = 0; i < group->always_count && ids_open_to(seen); i++) {
            const struct ids_part *part = &ids->table.parts[group->always[i]];
            if ((!passing || ids->table.rules[part->rule].action == IDS_PASS) &&
                !(ids_held_bits(side, part->rule) & (IDS_ALERTED | part->bit)) &&
                ids_is_about(&ids->table, &ids->table.rules[part->rule], seen))
                ids_hot_holds(box, side, seen, part, (struct ids_hot){side->end, group->always[i], 1}, views, &changed);
        }
}

/* The block, or the stream, has ended. A side that has sent nothing matches no rule, not even one that only negates. */
static void ids_block_end(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, bool last) {
    if (last ? !side->number : side->end == side->begin)
        return;
    ids_evaluate_always(box, side, seen, last);
    ids_evaluate_hot(box, side, seen, true, last);
}

static void ids_side_free(struct sl_box *box, struct ids_side *side) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (side->patterns) {
        hs_close_stream(side->patterns, ids->scratch, NULL, NULL);
        log_give(&ids->budget, ids->table.groups[side->group].stream_size);
    }
    ids_frames_free(&ids->budget, &side->frames);
    ids_give(box, side->window, side->room);
    ids_give(box, side->hot, side->hot_room * sizeof *side->hot);
    ids_give(box, side->held, side->held_room * sizeof *side->held);
    *side = (struct ids_side){.origin = side->origin, .begin = side->end, .end = side->end, .over = true};
}

/* Room in the window for `more` bytes; at most two blocks are ever in it. */
static bool ids_side_room(struct sl_box *box, struct ids_side *side, uint32_t more) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    uint32_t used = (uint32_t)(side->end - side->begin), room = side->room ? side->room : 512;
    while (room < used + more)
        room *= 2;
    room = (uint32_t)sl_min(room, 2 * ids->block);
    if (side->room >= room)
        return true;
    uint8_t *made = ids_take(box, room);
    if (!made)
        return false;
    if (used)
        memcpy(made, side->window, used);
    ids_give(box, side->window, side->room);
    side->window = made;
    side->room = room;
    return true;
}

static bool ids_side_open(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (!side->group)
        side->group = ids_group_of(&ids->table, IDS_STREAM, seen->side, seen->ends->port[1]);
    const struct ids_group *group = &ids->table.groups[side->group];
    if (!group->database || side->patterns)
        return true;
    if (log_take(&ids->budget, group->stream_size)) {
        if (hs_open_stream(group->database, 0, &side->patterns) == HS_SUCCESS)
            return true;
        side->patterns = NULL;
        log_give(&ids->budget, group->stream_size);
    }
    SLUICE_COUNTER_OF(box, ids_no_room)++;
    return false;
}

/* Has the group of a side rules? Without any, its bytes are only counted. */
static inline bool ids_side_idle(const struct ids *ids, const struct ids_side *side) {
    const struct ids_group *group = &ids->table.groups[side->group];
    return !group->count && !group->always_count;
}

/* The window begins later: parts that wait for a pattern before it, and packets before it, are dropped. */
static void ids_begin_moves(struct sl_box *box, struct ids_side *side, uint64_t begin) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    uint32_t left = 0;
    side->begin = begin;
    for (uint32_t i = 0; i < side->hot_count; i++)
        if (side->hot[i].at > begin)
            side->hot[left++] = side->hot[i];
    side->hot_count = left;
    if (side->frames.count)
        ids_frames_forget(&ids->budget, &side->frames, begin);
}

/* Bytes of the stream, in order. */
static void ids_stream_bytes(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, const uint8_t *at,
                             uint32_t length) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (side->over)
        return;
    if (!ids_side_open(box, side, seen)) {   /* later bytes would have a wrong position in the stream */
        ids_side_free(box, side);
        return;
    }
    side->time = seen->time;
    side->number = seen->number;
    if (ids_side_idle(ids, side)) {
        side->begin = side->end += length;
        return;
    }
    if (!ids->table.groups[side->group].window) {   /* places of patterns decide: no bytes are stored */
        struct ids_scan scan = {box, side, seen, side->origin};
        side->end += length;
        hs_scan_stream(side->patterns, (const char *)at, length, 0, ids->scratch, ids_on_stream_pattern, &scan);
        if (side->hot_count)
            ids_evaluate_hot(box, side, seen, false, false);
        ids_begin_moves(box, side, side->end - sl_min(side->end, 2 * ids->block));
        return;
    }
    while (length) {
        uint64_t in_block = (side->end - side->origin) % ids->block;
        uint32_t take = (uint32_t)sl_min(length, ids->block - in_block);
        if (!in_block && side->end - side->begin == 2 * ids->block) {   /* a new block: the one before the last is dropped */
            memmove(side->window, side->window + ids->block, ids->block);
            ids_begin_moves(box, side, side->begin + ids->block);
        }
        if (!ids_side_room(box, side, take)) {
            ids_side_free(box, side);
            return;
        }
        memcpy(side->window + (side->end - side->begin), at, take);
        side->end += take;
        struct ids_scan scan = {box, side, seen, side->origin};
        if (side->patterns)
            hs_scan_stream(side->patterns, (const char *)at, take, 0, ids->scratch, ids_on_stream_pattern, &scan);
        at += take;
        length -= take;
        if ((side->end - side->origin) % ids->block == 0)
            ids_block_end(box, side, seen, false);
        else
            ids_evaluate_hot(box, side, seen, false, false);
    }
}

/* Bytes are missing: the bytes before and after them are not matched together. */
static void ids_stream_gap(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, uint64_t end) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    if (side->over)
        return;
    ids_block_end(box, side, seen, false);
    side->hot_count = 0;
    side->origin = side->begin = side->end = end;
    if (side->patterns)
        hs_reset_stream(side->patterns, 0, ids->scratch, NULL, NULL);
}

#endif
