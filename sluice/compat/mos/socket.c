/* Sockets: numbers for monitors and for flows, and what programs bind to them. */
#include "endpoint.h"
#include "loop.h"

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

void mos_socket_stop(struct mos_socket *view, int side)
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
        mos_socket_stop(socket, MOS_SIDE_BOTH);
        return 0;
    }
    struct mos_context *context = mos_context_of(mctx);
    __atomic_fetch_sub(&monitors, 1, __ATOMIC_ACQ_REL);
    for (int id = 0; id < context->socket_count; id++)   /* its flows are watched no more, and end in their time */
        if (context->sockets[id] && context->sockets[id]->monitor == socket) {
            mos_socket_stop(context->sockets[id], MOS_SIDE_BOTH);
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
