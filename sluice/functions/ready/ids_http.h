/* The buffers of HTTP messages for rules: read by httplog's parser, normalised, and inspected when the head is complete;
 * rules about the body when the message is. */
#ifndef IDS_HTTP_H
#define IDS_HTTP_H

#include "ids_whole.h"

enum { IDS_METHODS = 32 };    /* requests of a connection whose responses are to come; more count as GET */

struct ids_message {
    struct http_message message;   /* the first member: the parser knows this one */
    struct log_text line, raw_header, header, cookie, body, uri;
    size_t name;              /* bytes of the name in `line` */
    char status[8];
    bool decided;             /* the head was inspected */
    struct sl_box *box;
};

struct ids_http {
    struct http_side side[2];
    struct ids_message *open[2];
    struct sl_box *box;
    struct ids_flow *flow;
    const struct ids_seen *seen;   /* the packet that is processed */
    uint8_t method[IDS_METHODS];
    uint32_t first, asked;    /* of the requests whose responses are to come */
    bool from_its_beginning;
    bool answered;            /* a final response has come, for which the requests may wait */
};

static inline void ids_text(struct sl_box *box, struct log_text *text, const char *at, size_t length, uint64_t most) {
    length = (size_t)sl_min(length, most - sl_min(text->used, most));
    if (!length)
        return;
    struct log_budget *budget = &SLUICE_WORKER_OF(box)->budget;
    size_t used = text->used;
    bool taken = log_take(budget, length);
    if (taken)
        log_bytes(text, at, length);
    if (text->used == used) {   /* beyond the budget, the bound of a text, or without memory */
        SLUICE_COUNTER_OF(box, ids_no_room)++;
        log_give(budget, taken ? length : 0);
    }
}

static inline void ids_text_free(struct sl_box *box, struct log_text *text) {
    log_give(&SLUICE_WORKER_OF(box)->budget, text->used);
    free(text->at);
    *text = (struct log_text){0};
}

static void ids_message_free(struct ids_message *message) {
    struct sl_box *box = message->box;
    struct log_text *texts[] = {&message->line, &message->raw_header, &message->header,
                                &message->cookie, &message->body, &message->uri};
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        ids_text_free(box, texts[i]);
    http_message_free(&message->message, &SLUICE_WORKER_OF(box)->budget);
    ids_give(box, message, sizeof *message);
}

static inline int ids_digit(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : ids_small(c) >= 'a' && ids_small(c) <= 'f' ? ids_small(c) - 'a' + 10 : -1;
}

/* Removes dot segments (RFC 3986, 5.2.4) and repeated slashes of a path in place; a backslash is a slash. Returns the new
 * length. */
static size_t ids_path(uint8_t *at, size_t length) {
    size_t to = 0;
    for (size_t from = 0; from < length; from++) {
        uint8_t c = at[from] == '\\' ? '/' : at[from];
        if (c == '/' && to && at[to - 1] == '/')
            continue;
        at[to++] = c;
        bool ends = from + 1 == length || at[from + 1] == '/' || at[from + 1] == '\\';
        if (ends && to >= 2 && at[to - 1] == '.' && at[to - 2] == '/')
            to--;
        else if (ends && to >= 3 && at[to - 1] == '.' && at[to - 2] == '.' && at[to - 3] == '/')
            for (to -= to > 3 ? 3 : 2; to > 1 && at[to - 1] != '/';)
                to--;
    }
    return to;
}

/* Normalises a request target in place: without scheme and authority (RFC 9112, 3.2.2), with escapes decoded once (RFC 3986,
 * 2.1), and its path as above. Returns the new length. */
static size_t ids_normalise(uint8_t *at, size_t length) {
    size_t from = 0, to = 0, path = SIZE_MAX;
    if (length >= 8 && (memcmp(at, "http://", 7) == 0 || memcmp(at, "https://", 8) == 0))
        for (from = 7 + (at[4] == 's'); from < length && at[from] != '/' && at[from] != '?';)
            from++;
    for (; from < length; from++) {
        uint8_t c = at[from];
        if (c == '?' && path == SIZE_MAX)
            path = to;
        int high = c == '%' && from + 2 < length ? ids_digit(at[from + 1]) : -1;
        int low = high >= 0 ? ids_digit(at[from + 2]) : -1;
        if (low >= 0) {
            c = (uint8_t)(high << 4 | low);
            from += 2;
        }
        at[to++] = c;
    }
    path = sl_min(path, to);
    size_t shorter = ids_path(at, path);
    memmove(at + shorter, at + path, to - path);
    return shorter + to - path;
}

/* The buffers of a message. Those that it does not have stay empty, with `at` NULL. */
static void ids_http_views(struct ids_message *message, bool response, struct ids_view *views) {
    const struct http_message *http = &message->message;
    if (response) {
        snprintf(message->status, sizeof message->status, "%03u", http->status % 1000);
        ids_set_view(&views[IDS_STAT_CODE], message->status, 3);
        ids_set_view(&views[IDS_STAT_MSG], http->reason.at, http->reason.used);
    } else {
        const char *method = llhttp_method_name((llhttp_method_t)http->method);
        ids_set_view(&views[IDS_METHOD], method, strlen(method));
        ids_set_view(&views[IDS_URI], message->uri.at, message->uri.used);
        ids_set_view(&views[IDS_RAW_URI], http->path.at, http->path.used);
        if (http->header[HTTP_HOST].used)
            ids_set_view(&views[IDS_HOST], http->header[HTTP_HOST].at, http->header[HTTP_HOST].used);
        if (http->header[HTTP_AGENT].used)
            ids_set_view(&views[IDS_USER_AGENT], http->header[HTTP_AGENT].at, http->header[HTTP_AGENT].used);
        ids_set_view(&views[IDS_CLIENT_BODY], message->body.at, message->body.used);
    }
    ids_set_view(&views[IDS_HEADER], message->header.at, message->header.used);
    ids_set_view(&views[IDS_RAW_HEADER], message->raw_header.at, message->raw_header.used);
    if (message->cookie.used)
        ids_set_view(&views[IDS_COOKIE], message->cookie.at, message->cookie.used);
}

/* Inspects a message: its head, or, `body`, the rules that need its body. */
static void ids_http_inspect(struct ids_http *http, struct ids_message *message, unsigned number, bool response, bool body) {
    struct ids_seen seen = *http->seen;
    seen.message = &message->message;
    seen.side = number;       /* a response that waited for its request is read when that comes */
    seen.frames = seen.frames ? &http->flow->side[number].frames : NULL;
    struct ids_view views[IDS_BUFFERS] = {{0}};
    ids_http_views(message, response, views);
    ids_scan_begin(message->box);
    for (unsigned buffer = 1; buffer <= IDS_USER_AGENT; buffer++)
        ids_scan_group(message->box, IDS_HTTP + buffer, &views[buffer]);
    ids_scan_group(message->box, IDS_HTTP_ALWAYS, &views[IDS_PAYLOAD]);
    ids_found_evaluate(message->box, &http->flow->side[number], &seen, views, response ? 2 : 1, body);
}

/* --- what sides say --- */

static struct ids_http *ids_http_of(const struct http_side *side) { return side->user; }

static unsigned ids_http_side(const struct http_side *side) { return side == &ids_http_of(side)->side[1]; }

static struct http_message *ids_http_begin(struct http_side *side) {
    struct ids_http *http = ids_http_of(side);
    unsigned number = ids_http_side(side);
    if (side->response && !http->asked && http->from_its_beginning && !side->alone)
        return NULL;   /* its request is still to come */
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

/* The head is complete, or as much as there will be of it. */
static void ids_http_head(struct ids_http *http, struct ids_message *message, unsigned number, bool response) {
    if (message->decided)
        return;
    message->decided = true;
    if (!response) {
        ids_text(http->box, &message->uri, message->message.path.at, message->message.path.used, HTTP_PATH_MOST);
        size_t used = message->uri.used ? ids_normalise((uint8_t *)message->uri.at, message->uri.used) : 0;
        log_give(&SLUICE_WORKER_OF(http->box)->budget, message->uri.used - used);
        message->uri.used = used;
    }
    SLUICE_COUNTER_OF(http->box, ids_http_messages)++;
    ids_http_inspect(http, message, number, response, false);
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
    uint8_t asked = http->asked ? http->method[http->first] : HTTP_GET;
    /* RFC 9110, 9.3.2: a response to HEAD has no body; what follows a granted CONNECT (9.3.6) is no HTTP. */
    return asked == HTTP_CONNECT && message->message.status / 100 == 2 ? 2 : asked == HTTP_HEAD && message->message.status / 100 != 1;
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
        if (tunnel)
            http->side[0].state = http->side[1].state = HTTP_TUNNEL;
    }
    ids_message_free(message);
    http->open[number] = NULL;
}

static const struct http_owner ids_http_owner = {ids_http_begin, ids_http_headed, ids_http_complete, ids_http_piece};

/* --- the connection --- */

/* Lets sides go on that wait for what the other one has said. */
static void ids_http_go_on(struct ids_http *http) {
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < 2; i++) {
            struct http_side *side = &http->side[i];
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
            .user = http, .owner = &ids_http_owner, .budget = &SLUICE_WORKER_OF(box)->budget};
    return http;
}

static void ids_http_bytes(struct ids_http *http, const struct ids_seen *seen, const uint8_t *at, uint32_t length) {
    struct http_side *side = &http->side[seen->side], *other = &http->side[seen->side ^ 1];
    bool was_known = side->known;
    http->seen = seen;
    http_side_bytes(side, at, length, SLUICE_PARAMETER_OF(http->box, search));
    if (side->known && !was_known) {   /* the other side has the other role */
        other->response = other->known ? other->response : !side->response;
        other->known = true;
    }
    ids_http_go_on(http);
}

static void ids_http_gap(struct ids_http *http, const struct ids_seen *seen, uint64_t length) {
    struct http_side *side = &http->side[seen->side];
    http->seen = seen;
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
}

static void ids_http_free(struct ids_http *http) {
    for (unsigned i = 0; i < 2; i++) {
        if (http->open[i])
            ids_message_free(http->open[i]);
        http_held_free(&http->side[i]);
    }
    ids_give(http->box, http, sizeof *http);
}

#endif
