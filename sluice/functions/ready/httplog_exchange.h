/* The exchanges of a connection whose rows are not written yet: a list, of HTTP/1 in the order of the requests. */
#ifndef HTTPLOG_EXCHANGE_H
#define HTTPLOG_EXCHANGE_H

#include "httplog_row.h"

static struct log_budget *httplog_budget(const struct sl_box *box) { return &SLUICE_WORKER_OF(box)->budget; }

static struct httplog_connection *httplog_of(struct http_side *side) { return side->user; }

static void httplog_exchange_free(const struct sl_box *box, struct httplog_exchange *exchange)
{
    http_message_free(&exchange->request, httplog_budget(box));
    http_message_free(&exchange->response, httplog_budget(box));
    log_give(httplog_budget(box), sizeof *exchange);
    free(exchange);
}

/* Returns a new exchange at the end of the list; NULL at a bound, or without memory. */
static struct httplog_exchange *httplog_exchange_make(struct httplog_connection *connection)
{
    struct log_budget *budget = httplog_budget(connection->box);
    if (connection->count >= SLUICE_PARAMETER_OF(connection->box, pipelined) || !log_take(budget, sizeof(struct httplog_exchange)))
        return NULL;
    struct httplog_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) {
        log_give(budget, sizeof *exchange);
        SLUICE_COUNTER_OF(connection->box, http_no_memory)++;
        return NULL;
    }
    exchange->before = connection->last;
    *(connection->last ? &connection->last->next : &connection->first) = exchange;
    connection->last = exchange;
    connection->count++;
    return exchange;
}

/* Returns a new exchange of HTTP/1. Without one, the pairs of requests and responses are no longer known. */
static struct httplog_exchange *httplog_exchange_new(struct httplog_connection *connection)
{
    struct httplog_exchange *exchange = httplog_exchange_make(connection);
    connection->given_up |= !exchange;
    SLUICE_COUNTER_OF(connection->box, http_too_many) += !exchange;
    return exchange;
}

/* --- the index of streams --- */

/* A client chooses numbers, but not the address, on which the list of a number depends. */
static struct httplog_exchange **httplog_index_of(struct httplog_streams *streams, uint64_t stream)
{
    uint64_t hash = stream * ((uintptr_t)streams >> 4 | 1) * UINT64_C(0x9e3779b97f4a7c15);
    return &streams->index[hash >> 32 & (HTTPLOG_INDEX - 1)];
}

static void httplog_index_add(struct httplog_connection *connection, struct httplog_exchange *exchange, uint64_t stream)
{
    struct httplog_exchange **list = httplog_index_of(connection->streams, stream);
    exchange->stream = stream;
    exchange->next_stream = *list;
    *list = exchange;
}

static void httplog_index_remove(struct httplog_streams *streams, const struct httplog_exchange *exchange)
{
    struct httplog_exchange **at = httplog_index_of(streams, exchange->stream);
    while (*at != exchange)
        at = &(*at)->next_stream;
    *at = exchange->next_stream;
}

/* Removes and frees an exchange. */
static void httplog_remove(struct httplog_connection *connection, struct httplog_exchange *exchange)
{
    *(exchange->before ? &exchange->before->next : &connection->first) = exchange->next;
    *(exchange->next ? &exchange->next->before : &connection->last) = exchange->before;
    if (exchange->stream)
        httplog_index_remove(connection->streams, exchange);
    connection->count--;
    for (unsigned i = 0; connection->streams && i < 2; i++)
        if (connection->streams->current[i] == exchange)
            connection->streams->current[i] = NULL;
    httplog_exchange_free(connection->box, exchange);
}

static bool httplog_is_over(const struct http_message *message) { return message->complete || message->broken; }

/* Whether llhttp reads a message of an exchange, so that it cannot be ended or freed. */
static bool httplog_is_read(const struct httplog_connection *connection, const struct httplog_exchange *exchange)
{
    for (unsigned i = 0; i < 2; i++)
        if (connection->side[i].message == &exchange->request || connection->side[i].message == &exchange->response)
            return true;
    return false;
}

/* Whether a side sends no messages that can be read. */
static bool httplog_is_silent(const struct httplog_connection *connection, bool response)
{
    for (unsigned i = 0; i < 2; i++)
        if (connection->side[i].known && connection->side[i].response == response)
            return connection->side[i].state == HTTP_STOPPED || (connection->side[i].state == HTTP_SEARCHING && connection->side[i].resumed);
    return false;
}

/* Writes the complete exchanges of HTTP/2 and HTTP/3; if `all`, every exchange. */
static void httplog_write_streams(struct httplog_connection *connection, bool all)
{
    bool no_request = !connection->from_its_beginning || httplog_is_silent(connection, false);
    bool no_response = httplog_is_silent(connection, true);
    if (!all && !connection->streams->changed)
        return;
    connection->streams->changed = false;
    for (struct httplog_exchange *exchange = connection->first, *next; exchange; exchange = next) {
        const struct http_message *request = &exchange->request, *response = &exchange->response;
        next = exchange->next;
        if (!all && httplog_is_read(connection, exchange))
            continue;
        if (!all && !(httplog_is_over(request) || (!request->begun && no_request)))
            continue;
        if (!all && !(httplog_is_over(response) || (!response->begun && no_response)))
            continue;
        const struct log_text *method = &request->verb;
        exchange->tunnel |= response->status / 100 == 2 && method->used == 7 && !memcmp(method->at, "CONNECT", 7);
        SLUICE_COUNTER_OF(connection->box, http_tunnels) += exchange->tunnel;
        if (request->begun || response->begun)
            httplog_row(connection, exchange);
        httplog_remove(connection, exchange);
    }
}

/* Writes the complete exchanges at the front of the list; if `all`, every exchange. */
static void httplog_write(struct httplog_connection *connection, bool all)
{
    if (connection->streams) {
        httplog_write_streams(connection, all);
        return;
    }
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

#endif
