/* The end-host part of the interface, which is not supported: each call says so, once, and fails with ENOTSUP. */
#include "mos_api.h"

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

#define IGNORED __attribute__((unused))

UNSUPPORTED(int, mtcp_init_rss, IGNORED mctx_t m, IGNORED in_addr_t base, IGNORED int count, IGNORED in_addr_t daddr, IGNORED in_addr_t dport)
UNSUPPORTED(int, mtcp_bind, IGNORED mctx_t m, IGNORED int sock, IGNORED const struct sockaddr *addr, IGNORED socklen_t len)
UNSUPPORTED(int, mtcp_listen, IGNORED mctx_t m, IGNORED int sock, IGNORED int backlog)
UNSUPPORTED(int, mtcp_accept, IGNORED mctx_t m, IGNORED int sock, IGNORED struct sockaddr *addr, IGNORED socklen_t *len)
UNSUPPORTED(int, mtcp_connect, IGNORED mctx_t m, IGNORED int sock, IGNORED const struct sockaddr *addr, IGNORED socklen_t len)
UNSUPPORTED(ssize_t, mtcp_read, IGNORED mctx_t m, IGNORED int sock, IGNORED char *buf, IGNORED size_t len)
UNSUPPORTED(ssize_t, mtcp_recv, IGNORED mctx_t m, IGNORED int sock, IGNORED char *buf, IGNORED size_t len, IGNORED int flags)
UNSUPPORTED(ssize_t, mtcp_readv, IGNORED mctx_t m, IGNORED int sock, IGNORED const struct iovec *iov, IGNORED int count)
UNSUPPORTED(ssize_t, mtcp_write, IGNORED mctx_t m, IGNORED int sock, IGNORED const char *buf, IGNORED size_t len)
UNSUPPORTED(ssize_t, mtcp_writev, IGNORED mctx_t m, IGNORED int sock, IGNORED const struct iovec *iov, IGNORED int count)
UNSUPPORTED(int, mtcp_abort, IGNORED mctx_t m, IGNORED int sock)
UNSUPPORTED(int, mtcp_socket_ioctl, IGNORED mctx_t m, IGNORED int sock, IGNORED int request, IGNORED void *argp)
UNSUPPORTED(int, mtcp_ioctl, IGNORED mctx_t m, IGNORED int sock, IGNORED int request, IGNORED void *argp)
UNSUPPORTED(int, mtcp_pipe, IGNORED mctx_t m, IGNORED int ids[2])
UNSUPPORTED(int, mtcp_setsock_nonblock, IGNORED mctx_t m, IGNORED int sock)
UNSUPPORTED(int, mtcp_getsockname, IGNORED mctx_t m, IGNORED int sock, IGNORED struct sockaddr *addr, IGNORED socklen_t *len)
UNSUPPORTED(uint32_t, mtcp_get_connection_cnt, IGNORED mctx_t m)
UNSUPPORTED(int, mtcp_epoll_create, IGNORED mctx_t m, IGNORED int size)
UNSUPPORTED(int, mtcp_epoll_ctl, IGNORED mctx_t m, IGNORED int id, IGNORED int op, IGNORED int sock, IGNORED struct mtcp_epoll_event *event)
UNSUPPORTED(int, mtcp_epoll_wait, IGNORED mctx_t m, IGNORED int id, IGNORED struct mtcp_epoll_event *events, IGNORED int max, IGNORED int timeout)
