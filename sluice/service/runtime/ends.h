/* The addresses of a client's connection: from the kernel, or from the header of a proxy before this one. */
#ifndef SERVICE_ENDS_H
#define SERVICE_ENDS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "worker.h"

/* Those of an instance; null if the service does not need them. */
static inline struct service_ends *service_ends_of(const struct service_instance *self)
{
    return self->home->ends ? &self->home->ends[service_slot(self)] : NULL;
}

/* Sets one end. An IPv4 address within IPv6 (RFC 4291, section 2.5.5.2) is one of IPv4. */
static inline void service_ends_set(struct service_ends *ends, bool client, const struct sockaddr_storage *address)
{
    uint8_t *at = client ? ends->client : ends->server;
    uint16_t *port = client ? &ends->client_port : &ends->server_port;

    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;

        memcpy(at, &four->sin_addr, 4);
        *port = ntohs(four->sin_port);
        ends->family = 4;
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

        bool four = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);

        memcpy(at, six->sin6_addr.s6_addr + (four ? 12 : 0), four ? 4 : 16);
        *port = ntohs(six->sin6_port);
        ends->family = four ? 4 : 6;
    }
}

/* The client's address as text. False if it has none. */
static inline bool service_ends_text(const struct service_ends *ends, char text[INET6_ADDRSTRLEN])
{
    return ends->family && inet_ntop(ends->family == 4 ? AF_INET : AF_INET6, ends->client, text, INET6_ADDRSTRLEN);
}

#endif
