/* Writes a row for each command of FTP (RFC 959) with its reply, and for each transfer with its data connection.
 *
 * FTP is read on port 21, and on any port where the client's first command is one of FTP. The row of a transfer is written
 * when its last reply is there and its data connection has ended. After AUTH TLS nothing is read. */
#include "sluice.h"

#include "log_reader.h"
#include "log_stream.h"
#include "ftp_session.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(passwords, flag, "no", "whether rows have the arguments of PASS")
SLUICE_PARAMETER(transfers, number, 65536, "data connections that are announced at once, at most")
SLUICE_PARAMETER(memory, number, 67108864, "bytes that all connections store together, at most")

SLUICE_COUNTER(ftp_gaps, "gaps in control connections; commands and replies after them may not correspond")
SLUICE_COUNTER(ftp_cut_lines, "commands that are longer than what is stored")
SLUICE_COUNTER(ftp_bad_replies, "lines of servers that are no replies")
SLUICE_COUNTER(ftp_too_many, "control connections that are not read further, as too many commands or replies had no counterpart")
SLUICE_COUNTER(ftp_transfers_left_out, "control connections that announced more data connections than the bound")
SLUICE_COUNTER(ftp_no_memory, "connections that are not read for want of memory, or of the bound's")

struct ftplog_state { struct ftp_connection connection; };
SLUICE_STATE(struct ftplog_state)

struct ftplog { struct log_output log; struct ftp_transfers transfers; };
SLUICE_WORKER(struct ftplog)

/* Writes the members of the reply and the transfer, and ends the row. */
static void ftplog_rest(struct sl_box *box, struct log_text *row, uint16_t code, const uint8_t *reply, uint32_t length, uint64_t from,
                        uint64_t to, const struct ftp_transfer *transfer)
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
    log_number_if(row, "data_bytes", connected, connected ? transfer->bytes : 0);
    log_number_if(row, "data_missing", connected, connected ? transfer->missing : 0);
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
                command ? command->time : 0, reply ? reply->time : 0, NULL);
}

static void ftplog_transfer(struct sl_box *box, struct ftp_transfer *transfer)
{
    struct ftplog *ftp = SLUICE_WORKER_OF(box);
    struct log_text *row = log_begin(&ftp->log, box, &transfer->control, transfer->client, transfer->time);
    log_octets(row, "user", (const uint8_t *)transfer->login.at, (uint32_t)transfer->login.used);
    log_octets(row, "command", (const uint8_t *)transfer->command.at, (uint32_t)transfer->command.used);
    log_octets(row, "argument", (const uint8_t *)transfer->argument.at, (uint32_t)transfer->argument.used);
    ftplog_rest(box, row, transfer->code, (const uint8_t *)transfer->reply.at, (uint32_t)transfer->reply.used, transfer->time,
                transfer->reply_time, transfer);
}

static const struct ftp_owner ftplog_owner = {ftplog_exchange, ftplog_transfer};

/* Counts the outcome of a control connection. */
static void ftplog_count(struct sl_box *box, const struct ftp_session *session)
{
    if (!session || !session->known)
        return;
    SLUICE_COUNTER_OF(box, ftp_cut_lines) += session->dialogue.cut_lines;
    SLUICE_COUNTER_OF(box, ftp_bad_replies) += session->dialogue.bad_lines;
    SLUICE_COUNTER_OF(box, ftp_too_many) += session->dialogue.dropped;
    SLUICE_COUNTER_OF(box, ftp_transfers_left_out) += session->no_room;
}

SLUICE_ON(tcp, created) {
    if (!event->instance)
        return;
    struct ftplog *ftp = SLUICE_WORKER_OF(event->box);
    struct ftp_connection *connection = &SLUICE_STATE_OF(event)->connection;
    connection->path = log_path_of(&ftp->log, event->box);
    ftp_connection_created(&ftp->transfers, connection, event);
}

SLUICE_ON(tcp, data) {
    if (!event->instance || !data->bytes.captured)
        return;
    bool no_memory = false;
    ftp_connection_data(&SLUICE_WORKER_OF(event->box)->transfers, &SLUICE_STATE_OF(event)->connection, event, data->bytes, &ftplog_owner,
                        &no_memory);
    SLUICE_COUNTER_OF(event->box, ftp_no_memory) += no_memory;
}

SLUICE_ON(tcp, gap) {
    struct ftp_connection *connection = event->instance ? &SLUICE_STATE_OF(event)->connection : NULL;
    if (connection && connection->data)
        connection->data->missing += data->length;
    if (!connection || !connection->session)
        return;
    SLUICE_COUNTER_OF(event->box, ftp_gaps) += connection->session->known;
    dialogue_gap(&connection->session->dialogue);
}

SLUICE_ON(tcp, end) {
    (void)data;
    if (!event->instance)
        return;
    struct ftp_connection *connection = &SLUICE_STATE_OF(event)->connection;
    ftplog_count(event->box, connection->session);
    ftp_connection_end(event->box, &SLUICE_WORKER_OF(event->box)->transfers, connection, &ftplog_owner);
}

SLUICE_DESTROY { ftp_connection_free(&SLUICE_WORKER_OF(box)->transfers, &state->connection); }

SLUICE_OPEN {
    struct ftplog *ftp = SLUICE_WORKER_OF(box);
    ftp->transfers.budget.most = SLUICE_PARAMETER_OF(box, memory);
    ftp->transfers.most = SLUICE_PARAMETER_OF(box, transfers);
    return log_open(&ftp->log, box, "ftp", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    ftp_transfers_close(&SLUICE_WORKER_OF(box)->transfers);
    log_close(&SLUICE_WORKER_OF(box)->log, box, "ftplog rows", "ftplog rows lost for want of memory",
              "ftplog flows without layers");
}
