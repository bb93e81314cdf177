/* SHA-256, SHA-1 and MD5 of data that arrives in pieces. They are computed by OpenSSL's libcrypto, which uses the machine's instructions
 * for it. The library is loaded when it is first needed, so that a box without hashes does not depend on it. */
#ifndef SL_DIGEST_H
#define SL_DIGEST_H

#include "core/bytes.h"
#include "function/stored.h"

#include <dlfcn.h>

/* The file names of the library, the newest first. */
#ifndef SL_DIGEST_LIBRARIES
#define SL_DIGEST_LIBRARIES "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"
#endif
#define SL_DIGEST_ADVICE                                                                                   \
    "OpenSSL's libcrypto (libcrypto.so.3, or .1.1), which hashes, cannot be loaded; install it "           \
    "(Debian, Ubuntu: apt install libssl3; Fedora: openssl-libs; Alpine: libcrypto3)"

enum { SL_DIGEST_SIZE = 32 };   /* of SHA-256, the longest */
enum sl_digest_kind { SL_MD5, SL_SHA1, SL_SHA256, SL_DIGEST_KINDS };

/* A hash in progress: MD5_CTX, SHA_CTX or SHA256_CTX of OpenSSL 1.1 and 3. Contexts of its EVP interface could not be stored. */
struct sl_digest { uint32_t word[28]; };

struct sl_digests {
    void *library;
    struct {
        int (*begin)(struct sl_digest *);
        int (*update)(struct sl_digest *, const void *, size_t);
        int (*finish)(unsigned char *, struct sl_digest *);
    } of[SL_DIGEST_KINDS];
};

/* Loads the library. False if there is none with all functions; SL_DIGEST_ADVICE says what to do. */
SL_COLD bool sl_digests_open(struct sl_digests *d) {
    static const char *const names[] = {SL_DIGEST_LIBRARIES};
    static const char *const functions[SL_DIGEST_KINDS][3] = {{"MD5_Init", "MD5_Update", "MD5_Final"},
                                                              {"SHA1_Init", "SHA1_Update", "SHA1_Final"},
                                                              {"SHA256_Init", "SHA256_Update", "SHA256_Final"}};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !d->library; i++)
        d->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bool found = d->library;
    for (unsigned kind = 0; kind < SL_DIGEST_KINDS && found; kind++) {
        *(void **)&d->of[kind].begin = dlsym(d->library, functions[kind][0]);
        *(void **)&d->of[kind].update = dlsym(d->library, functions[kind][1]);
        *(void **)&d->of[kind].finish = dlsym(d->library, functions[kind][2]);
        found = d->of[kind].begin && d->of[kind].update && d->of[kind].finish;
    }
    return found;
}

/* A hash that begins; NULL without memory. The caller frees it. */
static inline struct sl_digest *sl_digest_begin(const struct sl_digests *d, enum sl_digest_kind kind) {
    struct sl_digest *digest = calloc(1, sizeof *digest);
    if (digest && d->of[kind].begin(digest))
        return digest;
    free(digest);
    return NULL;
}

/* Adds bytes to SHA-256, which is NULL until the first ones. False without memory: then it does not cover all of them. */
static inline bool sl_digest_add(const struct sl_digests *d, struct sl_digest **digest, sl_bytes bytes) {
    if (!*digest && !(*digest = sl_digest_begin(d, SL_SHA256)))
        return false;
    return d->of[SL_SHA256].update(*digest, bytes.at, bytes.captured);
}

/* Finishes SHA-256 of the bytes added, or of no bytes, and frees its memory. */
static inline void sl_digest_finish(const struct sl_digests *d, struct sl_digest **digest,
                                    uint8_t out[SL_DIGEST_SIZE]) {
    static const uint8_t nothing[SL_DIGEST_SIZE] = {
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
        0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
    if (!*digest) {
        memcpy(out, nothing, sizeof nothing);
        return;
    }
    d->of[SL_SHA256].finish(out, *digest);
    free(*digest);
    *digest = NULL;
}

/* A hash, or NULL, in the state of a connection. */
static inline void sl_digest_stored(struct sl_stored *stored, struct sl_digest **digest, enum sl_digest_kind kind) {
    static const uint8_t used[SL_DIGEST_KINDS] = {22, 23, 26};   /* the word that counts the bytes of a block that is not full */
    if (!sl_stored_more(stored, *digest != NULL) || !(*digest = sl_stored_block(stored, *digest, sizeof **digest, 0)))
        return;
    stored->failed |= (*digest)->word[used[kind]] >= 64 || (kind == SL_SHA256 && (*digest)->word[27] != SL_DIGEST_SIZE);
}

#endif
