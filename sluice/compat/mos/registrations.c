/* Which callbacks are called for which events: sets of them that flows share. */
#include "monitor.h"

struct mos_edge {
    enum mos_hook hook;
    unsigned event;
    callback_t callback;
    const struct mos_registrations *to;
    struct mos_edge *next;
};

static void add_edge(struct mos_registrations *from, enum mos_hook hook, unsigned event, callback_t callback,
                     const struct mos_registrations *to)
{
    struct mos_edge *edge = malloc(sizeof *edge);
    if (!edge)
        return;   /* it is found again by comparing */
    *edge = (struct mos_edge){hook, event, callback, to, from->edges};
    from->edges = edge;
}

static bool same_registrations(const struct mos_registrations *a, const struct mos_registrations *b)
{
    return memcmp(a->registered, b->registered, sizeof a->registered) == 0 &&
           memcmp(a->callback, b->callback, sizeof a->callback) == 0;
}

const struct mos_registrations *mos_registrations_with(struct mos_context *context, const struct mos_registrations *from,
                                                       enum mos_hook hook, unsigned event, callback_t callback)
{
    callback_t before = from->callback[hook][event];
    if (before == callback)
        return from;
    for (const struct mos_edge *edge = from->edges; edge; edge = edge->next)
        if (edge->hook == hook && edge->event == event && edge->callback == callback)
            return edge->to;
    struct mos_registrations *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    *made = *from;
    made->edges = NULL;
    made->callback[hook][event] = callback;
    event_t bit = (event_t)1 << event;
    made->registered[hook] = callback ? made->registered[hook] | bit : made->registered[hook] & ~bit;
    struct mos_registrations *other = same_registrations(made, &context->nothing) ? &context->nothing : context->registrations;
    while (other && !same_registrations(made, other))
        other = other->next;
    if (other) {
        free(made);
        made = other;
    } else {
        made->next = context->registrations;
        context->registrations = made;
    }
    add_edge((struct mos_registrations *)from, hook, event, callback, made);
    add_edge(made, hook, event, before, from);
    return made;
}

static void forget_edges(struct mos_registrations *registrations)
{
    for (struct mos_edge *edge = registrations->edges, *next; edge; edge = next) {
        next = edge->next;
        free(edge);
    }
    registrations->edges = NULL;
}

void mos_registrations_forget(struct mos_context *context)
{
    forget_edges(&context->nothing);
    for (struct mos_registrations *next; context->registrations; context->registrations = next) {
        next = context->registrations->next;
        forget_edges(context->registrations);
        free(context->registrations);
    }
}
