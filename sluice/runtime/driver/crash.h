/* Crashes of workers that are threads: the box ends, as they share its memory, after a line on standard error that says which
 * function crashed, and on which packet; and with a core file, where the system makes any. Processes: isolated_worker.c. */
#ifndef SL_CRASH_H
#define SL_CRASH_H

#include "driver/worker.h"

/* Watches faults from now on, until sl_crash_unwatch. For the thread that starts workers. */
void sl_crash_watch(const struct sl_workers *workers);
void sl_crash_unwatch(void);

/* The calling thread begins, with the signals of faults unblocked; and ends. */
void sl_crash_enter(void);
void sl_crash_leave(void);

/* The calling thread does something with the box of this worker; NULL: not any more. */
void sl_crash_busy(const struct sl_worker *worker);

#endif
