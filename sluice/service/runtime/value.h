/* Values of a program. An integer is an int64_t that wraps; a string refers to bytes elsewhere. */
#ifndef SERVICE_VALUE_H
#define SERVICE_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct service_text {
    const uint8_t *at;
    uint32_t length;
};

static inline int64_t service_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t service_subtract(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t service_multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* The divisor is not 0. INT64_MIN / -1 wraps. */
static inline int64_t service_divide(int64_t a, int64_t b) { return b == -1 ? service_subtract(0, a) : a / b; }
static inline int64_t service_remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

/* The same of a message grammar: a divisor of 0 sets `bad`. */
static inline int64_t service_try_divide(int64_t a, int64_t b, bool *bad)
{
    *bad = *bad || b == 0;
    return b == 0 ? 0 : service_divide(a, b);
}

static inline int64_t service_try_remainder(int64_t a, int64_t b, bool *bad)
{
    *bad = *bad || b == 0;
    return b == 0 ? 0 : service_remainder(a, b);
}

static inline int64_t service_absolute(int64_t a) { return a < 0 ? service_subtract(0, a) : a; }

static inline int service_compare(struct service_text a, struct service_text b)
{
    uint32_t common = a.length < b.length ? a.length : b.length;
    int order = common ? memcmp(a.at, b.at, common) : 0;

    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static inline bool service_same(struct service_text a, struct service_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static inline uint64_t service_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ (hash >> 32);
}

static inline int64_t service_hash_end(uint64_t hash)
{
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return (int64_t)((hash ^ (hash >> 29)) & INT64_MAX);
}

/* hash(): the same number on every machine and in every run, as several routers must agree; never negative. Eight bytes
 * at a time, as a little-endian word; the last ones are filled up with 0. */
static inline int64_t service_hash_text(struct service_text text)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ text.length, word;
    const uint8_t *at = text.at;
    uint32_t left = text.length;

    for (; left >= 8; left -= 8, at += 8) {
        memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        hash = service_mix(hash, word);
    }
    if (left) {
        word = 0;
        for (uint32_t i = 0; i < left; i++)
            word |= (uint64_t)at[i] << (8 * i);
        hash = service_mix(hash, word);
    }
    return service_hash_end(hash);
}

static inline int64_t service_hash_integer(int64_t value)
{
    return service_hash_end(service_mix(UINT64_C(0x9e3779b97f4a7c15) ^ 8, (uint64_t)value));
}

/* string_to_int(): an optional minus sign and digits; false for anything else, and for numbers beyond an int64_t. */
static inline bool service_to_integer(struct service_text text, int64_t *value)
{
    bool negative = text.length > 0 && text.at[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, sum = 0;

    if (text.length <= negative)
        return false;
    for (uint32_t i = negative; i < text.length; i++) {
        uint64_t digit = (uint64_t)text.at[i] - '0';

        if (digit > 9 || sum > (limit - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

/* int_to_string(): into at most 20 bytes; how many. */
static inline uint32_t service_to_text(int64_t value, uint8_t *out)
{
    uint8_t digits[20];
    uint32_t count = 0, length = 0;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do
        digits[count++] = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        out[length++] = '-';
    while (count)
        out[length++] = digits[--count];
    return length;
}

/* Copies the bytes of a string to where `to` points, which is moved on; the string is the copy then. */
static inline void service_move_text(struct service_text *text, uint8_t **to)
{
    if (text->length)
        memcpy(*to, text->at, text->length);
    text->at = *to;
    *to += text->length;
}

/* Integers of a message. */
static inline uint64_t service_load(const uint8_t *at, unsigned size, bool big)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)at[i] << (8 * (big ? size - 1 - i : i));
    return value;
}

static inline void service_store(uint8_t *at, uint64_t value, unsigned size, bool big)
{
    for (unsigned i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> (8 * (big ? size - 1 - i : i)));
}

#endif
