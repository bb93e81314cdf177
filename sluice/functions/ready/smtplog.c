/* Writes a row for each mail transaction of SMTP (RFC 5321), and for each session without one.
 *
 * SMTP is read on ports 25, 587 and 2525, in TLS on port 465, and on any port where a greeting with code 220 meets HELO or EHLO.
 * What follows STARTTLS is read with the secrets of a key log. */
#include "sluice.h"

#include "log_reader.h"
#include "log_stream.h"
#include "log_tls.h"
#include "smtp_session.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(keylog, text, "", "file of TLS secrets, in the format of SSLKEYLOGFILE, with which SMTP in TLS is read")
SLUICE_PARAMETER(connections, number, 65536, "connections that are read at once, at most")
SLUICE_PARAMETER(memory, number, 67108864, "bytes that all of them store together, at most")

SLUICE_COUNTER(smtp_gaps, "gaps in sessions; commands and replies after them may not correspond")
SLUICE_COUNTER(smtp_cut_lines, "commands that are longer than what is stored")
SLUICE_COUNTER(smtp_bad_replies, "lines of servers that are no replies")
SLUICE_COUNTER(smtp_too_many, "sessions that are not read further, as too many commands or replies had no counterpart")
SLUICE_COUNTER(smtp_connections_left_out, "connections that are not read, as too many were open")
SLUICE_COUNTER(smtp_no_memory, "connections that are not read for want of memory, or of the bound's")
SLUICE_COUNTER(smtp_tls_opened, "sessions in TLS that are read")
SLUICE_COUNTER(smtp_tls_without_key, "sides of TLS connections that are not read: their secrets are not in the key log")
SLUICE_COUNTER(smtp_tls_ciphers, "sides of TLS connections that are not read: their version is below 1.2, or their cipher none with AES-GCM, AES-CCM, AES-CBC or ChaCha20-Poly1305")
SLUICE_COUNTER(smtp_tls_refused, "sides of TLS connections that are not read further after a record that is not valid, or not authentic")
SLUICE_COUNTER(smtp_tls_gaps, "sides of TLS connections that are not read further after a gap")
SLUICE_COUNTER(smtp_tls_moved, "sessions in TLS that are not read further, as their connection has moved to another instance")

struct smtplog_connection {
    struct smtp_session session;
    struct log_flow flow;
    struct sl_box *box;
    uint8_t client;
};

struct smtplog_state {
    struct smtplog_connection *connection;
    struct log_tls *tls;              /* NULL: without secrets, or not SMTP */
    uint32_t path;
    bool over, seen[2];
    bool secured;                     /* TLS has begun */
    bool moved;                       /* in TLS, from another instance: it is not read further */
};
SLUICE_STATE(struct smtplog_state)

struct smtplog { struct log_output log; struct log_budget budget; struct tls_secrets secrets; uint64_t open; };
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

static struct smtplog_connection *smtplog_connection(const struct sl_event *event, struct smtplog_state *state, unsigned side,
                                                     uint8_t first)
{
    struct smtplog *smtp = SLUICE_WORKER_OF(event->box);
    uint16_t port = smtp_port(log_stream_port(event, 0), log_stream_port(event, 1));
    uint8_t client = (uint8_t)log_client(event, port);
    if (!state->seen[side] && !port && !smtp_may_begin(first, side != client)) {
        smtplog_free(event->box, state);
        state->over = true;
    }
    state->seen[side] = true;
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
    connection->session.tls = state->secured;
    connection->session.time = sl_packet_time(event);
    return connection;
}

/* The session has ended, or is not read further. */
static void smtplog_end(struct sl_box *box, struct smtplog_state *state, uint64_t time)
{
    if (state->connection)
        smtp_session_end(&state->connection->session, time);
    smtplog_free(box, state);
    state->over = true;
}

/* Handles bytes of a side, in the clear or opened. */
static void smtplog_bytes(const struct sl_event *event, struct smtplog_state *state, unsigned side, const uint8_t *at, uint32_t length)
{
    struct smtplog_connection *connection = length ? smtplog_connection(event, state, side, *at) : NULL;
    if (!connection)
        return;
    struct smtp_session *session = &connection->session;
    session->now = sl_packet_time(event);
    if (session->dialogue.stopped)   /* TLS is to begin: what comes in the clear has no meaning */
        return;
    if (side == connection->client)
        dialogue_client(&session->dialogue, at, length, session->now);
    else
        dialogue_server(&session->dialogue, at, length, session->now);
    if (!session->dialogue.stopped)
        return;
    if (state->secured || !session->tls || !state->tls) {
        smtplog_end(event->box, state, session->now);
        return;
    }
    struct log_held held = dialogue_resume(&session->dialogue);   /* the client's bytes that came before the reply to STARTTLS */
    session->dialogue.stopped = true;                             /* until TLS begins */
    if (held.used)
        tls_connection_bytes(state->tls->tls, connection->client, held.at, held.used, session->now);
    log_held_free(&held, &SLUICE_WORKER_OF(event->box)->budget);
}

static void smtplog_gap(const struct sl_event *event, struct smtplog_state *state)
{
    if (!state->connection)
        return;
    SLUICE_COUNTER_OF(event->box, smtp_gaps) += state->connection->session.known;
    dialogue_gap(&state->connection->session.dialogue);
}

/* --- TLS --- */

static bool smtplog_tls_may_begin(void *user, unsigned side)
{
    const struct smtplog_state *state = ((struct log_tls *)user)->state;
    const struct smtplog_connection *connection = state->connection;
    return !state->over &&
           (!connection || smtp_session_may_be_secured(&connection->session, side == connection->client, !state->seen[side]));
}

static void smtplog_tls_begins(void *user, unsigned side)
{
    struct smtplog_state *state = ((struct log_tls *)user)->state;
    (void)side;
    if (state->connection && !state->secured)
        smtp_session_secured(&state->connection->session);
    state->secured = true;
}

static void smtplog_tls_data(void *user, unsigned side, const uint8_t *at, uint32_t length, bool opened)
{
    struct log_tls *tls = user;
    struct smtplog_state *state = tls->state;
    SLUICE_COUNTER_OF(tls->event->box, smtp_tls_opened) += opened && !tls->tls->read;
    if (opened || !state->secured)
        smtplog_bytes(tls->event, state, side, at, length);
}

static void smtplog_tls_gap(void *user, unsigned side, uint64_t length, bool opened)
{
    struct log_tls *tls = user;
    (void)side, (void)length, (void)opened;
    smtplog_gap(tls->event, tls->state);
}

/* The rest of a side is not read, so that commands and replies no longer correspond. */
static void smtplog_tls_shut(void *user, unsigned side, enum tls_shut why)
{
    struct log_tls *tls = user;
    struct sl_box *box = tls->event->box;
    (void)side;
    SLUICE_COUNTER_OF(box, smtp_tls_without_key) += why == TLS_SHUT_NO_KEY;
    SLUICE_COUNTER_OF(box, smtp_tls_ciphers) += why == TLS_SHUT_CIPHER;
    SLUICE_COUNTER_OF(box, smtp_tls_refused) += why == TLS_SHUT_REFUSED;
    SLUICE_COUNTER_OF(box, smtp_tls_gaps) += why == TLS_SHUT_GAP;
    SLUICE_COUNTER_OF(box, smtp_no_memory) += why == TLS_SHUT_NO_MEMORY;
    smtplog_end(box, tls->state, sl_packet_time(tls->event));
}

static const struct tls_connection_owner smtplog_tls_owner = {smtplog_tls_may_begin, smtplog_tls_begins, smtplog_tls_data,
                                                              smtplog_tls_gap, smtplog_tls_shut, NULL};

/* The TLS of a connection that may be one of SMTP; NULL: it is read as it was sent. */
static struct log_tls *smtplog_tls(const struct sl_event *event, struct smtplog_state *state, uint8_t first)
{
    struct smtplog *smtp = SLUICE_WORKER_OF(event->box);
    uint16_t ports[2] = {log_stream_port(event, 0), log_stream_port(event, 1)};
    bool may_be = smtp_port(ports[0], ports[1]) || ports[0] == SMTP_IN_TLS || ports[1] == SMTP_IN_TLS || smtp_may_begin(first, false) ||
                  smtp_may_begin(first, true);
    if (!state->tls && !state->over && !state->seen[0] && !state->seen[1] && may_be && tls_secrets_exist(&smtp->secrets)) {
        state->tls = log_tls_new(&smtplog_tls_owner, &smtp->secrets, &smtp->budget);
        SLUICE_COUNTER_OF(event->box, smtp_no_memory) += !state->tls;
    }
    if (state->tls) {
        state->tls->state = state;
        state->tls->event = event;
    }
    return state->tls;
}

/* --- events --- */

SLUICE_ON(tcp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(tcp, data) {
    struct smtplog_state *state = event->instance && data->bytes.captured ? SLUICE_STATE_OF(event) : NULL;
    if (!state || state->over || state->moved)
        return;
    struct log_tls *tls = smtplog_tls(event, state, data->bytes.at[0]);
    if (tls)
        tls_connection_bytes(tls->tls, event->side & 1, data->bytes.at, data->bytes.captured, sl_packet_time(event));
    else
        smtplog_bytes(event, state, event->side & 1, data->bytes.at, data->bytes.captured);
    if (state->over)
        log_tls_free(&state->tls, &SLUICE_WORKER_OF(event->box)->budget);
}

SLUICE_ON(tcp, gap) {
    struct smtplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || state->moved)
        return;
    if (state->tls) {
        state->tls->event = event;
        tls_connection_missing(state->tls->tls, event->side & 1, data->length);
    } else {
        smtplog_gap(event, state);
    }
}

SLUICE_ON(tcp, end) {
    (void)data;
    struct smtplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state)
        return;
    if (state->tls) {
        state->tls->event = event;
        tls_connection_end(state->tls->tls);
    }
    if (state->connection)
        smtp_session_end(&state->connection->session, sl_packet_time(event));
}

SLUICE_DESTROY {
    smtplog_free(box, state);
    log_tls_free(&state->tls, &SLUICE_WORKER_OF(box)->budget);
}

/* Whether TLS has begun, STARTTLS was accepted, or bytes wait in which TLS may begin. */
static bool smtplog_in_tls(const struct smtplog_state *state)
{
    const struct tls_look *look = state->tls ? state->tls->tls->look : NULL;
    bool waits = look && (look[0].used || look[1].used), accepted = state->connection && state->connection->session.tls;
    return !state->over && (state->secured || accepted || waits);
}

SLUICE_STORED(zero, "a session of SMTP: its dialogue, and the current message") {
    struct smtplog *smtp = SLUICE_WORKER_OF(box);
    bool in_tls = smtplog_in_tls(state);
    log_path_stored(stored, &smtp->log, box, &state->path);
    SL_STORED(stored, in_tls);
    SL_STORED(stored, state->moved);
    SL_STORED(stored, state->over);
    SL_STORED(stored, state->seen);
    SL_STORED(stored, state->secured);
    SLUICE_COUNTER_OF(box, smtp_tls_moved) += stored->reads && in_tls && !state->moved;
    state->moved |= stored->reads && in_tls;
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
    struct smtplog *smtp = SLUICE_WORKER_OF(box);
    smtp->budget.most = SLUICE_PARAMETER_OF(box, memory);
    if (tls_secrets_open(&smtp->secrets, box, SLUICE_PARAMETER_OF(box, keylog), &smtp->budget))
        return -1;
    if (log_open(&smtp->log, box, "smtp", SLUICE_PARAMETER_OF(box, out))) {
        tls_secrets_close(&smtp->secrets, box);
        return -1;
    }
    return 0;
}

SLUICE_CLOSE {
    tls_secrets_close(&SLUICE_WORKER_OF(box)->secrets, box);
    log_close(&SLUICE_WORKER_OF(box)->log, box, "smtplog rows", "smtplog rows lost for want of memory",
              "smtplog flows without layers");
}
