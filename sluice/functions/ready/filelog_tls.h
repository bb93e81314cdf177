/* Files within TLS whose secrets are known: application data go where clear bytes go, to HTTP, SMTP and FTP. After STARTTLS, a new
 * session of SMTP begins, without a greeting (RFC 3207, 4.2); that of FTP continues. Part of filelog.c. */
#ifndef FILELOG_TLS_H
#define FILELOG_TLS_H

static bool filelog_tls_may_begin(void *user, unsigned number)
{
    const struct filelog_connection *connection = user;
    enum http_state state = connection->http->side[number].state;
    bool http = state == HTTP_READING || state == HTTP_FRAMES || state == HTTP_HOLDING;
    bool smtp = connection->smtp && !smtp_session_may_be_secured(&connection->smtp->session, number == connection->client,
                                                                 !connection->seen[number]);
    return !http && !smtp && (connection->sctp || ftp_connection_may_be_secured(&SLUICE_STATE_OF(connection->event)->ftp, number));
}

static void filelog_tls_begins(void *user, unsigned number)
{
    struct filelog_connection *connection = user;
    http_side_begin(&connection->http->side[number]);
    if (!connection->sctp)
        ftp_connection_secured(&SLUICE_STATE_OF(connection->event)->ftp);
    if (!connection->secured)
        filelog_smtp_free(connection);
    connection->secured = true;
    connection->http_over = connection->seen[number] = false;
    connection->smtp_over = connection->sctp;
}

static void filelog_tls_data(void *user, unsigned number, const uint8_t *at, uint32_t length, bool opened)
{
    struct filelog_connection *connection = user;
    if (opened && !connection->tls->read)
        filelog_opened(connection->box, TLS_OPENED);
    filelog_bytes(connection, number, (sl_bytes){at, length, length});
}

static void filelog_tls_gap(void *user, unsigned number, uint64_t length, bool opened)
{
    (void)opened;
    filelog_missing(user, number, length);
}

/* The rest of a side is not read. */
static void filelog_tls_shut(void *user, unsigned number, enum tls_shut why)
{
    struct filelog_connection *connection = user;
    filelog_opened(connection->box, why);
    if (!connection->sctp)
        ftp_connection_stop(&SLUICE_WORKER_OF(connection->box)->transfers, &SLUICE_STATE_OF(connection->event)->ftp);
    file_http_side_stop(connection->http, number);
    filelog_smtp_free(connection);
}

static const struct tls_connection_owner filelog_tls_owner = {filelog_tls_may_begin, filelog_tls_begins, filelog_tls_data,
                                                              filelog_tls_gap, filelog_tls_shut, NULL};

/* TLS begins with these bytes of the client, or with the next ones, however many there were before. */
static void filelog_secures(const struct sl_event *event, unsigned client, const uint8_t *at, uint32_t length)
{
    struct filelog_state *state = SLUICE_STATE_OF(event);
    struct tls_connection *tls = state->connection ? state->connection->tls : NULL;
    if (!tls) {
        ftp_connection_stop(&SLUICE_WORKER_OF(event->box)->transfers, &state->ftp);
        return;
    }
    tls_connection_look_again(tls);
    if (length)
        tls_connection_bytes(tls, client, at, length, sl_packet_time(event));
}

/* Prepares a connection for TLS, if there are secrets. */
static void filelog_tls_prepare(struct filelog_connection *connection)
{
    struct filelog *log = SLUICE_WORKER_OF(connection->box);
    if (!tls_secrets_exist(&log->secrets))
        return;
    connection->tls = connection->http->tls = tls_connection_new(&filelog_tls_owner, connection, &log->secrets, &log->files.budget,
                                                                 SLUICE_PARAMETER_OF(connection->box, search));
    SLUICE_COUNTER_OF(connection->box, file_no_memory) += !connection->tls;
}

/* Bytes of a side as they were sent, in the clear or in TLS. */
static void filelog_sent(struct filelog_connection *connection, unsigned number, sl_bytes bytes)
{
    if (connection->tls)
        tls_connection_bytes(connection->tls, number, bytes.at, bytes.captured, sl_packet_time(connection->event));
    else
        filelog_bytes(connection, number, bytes);
}

/* Such bytes are missing. */
static void filelog_gap(struct filelog_connection *connection, unsigned number, uint64_t length)
{
    if (connection->tls)
        tls_connection_missing(connection->tls, number, length);
    else
        filelog_missing(connection, number, length);
}

#endif
