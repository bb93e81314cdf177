/* Numbers in bytes: byte_test, byte_jump, byte_extract and isdataat. */
#ifndef IDS_BYTES_H
#define IDS_BYTES_H

#include "ids_table.h"

/* The searched data: bytes [begin, end) of a buffer or of a stream. */
struct ids_view {
    const uint8_t *at;        /* byte `begin` */
    uint64_t begin, end;
    bool last;                /* nothing follows `end` */
    uint64_t from;            /* what is searched begins there at the earliest: after an earlier match of the rule */
};

struct ids_work {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t left;            /* of IDS_SCAN_MOST, for the event that is processed */
    bool bounded;             /* it came to a bound */
    uint64_t steps, steps_most;   /* of the pcre that is searched */
    size_t stepped;           /* its place at the last step */
    int64_t variable[IDS_VARIABLES];
    uint64_t first, last;     /* where in the payload the matches of the part that held lie */
};

/* The value of a number of an option; IDS_NONE where it is not given. */
static inline int64_t ids_value(const struct ids_work *work, struct ids_operand operand) {
    return operand.variable ? work->variable[operand.variable - 1] : operand.number;
}

/* Reads the number at `at`; false where its text has no digit. */
static inline bool ids_number_read(const struct ids_match *match, const uint8_t *at, uint64_t *value) {
    uint64_t number = 0;
    if (!match->base) {
        for (uint32_t i = 0; i < match->count; i++)
            number = number << 8 | at[match->little ? match->count - 1 - i : i];
    } else {   /* as strtoul reads it: blanks, then digits up to something else */
        uint32_t i = 0, digits = 0;
        while (i < match->count && (at[i] == ' ' || (at[i] >= '\t' && at[i] <= '\r')))
            i++;
        if (match->base == 16 && i + 1 < match->count && at[i] == '0' && (at[i + 1] | 0x20) == 'x')
            i += 2;
        for (; i < match->count; i++, digits++) {
            uint8_t c = at[i], small = c | 0x20;
            uint32_t digit = c >= '0' && c <= '9' ? c - (uint32_t)'0' : small >= 'a' && small <= 'f' ? small - 'a' + 10u : 16;
            if (digit >= match->base)
                break;
            number = number * match->base + digit;
        }
        if (!digits)
            return false;
    }
    if (match->mask)
        number = (number & match->mask) >> __builtin_ctz(match->mask);
    *value = number;
    return true;
}

static inline bool ids_compares(uint32_t operator, uint64_t number, uint64_t value) {
    switch (operator) {
    case IDS_LESS: return number < value;
    case IDS_GREATER: return number > value;
    case IDS_AT_MOST: return number <= value;
    case IDS_AT_LEAST: return number >= value;
    case IDS_AND: return (number & value) != 0;
    case IDS_XOR: return (number ^ value) != 0;
    default: return number == value;
    }
}

/* Tests an option about bytes. A jump and an extracted number move the end of the last match. False, too, where the place is
 * not in the view, whose following bytes may decide. */
static inline bool ids_bytes_hold(struct ids_work *work, const struct ids_view *view, const struct ids_match *match,
                                  uint64_t previous, uint64_t *end) {
    int64_t place = (match->relative ? (int64_t)previous : 0) + ids_value(work, match->place);
    int64_t begin = (int64_t)view->begin, stop = (int64_t)view->end;
    if (match->kind == IDS_DATA_AT)
        return match->negated ? view->last && place >= stop : place >= begin && place < stop;
    uint64_t number = 0;
    if (place < begin || place > stop - (int64_t)match->count ||
        (match->count && !ids_number_read(match, view->at + (place - begin), &number)))
        return false;
    if (match->kind == IDS_BYTE_TEST) {
        uint64_t value = match->value.variable ? (uint64_t)ids_value(work, match->value) : (uint32_t)match->value.number;
        return ids_compares(match->operator, number, value) != match->negated;
    }
    uint64_t scaled;   /* a value beyond any stream is beyond the view */
    if (__builtin_mul_overflow(number, (uint64_t)match->multiplier, &scaled) || scaled > (uint64_t)1 << 48)
        return false;
    if (match->align > 1)
        scaled += (match->align - scaled % match->align) % match->align;
    int64_t to = place + match->count;
    if (match->kind == IDS_BYTE_EXTRACT) {
        work->variable[match->slot] = (int64_t)scaled;
        *end = (uint64_t)to;
        return true;
    }
    if (match->start == IDS_FROM_END && !view->last)
        return false;
    to = (match->start == IDS_FROM_BEGINNING ? 0 : match->start == IDS_FROM_END ? stop : to) + (int64_t)scaled +
         ids_value(work, match->post);
    if (to < begin || to > stop)
        return false;
    *end = (uint64_t)to;
    return true;
}

#endif
