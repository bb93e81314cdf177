/* Reassembles both directions of every stream and looks at where the bytes are and how many: the work that every
 * function on a stream has to do at least. Reports calls and bytes. */
#include "function.h"

struct totals {
    uint64_t calls, bytes, touched;
};
SLUICE_WORKER(struct totals)

SLUICE_ON(tcp, data) {
    struct totals *totals = SLUICE_WORKER_OF(event->box);
    totals->calls++;
    totals->bytes += data->bytes.captured;
    totals->touched ^= (uintptr_t)data->bytes.at;
}

SLUICE_CLOSE {
    const struct totals *totals = SLUICE_WORKER_OF(box);
    __asm__ volatile("" : : "r"(totals->touched));   /* so that the pointer is needed */
    sl_report(box, "deliveries", totals->calls);
    sl_report(box, "delivered_bytes", totals->bytes);
}
