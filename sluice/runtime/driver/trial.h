/* The trial of a new version of functions: a copy of the process that has it, made by fork, gets copies of the packets that
 * the box receives meanwhile. If it crashes, hangs or fails, the box keeps the old version, and has lost nothing. */
#ifndef SL_TRIAL_H
#define SL_TRIAL_H

#include "driver/workers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sends copies of packets to a socket of packets (SOCK_SEQPACKET). Returns how many were left out: they found no room, as the
 * copy of the process is slower than the packets come, or are larger than a message may be. */
uint64_t sl_trial_copy(int to, const struct sl_frame *frames, size_t count);

/* In the copy: processes packets until the sender closes the socket, or a function fails. Nothing is transmitted. Packets
 * are divided as by `workers`; NULL: all are of the driver's box. Returns the number of packets. */
uint64_t sl_trial_run(const struct sl_drive *drive, const struct sl_workers *workers, int from);

#ifdef __cplusplus
}
#endif

#endif
