/* HTTP/3 for rules: the buffers of its messages are those of HTTP/1. Each header block is inspected when it is decoded; a request's
 * body at the end of its stream. Streams are read by http3_stream.h; the user of each is its flow. */
#ifndef IDS_HTTP3_H
#define IDS_HTTP3_H

#include "ids_http.h"

static struct ids_http *ids_3_http(const struct http3_stream *stream) { return stream->connection->user; }

static struct ids_message **ids_3_message(const struct http3_stream *stream) { return &((struct ids_flow *)stream->user)->message; }

static bool ids_3_is_response(const struct http3_stream *stream) { return stream->sender != stream->connection->client; }

/* Inspects the buffers that need the whole message, and frees it. One whose head is not complete is not inspected. */
static void ids_3_finish(const struct http3_stream *stream, bool complete) {
    struct ids_http *http = ids_3_http(stream);
    struct ids_message *message = *ids_3_message(stream);
    *ids_3_message(stream) = NULL;
    SLUICE_COUNTER_OF(http->box, ids_http_incomplete) += !complete || message->message.missing;
    if (message->decided) {
        ids_http_inspect(http, message, stream->sender, ids_3_is_response(stream), true);
        SLUICE_COUNTER_OF(http->box, ids_http_cut) += message->message.cut || message->message.body > SLUICE_PARAMETER_OF(http->box, body);
    }
    ids_message_free(message);
}

/* --- callbacks of http3_stream.h --- */

static bool ids_3_known(struct http3_connection *connection) {
    const struct ids_http *http = connection->user;
    bool rules = SLUICE_WORKER_OF(http->box)->table.http;
    SLUICE_COUNTER_OF(http->box, ids_http_3_not_read) += rules && !connection->qpack->create;
    return rules && connection->qpack->create;
}

static void ids_3_begin(struct http3_stream *stream, uint64_t key, bool promised) {
    struct ids_http *http = ids_3_http(stream);
    struct ids_message **message = ids_3_message(stream);
    (void)key;
    if (promised || *message || stream->headed)   /* a server's promise is no request */
        return;
    *message = ids_take(http->box, sizeof **message);
    if (!*message)
        return;
    (*message)->box = http->box;
    (*message)->side = &((struct ids_flow *)stream->user)->side[stream->sender];
    (*message)->message = (struct http_message){.begun = true, .major = 3, .time = stream->time};
}

static void ids_3_field(struct http3_stream *stream, uint64_t key, bool promised, const struct http2_field *field) {
    struct ids_message *message = *ids_3_message(stream);
    (void)key;
    if (message && !promised && !message->decided)
        ids_field(message, ids_3_is_response(stream), field);
}

static void ids_3_headed(struct http3_stream *stream, uint64_t key, bool promised, bool interim) {
    struct ids_message *message = *ids_3_message(stream);
    (void)key, (void)interim;
    if (!message || promised)
        return;
    message->message.headed = true;
    ids_http_head(ids_3_http(stream), message, stream->sender, ids_3_is_response(stream));
    if (ids_3_is_response(stream))   /* its body is inspected as a stream alone */
        ids_3_finish(stream, true);
}

static void ids_3_data(struct http3_stream *stream, uint64_t length, uint64_t missing) {
    struct ids_message *message = *ids_3_message(stream);
    if (!message)
        return;
    message->message.body += length;
    message->message.missing += missing;
}

static void ids_3_content(struct http3_stream *stream, const uint8_t *at, size_t length) {
    struct ids_message *message = *ids_3_message(stream);
    struct sl_box *box = ids_3_http(stream)->box;
    if (message && !ids_3_is_response(stream))
        ids_text(box, &message->body, (const char *)at, length, SLUICE_PARAMETER_OF(box, body));
}

static void ids_3_complete(struct http3_stream *stream) {
    if (*ids_3_message(stream))
        ids_3_finish(stream, true);
}

/* The stream is not read further: its request is inspected as far as it was read. */
static void ids_3_broken(struct http3_stream *stream, const char *why) {
    SLUICE_COUNTER_OF(ids_3_http(stream)->box, ids_http_3_ended) += !stream->was_reset && strcmp(why, "EOF") != 0;
    if (*ids_3_message(stream))
        ids_3_finish(stream, false);
}

static const struct http3_owner ids_3_owner = {ids_3_known, ids_3_begin, ids_3_field, ids_3_headed,
                                               ids_3_data, ids_3_content, ids_3_complete, ids_3_broken};

/* --- sessions, by http3_quic.h --- */

static bool ids_3_session_begin(struct sl_box *box, struct http3_session *session) {
    session->http.user = ids_http_open(box, NULL, false);   /* for its box, and the packet that is processed */
    return session->http.user != NULL;
}

static void ids_3_no_memory(struct sl_box *box) { SLUICE_COUNTER_OF(box, ids_no_room)++; }

static void ids_3_session_end(struct http3_session *session) {
    struct ids_http *http = session->http.user;
    bool read = session->http.known && !session->http.unread;
    SLUICE_COUNTER_OF(http->box, ids_http_3_ended) += read ? session->http.early_lost + session->http.early_refused : 0;
    ids_http_free(http);
}

static const struct http3_session_owner ids_3_session = {&ids_3_owner, ids_3_session_begin, ids_3_no_memory, NULL, ids_3_session_end};

#endif
