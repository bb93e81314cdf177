/* End hosts: stream sockets and pipes, their names and options. */
#include "endpoint.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int failed(int error)
{
    errno = error;
    return -1;
}

int mos_endpoint_stream(mctx_t mctx)
{
    MOS_CALL(mctx);
    struct mos_hosts *hosts = mos_hosts_of(mctx);
    if (!hosts)
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0)
        return failed(errno == EMFILE ? ENFILE : errno);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);   /* mOS's TCP has no Nagle's algorithm */
    const struct mos_endpoint *endpoint = mos_endpoint_new(hosts, MOS_SOCK_STREAM, fd);
    if (!endpoint) {
        int error = errno;
        close(fd);
        return failed(error);
    }
    return endpoint->id;
}

int mos_endpoint_close(struct mos_hosts *hosts, struct mos_endpoint *endpoint)
{
    mos_endpoint_free(hosts, endpoint);
    return 0;
}

/* A reset instead of a FIN: the socket is closed with a linger time of 0. */
int mtcp_abort(mctx_t mctx, int sock)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM, ENOTSOCK);
    const struct linger at_once = {1, 0};
    if (!endpoint)
        return -1;
    if (!endpoint->counted)
        return failed(ENOTCONN);
    setsockopt(endpoint->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    mos_endpoint_free(mos_hosts_within(mctx), endpoint);
    return 0;
}

/* A pair of local sockets: unlike a pipe of the kernel's, one whose other end is closed raises no SIGPIPE. */
int mtcp_pipe(mctx_t mctx, int ids[2])
{
    MOS_CALL(mctx);
    struct mos_hosts *hosts = mos_hosts_of(mctx);
    int fds[2];
    if (!hosts)
        return -1;
    if (!ids)
        return failed(EFAULT);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        return failed(errno == EMFILE ? ENFILE : errno);
    struct mos_endpoint *first = mos_endpoint_new(hosts, MOS_SOCK_PIPE, fds[0]);
    struct mos_endpoint *second = first ? mos_endpoint_new(hosts, MOS_SOCK_PIPE, fds[1]) : NULL;
    if (!second) {
        int error = errno;
        close(fds[1]);
        if (first)
            mos_endpoint_free(hosts, first);
        else
            close(fds[0]);
        return failed(error);
    }
    ids[0] = first->id;
    ids[1] = second->id;
    return 0;
}

int mtcp_setsock_nonblock(mctx_t mctx, int sock)
{
    MOS_CALL(mctx);
    const struct mos_hosts *hosts = mos_hosts_of(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_find(hosts, sock);
    if (!hosts)
        return -1;
    if (!endpoint)
        return failed(EBADF);
    endpoint->nonblocking = true;
    return 0;
}

int mtcp_ioctl(mctx_t mctx, int sock, int request, void *argp)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, EBADF);
    if (!endpoint)
        return -1;
    if (!argp)
        return failed(EFAULT);
    switch ((unsigned)request) {
    case FIONREAD: return endpoint->counted ? ioctl(endpoint->fd, FIONREAD, argp) : failed(EBADF);
    case FIONBIO: endpoint->nonblocking = *(const int *)argp != 0; return 0;
    default: return failed(EINVAL);
    }
}

int mtcp_socket_ioctl(mctx_t mctx, int sock, int request, void *argp) { return mtcp_ioctl(mctx, sock, request, argp); }

int mtcp_getsockname(mctx_t mctx, int sock, struct sockaddr *addr, socklen_t *addrlen)
{
    MOS_CALL(mctx);
    const struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, ENOTSOCK);
    if (!endpoint)
        return -1;
    if (!addr || !addrlen || (int)*addrlen <= 0)
        return failed(EINVAL);
    return getsockname(endpoint->fd, addr, addrlen);
}

/* The other end for one side, both for MOS_SIDE_BOTH: the client first. */
int mos_endpoint_peername(const struct mos_endpoint *endpoint, struct sockaddr *addr, socklen_t *addrlen, int side)
{
    struct sockaddr_in own, peer;
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    if (endpoint->type != MOS_SOCK_STREAM && endpoint->type != MOS_SOCK_STREAM_LISTEN)
        return failed(ENOTSOCK);
    if (side < MOS_SIDE_CLI || side > MOS_SIDE_BOTH || !addr || !addrlen ||
        (side == MOS_SIDE_BOTH ? *addrlen != 2 * sizeof(struct sockaddr) : *addrlen < sizeof own))
        return failed(EINVAL);
    if (getpeername(endpoint->fd, (struct sockaddr *)(void *)&peer, &peer_size) ||
        getsockname(endpoint->fd, (struct sockaddr *)(void *)&own, &own_size))
        return -1;
    struct sockaddr_in *out = (struct sockaddr_in *)(void *)addr;
    if (side == MOS_SIDE_BOTH) {
        out[0] = endpoint->accepted ? peer : own;
        out[1] = endpoint->accepted ? own : peer;
        return 0;
    }
    out[0] = (side == MOS_SIDE_CLI) == endpoint->accepted ? peer : own;
    *addrlen = sizeof own;
    return 0;
}

/* Options are the kernel's: SO_ERROR, which mOS has, and others. */
int mos_endpoint_getsockopt(mctx_t mctx, int sock, int level, int name, void *value, socklen_t *len)
{
    MOS_CALL(mctx);
    const struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, ENOTSOCK);
    return endpoint ? getsockopt(endpoint->fd, level, name, value, len) : -1;
}

int mos_endpoint_setsockopt(mctx_t mctx, int sock, int level, int name, const void *value, socklen_t len)
{
    MOS_CALL(mctx);
    const struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, ENOTSOCK);
    return endpoint ? setsockopt(endpoint->fd, level, name, value, len) : -1;
}

uint32_t mtcp_get_connection_cnt(mctx_t mctx)
{
    MOS_CALL(mctx);
    const struct mos_context *context = mos_context_of(mctx);
    if (!context)
        errno = EACCES;
    return context && context->hosts ? context->hosts->connections : 0;
}
