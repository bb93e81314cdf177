/* Drops what is sent to a port, and publishes the first packet of each connection that it refuses. */
#include "sluice.h"

SLUICE_INLINE
SLUICE_PARAMETER(port, number, 23, "that may not be reached")
SLUICE_PUBLISH(blocked, { uint16_t port; })
SLUICE_COUNTER(packets, "dropped")

SLUICE_ON(tcp, packet) {
    uint16_t port = (uint16_t)sl_load_be16(event->unit.at + 2);
    if (port != SLUICE_PARAMETER_OF(event->box, port))
        return;
    if (event->unit.at[13] & 2)   /* a SYN */
        SLUICE_EMIT(event, blocked, .port = port);
    SLUICE_COUNTER_OF(event->box, packets)++;
    SLUICE_DROP(event->box);
}
