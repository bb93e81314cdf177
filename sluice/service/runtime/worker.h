/* A worker: a thread that is pinned to a core, with its own listeners, pools, instances and queues. Of each service it
 * has a lane; the lane that has used the least time for its share is served next. Workers share global state only.
 */
#ifndef SERVICE_WORKER_H
#define SERVICE_WORKER_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "instance.h"

struct service_address {
    struct sockaddr_storage storage;
    socklen_t length;
};

struct service_config {
    const struct service_program *program;
    struct service_address listen;
    uint32_t listen_port; /* the port whose channel is accepted */
    struct service_address *backends[SERVICE_PORTS];
    uint32_t counts[SERVICE_PORTS];
    uint64_t buffers, instances; /* of all workers */
    uint32_t buffer_size;
    uint32_t idle, timeout, message_time; /* seconds; 0: without limit */
    uint32_t keep;  /* idle connections to a backend that a worker keeps open */
    uint32_t share; /* of a core's time, compared with the other services */
    struct service_shared shared;
};

/* An idle connection to a backend. */
struct service_idle {
    struct service_idle *next; /* of the same backend, or among the free ones */
    struct service_lane *lane;
    uint32_t backend, since;
    int fd;
};

/* A service within a worker. */
struct service_lane {
    struct service_core core; /* first, so that a core leads to its lane */
    const struct service_config *config;
    struct service_worker *worker;
    uint8_t *memory;
    uint64_t stride, capacity, touched, in_use;
    struct service_instance *free, *oldest;
    struct service_instance *queue, **tail;
    struct service_instance *starved;
    struct service_idle *idle, *idle_free; /* all, and those that are not in use */
    struct service_idle **kept;            /* of each backend; the one that was used last is first */
    uint32_t backends;
    uint64_t spent;                        /* nanoseconds, divided by the share */
    int listener;
    bool listening;
};

struct service_worker {
    struct service_lane *lanes;
    uint32_t lane_count;
    uint32_t number, slice; /* nanoseconds of a time slice */
    uint64_t turn_end;
    pthread_t thread;
    uint32_t now; /* seconds */
    int epoll, stop;
};

/* What the data of an event points to, in its low bits. */
enum service_tag { SERVICE_CHANNEL, SERVICE_LISTENER, SERVICE_KEPT, SERVICE_TAGS = 3 };

/* Allocates all that a worker will need, and listens. An error's text, or null. */
const char *service_worker_make(struct service_worker *worker, const struct service_config *configs, uint32_t count,
                                uint32_t workers);

/* Runs until something is written to `stop`. */
void *service_worker_run(void *worker);

static inline struct service_lane *service_lane_of(const struct service_channel *c)
{
    return (struct service_lane *)c->instance->core;
}

/* The number of a channel's backend among all of its service. */
static inline uint32_t service_backend_of(const struct service_channel *c)
{
    return c->instance->first[c->port] + c->index;
}

/* An idle connection to the backend of a channel; -1 if there is none. */
int service_kept_take(struct service_channel *c);

/* Gives the connection of a channel to the pool of its backend, if it can be used again; else closes it. */
void service_kept_give(struct service_channel *c);

/* An idle connection has ended, or is given to a channel. */
void service_kept_remove(struct service_idle *idle);

/* Puts an instance into the queue of those that have a turn. */
static inline void service_lane_queue(struct service_lane *lane, struct service_instance *instance)
{
    if (instance->queued || !instance->in_use)
        return;
    instance->queued = true;
    instance->next = NULL;
    *lane->tail = instance;
    lane->tail = &instance->next;
}

#endif
