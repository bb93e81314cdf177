/* End hosts: stream sockets, pipes and epoll sets of a context, over the kernel's.
 *
 * The kernel terminates TCP. Every descriptor is non-blocking in the kernel; a call that may block polls, so that a signal or
 * the end of the context interrupts it. Endpoints have separate numbers, as in mOS: below max_concurrency, the lowest
 * free one first, as programs use them as indexes. A context's endpoints are used by one thread at a time, which need not be
 * the one that runs the callbacks of monitors. */
#ifndef MOS_ENDPOINT_H
#define MOS_ENDPOINT_H

#include "monitor.h"

#include <pthread.h>

struct mos_endpoint {
    enum socket_type type;        /* MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, MOS_SOCK_PIPE or MOS_SOCK_EPOLL */
    int id;
    int fd;
    bool nonblocking;             /* for the program */
    bool bound;                   /* by the program */
    bool connecting;              /* mtcp_connect has not completed as far as is known */
    bool counted;                 /* it is a connection of mtcp_get_connection_cnt */
    bool accepted;                /* the other end is the client */
    uint16_t port;                /* that it is bound to, network byte order */
    /* of one in an epoll set */
    struct mos_endpoint *set;     /* NULL: in none */
    uint64_t interest;            /* MOS_EPOLL... */
    mtcp_epoll_data_t data;
    bool watched;                 /* it is registered with the kernel: not before it connects or accepts */
    bool sent_input;              /* the last event was of input: where output is possible, too, that is next */
};

struct mos_hosts {
    struct mos_endpoint **endpoints;   /* by id */
    int most, end;                     /* numbers that there may be; those that have been used lie below `end` */
    int *free_id, free_ids;            /* a heap: the lowest first */
    uint32_t connections;
    int wake;                          /* an event descriptor of the core: a wait is interrupted */
    unsigned cpu;                      /* of its context */
    in_addr_t source;                  /* of mtcp_init_rss, host byte order; 0: the kernel chooses */
    uint32_t source_count, source_next;
    int passive[MOS_MONITORS], passive_count;   /* numbers of monitors, which no endpoint gets: mtcp_close is for both */
};

/* A call of the program's, up to its return, which mtcp_destroy or a signal's handler does not free the context of: the last
 * one that returns does (context.c). */
#define MOS_CALL(mctx) \
    __attribute__((cleanup(mos_call_end), unused)) struct mos_context *mos_called = mos_call_begin(mctx)

struct mos_context *mos_call_begin(mctx_t mctx);
void mos_call_end(struct mos_context **called);

/* Those of a context, begun if they are not yet; NULL with errno set. */
struct mos_hosts *mos_hosts_of(mctx_t mctx);

void mos_hosts_close(struct mos_hosts *hosts);
void mos_hosts_interrupt(unsigned cpu);   /* waits of its context return -1, EINTR; a signal's handler may call it */

struct mos_endpoint *mos_endpoint_new(struct mos_hosts *hosts, enum socket_type type, int fd);   /* NULL, ENFILE: too many */
void mos_endpoint_free(struct mos_hosts *hosts, struct mos_endpoint *endpoint);   /* and closes its descriptor */

void mos_hosts_interrupted(struct mos_hosts *hosts);       /* a wait has seen it */

/* Ports are shared by the contexts of a program, as mOS has it: does another one than this have it? */
bool mos_port_is_shared(const struct mos_hosts *hosts, uint16_t port);
void mos_port_take(const struct mos_hosts *hosts, struct mos_endpoint *endpoint, uint16_t port);

/* NULL when a number is none of an endpoint. */
struct mos_endpoint *mos_endpoint_find(const struct mos_hosts *hosts, int id);

/* Separates the numbers of monitors and of endpoints: false where an endpoint has that number already. */
bool mos_endpoint_reserve(struct mos_hosts *hosts, int id);
void mos_endpoint_release(struct mos_hosts *hosts, int id);

/* A stream socket for mtcp_socket: its number, or -1. */
int mos_endpoint_stream(mctx_t mctx);

int mos_endpoint_getsockopt(mctx_t mctx, int sock, int level, int name, void *value, socklen_t *len);
int mos_endpoint_setsockopt(mctx_t mctx, int sock, int level, int name, const void *value, socklen_t len);
int mos_endpoint_peername(const struct mos_endpoint *endpoint, struct sockaddr *addr, socklen_t *addrlen, int side);
int mos_endpoint_close(struct mos_hosts *hosts, struct mos_endpoint *endpoint);

/* Waits for events of poll(2): 0, or -1 with EINTR. */
int mos_endpoint_wait(struct mos_hosts *hosts, int fd, short events);

void mos_endpoint_watch(struct mos_endpoint *endpoint);     /* the kernel reports its events from now on */
void mos_endpoint_unwatch(struct mos_endpoint *endpoint);   /* it leaves its epoll set */

/* Those of an endpoint that a call has found: there until the call returns, also if the context has stopped meanwhile. */
static inline struct mos_hosts *mos_hosts_within(mctx_t mctx) { return mos_context_of(mctx)->hosts; }

/* The lookup that calls begin with: an endpoint of one of two types, or NULL with EACCES, EBADF or `wrong_type`. */
struct mos_endpoint *mos_endpoint_get(mctx_t mctx, int id, enum socket_type type, enum socket_type other, int wrong_type);

#endif
