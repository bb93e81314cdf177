/* Each connection notes a limit as of its last packet. It is changed from outside: the store calls back. */
#include "sluice.h"

SLUICE_PARAMETER(from, number, 1000000000, "the packet from which on the limit is 7")

struct note { uint64_t limit; };

SLUICE_SHARED(limit, number, all, read_mostly, recover, "what is changed from outside")
SLUICE_SHARED(note, struct note, flow, read_write, recover, "the limit as of the last packet of a connection")

SLUICE_ON(tcp, packet) {
    struct sl_object *object = event->instance ? SLUICE_SHARED_OF(event, note) : NULL;
    struct note *note = sl_shared_struct(object);
    int64_t limit = 0;
    if (!note)
        return;
    sl_shared_read(SLUICE_SHARED_ALL(event->box, limit), &limit);
    bool changed = sl_packet_number(event) >= (uint64_t)SLUICE_PARAMETER_OF(event->box, from);
    note->limit = changed ? 7 : (uint64_t)limit;
    sl_shared_put(object);
}
