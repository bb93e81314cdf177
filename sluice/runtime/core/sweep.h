/* The sweep of a table, which frees expired instances that no packet looks up; and the choice of instances to evict.
 *
 * After every SL_SWEEP_EVERY look-ups, a step examines some slots, beginning where the last step stopped. A pass over
 * all slots is a round. A round also determines when the next one can find anything: an instance that it passes expires
 * at its deadline, and an instance whose deadline is set after it was passed gets one that is at least the table's
 * shortest timeout away. Until the earliest of these times, the sweep rests. If connections close or are long-lived, it
 * rests nearly always. */
#ifndef SL_SWEEP_H
#define SL_SWEEP_H

#include "core/box.h"

enum {
    SL_SWEEP_EVERY = 32,   /* look-ups of a table between two steps of its sweep */
    SL_SWEEP_STEP = 8,     /* slots that a step of the sweep, or an eviction, examines */
    SL_SWEEP_TICK = 1024,  /* slots that a tick examines: bounded, because packets may arrive meanwhile */
    SL_SWEEP_GIVEN_BACK = 100 * 1000 * 1000,   /* nanoseconds between ticks when functions end instances by their
                                                * deadline */
};

struct sl_sweep {
    uint32_t lookups;    /* until the next step */
    uint32_t slot;       /* the next one */
    uint64_t rests;      /* nothing expires before this time; SL_NEVER: nothing ever will */
    uint64_t soonest;    /* nothing that this round has passed, or that got a deadline since it began, expires before */
    uint64_t shortest;   /* timeout of the layers that use the table, in nanoseconds; SL_NEVER: none of them has one */
};

/* A sweep that has not begun. Its first round knows nothing about instances that were created before it, so another
 * round follows at once. */
static inline struct sl_sweep sl_sweep_new(void) {
    return (struct sl_sweep){.lookups = SL_SWEEP_EVERY, .shortest = SL_NEVER};
}

/* Adds a layer that uses the table, by its timeouts. */
static inline void sl_sweep_layer(struct sl_sweep *sweep, const uint64_t *timeouts, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        sweep->shortest = sl_min(sweep->shortest, timeouts[i]);
}

static inline bool sl_sweep_rests(const struct sl_box *box, const struct sl_sweep *sweep) {
    return box->now < sweep->rests && !box->gives_back;
}

/* When the next tick is due after one that examined slots: at once during a round. */
static inline uint64_t sl_sweep_due(const struct sl_box *box, const struct sl_sweep *sweep) {
    if (box->gives_back)
        return sl_deadline(box, SL_SWEEP_GIVEN_BACK);   /* functions end instances without notifying the sweep */
    return box->now < sweep->rests ? sweep->rests : box->now;
}

/* Begins a step. Returns how many slots it examines. */
static inline uint32_t sl_sweep_step(const struct sl_box *box, const struct sl_table *table, struct sl_sweep *sweep) {
    sweep->lookups = SL_SWEEP_EVERY;
    return table->high_water == 0 || sl_sweep_rests(box, sweep) ? 0 : SL_SWEEP_STEP;
}

/* The next expired instance of a table among `*left` slots, cyclically; NULL if there is none. A free slot has no
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

/* Prefetches what the next steps of a table's sweep will need: of the next step, the expired instances, with the line
 * of the index that refers to each; of the step after it, the beginning of each instance. With many connections each of
 * these is a miss, and the sweep would wait for one after the other. */
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

/* Among the next live instances after `*hand`, the one with the earliest deadline; NULL if there is none. `*hand` moves
 * to the slot after it. `busy`, a literal like the table's own instance_bytes: the offset in an instance of a byte that
 * is set while the instance must not end, or 0. */
SL_INLINED struct sl_instance *sl_evict_choose(const struct sl_table *table, uint32_t *hand, size_t instance_bytes,
                                               size_t busy) {
    struct sl_instance *victim = NULL;
    uint32_t slot = *hand, after = 0;
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
            after = slot;
        }
    }
    *hand = victim ? after : slot;
    return victim;
}

/* Prefetches what the next evictions will need, on the assumption that they proceed from slot to slot, which holds
 * while a table stays full of instances that were created in that order. Of the third instance from `slot` on, its
 * fields (the search for a victim has read its first line); of the second, what its sequences hold; of the first, the
 * pieces and records that have to be freed, and its line of the index. */
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
