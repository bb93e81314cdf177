/* The keys of QUIC packets, and how packets are opened with them (RFC 9001, 5).
 *
 * The Initial keys of a side are five hashes. A context that stays keyed with a secret hashes its labels without making it
 * again. */
#ifndef QUIC_PROTECTION_CRYPTO_H
#define QUIC_PROTECTION_CRYPTO_H

#include "native/tls_crypto.h"

enum { QUIC_SAMPLE = 16, QUIC_HEADER_MOST = 128 };   /* HEADER: of packets other than Initial ones, which may have a long token */

/* libcrypto, with the ciphers that hide headers: one for each that protects packets (RFC 9001, 5.3 and 5.4). */
struct quic_crypto {
    struct tls_crypto tls;
    int (*encrypt_init)(void *, const void *, void *, const uint8_t *, const uint8_t *);
    int (*encrypt_update)(void *, uint8_t *, int *, const uint8_t *, int);
    void *mask[TLS_AEADS];
};

/* Keys that protect the packets of one direction at one level. */
struct quic_keys {
    uint8_t cipher;                 /* enum tls_kind; TLS_AEAD_UNKNOWN: there are none */
    uint8_t key[TLS_KEY_MOST], iv[TLS_IV], hp[TLS_KEY_MOST];
};

/* Returns false without a library that has all functions: then nothing is opened. */
static bool quic_crypto_open(struct quic_crypto *crypto) {
    static const char *const of_mask[] = {NULL, "EVP_aes_128_ecb", "EVP_aes_256_ecb", "EVP_chacha20", "EVP_aes_128_ecb"};
    struct tls_crypto *tls = &crypto->tls;
    bool all = tls_crypto_open(tls);
    *(void **)&crypto->encrypt_init = tls_symbol(tls, "EVP_EncryptInit_ex");
    *(void **)&crypto->encrypt_update = tls_symbol(tls, "EVP_EncryptUpdate");
    all = all && crypto->encrypt_init && crypto->encrypt_update;
    for (unsigned i = 1; i < TLS_AEADS && all; i++) {
        const void *(*algorithm)(void);
        *(void **)&algorithm = tls_symbol(tls, of_mask[i]);
        crypto->mask[i] = tls->context_new();
        all = crypto->mask[i] && algorithm && crypto->encrypt_init(crypto->mask[i], algorithm(), NULL, NULL, NULL) == 1;
    }
    return all;
}

static void quic_crypto_close(struct quic_crypto *crypto) {
    for (unsigned i = 1; i < TLS_AEADS && crypto->tls.context_free; i++)
        crypto->tls.context_free(crypto->mask[i]);   /* of NULL it does nothing */
    tls_crypto_close(&crypto->tls);
}

/* The versions that packets can be opened of: how their Initial keys and labels are made, and what Retry packets are
 * authenticated with. */
struct quic_version {
    uint32_t number;
    const char *key, *iv, *hp, *update;
    uint8_t salt[20], retry_key[16], retry_nonce[TLS_IV];
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
static bool quic_keys_of(struct quic_crypto *crypto, const struct quic_version *version, enum tls_kind cipher,
                         const struct key_secret *secret, struct quic_keys *keys) {
    uint8_t size = cipher == TLS_AES_128_GCM || cipher == TLS_AES_128_CCM ? 16 : 32;
    keys->cipher = TLS_AEAD_UNKNOWN;
    if (!tls_expand_from(&crypto->tls, secret) || !tls_expand(&crypto->tls, version->key, keys->key, size) ||
        !tls_expand(&crypto->tls, version->iv, keys->iv, TLS_IV) || !tls_expand(&crypto->tls, version->hp, keys->hp, size))
        return false;
    keys->cipher = (uint8_t)cipher;
    return true;
}

/* The Initial keys of the client's packets, or of the server's (RFC 9001, 5.2). */
static bool quic_initial_keys(struct quic_crypto *crypto, const struct quic_version *version, const uint8_t *id,
                              uint8_t length, bool server, struct quic_keys *keys) {
    struct key_secret initial = {.length = 32}, side = {.length = 32};
    return tls_hash_with(&crypto->tls, crypto->tls.sha256, version->salt, sizeof version->salt) &&
           tls_hashed(&crypto->tls, id, length, initial.bytes) == initial.length && tls_expand_from(&crypto->tls, &initial) &&
           tls_expand(&crypto->tls, server ? "server in" : "client in", side.bytes, side.length) &&
           quic_keys_of(crypto, version, TLS_AES_128_GCM, &side, keys);
}

/* Five bytes that hide the packet number and some bits of the first byte (RFC 9001, 5.4). */
static bool quic_mask(struct quic_crypto *crypto, const struct quic_keys *keys, const uint8_t *sample, uint8_t mask[5]) {
    static const uint8_t zeros[5];
    void *context = crypto->mask[keys->cipher];
    uint8_t block[32];
    int size = 0;
    bool stream = keys->cipher == TLS_CHACHA20_POLY1305;   /* the sample is counter and nonce, and nothing is hidden */
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

/* The same as quic_open, with AES-CCM, which needs the header in one piece. */
static int64_t quic_open_ccm(struct quic_crypto *crypto, const struct quic_keys *keys, const struct quic_packet *packet,
                             const uint8_t nonce[TLS_IV], uint8_t tag[TLS_TAG], uint8_t *out) {
    uint8_t header[QUIC_HEADER_MOST];
    uint32_t begin = packet->number_at + packet->number_length, size = packet->length - begin - TLS_TAG;
    if (!size || begin > sizeof header)   /* a packet without frames is not valid (RFC 9000, 12.4) */
        return -1;
    memcpy(header, packet->at, packet->number_at);
    header[0] = packet->first;
    memcpy(header + packet->number_at, packet->number_bytes, packet->number_length);
    bool open = tls_ccm_open(&crypto->tls, keys->cipher, keys->key, nonce, tag, TLS_TAG, header, (int)begin,
                             packet->at + begin, size, out);
    return open ? (int64_t)size : -1;
}

/* Opens the packet into `out`, which has room for all of it; how many bytes that is, or -1: it is not authentic. */
static int64_t quic_open(struct quic_crypto *crypto, const struct quic_keys *keys, const struct quic_packet *packet,
                         uint8_t *out) {
    void *context = crypto->tls.cipher[keys->cipher];
    uint8_t nonce[TLS_IV], tag[TLS_TAG];
    memcpy(nonce, keys->iv, sizeof nonce);
    for (unsigned i = 0; i < 8; i++)
        nonce[TLS_IV - 1 - i] ^= (uint8_t)(packet->number >> 8 * i);
    uint32_t begin = packet->number_at + packet->number_length, size = packet->length - begin - TLS_TAG;
    memcpy(tag, packet->at + packet->length - TLS_TAG, TLS_TAG);
    if (keys->cipher == TLS_AES_128_CCM)
        return quic_open_ccm(crypto, keys, packet, nonce, tag, out);
    int more = 0, some = 0;
    if (crypto->tls.decrypt_init(context, NULL, NULL, keys->key, nonce) != 1 ||
        crypto->tls.decrypt_update(context, NULL, &more, &packet->first, 1) != 1 ||
        crypto->tls.decrypt_update(context, NULL, &more, packet->at + 1, (int)packet->number_at - 1) != 1 ||
        crypto->tls.decrypt_update(context, NULL, &more, packet->number_bytes, packet->number_length) != 1 ||
        (size && crypto->tls.decrypt_update(context, out, &some, packet->at + begin, (int)size) != 1) ||
        crypto->tls.control(context, EVP_SET_TAG, TLS_TAG, tag) != 1 ||
        crypto->tls.decrypt_final(context, out + some, &more) != 1)
        return -1;
    return size;
}

/* Whether a Retry packet answers an Initial packet that was sent to this connection id: its last bytes are the tag of all
 * that is in front of them, and of the id (RFC 9001, 5.8). */
static bool quic_retry_is_authentic(struct quic_crypto *crypto, const struct quic_version *version, const uint8_t *id,
                                    uint8_t id_length, const uint8_t *packet, uint32_t length) {
    void *context = crypto->tls.cipher[TLS_AES_128_GCM];
    uint8_t tag[TLS_TAG], none[TLS_TAG];
    int some = 0;
    if (length < TLS_TAG)
        return false;
    memcpy(tag, packet + length - TLS_TAG, TLS_TAG);
    return crypto->tls.decrypt_init(context, NULL, NULL, version->retry_key, version->retry_nonce) == 1 &&
           crypto->tls.decrypt_update(context, NULL, &some, &id_length, 1) == 1 &&
           (!id_length || crypto->tls.decrypt_update(context, NULL, &some, id, id_length) == 1) &&
           crypto->tls.decrypt_update(context, NULL, &some, packet, (int)(length - TLS_TAG)) == 1 &&
           crypto->tls.control(context, EVP_SET_TAG, TLS_TAG, tag) == 1 && crypto->tls.decrypt_final(context, none, &some) == 1;
}

#endif
