/* Publishes the first bytes of each side of a connection. */
#include "sluice.h"

SLUICE_PUBLISH(began, { uint32_t side; sl_bytes start; })

SLUICE_ON(tcp, data) {
    if (!data->offset)
        SLUICE_EMIT(event, began, .side = event->side, .start = data->bytes);
}
