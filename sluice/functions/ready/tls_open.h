/* A connection of TLS whose records are opened with the secrets of a key log, independently of how its streams are divided into
 * pieces. Application data go to the owner.
 *
 * A side's record that cannot be opened yet waits, within TLS_HELD_MOST: for the ServerHello, which chooses the cipher; for the
 * server's answer to early data; or for a secret that is still to be written to the log, within TLS_SECRET_WAIT. */
#ifndef TLS_OPEN_H
#define TLS_OPEN_H

#include "tls_hello.h"
#include "tls_secrets.h"

#include <time.h>

enum { TLS_HELD_MOST = 1 << 15 /* exceeds the longest record */, TLS_FINISHED = 20, TLS_END_OF_EARLY_DATA = 5, TLS_KEY_UPDATE = 24 };
#define TLS_SECRET_WAIT UINT64_C(1000000000) /* nanoseconds after its first record */
enum tls_early { TLS_EARLY_UNKNOWN, TLS_EARLY_ACCEPTED, TLS_EARLY_REJECTED };
enum tls_phase { TLS_CLEAR, TLS_EARLY_DATA, TLS_IN_HANDSHAKE, TLS_IN_TRAFFIC };

/* Why no more records of a side are opened. */
enum tls_shut { TLS_OPENED, TLS_SHUT_NO_KEY, TLS_SHUT_CIPHER, TLS_SHUT_REFUSED, TLS_SHUT_GAP, TLS_SHUT_NO_MEMORY };

struct tls_opener;

/* `side` is a number, 0 or 1. */
struct tls_open_owner {
    void (*data)(void *user, unsigned side, const uint8_t *at, uint32_t length);
    void (*gap)(void *user, unsigned side, uint64_t length);   /* application data are missing */
    void (*shut)(void *user, unsigned side, enum tls_shut why);
    /* An encrypted message of a handshake of TLS 1.3: EncryptedExtensions or Certificate. NULL: they are not needed. */
    void (*message)(void *user, unsigned side, uint8_t type, const uint8_t *at, uint32_t length);
};

struct tls_open_side {
    bool begun;                       /* its first record was found */
    enum tls_shut why;
    enum tls_phase phase;
    uint8_t *held;                    /* whole records that wait, and the beginning of the next one */
    uint32_t used, room;
    uint32_t skip;                    /* bytes of a record, of which others are missing, that follow */
    struct tls_record_keys keys;
    struct key_secret secret;         /* of TLS 1.3, from which `keys` were derived */
    bool finished, updated, early_over;   /* the messages after which keys change, in the current record */
    bool lacking;                     /* the last look-up has not found a secret */
    bool skipped;                     /* records that no key opens were taken for early data that were rejected */
    struct tls_side messages;
};

struct tls_opener {
    const struct tls_open_owner *owner;
    void *user;
    struct tls_secrets *secrets;
    struct log_budget *budget;
    struct tls_open_side side[2];
    unsigned client;                  /* number of its side */
    bool asked, answered;             /* the ClientHello, and the ServerHello that chooses the cipher, were read */
    bool retried, asked_again;        /* a HelloRetryRequest, and the ClientHello after it, were read */
    enum tls_early early;             /* the server's answer to early data */
    uint8_t random[2][KEY_RANDOM];    /* of the client, of the server */
    struct tls_suite suite;
    uint32_t failures;                /* look-ups without a secret */
    uint64_t now, lacking_since;      /* times of packets: of the current one, and of that of the first failure */
};

static inline void tls_open_free(struct tls_opener *opener) {
    for (unsigned i = 0; i < 2; i++) {
        log_give(opener->budget, opener->side[i].room);
        free(opener->side[i].held);
        tls_message_drop(&opener->side[i].messages.message);
    }
}

static inline void tls_shut(struct tls_opener *opener, unsigned number, enum tls_shut why) {
    struct tls_open_side *side = &opener->side[number];
    if (side->why)
        return;
    side->why = why;
    log_give(opener->budget, side->room);
    free(side->held);
    side->held = NULL;
    side->used = side->room = 0;
    tls_side_stop(&side->messages, TLS_ENCRYPTED);
    opener->owner->shut(opener->user, number, why);
}

/* --- handshake messages --- */

struct tls_open_reading { struct tls_opener *opener; unsigned side; };

static bool tls_open_wanted(void *user, uint8_t type) {
    struct tls_open_reading *reading = user;
    struct tls_open_side *side = &reading->opener->side[reading->side];
    bool sealed = side->phase != TLS_CLEAR;
    side->finished |= sealed && type == TLS_FINISHED;
    side->updated |= sealed && type == TLS_KEY_UPDATE;
    side->early_over |= sealed && type == TLS_END_OF_EARLY_DATA;
    if (!sealed)
        return type == TLS_CLIENT_HELLO || type == TLS_SERVER_HELLO;
    return (type == TLS_ENCRYPTED_EXTENSIONS && reading->side != reading->opener->client) ||
           (type == TLS_CERTIFICATE && reading->opener->owner->message);
}

/* Reads whether a server accepts early data (RFC 8446, 4.2.10). */
static inline void tls_open_extensions(struct tls_opener *opener, const uint8_t *at, uint32_t length) {
    struct tls_reader body = {at, length, false}, extensions = tls_vector(&body, 2);
    opener->early = TLS_EARLY_REJECTED;
    while (extensions.left) {
        if (tls_number(&extensions, 2) == 42)
            opener->early = TLS_EARLY_ACCEPTED;
        tls_vector(&extensions, 2);
    }
}

/* Reads a hello: the random values, the version, the cipher and its form. */
static void tls_open_hello(void *user, uint8_t type, const uint8_t *at, uint32_t length) {
    struct tls_open_reading *reading = user;
    struct tls_opener *opener = reading->opener;
    struct tls_reader body = {at, length, false};
    bool client = reading->side == opener->client;
    if (type == TLS_ENCRYPTED_EXTENSIONS)
        tls_open_extensions(opener, at, length);
    if (type == TLS_ENCRYPTED_EXTENSIONS || type == TLS_CERTIFICATE) {
        if (opener->owner->message)
            opener->owner->message(opener->user, reading->side, type, at, length);
        return;
    }
    uint16_t version = (uint16_t)tls_number(&body, 2);
    struct tls_reader random = tls_take(&body, KEY_RANDOM);
    opener->asked_again |= client && type == TLS_CLIENT_HELLO && opener->retried;
    if (body.failed || client != (type == TLS_CLIENT_HELLO) || (client ? opener->asked : opener->answered))
        return;
    if (client) {   /* that after a HelloRetryRequest has the same (RFC 8446, 4.1.2) */
        memcpy(opener->random[0], random.at, KEY_RANDOM);
        opener->asked = true;
        return;
    }
    if (memcmp(random.at, tls_retry_random, KEY_RANDOM) == 0) {   /* which rejects early data (RFC 8446, 4.2.10) */
        opener->retried = true;
        opener->early = TLS_EARLY_REJECTED;
        return;
    }
    tls_vector(&body, 1);
    uint16_t cipher = (uint16_t)tls_number(&body, 2);
    tls_number(&body, 1);
    bool encrypted_first = false, failed = body.failed;
    struct tls_reader extensions = tls_vector(&body, 2);
    while (extensions.left) {
        uint32_t kind = tls_number(&extensions, 2);
        struct tls_reader content = tls_vector(&extensions, 2);
        if (kind == 43)   /* supported_versions */
            version = (uint16_t)tls_number(&content, 2);
        encrypted_first |= kind == 22;
    }
    memcpy(opener->random[1], random.at, KEY_RANDOM);
    opener->answered = true;
    if (failed || !tls_suite_of(&opener->suite, cipher, version))
        for (unsigned i = 0; i < 2; i++)
            tls_shut(opener, i, TLS_SHUT_CIPHER);
    opener->suite.encrypted_first = encrypted_first;
}

static inline void tls_open_messages(struct tls_opener *opener, unsigned number, const uint8_t *at, uint32_t length) {
    struct tls_open_reading user = {opener, number};
    struct tls_reading reading = {.user = &user, .wanted = tls_open_wanted, .message = tls_open_hello, .budget = opener->budget};
    if (!tls_messages(&opener->side[number].messages, &reading, at, length) && !opener->side[number].why)
        tls_shut(opener, number, opener->side[number].messages.stop == TLS_NO_MEMORY ? TLS_SHUT_NO_MEMORY : TLS_SHUT_REFUSED);
}

/* --- keys --- */

/* Can a missing secret no longer be written? An end writes its secrets when it has sent or received the ServerHello, which
 * is shortly before, or after, the record is seen here. Those of a capture that was stored are there. */
static inline bool tls_is_overdue(const struct tls_opener *opener) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return !opener->secrets->log.file || time > opener->lacking_since + TLS_SECRET_WAIT;
}

/* The secrets of this connection, among them that of `label`, or, KEY_LABELS, any; NULL if the log does not have it (yet). The log
 * is read further after each failure whose number is a power of two, and after the wait. */
static inline const struct key_entry *tls_entry(struct tls_opener *opener, unsigned number, enum key_label label) {
    struct key_log *log = &opener->secrets->log;
    if (!opener->asked)   /* the random of the client is not known */
        return NULL;
    const struct key_entry *entry = key_log_find(log, opener->random[0]);
    bool found = entry && (label == KEY_LABELS || entry->secrets[label].length);
    if (!found) {
        opener->lacking_since = opener->failures++ ? opener->lacking_since : opener->now;
        opener->side[number].lacking = tls_is_overdue(opener);
        if (opener->side[number].lacking || !(opener->failures & (opener->failures - 1))) {
            key_log_read(log, KEY_LOG_STEP);
            entry = key_log_find(log, opener->random[0]);
            found = entry && (label == KEY_LABELS || entry->secrets[label].length);
        }
    }
    opener->side[number].lacking &= !found;
    return found ? entry : NULL;
}

/* Derives the keys of the records after a change of keys in TLS 1.3. Returns false without the secret. */
static inline bool tls_enter(struct tls_opener *opener, unsigned number, enum tls_phase phase) {
    struct tls_open_side *side = &opener->side[number];
    bool client = number == opener->client;
    enum key_label label = phase == TLS_EARLY_DATA     ? KEY_EARLY
                           : phase == TLS_IN_HANDSHAKE ? (client ? KEY_CLIENT_HANDSHAKE : KEY_SERVER_HANDSHAKE)
                                                       : (client ? KEY_CLIENT_TRAFFIC : KEY_SERVER_TRAFFIC);
    const struct key_entry *entry = tls_entry(opener, number, label);
    if (!entry)
        return false;
    side->secret = entry->secrets[label];
    side->phase = phase;
    if (!tls_keys_13(&opener->secrets->crypto, &opener->suite, &side->secret, &side->keys))
        tls_shut(opener, number, TLS_SHUT_REFUSED);   /* the secret is not one of this cipher */
    return true;
}

/* Has a client sent early data, as far as secrets show it? */
static inline bool tls_sends_early(const struct tls_opener *opener, unsigned number) {
    const struct key_entry *entry = key_log_find(&opener->secrets->log, opener->random[0]);
    return number == opener->client && entry && entry->secrets[KEY_EARLY].length;
}

/* Ensures that the keys of a side's next record are there. Returns false if it has to wait. */
static inline bool tls_ready(struct tls_opener *opener, unsigned number) {
    struct tls_open_side *side = &opener->side[number];
    if (side->keys.known)
        return true;
    if (opener->suite.is_13) {
        if (side->phase != TLS_CLEAR)   /* its Finished was read */
            return tls_enter(opener, number, TLS_IN_TRAFFIC);
        if (tls_sends_early(opener, number) && opener->early != TLS_EARLY_REJECTED) {
            bool waits = opener->early == TLS_EARLY_UNKNOWN && !opener->side[!number].why;   /* for EncryptedExtensions */
            return !waits && tls_enter(opener, number, TLS_EARLY_DATA);
        }
        return tls_enter(opener, number, TLS_IN_HANDSHAKE);
    }
    struct tls_record_keys keys[2];
    const struct key_entry *entry = tls_entry(opener, number, KEY_MASTER);
    if (!entry)
        return false;
    if (!tls_keys_12(&opener->secrets->crypto, &opener->suite, &entry->secrets[KEY_MASTER], opener->random[0], opener->random[1], keys))
        tls_shut(opener, number, TLS_SHUT_REFUSED);
    side->keys = keys[number != opener->client];
    return true;
}

/* --- records --- */

/* Opens a record. Returns the length of its content in tls_secrets.content, or -1. */
static inline int64_t tls_open_record(struct tls_opener *opener, unsigned number, const uint8_t *head, uint32_t length, uint8_t *type) {
    struct tls_open_side *side = &opener->side[number];
    struct tls_secrets *secrets = opener->secrets;
    int64_t size = tls_record_open(&secrets->crypto, &opener->suite, &side->keys, head, length, secrets->content, type);
    if (size < 0 && side->phase == TLS_EARLY_DATA && tls_enter(opener, number, TLS_IN_HANDSHAKE) && !side->why)
        size = tls_record_open(&secrets->crypto, &opener->suite, &side->keys, head, length, secrets->content, type);
    return size;
}

/* Changes keys after a message of TLS 1.3. */
static inline void tls_rekey(struct tls_opener *opener, unsigned number) {
    struct tls_open_side *side = &opener->side[number];
    if (side->phase == TLS_EARLY_DATA ? side->early_over : side->phase == TLS_IN_HANDSHAKE && side->finished) {
        side->phase = side->phase == TLS_EARLY_DATA ? TLS_CLEAR : TLS_IN_TRAFFIC;
        side->keys.known = false;
        if (side->phase == TLS_CLEAR && !tls_enter(opener, number, TLS_IN_HANDSHAKE))
            tls_shut(opener, number, TLS_SHUT_NO_KEY);
    } else if (side->phase == TLS_IN_TRAFFIC && side->updated) {
        if (!tls_update_13(&opener->secrets->crypto, &side->secret) ||
            !tls_keys_13(&opener->secrets->crypto, &opener->suite, &side->secret, &side->keys))
            tls_shut(opener, number, TLS_SHUT_NO_MEMORY);
    }
    side->finished = side->updated = side->early_over = false;
}

/* Processes a whole record. Returns false if it has to wait. */
static inline bool tls_whole_record(struct tls_opener *opener, unsigned number, const uint8_t *head, uint32_t length) {
    struct tls_open_side *side = &opener->side[number];
    uint8_t type = head[0];
    bool is_sealed = type == TLS_APPLICATION || side->phase != TLS_CLEAR;
    if (!is_sealed && type == TLS_HANDSHAKE) {
        tls_open_messages(opener, number, head + TLS_RECORD_HEAD, length);
        return true;
    }
    /* That of a server before its ServerHello follows a HelloRetryRequest, and means nothing (RFC 8446, D.4). */
    if (type == TLS_CHANGE_CIPHER && !opener->answered)
        return number != opener->client || opener->retried;
    if (type == TLS_CHANGE_CIPHER) {
        if (!opener->suite.is_13 && side->phase != TLS_CLEAR)   /* a renegotiation, whose hellos were not read */
            tls_shut(opener, number, TLS_SHUT_REFUSED);
        side->phase = opener->suite.is_13 ? side->phase : TLS_IN_TRAFFIC;
        return true;
    }
    if (!is_sealed)   /* an alert */
        return true;
    if (number == opener->client && opener->retried && !opener->asked_again)   /* early data, which are rejected */
        return true;
    if (!opener->answered)
        tls_entry(opener, number, KEY_LABELS);   /* without any secret it does not wait for the cipher */
    if (!opener->answered || !tls_ready(opener, number)) {
        if (side->lacking)
            tls_shut(opener, number, TLS_SHUT_NO_KEY);
        return side->why;
    }
    int64_t size = side->why ? -1 : tls_open_record(opener, number, head, length, &type);
    if (size < 0) {
        /* Of early data that were rejected, without a retry, only the keys identify the end (RFC 8446, 4.2.10). */
        bool early = tls_sends_early(opener, number) && opener->early == TLS_EARLY_REJECTED && side->phase == TLS_IN_HANDSHAKE;
        if (early && !side->keys.sequence && !side->why) {
            side->skipped = true;
            return true;
        }
        tls_shut(opener, number, TLS_SHUT_REFUSED);
        return true;
    }
    if (type == TLS_APPLICATION && size)   /* there may be empty ones (RFC 8446, 5.1) */
        opener->owner->data(opener->user, number, opener->secrets->content, (uint32_t)size);
    else if (type == TLS_HANDSHAKE && opener->suite.is_13)
        tls_open_messages(opener, number, opener->secrets->content, (uint32_t)size);
    if (!side->why)
        tls_rekey(opener, number);
    return true;
}

/* Processes the whole records at the front of `at`, and returns their length. */
static inline uint32_t tls_open_front(struct tls_opener *opener, unsigned number, const uint8_t *at, uint32_t length) {
    struct tls_open_side *side = &opener->side[number];
    uint32_t done = 0;
    while (!side->why && length - done >= TLS_RECORD_HEAD) {
        const uint8_t *head = at + done;
        uint32_t size = (uint32_t)sl_load_be16(head + 3);
        if (head[0] < TLS_CHANGE_CIPHER || head[0] > TLS_APPLICATION + 1 || head[1] != 3 || size > TLS_RECORD_MOST) {
            tls_shut(opener, number, TLS_SHUT_REFUSED);
            break;
        }
        if (length - done - TLS_RECORD_HEAD < size || !tls_whole_record(opener, number, head, size))
            break;
        done += TLS_RECORD_HEAD + size;
    }
    return done;
}

#endif
