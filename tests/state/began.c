/* Counts what marks.c publishes, by connection and by host. */
#include "sluice.h"

struct sides { uint64_t seen; };

SLUICE_SHARED(sides, struct sides, flow, read_mostly, recover, "sides of a connection that have sent data")
SLUICE_SHARED(starts, counter, src, write_mostly, recover, "bytes at the beginning, by host")
SLUICE_SHARED(order, list, all, read_write, recover, "packets with such bytes, as they came")

SLUICE_ON(chain, began) {
    struct sl_object *object = SLUICE_SHARED_OF(event, sides);
    struct sides *sides = sl_shared_struct(object);
    if (!sides)
        return;
    sides->seen |= 1u << data->side;
    sl_shared_put(object);
    sl_shared_add(SLUICE_SHARED_OF(event, starts), (int64_t)data->start.length, NULL);
    sl_shared_push(SLUICE_SHARED_ALL(event->box, order), (int64_t)sl_packet_number(event));
}
