/* Counts connections that were silent for a while, by a timer of each, and when that was. */
#include "sluice.h"

SLUICE_PARAMETER(wait, seconds, 0.3, "of silence")

struct lapse { uint64_t packets; };

SLUICE_SHARED(seen, struct lapse, flow, read_mostly, recover, "packets of a connection")
SLUICE_SHARED(lapsed, counter, all, write_mostly, recover, "connections that were silent")
SLUICE_SHARED(by_host, number, src, read_write, recover, "packets of such connections of a host")
SLUICE_SHARED(when, map, all, read_write, recover, "by packet, before which a timer fired: how many did")

SLUICE_ON(tcp, packet) {
    if (!event->instance)
        return;
    struct sl_object *object = SLUICE_SHARED_OF(event, seen);
    struct lapse *seen = sl_shared_struct(object);
    if (!seen)
        return;
    seen->packets++;
    sl_shared_put(object);
    SLUICE_ARM(event, tcp, silence, (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9));
}

SLUICE_TIMER(tcp, silence) {
    const struct lapse *seen = sl_shared_struct(SLUICE_SHARED_OF(event, seen));
    int64_t sum;
    sl_shared_add(SLUICE_SHARED_ALL(event->box, lapsed), 1, NULL);
    sl_shared_add(SLUICE_SHARED_OF(event, by_host), seen ? (int64_t)seen->packets : 0, NULL);
    sl_shared_map_add(SLUICE_SHARED_ALL(event->box, when), (int64_t)sl_packet_number(event), 1, &sum);
}

SLUICE_ON(tcp, end) {
    if (event->instance && data->reason != SL_END_EOF)
        sl_shared_drop(SLUICE_SHARED_OF(event, seen));
}
