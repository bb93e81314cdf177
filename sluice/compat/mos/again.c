/* A packet that returns to the stack, as TCP is to read it: with its flow's addresses in place of those that a program has
 * given to the flow, or as callbacks have changed it. */
#include "monitor.h"

/* The IP packet that TCP is to read: a header, the flow's ends, and the current segment. */
static sl_bytes as_of_flow(const struct mos_flow *flow, unsigned from, uint8_t *bytes)
{
    const struct mos_packet *packet = &flow->context->packet;
    const uint32_t header = flow->six ? MOS_IPV6_HEADER : sizeof(struct iphdr);
    const uint32_t room = UINT16_MAX - header, captured = (uint32_t)sl_min(packet->tcp_length, room);
    const uint32_t length = header + (uint32_t)sl_min(packet->tcp_wire, room);
    memset(bytes, 0, header);
    bytes[0] = flow->six ? 0x60 : 0x45;
    bytes[flow->six ? 6 : 9] = IPPROTO_TCP;
    mos_ip_set_total(bytes, length);
    const struct mos_ip ip = mos_ip_of(bytes);
    memcpy(bytes + header, packet->tcp, captured);
    for (unsigned i = 0; i < 2; i++) {
        const struct mos_address *end = &flow->ends[i ^ from];
        memcpy(bytes + ip.addresses + i * ip.size, end->ip, ip.size);
        memcpy(bytes + header + i * sizeof end->port, &end->port, sizeof end->port);
    }
    return (sl_bytes){bytes, header + captured, length};
}

void mos_packet_again(struct mos_flow *flow, unsigned from, enum mos_again what)
{
    struct mos_context *context = flow->context;
    struct mos_packet *packet = &context->packet;
    const enum mos_again outer = packet->again;
    const struct sl_frame *frame = packet->source;
    packet->again = what;
    context->enter(context, frame, as_of_flow(flow, from, context->again));
    packet->again = outer;
    packet->there = false;
    packet->flow = NULL;
}
