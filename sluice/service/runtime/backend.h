/* The state of backends: their connections, and whether they have failed just now. All workers share it. */
#ifndef SERVICE_BACKEND_H
#define SERVICE_BACKEND_H

#include "tally.h"

/* Counts. Only the worker of a core does so, and the thread of metrics reads. */
static inline void service_core_count(struct service_core *core, enum service_counter what, uint64_t by)
{
    __atomic_store_n(&core->counters[what], core->counters[what] + by, __ATOMIC_RELAXED);
}

static inline void service_count(struct service_instance *self, enum service_counter what, uint64_t by)
{
    service_core_count(self->core, what, by);
}

/* A buffer of the pool. Null if there is none: it is counted, and the instance has a turn when one is free. */
static inline struct service_buffer *service_buffer_for(struct service_instance *self)
{
    struct service_buffer *found = service_buffer_take(&self->core->buffers);

    if (!found) {
        self->starved = true;
        service_count(self, SERVICE_WAITED_BUFFER, 1);
    }
    return found;
}

/* The shared state of the backend of a channel; null without one. */
static inline struct service_backend *service_backend_state(const struct service_channel *c)
{
    struct service_backend *all = c->instance->core->backends;

    return all && c->reopens ? &all[c->instance->core->first[c->port] + c->index] : NULL;
}

/* A backend has failed: it counts as down for a while. */
static inline void service_backend_failed(const struct service_channel *c)
{
    const struct service_core *core = c->instance->core;
    struct service_backend *backend = service_backend_state(c);
    struct service_tally *tally = service_tally_of(c);

    if (tally)
        service_tally_add(&tally->failures, 1);
    if (!backend || !core->down)
        return;
    if (atomic_exchange_explicit(&backend->down_until, core->now + core->down, memory_order_relaxed) <= core->now)
        service_count(c->instance, SERVICE_MARKED_DOWN, 1);
}

/* load(): the connections of instances to the backend of a channel. */
static inline int64_t service_load_of(const struct service_channel *c)
{
    struct service_backend *backend = service_backend_state(c);

    return backend ? atomic_load_explicit(&backend->load, memory_order_relaxed) : 0;
}

/* Whether a backend has not failed just now, and has passed its health checks. */
static inline bool service_backend_up(struct service_backend *backend, uint32_t now)
{
    return atomic_load_explicit(&backend->down_until, memory_order_relaxed) <= now &&
           !atomic_load_explicit(&backend->unhealthy, memory_order_relaxed);
}

/* up(): whether the backend of a channel is up, and may have one more connection. */
static inline bool service_up(const struct service_channel *c)
{
    const struct service_core *core = c->instance->core;
    struct service_backend *backend = service_backend_state(c);

    return !backend || (service_backend_up(backend, core->now) &&
                        (core->most == 0 || c->link != SERVICE_CLOSED || service_load_of(c) < core->most));
}

#endif
