/* Shared by tls.c and tls_context.c. */
#ifndef SERVICE_TLS_PARTS_H
#define SERVICE_TLS_PARTS_H

#include <openssl/ssl.h>

#include "tls.h"

/* Of a service. */
struct service_tls_config {
    SSL_CTX *servers[SERVICE_CERTIFICATES];
    uint32_t count;
    SSL_CTX *client;
    uint8_t protocols[256]; /* each after its length (RFC 7301, section 3.1) */
    uint32_t protocols_size;
    uint8_t offered[256]; /* the same for backends, without h2 */
    uint32_t offered_size;
};

/* Of a connection. */
struct service_tls {
    SSL *ssl;
    struct service_channel *channel;    /* during the handshake */
    struct service_tls *before, *after; /* of the handshakes with clients that the lane has */
    struct service_lane *lane;          /* in whose list it is; null: in none */
    uint32_t since;
    uint32_t messages; /* of the handshake protocol since the last data */
    bool done, broken;
};

/* Makes one the client of a backend, whose certificate has to have its name. False if there is no memory. */
bool service_tls_expect(SSL *ssl, const struct service_tls_config *config, const struct service_address *address);

enum { SERVICE_TLS_MESSAGES = 64 }; /* of the handshake protocol in a row that are accepted after the handshake */

#endif
