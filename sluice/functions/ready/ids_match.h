/* Evaluates contents, regular expressions and numbers in order, as a rule has them, with retries: a later one that is
 * relative may hold for another place of the one before it. */
#ifndef IDS_MATCH_H
#define IDS_MATCH_H

#include "ids_bytes.h"

enum {
    IDS_SCAN_MOST = 1 << 20,  /* bytes that one event's evaluations search and compare: beyond it rules do not match */
    IDS_PCRE_COST = 1 << 12,  /* cost of a pcre in addition to the bytes it may search: it searches them repeatedly */
    IDS_HEAP_MOST = 16384,    /* KiB that the interpreter of pcres may use */
};

static inline uint8_t ids_small(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; }

static inline bool ids_same(const uint8_t *at, const struct ids_match *match) {
    if (!match->nocase)
        return memcmp(at, match->text, match->length) == 0;
    for (uint32_t i = 0; i < match->length; i++)
        if (ids_small(at[i]) != match->text[i])
            return false;
    return true;
}

/* Counts the cost of an evaluation; false beyond the bound. */
static inline bool ids_charge(struct ids_work *work, uint64_t cost) {
    work->bounded |= cost > work->left;
    work->left -= sl_min(cost, work->left);
    return !work->bounded;
}

/* The first place from `low` on where a content lies, that ends at `high` at most; UINT64_MAX: there is none. */
static inline uint64_t ids_find(struct ids_work *work, const struct ids_view *view, const struct ids_match *match, uint64_t low,
                                uint64_t high) {
    low = sl_max(low, sl_max(view->begin, view->from));
    high = sl_min(high, view->end);
    if (low > high || high - low < match->length)
        return UINT64_MAX;
    const uint8_t *at = view->at + (low - view->begin), *stop = view->at + (high - view->begin) - match->length + 1;
    const uint8_t *begin = at, first = match->text[0];
    uint64_t compared = 0;
    for (; at < stop && compared <= work->left; at++) {
        if (!match->nocase && !(at = memchr(at, first, (size_t)(stop - at))))
            break;
        if (ids_small(*at) != ids_small(first))
            continue;
        compared += match->length;
        if (ids_same(at, match))
            break;
    }
    bool within = ids_charge(work, (uint64_t)((at ? at : stop) - begin) + 1 + compared);
    return within && at && at < stop ? low + (uint64_t)(at - begin) : UINT64_MAX;
}

/* Where a content may begin, and where it must have ended. */
static inline void ids_bounds(const struct ids_work *work, const struct ids_match *match, uint64_t previous, uint64_t *low,
                              uint64_t *high) {
    int64_t distance = ids_value(work, match->distance), within = ids_value(work, match->within);
    int64_t offset = ids_value(work, match->offset), depth = ids_value(work, match->depth);
    *low = 0;
    *high = UINT64_MAX;
    if (match->relative) {
        /* With a negative distance it may be before the beginning; `within` counts from there. */
        int64_t from = (int64_t)previous + (distance == IDS_NONE ? 0 : distance);
        *low = from > 0 ? (uint64_t)from : 0;
        if (within != IDS_NONE)
            *high = from + within > 0 ? (uint64_t)(from + within) : 0;
    } else {
        if (offset != IDS_NONE)
            *low = offset > 0 ? (uint64_t)offset : 0;
        if (depth != IDS_NONE)
            *high = depth > 0 ? *low + (uint64_t)depth : *low;
    }
}

/* Called by PCRE2 before each item of an expression that may go over bytes repeatedly: a step costs 1 and the bytes since
 * the last one. PCRE2's own limit of matches bounds neither compiled code nor a repeat of one character. */
static int ids_step(pcre2_callout_block *block, void *user) {
    struct ids_work *work = user;
    size_t from = work->stepped, to = block->current_position;
    work->stepped = to;
    work->steps += 1 + (to > from ? to - from : 0);
    return work->steps > work->steps_most ? PCRE2_ERROR_MATCHLIMIT : 0;
}

/* Searches an expression from `low` on. Writes where the match begins and ends. False: there is none, or, as long as bytes
 * may follow the view, they decide, which sets *undecided. */
static inline bool ids_search(struct ids_work *work, const struct ids_view *view, const struct ids_match *match, uint64_t base,
                              uint64_t low, uint64_t *begin, uint64_t *end, bool *undecided) {
    bool cut = base < view->begin;   /* bytes before the view are unknown: neither ^ nor \A nor \G hold at its beginning */
    base = sl_max(base, view->begin);
    low = sl_max(low, view->from);
    if (match->anchored && (cut || low > base))
        return false;
    low = sl_max(low, base);
    low += cut && low == base;
    if (low > view->end)
        return false;
    if (!ids_charge(work, view->end - low + IDS_PCRE_COST))
        return false;
    const uint8_t *at = view->at + (base - view->begin);
    PCRE2_SIZE length = (PCRE2_SIZE)(view->end - base), from = (PCRE2_SIZE)(low - base);
    uint32_t options = view->last ? 0 : match->whole || match->negated ? PCRE2_PARTIAL_HARD : PCRE2_NOTEOL;
    work->steps = 0;
    work->stepped = from;
    int found = pcre2_match(match->code, at, length, from, options, work->data, work->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)   /* the interpreter has its memory from the heap */
        found = pcre2_match(match->code, at, length, from, options | PCRE2_NO_JIT, work->data, work->context);
    work->left -= sl_min(work->steps, work->left);
    if (found < 0) {
        *undecided = found == PCRE2_ERROR_PARTIAL;
        work->bounded |= found != PCRE2_ERROR_NOMATCH && !*undecided;
        return false;
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(work->data);
    *begin = base + place[0];
    *end = base + sl_max(place[0], place[1]);   /* \K may set the beginning after the end */
    return true;
}

/* Tests one option that has no other place to be tried at. Writes where it ends. False, too, as long as bytes that follow the
 * view decide. */
static inline bool ids_number_holds(struct ids_work *work, const struct ids_view *view, const struct ids_match *match,
                                    uint64_t previous, uint64_t *end) {
    switch (match->kind) {
    case IDS_SIZE: {
        uint64_t size = view->end - view->begin;
        return view->at && size >= (uint64_t)match->low.number && size <= (uint64_t)match->high.number;
    }
    case IDS_VERSION:
        return view->at && view->end - view->begin == 1 && view->at[0] < 32 && match->options >> view->at[0] & 1;
    default:
        return view->at && ids_bytes_hold(work, view, match, previous, end);
    }
}

/* A match lies at [begin, end). Where a later one does not hold, the part does not, or these are overwritten: they may then
 * have more than the matches. */
static inline void ids_lies(struct ids_work *work, const struct ids_match *match, uint64_t begin, uint64_t end) {
    if (match->buffer != IDS_PAYLOAD)
        return;
    work->first = sl_min(work->first, begin);
    work->last = sl_max(work->last, end);
}

/* Do the matches of a part hold, from number i on, the previous one in the buffer having ended at `previous`? */
static bool ids_holds(struct ids_work *work, const struct ids_view *views, const struct ids_part *part, uint32_t i,
                      uint64_t previous) {
    for (; i < part->count; i++) {
        const struct ids_match *match = &part->match[i], *next = match + 1;
        const struct ids_view *view = &views[match->buffer];
        if (i && match[-1].buffer != match->buffer)
            previous = 0;
        if (match->kind > IDS_PCRE) {
            if (!ids_charge(work, 1) || !ids_number_holds(work, view, match, previous, &previous))
                return false;
            continue;
        }
        bool retry = !match->negated && i + 1 < part->count && next->relative && next->buffer == match->buffer;
        bool pcre = match->kind == IDS_PCRE, undecided = false;
        uint64_t low = 0, high = UINT64_MAX, begin = 0, end = previous, base = match->relative ? previous : 0;
        if (!pcre)
            ids_bounds(work, match, previous, &low, &high);
        else
            low = base;
        for (;;) {
            bool found;
            if (pcre) {
                found = view->at && ids_search(work, view, match, base, low, &begin, &end, &undecided);
            } else {
                begin = view->at ? ids_find(work, view, match, low, high) : UINT64_MAX;
                found = begin != UINT64_MAX;
                end = begin + match->length;
                /* Bytes that follow may be in the region: the next block decides. */
                undecided = match->negated && !found && view->at && !view->last && high > view->end && high != UINT64_MAX;
            }
            if (undecided || work->bounded || found == match->negated)
                return false;
            if (!retry)
                break;
            if (ids_holds(work, views, part, i + 1, end)) {
                ids_lies(work, match, begin, end);
                return true;
            }
            if (!work->left || work->bounded)
                return false;
            work->left--;
            low = begin + 1;
        }
        previous = match->negated ? previous : end;
        if (!match->negated)
            ids_lies(work, match, begin, end);
    }
    return true;
}

static inline bool ids_part_holds(struct ids_work *work, const struct ids_view *views, const struct ids_part *part) {
    work->bounded = false;
    work->first = UINT64_MAX;
    work->last = 0;
    return ids_holds(work, views, part, 0, 0);
}

#endif
