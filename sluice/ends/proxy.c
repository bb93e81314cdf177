/* A proxy of byte streams with transparent sockets: a client's connection ends here, and one with the client's address is opened
 * to where it led. Both are the kernel's TCP, so the byte streams are all that they have in common.
 *
 *     proxy PORT CONNECTIONS IDLE [SERVER-ADDRESS SERVER-PORT]
 *
 * It prints "ready", and at SIGTERM or SIGINT its counters, as an object of JSON. */
#define _GNU_SOURCE
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
    uint64_t accepted, refused, full, failed, no_file, idle_ended, bytes_to_server, bytes_to_client;
    bool paused;           /* no connection is accepted until the next turn */
} proxy;

static uint64_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec;
}

static void unlink_pair(struct pair *pair) {
    pair->older->newer = pair->newer;
    pair->newer->older = pair->older;
}

/* Makes it the one that was used last. */
static void link_pair(struct pair *pair) {
    pair->used = proxy.now;
    pair->older = proxy.oldest_newest.older;
    pair->newer = &proxy.oldest_newest;
    pair->older->newer = pair->newer->older = pair;
}

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

/* Its memory remains until the events of this turn are handled. reset: the ends get a reset. */
static void end_pair(struct pair *pair, bool reset) {
    if (pair->dead)
        return;
    for (unsigned i = 0; i < 2; i++) {
        if (reset)
            setsockopt(pair->end[i].socket, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        close(pair->end[i].socket);
        free(pair->end[i].held);
    }
    unlink_pair(pair);
    pair->dead = true;
    pair->newer = proxy.dead;
    proxy.dead = pair;
    proxy.open--;
}

/* An end that waits for the other one is not watched, as EPOLLHUP is reported whether it is requested or not, and again
 * and again: both ends may have sent all they have while bytes for one of them wait for room. */
static bool watch(struct end *end, uint32_t events) {
    if (end->watched == events)
        return true;
    struct epoll_event event = {.events = events, .data.ptr = end};
    int how = !end->watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    end->watched = events;
    return epoll_ctl(proxy.events, how, end->socket, &event) == 0;
}

/* Watches both ends for what they can do next. */
static bool watch_both(struct pair *pair) {
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &pair->end[i], *other = &pair->end[!i];
        bool reads = !end->read_end && !other->held && !other->connecting && !end->connecting;
        bool writes = end->held || end->connecting;
        if (!watch(end, (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u)))
            return false;
    }
    return true;
}

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/* Passes bytes from one end to the other; false where the connection is to end by a reset. */
static bool pass(struct end *from, struct end *to) {
    uint64_t *passed = from == &from->pair->end[0] ? &proxy.bytes_to_server : &proxy.bytes_to_client;
    if (to->held) {
        ssize_t sent = send(to->socket, to->held + to->from, to->to - to->from, MSG_NOSIGNAL);
        if (sent < 0)
            return would_block();
        to->from += (uint32_t)sent;
        if (to->from < to->to)
            return true;
        free(to->held);
        to->held = NULL;
    }
    for (unsigned round = 0; round < ROUNDS && !from->read_end; round++) {
        ssize_t got = recv(from->socket, proxy.bytes, CHUNK, 0);
        if (got < 0)
            return would_block();
        from->read_end = got == 0;
        *passed += (uint64_t)got;
        ssize_t sent = got ? send(to->socket, proxy.bytes, (size_t)got, MSG_NOSIGNAL) : 0;
        if (sent < 0 && !would_block())
            return false;
        sent = sent < 0 ? 0 : sent;
        if (sent < got) {
            to->from = 0;
            to->to = (uint32_t)(got - sent);
            to->held = malloc(to->to);
            if (!to->held)
                return false;
            memcpy(to->held, proxy.bytes + sent, to->to);
            return true;
        }
        if (got < CHUNK)
            break;   /* the next event says if there is more */
    }
    if (from->read_end && !to->write_end) {
        to->write_end = true;
        shutdown(to->socket, SHUT_WR);
    }
    return true;
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

/* Opens the connection to where the client's led, from its address; -1: it cannot be. */
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

/* While the system has no file for a connection, its listener would be reported in each turn. */
static void pause_listeners(bool paused) {
    proxy.paused = paused;
    for (unsigned i = 0; i < 2; i++) {
        struct epoll_event event = {.events = paused ? 0 : EPOLLIN, .data.ptr = &proxy.listener[i]};
        if (proxy.listener[i] >= 0)
            epoll_ctl(proxy.events, EPOLL_CTL_MOD, proxy.listener[i], &event);
    }
}

static void accept_client(int listener) {
    for (unsigned i = 0; i < 64; i++) {
        union address from;
        socklen_t length = sizeof from;
        int client = accept4(listener, &from.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                proxy.no_file++;
                pause_listeners(true);
            }
            return;
        }
        struct pair *pair = proxy.open < proxy.most ? calloc(1, sizeof *pair) : NULL;
        int server = pair ? connect_server(client, &from) : -1;
        proxy.full += !pair;
        proxy.failed += pair && server < 0;
        if (server < 0) {
            setsockopt(client, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
            close(client);
            free(pair);
            continue;
        }
        set_switch(client, IPPROTO_TCP, TCP_NODELAY);
        proxy.accepted++;
        proxy.open++;
        pair->end[0] = (struct end){.socket = client, .pair = pair};
        pair->end[1] = (struct end){.socket = server, .connecting = true, .pair = pair};
        link_pair(pair);
        if (!watch_both(pair))
            end_pair(pair, true);
    }
}

static void handle(struct end *end, uint32_t events) {
    struct pair *pair = end->pair;
    if (pair->dead)
        return;
    unlink_pair(pair);
    link_pair(pair);
    struct end *other = end == &pair->end[0] ? &pair->end[1] : &pair->end[0];
    if (end->connecting) {
        int wrong = 0;
        socklen_t length = sizeof wrong;
        getsockopt(end->socket, SOL_SOCKET, SO_ERROR, &wrong, &length);
        if (wrong) {
            proxy.refused++;
            end_pair(pair, true);
            return;
        }
        end->connecting = false;
    } else if (events & EPOLLERR) {
        end_pair(pair, true);
        return;
    }
    bool good = other->connecting || pass(end, other);
    if (good && !end->connecting && (end->held || events & EPOLLOUT))
        good = pass(other, end);
    bool done = pair->end[0].write_end && pair->end[1].write_end && !pair->end[0].held && !pair->end[1].held;
    if (!good || done || !watch_both(pair))
        end_pair(pair, !done);
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

static void end_idle(void) {
    while (proxy.idle && proxy.open && proxy.oldest_newest.newer->used + proxy.idle <= proxy.now) {
        proxy.idle_ended++;
        end_pair(proxy.oldest_newest.newer, true);
    }
}

static void report(void) {
    printf("{\"accepted\":%llu,\"refused_by_servers\":%llu,\"not_opened\":%llu,\"over_connections\":%llu,\"without_file\":%llu,\"idle\":%llu,"
           "\"bytes_to_servers\":%llu,\"bytes_to_clients\":%llu,\"open\":%llu}\n",
           (unsigned long long)proxy.accepted, (unsigned long long)proxy.refused, (unsigned long long)proxy.failed,
           (unsigned long long)proxy.full, (unsigned long long)proxy.no_file, (unsigned long long)proxy.idle_ended, (unsigned long long)proxy.bytes_to_server,
           (unsigned long long)proxy.bytes_to_client, (unsigned long long)proxy.open);
    fflush(stdout);
}

static bool opened(uint16_t port) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    proxy.signals = signalfd(-1, &ends, SFD_CLOEXEC);
    proxy.events = epoll_create1(EPOLL_CLOEXEC);
    if (proxy.events < 0 || proxy.signals < 0)
        return false;
    epoll_ctl(proxy.events, EPOLL_CTL_ADD, proxy.signals, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &proxy.signals});
    for (unsigned i = 0; i < 2; i++) {
        proxy.listener[i] = listen_at(i ? AF_INET6 : AF_INET, port);
        if (proxy.listener[i] >= 0)
            epoll_ctl(proxy.events, EPOLL_CTL_ADD, proxy.listener[i],
                      &(struct epoll_event){.events = EPOLLIN, .data.ptr = &proxy.listener[i]});
    }
    return proxy.listener[0] >= 0 || proxy.listener[1] >= 0;
}

int main(int count, char **word) {
    if (count != 4 && count != 6)
        return 2;
    proxy.most = strtoull(word[2], NULL, 10);
    proxy.idle = strtoull(word[3], NULL, 10);
    proxy.oldest_newest.older = proxy.oldest_newest.newer = &proxy.oldest_newest;
    struct rlimit files;   /* two for each connection */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if ((count == 6 && !read_server(word[4], word[5])) || !opened((uint16_t)atoi(word[1]))) {
        fprintf(stderr, "proxy: port %s: %s\n", word[1], strerror(errno));
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event event[EVENTS];
        int found = epoll_wait(proxy.events, event, EVENTS, proxy.paused ? PAUSE : proxy.idle ? 1000 : -1);
        if (proxy.paused)
            pause_listeners(false);
        proxy.now = seconds();
        for (int i = 0; i < found; i++) {
            void *of = event[i].data.ptr;
            if (of == &proxy.signals) {
                report();
                return 0;
            }
            if (of == &proxy.listener[0] || of == &proxy.listener[1])
                accept_client(*(int *)of);
            else
                handle(of, event[i].events);
        }
        end_idle();
        for (struct pair *pair; (pair = proxy.dead);) {
            proxy.dead = pair->newer;
            free(pair);
        }
    }
}
