/* Packet time: timers, and flows that end by it. */
#include "monitor.h"

#include <errno.h>

enum { TIMERS_AT_ONCE = 4096 };   /* callbacks of timers between two packets; a clock that jumps farther does so at once */

static bool earlier(const struct mos_timer *a, const struct mos_timer *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void swap_timers(struct mos_timer *a, struct mos_timer *b)
{
    struct mos_timer timer = *a;
    *a = *b;
    *b = timer;
}

int mtcp_settimer(mctx_t mctx, int id, struct timeval *timeout, callback_t callback)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!context) {
        errno = EACCES;
        return -1;
    }
    if (!timeout || !callback || timeout->tv_sec < 0 || timeout->tv_usec < 0) {
        errno = EINVAL;
        return -1;
    }
    if (mos_is_foreign(context)) {
        errno = EPERM;
        return -1;
    }
    if (context->timer_count == context->timer_room) {
        unsigned room = context->timer_room ? 2 * context->timer_room : 16;
        struct mos_timer *timers = realloc(context->timers, room * sizeof *timers);
        if (!timers) {
            errno = ENOMEM;
            return -1;
        }
        context->timers = timers;
        context->timer_room = room;
    }
    uint64_t seconds = sl_min((uint64_t)timeout->tv_sec, SL_NEVER / 2000000000u);
    uint64_t after = seconds * 1000000000u + sl_min((uint64_t)timeout->tv_usec, 1000000u) * 1000u;
    after = sl_max(after, 1);   /* else one that sets itself again would be due at once for ever */
    uint64_t when = after > SL_NEVER - context->time ? SL_NEVER : context->time + after;   /* never, after the end of time */
    unsigned at = context->timer_count++;
    context->timers[at] = (struct mos_timer){when, context->timer_order++, id, callback};
    for (; at && earlier(&context->timers[at], &context->timers[(at - 1) / 2]); at = (at - 1) / 2)
        swap_timers(&context->timers[at], &context->timers[(at - 1) / 2]);
    return 0;
}

static struct mos_timer take_timer(struct mos_context *context)
{
    struct mos_timer first = context->timers[0];
    context->timers[0] = context->timers[--context->timer_count];
    for (unsigned at = 0, child; (child = 2 * at + 1) < context->timer_count; at = child) {
        if (child + 1 < context->timer_count && earlier(&context->timers[child + 1], &context->timers[child]))
            child++;
        if (!earlier(&context->timers[child], &context->timers[at]))
            break;
        swap_timers(&context->timers[at], &context->timers[child]);
    }
    return first;
}

uint32_t mtcp_cb_get_ts(mctx_t mctx)
{
    const struct mos_context *context = mos_context_of(mctx);
    if (context && !mos_is_foreign(context))
        return (uint32_t)(context->time / 1000);
    errno = context ? EPERM : EACCES;
    return 0;
}

static uint64_t due(const struct mos_queue *queue) { return queue->first ? queue->first->deadline : SL_NEVER; }

/* When the next timer of a context fires, or the next flow ends; SL_NEVER for none. */
static uint64_t next_due(const struct mos_context *context)
{
    uint64_t timer = context->timer_count ? context->timers[0].due : SL_NEVER;
    return sl_min(timer, sl_min(due(&context->open), due(&context->time_wait)));
}

/* Timers that were set before the first packet count from there. */
static void start(struct mos_context *context, uint64_t now)
{
    if (context->started)
        return;
    context->started = true;
    for (unsigned i = 0; i < context->timer_count; i++)
        context->timers[i].due = context->timers[i].due > SL_NEVER - now ? SL_NEVER : context->timers[i].due + now;
    context->time = now;
}

/* Handles the timer, or the timeout of flows, that is due at `next`. */
static void happen(struct mos_context *context, uint64_t next)
{
    if (context->timer_count && context->timers[0].due == next) {
        struct mos_timer first = take_timer(context);
        first.callback(&context->public, first.id, MOS_SIDE_BOTH, MOS_NULL_EVENT, NULL);
    } else if (due(&context->open) == next) {
        mos_flow_end(context->open.first, MOS_ON_TIMEOUT);
    } else {
        mos_flow_end(context->time_wait.first, 0);
    }
}

bool mos_time_passes(struct mos_context **contexts, unsigned count, uint64_t now)
{
    if (count != 1 || !contexts[0]->started || next_due(contexts[0]) <= now)
        return false;
    contexts[0]->time = sl_max(contexts[0]->time, now);
    return true;
}

void mos_advance(struct mos_context **contexts, unsigned count, uint64_t now)
{
    if (mos_time_passes(contexts, count, now))   /* before nearly every packet */
        return;
    for (unsigned i = 0; i < count; i++)
        start(contexts[i], now);
    for (unsigned happened = 0; !mos_stopped(); happened++) {
        struct mos_context *first = contexts[0];
        for (unsigned i = 1; i < count; i++)
            first = next_due(contexts[i]) < next_due(first) ? contexts[i] : first;
        uint64_t next = next_due(first);
        if (next > now || next == SL_NEVER)
            break;
        first->time = sl_max(first->time, happened > TIMERS_AT_ONCE ? now : next);
        happen(first, next);
    }
    for (unsigned i = 0; i < count; i++)
        contexts[i]->time = sl_max(contexts[i]->time, now);
}

uint64_t mos_next_due(struct mos_context *const *contexts, unsigned count)
{
    uint64_t next = SL_NEVER;
    for (unsigned i = 0; i < count; i++)
        next = sl_min(next, next_due(contexts[i]));
    return next;
}
