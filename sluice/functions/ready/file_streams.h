/* The streams of an HTTP/2 or HTTP/3 connection whose bodies are files: each has a request, whose path names the file, and a
 * response. */
#ifndef FILE_STREAMS_H
#define FILE_STREAMS_H

#include "file_mime.h"
#include "http2_hpack.h"

enum {
    FILE_STREAMS = 256,   /* open streams of a connection, at most */
    FILE_INDEX = 32,
    FILE_TEXTS = 5,       /* texts of a stream, each of at most FILE_NAME bytes */
};

/* One side of a stream. */
struct file_part {
    bool begun, headed, over;               /* its header block has begun, and is complete */
    bool interim;                           /* the current block is that of an interim response (RFC 9110, 15.2) */
    bool has_length;
    uint64_t length;                        /* Content-Length */
    struct log_text disposition, declared;  /* Content-Disposition, Content-Type */
    struct file_body *file;
};

struct file_stream {
    struct file_stream *next;               /* in its list of the index */
    uint64_t number;
    struct log_text path;
    struct file_part part[2];               /* the request, the response */
};

struct file_streams {
    struct file_stream *index[FILE_INDEX];
    uint32_t count;
    struct sl_box *box;
    struct file_box *files;
    const struct log_flow *flow;
};

/* A client chooses numbers, but not the address, on which the list of a number depends. */
static inline struct file_stream **file_stream_place(struct file_streams *streams, uint64_t number) {
    uint64_t hash = number * ((uintptr_t)streams >> 4 | 1) * UINT64_C(0x9e3779b97f4a7c15);
    struct file_stream **at = &streams->index[hash >> 32 & (FILE_INDEX - 1)];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static inline uint64_t file_stream_cost(void) { return sizeof(struct file_stream) + (uint64_t)FILE_TEXTS * FILE_NAME; }

/* Returns a new stream, of a number that none has; NULL at a bound. */
static inline struct file_stream *file_stream_new(struct file_streams *streams, uint64_t number) {
    struct file_stream **place = file_stream_place(streams, number);
    bool room = streams->count < FILE_STREAMS && log_take(&streams->files->budget, file_stream_cost());
    *place = room ? calloc(1, sizeof **place) : NULL;
    if (!*place) {
        if (room)
            log_give(&streams->files->budget, file_stream_cost());
        streams->files->left_out++;
        return NULL;
    }
    (*place)->number = number;
    streams->count++;
    return *place;
}

/* Ends the file of a part, if it has one. */
static inline void file_stream_file_end(struct file_streams *streams, struct file_stream *stream, bool response, bool complete) {
    struct file_part *part = &stream->part[response];
    struct file_body *file = part->file;
    char text[FILE_NAME + 1];
    if (!file)
        return;
    part->file = NULL;
    file_name(&file->declared, (const uint8_t *)part->declared.at, part->declared.used);
    file->has_expected = part->has_length;
    file->expected = part->length;
    size_t length =
        part->disposition.used ? mime_parameter(part->disposition.at, part->disposition.used, "filename", text, sizeof text) : 0;
    if (length)
        file_name(&file->name, (const uint8_t *)text, length);
    else
        file_name_of_path(&file->name, (const uint8_t *)stream->path.at, stream->path.used);
    file_end(streams->box, streams->files, file, "http", complete);
}

static inline void file_stream_remove(struct file_streams *streams, struct file_stream *stream) {
    *file_stream_place(streams, stream->number) = stream->next;
    for (unsigned i = 0; i < 2; i++) {
        file_stream_file_end(streams, stream, i, false);
        free(stream->part[i].disposition.at);
        free(stream->part[i].declared.at);
    }
    free(stream->path.at);
    free(stream);
    streams->count--;
    log_give(&streams->files->budget, file_stream_cost());
}

/* Forgets the files that are read, without rows. */
static inline void file_streams_discard(struct file_streams *streams) {
    for (unsigned i = 0; i < 2 * FILE_INDEX; i++)
        for (struct file_stream *stream = streams->index[i / 2]; stream; stream = stream->next) {
            struct file_part *part = &stream->part[i % 2];
            if (part->file)
                file_free(streams->files, part->file);
            part->file = NULL;
        }
}

static inline void file_streams_close(struct file_streams *streams) {
    for (unsigned i = 0; i < FILE_INDEX; i++)
        while (streams->index[i])
            file_stream_remove(streams, streams->index[i]);
}

/* A field of a part's header block. */
static inline void file_stream_field(struct file_stream *stream, struct file_part *part, const struct http2_field *field) {
    if (part->headed)   /* trailers */
        return;
    if (http2_field_is(field, ":path") && !stream->path.used) {
        file_name(&stream->path, field->value, field->value_length);
    } else if (http2_field_is(field, "content-disposition") && !part->disposition.used) {
        file_name(&part->disposition, field->value, field->value_length);
    } else if (http2_field_is(field, "content-type") && !part->declared.used) {
        file_name(&part->declared, field->value, field->value_length);
    } else if (http2_field_is(field, "content-length") && field->value_length <= 19) {
        part->has_length = http2_field_number(field, &part->length);
    } else if (http2_field_is(field, ":status") && field->value_length && field->value[0] == '1') {
        part->interim = true;
    }
}

/* The block is complete. */
static inline void file_stream_headed(struct file_part *part) {
    part->headed |= !part->interim;
    if (!part->interim)
        return;
    part->disposition.used = part->declared.used = 0;   /* its fields are not those of the final response */
    part->has_length = part->interim = false;
}

/* Bytes of the body that side `from` sends; `missing`: others before them are not there. */
static inline void file_stream_bytes(struct file_streams *streams, struct file_part *part, unsigned from, const uint8_t *at,
                                     size_t length, uint64_t missing) {
    if (part->over)
        return;
    if (!part->file)
        part->file = file_begin(streams->box, streams->files, streams->flow, from, "http");
    part->over = !part->file;    /* it is left out */
    if (!part->file)
        return;
    part->file->missing += missing;
    if (length)
        file_bytes(streams->box, streams->files, part->file, at, length);
}

/* A part has ended: the stream is removed when both have, or its request was not seen. The header block of a request may be decoded
 * after the response has ended. */
static inline bool file_stream_is_over(const struct file_stream *stream) {
    return stream->part[1].over && (stream->part[0].over || !stream->part[0].begun);
}

#endif
