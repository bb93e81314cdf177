/* Writes a row for each exchange of HTTP/1, HTTP/2 and HTTP/3: a request with its response, or the part that was seen. llhttp parses
 * messages of HTTP/1; libnghttp2 decodes header blocks of HTTP/2, and libnghttp3 those of HTTP/3, which are read if the library is
 * there.
 *
 * HTTP is detected by its first bytes, on any port. The n-th request of a connection belongs to its n-th final
 * response. If the beginning of a connection was captured, a response that is delivered before its request waits for
 * the request. Bytes after CONNECT and Upgrade wait for the response, which determines whether they are HTTP. */
#include "sluice.h"

#include "httplog_http3.h"
#include "httplog_tls.h"

/* --- callbacks of the sides --- */

/* Whether the head of the request, on which the format of its response depends, is known, or will not become known. */
static bool httplog_is_asked(const struct httplog_connection *connection, const struct httplog_exchange *exchange)
{
    const struct http_message *request = &exchange->request;
    return request->headed || request->broken || (request->begun && !connection->from_its_beginning);
}

/* The exchange to which the next message of a side of HTTP/1 belongs, NULL if there is none yet. */
static struct httplog_exchange *httplog_next(struct http_side *side)
{
    struct httplog_exchange *exchange = httplog_of(side)->first;
    while (exchange && (exchange->stream || (side->response ? exchange->response.begun : exchange->request.begun)))
        exchange = exchange->next;
    return exchange;
}

static struct http_message *httplog_begin(struct http_side *side)
{
    struct httplog_connection *connection = httplog_of(side);
    struct httplog_exchange *exchange = httplog_next(side);
    if (exchange && side->response && !httplog_is_asked(connection, exchange))
        exchange = NULL;
    if (!exchange && side->response && connection->from_its_beginning && !side->alone)
        return NULL;   /* wait for its request */
    if (exchange && !side->response && !connection->from_its_beginning)
        exchange = NULL;   /* an earlier response, whose request precedes the capture */
    if (!exchange)
        exchange = httplog_exchange_new(connection);
    if (!exchange) {
        http_stop(side, NULL);
        return NULL;
    }
    struct http_message *message = side->response ? &exchange->response : &exchange->request;
    message->begun = true;
    message->time = sl_box_time(connection->box);
    return message;
}

/* The exchange that contains a message. */
static struct httplog_exchange *httplog_exchange_of(struct httplog_connection *connection, const struct http_message *message)
{
    struct httplog_exchange *exchange = connection->first;
    while (&exchange->request != message && &exchange->response != message)
        exchange = exchange->next;
    return exchange;
}

/* The connection continues with HTTP/2. The response to the request that caused this is that of stream 1. */
static void httplog_upgrade(struct httplog_connection *connection, struct httplog_exchange *exchange)
{
    struct httplog_streams *streams = httplog_streams(connection);
    httplog_interim(connection, exchange);
    if (!streams)
        return;
    streams->highest = 1;
    httplog_index_add(connection, exchange, 1);
    streams->upgraded = true;
    for (unsigned i = 0; i < 2; i++)
        if (connection->side[i].known && connection->side[i].response)
            connection->side[i].state = HTTP_FRAMES;
}

/* A connection with HTTP/2 is not read. The first time, reports the reason. */
static void httplog_no_2(struct sl_box *box)
{
    static bool noted;
    SLUICE_COUNTER_OF(box, http_version_2)++;
    SLUICE_COUNTER_OF(box, http_2_not_read)++;
    if (!SLUICE_WORKER_OF(box)->hpack.create && !__atomic_test_and_set(&noted, __ATOMIC_RELAXED))
        fputs("sluice: note: httplog: libnghttp2 (Debian, Ubuntu: apt install libnghttp2-14) cannot be loaded: HTTP/2 is counted, and not read\n",
              stderr);
}

static int httplog_headed(struct http_side *side)
{
    struct httplog_connection *connection = httplog_of(side);
    struct httplog_exchange *exchange = httplog_exchange_of(connection, side->message);
    const struct http_message *request = &exchange->request, *response = &exchange->response;
    if (http_is_h2c(side, response)) {
        exchange->upgraded = true;
        return 2;
    }
    if (!side->response || !request->begun)
        return 0;
    bool connected = request->method == HTTP_CONNECT && request->headed && response->status / 100 == 2;
    if (connected || response->status == 101) {
        exchange->tunnel = true;
        return connected ? 2 : 0;
    }
    /* RFC 9110, 9.3.2: a response to HEAD has no body. */
    return request->headed && request->method == HTTP_HEAD && response->status / 100 != 1;
}

static void httplog_complete(struct http_side *side)
{
    struct httplog_connection *connection = httplog_of(side);
    struct http_message *message = side->message;
    struct httplog_exchange *exchange = httplog_exchange_of(connection, message);
    if (connection->streams)
        connection->streams->changed = true;
    bool no_http = message->broken && !message->headed && strcmp(message->error, "GAP") && strcmp(message->error, "EOF") &&
                   strcmp(message->error, "HEAD_TOO_LONG");
    if (no_http && !strcmp(message->error, "HTTP2")) {
        httplog_no_2(connection->box);
    } else {
        httplog_count(connection, message);
    }
    if (no_http && (message->head == 0 || !strcmp(message->error, "HTTP2"))) {   /* the first line is not HTTP/1 */
        http_message_free(message, httplog_budget(connection->box));
        *message = (struct http_message){.begun = false};
        if (!exchange->request.begun && !exchange->response.begun)
            httplog_remove(connection, exchange);
        return;
    }
    if (side->response && message->complete && exchange->upgraded) {
        httplog_upgrade(connection, exchange);
        return;
    }
    if (side->response && message->complete && message->status / 100 == 1 && message->status != 101) {
        httplog_interim(connection, exchange);
        return;
    }
    if (side->response && exchange->tunnel) {
        SLUICE_COUNTER_OF(connection->box, http_tunnels)++;
        connection->side[0].state = connection->side[1].state = HTTP_TUNNEL;
        if (connection->tls)
            tls_connection_look_again(connection->tls);
        return;
    }
    if (side->response)
        connection->resume = true;
}

static const struct http_owner httplog_owner = {httplog_begin, httplog_headed, httplog_complete, NULL, httplog_frames, httplog_tunnelled};
static const struct http_owner httplog_owner_of_1 = {httplog_begin, httplog_headed, httplog_complete, NULL, NULL, httplog_tunnelled};

/* Resumes sides for which the other side has now sent the awaited message, and writes complete exchanges. */
static void httplog_go_on(struct httplog_connection *connection)
{
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < 2; i++) {
            struct http_side *side = &connection->side[i];
            bool pauses = side->state == HTTP_HOLDING || (side->state == HTTP_READING && !side->message);
            if (connection->streams && connection->streams->upgraded && !side->response && pauses)
                http_release(side, HTTP_FRAMES, httplog_frames);
            if (side->state != HTTP_HOLDING)
                continue;
            bool answered = !side->response && !side->waits_to_begin && connection->resume;
            const struct httplog_exchange *next = side->response && side->waits_to_begin ? httplog_next(side) : NULL;
            if (!answered && !(next && httplog_is_asked(connection, next)))
                continue;
            connection->resume &= !answered;
            http_side_resume(side);
            again = true;
        }
    }
    httplog_write(connection, false);
}

/* --- events --- */

/* Begins a connection. Returns NULL at a bound, or without memory. */
static struct httplog_connection *httplog_connection_begin(struct sl_box *box)
{
    struct httplog *http = SLUICE_WORKER_OF(box);
    bool many = http->open >= SLUICE_PARAMETER_OF(box, connections);
    struct httplog_connection *connection = many ? NULL : calloc(1, sizeof *connection);
    if (!connection) {
        SLUICE_COUNTER_OF(box, http_connections_left_out) += many;
        SLUICE_COUNTER_OF(box, http_no_memory) += !many;
        return NULL;
    }
    http->open++;
    connection->box = box;
    for (unsigned i = 0; i < 2; i++) {
        connection->side[i].user = connection;
        connection->side[i].owner = http->hpack.create ? &httplog_owner : &httplog_owner_of_1;
        connection->side[i].budget = &http->budget;
    }
    return connection;
}

static struct httplog_connection *httplog_connection(const struct sl_event *event)
{
    struct httplog_state *state = SLUICE_STATE_OF(event);
    if (state->connection || state->over)
        return state->connection;
    struct httplog_connection *connection = state->connection = httplog_connection_begin(event->box);
    state->over = !connection;
    if (!connection)
        return NULL;
    connection->flow = log_flow_of(event, state->path);
    httplog_tls_prepare(connection);
    return connection;
}

static void httplog_connection_free(struct httplog_connection *connection)
{
    struct sl_box *box = connection->box;
    while (connection->first)
        httplog_remove(connection, connection->first);
    for (unsigned i = 0; i < 2; i++)
        http_held_free(&connection->side[i]);
    httplog_streams_free(connection);
    tls_connection_free(connection->tls);
    free(connection);
    SLUICE_WORKER_OF(box)->open--;
}

static void httplog_free(struct httplog_state *state)
{
    if (state->connection)
        httplog_connection_free(state->connection);
    state->connection = NULL;
}

static bool httplog_has_stopped(const struct httplog_connection *connection, unsigned number)
{
    enum http_state state = connection->side[number].state;
    return state == HTTP_STOPPED || (state == HTTP_TUNNEL && !httplog_looks(connection, number));
}

/* Resumes sides. If both have stopped, writes the remaining rows and returns true: nothing more of the connection is read. */
static bool httplog_settled(struct httplog_connection *connection)
{
    if (connection->given_up)
        for (unsigned i = 0; i < 2; i++)
            http_stop(&connection->side[i], NULL);
    httplog_go_on(connection);
    for (unsigned i = 0; i < 2; i++)
        if (connection->side[i].state == HTTP_TUNNEL && connection->side[i].held_used)
            http_release(&connection->side[i], HTTP_TUNNEL, httplog_tunnelled);
    if (!httplog_has_stopped(connection, 0) || !httplog_has_stopped(connection, 1))
        return false;
    httplog_write(connection, true);
    return true;
}

static void httplog_settle(const struct sl_event *event, struct httplog_connection *connection)
{
    if (!httplog_settled(connection))
        return;
    httplog_free(SLUICE_STATE_OF(event));
    SLUICE_STATE_OF(event)->over = true;
}

/* The connection has ended: writes the remaining rows. */
static void httplog_end(struct httplog_connection *connection)
{
    if (connection->tls)
        tls_connection_end(connection->tls);
    connection->from_its_beginning = false;
    for (unsigned i = 0; i < 2; i++) {
        struct http_side *side = &connection->side[i];
        side->alone = true;
        if (side->state == HTTP_HOLDING && side->waits_to_begin)
            http_side_resume(side);
        http_side_end(side);
        if (side->state == HTTP_FRAMES)
            httplog_side_end(connection, i, "EOF");
    }
    httplog_write(connection, true);
}

SLUICE_ON(tcp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(tcp, data) {
    struct httplog_connection *connection = event->instance ? httplog_connection(event) : NULL;
    if (!connection)
        return;
    if (!connection->side[0].known && !connection->side[1].known) {
        uint64_t begun = sl_field_value(event->instance, sl_layer_field(event->owner, "syn"));
        connection->from_its_beginning = begun & 1;
    }
    httplog_bytes(connection, event->side & 1, data->bytes.at, data->bytes.captured);
    httplog_settle(event, connection);
}

SLUICE_ON(tcp, gap) {
    struct httplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || state->over)
        return;
    struct httplog_connection *connection = httplog_connection(event);
    if (!connection)
        return;
    httplog_gap(connection, event->side & 1, data->length);
    httplog_settle(event, connection);
}

SLUICE_ON(tcp, end) {
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        httplog_end(SLUICE_STATE_OF(event)->connection);
}

#include "httplog_quic.h"
#include "httplog_sctp.h"
#include "httplog_stored.h"

SLUICE_DESTROY {
    (void)box;
    http3_stream_free(&state->quic);
    http3_session_end(&state->quic);
    httplog_sctp_free(box, state);
    httplog_free(state);
}

SLUICE_OPEN {
    struct tls_secrets *secrets = &SLUICE_WORKER_OF(box)->secrets;
    httplog_budget(box)->most = SLUICE_PARAMETER_OF(box, memory);
    if (tls_secrets_open(secrets, box, SLUICE_PARAMETER_OF(box, keylog), httplog_budget(box)))
        return -1;
    http2_library_open(&SLUICE_WORKER_OF(box)->hpack, httplog_budget(box));
    http3_library_open(&SLUICE_WORKER_OF(box)->qpack, httplog_budget(box));
    if (log_open(&SLUICE_WORKER_OF(box)->log, box, "http", SLUICE_PARAMETER_OF(box, out))) {
        tls_secrets_close(secrets, box);
        return -1;
    }
    return 0;
}

SLUICE_CLOSE {
    tls_secrets_close(&SLUICE_WORKER_OF(box)->secrets, box);
    log_close(&SLUICE_WORKER_OF(box)->log, box, "httplog rows", "httplog rows lost for want of memory",
              "httplog flows without layers");
}
