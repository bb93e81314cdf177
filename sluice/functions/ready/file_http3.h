/* Bodies of HTTP/3 as files. Streams are read by http3_stream.h; a stream's number is the key of its exchange. */
#ifndef FILE_HTTP3_H
#define FILE_HTTP3_H

#include "file_streams.h"
#include "http3_quic.h"

/* Is a message, or the promised request, that of the client? */
static inline bool file_3_is_request(const struct http3_stream *stream, bool promised) {
    return promised || stream->sender == stream->connection->client;
}

/* The part of an exchange; NULL: it is not read. */
static inline struct file_part *file_3_part(const struct http3_stream *stream, uint64_t key, bool promised) {
    struct file_stream *exchange = *file_stream_place(stream->connection->user, key);
    return exchange ? &exchange->part[!file_3_is_request(stream, promised)] : NULL;
}

/* A header block begins, or is decoded. */
static inline void file_3_begin(struct http3_stream *stream, uint64_t key, bool promised) {
    struct file_streams *streams = stream->connection->user;
    if ((promised || !stream->begun) && !*file_stream_place(streams, key))
        file_stream_new(streams, key);
    struct file_part *part = file_3_part(stream, key, promised);
    if (part)
        part->begun = true;
}

static inline void file_3_field(struct http3_stream *stream, uint64_t key, bool promised, const struct http2_field *field) {
    struct file_part *part = file_3_part(stream, key, promised);
    if (part)
        file_stream_field(*file_stream_place(stream->connection->user, key), part, field);
}

/* The part of an exchange has ended. */
static inline void file_3_part_end(struct http3_stream *stream, uint64_t key, bool promised, bool complete) {
    struct file_streams *streams = stream->connection->user;
    struct file_stream *exchange = *file_stream_place(streams, key);
    bool response = !file_3_is_request(stream, promised);
    if (!exchange)
        return;
    file_stream_file_end(streams, exchange, response, complete);
    exchange->part[response].over = true;
    if (file_stream_is_over(exchange))
        file_stream_remove(streams, exchange);
}

static inline void file_3_headed(struct http3_stream *stream, uint64_t key, bool promised, bool interim) {
    struct file_part *part = file_3_part(stream, key, promised);
    if (!part)
        return;
    part->interim = interim;
    file_stream_headed(part);
    if (promised)   /* a promised request has no body (RFC 9114, 4.6) */
        file_3_part_end(stream, key, true, true);
}

static inline void file_3_bytes(struct http3_stream *stream, const uint8_t *at, size_t length, uint64_t missing) {
    struct file_part *part = file_3_part(stream, stream->key, false);
    if (part)
        file_stream_bytes(stream->connection->user, part, stream->sender, at, length, missing);
}

static inline void file_3_data(struct http3_stream *stream, uint64_t length, uint64_t missing) {
    (void)length;
    if (missing)
        file_3_bytes(stream, NULL, 0, missing);
}

static inline void file_3_content(struct http3_stream *stream, const uint8_t *at, size_t length) {
    if (length)
        file_3_bytes(stream, at, length, 0);
}

static inline void file_3_complete(struct http3_stream *stream) { file_3_part_end(stream, stream->key, false, true); }

/* The stream is not read further: its file is not complete. */
static inline void file_3_broken(struct http3_stream *stream, const char *why) {
    struct file_streams *streams = stream->connection->user;
    streams->files->streams_ended += !stream->was_reset && strcmp(why, "EOF") != 0;
    if (stream->kind == HTTP3_MESSAGE && stream->begun)
        file_3_part_end(stream, stream->key, false, false);
}

#endif
