/* Carries out what isolated functions decide about packets, in the process of the stack.
 *
 * The entries of all logs of a batch are put into the order of the fused chain, and applied by the same functions that
 * a fused function calls (function/output.h), so that verdicts, bytes and figures are the same. */
#ifndef SL_ISOLATED_DECIDE_H
#define SL_ISOLATED_DECIDE_H

#include "function/edit_connection.h"
#include "isolated/order.h"
#include "isolated/send.h"

/* A copy of an entry, as its function may change it any time; its bytes, and the function that wrote it. */
struct sl_iso_decision {
    struct sl_iso_entry entry;
    const uint8_t *bytes;
    uint32_t function;
};

static struct sl_iso_decisions {
    struct sl_iso_decision *at;
    size_t count, room;
} sl_iso_decisions;

/* In the order of the fused chain: the timers of packets without events, which have one place, go by packets. qsort is
 * not stable; entries of one function lie in memory in their order. */
static int sl_iso_compare_decisions(const void *one, const void *other) {
    const struct sl_iso_decision *a = one, *b = other;
    if (a->entry.place.order == b->entry.place.order && a->entry.frame != b->entry.frame)
        return a->entry.frame < b->entry.frame ? -1 : 1;
    int order = sl_iso_compare_places(&a->entry.place, &b->entry.place);
    return order ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Does the copy of an entry make sense? */
static inline bool sl_iso_entry_valid(const struct sl_iso_entry *entry, const struct sl_iso_slot *slot) {
    bool apart = entry->action == SL_ISO_SEND_APART, bytes = apart || entry->action == SL_ISO_REWRITE || entry->action == SL_ISO_SEND;
    return entry->action < SL_ISO_PUBLISH && (!apart || entry->length > sizeof(struct sl_iso_apart)) && entry->place.length <= 2 * SL_ISO_NESTED &&
           (!bytes || entry->length <= entry->size - sizeof *entry) &&
           sl_iso_in_packet(slot, entry->frame, entry->place.order, entry->current != 0);
}

/* Collects the entries of a function's log. */
static inline void sl_iso_collect(const struct sl_iso *iso, uint32_t function, uint32_t place, uint32_t batch) {
    const struct sl_iso_log *log = sl_iso_log_of(iso, function, place);
    struct sl_iso_decisions *all = &sl_iso_decisions;
    size_t used = __atomic_load_n(&log->used, __ATOMIC_ACQUIRE), at = 0;
    if (log->batch != batch)
        return;
    used = sl_min(used, SL_ISO_LOG_BYTES - sizeof *log);
    while (at < used) {
        const struct sl_iso_entry *entry = (const struct sl_iso_entry *)(const void *)((const uint8_t *)(log + 1) + at);
        uint32_t size = sl_iso_entry_size(entry, used - at);
        if (!size) {
            iso->stack->invalid++;
            return;
        }
        at += size;
        if (all->count == all->room) {
            size_t room = all->room ? 2 * all->room : 1024;
            struct sl_iso_decision *larger = realloc(all->at, room * sizeof *larger);
            if (!larger) {
                iso->stack->invalid++;
                return;
            }
            all->at = larger;
            all->room = room;
        }
        struct sl_iso_decision *decision = &all->at[all->count];
        memcpy(&decision->entry, entry, sizeof *entry);
        __asm__ volatile("" ::: "memory");   /* from here on, only the copy is read */
        decision->entry.size = size;
        decision->bytes = (const uint8_t *)(entry + 1);
        decision->function = function;
        if (decision->entry.action == SL_ISO_PUBLISH)
            continue;
        if (sl_iso_entry_valid(&decision->entry, sl_iso_slot_at(iso, place)))
            all->count++;
        else
            iso->stack->invalid++;
    }
}

/* Sends a packet that a function has sent apart. One of another link type than the packets here would end an output file. */
static inline void sl_iso_send_apart(struct sl_box *box, const struct sl_iso_slot *slot, const struct sl_iso_decision *decision) {
    struct sl_iso_apart apart;
    memcpy(&apart, decision->bytes, sizeof apart);
    bool known = apart.link_type == box->output.link_type;
    for (uint32_t i = 0; !known && i < slot->packets; i++)
        known = apart.link_type == slot->frames[i].link_type;
    if (!known) {
        sl_iso_sender.iso->stack->invalid++;
        return;
    }
    const struct sl_frame frame = {.time = sl_min(apart.time, box->now), .link_type = (uint16_t)apart.link_type,
                                   .port = (uint16_t)apart.port};
    (sl_send_apart)(box, &frame, decision->bytes + sizeof apart, decision->entry.length - (uint32_t)sizeof apart,
                    decision->entry.at != 0);
}

static inline void sl_iso_apply(struct sl_box *box, const struct sl_iso_slot *slot, const struct sl_iso_decision *decision) {
    const struct sl_iso_entry *entry = &decision->entry;
    uint64_t function = (uint64_t)1 << decision->function;
    switch (entry->action) {
    case SL_ISO_DROP:
        (sl_drop_by)(box, function);
        break;
    case SL_ISO_REWRITE:
        if (box->frame && entry->at <= box->frame->captured)
            (sl_rewrite)(box, box->frame->at + entry->at, decision->bytes, entry->length);
        break;
    case SL_ISO_REDIRECT:
        (sl_redirect)(box, (uint16_t)entry->length);
        break;
    case SL_ISO_RESET:
        (sl_reset_by)(box, function);
        break;
    case SL_ISO_SEND:
        (sl_send_to)(box, decision->bytes, entry->length, entry->at != 0);
        break;
    case SL_ISO_SEND_APART:
        sl_iso_send_apart(box, slot, decision);
        break;
    }
}

static inline void sl_iso_at_packet(struct sl_box *box, const struct sl_iso_slot *slot, uint32_t frame, bool current) {
    box->output.place = frame ? frame - 1 : 0;
    box->frame = frame && current ? &slot->frames[frame - 1] : NULL;
    if (frame) {
        box->time = slot->frames[frame - 1].time;
        box->number = slot->frames[frame - 1].number;
    }
}

/* Functions that have not handled all events of a batch: they did not get them, or a crash left it unfinished. */
static inline uint64_t sl_iso_unseen(const struct sl_iso *iso, const struct sl_iso_slot *slot) {
    uint64_t unseen = slot->unseen;
    for (uint64_t left = __atomic_load_n(&iso->control->unseen, __ATOMIC_ACQUIRE) & slot->functions; left; left &= left - 1)
        if (iso->control->unseen_to[sl_iso_first(left)] - slot->batch < SL_ISO_QUEUE)
            unseen |= left & -left;
    return unseen;
}

/* A packet which a function that fails closed has not seen, as it is absent or crashed, does not pass. */
static inline void sl_iso_close(struct sl_box *box, const struct sl_iso *iso, const struct sl_iso_slot *slot,
                                struct sl_verdict *verdicts) {
    uint64_t absent = __atomic_load_n(&iso->control->absent, __ATOMIC_ACQUIRE);
    uint64_t closed = (absent | sl_iso_unseen(iso, slot)) & iso->control->closed;
    for (uint32_t i = 0; closed && verdicts && i < slot->packets; i++)
        if (verdicts[i].action != SL_DROP) {
            verdicts[i] = (struct sl_verdict){.action = SL_DROP};
            box->output.drops++;
            iso->stack->closed_drops++;
        }
}

/* Packets that a function notes as dropped are not seen by those after it: they do not pass without an entry, either. */
static inline void sl_iso_drop_noted(struct sl_box *box, const struct sl_iso_slot *slot, uint32_t place,
                                     uint64_t functions, struct sl_verdict *verdicts) {
    const struct sl_iso *iso = sl_iso_sender.iso;
    for (uint64_t left = verdicts ? functions : 0; left; left &= left - 1) {
        const struct sl_iso_log *log = sl_iso_log_of(iso, sl_iso_first(left), place);
        for (uint32_t i = 0; log->batch == slot->batch && i < slot->packets; i++)
            if (log->drops[i] && verdicts[i].action != SL_DROP) {
                verdicts[i] = (struct sl_verdict){.action = SL_DROP};
                box->output.drops++;
                iso->stack->invalid++;
            }
    }
}

/* Waits for the functions that decide, and applies what they decided. */
static inline void sl_iso_decide(struct sl_box *box, const struct sl_iso_slot *slot, uint32_t place, uint64_t functions,
                                 struct sl_verdict *verdicts) {
    const struct sl_iso *iso = sl_iso_sender.iso;
    struct sl_iso_decisions *all = &sl_iso_decisions;
    all->count = 0;
    for (uint64_t left = functions & iso->control->decide; left; left &= left - 1) {
        uint32_t function = sl_iso_first(left);
        if (!sl_iso_wait_done(iso, function, slot->batch, &iso->stack->sleeping))
            return;
        sl_iso_collect(iso, function, place, slot->batch);
    }
    if (all->count) {
        const struct sl_frame *frames = slot->packets ? slot->frames : NULL;
        uint64_t time = box->time, number = box->number;
        uint32_t frame = 0;
        size_t next = 0;
        qsort(all->at, all->count, sizeof *all->at, sl_iso_compare_decisions);
        if (frames)
            sl_output_begin(box, frames, verdicts);
        for (size_t i = 0; i < all->count; i++) {
            const struct sl_iso_decision *decision = &all->at[i];
            uint32_t of = decision->entry.frame;
            for (next = sl_max(next, i); next < all->count && !all->at[next].entry.frame;)
                next++;
            if (frame && !of && next < all->count && all->at[next].entry.frame == frame) {
                box->frame = NULL;   /* the stack ended another instance while it processed the packet */
                sl_iso_apply(box, slot, decision);
                continue;
            }
            if (of != frame) {
                if (frame)
                    sl_output_packet(box, &frames[frame - 1]);
                frame = of;
            }
            sl_iso_at_packet(box, slot, of, decision->entry.current != 0);
            sl_iso_apply(box, slot, decision);
        }
        if (frame && frames)
            sl_output_packet(box, &frames[frame - 1]);
        if (frames)
            sl_output_end(box, slot->packets);
        box->frame = NULL;
        box->time = time;
        box->number = number;
        if (frames) {
            const struct sl_frame *last = &frames[slot->packets - 1];
            box->output.link_type = last->link_type;
            box->output.last_port = last->port;
        }
    }
    sl_iso_drop_noted(box, slot, place, functions & iso->control->decide, verdicts);
    sl_iso_close(box, iso, slot, verdicts);
}

/* The driver has the verdicts of a batch: a process of the stack after this one does not decide again. */
static inline void sl_iso_note_decided(const struct sl_box *box, const struct sl_iso_slot *slot,
                                       const struct sl_verdict *verdicts) {
    struct sl_iso_stack *stack = sl_iso_sender.iso->stack;
    for (uint32_t i = 0; verdicts && i < slot->packets; i++)
        stack->left += verdicts[i].action != SL_DROP;
    stack->drops = box->output.drops;
    stack->changes = box->output.changes;
    stack->sends = box->output.sends;
    stack->decided = slot->input;
}

#endif
