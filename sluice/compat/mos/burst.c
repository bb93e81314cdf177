/* The packets of a burst, one after the other: each leaves, as the callbacks have left it, before time goes on to the next. */
#include "loop.h"

static int device_of(const struct sl_frame *frame)
{
    return mos_here->inputs[frame->port].device;
}

/* A packet of the burst goes where its device's packets go: as the callbacks left it, or, without a callback, as it came. */
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

/* Packets up to number i of the burst: each leaves before time goes on to the next one. */
static void go_on_to(struct mos_context *context, size_t i)
{
    struct mos_burst *burst = &mos_here->burst;
    while (burst->timed <= i && !mos_stopped()) {
        if (burst->left < burst->timed)
            leave(context, burst->left++);
        mos_here->now = sl_max(mos_here->now, burst->frames[burst->timed].time);
        mos_advance(mos_here->contexts, mos_here->count, mos_here->now);
        mos_sockets_free_closed(context);
        burst->timed += !mos_stopped();
    }
}

bool mos_packet_begin(struct mos_context *context, const struct sl_frame *frame)
{
    struct mos_packet *packet = &context->packet;
    if (packet->source == frame)
        return !mos_stopped();
    go_on_to(context, (size_t)(frame - mos_here->burst.frames));
    *packet = (struct mos_packet){.memory = packet->memory, .bytes = (uint8_t *)(uintptr_t)frame->at, .frame = *frame,
                                  .source = frame, .device = device_of(frame)};
    packet->frame.captured = (uint32_t)sl_min(frame->captured, MOS_FRAME_MOST);
    return !mos_stopped();
}

void mos_burst_begin(const struct sl_frame *frames) { mos_here->burst = (struct mos_burst){.frames = frames}; }

void mos_burst_end(struct mos_context *context, size_t count)
{
    if (count)
        go_on_to(context, count - 1);
    if (mos_here->burst.left < mos_here->burst.timed)
        leave(context, mos_here->burst.left);   /* the last, or the one during which it was stopped */
    context->packet.source = NULL;
    mos_sockets_free_closed(context);
}
