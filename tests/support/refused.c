/* Reports the requests for memory that failed while packets were processed, and the memory that is left at the end. */
#include "sluice.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"   /* it reads the box's own memory (core/box.h) */

/* A function handles an event. */
SLUICE_ON(any, gap) {
    (void)event;
    (void)data;
}

SLUICE_CLOSE {
    sl_report(box, "pool refused", box->pool.refused);
    sl_report(box, "pool left", box->pool.used);
}
