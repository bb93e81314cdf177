/* A service within a worker: its memory, its listener, and the instances that it serves. */
#define _GNU_SOURCE 1 /* accept4 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "cache.h"
#include "ends.h"
#include "folder.h"
#include "h2.h"
#include "log_file.h"
#include "prelude.h"
#include "message.h"

enum {
    ACCEPTS = 64, /* connections accepted in a row */
    BACKLOG = 4096,
};

static uint64_t tagged(const void *target, enum service_tag tag) { return (uint64_t)(uintptr_t)target | tag; }

static void listen_for(struct service_lane *lane, bool wanted)
{
    wanted = wanted && !lane->draining;
    if (lane->listening != wanted && lane->listener >= 0)
        service_poll_change(&lane->worker->poll, lane->listener, wanted ? SERVICE_WATCH_ACCEPT : SERVICE_WATCH_NOTHING,
                            tagged(lane, SERVICE_LISTENER));
    lane->listening = wanted;
}

/* The pool of idle connections. False if there is no memory. */
static bool make_pool(struct service_lane *lane)
{
    uint32_t count = lane->config->keep * lane->channels;

    if (count == 0)
        return true;
    lane->idle = calloc(count, sizeof *lane->idle);
    lane->kept = calloc(lane->channels, sizeof *lane->kept);
    if (!lane->idle || !lane->kept)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        lane->idle[i].lane = lane;
        lane->idle[i].next = lane->idle_free;
        lane->idle_free = &lane->idle[i];
    }
    return true;
}

/* Connections that wait to be accepted. */
static uint32_t queued(const struct service_lane *lane)
{
    struct tcp_info found = {0};
    socklen_t length = sizeof found;

    return getsockopt(lane->listener, IPPROTO_TCP, TCP_INFO, &found, &length) == 0 ? found.tcpi_unacked : 0;
}

bool service_lane_drain(struct service_lane *lane)
{
    if (lane->listener < 0)
        return true;
    if (!lane->draining) {
        lane->draining = true;
        lane->queued = queued(lane);
        listen_for(lane, false);
        for (struct service_instance *each = lane->oldest; each; each = each->newer)
            if (each->h2) /* its client gets GOAWAY */
                service_lane_queue(lane, each);
    }
    service_lane_accept(lane);
    if (lane->queued)
        return false;
    service_poll_remove(&lane->worker->poll, lane->listener, false); /* other processes may have it open */
    close(lane->listener);
    lane->listener = -1;
    return true;
}

/* Makes the socket of a lane's listener. False if it cannot. */
static bool make_listener(struct service_lane *lane)
{
    const struct service_config *config = lane->config;
    int on = 1;

    if (lane->worker->number < config->listener_count) {
        lane->listener = config->listeners[lane->worker->number];
        return true;
    }
    lane->listener = socket(config->listen.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (lane->listener < 0)
        return false;
    setsockopt(lane->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(lane->listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    return bind(lane->listener, (const struct sockaddr *)&config->listen.storage, config->listen.length) == 0 &&
           listen(lane->listener, BACKLOG) == 0;
}

static const char *listen_at(struct service_lane *lane)
{
    if (!make_listener(lane))
        return strerror(errno);
    if (!service_poll_add(&lane->worker->poll, lane->listener, SERVICE_WATCH_ACCEPT, tagged(lane, SERVICE_LISTENER)))
        return "the listener cannot be watched";
    return NULL;
}

static uint64_t slots(const struct service_lane *lane) { return lane->capacity + lane->uplinks_most; }

/* Memory of `size` bytes for each instance, which costs nothing until it is used; null if there is none. */
static void *reserve(struct service_lane *lane, uint64_t size)
{
    void *found = mmap(NULL, slots(lane) * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return found == MAP_FAILED ? NULL : found;
}

static void release(struct service_lane *lane, void *memory, uint64_t size)
{
    if (memory)
        munmap(memory, slots(lane) * size);
}

const char *service_lane_make(struct service_lane *lane, struct service_worker *worker,
                              const struct service_config *config)
{
    uint32_t workers = worker->team->count;
    const char *wrong;

    *lane = (struct service_lane){.config = config, .worker = worker, .listener = -1, .listening = true};
    atomic_init(&lane->returned, NULL);
    atomic_init(&lane->cache_woken, false);
    lane->core.program = config->program;
    lane->core.shared = (struct service_shared *)&config->shared;
    lane->core.backends = config->states;
    lane->core.rings = config->rings;
    lane->core.most = config->most;
    lane->core.down = config->down;
    lane->tail = &lane->queue;
    lane->channels = service_core_channels(&lane->core, config->counts);
    if (config->tallies && !(lane->core.tallies = calloc(lane->channels, sizeof *lane->core.tallies)))
        return "no memory for metrics";
    lane->capacity = config->instances / workers;
    lane->stride = (service_instance_head(lane->channels) + config->program->own_size + 15) & ~UINT64_C(15);
    lane->uplinks_most = config->uplinks ? config->uplinks + SERVICE_MORE_UPLINKS : 0;
    lane->memory = reserve(lane, lane->stride);
    if (!lane->memory || !make_pool(lane) ||
        (config->uplinks && !(lane->uplinks = calloc(lane->channels, sizeof *lane->uplinks))) ||
        !service_frames_make(&lane->core.frames, lane->capacity ? lane->capacity : 1, config->program->frame_size) ||
        !service_buffers_make(&lane->core.buffers, config->buffers / workers, config->buffer_size))
        return "no memory for instances and buffers";
    if ((config->folders && !(lane->readers = reserve(lane, lane->channels * sizeof *lane->readers))) ||
        (config->cache && !(lane->cached = reserve(lane, lane->channels * sizeof *lane->cached))) ||
        (config->tls && !(lane->tls = reserve(lane, lane->channels * sizeof *lane->tls))) ||
        (config->ends && !(lane->ends = reserve(lane, sizeof *lane->ends))))
        return "no memory for files, TLS, a cache, or addresses";
    wrong = service_log_make(lane);
    return wrong ? wrong : listen_at(lane);
}

void service_lane_enter(struct service_lane *lane, struct service_instance *instance)
{
    instance->older = NULL;
    instance->newer = lane->oldest;
    if (lane->oldest)
        lane->oldest->older = instance;
    lane->oldest = instance;
}

void service_lane_leave(struct service_lane *lane, struct service_instance *instance)
{
    if (instance->older)
        instance->older->newer = instance->newer;
    else
        lane->oldest = instance->newer;
    if (instance->newer)
        instance->newer->older = instance->older;
}

/* An instance begins, in memory of the lane. */
static struct service_instance *begin_instance(struct service_lane *lane, struct service_instance *instance)
{
    service_instance_begin(instance, &lane->core);
    instance->home = lane;
    instance->active = lane->core.now;
    service_lane_enter(lane, instance);
    return instance;
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
    __atomic_store_n(&lane->in_use, lane->in_use + 1, __ATOMIC_RELAXED); /* the main thread reads it */
    return begin_instance(lane, found);
}

struct service_instance *service_lane_uplink(struct service_lane *lane)
{
    struct service_instance *found = lane->uplinks_free;

    if (found)
        lane->uplinks_free = found->next;
    else if (lane->uplinks_touched < lane->uplinks_most)
        found = (struct service_instance *)(lane->memory + (lane->capacity + lane->uplinks_touched++) * lane->stride);
    else
        return NULL;
    return begin_instance(lane, found);
}

static void take_back(struct service_lane *lane, struct service_instance *instance)
{
    if (instance->frame)
        service_frame_give(&lane->core.frames, instance->frame);
    instance->frame = NULL;
    if (service_is_uplink(instance)) { /* it is no client's, of which there are `in_use` */
        instance->next = lane->uplinks_free;
        lane->uplinks_free = instance;
        return;
    }
    instance->next = lane->free;
    lane->free = instance;
    __atomic_store_n(&lane->in_use, lane->in_use - 1, __ATOMIC_RELAXED);
}

void service_lane_collect(struct service_lane *lane)
{
    struct service_instance *found, *next;

    if (!atomic_load_explicit(&lane->returned, memory_order_relaxed))
        return;
    for (found = atomic_exchange_explicit(&lane->returned, NULL, memory_order_acquire); found; found = next) {
        next = found->next;
        take_back(lane, found);
    }
    listen_for(lane, true);
}

/* A message that only the end of the connection ends is incomplete: a reset shows it (RFC 9112, section 8). */
static void cut_messages(struct service_instance *instance)
{
    struct linger now = {.l_onoff = 1};

    for (uint32_t i = 0; i < instance->channel_count; i++) {
        const struct service_channel *c = &instance->channels[i];

        if (c->tail.kind == SERVICE_TO_THE_END && c->to && c->to->fd >= 0)
            setsockopt(c->to->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
}

void service_lane_give(struct service_lane *lane, struct service_instance *instance)
{
    struct service_lane *home = instance->home;

    cut_messages(instance);
    if (lane->core.log)
        service_log_end(instance);
    if (instance->h2)
        service_h2_end(instance);
    for (uint32_t i = 0; i < instance->channel_count; i++)
        service_kept_give(&instance->channels[i]);
    service_lane_leave(lane, instance);
    instance->in_use = false;
    if (home == lane) {
        take_back(lane, instance);
        listen_for(lane, true);
        return;
    }
    instance->next = atomic_load_explicit(&home->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&home->returned, &instance->next, instance, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

void service_lane_accept(struct service_lane *lane)
{
    for (int i = 0; i < ACCEPTS && (!lane->draining || lane->queued); i++) {
        struct service_instance *instance;
        struct service_channel *c;
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        int fd;

        service_lane_collect(lane);
        if (lane->in_use == lane->capacity) {
            service_core_count(&lane->core, SERVICE_WAITED_INSTANCE, 1);
            listen_for(lane, false);
            return;
        }
        fd = accept4(lane->listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR)
                service_core_count(&lane->core, SERVICE_ACCEPT_FAILED, 1);
            else if (errno == EAGAIN)
                lane->queued = 0; /* another process has accepted them */
            return;
        }
        lane->queued -= lane->queued > 0;
        instance = take_instance(lane);
        if (!instance) {
            close(fd);
            return;
        }
        c = service_port(instance, lane->config->listen_port);
        c->reopens = false;
        if (!service_socket_adopt(c, fd, lane->config->accepts_tls)) {
            service_core_count(&lane->core, SERVICE_ACCEPT_FAILED, 1);
            service_lane_give(lane, instance);
            continue;
        }
        service_core_count(&lane->core, SERVICE_ACCEPTED, 1);
        service_prelude_begin(instance, &peer);
        service_lane_queue(lane, instance);
    }
}

bool service_lane_adopt(struct service_lane *lane, int fd, struct service_instance *of)
{
    const struct service_channel *from = service_port(of, lane->config->listen_port);
    struct service_instance *instance;
    struct service_channel *c;

    service_lane_collect(lane);
    instance = take_instance(lane);
    if (!instance) {
        close(fd);
        return false;
    }
    c = service_port(instance, lane->config->listen_port);
    c->reopens = false;
    c->address = from->address;
    c->peer_port = from->peer_port;
    if (lane->ends)
        *service_ends_of(instance) = *service_ends_of(of);
    if (!service_socket_adopt(c, fd, false)) {
        service_lane_give(lane, instance);
        return false;
    }
    service_instance_start(instance);
    service_lane_queue(lane, instance);
    return true;
}

void service_lane_wake(struct service_lane *lane)
{
    if (lane->starved)
        service_buffers_collect(&lane->core.buffers);
    while (lane->starved && lane->core.buffers.taken < lane->core.buffers.count) {
        struct service_instance *instance = lane->starved;

        lane->starved = instance->next;
        instance->queued = false;
        service_lane_queue(lane, instance);
    }
}

void service_lane_free(struct service_lane *lane)
{
    if (lane->listener >= 0)
        close(lane->listener);
    service_buffers_free(&lane->core.buffers);
    service_frames_free(&lane->core.frames);
    release(lane, lane->memory, lane->stride);
    release(lane, lane->readers, lane->channels * sizeof *lane->readers);
    release(lane, lane->cached, lane->channels * sizeof *lane->cached);
    release(lane, lane->tls, lane->channels * sizeof *lane->tls);
    release(lane, lane->ends, sizeof *lane->ends);
    service_log_free(lane);
    free(lane->core.tallies);
    free(lane->idle);
    free(lane->kept);
    free(lane->uplinks);
}
