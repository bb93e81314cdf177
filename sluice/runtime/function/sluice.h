/* What a C function on events includes.
 *
 *     #include "function/sluice.h"
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
 * SLUICE_CONTROL(layer)             the function decides of single instances of the layer: by sl_buffer(event, side, bytes)
 *                                   and sl_policy(event, side, policy), see control.h, and by SLUICE_STOP(event, side), from
 *                                   which on its handlers hear no more of a side (0: the active one's, 1, or SL_BOTH), nor
 *                                   of the end when that is both; SLUICE_RESUME(event, side) lets them again.
 * SLUICE_INLINE                     what follows needs a box that packets go through, as `sluice run -w FILE` has one:
 *                                   SLUICE_DROP(box), SLUICE_REWRITE(box, at, bytes, length), SLUICE_REDIRECT(box, port),
 *                                   SLUICE_RESET(box) for both ends of a TCP connection, SLUICE_SEND(box, bytes, length);
 *                                   see output.h.
 * SLUICE_STATE(type)                every instance of the layers that it listens to carries one, zeroed when it begins;
 *                                   SLUICE_STATE_OF(event) points to it.
 * SLUICE_DESTROY { ... }            `state` is given up, as its instance is: behind its end, whoever hears of that.
 * SLUICE_TIMER(layer, name) { ... } a timer that each instance of the layer has, or `box` the box; it fires once, before
 *                                   the first packet that is not earlier than SLUICE_ARM(event, layer, name, nanoseconds)
 *                                   said, or SLUICE_ARM_BOX(box, name, nanoseconds), unless SLUICE_DISARM(event, layer,
 *                                   name) or SLUICE_DISARM_BOX(box, name) came before. Inside: `event`, without a packet.
 * SLUICE_WORKER(type)               one for the worker, zeroed; SLUICE_WORKER_OF(box) points to it.
 * SLUICE_PARAMETER(name, kind, value, help)   what a user may set by NAME=VALUE behind the function's colon: a `text`, a
 *                                   `number`, `seconds` (a double) or a `flag` (a bool, yes or no); `value` is what it is
 *                                   otherwise, `help` says what for. SLUICE_PARAMETER_OF(box, name) is its value.
 * SLUICE_COUNTER(name, help)        a number of the box, 0 at the beginning, that is reported at the end by its name; `help`
 *                                   says of what. SLUICE_COUNTER_OF(box, name) is the number.
 * sl_peek(event, side, offset, to, size)   copies what is held of a stream, see peek.h.
 * SLUICE_OPEN { ... return 0; }     once at the beginning; `box`, and `options`, the user's text behind the colon or "".
 *                                   Not 0 refuses to run.
 * SLUICE_CLOSE { ... }              once at the end; `box`.
 *
 * sl_packet_time(event), sl_packet_number(event), sl_packet_frame(event)   the current packet, see current.h, which also has
 *                                   the layers that it is in: sl_path_depth, sl_path_layer, sl_path.
 *
 * SLUICE_SOURCE("file.c")           another C file, a third-party parser say, that is compiled on its own and linked with the
 *                                   stack; its place is relative to the function's folder, and headers beside it belong to it.
 *
 * The file is compiled with the stack, as one unit: a function that is called for every packet costs no call. Sluice reads
 * the declarations through the preprocessor (declarations.h), so they may stand in headers and come from macros. */
#ifndef SL_SLUICE_H
#define SL_SLUICE_H

#ifdef SLUICE_DECLARATIONS
#include "function/declarations.h"
#else

#include "core/box.h"
#include "function/control.h"
#include "function/current.h"
#include "function/output.h"
#include "function/parameters.h"
#include "function/peek.h"
#include "function/timers.h"

#include <stdio.h>

#define SL_PASTE2(a, b) a##b
#define SL_PASTE(a, b) SL_PASTE2(a, b)
#define SL_JOIN(a, b) SL_PASTE(a, SL_PASTE(_, b))

/* The functions that a stack calls are its own, so that the compiler puts them where they are called. With
 * SL_SEPARATE_FUNCTIONS those in the stack are weak, and give way to the same ones in a file of its own (`--quick`). */
#ifndef SL_SEPARATE_FUNCTIONS
#define SL_ENTRY static inline
#else
#define SL_ENTRY SL_SEPARATE_FUNCTIONS
#endif

/* Unused where no layer has such an event. */
#define SLUICE_ON(layer, name)                                                                            \
    __attribute__((unused)) SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, name))(            \
        __attribute__((unused)) const struct sl_event *event,                                             \
        __attribute__((unused)) const SL_JOIN(sl_data, SL_JOIN(layer, name)) *data)

#define SLUICE_ON_DEMAND(layer, name) SLUICE_ON(layer, name)

#define SLUICE_BIT_OF(layer, name) ((uint64_t)1 << SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, bit))))
#define SLUICE_REGISTER(box, layer, name) ((box)->registered |= SLUICE_BIT_OF(layer, name))
#define SLUICE_DEREGISTER(box, layer, name) ((box)->registered &= ~SLUICE_BIT_OF(layer, name))
#define SLUICE_REGISTER_FLOW(event, layer, name) sl_watch(event, SLUICE_BIT_OF(layer, name), true)
#define SLUICE_DEREGISTER_FLOW(event, layer, name) sl_watch(event, SLUICE_BIT_OF(layer, name), false)

#define SLUICE_EVENT(layer, name, base)                                                                   \
    __attribute__((unused)) SL_ENTRY bool SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, filter)))( \
        __attribute__((unused)) const struct sl_event *event,                                             \
        __attribute__((unused)) const SL_JOIN(sl_data, SL_JOIN(layer, name)) *data)

#define SLUICE_KEEP(layer, bytes)

#define SLUICE_SOURCE(file)

#define SLUICE_CONTROL(layer) typedef uint64_t SL_JOIN(SLUICE_FUNCTION, says_SLUICE_CONTROL);   /* there may be several */
#define SL_CONTROL_BIT ((SL_JOIN(SLUICE_FUNCTION, says_SLUICE_CONTROL))1 << SL_JOIN(SLUICE_FUNCTION, index))
#define SLUICE_STOP(event, side) sl_stop(event, side, SL_CONTROL_BIT, true)
#define SLUICE_RESUME(event, side) sl_stop(event, side, SL_CONTROL_BIT, false)

#define SLUICE_INLINE enum { SL_JOIN(SLUICE_FUNCTION, says_SLUICE_INLINE) };
#define SL_INLINE(call) ((void)SL_JOIN(SLUICE_FUNCTION, says_SLUICE_INLINE), call)
#define SLUICE_DROP(box) SL_INLINE(sl_drop(box))
#define SLUICE_REWRITE(box, at, bytes, length) SL_INLINE(sl_rewrite(box, at, bytes, length))
#define SLUICE_RESET(box) SL_INLINE(sl_reset(box))
#define SLUICE_REDIRECT(box, port) SL_INLINE(sl_redirect(box, port))
#define SLUICE_SEND(box, bytes, length) SL_INLINE(sl_send(box, bytes, length))

#define SLUICE_TIMER(layer, name)                                                                         \
    __attribute__((unused)) SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, timer)))( \
        __attribute__((unused)) const struct sl_event *event)
#define SL_TIMER_NUMBER(layer, name) SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, timer_number)))
#define SLUICE_ARM(event, layer, name, nanoseconds) sl_timer_arm(event, SL_TIMER_NUMBER(layer, name), nanoseconds)
#define SLUICE_DISARM(event, layer, name) sl_timer_disarm(event, SL_TIMER_NUMBER(layer, name))
#define SLUICE_ARM_BOX(of, name, nanoseconds) sl_timer_arm_box(of, SL_TIMER_NUMBER(box, name), nanoseconds)
#define SLUICE_DISARM_BOX(of, name) ((void)((of)->timers.own[SL_TIMER_NUMBER(box, name)].at = SL_NEVER))

#define SLUICE_STATE(type)                                                                                \
    typedef type SL_JOIN(SLUICE_FUNCTION, state_type);                                                    \
    static inline type *SL_JOIN(SLUICE_FUNCTION, state)(const struct sl_event *event) {                   \
        return (type *)(void *)((char *)event->instance +                                                 \
                                event->owner->function_state[SL_JOIN(SLUICE_FUNCTION, index)]);           \
    }
#define SLUICE_STATE_OF(event) SL_JOIN(SLUICE_FUNCTION, state)(event)

#define SLUICE_DESTROY                                                                                    \
    SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, destroy)(__attribute__((unused)) struct sl_box *box,      \
                                                         __attribute__((unused)) SL_JOIN(SLUICE_FUNCTION, state_type) *state)

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
    SL_ENTRY int SL_JOIN(SLUICE_FUNCTION, open)(__attribute__((unused)) struct sl_box *box,                 \
                                              __attribute__((unused)) const char *options)
#define SLUICE_CLOSE                                                                                      \
    SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, close)(__attribute__((unused)) struct sl_box *box)

#endif /* SLUICE_DECLARATIONS */

#endif
