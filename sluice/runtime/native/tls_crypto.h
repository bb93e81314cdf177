/* What of OpenSSL's libcrypto opens records of TLS and packets of QUIC: the ciphers of TLS 1.3 (RFC 8446, B.4), AES-CBC of
 * TLS 1.2, and keyed hashes, with which keys are derived from secrets (RFC 8446, 7.1) and records of AES-CBC are authenticated.
 *
 * The library is loaded when a box is opened, by the stable part of the EVP interface, which 1.1 and 3 share: a stack
 * or function compiles and runs without it, and gives the reason why nothing is opened. In 3, an algorithm is fetched once,
 * because otherwise each use looks it up by name, under a lock. */
#ifndef SL_TLS_CRYPTO_H
#define SL_TLS_CRYPTO_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { TLS_KEY_MOST = 32, TLS_IV = 12, TLS_TAG = 16, KEY_SECRET_MOST = 48 };
enum { EVP_GET_TAG_LENGTH = TLS_TAG, EVP_SET_IV_LENGTH = 9, EVP_SET_TAG = 0x11 };   /* EVP_CTRL_AEAD_..., the same in all versions */

enum tls_kind {   /* of a cipher */
    TLS_AEAD_UNKNOWN, TLS_AES_128_GCM, TLS_AES_256_GCM, TLS_CHACHA20_POLY1305, TLS_AES_128_CCM, TLS_AEADS,
    TLS_AES_256_CCM = TLS_AEADS, TLS_AES_128_CBC, TLS_AES_256_CBC, TLS_KINDS   /* of TLS alone */
};

struct tls_crypto {
    void *library;
    void *(*context_new)(void);
    void (*context_free)(void *);
    int (*decrypt_init)(void *, const void *, void *, const uint8_t *, const uint8_t *);
    int (*decrypt_update)(void *, uint8_t *, int *, const uint8_t *, int);
    int (*decrypt_final)(void *, uint8_t *, int *);
    int (*control)(void *, int, int, void *);
    int (*padding)(void *, int);
    void *(*hmac_new)(void);
    void (*hmac_free)(void *);
    int (*hmac_init)(void *, const void *, int, const void *, void *);
    int (*hmac_update)(void *, const uint8_t *, size_t);
    int (*hmac_final)(void *, uint8_t *, unsigned *);
    void (*hash_free)(void *);       /* of 3 alone */
    void *sha1, *sha256, *sha384, *hmac;   /* `sha1`: NULL if it is disabled. `hmac`: a context, keyed with the secret that is expanded */
    void *cipher[TLS_KINDS];         /* contexts, which get a key for each packet or record */
};

struct key_secret {
    uint8_t length;                 /* 32 or 48; 0: not known */
    uint8_t bytes[KEY_SECRET_MOST];
};

static inline void *tls_symbol(struct tls_crypto *crypto, const char *name) {
    return crypto->library ? dlsym(crypto->library, name) : NULL;
}

/* The names of the library, the newest first. */
#ifndef TLS_CRYPTO_LIBRARIES
#define TLS_CRYPTO_LIBRARIES "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"
#endif

/* A hash: fetched where that is possible. */
static void *tls_hash_algorithm(struct tls_crypto *crypto, const char *name, const char *symbol) {
    void *(*fetch)(void *, const char *, const char *);
    void *(*algorithm)(void);
    *(void **)&fetch = tls_symbol(crypto, "EVP_MD_fetch");
    if (fetch && crypto->hash_free)
        return fetch(NULL, name, NULL);
    *(void **)&algorithm = tls_symbol(crypto, symbol);
    return algorithm ? algorithm() : NULL;
}

/* Returns false without a library that has all functions: then nothing is opened. */
static bool tls_crypto_open(struct tls_crypto *crypto) {
    static const char *const names[] = {TLS_CRYPTO_LIBRARIES};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !crypto->library; i++)
        crypto->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    *(void **)&crypto->context_new = tls_symbol(crypto, "EVP_CIPHER_CTX_new");
    *(void **)&crypto->context_free = tls_symbol(crypto, "EVP_CIPHER_CTX_free");
    *(void **)&crypto->decrypt_init = tls_symbol(crypto, "EVP_DecryptInit_ex");
    *(void **)&crypto->decrypt_update = tls_symbol(crypto, "EVP_DecryptUpdate");
    *(void **)&crypto->decrypt_final = tls_symbol(crypto, "EVP_DecryptFinal_ex");
    *(void **)&crypto->control = tls_symbol(crypto, "EVP_CIPHER_CTX_ctrl");
    *(void **)&crypto->padding = tls_symbol(crypto, "EVP_CIPHER_CTX_set_padding");
    *(void **)&crypto->hmac_new = tls_symbol(crypto, "HMAC_CTX_new");
    *(void **)&crypto->hmac_free = tls_symbol(crypto, "HMAC_CTX_free");
    *(void **)&crypto->hmac_init = tls_symbol(crypto, "HMAC_Init_ex");
    *(void **)&crypto->hmac_update = tls_symbol(crypto, "HMAC_Update");
    *(void **)&crypto->hmac_final = tls_symbol(crypto, "HMAC_Final");
    *(void **)&crypto->hash_free = tls_symbol(crypto, "EVP_MD_free");
    static const char *const ciphers[] = {NULL, "EVP_aes_128_gcm", "EVP_aes_256_gcm", "EVP_chacha20_poly1305",
                                          "EVP_aes_128_ccm", "EVP_aes_256_ccm", "EVP_aes_128_cbc", "EVP_aes_256_cbc"};
    bool all = crypto->context_new && crypto->context_free && crypto->decrypt_init && crypto->decrypt_update &&
               crypto->decrypt_final && crypto->control && crypto->padding && crypto->hmac_new && crypto->hmac_free && crypto->hmac_init &&
               crypto->hmac_update && crypto->hmac_final;
    crypto->sha1 = tls_hash_algorithm(crypto, "SHA1", "EVP_sha1");
    crypto->sha256 = tls_hash_algorithm(crypto, "SHA2-256", "EVP_sha256");
    crypto->sha384 = tls_hash_algorithm(crypto, "SHA2-384", "EVP_sha384");
    crypto->hmac = all ? crypto->hmac_new() : NULL;
    all = all && crypto->sha256 && crypto->sha384 && crypto->hmac;
    for (unsigned i = 1; i < TLS_KINDS && all; i++) {
        const void *(*algorithm)(void);
        *(void **)&algorithm = tls_symbol(crypto, ciphers[i]);
        crypto->cipher[i] = crypto->context_new();
        all = crypto->cipher[i] && algorithm && crypto->decrypt_init(crypto->cipher[i], algorithm(), NULL, NULL, NULL) == 1;
    }
    return all;
}

static void tls_crypto_close(struct tls_crypto *crypto) {
    for (unsigned i = 1; i < TLS_KINDS && crypto->context_free; i++)
        crypto->context_free(crypto->cipher[i]);   /* of NULL it does nothing */
    if (crypto->hmac)
        crypto->hmac_free(crypto->hmac);
    if (crypto->hash_free) {
        crypto->hash_free(crypto->sha1);
        crypto->hash_free(crypto->sha256);
        crypto->hash_free(crypto->sha384);
    }
    if (crypto->library)
        dlclose(crypto->library);
    *crypto = (struct tls_crypto){0};
}

/* Decrypts `size` bytes with AES-CCM into `out`, and tests that they and those of `with` are authentic. EVP has the lengths
 * first, and one call for all bytes. */
static inline bool tls_ccm_open(struct tls_crypto *crypto, enum tls_kind kind, const uint8_t *key, const uint8_t *nonce,
                                uint8_t *tag, int tag_size, const uint8_t *with, int with_size, const uint8_t *at,
                                uint32_t size, uint8_t *out) {
    void *context = crypto->cipher[kind];
    int more = 0, some = 0;
    return crypto->control(context, EVP_SET_IV_LENGTH, TLS_IV, NULL) == 1 &&
           crypto->control(context, EVP_SET_TAG, tag_size, tag) == 1 &&
           crypto->decrypt_init(context, NULL, NULL, key, nonce) == 1 &&
           crypto->decrypt_update(context, NULL, &more, NULL, (int)size) == 1 &&
           crypto->decrypt_update(context, NULL, &more, with, with_size) == 1 &&
           crypto->decrypt_update(context, out, &some, at, (int)size) == 1;
}

/* The following hashes use this key. */
static bool tls_hash_with(struct tls_crypto *crypto, const void *hash, const uint8_t *key, uint8_t length) {
    return crypto->hmac_init(crypto->hmac, key, length, hash, NULL) == 1;
}

/* Writes the keyed hash of `data`, and returns its length; 0 on failure. `out` has room for the longest hash. */
static unsigned tls_hashed(struct tls_crypto *crypto, const uint8_t *data, size_t length, uint8_t *out) {
    unsigned size = 0;
    bool hashed = crypto->hmac_init(crypto->hmac, NULL, 0, NULL, NULL) == 1 &&   /* the same key, from the beginning */
                  crypto->hmac_update(crypto->hmac, data, length) == 1 && crypto->hmac_final(crypto->hmac, out, &size) == 1;
    return hashed ? size : 0;
}

/* The following calls of tls_expand expand this secret. */
static bool tls_expand_from(struct tls_crypto *crypto, const struct key_secret *secret) {
    return tls_hash_with(crypto, secret->length == 48 ? crypto->sha384 : crypto->sha256, secret->bytes, secret->length);
}

/* HKDF-Expand-Label (RFC 8446, 7.1) without context, of at most one hash's length, so that one block is enough. */
static bool tls_expand(struct tls_crypto *crypto, const char *label, uint8_t *out, uint8_t length) {
    uint8_t info[64], block[64];
    size_t text = strlen(label), at = 0;
    info[at++] = 0;
    info[at++] = length;
    info[at++] = (uint8_t)(6 + text);
    memcpy(info + at, "tls13 ", 6);
    memcpy(info + at + 6, label, text);
    at += 6 + text;
    info[at++] = 0;
    info[at++] = 1;
    if (tls_hashed(crypto, info, at, block) < length)
        return false;
    memcpy(out, block, length);
    return true;
}

#endif
