/* Reads hellos of TLS (RFC 8446, 4.1; RFC 5246, 7.4.1) and DTLS (RFC 6347, 4.2.1; RFC 9147, 5.3), and computes their
 * fingerprints: JA3 and JA3S (MD5 of the offered values in order), JA4 and JA4S (counts, and hashes of the offered values, sorted
 * for JA4). GREASE values (RFC 8701) are excluded. */
#ifndef TLS_HELLO_H
#define TLS_HELLO_H

#include "log_hash.h"
#include "log_held.h"

enum { TLS_SESSION_MOST = 32, TLS_LIST_MOST = 512 };   /* LIST: items that are stored of a list */
enum { DTLS_1_0 = 0xfeff, DTLS_1_2 = 0xfefd, DTLS_1_3 = 0xfefc };

/* The contents of a hello. */
struct tls_hello {
    uint16_t version;               /* the legacy field */
    uint16_t best;                  /* the highest of supported_versions, or the server's choice; else `version` */
    uint16_t known;                 /* the same among the versions that are known; 0: none is */
    uint16_t cipher;                /* ServerHello: the chosen cipher suite */
    uint8_t session[TLS_SESSION_MOST], session_length;
    bool retry;                     /* a ServerHello that is a HelloRetryRequest (RFC 8446, 4.1.3) */
    bool has_cookie;                /* ClientHello of DTLS: it repeats that of a HelloVerifyRequest */
    uint32_t random;                /* the first bytes of the random value */
    bool has_name, has_psk, has_ticket, has_ech;
    char ja3[33], ja4[64];          /* ServerHello: JA3S and JA4S; empty if the hash is not available */
    struct log_text name, alpn;     /* the server's name, unchanged; the protocols as a JSON list */
};

static inline void tls_hello_free(struct tls_hello *hello) {
    free(hello->name.at);
    free(hello->alpn.at);
    *hello = (struct tls_hello){0};
}

/* A hello in the state of a connection. */
__attribute__((unused)) static inline void tls_hello_stored(struct sl_stored *stored, struct tls_hello *hello) {
    sl_stored_bytes(stored, hello, offsetof(struct tls_hello, name));
    hello->session_length = (uint8_t)sl_min(hello->session_length, TLS_SESSION_MOST);
    hello->ja3[sizeof hello->ja3 - 1] = hello->ja4[sizeof hello->ja4 - 1] = 0;
    log_text_stored(stored, &hello->name);
    log_text_stored(stored, &hello->alpn);
}

/* Reads bytes from the front. `failed`: a read exceeded the remaining bytes. */
struct tls_reader { const uint8_t *at; uint32_t left; bool failed; };

static inline uint32_t tls_number(struct tls_reader *reader, unsigned size) {
    if (reader->left < size) {
        reader->failed = true;
        reader->left = 0;
        return 0;
    }
    uint32_t value = (uint32_t)sl_load_be(reader->at, size);
    reader->at += size;
    reader->left -= size;
    return value;
}

/* Returns the next `size` bytes as a separate reader. */
static inline struct tls_reader tls_take(struct tls_reader *reader, uint32_t size) {
    if (reader->left < size) {
        reader->failed = true;
        size = reader->left;
    }
    struct tls_reader part = {reader->at, size, false};
    reader->at = size ? reader->at + size : reader->at;
    reader->left -= size;
    return part;
}

/* Reads a vector that is preceded by its length in `size` bytes. */
static inline struct tls_reader tls_vector(struct tls_reader *reader, unsigned size) {
    uint32_t length = tls_number(reader, size);
    return tls_take(reader, length);
}

static inline bool tls_is_grease(uint32_t value) { return (value & 0x0f0f) == 0x0a0a && value >> 8 == (value & 0xff); }

/* A list of numbers without GREASE values. */
struct tls_list { uint16_t item[TLS_LIST_MOST]; uint32_t count; };

static inline void tls_list_add(struct tls_list *list, uint32_t value) {
    if (!tls_is_grease(value) && list->count < TLS_LIST_MOST)
        list->item[list->count++] = (uint16_t)value;
}

static inline void tls_list_read(struct tls_list *list, struct tls_reader items, unsigned size) {
    while (items.left >= size)
        tls_list_add(list, tls_number(&items, size));
}

static int tls_compare(const void *a, const void *b) { return *(const uint16_t *)a - *(const uint16_t *)b; }

static inline void tls_sort(struct tls_list *list) { qsort(list->item, list->count, sizeof *list->item, tls_compare); }

static inline void tls_join(struct log_text *text, const struct tls_list *list, const char *format, const char *between) {
    for (uint32_t i = 0; i < list->count; i++) {
        log_put(text, i ? between : "");
        log_format(text, format, list->item[i]);
    }
}

/* The values of a hello that fingerprints use. */
struct tls_offer {
    struct tls_list ciphers, extensions, groups, formats, signatures;
    uint8_t alpn_first[2];          /* the first and the last byte of the first protocol */
    bool has_alpn;
};

static inline void tls_hexadecimal(char *to, const uint8_t *hash, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++)
        snprintf(to + 2 * i, 3, "%02x", hash[i]);
}

/* Writes the first 12 digits of a list's SHA-256; zeros for an empty list. */
static inline void tls_ja4_hash(char *to, const struct log_hashes *hashes, const struct log_text *text, bool empty) {
    uint8_t hash[LOG_HASH_MOST];
    strcpy(to, "000000000000");
    if (!empty && log_hash(hashes, &hashes->sha256, text->at, text->used, hash))
        tls_hexadecimal(to, hash, 6);
}

static inline const char *tls_ja4_version(uint16_t version) {
    switch (version) {
    case 0x0304: return "13";
    case 0x0303: return "12";
    case 0x0302: return "11";
    case 0x0301: return "10";
    case 0x0300: return "s3";
    case 0x0002: return "s2";
    case DTLS_1_0: return "d1";
    case DTLS_1_2: return "d2";
    case DTLS_1_3: return "d3";
    default: return "00";
    }
}

/* SSL 2.0 and 3.0, TLS 1.0 to 1.3, and drafts of TLS 1.3. */
static inline bool tls_is_known(uint16_t version) {
    return version == 0x0002 || (version >= 0x0300 && version <= 0x0304) || version >> 8 == 0x7f;
}

/* The later of two versions; 0: none. Numbers of DTLS count down (RFC 6347, 4.1). */
static inline uint16_t tls_later(uint16_t a, uint16_t b) {
    bool down = a >> 8 == 0xfe && b >> 8 == 0xfe;
    return (a > b) != down ? a : b;
}

/* TLS 1.3, its drafts, and DTLS 1.3. */
static inline bool tls_is_13(uint16_t version) { return version == 0x0304 || version >> 8 == 0x7f || version == DTLS_1_3; }

static inline bool tls_is_alphanumeric(uint8_t c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* The two characters for the first protocol: its first and last character, or those of its hexadecimal form. */
static inline void tls_ja4_alpn(char to[3], const struct tls_offer *offer) {
    static const char digits[] = "0123456789abcdef";
    bool plain = tls_is_alphanumeric(offer->alpn_first[0]) && tls_is_alphanumeric(offer->alpn_first[1]);
    to[0] = !offer->has_alpn ? '0' : plain ? (char)offer->alpn_first[0] : digits[offer->alpn_first[0] >> 4];
    to[1] = !offer->has_alpn ? '0' : plain ? (char)offer->alpn_first[1] : digits[offer->alpn_first[1] & 15];
    to[2] = 0;
}

static inline void tls_ja3(struct tls_hello *hello, const struct log_hashes *hashes, const struct tls_offer *offer, bool client) {
    struct log_text text = {0};
    uint8_t hash[LOG_HASH_MOST];
    log_format(&text, "%u,", hello->version);
    tls_join(&text, &offer->ciphers, "%u", "-");
    log_put(&text, ",");
    tls_join(&text, &offer->extensions, "%u", "-");
    if (client) {
        log_put(&text, ",");
        tls_join(&text, &offer->groups, "%u", "-");
        log_put(&text, ",");
        tls_join(&text, &offer->formats, "%u", "-");
    }
    if (!text.failed && log_hash(hashes, &hashes->md5, text.at, text.used, hash))
        tls_hexadecimal(hello->ja3, hash, 16);
    free(text.at);
}

/* Computes JA4. Sorts the cipher suites of `offer`. */
static inline void tls_ja4(struct tls_hello *hello, const struct log_hashes *hashes, struct tls_offer *offer, char transport) {
    struct log_text text = {0};
    char alpn[3], *to = hello->ja4;
    tls_ja4_alpn(alpn, offer);
    to += snprintf(to, 16, "%c%s%c%02u%02u%s_", transport, tls_ja4_version(hello->best), hello->has_name ? 'd' : 'i',
                   (unsigned)sl_min(offer->ciphers.count, 99), (unsigned)sl_min(offer->extensions.count, 99), alpn);
    tls_sort(&offer->ciphers);
    tls_join(&text, &offer->ciphers, "%04x", ",");
    tls_ja4_hash(to, hashes, &text, !offer->ciphers.count);
    to[12] = '_';
    struct tls_list others = {.count = 0};
    for (uint32_t i = 0; i < offer->extensions.count; i++)
        if (offer->extensions.item[i] != 0 && offer->extensions.item[i] != 16)   /* server_name, ALPN */
            others.item[others.count++] = offer->extensions.item[i];
    tls_sort(&others);
    text.used = 0;
    tls_join(&text, &others, "%04x", ",");
    log_put(&text, offer->signatures.count ? "_" : "");
    tls_join(&text, &offer->signatures, "%04x", ",");
    tls_ja4_hash(to + 13, hashes, &text, !offer->extensions.count);
    free(text.at);
}

static inline void tls_ja4s(struct tls_hello *hello, const struct log_hashes *hashes, const struct tls_offer *offer, char transport) {
    struct log_text text = {0};
    char alpn[3];
    tls_ja4_alpn(alpn, offer);
    int used = snprintf(hello->ja4, 24, "%c%s%02u%s_%04x_", transport, tls_ja4_version(hello->best),
                        (unsigned)sl_min(offer->extensions.count, 99), alpn, hello->cipher);
    tls_join(&text, &offer->extensions, "%04x", ",");
    tls_ja4_hash(hello->ja4 + used, hashes, &text, !offer->extensions.count);
    free(text.at);
}

/* Reads the protocols of an ALPN extension (RFC 7301, 3.1). */
static inline void tls_alpn(struct tls_hello *hello, struct tls_offer *offer, struct tls_reader content) {
    struct tls_reader list = tls_vector(&content, 2);
    while (list.left && !hello->alpn.failed) {
        struct tls_reader name = tls_vector(&list, 1);
        if (list.failed || !name.left)
            return;
        if (!offer->has_alpn) {
            offer->has_alpn = true;
            offer->alpn_first[0] = name.at[0];
            offer->alpn_first[1] = name.at[name.left - 1];
        }
        log_put(&hello->alpn, hello->alpn.used ? "," : "");
        log_string(&hello->alpn, name.at, name.left);
    }
}

/* Reads the name of a server_name extension (RFC 6066, 3): the first one of type host_name. */
static inline void tls_server_name(struct tls_hello *hello, struct tls_reader content) {
    struct tls_reader list = tls_vector(&content, 2);
    while (list.left) {
        uint32_t type = tls_number(&list, 1);
        struct tls_reader name = tls_vector(&list, 2);
        if (list.failed)
            return;
        if (type == 0 && !hello->name.used)
            log_bytes(&hello->name, name.at, name.left);
    }
}

static inline void tls_extension(struct tls_hello *hello, struct tls_offer *offer, uint32_t type, struct tls_reader content,
                                 bool client) {
    struct tls_list versions = {.count = 0};
    switch (type) {
    case 0:
        hello->has_name = true;
        tls_server_name(hello, content);
        break;
    case 10: tls_list_read(&offer->groups, tls_vector(&content, 2), 2); break;
    case 11: {
        struct tls_reader formats = tls_vector(&content, 1);   /* one byte each, without GREASE */
        while (formats.left && offer->formats.count < TLS_LIST_MOST)
            offer->formats.item[offer->formats.count++] = (uint16_t)tls_number(&formats, 1);
        break;
    }
    case 13: tls_list_read(&offer->signatures, tls_vector(&content, 2), 2); break;
    case 16: tls_alpn(hello, offer, content); break;
    case 35: hello->has_ticket = content.left > 0; break;
    case 41: hello->has_psk = true; break;
    case 43:
        tls_list_read(&versions, client ? tls_vector(&content, 1) : content, 2);
        if (versions.count)
            hello->best = hello->known = 0;
        for (uint32_t i = 0; i < versions.count; i++) {
            hello->best = tls_later(hello->best, versions.item[i]);
            if (tls_is_known(versions.item[i]))
                hello->known = tls_later(hello->known, versions.item[i]);
        }
        break;
    case 0xfe0d: hello->has_ech = true; break;
    default: break;
    }
}

/* The random value of a HelloRetryRequest: the SHA-256 of "HelloRetryRequest" (RFC 8446, 4.1.3). */
static const uint8_t tls_retry_random[32] = {
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};

/* Reads the body of a ClientHello or ServerHello into *hello, which must be empty. `transport`: as in JA4, t (TCP), q (QUIC) or
 * d (DTLS). Returns false if it is malformed. */
SL_COLD bool tls_hello_read(struct tls_hello *hello, const struct log_hashes *hashes, const uint8_t *at, uint32_t length,
                            bool client, char transport) {
    struct tls_reader body = {at, length, false};
    struct tls_offer offer = {.has_alpn = false};
    hello->version = hello->best = hello->known = (uint16_t)tls_number(&body, 2);
    struct tls_reader random = tls_take(&body, 32), session = tls_vector(&body, 1);
    if (body.failed || session.left > TLS_SESSION_MOST)
        return false;
    hello->random = (uint32_t)sl_load_be32(random.at);
    hello->retry = !client && memcmp(random.at, tls_retry_random, 32) == 0;
    memcpy(hello->session, session.at, session.left);
    hello->session_length = (uint8_t)session.left;
    if (client && transport == 'd')
        hello->has_cookie = tls_vector(&body, 1).left;
    if (client) {
        tls_list_read(&offer.ciphers, tls_vector(&body, 2), 2);
        tls_vector(&body, 1);
    } else {
        hello->cipher = (uint16_t)tls_number(&body, 2);
        offer.ciphers.item[offer.ciphers.count++] = hello->cipher;
        tls_number(&body, 1);
    }
    if (body.failed)
        return false;
    if (body.left) {   /* extensions are optional up to TLS 1.2 */
        struct tls_reader extensions = tls_vector(&body, 2);
        while (extensions.left) {
            uint32_t type = tls_number(&extensions, 2);
            struct tls_reader content = tls_vector(&extensions, 2);
            if (extensions.failed)
                return false;
            tls_list_add(&offer.extensions, type);
            tls_extension(hello, &offer, type, content, client);
        }
    }
    tls_ja3(hello, hashes, &offer, client);
    if (client)
        tls_ja4(hello, hashes, &offer, transport);
    else
        tls_ja4s(hello, hashes, &offer, transport);
    return !body.failed;
}

#endif
