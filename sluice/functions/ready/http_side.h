/* One side of an HTTP/1 connection: finds the beginnings of messages, and parses them with llhttp, independently of how
 * the stream is divided into pieces.
 *
 * The beginning of a request or a response is searched for at the first byte, after bytes of another protocol (for
 * example a proxy's), and after a gap outside a body. The parts of a message are collected in texts of bounded size. */
#ifndef HTTP_SIDE_H
#define HTTP_SIDE_H

#include "http_beginning.h"
#include "http_message.h"

#include "../vendor/llhttp/llhttp.h"

#include <strings.h>

SLUICE_SOURCE("../vendor/llhttp/llhttp.c")
SLUICE_SOURCE("../vendor/llhttp/api.c")
SLUICE_SOURCE("../vendor/llhttp/http.c")

enum {
    HTTP_NAME_MOST = 24,          /* exceeds the names of all stored headers */
    HTTP_HELD_MOST = 1 << 16,     /* maximum bytes held while waiting for the other side */
};

/* HTTP_FRAMES: the bytes are HTTP/2, and go to the owner. */
enum http_state { HTTP_SEARCHING, HTTP_READING, HTTP_HOLDING, HTTP_FRAMES, HTTP_TUNNEL, HTTP_STOPPED };
/* Of a request line that llhttp does not read (http_request_line.h): held until its end, while searching; its method, and its
 * target, while reading; and the one that llhttp gets in its place. */
enum http_line { HTTP_NO_LINE, HTTP_HELD_LINE, HTTP_VERB, HTTP_TARGET, HTTP_REPLACED };

struct http_side;

/* Bytes of a message, as they are received: of a header's name and value, of a body; and the end of a header. */
enum http_piece { HTTP_NAME_BYTES, HTTP_VALUE_BYTES, HTTP_VALUE_END, HTTP_BODY_BYTES };

/* The callbacks of a side's owner. */
struct http_owner {
    /* Returns the message that begins; NULL if the side must wait until http_side_resume, or has stopped. */
    struct http_message *(*begin)(struct http_side *side);
    /* The head is complete. Returns the result for llhttp's on_headers_complete. */
    int (*headed)(struct http_side *side);
    void (*complete)(struct http_side *side);
    /* NULL: what http_message stores is enough. */
    void (*piece)(struct http_side *side, enum http_piece piece, const char *at, size_t length);
    /* Bytes of HTTP/2, from the first one on. NULL: it is not read. */
    void (*frames)(struct http_side *side, const uint8_t *at, uint32_t length);
    /* Bytes after a message with which the owner has begun a tunnel. NULL: they are not read. */
    void (*tunnel)(struct http_side *side, const uint8_t *at, uint32_t length);
};

struct http_side {
    enum http_state state;
    enum http_line line;
    bool known, response;         /* the side's role is known; it sends responses (else requests) */
    bool resumed;                 /* the beginning was found after a gap, or after other bytes */
    bool in_body, to_the_end;     /* in a body or chunk of known length; in a body that ends with the stream */
    bool waits_to_begin;          /* holding because a message could not begin */
    bool alone;                   /* messages begin without waiting for the other side */
    const char *why;              /* the reason for stopping */
    llhttp_t parser;
    struct http_message *message;
    void *user;
    const struct http_owner *owner;
    struct log_budget *budget;    /* for texts and held bytes */
    uint8_t window[HTTP_BEGINNING], used;   /* while reading, the bytes of a method that llhttp has got */
    uint64_t searched;
    uint8_t *held;                /* bytes after the position at which it waits */
    uint32_t held_used, held_room;
    char name[HTTP_NAME_MOST];    /* of the current header */
    uint32_t name_length;
    int header;                   /* enum http_header; -1: not stored */
};

/* Discards held bytes. */
static inline void http_held_free(struct http_side *side) {
    log_give(side->budget, side->held_room);
    free(side->held);
    side->held = NULL;
    side->held_used = side->held_room = 0;
}

static inline void http_stop(struct http_side *side, const char *why) {
    side->state = HTTP_STOPPED;
    side->line = HTTP_NO_LINE;
    side->why = why;
    http_held_free(side);
}

/* Appends to a text of the current message, within its bound and the budget. */
static inline void http_append(struct http_side *side, struct log_text *text, const char *at, size_t length, size_t most) {
    http_message_append(side->message, side->budget, text, at, length, most);
}

#include "http_callbacks.h"

/* --- finding the beginning of a message --- */

static inline void http_parser_open(struct http_side *side) {
    llhttp_init(&side->parser, side->response ? HTTP_RESPONSE : HTTP_REQUEST, &http_settings);
    side->parser.data = side;
    /* Accept messages after one with `Connection: close`, lines that end in LF alone (RFC 9112, 2.2), and any bytes in
     * values. Contradictory lengths remain errors, because it is unknown which one the receiver uses. */
    llhttp_set_lenient_keep_alive(&side->parser, 1);
    llhttp_set_lenient_optional_cr_before_lf(&side->parser, 1);
    llhttp_set_lenient_headers(&side->parser, 1);
}

static inline void http_side_parser(struct http_side *side) {
    http_parser_open(side);
    side->message = NULL;
    side->in_body = side->to_the_end = false;
    side->name_length = 0;
    side->header = -1;
    side->line = HTTP_NO_LINE;
    side->state = HTTP_READING;
}

/* Whether HTTP/2 begins here: a client with its preface, a server with SETTINGS (RFC 9113, 3.4). */
static inline bool http_is_2(const struct http_side *side) {
    const uint8_t *at = side->window;
    if (!side->owner->frames)
        return false;
    if (memcmp(at, "PRI * HTTP/2.0\r\n", HTTP_BEGINNING) == 0)
        return !(side->known && side->response);
    return !side->resumed && !(side->known && !side->response) && !at[0] && !at[1] && at[2] % 6 == 0 && at[3] == 4 &&
           !sl_load_be(at + 4, 5);
}

/* Whether a response switches to HTTP/2 in the clear (RFC 7540, 3.2), which is read. */
static inline bool http_is_h2c(const struct http_side *side, const struct http_message *response) {
    const struct log_text *upgrade = &response->header[HTTP_UPGRADE];
    return side->response && side->owner->frames && response->status == 101 && upgrade->used == 3 && !strncasecmp(upgrade->at, "h2c", 3);
}

/* Whether a message may begin with the bytes in the window, as far as they are there. */
static inline bool http_may_begin(const struct http_side *side) {
    const uint8_t *at = side->window;
    return (*at >= 'A' && *at <= 'Z') || (side->owner->frames && !*at && (side->used < 4 || at[3] == 4));
}

/* --- reading --- */

/* Stores bytes until the side can continue. Returns false at a bound; then the side continues without waiting. */
static inline bool http_hold(struct http_side *side, const uint8_t *at, uint32_t length) {
    if (length > HTTP_HELD_MOST - side->held_used)
        return false;
    if (side->held_used + length > side->held_room) {
        uint32_t room = (uint32_t)sl_min(HTTP_HELD_MOST, 2 * (uint64_t)(side->held_used + length));
        if (!log_take(side->budget, room - side->held_room))
            return false;
        uint8_t *larger = realloc(side->held, room);
        if (!larger) {
            log_give(side->budget, room - side->held_room);
            return false;
        }
        side->held = larger;
        side->held_room = room;
    }
    if (length)
        memcpy(side->held + side->held_used, at, length);
    side->held_used += length;
    return true;
}

/* Ends the current message prematurely. */
static inline void http_break(struct http_side *side, const char *error) {
    struct http_message *message = side->message;
    side->message = NULL;
    side->in_body = side->to_the_end = false;
    if (!message)
        return;
    if (!message->headed) {   /* the head is incomplete: use the parsed part */
        message->major = side->parser.http_major;
        message->minor = side->parser.http_minor;
    }
    message->broken = true;
    message->error = error;
    side->message = message;
    side->owner->complete(side);
    side->message = NULL;
}

static inline void http_search(struct http_side *side) {
    if (side->line == HTTP_HELD_LINE)
        http_held_free(side);
    side->line = HTTP_NO_LINE;
    side->state = HTTP_SEARCHING;
    side->resumed = true;
    side->used = 0;
    side->searched = 0;
}

/* A stream of its own begins with the next byte, as within TLS: its first message is searched for. */
static inline void http_side_begin(struct http_side *side) {
    http_search(side);
    side->resumed = false;
}

/* Continues without what the side waits for. Returns false if the following bytes are another protocol, or if the side
 * has stopped. */
static inline bool http_wait_no_more(struct http_side *side) {
    if (!side->waits_to_begin) {
        side->state = HTTP_TUNNEL;
        return false;
    }
    side->alone = true;
    side->message = side->owner->begin(side);
    if (!side->message)
        return false;   /* the side has stopped */
    side->waits_to_begin = false;
    llhttp_resume(&side->parser);
    side->state = HTTP_READING;
    return true;
}

/* Handles an error of llhttp. */
static inline void http_refused(struct http_side *side, llhttp_errno_t error) {
    const char *why = error == HPE_PAUSED_H2_UPGRADE ? "HTTP2" : error == HPE_USER ? "HEAD_TOO_LONG" : llhttp_errno_name(error);
    why += strncmp(why, "HPE_", 4) ? 0 : 4;
    http_break(side, why);
    if (side->resumed && error != HPE_PAUSED_H2_UPGRADE)   /* the detected beginning may have been false */
        http_search(side);
    else
        http_stop(side, why);
}

#include "http_request_line.h"

/* Passes bytes to llhttp. If it pauses because the side must wait, the remaining bytes are held. */
static inline void http_read(struct http_side *side, const uint8_t *at, uint32_t length) {
    for (;;) {
        if (side->line != HTTP_NO_LINE && !http_line_read(side, &at, &length))
            return;
        const char *begin = (const char *)at;
        llhttp_errno_t error = llhttp_execute(&side->parser, begin, length);
        if (error == HPE_OK || side->state == HTTP_STOPPED || (side->state == HTTP_TUNNEL && !side->owner->tunnel))
            return;
        if (side->state != HTTP_TUNNEL && error != HPE_PAUSED && error != HPE_PAUSED_UPGRADE && side->state != HTTP_FRAMES) {
            if (http_line_begins(side, error, &at, &length))
                continue;
            http_refused(side, error);
            return;
        }
        const char *place = llhttp_get_error_pos(&side->parser);
        uint32_t done = place && place >= begin && place <= begin + length ? (uint32_t)(place - begin) : length;
        at += done;
        length -= done;
        if (side->state == HTTP_FRAMES || side->state == HTTP_TUNNEL) {
            (side->state == HTTP_FRAMES ? side->owner->frames : side->owner->tunnel)(side, at, length);
            return;
        }
        side->state = HTTP_HOLDING;
        if (http_hold(side, at, length) || !http_wait_no_more(side))
            return;
    }
}

/* Passes the held bytes to `read`, in a state. */
static inline void http_release(struct http_side *side, enum http_state state,
                                void (*read)(struct http_side *side, const uint8_t *at, uint32_t length)) {
    uint8_t *held = side->held;
    uint32_t length = side->held_used;
    log_give(side->budget, side->held_room);
    side->held = NULL;
    side->held_used = side->held_room = 0;
    side->state = state;
    if (length)
        read(side, held, length);
    free(held);
}

/* Continues after the event for which the side waited. */
static inline void http_side_resume(struct http_side *side) {
    if (side->waits_to_begin) {
        side->message = side->owner->begin(side);
        if (!side->message)
            return;
        side->waits_to_begin = false;
        llhttp_resume(&side->parser);
    } else {
        llhttp_resume_after_upgrade(&side->parser);
    }
    http_release(side, HTTP_READING, http_read);
}

/* Tests whether a message begins with the full window. If so, starts parsing and returns true. */
static inline bool http_found(struct http_side *side) {
    if (http_is_2(side)) {
        side->known = true;
        side->response = !*side->window;
        side->state = HTTP_FRAMES;
        side->owner->frames(side, side->window, HTTP_BEGINNING);
        return true;
    }
    bool response = http_is_response(side->window);
    bool request = !response && http_is_request(side->window, side->searched > 0 || side->resumed);
    bool first = !side->resumed && !side->searched && !(side->known && side->response);
    if (first && !response && !request && http_may_be_request(side->window) && !memchr(side->window, '\n', HTTP_BEGINNING) &&
        http_hold(side, side->window, HTTP_BEGINNING)) {
        side->line = HTTP_HELD_LINE;
        side->used = 0;
        return true;
    }
    if ((!response && !request) || (side->known && response != side->response))
        return false;
    side->known = true;
    side->response = response;
    side->resumed |= side->searched > 0;
    http_side_parser(side);
    side->used = 0;
    http_read(side, side->window, HTTP_BEGINNING);
    return true;
}

/* Processes bytes of the stream, in order. `most`: number of bytes in which the first message may begin. */
static inline void http_side_bytes(struct http_side *side, const uint8_t *at, uint32_t length, uint64_t most) {
    while (length && side->state == HTTP_SEARCHING) {
        if (side->line == HTTP_HELD_LINE) {
            uint32_t done = http_hold_line(side, at, length);
            at += done;
            length -= done;
            if (side->state == HTTP_SEARCHING && side->searched >= most && !side->known)
                http_stop(side, NULL);
            continue;
        }
        if (!side->used && !side->searched && (*at == '\r' || *at == '\n')) {   /* RFC 9112, 2.2 */
            at++;
            length--;
            continue;
        }
        uint32_t take = (uint32_t)sl_min(HTTP_BEGINNING - side->used, length);
        memcpy(side->window + side->used, at, take);
        side->used += (uint8_t)take;
        at += take;
        length -= take;
        while (side->used == HTTP_BEGINNING && side->state == HTTP_SEARCHING && !http_found(side)) {
            memmove(side->window, side->window + 1, --side->used);
            while (side->used && !http_may_begin(side))
                memmove(side->window, side->window + 1, --side->used), side->searched++;
            if (++side->searched >= most && !side->known)
                http_stop(side, NULL);
        }
    }
    if (!length)
        return;
    if (side->state == HTTP_HOLDING && !http_hold(side, at, length)) {
        side->alone = true;
        if (side->waits_to_begin)
            http_side_resume(side);
        else
            side->state = HTTP_TUNNEL;
    } else if (side->state == HTTP_HOLDING) {
        return;
    }
    if (side->state == HTTP_READING)
        http_read(side, at, length);
    else if (side->state == HTTP_FRAMES)
        side->owner->frames(side, at, length);
}

/* The same for one of both sides: once its role is known, the other side has the other role. */
static inline void http_sides_bytes(struct http_side sides[2], unsigned number, const uint8_t *at, uint32_t length, uint64_t most) {
    struct http_side *side = &sides[number], *other = &sides[!number];
    bool was_known = side->known;
    http_side_bytes(side, at, length, most);
    if (!side->known || was_known)
        return;
    other->response = other->known ? other->response : !side->response;
    other->known = true;
}

/* Handles missing bytes. In a body, only these bytes are lost; elsewhere, or if their number is not known (UINT64_MAX), the side
 * searches for the next message. */
static inline void http_side_gap(struct http_side *side, uint64_t length) {
    bool in_message = side->state == HTTP_READING && side->message && length != UINT64_MAX;   /* a body may claim this length */
    if (in_message && side->to_the_end) {
        side->message->missing += length;
        return;
    }
    if (in_message && side->in_body && length <= side->parser.content_length) {
        side->message->missing += length;
        side->parser.content_length -= length;
        if (!side->parser.content_length)
            http_read(side, (const uint8_t *)"", 0);   /* the body, or the chunk, is complete */
        return;
    }
    if (side->state == HTTP_READING) {
        http_break(side, "GAP");
        http_search(side);
    } else if (side->state == HTTP_SEARCHING) {
        http_search(side);
    } else if (side->state == HTTP_HOLDING) {
        http_stop(side, "gap");
    }
}

/* Handles the end of the stream. */
static inline void http_side_end(struct http_side *side) {
    bool open = side->state == HTTP_READING && side->message;
    if (open && (side->line != HTTP_NO_LINE || llhttp_finish(&side->parser) != HPE_OK))
        http_break(side, "EOF");
}

#endif
