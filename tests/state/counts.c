/* Counts without waiting for the store: of all packets, of those of a source, and of each connection. */
#include "sluice.h"

struct of_flow { uint64_t packets; };

SLUICE_SHARED(all, counter, all, write_mostly, recover, "packets of all connections")
SLUICE_SHARED(of_source, number, src, read_write, recover, "packets of the connections that a host opened")
SLUICE_SHARED(of_flow, struct of_flow, flow, read_write, recover, "packets of a connection")

SLUICE_ON(tcp, packet) {
    if (!event->instance)
        return;
    int64_t now;
    sl_shared_add(SLUICE_SHARED_ALL(event->box, all), 1, NULL);
    sl_shared_add(SLUICE_SHARED_OF(event, of_source), 1, &now);
    struct sl_object *object = SLUICE_SHARED_OF(event, of_flow);
    struct of_flow *of_flow = sl_shared_struct(object);
    if (of_flow) {
        of_flow->packets++;
        sl_shared_put(object);
    }
}

SLUICE_ON(tcp, end) {
    if (event->instance && data->reason != SL_END_EOF)
        sl_shared_drop(SLUICE_SHARED_OF(event, of_flow));
}
