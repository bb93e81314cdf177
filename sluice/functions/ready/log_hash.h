/* Hashes of short texts for community-id, JA3 and JA4, computed by OpenSSL's libcrypto. */
#ifndef LOG_HASH_H
#define LOG_HASH_H

#include "core/bytes.h"
#include "digest.h"

/* A kind of hash, with the memory for one, which is used again and again. */
struct log_hash_kind { const void *kind; void *context; };

struct log_hashes {
    void *library;
    int (*begin)(void *, const void *, void *);
    int (*add)(void *, const void *, size_t);
    int (*end)(void *, unsigned char *, unsigned *);
    void (*drop)(void *);      /* of a context */
    struct log_hash_kind md5, sha1, sha256;   /* `kind`: NULL if the library has none, or forbids it */
    void (*release)(void *);   /* NULL where hashes are not fetched (before OpenSSL 3) */
};

/* Finds a hash. With OpenSSL 3 it is fetched once, because otherwise every use looks it up by name. */
SL_COLD struct log_hash_kind log_hash_find(void *library, const char *name, const char *symbol) {
    const void *(*fetch)(void *, const char *, const char *);
    const void *(*kind)(void);
    void *(*context)(void);
    struct log_hash_kind found = {NULL, NULL};
    *(void **)&fetch = dlsym(library, "EVP_MD_fetch");
    *(void **)&kind = dlsym(library, symbol);
    *(void **)&context = dlsym(library, "EVP_MD_CTX_new");
    found.context = context ? context() : NULL;
    if (found.context)
        found.kind = fetch ? fetch(NULL, name, NULL) : kind ? kind() : NULL;
    return found;
}

/* Returns false if libcrypto is missing, or has no SHA-1 or SHA-256 (SL_DIGEST_ADVICE has the advice). Without MD5,
 * for example in FIPS mode, there is no JA3. */
SL_COLD bool log_hashes_open(struct log_hashes *hashes) {
    const char *const names[] = {SL_DIGEST_LIBRARIES};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !hashes->library; i++)
        hashes->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!hashes->library)
        return false;
    *(void **)&hashes->begin = dlsym(hashes->library, "EVP_DigestInit_ex");
    *(void **)&hashes->add = dlsym(hashes->library, "EVP_DigestUpdate");
    *(void **)&hashes->end = dlsym(hashes->library, "EVP_DigestFinal_ex");
    *(void **)&hashes->drop = dlsym(hashes->library, "EVP_MD_CTX_free");
    hashes->md5 = log_hash_find(hashes->library, "MD5", "EVP_md5");
    hashes->sha1 = log_hash_find(hashes->library, "SHA1", "EVP_sha1");
    hashes->sha256 = log_hash_find(hashes->library, "SHA256", "EVP_sha256");
    if (dlsym(hashes->library, "EVP_MD_fetch"))
        *(void **)&hashes->release = dlsym(hashes->library, "EVP_MD_free");
    return hashes->begin && hashes->add && hashes->end && hashes->drop && hashes->sha1.kind && hashes->sha256.kind;
}

/* Releases the fetched algorithms. */
SL_COLD void log_hashes_close(struct log_hashes *hashes) {
    struct log_hash_kind *const kinds[] = {&hashes->md5, &hashes->sha1, &hashes->sha256};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (hashes->drop)
            hashes->drop(kinds[i]->context);         /* OpenSSL accepts NULL */
        if (hashes->release)
            hashes->release((void *)kinds[i]->kind);
        *kinds[i] = (struct log_hash_kind){NULL, NULL};
    }
}

enum { LOG_HASH_MOST = 32 };

static inline bool log_hash(const struct log_hashes *hashes, const struct log_hash_kind *kind, const void *at, size_t length,
                            uint8_t out[LOG_HASH_MOST]) {
    return kind->kind && hashes->begin(kind->context, kind->kind, NULL) && hashes->add(kind->context, at, length) &&
           hashes->end(kind->context, out, NULL);
}

#endif
