/* Reads every byte that events carry, so that sanitizers and guard pages detect invalid reads; counts calls. */
#include "sluice.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"   /* it reads the box's own memory (core/box.h) */

struct touched {
    uint64_t calls, bytes;
    uint8_t all;
};
SLUICE_WORKER(struct touched)

static void touch(struct touched *touched, sl_bytes bytes) {
    for (uint32_t i = 0; i < bytes.captured; i++)
        touched->all ^= bytes.at[i];
    touched->bytes += bytes.captured;
    touched->calls++;
}

SLUICE_ON(any, created) {
    SLUICE_WORKER_OF(event->box)->calls++;
}

SLUICE_ON(any, packet) {
    SLUICE_WORKER_OF(event->box)->calls++;
}

SLUICE_ON(any, data) {
    touch(SLUICE_WORKER_OF(event->box), data->bytes);
}

SLUICE_ON(any, rexmit) {
    touch(SLUICE_WORKER_OF(event->box), data->new_bytes);
    touch(SLUICE_WORKER_OF(event->box), data->old);
}

SLUICE_ON(any, out_of_wnd) {
    SLUICE_WORKER_OF(event->box)->calls++;
}

SLUICE_ON(any, gap) {
    SLUICE_WORKER_OF(event->box)->calls += data->length != 0;
}

SLUICE_ON(any, end) {
    SLUICE_WORKER_OF(event->box)->calls++;
}

SLUICE_CLOSE {
    const struct touched *touched = SLUICE_WORKER_OF(box);
    __asm__ volatile("" : : "r"((uint64_t)touched->all));   /* so that the reads are not optimised away */
    sl_report(box, "touched calls", touched->calls);
    sl_report(box, "touched bytes", touched->bytes);
    sl_report(box, "pool left", box->pool.used);
}
