/* Services in one process: workers, signals, and the report at the end.
 *
 * Options, each with a value (`sluice serve` writes them): --workers, --slice (microseconds), --by-item (1: a turn is
 * one step, for bench/fairness.py), --events (epoll or
 * io_uring), --metrics ADDRESS PORT; then for each service --service INDEX, --listen ADDRESS PORT, --accept INDEX (the
 * program's port that is accepted), --backend INDEX ADDRESS PORT or --folder INDEX PATH (again for each), --buffers,
 * --buffer-size, --instances, --idle, --timeout, --message-time, --body-time, --body-rate, --keep, --most, --down,
 * --splice, --share, --health (seconds), --health-path, --health-rise, --health-fall. With TLS: --tls CHAIN KEY (files; again for each certificate), --alpn NAMES, --ca FILE (empty: the
 * system's authorities), --tls-backend INDEX ADDRESS PORT NAME, --handshake, --handshakes; --tls-memory (MiB) comes before
 * all others. --listener DESCRIPTOR (of a service, for each worker) and --metrics-listener
 * DESCRIPTOR are listening sockets that this process was given; the addresses are theirs then.
 *
 * --access-log PATH (before its format, size in MiB, number of older files that are kept, and KiB of a worker's ring):
 * --access-log-format, --access-log-size, --access-log-keep, --access-log-buffer. SIGUSR2 reopens the file.
 *
 * --proxy-protocol ADDRESS BITS (again for each network): clients from there send a PROXY header; --backend-proxy VERSION:
 * backends are sent one (0: none).
 *
 * --cache MIB: responses of HTTP backends are stored, in so much memory.
 *
 * --http2 STREAMS: clients may use HTTP/2, with so many streams of a connection at once; --http2-memory (MiB, of all).
 *
 * --body MIB: of a body of HTTP whose length is not known before, of all services.
 *
 * On SIGUSR1 another process accepts from these sockets: this one accepts only waiting ones, prints `draining`, and
 * ends when its connections have ended, or after --drain seconds.
 * Prints `metrics ADDRESS PORT`, if it answers requests of them, `ready ADDRESS PORT` for each service when it accepts
 * connections, and JSON at the end: the counters of each service. With --sizes alone it prints what an instance of each
 * takes, in bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cache.h"
#include "folder.h"
#include "health.h"
#include "log_file.h"
#include "metrics.h"
#include "options.h"
#include "tally.h"
#include "tls.h"

enum { DRAIN_PAUSE = 50 }; /* milliseconds between two looks at whether connections have ended */

extern const struct service_program *const service_programs[];
extern const unsigned service_program_count;

static int die(const char *what, const char *why)
{
    fprintf(stderr, "sluice: %s: %s\n", what, why);
    return 1;
}

/* Allocates global state and gives it its first values. An error's text, or null. */
static const char *make_shared(struct service_config *config)
{
    struct service_core core = {.program = config->program, .shared = &config->shared};
    struct service_instance scratch = {.core = &core};
    uint32_t channels = 0;

    pthread_mutex_init(&config->shared.lock, NULL);
    for (uint32_t port = 0; port < config->program->port_count; port++)
        channels += config->counts[port];
    config->states = calloc(channels, sizeof *config->states);
    if (!config->states || !service_rings_make(config))
        return "no memory";
    if (config->cache_size && !(config->cache = service_cache_make((uint64_t)config->cache_size << 20)))
        return "no memory for the cache";
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

static void announce(const char *what, const struct service_address *address)
{
    char host[256], port[32];

    if (getnameinfo((const struct sockaddr *)&address->storage, address->length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        printf("%s %s %s\n", what, host, port);
    fflush(stdout);
}

static void report(const struct service_team *team, unsigned service)
{
    printf("%s{", service ? ", " : "[");
    for (int counter = 0; counter < SERVICE_COUNTER_COUNT; counter++)
        printf("%s\"%s\": %" PRIu64, counter ? ", " : "", service_counter_texts[counter],
               service_counted(team, service, counter));
    printf("}%s", service + 1 == service_program_count ? "]\n" : "");
}

static int print_sizes(void)
{
    for (unsigned i = 0; i < service_program_count; i++)
        printf("%s{\"instance\": %zu, \"channel\": %zu, \"frame\": %" PRIu32 ", \"own\": %" PRIu32 ", \"shared\": %zu, \"buffer\": %zu, "
               "\"idle\": %zu, \"lane\": %zu, \"worker\": %zu, \"backend\": %zu, "
               "\"reader\": %zu, \"visit\": %zu, \"ends\": %zu, \"cached\": %zu, \"tally\": %zu}%s",
               i ? ", " : "[", sizeof(struct service_instance), sizeof(struct service_channel),
               service_programs[i]->frame_size, service_programs[i]->own_size, service_programs[i]->shared_size, sizeof(struct service_buffer),
               sizeof(struct service_idle), sizeof(struct service_lane), sizeof(struct service_worker),
               sizeof(struct service_backend) + sizeof(void *), sizeof(struct service_reader),
               sizeof(struct service_buffer) + sizeof(struct service_visit), sizeof(struct service_ends),
               sizeof(struct service_cached), sizeof(struct service_tally),
               i + 1 == service_program_count ? "]\n" : "");
    return 0;
}

static void wanted_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGUSR1);
    sigaddset(signals, SIGUSR2);
}

/* The number of connections of all workers. */
static bool any_in_use(const struct service_team *team)
{
    for (uint32_t i = 0; i < team->count; i++)
        for (uint32_t lane = 0; lane < team->workers[i].lane_count; lane++)
            if (__atomic_load_n(&team->workers[i].lanes[lane].in_use, __ATOMIC_RELAXED))
                return true;
    return false;
}

static void wake_workers(const struct service_team *team)
{
    for (uint32_t i = 0; i < team->count; i++)
        service_worker_wake(&team->workers[i]);
}

/* The received signal. SIGUSR2, which reopens access logs, is handled here. */
static int next_signal(int stop)
{
    struct signalfd_siginfo came;

    if (read(stop, &came, sizeof came) != sizeof came)
        return 0;
    if (came.ssi_signo == SIGUSR2)
        service_logs_reopen();
    return (int)came.ssi_signo;
}

/* Until all connections have ended, or the time for it is over, or a signal comes. Prints `draining` when the connections that
 * were waiting are accepted. */
static void drain(struct service_team *team, uint32_t seconds, int stop)
{
    uint64_t end = service_nanoseconds() + seconds * UINT64_C(1000000000);
    struct pollfd signals = {.fd = stop, .events = POLLIN};
    bool said = false;

    atomic_store(&team->draining, true);
    wake_workers(team);
    while (service_nanoseconds() < end && (atomic_load(&team->drained) < team->count || !said || any_in_use(team))) {
        if (!said && atomic_load(&team->drained) == team->count) {
            puts("draining");
            fflush(stdout);
            said = true;
        }
        if (poll(&signals, 1, said ? DRAIN_PAUSE : 1) > 0 && next_signal(stop) != SIGUSR2)
            break;
    }
}

/* Until a signal requests the end. Answers requests of metrics meanwhile; `metrics` is -1 without. Not 0 if
 * signals cannot be read. */
static int wait_for_end(struct service_team *team, int metrics, uint32_t seconds)
{
    sigset_t signals;
    int stop, came;

    wanted_signals(&signals);
    stop = signalfd(-1, &signals, SFD_CLOEXEC);
    if (stop < 0)
        return die("signals", strerror(errno));
    do {
        service_metrics_serve(team, metrics, stop);
        came = next_signal(stop);
    } while (came == SIGUSR2);
    if (came == SIGUSR1)
        drain(team, seconds, stop);
    close(stop);
    return 0;
}

static int run(struct service_team *team, int metrics, uint32_t seconds, struct service_health *health)
{
    struct service_worker *workers = team->workers;
    int status;

    for (uint32_t i = 0; i < team->count; i++)
        if (pthread_create(&workers[i].thread, NULL, service_worker_run, &workers[i]) != 0)
            return die("workers", "no thread could be started");
    for (unsigned i = 0; i < service_program_count; i++)
        announce("ready", &workers[0].lanes[i].config->listen);
    status = wait_for_end(team, metrics, seconds);
    atomic_store(&team->stopping, true);
    wake_workers(team);
    for (uint32_t i = 0; i < team->count; i++)
        pthread_join(workers[i].thread, NULL);
    service_health_stop(health);
    for (uint32_t i = 0; i < team->count; i++)
        service_worker_close(&workers[i]);
    service_logs_stop();
    for (unsigned i = 0; i < service_program_count; i++)
        report(team, i);
    for (uint32_t i = 0; i < team->count; i++)
        service_worker_free(&workers[i]);
    return status;
}

/* Makes all workers. Where io_uring cannot be used, epoll is, and the reason is printed. An error's text, or null. */
static const char *make_workers(struct service_team *team, struct service_config *configs,
                                const struct service_options *options)
{
    const struct service_poll_kind *poll = options->poll;
    struct service_poll trial = {poll, NULL};
    const char *wrong = poll->make(&trial);

    if (wrong && poll != &service_epoll) {
        fprintf(stderr, "sluice: %s cannot be used: %s; connections use epoll\n", poll->name, wrong);
        poll = &service_epoll;
    } else if (wrong) {
        return wrong;
    } else {
        poll->free(&trial);
    }
    for (uint32_t i = 0; i < team->count; i++) {
        team->workers[i].number = i;
        team->workers[i].slice = options->slice;
        team->workers[i].by_item = options->by_item;
        team->workers[i].team = team;
        wrong = service_worker_make(&team->workers[i], configs, service_program_count, poll);
        if (wrong || !settle_ports(&team->workers[i], configs))
            return wrong ? wrong : strerror(errno);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    struct service_config *configs = calloc(service_program_count, sizeof *configs);
    struct service_options options = {.workers = 1, .slice = 50000, .poll = &service_epoll, .metrics_listener = -1};
    struct service_team team = {0};
    struct service_health health;
    const char *wrong = NULL;
    sigset_t signals;
    int status, metrics = -1;

    if (count == 2 && strcmp(arguments[1], "--sizes") == 0) {
        free(configs);
        return print_sizes();
    }
    for (unsigned i = 0; configs && i < service_program_count; i++)
        configs[i] = (struct service_config){
            .program = service_programs[i], .buffers = 4096, .buffer_size = 16384, .instances = 4096, .share = 1};
    wrong = configs ? service_read_options(count, arguments, configs, service_program_count, &options) : "no memory";
    for (unsigned i = 0; !wrong && i < service_program_count; i++)
        wrong = make_shared(&configs[i]);
    if (wrong)
        return die("options", wrong);
    wanted_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    team.count = options.workers;
    team.workers = calloc(team.count, sizeof *team.workers);
    if (!team.workers)
        return die("workers", "no memory");
    wrong = make_workers(&team, configs, &options);
    if (wrong)
        return die("cannot listen", wrong);
    if (options.metrics.length) {
        metrics = service_metrics_listen(&options.metrics, options.metrics_listener);
        if (metrics < 0)
            return die("cannot listen for metrics", strerror(errno));
        announce("metrics", &options.metrics);
    }
    wrong = service_health_start(&health, configs, service_program_count);
    if (wrong)
        return die("health checks", wrong);
    wrong = service_logs_start(configs, service_program_count);
    if (wrong)
        return die("access log", wrong);
    status = run(&team, metrics, options.drain, &health);
    free(team.workers);
    for (unsigned i = 0; i < service_program_count; i++) {
        for (uint32_t port = 0; port < SERVICE_PORTS; port++) {
            for (uint32_t k = 0; configs[i].backends[port] && k < configs[i].counts[port]; k++)
                if (configs[i].backends[port][k].length == 0)
                    close(configs[i].backends[port][k].folder);
            free(configs[i].backends[port]);
        }
        service_rings_free(&configs[i]);
        service_cache_free(configs[i].cache);
        service_tls_free(&configs[i]);
        service_log_close(&configs[i]);
        free(configs[i].states);
        free(configs[i].listeners);
        free(configs[i].trusted);
        if (configs[i].shared.state)
            munmap(configs[i].shared.state, configs[i].program->shared_size);
    }
    free(configs);
    return status;
}
