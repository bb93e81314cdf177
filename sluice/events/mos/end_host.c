/* The end-host part of the interface, which is not supported: each call says so, once, and fails with ENOTSUP. */
#include "mtcp_api.h"

#include <errno.h>
#include <stdio.h>

static int refused(const char *name, bool *told)
{
    if (!*told)
        fprintf(stderr, "libsluice_mos: %s: not supported: the library has the monitoring part of mOS's interface\n", name);
    *told = true;
    errno = ENOTSUP;
    return -1;
}

#define UNSUPPORTED(type, name, ...)       \
    type name(__VA_ARGS__)                 \
    {                                      \
        static bool told;                  \
        return (type)refused(#name, &told); \
    }

#define UNUSED __attribute__((unused))

UNSUPPORTED(int, mtcp_init_rss, UNUSED mctx_t m, UNUSED in_addr_t base, UNUSED int count, UNUSED in_addr_t daddr, UNUSED in_addr_t dport)
UNSUPPORTED(int, mtcp_bind, UNUSED mctx_t m, UNUSED int sock, UNUSED const struct sockaddr *addr, UNUSED socklen_t len)
UNSUPPORTED(int, mtcp_listen, UNUSED mctx_t m, UNUSED int sock, UNUSED int backlog)
UNSUPPORTED(int, mtcp_accept, UNUSED mctx_t m, UNUSED int sock, UNUSED struct sockaddr *addr, UNUSED socklen_t *len)
UNSUPPORTED(int, mtcp_connect, UNUSED mctx_t m, UNUSED int sock, UNUSED const struct sockaddr *addr, UNUSED socklen_t len)
UNSUPPORTED(ssize_t, mtcp_read, UNUSED mctx_t m, UNUSED int sock, UNUSED char *buf, UNUSED size_t len)
UNSUPPORTED(ssize_t, mtcp_recv, UNUSED mctx_t m, UNUSED int sock, UNUSED char *buf, UNUSED size_t len, UNUSED int flags)
UNSUPPORTED(ssize_t, mtcp_readv, UNUSED mctx_t m, UNUSED int sock, UNUSED const struct iovec *iov, UNUSED int count)
UNSUPPORTED(ssize_t, mtcp_write, UNUSED mctx_t m, UNUSED int sock, UNUSED const char *buf, UNUSED size_t len)
UNSUPPORTED(ssize_t, mtcp_writev, UNUSED mctx_t m, UNUSED int sock, UNUSED const struct iovec *iov, UNUSED int count)
UNSUPPORTED(int, mtcp_abort, UNUSED mctx_t m, UNUSED int sock)
UNSUPPORTED(int, mtcp_socket_ioctl, UNUSED mctx_t m, UNUSED int sock, UNUSED int request, UNUSED void *argp)
UNSUPPORTED(int, mtcp_ioctl, UNUSED mctx_t m, UNUSED int sock, UNUSED int request, UNUSED void *argp)
UNSUPPORTED(int, mtcp_pipe, UNUSED mctx_t m, UNUSED int ids[2])
UNSUPPORTED(int, mtcp_setsock_nonblock, UNUSED mctx_t m, UNUSED int sock)
UNSUPPORTED(int, mtcp_getsockname, UNUSED mctx_t m, UNUSED int sock, UNUSED struct sockaddr *addr, UNUSED socklen_t *len)
UNSUPPORTED(uint32_t, mtcp_get_connection_cnt, UNUSED mctx_t m)
UNSUPPORTED(int, mtcp_epoll_create, UNUSED mctx_t m, UNUSED int size)
UNSUPPORTED(int, mtcp_epoll_ctl, UNUSED mctx_t m, UNUSED int id, UNUSED int op, UNUSED int sock, UNUSED struct mtcp_epoll_event *event)
UNSUPPORTED(int, mtcp_epoll_wait, UNUSED mctx_t m, UNUSED int id, UNUSED struct mtcp_epoll_event *events, UNUSED int max, UNUSED int timeout)
