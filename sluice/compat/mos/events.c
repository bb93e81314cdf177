/* Events: the tree of built-in and user-defined ones, and raising them. */
#include "monitor.h"

#include <errno.h>

static const event_t built_in = MOS_ON_PKT_IN | MOS_ON_CONN_START | MOS_ON_CONN_NEW_DATA | MOS_ON_ERROR | MOS_ON_TIMEOUT |
                                MOS_ON_TCP_STATE_CHANGE | MOS_ON_ORPHAN | MOS_ON_REXMIT | MOS_ON_CONN_END;

/* The tree is the program's, so that events may be defined before there is a context. It only grows until mtcp_destroy:
 * contexts in other threads read it meanwhile, an entry once the count, or `below` of its parent, includes it. */
static struct defined {
    event_t parent, below;   /* below: all that may happen with it, directly or not */
    filter_t filter;         /* NULL of one that filters raise */
    filter_arg_t *arg;       /* NULL, or a copy of the program's, with the `len` bytes that it points to */
} defined[MOS_EVENTS];
static unsigned defined_count = MOS_BUILT_IN;
static pthread_mutex_t defining = PTHREAD_MUTEX_INITIALIZER;

static unsigned number_of(event_t event) { return (unsigned)__builtin_ctzll(event); }

/* A single event that there is? */
static bool is_event(event_t event)
{
    const unsigned count = __atomic_load_n(&defined_count, __ATOMIC_ACQUIRE);
    return event && !(event & (event - 1)) && ((event & built_in) || (number_of(event) >= MOS_BUILT_IN && number_of(event) < count));
}

/* All events that may happen with one. */
static event_t below(event_t event) { return __atomic_load_n(&defined[number_of(event)].below, __ATOMIC_ACQUIRE); }

/* A copy of a program's argument of a filter, which may lie on the program's stack. */
static filter_arg_t *copied(const filter_arg_t *arg)
{
    filter_arg_t *copy = malloc(sizeof *copy + arg->len);
    if (!copy)
        return NULL;
    *copy = *arg;
    if (arg->len && arg->arg)
        copy->arg = memcpy(copy + 1, arg->arg, arg->len);
    return copy;
}

static bool same_arg(const filter_arg_t *a, const filter_arg_t *b)
{
    if (!a || !b || a->len != b->len)
        return a == b;
    return a->arg == b->arg || (a->len && a->arg && b->arg && memcmp(a->arg, b->arg, a->len) == 0);
}

/* With the lock. */
static event_t define(event_t parent, filter_t filter, const filter_arg_t *arg)
{
    for (unsigned i = MOS_BUILT_IN; filter && i < defined_count; i++)
        if (defined[i].parent == parent && defined[i].filter == filter && same_arg(defined[i].arg, arg))
            return (event_t)1 << i;   /* users of the same event share it */
    filter_arg_t *kept = arg ? copied(arg) : NULL;
    if (defined_count == MOS_EVENTS || (arg && !kept)) {
        free(kept);
        errno = ENOMEM;
        return MOS_NULL_EVENT;
    }
    event_t event = (event_t)1 << defined_count;
    defined[defined_count] = (struct defined){parent, 0, filter, kept};
    __atomic_store_n(&defined_count, defined_count + 1, __ATOMIC_RELEASE);
    for (event_t above = parent; above; above = defined[number_of(above)].parent)
        __atomic_fetch_or(&defined[number_of(above)].below, event, __ATOMIC_RELEASE);
    return event;
}

static event_t define_locked(event_t parent, filter_t filter, const filter_arg_t *arg)
{
    if (!is_event(parent)) {
        errno = EINVAL;
        return MOS_NULL_EVENT;
    }
    pthread_mutex_lock(&defining);
    const event_t event = define(parent, filter, arg);
    pthread_mutex_unlock(&defining);
    return event;
}

event_t mtcp_define_event(event_t parent, filter_t filter, struct filter_arg *arg)
{
    if (!filter) {
        errno = EINVAL;
        return MOS_NULL_EVENT;
    }
    return define_locked(parent, filter, arg);
}

event_t mtcp_alloc_event(event_t parent) { return define_locked(parent, NULL, NULL); }

/* The built-in event from which one is derived. */
static event_t root_of(event_t event)
{
    while (defined[number_of(event)].parent)
        event = defined[number_of(event)].parent;
    return event;
}

void mos_events_forget(void)
{
    for (unsigned i = MOS_BUILT_IN; i < defined_count; i++)
        free(defined[i].arg);
    memset(defined, 0, sizeof defined);
    defined_count = MOS_BUILT_IN;
}

/* Which events, by the built-in one of their origin, may not be registered at a hook. */
static bool refused(event_t event, enum mos_hook hook)
{
    const event_t of_flows = MOS_ON_CONN_START | MOS_ON_REXMIT | MOS_ON_TCP_STATE_CHANGE | MOS_ON_CONN_END;
    const event_t of_none = MOS_ON_CONN_NEW_DATA | MOS_ON_ORPHAN | MOS_ON_ERROR;
    return (root_of(event) & (hook == MOS_AT_NULL ? of_flows : of_none)) != 0;
}

int mtcp_register_callback(mctx_t mctx, int sock, event_t event, int hook, callback_t callback)
{
    struct mos_socket *socket = mos_socket_get(mctx, sock);
    if (!socket)
        return -1;
    enum mos_hook at = hook == MOS_NULL ? MOS_AT_NULL : hook == MOS_HK_RCV ? MOS_AT_RCV : MOS_AT_SND;
    bool stream = socket->type != MOS_SOCK_MONITOR_RAW;
    if ((hook != MOS_NULL && hook != MOS_HK_RCV && hook != MOS_HK_SND) || !is_event(event) || refused(event, at) ||
        (!stream && (at != MOS_AT_NULL || root_of(event) != MOS_ON_PKT_IN))) {
        errno = EINVAL;
        return -1;
    }
    const struct mos_registrations *registrations =
        mos_registrations_with(mos_context_of(mctx), mos_socket_registrations(socket), at, number_of(event), callback);
    if (!registrations) {
        errno = ENOMEM;
        return -1;
    }
    socket->registrations = registrations;
    if (callback) {
        struct mos_context *context = mos_context_of(mctx);
        context->wanted[at] |= root_of(event);
        context->looks |= at != MOS_AT_NULL && (root_of(event) & (MOS_ON_PKT_IN | MOS_ON_REXMIT));
    }
    return 0;
}

/* --- raising --- */

struct raising {
    struct mos_context *context;
    struct mos_socket *socket;
    int id, side;
    enum mos_hook hook;
};

/* Does the program listen to this event, or to one that may happen with it? A callback may have changed that, or have
 * stopped the monitoring of the flow. */
static bool listening(const struct raising *r, event_t events)
{
    const struct mos_socket *socket = r->socket;
    bool stopped = r->side == MOS_SIDE_BOTH ? socket->stopped[0] && socket->stopped[1] : socket->stopped[r->side];
    return !stopped && (mos_socket_registrations(socket)->registered[r->hook] & events);
}

static void happens(const struct raising *r, event_t event);

static void tell(const struct raising *r, event_t event)
{
    if (listening(r, event))
        mos_socket_registrations(r->socket)->callback[r->hook][number_of(event)](
            &r->context->public, r->id, r->side, event, defined[number_of(event)].arg);
}

/* Does a user-defined event happen? A filter may raise others meanwhile, which have none. */
static bool holds(const struct raising *r, event_t parent, event_t event)
{
    const struct defined *own = &defined[number_of(event)];
    if (!own->filter)
        return (r->context->raised & event) != 0;
    bool before = r->context->filtering;
    r->context->filtering = true;
    bool result = own->filter(&r->context->public, r->id, r->side, parent, own->arg);
    r->context->filtering = before;
    return result;
}

static void happens(const struct raising *r, event_t event)
{
    tell(r, event);
    event_t later = 0;   /* events that filters raise: those of later ones, too */
    for (event_t left = below(event), child; left; left &= left - 1) {
        child = left & -left;
        const struct defined *own = &defined[number_of(child)];
        if (own->parent != event || !listening(r, child | below(child)))
            continue;
        if (!own->filter)
            later |= child;
        else if (holds(r, event, child))
            happens(r, child);
    }
    for (; later; later &= later - 1)
        if (holds(r, event, later & -later))
            happens(r, later & -later);
}

void mos_raise(struct mos_context *context, struct mos_socket *socket, int side, enum mos_hook hook, event_t set)
{
    const struct raising r = {context, socket, socket->id, side, hook};
    if (!mos_socket_registrations(socket)->registered[hook])
        return;   /* nor can that change before a callback is called here */
    event_t outer = context->raised;
    context->raised = 0;
    for (event_t left = set; left; left &= left - 1) {
        event_t event = left & -left;
        if (listening(&r, event | below(event)))
            happens(&r, event);
    }
    context->raised = outer;
}

int mtcp_raise_event(mctx_t mctx, event_t event)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!context || !context->filtering) {
        errno = context ? EPERM : EACCES;
        return -1;
    }
    if (!is_event(event) || (event & built_in) || defined[number_of(event)].filter) {
        errno = EINVAL;
        return -1;
    }
    context->raised |= event;
    return 0;
}
