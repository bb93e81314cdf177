/* Connections of `splice`, and where one is found by a packet of its server. */
#ifndef SPLICE_CONNECTION_H
#define SPLICE_CONNECTION_H

#include "splice_servers.h"

#include "function/edit_connection.h"
#include "syn_cookie.h"

enum splice_phase {
    SPLICE_ANSWERED,   /* the client's SYN was answered */
    SPLICE_REQUEST,    /* the client has acknowledged that; its request is waited for */
    SPLICE_OPENING,    /* the server has got a SYN */
    SPLICE_JOINED,
    SPLICE_REFUSED,    /* no server answered; the client was reset */
};
enum { SPLICE_SCALE = 1, SPLICE_SACK = 2, SPLICE_STAMPS = 4 };   /* options of TCP */
enum { SPLICE_NO_SCALE = 15 };                                   /* one more than the largest shift (RFC 7323, 2.3) */
/* The segment sizes that are believed: with smaller ones, as 0, a request would make endless segments; larger ones do not fit
 * into a packet of IP with its headers. */
enum { SPLICE_MSS_LEAST = 64, SPLICE_MSS_MOST = 65535 - 40 - 60 };

struct splice_connection {
    struct splice_connection *next;   /* of its bucket, or among the free ones */
    uint64_t hash;
    struct sl_flow_place of;          /* the flow of the client */
    /* The fields that a joined packet needs: */
    uint32_t number_shift;            /* number for the client, minus that of the server */
    uint32_t stamp_shift;             /* time stamp for the client, minus that of the server */
    uint8_t phase, server, version;
    uint8_t options;                  /* that the client was offered */
    uint8_t agreed;                   /* that the server has, too */
    uint8_t client_scale, box_scale, server_scale;   /* shifts of windows; box_scale: those that the client expects */
    bool listed;                      /* in the table */
    uint8_t ended;                    /* bits of sides that sent a FIN; 3: also after a reset */
    bool lingers;                     /* its timer runs, after which it is freed */
    uint32_t client, cookie;          /* the numbers of both SYNs */
    uint32_t client_next;             /* the number after the client's last byte */
    uint32_t server_next;             /* the same of the server */
    uint32_t stamp, box_stamp, server_stamp;   /* last ones of the client; of the box to the client; of the server */
    uint16_t window;                  /* last one of the client */
    uint16_t mss, server_mss;
    uint8_t tries;                    /* of the packet that the timer repeats */
    bool acknowledges;                /* the client's bytes are acknowledged, so that the box repeats them */
    uint64_t tried;                   /* bits of servers */
    uint64_t candidates;              /* bits of servers for the request */
    uint64_t deadline;                /* of the request, or of the server's answer, in nanoseconds */
    uint8_t *held;                    /* the client's first bytes; NULL: none, or the server has acknowledged them */
    uint32_t count, room;
    uint32_t passed;                  /* of them, those that the server has acknowledged */
    /* The headers that segments are made from: those of the client's SYN. */
    uint16_t link_type, port;
    uint8_t link;
    uint8_t head[TCP_LINK_MOST + 40 + 4];
};

enum { SPLICE_SLAB = 256 };
struct splice_slab { struct splice_slab *next; struct splice_connection of[SPLICE_SLAB]; };

struct splice {
    struct splice_servers servers;
    struct splice_connection **bucket, *free;
    struct splice_slab *slabs;
    uint64_t buckets;               /* a power of two */
    uint64_t open, most, half_open; /* connections, and their bound */
    uint64_t held;                  /* bytes of requests */
    uint8_t key[16];
    uint64_t all;            /* bits of the servers of the parameter */
    uint8_t options;         /* that the servers have by the parameter */
    uint64_t refused[3];     /* when a server last refused the option of this bit, in nanoseconds, or 0 */
    uint8_t scale;           /* of the window of the last server that has one */
    bool by_path, by_host, waits;
    uint8_t *segment;        /* where one is made; SPLICE_SEGMENT bytes */
};

enum { SPLICE_SEGMENT = TCP_SEGMENT_MOST + 40 + 65536 };

/* Connections of one client and port at one server are one. */
static inline uint64_t splice_hash(const struct splice *splice, const uint8_t *client, const uint8_t *client_port, const uint8_t *server,
                                   const uint8_t *server_port) {
    uint8_t text[36];
    uint32_t size = splice->servers.version == 4 ? 4 : 16;
    memcpy(text, client, size);
    memcpy(text + size, server, size);
    memcpy(text + 2 * size, client_port, 2);
    memcpy(text + 2 * size + 2, server_port, 2);
    return sl_siphash(splice->key, text, 2 * size + 4);
}

static inline uint32_t splice_address_size(const struct splice_connection *c) { return c->version == 4 ? 4 : 16; }
static inline const uint8_t *splice_client_address(const struct splice_connection *c) {
    return c->head + c->link + (c->version == 4 ? 12 : 8);
}
static inline const uint8_t *splice_client_port(const struct splice_connection *c) { return c->head + c->link + (c->version == 4 ? 20 : 40); }

/* The connection of a packet from a server; NULL: none. */
static inline struct splice_connection *splice_find(const struct splice *splice, const uint8_t *client, const uint8_t *client_port,
                                                    const uint8_t *server, const uint8_t *server_port) {
    uint64_t hash = splice_hash(splice, client, client_port, server, server_port);
    struct splice_connection *c = splice->bucket[hash & (splice->buckets - 1)];
    for (; c; c = c->next) {
        const struct splice_endpoint *of = &splice->servers.server[c->server];
        if (c->hash == hash && of->port == sl_load_be16(server_port) && !memcmp(of->address, server, splice_address_size(c)) &&
            !memcmp(splice_client_address(c), client, splice_address_size(c)) && !memcmp(splice_client_port(c), client_port, 2))
            return c;
    }
    return NULL;
}

static inline void splice_unlist(struct splice *splice, struct splice_connection *c) {
    if (!c->listed)
        return;
    struct splice_connection **at = &splice->bucket[c->hash & (splice->buckets - 1)];
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->listed = false;
}

/* Makes a connection found by packets of its server. One from before with the same ports is not found any more, also in what a
 * store has of it: the order in which another process reads them is not that of time. */
static inline void splice_list(struct sl_box *box, struct splice *splice, struct splice_connection *c) {
    const struct splice_endpoint *server = &splice->servers.server[c->server];
    uint8_t port[2] = {(uint8_t)(server->port >> 8), (uint8_t)server->port};
    struct splice_connection *before = splice_find(splice, splice_client_address(c), splice_client_port(c), server->address, port);
    if (before) {
        splice_unlist(splice, before);
        sl_flow_changed(box, &before->of);
    }
    c->hash = splice_hash(splice, splice_client_address(c), splice_client_port(c), server->address, port);
    c->next = splice->bucket[c->hash & (splice->buckets - 1)];
    splice->bucket[c->hash & (splice->buckets - 1)] = c;
    c->listed = true;
}

/* A new connection, zeroed; NULL: there are as many as may be, or no memory. */
static inline struct splice_connection *splice_new(struct splice *splice) {
    if (splice->open >= splice->most)
        return NULL;
    if (!splice->free) {
        struct splice_slab *slab = calloc(1, sizeof *slab);
        if (!slab)
            return NULL;
        slab->next = splice->slabs;
        splice->slabs = slab;
        for (unsigned i = 0; i < SPLICE_SLAB; i++) {
            slab->of[i].next = splice->free;
            splice->free = &slab->of[i];
        }
    }
    struct splice_connection *c = splice->free;
    splice->free = c->next;
    memset(c, 0, sizeof *c);
    splice->open++;
    return c;
}

/* The server has acknowledged the held bytes, or they are dropped. */
static inline void splice_drop_held(struct splice *splice, struct splice_connection *c) {
    splice->held -= c->room;
    free(c->held);
    c->held = NULL;
    c->room = 0;
}

static inline void splice_free(struct splice *splice, struct splice_connection *c) {
    splice_unlist(splice, c);
    splice_drop_held(splice, c);
    splice->half_open -= c->phase == SPLICE_ANSWERED;
    splice->open--;
    c->next = splice->free;
    splice->free = c;
}

/* Appends bytes to the held ones; false beyond `most` of the connection, or `all` of all, or without memory. */
static inline bool splice_hold(struct splice *splice, struct splice_connection *c, const uint8_t *bytes, uint32_t count, uint64_t most,
                               uint64_t all) {
    if ((uint64_t)c->count + count > most)
        return false;
    if (c->count + count > c->room) {
        uint32_t room = (uint32_t)sl_min(sl_max(sl_max(2 * c->room, c->count + count), 512), most);
        uint8_t *larger = splice->held + room - c->room > all ? NULL : realloc(c->held, room);
        if (!larger)
            return false;
        splice->held += room - c->room;
        c->held = larger;
        c->room = room;
    }
    memcpy(c->held + c->count, bytes, count);
    c->count += count;
    return true;
}

#endif
