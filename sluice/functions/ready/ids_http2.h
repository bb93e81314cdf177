/* HTTP/2 for rules: the buffers of its messages are those of HTTP/1. Each header block is inspected when it is complete; a
 * request's body with the last of its frames, or when the stream is reset. Frames are read by http2_side.h. */
#ifndef IDS_HTTP2_H
#define IDS_HTTP2_H

#include "ids_fields.h"
#include "http2_side.h"

enum { IDS_STREAMS = 256 /* requests of a connection whose bodies are read at once; of more, only the heads are inspected */ };

struct ids_http2 {
    struct http2_side side[2];
    struct ids_message *current[2];   /* of the block or body that each side sends; NULL: it is not read */
    struct ids_message *first;        /* requests that have not ended */
    uint32_t count;
    uint32_t highest;                 /* stream that the client has begun */
};

static unsigned ids_2_number(const struct http2_side *side) { return side == &((struct ids_http *)side->user)->two->side[1]; }

static struct ids_message *ids_2_current(const struct http2_side *side) {
    return ((struct ids_http *)side->user)->two->current[ids_2_number(side)];
}

static struct ids_message **ids_2_find(struct ids_http2 *two, uint32_t stream) {
    struct ids_message **at = &two->first;
    while (*at && (*at)->stream != stream)
        at = &(*at)->next;
    return at;
}

/* Inspects the buffers that need the whole message, and frees it. */
static void ids_2_finish(struct ids_http *http, struct ids_message *message, unsigned number, bool response) {
    struct ids_http2 *two = http->two;
    struct ids_message **place = ids_2_find(two, message->stream);
    if (*place == message) {
        *place = message->next;
        two->count--;
    }
    for (unsigned i = 0; i < 2; i++)
        two->current[i] = two->current[i] == message ? NULL : two->current[i];
    ids_http_inspect(http, message, number, response, true);
    SLUICE_COUNTER_OF(http->box, ids_http_incomplete) += !message->message.complete;
    SLUICE_COUNTER_OF(http->box, ids_http_cut) += message->message.cut || message->message.body > SLUICE_PARAMETER_OF(http->box, body);
    ids_message_free(message);
}

/* --- callbacks of the sides --- */

static void ids_2_headers(struct http2_side *side, uint32_t stream, bool promised) {
    struct ids_http *http = side->user;
    struct ids_http2 *two = http->two;
    struct ids_message **current = &two->current[ids_2_number(side)];
    bool later = !side->response && stream <= two->highest;
    *current = NULL;
    if (promised || later)   /* a server's promise is no request; trailers, also of a request that is not read further */
        return;
    two->highest = side->response ? two->highest : stream;
    *current = ids_take(http->box, sizeof **current);
    if (!*current)
        return;
    (*current)->box = http->box;
    (*current)->stream = stream;
    (*current)->message = (struct http_message){.begun = true, .major = 2, .time = http->seen->time};
}

static void ids_2_field(struct http2_side *side, const struct http2_field *field) {
    struct ids_message *message = ids_2_current(side);
    if (message && !message->decided)
        ids_field(message, side->response, field);
}

/* A header block is complete. One of a response without a status is that of its trailers. */
static void ids_2_headed(struct http2_side *side) {
    struct ids_http *http = side->user;
    struct ids_http2 *two = http->two;
    unsigned number = ids_2_number(side);
    struct ids_message *message = two->current[number];
    if (!message || message->decided)
        return;
    message->message.headed = true;
    if (side->response && !message->message.status) {
        two->current[number] = NULL;
        ids_message_free(message);
        return;
    }
    ids_http_head(http, message, number, side->response);
    bool many = two->count >= IDS_STREAMS;
    SLUICE_COUNTER_OF(http->box, ids_http_streams_left_out) += many && !side->response && !side->ends;
    if (side->response || many) {
        message->message.complete = side->response || side->ends;
        ids_2_finish(http, message, number, side->response);
        return;
    }
    message->next = two->first;
    two->first = message;
    two->count++;
}

static void ids_2_body(struct http2_side *side, uint32_t stream) {
    struct ids_http2 *two = ((struct ids_http *)side->user)->two;
    two->current[ids_2_number(side)] = side->response ? NULL : *ids_2_find(two, stream);
}

static void ids_2_data(struct http2_side *side, uint64_t length, uint64_t missing) {
    struct ids_message *message = ids_2_current(side);
    if (message) {
        message->message.body += length;
        message->message.missing += missing;
    }
}

static void ids_2_content(struct http2_side *side, const uint8_t *at, size_t length) {
    struct sl_box *box = ((struct ids_http *)side->user)->box;
    struct ids_message *message = ids_2_current(side);
    if (message)
        ids_text(box, &message->body, (const char *)at, length, SLUICE_PARAMETER_OF(box, body));
}

static void ids_2_complete(struct http2_side *side) {
    struct ids_http *http = side->user;
    struct ids_message *message = *ids_2_find(http->two, side->type == HTTP2_DATA ? side->stream : side->block_stream);
    if (!message || side->response)
        return;
    message->message.complete = !message->message.missing;
    ids_2_finish(http, message, ids_2_number(side), false);
}

/* An end gives a stream up: its request is inspected as far as it was read. */
static void ids_2_reset(struct http2_side *side, uint32_t stream, uint32_t code) {
    (void)code;
    struct ids_http *http = side->user;
    struct ids_message *message = *ids_2_find(http->two, stream);
    if (message)
        ids_2_finish(http, message, ids_2_number(side) ^ side->response, false);
}

static const struct http2_owner ids_2_owner = {ids_2_headers, ids_2_field, ids_2_headed, ids_2_body,
                                               ids_2_data, ids_2_complete, ids_2_reset, ids_2_content};

/* --- the connection --- */

/* No more of a side is read. */
static void ids_2_side_end(struct ids_http *http, unsigned number) {
    struct ids_http2 *two = http->two;
    struct ids_message *current = two->current[number];
    bool response = two->side[number].response;
    two->current[number] = NULL;
    if (current && !current->decided)   /* its header block has not ended */
        ids_message_free(current);
    while (!response && two->first)
        ids_2_finish(http, two->first, number, false);
    http2_side_free(&two->side[number]);
}

/* Begins HTTP/2. Returns false without memory. */
static bool ids_2_open(struct ids_http *http) {
    if (!http->two)
        http->two = ids_take(http->box, sizeof *http->two);
    return http->two;
}

/* Bytes of a side, from its first frame, or preface, on. */
static void ids_http_frames(struct http_side *from, const uint8_t *at, uint32_t length) {
    struct ids_http *http = from->user;
    unsigned number = from == &http->side[1];
    if (!ids_2_open(http)) {
        http_stop(from, NULL);
        return;
    }
    struct http2_side *side = &http->two->side[number];
    if (!side->owner) {
        *side = (struct http2_side){.owner = &ids_2_owner, .hpack = &SLUICE_WORKER_OF(http->box)->hpack, .user = http};
        if (!http2_begin(side, from->response))
            http2_end(side, "NO_MEMORY");
    }
    http2_bytes(side, at, length);
    if (!side->error)
        return;
    SLUICE_COUNTER_OF(http->box, ids_http_2_ended)++;
    ids_2_side_end(http, number);
    http_stop(from, side->error);
}

/* Bytes of a side that sends frames are missing. */
static void ids_2_gap(struct ids_http *http, unsigned number, uint64_t length) {
    struct http2_side *side = &http->two->side[number];
    if (side->owner)
        http2_gap(side, length);
    else
        side->error = "GAP";
    if (!side->error)
        return;
    SLUICE_COUNTER_OF(http->box, ids_http_2_ended)++;
    ids_2_side_end(http, number);
    http_stop(&http->side[number], side->error);
}

static void ids_2_free(struct ids_http *http) {
    struct ids_http2 *two = http->two;
    if (!two)
        return;
    for (unsigned i = 0; i < 2; i++) {
        if (two->current[i] && !two->current[i]->decided)
            ids_message_free(two->current[i]);
        http2_side_free(&two->side[i]);
    }
    for (struct ids_message *next; two->first; two->first = next) {
        next = two->first->next;
        ids_message_free(two->first);
    }
    ids_give(http->box, two, sizeof *two);
    http->two = NULL;
}

#endif
