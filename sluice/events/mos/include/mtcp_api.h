/* mOS's interface: set-up and sockets; and the end-host part, whose calls fail with ENOTSUP. */
#ifndef MTCP_API_H
#define MTCP_API_H

#include "mos_api.h"

#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct mtcp_conf {
    int num_cores;          /* contexts that there may be */
    uint64_t cpu_mask;
    int max_concurrency;    /* flows */
    int max_num_buffers;
    int rcvbuf_size, sndbuf_size;
    int tcp_tw_interval, tcp_timewait;   /* seconds; the second name is mTCP's */
    int tcp_timeout;        /* seconds, -1: never */
};

typedef void (*mtcp_sighandler_t)(int);

int mtcp_init(const char *config_file);
void mtcp_destroy(void);
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

/* --- of end hosts: not supported --- */

enum mtcp_epoll_op { MOS_EPOLL_CTL_ADD = 1, MOS_EPOLL_CTL_DEL = 2, MOS_EPOLL_CTL_MOD = 3 };
enum mtcp_epoll_type {
    MOS_EPOLLNONE = 0, MOS_EPOLLIN = 0x001, MOS_EPOLLPRI = 0x002, MOS_EPOLLOUT = 0x004, MOS_EPOLLRDNORM = 0x040,
    MOS_EPOLLERR = 0x008, MOS_EPOLLHUP = 0x010, MOS_EPOLLRDHUP = 0x2000,
};
struct mtcp_epoll_data { int sock; void *ptr; uint32_t u32; uint64_t u64; };
struct mtcp_epoll_event { uint64_t events; struct mtcp_epoll_data data; };

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
int mtcp_epoll_create(mctx_t mctx, int size);
int mtcp_epoll_ctl(mctx_t mctx, int epid, int op, int sock, struct mtcp_epoll_event *event);
int mtcp_epoll_wait(mctx_t mctx, int epid, struct mtcp_epoll_event *events, int max, int timeout);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
