/* The secrets with which a function opens records of TLS: those of a key log, and those in the capture. */
#ifndef TLS_SECRETS_H
#define TLS_SECRETS_H

#include "digest.h"
#include "secrets.h"
#include "tls_record.h"
#include "tls_stream.h"

/* Shared by all connections of a worker. */
struct tls_secrets {
    struct tls_crypto crypto;
    struct key_log log;
    struct sl_secrets_taker taker;
    bool ready;                       /* libcrypto was loaded: there is a key log, or were secrets in the input */
    uint8_t content[TLS_RECORD_MOST]; /* of the current record */
};

/* Adds the secrets of a pcapng file. */
static void tls_secrets_take(void *user, uint32_t kind, sl_bytes bytes) {
    struct tls_secrets *secrets = user;
    if (kind != SL_SECRETS_TLS_KEY_LOG)
        return;
    secrets->ready = secrets->ready || (!secrets->crypto.library && tls_crypto_open(&secrets->crypto));
    key_log_text(&secrets->log, bytes);
}

/* Of key_log.h: the secrets are charged to the function's bound of memory. */
static bool tls_secrets_charge(void *user, int64_t bytes) {
    if (bytes >= 0)
        return log_take(user, (uint64_t)bytes);
    log_give(user, (uint64_t)-bytes);
    return true;
}

/* Are there secrets, or may there be some? */
static inline bool tls_secrets_exist(const struct tls_secrets *secrets) {
    return secrets->ready && (secrets->log.file || secrets->log.count);
}

/* Opens a key log; `path` "": there are only the secrets of the input. `budget`: of the secrets. Returns -1
 * if that is not possible; the reason was printed. */
SL_COLD int tls_secrets_open(struct tls_secrets *secrets, struct sl_box *box, const char *path, struct log_budget *budget) {
    secrets->log.charge = tls_secrets_charge;
    secrets->log.user = budget;
    if (key_log_open(&secrets->log, path))
        return -1;
    secrets->ready = *path && tls_crypto_open(&secrets->crypto);
    if (*path && !secrets->ready) {
        fprintf(stderr, "keylog: %s\n", SL_DIGEST_ADVICE);
        key_log_close(&secrets->log);
        tls_crypto_close(&secrets->crypto);
        return -1;
    }
    secrets->taker = (struct sl_secrets_taker){tls_secrets_take, secrets, NULL};
    sl_secrets_subscribe(box, &secrets->taker);
    return 0;
}

SL_COLD void tls_secrets_close(struct tls_secrets *secrets, struct sl_box *box) {
    sl_secrets_unsubscribe(box, &secrets->taker);
    key_log_close(&secrets->log);
    tls_crypto_close(&secrets->crypto);
}

#endif
