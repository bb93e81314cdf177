/* The data that a box stores for its native modules (native.h): for each worker, and for each instance by its number.
 *
 * Numbers of instances are never reused, so a call with the number of an instance that has ended finds nothing.
 * Contexts are allocated from the box's pool, and count against its budget. */
#ifndef SL_NATIVES_H
#define SL_NATIVES_H

#include "core/box.h"
#include "native/native.h"

struct sl_natives {
    struct sl_native_box used;   /* the first member, from which its functions find the others */
    struct sl_box *box;
    uint64_t credit, earned_at;  /* for derivations, in SL_DERIVATION; the number of the packet up to which it was earned */
    uint64_t earns;              /* a packet */
    const struct sl_native_module *module;
    void *worker;
    struct sl_table contexts;   /* struct sl_native_context, by the number of their instances */
    struct sl_natives *next;    /* of the box's modules */
};

struct sl_native_context {
    struct sl_instance head;
    uint64_t key[1];            /* the number of the instance */
    void *memory;
    struct sl_holder holder;    /* in the order of the last calls */
};

/* --- struct sl_native_box ---
 *
 * Packets earn derivations, which are saved up to a bound, so that a capture that begins with many connections loses none,
 * and an attack with nothing else costs little more than other packets. */

enum { SL_DERIVATION = 64, SL_DERIVATIONS_SAVED = 32768 };   /* what a derivation takes; packets that save */

SL_COLD bool sl_native_charge(struct sl_native_box *used, uint64_t bytes) {
    return sl_pool_charge(&((struct sl_natives *)(void *)used)->box->pool, bytes);
}

SL_COLD bool sl_native_derive(struct sl_native_box *used) {
    struct sl_natives *natives = (struct sl_natives *)(void *)used;
    const uint64_t most = SL_DERIVATIONS_SAVED * natives->earns;
    uint64_t number = natives->box->number;
    uint64_t packets = number > natives->earned_at ? sl_min(number - natives->earned_at, SL_DERIVATIONS_SAVED) : 0;
    natives->earned_at = number;
    natives->credit = sl_min(natives->credit + packets * natives->earns, most);
    if (natives->credit < SL_DERIVATION)
        return false;
    natives->credit -= SL_DERIVATION;
    return true;
}

SL_COLD void sl_native_excuse(struct sl_native_box *used) {
    ((struct sl_natives *)(void *)used)->credit += SL_DERIVATION;
}

/* Opens a module. `tables`: the number of tables whose instances may have a context, each with as many as a table can
 * hold. Returns 0, or -1 if there is no memory or the module's open fails; then nothing needs to be closed. */
SL_COLD int sl_natives_open(struct sl_natives *natives, struct sl_box *box, const struct sl_native_module *module,
                            const struct sl_options *options, const char *option, uint32_t tables) {
    uint32_t contexts = (uint32_t)sl_min((uint64_t)options->max_instances * tables, SL_TABLE_MOST);
    natives->worker = calloc(1, module->worker_bytes + 1);
    if (!natives->worker)
        return -1;
    if (sl_table_open(&natives->contexts, sizeof(struct sl_native_context), 1, contexts, options->seed)) {
        free(natives->worker);
        return -1;
    }
    natives->used = (struct sl_native_box){sl_native_charge, sl_native_derive, sl_native_excuse};
    natives->box = box;
    natives->earns = options->derivations ? options->derivations : SL_DERIVATIONS;
    natives->credit = SL_DERIVATIONS_SAVED * natives->earns;
    if (module->attach)
        module->attach(natives->worker, &natives->used);
    if (module->open && module->open(natives->worker, option)) {
        sl_table_close(&natives->contexts);
        free(natives->worker);
        return -1;
    }
    natives->module = module;
    natives->next = box->natives;
    box->natives = natives;
    return 0;
}

static inline struct sl_native_context *sl_native_find(struct sl_natives *natives, uint64_t number) {
    return (struct sl_native_context *)(void *)sl_table_find(&natives->contexts, &number, 1,
                                                             sl_table_hash(&natives->contexts, &number, 1));
}

/* Creates the context of this instance, zeroed. NULL if there is no memory for it. */
SL_COLD void *sl_native_begin(struct sl_natives *natives, struct sl_pool *pool, uint64_t number) {
    uint32_t hash = sl_table_hash(&natives->contexts, &number, 1);
    void *memory = sl_pool_take(pool, natives->module->context_bytes);
    struct sl_native_context *context =
        memory ? (struct sl_native_context *)(void *)sl_table_create(&natives->contexts, &number, 1, hash) : NULL;
    if (!context) {
        if (memory)
            sl_pool_give(pool, memory, natives->module->context_bytes);
        return NULL;
    }
    memset(memory, 0, natives->module->context_bytes);
    context->memory = memory;
    context->holder.kind = SL_HOLDER_CONTEXT;
    sl_holder_add(pool, &context->holder);
    return memory;
}

/* Ends the context of the instance with this number, if it has one. */
SL_COLD void sl_native_end(struct sl_natives *natives, struct sl_pool *pool, uint64_t number) {
    struct sl_native_context *context = sl_native_find(natives, number);
    if (!context)
        return;
    if (natives->module->end)
        natives->module->end(natives->worker, context->memory);
    sl_holder_remove(pool, &context->holder);
    sl_pool_give(pool, context->memory, natives->module->context_bytes);
    sl_table_remove(&natives->contexts, &context->head);
}

/* The context that was used longest ago gives up: its module knows its instance no longer. */
SL_COLD void sl_native_give_up(struct sl_box *box, struct sl_holder *holder) {
    struct sl_native_context *context = SL_HOLDER_OF(holder, struct sl_native_context);
    struct sl_natives *natives = box->natives;
    while (natives && !sl_table_containing(&natives->contexts, context))
        natives = natives->next;
    if (natives)
        sl_native_end(natives, &box->pool, context->key[0]);
}

/* Closes a module with its box, whose instances need not have ended. The pool must still be open. */
SL_COLD void sl_natives_close(struct sl_natives *natives, struct sl_pool *pool) {
    if (!natives->module)
        return;
    for (uint32_t slot = 0; slot < natives->contexts.high_water; slot++) {
        struct sl_instance *context = sl_table_at(&natives->contexts, slot);
        if (context)
            sl_native_end(natives, pool, ((struct sl_native_context *)(void *)context)->key[0]);
    }
    if (natives->module->close)
        natives->module->close(natives->worker);
    sl_table_close(&natives->contexts);
    free(natives->worker);
    natives->module = NULL;
}

/* The bounds of a call, from the description. */
struct sl_native_bounds {
    uint32_t outputs, limit;
    uint32_t reasons;   /* the last of them means that there was no memory */
    bool begins;        /* it creates the context of the instance if there is none yet */
};

/* Calls a function for the instance `number`, or for none if 0. Returns the reason for its failure, or 0. */
static inline uint64_t sl_native_run(struct sl_natives *natives, struct sl_box *box, sl_native_function *function,
                                     struct sl_native_call *call, uint64_t number, struct sl_native_bounds bounds) {
    call->worker = natives->worker;
    call->time = box->time;
    if (number && natives->module->context_bytes) {
        struct sl_native_context *context = sl_native_find(natives, number);
        call->context = context ? context->memory : NULL;
        if (context)
            sl_holder_renew(&box->pool, &context->holder);
        if (!context && bounds.begins && !(call->context = sl_native_begin(natives, &box->pool, number)))
            return bounds.reasons;
    }
    if (bounds.limit > box->scratch.size - box->scratch.used)
        return bounds.reasons;
    call->sdu = box->scratch.at + box->scratch.used;
    call->room = bounds.limit;
    uint64_t reason = function(call);
    if (SL_UNLIKELY(reason)) {
        call->length = 0;
        for (uint32_t i = 0; i < bounds.outputs; i++)
            call->outputs[i] = 0;
        return sl_min(reason, bounds.reasons);
    }
    call->length = (uint32_t)sl_min(call->length, bounds.limit);
    box->scratch.used += call->length;
    return 0;
}

#endif
