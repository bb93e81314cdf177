/* The row of an exchange of HTTP. */
#ifndef HTTPLOG_ROW_H
#define HTTPLOG_ROW_H

#include "httplog_types.h"

static void httplog_value(struct log_text *row, const struct log_text *text)
{
    if (text->used)
        log_string(row, text->at, text->used);
    else
        log_put(row, "null");
}

static void httplog_text(struct log_text *row, const char *name, const struct log_text *text)
{
    log_name(row, name);
    httplog_value(row, text);
}

static void httplog_header(struct log_text *row, const char *name, const struct http_message *message, enum http_header header)
{
    httplog_text(row, name, &message->header[header]);
}

/* Writes the members that requests and responses have in common; their names begin with `prefix`. */
static void httplog_lengths(struct log_text *row, const struct http_message *message, const char *prefix)
{
    log_name_of(row, prefix, "version");
    if (message->major) {
        log_put(row, "\"");
        log_digits(row, message->major, 1);
        if (message->major < 2) {   /* of later versions, there is no minor one (RFC 9113, 3.1) */
            log_put(row, ".");
            log_digits(row, message->minor, 1);
        }
        log_put(row, "\"");
    } else {
        log_put(row, "null");
    }
    log_name_of(row, prefix, "length");
    if (message->has_length)
        log_digits(row, message->length, 1);
    else
        log_put(row, "null");
    log_name_of(row, prefix, "body");
    log_digits(row, message->body, 1);
    log_name_of(row, prefix, "missing");
    log_digits(row, message->missing, 1);
    log_name_of(row, prefix, "chunked");
    log_put(row, message->chunked ? "true" : "false");
    log_name_of(row, prefix, "complete");
    log_put(row, message->complete ? "true" : "false");
    log_name_of(row, prefix, "error");
    log_word_value(row, message->error);
    log_name_of(row, prefix, "type");
    httplog_value(row, &message->header[HTTP_TYPE]);
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
    if (request->verb.used)
        httplog_text(row, "method", &request->verb);
    else
        log_word(row, "method", request->path.used ? llhttp_method_name((llhttp_method_t)request->method) : NULL);
    httplog_header(row, "host", request, HTTP_HOST);
    httplog_text(row, "path", &request->path);
    httplog_header(row, "user_agent", request, HTTP_AGENT);
    httplog_header(row, "referrer", request, HTTP_REFERRER);
    httplog_lengths(row, request, "request");
    log_name(row, "status");
    if (response->status)
        log_digits(row, response->status, 1);
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
    else if (exchange->tunnel && exchange->stream && request->header[HTTP_UPGRADE].used)   /* RFC 8441 */
        httplog_header(row, "upgrade", request, HTTP_UPGRADE);
    else if (exchange->upgraded)
        log_word(row, "upgrade", "h2c");
    else
        log_word(row, "upgrade", exchange->tunnel ? "tunnel" : NULL);
    log_finish(&http->log);
    SLUICE_COUNTER_OF(box, http_unpaired_responses) += !request->begun;
    SLUICE_COUNTER_OF(box, http_unanswered_requests) += !response->begun;
    SLUICE_COUNTER_OF(box, http_cut_values) += request->cut + response->cut;
}

#endif
