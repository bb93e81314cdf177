/* Events by io_uring: requests to poll that go on until they are removed. New ones and removals cost no system call of
 * their own; they are submitted with the next wait.
 *
 * A request holds its file open, so that one to remove it has to follow before the connection is gone. Its number has a
 * generation: reports on a descriptor after its removal are not attributed to the next connection.
 */
#define _GNU_SOURCE 1
#include "events.h"

#include <errno.h>
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IORING_POLL_ADD_MULTI
static const char *make(struct service_poll *poll)
{
    (void)poll;
    return "it was compiled without a kernel's header that has it";
}

const struct service_poll_kind service_uring = {.name = "io_uring", .make = make};
#else

enum { ENTRIES = 1024, COMPLETIONS = 16384, MOST = 1 << 22 };

#define REMOVAL UINT64_MAX /* of a request that removes another: its result does not count */

/* A descriptor that is watched. */
struct watched {
    uint64_t data;
    uint32_t generation;
    uint32_t batch, place; /* its place among the events of the last wait */
    uint8_t what;
    bool active;
};

struct ring {
    int fd;
    uint32_t count; /* descriptors that there can be */
    struct watched *watched;
    uint8_t *memory;
    size_t size, submissions_size;
    struct io_uring_sqe *submissions;
    uint32_t *sq_head, *sq_tail, *cq_head, *cq_tail;
    uint32_t sq_mask, sq_entries, cq_mask, pending, batch;
    struct io_uring_cqe *completions;
};

static int enter(struct ring *ring, uint32_t wanted, uint32_t flags, void *argument, size_t size)
{
    int done = (int)syscall(SYS_io_uring_enter, ring->fd, ring->pending, wanted, flags, argument, size);

    if (done > 0)
        ring->pending -= (uint32_t)done < ring->pending ? (uint32_t)done : ring->pending;
    return done;
}

/* A free request, which is submitted at the next wait; null if the kernel accepts none. */
static struct io_uring_sqe *request(struct ring *ring)
{
    uint32_t tail = __atomic_load_n(ring->sq_tail, __ATOMIC_RELAXED);
    struct io_uring_sqe *found;

    if (tail - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) == ring->sq_entries) {
        enter(ring, 0, 0, NULL, 0);
        if (tail - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) == ring->sq_entries)
            return NULL;
    }
    found = &ring->submissions[tail & ring->sq_mask];
    memset(found, 0, sizeof *found);
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->pending++;
    return found;
}

static uint64_t number_of(const struct ring *ring, int fd)
{
    return (uint64_t)ring->watched[fd].generation << 32 | (uint32_t)fd;
}

/* A request to poll, with the current generation. */
static bool start(struct ring *ring, int fd)
{
    static const uint32_t wanted[] = {
        [SERVICE_WATCH_CHANNEL] = EPOLLIN | EPOLLOUT | EPOLLRDHUP,
        [SERVICE_WATCH_IDLE] = EPOLLIN | EPOLLRDHUP,
        [SERVICE_WATCH_ACCEPT] = EPOLLIN,
    };
    struct watched *watched = &ring->watched[fd];
    struct io_uring_sqe *sqe;

    watched->active = watched->what != SERVICE_WATCH_NOTHING;
    if (!watched->active)
        return true;
    sqe = request(ring);
    if (!sqe)
        return watched->active = false;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = fd;
    sqe->poll32_events = wanted[watched->what];
    /* a listener is polled again after each report: connections that wait are reported again */
    sqe->len = watched->what == SERVICE_WATCH_ACCEPT ? 0 : IORING_POLL_ADD_MULTI;
    sqe->user_data = number_of(ring, fd);
    return true;
}

static void stop(struct service_poll *poll, int fd, bool closing)
{
    struct ring *ring = poll->state;
    struct io_uring_sqe *sqe;

    (void)closing;
    if (fd < 0 || (uint32_t)fd >= ring->count)
        return;
    if (ring->watched[fd].active && (sqe = request(ring))) {
        sqe->opcode = IORING_OP_POLL_REMOVE;
        sqe->fd = -1;
        sqe->addr = number_of(ring, fd);
        sqe->user_data = REMOVAL;
    }
    ring->watched[fd].active = false;
    ring->watched[fd].generation++;
}

static bool add(struct service_poll *poll, int fd, enum service_watch what, uint64_t data)
{
    struct ring *ring = poll->state;

    if (fd < 0 || (uint32_t)fd >= ring->count)
        return false;
    ring->watched[fd].data = data;
    ring->watched[fd].what = (uint8_t)what;
    return start(ring, fd);
}

static bool change(struct service_poll *poll, int fd, enum service_watch what, uint64_t data)
{
    stop(poll, fd, false);
    return add(poll, fd, what, data);
}

static void end(struct service_poll *poll)
{
    struct ring *ring = poll->state;

    if (ring->fd >= 0)
        close(ring->fd);
    if (ring->memory)
        munmap(ring->memory, ring->size);
    if (ring->submissions)
        munmap(ring->submissions, ring->submissions_size);
    if (ring->watched)
        munmap(ring->watched, ring->count * sizeof *ring->watched);
    free(ring);
}

/* Maps the queues. False if there is no memory. */
static bool map(struct ring *ring, const struct io_uring_params *given)
{
    size_t first = given->sq_off.array + given->sq_entries * sizeof(uint32_t);
    size_t second = given->cq_off.cqes + given->cq_entries * sizeof(struct io_uring_cqe);
    struct rlimit most = {0, 0};
    uint32_t *array;

    getrlimit(RLIMIT_NOFILE, &most);
    ring->count = most.rlim_cur < MOST ? (uint32_t)most.rlim_cur : MOST;
    ring->size = first > second ? first : second;
    ring->submissions_size = given->sq_entries * sizeof(struct io_uring_sqe);
    void *queues = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
    void *requests =
        mmap(NULL, ring->submissions_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
    void *table = mmap(NULL, ring->count * sizeof *ring->watched, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ring->memory = queues == MAP_FAILED ? NULL : queues;
    ring->submissions = requests == MAP_FAILED ? NULL : requests;
    ring->watched = table == MAP_FAILED ? NULL : table;
    if (!ring->memory || !ring->submissions || !ring->watched)
        return false;
    ring->sq_head = (void *)(ring->memory + given->sq_off.head);
    ring->sq_tail = (void *)(ring->memory + given->sq_off.tail);
    ring->cq_head = (void *)(ring->memory + given->cq_off.head);
    ring->cq_tail = (void *)(ring->memory + given->cq_off.tail);
    ring->completions = (void *)(ring->memory + given->cq_off.cqes);
    ring->sq_entries = given->sq_entries;
    ring->sq_mask = given->sq_entries - 1;
    ring->cq_mask = given->cq_entries - 1;
    array = (void *)(ring->memory + given->sq_off.array);
    for (uint32_t i = 0; i < given->sq_entries; i++)
        array[i] = i;
    return true;
}

static const char *make(struct service_poll *poll)
{
    const uint32_t needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    struct io_uring_params given = {.flags = IORING_SETUP_CQSIZE, .cq_entries = COMPLETIONS};
    struct ring *ring = calloc(1, sizeof *ring);
    const char *wrong = NULL;

    if (!ring)
        return "no memory";
    poll->state = ring;
    ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &given);
    if (ring->fd < 0)
        wrong = strerror(errno);
    else if ((given.features & needed) != needed)
        wrong = "the kernel is older than 5.13";
    else if (!map(ring, &given))
        wrong = "no memory";
    if (wrong)
        end(poll);
    return wrong;
}

static int next(struct service_poll *poll, struct service_event *events, int room, int milliseconds)
{
    struct ring *ring = poll->state;
    struct __kernel_timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
    struct io_uring_getevents_arg argument = {.ts = (uint64_t)(uintptr_t)&time};
    uint32_t head = __atomic_load_n(ring->cq_head, __ATOMIC_RELAXED);
    bool there = head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
    int count = 0;

    ring->batch++;
    /* also with nothing to submit: completions that found no room in the queue are delivered */
    enter(ring, milliseconds && !there, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument, sizeof argument);
    for (uint32_t tail = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE); head != tail && count < room; head++) {
        const struct io_uring_cqe *cqe = &ring->completions[head & ring->cq_mask];
        uint32_t fd = (uint32_t)cqe->user_data;
        struct watched *watched = &ring->watched[fd < ring->count ? fd : 0];

        if (cqe->user_data == REMOVAL || fd >= ring->count || watched->generation != cqe->user_data >> 32 ||
            !watched->active)
            continue;
        uint32_t got = cqe->res < 0 ? (uint32_t)(EPOLLERR | EPOLLHUP) : (uint32_t)cqe->res;

        if (watched->batch == ring->batch) { /* one event for each descriptor: the first may end what it belongs to */
            events[watched->place].events |= got;
        } else {
            watched->batch = ring->batch;
            watched->place = (uint32_t)count;
            events[count++] = (struct service_event){watched->data, got};
        }
        if (!(cqe->flags & IORING_CQE_F_MORE) && cqe->res >= 0)
            start(ring, (int)fd);
    }
    __atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
    return count;
}

const struct service_poll_kind service_uring = {"io_uring", make, end, add, change, stop, next};
#endif
