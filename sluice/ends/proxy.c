/* A proxy of byte streams with transparent sockets: a client's connection ends here, and one with the client's address is opened
 * to where it led. Both are the kernel's TCP, so the byte streams are all that they have in common.
 *
 *     proxy PORT CONNECTIONS IDLE SAVE RESTORE [SERVER-ADDRESS SERVER-PORT]
 *
 * It prints "ready", and at SIGTERM or SIGINT its counters, as an object of JSON. RESTORE is a file with the connections of
 * another proxy, which go on here, or "". At SIGUSR2 it writes its own to the file SAVE, and ends. */
#define _GNU_SOURCE
#include "proxy_repair.h"

static uint64_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec;
}

/* While the system has no file for a connection, its listener would be reported in each iteration. */
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

static void report(void) {
    printf("{\"accepted\":%llu,\"refused_by_servers\":%llu,\"not_opened\":%llu,\"over_connections\":%llu,\"without_file\":%llu,\"idle\":%llu,"
           "\"bytes_to_servers\":%llu,\"bytes_to_clients\":%llu,\"open\":%llu,\"saved\":%llu,\"restored\":%llu,\"not_restored\":%llu}\n",
           (unsigned long long)proxy.accepted, (unsigned long long)proxy.refused, (unsigned long long)proxy.failed,
           (unsigned long long)proxy.full, (unsigned long long)proxy.no_file, (unsigned long long)proxy.idle_ended, (unsigned long long)proxy.bytes_to_server,
           (unsigned long long)proxy.bytes_to_client, (unsigned long long)proxy.open, (unsigned long long)proxy.saved,
           (unsigned long long)proxy.restored, (unsigned long long)proxy.not_restored);
    fflush(stdout);
}

static bool opened(uint16_t port) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGUSR2);
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
    if (count != 6 && count != 8)
        return 2;
    proxy.most = strtoull(word[2], NULL, 10);
    proxy.idle = strtoull(word[3], NULL, 10);
    proxy.oldest_newest.older = proxy.oldest_newest.newer = &proxy.oldest_newest;
    struct rlimit files;   /* two for each connection */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if ((count == 8 && !read_server(word[6], word[7])) || !opened((uint16_t)atoi(word[1]))) {
        fprintf(stderr, "proxy: port %s: %s\n", word[1], strerror(errno));
        return 1;
    }
    proxy.now = seconds();
    if (*word[5] && !restore_pairs(word[5], &proxy.restored, &proxy.not_restored)) {
        fprintf(stderr, "proxy: %s: these are no connections of a proxy, or not all of them\n", word[5]);
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
                struct signalfd_siginfo signal;
                bool saves = read(proxy.signals, &signal, sizeof signal) == sizeof signal && signal.ssi_signo == SIGUSR2;
                bool done = !saves || (*word[4] && save_pairs(word[4], &proxy.saved));
                if (!done)
                    fprintf(stderr, "proxy: connections cannot be saved to '%s': %s\n", word[4], strerror(errno));
                report();
                return !done;
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
