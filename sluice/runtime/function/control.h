/* What functions decide for one instance: how its streams are reassembled, and which functions no longer receive its
 * events.
 *
 * Instances have a struct sl_control if a function declares SLUICE_CONTROL, or if only handlers on demand need the
 * bytes of their streams. It contains only what a function may change, because its cache lines are prefetched for every
 * packet. The other rules of a sequence are those of the stack, which are constants (sl_control_rules combines
 * both). */
#ifndef SL_CONTROL_H
#define SL_CONTROL_H

#include "core/box.h"

struct sl_control {
    uint64_t stopped[2];      /* by side: a bit for each function that no longer receives its events */
    uint32_t limit_bytes[2];  /* struct sl_sequence_rules explains these three */
    uint8_t policy[2];
    bool buffer_data[2];      /* whether the bytes of a side are needed now */
    bool off[2];              /* the bytes of a side are switched off for all functions */
    bool streams;             /* the instance has streams; false: only `stopped` has a meaning */
};

enum { SL_BOTH = 2 };   /* as an argument for a side */

static inline void sl_control_begin(struct sl_control *control, const struct sl_sequence_rules *rules) {
    *control = (struct sl_control){
        .limit_bytes = {rules->limit_bytes, rules->limit_bytes},
        .policy = {rules->policy, rules->policy},
        .buffer_data = {rules->buffer_data, rules->buffer_data},
        .streams = true,
    };
}

/* The rules of a side: those of the stack, as changed by functions. They are written to *own. */
static inline const struct sl_sequence_rules *sl_control_rules(const struct sl_control *control, unsigned side,
                                                               const struct sl_sequence_rules *rules,
                                                               struct sl_sequence_rules *own) {
    *own = *rules;
    own->limit_bytes = control->limit_bytes[side];
    own->policy = control->policy[side];
    own->buffer_data = control->buffer_data[side];
    return own;
}

/* --- for functions: for the instance of an event; false if it has none that a function controls --- */

static inline struct sl_control *sl_event_control(const struct sl_event *event) {
    if (!event->instance || !event->owner->control_offset)
        return NULL;
    return (struct sl_control *)(void *)((char *)event->instance + event->owner->control_offset);
}

/* From the next packet on: at most so many bytes of a side may wait for earlier ones; beyond that, the hole is given
 * up. 0: its bytes are neither held nor delivered to any function of the box, though its packets are still placed in
 * the sequence. After a later call with another number, bytes that arrived in between have not been delivered, and no
 * event reports them. */
static inline bool sl_buffer(const struct sl_event *event, unsigned side, uint32_t bytes) {
    struct sl_control *control = sl_event_control(event);
    if (!control || !control->streams || side > SL_BOTH)
        return false;
    for (unsigned each = 0; each < 2; each++)
        if (side == each || side == SL_BOTH) {
            control->off[each] = bytes == 0;
            if (bytes)
                control->limit_bytes[each] = bytes;
        }
    return true;
}

/* Sets, from the next packet on, which copy of overlapping bytes of a side wins. */
static inline bool sl_policy(const struct sl_event *event, unsigned side, enum sl_policy policy) {
    struct sl_control *control = sl_event_control(event);
    if (!control || !control->streams || side > SL_BOTH || policy > SL_POLICY_SOLARIS)
        return false;
    for (unsigned each = 0; each < 2; each++)
        if (side == each || side == SL_BOTH)
            control->policy[each] = (uint8_t)policy;
    return true;
}

/* From the next event on: functions no longer receive events for a side's packets and bytes, or receive them again. */
static inline bool sl_stop(const struct sl_event *event, unsigned side, uint64_t functions, bool stopped) {
    struct sl_control *control = sl_event_control(event);
    if (!control || side > SL_BOTH)
        return false;
    for (unsigned each = 0; each < 2; each++)
        if (side == each || side == SL_BOTH)
            control->stopped[each] = stopped ? control->stopped[each] | functions : control->stopped[each] & ~functions;
    return true;
}

/* --- used by generated code --- */

/* The functions that do not receive an event of `side`. For the end of an instance (of_both): those that receive the
 * events of neither side. */
static inline uint64_t sl_stopped(const struct sl_event *event, bool of_both) {
    const struct sl_control *control = sl_event_control(event);
    if (!control)
        return 0;
    return of_both ? control->stopped[0] & control->stopped[1] : control->stopped[event->side & 1];
}

/* sl_control_want when the value changes. */
SL_COLD void sl_control_switch(struct sl_control *control, unsigned side, struct sl_sequence *seq, bool wanted,
                               struct sl_pool *pool, uint64_t *discarded) {
    if (seq->lent)
        return;   /* bytes of the sequence are in use: the current packet is nested in another one. The next packet
                   * makes the change */
    control->buffer_data[side] = wanted;
    if (wanted)
        sl_sequence_forget_bytes(seq);
    else
        *discarded += sl_sequence_pass_bytes(seq, pool);
}

/* Sets whether the bytes of a side are needed, before a packet of it reaches its sequence. */
static inline void sl_control_want(struct sl_control *control, unsigned side, struct sl_sequence *seq, bool wanted,
                                   struct sl_pool *pool, uint64_t *discarded) {
    wanted = wanted && !control->off[side];
    if (SL_UNLIKELY(wanted != control->buffer_data[side]))
        sl_control_switch(control, side, seq, wanted, pool, discarded);
}

#endif
