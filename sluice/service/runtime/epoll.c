/* Events by epoll. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "events.h"

enum { EVENTS = 256 }; /* taken at once */

static int descriptor(const struct service_poll *poll) { return (int)(intptr_t)poll->state; }

static const char *make(struct service_poll *poll)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    poll->state = (void *)(intptr_t)fd;
    return fd < 0 ? strerror(errno) : NULL;
}

static void end(struct service_poll *poll) { close(descriptor(poll)); }

static bool control(struct service_poll *poll, int operation, int fd, enum service_watch what, uint64_t data)
{
    static const uint32_t wanted[] = {
        [SERVICE_WATCH_CHANNEL] = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        [SERVICE_WATCH_IDLE] = EPOLLIN | EPOLLRDHUP,
        [SERVICE_WATCH_ACCEPT] = EPOLLIN,
        [SERVICE_WATCH_NOTHING] = 0,
    };
    struct epoll_event event = {.events = wanted[what], .data.u64 = data};

    return epoll_ctl(descriptor(poll), operation, fd, &event) == 0;
}

static bool add(struct service_poll *poll, int fd, enum service_watch what, uint64_t data)
{
    return control(poll, EPOLL_CTL_ADD, fd, what, data);
}

static bool change(struct service_poll *poll, int fd, enum service_watch what, uint64_t data)
{
    return control(poll, EPOLL_CTL_MOD, fd, what, data);
}

static void stop(struct service_poll *poll, int fd, bool closing)
{
    if (!closing) /* the kernel forgets a descriptor that is closed */
        epoll_ctl(descriptor(poll), EPOLL_CTL_DEL, fd, NULL);
}

static int next(struct service_poll *poll, struct service_event *events, int room, int milliseconds)
{
    struct epoll_event found[EVENTS];
    int count = epoll_wait(descriptor(poll), found, room < EVENTS ? room : EVENTS, milliseconds);

    for (int i = 0; i < count; i++)
        events[i] = (struct service_event){found[i].data.u64, found[i].events};
    return count;
}

const struct service_poll_kind service_epoll = {"epoll", make, end, add, change, stop, next};
