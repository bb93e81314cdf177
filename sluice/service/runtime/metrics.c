/* Counters and gauges over HTTP, in the text format of Prometheus. The main thread answers, one request after the other:
 * a client has a second for its request, and for taking each part of the answer. */
#define _GNU_SOURCE 1 /* accept4 */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#define SERVICE_TEXT(name, text) text,
const char *const service_counter_texts[] = {SERVICE_COUNTERS(SERVICE_TEXT)};
#undef SERVICE_TEXT

uint64_t service_counted(const struct service_team *team, uint32_t service, int counter)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < team->count; i++)
        sum += __atomic_load_n(&team->workers[i].lanes[service].core.counters[counter], __ATOMIC_RELAXED);
    return sum;
}

int service_metrics_listen(struct service_address *address)
{
    int on = 1, fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

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

static void write_service(FILE *out, const struct service_team *team, uint32_t service)
{
    const struct service_config *config = team->workers[0].lanes[service].config;
    const char *name = config->program->name;
    uint32_t channel = 0;

    for (int i = 0; i < SERVICE_COUNTER_COUNT; i++)
        fprintf(out, "sluice_events_total{service=\"%s\",number=\"%" PRIu32 "\",event=\"%s\"} %" PRIu64 "\n", name, service,
                service_counter_texts[i], service_counted(team, service, i));
    for (uint32_t port = 0; port < config->program->port_count; port++)
        for (uint32_t i = 0; i < config->counts[port]; i++, channel++) {
            struct service_backend *backend = &config->states[channel];
            bool up = atomic_load(&backend->down_until) <= __atomic_load_n(&team->workers[0].now, __ATOMIC_RELAXED);

            if (port == config->listen_port)
                continue;
            fprintf(out,
                    "sluice_backend_connections{service=\"%s\",number=\"%" PRIu32 "\",channel=\"%s\",backend=\"%" PRIu32
                    "\"} %" PRIu32 "\n"
                    "sluice_backend_up{service=\"%s\",number=\"%" PRIu32 "\",channel=\"%s\",backend=\"%" PRIu32 "\"} %d\n",
                    name, service, config->program->ports[port].name, i, atomic_load(&backend->load), name, service,
                    config->program->ports[port].name, i, up);
        }
}

/* Whether a request has come as a whole. What it requests does not matter. */
static bool read_request(int fd)
{
    char text[4096];
    size_t held = 0;

    while (held < sizeof text) {
        ssize_t got = recv(fd, text + held, sizeof text - held, 0);

        if (got <= 0)
            return false;
        held += (size_t)got;
        if (memmem(text, held, "\r\n\r\n", 4))
            return true;
    }
    return false;
}

void service_metrics_answer(const struct service_team *team, int listener)
{
    struct timeval patience = {.tv_sec = 1};
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    FILE *out;

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!read_request(fd) || !(out = fdopen(fd, "w"))) {
        close(fd);
        return;
    }
    fprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n"
                 "# TYPE sluice_events_total counter\n# TYPE sluice_backend_connections gauge\n"
                 "# TYPE sluice_backend_up gauge\n");
    for (uint32_t i = 0; i < team->workers[0].lane_count && !ferror(out); i++)
        write_service(out, team, i);
    fclose(out);
}
