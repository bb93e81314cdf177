/* TLS of connections, by OpenSSL 3: tls.c has the connections, tls_context.c certificates and the bound of memory. A program
 * that is compiled without OpenSSL has tls_none.c instead. */
#ifndef SERVICE_TLS_H
#define SERVICE_TLS_H

#include "worker.h"

enum { SERVICE_CERTIFICATES = 64 }; /* of a service */

/* --- tls_context.c. Each returns an error's text, or null. */

/* Bounds the memory of OpenSSL in the whole process; before anything else of this file. */
const char *service_tls_memory(uint64_t bytes);

/* A certificate chain and its key, for the connections that are accepted. The first one is used for clients that name no
 * server, or one that no certificate has. */
const char *service_tls_certificate(struct service_config *config, const char *chain, const char *key);

/* The protocols of ALPN (RFC 7301), separated by commas: of clients one of these is taken, and backends are offered all
 * but h2, which only those that use it are. */
const char *service_tls_protocols(struct service_config *config, const char *list);

/* Backends that have a name are connected by TLS. `authorities`: a file of certificates; null: those of the system. */
const char *service_tls_authorities(struct service_config *config, const char *authorities);

void service_tls_free(struct service_config *config);

/* Whether the free memory suffices for one more connection. */
bool service_tls_affords(void);

/* --- tls.c */

/* TLS begins at a connection that was accepted, or that is made to a backend. False if there is no memory for it. */
bool service_tls_accept(struct service_channel *c);
bool service_tls_connect(struct service_channel *c, const struct service_address *address);

/* Whether the handshake is done; else continues it. False also if it has failed: the fault is set then. */
bool service_tls_ready(struct service_channel *c);

/* Whether a protocol was negotiated (RFC 7301), once the handshake is done. */
bool service_tls_speaks(const struct service_channel *c, const char *protocol);

/* The second since which a handshake is going on; 0 if none is. */
uint32_t service_tls_waits(const struct service_channel *c);

/* As read(2) and send(2). -1 with EAGAIN, ECONNRESET, or EPROTO for bytes that are no TLS. At an end that the other side
 * did not announce, the channel's `cut` is set. */
ssize_t service_tls_read(struct service_channel *c, void *bytes, size_t size);
ssize_t service_tls_send(struct service_channel *c, const void *bytes, size_t size);

/* Sends close_notify. False if the connection accepts nothing for now. */
bool service_tls_shut(struct service_channel *c);

/* Gives TLS of a connection to a channel, and removes it from one: with a connection that is idle meanwhile. */
void service_tls_attach(struct service_channel *c, struct service_tls *tls);
struct service_tls *service_tls_detach(struct service_channel *c);

/* --- tls_probe.c: of a health check. -1, or false, with EAGAIN, EACCES for a certificate that is not valid, or EPROTO. */

struct service_probe_tls;

struct service_probe_tls *service_probe_tls_begin(struct service_config *config, int fd,
                                                 const struct service_address *address);
bool service_probe_tls_ready(struct service_probe_tls *tls);
ssize_t service_probe_tls_read(struct service_probe_tls *tls, void *bytes, size_t size);
ssize_t service_probe_tls_send(struct service_probe_tls *tls, const void *bytes, size_t size);
void service_probe_tls_end(struct service_probe_tls *tls);

/* --- tls.c, the end */

/* Ends TLS of a connection that is then closed. */
void service_tls_end(struct service_channel *c);

/* The same for one that belongs to no channel. */
void service_tls_drop(struct service_tls *tls);

#endif
