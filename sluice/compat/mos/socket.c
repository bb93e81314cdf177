/* Sockets: numbers for monitors and for flows, their options, and reading the streams of flows. */
#include "endpoint.h"

#include <errno.h>

static unsigned monitors;   /* of all contexts: threads of end hosts read it while others make and free contexts */

bool mos_monitors(void) { return __atomic_load_n(&monitors, __ATOMIC_ACQUIRE) > 0; }

static int failed(int error)
{
    errno = error;
    return -1;
}

struct mos_socket *mos_socket_new(struct mos_context *context, enum socket_type type)
{
    struct mos_socket *socket = calloc(1, sizeof *socket);
    if (!socket)
        return NULL;
    if (!context->free_ids && context->socket_count == context->socket_room) {
        int room = context->socket_room ? 2 * context->socket_room : 64;
        struct mos_socket **sockets = realloc(context->sockets, (size_t)room * sizeof *sockets);
        if (sockets)
            context->sockets = sockets;
        int *ids = sockets ? realloc(context->free_id, (size_t)room * sizeof *ids) : NULL;
        if (!ids) {
            free(socket);
            return NULL;
        }
        context->free_id = ids;
        context->socket_room = room;
    }
    socket->id = context->free_ids ? context->free_id[--context->free_ids] : context->socket_count++;
    socket->type = type;
    socket->registrations = type == MOS_SOCK_MONITOR_STREAM_ACTIVE ? NULL : &context->nothing;
    context->sockets[socket->id] = socket;
    return socket;
}

void mos_socket_free(struct mos_context *context, struct mos_socket *socket)
{
    context->sockets[socket->id] = NULL;
    context->free_id[context->free_ids++] = socket->id;
    mos_filter_free(socket->syn);
    mos_filter_free(socket->orphan);
    mos_filter_free(socket->raw);
    free(socket);
}

const struct mos_registrations *mos_socket_registrations(const struct mos_socket *socket)
{
    return socket->registrations ? socket->registrations : socket->monitor->registrations;
}

struct mos_socket *mos_socket_of(mctx_t mctx, int id)
{
    struct mos_context *context = mos_context_of(mctx);
    return context && id >= 0 && id < context->socket_count ? context->sockets[id] : NULL;
}

/* The sockets and flows of a context are of the thread that runs its callbacks, as long as that runs. */
bool mos_is_foreign(const struct mos_context *context)
{
    return mos_loop_runs() && !mos_loop_is_of(context);
}

struct mos_socket *mos_socket_get(mctx_t mctx, int id)
{
    const struct mos_context *context = mos_context_of(mctx);
    const bool foreign = context && mos_is_foreign(context);
    struct mos_socket *socket = foreign ? NULL : mos_socket_of(mctx, id);
    if (!socket)
        errno = foreign ? EPERM : EBADF;
    return socket;
}

/* One whose number no endpoint has: mtcp_close is for both. */
static struct mos_socket *new_monitor(struct mos_context *context, enum socket_type type)
{
    struct mos_socket *made = mos_socket_new(context, type);
    if (!made || !context->hosts || mos_endpoint_reserve(context->hosts, made->id))
        return made;
    struct mos_socket *other = new_monitor(context, type);   /* of a higher number, as this one is still taken */
    mos_socket_free(context, made);
    return other;
}

int mtcp_socket(mctx_t mctx, int domain, int type, int protocol)
{
    struct mos_context *context = mos_context_of(mctx);
    (void)protocol;
    if (!context)
        return failed(EACCES);
    if (domain != AF_INET)
        return failed(EAFNOSUPPORT);
    if (type == SOCK_STREAM || type == MOS_SOCK_STREAM)
        return mos_endpoint_stream(mctx);
    if (type != MOS_SOCK_MONITOR_STREAM && type != MOS_SOCK_MONITOR_RAW)
        return failed(EINVAL);
    if (mos_is_foreign(context) || mos_context_stopped(context))
        return failed(EPERM);
    int own = 0;
    for (const struct mos_socket *other = context->first; other; other = other->next)
        own++;
    if (own == MOS_MONITORS)
        return failed(ENFILE);
    struct mos_socket *socket = new_monitor(context, type);
    if (!socket)
        return failed(ENOMEM);
    int size = mos_configuration.no_ring_buffers ? 0 : mos_configuration.conf.rcvbuf_size;
    socket->buffer[0] = socket->buffer[1] = size;
    socket->previous = context->last;
    *(context->last ? &context->last->next : &context->first) = socket;
    context->last = socket;
    __atomic_fetch_add(&monitors, 1, __ATOMIC_ACQ_REL);
    return socket->id;
}

static void stop(struct mos_socket *view, int side)
{
    for (int i = 0; i < 2; i++)
        if (side == i || side == MOS_SIDE_BOTH)
            view->stopped[i] = true;
    if (view->flow)
        mos_flow_set_buffers(view->flow);
}

/* Endpoints have numbers of their own, which flows have, too: callbacks close flows, end hosts their endpoints. */
static struct mos_endpoint *endpoint_to_close(struct mos_context *context, int sock)
{
    bool flow = mos_loop_is_of(context) && mos_socket_of(&context->public, sock);
    return flow ? NULL : mos_endpoint_find(context->hosts, sock);
}

int mtcp_close(mctx_t mctx, int sock)
{
    MOS_CALL(mctx);
    struct mos_context *own = mos_context_of(mctx);
    if (!own)
        return failed(EACCES);
    struct mos_endpoint *endpoint = endpoint_to_close(own, sock);
    if (endpoint)
        return mos_endpoint_close(own->hosts, endpoint);
    struct mos_socket *socket = mos_is_foreign(own) ? NULL : mos_socket_of(mctx, sock);   /* else a flow's number closes it */
    if (!socket)
        return failed(EBADF);
    if (socket->type == MOS_SOCK_MONITOR_STREAM_ACTIVE) {
        stop(socket, MOS_SIDE_BOTH);
        return 0;
    }
    struct mos_context *context = mos_context_of(mctx);
    __atomic_fetch_sub(&monitors, 1, __ATOMIC_ACQ_REL);
    for (int id = 0; id < context->socket_count; id++)   /* its flows are watched no more, and end in their time */
        if (context->sockets[id] && context->sockets[id]->monitor == socket) {
            stop(context->sockets[id], MOS_SIDE_BOTH);
            context->sockets[id]->monitor = NULL;
            context->sockets[id]->registrations = &context->nothing;
        }
    *(socket->previous ? &socket->previous->next : &context->first) = socket->next;
    *(socket->next ? &socket->next->previous : &context->last) = socket->previous;
    context->sockets[sock] = NULL;
    if (context->hosts)
        mos_endpoint_release(context->hosts, sock);
    socket->stopped[0] = socket->stopped[1] = true;
    socket->closed = context->closed;   /* events may be told for it right now */
    context->closed = socket;
    return 0;
}

void mos_sockets_free_closed(struct mos_context *context)
{
    for (struct mos_socket *next; context->closed; context->closed = next) {
        next = context->closed->closed;
        mos_socket_free(context, context->closed);
    }
}

void mos_sockets_free(struct mos_context *context)
{
    for (const struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        __atomic_fetch_sub(&monitors, 1, __ATOMIC_ACQ_REL);
    for (int id = 0; id < context->socket_count; id++)
        if (context->sockets[id])
            mos_socket_free(context, context->sockets[id]);
    mos_sockets_free_closed(context);
    free(context->sockets);
    free(context->free_id);
}

int mtcp_bind_monitor_filter(mctx_t mctx, int sock, monitor_filter_t filter)
{
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    if (socket->type == MOS_SOCK_MONITOR_STREAM_ACTIVE)
        return failed(EINVAL);
    if (!filter)
        return 0;   /* nothing is to be left out */
    bool raw = socket->type == MOS_SOCK_MONITOR_RAW;
    const char *given[2] = {raw ? filter->raw_pkt_filter : filter->stream_syn_filter,
                            raw ? NULL : filter->stream_orphan_filter};
    struct sl_filter **kept[2] = {raw ? &socket->raw : &socket->syn, &socket->orphan};
    for (int i = 0; i < 2; i++) {
        if (!given[i])
            continue;
        struct sl_filter *made = mos_filter_new(given[i]);
        if (!made)
            return failed(EINVAL);
        mos_filter_free(*kept[i]);
        *kept[i] = made;
    }
    return 0;
}

/* --- user contexts --- */

void mtcp_set_uctx(mctx_t mctx, int sock, void *uctx)
{
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (socket)
        socket->user = uctx;
}

void *mtcp_get_uctx(mctx_t mctx, int sock)
{
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    return socket ? socket->user : NULL;
}

/* --- options --- */

/* The flow that a socket stands for, or NULL. */
static struct mos_flow *flow_of(const struct mos_socket *socket)
{
    return socket->type == MOS_SOCK_MONITOR_STREAM_ACTIVE ? socket->flow : NULL;
}

static int get_fragments(const struct mos_buffer *buffer, void *value, socklen_t *len)
{
    struct tcp_ring_fragment *out = value;
    size_t room = *len / sizeof *out, count = 0;
    const uint64_t next = mos_buffer_next(buffer);
    if (room && buffer->bytes && next > buffer->base)
        out[count++] = (struct tcp_ring_fragment){(uint32_t)buffer->base, (uint32_t)(next - buffer->base)};
    const struct sl_piece *extent = buffer->bytes ? mos_buffer_extents(buffer) : NULL;
    for (; extent && count < room; extent = sl_piece_next(extent)) {
        uint64_t from = sl_max(extent->node.position, buffer->base), to = extent->node.position + extent->length;
        if (from < to)
            out[count++] = (struct tcp_ring_fragment){(uint32_t)from, (uint32_t)(to - from)};
    }
    *len = (socklen_t)(count * sizeof *out);
    return 0;
}

static int get_information(const struct mos_flow *flow, const struct mos_socket *view, int side, void *value, socklen_t *len)
{
    if (*len < sizeof(struct tcp_buf_info))
        return failed(EINVAL);
    const struct mos_buffer *buffer = &flow->buffer[side];
    uint32_t first = flow->end[side ^ 1].isn + 1;
    struct tcp_buf_info information;
    information.init_seq = flow->end[side ^ 1].isn;
    information.last_byte_read = first + (uint32_t)view->reader[side].read - 1;
    information.next_byte_expected = first + (uint32_t)mos_buffer_next(buffer);
    information.last_byte_received = first + (uint32_t)buffer->farthest - 1;
    memcpy(value, &information, sizeof information);
    *len = sizeof information;
    return 0;
}

int mtcp_getsockopt(mctx_t mctx, int sock, int level, int name, void *value, socklen_t *len)
{
    if (level != SOL_MONSOCKET)
        return mos_endpoint_getsockopt(mctx, sock, level, name, value, len);
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    struct mos_flow *flow = flow_of(socket);
    if (!flow)
        return failed(ENOTCONN);
    if (!value || !len)
        return failed(EFAULT);
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
    case MOS_SVRBUF:
        if (number < 0)
            return failed(EINVAL);
        socket->buffer[name == MOS_SVRBUF] = number;
        break;
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
        stop(socket, number);
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
    /* Of IPv4 both are given where there is room for two, the client first: programs ask for one and read both. */
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
