/* Which worker has what a key finds, for packets with several keys: the connection in a tunnel and the tunnel, or a
 * connection with further keys. The thread that receives packets learns it from the packets alone.
 *
 * All keys of a packet belong to the worker that gets it. A packet goes where the outermost of its known keys is; so a
 * new connection goes to the worker of its tunnel, and a new tunnel to the worker of a connection in it. Only a packet
 * of two that are known, and have different workers, is divided: the outermost one decides, and the packet is counted.
 *
 * The memory has a bound. Where it is full, the key that was seen longest ago is forgotten, and goes then where the hash
 * of the packet leads (NAME_worker). */
#ifndef SL_HOMES_H
#define SL_HOMES_H

#include "core/path_keys.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_HOMES_IN_LINE = 8, SL_HOMES_LINES = 1 << 17 };

/* Eight keys that share a cache line, the one that was seen last first. */
struct sl_homes_line {
    uint64_t keys[SL_HOMES_IN_LINE];   /* see homes.c; 0: none */
};

struct sl_homes {
    struct sl_homes_line *lines;
    uint64_t divided;     /* packets with keys of two workers */
    /* What was not learned: keys that another one needed the room of; keys of packets with more than SL_PATH_KEYS_MOST;
     * packets of files with a key for which homes_scan.c had no room. */
    uint64_t forgotten, left_out, not_scanned;
};

/* False without memory. */
bool sl_homes_open(struct sl_homes *homes);

/* Prefetches what sl_homes_choose reads. */
static inline void sl_homes_prefetch(const struct sl_homes *homes, const struct sl_path_keys *keys)
{
    for (unsigned i = 0; i < keys->count; i++)
        __builtin_prefetch(&homes->lines[keys->hash[i] % SL_HOMES_LINES]);
}

/* The worker of a packet with these keys, which all have it from now on. otherwise: where it goes if none is known. At
 * most 1024 workers. */
unsigned sl_homes_choose(struct sl_homes *homes, const struct sl_path_keys *keys, unsigned otherwise);

/* A worker has this key, as was found otherwise (homes_scan.h). */
void sl_homes_put(struct sl_homes *homes, uint64_t hash, unsigned worker, enum sl_key_use use);

void sl_homes_close(struct sl_homes *homes);

#ifdef __cplusplus
}
#endif

#endif
