/* HTTP for rules: read by httplog's parser. */
#ifndef IDS_HTTP_H
#define IDS_HTTP_H

#include "ids_http2.h"

/* --- messages of the sides --- */

static struct ids_http *ids_http_of(const struct http_side *side) { return side->user; }

static unsigned ids_http_side(const struct http_side *side) { return side == &ids_http_of(side)->side[1]; }

static struct http_message *ids_http_begin(struct http_side *side) {
    struct ids_http *http = ids_http_of(side);
    unsigned number = ids_http_side(side);
    if (side->response && !http->asked && http->from_its_beginning && !side->alone)
        return NULL;   /* its request is not parsed yet */
    struct ids_message *message = ids_take(http->box, sizeof *message);
    if (!message) {
        http_stop(side, NULL);
        return NULL;
    }
    message->box = http->box;
    http->open[number] = message;
    message->message.begun = true;
    message->message.time = http->seen->time;
    return &message->message;
}

static void ids_http_piece(struct http_side *side, enum http_piece piece, const char *at, size_t length) {
    struct ids_http *http = ids_http_of(side);
    struct ids_message *message = http->open[ids_http_side(side)];
    struct sl_box *box = http->box;
    if (piece == HTTP_BODY_BYTES) {
        if (!side->response)
            ids_text(box, &message->body, at, length, SLUICE_PARAMETER_OF(box, body));
        return;
    }
    if (message->message.headed)   /* of a trailer */
        return;
    if (piece != HTTP_VALUE_END) {
        if (piece == HTTP_VALUE_BYTES && !message->name) {
            message->name = message->line.used;
            ids_text(box, &message->line, ": ", 2, HTTP_HEAD_MOST);
        }
        ids_text(box, &message->line, at, length, HTTP_HEAD_MOST);
        return;
    }
    if (!message->name) {   /* there was no value */
        message->name = message->line.used;
        ids_text(box, &message->line, ": ", 2, HTTP_HEAD_MOST);
    }
    ids_text(box, &message->line, "\r\n", 2, HTTP_HEAD_MOST);
    const struct log_text *line = &message->line;
    ids_text(box, &message->raw_header, line->at, line->used, HTTP_HEAD_MOST);
    const char *name = side->response ? "set-cookie" : "cookie";
    bool cookie = message->name == strlen(name);
    for (size_t i = 0; cookie && i < message->name; i++)
        cookie = ids_small((uint8_t)line->at[i]) == (uint8_t)name[i];
    if (!cookie) {
        ids_text(box, &message->header, line->at, line->used, HTTP_HEAD_MOST);
    } else if (line->used >= message->name + 4) {
        if (message->cookie.used)
            ids_text(box, &message->cookie, "\n", 1, HTTP_HEAD_MOST);
        ids_text(box, &message->cookie, line->at + message->name + 2, line->used - message->name - 4, HTTP_HEAD_MOST);
    }
    log_give(&SLUICE_WORKER_OF(box)->budget, line->used);
    message->line.used = message->name = 0;
}

static int ids_http_headed(struct http_side *side) {
    struct ids_http *http = ids_http_of(side);
    unsigned number = ids_http_side(side);
    struct ids_message *message = http->open[number];
    ids_http_head(http, message, number, side->response);
    if (!side->response) {
        if (http->asked < IDS_METHODS)
            http->method[(http->first + http->asked++) % IDS_METHODS] = message->message.method;
        return 0;
    }
    if (http_is_h2c(side, &message->message))
        return 2;
    uint8_t asked = http->asked ? http->method[http->first] : HTTP_GET;
    /* RFC 9110, 9.3.2: a response to HEAD has no body; bytes after a granted CONNECT (9.3.6) are no HTTP. */
    return asked == HTTP_CONNECT && message->message.status / 100 == 2 ? 2 : asked == HTTP_HEAD && message->message.status / 100 != 1;
}

/* The next bytes are another protocol, such as TLS. */
static void ids_http_tunnel(struct ids_http *http) {
    http->side[0].state = http->side[1].state = HTTP_TUNNEL;
    if (http->flow && http->flow->opened)
        tls_connection_look_again(http->flow->opened->tls);
}

/* Bytes after the messages with which a tunnel begins. Those of a proxy within TLS have been opened already, and are not HTTP. */
static void ids_http_tunnelled(struct http_side *side, const uint8_t *at, uint32_t length) {
    struct ids_http *http = ids_http_of(side);
    unsigned number = ids_http_side(side);
    if (http->flow && http->flow->opened && !tls_connection_has_begun(http->flow->opened->tls, number))
        tls_connection_bytes(http->flow->opened->tls, number, at, length, http->seen->time);
}

static void ids_http_complete(struct http_side *side) {
    struct ids_http *http = ids_http_of(side);
    unsigned number = ids_http_side(side);
    struct ids_message *message = http->open[number];
    const struct http_message *said = &message->message;
    bool no_http = said->broken && !said->headed && !said->head && !side->resumed;
    if (!no_http) {   /* a message that was refused is inspected as far as it was read */
        ids_http_head(http, message, number, side->response);
        ids_http_inspect(http, message, number, side->response, true);
        SLUICE_COUNTER_OF(http->box, ids_http_incomplete) += said->broken;
        SLUICE_COUNTER_OF(http->box, ids_http_cut) += said->cut || said->body > SLUICE_PARAMETER_OF(http->box, body);
    }
    if (side->response && said->headed && (said->status / 100 != 1 || said->status == 101)) {
        bool tunnel = said->status == 101 ||
                      (http->asked && http->method[http->first] == HTTP_CONNECT && said->status / 100 == 2);
        if (http->asked) {
            http->first = (http->first + 1) % IDS_METHODS;
            http->asked--;
        }
        http->answered = true;
        http->upgraded |= http_is_h2c(side, said) && ids_2_open(http);
        if (http->upgraded)
            side->state = HTTP_FRAMES;
        else if (tunnel)
            ids_http_tunnel(http);
    }
    ids_message_free(message);
    http->open[number] = NULL;
}

static const struct http_owner ids_http_owner = {ids_http_begin, ids_http_headed, ids_http_complete, ids_http_piece, ids_http_frames,
                                                 ids_http_tunnelled};
static const struct http_owner ids_http_owner_of_1 = {ids_http_begin, ids_http_headed, ids_http_complete, ids_http_piece, NULL,
                                                      ids_http_tunnelled};

/* --- the connection --- */

/* Resumes sides that wait for a message of the other one. */
static void ids_http_go_on(struct ids_http *http) {
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < 2; i++) {
            struct http_side *side = &http->side[i];
            bool pauses = side->state == HTTP_HOLDING || (side->state == HTTP_READING && !side->message);
            if (http->upgraded && !side->response && pauses)
                http_release(side, HTTP_FRAMES, ids_http_frames);
            if (side->state != HTTP_HOLDING)
                continue;
            bool answered = !side->response && !side->waits_to_begin && http->answered;
            if (!answered && !(side->response && side->waits_to_begin && http->asked))
                continue;
            http->answered &= !answered;
            http_side_resume(side);
            again = true;
        }
    }
    for (unsigned i = 0; i < 2; i++)
        if (http->side[i].state == HTTP_TUNNEL && http->side[i].held_used)
            http_release(&http->side[i], HTTP_TUNNEL, ids_http_tunnelled);
}

static struct ids_http *ids_http_open(struct sl_box *box, struct ids_flow *flow, bool from_its_beginning) {
    struct ids_http *http = ids_take(box, sizeof *http);
    if (!http)
        return NULL;
    http->box = box;
    http->flow = flow;
    http->from_its_beginning = from_its_beginning;
    for (unsigned i = 0; i < 2; i++)
        http->side[i] = (struct http_side){
            .user = http,
            .owner = SLUICE_WORKER_OF(box)->hpack.create ? &ids_http_owner : &ids_http_owner_of_1,
            .budget = &SLUICE_WORKER_OF(box)->budget};
    return http;
}

static void ids_http_bytes(struct ids_http *http, const struct ids_seen *seen, const uint8_t *at, uint32_t length) {
    http->seen = seen;
    http_sides_bytes(http->side, seen->side, at, length, SLUICE_PARAMETER_OF(http->box, search));
    ids_http_go_on(http);
}

static void ids_http_gap(struct ids_http *http, const struct ids_seen *seen, uint64_t length) {
    struct http_side *side = &http->side[seen->side];
    http->seen = seen;
    if (http->two && side->state == HTTP_FRAMES) {
        ids_2_gap(http, seen->side, length);
        return;
    }
    if (!(side->known && side->response) && !(side->state == HTTP_READING && (side->in_body || side->to_the_end)))
        http->from_its_beginning = false;   /* requests may be missing */
    http_side_gap(side, length);
    ids_http_go_on(http);
}

static void ids_http_end(struct ids_http *http, const struct ids_seen *seen) {
    struct http_side *side = &http->side[seen->side];
    http->seen = seen;
    http->from_its_beginning = false;
    side->alone = true;
    if (side->state == HTTP_HOLDING && side->waits_to_begin)
        http_side_resume(side);
    http_side_end(side);
    if (http->two && side->state == HTTP_FRAMES)
        ids_2_side_end(http, seen->side);
}

/* The rest of a side is not read. */
static void ids_http_side_stop(struct ids_http *http, const struct ids_seen *seen) {
    struct http_side *side = &http->side[seen->side];
    http->seen = seen;
    if (!(side->known && side->response))
        http->from_its_beginning = false;
    if (http->two && side->state == HTTP_FRAMES)
        ids_2_side_end(http, seen->side);
    else if (side->state == HTTP_READING)
        http_break(side, "TLS");
    http_stop(side, "TLS");
    ids_http_go_on(http);
}

static void ids_http_free(struct ids_http *http) {
    ids_2_free(http);
    for (unsigned i = 0; i < 2; i++) {
        if (http->open[i])
            ids_message_free(http->open[i]);
        http_held_free(&http->side[i]);
    }
    ids_give(http->box, http, sizeof *http);
}

#endif
