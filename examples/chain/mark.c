/* Gives packets of TCP a service class. It runs beside the detection, as neither needs the other. */
#include "sluice.h"

SLUICE_INLINE
SLUICE_PARAMETER(dscp, number, 0, "RFC 2474: the class, from 0 to 63")
SLUICE_WRITES(ipv4, tos)

SLUICE_ON(ipv4, packet) {
    uint8_t tos = (uint8_t)(SLUICE_PARAMETER_OF(event->box, dscp) << 2 | (event->unit.at[1] & 3));
    if (event->unit.at[9] == 6)
        SLUICE_REWRITE(event->box, event->unit.at + 1, &tos, 1);
}
