/* DPDK's environment abstraction layer (EAL), which is initialised once in a process. */
#ifndef SL_DPDK_EAL_H
#define SL_DPDK_EAL_H

#include <stddef.h>

/* Initialises it, unless it is already. options: of the user, separated by blanks, in place of the default ones, or NULL.
 * memory: MiB, for the default ones. Returns 0; or -1, with the reason in `why`. */
int sl_eal_start(const char *options, unsigned memory, char *why, size_t why_size);

/* What DPDK logged since sl_eal_forget: where it failed, the reasons. */
const char *sl_eal_logged(void);
void sl_eal_forget(void);

/* Gives the calling thread a number of its own, by which it gets a cache of packet buffers. */
void sl_eal_use_thread(void);

#endif
