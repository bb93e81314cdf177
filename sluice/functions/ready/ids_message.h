/* The buffers of an HTTP message for rules, normalised: inspected when the head is complete; rules about the body when the
 * message is. */
#ifndef IDS_MESSAGE_H
#define IDS_MESSAGE_H

#include "ids_whole.h"

enum { IDS_METHODS = 32 };    /* requests of a connection without response so far; more count as GET */

struct ids_message {
    struct http_message message;   /* the first member: the parser uses this one */
    struct log_text line, raw_header, header, cookie, body, uri;
    size_t name;              /* bytes of the name in `line` */
    char status[8];
    bool decided;             /* the head was inspected */
    struct sl_box *box;
    uint32_t stream;          /* of HTTP/2 */
    struct ids_message *next; /* of the requests of HTTP/2 that have not ended */
    struct ids_side *side;    /* of HTTP/3: of its stream */
};

struct ids_http2;

struct ids_http {
    struct http_side side[2];
    struct ids_message *open[2];
    struct sl_box *box;
    struct ids_flow *flow;    /* NULL: a message of SCTP, for itself, or a connection of QUIC */
    const struct ids_seen *seen;   /* the packet that is processed */
    uint8_t method[IDS_METHODS];
    uint32_t first, asked;    /* of the requests without response so far */
    bool from_its_beginning;
    bool answered;            /* a final response was parsed, for which the requests may wait */
    struct ids_http2 *two;    /* NULL until HTTP/2 begins */
    bool upgraded;            /* to HTTP/2, after messages of HTTP/1 */
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

/* The bytes of the scheme http or https at the beginning of a target, with "://" (schemes have no case: RFC 3986, 3.1); 0: there
 * is none. */
static size_t ids_scheme(const uint8_t *at, size_t length) {
    static const char https[] = "https";
    size_t name = 0;
    while (name < sizeof https - 1 && name < length && ids_small(at[name]) == (uint8_t)https[name])
        name++;
    return name >= 4 && length >= name + 3 && memcmp(at + name, "://", 3) == 0 ? name + 3 : 0;
}

/* Normalises a request target in place: without scheme and authority (RFC 9112, 3.2.2), with escapes decoded once (RFC 3986,
 * 2.1), and its path as above. Returns the new length. */
static size_t ids_normalise(uint8_t *at, size_t length) {
    size_t from = ids_scheme(at, length), to = 0, path = SIZE_MAX;
    if (from)
        while (from < length && at[from] != '/' && at[from] != '?')
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
        ids_set_view(&views[IDS_METHOD], http->verb.used ? http->verb.at : method, http->verb.used ? http->verb.used : strlen(method));
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
    seen.side = number;       /* a response that waited for its request is read after that request */
    struct ids_side *side = message->side ? message->side : http->flow ? ids_side_of(http->flow, number) : NULL;
    seen.frames = seen.frames && side ? &side->frames : NULL;
    struct ids_view views[IDS_BUFFERS] = {{0}};
    ids_http_views(message, response, views);
    ids_scan_begin(message->box);
    for (unsigned buffer = 1; buffer <= IDS_USER_AGENT; buffer++)
        ids_scan_group(message->box, IDS_HTTP + buffer, &views[buffer]);
    ids_scan_group(message->box, IDS_HTTP_ALWAYS, &views[IDS_PAYLOAD]);
    ids_found_evaluate(message->box, side, &seen, views, response ? 2 : 1, body);
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

#endif
