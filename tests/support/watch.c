/* Reports what no event contains: the peak memory of sequences, and the memory that is left at the end. */
#include "sluice.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"   /* it reads the box's own memory (core/box.h) */

struct watch {
    uint64_t most;
};
SLUICE_WORKER(struct watch)

SLUICE_ON(any, packet) {
    struct watch *watch = SLUICE_WORKER_OF(event->box);
    if (event->box->pool.used > watch->most)
        watch->most = event->box->pool.used;
}

SLUICE_CLOSE {
    sl_report(box, "pool at most", SLUICE_WORKER_OF(box)->most);
    sl_report(box, "pool left", box->pool.used);
}
