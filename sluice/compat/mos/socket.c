/* Sockets: numbers for monitors and for flows. */
#include "monitor.h"

#include <errno.h>

static unsigned monitors;   /* of all contexts: threads of end hosts read it while others make and free contexts */

bool mos_monitors(void) { return __atomic_load_n(&monitors, __ATOMIC_ACQUIRE) > 0; }

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

struct mos_socket *mos_socket_get(mctx_t mctx, int id)
{
    const struct mos_context *context = mos_context_of(mctx);
    const bool foreign = context && mos_is_foreign(context);
    struct mos_socket *socket = foreign ? NULL : mos_socket_of(mctx, id);
    if (!socket)
        errno = foreign ? EPERM : context ? EBADF : EACCES;
    return socket;
}

void mos_monitor_add(struct mos_context *context, struct mos_socket *monitor)
{
    context->raw += monitor->type == MOS_SOCK_MONITOR_RAW;
    monitor->previous = context->last;
    *(context->last ? &context->last->next : &context->first) = monitor;
    context->last = monitor;
    __atomic_fetch_add(&monitors, 1, __ATOMIC_ACQ_REL);
}

void mos_monitor_remove(struct mos_context *context, struct mos_socket *monitor)
{
    __atomic_fetch_sub(&monitors, 1, __ATOMIC_ACQ_REL);
    context->raw -= monitor->type == MOS_SOCK_MONITOR_RAW;
    *(monitor->previous ? &monitor->previous->next : &context->first) = monitor->next;
    *(monitor->next ? &monitor->next->previous : &context->last) = monitor->previous;
    context->sockets[monitor->id] = NULL;
    monitor->stopped[0] = monitor->stopped[1] = true;
    monitor->closed = context->closed;   /* events may be raised for it right now */
    context->closed = monitor;
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
