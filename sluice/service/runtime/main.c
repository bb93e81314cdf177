/* A service: options, workers, signals, and the report at the end.
 *
 * Options, each with a value (`sluice serve` writes them): --listen ADDRESS PORT, --accept INDEX (the program's port
 * that is accepted), --backend INDEX ADDRESS PORT (again for each), --workers, --buffers, --buffer-size, --instances,
 * --idle. Prints `ready ADDRESS PORT` when it accepts connections, and a JSON object of all counters at the end.
 * With --sizes alone it prints what an instance takes, in bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker.h"

extern const struct service_program service_program;

static const char *const counter_texts[] = {
#define SERVICE_TEXT(name, text) text,
    SERVICE_COUNTERS(SERVICE_TEXT)
#undef SERVICE_TEXT
};

enum { MOST_BACKENDS = 4096 }; /* of a port: SERVICE_PORTS times as many can be counted in 16 bits */

static int die(const char *what, const char *why)
{
    fprintf(stderr, "sluice: %s: %s\n", what, why);
    return 1;
}

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
    if (strcmp(option, "--backend") == 0)
        return 3;
    return strcmp(option, "--listen") == 0 ? 2 : strncmp(option, "--", 2) == 0 ? 1 : -1;
}

/* An error's text, or null. */
static const char *read_options(int count, char **arguments, struct service_config *config)
{
    for (int i = 1; i < count;) {
        const char *option = arguments[i];
        int values = values_of(option);
        char **value = arguments + i + 1;
        uint64_t number;

        if (values < 0 || i + values >= count)
            return "unknown option, or its value is missing";
        i += values + 1;
        number = strtoull(value[0], NULL, 10);
        if (strcmp(option, "--listen") == 0) {
            if (!address_of(value[0], value[1], &config->listen))
                return "no address to listen at";
        } else if (strcmp(option, "--backend") == 0) {
            struct service_address *more;

            if (number >= config->program->port_count || config->counts[number] == MOST_BACKENDS)
                return "no such port, or too many backends";
            more = realloc(config->backends[number], (config->counts[number] + 1) * sizeof *more);
            if (!more || !address_of(value[1], value[2], &more[config->counts[number]]))
                return "no address of a backend";
            config->backends[number] = more;
            config->counts[number]++;
        } else if (strcmp(option, "--accept") == 0) {
            config->listen_port = (uint32_t)number;
        } else if (strcmp(option, "--workers") == 0) {
            config->workers = (uint32_t)number;
        } else if (strcmp(option, "--buffers") == 0) {
            config->buffers = number;
        } else if (strcmp(option, "--buffer-size") == 0) {
            config->buffer_size = (uint32_t)number;
        } else if (strcmp(option, "--instances") == 0) {
            config->instances = number;
        } else if (strcmp(option, "--idle") == 0) {
            config->idle = (uint32_t)number;
        } else {
            return "unknown option";
        }
    }
    if (config->listen_port >= config->program->port_count || config->workers == 0 || config->buffer_size < 64 ||
        config->instances < config->workers || config->buffers < config->workers)
        return "an option's value is out of range";
    config->counts[config->listen_port] = 1;
    return NULL;
}

/* Prints where the service listens; a port of 0 was chosen by the kernel, and is set for the other workers. */
static bool settle_port(struct service_worker *worker, struct service_config *config)
{
    socklen_t length = sizeof config->listen.storage;

    return getsockname(worker->listener, (struct sockaddr *)&config->listen.storage, &length) == 0;
}

static void announce(const struct service_config *config)
{
    char host[256], port[32];

    if (getnameinfo((const struct sockaddr *)&config->listen.storage, config->listen.length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        printf("ready %s %s\n", host, port);
    fflush(stdout);
}

static void report(const struct service_worker *workers, uint32_t count)
{
    printf("{");
    for (int counter = 0; counter < SERVICE_COUNTER_COUNT; counter++) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < count; i++)
            sum += workers[i].core.counters[counter];
        printf("%s\"%s\": %" PRIu64, counter ? ", " : "", counter_texts[counter], sum);
    }
    printf("}\n");
}

static int print_sizes(void)
{
    printf("{\"instance\": %zu, \"channel\": %zu, \"frame\": %" PRIu32 ", \"buffer\": %zu}\n", sizeof(struct service_instance),
           sizeof(struct service_channel), service_program.frame_size, sizeof(struct service_buffer));
    return 0;
}

int main(int count, char **arguments)
{
    struct service_config config = {
        .program = &service_program, .workers = 1, .buffers = 4096, .buffer_size = 16384, .instances = 4096};
    struct service_worker *workers;
    const char *wrong;
    sigset_t signals;
    int got;

    if (count == 2 && strcmp(arguments[1], "--sizes") == 0)
        return print_sizes();
    wrong = read_options(count, arguments, &config);
    if (wrong)
        return die("options", wrong);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    workers = calloc(config.workers, sizeof *workers);
    if (!workers)
        return die("workers", "no memory");
    for (uint32_t i = 0; i < config.workers; i++) {
        wrong = service_worker_make(&workers[i], &config);
        if (wrong || !settle_port(&workers[i], &config))
            return die("cannot listen", wrong ? wrong : strerror(errno));
    }
    for (uint32_t i = 0; i < config.workers; i++)
        if (pthread_create(&workers[i].thread, NULL, service_worker_run, &workers[i]) != 0)
            return die("workers", "no thread could be started");
    announce(&config);
    sigwait(&signals, &got);
    for (uint32_t i = 0; i < config.workers; i++) {
        uint64_t one = 1;

        if (write(workers[i].stop, &one, sizeof one) < 0)
            return die("stop", strerror(errno));
    }
    for (uint32_t i = 0; i < config.workers; i++) {
        pthread_join(workers[i].thread, NULL);
        close(workers[i].stop);
    }
    report(workers, config.workers);
    free(workers);
    for (uint32_t i = 0; i < SERVICE_PORTS; i++)
        free(config.backends[i]);
    return 0;
}
