/* A connection over TCP that may carry TLS: finds where the TLS of each side begins, at its first byte, after bytes of another
 * protocol, or where its owner permits it. Application data that the secrets open, and all other bytes before TLS, go to the
 * owner in order. */
#ifndef TLS_CONNECTION_H
#define TLS_CONNECTION_H

#include "tls_opener.h"

/* The callbacks of a connection's owner. `side` is a number, 0 or 1. */
struct tls_connection_owner {
    /* Whether TLS may begin with the next byte of a side. */
    bool (*may_begin)(void *user, unsigned side);
    /* TLS has begun: the next bytes were `opened`. */
    void (*begins)(void *user, unsigned side);
    /* Bytes of a side: before TLS, or application data (`opened`). */
    void (*data)(void *user, unsigned side, const uint8_t *at, uint32_t length, bool opened);
    /* Such bytes are missing. */
    void (*gap)(void *user, unsigned side, uint64_t length, bool opened);
    /* The rest of the side is not opened. */
    void (*shut)(void *user, unsigned side, enum tls_shut why);
    /* See tls_open_owner; NULL: not needed. */
    void (*message)(void *user, unsigned side, uint8_t type, const uint8_t *at, uint32_t length);
};

/* Where the records of a side are searched for. */
struct tls_look {
    bool over;                                 /* not further */
    uint8_t window[TLS_BEGINNING], used;       /* bytes that have not been passed to the owner */
    uint64_t searched;
};

struct tls_connection {
    const struct tls_connection_owner *owner;
    void *user;
    struct tls_opener opener;
    struct tls_look look[2];
    uint64_t search_most;                      /* number of bytes of a side in which TLS may begin */
    bool read;                                 /* the owner has got application data */
};

static inline bool tls_connection_has_begun(const struct tls_connection *tls, unsigned number) { return tls->opener.side[number].begun; }

/* --- callbacks of tls_open.h --- */

static void tls_connection_data(void *user, unsigned number, const uint8_t *at, uint32_t length) {
    struct tls_connection *tls = user;
    tls->owner->data(tls->user, number, at, length, true);
    tls->read = true;
}

static void tls_connection_gap(void *user, unsigned number, uint64_t length) {
    struct tls_connection *tls = user;
    tls->owner->gap(tls->user, number, length, true);
}

static void tls_connection_shut(void *user, unsigned number, enum tls_shut why) {
    struct tls_connection *tls = user;
    tls->owner->shut(tls->user, number, why);
}

static void tls_connection_message(void *user, unsigned number, uint8_t type, const uint8_t *at, uint32_t length) {
    struct tls_connection *tls = user;
    tls->owner->message(tls->user, number, type, at, length);
}

static const struct tls_open_owner tls_connection_of_opener = {tls_connection_data, tls_connection_gap, tls_connection_shut, NULL};
static const struct tls_open_owner tls_connection_with_messages = {tls_connection_data, tls_connection_gap, tls_connection_shut,
                                                                   tls_connection_message};

/* --- the connection --- */

/* Returns a connection; NULL without memory. */
static inline struct tls_connection *tls_connection_new(const struct tls_connection_owner *owner, void *user, struct tls_secrets *secrets,
                                                        struct log_budget *budget, uint64_t search_most) {
    struct tls_connection *tls = log_allocate(budget, sizeof *tls);
    if (!tls)
        return NULL;
    tls->owner = owner;
    tls->user = user;
    tls->search_most = search_most;
    tls->opener = (struct tls_opener){.owner = owner->message ? &tls_connection_with_messages : &tls_connection_of_opener,
                                      .user = tls, .secrets = secrets, .budget = budget};
    return tls;
}

static inline void tls_connection_free(struct tls_connection *tls) {
    if (!tls)
        return;
    tls_open_free(&tls->opener);
    log_give(tls->opener.budget, sizeof *tls);
    free(tls);
}

/* Whether TLS is searched for in the next bytes of a side. */
static inline bool tls_connection_looks(const struct tls_connection *tls, unsigned number) {
    return !tls->look[number].over && !tls_connection_has_begun(tls, number) && tls->owner->may_begin(tls->user, number);
}

/* Whether nothing of the following bytes is for TLS: each side is shut, or TLS is not searched for. */
static inline bool tls_connection_is_over(const struct tls_connection *tls) {
    for (unsigned i = 0; i < 2; i++)
        if (tls_connection_has_begun(tls, i) ? !tls->opener.side[i].why : tls_connection_looks(tls, i))
            return false;
    return true;
}

/* Another TLS may begin with the next byte of each side, as in a tunnel. */
static inline void tls_connection_look_again(struct tls_connection *tls) {
    for (unsigned i = 0; i < 2; i++) {
        tls->look[i].over = tls_connection_has_begun(tls, i);
        tls->look[i].searched = 0;
    }
}

static inline void tls_connection_bytes(struct tls_connection *tls, unsigned number, const uint8_t *at, uint32_t length, uint64_t now);

/* Passes the bytes of the window on, and searches its last ones, `keep`, again. The owner may find in the first ones that a tunnel
 * has begun, and return the bytes after it in them: the window is empty then. */
static inline void tls_look_release(struct tls_connection *tls, unsigned number, uint8_t keep) {
    struct tls_look *look = &tls->look[number];
    uint8_t bytes[TLS_BEGINNING], over = (uint8_t)(look->used - keep);
    memcpy(bytes, look->window, sizeof bytes);
    look->used = 0;
    look->searched += over;
    look->over |= look->searched >= tls->search_most;
    if (over)
        tls->owner->data(tls->user, number, bytes, over, false);
    if (keep)
        tls_connection_bytes(tls, number, bytes + over, keep, tls->opener.now);
}

/* The window contains the beginning of a hello. */
static inline void tls_look_found(struct tls_connection *tls, unsigned number) {
    struct tls_opener *opener = &tls->opener;
    struct tls_look *look = &tls->look[number];
    bool client = look->window[TLS_RECORD_HEAD] == TLS_CLIENT_HELLO;
    if (opener->side[!number].begun && client != (opener->client == number)) {   /* both sides are clients, or servers */
        look->over = true;
        return;
    }
    opener->client = client ? number : !number;
    opener->side[number].begun = true;
    tls->owner->begins(tls->user, number);
    tls_open_bytes(opener, number, look->window, TLS_BEGINNING);
}

/* Bytes of a side as they were sent, in order; `now`: the time of their packet. */
static inline void tls_connection_bytes(struct tls_connection *tls, unsigned number, const uint8_t *at, uint32_t length, uint64_t now) {
    tls->opener.now = now;
    while (length && tls_connection_looks(tls, number)) {
        struct tls_look *look = &tls->look[number];
        if (!look->used && *at != TLS_HANDSHAKE) {
            const uint8_t *next = memchr(at, TLS_HANDSHAKE, length);
            uint32_t over = next ? (uint32_t)(next - at) : length;
            look->searched += over;
            tls->owner->data(tls->user, number, at, over, false);
            at += over;
            length -= over;
        } else {
            look->window[look->used++] = *at++;
            length--;
            if (look->used < TLS_BEGINNING)
                continue;
            const uint8_t *next = memchr(look->window + 1, TLS_HANDSHAKE, TLS_BEGINNING - 1);
            if (tls_begins(look->window))
                tls_look_found(tls, number);
            else
                tls_look_release(tls, number, (uint8_t)(next ? look->window + TLS_BEGINNING - next : 0));
        }
        look->over |= look->searched >= tls->search_most;
    }
    if (tls_connection_has_begun(tls, number)) {
        tls_open_bytes(&tls->opener, number, at, length);
    } else if (length && tls->look[number].used) {
        tls_look_release(tls, number, 0);
        tls_connection_bytes(tls, number, at, length, now);   /* in a tunnel that has begun, it is searched for */
    } else if (length) {
        tls->owner->data(tls->user, number, at, length, false);
    }
}

/* Bytes of a side are missing. */
static inline void tls_connection_missing(struct tls_connection *tls, unsigned number, uint64_t length) {
    if (tls_connection_has_begun(tls, number)) {
        tls_open_gap(&tls->opener, number, length);
        return;
    }
    tls_look_release(tls, number, 0);
    tls->owner->gap(tls->user, number, length, false);
}

/* The connection has ended. */
static inline void tls_connection_end(struct tls_connection *tls) {
    for (unsigned i = 0; i < 2; i++)
        if (!tls_connection_has_begun(tls, i))
            tls_look_release(tls, i, 0);
    tls_open_end(&tls->opener);
}

#endif
