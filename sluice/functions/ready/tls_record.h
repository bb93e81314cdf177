/* Opens records of TLS with the secrets of a key log: the ciphers with AES-GCM, AES-CCM and ChaCha20-Poly1305 of TLS 1.3 (RFC 8446,
 * 5.2) and TLS 1.2 (RFC 5246, 6.2.3.3; RFC 5288; RFC 6655; RFC 7905), and those with AES-CBC of TLS 1.2 (tls_cbc.h). */
#ifndef TLS_RECORD_H
#define TLS_RECORD_H

#include "native/key_log.h"
#include "tls_cbc.h"
#include "tls_ciphers.h"

enum { TLS_RECORD_HEAD = 5, TLS_EXPLICIT = 8 /* bytes of the nonce that a record of TLS 1.2 has with AES-GCM or AES-CCM */ };

/* State of both directions. */
struct tls_suite {
    enum tls_kind kind;
    bool sha384;              /* the hash of the key derivation; else SHA-256 */
    uint8_t tag;              /* bytes of the authentication code of others: 8 with AES-CCM-8, else 16 */
    uint8_t mac;              /* bytes of the authentication code of AES-CBC: 20, 32 or 48, by SHA-1, SHA-256 or SHA-384; else 0 */
    bool encrypted_first;     /* AES-CBC with encrypt_then_mac */
    bool is_13;
};

/* The keys of one direction. */
struct tls_record_keys {
    bool known;
    uint8_t key[TLS_KEY_MOST], iv[TLS_IV], mac[TLS_MAC_MOST];
    uint64_t sequence;        /* number of the next record */
};

static inline uint8_t tls_key_size(const struct tls_suite *suite) {
    return suite->kind == TLS_AES_128_GCM || suite->kind == TLS_AES_128_CBC || suite->kind == TLS_AES_128_CCM ? 16 : 32;
}

/* Whether records with a cipher suite can be opened. `version`: 0x0303 or 0x0304; those before derive keys with other hashes. */
static inline bool tls_suite_of(struct tls_suite *suite, uint16_t number, uint16_t version) {
    const char *name = tls_cipher_name(number);
    *suite = (struct tls_suite){.is_13 = version == 0x0304};
    if (!name || version < 0x0303 || version > 0x0304)
        return false;
    suite->kind = strstr(name, "AES_128_GCM")          ? TLS_AES_128_GCM
                  : strstr(name, "AES_256_GCM")        ? TLS_AES_256_GCM
                  : strstr(name, "CHACHA20_POLY1305")  ? TLS_CHACHA20_POLY1305
                  : strstr(name, "AES_128_CBC")        ? TLS_AES_128_CBC
                  : strstr(name, "AES_256_CBC")        ? TLS_AES_256_CBC
                  : strstr(name, "AES_128_CCM")        ? TLS_AES_128_CCM
                  : strstr(name, "AES_256_CCM")        ? TLS_AES_256_CCM
                                                       : TLS_AEAD_UNKNOWN;
    suite->sha384 = strstr(name, "SHA384");
    suite->tag = strstr(name, "CCM_8") ? TLS_TAG / 2 : TLS_TAG;
    if (suite->kind == TLS_AES_128_CBC || suite->kind == TLS_AES_256_CBC)
        suite->mac = suite->sha384 ? 48 : strstr(name, "SHA256") ? 32 : 20;
    return suite->kind != TLS_AEAD_UNKNOWN && !(suite->is_13 && suite->mac);
}

/* Derives the keys of a direction of TLS 1.3 from its secret (RFC 8446, 7.3). */
static inline bool tls_keys_13(struct tls_crypto *crypto, const struct tls_suite *suite, const struct key_secret *secret,
                               struct tls_record_keys *keys) {
    *keys = (struct tls_record_keys){.known = false};
    if (secret->length != (suite->sha384 ? 48 : 32))
        return false;
    keys->known = tls_expand_from(crypto, secret) && tls_expand(crypto, "key", keys->key, tls_key_size(suite)) &&
                  tls_expand(crypto, "iv", keys->iv, TLS_IV);
    return keys->known;
}

/* Replaces a secret by that after a KeyUpdate (RFC 8446, 7.2). */
static inline bool tls_update_13(struct tls_crypto *crypto, struct key_secret *secret) {
    return tls_expand_from(crypto, secret) && tls_expand(crypto, "traffic upd", secret->bytes, secret->length);
}

/* Derives the keys of TLS 1.2 (RFC 5246, 5 and 6.3): of the client's records first. */
static inline bool tls_keys_12(struct tls_crypto *crypto, const struct tls_suite *suite, const struct key_secret *master,
                               const uint8_t client[KEY_RANDOM], const uint8_t server[KEY_RANDOM], struct tls_record_keys keys[2]) {
    enum { HASH = 64, TEXT = 13, SEED = TEXT + 2 * KEY_RANDOM };
    uint8_t block[2 * (TLS_MAC_MOST + TLS_KEY_MOST + TLS_IV) + HASH], sum[HASH + SEED], size = tls_key_size(suite);
    uint8_t mac = suite->mac, iv = mac ? 0 : suite->kind == TLS_CHACHA20_POLY1305 ? TLS_IV : TLS_IV - TLS_EXPLICIT;
    unsigned hash = suite->sha384 ? 48 : 32, want = 2u * (mac + size + iv);
    memset(keys, 0, 2 * sizeof *keys);
    if (master->length != 48 || !tls_hash_with(crypto, suite->sha384 ? crypto->sha384 : crypto->sha256, master->bytes, 48))
        return false;
    memcpy(sum + hash, "key expansion", TEXT);
    memcpy(sum + hash + TEXT, server, KEY_RANDOM);
    memcpy(sum + hash + TEXT + KEY_RANDOM, client, KEY_RANDOM);
    if (tls_hashed(crypto, sum + hash, SEED, sum) != hash)   /* A(1) */
        return false;
    for (unsigned at = 0; at < want; at += hash) {
        uint8_t next[HASH];
        if (tls_hashed(crypto, sum, hash + SEED, block + at) != hash || tls_hashed(crypto, sum, hash, next) != hash)
            return false;
        memcpy(sum, next, hash);
    }
    for (unsigned i = 0; i < 2; i++) {
        memcpy(keys[i].mac, block + i * mac, mac);
        memcpy(keys[i].key, block + 2u * mac + i * size, size);
        memcpy(keys[i].iv, block + 2u * (mac + size) + i * iv, iv);
        keys[i].known = true;
    }
    return true;
}

/* The bytes by which a record is longer than its content; of TLS 1.3 without padding. Not of AES-CBC, which always has some. */
static inline uint32_t tls_record_extra(const struct tls_suite *suite) {
    return suite->tag + (suite->is_13 ? 1 : suite->kind == TLS_CHACHA20_POLY1305 ? 0 : TLS_EXPLICIT);
}

/* The same as tls_record_open, of AES-CBC. */
static inline int64_t tls_record_open_cbc(struct tls_crypto *crypto, const struct tls_suite *suite, struct tls_record_keys *keys,
                                          const uint8_t *head, uint32_t length, uint8_t *out) {
    const uint8_t *at = head + TLS_RECORD_HEAD;
    const void *hash = suite->mac == 48 ? crypto->sha384 : suite->mac == 32 ? crypto->sha256 : crypto->sha1;
    uint32_t mac = suite->mac, after = suite->encrypted_first ? mac : 0;
    if (length < after + 2 * TLS_BLOCK || (length - after) % TLS_BLOCK)
        return -1;
    length -= after;
    if (after && !tls_cbc_is_authentic(crypto, hash, keys->mac, suite->mac, keys->sequence, head, at, length, at + length))
        return -1;
    if (!tls_cbc_decrypt(crypto, suite->kind, keys->key, at, length, out))
        return -1;
    int64_t size = tls_cbc_unpadded(out, length - TLS_BLOCK) - (int64_t)(mac - after);
    if (size < 0)
        return -1;
    if (!after && !tls_cbc_is_authentic(crypto, hash, keys->mac, suite->mac, keys->sequence, head, out, (uint32_t)size, out + size))
        return -1;
    keys->sequence++;
    return size;
}

/* Decrypts `size` bytes, which the tag follows, into `out`, and tests that they and those of `with` are authentic. */
static inline bool tls_aead_open(struct tls_crypto *crypto, const struct tls_suite *suite, const uint8_t *key, const uint8_t *nonce,
                                 const uint8_t *with, int with_size, const uint8_t *at, uint32_t size, uint8_t *out) {
    uint8_t tag[TLS_TAG];
    int more = 0, some = 0;
    void *context = crypto->cipher[suite->kind];
    memcpy(tag, at + size, suite->tag);
    if (suite->kind == TLS_AES_128_CCM || suite->kind == TLS_AES_256_CCM)
        return tls_ccm_open(crypto, suite->kind, key, nonce, tag, suite->tag, with, with_size, at, size, out);
    return crypto->decrypt_init(context, NULL, NULL, key, nonce) == 1 &&
           crypto->decrypt_update(context, NULL, &more, with, with_size) == 1 &&
           (!size || crypto->decrypt_update(context, out, &some, at, (int)size) == 1) &&
           crypto->control(context, EVP_SET_TAG, TLS_TAG, tag) == 1 && crypto->decrypt_final(context, out + some, &more) == 1;
}

/* Opens a record into `out`, which has room for `length` bytes, and sets `type` to that of its content. Returns the length of
 * the content; -1: it is not authentic. `head` is followed by `length` bytes. */
static inline int64_t tls_record_open(struct tls_crypto *crypto, const struct tls_suite *suite, struct tls_record_keys *keys,
                                      const uint8_t *head, uint32_t length, uint8_t *out, uint8_t *type) {
    const uint8_t *at = head + TLS_RECORD_HEAD;
    uint8_t nonce[TLS_IV], with[13];
    bool is_explicit = !suite->is_13 && suite->kind != TLS_CHACHA20_POLY1305;
    *type = head[0];
    if (suite->mac)
        return tls_record_open_cbc(crypto, suite, keys, head, length, out);
    if (length < tls_record_extra(suite))
        return -1;
    memcpy(nonce, keys->iv, sizeof nonce);
    if (is_explicit)
        memcpy(nonce + TLS_IV - TLS_EXPLICIT, at, TLS_EXPLICIT);
    at += is_explicit ? TLS_EXPLICIT : 0;
    uint32_t size = (uint32_t)(head + TLS_RECORD_HEAD + length - at) - suite->tag;
    for (unsigned i = 0; i < 8; i++) {
        with[i] = (uint8_t)(keys->sequence >> 8 * (7 - i));
        nonce[TLS_IV - 8 + i] ^= is_explicit ? 0 : with[i];
    }
    memcpy(with + 8, head, TLS_RECORD_HEAD);
    with[11] = (uint8_t)(size >> 8);
    with[12] = (uint8_t)size;
    if (!tls_aead_open(crypto, suite, keys->key, nonce, suite->is_13 ? head : with, suite->is_13 ? TLS_RECORD_HEAD : (int)sizeof with, at,
                       size, out))
        return -1;
    keys->sequence++;
    if (!suite->is_13)
        return size;
    while (size && !out[size - 1])   /* padding (RFC 8446, 5.4) */
        size--;
    if (!size)
        return -1;   /* a record without a type must not be sent */
    *type = out[size - 1];
    return size - 1;
}

#endif
