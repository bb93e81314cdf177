/* Active health checks. Each interval a backend is connected; with a path, it is sent a GET of HTTP/1.1, and has to answer
 * with a status from 200 to 399. A check has to end within the interval. After `fall` failures in a row a backend is taken
 * out, so that up() is false, and after `rise` successes it is back.
 *
 * All memory is allocated at start. Folders, and backends that are sent nothing, are not checked: connecting to one of the
 * latter would receive its data.
 */
#include "health.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend.h"
#include "h2.h"
#include "proxy_header.h"
#include "tls.h"

enum {
    REQUEST = 1024, /* bytes of a request */
    STATUS = 12,    /* bytes of an answer as far as its status */
    ANSWER = 16384, /* bytes of it that are read: interim responses precede the one that counts */
    SECOND = 1000,  /* milliseconds */
};

struct service_probe {
    struct service_config *config;
    const struct service_address *address;
    struct service_backend *backend;
    const char *port; /* of the program */
    uint32_t index;
    uint32_t streak;       /* checks in a row whose result differs from the state of the backend */
    uint64_t due;          /* milliseconds: the next check begins, or this one has to be over */
    int fd;                /* -1: no check is going on */
    struct service_probe_tls *tls;
    struct service_probe_h2 *h2;
    bool connected;
    uint32_t size, sent, held; /* bytes of the request, and of the answer's beginning */
    uint32_t got;              /* bytes of the answer, interim responses included */
    uint32_t skips;            /* an interim response is skipped: bytes of the empty line that ends it, and one; or 0 */
    char request[REQUEST], answer[STATUS];
};

static uint64_t milliseconds(void) { return service_nanoseconds() / 1000000; }

static void count(struct service_probe *probe, enum service_counter what)
{
    __atomic_fetch_add(&probe->config->other_counters[what], 1, __ATOMIC_RELAXED);
}

static void report(const struct service_probe *probe, const char *what, const char *why)
{
    char host[256] = "?", port[32] = "?";

    getnameinfo((const struct sockaddr *)&probe->address->storage, probe->address->length, host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    fprintf(stderr, "sluice: %s: backend %u of '%s', %s port %s, %s%s%s\n", probe->config->program->name, probe->index,
            probe->port, host, port, what, why ? ": " : "", why ? why : "");
}

/* A check is over. `why`: why it has failed; null if it has not. */
static void finish(struct service_probe *probe, const char *why)
{
    bool out = atomic_load_explicit(&probe->backend->unhealthy, memory_order_relaxed);
    uint32_t enough = out ? probe->config->health_rise : probe->config->health_fall;

    if (probe->tls)
        service_probe_tls_end(probe->tls);
    if (probe->fd >= 0)
        close(probe->fd);
    if (probe->h2)
        service_probe_h2_end(probe->h2);
    probe->tls = NULL;
    probe->h2 = NULL;
    probe->fd = -1;
    count(probe, why ? SERVICE_CHECKS_FAILED : SERVICE_CHECKS_GOOD);
    probe->streak = out == !why ? probe->streak + 1 : 0;
    if (probe->streak < enough)
        return;
    probe->streak = 0;
    atomic_store_explicit(&probe->backend->unhealthy, !out, memory_order_relaxed);
    if (out)
        atomic_store_explicit(&probe->backend->down_until, 0, memory_order_relaxed);
    count(probe, out ? SERVICE_PUT_BACK : SERVICE_TAKEN_OUT);
    report(probe, out ? "is up" : "is down", why);
}

/* Writes what a backend is sent. False if there is no memory; `size` is REQUEST at least if it is too long. */
static bool write_request(struct service_probe *probe)
{
    char host[256] = "localhost", port[32] = "", authority[300];
    bool six = probe->address->storage.ss_family == AF_INET6;

    if (!probe->config->health_path || !probe->config->health_path[0])
        return true;
    getnameinfo((const struct sockaddr *)&probe->address->storage, probe->address->length, host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    if (probe->address->name)
        snprintf(host, sizeof host, "%s", probe->address->name);
    six = six && strchr(host, ':');
    snprintf(authority, sizeof authority, "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
    if (probe->h2) {
        uint32_t size = service_probe_h2_ask(probe->h2, authority, probe->config->health_path, probe->address->name,
                                             probe->request, REQUEST);

        probe->size = size ? size : probe->size;
        return size > 0;
    }
    probe->size = (uint32_t)snprintf(probe->request, REQUEST,
                                     "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: sluice\r\nConnection: close\r\n\r\n",
                                     probe->config->health_path, authority);
    return true;
}

static void begin(struct service_probe *probe, uint64_t now)
{
    probe->due = now + (uint64_t)probe->config->health * SECOND;
    probe->sent = probe->held = probe->got = probe->skips = 0;
    probe->connected = false;
    probe->fd = socket(probe->address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe->fd < 0)
        finish(probe, "no socket is left");
    else if (connect(probe->fd, (const struct sockaddr *)&probe->address->storage, probe->address->length) != 0 &&
             errno != EINPROGRESS)
        finish(probe, strerror(errno));
    else if (probe->address->name && !(probe->tls = service_probe_tls_begin(probe->config, probe->fd, probe->address)))
        finish(probe, "no memory left for TLS");
    else if (probe->address->http2 && probe->size && (!(probe->h2 = service_probe_h2_begin()) || !write_request(probe)))
        finish(probe, "no memory left for HTTP/2");
}

/* Evaluates a status. */
static void judge_status(struct service_probe *probe, const char *status)
{
    static char why[64];

    snprintf(why, sizeof why, "status %.3s", status);
    finish(probe, status[0] == '2' || status[0] == '3' ? NULL : why);
}

/* Parses bytes of an answer of HTTP/2. Whether the check is over. */
static bool take_frames(struct service_probe *probe, const char *bytes, uint32_t count)
{
    int status = service_probe_h2_take(probe->h2, bytes, count);
    char text[16];

    probe->got += count;
    if (status > 0) {
        snprintf(text, sizeof text, "%d", status);
        judge_status(probe, text);
    } else if (status < 0 || probe->got >= ANSWER) {
        finish(probe, "its answer is not one of HTTP/2");
    }
    return probe->fd < 0;
}

/* Evaluates the status of an answer. Whether the check is over: an interim response (RFC 9110, section
 * 15.2) is followed by another one. */
static bool judge(struct service_probe *probe)
{
    const char *a = probe->answer;

    if (memcmp(a, "HTTP/1.", 7) != 0 || (a[7] != '0' && a[7] != '1') || a[8] != ' ') {
        finish(probe, "its answer is not one of HTTP");
    } else if (a[9] == '1' && memcmp(a + 9, "101", 3) != 0) {
        probe->held = 0;
        probe->skips = 1;
        return false;
    } else {
        judge_status(probe, a + 9);
    }
    return true;
}

/* Parses bytes of an answer. Whether the check is over. */
static bool take(struct service_probe *probe, const char *bytes, uint32_t count)
{
    static const char end[] = "\r\n\r\n";

    probe->got += count;
    for (uint32_t i = 0; i < count; i++) {
        if (!probe->skips) {
            probe->answer[probe->held++] = bytes[i];
            if (probe->held == STATUS && judge(probe))
                return true;
        } else if (bytes[i] == end[probe->skips - 1]) {
            probe->skips = probe->skips == 4 ? 0 : probe->skips + 1;
        } else {
            probe->skips = bytes[i] == '\r' ? 2 : 1;
        }
    }
    if (probe->got < ANSWER)
        return false;
    finish(probe, "its interim responses do not end");
    return true;
}

/* What `done` bytes, or the error, of a read or write mean. Whether to go on. */
static bool moved(struct service_probe *probe, ssize_t done, bool read)
{
    if (done > 0)
        return true;
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    finish(probe, done == 0 && read ? "it has closed the connection" : errno == EPROTO ? "TLS has failed" : strerror(errno));
    return false;
}

/* Continues a check as far as its connection permits. */
static void go_on(struct service_probe *probe)
{
    int error = 0;
    socklen_t length = sizeof error;
    ssize_t done;

    if (!probe->connected && (getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)) {
        finish(probe, strerror(error ? error : errno));
        return;
    }
    if (!probe->connected && probe->config->sends_proxy) {
        uint8_t header[SERVICE_PROXY_OWN];
        size_t size = service_proxy_write(probe->config->sends_proxy, NULL, header);

        if (send(probe->fd, header, size, MSG_NOSIGNAL) != (ssize_t)size) {
            finish(probe, strerror(errno));
            return;
        }
    }
    probe->connected = true;
    if (probe->tls && !service_probe_tls_ready(probe->tls)) {
        if (errno != EAGAIN)
            finish(probe, errno == EACCES ? "its certificate is not valid" : "the TLS handshake has failed");
        return;
    }
    if (probe->size == 0) {
        finish(probe, NULL);
        return;
    }
    while (probe->sent < probe->size) {
        const char *at = probe->request + probe->sent;
        uint32_t left = probe->size - probe->sent;

        done = probe->tls ? service_probe_tls_send(probe->tls, at, left) : send(probe->fd, at, left, MSG_NOSIGNAL);
        if (!moved(probe, done, false))
            return;
        probe->sent += (uint32_t)done;
    }
    do {
        char bytes[256];

        done = probe->tls ? service_probe_tls_read(probe->tls, bytes, sizeof bytes) : read(probe->fd, bytes, sizeof bytes);
        if (!moved(probe, done, true))
            return;
        if (probe->h2 ? take_frames(probe, bytes, (uint32_t)done) : take(probe, bytes, (uint32_t)done))
            return;
    } while (true);
}

static void *run(void *argument)
{
    struct service_health *health = argument;
    struct pollfd *wanted = (struct pollfd *)(health->probes + health->count); /* the last one: `wake` */

    for (;;) {
        uint64_t now = milliseconds(), first = now + SECOND;

        for (uint32_t i = 0; i < health->count; i++) {
            struct service_probe *probe = &health->probes[i];
            bool writes = !probe->connected || probe->sent < probe->size;

            if (probe->due <= now) {
                if (probe->fd >= 0)
                    finish(probe, "no answer in time");
                begin(probe, now);
                writes = true;
            }
            if (probe->due < first)
                first = probe->due;
            wanted[i] = (struct pollfd){.fd = probe->fd, .events = POLLIN | (writes && !(probe->tls && probe->connected)
                                                                                 ? POLLOUT : 0)};
        }
        wanted[health->count] = (struct pollfd){.fd = health->wake, .events = POLLIN};
        if (poll(wanted, health->count + 1, (int)(first - now)) <= 0)
            continue;
        if (wanted[health->count].revents)
            return NULL;
        for (uint32_t i = 0; i < health->count; i++)
            if (wanted[i].revents && health->probes[i].fd >= 0)
                go_on(&health->probes[i]);
    }
}

/* Calls `each` with the port and index of each backend that is checked; the number of them. */
static uint32_t add_probes(struct service_config *config, struct service_probe *probes)
{
    const struct service_program *program = config->program;
    uint32_t found = 0, channel = 0;

    for (uint32_t port = 0; port < program->port_count; channel += config->counts[port++]) {
        for (uint32_t i = 0; config->health && config->backends[port] && program->ports[port].sends && i < config->counts[port];
             i++) {
            const struct service_address *address = &config->backends[port][i];

            if (address->length == 0)
                continue;
            if (probes)
                probes[found] = (struct service_probe){.config = config,
                                                       .address = address,
                                                       .backend = &config->states[channel + i],
                                                       .port = program->ports[port].name,
                                                       .index = i,
                                                       .fd = -1};
            found++;
        }
    }
    return found;
}

const char *service_health_start(struct service_health *health, struct service_config *configs, uint32_t services)
{
    uint64_t now = milliseconds();
    uint32_t at = 0;

    *health = (struct service_health){.wake = -1};
    for (uint32_t i = 0; i < services; i++)
        health->count += add_probes(&configs[i], NULL);
    if (!health->count)
        return NULL;
    health->probes = calloc(1, health->count * sizeof *health->probes + (health->count + 1) * sizeof(struct pollfd));
    health->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!health->probes || health->wake < 0)
        return "no memory for health checks";
    for (uint32_t i = 0; i < services; i++)
        at += add_probes(&configs[i], health->probes + at);
    for (uint32_t i = 0; i < health->count; i++) { /* not all at once */
        write_request(&health->probes[i]);
        if (health->probes[i].size >= REQUEST)
            return "the path of health checks is too long";
        health->probes[i].due = now + (uint64_t)health->probes[i].config->health * SECOND * i / health->count;
    }
    return pthread_create(&health->thread, NULL, run, health) == 0 ? NULL : "no thread for health checks";
}

void service_health_stop(struct service_health *health)
{
    uint64_t one = 1;

    if (health->wake < 0)
        return;
    while (write(health->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(health->thread, NULL);
    for (uint32_t i = 0; i < health->count; i++) {
        if (health->probes[i].tls)
            service_probe_tls_end(health->probes[i].tls);
        if (health->probes[i].h2)
            service_probe_h2_end(health->probes[i].h2);
        if (health->probes[i].fd >= 0)
            close(health->probes[i].fd);
    }
    close(health->wake);
    free(health->probes);
}
