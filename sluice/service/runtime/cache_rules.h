/* Rules of a shared cache for requests and responses of HTTP (RFC 9111). */
#ifndef SERVICE_CACHE_RULES_H
#define SERVICE_CACHE_RULES_H

#include "headers.h"

enum {
    SERVICE_TAG = 256,           /* bytes of an entity tag; a response with a longer one is not stored */
    SERVICE_CACHE_CONTROL = 512, /* of all Cache-Control fields of a response */
};

/* The cache fields of a request. */
struct service_wish {
    struct service_text method, uri, host, headers;
    bool plain;     /* GET or HEAD without a body, a range, an authorization, or conditions that a cache cannot decide */
    bool head;      /* HEAD */
    bool old;       /* HTTP/1.0: its client reads no chunks (RFC 9112, section 6.1) */
    bool unsafe;    /* its method may change the stored pages of its URI (RFC 9110, section 9.2.1) */
    bool no_store;  /* nothing of it is stored */
    bool validated; /* a stored response is used only after the backend has confirmed it */
    bool stored;    /* only-if-cached */
    bool asks;      /* it has If-None-Match or If-Modified-Since */
    int64_t max_age, min_fresh; /* seconds; -1: not given */
};

/* Reads the head of a request: its first line and its header fields, without the empty line. */
void service_read_wish(struct service_text line, struct service_text headers, struct service_wish *wish);

/* The properties of a stored response besides its bytes. Texts are empty where it has no such field. */
struct service_freshness {
    int64_t lifetime;  /* seconds for which it is fresh; 0: it has to be validated before each use */
    int64_t age;       /* seconds that it had when it was received */
    int64_t modified;  /* Last-Modified; -1: unknown */
    int64_t survives, updates; /* seconds after its lifetime in which it is used if the backend fails, and while another request
                                * is at the backend (RFC 5861); -1: never */
    uint16_t status, tag_size, control_size;
    char date[SERVICE_DATE], expires[SERVICE_DATE], last_modified[SERVICE_DATE];
    char tag[SERVICE_TAG], control[SERVICE_CACHE_CONTROL];
};

/* Whether a response with these header fields may be stored for a request without authorization; its properties then.
 * `now`: seconds since 1970; `delay`: seconds between the request and it. */
bool service_read_freshness(uint32_t status, struct service_text headers, int64_t now, int64_t delay,
                            struct service_freshness *found);

/* The same of a 304 that confirms a stored response: fields that it has replace those that are stored. False if the response
 * may not be stored any more. */
bool service_read_refreshed(struct service_text headers, int64_t now, int64_t delay, struct service_freshness *found);

/* Whether it has a validator: the backend can validate it. */
static inline bool service_has_validator(const struct service_freshness *found)
{
    return found->tag_size || found->last_modified[0];
}

/* Whether a stored response of an age may be used for a request without validation. */
bool service_usable(const struct service_freshness *found, int64_t age, const struct service_wish *wish);

/* Whether one that is not fresh may be used after the backend has failed, or while it is asked by another request. */
bool service_usable_after_error(const struct service_freshness *found, int64_t age, const struct service_wish *wish);
bool service_usable_while_asked(const struct service_freshness *found, int64_t age, const struct service_wish *wish);

/* Whether by the condition of a request its client has the stored response already: the answer is 304. */
bool service_client_has(const struct service_freshness *found, const struct service_wish *wish);

/* Whether a field of a response is not stored as it is: it belongs to a connection, or is written again with each use. */
bool service_field_dropped(struct service_text name, struct service_text headers);

#endif
