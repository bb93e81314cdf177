/* Decides and stores by random numbers and by time: drops packets by chance, and stores what it drew. */
#include "sluice.h"

SLUICE_INLINE

struct drawn { uint64_t numbers, time, last; };

SLUICE_SHARED(drawn, struct drawn, flow, read_write, recover, "what a connection drew, and when")
SLUICE_SHARED(dropped, number, src, read_write, recover, "packets of a source that were dropped by chance")
SLUICE_SHARED(silent, number, all, read_write, recover, "a sum of what timers drew")
SLUICE_SHARED(ended, number, all, read_write, recover, "a sum of what ends drew")

static int64_t small(uint64_t number) { return (int64_t)(number >> 32); }

SLUICE_ON(tcp, packet) {
    if (!event->instance)
        return;
    struct sl_object *object = SLUICE_SHARED_OF(event, drawn);
    struct drawn *drawn = sl_shared_struct(object);
    if (!drawn)
        return;
    uint64_t first = sl_random(event), second = sl_random(event);
    drawn->numbers = drawn->numbers * 3 + first;
    drawn->last = second;
    drawn->time = sl_now(event->box);
    sl_shared_put(object);
    SLUICE_ARM(event, tcp, silence, 100000000 + first % 400000000);
    int64_t now;
    if (second % 8 == 0 && SLUICE_DROP(event->box))
        sl_shared_add(SLUICE_SHARED_OF(event, dropped), 1 + (int64_t)(sl_packet_time(event) % 7), &now);
}

SLUICE_TIMER(tcp, silence) {
    sl_shared_add(SLUICE_SHARED_ALL(event->box, silent), small(sl_random(event) ^ sl_now(event->box)), NULL);
}

SLUICE_ON(tcp, end) {
    if (!event->instance)
        return;
    sl_shared_add(SLUICE_SHARED_ALL(event->box, ended), small(sl_random(event)), NULL);
    if (data->reason != SL_END_EOF)
        sl_shared_drop(SLUICE_SHARED_OF(event, drawn));
}
