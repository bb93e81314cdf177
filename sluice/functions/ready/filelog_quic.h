/* Files that HTTP/3 carries, by the events of QUIC (http3_quic.h). Part of filelog.c. */
#ifndef FILELOG_QUIC_H
#define FILELOG_QUIC_H

#include "file_http3.h"

/* --- sessions --- */

static bool filelog_3_known(struct http3_connection *http)
{
    const struct file_streams *streams = http->user;
    SLUICE_COUNTER_OF(streams->box, file_http_3_not_read) += !http->qpack->create;
    return http->qpack->create;
}

static void filelog_3_no_memory(struct sl_box *box) { SLUICE_COUNTER_OF(box, file_no_memory)++; }

static bool filelog_3_begin(struct sl_box *box, struct http3_session *session)
{
    struct file_box *files = &SLUICE_WORKER_OF(box)->files;
    struct file_streams *streams = log_allocate(&files->budget, sizeof *streams);
    if (!streams) {
        filelog_3_no_memory(box);
        return false;
    }
    *streams = (struct file_streams){.box = box, .files = files, .flow = &session->flow};
    session->http.user = streams;
    return true;
}

static void filelog_3_end(struct http3_session *session)
{
    struct file_streams *streams = session->http.user;
    bool read = session->http.known && !session->http.unread;
    streams->files->streams_ended += read ? session->http.early_lost + session->http.early_refused : 0;
    if (session->discarded)   /* what they carry is sent again */
        file_streams_discard(streams);
    file_streams_close(streams);
    log_give(&streams->files->budget, sizeof *streams);
    free(streams);
}

static const struct http3_owner filelog_3_owner = {filelog_3_known, file_3_begin, file_3_field, file_3_headed, file_3_data,
                                                   file_3_content, file_3_complete, file_3_broken};
static const struct http3_session_owner filelog_3_session = {&filelog_3_owner, filelog_3_begin, filelog_3_no_memory, NULL,
                                                             filelog_3_end};

/* --- events --- */

SLUICE_ON(quic, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->files.log, event->box);
}

SLUICE_ON(quic, packet) {
    if (event->instance)
        log_quic_packet(&SLUICE_WORKER_OF(event->box)->quic, event, SLUICE_STATE_OF(event)->path, &SLUICE_STATE_OF(event)->quic);
}

SLUICE_ON(quic_stream, created) {
    struct filelog *log = SLUICE_WORKER_OF(event->box);
    if (!event->instance || !log_quic_carries(&log->quic, event))
        return;
    struct http3_session *session =
        http3_session(event, log->quic.state, &log->quic.flow, &filelog_3_session, &log->qpack, &log->files.budget);
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
    struct filelog *log = SLUICE_WORKER_OF(event->box);
    if (log->quic.state == state)
        log->quic.state = NULL;
    if (state)
        http3_session_end(state);
}

#endif
