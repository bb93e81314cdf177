/* Writes a row for each TLS connection over TCP, SCTP or QUIC, and each of DTLS, with at least one hello: versions, cipher suite, server
 * name, protocols, resumption, unencrypted certificates, and the fingerprints JA3, JA3S, JA4 and JA4S.
 *
 * Over TCP, TLS is detected by its first record, on any port, and also after other bytes, for example after STARTTLS or
 * CONNECT; DTLS by a datagram that begins with a handshake record. A row is written when both sides have started encryption, or when
 * the connection ends. With the secrets of a key log, also certificates of TLS 1.3 are read. */
#include "sluice.h"

#include "dtls_side.h"
#include "log_datagram.h"
#include "log_quic.h"
#include "log_row.h"
#include "log_sctp.h"
#include "tls_certificate.h"
#include "tls_ciphers.h"
#include "tls_connection.h"
#include "tls_hello.h"
#include "tls_stream.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(keylog, text, "", "file of TLS secrets, in the format of SSLKEYLOGFILE, with which certificates of TLS 1.3 are read")
SLUICE_PARAMETER(search, number, 65536, "bytes of each side of a TCP connection in which TLS may begin")
SLUICE_PARAMETER(certificates, number, 8, "certificates of one connection that its row lists at most")
SLUICE_PARAMETER(connections, number, 65536, "connections whose hellos are stored at once, at most")
SLUICE_PARAMETER(memory, number, 268435456, "bytes of handshakes that all of them store together, at most")

SLUICE_COUNTER(tls_gaps, "sides of a handshake of which not all is read, as bytes are missing")
SLUICE_COUNTER(tls_bad_records, "sides, and datagrams of DTLS, that went on with something that is no record")
SLUICE_COUNTER(tls_too_long, "sides, and datagrams of DTLS, with a handshake message beyond the bound of 256 KiB")
SLUICE_COUNTER(tls_malformed_hellos, "hellos that could not be read to their end")
SLUICE_COUNTER(tls_malformed_certificates, "certificates that could not be read")
SLUICE_COUNTER(tls_connections_left_out, "connections that are not in the log, as too many were open")
SLUICE_COUNTER(tls_without_key, "sides whose encrypted handshake is not read: their secrets are not in the key log")
SLUICE_COUNTER(tls_ciphers, "sides of TLS 1.3 whose encrypted handshake is not read: their cipher is none with AES-GCM, AES-CCM or ChaCha20-Poly1305")
SLUICE_COUNTER(tls_refused, "sides whose encrypted handshake is not read further, as a record is not valid, or not authentic")
SLUICE_COUNTER(tls_not_continued, "connections whose encrypted handshake, and associations of SCTP whose TLS, is not read further, as another process has them now")
SLUICE_COUNTER(tls_no_memory, "sides that are not read for want of memory, or of the bound's")

enum { TLSLOG_SIDES = 6, TLSLOG_ALERTS = 8 };   /* TCP: 2 streams; QUIC: 2 for each of 3 levels */
enum { TLSLOG_CAPWAP_CONTROL = 5246, TLSLOG_CAPWAP_DATA = 5247, TLSLOG_CAPWAP_PREAMBLE = 4 };

struct tlslog_connection {
    struct sl_box *box;
    struct log_flow flow;
    uint64_t time;
    char transport;                    /* as in JA4: t, q, or d of DTLS */
    bool sctp;                         /* it is carried by SCTP */
    bool has_client, has_server, client_certificate, written, has_certificates;
    uint8_t client;                    /* the side that sent the ClientHello */
    uint8_t client_hellos, attempt;
    struct tls_hello hello, answer;
    struct log_text certificates;
    uint64_t stored;                   /* bytes of the budget that hellos and certificates use */
    char chosen[64];                   /* QUIC: the protocol in EncryptedExtensions */
    struct { uint8_t side, level, description; } alert[TLSLOG_ALERTS];
    uint8_t alerts;
    uint32_t certificate_count;
    struct tls_side side[TLSLOG_SIDES];
    struct dtls_side datagrams[2];
    struct tls_connection *tls;        /* over TCP; NULL: without secrets */
};

/* The state of a TCP or QUIC connection, of a flow of UDP, or of a stream of SCTP, or of an association with DTLS in it. */
struct tlslog_state {
    struct tlslog_connection *connection;
    struct log_sctp *sctp;             /* the streams of an association */
    uint32_t path;
    uint32_t random : 31;              /* DTLS: of the client of the last connection */
    uint32_t over : 1;                 /* parsing has ended */
};
SLUICE_STATE(struct tlslog_state)

struct tlslog {
    struct log_output log;
    struct tls_x509 x509;
    bool reads_certificates;
    struct log_budget budget;
    struct tls_secrets secrets;
    uint64_t open;
    struct log_quic quic;
    struct log_sctp_association association;
};
SLUICE_WORKER(struct tlslog)

/* The context of the callbacks. */
struct tlslog_reading {
    struct sl_box *box;
    struct tlslog_connection *connection;
    uint8_t side;                      /* the sending side of the connection; 0: the active one */
    uint8_t which;                     /* index in connection->side */
    bool newer;                        /* the messages are those of TLS 1.3 */
};

/* --- rows --- */

static const char *tlslog_version(uint16_t version, char text[8])
{
    switch (version) {
    case 0x0300: return "SSLv3";
    case 0x0301: return "TLSv1.0";
    case 0x0302: return "TLSv1.1";
    case 0x0303: return "TLSv1.2";
    case 0x0304: return "TLSv1.3";
    case DTLS_1_0: return "DTLSv1.0";
    case DTLS_1_2: return "DTLSv1.2";
    case DTLS_1_3: return "DTLSv1.3";
    default: snprintf(text, 8, "0x%04x", version); return text;
    }
}

/* Whether the server resumed an earlier session: by a PSK (RFC 8446, 2.2), or, before TLS 1.3, by echoing the client's
 * session id (RFC 5246, 7.4.1.2; RFC 5077, 3.4). A TLS 1.3 server always echoes it. */
static bool tlslog_resumed(const struct tlslog_connection *connection)
{
    const struct tls_hello *hello = &connection->hello, *answer = &connection->answer;
    if (!connection->has_server || tls_is_13(answer->best))
        return connection->has_server && answer->has_psk;
    return connection->has_client && hello->session_length && hello->session_length == answer->session_length &&
           memcmp(hello->session, answer->session, hello->session_length) == 0;
}

static void tlslog_hash(struct log_text *row, const char *name, const char *text)
{
    log_word(row, name, *text ? text : NULL);
}

static void tlslog_client(struct log_text *row, const struct tlslog_connection *connection)
{
    const struct tls_hello *hello = &connection->hello;
    char text[8];
    log_word(row, "version_offered", connection->has_client ? tlslog_version(hello->best, text) : NULL);
    log_name(row, "server_name");
    if (hello->name.used)
        log_string(row, hello->name.at, hello->name.used);
    else
        log_put(row, "null");
    log_put(row, ",\"alpn_offered\":[");
    log_bytes(row, hello->alpn.at, hello->alpn.used);
    log_put(row, "]");
}

static void tlslog_server(struct log_text *row, const struct tlslog_connection *connection)
{
    const struct tls_hello *answer = &connection->answer;
    const char *cipher = connection->has_server ? tls_cipher_name(answer->cipher) : NULL;
    log_name(row, "cipher");
    if (cipher)
        log_format(row, "\"TLS_%s\"", cipher);
    else
        log_put(row, "null");
    log_name(row, "cipher_id");
    if (connection->has_server)
        log_format(row, "\"0x%04x\"", answer->cipher);
    else
        log_put(row, "null");
    log_name(row, "alpn");
    if (answer->alpn.used)
        log_bytes(row, answer->alpn.at, answer->alpn.used);
    else if (*connection->chosen)
        log_string(row, connection->chosen, strlen(connection->chosen));
    else
        log_put(row, "null");
}

/* Writes the row of a connection, once. */
static void tlslog_row(struct sl_box *box, struct tlslog_connection *connection)
{
    struct tlslog *tls = SLUICE_WORKER_OF(box);
    char text[8];
    if (connection->written || !(connection->has_client || connection->has_server))
        return;
    connection->written = true;
    struct log_text *row = log_begin(&tls->log, box, &connection->flow, connection->client, connection->time);
    const char *transport = connection->transport == 'q' ? "quic" : connection->transport == 'd' ? "udp" : "tcp";
    log_word(row, "transport", connection->sctp ? "sctp" : transport);
    log_word(row, "version", connection->has_server ? tlslog_version(connection->answer.best, text) : NULL);
    tlslog_client(row, connection);
    tlslog_server(row, connection);
    log_flag(row, "resumed", tlslog_resumed(connection));
    bool both = connection->side[0].secured && connection->side[1].secured;
    log_flag(row, "established", both);
    log_flag(row, "hello_retry", connection->client_hellos > 1);
    log_flag(row, "encrypted_client_hello", connection->hello.has_ech);
    tlslog_hash(row, "ja3", connection->hello.ja3);
    tlslog_hash(row, "ja3s", connection->answer.ja3);
    tlslog_hash(row, "ja4", connection->hello.ja4);
    tlslog_hash(row, "ja4s", connection->answer.ja4);
    log_put(row, ",\"certificates\":[");
    log_bytes(row, connection->certificates.at, connection->certificates.used);
    log_put(row, "]");
    log_number(row, "certificate_count", connection->certificate_count);
    log_flag(row, "client_certificate", connection->client_certificate);
    log_put(row, ",\"alerts\":[");
    for (unsigned i = 0; i < connection->alerts; i++)
        log_format(row, "%s{\"from\":\"%s\",\"level\":%u,\"description\":%u}", i ? "," : "",
                   connection->alert[i].side == connection->client ? "client" : "server", connection->alert[i].level,
                   connection->alert[i].description);
    log_put(row, "]");
    log_finish(&tls->log);
}

static void tlslog_free(struct sl_box *box, struct tlslog_state *state)
{
    struct tlslog_connection *connection = state->connection;
    if (!connection)
        return;
    for (unsigned i = 0; i < TLSLOG_SIDES; i++)
        tls_message_drop(&connection->side[i].message);
    for (unsigned i = 0; i < 2; i++)
        SLUICE_COUNTER_OF(box, tls_gaps) += dtls_side_free(&connection->datagrams[i], &SLUICE_WORKER_OF(box)->budget);
    tls_connection_free(connection->tls);
    tls_hello_free(&connection->hello);
    tls_hello_free(&connection->answer);
    log_give(&SLUICE_WORKER_OF(box)->budget, connection->stored);
    free(connection->certificates.at);
    free(connection);
    state->connection = NULL;
    SLUICE_WORKER_OF(box)->open--;
}

/* --- messages --- */

/* Charges a connection's memory to the budget until its row is written. Returns false if the budget is exhausted. */
static bool tlslog_store(const struct tlslog_reading *reading, uint64_t bytes)
{
    if (!log_take(&SLUICE_WORKER_OF(reading->box)->budget, bytes)) {
        SLUICE_COUNTER_OF(reading->box, tls_no_memory)++;
        return false;
    }
    reading->connection->stored += bytes;
    return true;
}

/* Reads the certificates of a message (RFC 5246, 7.4.2). In TLS 1.3, each has extensions (RFC 8446, 4.4.2). */
static void tlslog_certificates(struct tlslog_reading *reading, const uint8_t *body, uint32_t length)
{
    struct tlslog_connection *connection = reading->connection;
    struct tlslog *tls = SLUICE_WORKER_OF(reading->box);
    struct tls_reader message = {body, length, false};
    if (reading->newer)
        tls_vector(&message, 1);
    struct tls_reader list = tls_vector(&message, 3);
    bool client = connection->has_client && reading->side == connection->client;
    if (client && list.left)
        connection->client_certificate = true;
    if (client || connection->has_certificates)
        return;
    connection->has_certificates = true;
    while (list.left) {
        struct tls_reader one = tls_vector(&list, 3);
        if (reading->newer)
            tls_vector(&list, 2);
        if (list.failed || message.failed) {
            SLUICE_COUNTER_OF(reading->box, tls_malformed_certificates)++;
            return;
        }
        if (connection->certificate_count++ >= SLUICE_PARAMETER_OF(reading->box, certificates) || !tls->reads_certificates)
            continue;
        if (!tlslog_store(reading, 4 * (uint64_t)one.left + 4096))   /* a bound for the certificate's text */
            continue;
        size_t before = connection->certificates.used;
        log_put(&connection->certificates, before ? "," : "");
        if (!tls_certificate(&connection->certificates, &tls->x509, &tls->log.hashes, one.at, one.left)) {
            connection->certificates.used = before;
            SLUICE_COUNTER_OF(reading->box, tls_malformed_certificates)++;
        }
    }
}

static bool tlslog_wanted(void *user, uint8_t type)
{
    const struct tlslog_reading *reading = user;
    return type == TLS_CLIENT_HELLO || type == TLS_SERVER_HELLO || type == TLS_CERTIFICATE ||
           (type == TLS_ENCRYPTED_EXTENSIONS && reading->newer);
}

static void tlslog_hello(struct tlslog_reading *reading, const uint8_t *body, uint32_t length, bool client)
{
    struct tlslog_connection *connection = reading->connection;
    struct tls_hello hello = {0};
    if (!tlslog_store(reading, 4 * (uint64_t)length))   /* a bound for its texts */
        return;
    bool whole = tls_hello_read(&hello, &SLUICE_WORKER_OF(reading->box)->log.hashes, body, length, client, connection->transport);
    if (!whole)
        SLUICE_COUNTER_OF(reading->box, tls_malformed_hellos)++;
    if (client && !hello.has_cookie)
        connection->client_hellos = (uint8_t)sl_min(connection->client_hellos + 1u, 255);
    /* With a HelloRetryRequest, the client's first hello is used, and the server's last. */
    if (!whole || (client ? connection->has_client : connection->has_server && !connection->answer.retry)) {
        tls_hello_free(&hello);
        return;
    }
    if (client) {
        connection->has_client = true;
        connection->client = reading->side;
        connection->hello = hello;
        return;
    }
    if (!connection->has_client)
        connection->client = reading->side ^ 1;
    tls_hello_free(&connection->answer);
    connection->has_server = true;
    connection->answer = hello;
}

static void tlslog_message(void *user, uint8_t type, const uint8_t *body, uint32_t length)
{
    struct tlslog_reading *reading = user;
    struct tlslog_connection *connection = reading->connection;
    if (type == TLS_CLIENT_HELLO || type == TLS_SERVER_HELLO) {
        tlslog_hello(reading, body, length, type == TLS_CLIENT_HELLO);
    } else if (type == TLS_CERTIFICATE) {
        tlslog_certificates(reading, body, length);
    } else if (!*connection->chosen) {   /* EncryptedExtensions (RFC 8446, 4.3.1): read ALPN */
        struct tls_reader message = {body, length, false}, extensions = tls_vector(&message, 2);
        while (extensions.left) {
            uint32_t kind = tls_number(&extensions, 2);
            struct tls_reader content = tls_vector(&extensions, 2);
            struct tls_reader names = kind == 16 ? tls_vector(&content, 2) : (struct tls_reader){0}, name = tls_vector(&names, 1);
            if (kind == 16 && !names.failed && name.left < sizeof connection->chosen)
                memcpy(connection->chosen, name.at, name.left);
        }
    }
}

static void tlslog_alert(void *user, uint8_t level, uint8_t description)
{
    struct tlslog_reading *reading = user;
    struct tlslog_connection *connection = reading->connection;
    for (unsigned i = 0; i < connection->alerts; i++)   /* a datagram may come again */
        if (connection->transport == 'd' && connection->alert[i].side == reading->side &&
            connection->alert[i].level == level && connection->alert[i].description == description)
            return;
    if (connection->alerts == TLSLOG_ALERTS)
        return;
    connection->alert[connection->alerts].side = reading->side;
    connection->alert[connection->alerts].level = level;
    connection->alert[connection->alerts++].description = description;
}

static void tlslog_begun(void *user)
{
    struct tlslog_reading *reading = user;
    if (!reading->connection->time)
        reading->connection->time = sl_box_time(reading->box);
}

static struct tls_reading tlslog_callbacks(struct tlslog_reading *reading)
{
    return (struct tls_reading){reading, tlslog_wanted, tlslog_message, tlslog_alert, tlslog_begun,
                                &SLUICE_WORKER_OF(reading->box)->budget, SLUICE_PARAMETER_OF(reading->box, search)};
}

/* Counts the reason why a side, or a datagram, is not read further. */
static void tlslog_stopped(struct sl_box *box, enum tls_stop why)
{
    SLUICE_COUNTER_OF(box, tls_gaps) += why == TLS_GAP;
    SLUICE_COUNTER_OF(box, tls_bad_records) += why == TLS_BAD_RECORD;
    SLUICE_COUNTER_OF(box, tls_too_long) += why == TLS_TOO_LONG;
    SLUICE_COUNTER_OF(box, tls_no_memory) += why == TLS_NO_MEMORY;
}

/* The connection of a state, created if there is none; NULL at a bound, or after parsing has ended. */
static struct tlslog_connection *tlslog_connection(struct sl_box *box, struct tlslog_state *state, const struct log_flow *flow,
                                                   char transport)
{
    struct tlslog *tls = SLUICE_WORKER_OF(box);
    if (state->connection || state->over)
        return state->connection;
    if (tls->open >= SLUICE_PARAMETER_OF(box, connections)) {
        SLUICE_COUNTER_OF(box, tls_connections_left_out)++;
        state->over = true;
        return NULL;
    }
    state->connection = calloc(1, sizeof *state->connection);
    if (!state->connection) {
        SLUICE_COUNTER_OF(box, tls_no_memory)++;
        state->over = true;
        return NULL;
    }
    tls->open++;
    state->connection->box = box;
    state->connection->flow = *flow;
    state->connection->transport = transport;
    return state->connection;
}

#include "tlslog_sealed.h"

/* --- TCP, and streams of SCTP --- */

/* Begins a connection over TCP, or in a stream; NULL at a bound. `of`: the event of what carries it. */
static struct tlslog_connection *tlslog_begin(const struct sl_event *of, struct tlslog_state *state, uint32_t path)
{
    struct tlslog *tls = SLUICE_WORKER_OF(of->box);
    struct log_flow flow = log_flow_of(of, path);
    struct tlslog_connection *connection = tlslog_connection(of->box, state, &flow, 't');
    if (connection && tls_secrets_exist(&tls->secrets)) {
        connection->tls =
            tls_connection_new(&tlslog_owner, connection, &tls->secrets, &tls->budget, SLUICE_PARAMETER_OF(of->box, search));
        SLUICE_COUNTER_OF(of->box, tls_no_memory) += !connection->tls;
    }
    return connection;
}

/* Writes the row of a connection of which no more is read. */
static void tlslog_settle(struct sl_box *box, struct tlslog_state *state)
{
    struct tlslog_connection *connection = state->connection;
    if (connection->side[0].state != TLS_STOPPED || connection->side[1].state != TLS_STOPPED || tlslog_waits(connection))
        return;
    tlslog_row(box, connection);
    tlslog_free(box, state);
    state->over = true;
}

/* Bytes of a side, in order. */
static void tlslog_bytes(const struct sl_event *event, struct tlslog_state *state, uint8_t number, const uint8_t *at, uint32_t length)
{
    struct tlslog_connection *connection = state->connection;
    struct tls_side *side = &connection->side[number];
    if (connection->tls) {
        tls_connection_bytes(connection->tls, number, at, length, sl_packet_time(event));
        if (side->state == TLS_STOPPED)
            tlslog_settle(event->box, state);
    }
    if (!state->connection || side->state == TLS_STOPPED)
        return;
    bool first = side->state == TLS_SEARCHING && !side->searched && !side->head_used && length;
    if (first && at[0] == TLS_ALERT && connection->side[number ^ 1].begun)
        side->state = TLS_IN_RECORDS;   /* the other side's hello is refused */
    struct tlslog_reading reading = {event->box, connection, number, number, false};
    struct tls_reading callbacks = tlslog_callbacks(&reading);
    tls_side_bytes(side, &callbacks, at, length);
    if (side->state != TLS_STOPPED)
        return;
    tlslog_stopped(event->box, side->stop);
    tlslog_settle(event->box, state);
}

static void tlslog_gap(struct tlslog_connection *connection, unsigned number, uint64_t length)
{
    struct tls_side *side = &connection->side[number];
    if (connection->tls)
        tls_connection_missing(connection->tls, number, length);
    if (side->state == TLS_STOPPED)
        return;
    tls_side_gap(side);
    if (side->state == TLS_STOPPED)
        tlslog_stopped(connection->box, side->stop);
}

static void tlslog_end(struct tlslog_connection *connection)
{
    if (connection->tls)
        tls_connection_end(connection->tls);
    tlslog_row(connection->box, connection);
}

SLUICE_ON(tcp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(tcp, data) {
    struct tlslog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || state->over)
        return;
    if (state->connection || tlslog_begin(event, state, state->path))
        tlslog_bytes(event, state, event->side & 1, data->bytes.at, data->bytes.captured);
}

SLUICE_ON(tcp, gap) {
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        tlslog_gap(SLUICE_STATE_OF(event)->connection, event->side & 1, data->length);
}

SLUICE_ON(tcp, end) {
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        tlslog_end(SLUICE_STATE_OF(event)->connection);
}

#include "tlslog_dtls.h"
#include "tlslog_quic.h"
#include "tlslog_sctp.h"

SLUICE_DESTROY {
    tlslog_sctp_free(box, state);
    tlslog_free(box, state);
}

#include "tlslog_stored.h"

SLUICE_OPEN {
    struct tlslog *tls = SLUICE_WORKER_OF(box);
    tls->budget.most = SLUICE_PARAMETER_OF(box, memory);
    if (tls_secrets_open(&tls->secrets, box, SLUICE_PARAMETER_OF(box, keylog), &tls->budget))
        return -1;
    if (log_open(&tls->log, box, "tls", SLUICE_PARAMETER_OF(box, out))) {
        tls_secrets_close(&tls->secrets, box);
        return -1;
    }
    tls->reads_certificates = tls_x509_open(&tls->x509, tls->log.hashes.library);
    return 0;
}

SLUICE_CLOSE {
    tls_secrets_close(&SLUICE_WORKER_OF(box)->secrets, box);
    log_close(&SLUICE_WORKER_OF(box)->log, box, "tlslog rows", "tlslog rows lost for want of memory",
              "tlslog flows without layers");
}
