/* For which worker a packet is: the keyed hash of what its instances have in common, the same for both directions.
 *
 * The hashes of the two halves of a key are added, so that it does not matter who sends. They are keyed as those of tables
 * are, by a secret of their own: else who knows them could send all packets to one worker. */
#ifndef SL_DISPATCH_H
#define SL_DISPATCH_H

#include "core/table.h"

/* The hash that a half begins with. */
static inline uint64_t sl_dispatch_secret(uint64_t seed) {
    seed = ~seed;   /* what tables make of the seed is another number */
    return sl_splitmix(&seed);
}

/* The hash of a half with one number more. */
static inline uint64_t sl_dispatch_number(uint64_t hash, uint64_t secret, uint64_t value) {
    return sl_fold(value ^ secret, hash ^ UINT64_C(0x9e3779b97f4a7c15));
}

/* The hash of a half with bytes more. */
static inline uint64_t sl_dispatch_bytes(uint64_t hash, uint64_t secret, sl_bytes bytes) {
    for (uint32_t at = 0; at < bytes.captured; at += 8)
        hash = sl_dispatch_number(hash, secret, sl_key_word(bytes, at, sl_min(8, bytes.captured - at)));
    return hash;
}

/* The number of a worker below `workers`, by the sum of the halves. A product in place of a division. */
static inline unsigned sl_dispatch_worker(uint64_t sum, uint64_t secret, unsigned workers) {
    uint64_t mixed = sl_fold(sum ^ secret, UINT64_C(0xbf58476d1ce4e5b9));
    return (unsigned)((mixed & UINT32_MAX) * workers >> 32);
}

#endif
