/* The mapping of addresses: prefix-preserving for IP, a keyed hash for link addresses. */
#ifndef ANONYMISE_ADDRESS_H
#define ANONYMISE_ADDRESS_H

#include "core/siphash.h"

enum { ANONYMISE_CACHE = 4096, ANONYMISE_PREFIX = 8 };

struct anonymise_cached { uint8_t from[16], to[16]; uint8_t size; };   /* size 0: empty */

/* A prefix of whole bytes, and the bits of it that change. */
struct anonymise_prefix { uint8_t from[ANONYMISE_PREFIX], flips[ANONYMISE_PREFIX]; uint8_t bytes, size; };   /* of an address of `size` bytes */

struct anonymiser {
    uint8_t key[16];
    struct anonymise_cached cache[ANONYMISE_CACHE];   /* of IP addresses, by their hash */
    struct anonymise_prefix prefix[ANONYMISE_CACHE];  /* by theirs: most new addresses have a known network */
    bool zero_macs, keep_payload;
};

/* The key that a text gives: two hashes of it, by keys that differ in a byte. */
static inline void anonymise_key(struct anonymiser *with, const char *text, size_t length) {
    for (unsigned half = 0; half < 2; half++) {
        uint8_t by[16] = "sluice-anonymis";
        by[15] = (uint8_t)half;
        uint64_t hash = sl_siphash(by, (const uint8_t *)text, length);
        sl_store_be32(with->key + 8 * half, hash >> 32);
        sl_store_be32(with->key + 8 * half + 4, hash);
    }
}

/* The place of bytes, at most 16, in a cache. */
static inline uint32_t anonymise_place(const struct anonymiser *with, const uint8_t *at, unsigned length) {
    uint8_t bytes[16] = {0};
    uint64_t word[2], key[2];
    memcpy(bytes, at, length);
    memcpy(word, bytes, sizeof word);
    memcpy(key, with->key, sizeof key);
    uint64_t hash = (word[0] ^ key[0]) * (key[1] | 1) + length;
    hash = ((hash ^ hash >> 32) + word[1]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 40) % ANONYMISE_CACHE;
}

/* Adds the bits of bytes [from, to) that change. Bit i does if a keyed hash of the i bits before it is odd, so that what happens
 * to a bit depends on the prefix alone. */
static inline void anonymise_bits(const struct anonymiser *with, const uint8_t *at, unsigned size, unsigned from, unsigned to, uint8_t *flips) {
    uint8_t prefix[18] = {0};
    memcpy(prefix, at, from);
    prefix[16] = (uint8_t)size;
    for (unsigned i = 8 * from; i < 8 * to; i++) {
        uint8_t bit = (uint8_t)(0x80 >> i % 8);
        prefix[17] = (uint8_t)i;
        if (sl_siphash(with->key, prefix, sizeof prefix) & 1)
            flips[i / 8] |= bit;
        prefix[i / 8] |= at[i / 8] & bit;
    }
}

/* Sets the bits of an address that change. Those of prefixes of 16 and 24 bits, of IPv6 of 32, 48 and 64, are cached. */
static inline void anonymise_flips(struct anonymiser *with, const uint8_t *at, unsigned size, uint8_t flips[16]) {
    static const uint8_t levels[2][3] = {{2, 3}, {4, 6, 8}};
    const uint8_t *level = levels[size == 16];
    const unsigned count = size == 16 ? 3 : 2;
    struct anonymise_prefix *place[3];
    unsigned known = 0, next = count;
    while (next && !known) {
        unsigned bytes = level[--next];
        struct anonymise_prefix *prefix = place[next] = &with->prefix[anonymise_place(with, at, bytes)];
        if (prefix->bytes != bytes || prefix->size != size || memcmp(prefix->from, at, bytes) != 0)
            continue;
        memcpy(flips, prefix->flips, bytes);
        known = bytes;
        next++;
    }
    for (; next < count; next++) {
        struct anonymise_prefix *prefix = place[next];
        anonymise_bits(with, at, size, known, level[next], flips);
        known = level[next];
        memcpy(prefix->from, at, known);
        memcpy(prefix->flips, flips, known);
        prefix->bytes = (uint8_t)known;
        prefix->size = (uint8_t)size;
    }
    anonymise_bits(with, at, size, known, size, flips);
}

/* Replaces an IP address of `size` bytes, 4 or 16. */
static inline void anonymise_ip(struct anonymiser *with, uint8_t *at, unsigned size) {
    struct anonymise_cached *cached = &with->cache[anonymise_place(with, at, size)];
    if (cached->size == size && memcmp(cached->from, at, size) == 0) {
        memcpy(at, cached->to, size);
        return;
    }
    uint8_t flips[16] = {0};
    anonymise_flips(with, at, size, flips);
    memcpy(cached->from, at, size);
    for (unsigned i = 0; i < size; i++)
        at[i] ^= flips[i];
    memcpy(cached->to, at, size);
    cached->size = (uint8_t)size;
}

/* Replaces a link address. Broadcast and all zero identify no host, and stay; of others the bit of groups
 * remains, and the bit of local addresses is set. */
static inline void anonymise_mac(const struct anonymiser *with, uint8_t *at, unsigned size) {
    static const uint8_t none[8], all[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    if (size > 8 || memcmp(at, none, size) == 0 || memcmp(at, all, size) == 0)
        return;
    uint8_t text[9] = {0}, group = at[0] & 1;
    memcpy(text, at, size);
    text[8] = (uint8_t)size;
    uint64_t hash = with->zero_macs ? 0 : sl_siphash(with->key, text, sizeof text);
    for (unsigned i = 0; i < size; i++)
        at[i] = (uint8_t)(hash >> 8 * i);
    at[0] = (uint8_t)((at[0] & 0xfc) | 2 | group);
}

#endif
