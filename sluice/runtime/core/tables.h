/* Operations on all tables of a box, while no packet is processed: open, close, end expired instances in a tick, and end
 * all instances at the end of input. Generated code describes its tables and timeouts by constant descriptors. For the
 * sweep and the eviction of one table it passes the descriptor by name, so that the C compiler folds its members. */
#ifndef SL_TABLES_H
#define SL_TABLES_H

#include "core/sweep.h"
#include "stream/messages.h"

/* A table of instances. Offsets are in the stack's box. */
struct sl_table_info {
    const char *no_space;        /* the error text if there is no address space for it */
    size_t table;                /* offset of the struct sl_table */
    size_t sweep, hand;          /* offsets of its struct sl_sweep, and of the slot (uint32_t) where eviction continues */
    size_t messages;             /* offset of the struct sl_messages_array; 0: no layer takes messages from it */
    uint32_t instance_bytes, key_words;
    uint32_t most;               /* maximum number of instances, besides that of the options; 0: none */
    uint32_t sides;              /* of its streams, each with a struct sl_sequence; 0: it has none */
    uint32_t sequences_at;       /* offset of the first of these in an instance, if stage 1 prefetches them; else 0 */
    uint32_t busy;               /* offset in an instance of a byte that is set while it must not end; 0: there is none */
    /* Ends and removes an instance other than that of the current packet. */
    void (*end)(struct sl_box *box, struct sl_instance *instance, uint64_t reason);
};

enum sl_timeout_kind {
    SL_TIMEOUT_OWN,        /* of a state, from the description */
    SL_TIMEOUT_GENERAL,    /* of a layer; the option `idle` replaces it in all layers */
    SL_TIMEOUT_LIFETIME,   /* of an instance, counted from its creation; options may replace it */
};

/* A timeout of a layer. */
struct sl_timeout_info {
    double seconds;
    enum sl_timeout_kind kind;
    const struct sl_table_info *table;   /* of the layer's instances; NULL: it has none */
};

SL_INLINED struct sl_table *sl_table_of(struct sl_box *box, const struct sl_table_info *info) {
    return (struct sl_table *)(void *)((char *)box + info->table);
}

SL_INLINED struct sl_sweep *sl_sweep_of(struct sl_box *box, const struct sl_table_info *info) {
    return (struct sl_sweep *)(void *)((char *)box + info->sweep);
}

static inline struct sl_messages_array *sl_messages_of(struct sl_box *box, const struct sl_table_info *info) {
    return (struct sl_messages_array *)(void *)((char *)box + info->messages);
}

/* Opens all tables. Returns NULL, or an error text; then sl_tables_close closes those that are open. */
SL_COLD const char *sl_tables_open(struct sl_box *box, const struct sl_table_info *infos, uint32_t count,
                                   const struct sl_options *options) {
    for (const struct sl_table_info *info = infos; info < infos + count; info++) {
        uint32_t most = options->max_instances;
        if (info->most)
            most = (uint32_t)sl_min(most, info->most);
        struct sl_table *table = sl_table_of(box, info);
        if (sl_table_open(table, info->instance_bytes, info->key_words, most, options->seed) ||
            (info->messages && sl_messages_open(sl_messages_of(box, info), most, info->sides)))
            return info->no_space;
        *sl_sweep_of(box, info) = sl_sweep_new();
        if (info->sequences_at) {
            table->sequences_at = info->sequences_at;
            table->sequence_count = info->sides;
        }
    }
    return NULL;
}

/* Sets all timeouts of a box whose tables are open, in the order of `infos`. */
SL_COLD void sl_timeouts_set(struct sl_box *box, const struct sl_timeout_info *infos, uint32_t count,
                             const struct sl_options *options) {
    for (uint32_t i = 0; i < count; i++) {
        const struct sl_timeout_info *info = &infos[i];
        bool all = info->kind == SL_TIMEOUT_GENERAL && options->idle > 0;
        box->timeouts[i] = info->kind == SL_TIMEOUT_LIFETIME ? sl_lifetime(options, info->seconds)
                                                             : sl_timeout(options, all ? options->idle : info->seconds);
        if (info->table)
            sl_sweep_layer(sl_sweep_of(box, info->table), &box->timeouts[i], 1);
    }
}

/* Populates the memory of all tables. Returns 0, or -1 if memory runs out. */
SL_COLD int sl_tables_prefault(struct sl_box *box, const struct sl_table_info *infos, uint32_t count) {
    for (const struct sl_table_info *info = infos; info < infos + count; info++) {
        if (sl_table_prefault(sl_table_of(box, info)))
            return -1;
        if (info->messages && sl_prefault(sl_messages_of(box, info)->at, sl_messages_of(box, info)->bytes))
            return -1;
    }
    return 0;
}

SL_COLD void sl_tables_close(struct sl_box *box, const struct sl_table_info *infos, uint32_t count) {
    for (const struct sl_table_info *info = infos; info < infos + count; info++) {
        sl_table_close(sl_table_of(box, info));
        if (info->messages)
            sl_messages_close(sl_messages_of(box, info));
    }
}

/* A step of the sweep of a table: ends expired instances. `info` is a constant at the call. */
SL_INLINED void sl_table_sweep(struct sl_box *box, const struct sl_table_info *info) {
    struct sl_table *table = sl_table_of(box, info);
    struct sl_sweep *sweep = sl_sweep_of(box, info);
    uint32_t left = sl_sweep_step(box, table, sweep);
    if (!left)
        return;
    struct sl_instance *instance;
    while ((instance = sl_sweep_next(box, table, sweep, &left)))
        if (!(info->busy && ((const uint8_t *)instance)[info->busy]))
            info->end(box, instance, SL_END_TIMEOUT);
    sl_sweep_prefetch(box, table, sweep->slot);
}

/* Ends the one of the next live instances of a table that would time out first. `info` is a constant at the call. */
SL_INLINED void sl_table_evict(struct sl_box *box, const struct sl_table_info *info) {
    struct sl_table *table = sl_table_of(box, info);
    uint32_t *hand = (uint32_t *)(void *)((char *)box + info->hand);
    struct sl_instance *victim = sl_evict_choose(table, hand, info->instance_bytes, info->busy);
    if (!victim)
        return;
    sl_evict_prefetch(table, *hand);
    info->end(box, victim, SL_END_EVICTED);
}

/* Ends expired instances of all tables while no packet arrives, a bounded number per call. Returns the time of the next
 * call. */
SL_COLD uint64_t sl_tables_tick(struct sl_box *box, const struct sl_table_info *infos, uint32_t count) {
    uint64_t due = SL_NEVER;
    for (const struct sl_table_info *info = infos; info < infos + count; info++) {
        struct sl_table *table = sl_table_of(box, info);
        struct sl_sweep *sweep = sl_sweep_of(box, info);
        if (table->high_water == 0)
            continue;
        uint32_t left = sl_sweep_rests(box, sweep) ? 0 : SL_SWEEP_TICK;
        struct sl_instance *instance;
        while ((instance = sl_sweep_next(box, table, sweep, &left))) {
            box->scratch.used = 0;
            box->work = box->bundled = 0;
            info->end(box, instance, SL_END_TIMEOUT);
        }
        due = sl_min(due, sl_sweep_due(box, sweep));
    }
    return due;
}

/* At the end of input: ends the instances in at most `slots` slots. Returns true while there is more to do.
 *
 * Data delivered at the end of an instance may create instances of the layers above, so ending takes several rounds. The
 * rounds are limited to the nesting depth, as a layer that forwards everything to itself would never finish. */
SL_COLD bool sl_tables_finish(struct sl_box *box, const struct sl_table_info *infos, uint32_t count, uint32_t slots) {
    struct sl_finish *finish = &box->finish;
    bool again;   /* whether this round has ended instances */
    do {
        /* so deep that nothing is forwarded to a layer above */
        box->depth = finish->round < box->depth_most ? 0 : box->deepest;
        for (; finish->table < count; finish->table++, finish->slot = 0) {
            const struct sl_table_info *info = &infos[finish->table];
            struct sl_table *table = sl_table_of(box, info);
            for (; finish->slot < table->high_water; finish->slot++, slots--) {
                if (slots == 0)
                    return true;
                struct sl_instance *instance = sl_table_at(table, finish->slot);
                if (!instance)
                    continue;
                box->scratch.used = 0;
                box->work = box->bundled = 0;
                finish->again = true;
                /* the sweep may not have reached it yet */
                info->end(box, instance, sl_expired(box, instance) ? SL_END_TIMEOUT : SL_END_EOF);
            }
        }
        again = finish->again;
        *finish = (struct sl_finish){.round = finish->round + 1};
    } while (again);
    return false;
}

#endif
