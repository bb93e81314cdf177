/* A worker: a thread that is pinned to a core, with its own listeners, pools, instances and queues. Of each service it
 * has a lane; the lane that has used the least time for its share is served next. Workers share global state, the state
 * of backends, and instances that a busy worker hands to an idle one (steal.c).
 */
#ifndef SERVICE_WORKER_H
#define SERVICE_WORKER_H

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "instance.h"
#include "events.h"

struct service_address {
    struct sockaddr_storage storage;
    socklen_t length; /* 0: it is a folder */
    int folder;
    bool http2;       /* of a backend: it uses HTTP/2 */
    const char *name; /* of a backend that is connected by TLS, as its certificate has it; null: of one without */
};

/* The ends of a client's connection. IPv4 addresses are in the first 4 bytes. */
struct service_ends {
    uint8_t client[16], server[16];
    uint16_t client_port, server_port;
    uint8_t family; /* 4, 6, or 0: it has no addresses */
};

/* Of addresses that begin with the same bits. */
struct service_network {
    uint8_t address[16], family, bits;
};

struct service_config {
    const struct service_program *program;
    struct service_address listen;
    int *listeners; /* sockets that were given to this process, one for each worker; null: it makes its own */
    uint32_t listener_count;
    struct service_tls_config *tls;     /* null: neither clients nor backends use TLS */
    bool accepts_tls;                   /* clients do */
    uint32_t handshake, handshakes;     /* seconds for a handshake; those with clients at once. 0: no limit */
    uint32_t listen_port; /* the port whose channel is accepted */
    struct service_address *backends[SERVICE_PORTS];
    uint32_t counts[SERVICE_PORTS];
    uint64_t buffers, instances; /* of all workers */
    uint32_t buffer_size;
    uint32_t idle, timeout, message_time; /* seconds; 0: without limit */
    uint32_t body_time, body_rate;        /* seconds, and bytes in each of them that have to pass */
    uint32_t health;                      /* seconds between two health checks of a backend; 0: there are none */
    uint32_t health_rise, health_fall;    /* consecutive checks that restore it, or remove it */
    const char *health_path;              /* that is requested by HTTP; empty: the backend is only connected */
    uint64_t other_counters[SERVICE_COUNTER_COUNT]; /* counters of threads other than workers */
    struct service_log_file *log;                   /* the access log; null without */
    uint32_t keep;                        /* idle connections to a backend that a worker keeps open */
    uint32_t most;                        /* connections to a backend; 0: any number */
    uint32_t down;                        /* seconds for which a backend that failed counts as down */
    uint32_t splice;                      /* bytes from which on a body passes in the kernel; 0: never */
    uint32_t share;                       /* of a core's time, compared with the other services */
    bool ends;                            /* the addresses of clients are needed: ends.h */
    uint32_t http2;                       /* streams of a connection at once; 0: clients use HTTP/1.1 only */
    uint32_t uplinks;                     /* backends that use HTTP/2 */
    struct service_network *trusted;      /* proxies whose PROXY headers count */
    uint32_t trusted_count;
    uint32_t sends_proxy;                 /* the version of the header that backends are sent; 0: none */
    uint32_t cache_size;                  /* MiB of the cache of HTTP; 0: there is none */
    struct service_cache *cache;
    bool tallies;                         /* metrics are read: backends are counted */
    bool folders;                         /* whether a backend is a folder */
    struct service_ring *rings[2 * SERVICE_PORTS]; /* ring.h */
    struct service_backend *states;
    struct service_shared shared;
};

/* An idle connection to a backend. */
struct service_idle {
    struct service_idle *next; /* of the same backend, or among the free ones */
    struct service_lane *lane;
    struct service_tls *tls;
    uint32_t backend, since;
    int fd;
};

enum {
    SERVICE_UPLINKS = 8,        /* connections of HTTP/2 of a worker to a backend that accept streams */
    SERVICE_ALL_UPLINKS = 32,   /* the same with those that end after the streams that they have */
    SERVICE_MORE_UPLINKS = 64,  /* of a worker to all backends of a service, besides one for each; bounds.py has the same */
};

enum { SERVICE_PIPES = 64 }; /* of a worker, through which bodies pass in the kernel */

struct service_pipe {
    struct service_pipe *next; /* among the free ones */
    int ends[2];               /* to read from, and to write to; -1: it was not made yet */
    uint32_t held;             /* bytes in it */
};

/* A service within a worker. */
struct service_lane {
    struct service_core core; /* first, so that a cast yields its lane */
    const struct service_config *config;
    struct service_worker *worker;
    uint8_t *memory;
    uint64_t stride, capacity, touched, in_use; /* `in_use`: of this lane's memory, wherever the instance runs */
    struct service_ends *ends; /* of each instance; null: nothing needs them */
    struct service_reader *readers; /* of each channel of each instance; null: no backend is a folder */
    struct service_cached *cached;  /* the same; null: there is no cache */
    struct service_tls **tls; /* of each channel of each instance; null: the service uses no TLS */
    struct service_h2 **uplinks;           /* connections of HTTP/2 to each backend; null: none uses it */
    struct service_h2_stream *pairs;       /* the streams to them */
    struct service_instance *uplinks_free;
    uint64_t uplinks_touched, uplinks_most; /* their instances follow those of `capacity` */
    struct service_instance *free, *oldest;
    _Atomic(struct service_instance *) returned; /* that have ended at other workers */
    struct service_instance *queue, **tail;
    struct service_instance *starved;
    struct service_idle *idle, *idle_free; /* all, and those that are not in use */
    struct service_idle **kept;            /* of each backend; the one that was used last is first */
    struct service_tls *handshakes, *handshakes_last; /* with clients, from the oldest to the newest */
    uint32_t handshake_count;
    uint32_t channels;                     /* of an instance */
    uint64_t spent;                        /* nanoseconds, divided by the share */
    int listener;
    bool listening;
    bool draining;           /* accepts no more than `queued` connections */
    uint32_t queued;         /* those that were waiting to be accepted when it began to drain */
    struct service_cached *cache_waiting; /* those that wait for the request of another one */
    atomic_bool cache_woken; /* the page that an instance has waited for is in the cache */
};

struct service_worker {
    struct service_lane *lanes;
    uint32_t lane_count;
    uint32_t number, slice; /* nanoseconds of a time slice */
    uint64_t turn_end;
    bool by_item; /* a turn ends after each step: round robin, to compare it with time slices */
    pthread_t thread;
    uint32_t now; /* seconds */
    bool drained; /* its listeners are closed: another process accepts */
    int wake;     /* a descriptor that ends its wait */
    struct service_poll poll;
    struct service_team *team;
    struct service_pipe pipes[SERVICE_PIPES], *pipes_free;
    atomic_bool offers;                       /* it is idle: others may hand instances to it */
    _Atomic(struct service_instance *) inbox; /* those that were handed to it */
};

/* Ends the wait of a worker for events. Where the counter is at its end, it is woken anyway. */
static inline void service_worker_wake(const struct service_worker *worker)
{
    uint64_t one = 1;

    while (write(worker->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* All workers. */
struct service_team {
    struct service_worker *workers;
    uint32_t count;
    _Atomic uint32_t idle; /* workers that offer to take instances */
    atomic_bool stopping;
    atomic_bool draining;      /* another process accepts: the connections that are there go on */
    _Atomic uint32_t drained;  /* workers whose listeners are closed */
};

/* The type of an event's data, in its low bits. */
enum service_tag { SERVICE_CHANNEL, SERVICE_LISTENER, SERVICE_KEPT, SERVICE_STREAM, SERVICE_PAIR, SERVICE_TAGS = 7 };

/* Allocates all that a worker will need, and listens. `poll`: how events are reported. An error's text, or null. */
const char *service_worker_make(struct service_worker *worker, const struct service_config *configs, uint32_t count,
                                const struct service_poll_kind *poll);

/* Runs until the team is stopping. */
void *service_worker_run(void *worker);

/* After all workers have ended: closes all connections; then, again for each worker, frees its memory. */
void service_worker_close(struct service_worker *worker);
void service_worker_free(struct service_worker *worker);

static inline uint64_t service_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline struct service_lane *service_lane_of(const struct service_channel *c)
{
    return (struct service_lane *)c->instance->core;
}

/* The number of an instance in the memory of its lane. */
static inline uint64_t service_slot(const struct service_instance *self)
{
    return (uint64_t)((const uint8_t *)self - self->home->memory) / self->home->stride;
}

/* Whether it is a connection of HTTP/2 to a backend. */
static inline bool service_is_uplink(const struct service_instance *self) { return service_slot(self) >= self->home->capacity; }

/* The number of a channel's backend among all of its service. */
static inline uint32_t service_backend_of(const struct service_channel *c)
{
    return c->instance->core->first[c->port] + c->index;
}

/* --- lane.c: a service's memory, listener and instances */

const char *service_lane_make(struct service_lane *lane, struct service_worker *worker,
                              const struct service_config *config);
void service_lane_free(struct service_lane *lane);
void service_lane_accept(struct service_lane *lane);

/* An instance for a connection that belongs to that of another instance, a stream of it. False if there is none; `fd` is
 * closed then. */
bool service_lane_adopt(struct service_lane *lane, int fd, struct service_instance *of);

/* An instance for a connection of HTTP/2 to a backend; null if there is none. */
struct service_instance *service_lane_uplink(struct service_lane *lane);

/* Accepts the connections that are waiting, as there are instances for them, and no more; then closes the listener. Whether
 * that is done: else it is called again. */
bool service_lane_drain(struct service_lane *lane);

/* Adds an instance to those that the lane serves, and removes it. */
void service_lane_enter(struct service_lane *lane, struct service_instance *instance);
void service_lane_leave(struct service_lane *lane, struct service_instance *instance);

/* An instance has ended: its connections are closed, and its memory is returned to the lane that allocated it. */
void service_lane_give(struct service_lane *lane, struct service_instance *instance);

/* Gives those that wait for a buffer a turn, if there is one. */
void service_lane_wake(struct service_lane *lane);

/* Takes back the memory of instances that have ended at other workers. */
void service_lane_collect(struct service_lane *lane);

/* Puts an instance into the queue of those that have a turn. */
static inline void service_lane_queue(struct service_lane *lane, struct service_instance *instance)
{
    if (instance->queued || !instance->in_use)
        return;
    instance->queued = true;
    instance->next = NULL;
    *lane->tail = instance;
    lane->tail = &instance->next;
}

/* --- ring.c */

/* The rings of the backends that a program chooses by them. False if there is no memory. */
bool service_rings_make(struct service_config *config);
void service_rings_free(struct service_config *config);

/* --- overdue.c */

/* Once a second: ends instances that have waited too long. */
void service_end_overdue(struct service_lane *lane);

/* Whether fewer bytes than `rate` a second have moved since `*since`. Each period of `limit` seconds counts separately, so that
 * earlier bytes do not count for a connection that is idle now. */
bool service_too_slow(uint32_t now, uint32_t limit, uint32_t rate, uint32_t *since, uint32_t *bytes);

/* --- steal.c */

/* Hands half of the waiting instances to a worker that is idle, if there is one. */
void service_hand_over(struct service_worker *worker);

/* Takes over the instances that were handed to this worker. */
void service_take_over(struct service_worker *worker);

/* Marks this worker as idle; the second removes the mark. */
void service_offer(struct service_worker *worker);
void service_withdraw(struct service_worker *worker);

/* --- splice.c */

/* Returns a pipe to its worker. */
void service_pipe_give(struct service_channel *c);

/* --- pool.c: idle connections */

/* An idle connection to the backend of a channel, with its TLS; -1 if there is none. */
int service_kept_take(struct service_channel *c);

/* Gives the connection of a channel to the pool of its backend, if it can be used again; else closes it. */
void service_kept_give(struct service_channel *c);

/* An idle connection has ended, or is given to a channel. */
void service_kept_remove(struct service_idle *idle);
void service_kept_close(struct service_idle *idle);

/* --- socket.c */

/* The connection of a channel was accepted; with TLS, it begins. */
bool service_socket_adopt(struct service_channel *c, int fd, bool tls);
bool service_socket_event(struct service_channel *c, uint32_t events);

/* Begins to connect the backend of a channel. False if it cannot; the fault is set. */
bool service_socket_dial(struct service_channel *c);

/* A connection accepts no more, since it was reset. If an answer has come before that, which the reset does not make invalid, it is
 * read, and no more is sent. False if there is none. */
bool service_socket_answered(struct service_channel *c);

/* Sends to a connection; as send(2). */
ssize_t service_socket_give(struct service_channel *c, const void *bytes, size_t size);

#endif
