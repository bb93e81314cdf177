/* Memory that packets will want, asked for before they are processed, of a group of them at a time, so that their misses
 * overlap (group prefetching: Chen et al., ICDE 2004).
 *
 * Steps that each wait for nothing: the headers of the next group; the bucket of every look-up that the stack foresees; the
 * instance that the bucket, which has come by then, probably names; and while much is held, what the instance holds, and
 * what that leads to. Each step asks for little at each packet, and never for all of a group at once: that fills the buffers
 * for misses, of which a core has some twenty, and the core waits there, for memory that nobody needs yet. */
#ifndef SL_AHEAD_H
#define SL_AHEAD_H

#include "packet.h"
#include "sequence_state.h"
#include "table.h"

enum {
    SL_AHEAD_DEPTH = 8,   /* layers that are followed; a packet may have more */
    SL_WANTED_MOST = 4 * SL_GROUP,
    SL_INSTANCE_LEAD = 6,     /* packets of a group that are processed before the one whose instance is asked for */
    SL_HELD_LEAD = 4,         /* the same for what its sequences hold, */
    SL_INDEX_LEAD = 2,        /* and for what that leads to */
    SL_HELD_MUCH = 1 << 20,   /* bytes of the pool that are in use, from which on these are asked for */
};

struct sl_wanted {
    struct sl_table *table;
    const struct sl_bucket *home;   /* where it was when it was asked for: a table that grows splits it, and moves none */
    uint32_t hash, packet;
};

struct sl_ahead {
    uint32_t packet;   /* the current one's place in its group */
    uint32_t coming;   /* packets of the next burst, whose frames lie behind this one's */
    uint32_t headers;  /* packets of the next group whose headers this one asks for */
    bool held_much;    /* what instances hold is more than stays at hand by itself */
    uint32_t count;    /* of what is wanted */
    const struct sl_wanted *foreseen, *held, *led;   /* the first whose instance was not asked for yet; nor what that
                                                        holds; nor what this leads to */
    struct sl_wanted wanted[SL_WANTED_MOST + 1];     /* by packet; behind the last one is one for no packet */
};

/* The current packet will be looked up by this hash. */
SL_PREFETCH void sl_ahead_want(struct sl_ahead *ahead, struct sl_table *table, uint32_t hash) {
    const struct sl_bucket *home = sl_table_home(table, hash);
    __builtin_prefetch(home);
    if (ahead->count < SL_WANTED_MOST)
        ahead->wanted[ahead->count++] = (struct sl_wanted){table, home, hash, ahead->packet};
}

/* The current packet will be looked up by this key, as nearly all before it and behind it: of a tunnel most packets
 * belong to one conversation. Only another key than was asked for last, of which `wanted` is a copy, is hashed and asked
 * for. */
SL_PREFETCH void sl_ahead_want_other(struct sl_ahead *ahead, struct sl_table *table, const uint64_t *key, unsigned key_words,
                                     uint64_t *wanted) {
    if (sl_key_same(wanted, key, key_words))
        return;
    memcpy(wanted, key, 8 * (size_t)key_words);
    sl_ahead_want(ahead, table, sl_table_hash(table, key, key_words));
}

/* Asks for the first `bytes` (at least 1) of a packet (perhaps behind its end, or of none), and for no line more. */
SL_PREFETCH void sl_ahead_header(const struct sl_frame *frame, unsigned bytes) {
    for (unsigned at = 0; at + 1 < bytes; at += 64)
        __builtin_prefetch((const void *)((uintptr_t)frame->at + at));
    __builtin_prefetch((const void *)((uintptr_t)frame->at + bytes - 1));
}

/* Begins a burst of `count` packets: asks for the headers of its first group, as far as the burst before has not. `header`:
 * bytes that the stack's layers read of most packets. */
SL_PREFETCH void sl_ahead_burst(struct sl_ahead *ahead, const struct sl_frame *frames, size_t count, unsigned header) {
    for (size_t i = ahead->headers; i < sl_min(SL_GROUP, count); i++)
        sl_ahead_header(&frames[i], header);
    if (!count)
        ahead->coming = 0;   /* it would be taken for what is behind another burst */
}

/* Begins a group of `count` packets, with `rest` more in the burst: nothing is wanted yet. Their turns begin with
 * sl_ahead_turns. */
SL_PREFETCH void sl_ahead_group(struct sl_ahead *ahead, size_t count, size_t rest) {
    ahead->headers = (uint32_t)sl_min(count, rest ? rest : ahead->coming);
    ahead->count = 0;
    if (!rest)
        ahead->coming = 0;
}

/* All packets of the group wait for their turns: no more is wanted. `held_much`: see struct sl_ahead. */
static inline void sl_ahead_turns(struct sl_ahead *ahead, bool held_much) {
    ahead->wanted[ahead->count].packet = UINT32_MAX;
    ahead->foreseen = ahead->held = ahead->led = ahead->wanted;
    ahead->held_much = held_much;
}

/* The sequences of a packet's instance, if it was foreseen and has any: `count` of them. */
static inline const struct sl_sequence *sl_ahead_sequences(const struct sl_wanted *wanted, uint32_t *count) {
    const struct sl_table *table = wanted->table;
    const struct sl_instance *instance = table->foreseen[wanted->packet];
    *count = instance ? table->sequence_count : 0;
    return instance ? (const void *)((const char *)instance + table->sequences_at) : NULL;
}

/* While much is held: asks for what instances of packets that come soon hold, once they have come, and then for what leads
 * to one of its pieces. Of a packet that is out of order these would be waited for one after the other. */
SL_COLD void sl_ahead_held(struct sl_ahead *ahead, size_t i) {
    uint32_t count;
    for (; ahead->held < ahead->foreseen && ahead->held->packet <= i + SL_HELD_LEAD; ahead->held++) {
        const struct sl_sequence *seq = sl_ahead_sequences(ahead->held, &count);
        for (uint32_t k = 0; k < count; k++)
            for (size_t at = 0; seq[k].held && at < sizeof *seq[k].held; at += 64)
                __builtin_prefetch((const char *)seq[k].held + at);
    }
    for (; ahead->led < ahead->held && ahead->led->packet <= i + SL_INDEX_LEAD; ahead->led++) {
        const struct sl_sequence *seq = sl_ahead_sequences(ahead->led, &count);
        for (uint32_t k = 0; k < count; k++) {
            if (!seq[k].held)
                continue;
            __builtin_prefetch(seq[k].held->ahead);
            if (seq[k].held->pieces.root)
                sl_index_prefetch(seq[k].held->pieces.root);
        }
    }
}

/* Before packet `i` of a group is processed: asks for what is wanted for one that comes soon, and for the headers of one of
 * the next group, `header` bytes. An instance is asked for late, so that one that began in this very group is found, too. */
SL_PREFETCH void sl_ahead_packet(struct sl_ahead *ahead, const struct sl_frame *next_group, size_t i, unsigned header) {
    const struct sl_wanted *wanted = ahead->foreseen;
    if (wanted->packet <= i + SL_INSTANCE_LEAD) {
        do {
            sl_table_foresee(wanted->table, wanted->packet, wanted->home, wanted->hash, SL_INSTANCE_LINES);
            wanted++;
        } while (wanted->packet <= i + SL_INSTANCE_LEAD);
        ahead->foreseen = wanted;
    }
    if (__builtin_expect(ahead->held_much, 0))
        sl_ahead_held(ahead, i);
    if (i < ahead->headers)
        sl_ahead_header(&next_group[i], header);
}

#endif
