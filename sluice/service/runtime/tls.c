/* TLS of a connection. OpenSSL reads and writes the socket; where it would have to wait, the channel is neither readable nor
 * writable until an event is reported, since each of its functions can need both.
 *
 * The memory of OpenSSL is bounded for the process: exceeding the bound is a fault of the connection. Of
 * handshakes with clients there is a number at once; one more ends the oldest, which is done long before unless its client
 * delays it.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "message.h"
#include "tls_parts.h"

/* The place of TLS of a channel: in the memory of the lane that allocated its instance. */
static struct service_tls **place_of(const struct service_channel *c)
{
    const struct service_instance *self = c->instance;
    struct service_lane *home = self->home;

    return &home->tls[service_slot(self) * home->channels + (uint64_t)(c - self->channels)];
}

static struct service_tls *tls_of(const struct service_channel *c) { return *place_of(c); }

void service_tls_attach(struct service_channel *c, struct service_tls *tls)
{
    *place_of(c) = tls;
    c->secure = true;
}

struct service_tls *service_tls_detach(struct service_channel *c)
{
    c->secure = false;
    return tls_of(c);
}

static void leave_list(struct service_tls *tls)
{
    struct service_lane *lane = tls->lane;

    if (!lane)
        return;
    if (tls->before)
        tls->before->after = tls->after;
    else
        lane->handshakes = tls->after;
    if (tls->after)
        tls->after->before = tls->before;
    else
        lane->handshakes_last = tls->before;
    lane->handshake_count--;
    tls->lane = NULL;
}

static void enter_list(struct service_tls *tls, struct service_lane *lane)
{
    struct service_tls *oldest = lane->handshakes;
    uint32_t limit = lane->config->handshakes / lane->worker->team->count;

    if (oldest && lane->config->handshakes && lane->handshake_count >= (limit ? limit : 1)) {
        leave_list(oldest);
        oldest->channel->instance->fault = SERVICE_HANDSHAKES_FULL;
        service_lane_queue(lane, oldest->channel->instance);
    }
    tls->lane = lane;
    tls->before = lane->handshakes_last;
    tls->after = NULL;
    if (tls->before)
        tls->before->after = tls;
    else
        lane->handshakes = tls;
    lane->handshakes_last = tls;
    lane->handshake_count++;
}

/* TLS of a channel whose descriptor is known. */
static struct service_tls *begin(struct service_channel *c, SSL_CTX *context)
{
    struct service_tls *tls = service_tls_affords() ? OPENSSL_zalloc(sizeof *tls) : NULL;

    if (!tls)
        return NULL;
    tls->ssl = SSL_new(context);
    if (!tls->ssl || SSL_set_fd(tls->ssl, c->fd) != 1) {
        SSL_free(tls->ssl);
        OPENSSL_free(tls);
        return NULL;
    }
    SSL_set_app_data(tls->ssl, tls);
    tls->channel = c;
    tls->since = c->instance->core->now ? c->instance->core->now : 1;
    service_tls_attach(c, tls);
    return tls;
}

bool service_tls_accept(struct service_channel *c)
{
    struct service_lane *lane = service_lane_of(c);
    struct service_tls *tls = begin(c, lane->config->tls->servers[0]);

    if (!tls)
        return false;
    SSL_set_accept_state(tls->ssl);
    enter_list(tls, lane);
    return true;
}

/* The protocols that a backend is offered. False if there is no memory. */
static bool offer(SSL *ssl, const struct service_tls_config *config, bool http2)
{
    static const uint8_t two[] = "\2h2";

    if (http2)
        return SSL_set_alpn_protos(ssl, two, sizeof two - 1) == 0;
    return !config->offered_size || SSL_set_alpn_protos(ssl, config->offered, config->offered_size) == 0;
}

bool service_tls_expect(SSL *ssl, const struct service_tls_config *config, const struct service_address *address)
{
    const char *name = address->name;
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    bool good;

    SSL_set_connect_state(ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    good = X509_VERIFY_PARAM_set1_ip_asc(wanted, name) == 1; /* an address is not named to the server (RFC 6066, 3) */
    if (!good)
        good = X509_VERIFY_PARAM_set1_host(wanted, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
    return good && offer(ssl, config, address->http2);
}

bool service_tls_connect(struct service_channel *c, const struct service_address *address)
{
    const struct service_tls_config *config = service_lane_of(c)->config->tls;
    struct service_tls *tls = begin(c, config->client);

    if (!tls)
        return false;
    if (service_tls_expect(tls->ssl, config, address))
        return true;
    service_tls_end(c);
    return false;
}

/* After a function of OpenSSL has returned `result`: -1 with `errno`, or 0 at the end of the input. */
static ssize_t outcome(struct service_channel *c, int result)
{
    struct service_tls *tls = tls_of(c);
    unsigned long first = ERR_peek_error();

    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        tls->broken = true;
        errno = ECONNRESET;
        return -1;
    default:
        tls->broken = true;
        if (ERR_GET_REASON(first) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
            c->cut = true;
            return 0;
        }
        errno = ERR_GET_REASON(first) == ERR_R_MALLOC_FAILURE ? ENOMEM : EPROTO;
        return -1;
    }
}

static enum service_counter failure(const struct service_channel *c)
{
    const SSL *ssl = tls_of(c)->ssl;

    if (errno == ENOMEM)
        return SERVICE_TLS_MEMORY;
    return !SSL_is_server(ssl) && SSL_get_verify_result(ssl) != X509_V_OK ? SERVICE_UNVERIFIED : SERVICE_HANDSHAKE_FAILED;
}

bool service_tls_ready(struct service_channel *c)
{
    struct service_tls *tls = tls_of(c);
    int result;

    if (tls->done)
        return true;
    ERR_clear_error();
    result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        tls->done = true;
        leave_list(tls);
        c->instance->progressed = true;
        service_count(c->instance, SSL_session_reused(tls->ssl) ? SERVICE_HANDSHAKES_RESUMED : SERVICE_HANDSHAKES_DONE, 1);
        return true;
    }
    errno = 0;
    if (outcome(c, result) < 0 && errno == EAGAIN) {
        c->readable = c->writable = false;
        return false;
    }
    service_fail(c->instance, failure(c));
    return false;
}

bool service_tls_speaks(const struct service_channel *c, const char *protocol)
{
    const uint8_t *name = NULL;
    unsigned size = 0;

    SSL_get0_alpn_selected(tls_of(c)->ssl, &name, &size);
    return size == strlen(protocol) && memcmp(name, protocol, size) == 0;
}

uint32_t service_tls_waits(const struct service_channel *c) { return tls_of(c)->done ? 0 : tls_of(c)->since; }

ssize_t service_tls_read(struct service_channel *c, void *bytes, size_t size)
{
    struct service_tls *tls = tls_of(c);
    ssize_t got;
    uint32_t before;
    int result;

    do { /* until there is data, or no message any more, or too many: the library itself would go on without a bound */
        before = tls->messages;
        ERR_clear_error();
        result = SSL_read(tls->ssl, bytes, (int)size);
    } while (result <= 0 && tls->messages != before && tls->messages <= SERVICE_TLS_MESSAGES &&
             SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ);
    if (result > 0) {
        tls->messages = 0;
        return result;
    }
    got = outcome(c, result);
    if (tls->messages > SERVICE_TLS_MESSAGES) {
        tls->broken = true;
        errno = EPROTO;
        return -1;
    }
    if (got == 0 && c->cut)
        service_count(c->instance, SERVICE_CUT, 1);
    return got;
}

ssize_t service_tls_send(struct service_channel *c, const void *bytes, size_t size)
{
    int result;
    ssize_t sent;

    ERR_clear_error();
    result = SSL_write(tls_of(c)->ssl, bytes, (int)size);
    if (result > 0)
        return result;
    sent = outcome(c, result);
    if (sent == 0) { /* the connection was closed */
        errno = ECONNRESET;
        return -1;
    }
    return sent;
}

bool service_tls_shut(struct service_channel *c)
{
    int result;

    if (tls_of(c)->broken || !tls_of(c)->done)
        return true;
    ERR_clear_error();
    result = SSL_shutdown(tls_of(c)->ssl);
    return result >= 0 || outcome(c, result) == 0 || errno != EAGAIN;
}

void service_tls_drop(struct service_tls *tls)
{
    leave_list(tls);
    if (tls->done && !tls->broken) {
        ERR_clear_error();
        SSL_shutdown(tls->ssl); /* bytes that the socket does not accept now are not sent */
    }
    SSL_free(tls->ssl);
    OPENSSL_free(tls);
}

void service_tls_end(struct service_channel *c)
{
    service_tls_drop(service_tls_detach(c));
}
