/* An HTTP cache between the channels of a program and their backends: the program sends its requests as without it. Each request
 * of a channel is looked at when those before it are answered. A stored response is copied into `in`, and the backend is not
 * connected; else the request is forwarded, and its response is stored while it passes.
 *
 * Requests for the same response wait while one of them, the leader, is on its way to the backend.
 */
#ifndef SERVICE_CACHE_H
#define SERVICE_CACHE_H

#include "cache_store.h"
#include "worker.h"

enum service_cache_phase {
    SERVICE_CACHE_IDLE,   /* no request is on its way */
    SERVICE_CACHE_WAITS,  /* for the response to the same request of another channel: it is in the cache's lists of these */
    SERVICE_CACHE_HEAD,   /* the head of a response is due */
    SERVICE_CACHE_BODY,   /* its body is */
    SERVICE_CACHE_SERVES, /* a stored response is copied */
};

/* The phase of a channel. */
struct service_cached {
    uint8_t phase;    /* enum service_cache_phase */
    bool joined;      /* it is connected to its backend, or is being connected */
    bool leads;       /* it is in the cache's list of leaders */
    bool ready;       /* the leader for which it waits has ended */
    bool alone;       /* it does not wait again for the current request */
    bool head_only;   /* the request is HEAD */
    bool stores;      /* its response may be stored */
    bool spoiled;     /* it may not: its resource was changed meanwhile */
    bool unsafe;      /* the request may change stored pages */
    bool validates;   /* the request is conditional on `page` */
    bool interim;     /* the response is one before the final one */
    bool drops;       /* the backend has answered, and ended the connection: the rest of the request is dropped */
    bool composed;    /* the prefix of the bytes of `page` is in `raw` */
    uint32_t since;   /* the second in which it began to wait, or the request was sent */
    uint64_t hash;    /* of the key of the request */
    uint64_t pass;    /* bytes of the request that are still to be sent, */
    struct service_tail tail; /* and the parts after them */
    uint64_t left;    /* the same of the response, */
    uint32_t head;    /* of which so many are its head's */
    struct service_tail rest;
    struct service_buffer *asked; /* the head of the request, if its response may be stored */
    struct service_buffer *raw;   /* received bytes, or bytes to send, before they are moved to `in` */
    struct service_page *page;    /* that is copied, or validated */
    struct service_page *made;    /* that the response is stored in */
    struct service_cursor cursor;
    struct service_cached *next, *before; /* in the cache's list of its hash, of leaders or of those that wait */
    struct service_cached *lane_next, *lane_before; /* of those that wait at its lane */
    struct service_channel *channel;
};

/* Whether the responses of a channel's backend are cached. */
bool service_cache_serves(const struct service_channel *c);

/* As service_io_open(), service_io_fill(), service_io_flush() and service_io_close(). */
void service_cache_open(struct service_channel *c);
bool service_cache_fill(struct service_channel *c);
bool service_cache_flush(struct service_channel *c);
void service_cache_close(struct service_channel *c);

/* The backend of a channel has failed: whether a stored response that is not fresh is used instead (RFC 5861, section 4). */
bool service_cache_rescue(struct service_channel *c);

/* A connection of the channel counts among those to its backend; whether one does. */
void service_cache_join(struct service_channel *c);
bool service_cache_joined(const struct service_channel *c);

/* Whether an instance waits for another one: it stays with its worker. */
bool service_cache_waits(const struct service_instance *self);

/* Gives those a turn whose leader has ended; the second, once a second, also those that have waited long enough. */
void service_cache_wake(struct service_lane *lane);
void service_cache_tick(struct service_lane *lane);

/* --- socket.c: the connection of a channel whose responses are cached */

/* Begins to connect it. False if it cannot; the fault is set. */
bool service_socket_connect(struct service_channel *c);

/* Closes its connection, and nothing else. */
void service_socket_disconnect(struct service_channel *c);

/* Whether a stream of HTTP/2 has ended before a response whose end it is (h2_uplink.c): its socket is closed, and not only
 * shut. `tail`: of the response. */
bool service_socket_cut(const struct service_channel *c, const struct service_tail *tail);

/* As read(2). */
ssize_t service_socket_take(struct service_channel *c, void *bytes, size_t size);

/* Fails for the reason that `errno` has. */
void service_socket_fail(struct service_channel *c);

#endif
