/* What functions decide for one instance: how its streams are reassembled, and which function hears no more of it.
 *
 * Instances have a struct sl_control where a function says SLUICE_CONTROL, or where only handlers on demand want the
 * bytes of their streams. It has what a function may change and no more, as every packet asks for its lines of memory:
 * the other rules of a sequence are the stack's own, which are constants (sl_control_rules puts both together). */
#ifndef SL_CONTROL_H
#define SL_CONTROL_H

#include "core/box.h"

struct sl_control {
    uint64_t stopped[2];      /* of each side: a bit for each function that hears no more of it */
    uint32_t limit_bytes[2];  /* struct sl_sequence_rules has these three */
    uint8_t policy[2];
    bool buffer_data[2];      /* whether the bytes of a side are wanted now */
    bool off[2];              /* nobody is to have the bytes of a side */
    bool streams;             /* the instance has any; false: nothing here but `stopped` means anything */
};

enum { SL_BOTH = 2 };   /* in place of a side */

static inline void sl_control_begin(struct sl_control *control, const struct sl_sequence_rules *rules) {
    *control = (struct sl_control){
        .limit_bytes = {rules->limit_bytes, rules->limit_bytes},
        .policy = {rules->policy, rules->policy},
        .buffer_data = {rules->buffer_data, rules->buffer_data},
        .streams = true,
    };
}

/* The rules of a side: those of the stack, but for what functions decided. They are put into *own. */
static inline const struct sl_sequence_rules *sl_control_rules(const struct sl_control *control, unsigned side,
                                                               const struct sl_sequence_rules *rules,
                                                               struct sl_sequence_rules *own) {
    *own = *rules;
    own->limit_bytes = control->limit_bytes[side];
    own->policy = control->policy[side];
    own->buffer_data = control->buffer_data[side];
    return own;
}

/* --- for functions: of the instance of an event; false where it has none that a function controls --- */

static inline struct sl_control *sl_event_control(const struct sl_event *event) {
    if (!event->instance || !event->owner->control_offset)
        return NULL;
    return (struct sl_control *)(void *)((char *)event->instance + event->owner->control_offset);
}

/* From the next packet on: of a side at most so many bytes wait for others before them; more, and the hole is given up.
 * 0: its bytes are neither held nor delivered, to no function of the box, though its packets are still placed in the
 * sequence. Switched on again, what came in between was not delivered, and no event tells of it. */
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

/* Which copy of overlapping bytes of a side wins from the next packet on. */
static inline bool sl_policy(const struct sl_event *event, unsigned side, enum sl_policy policy) {
    struct sl_control *control = sl_event_control(event);
    if (!control || !control->streams || side > SL_BOTH || policy > SL_POLICY_SOLARIS)
        return false;
    for (unsigned each = 0; each < 2; each++)
        if (side == each || side == SL_BOTH)
            control->policy[each] = (uint8_t)policy;
    return true;
}

/* From the next event on: functions hear no more of a side's packets and bytes, or do again. */
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

/* The functions that do not hear of an event of `side`; of an instance's end those that hear of neither side. */
static inline uint64_t sl_stopped(const struct sl_event *event, bool of_both) {
    const struct sl_control *control = sl_event_control(event);
    if (!control)
        return 0;
    return of_both ? control->stopped[0] & control->stopped[1] : control->stopped[event->side & 1];
}

/* sl_control_want when that changes. */
SL_COLD void sl_control_switch(struct sl_control *control, unsigned side, struct sl_sequence *seq, bool wanted,
                               struct sl_pool *pool, uint64_t *discarded) {
    if (seq->lent)
        return;   /* a packet within the packet; its next one will do */
    control->buffer_data[side] = wanted;
    if (wanted)
        sl_sequence_forget_bytes(seq);
    else
        *discarded += sl_sequence_pass_bytes(seq, pool);
}

/* Whether the bytes of a side are wanted, said before a packet of it comes to its sequence. */
static inline void sl_control_want(struct sl_control *control, unsigned side, struct sl_sequence *seq, bool wanted,
                                   struct sl_pool *pool, uint64_t *discarded) {
    wanted = wanted && !control->off[side];
    if (SL_UNLIKELY(wanted != control->buffer_data[side]))
        sl_control_switch(control, side, seq, wanted, pool, discarded);
}

#endif
