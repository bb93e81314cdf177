#define _GNU_SOURCE
#include "io/removal.h"

#include <time.h>

enum { TRIED = 2000 * 1000 * 1000 };   /* nanoseconds for which it is tried again to open an interface that was made again */

bool sl_removal_due(struct sl_removal *removal, uint64_t nanoseconds)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);   /* no wait changes when the host's time is set */
    const uint64_t now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    if (now - removal->examined < nanoseconds)
        return false;
    removal->examined = now;
    return true;
}

int32_t sl_removal_begins(struct sl_removal *removal, struct sl_source *source)
{
    if (removal->awaits) {
        __atomic_store_n(&removal->removals, removal->removals + 1, __ATOMIC_RELAXED);
        return 0;
    }
    removal->gone = true;
    sl_source_fail(source, "the interface is gone");
    return SL_SOURCE_FAULT;
}

void sl_removal_ends(struct sl_removal *removal)
{
    removal->tried = 0;
    __atomic_store_n(&removal->returns, removal->returns + 1, __ATOMIC_RELAXED);
}

int32_t sl_removal_try(struct sl_removal *removal, struct sl_source *source, bool there, int (*again)(struct sl_source *))
{
    if (!there) {
        removal->tried = 0;
        return 0;
    }
    removal->tried = removal->tried ? removal->tried : removal->examined;
    if (again(source)) {
        removal->gone = removal->gone || removal->examined - removal->tried >= TRIED;
        return removal->gone ? SL_SOURCE_FAULT : 0;
    }
    source->fault[0] = 0;
    sl_removal_ends(removal);
    return 0;
}

void sl_removal_statistics(const struct sl_removal *removal, struct sl_source_statistics *out)
{
    out->removals = __atomic_load_n(&removal->removals, __ATOMIC_RELAXED);
    out->returns = __atomic_load_n(&removal->returns, __ATOMIC_RELAXED);
}
