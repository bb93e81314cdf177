/* Memory that packets will want, asked for before they are processed: a group of them at a time, so that their misses
 * overlap (group prefetching: Chen et al., ICDE 2004).
 *
 * Three steps that each wait for nothing: the headers of the group after this one; the bucket of every look-up that the
 * ahead graphs of the stack foresee; the instance that the bucket, which has come by then, probably names. */
#ifndef SL_AHEAD_H
#define SL_AHEAD_H

#include "packet.h"
#include "table.h"

enum {
    SL_AHEAD_DEPTH = 8,   /* layers that are followed; a packet may have more */
    SL_WANTED_MOST = 4 * SL_GROUP,
    SL_HEADER_BYTES = 192,    /* of a packet that are asked for: two lines without a tunnel, with one often three */
    SL_INSTANCE_LINES = 4,    /* of an instance */
};

struct sl_wanted {
    struct sl_table *table;
    const struct sl_bucket *home;
    uint32_t hash, packet;
};

struct sl_ahead {
    uint32_t packet;   /* the current one's place in its group */
    uint32_t count;
    struct sl_wanted wanted[SL_WANTED_MOST];
};

/* The current packet will be looked up by this hash. */
SL_PREFETCH void sl_ahead_want(struct sl_ahead *ahead, struct sl_table *table, uint32_t hash) {
    const struct sl_bucket *home = sl_table_home(table, hash);
    __builtin_prefetch(home);
    if (ahead->count < SL_WANTED_MOST)
        ahead->wanted[ahead->count++] = (struct sl_wanted){table, home, hash, ahead->packet};
}

/* Asks for the instances of all that is wanted; then nothing is wanted any more. */
SL_PREFETCH void sl_ahead_instances(struct sl_ahead *ahead) {
    for (uint32_t i = 0; i < ahead->count; i++) {
        const struct sl_wanted *wanted = &ahead->wanted[i];
        sl_table_foresee(wanted->table, wanted->packet, wanted->home, wanted->hash, SL_INSTANCE_LINES);
    }
    ahead->count = 0;
}

/* Asks for where packets first to behind - 1 begin. */
SL_PREFETCH void sl_ahead_headers(const struct sl_frame *frames, size_t first, size_t behind) {
    for (size_t i = first; i < behind; i++)
        for (size_t at = 0; at < SL_HEADER_BYTES; at += 64)
            __builtin_prefetch((const void *)((uintptr_t)frames[i].at + at));   /* perhaps behind its end, or of none */
}

#endif
