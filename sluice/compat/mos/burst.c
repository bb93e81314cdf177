/* The packets of a burst, one after the other: each is sent, with the callbacks' changes, before time advances to the next. */
#include "loop.h"

#include "function/checksum_fix.h"

static int device_of(const struct sl_frame *frame)
{
    return mos_here->inputs[frame->port].device;
}

/* A packet of the burst is sent where its device's packets are: with the callbacks' changes, or unchanged. */
static void leave(struct mos_context *context, size_t i)
{
    const struct sl_frame *frame = &mos_here->burst.frames[i];
    struct mos_packet *packet = &context->packet;
    const bool seen = packet->source == frame;
    packet->source = NULL;
    if (!mos_here->forwards || !mos_forwards(&mos_here->outputs, device_of(frame), frame->link_type) || (seen && packet->dropped))
        return;
    struct sl_frame out = seen ? packet->frame : *frame;
    if (out.flags & SL_FRAME_CHECKSUM_PARTIAL)
        mos_frame_complete(&out, packet->memory);
    mos_output(&mos_here->outputs, device_of(frame), &out);
}

/* Finds an IP packet in a frame, as the stack does. False where there is none. */
static bool find_ip(const struct mos_context *context, const struct sl_frame *frame, sl_bytes *out)
{
    struct sl_ip_place place;
    bool is_ip;
    const uint32_t at = sl_frame_ip(frame, &is_ip);
    if (!is_ip || !sl_ip_read(frame, at, &place) || (place.version == 6 && !context->ipv6))
        return false;
    *out = (sl_bytes){frame->at + at, frame->captured - at, frame->length - at};
    return true;
}

/* The segment in an unfragmented packet. */
static void find_tcp(struct mos_packet *packet, sl_bytes unit)
{
    const struct mos_ip ip = mos_ip_of(unit.at);
    const uint32_t total = ip.total || !ip.six ? ip.total : unit.length;
    const uint32_t length = (uint32_t)sl_min(sl_max(total, ip.header), unit.captured);
    if (!ip.fragment && ip.protocol == IPPROTO_TCP && length >= ip.header + sizeof(struct tcphdr)) {
        packet->tcp = packet->ip + ip.header;
        packet->tcp_length = length - ip.header;
        packet->tcp_wire = (uint32_t)sl_max(total, length) - ip.header;
    }
}

/* A packet of the burst becomes the current one. */
static void take(struct mos_context *context, const struct sl_frame *frame)
{
    struct mos_packet *packet = &context->packet;
    *packet = (struct mos_packet){.memory = packet->memory, .bytes = (uint8_t *)(uintptr_t)frame->at, .frame = *frame,
                                  .source = frame, .device = device_of(frame)};
    packet->frame.captured = (uint32_t)sl_min(frame->captured, MOS_FRAME_MOST);
}

static void set_ip(struct mos_packet *packet, sl_bytes unit)
{
    packet->ip = (uint8_t *)(uintptr_t)unit.at;
    packet->ip_length = unit.captured;
}

/* For raw sockets, which get packets as they are on the wire. */
static void raise_raw(struct mos_context *context, const struct sl_frame *frame, sl_bytes unit)
{
    struct mos_packet *packet = &context->packet;
    take(context, frame);
    set_ip(packet, unit);
    find_tcp(packet, unit);
    mos_packet_read(packet);
    packet->there = true;
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        if (monitor->type == MOS_SOCK_MONITOR_RAW && mos_filter_accepts(monitor->raw, &packet->frame))
            mos_raise(context, monitor, MOS_SIDE_BOTH, MOS_AT_NULL, MOS_ON_PKT_IN);
    packet->there = false;
}

/* Packets up to number i of the burst: each is sent before time advances to the next one. */
static void go_on_to(struct mos_context *context, size_t i)
{
    struct mos_burst *burst = &mos_here->burst;
    while (burst->timed <= i && !mos_stopped()) {
        const struct sl_frame *frame = &burst->frames[burst->timed];
        if (burst->left < burst->timed)
            leave(context, burst->left++);
        mos_here->now = sl_max(mos_here->now, frame->time);
        mos_advance(mos_here->contexts, mos_here->count, mos_here->now);
        mos_sockets_free_closed(context);
        burst->timed += !mos_stopped();
        sl_bytes unit;
        if (context->raw && !context->tunnels && !mos_stopped() && find_ip(context, frame, &unit))
            raise_raw(context, frame, unit);
    }
}

bool mos_packet_pass(struct mos_context *context, const struct sl_frame *frame)
{
    struct mos_run *run = context->run;
    struct mos_burst *burst = &run->burst;
    const size_t i = (size_t)(frame - burst->frames);
    if (run->forwards || context->raw || context->closed)
        return false;
    const bool reached = burst->timed == i + 1 && burst->left == i;   /* by mos_burst_reaches */
    if (!reached && (burst->timed != i || !mos_time_passes(run->contexts, run->count, frame->time)))
        return false;
    run->now = sl_max(run->now, frame->time);
    context->packet.source = NULL;
    burst->timed = burst->left = i + 1;
    return true;
}

void mos_packet_carries(struct mos_context *context, const struct sl_frame *frame, sl_bytes ip)
{
    struct mos_unit *unit = &context->unit;
    *unit = (struct mos_unit){frame, ip, unit->frame == frame ? unit->depth + 1 : 1};
    if (unit->depth > 1 || !context->raw)
        return;
    go_on_to(context, (size_t)(frame - mos_here->burst.frames));
    if (!mos_stopped())
        raise_raw(context, frame, ip);
}

/* The IP packet that the segment came in: in a tunnel the inner one, and where there were fragments the last. */
static bool find_carrier(struct mos_context *context, const struct sl_frame *frame)
{
    struct mos_packet *packet = &context->packet;
    sl_bytes ip = context->unit.ip;
    packet->inner = context->tunnels && context->unit.depth > 1;
    if (context->tunnels ? context->unit.frame != frame : !find_ip(context, frame, &ip))
        return false;
    set_ip(packet, ip);
    return true;
}

bool mos_packet_begin(struct mos_context *context, const struct sl_frame *frame, sl_bytes tcp)
{
    struct mos_packet *packet = &context->packet;
    go_on_to(context, (size_t)(frame - mos_here->burst.frames));
    if (mos_stopped())
        return false;
    if (packet->source != frame)
        take(context, frame);
    if (!find_carrier(context, frame))
        return false;
    packet->tcp = (uint8_t *)(uintptr_t)tcp.at;
    packet->tcp_length = tcp.captured;
    packet->tcp_wire = tcp.length;
    packet->offset = 0;
    mos_packet_read(packet);
    return true;
}

void mos_burst_begin(struct mos_context *context, const struct sl_frame *frames)
{
    mos_here->burst = (struct mos_burst){.frames = frames};
    context->unit.frame = NULL;
}

bool mos_burst_is_still(const struct sl_frame *frames, size_t count)
{
    uint64_t first = SL_NEVER, last = mos_here->now;
    for (size_t i = 0; i < count; i++) {
        first = sl_min(first, frames[i].time);
        last = sl_max(last, frames[i].time);
    }
    const struct mos_context *context = mos_here->contexts[0];
    const uint64_t wait = context->time_wait.after ? sl_min(context->open.after, context->time_wait.after) : context->open.after;
    return context->started && mos_next_due(mos_here->contexts, mos_here->count) > last && last - sl_min(first, last) < wait;
}

bool mos_burst_reaches(struct mos_context *context, size_t i)
{
    go_on_to(context, i);
    return !mos_stopped();
}

void mos_burst_end(struct mos_context *context, size_t count)
{
    if (count)
        go_on_to(context, count - 1);
    if (mos_here->burst.left < mos_here->burst.timed)
        leave(context, mos_here->burst.left);   /* the last, or the one during which it was stopped */
    context->packet.source = NULL;
    mos_sockets_free_closed(context);
}
