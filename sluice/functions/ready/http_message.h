/* The stored properties of a message of HTTP: its version, lengths, and some headers, in texts of bounded size. */
#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include "log_text.h"

enum {
    HTTP_PATH_MOST = 8192, HTTP_VALUE_MOST = 2048,   /* maximum stored bytes of a path, and of a header's value */
    HTTP_TEXT_LEAST = 64,                            /* bytes that are allocated for a text first */
    HTTP_HEAD_MOST = 1 << 18,     /* maximum bytes of a head; beyond it, parsing of the side stops */
    HTTP_INFORMATIONAL = 4,       /* maximum number of interim responses in a row */
};

enum http_header {
    HTTP_HOST, HTTP_AGENT, HTTP_REFERRER, HTTP_TYPE, HTTP_ENCODING, HTTP_LOCATION, HTTP_SERVER, HTTP_UPGRADE, HTTP_HEADERS
};

static const char *const http_header_names[] = {"host", "user-agent", "referer", "content-type", "content-encoding",
                                                "location", "server", "upgrade"};

struct http_message {
    bool begun, headed, complete, broken, chunked, has_length;
    uint8_t major, minor, method;
    uint16_t status;
    uint64_t time, length, body, missing, head;   /* `missing`: bytes of the body in gaps */
    uint64_t stored;              /* bytes of the budget that are allocated for the texts */
    struct log_text verb;         /* the method where `method` has not its name: of HTTP/2, or one of its own */
    struct log_text path, reason, header[HTTP_HEADERS];
    bool cut;                     /* a text was truncated */
    const char *error;            /* the reason if parsing ended within the message */
};

static inline void http_message_free(struct http_message *message, struct log_budget *budget) {
    log_give(budget, message->stored);
    free(message->path.at);
    free(message->reason.at);
    free(message->verb.at);
    for (unsigned i = 0; i < HTTP_HEADERS; i++)
        free(message->header[i].at);
}

/* Appends to a text of the message, within the text's bound and the budget. */
static inline void http_message_append(struct http_message *message, struct log_budget *budget, struct log_text *text, const char *at,
                                       size_t length, size_t most) {
    size_t take = (size_t)sl_min(length, most - text->used);
    if (take > text->room - text->used) {   /* allocated bytes count, not used ones */
        size_t room = text->room ? 2 * text->room : HTTP_TEXT_LEAST;
        while (room < text->used + take)
            room *= 2;
        bool taken = log_take(budget, room - text->room);
        char *larger = taken ? realloc(text->at, room) : NULL;
        if (larger) {
            message->stored += room - text->room;
            text->at = larger;
            text->room = room;
        } else {
            if (taken)
                log_give(budget, room - text->room);
            take = text->room - text->used;
        }
    }
    message->cut |= take < length;
    log_bytes(text, at, take);
}

#endif
