/* Byte slices, and the arithmetic of a description's expressions.
 *
 * All functions here are total: their arguments come from packets, so no argument may cause undefined behaviour. */
#ifndef SL_BYTES_H
#define SL_BYTES_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ && __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__
#error "the byte order of this machine is not known"
#endif

#define SL_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define SL_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
/* Code that packets seldom need: not inlined, to save the callers' instruction cache. */
#define SL_COLD static __attribute__((noinline, unused))
/* A few instructions that most packets execute: always inlined, however long the caller already is. */
#define SL_INLINED static inline __attribute__((always_inline))
/* gcc considers a function that only prefetches free of effects, and removes its calls unless they are inlined
 * first. */
#define SL_PREFETCH SL_INLINED

/* Prefetches the cache line of an address, which need not be mapped. `near`: into the first-level cache; otherwise only
 * into the second-level cache. */
SL_PREFETCH void sl_prefetch(uintptr_t at, bool near) {
    if (near)
        __builtin_prefetch((const void *)at);
    else
        __builtin_prefetch((const void *)at, 0, 2);
}

/* The same for a line that will be written. */
SL_PREFETCH void sl_prefetch_written(uintptr_t at, bool near) {
    if (near)
        __builtin_prefetch((const void *)at, 1);
    else
        sl_prefetch(at, false);   /* gcc emits no instruction that prefetches for writing into the second level */
}

static inline uint64_t sl_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t sl_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The bytes [lo, hi) of b, both captured and on the wire. A part beyond the end of b is clipped. lo > hi gives an empty
 * slice. */
SL_INLINED sl_bytes sl_bytes_slice(sl_bytes b, uint64_t lo, uint64_t hi) {
    hi = sl_min(hi, b.length);
    lo = sl_min(lo, hi);
    uint32_t from = (uint32_t)sl_min(lo, b.captured);
    uint32_t to = (uint32_t)sl_min(hi, b.captured);
    /* NULL + 0 is undefined in C. */
    return (sl_bytes){from ? b.at + from : b.at, to - from, (uint32_t)(hi - lo)};
}

/* The bytes of b from `lo` on. Fast path: they were captured. */
SL_INLINED sl_bytes sl_bytes_after(sl_bytes b, uint64_t lo) {
    if (SL_LIKELY(lo && lo <= b.captured))
        return (sl_bytes){b.at + lo, b.captured - (uint32_t)lo, b.length - (uint32_t)lo};
    return sl_bytes_slice(b, lo, UINT64_MAX);
}

/* The byte of b at a position; 0 where no byte was captured. Conditions have it in both operands of `|`, for which clang demands
 * that it has no effects. */
SL_INLINED __attribute__((pure)) uint64_t sl_bytes_octet(sl_bytes b, uint64_t at) { return at < b.captured ? b.at[at] : 0; }

/* --- loads: from any alignment; the caller has checked that the bytes exist --- */

static inline uint64_t sl_load_be16(const uint8_t *at) {
    uint16_t x;
    memcpy(&x, at, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(x) : x;
}

static inline uint64_t sl_load_be32(const uint8_t *at) {
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(x) : x;
}

static inline uint64_t sl_load_be64(const uint8_t *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(x) : x;
}

static inline uint64_t sl_load_le16(const uint8_t *at) {
    uint16_t x;
    memcpy(&x, at, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap16(x);
}

static inline uint64_t sl_load_le32(const uint8_t *at) {
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap32(x);
}

static inline uint64_t sl_load_le64(const uint8_t *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? x : __builtin_bswap64(x);
}

static inline void sl_store_be16(uint8_t *at, uint64_t x) {
    at[0] = (uint8_t)(x >> 8);
    at[1] = (uint8_t)x;
}

static inline void sl_store_be32(uint8_t *at, uint64_t x) {
    sl_store_be16(at, x >> 16);
    sl_store_be16(at + 2, x);
}

/* n bytes, the first the most significant. n is 1 to 8; 0 gives 0. Where speed matters, n is a literal, so that only
 * one case remains. No byte beyond the n is read. */
static inline uint64_t sl_load_be(const uint8_t *at, unsigned n) {
    switch (n) {
    case 1: return at[0];
    case 2: return sl_load_be16(at);
    case 3: return sl_load_be16(at) << 8 | at[2];
    case 4: return sl_load_be32(at);
    case 5: return sl_load_be32(at) << 8 | at[4];
    case 6: return sl_load_be32(at) << 16 | sl_load_be16(at + 4);
    case 7: return sl_load_be32(at) << 24 | sl_load_be16(at + 4) << 8 | at[6];
    case 8: return sl_load_be64(at);
    default: return 0;
    }
}

/* The same with the first byte the least significant. The powers of two have their own cases because gcc does not
 * recognise that a little-endian machine need not swap these bytes. */
static inline uint64_t sl_load_le(const uint8_t *at, unsigned n) {
    switch (n) {
    case 1: return at[0];
    case 2: return sl_load_le16(at);
    case 4: return sl_load_le32(at);
    case 8: return sl_load_le64(at);
    default: return n == 0 || n > 8 ? 0 : __builtin_bswap64(sl_load_be(at, n)) >> (64 - 8 * n);
    }
}

/* A variable-length integer (RFC 9000, 16) of n bytes (1, 2, 4 or 8), without the two bits that encode n. */
static inline uint64_t sl_load_varint(const uint8_t *at, uint64_t n) {
    switch (n) {
    case 1: return at[0] & 0x3f;
    case 2: return sl_load_be16(at) & 0x3fff;
    case 4: return sl_load_be32(at) & 0x3fffffff;
    case 8: return sl_load_be64(at) & UINT64_C(0x3fffffffffffffff);
    default: return 0;
    }
}

/* --- numbers --- */

/* The n low bits set, n from 0 to 64. */
static inline uint64_t sl_mask(unsigned n) { return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1; }

static inline uint64_t sl_shift_left(uint64_t x, uint64_t n) { return n >= 64 ? 0 : x << n; }
static inline uint64_t sl_shift_right(uint64_t x, uint64_t n) { return n >= 64 ? 0 : x >> n; }
static inline uint64_t sl_divide(uint64_t x, uint64_t y) { return y ? x / y : 0; }
static inline uint64_t sl_modulo(uint64_t x, uint64_t y) { return y ? x % y : 0; }

/* Is a before b among serial numbers of `width` bits (1 to 64)? RFC 1982, 3.2. Of two numbers that are exactly half the
 * circle apart, neither is less than the other. One comparison, for the reason given below. */
static inline bool sl_serial_less(uint64_t a, uint64_t b, unsigned width) {
    return ((b - a - 1) & sl_mask(width)) < (UINT64_C(1) << (width - 1)) - 1;
}

/* Is a before b or equal to it? Both have at most `width` bits. One comparison: no branch predictor can predict whether
 * an ACK repeats the last one or is newer. */
static inline bool sl_serial_at_most(uint64_t a, uint64_t b, unsigned width) {
    return ((b - a) & sl_mask(width)) < UINT64_C(1) << (width - 1);
}

/* The one's complement sum (RFC 1071) of n bytes and `initial`, folded to 16 bits, not inverted: 0xffff for a correct
 * IPv4 header. An odd last byte counts as if a zero followed it. `initial` is a sum of 16-bit numbers (of a pseudo
 * header, or the result of this function for an even number of preceding bytes). */
static inline uint16_t sl_internet_checksum(const uint8_t *at, size_t n, uint64_t initial) {
    uint64_t sum = 0;
    /* RFC 1071, 2(B): the sum does not depend on the byte order, so it is swapped once, at the end. */
    for (; n >= 4; at += 4, n -= 4) {
        uint32_t x;
        memcpy(&x, at, sizeof x);
        sum += x;
    }
    if (n) {
        uint8_t rest[4] = {0};
        uint32_t x;
        memcpy(rest, at, n);
        memcpy(&x, rest, sizeof x);
        sum += x;
    }
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        sum = __builtin_bswap16((uint16_t)sum);
    while (initial >> 16)
        initial = (initial & 0xffff) + (initial >> 16);
    sum += initial;
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

#endif
