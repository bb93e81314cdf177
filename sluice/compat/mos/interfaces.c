/* Interfaces that packets are forwarded between. */
#include "loop.h"

#include <poll.h>

enum {
    BURST = 256,   /* packets of an interface that are received at once */
    WAIT = 10,     /* milliseconds: how long timers and a stop may be delayed without packets */
};

bool mos_interfaces_forward(const struct mos_input *inputs, unsigned count)
{
    bool forwards = false;
    for (unsigned i = 0; i < count; i++) {
        if (!inputs[i].live)
            return false;
        forwards = forwards || inputs[i].forwards;
    }
    return forwards;
}

/* Packets of an interface that packets are forwarded from, but for those that this host itself sends there. */
static void process_received(struct sl_frame *frames, size_t count, const struct mos_input *input, unsigned number,
                             const struct mos_passed_on *on)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if ((frames[i].flags & SL_FRAME_OUTGOING) && input->forwards)
            continue;
        frames[kept] = frames[i];
        frames[kept++].port = (uint16_t)number;
    }
    on->packets(frames, kept);
}

/* Interfaces, one after the other: an answer arrives after its request has been forwarded, and to hold packets back until
 * those of the other interfaces are known to be later would delay every round trip. */
void mos_interfaces_run(const struct mos_input *inputs, unsigned count, const struct mos_passed_on *on)
{
    struct pollfd fds[MOS_DEVICES];
    for (unsigned i = 0; i < count; i++) {
        fds[i] = (struct pollfd){.fd = -1};
        inputs[i].source->back_end->descriptors(inputs[i].source, &fds[i], 1);
    }
    while (!mos_stopped()) {
        bool idle = true, open = false;
        for (unsigned i = 0; i < count; i++) {
            struct sl_frame frames[BURST];
            int32_t got = sl_source_receive(inputs[i].source, frames, BURST);
            if (got > 0)
                process_received(frames, (size_t)got, &inputs[i], i, on);
            sl_source_release(inputs[i].source);
            idle = idle && got <= 0;
            open = open || got >= 0;
            if (got < 0)
                fds[i].fd = -1;   /* its socket reports an error for ever, and poll would return at once */
        }
        if (!open)
            break;   /* no interface is left */
        on->time(sl_source_clock(inputs[0].source));
        if (idle)
            poll(fds, count, WAIT);
    }
}
