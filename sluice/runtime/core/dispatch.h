/* Chooses the worker of a packet: a keyed hash of what all its instances have in common, equal for both directions.
 *
 * The hashes of the two halves of a key are added, so the result does not depend on which side sends. They are keyed
 * like the hashes of tables, but with a secret of their own: otherwise a sender who can compute them could direct all
 * packets to one worker. */
#ifndef SL_DISPATCH_H
#define SL_DISPATCH_H

#include "core/path_keys.h"
#include "core/table.h"

/* The secret of the hash. */
static inline uint64_t sl_dispatch_secret(uint64_t seed) {
    seed = ~seed;   /* tables derive their secrets from the seed itself */
    return sl_splitmix(&seed);
}

/* Adds a number to the hash of a half. */
static inline uint64_t sl_dispatch_number(uint64_t hash, uint64_t secret, uint64_t value) {
    return sl_fold(value ^ secret, hash ^ UINT64_C(0x9e3779b97f4a7c15));
}

/* Adds bytes to the hash of a half. */
static inline uint64_t sl_dispatch_bytes(uint64_t hash, uint64_t secret, sl_bytes bytes) {
    for (uint32_t at = 0; at < bytes.captured; at += 8)
        hash = sl_dispatch_number(hash, secret, sl_key_word(bytes, at, sl_min(8, bytes.captured - at)));
    return hash;
}

/* Adds a key to those of a packet's path: `sum` is that of its halves' hashes, `space` tells apart what is not the same key. */
static inline void sl_path_key(struct sl_path_keys *keys, enum sl_key_use use, uint64_t secret, uint64_t space, uint64_t sum) {
    uint64_t hash = sl_fold(sum ^ secret, UINT64_C(0x94d049bb133111eb) ^ space << 8);
    for (unsigned i = 0; i < keys->count; i++)
        if (keys->hash[i] == hash) {   /* it is that of two layers */
            keys->use[i] = use < keys->use[i] ? use : keys->use[i];
            return;
        }
    if (keys->count == SL_PATH_KEYS_MOST) {
        keys->left_out++;
        return;
    }
    keys->hash[keys->count] = hash;
    keys->use[keys->count++] = use;
}

/* The number of the worker, below `workers`, for the sum of the halves' hashes. A product replaces the division. */
static inline unsigned sl_dispatch_worker(uint64_t sum, uint64_t secret, unsigned workers) {
    uint64_t mixed = sl_fold(sum ^ secret, UINT64_C(0xbf58476d1ce4e5b9));
    return (unsigned)((mixed & UINT32_MAX) * workers >> 32);
}

#endif
