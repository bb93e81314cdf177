#define _GNU_SOURCE 1 /* accept4 */
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "io.h"

bool service_socket_adopt(struct service_channel *c, int fd);
bool service_socket_event(struct service_channel *c, uint32_t events);

enum {
    EVENTS = 256,  /* taken from epoll at once */
    ACCEPTS = 64,  /* connections accepted in a row */
    STEPS = 64,    /* of an instance's turn */
    BACKLOG = 4096,
};

bool service_slice_over(struct service_core *core)
{
    (void)core;
    return false;
}

static void listen_for(struct service_worker *worker, bool wanted)
{
    struct epoll_event event = {.events = wanted ? EPOLLIN : 0, .data.ptr = worker};

    if (worker->listening != wanted)
        epoll_ctl(worker->epoll, EPOLL_CTL_MOD, worker->listener, &event);
    worker->listening = wanted;
}

const char *service_worker_make(struct service_worker *worker, const struct service_config *config)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = worker}, stop = {.events = EPOLLIN, .data.ptr = NULL};
    uint32_t channels = 0;
    int on = 1;

    *worker = (struct service_worker){.config = config, .epoll = -1, .listener = -1, .stop = -1, .listening = true};
    worker->core.program = config->program;
    worker->tail = &worker->queue;
    for (uint32_t port = 0; port < config->program->port_count; port++) {
        worker->core.counts[port] = config->counts[port];
        channels += config->counts[port];
    }
    worker->capacity = config->instances / config->workers;
    worker->stride = (service_instance_head(channels) + config->program->frame_size + 63) & ~UINT64_C(63);
    worker->memory = mmap(NULL, worker->capacity * worker->stride, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (worker->memory == MAP_FAILED ||
        !service_buffers_make(&worker->core.buffers, config->buffers / config->workers, config->buffer_size))
        return "no memory for instances and buffers";
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    worker->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->listener = socket(config->listen.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (worker->epoll < 0 || worker->stop < 0 || worker->listener < 0)
        return strerror(errno);
    setsockopt(worker->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(worker->listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(worker->listener, (const struct sockaddr *)&config->listen.storage, config->listen.length) != 0 ||
        listen(worker->listener, BACKLOG) != 0 ||
        epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->listener, &event) != 0 ||
        epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->stop, &stop) != 0)
        return strerror(errno);
    return NULL;
}

static struct service_instance *take_instance(struct service_worker *worker)
{
    struct service_instance *found = worker->free;

    if (found)
        worker->free = found->next;
    else if (worker->touched < worker->capacity)
        found = (struct service_instance *)(worker->memory + worker->touched++ * worker->stride);
    else
        return NULL;
    service_instance_begin(found, &worker->core);
    found->active = worker->now;
    found->newer = worker->oldest;
    if (worker->oldest)
        worker->oldest->older = found;
    worker->oldest = found;
    worker->in_use++;
    return found;
}

static void give_instance(struct service_worker *worker, struct service_instance *instance)
{
    service_instance_close(instance);
    if (instance->older)
        instance->older->newer = instance->newer;
    else
        worker->oldest = instance->newer;
    if (instance->newer)
        instance->newer->older = instance->older;
    instance->in_use = false;
    instance->next = worker->free;
    worker->free = instance;
    worker->in_use--;
    listen_for(worker, true);
}

static void accept_all(struct service_worker *worker)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct service_instance *instance;
        struct service_channel *c;
        int fd;

        if (worker->in_use == worker->capacity) {
            worker->core.counters[SERVICE_WAITED_INSTANCE]++;
            listen_for(worker, false);
            return;
        }
        fd = accept4(worker->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR)
                worker->core.counters[SERVICE_ACCEPT_FAILED]++;
            return;
        }
        instance = take_instance(worker);
        if (!instance) {
            close(fd);
            return;
        }
        c = service_port(instance, worker->config->listen_port);
        c->reopens = false;
        if (!service_socket_adopt(c, fd)) {
            worker->core.counters[SERVICE_ACCEPT_FAILED]++;
            give_instance(worker, instance);
            continue;
        }
        worker->core.counters[SERVICE_ACCEPTED]++;
        service_worker_queue(worker, instance);
    }
}

/* A turn for each instance that was in the queue when this began. */
static void run_queue(struct service_worker *worker)
{
    struct service_instance *next = worker->queue;

    worker->queue = NULL;
    worker->tail = &worker->queue;
    while (next) {
        struct service_instance *instance = next;

        next = instance->next;
        instance->queued = false;
        instance->starved = false;
        instance->active = worker->now;
        switch (instance->fault ? SERVICE_DEAD : service_instance_turn(instance, STEPS)) {
        case SERVICE_DEAD:
            give_instance(worker, instance);
            break;
        case SERVICE_AGAIN:
            service_worker_queue(worker, instance);
            break;
        case SERVICE_ASLEEP:
            if (instance->starved) { /* in the queue's own link: it is in no queue now */
                instance->queued = true;
                instance->next = worker->starved;
                worker->starved = instance;
            }
            break;
        }
    }
    while (worker->starved && worker->core.buffers.taken < worker->core.buffers.count) {
        struct service_instance *instance = worker->starved;

        worker->starved = instance->next;
        instance->queued = false;
        service_worker_queue(worker, instance);
    }
}

/* Ends what has done nothing for the idle time. */
static void end_idle(struct service_worker *worker)
{
    struct service_instance *next;

    if (worker->config->idle == 0)
        return;
    for (struct service_instance *instance = worker->oldest; instance; instance = next) {
        next = instance->newer;
        if (!instance->queued && worker->now - instance->active >= worker->config->idle) {
            worker->core.counters[SERVICE_IDLE]++;
            give_instance(worker, instance);
        }
    }
}

static uint32_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)now.tv_sec;
}

void *service_worker_run(void *argument)
{
    struct service_worker *worker = argument;
    struct epoll_event events[EVENTS];
    bool stopped = false;

    worker->now = seconds();
    while (!stopped) {
        int count = epoll_wait(worker->epoll, events, EVENTS, worker->queue ? 0 : 1000);
        uint32_t now = seconds();

        for (int i = 0; i < count; i++) {
            struct service_channel *c = events[i].data.ptr;

            if (!c) {
                stopped = true;
            } else if ((void *)c == (void *)worker) {
                accept_all(worker);
            } else {
                if (!service_socket_event(c, events[i].events))
                    worker->core.counters[c->instance->fault]++;
                service_worker_queue(worker, c->instance);
            }
        }
        run_queue(worker);
        if (now != worker->now) {
            worker->now = now;
            end_idle(worker);
        }
    }
    while (worker->oldest) {
        worker->core.counters[SERVICE_STOPPED]++;
        give_instance(worker, worker->oldest);
    }
    close(worker->listener);
    close(worker->epoll);
    service_buffers_free(&worker->core.buffers);
    munmap(worker->memory, worker->capacity * worker->stride);
    return NULL;
}
