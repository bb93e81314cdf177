/* Flows: how they begin and end, their events for monitors, and their timeouts. */
#include "monitor.h"

static void leave_queue(struct mos_flow *flow)
{
    struct mos_queue *queue = flow->queue;
    if (!queue)
        return;
    *(flow->older ? &flow->older->newer : &queue->first) = flow->newer;
    *(flow->newer ? &flow->newer->older : &queue->last) = flow->older;
    flow->queue = NULL;
}

/* It waits from now on, after all that wait there. */
static void enter_queue(struct mos_flow *flow, struct mos_queue *queue)
{
    if (queue->last != flow) {
        leave_queue(flow);
        flow->queue = queue;
        flow->older = queue->last;
        flow->newer = NULL;
        *(queue->last ? &queue->last->newer : &queue->first) = flow;
        queue->last = flow;
    }
    uint64_t now = flow->context->time;
    flow->deadline = queue->after > SL_NEVER - now ? SL_NEVER : now + queue->after;
}

bool mos_flow_set_buffers(struct mos_flow *flow)
{
    bool done = true;
    for (unsigned side = 0; side < 2; side++) {
        struct mos_buffer *buffer = &flow->buffer[side];
        uint32_t size = 0;
        for (unsigned i = 0; i < flow->view_count; i++)
            if (!flow->views[i]->stopped[side] && !flow->offload) {
                size = (uint32_t)sl_max(size, (uint64_t)flow->views[i]->buffer[side]);
                buffer->last = flow->views[i]->overlap[side] == MOS_OVERLAP_POLICY_LAST;
            }
        done &= mos_buffer_resize(buffer, size);
        for (unsigned i = 0; i < flow->view_count; i++)   /* bytes that were not stored are not lost */
            mos_reader_follow(&flow->views[i]->reader[side], buffer->base, buffer->bytes != NULL);
    }
    flow->plain = false;   /* until it is settled */
    return done;
}

void mos_flow_stop(struct mos_socket *view, int side)
{
    for (int i = 0; i < 2; i++)
        if (side == i || side == MOS_SIDE_BOTH)
            view->stopped[i] = true;
    if (view->flow)
        mos_flow_set_buffers(view->flow);
}

bool mos_flow_is_watched(const struct mos_flow *flow)
{
    for (unsigned i = 0; i < flow->view_count && !flow->offload; i++)
        if (!flow->views[i]->stopped[0] || !flow->views[i]->stopped[1])
            return true;
    return false;
}

void mos_flow_begin(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance,
                    const struct sl_sequence *sequences)
{
    unsigned count = 0;
    struct mos_socket *takers[MOS_MONITORS];
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        if (monitor->type == MOS_SOCK_MONITOR_STREAM && mos_filter_accepts(monitor->syn, &context->packet.frame))
            takers[count++] = monitor;
    if (count && context->flows >= (uint64_t)mos_configuration.conf.max_concurrency)   /* the longest quiet gives way */
        mos_flow_end(context->time_wait.first ? context->time_wait.first : context->open.first, 0);
    struct mos_flow *flow = count ? calloc(1, sizeof *flow + count * sizeof *flow->views) : NULL;
    if (!flow) {
        context->losses.flows += count;
        return;
    }
    flow->context = context;
    flow->place = place;
    flow->instance = instance;
    mos_ip_ends(context->packet.ip, context->packet.tcp, flow->ends);
    flow->six = mos_ip_of(context->packet.ip).six;
    mos_buffer_begin(&flow->buffer[0], &sequences[1], &context->spare);
    mos_buffer_begin(&flow->buffer[1], &sequences[0], &context->spare);
    flow->end[0].state = MOS_CLOSED;
    flow->end[1].state = MOS_LISTEN;
    for (unsigned i = 0; i < count; i++) {
        struct mos_socket *view = mos_socket_new(context, MOS_SOCK_MONITOR_STREAM_ACTIVE);
        if (!view) {
            context->losses.flows++;   /* that monitor is not notified of it */
            continue;
        }
        view->flow = flow;
        view->monitor = takers[i];
        memcpy(view->buffer, takers[i]->buffer, sizeof view->buffer);
        memcpy(view->overlap, takers[i]->overlap, sizeof view->overlap);
        flow->views[flow->view_count++] = view;
    }
    mos_flow_set_buffers(flow);
    enter_queue(flow, &context->open);
    context->flows++;
    *place = flow;
    mos_flow_index_add(flow);
}

struct mos_socket *mos_flow_view(const struct mos_flow *flow, unsigned i)
{
    return flow->views[flow->sender ? flow->view_count - 1 - i : i];
}

void mos_flow_raise(struct mos_flow *flow, unsigned side, enum mos_hook hook, event_t set)
{
    if (!(set & flow->context->wanted[hook]))
        return;
    for (unsigned i = 0; i < flow->view_count; i++)
        mos_raise(flow->context, mos_flow_view(flow, i), (int)side, hook, set);
}

void mos_flow_end(struct mos_flow *flow, event_t why)
{
    struct mos_context *context = flow->context;
    bool there = context->packet.there, changeable = context->packet.changeable;
    context->packet.there = context->packet.changeable = false;
    leave_queue(flow);
    if (flow->place) {
        *flow->place = NULL;
        sl_give_back(context->box, flow->instance);
    }
    flow->place = NULL;
    flow->end[0].state = flow->end[1].state = MOS_CLOSED;
    if (why)
        mos_flow_raise(flow, flow->sender ^ 1, MOS_AT_NULL, why);
    const event_t set = why | MOS_ON_TCP_STATE_CHANGE | MOS_ON_CONN_END;
    mos_flow_raise(flow, flow->sender ^ 1, MOS_AT_RCV, set);
    mos_flow_raise(flow, flow->sender, MOS_AT_SND, set);
    mos_translated_forget(flow);
    mos_flow_index_remove(flow);
    for (unsigned i = 0; i < flow->view_count; i++)
        mos_socket_free(context, flow->views[i]);
    mos_buffer_free(&flow->buffer[0]);
    mos_buffer_free(&flow->buffer[1]);
    free(flow);
    context->flows--;
    context->packet.there = there;
    context->packet.changeable = changeable;
}

void mos_flows_end(struct mos_context *context)
{
    while (context->open.first)
        mos_flow_end(context->open.first, 0);
    while (context->time_wait.first)
        mos_flow_end(context->time_wait.first, 0);
}

void mos_flow_forgotten(struct mos_flow *flow)
{
    flow->place = NULL;
    mos_flow_end(flow, 0);
}

static bool is_over(const struct mos_end *end) { return end->state == MOS_CLOSED || end->state == MOS_TIME_WAIT; }

void mos_flow_wait(struct mos_flow *flow) { enter_queue(flow, &flow->context->open); }

void mos_flow_settle(struct mos_flow *flow)
{
    struct mos_queue *wait = &flow->context->time_wait;
    if (!is_over(&flow->end[0]) || !is_over(&flow->end[1])) {
        mos_flow_wait(flow);
        flow->plain = flow->end[0].state == MOS_ESTABLISHED && flow->end[1].state == MOS_ESTABLISHED && !flow->offload;
        return;
    }
    bool waits = flow->end[0].state == MOS_TIME_WAIT || flow->end[1].state == MOS_TIME_WAIT;
    if (!waits || !wait->after)
        mos_flow_end(flow, 0);
    else if (flow->queue != wait)
        enter_queue(flow, wait);
}
