/* How an idle worker gets work of a busy one.
 *
 * The paper's workers scavenge the queues of others (section 5). Here only its own worker touches a queue, so that a turn
 * needs no lock: an idle worker sets a flag, and one that has instances waiting for longer than a time slice hands it half of
 * them between two turns. The wait for it is bounded by the slice, as that of any instance is. (Acar, Chargueraud and
 * Rainey, "Scheduling Parallel Programs by Work Stealing with Private Deques", PPoPP 2013.)
 *
 * The instance keeps its memory and its buffers; they go back to the worker to which they belong.
 */
#include "cache.h"
#include "message.h"
#include "tls.h"

enum { MOST = 64 }; /* instances that are handed over at once */

void service_offer(struct service_worker *worker)
{
    atomic_store(&worker->offers, true);
    atomic_fetch_add(&worker->team->idle, 1);
}

void service_withdraw(struct service_worker *worker)
{
    if (atomic_exchange(&worker->offers, false))
        atomic_fetch_sub(&worker->team->idle, 1);
}

/* A worker that offered to take instances, which it does not any more; or null. */
static struct service_worker *idle_worker(struct service_worker *worker)
{
    struct service_team *team = worker->team;

    for (uint32_t i = 1; i < team->count; i++) {
        struct service_worker *other = &team->workers[(worker->number + i) % team->count];

        if (atomic_load_explicit(&other->offers, memory_order_relaxed) && atomic_exchange(&other->offers, false)) {
            atomic_fetch_sub(&team->idle, 1);
            return other;
        }
    }
    return NULL;
}

/* Whether an instance can go to another worker. A pipe belongs to its worker, and a handshake to its lane. */
static bool movable(const struct service_instance *instance)
{
    for (uint32_t i = 0; i < instance->channel_count; i++)
        if (instance->channels[i].pipe || (instance->channels[i].secure && service_tls_waits(&instance->channels[i])))
            return false;
    return !instance->fault && !instance->h2 && !instance->lingers && !service_cache_waits(instance);
}

static void hand(struct service_lane *lane, struct service_instance *instance, struct service_worker *to)
{
    service_lane_leave(lane, instance);
    if (service_at_home(instance))
        service_instance_frame(instance);
    for (uint32_t i = 0; i < instance->channel_count; i++)
        if (instance->channels[i].fd >= 0)
            service_poll_remove(&lane->worker->poll, instance->channels[i].fd, false);
    instance->core = &to->lanes[lane - lane->worker->lanes].core;
    instance->next = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&to->inbox, &instance->next, instance, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

/* Half of a lane's queue, from its end. */
static void hand_half(struct service_lane *lane, struct service_worker *to)
{
    struct service_instance *instance, *next;
    uint32_t count = 0, stay, given = 0;

    for (instance = lane->queue; instance; instance = instance->next)
        count++;
    if (count < 2)
        return;
    stay = count - count / 2;
    next = lane->queue;
    lane->queue = NULL;
    lane->tail = &lane->queue;
    for (uint32_t i = 0; (instance = next); i++) {
        next = instance->next;
        if (i >= stay && given < MOST && movable(instance)) {
            hand(lane, instance, to);
            given++;
        } else {
            instance->queued = false;
            service_lane_queue(lane, instance);
        }
    }
}

void service_hand_over(struct service_worker *worker)
{
    struct service_worker *to;
    bool waits = false;

    if (atomic_load_explicit(&worker->team->idle, memory_order_relaxed) == 0)
        return;
    for (uint32_t i = 0; i < worker->lane_count; i++)
        waits = waits || (worker->lanes[i].queue && worker->lanes[i].queue->next);
    to = waits ? idle_worker(worker) : NULL;
    if (!to)
        return;
    for (uint32_t i = 0; i < worker->lane_count; i++)
        hand_half(&worker->lanes[i], to);
    service_worker_wake(to);
}

void service_take_over(struct service_worker *worker)
{
    struct service_instance *next, *instance;

    if (!atomic_load_explicit(&worker->inbox, memory_order_relaxed))
        return;
    for (instance = atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acquire); instance; instance = next) {
        struct service_lane *lane = (struct service_lane *)instance->core;

        next = instance->next;
        service_lane_enter(lane, instance);
        service_core_count(&lane->core, SERVICE_STOLEN, 1);
        for (uint32_t i = 0; i < instance->channel_count; i++) {
            struct service_channel *c = &instance->channels[i];

            if (c->fd >= 0 && !service_poll_add(&worker->poll, c->fd, SERVICE_WATCH_CHANNEL, (uint64_t)(uintptr_t)c))
                service_fail(instance, SERVICE_RESET); /* no memory in the kernel */
        }
        instance->queued = false;
        service_lane_queue(lane, instance);
    }
}
