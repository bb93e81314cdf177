/* Hashes of short texts for community-id, JA3 and JA4, computed by OpenSSL's libcrypto. */
#ifndef LOG_HASH_H
#define LOG_HASH_H

#include "core/bytes.h"
#include "digest.h"

struct log_hashes {
    void *library;
    int (*digest)(const void *, size_t, unsigned char *, unsigned *, const void *, void *);
    const void *md5, *sha1, *sha256;
    void (*release)(void *);   /* NULL where hashes are not fetched (before OpenSSL 3) */
};

/* Finds a hash; NULL if there is none. With OpenSSL 3 it is fetched once, because otherwise every use looks it up by
 * name. */
SL_COLD const void *log_hash_find(void *library, const char *name, const char *symbol) {
    const void *(*fetch)(void *, const char *, const char *);
    const void *(*kind)(void);
    *(void **)&fetch = dlsym(library, "EVP_MD_fetch");
    if (fetch)
        return fetch(NULL, name, NULL);
    *(void **)&kind = dlsym(library, symbol);
    return kind ? kind() : NULL;
}

/* Returns false if libcrypto is missing, or has no SHA-1 or SHA-256 (SL_DIGEST_ADVICE has the advice). Without MD5,
 * for example in FIPS mode, there is no JA3. */
SL_COLD bool log_hashes_open(struct log_hashes *hashes) {
    const char *const names[] = {SL_DIGEST_LIBRARIES};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !hashes->library; i++)
        hashes->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!hashes->library)
        return false;
    *(void **)&hashes->digest = dlsym(hashes->library, "EVP_Digest");
    hashes->md5 = log_hash_find(hashes->library, "MD5", "EVP_md5");
    hashes->sha1 = log_hash_find(hashes->library, "SHA1", "EVP_sha1");
    hashes->sha256 = log_hash_find(hashes->library, "SHA256", "EVP_sha256");
    if (dlsym(hashes->library, "EVP_MD_fetch"))
        *(void **)&hashes->release = dlsym(hashes->library, "EVP_MD_free");
    return hashes->digest && hashes->sha1 && hashes->sha256;
}

/* Releases the fetched algorithms. */
SL_COLD void log_hashes_close(struct log_hashes *hashes) {
    const void *const kinds[] = {hashes->md5, hashes->sha1, hashes->sha256};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds && hashes->release; i++)
        hashes->release((void *)kinds[i]);   /* OpenSSL accepts NULL */
    hashes->release = NULL;
}

enum { LOG_HASH_MOST = 32 };

static inline bool log_hash(const struct log_hashes *hashes, const void *kind, const void *at, size_t length,
                            uint8_t out[LOG_HASH_MOST]) {
    return kind && hashes->digest(at, length, out, NULL, kind, NULL);
}

#endif
