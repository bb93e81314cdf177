/* What of the library is compiled with its stack: the functions on the stack's events, which hand packets on. */
#include "sluice.h"

#include "monitor.h"

struct mos_worker { struct mos_context *context; };
SLUICE_WORKER(struct mos_worker)

struct mos_instance { struct mos_flow *flow; };
SLUICE_STATE(struct mos_instance)

void mos_boxed_for(struct sl_box *box, struct mos_context *context) { SLUICE_WORKER_OF(box)->context = context; }

struct mos_context *mos_boxed_context(const struct sl_box *box) { return SLUICE_WORKER_OF(box)->context; }

SLUICE_ON(ipv4, packet) {
    struct mos_context *context = SLUICE_WORKER_OF(event->box)->context;
    if (mos_packet_begin(context, sl_packet_frame(event)))
        mos_ip_packet(context, event->unit);
}

/* The segment, which lies where its IP packet does unless that came in fragments. */
static struct mos_context *mos_boxed_segment(const struct sl_event *event)
{
    struct mos_context *context = SLUICE_WORKER_OF(event->box)->context;
    struct mos_packet *packet = &context->packet;
    packet->tcp = (uint8_t *)(uintptr_t)event->unit.at;
    packet->tcp_length = event->unit.captured;
    packet->tcp_wire = event->unit.length;
    mos_packet_read(packet);
    return context;
}

SLUICE_ON(mos_tcp, packet) {
    if (event->instance && !mos_stopped())   /* else it is an orphan, and told as one */
        mos_segment(mos_boxed_segment(event), &SLUICE_STATE_OF(event)->flow, event->instance, event->side);
}

SLUICE_ON(mos_tcp, orphan) {
    if (!mos_stopped())
        mos_stray(mos_boxed_segment(event));
}

SLUICE_ON(mos_tcp, end) {
    struct mos_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (flow)
        mos_flow_forgotten(flow);
}
