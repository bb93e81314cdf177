/* A known load, for tests of accounting:
 *
 *   load burn FILE                       computes, and counts the units of work in the first 8 bytes of FILE
 *   load receive PORT                    receives UDP
 *   load hold PORT                       has a UDP socket, and never reads from it
 *   load send ADDRESS PORT RATE BYTES N  sends UDP at a rate (packets/s; 0: as fast as it can), N packets (0: no end)
 *   load sink PORT                       receives TCP, on any number of connections
 *   load stream ADDRESS PORT FLOWS       sends TCP as fast as it can, on so many connections
 *
 * Each ends with the process that started it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Dependent multiplications in registers: neither memory nor the other CPU changes how long a unit takes. */
static int burn(const char *path)
{
    int file = open(path, O_RDWR);
    if (file < 0)
        return fail(path);
    volatile uint64_t *units = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (units == MAP_FAILED)
        return fail("mmap");
    for (uint64_t x = 1;; ++*units)
        for (int i = 0; i < 1000; i++) {
            x = x * 6364136223846793005u + 1;
            __asm__ volatile("" : "+r"(x));
        }
}

static int udp(void)
{
    return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int receive(int port, int reads)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char data[2048];
    int s = udp();
    if (s < 0 || bind(s, (struct sockaddr *)&address, sizeof(address)))
        return fail("bind");
    while (!reads)
        pause();
    for (;;)
        if (recv(s, data, sizeof(data), 0) < 0)
            return fail("recv");
}

static int send_all(const char *host, int port, uint64_t rate, size_t bytes, uint64_t count)
{
    enum { BURST = 8 };
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    static char data[65536];
    int s = udp();
    if (s < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 || connect(s, (struct sockaddr *)&address, sizeof(address)))
        return fail(host);
    uint64_t due = now();
    for (uint64_t sent = 0; !count || sent < count; sent += BURST) {
        for (int i = 0; i < BURST; i++)
            (void)!send(s, data, bytes, 0); /* a full buffer or a closed port is part of the load */
        if (!rate)
            continue;
        due += BURST * UINT64_C(1000000000) / rate;
        uint64_t at = now();
        if (at > due + 100000000u)
            due = at; /* it was not scheduled for long: do not catch up with a burst */
        if (due > at + 50000)
            nanosleep(&(struct timespec){.tv_nsec = (long)(due - at - 50000)}, NULL);
        while (now() < due)
            ;
    }
    return 0;
}

enum { FLOWS = 256 };

static int sink(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    static char data[1 << 18];
    struct pollfd open_[1 + FLOWS];
    nfds_t count = 1;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int reuse = 1; /* connections of an earlier process may still end on that port */
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) ||
        bind(s, (struct sockaddr *)&address, sizeof(address)) || listen(s, FLOWS))
        return fail("listen");
    open_[0] = (struct pollfd){.fd = s, .events = POLLIN};
    for (;;) {
        if (poll(open_, count, -1) < 0)
            return fail("poll");
        for (nfds_t i = count - 1; i > 0; i--)
            if (open_[i].revents && recv(open_[i].fd, data, sizeof(data), MSG_DONTWAIT) == 0) {
                close(open_[i].fd);
                open_[i] = open_[--count];
            }
        if (open_[0].revents && count <= FLOWS)
            open_[count++] = (struct pollfd){.fd = accept(s, NULL, NULL), .events = POLLIN};
    }
}

static int stream(const char *host, int port, int flows)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    static char data[1 << 16];
    struct pollfd open_[FLOWS];
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || flows < 1 || flows > FLOWS)
        return fail(host);
    for (int i = 0; i < flows; i++) {
        open_[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .events = POLLOUT};
        if (open_[i].fd < 0 || connect(open_[i].fd, (struct sockaddr *)&address, sizeof(address)))
            return fail(host);
    }
    for (;;) {
        if (poll(open_, (nfds_t)flows, -1) < 0)
            return fail("poll");
        for (int i = 0; i < flows; i++)
            if (open_[i].revents && send(open_[i].fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
                open_[i].revents & (POLLERR | POLLHUP))
                return fail("send");
    }
}

int main(int n, char **a)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (n == 3 && !strcmp(a[1], "burn"))
        return burn(a[2]);
    if (n == 3 && !strcmp(a[1], "receive"))
        return receive(atoi(a[2]), 1);
    if (n == 3 && !strcmp(a[1], "hold"))
        return receive(atoi(a[2]), 0);
    if (n == 7 && !strcmp(a[1], "send"))
        return send_all(a[2], atoi(a[3]), strtoull(a[4], NULL, 10), strtoull(a[5], NULL, 10), strtoull(a[6], NULL, 10));
    if (n == 3 && !strcmp(a[1], "sink"))
        return sink(atoi(a[2]));
    if (n == 5 && !strcmp(a[1], "stream"))
        return stream(a[2], atoi(a[3]), atoi(a[4]));
    fprintf(stderr, "usage: load burn FILE | receive PORT | hold PORT | send ADDRESS PORT RATE BYTES N | sink PORT | "
                    "stream ADDRESS PORT FLOWS\n");
    return 2;
}
