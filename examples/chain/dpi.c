/* Says which application a connection carries, by the first bytes of its client. */
#include "sluice.h"

#include "applications.h"

SLUICE_PUBLISH(application, { uint32_t kind; sl_bytes start; })
SLUICE_PUBLISH_AS(application, web, { sl_bytes method; })   /* a subscriber to `application` receives it, too */

SLUICE_ON(tcp, data) {
    if (data->offset || event->side)
        return;
    const uint8_t *space = memchr(data->bytes.at, ' ', data->bytes.captured);
    if (data->bytes.captured > 4 && space && memcmp(space, " /", 2) == 0)
        SLUICE_EMIT(event, web, .kind = APPLICATION_HTTP, .start = data->bytes,
                    .method = sl_bytes_slice(data->bytes, 0, (uint64_t)(space - data->bytes.at)));
    else
        SLUICE_EMIT(event, application, .kind = APPLICATION_UNKNOWN, .start = data->bytes);
}
