/* A worker: a thread with its own listener, pools, instances and queue. Workers share nothing but what is constant. */
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
    uint32_t buffer_size, workers, idle;
};

struct service_worker {
    struct service_core core; /* first, so that a core leads to its worker */
    const struct service_config *config;
    uint8_t *memory;
    uint64_t stride, capacity, touched, in_use;
    struct service_instance *free, *oldest;
    struct service_instance *queue, **tail;
    struct service_instance *starved;
    pthread_t thread;
    uint32_t now; /* seconds */
    int epoll, listener, stop;
    bool listening;
};

/* Allocates all that a worker will need, and listens. An error's text, or null. */
const char *service_worker_make(struct service_worker *worker, const struct service_config *config);

/* Runs until something is written to `stop`. */
void *service_worker_run(void *worker);

/* Puts an instance into the queue of those that have a turn. */
static inline void service_worker_queue(struct service_worker *worker, struct service_instance *instance)
{
    if (instance->queued || !instance->in_use)
        return;
    instance->queued = true;
    instance->next = NULL;
    *worker->tail = instance;
    worker->tail = &instance->next;
}

#endif
