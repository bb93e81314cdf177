/* Opens records of TLS 1.2 with AES-CBC (RFC 5246, 6.2.3.2), authenticated by HMAC before they were encrypted, or after it
 * (encrypt_then_mac, RFC 7366). Records that are not authentic are refused at once: no sender is answered, so that the time it
 * takes, which a server must hide (6.2.3.2), is of no use. */
#ifndef TLS_CBC_H
#define TLS_CBC_H

#include "native/tls_crypto.h"

#include "core/bytes.h"

enum { TLS_BLOCK = 16, TLS_MAC_MOST = 48, TLS_SUM_HEAD = 13 /* number, type, version and length, which are summed, too */ };

/* Tests the code that authenticates `length` bytes. `head`: that of the record. */
static inline bool tls_cbc_is_authentic(struct tls_crypto *crypto, const void *hash, const uint8_t *key, uint8_t size, uint64_t sequence,
                                        const uint8_t *head, const uint8_t *at, uint32_t length, const uint8_t *code) {
    uint8_t with[TLS_SUM_HEAD], found[64];
    unsigned made = 0;
    sl_store_be32(with, sequence >> 32);
    sl_store_be32(with + 4, sequence);
    memcpy(with + 8, head, 3);
    sl_store_be16(with + 11, length);
    return hash && tls_hash_with(crypto, hash, key, size) && crypto->hmac_update(crypto->hmac, with, sizeof with) == 1 &&
           crypto->hmac_update(crypto->hmac, at, length) == 1 && crypto->hmac_final(crypto->hmac, found, &made) == 1 && made == size &&
           memcmp(found, code, size) == 0;
}

/* Decrypts an initialisation vector and blocks into `out`. */
static inline bool tls_cbc_decrypt(struct tls_crypto *crypto, enum tls_kind kind, const uint8_t *key, const uint8_t *at, uint32_t length,
                                   uint8_t *out) {
    int some = 0;
    void *context = crypto->cipher[kind];
    return crypto->decrypt_init(context, NULL, NULL, key, at) == 1 && crypto->padding(context, 0) == 1 &&
           crypto->decrypt_update(context, out, &some, at + TLS_BLOCK, (int)(length - TLS_BLOCK)) == 1 &&
           (uint32_t)some == length - TLS_BLOCK;
}

/* The bytes of decrypted blocks without their padding; -1: it is not valid. */
static inline int64_t tls_cbc_unpadded(const uint8_t *at, uint32_t length) {
    uint32_t padding = length ? at[length - 1] + 1u : 1;
    if (padding > length)
        return -1;
    for (uint32_t i = 2; i <= padding; i++)
        if (at[length - i] != padding - 1)
            return -1;
    return length - padding;
}

#endif
