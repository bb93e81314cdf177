/* Writes a row for each mail transaction of SMTP (RFC 5321), and for each session without one.
 *
 * SMTP is read on ports 25, 587 and 2525, and on any port where a greeting with code 220 meets HELO or EHLO. After STARTTLS
 * nothing is read. */
#include "sluice.h"

#include "log_reader.h"
#include "log_stream.h"
#include "smtp_session.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(connections, number, 65536, "connections that are read at once, at most")
SLUICE_PARAMETER(memory, number, 67108864, "bytes that all of them store together, at most")

SLUICE_COUNTER(smtp_gaps, "gaps in sessions; commands and replies after them may not correspond")
SLUICE_COUNTER(smtp_cut_lines, "commands that are longer than what is stored")
SLUICE_COUNTER(smtp_bad_replies, "lines of servers that are no replies")
SLUICE_COUNTER(smtp_too_many, "sessions that are not read further, as too many commands or replies had no counterpart")
SLUICE_COUNTER(smtp_connections_left_out, "connections that are not read, as too many were open")
SLUICE_COUNTER(smtp_no_memory, "connections that are not read for want of memory")

struct smtplog_connection {
    struct smtp_session session;
    struct log_flow flow;
    struct sl_box *box;
    uint8_t client;
};

struct smtplog_state {
    struct smtplog_connection *connection;
    uint32_t path;
    bool over, seen[2];
};
SLUICE_STATE(struct smtplog_state)

struct smtplog { struct log_output log; struct log_budget budget; uint64_t open; };
SLUICE_WORKER(struct smtplog)

static void smtplog_text(struct log_text *row, const char *name, const struct log_text *text)
{
    log_octets(row, name, (const uint8_t *)text->at, (uint32_t)text->used);
}

/* Writes the addresses of a header field as a list: they are separated by commas outside of quotes and brackets. */
static void smtplog_addresses(struct log_text *row, const char *name, const struct log_text *text)
{
    bool quoted = false;
    size_t begin = 0, count = 0;
    log_name(row, name);
    log_put(row, "[");
    for (size_t i = 0; i <= text->used; i++) {
        if (i < text->used && text->at[i] == '"')
            quoted = !quoted;
        if (i < text->used && (text->at[i] != ',' || quoted))
            continue;
        while (begin < i && text->at[begin] == ' ')
            begin++;
        if (begin < i) {
            log_put(row, count++ ? "," : "");
            log_string(row, text->at + begin, i - begin);
        }
        begin = i + 1;
    }
    log_put(row, "]");
}

static void smtplog_row(struct smtp_session *session)
{
    struct smtplog_connection *connection = session->user;
    struct smtplog *smtp = SLUICE_WORKER_OF(connection->box);
    const struct smtp_mail *mail = &session->mail;
    struct log_text *row = log_begin(&smtp->log, connection->box, &connection->flow, connection->client,
                                     mail->begun ? mail->time : session->time);
    smtplog_text(row, "server", &session->server);
    smtplog_text(row, "helo", &session->helo);
    smtplog_text(row, "mail_from", &mail->from);
    log_put(row, ",\"recipients\":[");
    log_bytes(row, mail->recipients.at, mail->recipients.used);
    log_put(row, "]");
    log_number(row, "recipients_left_out", mail->recipients_left_out);
    smtplog_text(row, "date", &mail->field[SMTP_DATE]);
    smtplog_text(row, "from", &mail->field[SMTP_FROM]);
    smtplog_addresses(row, "to", &mail->field[SMTP_TO]);
    smtplog_addresses(row, "cc", &mail->field[SMTP_CC]);
    smtplog_text(row, "subject", &mail->field[SMTP_SUBJECT]);
    smtplog_text(row, "message_id", &mail->field[SMTP_ID]);
    smtplog_text(row, "reply_to", &mail->field[SMTP_REPLY_TO]);
    smtplog_text(row, "in_reply_to", &mail->field[SMTP_IN_REPLY_TO]);
    smtplog_text(row, "user_agent", &mail->field[SMTP_AGENT]);
    log_number_if(row, "bytes", mail->has_content, mail->bytes);
    log_number_if(row, "reply_code", mail->code, mail->code);
    smtplog_text(row, "reply", &mail->reply);
    log_flag(row, "authenticated", session->authenticated);
    log_flag(row, "tls", session->tls);
    log_finish(&smtp->log);
}

static const struct smtp_owner smtplog_owner = {smtplog_row, NULL};

static void smtplog_free(struct sl_box *box, struct smtplog_state *state)
{
    struct smtplog_connection *connection = state->connection;
    if (!connection)
        return;
    SLUICE_COUNTER_OF(box, smtp_cut_lines) += connection->session.dialogue.cut_lines;
    SLUICE_COUNTER_OF(box, smtp_bad_replies) += connection->session.dialogue.bad_lines;
    SLUICE_COUNTER_OF(box, smtp_too_many) += connection->session.dialogue.dropped;
    smtp_session_close(&connection->session);
    free(connection);
    state->connection = NULL;
    SLUICE_WORKER_OF(box)->open--;
}

static struct smtplog_connection *smtplog_connection(const struct sl_event *event, uint8_t first)
{
    struct smtplog *smtp = SLUICE_WORKER_OF(event->box);
    struct smtplog_state *state = SLUICE_STATE_OF(event);
    uint16_t port = smtp_port(log_stream_port(event, 0), log_stream_port(event, 1));
    uint8_t client = (uint8_t)log_client(event, port);
    if (!state->seen[event->side & 1] && !port && !smtp_may_begin(first, (event->side & 1) != client)) {
        smtplog_free(event->box, state);
        state->over = true;
    }
    state->seen[event->side & 1] = true;
    if (state->connection || state->over)
        return state->connection;
    bool many = smtp->open >= SLUICE_PARAMETER_OF(event->box, connections);
    struct smtplog_connection *connection = many ? NULL : calloc(1, sizeof *connection);
    if (!connection) {
        SLUICE_COUNTER_OF(event->box, smtp_connections_left_out) += many;
        SLUICE_COUNTER_OF(event->box, smtp_no_memory) += !many;
        state->over = true;
        return NULL;
    }
    smtp->open++;
    state->connection = connection;
    connection->box = event->box;
    connection->flow = log_flow_of(event, state->path);
    connection->client = client;
    smtp_session_open(&connection->session, &smtplog_owner, connection, &smtp->budget, log_from_syn(event), port);
    connection->session.time = sl_packet_time(event);
    return connection;
}

SLUICE_ON(tcp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(tcp, data) {
    struct smtplog_connection *connection =
        event->instance && data->bytes.captured ? smtplog_connection(event, data->bytes.at[0]) : NULL;
    if (!connection)
        return;
    struct smtp_session *session = &connection->session;
    session->now = sl_packet_time(event);
    if ((event->side & 1) == connection->client)
        dialogue_client(&session->dialogue, data->bytes.at, data->bytes.captured, session->now);
    else
        dialogue_server(&session->dialogue, data->bytes.at, data->bytes.captured, session->now);
    if (!session->dialogue.stopped)
        return;
    smtp_session_end(session, session->now);
    smtplog_free(event->box, SLUICE_STATE_OF(event));
    SLUICE_STATE_OF(event)->over = true;
}

SLUICE_ON(tcp, gap) {
    (void)data;
    struct smtplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || !state->connection)
        return;
    SLUICE_COUNTER_OF(event->box, smtp_gaps) += state->connection->session.known;
    dialogue_gap(&state->connection->session.dialogue);
}

SLUICE_ON(tcp, end) {
    (void)data;
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        smtp_session_end(&SLUICE_STATE_OF(event)->connection->session, sl_packet_time(event));
}

SLUICE_DESTROY { smtplog_free(box, state); }

SLUICE_STORED(zero, "a session of SMTP: its dialogue, and the current message") {
    struct smtplog *smtp = SLUICE_WORKER_OF(box);
    log_path_stored(stored, &smtp->log, box, &state->path);
    SL_STORED(stored, state->over);
    SL_STORED(stored, state->seen);
    if (!sl_stored_more(stored, state->connection != NULL))
        return;
    struct smtplog_connection *connection = sl_stored_block(stored, state->connection, sizeof *connection, sizeof *connection);
    if (!connection)
        return;
    if (stored->reads) {
        connection->box = box;
        smtp_session_open(&connection->session, &smtplog_owner, connection, &smtp->budget, false, false);
        state->connection = connection;
        smtp->open++;
    }
    log_flow_stored(stored, &smtp->log, box, &connection->flow);
    SL_STORED(stored, connection->client);
    connection->client &= 1;
    smtp_session_stored(stored, &connection->session);
}

SLUICE_OPEN {
    SLUICE_WORKER_OF(box)->budget.most = SLUICE_PARAMETER_OF(box, memory);
    return log_open(&SLUICE_WORKER_OF(box)->log, box, "smtp", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "smtplog rows", "smtplog rows lost for want of memory",
              "smtplog flows without layers");
}
