/* What one instance may not get wrong: each connection takes a number from a list, and reads one that all change. */
#include "sluice.h"

struct claim { uint64_t number, sum; };

SLUICE_SHARED(numbers, list, all, read_write, recover, "numbers that are free")
SLUICE_SHARED(epoch, number, all, read_mostly, recover, "connections so far")
SLUICE_SHARED(claim, struct claim, flow, read_write, recover, "a connection's number, and the sum of what it has read")

SLUICE_ON(tcp, packet) {
    struct sl_object *object = event->instance ? SLUICE_SHARED_OF(event, claim) : NULL;
    bool known = sl_shared_present(object);
    struct claim *claim = sl_shared_struct(object);
    int64_t number = 0, now = 0;
    if (!claim)
        return;
    if (!known) {
        sl_shared_pop(SLUICE_SHARED_ALL(event->box, numbers), &number);
        sl_shared_add(SLUICE_SHARED_ALL(event->box, epoch), 1, NULL);
        claim->number = (uint64_t)number;
    }
    sl_shared_read(SLUICE_SHARED_ALL(event->box, epoch), &now);
    claim->sum += (uint64_t)now;
    sl_shared_put(object);
}

SLUICE_OPEN { return sl_shared_fill(SLUICE_SHARED_ALL(box, numbers), 1, 1000) == SL_STORE_DONE ? 0 : -1; }
