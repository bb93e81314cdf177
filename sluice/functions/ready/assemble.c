/* Reassembles both directions of all TCP and QUIC streams, and SCTP messages, and reads only the address and length of
 * each piece. This is the minimum work of any function on these bytes. Reports the number of deliveries and of
 * bytes. */
#include "sluice.h"

struct totals {
    uint64_t calls, bytes, touched;
};
SLUICE_WORKER(struct totals)

static inline void assemble_look(const struct sl_event *event, sl_bytes bytes) {
    struct totals *totals = SLUICE_WORKER_OF(event->box);
    totals->calls++;
    totals->bytes += bytes.captured;
    totals->touched ^= (uintptr_t)bytes.at;
}

SLUICE_ON(tcp, data) { assemble_look(event, data->bytes); }

SLUICE_ON(quic_stream, data) { assemble_look(event, data->bytes); }

SLUICE_ON(sctp_message, data) { assemble_look(event, data->bytes); }

SLUICE_CLOSE {
    const struct totals *totals = SLUICE_WORKER_OF(box);
    __asm__ volatile("" : : "r"(totals->touched));   /* prevents the compiler from eliminating `touched` */
    sl_report(box, "deliveries", totals->calls);
    sl_report(box, "delivered_bytes", totals->bytes);
}
