/* mOS's interface: set-up and sockets; and end hosts, whose connections are the kernel's. */
#ifndef MTCP_API_H
#define MTCP_API_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#ifndef INPORT_ANY
#define INPORT_ANY ((uint16_t)0)
#endif
#ifndef UNUSED
#define UNUSED(x) ((void)(x))
#endif

typedef unsigned char byte;

/* A core's context; programs read cpu and nothing else. */
struct mtcp_context { int cpu; };
typedef struct mtcp_context *mctx_t;

enum socket_type {
    MOS_SOCK_UNUSED,
    MOS_SOCK_STREAM_LISTEN, MOS_SOCK_STREAM,   /* of end hosts; mtcp_socket accepts SOCK_STREAM, too */
    MOS_SOCK_PROXY,                            /* there is none */
    MOS_SOCK_EPOLL, MOS_SOCK_PIPE,
    MOS_SOCK_MONITOR_STREAM_ACTIVE,   /* one flow, of one monitor: the argument of callbacks */
    MOS_SOCK_MONITOR_STREAM, MOS_SOCK_MONITOR_RAW,
    MOS_SOCK_PROXY_LISTEN,
};

#define MOS_APP 20          /* applications that a configuration may have */
#define MOS_APP_ARGC 20     /* words of each */
#define APP_NAME_LEN 40

struct mtcp_conf {
    int num_cores;          /* contexts that there may be */
    int max_concurrency;    /* flows */
    uint64_t cpu_mask;
    int max_num_buffers;
    int rcvbuf_size, sndbuf_size;
    int tcp_tw_interval, tcp_timewait;   /* seconds; the second name is mTCP's */
    int tcp_timeout;        /* seconds, -1: never */
    /* of programs that mOS starts, which this library does not: no effect */
    uint64_t app_cpu_mask[MOS_APP];
    char *app_argv[MOS_APP][MOS_APP_ARGC];
    int app_argc[MOS_APP];
    int num_app;
};

typedef void (*mtcp_sighandler_t)(int);

int mtcp_init(const char *config_file);
int mtcp_destroy(void);
int mtcp_getconf(struct mtcp_conf *conf);
int mtcp_setconf(const struct mtcp_conf *conf);
int mtcp_core_affinitize(int cpu);
mctx_t mtcp_create_context(int cpu);
int mtcp_destroy_context(mctx_t mctx);
mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler);

int mtcp_socket(mctx_t mctx, int domain, int type, int protocol);
int mtcp_close(mctx_t mctx, int sock);
int mtcp_getsockopt(mctx_t mctx, int sock, int level, int name, void *value, socklen_t *len);
int mtcp_setsockopt(mctx_t mctx, int sock, int level, int name, const void *value, socklen_t len);

/* --- end hosts --- */

/* A socket is non-blocking after mtcp_setsock_nonblock, or FIONBIO, and where it is in an epoll set for reading and writing.
 * Its number is below max_concurrency. A context's sockets are for one thread at a time. */

int mtcp_init_rss(mctx_t mctx, in_addr_t saddr_base, int num_addr, in_addr_t daddr, in_addr_t dport);
int mtcp_bind(mctx_t mctx, int sock, const struct sockaddr *addr, socklen_t addrlen);
int mtcp_listen(mctx_t mctx, int sock, int backlog);
int mtcp_accept(mctx_t mctx, int sock, struct sockaddr *addr, socklen_t *addrlen);
int mtcp_connect(mctx_t mctx, int sock, const struct sockaddr *addr, socklen_t addrlen);
ssize_t mtcp_read(mctx_t mctx, int sock, char *buf, size_t len);
ssize_t mtcp_recv(mctx_t mctx, int sock, char *buf, size_t len, int flags);
ssize_t mtcp_readv(mctx_t mctx, int sock, const struct iovec *iov, int count);
ssize_t mtcp_write(mctx_t mctx, int sock, const char *buf, size_t len);
ssize_t mtcp_writev(mctx_t mctx, int sock, const struct iovec *iov, int count);
int mtcp_abort(mctx_t mctx, int sock);
int mtcp_socket_ioctl(mctx_t mctx, int sock, int request, void *argp);
int mtcp_ioctl(mctx_t mctx, int sock, int request, void *argp);
int mtcp_pipe(mctx_t mctx, int pipeid[2]);
int mtcp_setsock_nonblock(mctx_t mctx, int sock);
int mtcp_getsockname(mctx_t mctx, int sock, struct sockaddr *addr, socklen_t *addrlen);
uint32_t mtcp_get_connection_cnt(mctx_t mctx);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
