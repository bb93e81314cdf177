#define _GNU_SOURCE 1 /* accept4, affinity */
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "message.h"

bool service_socket_adopt(struct service_channel *c, int fd);
bool service_socket_event(struct service_channel *c, uint32_t events);

enum {
    EVENTS = 256,  /* taken from epoll at once */
    ACCEPTS = 64,  /* connections accepted in a row */
    BACKLOG = 4096,
};

static uint64_t nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool service_slice_over(struct service_core *core)
{
    return nanoseconds() > ((struct service_lane *)core)->worker->turn_end;
}

static void listen_for(struct service_lane *lane, bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN : 0, .data.u64 = (uint64_t)(uintptr_t)lane | SERVICE_LISTENER};

    if (lane->listening != wanted)
        epoll_ctl(lane->worker->epoll, EPOLL_CTL_MOD, lane->listener, &event);
    lane->listening = wanted;
}

/* The pool of idle connections to `backends`. False if there is no memory. */
static bool make_pool(struct service_lane *lane, uint32_t backends)
{
    uint32_t count = lane->config->keep * backends;

    lane->backends = backends;
    if (count == 0)
        return true;
    lane->idle = calloc(count, sizeof *lane->idle);
    lane->kept = calloc(backends, sizeof *lane->kept);
    if (!lane->idle || !lane->kept)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        lane->idle[i].lane = lane;
        lane->idle[i].next = lane->idle_free;
        lane->idle_free = &lane->idle[i];
    }
    return true;
}

static const char *listen_at(struct service_lane *lane)
{
    const struct service_config *config = lane->config;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(uintptr_t)lane | SERVICE_LISTENER};
    int on = 1;

    lane->listener = socket(config->listen.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (lane->listener < 0)
        return strerror(errno);
    setsockopt(lane->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(lane->listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(lane->listener, (const struct sockaddr *)&config->listen.storage, config->listen.length) != 0 ||
        listen(lane->listener, BACKLOG) != 0 ||
        epoll_ctl(lane->worker->epoll, EPOLL_CTL_ADD, lane->listener, &event) != 0)
        return strerror(errno);
    return NULL;
}

static const char *make_lane(struct service_lane *lane, struct service_worker *worker,
                             const struct service_config *config, uint32_t workers)
{
    uint32_t channels = 0;

    *lane = (struct service_lane){.config = config, .worker = worker, .listener = -1, .listening = true};
    lane->core.program = config->program;
    lane->core.shared = (struct service_shared *)&config->shared;
    lane->tail = &lane->queue;
    for (uint32_t port = 0; port < config->program->port_count; port++) {
        lane->core.counts[port] = config->counts[port];
        channels += config->counts[port];
    }
    lane->core.loads = calloc(channels, sizeof *lane->core.loads);
    lane->capacity = config->instances / workers;
    lane->stride = (service_instance_head(channels) + config->program->frame_size + 15) & ~UINT64_C(15);
    lane->memory = mmap(NULL, lane->capacity * lane->stride, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lane->memory == MAP_FAILED || !lane->core.loads || !make_pool(lane, channels) ||
        !service_buffers_make(&lane->core.buffers, config->buffers / workers, config->buffer_size))
        return "no memory for instances and buffers";
    return listen_at(lane);
}

const char *service_worker_make(struct service_worker *worker, const struct service_config *configs, uint32_t count,
                                uint32_t workers)
{
    struct epoll_event stop = {.events = EPOLLIN, .data.u64 = 0};

    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    worker->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->lane_count = count;
    worker->lanes = calloc(count, sizeof *worker->lanes);
    if (worker->epoll < 0 || worker->stop < 0 || !worker->lanes ||
        epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->stop, &stop) != 0)
        return strerror(errno);
    for (uint32_t i = 0; i < count; i++) {
        const char *wrong = make_lane(&worker->lanes[i], worker, &configs[i], workers);

        if (wrong)
            return wrong;
    }
    return NULL;
}

static struct service_instance *take_instance(struct service_lane *lane)
{
    struct service_instance *found = lane->free;

    if (found)
        lane->free = found->next;
    else if (lane->touched < lane->capacity)
        found = (struct service_instance *)(lane->memory + lane->touched++ * lane->stride);
    else
        return NULL;
    service_instance_begin(found, &lane->core);
    found->active = lane->core.now;
    found->newer = lane->oldest;
    if (lane->oldest)
        lane->oldest->older = found;
    lane->oldest = found;
    lane->in_use++;
    return found;
}

static void give_instance(struct service_lane *lane, struct service_instance *instance)
{
    for (uint32_t i = 0; i < instance->channel_count; i++)
        service_kept_give(&instance->channels[i]);
    if (instance->older)
        instance->older->newer = instance->newer;
    else
        lane->oldest = instance->newer;
    if (instance->newer)
        instance->newer->older = instance->older;
    instance->in_use = false;
    instance->next = lane->free;
    lane->free = instance;
    lane->in_use--;
    listen_for(lane, true);
}

static void accept_all(struct service_lane *lane)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct service_instance *instance;
        struct service_channel *c;
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        int fd;

        if (lane->in_use == lane->capacity) {
            lane->core.counters[SERVICE_WAITED_INSTANCE]++;
            listen_for(lane, false);
            return;
        }
        fd = accept4(lane->listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR)
                lane->core.counters[SERVICE_ACCEPT_FAILED]++;
            return;
        }
        instance = take_instance(lane);
        if (!instance) {
            close(fd);
            return;
        }
        c = service_port(instance, lane->config->listen_port);
        c->reopens = false;
        if (peer.ss_family == AF_INET) {
            c->address = ntohl(((struct sockaddr_in *)&peer)->sin_addr.s_addr);
            c->peer_port = ntohs(((struct sockaddr_in *)&peer)->sin_port);
        }
        if (!service_socket_adopt(c, fd)) {
            lane->core.counters[SERVICE_ACCEPT_FAILED]++;
            give_instance(lane, instance);
            continue;
        }
        lane->core.counters[SERVICE_ACCEPTED]++;
        service_instance_start(instance);
        service_lane_queue(lane, instance);
    }
}

/* Gives those that wait for a buffer a turn, if there is one. */
static void wake_starved(struct service_lane *lane)
{
    while (lane->starved && lane->core.buffers.taken < lane->core.buffers.count) {
        struct service_instance *instance = lane->starved;

        lane->starved = instance->next;
        instance->queued = false;
        service_lane_queue(lane, instance);
    }
}

/* A turn of the first instance in a lane's queue. */
static void run_first(struct service_lane *lane)
{
    struct service_instance *instance = lane->queue;
    enum service_life life = SERVICE_DEAD;

    lane->queue = instance->next;
    if (!lane->queue)
        lane->tail = &lane->queue;
    instance->queued = false;
    instance->starved = false;
    instance->active = lane->core.now;
    if (instance->fault)
        lane->core.counters[instance->fault]++;
    else
        life = service_instance_turn(instance);
    switch (life) {
    case SERVICE_DEAD:
        give_instance(lane, instance);
        break;
    case SERVICE_AGAIN:
        service_lane_queue(lane, instance);
        break;
    case SERVICE_ASLEEP:
        if (instance->starved) { /* in the queue's own link: it is in no queue now */
            instance->queued = true;
            instance->next = lane->starved;
            lane->starved = instance;
        }
        break;
    }
    wake_starved(lane);
}

/* The lane that has used the least time for its share, of those that have something to do; or null. */
static struct service_lane *next_lane(struct service_worker *worker)
{
    struct service_lane *found = NULL;

    for (uint32_t i = 0; i < worker->lane_count; i++) {
        struct service_lane *lane = &worker->lanes[i];

        if (lane->queue && (!found || lane->spent < found->spent))
            found = lane;
    }
    return found;
}

/* Turns, for about as long as the time slices of a few instances. */
static void run_queues(struct service_worker *worker)
{
    struct service_lane *lane;
    uint64_t now = nanoseconds(), end = now + 8 * (uint64_t)worker->slice;

    while ((lane = next_lane(worker)) != NULL && now < end) {
        uint64_t before = now;

        worker->turn_end = now + worker->slice;
        run_first(lane);
        now = nanoseconds();
        lane->spent += (now - before) / lane->config->share;
    }
}

/* A lane that was idle does not save up time. */
static void level(struct service_worker *worker)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < worker->lane_count; i++)
        if (worker->lanes[i].spent > most)
            most = worker->lanes[i].spent;
    for (uint32_t i = 0; i < worker->lane_count; i++) {
        struct service_lane *lane = &worker->lanes[i];
        uint64_t least = most > 10 * (uint64_t)worker->slice ? most - 10 * (uint64_t)worker->slice : 0;

        if (!lane->queue && lane->spent < least)
            lane->spent = least;
    }
}

/* Why an instance has waited too long; 0 if it has not. Times are whole seconds, so that a limit of 1 is 1 to 2 s. */
static enum service_counter overdue(struct service_lane *lane, struct service_instance *instance,
                                    struct service_channel **where)
{
    const struct service_config *config = lane->config;
    uint32_t now = lane->core.now;

    for (uint32_t i = 0; i < instance->channel_count; i++) {
        struct service_channel *c = *where = &instance->channels[i];

        if (config->timeout && c->reopens && c->link != SERVICE_CLOSED && c->sent > c->received &&
            now - c->due_since > config->timeout)
            return SERVICE_TIMEOUT;
        if (config->message_time && c->waits_since && now - c->waits_since > config->message_time)
            return SERVICE_SLOW;
    }
    *where = NULL;
    return config->idle && now - instance->active > config->idle ? SERVICE_IDLE : 0;
}

/* Of those that wait for a buffer, the ones that have waited too long get a turn, in which they end. */
static void end_starved(struct service_lane *lane)
{
    struct service_instance **link = &lane->starved, *instance;

    while ((instance = *link) != NULL) {
        struct service_channel *where;
        enum service_counter reason = overdue(lane, instance, &where);

        if (!reason) {
            link = &instance->next;
            continue;
        }
        *link = instance->next;
        instance->queued = false;
        instance->fault = (uint8_t)reason;
        if (where)
            service_instance_broken(instance, where); /* the program handles it: there is no fault then */
        service_lane_queue(lane, instance);
    }
}

/* Once a second: ends what has waited too long. */
static void end_overdue(struct service_lane *lane)
{
    struct service_instance *next;

    end_starved(lane);
    for (struct service_instance *instance = lane->oldest; instance; instance = next) {
        struct service_channel *where;
        enum service_counter reason;

        next = instance->newer;
        if (instance->queued || instance->fault)
            continue;
        reason = overdue(lane, instance, &where);
        if (!reason)
            continue;
        instance->fault = (uint8_t)reason;
        if (where && service_instance_broken(instance, where)) {
            service_lane_queue(lane, instance);
            continue;
        }
        lane->core.counters[reason]++;
        give_instance(lane, instance);
    }
    wake_starved(lane); /* of what has ended, the buffers are free */
}

static void close_kept(struct service_idle *idle)
{
    service_kept_remove(idle);
    close(idle->fd);
}

/* What epoll reports; true for the request to stop. */
static bool take_event(struct epoll_event *event)
{
    void *target = (void *)(uintptr_t)(event->data.u64 & ~(uint64_t)SERVICE_TAGS);

    switch (event->data.u64 & SERVICE_TAGS) {
    case SERVICE_LISTENER:
        accept_all(target);
        return false;
    case SERVICE_KEPT:
        close_kept(target);
        return false;
    default:
        break;
    }
    if (!target)
        return true;
    struct service_channel *c = target;

    if (!service_socket_event(c, event->events) && service_instance_broken(c->instance, c))
        c->instance->progressed = true;
    service_lane_queue(service_lane_of(c), c->instance);
    return false;
}

/* Binds the thread to one of the cores that it may use. */
static void pin(uint32_t number)
{
    cpu_set_t allowed, one;
    int left;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0)
        return;
    left = (int)(number % (uint32_t)CPU_COUNT(&allowed));
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one); /* where it is not permitted, the worker is not pinned */
            return;
        }
}

static void set_time(struct service_worker *worker)
{
    struct timespec now;
    uint32_t before = worker->now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    worker->now = (uint32_t)now.tv_sec;
    for (uint32_t i = 0; i < worker->lane_count; i++) {
        worker->lanes[i].core.now = worker->now;
        if (before && worker->now != before)
            end_overdue(&worker->lanes[i]);
    }
}

static void free_lane(struct service_lane *lane)
{
    while (lane->oldest) {
        lane->core.counters[SERVICE_STOPPED]++;
        give_instance(lane, lane->oldest);
    }
    for (uint32_t i = 0; lane->kept && i < lane->backends; i++)
        while (lane->kept[i])
            close_kept(lane->kept[i]);
    close(lane->listener);
    service_buffers_free(&lane->core.buffers);
    munmap(lane->memory, lane->capacity * lane->stride);
    free(lane->idle);
    free(lane->kept);
    free(lane->core.loads);
}

void *service_worker_run(void *argument)
{
    struct service_worker *worker = argument;
    struct epoll_event events[EVENTS];
    bool stopped = false, more = false;

    pin(worker->number);
    set_time(worker);
    while (!stopped) {
        int count = epoll_wait(worker->epoll, events, EVENTS, more ? 0 : 1000);

        level(worker);
        for (int i = 0; i < count; i++)
            stopped = take_event(&events[i]) || stopped;
        run_queues(worker);
        set_time(worker);
        more = next_lane(worker) != NULL;
    }
    for (uint32_t i = 0; i < worker->lane_count; i++)
        free_lane(&worker->lanes[i]);
    close(worker->epoll);
    return NULL;
}
