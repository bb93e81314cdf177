/* Connections to backends on which nothing is due, for the next instance that needs one. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "message.h"
#include "worker.h"

/* Whether a connection is open and nothing has come from it: bytes would be taken as the answer to the next request. */
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
            return fd;
        }
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

void service_kept_give(struct service_channel *c)
{
    struct service_lane *lane = service_lane_of(c);
    struct service_idle *idle = lane->idle_free;
    bool quiet = c->link == SERVICE_OPEN && c->reopens && c->received >= c->sent && !c->out && !c->in &&
                 (c->parked || (!c->in_ended && !c->out_ended)) && !c->readable && !c->hung_up && !c->ends &&
                 !c->address && !c->from && !service_transit(c) && !c->broken;

    if (quiet && idle) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP,
                                    .data.u64 = (uint64_t)(uintptr_t)idle | SERVICE_KEPT};

        if (epoll_ctl(lane->worker->epoll, EPOLL_CTL_MOD, c->fd, &event) == 0) {
            lane->idle_free = idle->next;
            idle->fd = c->fd;
            idle->backend = service_backend_of(c);
            idle->since = lane->core.now;
            idle->next = lane->kept[idle->backend];
            lane->kept[idle->backend] = idle;
            c->fd = -1;
        }
    }
    service_io_close(c);
}
