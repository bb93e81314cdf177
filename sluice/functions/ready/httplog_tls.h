/* Connections of TLS whose records the key log opens: their application data are read as HTTP. TLS is searched for at the
 * beginning of each side, after bytes of another protocol, and after the response to CONNECT. */
#ifndef HTTPLOG_TLS_H
#define HTTPLOG_TLS_H

#include "httplog_http2.h"

/* Bytes of HTTP, or of another protocol, of a side. */
static void httplog_clear(struct httplog_connection *connection, unsigned number, const uint8_t *at, uint32_t length)
{
    struct http_side *side = &connection->side[number], *other = &connection->side[!number];
    bool was_known = side->known;
    http_side_bytes(side, at, length, SLUICE_PARAMETER_OF(connection->box, search));
    if (!side->known || was_known)
        return;
    other->response = other->known ? other->response : !side->response;   /* the other side has the other role */
    other->known = true;
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

/* --- callbacks of tls_open.h --- */

static void httplog_tls_data(void *user, unsigned number, const uint8_t *at, uint32_t length)
{
    struct httplog_connection *connection = user;
    SLUICE_COUNTER_OF(connection->box, http_tls_opened) += !connection->tls->counted;
    connection->tls->counted = true;
    httplog_clear(connection, number, at, length);
}

static void httplog_tls_gap(void *user, unsigned number, uint64_t length) { httplog_clear_gap(user, number, length); }

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

static const struct tls_open_owner httplog_tls_owner = {httplog_tls_data, httplog_tls_gap, httplog_tls_shut};

/* --- the beginning --- */

static bool httplog_has_keys(const struct httplog *http) { return http->secrets.ready && (http->secrets.log.file || http->secrets.log.count); }

/* Prepares a connection for TLS. Without memory, or a key log, its TLS is not read. */
static void httplog_tls_prepare(struct httplog_connection *connection)
{
    struct httplog *http = SLUICE_WORKER_OF(connection->box);
    if (!httplog_has_keys(http))
        return;
    bool taken = log_take(&http->budget, sizeof *connection->tls);
    connection->tls = taken ? calloc(1, sizeof *connection->tls) : NULL;
    if (!connection->tls) {
        if (taken)
            log_give(&http->budget, sizeof *connection->tls);
        SLUICE_COUNTER_OF(connection->box, http_no_memory)++;
        return;
    }
    connection->tls->opener = (struct tls_opener){
        .owner = &httplog_tls_owner, .user = connection, .secrets = &http->secrets, .budget = &http->budget};
}

static void httplog_tls_free(struct httplog_connection *connection)
{
    if (!connection->tls)
        return;
    tls_open_free(&connection->tls->opener);
    log_give(&SLUICE_WORKER_OF(connection->box)->budget, sizeof *connection->tls);
    free(connection->tls);
    connection->tls = NULL;
}

/* Whether TLS may begin with the next bytes of a side. */
static bool httplog_looks(const struct httplog_connection *connection, unsigned number)
{
    const struct httplog_tls *tls = connection->tls;
    enum http_state state = connection->side[number].state;
    return tls && !tls->look[number].over && !tls->opener.side[number].begun && (state == HTTP_SEARCHING || state == HTTP_TUNNEL);
}

/* Ends the search of a side, or passes the bytes before its next candidate on. `keep`: the last bytes that remain. */
static void httplog_look_release(struct httplog_connection *connection, unsigned number, uint8_t keep)
{
    struct httplog_look *look = &connection->tls->look[number];
    uint8_t bytes[TLS_BEGINNING], over = (uint8_t)(look->used - keep);
    memcpy(bytes, look->window, sizeof bytes);
    memmove(look->window, look->window + over, keep);
    look->used = keep;
    look->searched += over;
    httplog_clear(connection, number, bytes, over);
}

/* The window contains the beginning of a hello. */
static void httplog_tls_begin(struct httplog_connection *connection, unsigned number)
{
    struct tls_opener *opener = &connection->tls->opener;
    struct httplog_look *look = &connection->tls->look[number];
    struct http_side *side = &connection->side[number];
    bool client = look->window[TLS_RECORD_HEAD] == TLS_CLIENT_HELLO;
    if (opener->side[!number].begun && client != (opener->client == number)) {   /* both sides are clients, or servers */
        look->over = true;
        return;
    }
    opener->client = client ? number : !number;
    opener->side[number].begun = true;
    side->state = HTTP_SEARCHING;
    side->resumed = false;
    side->used = 0;
    side->searched = 0;
    tls_open_bytes(opener, number, look->window, TLS_BEGINNING);
}

/* Bytes of a side as they were sent, in order. */
static void httplog_bytes(struct httplog_connection *connection, unsigned number, const uint8_t *at, uint32_t length)
{
    struct httplog_tls *tls = connection->tls;
    while (length && httplog_looks(connection, number)) {
        struct httplog_look *look = &tls->look[number];
        if (!look->used && *at != TLS_HANDSHAKE) {
            const uint8_t *next = memchr(at, TLS_HANDSHAKE, length);
            uint32_t over = next ? (uint32_t)(next - at) : length;
            look->searched += over;
            httplog_clear(connection, number, at, over);
            at += over;
            length -= over;
        } else {
            look->window[look->used++] = *at++;
            length--;
            if (look->used < TLS_BEGINNING)
                continue;
            const uint8_t *next = memchr(look->window + 1, TLS_HANDSHAKE, TLS_BEGINNING - 1);
            if (tls_begins(look->window))
                httplog_tls_begin(connection, number);
            else
                httplog_look_release(connection, number, (uint8_t)(next ? look->window + TLS_BEGINNING - next : 0));
        }
        look->over |= look->searched >= SLUICE_PARAMETER_OF(connection->box, search);
    }
    if (tls && tls->opener.side[number].begun) {
        tls_open_bytes(&tls->opener, number, at, length);
    } else if (length) {
        if (tls)
            httplog_look_release(connection, number, 0);
        httplog_clear(connection, number, at, length);
    }
}

static void httplog_gap(struct httplog_connection *connection, unsigned number, uint64_t length)
{
    struct httplog_tls *tls = connection->tls;
    if (tls && tls->opener.side[number].begun) {
        tls_open_gap(&tls->opener, number, length);
        return;
    }
    if (tls)
        httplog_look_release(connection, number, 0);
    httplog_clear_gap(connection, number, length);
}

/* The connection has ended. */
static void httplog_tls_end(struct httplog_connection *connection)
{
    for (unsigned i = 0; connection->tls && i < 2; i++)
        if (!connection->tls->opener.side[i].begun)
            httplog_look_release(connection, i, 0);
    if (connection->tls)
        tls_open_end(&connection->tls->opener);
}

/* Bytes after the messages of CONNECT. Those of a proxy within TLS have been opened already, and are not read: the opener, which
 * is processing their record, must not get them as records. */
static void httplog_tunnelled(struct http_side *side, const uint8_t *at, uint32_t length)
{
    struct httplog_connection *connection = httplog_of(side);
    unsigned number = side != connection->side;
    if (connection->tls && !connection->tls->opener.side[number].begun)
        httplog_bytes(connection, number, at, length);
}

/* A tunnel begins, in which TLS may begin. */
static void httplog_tls_tunnel(struct httplog_connection *connection)
{
    for (unsigned i = 0; connection->tls && i < 2; i++)
        connection->tls->look[i] = (struct httplog_look){.over = connection->tls->opener.side[i].begun};
}

#endif
