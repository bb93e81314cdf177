/* Request lines that llhttp refuses, though servers read them: with a method of its own (RFC 9110, 9.1), or a target with bytes
 * that are no part of a URI. Method and target are read here, and llhttp gets a plain line in their place. */
#ifndef HTTP_REQUEST_LINE_H
#define HTTP_REQUEST_LINE_H

enum { HTTP_VERB_LEAST = 3, HTTP_VERB_MOST = 32 };   /* bytes of a method: fewer may be the end of another one */

static inline bool http_is_token(uint8_t c) {   /* RFC 9110, 5.6.2 */
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Whether a line may begin here that is a request with another method, as far as the first bytes say. */
static inline bool http_may_be_request(const uint8_t *at) {
    unsigned method = 0;
    while (method < HTTP_BEGINNING - 2 && http_is_token(at[method]))
        method++;
    return method >= HTTP_VERB_LEAST && at[method] == ' ' && at[method + 1] == '/';
}

/* Whether a line is a request (RFC 9112, 3): it ends with a version. Lines of FTP do not. */
static inline bool http_is_request_line(const uint8_t *line, uint32_t length) {
    while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        length--;
    return length > 10 && memcmp(line + length - 9, " HTTP/1.", 8) == 0 && http_is_digit(line[length - 1]);
}

/* A request begins that has a message, but of which llhttp has refused the line: a method of it, or its target. Moves `at` to
 * where that begins, or to what was refused. False: the error is another one, or the beginning was perhaps none.
 *
 * llhttp has a span as long as it reads a method or a target, from its first byte in this piece on. */
static inline bool http_line_begins(struct http_side *side, llhttp_errno_t error, const uint8_t **at, uint32_t *length) {
    const uint8_t *begin = *at, *end = begin + *length, *place = side->parser._span_pos0;
    bool method = error == HPE_INVALID_METHOD;
    if ((!method && error != HPE_INVALID_URL) || side->response || side->resumed || !side->message ||
        (!method && side->parser.method == HTTP_CONNECT))
        return false;
    if (method && !place)   /* the line has a longer one than that which llhttp has read */
        place = (const uint8_t *)llhttp_get_error_pos(&side->parser);
    if (!place || place < begin || place > end)   /* a target that has ended was refused for what follows it */
        return false;
    const struct log_text *path = &side->message->path;
    if (!method && (path->used ? *path->at != '/' : place == end || *place != '/'))   /* as of SIP */
        return false;
    side->line = method ? HTTP_VERB : HTTP_TARGET;
    if (method)
        http_append(side, &side->message->verb, (const char *)side->window, side->used, HTTP_VERB_MOST);
    *at = place;
    *length = (uint32_t)(end - place);
    return true;
}

/* llhttp reads a line in place of that which is read here, up to the end of its target. */
static inline bool http_line_replaced(struct http_side *side) {
    struct http_message *message = side->message;
    const char *method = llhttp_method_name(message->verb.used ? HTTP_GET : (llhttp_method_t)side->parser.method);
    http_side_parser(side);
    side->message = message;
    side->line = HTTP_REPLACED;
    bool read = llhttp_execute(&side->parser, method, strlen(method)) == HPE_OK && llhttp_execute(&side->parser, " /", 2) == HPE_OK;
    message->method = side->parser.method;
    side->line = HTTP_NO_LINE;
    return read;
}

/* Whether a method, or a target, ends before a byte. */
static inline bool http_line_ends(bool verb, uint8_t c) { return verb ? !http_is_token(c) : c == ' ' || c == '\r' || c == '\n'; }

/* Reads bytes of a method or a target. Moves `at` after them. False: there are no more bytes, or the line is no request. */
static inline bool http_line_read(struct http_side *side, const uint8_t **at, uint32_t *length) {
    while (*length) {
        bool verb = side->line == HTTP_VERB;
        uint32_t take = 0;
        while (take < *length && !http_line_ends(verb, (*at)[take]))
            take++;
        struct log_text *text = verb ? &side->message->verb : &side->message->path;
        http_append(side, text, (const char *)*at, take, verb ? HTTP_VERB_MOST : HTTP_PATH_MOST);
        bool is_long = http_head(side, take) != 0, refused = is_long || (verb && side->message->verb.used == HTTP_VERB_MOST);
        *at += take;
        *length -= take;
        if (!refused && !*length)
            return false;
        if (!refused && verb && **at == ' ') {
            side->line = HTTP_TARGET;
            ++*at;
            --*length;
        } else if (!refused && !verb && http_line_replaced(side)) {
            return true;
        } else {
            http_refused(side, is_long ? HPE_USER : HPE_INVALID_METHOD);
            return false;
        }
    }
    return false;
}

static inline void http_read(struct http_side *side, const uint8_t *at, uint32_t length);
static inline void http_release(struct http_side *side, enum http_state state,
                                void (*read)(struct http_side *side, const uint8_t *at, uint32_t length));

/* Holds bytes up to the end of a line that may be a request. Returns how many; at the end, the line is read if it is one, else
 * searching continues after it. */
static inline uint32_t http_hold_line(struct http_side *side, const uint8_t *at, uint32_t length) {
    const uint8_t *end = memchr(at, '\n', length);
    uint32_t take = end ? (uint32_t)(end - at) + 1 : length;
    bool held = http_hold(side, at, take);
    if (held && !end)
        return take;
    side->line = HTTP_NO_LINE;
    side->searched += side->held_used;
    if (!held || !http_is_request_line(side->held, side->held_used)) {
        http_held_free(side);
        return take;
    }
    side->known = true;
    side->response = false;
    struct http_message *message = side->owner->begin(side);
    if (!message) {
        http_stop(side, NULL);
        return take;
    }
    http_side_parser(side);
    side->message = message;
    side->line = HTTP_VERB;
    http_release(side, HTTP_READING, http_read);
    return take;
}

#endif
