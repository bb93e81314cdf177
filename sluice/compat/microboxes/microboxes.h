/* The interface of Microboxes (SIGCOMM 2018, listing 1) for functions of a chain.
 *
 *     #include "microboxes.h"
 *
 *     static mb_controller cntrlr;
 *     static mb_port port;
 *     void startIDS() {
 *         mb_nf_mem_init(cntrlr);
 *         mb_sub(cntrlr, PKT_TCP, cb_noop);
 *         mb_sub(cntrlr, DPI_DETECT, cb_detect);
 *         port = mb_pub(cntrlr, EVENT_IDS_ALERT);
 *         mb_nf_run();
 *     }
 *     MB_MAIN(startIDS)
 *
 * MB_MAIN(start)                    `start` runs once, when the box is opened. Its mb_sub and mb_pub are also what Sluice
 *                                   reads as the function's declarations, so each is there once for each type.
 * mb_sub(controller, TYPE, callback)   `callback(TYPE_msg m)` is called for each event of the type.
 * mb_up_sub(controller, TYPE, flow, callback)   For the flow of an event: another callback, from its next event on.
 * mb_pub(controller, EVENT_TYPE)    A port, by which the function publishes the type.
 * mb_new_msg(TYPE), mb_publish_event(port, m)   An empty message; its publication. Subscribers after the function in the
 *                                   chain run at once. Its flow is that of the current event, unless it is set.
 * mb_nf_mem_init(controller), mb_nf_run()   There is nothing to do: the box calls the function.
 *
 * Types: PKT_TCP is event `data` of TCP, DPI_DETECT and IDS_ALERT are published events. The listing also has e.flow for
 * the flow of the current event. A flow is valid during the callback. */
#include "sluice.h"

/* --- once in a box: types --- */

#ifndef MICROBOXES_H
#define MICROBOXES_H

#ifndef SLUICE_DECLARATIONS

typedef const struct sl_event *mb_flow;
typedef void *mb_controller;
typedef int mb_port;
typedef void (*mb_any_callback)(void);

enum { MB_PKT_TCP, MB_DPI_DETECT, MB_IDS_ALERT, MB_TYPES };
enum { HTTP = 1, SQL = 2 };   /* of dpi_app_type */

typedef struct { mb_flow flow; sl_bytes payload; uint64_t offset; uint32_t side; } PKT_TCP_msg;
typedef struct { mb_flow flow; uint32_t dpi_app_type; } DPI_DETECT_msg;
typedef struct { mb_flow flow; uint32_t code; uint64_t offset; } IDS_ALERT_msg;

/* By type; of a function, and of a flow where it has its own. seen: the offsets after the last payload of both sides. */
struct mb_callbacks { mb_any_callback of[MB_TYPES]; uint64_t seen[2]; };

static _Thread_local struct { mb_flow flow; } e __attribute__((unused));
static _Thread_local struct mb_callbacks *mb_starting __attribute__((unused));   /* of the function that starts */

#define mb_nf_mem_init(controller) ((void)(controller))
#define mb_nf_run() ((void)0)
#define MB_CALLBACK(TYPE, callback) ((void)sizeof((void (*)(TYPE##_msg)){callback}), (mb_any_callback)(callback))
#define mb_sub(controller, TYPE, callback) \
    ((void)(controller), (void)(mb_starting->of[MB_##TYPE] = MB_CALLBACK(TYPE, callback)))
#define mb_pub(controller, EVENT) ((void)(controller), MB_##EVENT)
#define MB_EVENT_DPI_DETECT MB_DPI_DETECT
#define MB_EVENT_IDS_ALERT MB_IDS_ALERT
#define mb_new_msg(TYPE) ((TYPE##_msg){.flow = e.flow})
#define mb_up_sub(controller, TYPE, of_flow, callback) \
    ((void)(controller), SL_JOIN(SLUICE_FUNCTION, mb_set)(of_flow, MB_##TYPE, MB_CALLBACK(TYPE, callback)))
#define mb_publish_event(port, m)                                                        \
    _Generic((m), DPI_DETECT_msg: SL_JOIN(SLUICE_FUNCTION, mb_publish_DPI_DETECT),       \
             IDS_ALERT_msg: SL_JOIN(SLUICE_FUNCTION, mb_publish_IDS_ALERT))(port, &(m))
#define MB_MAIN(start)                                                                   \
    SLUICE_OPEN {                                                                        \
        mb_starting = SLUICE_WORKER_OF(box);                                             \
        start();                                                                         \
        return 0;                                                                        \
    }

#else /* declarations: the calls of a function in `start` declare its subscriptions and publications */

#define mb_sub(controller, TYPE, callback) MB_SUBSCRIBE_##TYPE
#define MB_SUBSCRIBE_PKT_TCP SLUICE_ON(tcp, data)
#define MB_SUBSCRIBE_DPI_DETECT SLUICE_ON(chain, DPI_DETECT)
#define MB_SUBSCRIBE_IDS_ALERT SLUICE_ON(chain, IDS_ALERT)
#define mb_up_sub(controller, TYPE, of_flow, callback) SLUICE_NEEDS(resubscribe)
#define mb_pub(controller, EVENT) MB_PUBLISH_##EVENT
#define MB_PUBLISH_EVENT_DPI_DETECT SLUICE_PUBLISH(DPI_DETECT, { uint32_t dpi_app_type; })
#define MB_PUBLISH_EVENT_IDS_ALERT SLUICE_PUBLISH(IDS_ALERT, { uint32_t code; uint64_t offset; })
#define MB_MAIN(start) SLUICE_OPEN

#endif
#endif

/* --- in each function --- */

SLUICE_STATE(struct mb_callbacks)
SLUICE_WORKER(struct mb_callbacks)

#ifndef SLUICE_DECLARATIONS

#ifdef sl_keeps_tcp_data
static inline void SL_JOIN(SLUICE_FUNCTION, mb_again)(const struct sl_event *flow, uint64_t offset, sl_bytes bytes,
                                                      __attribute__((unused)) uint64_t to) {
    mb_any_callback callback = SLUICE_STATE_OF(flow)->of[MB_PKT_TCP];
    e.flow = flow;
    ((void (*)(PKT_TCP_msg))callback)((PKT_TCP_msg){flow, bytes, offset, flow->side});
}
#endif

/* Another callback for a flow. Where the chain stores the beginning of streams, it gets the payload that the one before
 * it had. */
__attribute__((unused)) static inline void SL_JOIN(SLUICE_FUNCTION, mb_set)(mb_flow flow, unsigned type,
                                                                            mb_any_callback callback) {
    if (!flow->instance)
        return;
    struct mb_callbacks *own = SLUICE_STATE_OF(flow);
    __attribute__((unused)) bool other = callback && own->of[type] != callback;
    own->of[type] = callback;
#ifdef sl_keeps_tcp_data
    if (other && type == MB_PKT_TCP) {
        mb_flow before = e.flow;
        uint64_t seen[2] = {own->seen[0], own->seen[1]};
        sl_keep_again(flow, seen, SL_JOIN(SLUICE_FUNCTION, mb_again));
        e.flow = before;
    }
#endif
}

/* The callback for an event, which becomes the current one. */
__attribute__((unused)) static inline mb_any_callback SL_JOIN(SLUICE_FUNCTION, mb_begin)(mb_flow flow, unsigned type) {
    mb_any_callback own = flow->instance ? SLUICE_STATE_OF(flow)->of[type] : NULL;
    e.flow = flow;
    return own ? own : SLUICE_WORKER_OF(flow->box)->of[type];
}

/* The generator defines sl_data_LAYER_EVENT where a function subscribes, sl_publishes_NAME where this one publishes. */
#ifdef sl_data_tcp_data
SLUICE_ON(tcp, data) {
    mb_any_callback callback = SL_JOIN(SLUICE_FUNCTION, mb_begin)(event, MB_PKT_TCP);
    if (event->instance)
        SLUICE_STATE_OF(event)->seen[event->side & 1] = data->offset + data->bytes.length;
    if (callback)
        ((void (*)(PKT_TCP_msg))callback)((PKT_TCP_msg){event, data->bytes, data->offset, event->side});
}
#endif

#ifdef sl_data_chain_DPI_DETECT
SLUICE_ON(chain, DPI_DETECT) {
    mb_flow before = e.flow;   /* that of the publisher, which continues after this */
    mb_any_callback callback = SL_JOIN(SLUICE_FUNCTION, mb_begin)(event, MB_DPI_DETECT);
    if (callback)
        ((void (*)(DPI_DETECT_msg))callback)((DPI_DETECT_msg){event, data->dpi_app_type});
    e.flow = before;
}
#endif

#ifdef sl_data_chain_IDS_ALERT
SLUICE_ON(chain, IDS_ALERT) {
    mb_flow before = e.flow;
    mb_any_callback callback = SL_JOIN(SLUICE_FUNCTION, mb_begin)(event, MB_IDS_ALERT);
    if (callback)
        ((void (*)(IDS_ALERT_msg))callback)((IDS_ALERT_msg){event, data->code, data->offset});
    e.flow = before;
}
#endif

__attribute__((unused)) static inline void SL_JOIN(SLUICE_FUNCTION, mb_publish_DPI_DETECT)(
    __attribute__((unused)) mb_port port, __attribute__((unused)) const DPI_DETECT_msg *m) {
#ifdef sl_publishes_DPI_DETECT
    SLUICE_EMIT(m->flow ? m->flow : e.flow, DPI_DETECT, .dpi_app_type = m->dpi_app_type);
#endif
}

__attribute__((unused)) static inline void SL_JOIN(SLUICE_FUNCTION, mb_publish_IDS_ALERT)(
    __attribute__((unused)) mb_port port, __attribute__((unused)) const IDS_ALERT_msg *m) {
#ifdef sl_publishes_IDS_ALERT
    SLUICE_EMIT(m->flow ? m->flow : e.flow, IDS_ALERT, .code = m->code, .offset = m->offset);
#endif
}

#endif /* SLUICE_DECLARATIONS */
