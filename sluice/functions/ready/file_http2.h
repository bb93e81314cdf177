/* Bodies of HTTP/2 as files: each stream has a request, whose path names the file, and a response. Frames are parsed by
 * http2_side.h. */
#ifndef FILE_HTTP2_H
#define FILE_HTTP2_H

#include "file_body.h"
#include "http2_side.h"

enum {
    FILE_STREAMS = 256,   /* open streams of a connection, at most */
    FILE_INDEX = 32,
    FILE_TEXTS = 5,       /* texts of a stream, each of at most FILE_NAME bytes */
};

/* One side of a stream. */
struct file_part {
    bool headed, over;
    bool interim;                           /* the current block is that of an interim response (RFC 9110, 15.2) */
    bool has_length;
    uint64_t length;                        /* Content-Length */
    struct log_text disposition, declared;  /* Content-Disposition, Content-Type */
    struct file_body *file;
};

struct file_stream {
    struct file_stream *next;               /* in its list of the index */
    uint32_t number;
    struct log_text path;
    struct file_part part[2];               /* the request, the response */
};

struct file_http2 {
    struct http2_side side[2];
    struct http2_library *library;
    struct file_stream *index[FILE_INDEX];
    struct file_stream *current[2];         /* of the header block or body that each side sends */
    bool promising[2];                      /* the block is the request of a pushed response */
    uint32_t highest[2];                    /* the highest stream that had a request: promised by the server, of the client */
    uint32_t count;
    struct sl_box *box;
    struct file_box *files;
    const struct log_flow *flow;
};

static inline unsigned file_2_side(const struct file_http2 *http, const struct http2_side *side) { return side == &http->side[1]; }

static inline struct file_stream **file_2_place(struct file_http2 *http, uint32_t number) {
    uint64_t hash = number * ((uintptr_t)http >> 4 | 1) * UINT64_C(0x9e3779b97f4a7c15);
    struct file_stream **at = &http->index[hash >> 32 & (FILE_INDEX - 1)];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static inline uint64_t file_2_cost(void) { return sizeof(struct file_stream) + (uint64_t)FILE_TEXTS * FILE_NAME; }

static inline void file_2_file_end(struct file_http2 *http, struct file_stream *stream, bool response, bool complete) {
    struct file_part *part = &stream->part[response];
    struct file_body *file = part->file;
    char text[FILE_NAME + 1];
    if (!file)
        return;
    part->file = NULL;
    size_t length =
        part->disposition.used ? mime_parameter(part->disposition.at, part->disposition.used, "filename", text, sizeof text) : 0;
    if (length)
        file_name(&file->name, (const uint8_t *)text, length);
    else
        file_name_of_path(&file->name, (const uint8_t *)stream->path.at, stream->path.used);
    file_end(http->box, http->files, file, "http", complete);
}

static inline void file_2_remove(struct file_http2 *http, struct file_stream *stream) {
    *file_2_place(http, stream->number) = stream->next;
    for (unsigned i = 0; i < 2; i++) {
        file_2_file_end(http, stream, i, false);
        free(stream->part[i].disposition.at);
        free(stream->part[i].declared.at);
        http->current[i] = http->current[i] == stream ? NULL : http->current[i];
    }
    free(stream->path.at);
    free(stream);
    http->count--;
    log_give(&http->files->budget, file_2_cost());
}

/* The part of the stream that a side currently sends; NULL: it is not read. */
static inline struct file_part *file_2_part(struct http2_side *side) {
    struct file_http2 *http = side->user;
    unsigned number = file_2_side(http, side);
    struct file_stream *stream = http->current[number];
    return stream ? &stream->part[side->response && !http->promising[number]] : NULL;
}

/* Returns a stream, a new one if the frame may begin it; `asks`: the frame begins its request. NULL: the stream is over, as
 * frames may follow its reset (RFC 9113, 5.1), or a bound was reached. */
static inline struct file_stream *file_2_stream(struct file_http2 *http, uint32_t number, bool asks) {
    struct file_stream **place = file_2_place(http, number);
    uint32_t *highest = &http->highest[number % 2];
    bool is_new = number > *highest;
    if (asks)
        *highest = (uint32_t)sl_max(*highest, number);
    if (*place || !is_new)
        return *place;
    bool room = http->count < FILE_STREAMS && log_take(&http->files->budget, file_2_cost());
    *place = room ? calloc(1, sizeof **place) : NULL;
    if (!*place) {
        if (room)
            log_give(&http->files->budget, file_2_cost());
        http->files->left_out++;
        return NULL;
    }
    (*place)->number = number;
    http->count++;
    return *place;
}

static inline void file_2_headers(struct http2_side *side, uint32_t number, bool promised) {
    struct file_http2 *http = side->user;
    unsigned from = file_2_side(http, side);
    http->promising[from] = promised;
    http->current[from] = file_2_stream(http, number, promised || !side->response);
}

static inline void file_2_field(struct http2_side *side, const struct http2_field *field) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    struct file_stream *stream = http->current[file_2_side(http, side)];
    if (!part || part->headed)   /* trailers */
        return;
    if (http2_field_is(field, ":path") && !stream->path.used) {
        file_name(&stream->path, field->value, field->value_length);
    } else if (http2_field_is(field, "content-disposition") && !part->disposition.used) {
        file_name(&part->disposition, field->value, field->value_length);
    } else if (http2_field_is(field, "content-type") && !part->declared.used) {
        file_name(&part->declared, field->value, field->value_length);
    } else if (http2_field_is(field, "content-length") && field->value_length <= 19) {
        part->has_length = field->value_length > 0;
        part->length = 0;
        for (size_t i = 0; i < field->value_length && part->has_length; i++) {
            part->has_length = field->value[i] >= '0' && field->value[i] <= '9';
            part->length = part->length * 10 + (field->value[i] - '0');
        }
    } else if (http2_field_is(field, ":status") && field->value_length && field->value[0] == '1') {
        part->interim = true;
    }
}

static inline void file_2_headed(struct http2_side *side) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    if (!part)
        return;
    part->headed |= !part->interim;
    if (part->interim) {         /* its fields are not those of the final response */
        part->disposition.used = part->declared.used = 0;
        part->has_length = part->interim = false;
    }
    if (http->promising[file_2_side(http, side)])
        part->over = true;       /* a promised request has no body (RFC 9113, 8.4.1) */
}

static inline void file_2_body(struct http2_side *side, uint32_t number) {
    struct file_http2 *http = side->user;
    unsigned from = file_2_side(http, side);
    http->promising[from] = false;
    http->current[from] = *file_2_place(http, number);
}

static inline void file_2_bytes(struct http2_side *side, const uint8_t *at, size_t length, uint64_t missing) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    if (!part || !part->headed || part->over)
        return;
    if (!part->file) {
        part->file = file_begin(http->box, http->files, http->flow, file_2_side(http, side), "http");
        if (part->file) {
            file_name(&part->file->declared, (const uint8_t *)part->declared.at, part->declared.used);
            part->file->has_expected = part->has_length;
            part->file->expected = part->length;
        }
    }
    part->over = !part->file;    /* it is left out */
    if (!part->file)
        return;
    part->file->missing += missing;
    if (length)
        file_bytes(http->box, http->files, part->file, at, length);
}

static inline void file_2_data(struct http2_side *side, uint64_t length, uint64_t missing) {
    (void)length;
    if (missing)
        file_2_bytes(side, NULL, 0, missing);
}

static inline void file_2_content(struct http2_side *side, const uint8_t *at, size_t length) {
    if (length)
        file_2_bytes(side, at, length, 0);
}

static inline void file_2_complete(struct http2_side *side) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    struct file_stream *stream = http->current[file_2_side(http, side)];
    if (!part)
        return;
    file_2_file_end(http, stream, side->response, true);
    part->over = true;
    if (stream->part[1].over && (stream->part[0].over || !stream->part[0].headed))
        file_2_remove(http, stream);
}

static inline void file_2_reset(struct http2_side *side, uint32_t number, uint32_t code) {
    (void)code;
    struct file_stream *stream = *file_2_place(side->user, number);
    if (stream)
        file_2_remove(side->user, stream);
}

static const struct http2_owner file_2_owner = {file_2_headers, file_2_field, file_2_headed, file_2_body, file_2_data,
                                                file_2_complete, file_2_reset, file_2_content};

/* --- the connection --- */

/* Bytes of a side, from its first frame, or preface, on. Returns false if no more of it is read. */
static inline bool file_2_read(struct file_http2 *http, unsigned number, bool response, const uint8_t *at, uint32_t length) {
    struct http2_side *side = &http->side[number];
    if (!side->owner) {
        *side = (struct http2_side){.owner = &file_2_owner, .hpack = http->library, .user = http};
        if (!http2_begin(side, response))
            http2_end(side, "NO_MEMORY");
    }
    http2_bytes(side, at, length);
    return !side->error;
}

/* No more of a side is read: its files are not complete. */
static inline void file_2_side_end(struct file_http2 *http, unsigned number) {
    http->files->sides_ended++;
    for (unsigned i = 0; i < FILE_INDEX; i++)
        for (struct file_stream *stream = http->index[i]; stream; stream = stream->next)
            file_2_file_end(http, stream, http->side[number].response, false);
    http->current[number] = NULL;
}

static inline void file_2_close(struct file_http2 *http) {
    for (unsigned i = 0; i < FILE_INDEX; i++)
        while (http->index[i])
            file_2_remove(http, http->index[i]);
    for (unsigned i = 0; i < 2; i++)
        http2_side_free(&http->side[i]);
}

#endif
