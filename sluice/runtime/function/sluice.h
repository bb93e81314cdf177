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
 * SLUICE_ON(layer, event) { ... }   A handler. `layer` is the name of a layer or parser, or any. Inside: `event` says
 *                                   where the event happened, `data` is its data: struct sl_on_NAME, or for a Callback
 *                                   the user's layout.
 * SLUICE_EVENT(layer, name, base) { ... }   An event of your own: it happens when `base`, an event of the layer or one
 *                                   of these, happens and the body returns true. `event` and `data` are those of
 *                                   `base`. The body runs once, and only if a function has subscribed to the event by
 *                                   SLUICE_ON.
 * SLUICE_PUBLISH(name, { uint32_t kind; sl_bytes host; })   An event that the function publishes for others, with a
 *                                   struct of these fields (bool, uint8_t to uint64_t, sl_bytes), struct
 *                                   published_NAME. SLUICE_PUBLISH_AS(base, name, { ... }): its fields follow those of
 *                                   `base`, and subscribers to `base` receive it. SLUICE_EMIT(event, name, .kind = 1,
 *                                   ...) publishes it: the handlers SLUICE_ON(chain, name) of other functions run at
 *                                   once. Without a subscriber there is no code, and the fields are not evaluated.
 * SLUICE_EXPECT(name, { uint32_t kind; sl_bytes host; })   An event that another function may publish, with these fields: a
 *                                   function that subscribes to it also runs where none does.
 * SLUICE_ON_DEMAND(layer, event) { ... }   Like SLUICE_ON, but called only while registered: for all instances between
 *                                   SLUICE_REGISTER(box, layer, event) and SLUICE_DEREGISTER(box, layer, event). For
 *                                   the instance of `event`, SLUICE_REGISTER_FLOW(event, layer, name) and
 *                                   SLUICE_DEREGISTER_FLOW(event, layer, name) override this. For each 64 of them in a
 *                                   box, instances have 16 bytes.
 * SLUICE_KEEP(layer, bytes)         The layer's sequences store so many of the bytes that they delivered last, so that
 *                                   the event rexmit has their first copy (`old`).
 * SLUICE_CONTROL(layer)             The function controls single instances of the layer: by sl_buffer(event, side,
 *                                   bytes) and sl_policy(event, side, policy), see control.h, and by SLUICE_STOP(event,
 *                                   side), after which its handlers receive no more events of a side (0: the active
 *                                   one's, 1, or SL_BOTH), and, if both are stopped, no end event either.
 *                                   SLUICE_RESUME(event, side) reverses this.
 * SLUICE_INLINE                     The following need a box that packets pass through, as with `sluice run -w FILE`:
 *                                   SLUICE_DROP(box), SLUICE_REWRITE(box, at, bytes, length), SLUICE_REDIRECT(box,
 *                                   port), SLUICE_RESET(box) for both ends of a TCP connection, SLUICE_SEND(box, bytes,
 *                                   length); see output.h.
 * SLUICE_ARRIVAL { ... return true; }   Runs when a packet arrives, before the stack reads it. Inside: `box`, with
 *                                   sl_box_frame(box). It may only SLUICE_REWRITE bytes, and returns whether it did: the
 *                                   packet is then another one for the stack and all functions, see arrival.h.
 *                                   sl_arrived(box): the function did so with the current packet.
 * SLUICE_WRITES(layer, field)       Of the packets that pass, the function changes this header field, and no other that
 *                                   it does not declare so. Functions that run in parallel must change different ones.
 * SLUICE_SHARED(name, type, scope, access, loss, help)   Objects of state that a store outside the box may hold, see
 *                                   shared.h.
 * SLUICE_OPERATION(name, "lua") { ... }   An operation on a shared number: the body calculates the new value from `value`,
 *                                   `argument` and `other`, as does the body in Lua, which a store performs.
 *                                   SLUICE_CUSTOM(object, name, argument, other, result) calls it.
 * SLUICE_STATE(type)                Every instance of the layers that the function subscribes to has one, zeroed when
 *                                   the instance begins; SLUICE_STATE_OF(event) points to it.
 * SLUICE_STORED(loss, help) { ... } How a store outside the box holds `state`, see stored.h.
 * SLUICE_DESTROY { ... }            `state` is destroyed together with its instance: after the end of the instance,
 *                                   whether or not the function has subscribed to that.
 * SLUICE_TIMER(layer, name) { ... }   A timer of each instance of the layer, or of the box if `layer` is box.
 *                                   SLUICE_ARM(event, layer, name, nanoseconds) or SLUICE_ARM_BOX(box, name,
 *                                   nanoseconds) sets it for so many nanoseconds from now, SLUICE_DISARM(event, layer,
 *                                   name) or SLUICE_DISARM_BOX(box, name) clears it. It fires once, before the first
 *                                   packet that is not earlier. Inside: `event`, without a packet.
 * SLUICE_WORKER(type)               One for each worker, zeroed; SLUICE_WORKER_OF(box) points to it.
 * SLUICE_COMMON(type)               One for all workers of a run (`--workers`), zeroed: what the function shares between
 *                                   them. SLUICE_COMMON_OF(box) points to it; use it between SLUICE_LOCK(box) and
 *                                   SLUICE_UNLOCK(box), or by atomic operations. SLUICE_WORKERS(box) is the number of
 *                                   workers.
 * SLUICE_PARAMETER(name, kind, value, help)   What a user may set by NAME=VALUE after the function's colon: a `text`, a
 *                                   `number`, `seconds` (a double) or a `flag` (a bool, yes or no). `value` is the
 *                                   default, `help` describes the parameter. SLUICE_PARAMETER_OF(box, name) is its
 *                                   value.
 * SLUICE_COUNTER(name, help)        A number of the box, 0 at the beginning, that is reported by its name at the end.
 *                                   `help` says what it counts. SLUICE_COUNTER_OF(box, name) is the number.
 * sl_peek(event, side, offset, to, size)   Copies stored bytes of a stream, see peek.h.
 * SLUICE_OPEN { ... return 0; }     Runs once at the beginning. Inside: `box`, and `options`, the user's text after the
 *                                   colon, or "". If the result is not 0, the box does not run.
 * SLUICE_CLOSE { ... }              Runs once at the end. Inside: `box`.
 *
 * sl_packet_time(event), sl_packet_number(event), sl_packet_frame(event)   The current packet, see current.h, which
 *                                   also gives the layers that the packet is in: sl_path_depth, sl_path_layer, sl_path.
 * sl_random(event)                  A random number of 64 bits, which all instances of a function agree on, and which is
 *                                   the same when the packet is handled again, see random.h. The helpers of a function
 *                                   that call it are not in headers that several functions include.
 *
 * SLUICE_SOURCE("file.c")           Another C file, for example a third-party parser, which is compiled separately and
 *                                   linked with the stack. Its path is relative to the function's folder; headers next
 *                                   to it belong to it.
 * SLUICE_LIBRARY("name")            A library that the stack is linked with, as by -lname.
 *
 * The file is compiled with the stack, as one unit, so a function that runs for every packet costs no call. Sluice
 * reads the declarations through the preprocessor (declarations.h), so they may be in headers and come from macros. */
#ifndef SL_SLUICE_H
#define SL_SLUICE_H

#ifdef SLUICE_DECLARATIONS
#include "function/declarations.h"
#else

#include "core/box.h"
#include "driver/group.h"
#include "function/arrival.h"
#include "function/control.h"
#include "function/current.h"
#include "function/keep.h"
#include "function/output.h"
#include "function/parameters.h"
#include "function/peek.h"
#include "function/random.h"
#include "function/shared.h"
#include "function/stored.h"
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

#define SLUICE_HANDLER_OF(layer, name) SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, bit)))   /* its number */
#define SLUICE_REGISTER(box, layer, name) sl_register(box, SLUICE_HANDLER_OF(layer, name), true)
#define SLUICE_DEREGISTER(box, layer, name) sl_register(box, SLUICE_HANDLER_OF(layer, name), false)
#define SLUICE_REGISTER_FLOW(event, layer, name)                                                          \
    SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, register)))(event)   /* boxed.py, keep.py */
#define SLUICE_DEREGISTER_FLOW(event, layer, name) sl_watch(event, SLUICE_HANDLER_OF(layer, name), false)

#define SLUICE_EVENT(layer, name, base)                                                                   \
    __attribute__((unused)) SL_ENTRY bool SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, filter)))( \
        __attribute__((unused)) const struct sl_event *event,                                             \
        __attribute__((unused)) const SL_JOIN(sl_data, SL_JOIN(layer, name)) *data)

#define SLUICE_PUBLISH(name, ...)
#define SLUICE_PUBLISH_AS(base, name, ...)
#define SLUICE_EXPECT(name, ...)
#define SLUICE_EMIT(event, name, ...)                                                                     \
    do {                                                                                                  \
        if (SL_JOIN(SLUICE_FUNCTION, SL_JOIN(chain, SL_JOIN(name, subscribed))))                          \
            SL_JOIN(SLUICE_FUNCTION, SL_JOIN(chain, SL_JOIN(name, publish)))(                             \
                event, &(struct SL_JOIN(published, name)){__VA_ARGS__});                                  \
    } while (0)

#define SLUICE_WRITES(layer, field)

#define SLUICE_KEEP(layer, bytes)

#define SLUICE_SOURCE(file)

#define SLUICE_LIBRARY(name)

#define SLUICE_CONTROL(layer) typedef uint64_t SL_JOIN(SLUICE_FUNCTION, says_SLUICE_CONTROL);   /* there may be several */
#define SL_CONTROL_BIT ((SL_JOIN(SLUICE_FUNCTION, says_SLUICE_CONTROL))1 << SL_JOIN(SLUICE_FUNCTION, index))
#define SLUICE_STOP(event, side) sl_stop(event, side, SL_CONTROL_BIT, true)
#define SLUICE_RESUME(event, side) sl_stop(event, side, SL_CONTROL_BIT, false)

#define SLUICE_INLINE enum { SL_JOIN(SLUICE_FUNCTION, says_SLUICE_INLINE) };
#define SL_INLINE(call) ((void)SL_JOIN(SLUICE_FUNCTION, says_SLUICE_INLINE), call)
/* 0 for a function that 64 others precede: it decides nothing (check_controls), and has the bit of no other one. */
#define SL_FUNCTION_BIT                                                                                   \
    (SL_JOIN(SLUICE_FUNCTION, index) < 64 ? (uint64_t)1 << (SL_JOIN(SLUICE_FUNCTION, index) & 63) : 0)
#define SLUICE_DROP(box) SL_INLINE(sl_drop(box))
#define SLUICE_REWRITE(box, at, bytes, length) SL_INLINE(sl_rewrite(box, at, bytes, length))
#define SLUICE_RESET(box) SL_INLINE(sl_reset(box))
#define SLUICE_REDIRECT(box, port) SL_INLINE(sl_redirect(box, port))
#define SLUICE_SEND(box, bytes, length) SL_INLINE(sl_send(box, bytes, length))
#define SLUICE_HOLD(event) SL_INLINE(sl_hold(event))
#define SLUICE_RELEASE(event) SL_INLINE(sl_release(event))
#define SLUICE_DISCARD(event) SL_INLINE(sl_discard(event))

/* What a worker has for a function, by the function's number, and what all workers have. */
static inline void *sl_worker_object(const struct sl_box *box, uint32_t function) { return box->workers[function]; }
static inline void *sl_common_object(const struct sl_box *box, uint32_t function) { return box->common[function]; }
static inline uint32_t sl_worker_count(const struct sl_box *box) { return box->group ? sl_group_size(box->group) : 1; }
static inline void sl_common_lock(const struct sl_box *box) {
    if (box->group)
        sl_group_lock(box->group);
}
static inline void sl_common_unlock(const struct sl_box *box) {
    if (box->group)
        sl_group_unlock(box->group);
}

/* By name: the drop, the failure, and the random number are the function's. Headers that several functions include write (sl_fail). */
#define sl_fail(box, what, why) sl_fail_by(box, SL_FUNCTION_BIT, what, why)
#define sl_drop(box) sl_drop_by(box, SL_FUNCTION_BIT)
#define sl_reset(box) sl_reset_by(box, SL_FUNCTION_BIT)
#define sl_random(event) sl_random_by(event, SL_TEXT_OF(SLUICE_FUNCTION))
#define sl_hold(event) sl_hold_by(event, SL_FUNCTION_BIT)
#define sl_release(event) sl_release_by(event, SL_FUNCTION_BIT)

#define SLUICE_TIMER(layer, name)                                                                         \
    __attribute__((unused)) SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, timer)))( \
        __attribute__((unused)) const struct sl_event *event)
#define SL_TIMER_NUMBER(layer, name) SL_JOIN(SLUICE_FUNCTION, SL_JOIN(layer, SL_JOIN(name, timer_number)))
#define SLUICE_ARM(event, layer, name, nanoseconds) sl_timer_arm(event, SL_TIMER_NUMBER(layer, name), nanoseconds)
#define SLUICE_DISARM(event, layer, name) sl_timer_disarm(event, SL_TIMER_NUMBER(layer, name))
#define SLUICE_ARM_BOX(of, name, nanoseconds) sl_timer_arm_box(of, SL_TIMER_NUMBER(box, name), nanoseconds)
#define SLUICE_DISARM_BOX(of, name) sl_timer_disarm_box(of, SL_TIMER_NUMBER(box, name))

/* 1 for a function whose state is next to instances, as a running box got it with another type of state (reload.h). */
#define SL_STATE_BESIDE 0
#define SLUICE_STATE(type)                                                                                \
    typedef type SL_JOIN(SLUICE_FUNCTION, state_type);                                                    \
    static inline type *SL_JOIN(SLUICE_FUNCTION, state)(const struct sl_event *event) {                   \
        if (SL_STATE_BESIDE)                                                                              \
            return (type *)sl_beside(event->box, SL_JOIN(SLUICE_FUNCTION, index), event->owner->index,   \
                                     event->instance->slot, sizeof(type));                                                       \
        return (type *)(void *)((char *)event->instance +                                                 \
                                event->owner->function_state[SL_JOIN(SLUICE_FUNCTION, index)]);           \
    }
#define SLUICE_STATE_OF(event) SL_JOIN(SLUICE_FUNCTION, state)(event)

#define SLUICE_STORED(loss, help)                                                                         \
    SL_UNUSED SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, stored_state)(SL_UNUSED struct sl_box *box,                \
                                                             SL_JOIN(SLUICE_FUNCTION, state_type) *state, \
                                                             struct sl_stored *stored)

#define SLUICE_DESTROY                                                                                    \
    SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, destroy)(__attribute__((unused)) struct sl_box *box,      \
                                                         __attribute__((unused)) SL_JOIN(SLUICE_FUNCTION, state_type) *state)

#define SLUICE_WORKER(type)                                                                               \
    typedef type SL_JOIN(SLUICE_FUNCTION, worker_type);                                                   \
    static inline type *SL_JOIN(SLUICE_FUNCTION, worker)(const struct sl_box *box) {                      \
        return (type *)sl_worker_object(box, SL_JOIN(SLUICE_FUNCTION, index));                            \
    }
#define SLUICE_WORKER_OF(box) SL_JOIN(SLUICE_FUNCTION, worker)(box)

#define SLUICE_COMMON(type)                                                                               \
    typedef type SL_JOIN(SLUICE_FUNCTION, common_type);                                                   \
    static inline type *SL_JOIN(SLUICE_FUNCTION, common)(const struct sl_box *box) {                      \
        return (type *)sl_common_object(box, SL_JOIN(SLUICE_FUNCTION, index));                            \
    }
#define SLUICE_COMMON_OF(box) SL_JOIN(SLUICE_FUNCTION, common)(box)
#define SLUICE_WORKERS(box) sl_worker_count(box)
#define SLUICE_LOCK(box) sl_common_lock(box)
#define SLUICE_UNLOCK(box) sl_common_unlock(box)

#define SLUICE_PARAMETER(name, kind, value, help)
#define SLUICE_PARAMETER_OF(box, name) (SL_JOIN(SLUICE_FUNCTION, parameters)(box)->name)

#define SLUICE_NEEDS(what)

/* shared.h has the rest of this interface. */
#define SLUICE_SHARED(name, type, scope, access, loss, help)
#define SL_SHARED_NAMED(box, name) (&SL_JOIN(SLUICE_FUNCTION, shared)(box)[SL_JOIN(SLUICE_FUNCTION, SL_JOIN(shared, name))])
#define SLUICE_SHARED_OF(event, name) sl_shared_of(event, SL_SHARED_NAMED((event)->box, name), 0)
#define SLUICE_SHARED_SIDE(event, name, side) sl_shared_of(event, SL_SHARED_NAMED((event)->box, name), side)
#define SLUICE_SHARED_ALL(box, name) sl_shared_all(SL_SHARED_NAMED(box, name))
#define SLUICE_SHARED_AT(box, name, number) sl_shared_number(SL_SHARED_NAMED(box, name), number)
#define SLUICE_OPERATION(name, lua)                                                                       \
    __attribute__((unused)) static inline int64_t SL_JOIN(SLUICE_FUNCTION, SL_JOIN(name, operation))(     \
        int64_t value, __attribute__((unused)) int64_t argument, __attribute__((unused)) int64_t other)
#define SL_TEXT_OF2(text) #text
#define SL_TEXT_OF(text) SL_TEXT_OF2(text)
#define SLUICE_CUSTOM(object, name, argument, other, result)                                              \
    sl_shared_custom(object, SL_TEXT_OF(SL_JOIN(SLUICE_FUNCTION, name)),                                  \
                     SL_JOIN(SLUICE_FUNCTION, SL_JOIN(name, operation)), argument, other, result)

#define SLUICE_COUNTER(name, help)
#define SLUICE_COUNTER_OF(box, name) (SL_JOIN(SLUICE_FUNCTION, counters)(box)->name)

#define SLUICE_OPEN                                                                                       \
    SL_ENTRY int SL_JOIN(SLUICE_FUNCTION, open)(__attribute__((unused)) struct sl_box *box,                 \
                                              __attribute__((unused)) const char *options)
#define SLUICE_ARRIVAL                                                                                    \
    __attribute__((unused)) SL_ENTRY bool SL_JOIN(SLUICE_FUNCTION, arrival)(__attribute__((unused)) struct sl_box *box)
#define sl_arrived(box) sl_arrived_by(box, SL_FUNCTION_BIT)

#define SLUICE_CLOSE                                                                                      \
    SL_ENTRY void SL_JOIN(SLUICE_FUNCTION, close)(__attribute__((unused)) struct sl_box *box)

#endif /* SLUICE_DECLARATIONS */

#endif
