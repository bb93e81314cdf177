/* Bodies of HTTP/2 as files. Frames are parsed by http2_side.h. */
#ifndef FILE_HTTP2_H
#define FILE_HTTP2_H

#include "file_streams.h"
#include "http2_side.h"

struct file_http2 {
    struct http2_side side[2];
    struct http2_library *library;
    struct file_streams streams;
    struct file_stream *current[2];         /* of the header block or body that each side sends */
    bool promising[2];                      /* the block is the request of a pushed response */
    uint32_t highest[2];                    /* the highest stream that had a request: promised by the server, of the client */
};

static inline unsigned file_2_side(const struct file_http2 *http, const struct http2_side *side) { return side == &http->side[1]; }

static inline void file_2_remove(struct file_http2 *http, struct file_stream *stream) {
    for (unsigned i = 0; i < 2; i++)
        http->current[i] = http->current[i] == stream ? NULL : http->current[i];
    file_stream_remove(&http->streams, stream);
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
    struct file_stream *stream = *file_stream_place(&http->streams, number);
    uint32_t *highest = &http->highest[number % 2];
    bool is_new = number > *highest;
    if (asks)
        *highest = (uint32_t)sl_max(*highest, number);
    return stream || !is_new ? stream : file_stream_new(&http->streams, number);
}

static inline void file_2_headers(struct http2_side *side, uint32_t number, bool promised) {
    struct file_http2 *http = side->user;
    unsigned from = file_2_side(http, side);
    http->promising[from] = promised;
    http->current[from] = file_2_stream(http, number, promised || !side->response);
    struct file_part *part = file_2_part(side);
    if (part)
        part->begun = true;
}

static inline void file_2_field(struct http2_side *side, const struct http2_field *field) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    if (part)
        file_stream_field(http->current[file_2_side(http, side)], part, field);
}

static inline void file_2_headed(struct http2_side *side) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    if (!part)
        return;
    file_stream_headed(part);
    if (http->promising[file_2_side(http, side)])
        part->over = true;       /* a promised request has no body (RFC 9113, 8.4.1) */
}

static inline void file_2_body(struct http2_side *side, uint32_t number) {
    struct file_http2 *http = side->user;
    unsigned from = file_2_side(http, side);
    http->promising[from] = false;
    http->current[from] = *file_stream_place(&http->streams, number);
}

static inline void file_2_bytes(struct http2_side *side, const uint8_t *at, size_t length, uint64_t missing) {
    struct file_http2 *http = side->user;
    struct file_part *part = file_2_part(side);
    if (part && part->headed)
        file_stream_bytes(&http->streams, part, file_2_side(http, side), at, length, missing);
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
    file_stream_file_end(&http->streams, stream, side->response, true);
    part->over = true;
    if (file_stream_is_over(stream))
        file_2_remove(http, stream);
}

static inline void file_2_reset(struct http2_side *side, uint32_t number, uint32_t code) {
    (void)code;
    struct file_http2 *http = side->user;
    struct file_stream *stream = *file_stream_place(&http->streams, number);
    if (stream)
        file_2_remove(http, stream);
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
    http->streams.files->sides_ended++;
    for (unsigned i = 0; i < FILE_INDEX; i++)
        for (struct file_stream *stream = http->streams.index[i]; stream; stream = stream->next)
            file_stream_file_end(&http->streams, stream, http->side[number].response, false);
    http->current[number] = NULL;
}

static inline void file_2_close(struct file_http2 *http) {
    file_streams_close(&http->streams);
    for (unsigned i = 0; i < 2; i++)
        http2_side_free(&http->side[i]);
}

#endif
