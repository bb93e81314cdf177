/* The calls by which a program makes and closes sockets, and binds filters to them. */
#include "endpoint.h"
#include "loop.h"

#include <errno.h>

static int failed(int error)
{
    errno = error;
    return -1;
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
    mos_monitor_add(context, socket);
    return socket->id;
}

/* Endpoints have numbers, as flows have: callbacks close flows, end hosts their endpoints. */
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
        mos_flow_stop(socket, MOS_SIDE_BOTH);
        return 0;
    }
    struct mos_context *context = mos_context_of(mctx);
    for (int id = 0; id < context->socket_count; id++)   /* its flows are watched no more, and end in their time */
        if (context->sockets[id] && context->sockets[id]->monitor == socket) {
            mos_flow_stop(context->sockets[id], MOS_SIDE_BOTH);
            context->sockets[id]->monitor = NULL;
            context->sockets[id]->registrations = &context->nothing;
        }
    if (context->hosts)
        mos_endpoint_release(context->hosts, sock);
    mos_monitor_remove(context, socket);
    return 0;
}

int mtcp_bind_monitor_filter(mctx_t mctx, int sock, monitor_filter_t filter)
{
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    if (socket->type == MOS_SOCK_MONITOR_STREAM_ACTIVE)
        return failed(ENOPROTOOPT);
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
