/* Each connection has a number from a list, as a port of a NAT, and gives it back at its end. */
#include "sluice.h"

struct take { uint64_t number, packets; };

SLUICE_SHARED(numbers, list, all, read_write, recover, "numbers that are free")
SLUICE_SHARED(taken, counter, all, write_mostly, recover, "numbers that were taken")
SLUICE_SHARED(take, struct take, flow, read_write, recover, "the number of a connection, and its packets")
SLUICE_SHARED(sum, number, src, read_write, recover, "of the numbers that a host had")

SLUICE_ON(tcp, packet) {
    struct sl_object *object = event->instance ? SLUICE_SHARED_OF(event, take) : NULL;
    bool known = sl_shared_present(object);
    struct take *take = sl_shared_struct(object);
    int64_t number = 0;
    if (!take)
        return;
    if (!known) {
        sl_shared_pop(SLUICE_SHARED_ALL(event->box, numbers), &number);
        sl_shared_add(SLUICE_SHARED_ALL(event->box, taken), 1, NULL);
        sl_shared_add(SLUICE_SHARED_OF(event, sum), number, NULL);
        take->number = (uint64_t)number;
    }
    take->packets++;
    sl_shared_put(object);
}

SLUICE_ON(tcp, end) {
    struct sl_object *object = event->instance && data->reason != SL_END_EOF ? SLUICE_SHARED_OF(event, take) : NULL;
    const struct take *take = sl_shared_struct(object);
    if (take && take->number)
        sl_shared_push(SLUICE_SHARED_ALL(event->box, numbers), (int64_t)take->number);
    sl_shared_drop(object);
}

SLUICE_OPEN { return sl_shared_fill(SLUICE_SHARED_ALL(box, numbers), 1, 1000) == SL_STORE_DONE ? 0 : -1; }
