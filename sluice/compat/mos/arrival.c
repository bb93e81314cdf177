/* Packets as they come from the stack: which flow a segment is of, whether it begins one, and what belongs to none. */
#include "monitor.h"

/* The current segment, which is of a flow of another context, goes through both ends there. */
static void lend(struct mos_packet *packet, struct mos_flow *flow, unsigned from)
{
    struct mos_packet *there = &flow->context->packet, own = *there;
    *there = *packet;
    mos_segment_pass(flow, from);
    *packet = *there;
    *there = own;
}

void mos_stray(struct mos_context *context)
{
    struct mos_packet *packet = &context->packet;
    unsigned from = 0;
    struct mos_flow *flow = mos_translated_find(context->run, packet, &from);
    if (flow) {
        if (flow->context == context)
            mos_segment_pass(flow, from);
        else
            lend(packet, flow, from);
        return;
    }
    packet->there = true;
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)   /* one that is closed meanwhile stays */
        if (monitor->type == MOS_SOCK_MONITOR_STREAM && mos_filter_accepts(monitor->orphan, &packet->frame))
            mos_raise(context, monitor, MOS_SIDE_BOTH, MOS_AT_NULL, MOS_ON_ORPHAN);
    packet->there = false;
}

/* Has either end sent a FIN or a reset, whether it came through or not? */
static bool is_closing(const struct mos_flow *flow)
{
    return flow->end[0].finished || flow->end[1].finished || flow->end[0].state == MOS_CLOSED || flow->end[1].state == MOS_CLOSED;
}

void mos_segment(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance, unsigned side)
{
    struct mos_flow *flow = *place;
    const uint8_t flags = context->packet.tcp[13];
    bool opens = (flags & (MOS_SYN | MOS_ACK | MOS_RST)) == MOS_SYN;
    if (flow && opens && is_closing(flow)) {
        const struct mos_end *end = &flow->end[side != flow->client_side];
        if (!end->numbered || (uint32_t)sl_load_be32(context->packet.tcp + 4) != end->isn) {
            mos_flow_end(flow, 0);   /* the ports are used again */
            flow = NULL;
        }
    }
    if (!flow && opens)
        flow = mos_flow_begin(context, place, instance, side);
    if (flow)
        mos_segment_pass(flow, side != flow->client_side);
    else
        mos_stray(context);
    if (!*place)
        sl_give_back(context->box, instance);   /* nothing to remember */
}

void mos_ip_packet(struct mos_context *context, sl_bytes unit)
{
    struct mos_packet *packet = &context->packet;
    packet->inner = packet->ip != NULL;
    packet->ip = (uint8_t *)(uintptr_t)unit.at;
    packet->ip_length = unit.captured;
    packet->tcp = NULL;
    packet->tcp_length = packet->tcp_wire = 0;
    const struct mos_ip ip = mos_ip_of(unit.at);
    const uint32_t total = ip.total || !ip.six ? ip.total : unit.length;
    const uint32_t length = (uint32_t)sl_min(sl_max(total, ip.header), unit.captured);
    if (!ip.fragment && ip.protocol == IPPROTO_TCP && length >= ip.header + sizeof(struct tcphdr)) {
        packet->tcp = packet->ip + ip.header;
        packet->tcp_length = length - ip.header;
        packet->tcp_wire = (uint32_t)sl_max(total, length) - ip.header;
    }
    packet->offset = 0;
    mos_packet_read(packet);
    if (packet->inner)
        return;   /* raw sockets see packets as they are on the wire */
    packet->there = true;
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        if (monitor->type == MOS_SOCK_MONITOR_RAW && mos_filter_accepts(monitor->raw, &packet->frame))
            mos_raise(context, monitor, MOS_SIDE_BOTH, MOS_AT_NULL, MOS_ON_PKT_IN);
    packet->there = false;
}
