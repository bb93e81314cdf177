/* The state of a connection in a store: files under way of HTTP/1, SMTP and FTP, with their hashes. Part of filelog.c.
 *
 * What libraries know of HTTP/2, HTTP/3 and TLS is not stored, nor are the streams of SCTP: another process does not read such a
 * connection further. */
#ifndef FILELOG_STORED_H
#define FILELOG_STORED_H

static void filelog_smtp_stored(struct sl_stored *stored, struct filelog_connection *connection)
{
    struct file_box *files = &SLUICE_WORKER_OF(connection->box)->files;
    if (!sl_stored_more(stored, connection->smtp != NULL))
        return;
    if (stored->reads) {
        connection->smtp = log_allocate(&files->budget, sizeof *connection->smtp);
        if (!connection->smtp) {
            stored->failed = true;
            return;
        }
        smtp_session_open(&connection->smtp->session, &filelog_smtp_owner, connection, &files->budget, false, false);
    }
    smtp_session_stored(stored, &connection->smtp->session);
    SL_STORED(stored, connection->smtp->begun);
    if (connection->smtp->begun)
        mime_stored(stored, connection->box, files, &connection->smtp->mime);
}

SLUICE_STORED(zero, "files under way of HTTP/1, SMTP and FTP, with their hashes") {
    struct filelog *log = SLUICE_WORKER_OF(box);
    struct filelog_connection *connection = state->connection;
    struct log_flow flow = connection ? connection->flow : (struct log_flow){.layer = sl_layer_at(box, 0)};
    bool unknown = connection && (connection->tls || connection->http->two), over = state->over || unknown || state->sctp;
    bool quic = state->quic.over || state->quic.session, lost = unknown || state->quic.session || state->sctp;
    log_path_stored(stored, &log->files.log, box, &state->path);
    SL_STORED(stored, over);
    SL_STORED(stored, quic);
    SL_STORED(stored, lost);
    ftp_connection_stored(stored, &log->transfers, &log->files.log, box, &state->ftp, &filelog_ftp);
    if (stored->reads) {
        state->over = over;
        state->quic.over = quic;
        state->ftp.over |= lost && state->ftp.secured;
        SLUICE_COUNTER_OF(box, file_not_continued) += lost;
    }
    if (!sl_stored_more(stored, connection && !unknown))
        return;
    log_flow_stored(stored, &log->files.log, box, &flow);
    if (stored->reads && (stored->failed || !(connection = state->connection = filelog_connection_new(box, &flow)))) {
        stored->failed = true;
        return;
    }
    SL_STORED(stored, connection->client);
    SL_STORED(stored, connection->http_over);
    SL_STORED(stored, connection->smtp_over);
    SL_STORED(stored, connection->seen);
    SL_STORED(stored, connection->port);
    SL_STORED(stored, connection->from_syn);
    SL_STORED(stored, connection->secured);
    SL_STORED(stored, connection->started);
    connection->client &= 1;
    file_http_stored(stored, connection->http);
    filelog_smtp_stored(stored, connection);
}

#endif
