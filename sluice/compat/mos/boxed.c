/* The part of the library that is compiled with its stack: functions on the stack's events, which deliver packets. */
#include "sluice.h"

#include "monitor.h"

struct mos_worker { struct mos_context *context; };
SLUICE_WORKER(struct mos_worker)

struct mos_instance { struct mos_flow *flow; };
SLUICE_STATE(struct mos_instance)

/* The text of this function may set what a box has of the current packet (core/box.h). */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* The stack's layers, to which a packet returns that differs from the received one. */
struct sl_stack_box;
SL_UNUSED static void layer_ipv4(struct sl_stack_box *box, const uint8_t *at, uint32_t captured, uint32_t length);

#ifdef MOS_IPV6
SL_UNUSED static void layer_ipv6(struct sl_stack_box *box, const uint8_t *at, uint32_t captured, uint32_t length);
enum { MOS_HAS_IPV6 = true };
#else
#define layer_ipv6 layer_ipv4   /* there are no such packets */
enum { MOS_HAS_IPV6 = false };
#endif

static void mos_boxed_enter(struct mos_context *context, const struct sl_frame *frame, sl_bytes ip)
{
    struct sl_box *box = context->box;
    const struct sl_frame *outer = box->frame;
    const uint32_t depth = box->depth;
    box->frame = frame;
    box->now = sl_max(box->now, frame->time);
    box->output.dropped = false;
    (ip.at[0] >> 4 == 6 ? layer_ipv6 : layer_ipv4)((struct sl_stack_box *)(void *)box, ip.at, ip.captured, ip.length);
    box->output.dropped = false;
    box->depth = depth;
    box->frame = outer;
}

void mos_boxed_for(struct sl_box *box, struct mos_context *context)
{
    SLUICE_WORKER_OF(box)->context = context;
    context->enter = mos_boxed_enter;
    context->ipv6 = MOS_HAS_IPV6;
#ifdef MOS_TUNNELS
    context->tunnels = true;
#endif
}

struct mos_context *mos_boxed_context(const struct sl_box *box) { return SLUICE_WORKER_OF(box)->context; }

#ifdef MOS_TUNNELS
/* The one that carries a segment is the last. */
static void mos_boxed_ip(const struct sl_event *event)
{
    struct mos_context *context = SLUICE_WORKER_OF(event->box)->context;
    if (!context->packet.again)
        mos_packet_carries(context, sl_packet_frame(event), event->unit);
}

SLUICE_ON(ipv4, packet) { mos_boxed_ip(event); }

#ifdef MOS_IPV6
SLUICE_ON(ipv6, arrived) { mos_boxed_ip(event); }
#endif
#endif

/* The segment's packet becomes the current one. NULL when the run has been stopped. */
static struct mos_context *mos_boxed_segment(const struct sl_event *event)
{
    struct mos_context *context = SLUICE_WORKER_OF(event->box)->context;
    return context->packet.again || mos_packet_begin(context, sl_packet_frame(event), event->unit) ? context : NULL;
}

/* A segment of a flow, of neither a SYN, a FIN nor a reset, and after none, in which programs see no more than
 * new data. */
static bool mos_boxed_passes(const struct sl_event *event, struct mos_flow *flow, const struct mos_segment *known)
{
    enum { OFFSET = 12, FLAGS = 13 };
    struct mos_context *context = flow->context;
    const sl_bytes tcp = event->unit;
    const uint32_t header = (uint32_t)(tcp.at[OFFSET] >> 4) * 4;
    if (!flow->plain || context->looks || known->fin || context->packet.again ||
        tcp.at[FLAGS] & (MOS_SYN | MOS_FIN | MOS_RST))
        return false;
    if (flow->buffer[event->side ^ 1].size && tcp.length > header)
        return mos_segment_append(flow, event->side, sl_packet_frame(event), header, tcp, known);
    if (!mos_packet_pass(context, sl_packet_frame(event)))
        return false;
    flow->sender = event->side;
    mos_flow_wait(flow);
    context->passed = true;
    return true;
}

/* Before it is in the sequence. */
SLUICE_ON(tcp, segment) {
    struct mos_flow *known_flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (known_flow && mos_boxed_passes(event, known_flow, data))
        return;
    event->box->output.dropped = false;
    struct mos_context *context = event->instance && !mos_stopped() ? mos_boxed_segment(event) : NULL;
    if (!context)   /* an orphan, of which there is an event */
        return;
    struct sl_sequence *sequences = (struct sl_sequence *)(void *)((char *)event->instance + event->owner->sequence_offset);
    struct mos_flow **place = &SLUICE_STATE_OF(event)->flow;
    const bool is_received = mos_segment(context, place, event->instance, sequences, event->side, data);
    event->box->output.dropped = !is_received && *place;
}

/* After that. */
SLUICE_ON(tcp, packet) {
    struct mos_flow **place = event->instance ? &SLUICE_STATE_OF(event)->flow : NULL;
    struct mos_context *context = SLUICE_WORKER_OF(event->box)->context;
    const bool passed = context->passed;
    context->passed = false;
    if (!place || passed)
        return;
    if (*place && !mos_stopped())
        mos_segment_received(*place, event->side, event->owner->rules);
    if (!*place)
        sl_give_back(event->box, event->instance);   /* nothing to remember */
}

SLUICE_ON(tcp, gap) {
    struct mos_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (flow)
        mos_segments_given_up(flow, event->side, data->offset, data->length, data->cause);
}

SLUICE_ON(tcp, orphan) {
    struct mos_context *context = mos_stopped() ? NULL : mos_boxed_segment(event);
    if (context)
        mos_stray(context);
}

SLUICE_ON(tcp, end) {
    struct mos_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (flow)
        mos_flow_forgotten(flow);
}
