/* A process of the stack that takes the place of one that ended (CHC: a new root; thesis, 3.4.4 and A.3.3).
 *
 * The packet log is in memory that outlives the process: its newest batch has the clock, the newest instance, and how many
 * packets of the input were logged so far. The controller says what the input can do. Files are read again: what was logged is processed
 * without events, so that the stack has the state that it had, and packets on which functions have decided meanwhile leave
 * now. Other inputs go on where they are: what the stack knew of their connections is lost. */
#ifndef SL_ISOLATED_RECOVER_H
#define SL_ISOLATED_RECOVER_H

#include "isolated/decide.h"

/* The newest batch; NULL if there is none. *sender gets what the log has of it. */
static inline const struct sl_iso_slot *sl_iso_newest(const struct sl_iso *iso, struct sl_iso_sender *sender) {
    const struct sl_iso_slot *newest = NULL, *begun = NULL;
    for (uint32_t place = 0; place < SL_ISO_SLOTS; place++) {
        const struct sl_iso_slot *slot = sl_iso_slot_at(iso, place);
        if (slot->batch == iso->stack->batches && iso->stack->batches) {
            newest = slot;
            sender->place = place;
        } else if (slot->batch == iso->stack->batches + 1) {
            begun = slot;   /* it was not submitted, and has the place of the newest one */
        }
    }
    if (newest) {
        sender->order = newest->last;
        sender->created = newest->created;
        sender->input = newest->input;
    } else if (begun) {
        sender->order = begun->before;
        sender->created = begun->created_before;
        sender->input = begun->input_before;
    }
    return newest;
}

/* The functions get the newest batch that the process before was about to give them. */
static inline void sl_iso_resubmit(const struct sl_iso *iso, const struct sl_iso_slot *slot, uint32_t place) {
    uint64_t absent = __atomic_load_n(&iso->control->absent, __ATOMIC_ACQUIRE);
    for (uint64_t left = slot->functions & ~absent; left; left &= left - 1) {
        struct sl_iso_queue *queue = &iso->stack->queue[sl_iso_first(left)];
        if (queue->batch != slot->batch)
            sl_iso_enqueue(queue, place, slot->batch);
        sl_iso_wake(&queue->count);
    }
}

SL_COLD void sl_iso_recover(const struct sl_iso *iso) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    struct sl_iso_stack *stack = iso->stack;
    const struct sl_iso_slot *slot = sl_iso_newest(iso, sender);
    if (slot)
        sl_iso_resubmit(iso, slot, sender->place);
    stack->clock = sender->order;
    sender->undecided = slot && slot->input > stack->decided ? slot : NULL;
    sender->silent = iso->control->replays && sender->input;
    if (!sender->silent && !iso->control->replays) {
        stack->root_lost += stack->read - sl_min(stack->read, stack->decided);
        stack->decided = sender->input;
    }
    stack->read = sender->input;
    if (!sender->silent) {
        __atomic_store_n(&stack->roots, iso->control->roots, __ATOMIC_RELEASE);
    }
}

/* What was logged is processed: packets are handled as those before. */
static inline void sl_iso_replayed(struct sl_box *box) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    struct sl_iso_stack *stack = sender->iso->stack;
    sender->silent = false;
    box->output.drops += stack->drops;
    box->output.changes += stack->changes;
    box->output.sends += stack->sends;
    __atomic_store_n(&stack->roots, sender->iso->control->roots, __ATOMIC_RELEASE);
}

/* Processes packets that were logged; returns how many of these. Those that have left do not leave again. */
SL_COLD size_t sl_iso_replay(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    struct sl_iso_stack *stack = sender->iso->stack;
    size_t done = 0;
    while (done < count && sender->replayed < sender->input) {
        uint64_t decided = sl_min(stack->decided, sender->input);
        bool known = sender->replayed < decided;
        size_t some = sl_min(count - done, (known ? decided : sender->input) - sender->replayed);
        const struct sl_iso_slot *slot = known ? NULL : sender->undecided;
        sender->process(box, frames + done, some, verdicts ? verdicts + done : NULL);
        sender->replayed += some;
        for (size_t i = 0; verdicts && i < some; i++)
            verdicts[done + i] = (struct sl_verdict){.action = slot && slot->packets == some ? SL_PASS : SL_DROP};
        if (sender->replayed == sender->input)
            sl_iso_replayed(box);
        if (slot && slot->packets == some) {
            sl_iso_decide(box, slot, sender->place, slot->functions, verdicts ? verdicts + done : NULL);
            sl_iso_note_decided(box, slot, verdicts ? verdicts + done : NULL);
        } else if (!known) {
            stack->root_lost += some;
        }
        done += some;
    }
    return done;
}

#endif
