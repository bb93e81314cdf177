/* The service and the servers of `splice`: addresses, routes by host and path, and the choice of one. */
#ifndef SPLICE_SERVERS_H
#define SPLICE_SERVERS_H

#include "splice_request.h"

#include "core/siphash.h"

#include <arpa/inet.h>
#include <errno.h>
#include <strings.h>

enum { SPLICE_SERVERS = 64, SPLICE_ROUTES = 1024, SPLICE_LINE = 1024 };

/* An IPv4 address has its 4 bytes at the beginning. */
struct splice_endpoint { uint8_t address[16]; uint16_t port; };

/* The servers of requests whose path begins with `path`, for a host ("*": all). */
struct splice_route { char *host, *path; uint64_t servers; };

struct splice_servers {
    struct splice_endpoint service, server[SPLICE_SERVERS];
    uint64_t down[SPLICE_SERVERS];   /* until when it gets no new connections, in nanoseconds */
    uint32_t count, routes;
    uint8_t version;                 /* of IP: 4 or 6 */
    struct splice_route *route;
};

/* Reads ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT of `length` characters; false if the text is none. */
static inline bool splice_endpoint_read(const char *text, size_t length, struct splice_endpoint *out, uint8_t *version) {
    char at[64], *colon;
    uint64_t port = out->port;
    if (length >= sizeof at)
        return false;
    memcpy(at, text, length);
    at[length] = 0;
    char *address = at, *close = at[0] == '[' ? strchr(at, ']') : NULL;
    colon = close ? strchr(close, ':') : strchr(at, ':') == strrchr(at, ':') ? strchr(at, ':') : NULL;
    if (colon && (!sl_parameter_number(colon + 1, &port) || !port || port > 65535))
        return false;
    if (colon)
        *colon = 0;
    if (close) {
        *close = 0;
        address++;
    }
    memset(out->address, 0, sizeof out->address);
    out->port = (uint16_t)port;
    *version = inet_pton(AF_INET, address, out->address) == 1 ? 4 : inet_pton(AF_INET6, address, out->address) == 1 ? 6 : 0;
    return *version != 0;
}

/* Reads servers with + between them; their bits, 0 if the text has others. Without a port they have the service's. */
static inline uint64_t splice_servers_read(struct splice_servers *servers, const char *text) {
    uint64_t found = 0;
    for (;;) {
        struct splice_endpoint one = {.port = servers->service.port};
        size_t length = strcspn(text, "+");
        uint8_t version;
        if (!splice_endpoint_read(text, length, &one, &version) || version != servers->version || !one.port)
            return 0;
        uint32_t i = 0;
        while (i < servers->count && memcmp(&servers->server[i], &one, sizeof one) != 0)
            i++;
        if (i == SPLICE_SERVERS)
            return 0;
        servers->server[i] = one;
        servers->count += i == servers->count;
        found |= (uint64_t)1 << i;
        if (!text[length])
            return found;
        text += length + 1;
    }
}

/* Reads a file with a line HOST PATH SERVER[+SERVER...] for each route; # begins a comment. False: it has warned. */
static inline bool splice_routes_read(struct splice_servers *servers, const char *path) {
    FILE *file = fopen(path, "r");
    char line[SPLICE_LINE];
    if (!file) {
        fprintf(stderr, "splice: %s: %s\n", path, strerror(errno));
        return false;
    }
    for (unsigned number = 1; fgets(line, sizeof line, file); number++) {
        char *rest, *host, *prefix, *names;
        bool whole = strchr(line, '\n') || feof(file);
        line[strcspn(line, "#\r\n")] = 0;
        host = strtok_r(line, " \t", &rest);
        if (!host && whole)
            continue;
        prefix = host ? strtok_r(NULL, " \t", &rest) : NULL;
        names = prefix ? strtok_r(NULL, " \t", &rest) : NULL;
        uint64_t bits = whole && names && prefix[0] == '/' && !strtok_r(NULL, " \t", &rest) ? splice_servers_read(servers, names) : 0;
        struct splice_route *more =
            bits && servers->routes < SPLICE_ROUTES ? realloc(servers->route, (servers->routes + 1) * sizeof *more) : NULL;
        if (more) {
            servers->route = more;
            more += servers->routes++;
            *more = (struct splice_route){strdup(host), strdup(prefix), bits};
        }
        if (!more || !more->host || !more->path) {
            fprintf(stderr, "splice: %s:%u: a line is HOST PATH SERVER[+SERVER...], as in: * /images 10.0.0.11+10.0.0.12:8080; "
                            "at most %d lines, %d servers, all of one version of IP\n", path, number, SPLICE_ROUTES, SPLICE_SERVERS);
            fclose(file);
            return false;
        }
    }
    fclose(file);
    return true;
}

static inline void splice_servers_free(struct splice_servers *servers) {
    for (uint32_t i = 0; i < servers->routes; i++) {
        free(servers->route[i].host);
        free(servers->route[i].path);
    }
    free(servers->route);
}

/* The servers for a request: those of the longest path among the routes of its host, else among those of all hosts; `all`
 * where there is none. */
static inline uint64_t splice_routed(const struct splice_servers *servers, const struct splice_request *request, uint64_t all) {
    uint64_t found = all;
    size_t best = 0;
    for (uint32_t i = 0; i < servers->routes; i++) {
        const struct splice_route *route = &servers->route[i];
        size_t length = strlen(route->path), host = strlen(route->host);
        bool any = strcmp(route->host, "*") == 0;
        if (!any && (host != request->host_length || strncasecmp(route->host, (const char *)request->host, host) != 0))
            continue;
        if (length > request->path_length || memcmp(route->path, request->path, length) != 0)
            continue;
        size_t rank = length + (any ? 0 : SPLICE_LINE);
        if (rank <= best)
            continue;
        best = rank;
        found = route->servers;
    }
    return found;
}

/* The server among `bits` whose hash with the text is largest (Thaler and Ravishankar, 1998): a change of servers moves
 * only its own connections. */
static inline uint32_t splice_highest(const struct splice_servers *servers, uint64_t bits, const uint8_t *text, uint32_t length) {
    static const uint8_t key[16] = "sluice's splice";
    uint64_t of_text = sl_siphash(key, text, length), best = 0;
    uint32_t found = 0;
    for (uint32_t i = 0; i < servers->count; i++) {
        uint8_t pair[sizeof of_text + sizeof servers->server[i].address + 2];
        if (!(bits >> i & 1))
            continue;
        sl_store_be32(pair, of_text >> 32);
        sl_store_be32(pair + 4, of_text);
        memcpy(pair + 8, servers->server[i].address, 16);
        sl_store_be16(pair + 24, servers->server[i].port);
        uint64_t hash = sl_siphash(key, pair, sizeof pair);
        if (hash >= best) {
            best = hash;
            found = i;
        }
    }
    return found;
}

/* Those among `bits` that are not down; all of them where all are. */
static inline uint64_t splice_up(const struct splice_servers *servers, uint64_t bits, uint64_t now) {
    uint64_t up = 0;
    for (uint32_t i = 0; i < servers->count; i++)
        up |= (bits >> i & 1 && servers->down[i] <= now) ? (uint64_t)1 << i : 0;
    return up ? up : bits;
}

#endif
