/* llhttp's callbacks, which collect the parts of a message. Part of http_side.h. */
#ifndef HTTP_CALLBACKS_H
#define HTTP_CALLBACKS_H

static int http_head(struct http_side *side, size_t length) {
    if (side->message->head > HTTP_HEAD_MOST - sl_min(length, HTTP_HEAD_MOST)) {
        llhttp_set_error_reason(&side->parser, "head too long");
        return -1;
    }
    side->message->head += length;
    return 0;
}

static inline void http_piece(struct http_side *side, enum http_piece piece, const char *at, size_t length) {
    if (side->owner->piece)
        side->owner->piece(side, piece, at, length);
}

static int http_on_begin(llhttp_t *parser) {
    struct http_side *side = parser->data;
    side->in_body = side->to_the_end = false;
    if (side->line == HTTP_REPLACED)
        return 0;
    side->used = 0;
    side->message = side->owner->begin(side);
    side->waits_to_begin = !side->message;
    return side->message ? 0 : HPE_PAUSED;
}

/* Stores the bytes of a method, for where llhttp refuses the next ones: they may be in the window already. */
static int http_on_method(llhttp_t *parser, const char *at, size_t length) {
    struct http_side *side = parser->data;
    size_t take = side->line == HTTP_REPLACED ? 0 : (size_t)sl_min(length, HTTP_BEGINNING - side->used);
    if (take)
        memmove(side->window + side->used, at, take);
    side->used += (uint8_t)take;
    return 0;
}

static int http_on_path(llhttp_t *parser, const char *at, size_t length) {
    struct http_side *side = parser->data;
    if (side->line == HTTP_REPLACED)
        return 0;
    side->message->method = parser->method;
    http_append(side, &side->message->path, at, length, HTTP_PATH_MOST);
    return http_head(side, length);
}

static int http_on_reason(llhttp_t *parser, const char *at, size_t length) {
    struct http_side *side = parser->data;
    side->message->status = parser->status_code;
    http_append(side, &side->message->reason, at, length, HTTP_VALUE_MOST);
    return http_head(side, length);
}

static int http_on_name(llhttp_t *parser, const char *at, size_t length) {
    struct http_side *side = parser->data;
    for (size_t i = 0; i < length && side->name_length <= HTTP_NAME_MOST; i++) {
        if (side->name_length < HTTP_NAME_MOST)
            side->name[side->name_length] = at[i] >= 'A' && at[i] <= 'Z' ? (char)(at[i] | 0x20) : at[i];
        side->name_length++;
    }
    http_piece(side, HTTP_NAME_BYTES, at, length);
    return http_head(side, length);
}

static int http_on_name_complete(llhttp_t *parser) {
    struct http_side *side = parser->data;
    side->header = -1;
    for (int i = 0; i < HTTP_HEADERS; i++)
        if (strlen(http_header_names[i]) == side->name_length && !memcmp(http_header_names[i], side->name, side->name_length))
            side->header = side->message->header[i].used ? -1 : i;   /* of several headers, the first is stored */
    side->name_length = 0;
    return 0;
}

static int http_on_value(llhttp_t *parser, const char *at, size_t length) {
    struct http_side *side = parser->data;
    if (side->header >= 0)
        http_append(side, &side->message->header[side->header], at, length, HTTP_VALUE_MOST);
    http_piece(side, HTTP_VALUE_BYTES, at, length);
    return http_head(side, length);
}

static int http_on_value_complete(llhttp_t *parser) {
    http_piece(parser->data, HTTP_VALUE_END, NULL, 0);
    return 0;
}

static int http_on_headed(llhttp_t *parser) {
    struct http_side *side = parser->data;
    struct http_message *message = side->message;
    message->headed = true;
    message->major = parser->http_major;
    message->minor = parser->http_minor;
    message->method = parser->method;
    message->status = parser->status_code;
    message->chunked = parser->flags & F_CHUNKED;
    message->has_length = parser->flags & F_CONTENT_LENGTH;
    message->length = message->has_length ? parser->content_length : 0;
    int body = side->owner->headed(side);
    side->in_body = !body && !message->chunked && message->length && message->status != 204 && message->status != 304;
    side->to_the_end = !body && side->response && !side->in_body && llhttp_message_needs_eof(parser);
    return body;
}

static int http_on_body(llhttp_t *parser, const char *at, size_t length) {
    struct http_side *side = parser->data;
    side->message->body += length;
    http_piece(side, HTTP_BODY_BYTES, at, length);
    return 0;
}

static int http_on_chunk(llhttp_t *parser) {
    ((struct http_side *)parser->data)->in_body = parser->content_length > 0;
    return 0;
}

static int http_on_chunk_end(llhttp_t *parser) {
    ((struct http_side *)parser->data)->in_body = false;
    return 0;
}

static int http_on_complete(llhttp_t *parser) {
    struct http_side *side = parser->data;
    side->in_body = side->to_the_end = false;
    side->message->complete = true;
    side->owner->complete(side);
    side->message = NULL;
    return 0;
}

static const llhttp_settings_t http_settings = {
    .on_message_begin = http_on_begin, .on_method = http_on_method, .on_url = http_on_path, .on_status = http_on_reason,
    .on_header_field = http_on_name, .on_header_field_complete = http_on_name_complete, .on_header_value = http_on_value,
    .on_header_value_complete = http_on_value_complete, .on_headers_complete = http_on_headed, .on_body = http_on_body,
    .on_message_complete = http_on_complete, .on_chunk_header = http_on_chunk, .on_chunk_complete = http_on_chunk_end};

#endif
