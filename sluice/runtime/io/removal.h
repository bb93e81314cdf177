/* Interfaces that are removed while a source receives from them, and perhaps made again with their name: what the back ends
 * for interfaces have in common. */
#ifndef SL_IO_REMOVAL_H
#define SL_IO_REMOVAL_H

#include "io/source.h"

/* All 0 at first, but for `awaits`. Times: nanoseconds of the monotonic clock. */
struct sl_removal {
    bool awaits;                  /* a removed interface is waited for; else it is a fault */
    bool gone;                    /* nothing is received any more */
    uint64_t removals, returns;   /* how often it was removed, and received from again */
    uint64_t examined;            /* when it was looked at, the last time */
    uint64_t tried;               /* since when it is there, and cannot be opened; 0: it is not there */
};

/* Is it removed, and not received from again yet? */
static inline bool sl_is_removed(const struct sl_removal *removal) { return removal->removals != removal->returns; }

/* Is the interface to be looked at: so many nanoseconds after the last time? If so, `examined` is the time. */
bool sl_removal_due(struct sl_removal *removal, uint64_t nanoseconds);

/* It was removed. Returns 0 if it is waited for; else SL_SOURCE_FAULT, with the fault. */
int32_t sl_removal_begins(struct sl_removal *removal, struct sl_source *source);

/* It is received from again. */
void sl_removal_ends(struct sl_removal *removal);

/* While it is removed, when sl_removal_due: opens the interface, if one of its name is there. One that cannot be opened for
 * two seconds is a fault, which `again` has recorded, as nothing would ever be received. again: returns 0, or -1; it may set
 * `gone`, if it is not to be called any more. */
int32_t sl_removal_try(struct sl_removal *removal, struct sl_source *source, bool there, int (*again)(struct sl_source *));

/* Fills in the counters; for another thread, too. */
void sl_removal_statistics(const struct sl_removal *removal, struct sl_source_statistics *out);

#endif
