/* What a C function on events includes.
 *
 *     #include "sluice.h"
 *
 *     struct totals { uint64_t bytes; };
 *     SLUICE_WORKER(struct totals)
 *
 *     SLUICE_ON(tcp, data) {
 *         SLUICE_WORKER_OF(event->box)->bytes += data->bytes.length;
 *     }
 *     SLUICE_CLOSE {
 *         sl_report(box, "bytes", SLUICE_WORKER_OF(box)->bytes);
 *     }
 *
 * SLUICE_ON(layer, event) { ... }   `layer` is a layer's or parser's name, or any. Inside: `event` says where, `data` is
 *                                   what the event brings along: struct sl_on_NAME, or for a Callback the user's layout.
 * SLUICE_EVENT(layer, name, base) { ... }   an event of your own: it happens when `base`, an event of the layer or one of
 *                                   these, does and what stands here returns true; `event` and `data` are those of `base`.
 *                                   It is asked once, and only while somebody listens to the event, by SLUICE_ON.
 * SLUICE_ON_DEMAND(layer, event) { ... }   like SLUICE_ON, but called only while registered: for all instances between
 *                                   SLUICE_REGISTER(box, layer, event) and SLUICE_DEREGISTER(box, layer, event), and for
 *                                   the one of `event` otherwise by SLUICE_REGISTER_FLOW(event, layer, name) and
 *                                   SLUICE_DEREGISTER_FLOW(event, layer, name). At most 64 of them in a box.
 * SLUICE_KEEP(layer, bytes)         the layer's sequences keep so many of the bytes that they delivered last, so that the
 *                                   event rexmit has their first copy (`old`).
 * SLUICE_STATE(type)                every instance of the layers that it listens to carries one, zeroed when it begins;
 *                                   SLUICE_STATE_OF(event) points to it.
 * SLUICE_WORKER(type)               one for the worker, zeroed; SLUICE_WORKER_OF(box) points to it.
 * SLUICE_PARAMETER(name, kind, value, help)   what a user may set by NAME=VALUE behind the function's colon: a `text`, a
 *                                   `number`, `seconds` (a double) or a `flag` (a bool, yes or no); `value` is what it is
 *                                   otherwise, `help` says what for. SLUICE_PARAMETER_OF(box, name) is its value.
 * SLUICE_COUNTER(name, help)        a number of the box, 0 at the beginning, that is reported at the end by its name; `help`
 *                                   says of what. SLUICE_COUNTER_OF(box, name) is the number.
 * SLUICE_OPEN { ... return 0; }     once at the beginning; `box`, and `options`, the user's text behind the colon or "".
 *                                   Not 0 refuses to run.
 * SLUICE_CLOSE { ... }              once at the end; `box`.
 *
 * The file is compiled with the stack, as one unit: a function that is called for every packet costs no call. Sluice
 * finds the lines by reading them, so each of these stands at the beginning of a line. */
#ifndef SL_SLUICE_H
#define SL_SLUICE_H

#include "box.h"
#include "parameters.h"

#include <stdio.h>

#define SL_PASTE2(a, b) a##b
#define SL_PASTE(a, b) SL_PASTE2(a, b)
#define SL_JOIN(a, b) SL_PASTE(a, SL_PASTE(_, b))

/* Unused where no layer has such an event. */
#define SLUICE_ON(layer, name)                                                                            \
    __attribute__((unused)) static inline void SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, name))(            \
        __attribute__((unused)) const struct sl_event *event,                                             \
        __attribute__((unused)) const SL_JOIN(sl_data, SL_JOIN(layer, name)) *data)

#define SLUICE_ON_DEMAND(layer, name) SLUICE_ON(layer, name)

#define SLUICE_BIT_OF(layer, name) ((uint64_t)1 << SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, bit))))
#define SLUICE_REGISTER(box, layer, name) ((box)->registered |= SLUICE_BIT_OF(layer, name))
#define SLUICE_DEREGISTER(box, layer, name) ((box)->registered &= ~SLUICE_BIT_OF(layer, name))
#define SLUICE_REGISTER_FLOW(event, layer, name) sl_watch(event, SLUICE_BIT_OF(layer, name), true)
#define SLUICE_DEREGISTER_FLOW(event, layer, name) sl_watch(event, SLUICE_BIT_OF(layer, name), false)

#define SLUICE_EVENT(layer, name, base)                                                                   \
    __attribute__((unused)) static inline bool SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, filter)))( \
        __attribute__((unused)) const struct sl_event *event,                                             \
        __attribute__((unused)) const SL_JOIN(sl_data, SL_JOIN(layer, name)) *data)

#define SLUICE_KEEP(layer, bytes)

#define SLUICE_STATE(type)                                                                                \
    typedef type SL_JOIN(SLUICE_FUNCTION, state_type);                                                    \
    static inline type *SL_JOIN(SLUICE_FUNCTION, state)(const struct sl_event *event) {                   \
        return (type *)(void *)((char *)event->instance +                                                 \
                                event->owner->function_state[SL_JOIN(SLUICE_FUNCTION, index)]);           \
    }
#define SLUICE_STATE_OF(event) SL_JOIN(SLUICE_FUNCTION, state)(event)

#define SLUICE_WORKER(type)                                                                               \
    typedef type SL_JOIN(SLUICE_FUNCTION, worker_type);                                                   \
    static inline type *SL_JOIN(SLUICE_FUNCTION, worker)(const struct sl_box *box) {                      \
        return (type *)box->workers[SL_JOIN(SLUICE_FUNCTION, index)];                                     \
    }
#define SLUICE_WORKER_OF(box) SL_JOIN(SLUICE_FUNCTION, worker)(box)

#define SLUICE_PARAMETER(name, kind, value, help)
#define SLUICE_PARAMETER_OF(box, name) (SL_JOIN(SLUICE_FUNCTION, parameters)(box)->name)

#define SLUICE_COUNTER(name, help)
#define SLUICE_COUNTER_OF(box, name) (SL_JOIN(SLUICE_FUNCTION, counters)(box)->name)

#define SLUICE_OPEN                                                                                       \
    static int SL_JOIN(SLUICE_FUNCTION, open)(__attribute__((unused)) struct sl_box *box,                 \
                                              __attribute__((unused)) const char *options)
#define SLUICE_CLOSE                                                                                      \
    static void SL_JOIN(SLUICE_FUNCTION, close)(__attribute__((unused)) struct sl_box *box)

#endif
