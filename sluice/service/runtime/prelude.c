#include "prelude.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend.h"
#include "ends.h"
#include "h2.h"
#include "proxy_header.h"
#include "tls.h"

enum { NETWORKS = 256 };

static struct service_channel *client_of(struct service_instance *self)
{
    return service_port(self, ((struct service_lane *)self->core)->config->listen_port);
}

const char *service_prelude_trust(struct service_config *config, const char *address, const char *bits)
{
    struct service_network *more = realloc(config->trusted, (config->trusted_count + 1) * sizeof *more), *found;
    unsigned long width = strtoul(bits, NULL, 10);

    if (!more)
        return "no memory";
    config->trusted = more;
    found = &more[config->trusted_count];
    *found = (struct service_network){.family = strchr(address, ':') ? 6 : 4, .bits = (uint8_t)width};
    if (config->trusted_count == NETWORKS || width > (found->family == 4 ? 32u : 128u) ||
        inet_pton(found->family == 4 ? AF_INET : AF_INET6, address, found->address) != 1)
        return "no network that is trusted, or too many";
    config->trusted_count++;
    config->ends = true;
    return NULL;
}

static bool within(const struct service_network *network, const struct service_ends *ends)
{
    uint32_t whole = network->bits / 8, rest = network->bits % 8;

    return network->family == ends->family && memcmp(network->address, ends->client, whole) == 0 &&
           (rest == 0 || (network->address[whole] ^ ends->client[whole]) >> (8 - rest) == 0);
}

static bool is_trusted(const struct service_config *config, const struct service_ends *ends)
{
    for (uint32_t i = 0; i < config->trusted_count; i++)
        if (within(&config->trusted[i], ends))
            return true;
    return false;
}

void service_prelude_begin(struct service_instance *self, const struct sockaddr_storage *peer)
{
    const struct service_config *config = ((struct service_lane *)self->core)->config;
    struct service_channel *c = client_of(self);
    struct service_ends *ends = service_ends_of(self);
    struct sockaddr_storage own;
    socklen_t length = sizeof own;

    if (peer->ss_family == AF_INET) {
        c->address = ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr);
        c->peer_port = ntohs(((const struct sockaddr_in *)peer)->sin_port);
    }
    if (ends) {
        *ends = (struct service_ends){0};
        if (config->sends_proxy && getsockname(c->fd, (struct sockaddr *)&own, &length) == 0)
            service_ends_set(ends, false, &own);
        service_ends_set(ends, true, peer);
    }
    if (ends && is_trusted(config, ends)) {
        c->awaits = self->begins = true;
        c->waits_since = self->core->now; /* it has to arrive in the time of a message */
    } else if (config->http2) {
        self->begins = true;
    } else {
        service_instance_start(self);
    }
}

/* The addresses of a header are those of the client from now on. */
static void apply(struct service_channel *c, const struct service_ends *found)
{
    c->address = c->peer_port = 0;
    *service_ends_of(c->instance) = *found;
    if (found->family == 4) {
        c->address = (uint32_t)service_load(found->client, 4, true);
        c->peer_port = found->client_port;
    }
}

static enum service_life failed(struct service_instance *self, enum service_counter reason)
{
    service_fail(self, reason);
    service_count(self, reason, 1);
    return SERVICE_DEAD;
}

/* Reads the header of a proxy: SERVICE_AGAIN when it is there. */
static enum service_life read_header(struct service_channel *c)
{
    struct service_instance *self = c->instance;
    struct service_ends found;
    uint8_t header[SERVICE_PROXY_MOST];
    ssize_t got = recv(c->fd, header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
    int size = got > 0 ? service_proxy_read(header, (size_t)got, &found) : 0;

    if ((got < 0 && (errno == EAGAIN || errno == EINTR)) || (got > 0 && size == 0 && !c->hung_up))
        return SERVICE_ASLEEP;
    if (size <= 0)
        return failed(self, got < 0 ? SERVICE_RESET : size < 0 ? SERVICE_PROXY_MALFORMED : SERVICE_TRUNCATED);
    if (recv(c->fd, header, (size_t)size, MSG_DONTWAIT) != size) /* it was there just now */
        return failed(self, SERVICE_RESET);
    service_count(self, SERVICE_PROXIED, 1);
    if (found.family)
        apply(c, &found);
    c->awaits = false;
    c->waits_since = 0;
    c->readable = true;
    return SERVICE_AGAIN;
}

/* Finds out whether a connection uses HTTP/2, by ALPN or by its first bytes (RFC 9113, sections 3.2 and 3.3): SERVICE_AGAIN when
 * it is known. */
static enum service_life choose(struct service_channel *c, bool *http2)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    char begin[sizeof preface - 1];
    ssize_t got;

    if (c->secure) {
        if (!service_tls_ready(c))
            return c->instance->fault ? failed(c->instance, (enum service_counter)c->instance->fault) : SERVICE_ASLEEP;
        *http2 = service_tls_speaks(c, "h2");
        return SERVICE_AGAIN;
    }
    got = recv(c->fd, begin, sizeof begin, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SERVICE_ASLEEP;
    *http2 = got == (ssize_t)sizeof begin && memcmp(begin, preface, sizeof begin) == 0;
    if (*http2 || got <= 0 || c->hung_up || memcmp(begin, preface, (size_t)got) != 0)
        return SERVICE_AGAIN;
    if (!c->waits_since)
        c->waits_since = c->instance->core->now;
    return SERVICE_ASLEEP;
}

enum service_life service_prelude_turn(struct service_instance *self)
{
    struct service_channel *c = client_of(self);
    enum service_life life = c->awaits ? read_header(c) : SERVICE_AGAIN;
    bool http2 = false;

    if (life == SERVICE_AGAIN && ((struct service_lane *)self->core)->config->http2)
        life = choose(c, &http2);
    if (life != SERVICE_AGAIN)
        return life;
    self->begins = false;
    c->waits_since = 0;
    if (!http2)
        service_instance_start(self);
    else if (!service_h2_begin(self))
        return failed(self, SERVICE_H2_MEMORY);
    return SERVICE_AGAIN;
}

bool service_prelude_send(struct service_channel *c)
{
    uint8_t header[SERVICE_PROXY_OWN];
    size_t size = service_proxy_write(service_lane_of(c)->config->sends_proxy, service_ends_of(c->instance), header);

    return send(c->fd, header, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size; /* the first bytes fit always */
}
