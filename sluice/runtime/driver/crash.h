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

/* For crashes of processes, too. */
enum { SL_FAULTS = 6, SL_FAULT_STACK = 1 << 16 };
struct sigaction;

/* Lets a handler take each signal of a fault, in any thread, until it calls sl_fault_ends. actions: gets the actions before, SL_FAULTS of them; or NULL. */
void sl_faults_handle(void (*handler)(int), struct sigaction *actions);

/* Ends the process by the signal of a fault. */
void sl_fault_ends(int number);

/* Unblocks these signals in the calling thread. of_handler: its stack, of SL_FAULT_STACK bytes, as the fault may be that the
 * thread's own is used up; NULL: none. */
void sl_faults_unblock(void *of_handler);

/* The calling thread does something with the box of this worker; NULL: not any more. */
void sl_crash_busy(const struct sl_worker *worker);

#endif
