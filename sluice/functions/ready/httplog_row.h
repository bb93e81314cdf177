/* The row of an exchange of HTTP. */
#ifndef HTTPLOG_ROW_H
#define HTTPLOG_ROW_H

#include "httplog_types.h"

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
    if (message->major >= 2)   /* which has no minor version (RFC 9113, 3.1) */
        log_format(row, "\"%u\"", message->major);
    else if (message->major)
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
