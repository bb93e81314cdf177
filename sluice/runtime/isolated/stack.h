/* What the driver calls in the process of the stack, in place of the stack's own functions. */
#ifndef SL_ISOLATED_STACK_H
#define SL_ISOLATED_STACK_H

#include "isolated/recover.h"

/* Instances have numbers after those of the process before. */
static inline void sl_iso_resume(struct sl_box *box) {
    const struct sl_iso_sender *sender = &sl_iso_sender;
    if (SL_UNLIKELY(box->created < sender->created) && !sender->silent)
        box->created = sender->created;
}

/* Submits the batch, if one has begun, or if functions need it for their timers. */
static inline void sl_iso_end(struct sl_box *box, struct sl_verdict *verdicts, bool needed) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    if (!sender->slot && (!needed || !sl_iso_begin()))
        return;
    const struct sl_iso_slot *slot = sender->slot;
    uint32_t place = sender->place;
    sl_iso_decide(box, slot, place, sl_iso_submit(box), verdicts);
    sl_iso_note_decided(box, slot, verdicts);
}

void sl_iso_process(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    sl_iso_resume(box);
    if (SL_UNLIKELY(sender->silent)) {
        size_t done = sl_iso_replay(box, frames, count, verdicts);
        frames += done;
        count -= done;
        verdicts = verdicts ? verdicts + done : NULL;
        if (!count)
            return;
    }
    sender->kind = SL_ISO_BURST;
    if (verdicts && count > SL_ISO_PACKETS) {   /* changed packets are valid until the next batch */
        (sl_fail)(box, "isolated chain", "more packets in a burst than a batch has");
        for (size_t i = 0; i < count; i++)
            verdicts[i] = (struct sl_verdict){.action = SL_DROP};
        return;
    }
    if (verdicts && sl_iso_log_full(sender->iso)) {
        for (size_t i = 0; i < count; i++)
            verdicts[i] = (struct sl_verdict){.action = SL_DROP};
        box->output.drops += count;
        sender->iso->stack->log_drops += count;
        return;
    }
    for (size_t first = 0; first < count;) {
        if (!sl_iso_begin()) {   /* the chain ends: the controller is gone */
            for (; verdicts && first < count; first++)
                verdicts[first] = (struct sl_verdict){.action = SL_DROP};
            return;
        }
        struct sl_iso_slot *slot = sender->slot;
        size_t packets = 0;
        for (; packets < SL_ISO_PACKETS && first + packets < count; packets++) {
            struct sl_frame *frame = &slot->frames[packets];
            *frame = frames[first + packets];
            if (frame->captured > SL_ISO_SLOT_BYTES / 2 - slot->used && packets && !verdicts)
                break;
            uint8_t *copy = sl_iso_room(frame->captured);
            if (!copy) {   /* more than the driver reads at once: it is processed as if it were cut off */
                (sl_fail)(box, "isolated chain", "packets of a burst that are larger than its memory");
                frame->captured = 0;
            } else if (frame->captured) {
                memcpy(copy, frame->at, frame->captured);
                frame->at = copy;
            }
        }
        slot->packets = (uint32_t)packets;
        sender->iso->stack->read += packets;
        sender->process(box, slot->frames, packets, verdicts ? verdicts + first : NULL);
        sl_iso_end(box, verdicts ? verdicts + first : NULL, true);
        first += packets;
    }
}

uint64_t sl_iso_tick(struct sl_box *box, uint64_t now) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    sl_iso_resume(box);
    sender->kind = SL_ISO_TICK;
    uint64_t due = sender->tick(box, now);
    if (SL_UNLIKELY(sender->silent))
        return due;
    sl_iso_end(box, NULL, sender->iso->control->always != 0);
    return due;
}

/* The figures of packets, which the stack reported before functions had decided about its last events. */
static inline void sl_iso_report(struct sl_box *box) {
    const struct sl_output *output = &box->output;
    const struct { const char *name; uint64_t value; } figures[] = {
        {"packets_dropped", output->drops}, {"packets_changed", output->changes}, {"packets_sent", output->sends}};
    for (uint32_t i = 0; i < box->report_count; i++)
        for (unsigned k = 0; k < 3; k++)
            if (!box->reports[i].function && strcmp(box->reports[i].name, figures[k].name) == 0)
                box->reports[i].value = figures[k].value;
}

bool sl_iso_step(struct sl_box *box, uint32_t slots) {
    struct sl_iso_sender *sender = &sl_iso_sender;
    sl_iso_resume(box);
    if (sender->silent)   /* the input is shorter than it was */
        sl_iso_replayed(box);
    sender->kind = SL_ISO_STEP;
    bool more = sender->step(box, slots);
    sl_iso_end(box, NULL, false);
    if (more)
        return true;
    sender->kind = SL_ISO_END;
    sl_iso_end(box, NULL, true);
    for (uint32_t place = 0; place < SL_ISO_SLOTS; place++) {   /* of functions that only watch, too */
        const struct sl_iso_slot *slot = sl_iso_slot_at(sender->iso, place);
        for (uint64_t left = slot->functions; left; left &= left - 1)
            sl_iso_wait_settled(sender->iso, sl_iso_first(left), slot->batch, &sender->iso->stack->sleeping);
        sl_iso_delete(sender->iso, place);
    }
    sl_iso_report(box);
    return false;
}

/* Connects the stack with the functions. */
void sl_iso_attach(const struct sl_iso *iso, const struct sl_iso_events *events, sl_iso_process_function process,
                   sl_iso_tick_function tick, sl_iso_step_function step) {
    sl_iso_sender = (struct sl_iso_sender){
        .iso = iso, .events = *events, .process = process, .tick = tick, .step = step};
    if (iso->control->roots)
        sl_iso_recover(iso);
}

#endif
