/* Writes a row for each exchange of HTTP/1: a request with its response, or the part that was seen. llhttp parses
 * messages.
 *
 * HTTP is detected by its first bytes, on any port. The n-th request of a connection belongs to its n-th final
 * response. If the beginning of a connection was captured, a response that is delivered before its request waits for
 * the request. Bytes after CONNECT and Upgrade wait for the response, which determines whether they are HTTP. */
#include "sluice.h"

#include "http_side.h"
#include "log_row.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(search, number, 4096, "bytes of each side of a connection in which a first message may begin")
SLUICE_PARAMETER(pipelined, number, 256, "exchanges of one connection that are not complete, at most")
SLUICE_PARAMETER(connections, number, 65536, "connections that are read at once, at most")
SLUICE_PARAMETER(memory, number, 268435456, "bytes that all of them store together, at most")

SLUICE_COUNTER(http_gaps, "messages that bytes are missing of, other than of their bodies")
SLUICE_COUNTER(http_refused, "messages that are no HTTP by llhttp, as those with contradicting lengths")
SLUICE_COUNTER(http_long_heads, "messages whose head is beyond the bound of 256 KiB")
SLUICE_COUNTER(http_cut_values, "messages of which a path or a header is longer than what is stored")
SLUICE_COUNTER(http_incomplete, "messages that their connection ended within")
SLUICE_COUNTER(http_unpaired_responses, "responses whose request was not seen")
SLUICE_COUNTER(http_unanswered_requests, "requests whose response was not seen")
SLUICE_COUNTER(http_too_many, "connections that are not read further, as too many exchanges are open")
SLUICE_COUNTER(http_version_2, "connections with HTTP/2, which is not read")
SLUICE_COUNTER(http_tunnels, "connections that went on with another protocol after CONNECT or Upgrade")
SLUICE_COUNTER(http_connections_left_out, "connections that are not read, as too many were open")
SLUICE_COUNTER(http_no_memory, "connections that are not read further for want of memory")

struct httplog_exchange {
    struct httplog_exchange *next;
    struct http_message request, response;
    uint16_t interim[HTTP_INFORMATIONAL];
    uint8_t interim_count;
    bool tunnel;
};

struct httplog_connection {
    struct log_flow flow;
    struct sl_box *box;
    struct http_side side[2];
    struct httplog_exchange *first, *last;
    uint32_t count;
    bool from_its_beginning;   /* the request side was seen from its SYN on, without a gap */
    bool resume;               /* the response for which the requests wait has been received */
    bool given_up;
};

struct httplog_state {
    struct httplog_connection *connection;
    uint32_t path;
    bool over;
};
SLUICE_STATE(struct httplog_state)

struct httplog {
    struct log_output log;
    struct log_budget budget;
    uint64_t open;
};
SLUICE_WORKER(struct httplog)

/* --- rows --- */

static void httplog_text(struct log_text *row, const char *name, const struct log_text *text)
{
    log_name(row, name);
    if (text->used)
        log_string(row, text->at, text->used);
    else
        log_put(row, "null");
}

static void httplog_header(struct log_text *row, const char *name, const struct http_message *message, enum http_header header)
{
    httplog_text(row, name, &message->header[header]);
}

/* Writes the members that requests and responses have in common; their names begin with `prefix`. */
static void httplog_lengths(struct log_text *row, const struct http_message *message, const char *prefix)
{
    char name[32];
    snprintf(name, sizeof name, "%s_version", prefix);
    log_name(row, name);
    if (message->major)
        log_format(row, "\"%u.%u\"", message->major, message->minor);
    else
        log_put(row, "null");
    snprintf(name, sizeof name, "%s_length", prefix);
    log_name(row, name);
    if (message->has_length)
        log_format(row, "%llu", (unsigned long long)message->length);
    else
        log_put(row, "null");
    snprintf(name, sizeof name, "%s_body", prefix);
    log_number(row, name, message->body);
    snprintf(name, sizeof name, "%s_missing", prefix);
    log_number(row, name, message->missing);
    snprintf(name, sizeof name, "%s_chunked", prefix);
    log_flag(row, name, message->chunked);
    snprintf(name, sizeof name, "%s_complete", prefix);
    log_flag(row, name, message->complete);
    snprintf(name, sizeof name, "%s_error", prefix);
    log_word(row, name, message->error);
    snprintf(name, sizeof name, "%s_type", prefix);
    httplog_header(row, name, message, HTTP_TYPE);
}

static void httplog_row(struct httplog_connection *connection, const struct httplog_exchange *exchange)
{
    struct sl_box *box = connection->box;
    struct httplog *http = SLUICE_WORKER_OF(box);
    const struct http_message *request = &exchange->request, *response = &exchange->response;
    unsigned client = connection->side[0].known ? connection->side[0].response : !connection->side[1].response;
    struct log_text *row =
        log_begin(&http->log, box, &connection->flow, client, request->begun ? request->time : response->time);
    log_flag(row, "request", request->begun);
    log_flag(row, "response", response->begun);
    log_word(row, "method", request->path.used ? llhttp_method_name((llhttp_method_t)request->method) : NULL);
    httplog_header(row, "host", request, HTTP_HOST);
    httplog_text(row, "path", &request->path);
    httplog_header(row, "user_agent", request, HTTP_AGENT);
    httplog_header(row, "referrer", request, HTTP_REFERRER);
    httplog_lengths(row, request, "request");
    log_name(row, "status");
    if (response->status)
        log_format(row, "%u", response->status);
    else
        log_put(row, "null");
    httplog_text(row, "reason", &response->reason);
    httplog_lengths(row, response, "response");
    httplog_header(row, "response_encoding", response, HTTP_ENCODING);
    httplog_header(row, "location", response, HTTP_LOCATION);
    httplog_header(row, "server", response, HTTP_SERVER);
    if (request->begun && response->begun)
        log_seconds(row, "delay", response->time > request->time ? response->time - request->time : 0);
    else
        log_word(row, "delay", NULL);
    log_put(row, ",\"interim\":[");
    for (unsigned i = 0; i < exchange->interim_count; i++)
        log_format(row, "%s%u", i ? "," : "", exchange->interim[i]);
    log_put(row, "]");
    if (exchange->tunnel && response->status == 101)
        httplog_header(row, "upgrade", response, HTTP_UPGRADE);
    else
        log_word(row, "upgrade", exchange->tunnel ? "tunnel" : NULL);
    log_finish(&http->log);
    SLUICE_COUNTER_OF(box, http_unpaired_responses) += !request->begun;
    SLUICE_COUNTER_OF(box, http_unanswered_requests) += !response->begun;
    SLUICE_COUNTER_OF(box, http_cut_values) += request->cut + response->cut;
}

/* --- exchanges --- */

static struct log_budget *httplog_budget(const struct sl_box *box) { return &SLUICE_WORKER_OF(box)->budget; }

static void httplog_exchange_free(const struct sl_box *box, struct httplog_exchange *exchange)
{
    http_message_free(&exchange->request, httplog_budget(box));
    http_message_free(&exchange->response, httplog_budget(box));
    log_give(httplog_budget(box), sizeof *exchange);
    free(exchange);
}

static struct httplog_exchange *httplog_exchange_new(struct httplog_connection *connection)
{
    bool many = connection->count >= SLUICE_PARAMETER_OF(connection->box, pipelined) ||
                !log_take(httplog_budget(connection->box), sizeof(struct httplog_exchange));
    struct httplog_exchange *exchange = many ? NULL : calloc(1, sizeof *exchange);
    if (!exchange) {
        if (!many)
            log_give(httplog_budget(connection->box), sizeof *exchange);
        SLUICE_COUNTER_OF(connection->box, http_too_many) += many;
        SLUICE_COUNTER_OF(connection->box, http_no_memory) += !many;
        connection->given_up = true;
        return NULL;
    }
    *(connection->last ? &connection->last->next : &connection->first) = exchange;
    connection->last = exchange;
    connection->count++;
    return exchange;
}

/* Removes and frees an exchange. */
static void httplog_remove(struct httplog_connection *connection, struct httplog_exchange *exchange)
{
    struct httplog_exchange *before = NULL, *at = connection->first;
    while (at != exchange) {
        before = at;
        at = at->next;
    }
    *(before ? &before->next : &connection->first) = exchange->next;
    if (connection->last == exchange)
        connection->last = before;
    connection->count--;
    httplog_exchange_free(connection->box, exchange);
}

static bool httplog_is_over(const struct http_message *message) { return message->complete || message->broken; }

/* Writes the complete exchanges at the front of the list; if `all`, every exchange. */
static void httplog_write(struct httplog_connection *connection, bool all)
{
    for (struct httplog_exchange *exchange; (exchange = connection->first);) {
        bool request = httplog_is_over(&exchange->request), response = httplog_is_over(&exchange->response);
        bool unpaired = !exchange->request.begun && response && !connection->from_its_beginning;
        if (!all && !((request || unpaired) && response))
            return;
        if (exchange->request.begun || exchange->response.begun) {
            SLUICE_COUNTER_OF(connection->box, http_incomplete) +=
                (exchange->request.begun && !request) + (exchange->response.begun && !response);
            httplog_row(connection, exchange);
        }
        httplog_remove(connection, exchange);
    }
}

static struct httplog_connection *httplog_of(struct http_side *side) { return side->user; }

/* --- callbacks of the sides --- */

/* Whether the head of the request, on which the format of its response depends, is known, or will not become known. */
static bool httplog_is_asked(const struct httplog_connection *connection, const struct httplog_exchange *exchange)
{
    const struct http_message *request = &exchange->request;
    return request->headed || request->broken || (request->begun && !connection->from_its_beginning);
}

static struct http_message *httplog_begin(struct http_side *side)
{
    struct httplog_connection *connection = httplog_of(side);
    struct httplog_exchange *exchange = connection->first;
    while (exchange && (side->response ? exchange->response.begun : exchange->request.begun))
        exchange = exchange->next;
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

static int httplog_headed(struct http_side *side)
{
    struct httplog_connection *connection = httplog_of(side);
    struct httplog_exchange *exchange = httplog_exchange_of(connection, side->message);
    const struct http_message *request = &exchange->request, *response = &exchange->response;
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

/* Records an interim response (RFC 9110, 15.2), which the final one follows. */
static void httplog_interim(const struct httplog_connection *connection, struct httplog_exchange *exchange)
{
    struct http_message *response = &exchange->response;
    if (exchange->interim_count < HTTP_INFORMATIONAL)
        exchange->interim[exchange->interim_count++] = response->status;
    http_message_free(response, httplog_budget(connection->box));
    *response = (struct http_message){.begun = false};
}

/* Counts the reason why a message was not read to its end. */
static void httplog_count(struct httplog_connection *connection, const struct http_message *message)
{
    struct sl_box *box = connection->box;
    const char *why = message->error;
    if (!why)
        return;
    bool gap = !strcmp(why, "GAP"), head = !strcmp(why, "HEAD_TOO_LONG"), end = !strcmp(why, "EOF");
    SLUICE_COUNTER_OF(box, http_gaps) += gap;
    SLUICE_COUNTER_OF(box, http_long_heads) += head;
    SLUICE_COUNTER_OF(box, http_incomplete) += end;
    SLUICE_COUNTER_OF(box, http_refused) += !gap && !head && !end;
}

static void httplog_complete(struct http_side *side)
{
    struct httplog_connection *connection = httplog_of(side);
    struct http_message *message = side->message;
    struct httplog_exchange *exchange = httplog_exchange_of(connection, message);
    bool no_http = message->broken && !message->headed && strcmp(message->error, "GAP") && strcmp(message->error, "EOF") &&
                   strcmp(message->error, "HEAD_TOO_LONG");
    if (no_http && !strcmp(message->error, "HTTP2")) {
        SLUICE_COUNTER_OF(connection->box, http_version_2)++;
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
    if (side->response && message->complete && message->status / 100 == 1 && message->status != 101) {
        httplog_interim(connection, exchange);
        return;
    }
    if (side->response && exchange->tunnel) {
        SLUICE_COUNTER_OF(connection->box, http_tunnels)++;
        connection->side[0].state = connection->side[1].state = HTTP_TUNNEL;
        return;
    }
    if (side->response)
        connection->resume = true;
}

static const struct http_owner httplog_owner = {httplog_begin, httplog_headed, httplog_complete, NULL};

/* Resumes sides for which the other side has now sent the awaited message, and writes complete exchanges. */
static void httplog_go_on(struct httplog_connection *connection)
{
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < 2; i++) {
            struct http_side *side = &connection->side[i];
            if (side->state != HTTP_HOLDING)
                continue;
            bool answered = !side->response && !side->waits_to_begin && connection->resume;
            bool asked = false;
            for (struct httplog_exchange *at = connection->first; side->response && side->waits_to_begin && at; at = at->next)
                asked |= !at->response.begun && httplog_is_asked(connection, at);
            if (!answered && !asked)
                continue;
            connection->resume &= !answered;
            http_side_resume(side);
            again = true;
        }
    }
    httplog_write(connection, false);
}

/* --- events --- */

static struct httplog_connection *httplog_connection(const struct sl_event *event)
{
    struct httplog_state *state = SLUICE_STATE_OF(event);
    struct httplog *http = SLUICE_WORKER_OF(event->box);
    if (state->connection || state->over)
        return state->connection;
    bool many = http->open >= SLUICE_PARAMETER_OF(event->box, connections);
    struct httplog_connection *connection = many ? NULL : calloc(1, sizeof *connection);
    if (!connection) {
        SLUICE_COUNTER_OF(event->box, http_connections_left_out) += many;
        SLUICE_COUNTER_OF(event->box, http_no_memory) += !many;
        state->over = true;
        return NULL;
    }
    http->open++;
    state->connection = connection;
    connection->flow = log_flow_of(event, state->path);
    connection->box = event->box;
    for (unsigned i = 0; i < 2; i++) {
        connection->side[i].user = connection;
        connection->side[i].owner = &httplog_owner;
        connection->side[i].budget = &http->budget;
    }
    return connection;
}

static void httplog_free(struct sl_box *box, struct httplog_state *state)
{
    struct httplog_connection *connection = state->connection;
    if (!connection)
        return;
    while (connection->first)
        httplog_remove(connection, connection->first);
    for (unsigned i = 0; i < 2; i++)
        http_held_free(&connection->side[i]);
    free(connection);
    state->connection = NULL;
    SLUICE_WORKER_OF(box)->open--;
}

static bool httplog_has_stopped(const struct http_side *side)
{
    return side->state == HTTP_STOPPED || side->state == HTTP_TUNNEL;
}

/* Resumes sides. If both have stopped, writes the remaining rows and ends the parsing of the connection. */
static void httplog_settle(const struct sl_event *event, struct httplog_connection *connection)
{
    if (connection->given_up)
        for (unsigned i = 0; i < 2; i++)
            http_stop(&connection->side[i], NULL);
    httplog_go_on(connection);
    if (!httplog_has_stopped(&connection->side[0]) || !httplog_has_stopped(&connection->side[1]))
        return;
    httplog_write(connection, true);
    httplog_free(event->box, SLUICE_STATE_OF(event));
    SLUICE_STATE_OF(event)->over = true;
}

SLUICE_ON(tcp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(tcp, data) {
    struct httplog_connection *connection = event->instance ? httplog_connection(event) : NULL;
    if (!connection)
        return;
    struct http_side *side = &connection->side[event->side & 1];
    bool was_known = side->known;
    if (!connection->side[0].known && !connection->side[1].known) {
        uint64_t begun = sl_field_value(event->instance, sl_layer_field(event->owner, "syn"));
        connection->from_its_beginning = begun & 1;
    }
    http_side_bytes(side, data->bytes.at, data->bytes.captured, SLUICE_PARAMETER_OF(event->box, search));
    if (side->known && !was_known) {   /* the other side has the other role */
        struct http_side *other = &connection->side[(event->side & 1) ^ 1];
        other->response = other->known ? other->response : !side->response;
        other->known = true;
    }
    httplog_settle(event, connection);
}

SLUICE_ON(tcp, gap) {
    struct httplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || state->over)
        return;
    struct httplog_connection *connection = httplog_connection(event);
    if (!connection)
        return;
    struct http_side *side = &connection->side[event->side & 1];
    bool in_body = side->state == HTTP_READING && (side->in_body || side->to_the_end);
    if (!in_body && !(side->known && side->response))
        connection->from_its_beginning = false;   /* requests may be missing */
    http_side_gap(side, data->length);
    httplog_settle(event, connection);
}

SLUICE_ON(tcp, end) {
    struct httplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || !state->connection)
        return;
    struct httplog_connection *connection = state->connection;
    connection->from_its_beginning = false;
    for (unsigned i = 0; i < 2; i++) {
        struct http_side *side = &connection->side[i];
        side->alone = true;
        if (side->state == HTTP_HOLDING && side->waits_to_begin)
            http_side_resume(side);
        http_side_end(side);
    }
    httplog_write(connection, true);
}

SLUICE_DESTROY { httplog_free(box, state); }

SLUICE_OPEN {
    httplog_budget(box)->most = SLUICE_PARAMETER_OF(box, memory);
    return log_open(&SLUICE_WORKER_OF(box)->log, box, "http", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "httplog rows", "httplog rows lost for want of memory",
              "httplog flows without layers");
}
