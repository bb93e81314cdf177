/* In the place of TLS, for programs that are compiled without OpenSSL. */
#include <errno.h>

#include "tls.h"

static const char MISSING[] = "TLS: this program was compiled without OpenSSL";

const char *service_tls_memory(uint64_t bytes) { return (void)bytes, NULL; }

const char *service_tls_certificate(struct service_config *config, const char *chain, const char *key)
{
    return (void)config, (void)chain, (void)key, MISSING;
}

const char *service_tls_protocols(struct service_config *config, const char *list)
{
    return (void)config, (void)list, MISSING;
}

const char *service_tls_authorities(struct service_config *config, const char *authorities)
{
    return (void)config, (void)authorities, MISSING;
}

void service_tls_free(struct service_config *config) { (void)config; }

bool service_tls_affords(void) { return false; }

bool service_tls_accept(struct service_channel *c) { return (void)c, false; }

bool service_tls_connect(struct service_channel *c, const struct service_address *address)
{
    return (void)c, (void)address, false;
}

bool service_tls_ready(struct service_channel *c) { return (void)c, false; }

bool service_tls_speaks(const struct service_channel *c, const char *protocol)
{
    (void)c, (void)protocol;
    return false;
}

uint32_t service_tls_waits(const struct service_channel *c) { return (void)c, 0; }

ssize_t service_tls_read(struct service_channel *c, void *bytes, size_t size)
{
    (void)c, (void)bytes, (void)size;
    errno = EPROTO;
    return -1;
}

ssize_t service_tls_send(struct service_channel *c, const void *bytes, size_t size)
{
    (void)c, (void)bytes, (void)size;
    errno = EPROTO;
    return -1;
}

bool service_tls_shut(struct service_channel *c) { return (void)c, true; }

void service_tls_attach(struct service_channel *c, struct service_tls *tls) { (void)c, (void)tls; }

struct service_tls *service_tls_detach(struct service_channel *c) { return (void)c, NULL; }

void service_tls_end(struct service_channel *c) { (void)c; }

void service_tls_drop(struct service_tls *tls) { (void)tls; }

struct service_probe_tls *service_probe_tls_begin(struct service_config *config, int fd,
                                                 const struct service_address *address)
{
    return (void)config, (void)fd, (void)address, NULL;
}

bool service_probe_tls_ready(struct service_probe_tls *tls) { return (void)tls, false; }

ssize_t service_probe_tls_read(struct service_probe_tls *tls, void *bytes, size_t size)
{
    return (void)tls, (void)bytes, (void)size, 0;
}

ssize_t service_probe_tls_send(struct service_probe_tls *tls, const void *bytes, size_t size)
{
    return (void)tls, (void)bytes, (void)size, 0;
}

void service_probe_tls_end(struct service_probe_tls *tls) { (void)tls; }
