/* End hosts: connections and their data. */
#define _GNU_SOURCE
#include "endpoint.h"
#include "loop.h"

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

static int failed(int error)
{
    errno = error;
    return -1;
}

static struct mos_endpoint *stream_of(mctx_t mctx, int sock)
{
    return mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM, ENOTSOCK);
}

/* The connected stream of a call with `count` buffers; NULL, and errno is the reason. */
static struct mos_endpoint *stream_of_buffers(mctx_t mctx, int sock, const struct iovec *iov, int count)
{
    struct mos_endpoint *endpoint = stream_of(mctx, sock);
    if (!endpoint)
        return NULL;
    bool valid = iov && count > 0 && count <= IOV_MAX;
    if (endpoint->counted && valid)
        return endpoint;
    errno = endpoint->counted ? EINVAL : ENOTCONN;
    return NULL;
}

/* --- servers --- */

/* In mOS every context listens on the same port, and each gets the connections that the card gives to its core. Here they
 * share the port as the kernel lets sockets of one program do; the first is bound without that, so that a port which another
 * program has is refused. */
int mtcp_bind(mctx_t mctx, int sock, const struct sockaddr *addr, socklen_t addrlen)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, ENOTSOCK);
    int yes = 1;
    if (!endpoint)
        return -1;
    if (!addr || endpoint->bound || addrlen < sizeof(struct sockaddr_in) || addr->sa_family != AF_INET)
        return failed(EINVAL);
    const struct sockaddr_in *own = (const struct sockaddr_in *)(const void *)addr;
    setsockopt(endpoint->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const struct mos_hosts *hosts = mos_hosts_within(mctx);
    if (mos_port_is_shared(hosts, own->sin_port))
        setsockopt(endpoint->fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    if (bind(endpoint->fd, addr, sizeof *own))
        return -1;
    setsockopt(endpoint->fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);   /* for the program's next contexts */
    mos_port_take(hosts, endpoint, own->sin_port);
    return 0;
}

int mtcp_listen(mctx_t mctx, int sock, int backlog)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_STREAM_LISTEN, ENOTSOCK);
    if (!endpoint)
        return -1;
    if (endpoint->counted || backlog <= 0 || backlog > mos_configuration.conf.max_concurrency)
        return failed(EINVAL);
    mos_run_beside();
    if (listen(endpoint->fd, backlog))
        return -1;
    endpoint->type = MOS_SOCK_STREAM_LISTEN;
    mos_endpoint_watch(endpoint);
    return 0;
}

/* Errors of one connection, which was closed before it was accepted (accept(2)). */
static bool is_passing(int error)
{
    return error == ECONNABORTED || error == EPROTO || error == ENETDOWN || error == ENETUNREACH || error == EHOSTDOWN ||
           error == EHOSTUNREACH || error == ENONET || error == ENOPROTOOPT || error == EOPNOTSUPP;
}

int mtcp_accept(mctx_t mctx, int sock, struct sockaddr *addr, socklen_t *addrlen)
{
    MOS_CALL(mctx);
    const struct mos_endpoint *listener = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM_LISTEN, MOS_SOCK_STREAM_LISTEN, EINVAL);
    struct sockaddr_in peer;
    int fd, yes = 1;
    if (!listener)
        return -1;
    struct mos_hosts *hosts = mos_hosts_within(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_new(hosts, MOS_SOCK_STREAM, -1);   /* first: a later call may succeed */
    if (!endpoint)
        return -1;
    for (;;) {
        socklen_t size = sizeof peer;
        fd = accept4(listener->fd, (struct sockaddr *)(void *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            break;
        if (is_passing(errno) || (errno == EAGAIN && !listener->nonblocking && !mos_endpoint_wait(hosts, listener->fd, POLLIN)))
            continue;
        int error = errno == EMFILE ? ENFILE : errno;
        mos_endpoint_free(hosts, endpoint);
        return failed(error);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    endpoint->fd = fd;
    endpoint->bound = endpoint->accepted = endpoint->counted = true;
    hosts->connections++;
    if (addr && addrlen) {
        memcpy(addr, &peer, sl_min(*addrlen, sizeof peer));
        *addrlen = sizeof peer;
    }
    return endpoint->id;
}

/* --- clients --- */

int mtcp_init_rss(mctx_t mctx, in_addr_t saddr_base, int num_addr, in_addr_t daddr, in_addr_t dport)
{
    MOS_CALL(mctx);
    struct mos_hosts *hosts = mos_hosts_of(mctx);
    (void)daddr, (void)dport;   /* ports are the kernel's: it has no queue that they would have to fit */
    if (!hosts)
        return -1;
    if (num_addr <= 0)
        return failed(EINVAL);
    hosts->source = ntohl(saddr_base);
    hosts->source_count = (uint32_t)num_addr;
    hosts->source_next = 0;
    return 0;
}

/* The next of the source addresses that mtcp_init_rss gave; the kernel chooses the port when it connects. */
static int bind_source(struct mos_hosts *hosts, int fd)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(hosts->source + hosts->source_next)};
    int yes = 1;
    hosts->source_next = (hosts->source_next + 1) % hosts->source_count;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    return bind(fd, (const struct sockaddr *)(const void *)&own, sizeof own);
}

static int error_of(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? errno : error;
}

/* Is the connection still being set up? Tested only while that is not known. */
static bool is_connecting(struct mos_endpoint *endpoint)
{
    struct pollfd writable = {endpoint->fd, POLLOUT, 0};
    if (endpoint->connecting && poll(&writable, 1, 0) > 0)
        endpoint->connecting = false;
    return endpoint->connecting;
}

int mtcp_connect(mctx_t mctx, int sock, const struct sockaddr *addr, socklen_t addrlen)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = stream_of(mctx, sock);
    if (!endpoint)
        return -1;
    if (!addr)
        return failed(EFAULT);
    if (addrlen < sizeof(struct sockaddr_in) || addr->sa_family != AF_INET)
        return failed(EAFNOSUPPORT);
    if (endpoint->counted)
        return failed(is_connecting(endpoint) ? EALREADY : EISCONN);
    struct mos_hosts *hosts = mos_hosts_within(mctx);
    if (!endpoint->bound && hosts->source && bind_source(hosts, endpoint->fd))
        return -1;
    mos_run_beside();
    int result = connect(endpoint->fd, addr, sizeof(struct sockaddr_in));
    if (result && errno != EINPROGRESS)
        return failed(errno == EADDRNOTAVAIL && !endpoint->bound ? EAGAIN : errno);   /* all ports are taken: mOS's error */
    endpoint->connecting = result != 0;
    endpoint->counted = true;
    hosts->connections++;
    mos_endpoint_watch(endpoint);
    if (endpoint->nonblocking)
        return endpoint->connecting ? failed(EINPROGRESS) : 0;
    if (endpoint->connecting && mos_endpoint_wait(hosts, endpoint->fd, POLLOUT))
        return -1;
    endpoint->connecting = false;
    int error = error_of(endpoint->fd);
    if (!error)
        return 0;
    endpoint->counted = false;
    hosts->connections--;
    return failed(error);
}

/* --- data --- */

/* Does a call wait where it could do nothing? Not where the program waits for the endpoint in an epoll set. */
static bool waits(const struct mos_endpoint *endpoint) { return !endpoint->nonblocking && !endpoint->set; }

/* An error of the kernel's in terms of mOS: there is no connection to write to. */
static int data_error(struct mos_endpoint *endpoint)
{
    if (endpoint->type == MOS_SOCK_STREAM && (errno == EPIPE || (errno == EAGAIN && is_connecting(endpoint))))
        errno = ENOTCONN;
    return -1;
}

static ssize_t receive(struct mos_hosts *hosts, struct mos_endpoint *endpoint, const struct iovec *iov, int count, int flags)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)count};
    for (;;) {
        ssize_t got = recvmsg(endpoint->fd, &message, flags);
        if (got >= 0)
            return got;
        if (errno != EAGAIN || !waits(endpoint) || is_connecting(endpoint))
            return data_error(endpoint);
        if (mos_endpoint_wait(hosts, endpoint->fd, POLLIN))
            return -1;
    }
}

static ssize_t transmit(struct mos_hosts *hosts, struct mos_endpoint *endpoint, const struct iovec *iov, int count)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)count};
    for (;;) {
        ssize_t sent = sendmsg(endpoint->fd, &message, MSG_NOSIGNAL);
        if (sent >= 0)
            return sent;
        if (errno != EAGAIN || !waits(endpoint) || is_connecting(endpoint))
            return data_error(endpoint);
        if (mos_endpoint_wait(hosts, endpoint->fd, POLLOUT))
            return -1;
    }
}

/* Nothing to read or write is no end of the stream: in mOS it is EAGAIN, where the socket does not block. */
static ssize_t nothing(const struct mos_endpoint *endpoint) { return endpoint->nonblocking ? failed(EAGAIN) : 0; }

ssize_t mtcp_recv(mctx_t mctx, int sock, char *buf, size_t len, int flags)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_PIPE, ENOTSOCK);
    if (!endpoint)
        return -1;
    if (flags != 0 && flags != MSG_PEEK)
        return failed(EINVAL);
    if (endpoint->type == MOS_SOCK_STREAM && !endpoint->counted)
        return failed(ENOTCONN);
    if (!len)
        return nothing(endpoint);
    const struct iovec iov = {buf, len};
    return receive(mos_hosts_within(mctx), endpoint, &iov, 1, flags);
}

ssize_t mtcp_read(mctx_t mctx, int sock, char *buf, size_t len) { return mtcp_recv(mctx, sock, buf, len, 0); }

ssize_t mtcp_readv(mctx_t mctx, int sock, const struct iovec *iov, int count)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = stream_of_buffers(mctx, sock, iov, count);
    return endpoint ? receive(mos_hosts_within(mctx), endpoint, iov, count, 0) : -1;
}

ssize_t mtcp_write(mctx_t mctx, int sock, const char *buf, size_t len)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = mos_endpoint_get(mctx, sock, MOS_SOCK_STREAM, MOS_SOCK_PIPE, ENOTSOCK);
    if (!endpoint)
        return -1;
    if (endpoint->type == MOS_SOCK_STREAM && !endpoint->counted)
        return failed(ENOTCONN);
    if (!len)
        return nothing(endpoint);
    const struct iovec iov = {(void *)(uintptr_t)buf, len};
    return transmit(mos_hosts_within(mctx), endpoint, &iov, 1);
}

ssize_t mtcp_writev(mctx_t mctx, int sock, const struct iovec *iov, int count)
{
    MOS_CALL(mctx);
    struct mos_endpoint *endpoint = stream_of_buffers(mctx, sock, iov, count);
    return endpoint ? transmit(mos_hosts_within(mctx), endpoint, iov, count) : -1;
}
