/* The mapping of addresses: prefix-preserving for IP, a keyed hash for link addresses. */
#ifndef ANONYMISE_ADDRESS_H
#define ANONYMISE_ADDRESS_H

#include "siphash.h"

enum { ANONYMISE_CACHE = 4096 };

struct anonymise_cached { uint8_t from[16], to[16]; uint8_t size; };   /* size 0: empty */

struct anonymiser {
    uint8_t key[16];
    struct anonymise_cached cache[ANONYMISE_CACHE];   /* of IP addresses, by their hash */
    bool zero_macs, keep_payload;
};

/* The key that a text gives: two hashes of it, by keys that differ in a byte. */
static inline void anonymise_key(struct anonymiser *with, const char *text, size_t length) {
    for (unsigned half = 0; half < 2; half++) {
        uint8_t by[16] = "sluice-anonymis";
        by[15] = (uint8_t)half;
        uint64_t hash = siphash(by, (const uint8_t *)text, length);
        sl_store_be32(with->key + 8 * half, hash >> 32);
        sl_store_be32(with->key + 8 * half + 4, hash);
    }
}

/* Replaces an IP address of `size` bytes, 4 or 16. Bit i changes if a keyed hash of the i bits before it is odd, so that what
 * happens to a bit depends on the prefix alone. */
static inline void anonymise_ip(struct anonymiser *with, uint8_t *at, unsigned size) {
    struct anonymise_cached *cached = &with->cache[siphash(with->key, at, size) % ANONYMISE_CACHE];
    if (cached->size == size && memcmp(cached->from, at, size) == 0) {
        memcpy(at, cached->to, size);
        return;
    }
    uint8_t prefix[18] = {0}, to[16];
    memcpy(to, at, size);
    prefix[16] = (uint8_t)size;
    for (unsigned i = 0; i < 8 * size; i++) {
        prefix[17] = (uint8_t)i;
        uint8_t bit = (uint8_t)(0x80 >> i % 8);
        if (siphash(with->key, prefix, sizeof prefix) & 1)
            to[i / 8] ^= bit;
        prefix[i / 8] |= at[i / 8] & bit;
    }
    memcpy(cached->from, at, size);
    memcpy(cached->to, to, size);
    cached->size = (uint8_t)size;
    memcpy(at, to, size);
}

/* Replaces a link address. That of all hosts, and one that is all zero, say nothing of a host; of others the bit of groups
 * remains, and the bit of local addresses is set. */
static inline void anonymise_mac(const struct anonymiser *with, uint8_t *at, unsigned size) {
    static const uint8_t none[8], all[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    if (size > 8 || memcmp(at, none, size) == 0 || memcmp(at, all, size) == 0)
        return;
    uint8_t text[9] = {0}, group = at[0] & 1;
    memcpy(text, at, size);
    text[8] = (uint8_t)size;
    uint64_t hash = with->zero_macs ? 0 : siphash(with->key, text, sizeof text);
    for (unsigned i = 0; i < size; i++)
        at[i] = (uint8_t)(hash >> 8 * i);
    at[0] = (uint8_t)((at[0] & 0xfc) | 2 | group);
}

#endif
