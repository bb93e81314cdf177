/* The fields of a header block of HTTP/2 or HTTP/3, for rules: the buffers are those of HTTP/1. */
#ifndef IDS_FIELDS_H
#define IDS_FIELDS_H

#include "ids_message.h"
#include "http2_hpack.h"

/* Adds a line to a text; `titled`: with the name as in HTTP/1, which has capital letters at the beginning of words. */
static void ids_field_line(struct sl_box *box, struct log_text *text, const char *name, size_t length, const struct http2_field *field,
                       bool titled) {
    size_t begin = text->used;
    ids_text(box, text, name, length, HTTP_HEAD_MOST);
    for (size_t i = begin; titled && i < text->used; i++)
        if ((i == begin || text->at[i - 1] == '-') && text->at[i] >= 'a' && text->at[i] <= 'z')
            text->at[i] = (char)(text->at[i] & ~0x20);
    ids_text(box, text, ": ", 2, HTTP_HEAD_MOST);
    ids_text(box, text, (const char *)field->value, field->value_length, HTTP_HEAD_MOST);
    ids_text(box, text, "\r\n", 2, HTTP_HEAD_MOST);
}

static void ids_field_store(struct sl_box *box, struct ids_message *message, struct log_text *text, const struct http2_field *field,
                        size_t most) {
    if (!text->used)   /* of several fields, the first is stored */
        http_message_append(&message->message, &SLUICE_WORKER_OF(box)->budget, text, (const char *)field->value, field->value_length, most);
}

static void ids_field_pseudo(struct sl_box *box, struct ids_message *message, const struct http2_field *field) {
    struct http_message *http = &message->message;
    if (http2_field_is(field, ":method")) {
        ids_field_store(box, message, &http->verb, field, HTTP_VALUE_MOST);
    } else if (http2_field_is(field, ":path")) {
        ids_field_store(box, message, &http->path, field, HTTP_PATH_MOST);
    } else if (http2_field_is(field, ":authority")) {   /* which HTTP/1 has in Host (RFC 9113, 8.3.1) */
        ids_field_store(box, message, &http->header[HTTP_HOST], field, HTTP_VALUE_MOST);
        ids_field_line(box, &message->header, "Host", 4, field, false);
    } else if (http2_field_is(field, ":status")) {
        for (size_t i = 0; i < field->value_length && i < 3 && http_is_digit(field->value[i]); i++)
            http->status = (uint16_t)(http->status * 10 + (field->value[i] - '0'));
    }
}

/* Adds a field of a message, of a request or a `response`. */
static void ids_field(struct ids_message *message, bool response, const struct http2_field *field) {
    struct sl_box *box = message->box;
    ids_field_line(box, &message->raw_header, (const char *)field->name, field->name_length, field, false);
    if (field->name_length && field->name[0] == ':') {
        ids_field_pseudo(box, message, field);
        return;
    }
    if (http2_field_is(field, response ? "set-cookie" : "cookie")) {
        if (message->cookie.used)   /* the parts of a request's are one (RFC 9113, 8.2.3) */
            ids_text(box, &message->cookie, response ? "\n" : "; ", response ? 1 : 2, HTTP_HEAD_MOST);
        ids_text(box, &message->cookie, (const char *)field->value, field->value_length, HTTP_HEAD_MOST);
        return;
    }
    ids_field_line(box, &message->header, (const char *)field->name, field->name_length, field, true);
    for (unsigned i = 0; i < HTTP_UPGRADE; i++)
        if (http2_field_is(field, http_header_names[i]))
            ids_field_store(box, message, &message->message.header[i], field, HTTP_VALUE_MOST);
}

#endif
