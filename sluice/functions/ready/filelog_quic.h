/* Files that HTTP/3 carries, by the events of QUIC (http3_quic.h). Part of filelog.c. */
#ifndef FILELOG_QUIC_H
#define FILELOG_QUIC_H

#include "file_http3.h"

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
static const struct http3_session_owner filelog_quic_session = {&filelog_3_owner, filelog_3_begin, filelog_3_no_memory, NULL,
                                                                filelog_3_end};

static struct log_output *filelog_quic_log(struct sl_box *box) { return &SLUICE_WORKER_OF(box)->files.log; }

static struct log_budget *filelog_quic_budget(struct sl_box *box) { return &SLUICE_WORKER_OF(box)->files.budget; }

#include "http3_events.h"

#endif
