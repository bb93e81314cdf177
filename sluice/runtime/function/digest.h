/* SHA-256 of data that arrives in pieces. It is computed by OpenSSL's libcrypto, which uses the machine's instructions
 * for it. The library is loaded when it is first needed, so that a box without hashes does not depend on it. */
#ifndef SL_DIGEST_H
#define SL_DIGEST_H

#include "core/bytes.h"

#include <dlfcn.h>

/* The file names of the library, the newest first. */
#ifndef SL_DIGEST_LIBRARIES
#define SL_DIGEST_LIBRARIES "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"
#endif
#define SL_DIGEST_ADVICE                                                                                   \
    "OpenSSL's libcrypto (libcrypto.so.3, or .1.1), which hashes, cannot be loaded; install it "           \
    "(Debian, Ubuntu: apt install libssl3; Fedora: openssl-libs; Alpine: libcrypto3)"

enum { SL_DIGEST_SIZE = 32 };

struct sl_digest;        /* a hash in progress; NULL until bytes are added */
struct sl_digest_kind;

/* The stable part of OpenSSL's EVP interface, versions 1.1 and 3. */
struct sl_digests {
    void *library;
    const struct sl_digest_kind *(*sha256)(void);
    struct sl_digest *(*create)(void);
    void (*destroy)(struct sl_digest *);
    int (*begin)(struct sl_digest *, const struct sl_digest_kind *, void *engine);
    int (*update)(struct sl_digest *, const void *, size_t);
    int (*finish)(struct sl_digest *, unsigned char *, unsigned *);
};

/* Loads the library. False if there is none with all functions; SL_DIGEST_ADVICE says what to do. */
SL_COLD bool sl_digests_open(struct sl_digests *d) {
    const char *const names[] = {SL_DIGEST_LIBRARIES};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !d->library; i++)
        d->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        return false;
    *(void **)&d->sha256 = dlsym(d->library, "EVP_sha256");
    *(void **)&d->create = dlsym(d->library, "EVP_MD_CTX_new");
    *(void **)&d->destroy = dlsym(d->library, "EVP_MD_CTX_free");
    *(void **)&d->begin = dlsym(d->library, "EVP_DigestInit_ex");
    *(void **)&d->update = dlsym(d->library, "EVP_DigestUpdate");
    *(void **)&d->finish = dlsym(d->library, "EVP_DigestFinal_ex");
    return d->sha256 && d->create && d->destroy && d->begin && d->update && d->finish;
}

/* Adds bytes to a hash. False without memory: then the hash does not cover all of them. */
static inline bool sl_digest_add(const struct sl_digests *d, struct sl_digest **digest, sl_bytes bytes) {
    if (!*digest && ((*digest = d->create()) == NULL || !d->begin(*digest, d->sha256(), NULL)))
        return false;
    return d->update(*digest, bytes.at, bytes.captured);
}

/* Finishes the hash of the bytes added, or of no bytes, and frees its memory. */
static inline void sl_digest_finish(const struct sl_digests *d, struct sl_digest **digest,
                                    uint8_t out[SL_DIGEST_SIZE]) {
    static const uint8_t nothing[SL_DIGEST_SIZE] = {
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
        0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
    if (!*digest) {
        memcpy(out, nothing, sizeof nothing);
        return;
    }
    d->finish(*digest, out, NULL);
    d->destroy(*digest);
    *digest = NULL;
}

#endif
