/* Evaluates contents and regular expressions in order, as a rule has them, with retries: a later one that is relative may
 * hold for another place of the one before it. */
#ifndef IDS_MATCH_H
#define IDS_MATCH_H

#include "ids_table.h"

enum {
    IDS_SCAN_MOST = 1 << 20,  /* bytes that one event's evaluations search and compare: beyond it rules do not match */
    IDS_PCRE_COST = 1 << 12,  /* what a pcre counts in addition to the bytes it may search: it goes over them repeatedly */
};

/* What matches are searched in: bytes [begin, end) of a buffer or of a stream. */
struct ids_view {
    const uint8_t *at;        /* byte `begin` */
    uint64_t begin, end;
    bool last;                /* nothing follows `end` */
};

struct ids_work {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t left;            /* of IDS_SCAN_MOST, for the event that is processed */
    bool bounded;             /* it came to a bound */
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

/* Counts what an evaluation costs; false beyond the bound. */
static inline bool ids_charge(struct ids_work *work, uint64_t cost) {
    work->bounded |= cost > work->left;
    work->left -= sl_min(cost, work->left);
    return !work->bounded;
}

/* The first place from `low` on where a content lies, that ends at `high` at most; UINT64_MAX: there is none. */
static inline uint64_t ids_find(struct ids_work *work, const struct ids_view *view, const struct ids_match *match, uint64_t low,
                                uint64_t high) {
    low = sl_max(low, view->begin);
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
static inline void ids_bounds(const struct ids_match *match, uint64_t previous, uint64_t *low, uint64_t *high) {
    *low = 0;
    *high = UINT64_MAX;
    if (match->relative) {
        /* With a negative distance it may be before the beginning; `within` counts from there. */
        int64_t from = (int64_t)previous + (match->distance == IDS_NONE ? 0 : match->distance);
        *low = from > 0 ? (uint64_t)from : 0;
        if (match->within != IDS_NONE)
            *high = from + match->within > 0 ? (uint64_t)(from + match->within) : 0;
    } else {
        if (match->offset != IDS_NONE)
            *low = (uint64_t)match->offset;
        if (match->depth != IDS_NONE)
            *high = *low + (uint64_t)match->depth;
    }
}

/* Searches an expression from `low` on. Writes where the match begins and ends; false: there is none. */
static inline bool ids_search(struct ids_work *work, const struct ids_view *view, const struct ids_match *match, uint64_t base,
                              uint64_t low, uint64_t *begin, uint64_t *end) {
    base = sl_max(base, view->begin);
    low = sl_max(low, base);
    if (low > view->end)
        return false;
    /* What precedes the view is not known: neither ^ nor \A hold at its beginning, unless that is the buffer's. */
    low += low == view->begin && view->begin;
    if (low > view->end)
        return false;
    if (!ids_charge(work, view->end - low + IDS_PCRE_COST))
        return false;
    const uint8_t *at = view->at + (base - view->begin);
    PCRE2_SIZE length = (PCRE2_SIZE)(view->end - base), from = (PCRE2_SIZE)(low - base);
    uint32_t options = view->last ? 0 : PCRE2_NOTEOL;
    int found = pcre2_match(match->code, at, length, from, options, work->data, work->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)   /* the interpreter has its memory from the heap */
        found = pcre2_match(match->code, at, length, from, options | PCRE2_NO_JIT, work->data, work->context);
    if (found < 0) {
        work->bounded |= found != PCRE2_ERROR_NOMATCH;
        return false;
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(work->data);
    *begin = base + place[0];
    *end = base + sl_max(place[0], place[1]);   /* \K may set the beginning after the end */
    return true;
}

/* Do the matches of a part hold, from number i on, the previous one in the buffer having ended at `previous`? */
static bool ids_holds(struct ids_work *work, const struct ids_view *views, const struct ids_part *part, uint32_t i,
                      uint64_t previous) {
    for (; i < part->count; i++) {
        const struct ids_match *match = &part->match[i], *next = match + 1;
        const struct ids_view *view = &views[match->buffer];
        if (i && match[-1].buffer != match->buffer)
            previous = 0;
        bool retry = !match->negated && i + 1 < part->count && next->relative && next->buffer == match->buffer;
        uint64_t low = 0, high = UINT64_MAX, begin = 0, end = previous, base = match->relative ? previous : 0;
        if (!match->pcre)
            ids_bounds(match, previous, &low, &high);
        else
            low = base;
        for (;;) {
            bool found;
            if (match->pcre) {
                found = view->at && ids_search(work, view, match, base, low, &begin, &end);
            } else {
                begin = view->at ? ids_find(work, view, match, low, high) : UINT64_MAX;
                found = begin != UINT64_MAX;
                end = begin + match->length;
                /* Bytes that follow may be in the region: the next block decides. */
                if (match->negated && !found && view->at && !view->last && high != UINT64_MAX && high > view->end)
                    return false;
            }
            if (work->bounded || found == match->negated)
                return false;
            if (!retry)
                break;
            if (ids_holds(work, views, part, i + 1, end))
                return true;
            if (!work->left || work->bounded)
                return false;
            work->left--;
            low = begin + 1;
        }
        previous = match->negated ? previous : end;
    }
    return true;
}

static inline bool ids_part_holds(struct ids_work *work, const struct ids_view *views, const struct ids_part *part) {
    work->bounded = false;
    return ids_holds(work, views, part, 0, 0);
}

#endif
