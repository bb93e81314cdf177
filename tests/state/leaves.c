/* Each packet of a host is counted in a struct, which is left to the store each time, as the endpoints of a NAT. */
#include "sluice.h"

SLUICE_PARAMETER(drops, number, 0, "the packets after which a struct is dropped; 0: never")

struct seen { uint64_t packets; };

SLUICE_SHARED(seen, struct seen, dport, read_write, recover, "packets of the connections that have a port")

SLUICE_ON(tcp, packet) {
    if (!event->instance)
        return;
    uint64_t port = sl_part_number(sl_key_part_named(event->owner, "sport"), sl_event_half(event, 0));
    struct sl_object *object = SLUICE_SHARED_AT(event->box, seen, port);
    struct seen *seen = sl_shared_struct(object);
    if (!seen)
        return;
    seen->packets++;
    if (seen->packets == SLUICE_PARAMETER_OF(event->box, drops)) {
        sl_shared_drop(object);
        return;
    }
    sl_shared_put(object);
    sl_shared_leave_to_store(object);
}

SLUICE_CLOSE {
    uint32_t hand = 0;
    uint64_t remaining = 0;
    do
        remaining += sl_shared_next(SL_SHARED_NAMED(box, seen), &hand) != NULL;
    while (hand);
    sl_report(box, "remaining", remaining);
}
