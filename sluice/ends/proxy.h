/* Shared by the parts of the proxy: proxy_sockets.h has its sockets and their addresses, proxy_pairs.h its connections. */
#ifndef SLUICE_PROXY_H
#define SLUICE_PROXY_H

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, CHUNK = 64 << 10, ROUNDS = 8, PAUSE = 10 /* ms */ };

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif

union address { struct sockaddr any; struct sockaddr_in four; struct sockaddr_in6 six; };

/* One end of a connection; `held`: bytes for it that its socket had no room for. */
struct end {
    int socket;
    uint32_t watched;      /* events of epoll; 0: it is not in there */
    bool connecting, read_end, write_end;
    uint32_t from, to;     /* of held */
    uint8_t *held;
    struct pair *pair;
};

struct pair {
    struct end end[2];     /* the client's, the server's */
    struct pair *older, *newer;   /* by time of use */
    uint64_t used;         /* in seconds */
    bool dead;
};

static struct {
    int events, listener[2], signals;
    uint64_t open, most, idle, now;
    struct pair oldest_newest;    /* a ring: newer is the oldest, older is the newest */
    struct pair *dead;
    union address server;
    bool to_server;
    uint8_t bytes[CHUNK];
    uint64_t saved, restored, not_restored;   /* connections that moved to another proxy, or came from one */
    uint64_t accepted, refused, full, failed, no_file, idle_ended, bytes_to_server, bytes_to_client;
    bool paused;           /* no connection is accepted until the next iteration */
} proxy;

#endif
