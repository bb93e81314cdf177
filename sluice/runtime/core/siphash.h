/* SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash whose values cannot be predicted without the key. */
#ifndef SL_SIPHASH_H
#define SL_SIPHASH_H

#include "core/bytes.h"

static inline uint64_t sl_siphash_rotate(uint64_t x, unsigned bits) { return x << bits | x >> (64 - bits); }

static inline void sl_siphash_round(uint64_t v[4]) {
    v[0] += v[1]; v[1] = sl_siphash_rotate(v[1], 13) ^ v[0]; v[0] = sl_siphash_rotate(v[0], 32);
    v[2] += v[3]; v[3] = sl_siphash_rotate(v[3], 16) ^ v[2];
    v[0] += v[3]; v[3] = sl_siphash_rotate(v[3], 21) ^ v[0];
    v[2] += v[1]; v[1] = sl_siphash_rotate(v[1], 17) ^ v[2]; v[2] = sl_siphash_rotate(v[2], 32);
}

/* Makes a key of the seed of a box; use: at most 8 characters, so that two uses of the seed have different hashes. */
static inline void sl_siphash_key(uint8_t key[16], uint64_t seed, const char *use) {
    sl_store_be32(key, seed >> 32);
    sl_store_be32(key + 4, seed);
    for (unsigned i = 8; i < 16; i++)
        key[i] = *use ? (uint8_t)*use++ : 0;
}

/* The hash of `length` bytes by a key of 16 bytes. */
static inline uint64_t sl_siphash(const uint8_t key[16], const uint8_t *at, size_t length) {
    uint64_t k0 = sl_load_le64(key), k1 = sl_load_le64(key + 8), last = (uint64_t)length << 56;
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    size_t whole = length & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = sl_load_le64(at + i);
        v[3] ^= word;
        sl_siphash_round(v);
        sl_siphash_round(v);
        v[0] ^= word;
    }
    for (size_t i = whole; i < length; i++)
        last |= (uint64_t)at[i] << 8 * (i - whole);
    v[3] ^= last;
    sl_siphash_round(v);
    sl_siphash_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (unsigned i = 0; i < 4; i++)
        sl_siphash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
