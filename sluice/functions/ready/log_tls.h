/* The TLS of a connection of which a log reads what it carries, whose callbacks need the log's state and the current event. */
#ifndef LOG_TLS_H
#define LOG_TLS_H

#include "tls_connection.h"

struct log_tls {
    struct tls_connection *tls;
    void *state;                      /* of the connection */
    const struct sl_event *event;     /* that is processed */
};

static inline void log_tls_free(struct log_tls **tls, struct log_budget *budget) {
    if (!*tls)
        return;
    tls_connection_free((*tls)->tls);
    log_give(budget, sizeof **tls);
    free(*tls);
    *tls = NULL;
}

/* TLS that may begin anywhere in a connection; the callbacks get it as `user`. NULL: without memory. */
static inline struct log_tls *log_tls_new(const struct tls_connection_owner *owner, struct tls_secrets *secrets, struct log_budget *budget) {
    struct log_tls *tls = log_allocate(budget, sizeof *tls);
    if (tls && !(tls->tls = tls_connection_new(owner, tls, secrets, budget, UINT64_MAX)))
        log_tls_free(&tls, budget);
    return tls;
}

#endif
