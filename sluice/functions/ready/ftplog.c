/* Writes a row for each command of FTP (RFC 959) with its reply, and for each transfer with its data connection.
 *
 * FTP is read on port 21, in TLS on port 990, and on any port where the client's first command is one of FTP. The row of a transfer
 * is written when its last reply is there and its data connection has ended. What follows AUTH TLS (RFC 4217) is read with the secrets
 * of a key log. */
#include "sluice.h"

#include "log_reader.h"
#include "log_stream.h"
#include "log_tls.h"
#include "ftp_stored.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(keylog, text, "", "file of TLS secrets, in the format of SSLKEYLOGFILE, with which FTP in TLS is read")
SLUICE_PARAMETER(passwords, flag, "no", "whether rows have the arguments of PASS")
SLUICE_PARAMETER(transfers, number, 65536, "data connections that are announced at once, at most")
SLUICE_PARAMETER(memory, number, 67108864, "bytes that all connections store together, at most")

SLUICE_COUNTER(ftp_gaps, "gaps in control connections; commands and replies after them may not correspond")
SLUICE_COUNTER(ftp_cut_lines, "commands that are longer than what is stored")
SLUICE_COUNTER(ftp_bad_replies, "lines of servers that are no replies")
SLUICE_COUNTER(ftp_too_many, "control connections that are not read further, as too many commands or replies had no counterpart")
SLUICE_COUNTER(ftp_transfers_left_out, "control connections that announced more data connections than the bound")
SLUICE_COUNTER(ftp_no_memory, "connections that are not read for want of memory, or of the bound's")
SLUICE_COUNTER(ftp_tls_unread, "control connections that are not read after AUTH, as there are no secrets of TLS")
SLUICE_COUNTER(ftp_tls_not_continued, "control connections that are not read further with a key log, as another process has them now")
SLUICE_COUNTER(ftp_tls_opened, "control and data connections in TLS that are read")
SLUICE_COUNTER(ftp_tls_without_key, "sides of TLS connections that are not read: their secrets are not in the key log")
SLUICE_COUNTER(ftp_tls_ciphers, "sides of TLS connections that are not read: their version is below 1.2, or their cipher none with AES-GCM, AES-CCM, AES-CBC or ChaCha20-Poly1305")
SLUICE_COUNTER(ftp_tls_refused, "sides of TLS connections that are not read further after a record that is not valid, or not authentic")
SLUICE_COUNTER(ftp_tls_gaps, "sides of TLS connections that are not read further after a gap")

struct ftplog_state {
    struct ftp_connection connection;
    struct log_tls *tls;              /* NULL: without secrets, or not FTP */
};
SLUICE_STATE(struct ftplog_state)

struct ftplog { struct log_output log; struct ftp_transfers transfers; struct tls_secrets secrets; };
SLUICE_WORKER(struct ftplog)

/* Writes the members of the reply and the transfer, and ends the row. */
static void ftplog_rest(struct sl_box *box, struct log_text *row, uint16_t code, const uint8_t *reply, uint32_t length, uint64_t from,
                        uint64_t to, bool secured, const struct ftp_transfer *transfer)
{
    log_number_if(row, "reply_code", code, code);
    log_octets(row, "reply", reply, length);
    if (from && to)
        log_seconds(row, "delay", to > from ? to - from : 0);
    else
        log_word(row, "delay", NULL);
    log_word(row, "data_mode", !transfer ? NULL : transfer->passive ? "passive" : "active");
    unsigned which = transfer && !transfer->size[0] ? 1 : 0;
    log_ip(row, "data_address", transfer ? transfer->address[which] : NULL, transfer ? transfer->size[which] : 0);
    log_number_if(row, "data_port", transfer, transfer ? transfer->port : 0);
    bool connected = transfer && transfer->connected;
    log_number_if(row, "data_flow", connected, connected ? transfer->flow : 0);
    bool read = connected && !(transfer->cut && !transfer->bytes);
    log_number_if(row, "data_bytes", read, read ? transfer->bytes : 0);
    log_number_if(row, "data_missing", connected, connected ? transfer->missing : 0);
    log_flag(row, "tls", secured);
    if (connected)
        log_flag(row, "data_tls", transfer->tls && tls_connection_has_begun(transfer->tls, 0));
    else
        log_word(row, "data_tls", NULL);
    log_finish(&SLUICE_WORKER_OF(box)->log);
}

static void ftplog_exchange(struct ftp_session *session, const struct dialogue_message *command, const struct dialogue_message *reply)
{
    struct ftplog *ftp = SLUICE_WORKER_OF(session->box);
    static const char hidden[] = "<hidden>";
    const uint8_t *line = command ? command->text : NULL, *rest = line;
    uint32_t length = command ? command->length : 0, verb = 0;
    while (verb < length && line[verb] != ' ')
        verb++;
    uint32_t skip = verb;
    while (skip < length && line[skip] == ' ')
        skip++;
    rest = line ? line + skip : NULL;
    uint32_t left = length - skip;
    if (line && dialogue_is(line, length, "PASS", NULL, NULL) && left && !SLUICE_PARAMETER_OF(session->box, passwords)) {
        rest = (const uint8_t *)hidden;
        left = sizeof hidden - 1;
    }
    if (!session->known)
        return;
    struct log_text *row = log_begin(&ftp->log, session->box, &session->flow, session->client, command ? command->time : reply->time);
    log_octets(row, "user", (const uint8_t *)session->user.at, (uint32_t)session->user.used);
    log_octets(row, "command", line, verb);
    log_octets(row, "argument", rest, left);
    ftplog_rest(session->box, row, reply ? reply->code : 0, reply ? reply->text : NULL, reply ? reply->length : 0,
                command ? command->time : 0, reply ? reply->time : 0, session->secured, NULL);
}

static void ftplog_transfer(struct sl_box *box, struct ftp_transfer *transfer)
{
    struct ftplog *ftp = SLUICE_WORKER_OF(box);
    struct log_text *row = log_begin(&ftp->log, box, &transfer->control, transfer->client, transfer->time);
    log_octets(row, "user", (const uint8_t *)transfer->login.at, (uint32_t)transfer->login.used);
    log_octets(row, "command", (const uint8_t *)transfer->command.at, (uint32_t)transfer->command.used);
    log_octets(row, "argument", (const uint8_t *)transfer->argument.at, (uint32_t)transfer->argument.used);
    ftplog_rest(box, row, transfer->code, (const uint8_t *)transfer->reply.at, (uint32_t)transfer->reply.used, transfer->time,
                transfer->reply_time, transfer->secured, transfer);
}

/* Counts what became of a connection in TLS. */
static void ftplog_opened(struct sl_box *box, enum tls_shut why)
{
    SLUICE_COUNTER_OF(box, ftp_tls_opened) += why == TLS_OPENED;
    SLUICE_COUNTER_OF(box, ftp_tls_without_key) += why == TLS_SHUT_NO_KEY;
    SLUICE_COUNTER_OF(box, ftp_tls_ciphers) += why == TLS_SHUT_CIPHER;
    SLUICE_COUNTER_OF(box, ftp_tls_refused) += why == TLS_SHUT_REFUSED;
    SLUICE_COUNTER_OF(box, ftp_tls_gaps) += why == TLS_SHUT_GAP;
    SLUICE_COUNTER_OF(box, ftp_no_memory) += why == TLS_SHUT_NO_MEMORY;
}

/* Counts the outcome of a control connection. */
static void ftplog_ended(const struct ftp_session *session)
{
    struct sl_box *box = session->box;
    SLUICE_COUNTER_OF(box, ftp_cut_lines) += session->dialogue.cut_lines;
    SLUICE_COUNTER_OF(box, ftp_bad_replies) += session->dialogue.bad_lines;
    SLUICE_COUNTER_OF(box, ftp_too_many) += session->dialogue.dropped;
    SLUICE_COUNTER_OF(box, ftp_transfers_left_out) += session->no_room;
    SLUICE_COUNTER_OF(box, ftp_tls_unread) += session->auth && !session->transfers->secrets;
}

static void ftplog_secures(const struct sl_event *event, unsigned client, const uint8_t *at, uint32_t length);

static const struct ftp_owner ftplog_owner = {ftplog_exchange, ftplog_transfer, NULL, ftplog_opened, ftplog_ended, ftplog_secures,
                                              NULL};

/* --- control connections, in the clear or in TLS --- */

static void ftplog_bytes(struct ftp_connection *connection, const struct sl_event *event, unsigned side, const uint8_t *at, uint32_t length)
{
    bool no_memory = false;
    ftp_connection_bytes(&SLUICE_WORKER_OF(event->box)->transfers, connection, event, side, at, length, &ftplog_owner, &no_memory);
    SLUICE_COUNTER_OF(event->box, ftp_no_memory) += no_memory;
}

static void ftplog_gap(struct ftp_connection *connection, const struct sl_event *event)
{
    if (!connection->session)
        return;
    SLUICE_COUNTER_OF(event->box, ftp_gaps) += connection->session->known;
    dialogue_gap(&connection->session->dialogue);
}

static bool ftplog_tls_may_begin(void *user, unsigned side)
{
    const struct ftp_connection *connection = ((struct log_tls *)user)->state;
    return !connection->over && ftp_connection_may_be_secured(connection, side);
}

static void ftplog_tls_begins(void *user, unsigned side)
{
    (void)side;
    ftp_connection_secured(((struct log_tls *)user)->state);
}

static void ftplog_tls_data(void *user, unsigned side, const uint8_t *at, uint32_t length, bool opened)
{
    struct log_tls *tls = user;
    if (opened && !tls->tls->read)
        ftplog_opened(tls->event->box, TLS_OPENED);
    ftplog_bytes(tls->state, tls->event, side, at, length);
}

static void ftplog_tls_gap(void *user, unsigned side, uint64_t length, bool opened)
{
    struct log_tls *tls = user;
    (void)side, (void)length, (void)opened;
    ftplog_gap(tls->state, tls->event);
}

/* The rest of a side is not read, so that commands and replies no longer correspond. */
static void ftplog_tls_shut(void *user, unsigned side, enum tls_shut why)
{
    struct log_tls *tls = user;
    (void)side;
    ftplog_opened(tls->event->box, why);
    ftp_connection_stop(&SLUICE_WORKER_OF(tls->event->box)->transfers, tls->state);
}

static const struct tls_connection_owner ftplog_tls_owner = {ftplog_tls_may_begin, ftplog_tls_begins, ftplog_tls_data, ftplog_tls_gap,
                                                             ftplog_tls_shut, NULL};

static void ftplog_secures(const struct sl_event *event, unsigned client, const uint8_t *at, uint32_t length)
{
    struct ftplog_state *state = SLUICE_STATE_OF(event);
    if (!state->tls)   /* for want of memory */
        ftp_connection_stop(&SLUICE_WORKER_OF(event->box)->transfers, &state->connection);
    else if (length)
        tls_connection_bytes(state->tls->tls, client, at, length, sl_packet_time(event));
}

/* The TLS of a connection that may be a control connection; NULL: it is read as it was sent. */
static struct log_tls *ftplog_tls(const struct sl_event *event, struct ftplog_state *state, uint8_t first)
{
    struct ftplog *ftp = SLUICE_WORKER_OF(event->box);
    struct ftp_connection *connection = &state->connection;
    bool port = log_stream_port(event, 0) == FTP_CONTROL_TLS || log_stream_port(event, 1) == FTP_CONTROL_TLS;
    bool is_first = !connection->seen[0] && !connection->seen[1];
    bool may_be = port || ftp_may_begin(first, false) || ftp_may_begin(first, true);
    if (!state->tls && !connection->over && is_first && may_be && tls_secrets_exist(&ftp->secrets)) {
        state->tls = log_tls_new(&ftplog_tls_owner, &ftp->secrets, &ftp->transfers.budget);
        SLUICE_COUNTER_OF(event->box, ftp_no_memory) += !state->tls;
    }
    if (state->tls) {
        state->tls->state = connection;
        state->tls->event = event;
    }
    return state->tls;
}

/* --- events --- */

SLUICE_ON(tcp, created) {
    if (!event->instance)
        return;
    struct ftplog *ftp = SLUICE_WORKER_OF(event->box);
    struct ftp_connection *connection = &SLUICE_STATE_OF(event)->connection;
    connection->path = log_path_of(&ftp->log, event->box);
    ftp->transfers.secrets = tls_secrets_exist(&ftp->secrets) ? &ftp->secrets : NULL;   /* a capture may bring some */
    ftp_connection_created(&ftp->transfers, connection, event);
}

SLUICE_ON(tcp, data) {
    if (!event->instance || !data->bytes.captured)
        return;
    struct ftplog_state *state = SLUICE_STATE_OF(event);
    struct ftp_transfers *transfers = &SLUICE_WORKER_OF(event->box)->transfers;
    struct ftp_transfer *transfer = ftp_connection_transfer(transfers, &state->connection, event);
    if (transfer) {
        bool no_memory = false;
        ftp_transfer_bytes(transfers, transfer, event, data->bytes, &ftplog_owner, &no_memory);
        SLUICE_COUNTER_OF(event->box, ftp_no_memory) += no_memory;
        return;
    }
    struct log_tls *tls = ftplog_tls(event, state, data->bytes.at[0]);
    if (tls)
        tls_connection_bytes(tls->tls, event->side & 1, data->bytes.at, data->bytes.captured, sl_packet_time(event));
    else
        ftplog_bytes(&state->connection, event, event->side & 1, data->bytes.at, data->bytes.captured);
    if (state->connection.over)
        log_tls_free(&state->tls, &transfers->budget);
}

SLUICE_ON(tcp, gap) {
    struct ftplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || ftp_connection_gap(&SLUICE_WORKER_OF(event->box)->transfers, &state->connection, event, data->length, &ftplog_owner))
        return;
    if (state->tls) {
        state->tls->event = event;
        tls_connection_missing(state->tls->tls, event->side & 1, data->length);
    } else {
        ftplog_gap(&state->connection, event);
    }
}

SLUICE_ON(tcp, end) {
    (void)data;
    struct ftplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state)
        return;
    if (state->tls) {
        state->tls->event = event;
        tls_connection_end(state->tls->tls);
    }
    ftp_connection_end(event, &SLUICE_WORKER_OF(event->box)->transfers, &state->connection, &ftplog_owner);
}

SLUICE_DESTROY {
    ftp_connection_leave(&SLUICE_WORKER_OF(box)->transfers, &state->connection);
    log_tls_free(&state->tls, &SLUICE_WORKER_OF(box)->transfers.budget);
}

SLUICE_STORED(zero, "a control connection, with the transfers that it has announced; a data connection") {
    struct ftplog *ftp = SLUICE_WORKER_OF(box);
    bool in_tls = state->tls && !state->connection.over;
    SL_STORED(stored, in_tls);
    ftp_connection_stored(stored, &ftp->transfers, &ftp->log, box, &state->connection, &ftplog_owner);
    if (!stored->reads || !in_tls)
        return;
    SLUICE_COUNTER_OF(box, ftp_tls_not_continued)++;
    state->connection.over = true;
}

SLUICE_OPEN {
    struct ftplog *ftp = SLUICE_WORKER_OF(box);
    ftp->transfers.budget.most = SLUICE_PARAMETER_OF(box, memory);
    ftp->transfers.most = SLUICE_PARAMETER_OF(box, transfers);
    if (tls_secrets_open(&ftp->secrets, box, SLUICE_PARAMETER_OF(box, keylog), &ftp->transfers.budget))
        return -1;
    if (log_open(&ftp->log, box, "ftp", SLUICE_PARAMETER_OF(box, out))) {
        tls_secrets_close(&ftp->secrets, box);
        return -1;
    }
    return 0;
}

SLUICE_CLOSE {
    ftp_transfers_close(&SLUICE_WORKER_OF(box)->transfers);
    tls_secrets_close(&SLUICE_WORKER_OF(box)->secrets, box);
    log_close(&SLUICE_WORKER_OF(box)->log, box, "ftplog rows", "ftplog rows lost for want of memory",
              "ftplog flows without layers");
}
