/* Finds the worker of each key of a capture before its packets are processed, so that none is divided: keys that one
 * packet uses, and all that are joined with them by others, go to one worker.
 *
 *     struct sl_homes_scan *scan = sl_homes_scan_open(tcp_ip_worker, tcp_ip_path, 4, seed);
 *     while (sl_homes_scan_step(scan, source, 1 << 20)) ...
 *     sl_homes_scan_close(scan, &workers.homes);
 *
 * The source is read to its end; another one of the same files gives the packets then. */
#ifndef SL_HOMES_SCAN_H
#define SL_HOMES_SCAN_H

#include "driver/homes.h"
#include "driver/workers.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_homes_scan;

/* NULL without memory. */
struct sl_homes_scan *sl_homes_scan_open(sl_worker_function worker, sl_path_function path, unsigned workers, uint64_t seed);

/* Reads at most so many packets, and at least one burst. False at the end of the source. There is room for half as many keys
 * as struct sl_homes has places; packets with others are counted, and these keys are learned from the packets on the way. */
bool sl_homes_scan_step(struct sl_homes_scan *scan, struct sl_source *in, uint64_t most);

/* Gives what was found to `homes`, which is opened where it is not, and frees the scan. homes may be NULL. False without
 * memory. */
bool sl_homes_scan_close(struct sl_homes_scan *scan, struct sl_homes *homes);

#ifdef __cplusplus
}
#endif

#endif
