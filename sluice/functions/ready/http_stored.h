/* HTTP/1 in the state of a connection: its sides (http_side.h), and their messages. */
#ifndef HTTP_STORED_H
#define HTTP_STORED_H

#include "http_side.h"

#include "function/stored.h"

/* --- messages --- */

/* Why parsing may end within such a message. */
static const char *const http_errors[] = {
    NULL, "GAP", "EOF", "HEAD_TOO_LONG", "HTTP2",
#define HTTP_ERROR(number, name, string) #name,
    HTTP_ERRNO_MAP(HTTP_ERROR)
#undef HTTP_ERROR
};
enum { HTTP_ERRORS = sizeof http_errors / sizeof *http_errors };

static inline void http_text_stored(struct sl_stored *stored, struct http_message *message, struct log_budget *budget,
                                    struct log_text *text, size_t most) {
    uint32_t used = (uint32_t)text->used;
    SL_STORED(stored, used);
    if (!stored->reads && used)
        sl_stored_bytes(stored, text->at, used);
    if (!stored->reads || !used)
        return;
    stored->failed |= used > most || used > stored->size - stored->used;
    if (stored->failed)
        return;
    http_message_append(message, budget, text, (const char *)stored->at + stored->used, used, most);
    stored->failed |= text->used < used;
    stored->used += used;
}

static inline void http_message_stored(struct sl_stored *stored, struct http_message *message, struct log_budget *budget) {
    uint8_t error = 0;
    while (!stored->reads && message->error && error + 1 < HTTP_ERRORS && (!error || strcmp(http_errors[error], message->error) != 0))
        error++;
    sl_stored_bytes(stored, message, offsetof(struct http_message, stored));
    http_text_stored(stored, message, budget, &message->verb, HTTP_VALUE_MOST);
    http_text_stored(stored, message, budget, &message->path, HTTP_PATH_MOST);
    http_text_stored(stored, message, budget, &message->reason, HTTP_VALUE_MOST);
    for (unsigned i = 0; i < HTTP_HEADERS; i++)
        http_text_stored(stored, message, budget, &message->header[i], HTTP_VALUE_MOST);
    SL_STORED(stored, message->cut);
    SL_STORED(stored, error);
    if (stored->reads)
        message->error = http_errors[error < HTTP_ERRORS ? error : 0];
}

/* --- sides --- */

/* What llhttp passes to callbacks piece by piece: one may be under way. */
typedef int http_span(llhttp_t *parser, const char *at, const char *end);
extern http_span llhttp__on_body, llhttp__on_chunk_extension_name, llhttp__on_chunk_extension_value, llhttp__on_header_field,
    llhttp__on_header_value, llhttp__on_method, llhttp__on_protocol, llhttp__on_status, llhttp__on_url, llhttp__on_version;
static http_span *const http_spans[] = {NULL,
    llhttp__on_body, llhttp__on_chunk_extension_name, llhttp__on_chunk_extension_value, llhttp__on_header_field,
    llhttp__on_header_value, llhttp__on_method, llhttp__on_protocol, llhttp__on_status,
    llhttp__on_url, llhttp__on_version};
enum { HTTP_SPANS_COUNT = sizeof http_spans / sizeof *http_spans };

/* llhttp has pointers, to its callbacks and to bytes of the current piece, which another process does not have. */
static inline void http_parser_stored(struct sl_stored *stored, llhttp_t *parser) {
    uint8_t span = 0;
    uint64_t current = (uintptr_t)parser->_current;
    while (!stored->reads && parser->_span_pos0 && span + 1 < HTTP_SPANS_COUNT &&
           (!span || (uintptr_t)http_spans[span] != (uintptr_t)parser->_span_cb0))
        span++;
    SL_STORED(stored, span);
    SL_STORED(stored, current);
    SL_STORED(stored, parser->_index);
    SL_STORED(stored, parser->error);
    sl_stored_bytes(stored, &parser->content_length, offsetof(llhttp_t, settings) - offsetof(llhttp_t, content_length));
    if (!stored->reads)
        return;
    stored->failed |= span >= HTTP_SPANS_COUNT;
    parser->_current = (void *)(uintptr_t)current;
    parser->_span_cb0 = (void *)(uintptr_t)http_spans[stored->failed ? 0 : span];
    parser->_span_pos0 = parser->_span_cb0;   /* llhttp only compares it with NULL before the next piece */
}

/* Its message is that of its owner, which sets it. */
static inline void http_side_stored(struct sl_stored *stored, struct http_side *side) {
    bool parses = side->parser.data;
    uint32_t held = side->held_used;
    sl_stored_bytes(stored, side, offsetof(struct http_side, why));
    SL_STORED(stored, parses);
    if (parses) {
        if (stored->reads)
            http_parser_open(side);
        http_parser_stored(stored, &side->parser);
    }
    SL_STORED(stored, side->window);
    SL_STORED(stored, side->used);
    SL_STORED(stored, side->searched);
    SL_STORED(stored, side->name);
    SL_STORED(stored, side->name_length);
    SL_STORED(stored, side->header);
    SL_STORED(stored, held);
    if (!stored->reads) {
        if (held)
            sl_stored_bytes(stored, side->held, held);
        return;
    }
    bool reads = side->state == HTTP_READING || side->state == HTTP_HOLDING;
    stored->failed |= side->state > HTTP_STOPPED || (reads && !parses) || side->used > HTTP_BEGINNING || side->header < -1 ||
                      side->header >= HTTP_HEADERS || side->name_length > HTTP_NAME_MOST + 1 || held > stored->size - stored->used;
    if (stored->failed || (held && !http_hold(side, stored->at + stored->used, held))) {
        stored->failed = true;
        side->state = HTTP_STOPPED;
        return;
    }
    stored->used += held;
}

#endif
