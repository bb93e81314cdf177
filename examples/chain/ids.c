/* Looks for an SQL injection, in connections of HTTP alone: of others it gets no bytes. */
#include "sluice.h"

#include "applications.h"

SLUICE_INLINE
SLUICE_PUBLISH(alert, { uint64_t offset; })
SLUICE_COUNTER(searched, "bytes that were looked at")

static void search(const struct sl_event *event, sl_bytes bytes, uint64_t offset) {
    static const char pattern[] = "UNION SELECT";
    const uint32_t length = sizeof pattern - 1;
    SLUICE_COUNTER_OF(event->box, searched) += bytes.captured;
    for (uint32_t i = 0; i + length <= bytes.captured; i++) {
        if (memcmp(bytes.at + i, pattern, length) == 0) {
            SLUICE_EMIT(event, alert, .offset = offset + i);
            SLUICE_DROP(event->box);
            return;
        }
    }
}

SLUICE_ON(chain, application) {
    if (data->kind != APPLICATION_HTTP)
        return;
    search(event, data->start, 0);
    SLUICE_REGISTER_FLOW(event, tcp, data);   /* from the next packet on */
}
SLUICE_ON_DEMAND(tcp, data) {
    if (event->side == 0)
        search(event, data->bytes, data->offset);
}
