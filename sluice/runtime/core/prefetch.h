/* Memory that packets will want, asked for before they are processed, of a group of them at a time, so that their misses
 * overlap (group prefetching: Chen et al., ICDE 2004).
 *
 * Steps that each wait for nothing: the headers of the next group; the bucket of every look-up that the stack foresees; the
 * instance that the bucket, which has come by then, probably names; and while much is held, what the instance holds, and
 * what that leads to. Each step asks for little at each packet, and never for all of a group at once: that fills the buffers
 * for misses, of which a core has some twenty, and the core waits there, for memory that nobody needs yet.
 *
 * Those are the first-level cache's. What comes from memory, and not from another cache, is asked for into the second level,
 * which has its own, and more of them: 0.88 of the time of packets that lie apart (`apart`), and 0.77 with a million
 * connections (a table's `near`). What a cache has is better asked for into the first. */
#ifndef SL_PREFETCH_H
#define SL_PREFETCH_H

#include "core/packet.h"
#include "stream/sequence_state.h"
#include "core/table.h"

enum {
    SL_PREFETCH_DEPTH = 8,   /* layers that are followed; a packet may have more */
    SL_WANTED_MAX = 4 * SL_GROUP,
    SL_INSTANCE_LEAD = 6,     /* packets of a group that are processed before the one whose instance is asked for */
    SL_HELD_LEAD = 4,         /* the same for what its sequences hold, */
    SL_INDEX_LEAD = 2,        /* and for what that leads to */
    SL_BEHIND_FROM = 64,      /* bytes of a packet that is held, from more of which on those behind it are asked for */
    SL_HELD_MUCH = 1 << 20,   /* bytes of the pool that are in use, from which on these are asked for */
    SL_APART = 512,           /* bytes from one packet to the next, from more of which on each comes from memory by itself */
};

/* A look-up, by hash, and the bucket where it begins. */
struct sl_each {
    const struct sl_bucket *home;   /* NULL: none */
    uint32_t hash;
};

struct sl_wanted {
    struct sl_table *table;
    const struct sl_bucket *home;   /* where it was when it was asked for: a table that grows splits it, and moves none */
    uint32_t hash, packet;
};

struct sl_lookahead {
    uint32_t packet;   /* the current one's place in its group */
    uint32_t coming;   /* packets of the next burst, whose frames lie behind this one's */
    uint32_t headers;  /* packets of the next group whose headers this one asks for */
    bool held_much;    /* what instances hold is more than stays at hand by itself */
    bool apart;        /* packets lie so far apart, or in no order, that the processor foresees none from those before */
    uint32_t plain;    /* the first packets of this group at which the header of one of the next is all that is asked for */
    uint32_t others;   /* packets of the group before whose turns there is more to ask for than what `each` wants */
    uint32_t count;    /* of what is wanted */
    const struct sl_wanted *foreseen, *held, *led;   /* the first whose instance was not asked for yet; nor what that
                                                        holds; nor what this leads to */
    struct sl_wanted wanted[SL_WANTED_MAX + 1];     /* by packet; behind the last one is one for no packet */
    /* By packet, the look-up in the table where nearly every packet has one, if a stack has such a table: it needs no list.
     * Behind the last packet there is none. */
    struct sl_each each[SL_GROUP + SL_INSTANCE_LEAD];
};

/* The current packet will be looked up by this hash. */
SL_PREFETCH void sl_lookahead_want(struct sl_lookahead *ahead, struct sl_table *table, uint32_t hash) {
    const struct sl_bucket *home = sl_table_home(table, hash);
    sl_table_prefetch_home(table, home);
    if (ahead->count < SL_WANTED_MAX)
        ahead->wanted[ahead->count++] = (struct sl_wanted){table, home, hash, ahead->packet};
}

/* The same in the table where nearly every packet is looked up. */
SL_PREFETCH void sl_lookahead_want_each(struct sl_lookahead *ahead, const struct sl_table *table, uint32_t hash) {
    const struct sl_bucket *home = sl_table_home(table, hash);
    sl_table_prefetch_home(table, home);
    ahead->each[ahead->packet] = (struct sl_each){home, hash};
}

/* The current packet may not be looked up there. */
static inline void sl_lookahead_want_none(struct sl_lookahead *ahead) { ahead->each[ahead->packet].home = NULL; }

/* The current packet will be looked up by this key, as nearly all before it and behind it: of a tunnel most packets
 * belong to one conversation. Only another key than was asked for last, of which `wanted` is a copy, is hashed and asked
 * for. */
SL_PREFETCH void sl_lookahead_want_other(struct sl_lookahead *ahead, struct sl_table *table, const uint64_t *key, unsigned key_words,
                                     uint64_t *wanted) {
    if (sl_key_same(wanted, key, key_words))
        return;
    memcpy(wanted, key, 8 * (size_t)key_words);
    sl_lookahead_want(ahead, table, sl_table_hash(table, key, key_words));
}

/* Asks for bytes of a packet, from one (perhaps behind its end, or of none) up to another, and for no line more. `near`: see
 * sl_prefetch. */
SL_PREFETCH void sl_lookahead_bytes(const uint8_t *at, uint32_t from, uint32_t to, bool near) {
    for (; from + 1 < to; from += 64)
        sl_prefetch((uintptr_t)at + from, near);
    sl_prefetch((uintptr_t)at + to - 1, near);
}

/* Asks for the first `bytes` (at least 1) of a packet. */
SL_PREFETCH void sl_lookahead_header(const struct sl_frame *frame, unsigned bytes, bool near) {
    sl_lookahead_bytes(frame->at, 0, bytes, near);
}

/* Begins a burst of `count` packets: asks for the headers of its first group, as far as the burst before has not. `header`:
 * bytes that the stack's layers read of most packets. */
SL_PREFETCH void sl_lookahead_burst(struct sl_lookahead *ahead, const struct sl_frame *frames, size_t count, unsigned header) {
    for (size_t i = ahead->headers; i < sl_min(SL_GROUP, count); i++)
        sl_lookahead_header(&frames[i], header, true);
    if (count > 1)   /* else as before; backwards, as where a ring ends, is apart */
        ahead->apart = (uintptr_t)frames[count - 1].at - (uintptr_t)frames[0].at > SL_APART * (count - 1);
    if (!count)
        ahead->coming = 0;   /* it would be taken for what is behind another burst */
}

/* Begins a group of `count` packets, with `rest` more in the burst: nothing is wanted yet. Their turns begin with
 * sl_lookahead_turns. */
SL_PREFETCH void sl_lookahead_group(struct sl_lookahead *ahead, const struct sl_frame *frames, size_t count, size_t rest,
                                unsigned header) {
    if (ahead->apart)
        for (size_t i = 0; i < sl_min(count, ahead->headers); i++)   /* those that have come to the second level */
            sl_lookahead_header(&frames[i], header, true);
    ahead->headers = (uint32_t)sl_min(count, rest ? rest : ahead->coming);
    ahead->count = 0;
    if (!rest)
        ahead->coming = 0;
}

/* All packets of the group wait for their turns: no more is wanted. `held_much`: see struct sl_lookahead. */
static inline void sl_lookahead_turns(struct sl_lookahead *ahead, bool held_much) {
    ahead->wanted[ahead->count].packet = UINT32_MAX;
    ahead->foreseen = ahead->held = ahead->led = ahead->wanted;
    ahead->held_much = held_much;
    ahead->others = held_much || ahead->count ? SL_GROUP : ahead->headers;
    ahead->plain = held_much || ahead->count || ahead->apart ? 0 : ahead->headers;
}

/* Asks for the instance that a packet wants of the table of `each`, whose instances have this many bytes, a literal. */
SL_PREFETCH void sl_lookahead_each(struct sl_lookahead *ahead, struct sl_table *table, size_t packet, size_t instance_bytes) {
    const struct sl_each *each = &ahead->each[packet];
    if (SL_LIKELY(each->home))
        sl_table_predict(table, (unsigned)packet, each->home, each->hash, instance_bytes);
}

/* Begins the turns of a group of `count` packets in that table. */
SL_PREFETCH void sl_lookahead_each_begin(struct sl_lookahead *ahead, struct sl_table *table, size_t count, size_t instance_bytes) {
    for (size_t i = count; i < count + SL_INSTANCE_LEAD; i++)
        ahead->each[i].home = NULL;
    for (size_t i = 0; i < SL_INSTANCE_LEAD; i++)
        sl_lookahead_each(ahead, table, i, instance_bytes);
}

/* The sequences of a packet's instance, if it was foreseen and has any: `count` of them. */
static inline const struct sl_sequence *sl_lookahead_sequences(const struct sl_table *table, size_t packet, uint32_t *count) {
    const struct sl_instance *instance = table->foreseen[packet];
    *count = instance ? table->sequence_count : 0;
    return instance ? (const void *)((const char *)instance + table->sequences_at) : NULL;
}

/* Asks for what the instance of a packet holds, once it has come. */
static inline void sl_lookahead_hold(const struct sl_table *table, size_t packet) {
    uint32_t count;
    const struct sl_sequence *seq = sl_lookahead_sequences(table, packet, &count);
    for (uint32_t k = 0; k < count; k++)
        for (size_t at = 0; seq[k].held && at < sizeof *seq[k].held; at += 64)
            __builtin_prefetch((const char *)seq[k].held + at);
}

/* And then for what leads to one of its pieces. Of a packet that is out of order these would be waited for one after the
 * other. */
static inline void sl_lookahead_lead(const struct sl_table *table, size_t packet) {
    uint32_t count;
    const struct sl_sequence *seq = sl_lookahead_sequences(table, packet, &count);
    for (uint32_t k = 0; k < count; k++) {
        if (!seq[k].held)
            continue;
        __builtin_prefetch(seq[k].held->ahead);
        if (seq[k].held->pieces.root)
            sl_index_prefetch(seq[k].held->pieces.root);
    }
}

/* While much is held: what instances of packets that come soon hold. */
SL_COLD void sl_lookahead_held(struct sl_lookahead *ahead, size_t i) {
    for (; ahead->held < ahead->foreseen && ahead->held->packet <= i + SL_HELD_LEAD; ahead->held++)
        sl_lookahead_hold(ahead->held->table, ahead->held->packet);
    for (; ahead->led < ahead->held && ahead->led->packet <= i + SL_INDEX_LEAD; ahead->led++)
        sl_lookahead_lead(ahead->led->table, ahead->led->packet);
}

/* The same for the table of `each`. */
SL_COLD void sl_lookahead_held_each(const struct sl_lookahead *ahead, const struct sl_table *table, size_t i) {
    for (size_t packet = i ? i + SL_HELD_LEAD : 0; packet <= i + SL_HELD_LEAD && ahead->each[packet].home; packet++)
        sl_lookahead_hold(table, packet);
    for (size_t packet = i ? i + SL_INDEX_LEAD : 0; packet <= i + SL_INDEX_LEAD && ahead->each[packet].home; packet++)
        sl_lookahead_lead(table, packet);
}

/* The packet in hand is held by an instance, and the one that lies `behind` it in its group (1 or 2), with `captured` bytes at
 * `at`, probably will be if it is of the same: asks for all of it behind its headers. Who copies it would wait for each line
 * (`http32k_loss5` cold 0.88 for two packets, 0.90 for one; warm 1.02). Whether it is of the same. */
SL_COLD bool sl_lookahead_behind(const struct sl_lookahead *ahead, const struct sl_table *table, const struct sl_instance *instance,
                             uint32_t behind, const uint8_t *at, uint32_t captured) {
    uint32_t packet = ahead->packet + behind;
    if (!ahead->each[packet].home || table->foreseen[packet] != instance)
        return false;
    sl_lookahead_bytes(at, SL_BEHIND_FROM, captured, false);
    return true;
}

/* Before packet `i` of a group is processed, where that is not one of the plain ones: asks for what is wanted for one that
 * comes soon, and for the headers of one of the next group, `header` bytes. An instance is asked for late, so that one that
 * began in this very group is found, too. */
SL_PREFETCH void sl_lookahead_packet(struct sl_lookahead *ahead, const struct sl_frame *next_group, size_t i, unsigned header) {
    const struct sl_wanted *wanted = ahead->foreseen;
    if (wanted->packet <= i + SL_INSTANCE_LEAD) {
        do {
            sl_table_predict(wanted->table, wanted->packet, wanted->home, wanted->hash, wanted->table->instance_bytes);
            wanted++;
        } while (wanted->packet <= i + SL_INSTANCE_LEAD);
        ahead->foreseen = wanted;
    }
    if (__builtin_expect(ahead->held_much, 0))
        sl_lookahead_held(ahead, i);
    if (i < ahead->headers)
        sl_lookahead_header(&next_group[i], header, !ahead->apart);
}

#endif
