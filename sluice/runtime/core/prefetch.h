/* Prefetches the memory that packets will need before they are processed, for a group of packets at a time, so that
 * their cache misses overlap (group prefetching: Chen et al., ICDE 2004).
 *
 * It works in steps, none of which waits for a miss: the headers of the next group; the bucket of every look-up that
 * the stack predicts; the instance that the bucket, which has arrived by then, probably refers to; and, while much data
 * is held, what the instance holds and what that points to. Each step prefetches little for each packet, and never
 * everything for a group at once: a core has few buffers for misses, and when they are full it waits for memory that it
 * does not need yet.
 *
 * These buffers belong to the first-level cache. Lines that come from memory, and not from another cache, are
 * prefetched into the second level, which has more buffers of its own: those of packets that lie apart (`apart`), and
 * of tables that are larger than the caches (a table's `near`). Lines that are in a cache are better prefetched into
 * the first level. */
#ifndef SL_PREFETCH_H
#define SL_PREFETCH_H

#include "core/packet.h"
#include "stream/sequence_state.h"
#include "core/table.h"

enum {
    SL_PREFETCH_DEPTH = 8,   /* layers that are looked ahead; a packet may have more */
    SL_WANTED_MAX = 4 * SL_GROUP,
    SL_INSTANCE_LEAD = 6,     /* an instance is prefetched so many packets before its packet is processed */
    SL_HELD_LEAD = 4,         /* the same for what its sequences hold */
    SL_INDEX_LEAD = 2,        /* the same for what that points to */
    SL_NEXT_FROM = 64,      /* a held packet with more bytes makes sl_lookahead_next prefetch the next ones, from
                               * this offset on */
    SL_HELD_MUCH = 1 << 20,   /* bytes of the pool in use, from which on held data is prefetched */
    SL_APART = 512,           /* bytes from one packet to the next, above which the hardware prefetcher does not help */
};

/* A look-up: the hash, and its home bucket. */
struct sl_each {
    const struct sl_bucket *home;   /* NULL: none */
    uint32_t hash;
};

struct sl_wanted {
    struct sl_table *table;
    const struct sl_bucket *home;   /* at the time of the prefetch: a table that grows splits buckets, but moves none */
    uint32_t hash, packet;
};

struct sl_lookahead {
    uint32_t packet;   /* place of the current packet in its group */
    uint32_t coming;   /* packets of the next burst, whose frames follow those of this one */
    uint32_t headers;  /* packets of the next group whose headers are prefetched during this one */
    bool held_much;    /* instances hold more than the caches can be expected to contain */
    bool apart;        /* packets lie so far apart, or in no order, that the hardware prefetcher does not predict the
                        * next one */
    uint32_t plain;    /* so many first packets of the group need, besides `each`, only the prefetch of one header of
                        * the next group */
    uint32_t others;   /* so many first packets of the group need other prefetches besides those for `each` */
    uint32_t count;    /* entries of `wanted` */
    const struct sl_wanted *predicted, *held, *indexed;   /* the first entry whose instance has not been prefetched; whose
                                                           * held data; and what that points to */
    struct sl_wanted wanted[SL_WANTED_MAX + 1];     /* in the order of packets; a sentinel for no packet follows the
                                                     * last one */
    /* By packet: the look-up in the table in which nearly every packet has one, if the stack has such a table; no list
     * is needed. The entries after the last packet are empty. */
    struct sl_each each[SL_GROUP + SL_INSTANCE_LEAD];
};

/* Records that the current packet will be looked up by this hash, and prefetches its home bucket. */
SL_PREFETCH void sl_lookahead_want(struct sl_lookahead *lookahead, struct sl_table *table, uint32_t hash) {
    const struct sl_bucket *home = sl_table_home(table, hash);
    sl_table_prefetch_home(table, home);
    if (lookahead->count < SL_WANTED_MAX)
        lookahead->wanted[lookahead->count++] = (struct sl_wanted){table, home, hash, lookahead->packet};
}

/* The same for the table in which nearly every packet is looked up. */
SL_PREFETCH void sl_lookahead_want_each(struct sl_lookahead *lookahead, const struct sl_table *table, uint32_t hash) {
    const struct sl_bucket *home = sl_table_home(table, hash);
    sl_table_prefetch_home(table, home);
    lookahead->each[lookahead->packet] = (struct sl_each){home, hash};
}

/* Records that the current packet may not be looked up in that table. */
static inline void sl_lookahead_want_none(struct sl_lookahead *lookahead) { lookahead->each[lookahead->packet].home = NULL; }

/* The current packet will be looked up by this key, which is usually the key of its neighbours: most packets of a
 * tunnel belong to one conversation. The key is hashed, and its bucket prefetched, only if it differs from the last
 * one, of which `wanted` is a copy. */
SL_PREFETCH void sl_lookahead_want_other(struct sl_lookahead *lookahead, struct sl_table *table, const uint64_t *key, unsigned key_words,
                                     uint64_t *wanted) {
    if (sl_key_same(wanted, key, key_words))
        return;
    memcpy(wanted, key, 8 * (size_t)key_words);
    sl_lookahead_want(lookahead, table, sl_table_hash(table, key, key_words));
}

/* Prefetches the bytes of a packet from offset `from` up to `to`, and no further line. `from` may lie beyond the end of
 * the packet, and the packet may be empty. `near`: see sl_prefetch. */
SL_PREFETCH void sl_lookahead_bytes(const uint8_t *at, uint32_t from, uint32_t to, bool near) {
    for (; from + 1 < to; from += 64)
        sl_prefetch((uintptr_t)at + from, near);
    sl_prefetch((uintptr_t)at + to - 1, near);
}

/* Prefetches the first `bytes` (at least 1) of a packet. */
SL_PREFETCH void sl_lookahead_header(const struct sl_frame *frame, unsigned bytes, bool near) {
    sl_lookahead_bytes(frame->at, 0, bytes, near);
}

/* Begins a burst of `count` packets: prefetches those headers of its first group that the last burst has not
 * prefetched. `header`: bytes that the stack's layers read of nearly every packet. */
SL_PREFETCH void sl_lookahead_burst(struct sl_lookahead *lookahead, const struct sl_frame *frames, size_t count, unsigned header) {
    for (size_t i = lookahead->headers; i < sl_min(SL_GROUP, count); i++)
        sl_lookahead_header(&frames[i], header, true);
    if (count > 1)   /* of one packet: unchanged; a step backwards, as at the end of a ring, counts as apart */
        lookahead->apart = (uintptr_t)frames[count - 1].at - (uintptr_t)frames[0].at > SL_APART * (count - 1);
    if (!count)
        lookahead->coming = 0;   /* it would be used for the burst after this empty one */
}

/* Begins a group of `count` packets, followed by `rest` more in the burst, with no look-ups recorded.
 * sl_lookahead_stage2 begins their stage 2. */
SL_PREFETCH void sl_lookahead_group(struct sl_lookahead *lookahead, const struct sl_frame *frames, size_t count, size_t rest,
                                unsigned header) {
    if (lookahead->apart)
        for (size_t i = 0; i < sl_min(count, lookahead->headers); i++)   /* these have arrived in the second level */
            sl_lookahead_header(&frames[i], header, true);
    lookahead->headers = (uint32_t)sl_min(count, rest ? rest : lookahead->coming);
    lookahead->count = 0;
    if (!rest)
        lookahead->coming = 0;
}

/* Stage 1 of the group is finished: no more look-ups are recorded. `held_much`: see struct sl_lookahead. */
static inline void sl_lookahead_stage2(struct sl_lookahead *lookahead, bool held_much) {
    lookahead->wanted[lookahead->count].packet = UINT32_MAX;
    lookahead->predicted = lookahead->held = lookahead->indexed = lookahead->wanted;
    lookahead->held_much = held_much;
    lookahead->others = held_much || lookahead->count ? SL_GROUP : lookahead->headers;
    lookahead->plain = held_much || lookahead->count || lookahead->apart ? 0 : lookahead->headers;
}

/* Prefetches the instance that a packet will need from the table of `each`. instance_bytes, a literal, is the table's
 * own. */
SL_PREFETCH void sl_lookahead_each(struct sl_lookahead *lookahead, struct sl_table *table, size_t packet, size_t instance_bytes) {
    const struct sl_each *each = &lookahead->each[packet];
    if (SL_LIKELY(each->home))
        sl_table_predict(table, (unsigned)packet, each->home, each->hash, instance_bytes);
}

/* Begins stage 2 of a group of `count` packets for that table. */
SL_PREFETCH void sl_lookahead_each_begin(struct sl_lookahead *lookahead, struct sl_table *table, size_t count, size_t instance_bytes) {
    for (size_t i = count; i < count + SL_INSTANCE_LEAD; i++)
        lookahead->each[i].home = NULL;
    for (size_t i = 0; i < SL_INSTANCE_LEAD; i++)
        sl_lookahead_each(lookahead, table, i, instance_bytes);
}

/* The sequences of the instance that was predicted for a packet. *count receives their number, 0 if there are none. */
static inline const struct sl_sequence *sl_lookahead_sequences(const struct sl_table *table, size_t packet, uint32_t *count) {
    const struct sl_instance *instance = table->predicted[packet];
    *count = instance ? table->sequence_count : 0;
    return instance ? (const void *)((const char *)instance + table->sequences_at) : NULL;
}

/* Prefetches what the instance of a packet holds, when the instance has arrived. */
static inline void sl_lookahead_hold(const struct sl_table *table, size_t packet) {
    uint32_t count;
    const struct sl_sequence *seq = sl_lookahead_sequences(table, packet, &count);
    for (uint32_t k = 0; k < count; k++)
        for (size_t at = 0; seq[k].held && at < sizeof *seq[k].held; at += 64)
            __builtin_prefetch((const char *)seq[k].held + at);
}

/* Then prefetches what leads to one of its pieces. For a packet that is out of order, these misses would otherwise be
 * serial. */
static inline void sl_lookahead_lead(const struct sl_table *table, size_t packet) {
    uint32_t count;
    const struct sl_sequence *seq = sl_lookahead_sequences(table, packet, &count);
    for (uint32_t k = 0; k < count; k++) {
        if (!seq[k].held)
            continue;
        __builtin_prefetch(seq[k].held->beyond);
        if (seq[k].held->pieces.root)
            sl_index_prefetch(seq[k].held->pieces.root);
    }
}

/* While much data is held: prefetches what the instances of the next packets hold. */
SL_COLD void sl_lookahead_held(struct sl_lookahead *lookahead, size_t i) {
    for (; lookahead->held < lookahead->predicted && lookahead->held->packet <= i + SL_HELD_LEAD; lookahead->held++)
        sl_lookahead_hold(lookahead->held->table, lookahead->held->packet);
    for (; lookahead->indexed < lookahead->held && lookahead->indexed->packet <= i + SL_INDEX_LEAD; lookahead->indexed++)
        sl_lookahead_lead(lookahead->indexed->table, lookahead->indexed->packet);
}

/* The same for the table of `each`. */
SL_COLD void sl_lookahead_held_each(const struct sl_lookahead *lookahead, const struct sl_table *table, size_t i) {
    for (size_t packet = i ? i + SL_HELD_LEAD : 0; packet <= i + SL_HELD_LEAD && lookahead->each[packet].home; packet++)
        sl_lookahead_hold(table, packet);
    for (size_t packet = i ? i + SL_INDEX_LEAD : 0; packet <= i + SL_INDEX_LEAD && lookahead->each[packet].home; packet++)
        sl_lookahead_lead(table, packet);
}

/* The current packet is held by an instance. The packet that follows it in its group at this `distance` (1 or 2),
 * with `captured` bytes at `at`, will probably be held as well if it belongs to the same instance: prefetches all of it
 * after its headers, because the copy would otherwise wait for each line. Returns whether it belongs to the same
 * instance. */
SL_COLD bool sl_lookahead_next(const struct sl_lookahead *lookahead, const struct sl_table *table, const struct sl_instance *instance,
                             uint32_t distance, const uint8_t *at, uint32_t captured) {
    uint32_t packet = lookahead->packet + distance;
    if (!lookahead->each[packet].home || table->predicted[packet] != instance)
        return false;
    sl_lookahead_bytes(at, SL_NEXT_FROM, captured, false);
    return true;
}

/* Called before packet `i` of a group is processed, unless it is one of the `plain` ones: prefetches what one of the
 * next packets needs, and the first `header` bytes of a packet of the next group. The instance is predicted only now,
 * and not in stage 1, so that an instance that was created in this group is found, too. */
SL_PREFETCH void sl_lookahead_packet(struct sl_lookahead *lookahead, const struct sl_frame *next_group, size_t i, unsigned header) {
    const struct sl_wanted *wanted = lookahead->predicted;
    if (wanted->packet <= i + SL_INSTANCE_LEAD) {
        do {
            sl_table_predict(wanted->table, wanted->packet, wanted->home, wanted->hash, wanted->table->instance_bytes);
            wanted++;
        } while (wanted->packet <= i + SL_INSTANCE_LEAD);
        lookahead->predicted = wanted;
    }
    if (__builtin_expect(lookahead->held_much, 0))
        sl_lookahead_held(lookahead, i);
    if (i < lookahead->headers)
        sl_lookahead_header(&next_group[i], header, !lookahead->apart);
}

#endif
