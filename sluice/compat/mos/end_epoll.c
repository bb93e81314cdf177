/* End hosts: waiting for endpoints, by the kernel's epoll. */
#include "endpoint.h"
#include "loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { AT_ONCE = 1024 };   /* events that are fetched by one call */

static const uint64_t interrupted = UINT64_MAX;   /* the kernel's data of the wake descriptor; else the endpoint's number */

static int failed(int error)
{
    errno = error;
    return -1;
}

static const struct { uint64_t own; uint32_t kernel; } bits[] = {
    {MOS_EPOLLIN, EPOLLIN}, {MOS_EPOLLPRI, EPOLLPRI}, {MOS_EPOLLOUT, EPOLLOUT}, {MOS_EPOLLRDNORM, EPOLLRDNORM},
    {MOS_EPOLLRDBAND, EPOLLRDBAND}, {MOS_EPOLLWRNORM, EPOLLWRNORM}, {MOS_EPOLLWRBAND, EPOLLWRBAND},
    {MOS_EPOLLMSG, EPOLLMSG}, {MOS_EPOLLERR, EPOLLERR}, {MOS_EPOLLHUP, EPOLLHUP}, {MOS_EPOLLRDHUP, EPOLLRDHUP},
};
static const uint64_t output = MOS_EPOLLOUT | MOS_EPOLLWRNORM | MOS_EPOLLWRBAND;
static const uint64_t edge = UINT64_C(1) << 31, once = UINT64_C(1) << 30;   /* MOS_EPOLLET, MOS_EPOLLONESHOT */

static uint32_t to_kernel(uint64_t events)
{
    uint32_t found = (events & edge ? EPOLLET : 0) | (events & once ? EPOLLONESHOT : 0);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        found |= events & bits[i].own ? bits[i].kernel : 0;
    return found;
}

static uint64_t from_kernel(uint32_t events)
{
    uint64_t found = 0;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        found |= events & bits[i].kernel ? bits[i].own : 0;
    return found;
}

/* --- the endpoints of a set --- */

/* Can an endpoint have events? The kernel reports a stream socket that is not connected as hung up, mOS not. */
static bool can_happen(const struct mos_endpoint *endpoint)
{
    return endpoint->type != MOS_SOCK_STREAM || endpoint->counted;
}

static int control(struct mos_endpoint *endpoint, int operation)
{
    struct epoll_event event = {.events = to_kernel(endpoint->interest), .data.u64 = (uint64_t)endpoint->id};
    return epoll_ctl(endpoint->set->fd, operation, endpoint->fd, &event);
}

void mos_endpoint_watch(struct mos_endpoint *endpoint)
{
    if (endpoint->set && !endpoint->watched && can_happen(endpoint))
        endpoint->watched = control(endpoint, EPOLL_CTL_ADD) == 0;
}

int mtcp_epoll_create(mctx_t mctx, int size)
{
    MOS_CALL(mctx);
    struct mos_hosts *hosts = mos_hosts_of(mctx);
    if (!hosts)
        return -1;
    if (size <= 0)
        return failed(EINVAL);
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return failed(errno == EMFILE ? ENFILE : errno);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = interrupted};
    const struct mos_endpoint *set = NULL;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, hosts->wake, &event) || !(set = mos_endpoint_new(hosts, MOS_SOCK_EPOLL, fd))) {
        int error = errno;
        close(fd);
        return failed(error);
    }
    return set->id;
}

static int add(struct mos_endpoint *set, struct mos_endpoint *endpoint)
{
    endpoint->set = set;
    if (!can_happen(endpoint))
        return 0;
    endpoint->watched = control(endpoint, EPOLL_CTL_ADD) == 0;
    if (!endpoint->watched)
        endpoint->set = NULL;
    return endpoint->watched ? 0 : -1;
}

int mtcp_epoll_ctl(mctx_t mctx, int id, int op, int sock, struct mtcp_epoll_event *event)
{
    MOS_CALL(mctx);
    const struct mos_hosts *hosts = mos_hosts_of(mctx);
    if (!hosts)
        return -1;
    struct mos_endpoint *set = mos_endpoint_find(hosts, id), *endpoint = mos_endpoint_find(hosts, sock);
    if (!set || !endpoint)
        return failed(EBADF);
    if (set->type != MOS_SOCK_EPOLL || endpoint->type == MOS_SOCK_EPOLL || (!event && op != MOS_EPOLL_CTL_DEL))
        return failed(EINVAL);
    if (op == MOS_EPOLL_CTL_ADD && endpoint->set)
        return failed(EEXIST);   /* an endpoint is in one set */
    if (op != MOS_EPOLL_CTL_ADD && endpoint->set != set)
        return failed(ENOENT);
    switch (op) {
    case MOS_EPOLL_CTL_ADD:
    case MOS_EPOLL_CTL_MOD:
        endpoint->interest = event->events;
        endpoint->data = event->data;
        if (op == MOS_EPOLL_CTL_ADD)
            return add(set, endpoint);
        return endpoint->watched ? control(endpoint, EPOLL_CTL_MOD) : 0;
    case MOS_EPOLL_CTL_DEL: mos_endpoint_unwatch(endpoint); return 0;
    default: return failed(EINVAL);
    }
}

/* --- waiting --- */

/* Writes the events of an endpoint; returns their number.
 *
 * In mOS an event is of one kind, and programs compare with ==. So an error is alone, and input and output are two
 * events. When level-triggered, one of them is reported at a time: a program may close the endpoint because of the
 * first, and the second would be of the next one with its number. */
static int fill(struct mos_endpoint *endpoint, uint64_t events, struct mtcp_epoll_event *out, int room)
{
    if (events & MOS_EPOLLERR) {
        out[0] = (struct mtcp_epoll_event){MOS_EPOLLERR, endpoint->data};
        return 1;
    }
    const uint64_t other = events & ~(uint64_t)MOS_EPOLLHUP, both[2] = {other & ~output, other & output};
    if (!both[0] || !both[1]) {
        out[0] = (struct mtcp_epoll_event){other ? other : events, endpoint->data};
        return 1;
    }
    if (endpoint->interest & (edge | once)) {
        out[0] = (struct mtcp_epoll_event){room > 1 ? both[0] : other, endpoint->data};
        if (room > 1)
            out[1] = (struct mtcp_epoll_event){both[1], endpoint->data};
        return room > 1 ? 2 : 1;
    }
    out[0] = (struct mtcp_epoll_event){both[endpoint->sent_input], endpoint->data};
    endpoint->sent_input = !endpoint->sent_input;
    return 1;
}

int mtcp_epoll_wait(mctx_t mctx, int id, struct mtcp_epoll_event *events, int max, int timeout)
{
    MOS_CALL(mctx);
    const struct mos_endpoint *set = mos_endpoint_get(mctx, id, MOS_SOCK_EPOLL, MOS_SOCK_EPOLL, EINVAL);
    if (!set)
        return -1;
    if (!events || max <= 0)
        return failed(EINVAL);
    mos_run_beside();
    struct mos_hosts *hosts = mos_hosts_within(mctx);
    struct epoll_event found[AT_ONCE];
    const int most = (int)sl_min((uint64_t)(max > 1 ? max / 2 : 1), AT_ONCE);   /* each may be two */
    const int got = epoll_wait(set->fd, found, most, timeout);
    if (got < 0)
        return -1;
    int count = 0;
    for (int i = 0; i < got; i++) {
        if (found[i].data.u64 == interrupted) {
            if (got > 1)
                continue;   /* the events are reported first, and this again */
            mos_hosts_interrupted(hosts);
            return failed(EINTR);
        }
        struct mos_endpoint *endpoint = mos_endpoint_find(hosts, (int)found[i].data.u64);
        if (endpoint && endpoint->set == set)
            count += fill(endpoint, from_kernel(found[i].events), events + count, max - count);
    }
    return count;
}
