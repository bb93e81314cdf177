/* A searcher of payload, written for Sluice: counts the pieces of streams in which a text is. */
#include "sluice.h"

#include <stddef.h>

void *memmem(const void *in, size_t length, const void *what, size_t size);   /* GNU's: declared with _GNU_SOURCE only */

static const char text[] = "no such text";
SLUICE_COUNTER(found, "pieces of streams with the text")
SLUICE_COUNTER(bytes, "searched")

SLUICE_ON(tcp, data) {
    SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.captured;
    if (memmem(data->bytes.at, data->bytes.captured, text, sizeof text - 1))
        SLUICE_COUNTER_OF(event->box, found)++;
}
