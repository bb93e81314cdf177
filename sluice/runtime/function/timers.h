/* Timers of functions, in packet time: each fires once, before the first packet that is not earlier.
 *
 * A box has a binary heap ordered by time (Williams, "Heapsort", 1964). The heap is never searched: a timer that is
 * disarmed or set for a later time leaves its entry in place, and when the entry comes up, the timer's own fields
 * decide. Entries of instances that have ended are recognised by the instance's number, which is unique. */
#ifndef SL_TIMERS_H
#define SL_TIMERS_H

#include "core/box.h"

static inline bool sl_timers_due(const struct sl_box *box) {
    return box->timers.count && box->timers.entry[0].time <= box->now;
}

/* Adds an entry to the heap, which has room. */
static inline void sl_timers_put(struct sl_timers *timers, struct sl_timer_entry entry) {
    uint32_t place = timers->count++;
    for (uint32_t up; place && timers->entry[up = (place - 1) / 2].time > entry.time; place = up)
        timers->entry[place] = timers->entry[up];
    timers->entry[place] = entry;
}

/* Makes room: removes obsolete entries, and enlarges the heap if they were less than half of all. So it has at most
 * twice as many entries as there are armed timers, whatever functions and connections do. False without memory.
 *
 * A timer that was set for one time, then for an earlier one, then for the first again has two entries for the first
 * time. Once one of them is stored, the timer's `entry` is cleared to exclude the others, until all have been
 * examined. */
SL_COLD bool sl_timers_make_room(struct sl_box *box) {
    struct sl_timers *timers = &box->timers;
    uint32_t count = timers->count;
    timers->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct sl_timer_entry entry = timers->entry[i];   /* its new place is here or earlier: the entries after it are
                                                           * unchanged */
        struct sl_timer *timer = timers->find(box, &entry);
        if (timer && timer->entry == entry.time) {
            sl_timers_put(timers, entry);
            timer->entry = SL_NEVER;
        }
    }
    for (uint32_t i = 0; i < timers->count; i++)
        timers->find(box, &timers->entry[i])->entry = timers->entry[i].time;
    if (timers->count <= timers->room / 2 && timers->room)
        return true;
    uint32_t room = timers->room ? 2 * timers->room : 64;
    struct sl_timer_entry *larger =
        timers->room < UINT32_MAX / 4 ? realloc(timers->entry, (size_t)room * sizeof *larger) : NULL;
    if (!larger)
        return timers->count < timers->room;
    timers->entry = larger;
    timers->room = room;
    return true;
}

/* Removes the earliest entry. */
SL_COLD struct sl_timer_entry sl_timers_take(struct sl_box *box) {
    struct sl_timers *timers = &box->timers;
    struct sl_timer_entry first = timers->entry[0], last = timers->entry[--timers->count];
    uint32_t place = 0, down;
    while ((down = 2 * place + 1) < timers->count) {
        if (down + 1 < timers->count && timers->entry[down + 1].time < timers->entry[down].time)
            down++;
        if (timers->entry[down].time >= last.time)
            break;
        timers->entry[place] = timers->entry[down];
        place = down;
    }
    timers->entry[place] = last;
    return first;
}

/* Sets a timer for the time of `entry`. False without memory; then the timer is unchanged. */
static inline bool sl_timer_set(struct sl_box *box, struct sl_timer *timer, struct sl_timer_entry entry) {
    if (entry.time < timer->entry) {   /* otherwise its entry comes up earlier, and is moved then */
        if (box->timers.count == box->timers.room && !sl_timers_make_room(box))
            return false;
        sl_timers_put(&box->timers, entry);
        timer->entry = entry.time;
    }
    timer->at = entry.time;
    return true;
}

/* The time at which a timer of so many nanoseconds fires. It never fires at once, so that packets are processed even if
 * a timer always sets itself again. It never fires beyond the end of time, which a capture may claim to have
 * reached. */
static inline uint64_t sl_timer_time(const struct sl_box *box, uint64_t nanoseconds) {
    nanoseconds = sl_max(nanoseconds, 1);
    return nanoseconds < SL_NEVER - box->now ? box->now + nanoseconds : SL_NEVER;
}

/* Called for the first packet: timers that were set before count from its time on. */
SL_COLD void sl_timers_begin(struct sl_box *box, uint64_t time, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct sl_timer *timer = &box->timers.own[i];
        timer->at = timer->at > SL_NEVER - time ? SL_NEVER : timer->at + time;
        timer->entry = timer->entry > SL_NEVER - time ? SL_NEVER : timer->entry + time;
    }
    for (uint32_t i = 0; i < box->timers.count; i++)
        box->timers.entry[i].time = sl_min(box->timers.entry[i].time, SL_NEVER - time) + time;
}

/* A timer of the instance of an event; NULL if it has none. */
static inline struct sl_timer *sl_event_timer(const struct sl_event *event, uint32_t which) {
    uint32_t offset = event->instance ? event->owner->timer[which] : 0;
    return offset ? (struct sl_timer *)(void *)((char *)event->instance + offset) : NULL;
}

/* The instance that contains a timer. */
static inline struct sl_instance *sl_timer_instance(struct sl_timer *timer, const struct sl_layer_info *owner,
                                                    uint32_t which) {
    return (struct sl_instance *)(void *)((char *)timer - owner->timer[which]);
}

/* Sets a timer of the instance of an event; false if it has none, or without memory. */
static inline bool sl_timer_arm(const struct sl_event *event, uint16_t which, uint64_t nanoseconds) {
    struct sl_timer *timer = sl_event_timer(event, which);
    return timer && sl_timer_set(event->box, timer,
                                 (struct sl_timer_entry){sl_timer_time(event->box, nanoseconds), sl_event_number(event),
                                                         event->instance->slot, (uint16_t)event->owner->index, which});
}

static inline bool sl_timer_disarm(const struct sl_event *event, uint32_t which) {
    struct sl_timer *timer = sl_event_timer(event, which);
    if (timer)
        timer->at = SL_NEVER;
    return timer != NULL;
}

/* Does the instance of a timer expire no later than the timer fires? */
static inline bool sl_timer_outlives(const struct sl_timer *timer, const struct sl_instance *instance) {
    return instance->deadline <= timer->at && instance->deadline != SL_NEVER;
}

/* Sets a timer of the box. */
static inline bool sl_timer_arm_box(struct sl_box *box, uint16_t which, uint64_t nanoseconds) {
    return sl_timer_set(box, &box->timers.own[which],
                        (struct sl_timer_entry){sl_timer_time(box, nanoseconds), 0, 0, 0, which});
}

static inline void sl_timer_disarm_box(struct sl_box *box, uint32_t which) { box->timers.own[which].at = SL_NEVER; }

/* Does a timer fire whose entry has come up? If it was set for a later time, it gets a new entry. */
static inline bool sl_timer_fires(struct sl_box *box, struct sl_timer *timer, struct sl_timer_entry entry) {
    if (timer->entry != entry.time)
        return false;
    timer->entry = SL_NEVER;
    bool fires = timer->at <= box->now && timer->at != SL_NEVER;
    entry.time = timer->at;
    timer->at = SL_NEVER;
    if (!fires && entry.time != SL_NEVER && !sl_timer_set(box, timer, entry))
        sl_fail(box, "timers", "no memory for one more");
    return fires;
}

#endif
