/* Connections of TLS whose records the key log opens: their application data are read as HTTP. TLS is searched for at the
 * beginning of each side, after bytes of another protocol, and after the response to CONNECT. */
#ifndef HTTPLOG_TLS_H
#define HTTPLOG_TLS_H

#include "httplog_http2.h"

/* Bytes of HTTP, or of another protocol, of a side. */
static void httplog_clear(struct httplog_connection *connection, unsigned number, const uint8_t *at, uint32_t length)
{
    http_sides_bytes(connection->side, number, at, length, SLUICE_PARAMETER_OF(connection->box, search));
}

static void httplog_clear_gap(struct httplog_connection *connection, unsigned number, uint64_t length)
{
    struct http_side *side = &connection->side[number];
    if (connection->streams) {
        httplog_frames_gap(connection, number, length);
        return;
    }
    bool in_body = side->state == HTTP_READING && (side->in_body || side->to_the_end);
    if (!in_body && !(side->known && side->response))
        connection->from_its_beginning = false;   /* requests may be missing */
    http_side_gap(side, length);
}

/* --- callbacks of tls_connection.h --- */

static void httplog_tls_data(void *user, unsigned number, const uint8_t *at, uint32_t length, bool opened)
{
    struct httplog_connection *connection = user;
    SLUICE_COUNTER_OF(connection->box, http_tls_opened) += opened && !connection->tls->read;
    httplog_clear(connection, number, at, length);
}

static void httplog_tls_gap(void *user, unsigned number, uint64_t length, bool opened)
{
    (void)opened;
    httplog_clear_gap(user, number, length);
}

static bool httplog_tls_may_begin(void *user, unsigned number)
{
    const struct httplog_connection *connection = user;
    return connection->side[number].state == HTTP_SEARCHING || connection->side[number].state == HTTP_TUNNEL;
}

static void httplog_tls_begins(void *user, unsigned number)
{
    http_side_begin(&((struct httplog_connection *)user)->side[number]);
}

/* The rest of a side is not read. */
static void httplog_tls_shut(void *user, unsigned number, enum tls_shut why)
{
    struct httplog_connection *connection = user;
    struct http_side *side = &connection->side[number];
    struct sl_box *box = connection->box;
    SLUICE_COUNTER_OF(box, http_tls_without_key) += why == TLS_SHUT_NO_KEY;
    SLUICE_COUNTER_OF(box, http_tls_ciphers) += why == TLS_SHUT_CIPHER;
    SLUICE_COUNTER_OF(box, http_tls_refused) += why == TLS_SHUT_REFUSED;
    SLUICE_COUNTER_OF(box, http_tls_gaps) += why == TLS_SHUT_GAP;
    SLUICE_COUNTER_OF(box, http_no_memory) += why == TLS_SHUT_NO_MEMORY;
    if (!(side->known && side->response))
        connection->from_its_beginning = false;
    const char *error = why == TLS_SHUT_GAP ? "GAP" : "TLS";
    if (connection->streams && side->state == HTTP_FRAMES)
        httplog_side_end(connection, number, error);
    else if (side->state == HTTP_READING)
        http_break(side, error);
    http_stop(side, error);
}

static const struct tls_connection_owner httplog_tls_owner = {httplog_tls_may_begin, httplog_tls_begins, httplog_tls_data,
                                                              httplog_tls_gap, httplog_tls_shut, NULL};

/* --- the connection --- */

/* Prepares a connection for TLS. Without memory, or secrets, its TLS is not read. */
static void httplog_tls_prepare(struct httplog_connection *connection)
{
    struct httplog *http = SLUICE_WORKER_OF(connection->box);
    if (!tls_secrets_exist(&http->secrets))
        return;
    connection->tls = tls_connection_new(&httplog_tls_owner, connection, &http->secrets, &http->budget,
                                         SLUICE_PARAMETER_OF(connection->box, search));
    SLUICE_COUNTER_OF(connection->box, http_no_memory) += !connection->tls;
}

/* Whether TLS may begin with the next bytes of a side. */
static bool httplog_looks(const struct httplog_connection *connection, unsigned number)
{
    return connection->tls && tls_connection_looks(connection->tls, number);
}

/* Bytes of a side as they were sent, in order. */
static void httplog_bytes(struct httplog_connection *connection, unsigned number, const uint8_t *at, uint32_t length)
{
    if (connection->tls)
        tls_connection_bytes(connection->tls, number, at, length, sl_box_time(connection->box));
    else
        httplog_clear(connection, number, at, length);
}

static void httplog_gap(struct httplog_connection *connection, unsigned number, uint64_t length)
{
    if (connection->tls)
        tls_connection_missing(connection->tls, number, length);
    else
        httplog_clear_gap(connection, number, length);
}

/* Bytes after the messages of CONNECT. Those of a proxy within TLS have been opened already, and are not read: the opener, which
 * is processing their record, must not get them as records. */
static void httplog_tunnelled(struct http_side *side, const uint8_t *at, uint32_t length)
{
    struct httplog_connection *connection = httplog_of(side);
    unsigned number = side != connection->side;
    if (connection->tls && !tls_connection_has_begun(connection->tls, number))
        httplog_bytes(connection, number, at, length);
}

#endif
