/* Sockets that may have foreign addresses. */
#ifndef SLUICE_PROXY_SOCKETS_H
#define SLUICE_PROXY_SOCKETS_H

#include "proxy.h"

static void set_switch(int socket, int level, int option) { setsockopt(socket, level, option, &(int){1}, sizeof(int)); }

/* A socket that may have foreign addresses; -1 without the right to. */
static int transparent(int family) {
    int made = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (made < 0)
        return -1;
    set_switch(made, SOL_SOCKET, SO_REUSEADDR);
    if (family == AF_INET ? setsockopt(made, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on)
                          : setsockopt(made, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on)) {
        close(made);
        return -1;
    }
    return made;
}

static socklen_t length_of(const union address *address) {
    return address->any.sa_family == AF_INET ? sizeof address->four : sizeof address->six;
}

static void set_port(union address *address, uint16_t port) {
    if (address->any.sa_family == AF_INET)
        address->four.sin_port = htons(port);
    else
        address->six.sin6_port = htons(port);
}

/* Is this an address of an interface here? A connection to it would be accepted here again, and again, until there are as
 * many as may be. Interfaces get their addresses before the proxy starts. */
static bool is_own(const union address *address) {
    static struct ifaddrs *interfaces;
    if (!interfaces && getifaddrs(&interfaces))
        return false;
    for (const struct ifaddrs *at = interfaces; at; at = at->ifa_next) {
        const union address *one = (const union address *)(const void *)at->ifa_addr;
        if (!one || one->any.sa_family != address->any.sa_family)
            continue;
        if (one->any.sa_family == AF_INET ? one->four.sin_addr.s_addr == address->four.sin_addr.s_addr
                                          : !memcmp(&one->six.sin6_addr, &address->six.sin6_addr, sizeof one->six.sin6_addr))
            return true;
    }
    return false;
}

/* Opens the connection to the target of the client's, from its address; -1 on failure. */
static int connect_server(int client, const union address *from) {
    union address source = *from, to = proxy.server;
    socklen_t length = sizeof to;
    if (!proxy.to_server && (getsockname(client, &to.any, &length) || is_own(&to)))
        return -1;
    if (to.any.sa_family != source.any.sa_family)
        return -1;
    for (unsigned attempt = 0; attempt < 2; attempt++) {   /* the client's port may still be in TIME-WAIT */
        int server = transparent(to.any.sa_family);
        if (server < 0)
            return -1;
        set_switch(server, IPPROTO_TCP, TCP_NODELAY);
        if (!bind(server, &source.any, length_of(&source)) &&
            (!connect(server, &to.any, length_of(&to)) || errno == EINPROGRESS))
            return server;
        close(server);
        set_port(&source, 0);
    }
    return -1;
}

static int listen_at(int family, uint16_t port) {
    union address at = {.any = {.sa_family = (sa_family_t)family}};
    int made = transparent(family);
    if (made < 0)
        return -1;
    set_port(&at, port);
    if (family == AF_INET6)
        set_switch(made, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(made, &at.any, length_of(&at)) || listen(made, 4096)) {
        close(made);
        return -1;
    }
    return made;
}

static bool read_server(const char *address, const char *port) {
    proxy.to_server = true;
    if (inet_pton(AF_INET, address, &proxy.server.four.sin_addr) == 1)
        proxy.server.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, address, &proxy.server.six.sin6_addr) == 1)
        proxy.server.any.sa_family = AF_INET6;
    else
        return false;
    set_port(&proxy.server, (uint16_t)atoi(port));
    return true;
}

#endif
