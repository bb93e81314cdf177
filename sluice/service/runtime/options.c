/* The options of services, as `sluice serve` writes them. */
#define _GNU_SOURCE 1 /* O_PATH */
#include "options.h"

#include "h2.h"
#include "log_file.h"
#include "prelude.h"
#include "tls.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BACKENDS = 4096 }; /* of a port: SERVICE_PORTS times as many can be counted in 16 bits */

static bool address_of(const char *host, const char *port, struct service_address *out)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
    out->length = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

/* How many arguments follow an option; -1 for an unknown one. */
static int values_of(const char *option)
{
    static const char *const two[] = {"--listen", "--metrics", "--folder", "--tls", "--proxy-protocol"};

    if (strcmp(option, "--backend") == 0)
        return 3;
    if (strcmp(option, "--tls-backend") == 0 || strcmp(option, "--h2-backend") == 0)
        return 4;
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (strcmp(option, two[i]) == 0)
            return 2;
    return strncmp(option, "--", 2) == 0 ? 1 : -1;
}

/* The place of an option that is a number; null for another one. */
static uint32_t *number_of(struct service_config *config, const char *option)
{
    struct {
        const char *name;
        uint32_t *place;
    } known[] = {
        {"--cache", &config->cache_size},
        {"--accept", &config->listen_port}, {"--buffer-size", &config->buffer_size}, {"--idle", &config->idle},
        {"--timeout", &config->timeout},    {"--message-time", &config->message_time}, {"--keep", &config->keep},
        {"--share", &config->share},        {"--body-time", &config->body_time},       {"--body-rate", &config->body_rate},
        {"--most", &config->most},          {"--down", &config->down},                 {"--splice", &config->splice},
        {"--health", &config->health},       {"--health-rise", &config->health_rise}, {"--health-fall", &config->health_fall},
        {"--backend-proxy", &config->sends_proxy}, {"--http2", &config->http2},
        {"--handshake", &config->handshake}, {"--handshakes", &config->handshakes},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(option, known[i].name) == 0)
            return known[i].place;
    return NULL;
}

/* A backend; one with a name is connected by TLS. */
static const char *add_backend(struct service_config *config, char **value, const char *name, bool http2)
{
    uint64_t number = strtoull(value[0], NULL, 10);
    struct service_address *more;

    if (number >= config->program->port_count || config->counts[number] == MOST_BACKENDS)
        return "no such port, or too many backends";
    if (name && !name[0])
        return "a backend of TLS has no name that its certificate could have";
    more = realloc(config->backends[number], (config->counts[number] + 1) * sizeof *more);
    if (!more || !address_of(value[1], value[2], &more[config->counts[number]]))
        return "no address of a backend";
    config->backends[number] = more;
    more[config->counts[number]].folder = -1;
    more[config->counts[number]].http2 = http2;
    config->uplinks += http2;
    more[config->counts[number]++].name = name;
    return NULL;
}

/* A folder in the place of a backend. */
static const char *add_folder(struct service_config *config, char **value)
{
    uint64_t number = strtoull(value[0], NULL, 10);
    struct service_address *more;
    int folder;

    if (number >= config->program->port_count || config->counts[number] == MOST_BACKENDS)
        return "no such port, or too many backends";
    more = realloc(config->backends[number], (config->counts[number] + 1) * sizeof *more);
    if (!more)
        return "no memory";
    config->backends[number] = more;
    folder = open(value[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return "the folder of a backend cannot be opened";
    more[config->counts[number]++] = (struct service_address){.folder = folder};
    config->folders = true;
    return NULL;
}

/* The socket of a worker, which this process was given. */
static const char *add_listener(struct service_config *config, const char *value)
{
    int *more = realloc(config->listeners, (config->listener_count + 1) * sizeof *more);

    if (!more)
        return "no memory";
    config->listeners = more;
    more[config->listener_count++] = atoi(value);
    return NULL;
}

static const char *check(const struct service_config *config, uint32_t workers)
{
    if (config->listen_port >= config->program->port_count || config->buffer_size < 64 || config->share == 0 ||
        config->instances < workers || config->buffers < workers || config->listen.length == 0 ||
        (config->listener_count && config->listener_count != workers))
        return "an option's value is out of range";
    return NULL;
}

/* An option of the access log; it is none without --access-log before it. */
static const char *read_log(struct service_config *config, const char *option, const char *value)
{
    struct service_log_file *log = config->log;
    uint64_t number = strtoull(value, NULL, 10);

    if (strcmp(option, "--access-log") == 0) {
        if (value[0] && !config->program->ports[config->listen_port].web)
            return "an access log needs clients of HTTP";
        return log ? "there is an access log already" : service_log_open(config, value);
    }
    if (!log)
        return NULL;
    if (strcmp(option, "--access-log-format") == 0)
        return service_log_read_format(&log->format, value);
    if (strcmp(option, "--access-log-size") == 0)
        log->limit = number << 20;
    else if (strcmp(option, "--access-log-keep") == 0)
        log->keep = (uint32_t)number;
    else if (strcmp(option, "--access-log-buffer") == 0 && number >= 1 && number <= 1 << 20)
        log->ring = (uint32_t)(number << 10);
    else
        return "unknown option, or its value is out of range";
    return NULL;
}

static const char *read_common(const char *option, const char *value, struct service_options *options)
{
    uint64_t number = strtoull(value, NULL, 10);

    if (strcmp(option, "--workers") == 0 && number >= 1 && number <= 256)
        options->workers = (uint32_t)number;
    else if (strcmp(option, "--slice") == 0 && number >= 1 && number <= 1000000)
        options->slice = (uint32_t)number * 1000;
    else if (strcmp(option, "--tls-memory") == 0 && number >= 1 && number <= UINT64_MAX >> 20)
        return service_tls_memory(number << 20);
    else if (strcmp(option, "--http2-memory") == 0 && number >= 1 && number <= 1 << 20)
        return service_h2_memory(number << 20);
    else if (strcmp(option, "--body") == 0 && number >= 1 && number <= 1 << 30)
        service_body_most = number << 20;
    else if (strcmp(option, "--by-item") == 0 && number <= 1)
        options->by_item = number;
    else if (strcmp(option, "--drain") == 0)
        options->drain = (uint32_t)number;
    else if (strcmp(option, "--metrics-listener") == 0)
        options->metrics_listener = (int)number;
    else if (strcmp(option, "--events") == 0 && (strcmp(value, "epoll") == 0 || strcmp(value, "io_uring") == 0))
        options->poll = strcmp(value, "epoll") == 0 ? &service_epoll : &service_uring;
    else
        return "unknown option, or its value is out of range";
    return NULL;
}

const char *service_read_options(int count, char **arguments, struct service_config *configs, unsigned services,
                                 struct service_options *options)
{
    struct service_config *config = configs;

    for (int i = 1; i < count;) {
        const char *option = arguments[i], *wrong = NULL;
        int values = values_of(option);
        char **value = arguments + i + 1;
        uint64_t number;

        if (values < 0 || i + values >= count)
            return "unknown option, or its value is missing";
        i += values + 1;
        number = strtoull(value[0], NULL, 10);
        if (strcmp(option, "--listen") == 0)
            wrong = address_of(value[0], value[1], &config->listen) ? NULL : "no address to listen at";
        else if (strcmp(option, "--metrics") == 0)
            wrong = address_of(value[0], value[1], &options->metrics) ? NULL : "no address for metrics";
        else if (strcmp(option, "--backend") == 0)
            wrong = add_backend(config, value, NULL, false);
        else if (strcmp(option, "--h2-backend") == 0)
            wrong = add_backend(config, value, value[3][0] ? value[3] : NULL, true);
        else if (strcmp(option, "--tls-backend") == 0)
            wrong = add_backend(config, value, value[3], false);
        else if (strcmp(option, "--tls") == 0) {
            wrong = service_tls_certificate(config, value[0], value[1]);
            config->accepts_tls = true;
        } else if (strcmp(option, "--alpn") == 0)
            wrong = service_tls_protocols(config, value[0]);
        else if (strcmp(option, "--ca") == 0)
            wrong = service_tls_authorities(config, value[0][0] ? value[0] : NULL);
        else if (strcmp(option, "--proxy-protocol") == 0)
            wrong = service_prelude_trust(config, value[0], value[1]);
        else if (strcmp(option, "--folder") == 0)
            wrong = add_folder(config, value);
        else if (strcmp(option, "--listener") == 0)
            wrong = add_listener(config, value[0]);
        else if (strcmp(option, "--service") == 0 && number < services)
            config = configs + number;
        else if (strcmp(option, "--health-path") == 0)
            config->health_path = value[0];
        else if (strncmp(option, "--access-log", 12) == 0)
            wrong = read_log(config, option, value[0]);
        else if (strcmp(option, "--buffers") == 0)
            config->buffers = number;
        else if (strcmp(option, "--instances") == 0)
            config->instances = number;
        else if (number_of(config, option))
            *number_of(config, option) = (uint32_t)number;
        else
            wrong = read_common(option, value[0], options);
        if (wrong)
            return wrong;
    }
    for (unsigned i = 0; i < services; i++) {
        const char *wrong = check(&configs[i], options->workers);

        if (wrong)
            return wrong;
        configs[i].counts[configs[i].listen_port] = 1;
        configs[i].tallies = options->metrics.length != 0 || configs[i].program->tallied;
        if (configs[i].uplinks && configs[i].sends_proxy)
            return "a connection of HTTP/2 to a backend has requests of several clients: it has no PROXY header";
        if ((configs[i].http2 || configs[i].uplinks) && service_h2_missing())
            return service_h2_missing();
        configs[i].ends = configs[i].ends || configs[i].sends_proxy;
    }
    return NULL;
}
