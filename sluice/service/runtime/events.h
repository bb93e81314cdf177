/* Reports that connections can be read or written: epoll, or io_uring where the kernel permits it. A worker has one,
 * and only its thread uses it after it has started. */
#ifndef SERVICE_EVENTS_H
#define SERVICE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

enum service_watch {
    SERVICE_WATCH_CHANNEL, /* bytes, room, and the end; each is reported once, when it begins */
    SERVICE_WATCH_IDLE,    /* bytes, and the end */
    SERVICE_WATCH_ACCEPT,  /* bytes, as long as there are any */
    SERVICE_WATCH_NOTHING,
};

struct service_event {
    uint64_t data;   /* the value given with the descriptor */
    uint32_t events; /* EPOLLIN and others */
};

struct service_poll {
    const struct service_poll_kind *kind;
    void *state;
};

struct service_poll_kind {
    const char *name;
    /* Null, or why it cannot be used here. */
    const char *(*make)(struct service_poll *poll);
    void (*free)(struct service_poll *poll);
    bool (*add)(struct service_poll *poll, int fd, enum service_watch what, uint64_t data);
    /* The same for a descriptor that is watched already. */
    bool (*change)(struct service_poll *poll, int fd, enum service_watch what, uint64_t data);
    /* Before a descriptor is closed, or is given to another worker: nothing more is reported of it. */
    void (*remove)(struct service_poll *poll, int fd, bool closing);
    /* Waits `milliseconds` at most; the number of events, of which there are `room` at most. */
    int (*wait)(struct service_poll *poll, struct service_event *events, int room, int milliseconds);
};

extern const struct service_poll_kind service_epoll, service_uring;

static inline bool service_poll_add(struct service_poll *poll, int fd, enum service_watch what, uint64_t data)
{
    return poll->kind->add(poll, fd, what, data);
}

static inline bool service_poll_change(struct service_poll *poll, int fd, enum service_watch what, uint64_t data)
{
    return poll->kind->change(poll, fd, what, data);
}

static inline void service_poll_remove(struct service_poll *poll, int fd, bool closing)
{
    poll->kind->remove(poll, fd, closing);
}

#endif
