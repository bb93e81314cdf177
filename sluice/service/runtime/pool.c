/* Connections to backends on which nothing is due, for the next instance that needs one. */
#include <errno.h>
#include <unistd.h>

#include "message.h"
#include "tls.h"

/* Whether a connection is open and nothing was received: bytes would be parsed as the answer to the next request. */
static bool silent(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

int service_kept_take(struct service_channel *c)
{
    struct service_lane *lane = service_lane_of(c);
    struct service_idle *found;

    while (lane->kept && !c->address && (found = lane->kept[service_backend_of(c)])) {
        int fd = found->fd;

        service_kept_remove(found);
        if (silent(fd)) {
            service_count(c->instance, SERVICE_REUSED, 1);
            if (found->tls)
                service_tls_attach(c, found->tls);
            return fd;
        }
        if (found->tls)
            service_tls_drop(found->tls);
        service_poll_remove(&lane->worker->poll, fd, true);
        close(fd);
    }
    return -1;
}

void service_kept_remove(struct service_idle *idle)
{
    struct service_lane *lane = idle->lane;
    struct service_idle **link = &lane->kept[idle->backend];

    while (*link != idle)
        link = &(*link)->next;
    *link = idle->next;
    idle->next = lane->idle_free;
    lane->idle_free = idle;
}

void service_kept_close(struct service_idle *idle)
{
    service_kept_remove(idle);
    service_poll_remove(&idle->lane->worker->poll, idle->fd, true);
    if (idle->tls)
        service_tls_drop(idle->tls);
    close(idle->fd);
}

void service_kept_give(struct service_channel *c)
{
    struct service_lane *lane = service_lane_of(c);
    struct service_idle *idle = lane->idle_free;
    bool quiet = c->link == SERVICE_OPEN && c->fd >= 0 && c->reopens && c->received >= c->sent && !c->out && !c->in &&
                 (c->parked || (!c->in_ended && !c->out_ended)) && !c->readable && !c->hung_up && !c->ends &&
                 !c->address && !c->from && !service_transit(c) && !c->broken;

    if (quiet && idle && !lane->config->sends_proxy) { /* else it has the header of one client */
        struct service_backend *backend = service_backend_state(c);

        if (service_poll_change(&lane->worker->poll, c->fd, SERVICE_WATCH_IDLE,
                                (uint64_t)(uintptr_t)idle | SERVICE_KEPT)) {
            lane->idle_free = idle->next;
            idle->fd = c->fd;
            idle->tls = c->secure ? service_tls_detach(c) : NULL;
            idle->backend = service_backend_of(c);
            idle->since = lane->core.now;
            idle->next = lane->kept[idle->backend];
            lane->kept[idle->backend] = idle;
            c->fd = -1;
            c->link = SERVICE_CLOSED;
            if (backend)
                atomic_fetch_sub_explicit(&backend->load, 1, memory_order_relaxed);
        }
    }
    service_io_close(c);
}
