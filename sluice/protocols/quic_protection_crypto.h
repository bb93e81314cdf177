/* What of OpenSSL's libcrypto the protection of QUIC packets takes, and the keys that are made with it (RFC 9001, 5).
 *
 * The library is loaded when a box is opened, by the stable part of the EVP interface, which 1.1 and 3 share: a stack
 * that has QUIC among others compiles and runs where it is missing, and says of each packet why it was not opened.
 *
 * The Initial keys of a connection are nine hashes. In 3 each would look for its algorithm by name, under a lock, unless it is
 * fetched before; and a context that stays keyed with a secret hashes the labels of it without making it anew. */
#ifndef QUIC_PROTECTION_CRYPTO_H
#define QUIC_PROTECTION_CRYPTO_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { QUIC_KEY_MOST = 32, QUIC_IV = 12, QUIC_TAG = 16, QUIC_SAMPLE = 16, QUIC_SECRET_MOST = 48 };
enum { EVP_GET_TAG_LENGTH = QUIC_TAG, EVP_SET_TAG = 0x11 };   /* EVP_CTRL_AEAD_SET_TAG, the same number in all versions */

/* The ciphers of TLS 1.3 that QUIC packets are protected with (RFC 9001, 5.3). */
enum quic_cipher { QUIC_UNKNOWN, QUIC_AES_128_GCM, QUIC_AES_256_GCM, QUIC_CHACHA20_POLY1305, QUIC_CIPHERS };

struct quic_crypto {
    void *library;
    void *(*context_new)(void);
    void (*context_free)(void *);
    int (*encrypt_init)(void *, const void *, void *, const uint8_t *, const uint8_t *);
    int (*encrypt_update)(void *, uint8_t *, int *, const uint8_t *, int);
    int (*decrypt_init)(void *, const void *, void *, const uint8_t *, const uint8_t *);
    int (*decrypt_update)(void *, uint8_t *, int *, const uint8_t *, int);
    int (*decrypt_final)(void *, uint8_t *, int *);
    int (*control)(void *, int, int, void *);
    void *(*hmac_new)(void);
    void (*hmac_free)(void *);
    int (*hmac_init)(void *, const void *, int, const void *, void *);
    int (*hmac_update)(void *, const uint8_t *, size_t);
    int (*hmac_final)(void *, uint8_t *, unsigned *);
    void (*hash_free)(void *);       /* of 3 alone */
    void *sha256, *sha384, *hmac;    /* `hmac`: a context, keyed with the secret that is expanded */
    void *aead[QUIC_CIPHERS], *mask[QUIC_CIPHERS];   /* cipher contexts, keyed anew for every packet */
};

/* Keys that protect the packets of one direction at one level. */
struct quic_keys {
    uint8_t cipher;                 /* enum quic_cipher; QUIC_UNKNOWN: there are none */
    uint8_t key[QUIC_KEY_MOST], iv[QUIC_IV], hp[QUIC_KEY_MOST];
};

struct quic_secret {
    uint8_t length;                 /* 32 or 48; 0: not known */
    uint8_t bytes[QUIC_SECRET_MOST];
};

static inline void *quic_symbol(struct quic_crypto *crypto, const char *name) {
    return crypto->library ? dlsym(crypto->library, name) : NULL;
}

/* The names that it has, the newest first. */
#ifndef QUIC_CRYPTO_LIBRARIES
#define QUIC_CRYPTO_LIBRARIES "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"
#endif

/* A hash: fetched where that can be, else what stands for it. */
static void *quic_hash_algorithm(struct quic_crypto *crypto, const char *name, const char *symbol) {
    void *(*fetch)(void *, const char *, const char *);
    void *(*algorithm)(void);
    *(void **)&fetch = quic_symbol(crypto, "EVP_MD_fetch");
    if (fetch && crypto->hash_free)
        return fetch(NULL, name, NULL);
    *(void **)&algorithm = quic_symbol(crypto, symbol);
    return algorithm ? algorithm() : NULL;
}

/* False where there is no such library: then nothing is opened. */
static bool quic_crypto_open(struct quic_crypto *crypto) {
    static const char *const names[] = {QUIC_CRYPTO_LIBRARIES};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !crypto->library; i++)
        crypto->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    *(void **)&crypto->context_new = quic_symbol(crypto, "EVP_CIPHER_CTX_new");
    *(void **)&crypto->context_free = quic_symbol(crypto, "EVP_CIPHER_CTX_free");
    *(void **)&crypto->encrypt_init = quic_symbol(crypto, "EVP_EncryptInit_ex");
    *(void **)&crypto->encrypt_update = quic_symbol(crypto, "EVP_EncryptUpdate");
    *(void **)&crypto->decrypt_init = quic_symbol(crypto, "EVP_DecryptInit_ex");
    *(void **)&crypto->decrypt_update = quic_symbol(crypto, "EVP_DecryptUpdate");
    *(void **)&crypto->decrypt_final = quic_symbol(crypto, "EVP_DecryptFinal_ex");
    *(void **)&crypto->control = quic_symbol(crypto, "EVP_CIPHER_CTX_ctrl");
    *(void **)&crypto->hmac_new = quic_symbol(crypto, "HMAC_CTX_new");
    *(void **)&crypto->hmac_free = quic_symbol(crypto, "HMAC_CTX_free");
    *(void **)&crypto->hmac_init = quic_symbol(crypto, "HMAC_Init_ex");
    *(void **)&crypto->hmac_update = quic_symbol(crypto, "HMAC_Update");
    *(void **)&crypto->hmac_final = quic_symbol(crypto, "HMAC_Final");
    *(void **)&crypto->hash_free = quic_symbol(crypto, "EVP_MD_free");
    static const char *const of_aead[] = {NULL, "EVP_aes_128_gcm", "EVP_aes_256_gcm", "EVP_chacha20_poly1305"};
    static const char *const of_mask[] = {NULL, "EVP_aes_128_ecb", "EVP_aes_256_ecb", "EVP_chacha20"};
    bool all = crypto->context_new && crypto->context_free && crypto->encrypt_init && crypto->encrypt_update &&
               crypto->decrypt_init && crypto->decrypt_update && crypto->decrypt_final && crypto->control &&
               crypto->hmac_new && crypto->hmac_free && crypto->hmac_init && crypto->hmac_update && crypto->hmac_final;
    crypto->sha256 = quic_hash_algorithm(crypto, "SHA2-256", "EVP_sha256");
    crypto->sha384 = quic_hash_algorithm(crypto, "SHA2-384", "EVP_sha384");
    crypto->hmac = all ? crypto->hmac_new() : NULL;
    all = all && crypto->sha256 && crypto->sha384 && crypto->hmac;
    const void *(*algorithm)(void);
    for (unsigned i = 1; i < QUIC_CIPHERS && all; i++) {
        crypto->aead[i] = crypto->context_new();
        crypto->mask[i] = crypto->context_new();
        *(void **)&algorithm = quic_symbol(crypto, of_aead[i]);
        all = crypto->aead[i] && crypto->mask[i] && algorithm &&
              crypto->decrypt_init(crypto->aead[i], algorithm(), NULL, NULL, NULL) == 1;
        *(void **)&algorithm = quic_symbol(crypto, of_mask[i]);
        all = all && algorithm && crypto->encrypt_init(crypto->mask[i], algorithm(), NULL, NULL, NULL) == 1;
    }
    return all;
}

static void quic_crypto_close(struct quic_crypto *crypto) {
    for (unsigned i = 1; i < QUIC_CIPHERS && crypto->context_free; i++) {
        crypto->context_free(crypto->aead[i]);   /* of NULL it does nothing */
        crypto->context_free(crypto->mask[i]);
    }
    if (crypto->hmac)
        crypto->hmac_free(crypto->hmac);
    if (crypto->hash_free) {
        crypto->hash_free(crypto->sha256);
        crypto->hash_free(crypto->sha384);
    }
    if (crypto->library)
        dlclose(crypto->library);
}

/* What is hashed from now on is so with this key. */
static bool quic_hash_with(struct quic_crypto *crypto, const void *hash, const uint8_t *key, uint8_t length) {
    return crypto->hmac_init(crypto->hmac, key, length, hash, NULL) == 1;
}

/* The keyed hash of `data`, in `out`, where a block of the longest hash fits; how many bytes it has, 0 where it failed. */
static unsigned quic_hashed(struct quic_crypto *crypto, const uint8_t *data, size_t length, uint8_t *out) {
    unsigned size = 0;
    bool hashed = crypto->hmac_init(crypto->hmac, NULL, 0, NULL, NULL) == 1 &&   /* the same key, from the beginning */
                  crypto->hmac_update(crypto->hmac, data, length) == 1 && crypto->hmac_final(crypto->hmac, out, &size) == 1;
    return hashed ? size : 0;
}

/* From now on this secret is expanded. */
static bool quic_expand_from(struct quic_crypto *crypto, const struct quic_secret *secret) {
    return quic_hash_with(crypto, secret->length == 48 ? crypto->sha384 : crypto->sha256, secret->bytes, secret->length);
}

/* HKDF-Expand-Label (RFC 8446, 7.1) without context, of at most one hash's length: then one block is all there is. */
static bool quic_expand(struct quic_crypto *crypto, const char *label, uint8_t *out, uint8_t length) {
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
    if (quic_hashed(crypto, info, at, block) < length)
        return false;
    memcpy(out, block, length);
    return true;
}

/* The versions that packets can be opened of: how their Initial keys and labels are made, and what Retry packets are
 * authenticated with. */
struct quic_version {
    uint32_t number;
    const char *key, *iv, *hp, *update;
    uint8_t salt[20], retry_key[16], retry_nonce[QUIC_IV];
};

#define QUIC_LABELS_1 "quic key", "quic iv", "quic hp", "quic ku"
#define QUIC_LABELS_2 "quicv2 key", "quicv2 iv", "quicv2 hp", "quicv2 ku"

/* NULL for a version of which no keys are known. */
static const struct quic_version *quic_version_of(uint64_t number) {
    static const struct quic_version versions[] = {
        {0x00000001, QUIC_LABELS_1, {0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17,   /* RFC 9001, 5.2 */
                                     0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a},
         {0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e},   /* 5.8 */
         {0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb}},
        {0x6b3343cf, QUIC_LABELS_2, {0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93,   /* RFC 9369, 3.3.1 */
                                     0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9},
         {0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92},   /* 3.3.3 */
         {0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a}},
        {0xff00001d, QUIC_LABELS_1, {0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97,   /* draft-29 to -32 */
                                     0x86, 0xf1, 0x9c, 0x61, 0x11, 0xe0, 0x43, 0x90, 0xa8, 0x99},
         {0xcc, 0xce, 0x18, 0x7e, 0xd0, 0x9a, 0x09, 0xd0, 0x57, 0x28, 0x15, 0x5a, 0x6c, 0xb9, 0x6b, 0xe1},
         {0xe5, 0x49, 0x30, 0xf9, 0x7f, 0x21, 0x36, 0xf0, 0x53, 0x0a, 0x8c, 0x1c}},
    };
    if (number >= 0xff000021 && number <= 0xff000022)   /* draft-33 and -34 have the salt of version 1 */
        number = 0x00000001;
    if (number >= 0xff00001d && number <= 0xff000020)
        number = 0xff00001d;
    for (unsigned i = 0; i < sizeof versions / sizeof *versions; i++)
        if (versions[i].number == number)
            return &versions[i];
    return NULL;
}

/* The keys that follow from a secret (RFC 9001, 5.1), for a cipher whose keys are as long as its hash lets them be. */
static bool quic_keys_of(struct quic_crypto *crypto, const struct quic_version *version, enum quic_cipher cipher,
                         const struct quic_secret *secret, struct quic_keys *keys) {
    uint8_t size = cipher == QUIC_AES_128_GCM ? 16 : 32;
    keys->cipher = QUIC_UNKNOWN;
    if (!quic_expand_from(crypto, secret) || !quic_expand(crypto, version->key, keys->key, size) ||
        !quic_expand(crypto, version->iv, keys->iv, QUIC_IV) || !quic_expand(crypto, version->hp, keys->hp, size))
        return false;
    keys->cipher = (uint8_t)cipher;
    return true;
}

/* The Initial keys of both directions: of the client's packets first (RFC 9001, 5.2). */
static bool quic_initial_keys(struct quic_crypto *crypto, const struct quic_version *version, const uint8_t *id,
                              uint8_t length, struct quic_keys keys[2]) {
    struct quic_secret initial = {.length = 32}, client = {.length = 32}, server = {.length = 32};
    return quic_hash_with(crypto, crypto->sha256, version->salt, sizeof version->salt) &&
           quic_hashed(crypto, id, length, initial.bytes) == initial.length && quic_expand_from(crypto, &initial) &&
           quic_expand(crypto, "client in", client.bytes, client.length) &&
           quic_expand(crypto, "server in", server.bytes, server.length) &&
           quic_keys_of(crypto, version, QUIC_AES_128_GCM, &client, &keys[0]) &&
           quic_keys_of(crypto, version, QUIC_AES_128_GCM, &server, &keys[1]);
}

/* Five bytes that hide the packet number and some bits of the first byte (RFC 9001, 5.4). */
static bool quic_mask(struct quic_crypto *crypto, const struct quic_keys *keys, const uint8_t *sample, uint8_t mask[5]) {
    static const uint8_t zeros[5];
    void *context = crypto->mask[keys->cipher];
    uint8_t block[32];
    int size = 0;
    bool stream = keys->cipher == QUIC_CHACHA20_POLY1305;   /* the sample is counter and nonce, and nothing is hidden */
    if (crypto->encrypt_init(context, NULL, NULL, keys->hp, stream ? sample : NULL) != 1 ||
        crypto->encrypt_update(context, block, &size, stream ? zeros : sample, stream ? 5 : QUIC_SAMPLE) != 1 || size < 5)
        return false;
    memcpy(mask, block, 5);
    return true;
}

/* A packet whose header has been laid open. */
struct quic_packet {
    const uint8_t *at;       /* the packet as it came */
    uint32_t length;
    uint32_t number_at;      /* where the packet number begins, */
    uint8_t number_length;   /* and how long it is */
    uint8_t first;           /* the first byte, unprotected */
    uint8_t number_bytes[4]; /* the packet number as it was sent, unprotected */
    uint64_t number;         /* the whole */
};

/* Opens the packet into `out`, which has room for all of it; how many bytes that is, or -1: it is not authentic. */
static int64_t quic_open(struct quic_crypto *crypto, const struct quic_keys *keys, const struct quic_packet *packet,
                         uint8_t *out) {
    void *context = crypto->aead[keys->cipher];
    uint8_t nonce[QUIC_IV], tag[QUIC_TAG];
    memcpy(nonce, keys->iv, sizeof nonce);
    for (unsigned i = 0; i < 8; i++)
        nonce[QUIC_IV - 1 - i] ^= (uint8_t)(packet->number >> 8 * i);
    uint32_t begin = packet->number_at + packet->number_length, size = packet->length - begin - QUIC_TAG;
    memcpy(tag, packet->at + packet->length - QUIC_TAG, QUIC_TAG);
    int more = 0, some = 0;
    if (crypto->decrypt_init(context, NULL, NULL, keys->key, nonce) != 1 ||
        crypto->decrypt_update(context, NULL, &more, &packet->first, 1) != 1 ||
        crypto->decrypt_update(context, NULL, &more, packet->at + 1, (int)packet->number_at - 1) != 1 ||
        crypto->decrypt_update(context, NULL, &more, packet->number_bytes, packet->number_length) != 1 ||
        (size && crypto->decrypt_update(context, out, &some, packet->at + begin, (int)size) != 1) ||
        crypto->control(context, EVP_SET_TAG, QUIC_TAG, tag) != 1 ||
        crypto->decrypt_final(context, out + some, &more) != 1)
        return -1;
    return size;
}

/* Whether a Retry packet answers an Initial packet that was sent to this connection id: its last bytes are the tag of all
 * that is in front of them, and of the id (RFC 9001, 5.8). */
static bool quic_retry_is_authentic(struct quic_crypto *crypto, const struct quic_version *version, const uint8_t *id,
                                    uint8_t id_length, const uint8_t *packet, uint32_t length) {
    void *context = crypto->aead[QUIC_AES_128_GCM];
    uint8_t tag[QUIC_TAG], none[QUIC_TAG];
    int some = 0;
    if (length < QUIC_TAG)
        return false;
    memcpy(tag, packet + length - QUIC_TAG, QUIC_TAG);
    return crypto->decrypt_init(context, NULL, NULL, version->retry_key, version->retry_nonce) == 1 &&
           crypto->decrypt_update(context, NULL, &some, &id_length, 1) == 1 &&
           (!id_length || crypto->decrypt_update(context, NULL, &some, id, id_length) == 1) &&
           crypto->decrypt_update(context, NULL, &some, packet, (int)(length - QUIC_TAG)) == 1 &&
           crypto->control(context, EVP_SET_TAG, QUIC_TAG, tag) == 1 && crypto->decrypt_final(context, none, &some) == 1;
}

#endif
