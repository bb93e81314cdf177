/* The parts of a request of HTTP/1 that select a server: its path and its host (RFC 9112, 3). */
#ifndef SPLICE_REQUEST_H
#define SPLICE_REQUEST_H

#include "sluice.h"

enum splice_read { SPLICE_MORE, SPLICE_WHOLE, SPLICE_OTHER };   /* bytes are missing; a head; no HTTP */

struct splice_request { const uint8_t *path, *host; uint32_t path_length, host_length; };

/* Cuts `host` where a port follows. */
static inline uint32_t splice_host_length(const uint8_t *host, uint32_t length) {
    if (length && host[0] == '[') {   /* an IPv6 address (RFC 3986, 3.2.2) */
        const uint8_t *end = memchr(host, ']', length);
        return end ? (uint32_t)(end - host) + 1 : length;
    }
    const uint8_t *colon = memchr(host, ':', length);
    return colon ? (uint32_t)(colon - host) : length;
}

/* The host and path of a target in absolute form, http://HOST/PATH (RFC 9112, 3.2.2); others are a path. */
static inline void splice_target(struct splice_request *request, const uint8_t *at, uint32_t length) {
    request->path = at;
    request->path_length = length;
    if (length < 7 || strncasecmp((const char *)at, "http://", 7) != 0)
        return;
    const uint8_t *slash = memchr(at + 7, '/', length - 7);
    uint32_t end = slash ? (uint32_t)(slash - at) : length;
    request->host = at + 7;
    request->host_length = splice_host_length(at + 7, end - 7);
    request->path = slash ? slash : (const uint8_t *)"/";
    request->path_length = slash ? length - end : 1;
}

/* The line at `at`, without its end; `*next` is the rest after it. NULL: its end is missing. */
static inline const uint8_t *splice_line(const uint8_t *at, const uint8_t *end, const uint8_t **next) {
    const uint8_t *feed = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (!feed)
        return NULL;
    *next = feed + 1;
    return feed > at && feed[-1] == '\r' ? feed - 1 : feed;
}

/* Reads the head of a request. A second Host is not followed: the server judges the request. The path ends before a query. */
static inline enum splice_read splice_request_read(const uint8_t *bytes, uint32_t count, struct splice_request *request) {
    *request = (struct splice_request){NULL, NULL, 0, 0};
    if (!count)   /* there may be no memory for it either */
        return SPLICE_MORE;
    const uint8_t *at = bytes, *end = bytes + count, *next, *line;
    while (at < end && (*at == '\r' || *at == '\n'))   /* RFC 9112, 2.2 */
        at++;
    const uint8_t *method = at;
    while (at < end && ((*at >= 'A' && *at <= 'Z') || (*at == '-' && at > method)))
        at++;
    if (at == end)
        return at - method > 32 ? SPLICE_OTHER : SPLICE_MORE;
    if (*at != ' ' || at == method)
        return SPLICE_OTHER;
    const uint8_t *target = at + 1;
    line = splice_line(target, end, &next);
    if (!line)
        return SPLICE_MORE;
    const uint8_t *space = memchr(target, ' ', (size_t)(line - target));
    if (!space || line - space < 6 || memcmp(space + 1, "HTTP/", 5) != 0)
        return SPLICE_OTHER;
    splice_target(request, target, (uint32_t)(space - target));
    const uint8_t *query = memchr(request->path, '?', request->path_length);
    request->path_length = query ? (uint32_t)(query - request->path) : request->path_length;
    for (at = next; (line = splice_line(at, end, &next)); at = next) {
        if (line == at)
            return SPLICE_WHOLE;
        if (request->host || line - at < 5 || strncasecmp((const char *)at, "host:", 5) != 0)
            continue;
        for (at += 5; at < line && (*at == ' ' || *at == '\t');)
            at++;
        while (line > at && (line[-1] == ' ' || line[-1] == '\t'))
            line--;
        request->host = at;
        request->host_length = splice_host_length(at, (uint32_t)(line - at));
    }
    return SPLICE_MORE;
}

#endif
