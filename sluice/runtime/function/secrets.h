/* Secrets that come with the packets, such as those of the TLS connections in a pcapng file (Decryption Secrets Block), for
 * functions. They are as untrusted as the file. Functions in processes of their own (--isolate) get none. */
#ifndef SL_FUNCTION_SECRETS_H
#define SL_FUNCTION_SECRETS_H

#include "core/box.h"

SL_RUNTIME_BEGIN

/* A subscription, whose memory belongs to the function. */
struct sl_secrets_taker {
    /* kind: SL_SECRETS_TLS_KEY_LOG, or another. The bytes are valid during the call. */
    void (*take)(void *user, uint32_t kind, sl_bytes secrets);
    void *user;
    struct sl_secrets_taker *next;
};

/* Subscribes to the secrets of the box's input, for the packets after a call. */
static inline void sl_secrets_subscribe(struct sl_box *box, struct sl_secrets_taker *taker) {
    taker->next = box->secrets_takers;
    box->secrets_takers = taker;
}

static inline void sl_secrets_unsubscribe(struct sl_box *box, const struct sl_secrets_taker *taker) {
    struct sl_secrets_taker **at = &box->secrets_takers;
    while (*at && *at != taker)
        at = &(*at)->next;
    if (*at)
        *at = taker->next;
}

SL_RUNTIME_END

#endif
