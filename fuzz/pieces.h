/* For harnesses of streams: bytes in pieces, and what happens as a hash, which must not depend on the pieces. */
#ifndef FUZZ_PIECES_H
#define FUZZ_PIECES_H

#include "expect.h"

#include <string.h>

/* Adds bytes to a hash (FNV-1a). */
static inline uint64_t hash_more(uint64_t hash, const void *at, size_t length) {
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const uint8_t *)at)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Gives bytes in pieces that lie in memory of their own, so that a sanitizer sees what is read beyond them. */
static inline void give_pieces(const uint8_t *at, size_t length, size_t piece,
                               void (*take)(void *user, const uint8_t *at, uint32_t length), void *user) {
    for (size_t done = 0; done < length;) {
        size_t size = piece < length - done ? piece : length - done;
        uint8_t *bytes = malloc(size);
        EXPECT(bytes);
        memcpy(bytes, at + done, size);
        take(user, bytes, (uint32_t)size);
        free(bytes);
        done += size;
    }
}

#endif
