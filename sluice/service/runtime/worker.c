#define _GNU_SOURCE 1 /* affinity */
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cache.h"
#include "h2.h"
#include "linger.h"
#include "message.h"
#include "prelude.h"

enum {
    EVENTS = 256,   /* taken at once */
    TURNS = 8,      /* time slices between two looks at events */
    SLEEP = 1000,   /* milliseconds */
    SHORT_SLEEP = 5 /* where another worker may release the missing memory */
};

bool service_slice_over(struct service_core *core)
{
    return service_nanoseconds() > ((struct service_lane *)core)->worker->turn_end;
}

bool service_turn_over(struct service_core *core)
{
    return ((struct service_lane *)core)->worker->by_item || service_slice_over(core);
}

const char *service_worker_make(struct service_worker *worker, const struct service_config *configs, uint32_t count,
                                const struct service_poll_kind *poll)
{
    const char *wrong;

    worker->poll.kind = poll;
    wrong = poll->make(&worker->poll);
    if (wrong)
        return wrong;
    worker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->lane_count = count;
    worker->lanes = calloc(count, sizeof *worker->lanes);
    atomic_init(&worker->offers, false);
    atomic_init(&worker->inbox, NULL);
    for (int i = 0; i < SERVICE_PIPES; i++) {
        worker->pipes[i] = (struct service_pipe){.next = worker->pipes_free, .ends = {-1, -1}};
        worker->pipes_free = &worker->pipes[i];
    }
    if (worker->wake < 0 || !worker->lanes || !service_poll_add(&worker->poll, worker->wake, SERVICE_WATCH_ACCEPT, 0))
        return strerror(errno);
    for (uint32_t i = 0; i < count && !wrong; i++)
        wrong = service_lane_make(&worker->lanes[i], worker, &configs[i]);
    return wrong;
}

/* An instance that was put into the queue in its own turn, and has ended in it. */
static void leave_queue(struct service_lane *lane, struct service_instance *instance)
{
    struct service_instance **link = &lane->queue;

    while (*link != instance)
        link = &(*link)->next;
    *link = instance->next;
    if (!*link)
        lane->tail = link;
    instance->queued = false;
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
        service_core_count(&lane->core, instance->fault, 1);
    else if (instance->lingers)
        life = service_linger_turn(instance);
    else if (!instance->begins || (life = service_prelude_turn(instance)) == SERVICE_AGAIN)
        life = instance->h2 ? service_h2_turn(instance) : service_instance_turn(instance);
    switch (life) {
    case SERVICE_DEAD:
        if (instance->queued)
            leave_queue(lane, instance);
        if (instance->fault && service_linger_begin(instance))
            service_lane_queue(lane, instance);
        else
            service_lane_give(lane, instance);
        break;
    case SERVICE_AGAIN:
        service_lane_queue(lane, instance);
        break;
    case SERVICE_ASLEEP:
        if (instance->starved && !instance->queued) { /* in the queue's own link: it is in no queue now */
            instance->queued = true;
            instance->next = lane->starved;
            lane->starved = instance;
        }
        break;
    }
    service_lane_wake(lane);
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
    uint64_t now = service_nanoseconds(), first = now + worker->slice, end = now + TURNS * (uint64_t)worker->slice;

    while ((lane = next_lane(worker)) != NULL && now < end) {
        uint64_t before = now;

        worker->turn_end = now + worker->slice;
        run_first(lane);
        now = service_nanoseconds();
        lane->spent += (now - before) / lane->config->share;
        if (now > first) /* the queue has waited for longer than a slice */
            service_hand_over(worker);
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

/* An event of a channel, a listener, an idle connection, or the descriptor that wakes the worker. */
static void take_event(struct service_worker *worker, const struct service_event *event)
{
    void *target = (void *)(uintptr_t)(event->data & ~(uint64_t)SERVICE_TAGS);
    struct service_channel *c = target;
    uint64_t woken;

    switch (event->data & SERVICE_TAGS) {
    case SERVICE_LISTENER:
        service_lane_accept(target);
        return;
    case SERVICE_KEPT:
        service_kept_close(target);
        return;
    case SERVICE_STREAM:
        service_h2_event(target, event->events);
        return;
    case SERVICE_PAIR:
        service_h2_pair_event(target, event->events);
        return;
    default:
        break;
    }
    if (!target) {
        if (read(worker->wake, &woken, sizeof woken) < 0)
            return; /* it was read before */
        return;
    }
    if (!service_socket_event(c, event->events) && service_instance_broken(c->instance, c))
        c->instance->progressed = true;
    service_lane_queue(service_lane_of(c), c->instance);
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
    __atomic_store_n(&worker->now, (uint32_t)now.tv_sec, __ATOMIC_RELAXED); /* metrics read it */
    for (uint32_t i = 0; i < worker->lane_count; i++) {
        worker->lanes[i].core.now = worker->now;
        if (before && worker->now != before)
            service_end_overdue(&worker->lanes[i]);
    }
}

/* How long to wait for events. */
static int patience(struct service_worker *worker)
{
    for (uint32_t i = 0; i < worker->lane_count; i++)
        if (worker->lanes[i].queued && worker->lanes[i].in_use < worker->lanes[i].capacity)
            return SHORT_SLEEP; /* more waiting connections can be accepted */
        else if (worker->lanes[i].starved || worker->lanes[i].in_use == worker->lanes[i].capacity)
            return worker->team->count > 1 ? SHORT_SLEEP : SLEEP;
    return SLEEP;
}

/* Accepts waiting connections and no more, once the team does so. */
static void drain(struct service_worker *worker)
{
    bool over = true;

    if (worker->drained || !atomic_load(&worker->team->draining))
        return;
    for (uint32_t i = 0; i < worker->lane_count; i++)
        over = service_lane_drain(&worker->lanes[i]) && over;
    worker->drained = over;
    atomic_fetch_add(&worker->team->drained, over);
}

void *service_worker_run(void *argument)
{
    struct service_worker *worker = argument;
    struct service_event events[EVENTS];
    bool last;

    pin(worker->number);
    set_time(worker);
    do {
        bool more = next_lane(worker) != NULL;
        int count;

        last = atomic_load(&worker->team->stopping); /* events before the end are still handled */
        if (!more)
            service_offer(worker);
        count = worker->poll.kind->wait(&worker->poll, events, EVENTS, more || last ? 0 : patience(worker));
        if (!more)
            service_withdraw(worker);
        level(worker);
        for (int i = 0; i < count; i++)
            take_event(worker, &events[i]);
        drain(worker);
        service_take_over(worker);
        for (uint32_t i = 0; i < worker->lane_count; i++) {
            service_lane_collect(&worker->lanes[i]);
            service_lane_wake(&worker->lanes[i]);
            service_cache_wake(&worker->lanes[i]);
        }
        run_queues(worker);
        set_time(worker);
    } while (!last);
    return NULL;
}

void service_worker_close(struct service_worker *worker)
{
    service_take_over(worker);
    for (uint32_t i = 0; i < worker->lane_count; i++) {
        struct service_lane *lane = &worker->lanes[i];

        while (lane->oldest) {
            if (!service_is_uplink(lane->oldest))
                service_core_count(&lane->core, SERVICE_STOPPED, 1);
            service_lane_give(lane, lane->oldest);
        }
        service_h2_close_pairs(lane);
        for (uint32_t backend = 0; lane->kept && backend < lane->channels; backend++)
            while (lane->kept[backend])
                service_kept_close(lane->kept[backend]);
    }
}

void service_worker_free(struct service_worker *worker)
{
    for (uint32_t i = 0; i < worker->lane_count; i++)
        service_lane_free(&worker->lanes[i]);
    for (int i = 0; i < SERVICE_PIPES; i++)
        if (worker->pipes[i].ends[0] >= 0) {
            close(worker->pipes[i].ends[0]);
            close(worker->pipes[i].ends[1]);
        }
    worker->poll.kind->free(&worker->poll);
    close(worker->wake);
    free(worker->lanes);
}
