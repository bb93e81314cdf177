/* Counters and gauges over HTTP, in the text format of Prometheus. The main thread answers some clients at a time; each
 * has a fixed time for its request and for taking the answer. */
#define _GNU_SOURCE 1 /* accept4, memmem */
#include "metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend.h"

enum {
    READERS = 16,    /* clients at a time; others wait until they are accepted */
    PATIENCE = 5000, /* milliseconds for a client */
    PAUSE = 100,     /* milliseconds after a connection that could not be accepted */
    REQUEST = 4096,  /* bytes of a request's head */
};

/* A client that reads metrics. */
struct reader {
    int fd;       /* -1: none */
    uint64_t end; /* nanoseconds: then it is disconnected */
    char *text;   /* the answer; null while the request is not there as a whole */
    size_t size, at;
    size_t held; /* bytes of the request */
    char request[REQUEST];
};

#define SERVICE_TEXT(name, text) text,
const char *const service_counter_texts[] = {SERVICE_COUNTERS(SERVICE_TEXT)};
#undef SERVICE_TEXT

uint64_t service_counted(const struct service_team *team, uint32_t service, int counter)
{
    const struct service_config *config = team->workers[0].lanes[service].config;
    uint64_t sum = __atomic_load_n(&config->other_counters[counter], __ATOMIC_RELAXED);

    for (uint32_t i = 0; i < team->count; i++)
        sum += __atomic_load_n(&team->workers[i].lanes[service].core.counters[counter], __ATOMIC_RELAXED);
    return sum;
}

int service_metrics_listen(struct service_address *address, int given)
{
    int on = 1, fd = given;

    if (given >= 0) {
        address->length = sizeof address->storage;
        return getsockname(fd, (struct sockaddr *)&address->storage, &address->length) == 0 ? fd : -1;
    }
    fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    address->length = sizeof address->storage;
    if (bind(fd, (const struct sockaddr *)&address->storage, address->storage.ss_family == AF_INET6
                                                                 ? sizeof(struct sockaddr_in6)
                                                                 : sizeof(struct sockaddr_in)) != 0 ||
        listen(fd, 16) != 0 || getsockname(fd, (struct sockaddr *)&address->storage, &address->length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The sums of a number of all workers' tallies of a backend, at `offset` in them. */
static uint64_t tallied(const struct service_team *team, uint32_t service, uint32_t channel, size_t offset)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < team->count; i++) {
        const struct service_tally *tally = &team->workers[i].lanes[service].core.tallies[channel];

        sum += __atomic_load_n((const uint64_t *)(const void *)((const uint8_t *)tally + offset), __ATOMIC_RELAXED);
    }
    return sum;
}

int64_t service_tallied(const struct service_channel *c, size_t offset)
{
    const struct service_lane *lane = service_lane_of(c);

    return (int64_t)tallied(lane->worker->team, (uint32_t)(lane - lane->worker->lanes), service_backend_of(c), offset);
}

/* The metrics of a backend; `labels` name it. */
static void write_backend(FILE *out, const struct service_team *team, uint32_t service, uint32_t channel, const char *labels)
{
    static const struct {
        const char *name;
        size_t offset;
    } counts[] = {{"requests", offsetof(struct service_tally, requests)},
                  {"answers", offsetof(struct service_tally, answers)},
                  {"failures", offsetof(struct service_tally, failures)}};
    uint64_t sum = 0, timed = tallied(team, service, channel, offsetof(struct service_tally, timed));

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        fprintf(out, "sluice_backend_%s_total{%s} %" PRIu64 "\n", counts[i].name, labels,
                tallied(team, service, channel, counts[i].offset));
    for (int i = 0; i < SERVICE_TIMES; i++) {
        sum += tallied(team, service, channel, offsetof(struct service_tally, within) + sizeof(uint64_t) * (size_t)i);
        fprintf(out, "sluice_backend_answer_seconds_bucket{%s,le=\"%g\"} %" PRIu64 "\n", labels, service_times[i] / 1e6, sum);
    }
    fprintf(out,
            "sluice_backend_answer_seconds_bucket{%s,le=\"+Inf\"} %" PRIu64 "\nsluice_backend_answer_seconds_sum{%s} %.9f\n"
            "sluice_backend_answer_seconds_count{%s} %" PRIu64 "\n",
            labels, timed, labels, (double)tallied(team, service, channel, offsetof(struct service_tally, nanoseconds)) / 1e9,
            labels, timed);
}

static void write_service(FILE *out, const struct service_team *team, uint32_t service)
{
    const struct service_config *config = team->workers[0].lanes[service].config;
    const char *name = config->program->name;
    uint32_t channel = 0;
    char labels[512];

    for (int i = 0; i < SERVICE_COUNTER_COUNT; i++)
        fprintf(out, "sluice_events_total{service=\"%s\",number=\"%" PRIu32 "\",event=\"%s\"} %" PRIu64 "\n", name, service,
                service_counter_texts[i], service_counted(team, service, i));
    for (uint32_t port = 0; port < config->program->port_count; port++)
        for (uint32_t i = 0; i < config->counts[port]; i++, channel++) {
            struct service_backend *backend = &config->states[channel];
            bool up = service_backend_up(backend, __atomic_load_n(&team->workers[0].now, __ATOMIC_RELAXED));

            if (port == config->listen_port)
                continue;
            snprintf(labels, sizeof labels, "service=\"%.200s\",number=\"%" PRIu32 "\",channel=\"%.200s\",backend=\"%" PRIu32 "\"",
                     name, service, config->program->ports[port].name, i);
            fprintf(out, "sluice_backend_connections{%s} %" PRIu32 "\nsluice_backend_up{%s} %d\n", labels,
                    atomic_load(&backend->load), labels, up);
            write_backend(out, team, service, channel, labels);
        }
}

/* The answer to a request. Null if there is no memory. */
static char *answer(const struct service_team *team, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);

    if (!out)
        return NULL;
    fprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n"
                 "# TYPE sluice_events_total counter\n# TYPE sluice_backend_connections gauge\n"
                 "# TYPE sluice_backend_up gauge\n# TYPE sluice_backend_requests_total counter\n"
                 "# TYPE sluice_backend_answers_total counter\n# TYPE sluice_backend_failures_total counter\n"
                 "# TYPE sluice_backend_answer_seconds histogram\n");
    for (uint32_t i = 0; i < team->workers[0].lane_count; i++)
        write_service(out, team, i);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Reads the received part of a request. Its target does not matter. False if the connection has ended. */
static bool receive(struct reader *reader, const struct service_team *team)
{
    ssize_t got = recv(reader->fd, reader->request + reader->held, REQUEST - reader->held, MSG_DONTWAIT);

    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    reader->held += (size_t)got;
    if (!memmem(reader->request, reader->held, "\r\n\r\n", 4))
        return reader->held < REQUEST;
    reader->text = answer(team, &reader->size);
    return reader->text;
}

/* Sends as much as the connection accepts. False if nothing is left, or the connection has ended. */
static bool send_rest(struct reader *reader)
{
    ssize_t sent = send(reader->fd, reader->text + reader->at, reader->size - reader->at, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    reader->at += (size_t)sent;
    return reader->at < reader->size;
}

static void drop(struct reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->text);
    reader->fd = -1;
    reader->text = NULL;
}

/* Sets the awaited events. Milliseconds after which a client's time is over; -1 without any. */
static int prepare(const struct reader *readers, struct pollfd *wanted, uint64_t now)
{
    int first = -1;

    for (int i = 0; i < READERS; i++) {
        int left = readers[i].end > now ? (int)((readers[i].end - now) / 1000000) + 1 : 0;

        wanted[i] = (struct pollfd){.fd = readers[i].fd, .events = readers[i].text ? POLLOUT : POLLIN};
        if (readers[i].fd >= 0 && (first < 0 || left < first))
            first = left;
    }
    return first;
}

void service_metrics_serve(const struct service_team *team, int listener, int stop)
{
    struct reader readers[READERS];
    struct pollfd wanted[READERS + 2]; /* the last ones: `stop` and the listener */

    for (int i = 0; i < READERS; i++)
        readers[i] = (struct reader){.fd = -1};
    for (;;) {
        struct reader *unused = NULL;
        int patience = prepare(readers, wanted, service_nanoseconds());

        for (int i = 0; i < READERS && !unused; i++)
            unused = readers[i].fd < 0 ? &readers[i] : NULL;
        wanted[READERS] = (struct pollfd){.fd = stop, .events = POLLIN};
        wanted[READERS + 1] = (struct pollfd){.fd = unused ? listener : -1, .events = POLLIN};
        if (poll(wanted, READERS + 2, patience) < 0)
            continue;
        if (wanted[READERS].revents)
            break;
        for (int i = 0; i < READERS; i++)
            if (readers[i].fd >= 0 &&
                (service_nanoseconds() >= readers[i].end ||
                 (wanted[i].revents && !(readers[i].text ? send_rest(&readers[i]) : receive(&readers[i], team)))))
                drop(&readers[i]);
        if (wanted[READERS + 1].revents) {
            unused->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            unused->end = service_nanoseconds() + PATIENCE * UINT64_C(1000000);
            unused->size = unused->at = unused->held = 0;
            if (unused->fd < 0 && errno != EAGAIN)
                poll(&wanted[READERS], 1, PAUSE); /* without a descriptor for it the listener stays readable */
        }
    }
    for (int i = 0; i < READERS; i++)
        drop(&readers[i]);
}
