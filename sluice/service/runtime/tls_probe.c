/* TLS of health checks: the certificates of backends are verified as for connections of clients. */
#include <errno.h>
#include <openssl/err.h>

#include "tls_parts.h"

/* It is the SSL itself. */
static SSL *ssl_of(struct service_probe_tls *tls) { return (SSL *)tls; }

struct service_probe_tls *service_probe_tls_begin(struct service_config *config, int fd,
                                                 const struct service_address *address)
{
    SSL *ssl = service_tls_affords() ? SSL_new(config->tls->client) : NULL;

    if (ssl && SSL_set_fd(ssl, fd) == 1 && service_tls_expect(ssl, config->tls, address))
        return (struct service_probe_tls *)ssl;
    SSL_free(ssl);
    return NULL;
}

/* -1 with `errno` after a function has returned `result`, or 0 at the end. */
static int outcome(SSL *ssl, int result)
{
    int error = SSL_get_error(ssl, result);

    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        errno = EAGAIN;
    else
        errno = SSL_get_verify_result(ssl) != X509_V_OK ? EACCES : EPROTO;
    return -1;
}

bool service_probe_tls_ready(struct service_probe_tls *tls)
{
    int result;

    ERR_clear_error();
    result = SSL_do_handshake(ssl_of(tls));
    if (result == 1)
        return true;
    if (outcome(ssl_of(tls), result) == 0)
        errno = EPROTO;
    return false;
}

ssize_t service_probe_tls_read(struct service_probe_tls *tls, void *bytes, size_t size)
{
    int result;

    ERR_clear_error();
    result = SSL_read(ssl_of(tls), bytes, (int)size);
    return result > 0 ? result : outcome(ssl_of(tls), result);
}

ssize_t service_probe_tls_send(struct service_probe_tls *tls, const void *bytes, size_t size)
{
    int result;

    ERR_clear_error();
    result = SSL_write(ssl_of(tls), bytes, (int)size);
    return result > 0 ? result : outcome(ssl_of(tls), result);
}

void service_probe_tls_end(struct service_probe_tls *tls) { SSL_free(ssl_of(tls)); }
