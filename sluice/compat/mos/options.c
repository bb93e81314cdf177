/* Options of sockets, the ends of flows, and reading their streams. */
#include "endpoint.h"
#include "loop.h"

#include <errno.h>

static int failed(int error)
{
    errno = error;
    return -1;
}

/* The flow of a socket, or NULL. */
static struct mos_flow *flow_of(const struct mos_socket *socket)
{
    return socket->type == MOS_SOCK_MONITOR_STREAM_ACTIVE ? socket->flow : NULL;
}

/* *len: bytes that there is room for, and then, as in mOS, how many fragments are there; one of no bytes follows them where
 * there is room for it. */
static int get_fragments(const struct mos_buffer *buffer, void *value, socklen_t *len)
{
    struct tcp_ring_fragment *out = value;
    const size_t room = *len / sizeof *out;
    size_t count = 0;
    if (!room)
        return failed(EINVAL);
    if (!buffer->size)
        return failed(ENODATA);   /* it was set to keep none */
    const uint64_t next = mos_buffer_next(buffer);
    if (buffer->bytes && next > buffer->base)
        out[count++] = (struct tcp_ring_fragment){buffer->base, (uint32_t)(next - buffer->base)};
    const struct sl_piece *extent = buffer->bytes ? mos_buffer_extents(buffer) : NULL;
    for (; extent && count < room; extent = sl_piece_next(extent)) {
        const uint64_t at = extent->node.position - buffer->origin;
        uint64_t from = sl_max(at, buffer->base), to = at + extent->length;
        if (from < to && extent->kind != SL_PIECE_PHANTOM)
            out[count++] = (struct tcp_ring_fragment){from, (uint32_t)(to - from)};
    }
    if (count < room)
        out[count] = (struct tcp_ring_fragment){0, 0};
    *len = (socklen_t)count;
    return 0;
}

static int get_information(const struct mos_flow *flow, const struct mos_socket *view, int side, void *value, socklen_t *len)
{
    if (*len < sizeof(struct tcp_buf_info))
        return failed(EINVAL);
    const struct mos_buffer *buffer = &flow->buffer[side];
    const uint32_t first = (uint32_t)buffer->origin;
    struct tcp_buf_info information;
    information.init_seq = first - 1;
    information.last_byte_read = first + (uint32_t)view->reader[side].read - 1;
    information.next_byte_expected = first + (uint32_t)mos_buffer_next(buffer);
    information.last_byte_received = first + (uint32_t)mos_buffer_farthest(buffer) - 1;
    memcpy(value, &information, sizeof information);
    *len = sizeof information;
    return 0;
}

/* The options of a monitor, or of a flow. */
static int get_setting(const struct mos_socket *socket, int name, void *value, socklen_t *len)
{
    const bool server = name == MOS_SVRBUF || name == MOS_SVROVERLAP, size = name == MOS_CLIBUF || name == MOS_SVRBUF;
    if (*len < sizeof(int))
        return failed(EINVAL);
    *(int *)value = (size ? socket->buffer : socket->overlap)[server];
    *len = sizeof(int);
    return 0;
}

int mtcp_getsockopt(mctx_t mctx, int sock, int level, int name, void *value, socklen_t *len)
{
    if (level != SOL_MONSOCKET)
        return mos_endpoint_getsockopt(mctx, sock, level, name, value, len);
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    if (!value || !len)
        return failed(EFAULT);
    if (name == MOS_CLIBUF || name == MOS_SVRBUF || name == MOS_CLIOVERLAP || name == MOS_SVROVERLAP)
        return get_setting(socket, name, value, len);
    struct mos_flow *flow = flow_of(socket);
    if (!flow)
        return failed(socket->type == MOS_SOCK_MONITOR_STREAM_ACTIVE ? ENOTCONN : ENOTSOCK);
    switch (name) {
    case MOS_FRAGINFO_CLIBUF:
    case MOS_FRAGINFO_SVRBUF: return get_fragments(&flow->buffer[name == MOS_FRAGINFO_SVRBUF], value, len);
    case MOS_INFO_CLIBUF:
    case MOS_INFO_SVRBUF: return get_information(flow, socket, name == MOS_INFO_SVRBUF, value, len);
    case MOS_TCP_STATE_CLI:
    case MOS_TCP_STATE_SVR:
        if (*len < sizeof(int))
            return failed(EINVAL);
        *(int *)value = flow->end[name == MOS_TCP_STATE_SVR].state;
        *len = sizeof(int);
        return 0;
    default: return failed(ENOPROTOOPT);
    }
}

/* The receive buffer of a side; a flow's is made as large at once. */
static int set_size(struct mos_socket *socket, int side, int size)
{
    struct mos_flow *flow = flow_of(socket);
    const int before = socket->buffer[side];
    if (size < 0)
        return failed(EINVAL);
    socket->buffer[side] = size;
    if (!flow || mos_flow_set_buffers(flow))
        return 0;
    socket->buffer[side] = before;
    return failed(ENOMEM);
}

int mtcp_setsockopt(mctx_t mctx, int sock, int level, int name, const void *value, socklen_t len)
{
    if (level != SOL_MONSOCKET)
        return mos_endpoint_setsockopt(mctx, sock, level, name, value, len);
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    if (!value || len < sizeof(int))
        return failed(EINVAL);
    int number = *(const int *)value;
    switch (name) {
    case MOS_CLIBUF:
    case MOS_SVRBUF: return set_size(socket, name == MOS_SVRBUF, number);
    case MOS_CLIOVERLAP:
    case MOS_SVROVERLAP:
        if (number != MOS_OVERLAP_POLICY_FIRST && number != MOS_OVERLAP_POLICY_LAST)
            return failed(EINVAL);
        socket->overlap[name == MOS_SVROVERLAP] = number;
        break;
    case MOS_STOP_MON:
        if (number < MOS_SIDE_CLI || number > MOS_SIDE_BOTH)
            return failed(EINVAL);
        if (!flow_of(socket))
            return failed(ENOTCONN);
        mos_flow_stop(socket, number);
        return 0;
    default: return failed(ENOPROTOOPT);
    }
    if (flow_of(socket))
        mos_flow_set_buffers(flow_of(socket));
    return 0;
}

static void put_address(void *out, bool six, const struct mos_address *end)
{
    if (six) {
        struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = end->port};
        memcpy(&address.sin6_addr, end->ip, sizeof address.sin6_addr);
        memcpy(out, &address, sizeof address);
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = end->port};
        memcpy(&address.sin_addr, end->ip, sizeof address.sin_addr);
        memcpy(out, &address, sizeof address);
    }
}

int mtcp_getpeername(mctx_t mctx, int sock, struct sockaddr *addr, socklen_t *addrlen, int side)
{
    MOS_CALL(mctx);
    const struct mos_context *context = mos_context_of(mctx);
    if (!context)
        return failed(EACCES);
    if (!mos_loop_is_of(context) || !mos_socket_of(mctx, sock)) {
        const struct mos_endpoint *endpoint = mos_endpoint_find(context->hosts, sock);
        if (endpoint)
            return mos_endpoint_peername(endpoint, addr, addrlen, side);
    }
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    const struct mos_flow *flow = flow_of(socket);
    if (!flow)
        return failed(ENOTCONN);
    if (side < MOS_SIDE_CLI || side > MOS_SIDE_BOTH || !addr || !addrlen)
        return failed(EINVAL);
    const socklen_t one = flow->six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (side == MOS_SIDE_BOTH ? *addrlen != 2 * one : *addrlen < one)
        return failed(flow->six ? EAFNOSUPPORT : EINVAL);
    /* Of IPv4 both are given where there is room for two, the client first: programs request one and read both. */
    const bool both = side == MOS_SIDE_BOTH || (!flow->six && *addrlen >= 2 * one);
    for (int i = 0; i < 1 + both; i++)
        put_address((uint8_t *)addr + (size_t)i * one, flow->six, &flow->ends[both ? i : side]);
    if (side != MOS_SIDE_BOTH)
        *addrlen = one;
    return 0;
}

/* --- reading --- */

/* The buffer of that side of the flow; NULL, with errno set, when there is none. */
static const struct mos_buffer *buffer_of(struct mos_socket *socket, int side)
{
    struct mos_flow *flow = socket ? flow_of(socket) : NULL;
    if (!socket)
        return NULL;   /* errno is mos_socket_get's */
    if (!flow)
        errno = ENOTCONN;
    else if (side != MOS_SIDE_CLI && side != MOS_SIDE_SVR)
        errno = EINVAL;
    else if (!flow->buffer[side].size)
        errno = ENODATA;   /* it was set to keep none */
    else
        return &flow->buffer[side];
    return NULL;
}

ssize_t mtcp_peek(mctx_t mctx, int sock, int side, char *buf, size_t len)
{
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    const struct mos_buffer *buffer = buffer_of(socket, side);
    if (!buffer)
        return -1;
    struct mos_reader *reader = &socket->reader[side];
    if (reader->lost) {
        ssize_t lost = (ssize_t)reader->lost;
        reader->lost = 0;
        errno = ENODATA;
        return -lost;
    }
    uint64_t there = reader->read < mos_buffer_next(buffer) ? mos_buffer_there(buffer, reader->read) : 0;
    uint64_t count = len < there ? len : there;
    mos_buffer_copy_out(buffer, reader->read, count, (uint8_t *)buf);
    reader->read += count;
    return (ssize_t)count;
}

ssize_t mtcp_ppeek(mctx_t mctx, int sock, int side, char *buf, size_t count, uint64_t offset)
{
    const struct mos_buffer *buffer = buffer_of(mos_socket_get(mctx, sock), side);
    if (!buffer)
        return -1;
    uint64_t there = mos_buffer_there(buffer, offset);
    uint64_t copied = count < there ? count : there;
    mos_buffer_copy_out(buffer, offset, copied, (uint8_t *)buf);
    return (ssize_t)copied;
}
