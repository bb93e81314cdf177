/* Services in one process: options, workers, signals, and the report at the end.
 *
 * Options, each with a value (`sluice serve` writes them): --workers, --slice (microseconds); then for each service
 * --service INDEX, --listen ADDRESS PORT, --accept INDEX (the program's port that is accepted), --backend INDEX ADDRESS
 * PORT (again for each), --buffers, --buffer-size, --instances, --idle, --timeout, --message-time, --keep, --share.
 * Prints `ready ADDRESS PORT` for each service when it accepts connections, and JSON at the end: the counters of each
 * service. With --sizes alone it prints what an instance of each takes, in bytes.
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

extern const struct service_program *const service_programs[];
extern const unsigned service_program_count;

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

/* The place of an option that is a number; null for another one. */
static uint32_t *number_of(struct service_config *config, const char *option)
{
    struct {
        const char *name;
        uint32_t *place;
    } known[] = {
        {"--accept", &config->listen_port}, {"--buffer-size", &config->buffer_size}, {"--idle", &config->idle},
        {"--timeout", &config->timeout},    {"--message-time", &config->message_time}, {"--keep", &config->keep},
        {"--share", &config->share},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(option, known[i].name) == 0)
            return known[i].place;
    return NULL;
}

static const char *add_backend(struct service_config *config, char **value)
{
    uint64_t number = strtoull(value[0], NULL, 10);
    struct service_address *more;

    if (number >= config->program->port_count || config->counts[number] == MOST_BACKENDS)
        return "no such port, or too many backends";
    more = realloc(config->backends[number], (config->counts[number] + 1) * sizeof *more);
    if (!more || !address_of(value[1], value[2], &more[config->counts[number]]))
        return "no address of a backend";
    config->backends[number] = more;
    config->counts[number]++;
    return NULL;
}

static const char *check(const struct service_config *config, uint32_t workers)
{
    if (config->listen_port >= config->program->port_count || config->buffer_size < 64 || config->share == 0 ||
        config->instances < workers || config->buffers < workers || config->listen.length == 0)
        return "an option's value is out of range";
    return NULL;
}

/* An error's text, or null. */
static const char *read_options(int count, char **arguments, struct service_config *configs, uint32_t *workers,
                                uint32_t *slice)
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
        else if (strcmp(option, "--backend") == 0)
            wrong = add_backend(config, value);
        else if (strcmp(option, "--service") == 0 && number < service_program_count)
            config = configs + number;
        else if (strcmp(option, "--workers") == 0 && number >= 1 && number <= 256)
            *workers = (uint32_t)number;
        else if (strcmp(option, "--slice") == 0 && number >= 1 && number <= 1000000)
            *slice = (uint32_t)number * 1000;
        else if (strcmp(option, "--buffers") == 0)
            config->buffers = number;
        else if (strcmp(option, "--instances") == 0)
            config->instances = number;
        else if (number_of(config, option))
            *number_of(config, option) = (uint32_t)number;
        else
            return "unknown option, or its value is out of range";
        if (wrong)
            return wrong;
    }
    for (unsigned i = 0; i < service_program_count; i++) {
        const char *wrong = check(&configs[i], *workers);

        if (wrong)
            return wrong;
        configs[i].counts[configs[i].listen_port] = 1;
    }
    return NULL;
}

/* Allocates global state and gives it its first values. An error's text, or null. */
static const char *make_shared(struct service_config *config)
{
    struct service_core core = {.program = config->program, .shared = &config->shared};
    struct service_instance scratch = {.core = &core};

    pthread_mutex_init(&config->shared.lock, NULL);
    if (config->program->shared_size == 0)
        return NULL;
    config->shared.state = mmap(NULL, config->program->shared_size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (config->shared.state == MAP_FAILED)
        return "no memory for global state";
    if (config->program->begin_shared && config->program->begin_shared(&scratch) != SERVICE_STEP)
        return "the first value of global state fails";
    return NULL;
}

/* A port of 0 was chosen by the kernel, and is set for the other workers. */
static bool settle_ports(struct service_worker *worker, struct service_config *configs)
{
    for (unsigned i = 0; i < service_program_count; i++) {
        socklen_t length = sizeof configs[i].listen.storage;

        if (getsockname(worker->lanes[i].listener, (struct sockaddr *)&configs[i].listen.storage, &length) != 0)
            return false;
    }
    return true;
}

static void announce(const struct service_config *config)
{
    char host[256], port[32];

    if (getnameinfo((const struct sockaddr *)&config->listen.storage, config->listen.length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        printf("ready %s %s\n", host, port);
    fflush(stdout);
}

static void report(const struct service_worker *workers, uint32_t count, unsigned service)
{
    printf("%s{", service ? ", " : "[");
    for (int counter = 0; counter < SERVICE_COUNTER_COUNT; counter++) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < count; i++)
            sum += workers[i].lanes[service].core.counters[counter];
        printf("%s\"%s\": %" PRIu64, counter ? ", " : "", counter_texts[counter], sum);
    }
    printf("}%s", service + 1 == service_program_count ? "]\n" : "");
}

static int print_sizes(void)
{
    for (unsigned i = 0; i < service_program_count; i++)
        printf("%s{\"instance\": %zu, \"channel\": %zu, \"frame\": %" PRIu32 ", \"shared\": %zu, \"buffer\": %zu}%s",
               i ? ", " : "[", sizeof(struct service_instance), sizeof(struct service_channel),
               service_programs[i]->frame_size, service_programs[i]->shared_size, sizeof(struct service_buffer),
               i + 1 == service_program_count ? "]\n" : "");
    return 0;
}

static int run(struct service_worker *workers, uint32_t count)
{
    sigset_t signals;
    int got;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&workers[i].thread, NULL, service_worker_run, &workers[i]) != 0)
            return die("workers", "no thread could be started");
    for (unsigned i = 0; i < service_program_count; i++)
        announce(workers[0].lanes[i].config);
    sigwait(&signals, &got);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t one = 1;

        if (write(workers[i].stop, &one, sizeof one) < 0)
            return die("stop", strerror(errno));
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        close(workers[i].stop);
    }
    for (unsigned i = 0; i < service_program_count; i++)
        report(workers, count, i);
    return 0;
}

int main(int count, char **arguments)
{
    struct service_config *configs = calloc(service_program_count, sizeof *configs);
    uint32_t worker_count = 1, slice = 50000;
    struct service_worker *workers;
    const char *wrong = NULL;
    sigset_t signals;
    int status;

    if (count == 2 && strcmp(arguments[1], "--sizes") == 0) {
        free(configs);
        return print_sizes();
    }
    for (unsigned i = 0; configs && i < service_program_count; i++)
        configs[i] = (struct service_config){
            .program = service_programs[i], .buffers = 4096, .buffer_size = 16384, .instances = 4096, .share = 1};
    wrong = configs ? read_options(count, arguments, configs, &worker_count, &slice) : "no memory";
    for (unsigned i = 0; !wrong && i < service_program_count; i++)
        wrong = make_shared(&configs[i]);
    if (wrong)
        return die("options", wrong);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    workers = calloc(worker_count, sizeof *workers);
    if (!workers)
        return die("workers", "no memory");
    for (uint32_t i = 0; i < worker_count; i++) {
        workers[i].number = i;
        workers[i].slice = slice;
        wrong = service_worker_make(&workers[i], configs, service_program_count, worker_count);
        if (wrong || !settle_ports(&workers[i], configs))
            return die("cannot listen", wrong ? wrong : strerror(errno));
    }
    status = run(workers, worker_count);
    for (uint32_t i = 0; i < worker_count; i++)
        free(workers[i].lanes);
    free(workers);
    for (unsigned i = 0; i < service_program_count; i++) {
        for (uint32_t port = 0; port < SERVICE_PORTS; port++)
            free(configs[i].backends[port]);
        if (configs[i].shared.state)
            munmap(configs[i].shared.state, configs[i].program->shared_size);
    }
    free(configs);
    return status;
}
