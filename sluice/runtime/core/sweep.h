/* The sweep of a table, which frees instances whose time is over and that no packet looks up, and what evictions want.
 *
 * Every so many look-ups it looks at some slots, from where it stopped; all of them are a round. A round also learns when
 * the next one can find anything: an instance that it passes expires at its deadline, and whoever gets a deadline behind
 * its back gets one that is the table's shortest timeout away at least. Until the earliest of these the sweep rests. With
 * connections that are closed, or last, that is most of the time: rounds of 20,000 slots were 2% of what packets cost. */
#ifndef SL_SWEEP_H
#define SL_SWEEP_H

#include "core/box.h"

enum {
    SL_SWEEP_EVERY = 32,   /* look-ups of a table between two steps of its sweep */
    SL_SWEEP_STEP = 8,     /* slots that a step of the sweep, or an eviction, looks at */
    SL_SWEEP_TICK = 1024,  /* slots that a tick looks at: bounded, as packets may come meanwhile */
    SL_SWEEP_GIVEN_BACK = 100 * 1000 * 1000,   /* nanoseconds between ticks where functions end instances by their deadline */
};

struct sl_sweep {
    uint32_t lookups;    /* until the next step */
    uint32_t slot;       /* the next one */
    uint64_t rests;      /* nothing expires before this time; SL_NEVER: nothing ever will */
    uint64_t soonest;    /* of what this round has passed, and of what has got a deadline since it began, none expires before */
    uint64_t shortest;   /* timeout of the layers that use the table, in nanoseconds; SL_NEVER: none of them has any */
};

/* A sweep that has not begun. Its first round knows nothing of what began before it, and is followed by another at once. */
static inline struct sl_sweep sl_sweep_new(void) {
    return (struct sl_sweep){.lookups = SL_SWEEP_EVERY, .shortest = SL_NEVER};
}

/* A layer of those that use the table, by its timeouts. */
static inline void sl_sweep_layer(struct sl_sweep *sweep, const uint64_t *timeouts, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        sweep->shortest = sl_min(sweep->shortest, timeouts[i]);
}

static inline bool sl_sweep_rests(const struct sl_box *box, const struct sl_sweep *sweep) {
    return box->now < sweep->rests && !box->gives_back;
}

/* When a tick is due again after it has looked at slots: at once while a round is under way. */
static inline uint64_t sl_sweep_due(const struct sl_box *box, const struct sl_sweep *sweep) {
    if (box->gives_back)
        return sl_deadline(box, SL_SWEEP_GIVEN_BACK);   /* functions end instances without a word to the sweep */
    return box->now < sweep->rests ? sweep->rests : box->now;
}

/* A step begins: how many slots it looks at. */
static inline uint32_t sl_sweep_step(const struct sl_box *box, const struct sl_table *table, struct sl_sweep *sweep) {
    sweep->lookups = SL_SWEEP_EVERY;
    return table->high_water == 0 || sl_sweep_rests(box, sweep) ? 0 : SL_SWEEP_STEP;
}

/* The next of a table's instances whose time is over, of `*left` slots, which go round; NULL: none. What is free has no
 * deadline. */
static inline struct sl_instance *sl_sweep_next(const struct sl_box *box, const struct sl_table *table,
                                                struct sl_sweep *sweep, uint32_t *left) {
    while (*left) {
        --*left;
        if (sweep->slot >= table->high_water) {
            sweep->slot = 0;
            sweep->rests = sweep->soonest;
            sweep->soonest = sl_deadline(box, sweep->shortest);
            if (sl_sweep_rests(box, sweep)) {
                *left = 0;
                break;
            }
        }
        struct sl_instance *instance = sl_table_slot(table, sweep->slot++);
        sweep->soonest = sl_min(sweep->soonest, instance->deadline);
        if (__builtin_expect(sl_expired(box, instance), 0))
            return instance;
    }
    return NULL;
}

/* What a table's sweep will want, asked for in the steps before: its next step's instances that have expired, with the
 * line of the index that each leaves; and of the step behind that, where each instance begins. Among many connections
 * each is a miss, and the sweep would wait for one after the other: a tenth of the time with 20,000 open at once. */
SL_PREFETCH void sl_sweep_prefetch(const struct sl_box *box, const struct sl_table *table, uint32_t slot) {
    const uint32_t high = table->high_water;
    uint32_t soon = (uint32_t)sl_min(SL_SWEEP_STEP, high), later = (uint32_t)sl_min(2 * SL_SWEEP_STEP, high) - soon;
    for (; soon; soon--, slot++) {
        if (slot >= high)
            slot = 0;
        const struct sl_instance *instance = sl_table_slot(table, slot);
        if (__builtin_expect(sl_expired(box, instance), 0)) {
            __builtin_prefetch(sl_table_home(table, instance->hash), 1);
            sl_instance_prefetch((uintptr_t)instance, table->instance_bytes, 64, true);
        }
    }
    for (; later; later--, slot++) {
        if (slot >= high)
            slot = 0;
        __builtin_prefetch(sl_table_slot(table, slot), 1);
    }
}

/* Of the next live instances behind `*hand` the one that would time out first, and `*hand` is behind it; NULL when there is
 * none. `busy`, a literal like the table's own instance_bytes: where in an instance a byte says that it may not end, or 0. */
SL_INLINED struct sl_instance *sl_evict_choose(const struct sl_table *table, uint32_t *hand, size_t instance_bytes,
                                               size_t busy) {
    struct sl_instance *victim = NULL;
    uint32_t slot = *hand, behind = 0;
    const uint32_t high = table->high_water;
    for (unsigned seen = 0, i = 0; seen < SL_SWEEP_STEP && i < high; i++) {
        slot = slot < high ? slot : 0;
        struct sl_instance *instance = sl_table_place(table, slot, instance_bytes);
        bool live = instance->slot == slot && !(busy && ((const uint8_t *)instance)[busy]);
        slot++;
        if (!live)
            continue;
        seen++;
        if (!victim || instance->deadline < victim->deadline) {
            victim = instance;
            behind = slot;
        }
    }
    *hand = victim ? behind : slot;
    return victim;
}

/* What the next evictions will want, asked for in those before, as long as they go from slot to slot, which they do while
 * a table stays full of what began in that order. Of the third one from `slot` on where its fields are (the first line the
 * search for a victim has read), of the second what its sequences hold, of the first the pieces and records that have to be
 * given back, and its line of the index. */
SL_PREFETCH void sl_evict_prefetch(const struct sl_table *table, uint32_t slot) {
    for (unsigned step = 0; step < 3; step++, slot++) {
        if (slot >= table->high_water)
            slot = 0;
        const struct sl_instance *instance = sl_table_slot(table, slot);
        if (step == 2) {
            sl_instance_prefetch((uintptr_t)instance, table->instance_bytes, 64, true);
            continue;
        }
        if (step == 0)
            __builtin_prefetch(sl_table_home(table, instance->hash), 1);
        const struct sl_sequence *seq = (const void *)((const char *)instance + table->sequences_at);
        for (uint32_t k = 0; k < table->sequence_count; k++) {
            const struct sl_held *held = seq[k].held;
            if (!held)
                continue;
            if (step == 1) {
                for (size_t at = 0; at < sizeof *held; at += 64)
                    __builtin_prefetch((const char *)held + at, 1);
            } else {
                __builtin_prefetch(held->pieces.first, 1);
                __builtin_prefetch(held->records.first, 1);
            }
        }
    }
}

#endif
