/* One side of a TLS connection: finds the beginning of TLS in a stream, and parses its records (RFC 8446, 5.1) and
 * their handshake messages (RFC 8446, 4), independently of how the stream is divided into pieces.
 *
 * Only messages that `wanted` selects are stored; the others are skipped. Encrypted data are not parsed. */
#ifndef TLS_STREAM_H
#define TLS_STREAM_H

#include "log_text.h"

#include "function/stored.h"

enum {
    TLS_CHANGE_CIPHER = 20, TLS_ALERT = 21, TLS_HANDSHAKE = 22, TLS_APPLICATION = 23,
    TLS_CLIENT_HELLO = 1, TLS_SERVER_HELLO = 2, TLS_NEW_TICKET = 4, TLS_ENCRYPTED_EXTENSIONS = 8, TLS_CERTIFICATE = 11,
    TLS_RECORD_MOST = (1 << 14) + 2048,   /* RFC 5246, 6.2.3 */
    TLS_MESSAGE_MOST = 1 << 18,           /* maximum size of a stored message: long certificate chains have 20 KB */
    TLS_MESSAGE_FIRST = 4096,             /* room for a message at first; more is taken as its bytes come, whatever it claims */
    TLS_BEGINNING = 11,                   /* bytes used to detect the beginning of TLS */
};

enum tls_state { TLS_SEARCHING, TLS_IN_RECORDS, TLS_STOPPED };
enum tls_stop { TLS_NO_STOP, TLS_NO_TLS, TLS_ENCRYPTED, TLS_GAP, TLS_BAD_RECORD, TLS_TOO_LONG, TLS_NO_MEMORY };

struct tls_message {
    uint8_t head[4];
    uint8_t head_used;
    uint32_t left;            /* remaining bytes of the body */
    uint8_t *body;
    uint32_t used, room;
    struct log_budget *budget;   /* to which the body is charged */
};

struct tls_side {
    enum tls_state state;
    enum tls_stop stop;       /* the reason for stopping */
    uint8_t head[TLS_BEGINNING], head_used;   /* the header of a record; while searching, the last bytes */
    uint64_t searched;
    uint8_t type;             /* of the record */
    uint32_t record_left;
    uint8_t alert[2], alert_used;
    bool begun;               /* a record was found */
    bool changed;             /* ChangeCipherSpec was seen: the rest is encrypted, except a hello after a retry */
    bool secured;             /* application data or encrypted messages were seen */
    struct tls_message message;
};

/* The callbacks of a side's owner, and its limits. */
struct tls_reading {
    void *user;
    bool (*wanted)(void *user, uint8_t type);
    void (*message)(void *user, uint8_t type, const uint8_t *body, uint32_t length);
    void (*alert)(void *user, uint8_t level, uint8_t description);
    void (*begun)(void *user);
    struct log_budget *budget;
    uint64_t search_most;     /* number of bytes of a stream in which TLS may begin */
};

static inline void tls_message_drop(struct tls_message *message) {
    if (message->body)
        log_give(message->budget, message->room);
    free(message->body);
    *message = (struct tls_message){.head_used = 0};
}

static inline void tls_side_stop(struct tls_side *side, enum tls_stop why) {
    side->state = TLS_STOPPED;
    side->stop = why;
    tls_message_drop(&side->message);
}

static inline uint32_t tls_message_length(const struct tls_message *message) {
    return (uint32_t)sl_load_be(message->head + 1, 3);
}

/* Ensures that a message, which may be stored, has room for `used` bytes of its body. Returns false without memory. */
static inline bool tls_message_room(struct tls_message *message, struct log_budget *budget, uint32_t used) {
    if (used < message->room)
        return true;
    uint32_t whole = message->used + message->left + 1;
    uint32_t room = (uint32_t)sl_min(whole, sl_max(TLS_MESSAGE_FIRST, 2 * (uint64_t)used + 1));
    bool taken = log_take(budget, room - message->room);
    uint8_t *larger = taken ? realloc(message->body, room) : NULL;
    if (!larger) {
        log_give(budget, taken ? room - message->room : 0);
        return false;
    }
    message->body = larger;
    message->room = room;
    message->budget = budget;
    return true;
}

/* Processes bytes of handshake messages from records or CRYPTO frames. Returns false if the side has stopped. */
static inline bool tls_messages(struct tls_side *side, const struct tls_reading *reading, const uint8_t *at, uint32_t length) {
    struct tls_message *message = &side->message;
    while (length || (message->head_used == 4 && !message->left)) {
        if (message->head_used < 4) {
            message->head[message->head_used++] = *at++;
            length--;
            if (message->head_used < 4)
                continue;
            message->left = tls_message_length(message);
            /* After ChangeCipherSpec, only the ClientHello after a HelloRetryRequest is unencrypted (RFC 8446, D.4). */
            if (side->changed && (message->head[0] != TLS_CLIENT_HELLO || message->left > TLS_RECORD_MOST)) {
                side->secured = true;
                tls_side_stop(side, TLS_ENCRYPTED);
                return false;
            }
            if (reading->wanted(reading->user, message->head[0])) {
                if (message->left > TLS_MESSAGE_MOST) {
                    tls_side_stop(side, TLS_TOO_LONG);
                    return false;
                }
                if (!tls_message_room(message, reading->budget, 0)) {
                    tls_side_stop(side, TLS_NO_MEMORY);
                    return false;
                }
            }
        }
        uint32_t take = (uint32_t)sl_min(message->left, length);
        if (message->body && !tls_message_room(message, reading->budget, message->used + take)) {
            tls_side_stop(side, TLS_NO_MEMORY);
            return false;
        }
        if (take && message->body)
            memcpy(message->body + message->used, at, take);
        message->used += message->body ? take : 0;
        message->left -= take;
        at = take ? at + take : at;
        length -= take;
        if (message->left)
            continue;
        if (message->body)
            reading->message(reading->user, message->head[0], message->body, message->used);
        tls_message_drop(message);
        if (side->state == TLS_STOPPED)   /* the callback has stopped the side */
            return false;
    }
    return true;
}

/* Whether the bytes look like the first record of a side: a handshake record with a hello and its version. */
static inline bool tls_begins(const uint8_t *at) {
    uint32_t record = (uint32_t)sl_load_be16(at + 3), hello = (uint32_t)sl_load_be(at + 6, 3);
    return at[0] == TLS_HANDSHAKE && at[1] == 3 && at[2] <= 4 && record >= 6 && record <= TLS_RECORD_MOST &&
           (at[5] == TLS_CLIENT_HELLO || at[5] == TLS_SERVER_HELLO) && hello >= 38 && hello <= TLS_MESSAGE_MOST && at[9] == 3 &&
           at[10] <= 4;
}

/* Processes bytes within the current record. Returns false if the side has stopped. */
static inline bool tls_record(struct tls_side *side, const struct tls_reading *reading, const uint8_t *at, uint32_t length) {
    switch (side->type) {
    case TLS_HANDSHAKE:
        return tls_messages(side, reading, at, length);
    case TLS_CHANGE_CIPHER:
        side->changed = true;
        return true;
    case TLS_ALERT:
        for (; length && side->alert_used < 2; length--)
            side->alert[side->alert_used++] = *at++;
        if (side->alert_used == 2 && !side->changed)
            reading->alert(reading->user, side->alert[0], side->alert[1]);
        return true;
    default:
        side->secured = true;
        tls_side_stop(side, TLS_ENCRYPTED);
        return false;
    }
}

/* Begins a record, whose header is complete. Returns false if the header is invalid. */
static inline bool tls_record_begin(struct tls_side *side) {
    side->type = side->head[0];
    side->record_left = (uint32_t)sl_load_be16(side->head + 3);
    side->head_used = 0;
    side->alert_used = 0;
    if (side->type < TLS_CHANGE_CIPHER || side->type > TLS_APPLICATION + 1 || side->head[1] != 3 ||
        side->record_left > TLS_RECORD_MOST) {
        tls_side_stop(side, TLS_BAD_RECORD);
        return false;
    }
    return true;
}

static inline void tls_side_records(struct tls_side *side, const struct tls_reading *reading, const uint8_t *at, uint32_t length) {
    while (length && side->state == TLS_IN_RECORDS) {
        if (!side->record_left) {
            side->head[side->head_used++] = *at++;
            length--;
            if (side->head_used == 5 && !tls_record_begin(side))
                return;
            continue;
        }
        uint32_t take = (uint32_t)sl_min(side->record_left, length);
        side->record_left -= take;
        if (!tls_record(side, reading, at, take))
            return;
        at += take;
        length -= take;
    }
}

/* Processes bytes of a stream, in order. */
static inline void tls_side_bytes(struct tls_side *side, const struct tls_reading *reading, const uint8_t *at, uint32_t length) {
    while (length && side->state == TLS_SEARCHING) {
        if (!side->head_used && *at != TLS_HANDSHAKE) {   /* skip to the next candidate */
            const uint8_t *next = memchr(at, TLS_HANDSHAKE, length);
            uint32_t over = next ? (uint32_t)(next - at) : length;
            side->searched += over;
            at += over;
            length -= over;
        } else {
            side->head[side->head_used++] = *at++;
            length--;
            if (side->head_used == TLS_BEGINNING && tls_begins(side->head)) {
                uint8_t begun[TLS_BEGINNING];
                memcpy(begun, side->head, sizeof begun);
                side->state = TLS_IN_RECORDS;
                side->begun = true;
                side->head_used = 0;
                reading->begun(reading->user);
                tls_side_records(side, reading, begun, TLS_BEGINNING);
            } else if (side->head_used == TLS_BEGINNING) {   /* a beginning may be within these bytes */
                const uint8_t *next = memchr(side->head + 1, TLS_HANDSHAKE, TLS_BEGINNING - 1);
                uint8_t over = (uint8_t)(next ? next - side->head : TLS_BEGINNING);
                side->searched += over;
                side->head_used = (uint8_t)(TLS_BEGINNING - over);
                memmove(side->head, side->head + over, side->head_used);
            }
        }
        if (side->state == TLS_SEARCHING && side->searched >= reading->search_most)
            tls_side_stop(side, TLS_NO_TLS);
    }
    tls_side_records(side, reading, at, length);
}

/* --- the state of a side in that of a connection --- */

__attribute__((unused)) static inline void tls_message_stored(struct sl_stored *stored, struct tls_message *message,
                                                              struct log_budget *budget) {
    SL_STORED(stored, message->head);
    SL_STORED(stored, message->head_used);
    SL_STORED(stored, message->left);
    SL_STORED(stored, message->used);
    stored->failed |= message->head_used > sizeof message->head || message->left >= 1u << 24;
    if (!sl_stored_more(stored, message->body != NULL)) {
        message->used = 0;
        return;
    }
    if (stored->reads) {
        bool fits = message->left <= TLS_MESSAGE_MOST && message->used <= TLS_MESSAGE_MOST - message->left;
        uint32_t room = fits ? message->used + 1 : 0;
        message->body = fits ? log_allocate(budget, room) : NULL;
        if (!message->body) {
            message->used = 0;
            stored->failed = true;
            return;
        }
        message->budget = budget;
        message->room = room;
    }
    sl_stored_bytes(stored, message->body, message->used);
}

__attribute__((unused)) static inline void tls_side_stored(struct sl_stored *stored, struct tls_side *side, struct log_budget *budget) {
    sl_stored_bytes(stored, side, offsetof(struct tls_side, message));
    bool record = side->state == TLS_IN_RECORDS;
    bool known = side->state <= TLS_STOPPED && side->stop <= TLS_NO_MEMORY && side->head_used < (record ? 5 : TLS_BEGINNING) &&
                 side->alert_used <= sizeof side->alert;
    if (!known) {
        *side = (struct tls_side){.state = TLS_STOPPED};
        stored->failed = true;
    }
    tls_message_stored(stored, &side->message, budget);
}

/* Handles missing bytes: TLS may begin after them, but record boundaries are lost. */
static inline void tls_side_gap(struct tls_side *side) {
    if (side->state == TLS_SEARCHING)
        side->head_used = 0;
    else if (side->state == TLS_IN_RECORDS)
        tls_side_stop(side, TLS_GAP);
}

#endif
