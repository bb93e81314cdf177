/* The handlers of QUIC's events, of a function that writes a log of what HTTP/3 carries: they call http3_quic.h.
 *
 * The function's worker has `quic`, a struct log_quic, and `qpack`; its state has `quic`, a struct http3_state, and `path`. Before it
 * includes this file, function f defines f_quic_session, the callbacks of its sessions, f_quic_log(box), its output, and
 * f_quic_budget(box), that of what it stores.
 *
 * There is no include guard, as each of several functions of a box has these handlers. */
#include "http3_quic.h"

SLUICE_ON(quic, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(SL_JOIN(SLUICE_FUNCTION, quic_log)(event->box), event->box);
}

SLUICE_ON(quic, packet) {
    if (event->instance)
        log_quic_packet(&SLUICE_WORKER_OF(event->box)->quic, event, SLUICE_STATE_OF(event)->path, &SLUICE_STATE_OF(event)->quic);
}

SLUICE_ON(quic_stream, created) {
    const struct log_quic *quic = &SLUICE_WORKER_OF(event->box)->quic;
    if (!event->instance || !log_quic_carries(quic, event))
        return;
    struct http3_session *session =
        http3_session(event, quic->state, &quic->flow, &SL_JOIN(SLUICE_FUNCTION, quic_session),
                      &SLUICE_WORKER_OF(event->box)->qpack, SL_JOIN(SLUICE_FUNCTION, quic_budget)(event->box));
    if (session)
        http3_on_created(event, &SLUICE_STATE_OF(event)->quic, session, NULL);
}

SLUICE_ON(quic_stream, state) {
    if (event->instance)
        http3_on_state(event, &SLUICE_STATE_OF(event)->quic, data->after);
}

SLUICE_ON(quic_stream, data) {
    if (event->instance)
        http3_on_data(event, &SLUICE_STATE_OF(event)->quic, data->offset, data->bytes);
}

SLUICE_ON(quic_stream, gap) {
    if (event->instance)
        http3_on_gap(&SLUICE_STATE_OF(event)->quic, data->offset, data->length);
}

SLUICE_ON(quic_stream, end) {
    (void)data;
    if (event->instance)
        http3_on_end(event, &SLUICE_STATE_OF(event)->quic);
}

SLUICE_ON(quic, end) {
    (void)data;
    struct http3_state *state = event->instance ? &SLUICE_STATE_OF(event)->quic : NULL;
    struct log_quic *quic = &SLUICE_WORKER_OF(event->box)->quic;
    if (quic->state == state)
        quic->state = NULL;
    if (state)
        http3_session_end(state);
}
