/* Segments from the stack: the flow of each, whether it begins one, and segments without a flow. */
#include "monitor.h"

/* The current packet, by addresses that a program has given to a flow: to the stack of its context. */
static void translate(struct mos_packet *packet, struct mos_flow *flow, unsigned from)
{
    struct mos_packet *there = &flow->context->packet, own = *there;
    if (there == packet) {
        mos_packet_again(flow, from, MOS_TRANSLATED);
        return;
    }
    *there = *packet;
    mos_packet_again(flow, from, MOS_TRANSLATED);
    *packet = *there;
    *there = own;
}

void mos_stray(struct mos_context *context)
{
    struct mos_packet *packet = &context->packet;
    unsigned from = 0;
    struct mos_flow *flow = mos_translated_find(context->run, packet, &from);
    if (flow) {
        translate(packet, flow, from);
        return;
    }
    packet->there = true;
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)   /* one that is closed meanwhile stays */
        if (monitor->type == MOS_SOCK_MONITOR_STREAM && mos_filter_accepts(monitor->orphan, &packet->frame))
            mos_raise(context, monitor, MOS_SIDE_BOTH, MOS_AT_NULL, MOS_ON_ORPHAN);
    packet->there = false;
}

bool mos_segment(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance,
                 struct sl_sequence *sequences, unsigned side, const struct mos_segment *known)
{
    const uint8_t flags = context->packet.tcp[13];
    if (!*place && (flags & (MOS_SYN | MOS_ACK | MOS_RST)) == MOS_SYN)
        mos_flow_begin(context, place, instance, sequences);
    if (*place)
        return mos_segment_pass(*place, side, known);
    mos_stray(context);
    return true;
}
