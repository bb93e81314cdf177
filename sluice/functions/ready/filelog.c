/* Writes a row for each file that HTTP, FTP and SMTP carry: name, type by libmagic, length and hashes; with `extract`, a copy
 * of each file.
 *
 * Files are the bodies of HTTP messages, what RETR, STOR, STOU and APPE transfer, and the attachments of mails. They are
 * hashed as they are transferred: a content encoding, such as gzip, is not removed. TLS with HTTP, SMTP or FTP in it is opened by
 * the secrets of a key log; HTTP/3 is read where the stack decrypts QUIC, and HTTP in the streams of SCTP, too. */
#include "sluice.h"

#include "log_sctp.h"
#include "log_stream.h"
#include "file_mime.h"
#include "file_http.h"
#include "file_http3.h"
#include "ftp_stored.h"
#include "smtp_session.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(extract, text, "", "existing folder that gets a copy of each file; without one nothing is copied")
SLUICE_PARAMETER(extract_bytes, number, 104857600, "bytes of a file that are copied, at most")
SLUICE_PARAMETER(describe, flag, "yes", "whether rows have libmagic's description (`magic`) besides the type, which costs as much again")
SLUICE_PARAMETER(keylog, text, "", "file of TLS secrets, in the format of SSLKEYLOGFILE, with which HTTP, SMTP and FTP in TLS are read")
SLUICE_PARAMETER(search, number, 4096, "bytes of each side of a connection in which a first message of HTTP may begin")
SLUICE_PARAMETER(files, number, 65536, "files that are read at once, at most")
SLUICE_PARAMETER(connections, number, 65536, "connections that are read at once, at most")
SLUICE_PARAMETER(memory, number, 1073741824, "bytes that all of them store together, at most")

SLUICE_COUNTER(file_connections_left_out, "connections that are not read, as too many were open")
SLUICE_COUNTER(file_no_memory, "connections that are not read for want of memory, or of the bound's")
SLUICE_COUNTER(file_http_3_not_read, "connections with HTTP/3 that are not read: without libnghttp3")

SLUICE_COUNTER(file_sctp_unordered, "messages of SCTP that begin as HTTP does, and are not read: their sender gave them no place in a stream")
SLUICE_COUNTER(file_not_continued, "connections of HTTP/2, HTTP/3, over SCTP, or with a key log, that are not read further, as another process has them now")
SLUICE_COUNTER(file_tls_opened, "connections of TLS whose application data are read")
SLUICE_COUNTER(file_tls_without_key, "sides of TLS connections that are not read: their secrets are not in the key log")
SLUICE_COUNTER(file_tls_ciphers, "sides of TLS connections that are not read: their version is below 1.2, or their cipher none with AES-GCM, AES-CCM, AES-CBC or ChaCha20-Poly1305")
SLUICE_COUNTER(file_tls_refused, "sides of TLS connections that are not read further after a record that is not valid, or not authentic")
SLUICE_COUNTER(file_tls_gaps, "sides of TLS connections that are not read further after a gap")

struct filelog_smtp {
    struct smtp_session session;
    struct mime mime;
    bool begun;
};

struct filelog_connection {
    struct sl_box *box;
    struct log_flow flow;
    uint8_t client;
    struct file_http *http;
    struct filelog_smtp *smtp;
    bool http_over, smtp_over, seen[2];
    uint16_t port;                    /* of SMTP; 0: neither end has one */
    bool from_syn, secured;           /* its SYN was captured; TLS has begun */
    bool started;                     /* by STARTTLS */
    bool sctp;                        /* a stream of SCTP, which only HTTP is read in */
    struct tls_connection *tls;       /* NULL without secrets */
    const struct sl_event *event;     /* that is processed */
};

struct filelog_state {
    struct filelog_connection *connection;
    struct ftp_connection ftp;
    struct http3_state quic;          /* of a connection of QUIC, or of one of its streams */
    struct log_sctp *sctp;            /* of an association */
    uint32_t path;
    bool over;
};
SLUICE_STATE(struct filelog_state)

struct filelog {
    struct file_box files;
    struct ftp_transfers transfers;
    struct http2_library hpack;
    struct http3_library qpack;
    struct log_quic quic;
    struct tls_secrets secrets;
    struct log_sctp_association association;
    uint64_t open;
};
SLUICE_WORKER(struct filelog)

/* --- FTP --- */

static void filelog_no_exchange(struct ftp_session *session, const struct dialogue_message *command, const struct dialogue_message *reply)
{
    (void)session;
    (void)command;
    (void)reply;
}

static void filelog_transfer(struct sl_box *box, struct ftp_transfer *transfer)
{
    struct file_body *file = transfer->user;
    const struct log_text *path = &transfer->argument;
    size_t begin = path->used;
    bool listing = transfer->command.used && ((transfer->command.at[0] | 0x20) == 'l' || (transfer->command.at[0] | 0x20) == 'n' ||
                                              (transfer->command.at[0] | 0x20) == 'm');
    transfer->user = NULL;
    if (!file)
        return;
    if (listing) {
        file_free(&SLUICE_WORKER_OF(box)->files, file);
        return;
    }
    while (begin && path->at[begin - 1] != '/')
        begin--;
    if (path->used > begin)
        file_name(&file->name, (const uint8_t *)path->at + begin, path->used - begin);
    file->missing = transfer->missing;
    file_end(box, &SLUICE_WORKER_OF(box)->files, file, "ftp", (transfer->code / 100 == 2 || !transfer->code) && !transfer->cut);
}

/* Handles bytes of a data connection. */
static void filelog_transferred(const struct sl_event *event, struct ftp_transfer *transfer, unsigned side, const uint8_t *at,
                                uint32_t length)
{
    struct file_box *files = &SLUICE_WORKER_OF(event->box)->files;
    if (!transfer->user) {
        struct log_flow flow = log_flow_of(event, SLUICE_STATE_OF(event)->path);
        transfer->user = transfer->bytes == length ? file_begin(event->box, files, &flow, side, "ftp") : NULL;
    }
    if (transfer->user)
        file_bytes(event->box, files, transfer->user, at, length);
}

/* Counts what became of a connection in TLS. */
static void filelog_opened(struct sl_box *box, enum tls_shut why)
{
    SLUICE_COUNTER_OF(box, file_tls_opened) += why == TLS_OPENED;
    SLUICE_COUNTER_OF(box, file_tls_without_key) += why == TLS_SHUT_NO_KEY;
    SLUICE_COUNTER_OF(box, file_tls_ciphers) += why == TLS_SHUT_CIPHER;
    SLUICE_COUNTER_OF(box, file_tls_refused) += why == TLS_SHUT_REFUSED;
    SLUICE_COUNTER_OF(box, file_tls_gaps) += why == TLS_SHUT_GAP;
    SLUICE_COUNTER_OF(box, file_no_memory) += why == TLS_SHUT_NO_MEMORY;
}

static void filelog_secures(const struct sl_event *event, unsigned client, const uint8_t *at, uint32_t length);

/* The file of a transfer in the state of its connection. */
static void filelog_transfer_stored(struct sl_stored *stored, struct sl_box *box, struct ftp_transfer *transfer)
{
    struct file_body *file = transfer->user;
    file_stored(stored, box, &SLUICE_WORKER_OF(box)->files, &file);
    transfer->user = file;
}

static const struct ftp_owner filelog_ftp = {filelog_no_exchange, filelog_transfer, filelog_transferred, filelog_opened, NULL,
                                             filelog_secures, filelog_transfer_stored};

/* Handles bytes of a connection that may be a control connection. */
static void filelog_control(const struct sl_event *event, unsigned side, sl_bytes bytes)
{
    bool no_memory = false;
    ftp_connection_bytes(&SLUICE_WORKER_OF(event->box)->transfers, &SLUICE_STATE_OF(event)->ftp, event, side, bytes.at, bytes.captured,
                         &filelog_ftp, &no_memory);
    SLUICE_COUNTER_OF(event->box, file_no_memory) += no_memory;
}

static void filelog_control_gap(const struct sl_event *event)
{
    struct ftp_session *session = SLUICE_STATE_OF(event)->ftp.session;
    if (session)
        dialogue_gap(&session->dialogue);
}

/* --- SMTP --- */

static void filelog_no_mail(struct smtp_session *session) { (void)session; }

static void filelog_content(struct smtp_session *session, const uint8_t *at, uint32_t length)
{
    struct filelog_connection *connection = session->user;
    struct filelog_smtp *smtp = connection->smtp;
    struct file_box *files = &SLUICE_WORKER_OF(connection->box)->files;
    struct mime_reading reading = {connection->box, files, &connection->flow, connection->client};
    if (!smtp->begun)
        mime_open(&smtp->mime);
    smtp->begun = true;
    if (length) {
        mime_bytes(&smtp->mime, &reading, at, length);
        return;
    }
    if (smtp->mime.line.used)   /* the last line has no end */
        mime_line(&smtp->mime, &reading, false);
    mime_part_end(&smtp->mime, &reading, session->mail.complete && smtp->mime.depth == 0);
    mime_close(&smtp->mime, files);
    smtp->begun = false;
}

static const struct smtp_owner filelog_smtp_owner = {filelog_no_mail, filelog_content};

static void filelog_smtp_free(struct filelog_connection *connection)
{
    struct file_box *files = &SLUICE_WORKER_OF(connection->box)->files;
    if (!connection->smtp)
        return;
    struct mime_reading reading = {connection->box, files, &connection->flow, connection->client};
    mime_part_end(&connection->smtp->mime, &reading, false);
    mime_close(&connection->smtp->mime, files);
    connection->started |= connection->smtp->session.tls;
    smtp_session_close(&connection->smtp->session);
    log_give(&files->budget, sizeof *connection->smtp);
    free(connection->smtp);
    connection->smtp = NULL;
    connection->smtp_over = true;
}

static void filelog_smtp(struct filelog_connection *connection, unsigned side, sl_bytes bytes, bool first)
{
    struct file_box *files = &SLUICE_WORKER_OF(connection->box)->files;
    if (first && !connection->port && !smtp_may_begin(bytes.at[0], side != connection->client)) {
        filelog_smtp_free(connection);
        connection->smtp_over = true;
        return;
    }
    if (!connection->smtp) {
        connection->smtp = log_allocate(&files->budget, sizeof *connection->smtp);
        if (!connection->smtp) {
            SLUICE_COUNTER_OF(connection->box, file_no_memory)++;
            connection->smtp_over = true;
            return;
        }
        smtp_session_open(&connection->smtp->session, &filelog_smtp_owner, connection, &files->budget,
                          connection->from_syn, connection->port);
        connection->smtp->session.dialogue.greeted |= connection->started;
    }
    struct smtp_session *session = &connection->smtp->session;
    session->now = sl_box_time(connection->box);
    if (side == connection->client)
        dialogue_client(&session->dialogue, bytes.at, bytes.captured, session->now);
    else
        dialogue_server(&session->dialogue, bytes.at, bytes.captured, session->now);
    if (!session->dialogue.stopped)
        return;
    struct log_held held = dialogue_resume(&session->dialogue);
    bool tls = session->tls && !connection->secured;   /* STARTTLS within TLS means nothing (RFC 3207, 4.2) */
    filelog_smtp_free(connection);
    if (tls)
        filelog_secures(connection->event, connection->client, held.at, held.used);
    log_held_free(&held, &files->budget);
}

/* --- connections --- */

static void filelog_connection_free(struct filelog_connection *connection)
{
    struct filelog *log = SLUICE_WORKER_OF(connection->box);
    filelog_smtp_free(connection);
    tls_connection_free(connection->tls);
    if (connection->http) {
        connection->http->tls = NULL;
        file_http_close(connection->http);
        log_give(&log->files.budget, sizeof *connection->http);
        free(connection->http);
    }
    free(connection);
    log->open--;
}

static void filelog_free(struct filelog_state *state)
{
    if (state->connection)
        filelog_connection_free(state->connection);
    state->connection = NULL;
}

/* Bytes of HTTP, SMTP, FTP, or another protocol, of a side. */
static void filelog_bytes(struct filelog_connection *connection, unsigned number, sl_bytes bytes)
{
    bool first = !connection->seen[number];
    connection->seen[number] = true;
    if (!connection->sctp)
        filelog_control(connection->event, number, bytes);
    if (!connection->smtp_over)
        filelog_smtp(connection, number, bytes, first);
    if (!connection->http_over) {
        file_http_bytes(connection->http, number, bytes, SLUICE_PARAMETER_OF(connection->box, search));
        connection->http_over = file_http_over(connection->http);
    }
}

/* Such bytes are missing. */
static void filelog_missing(struct filelog_connection *connection, unsigned number, uint64_t length)
{
    if (!connection->sctp)
        filelog_control_gap(connection->event);
    if (connection->smtp) {
        if (connection->smtp->mime.file)
            connection->smtp->mime.file->missing += length;
        dialogue_gap(&connection->smtp->session.dialogue);
    }
    if (!connection->http_over)
        file_http_gap(connection->http, number, length);
}

#include "filelog_tls.h"

/* Begins a connection; NULL at a bound. */
static struct filelog_connection *filelog_connection_new(struct sl_box *box, const struct log_flow *flow)
{
    struct filelog *log = SLUICE_WORKER_OF(box);
    bool many = log->open >= SLUICE_PARAMETER_OF(box, connections) || !log_take(&log->files.budget, sizeof(struct file_http));
    struct filelog_connection *connection = many ? NULL : calloc(1, sizeof *connection);
    struct file_http *http = connection ? calloc(1, sizeof *http) : NULL;
    if (!http) {
        if (!many)
            log_give(&log->files.budget, sizeof *http);
        SLUICE_COUNTER_OF(box, file_connections_left_out) += many;
        SLUICE_COUNTER_OF(box, file_no_memory) += !many;
        free(connection);
        return NULL;
    }
    log->open++;
    connection->box = box;
    connection->http = http;
    connection->flow = *flow;
    file_http_open(http, box, &log->files, &connection->flow, &log->hpack, false);
    return connection;
}

/* Whether no more of a connection is read. */
static bool filelog_is_over(const struct filelog_connection *connection)
{
    return connection->smtp_over && connection->http_over && !(connection->tls && !tls_connection_is_over(connection->tls));
}

static struct filelog_connection *filelog_connection(const struct sl_event *event)
{
    struct filelog_state *state = SLUICE_STATE_OF(event);
    if (state->connection)
        state->connection->event = event;
    if (state->connection || state->over)
        return state->connection;
    struct log_flow flow = log_flow_of(event, state->path);
    struct filelog_connection *connection = state->connection = filelog_connection_new(event->box, &flow);
    state->over = !connection;
    if (!connection)
        return NULL;
    connection->event = event;
    connection->port = smtp_port(log_stream_port(event, 0), log_stream_port(event, 1));
    connection->from_syn = connection->http->from_start = log_from_syn(event);
    connection->client = (uint8_t)log_client(event, connection->port);
    filelog_tls_prepare(connection);
    return connection;
}

SLUICE_ON(tcp, created) {
    if (!event->instance)
        return;
    struct filelog *log = SLUICE_WORKER_OF(event->box);
    struct filelog_state *state = SLUICE_STATE_OF(event);
    state->path = state->ftp.path = log_path_of(&log->files.log, event->box);
    log->transfers.secrets = tls_secrets_exist(&log->secrets) ? &log->secrets : NULL;   /* a capture may bring some */
    ftp_connection_created(&log->transfers, &state->ftp, event);
}

SLUICE_ON(tcp, data) {
    if (!event->instance || !data->bytes.captured)
        return;
    struct filelog *log = SLUICE_WORKER_OF(event->box);
    struct filelog_state *state = SLUICE_STATE_OF(event);
    struct ftp_transfer *transfer = ftp_connection_transfer(&log->transfers, &state->ftp, event);
    if (transfer) {
        bool no_memory = false;
        ftp_transfer_bytes(&log->transfers, transfer, event, data->bytes, &filelog_ftp, &no_memory);
        SLUICE_COUNTER_OF(event->box, file_no_memory) += no_memory;
        return;
    }
    struct filelog_connection *connection = filelog_connection(event);
    if (!connection) {
        filelog_control(event, event->side & 1, data->bytes);
        return;
    }
    filelog_sent(connection, event->side & 1, data->bytes);
    if (filelog_is_over(connection)) {
        filelog_free(state);
        state->over = true;
    }
}

SLUICE_ON(tcp, gap) {
    struct filelog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || ftp_connection_gap(&SLUICE_WORKER_OF(event->box)->transfers, &state->ftp, event, data->length, &filelog_ftp))
        return;
    struct filelog_connection *connection = state->connection;
    if (!connection) {
        filelog_control_gap(event);
        return;
    }
    connection->event = event;
    filelog_gap(connection, event->side & 1, data->length);
}

SLUICE_ON(tcp, end) {
    (void)data;
    struct filelog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state)
        return;
    struct filelog_connection *connection = state->connection;
    if (connection) {
        connection->event = event;
        if (connection->tls)
            tls_connection_end(connection->tls);
    }
    ftp_connection_end(event, &SLUICE_WORKER_OF(event->box)->transfers, &state->ftp, &filelog_ftp);
    if (!connection)
        return;
    if (!connection->http_over)
        file_http_end(connection->http);
    if (connection->smtp)
        smtp_session_end(&connection->smtp->session, sl_packet_time(event));
}

#include "filelog_quic.h"
#include "filelog_sctp.h"
#include "filelog_stored.h"

/* The files of a connection that goes on in another process, which writes their rows. */
static void filelog_drop_files(struct sl_box *box, struct filelog_state *state)
{
    struct filelog_connection *connection = state->connection;
    struct ftp_transfer *transfer = SLUICE_WORKER_OF(box)->transfers.count ? state->ftp.data : NULL;
    struct file_body **of[] = {connection ? &connection->http->file[0] : NULL, connection ? &connection->http->file[1] : NULL,
                               connection && connection->smtp ? &connection->smtp->mime.file : NULL};
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] && *of[i]) {
            file_free(&SLUICE_WORKER_OF(box)->files, *of[i]);
            *of[i] = NULL;
        }
    if (transfer && !transfer->session && transfer->user)
        file_free(&SLUICE_WORKER_OF(box)->files, transfer->user);
}

SLUICE_DESTROY {
    http3_stream_free(&state->quic);
    http3_session_end(&state->quic);
    filelog_drop_files(box, state);
    ftp_connection_leave(&SLUICE_WORKER_OF(box)->transfers, &state->ftp);
    filelog_sctp_free(box, state);
    filelog_free(state);
}

SLUICE_OPEN {
    struct filelog *log = SLUICE_WORKER_OF(box);
    struct file_box *files = &log->files;
    files->budget.most = SLUICE_PARAMETER_OF(box, memory);
    files->most = SLUICE_PARAMETER_OF(box, files);
    files->folder = SLUICE_PARAMETER_OF(box, extract);
    files->copy_most = SLUICE_PARAMETER_OF(box, extract_bytes);
    log->transfers.budget.most = SLUICE_PARAMETER_OF(box, memory);
    log->transfers.most = SLUICE_PARAMETER_OF(box, files);
    if (*files->folder && access(files->folder, W_OK)) {
        fprintf(stderr, "filelog: extract=%s: %s\n", files->folder, strerror(errno));
        return -1;
    }
    if (log_open(&files->log, box, "file", SLUICE_PARAMETER_OF(box, out)))
        return -1;
    if (!sl_digests_open(&files->digests)) {
        fputs("filelog: " SL_DIGEST_ADVICE "\n", stderr);
        return -1;
    }
    if (tls_secrets_open(&log->secrets, box, SLUICE_PARAMETER_OF(box, keylog), &files->budget))
        return -1;
    http2_library_open(&log->hpack, &files->budget);
    http3_library_open(&log->qpack, &files->budget);
    if (!file_magic_open(&files->magic, SLUICE_PARAMETER_OF(box, describe), sl_seed(box)))
        fputs("sluice: note: filelog: libmagic (Debian, Ubuntu: apt install libmagic1) cannot be loaded: rows have no `type` and `magic`\n",
              stderr);
    return 0;
}

SLUICE_CLOSE {
    struct filelog *log = SLUICE_WORKER_OF(box);
    struct file_box *files = &log->files;
    while (files->first)
        file_free(files, files->first);
    ftp_transfers_close(&log->transfers);
    tls_secrets_close(&log->secrets, box);
    file_magic_close(&files->magic);
    sl_report(box, "files that bytes are missing of", files->gaps);
    sl_report(box, "files left out, as too many were open", files->left_out);
    sl_report(box, "files not read for want of memory", files->no_memory);
    sl_report(box, "copies of files cut at extract_bytes", files->copies_cut);
    sl_report(box, "sides of HTTP/2 not read further after a gap, an error, or at a bound", files->sides_ended);
    sl_report(box, "streams of HTTP/3 not read further after a gap, an error, or at a bound", files->streams_ended);
    log_close(&files->log, box, "filelog rows", "filelog rows lost for want of memory", "filelog flows without layers");
}
