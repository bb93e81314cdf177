/* End hosts: the endpoints of a context, their numbers and ports, and waiting for one of them. */
#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static int failed(int error)
{
    errno = error;
    return -1;
}

/* --- ports --- */

static uint64_t contexts_of_port[UINT16_MAX + 1];   /* a bit for each context that has bound it */

bool mos_port_is_shared(const struct mos_hosts *hosts, uint16_t port)
{
    return port && (__atomic_load_n(&contexts_of_port[port], __ATOMIC_ACQUIRE) & ~(UINT64_C(1) << hosts->cpu));
}

void mos_port_take(const struct mos_hosts *hosts, struct mos_endpoint *endpoint, uint16_t port)
{
    endpoint->bound = true;
    endpoint->port = port;
    __atomic_fetch_or(&contexts_of_port[port], UINT64_C(1) << hosts->cpu, __ATOMIC_ACQ_REL);
}

/* Another endpoint of the context may have it still; then others treat it as theirs alone, and the kernel refuses. */
static void give_back_port(const struct mos_hosts *hosts, const struct mos_endpoint *endpoint)
{
    if (endpoint->port)
        __atomic_fetch_and(&contexts_of_port[endpoint->port], ~(UINT64_C(1) << hosts->cpu), __ATOMIC_ACQ_REL);
}

/* --- a context's --- */

/* Programs for mOS have as many sockets in each context as max_concurrency says; the kernel's first limit is usually 1024. */
static void allow_descriptors(const struct mtcp_conf *conf)
{
    struct rlimit limit;
    const rlim_t wanted = (rlim_t)conf->max_concurrency * (rlim_t)conf->num_cores + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);   /* where it cannot, sockets fail with ENFILE */
}

/* Event descriptors, plus 1, by the context's core. They stay open for the core's next context: handlers of signals, in
 * whichever thread, write to them at any time, and a number that was closed may be of another file by then. */
static int wakes[MOS_CONTEXTS];

static void take_interrupts(int wake)
{
    uint64_t interrupts;
    if (read(wake, &interrupts, sizeof interrupts) < 0)
        return;   /* there are none: another wait has taken them */
}

static int wake_of(unsigned cpu)
{
    int wake = __atomic_load_n(&wakes[cpu], __ATOMIC_ACQUIRE) - 1;
    if (wake >= 0) {
        take_interrupts(wake);   /* those of the context before */
        return wake;
    }
    wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    __atomic_store_n(&wakes[cpu], wake + 1, __ATOMIC_RELEASE);
    return wake;
}

static struct mos_hosts *hosts_new(const struct mos_context *context)
{
    struct mos_hosts *hosts = calloc(1, sizeof *hosts);
    if (!hosts)
        return NULL;
    hosts->cpu = (unsigned)context->public.cpu;
    hosts->most = mos_configuration.conf.max_concurrency;
    hosts->endpoints = calloc((size_t)hosts->most, sizeof(struct mos_endpoint *));
    hosts->free_id = calloc((size_t)hosts->most, sizeof *hosts->free_id);
    hosts->wake = wake_of(hosts->cpu);
    if (!hosts->endpoints || !hosts->free_id || hosts->wake < 0) {
        mos_hosts_close(hosts);
        return NULL;
    }
    for (const struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        mos_endpoint_reserve(hosts, monitor->id);
    allow_descriptors(&mos_configuration.conf);
    return hosts;
}

struct mos_hosts *mos_hosts_of(mctx_t mctx)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!context) {
        errno = EACCES;
        return NULL;
    }
    if (mos_context_stopped(context)) {
        errno = EPERM;
        return NULL;
    }
    if (!context->hosts && !(context->hosts = hosts_new(context)))
        errno = ENOMEM;
    return context->hosts;
}

void mos_hosts_close(struct mos_hosts *hosts)
{
    if (!hosts)
        return;
    for (int id = 0; hosts->endpoints && id < hosts->end; id++)
        if (hosts->endpoints[id]) {
            give_back_port(hosts, hosts->endpoints[id]);
            close(hosts->endpoints[id]->fd);
            free(hosts->endpoints[id]);
        }
    free(hosts->endpoints);
    free(hosts->free_id);
    free(hosts);
}

void mos_hosts_interrupt(unsigned cpu)
{
    const uint64_t one = 1;
    const int wake = __atomic_load_n(&wakes[cpu], __ATOMIC_ACQUIRE) - 1;
    if (wake >= 0 && write(wake, &one, sizeof one) < 0)
        return;   /* it is full: nothing has waited since */
}

void mos_hosts_interrupted(struct mos_hosts *hosts) { take_interrupts(hosts->wake); }

/* --- numbers --- */

static void swap_ids(int *a, int *b)
{
    int id = *a;
    *a = *b;
    *b = id;
}

static void put_id(struct mos_hosts *hosts, int id)
{
    int *heap = hosts->free_id, at = hosts->free_ids++;
    heap[at] = id;
    for (; at && heap[at] < heap[(at - 1) / 2]; at = (at - 1) / 2)
        swap_ids(&heap[at], &heap[(at - 1) / 2]);
}

static int take_id(struct mos_hosts *hosts)
{
    int *heap = hosts->free_id, first = heap[0];
    heap[0] = heap[--hosts->free_ids];
    for (int at = 0, child; (child = 2 * at + 1) < hosts->free_ids; at = child) {
        if (child + 1 < hosts->free_ids && heap[child + 1] < heap[child])
            child++;
        if (heap[at] <= heap[child])
            break;
        swap_ids(&heap[at], &heap[child]);
    }
    return first;
}

static bool is_passive(const struct mos_hosts *hosts, int id)
{
    for (int i = 0; i < hosts->passive_count; i++)
        if (hosts->passive[i] == id)
            return true;
    return false;
}

struct mos_endpoint *mos_endpoint_new(struct mos_hosts *hosts, enum socket_type type, int fd)
{
    while (!hosts->free_ids && hosts->end < hosts->most && is_passive(hosts, hosts->end))
        hosts->end++;   /* put back when the monitor is closed */
    bool room = hosts->free_ids || hosts->end < hosts->most;
    struct mos_endpoint *endpoint = room ? calloc(1, sizeof *endpoint) : NULL;
    if (!endpoint) {
        errno = room ? ENOMEM : ENFILE;
        return NULL;
    }
    endpoint->type = type;
    endpoint->fd = fd;
    endpoint->id = hosts->free_ids ? take_id(hosts) : hosts->end++;
    hosts->endpoints[endpoint->id] = endpoint;
    return endpoint;
}

void mos_endpoint_unwatch(struct mos_endpoint *endpoint)
{
    if (endpoint->watched)
        epoll_ctl(endpoint->set->fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
    endpoint->watched = endpoint->sent_input = false;
    endpoint->set = NULL;
}

/* All leave a set. */
static void empty(struct mos_hosts *hosts, const struct mos_endpoint *set)
{
    for (int id = 0; id < hosts->end; id++)
        if (hosts->endpoints[id] && hosts->endpoints[id]->set == set)
            mos_endpoint_unwatch(hosts->endpoints[id]);
}

void mos_endpoint_free(struct mos_hosts *hosts, struct mos_endpoint *endpoint)
{
    mos_endpoint_unwatch(endpoint);
    if (endpoint->type == MOS_SOCK_EPOLL)
        empty(hosts, endpoint);
    give_back_port(hosts, endpoint);
    close(endpoint->fd);
    hosts->connections -= endpoint->counted;
    hosts->endpoints[endpoint->id] = NULL;
    put_id(hosts, endpoint->id);
    free(endpoint);
}

struct mos_endpoint *mos_endpoint_find(const struct mos_hosts *hosts, int id)
{
    return hosts && id >= 0 && id < hosts->end ? hosts->endpoints[id] : NULL;
}

bool mos_endpoint_reserve(struct mos_hosts *hosts, int id)
{
    if (mos_endpoint_find(hosts, id))
        return false;
    for (int i = 0; i < hosts->free_ids; i++)
        if (hosts->free_id[i] == id)
            return false;   /* an endpoint may get it any time */
    hosts->passive[hosts->passive_count++] = id;
    return true;
}

void mos_endpoint_release(struct mos_hosts *hosts, int id)
{
    for (int i = 0; i < hosts->passive_count; i++)
        if (hosts->passive[i] == id) {
            hosts->passive[i] = hosts->passive[--hosts->passive_count];
            if (id < hosts->end)
                put_id(hosts, id);
            return;
        }
}

struct mos_endpoint *mos_endpoint_get(mctx_t mctx, int id, enum socket_type type, enum socket_type other, int wrong_type)
{
    const struct mos_hosts *hosts = mos_hosts_of(mctx);
    if (!hosts)
        return NULL;
    struct mos_endpoint *endpoint = mos_endpoint_find(hosts, id);
    if (endpoint && (endpoint->type == type || endpoint->type == other))
        return endpoint;
    errno = endpoint ? wrong_type : EBADF;
    return NULL;
}

int mos_endpoint_wait(struct mos_hosts *hosts, int fd, short events)
{
    struct pollfd fds[2] = {{fd, events, 0}, {hosts->wake, POLLIN, 0}};
    int result = poll(fds, 2, -1);
    if (result < 0)
        return -1;
    if (!fds[1].revents)
        return 0;
    mos_hosts_interrupted(hosts);
    return failed(EINTR);
}
