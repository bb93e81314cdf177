/* The streams of an HTTP/3 connection (RFC 9114), as a passive observer gets them from QUIC: splits each direction of a stream
 * into frames, independently of how it is divided into pieces, and decodes header blocks.
 *
 * nghttp3's own connections (nghttp3_conn) do not serve here: one is an endpoint, which reads responses only to requests that it
 * has submitted, cannot continue after missing bytes of a body, and uses its own settings for the size of the peer's table.
 * That is why frames are split here, as http2_side.h does, and nghttp3 decodes the header blocks.
 *
 * A connection is HTTP/3 once a control stream begins with SETTINGS. Until then, the bytes of request streams are stored. */
#ifndef HTTP3_STREAM_H
#define HTTP3_STREAM_H

#include "http3_block.h"

/* --- variable-length integers (RFC 9000, 16) --- */

/* Reads bytes of one. Returns true if it is complete. */
static inline bool http3_integer(struct http3_stream *stream, const uint8_t **at, uint32_t *length, uint64_t *value) {
    while (*length) {
        stream->bytes[stream->used++] = *(*at)++;
        --*length;
        if (stream->used < 1u << (stream->bytes[0] >> 6))
            continue;
        stream->bytes[0] &= 0x3f;
        *value = sl_load_be(stream->bytes, stream->used);
        stream->used = 0;
        return true;
    }
    return false;
}

/* Reads one from complete bytes. Returns false if they end before. */
static inline bool http3_take(const uint8_t **at, uint32_t *length, uint64_t *value) {
    uint32_t size = *length ? 1u << (**at >> 6) : 1;
    if (size > *length)
        return false;
    *value = sl_load_be(*at, size) & ~(UINT64_C(3) << (8 * size - 2));
    *at += size;
    *length -= size;
    return true;
}

/* --- frames --- */

static inline void http3_bytes(struct http3_stream *stream, const uint8_t *at, uint32_t length);
static inline void http3_end(struct http3_stream *stream);

/* Processes the bytes that a stream has stored. */
static inline void http3_bytes_held(struct http3_stream *stream) {
    struct log_held held = stream->held;
    stream->held = (struct log_held){NULL, 0, 0};
    http3_bytes(stream, held.at, held.used);
    log_held_free(&held, stream->connection->budget);
}

/* The peer's SETTINGS are known: gives the decoder of a side its table. */
static inline void http3_settled(struct http3_connection *connection, unsigned number) {
    struct http3_stream *encoder = connection->side[number].encoder;
    if (connection->side[!number].table > HTTP3_TABLE_MOST) {
        http3_side_lost(connection, number, "TABLE_TOO_LARGE");
        return;
    }
    if (encoder)
        http3_bytes_held(encoder);
    http3_go_on(connection, number);
}

static inline void http3_settings(struct http3_stream *stream, const uint8_t *at, uint32_t length) {
    enum { QPACK_MAX_TABLE_CAPACITY = 1 };
    struct http3_side *side = &stream->connection->side[stream->sender];
    bool has_table = false;
    while (length) {
        uint64_t name, value;
        if (!http3_take(&at, &length, &name) || !http3_take(&at, &length, &value)) {
            http3_break(stream, "FRAME_ERROR");
            return;
        }
        if (name != QPACK_MAX_TABLE_CAPACITY)
            continue;
        if (has_table) {   /* a setting must not occur twice (RFC 9114, 7.2.4) */
            http3_break(stream, "SETTINGS_ERROR");
            return;
        }
        has_table = true;
        side->table = value;
    }
    side->settled = true;
    http3_settled(stream->connection, !stream->sender);
}

/* The connection is HTTP/3: reads the bytes that were stored. `stream`: of control, of the side `sender`. */
static inline void http3_known(struct http3_stream *stream) {
    struct http3_connection *connection = stream->connection;
    connection->known = true;
    connection->client = stream->number & 1 ? !stream->sender : stream->sender;
    connection->unread = !connection->owner->known(connection);
    for (struct http3_stream *early; (early = connection->early);) {
        bool ended = early->ended;
        http3_stop_waiting(early);
        early->stage = HTTP3_IN_TYPE;
        early->ended = false;
        http3_bytes_held(early);
        if (ended)
            http3_end(early);
    }
}

/* Whether a frame of this type may follow in its stream. */
static inline const char *http3_refusal(const struct http3_stream *stream) {
    uint64_t type = stream->type;
    bool reserved = type == 2 || type == 6 || type == 8 || type == 9;   /* of HTTP/2 (RFC 9114, 7.2.8) */
    bool control = type == HTTP3_CANCEL_PUSH || type == HTTP3_SETTINGS || type == HTTP3_GOAWAY || type == HTTP3_MAX_PUSH_ID;
    bool message = type == HTTP3_DATA || type == HTTP3_HEADERS || type == HTTP3_PUSH_PROMISE;
    if (stream->kind == HTTP3_CONTROL && !stream->begun)
        return type == HTTP3_SETTINGS ? NULL : "MISSING_SETTINGS";
    if (stream->kind == HTTP3_CONTROL)
        return reserved || message || type == HTTP3_SETTINGS ? "FRAME_UNEXPECTED" : NULL;
    if (reserved || control)
        return "FRAME_UNEXPECTED";
    if (type == HTTP3_PUSH_PROMISE && (stream->sender == stream->connection->client || stream->number & 2))
        return "FRAME_UNEXPECTED";
    if (type == HTTP3_DATA && (!stream->begun || stream->trailed))
        return "FRAME_UNEXPECTED";
    return type == HTTP3_HEADERS && stream->trailed ? "FRAME_UNEXPECTED" : NULL;
}

static inline bool http3_collects(const struct http3_stream *stream) {
    return stream->kind == HTTP3_CONTROL ? stream->type == HTTP3_SETTINGS
                                         : stream->type == HTTP3_HEADERS || stream->type == HTTP3_PUSH_PROMISE;
}

/* The head of a frame is complete. */
static inline void http3_framed(struct http3_stream *stream) {
    struct http3_connection *connection = stream->connection;
    const char *why = http3_refusal(stream);
    bool long_head = http3_collects(stream) && stream->left > (stream->kind == HTTP3_CONTROL ? HTTP3_SETTINGS_MOST : HTTP_HEAD_MOST);
    if (stream->kind == HTTP3_CONTROL && !stream->begun && !why && !connection->known)
        http3_known(stream);
    if (why || long_head) {
        http3_break(stream, why ? why : stream->kind == HTTP3_CONTROL ? "EXCESSIVE_LOAD" : "HEAD_TOO_LONG");
        return;
    }
    if (connection->unread) {
        http3_over(stream);
        return;
    }
    stream->stage = HTTP3_IN_PAYLOAD;
    if (stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_HEADERS && !stream->begun)
        connection->owner->begin(stream, stream->key, false);
    stream->trailed |= stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_HEADERS && stream->bodied;
    stream->bodied |= stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_DATA;
    stream->begun |= stream->kind == HTTP3_CONTROL || stream->type == HTTP3_HEADERS;
}

/* A promise (RFC 9114, 7.2.5): the id of a push, and the header block of its request. */
static inline void http3_promise(struct http3_stream *stream, const uint8_t *at, uint32_t length) {
    uint64_t push;
    if (!http3_take(&at, &length, &push)) {
        http3_break(stream, "FRAME_ERROR");
        return;
    }
    http3_block(stream, (push << 2) + 2, true, at, length);
}

/* The payload of a frame is complete. */
static inline void http3_frame_end(struct http3_stream *stream) {
    struct log_held payload = stream->payload;
    stream->payload = (struct log_held){NULL, 0, 0};
    stream->stage = HTTP3_IN_TYPE;
    if (stream->kind == HTTP3_CONTROL && stream->type == HTTP3_SETTINGS)
        http3_settings(stream, payload.at, payload.used);
    else if (stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_HEADERS)
        http3_block(stream, stream->key, false, payload.at, payload.used);
    else if (stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_PUSH_PROMISE)
        http3_promise(stream, payload.at, payload.used);
    log_held_free(&payload, stream->connection->budget);
}

static inline void http3_payload(struct http3_stream *stream, const uint8_t *at, uint32_t length) {
    struct http3_connection *connection = stream->connection;
    stream->left -= length;
    if (http3_collects(stream)) {
        if (!log_held_add(&stream->payload, connection->budget, at, length, HTTP_HEAD_MOST))
            http3_break(stream, "NO_MEMORY");
    } else if (stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_DATA) {
        connection->owner->data(stream, length, 0);
        if (connection->owner->content)
            connection->owner->content(stream, at, length);
    }
}

/* --- streams --- */

/* The type of a unidirectional stream is known (RFC 9114, 6.2; RFC 9204, 4.2). */
static inline void http3_typed(struct http3_stream *stream, uint64_t type) {
    struct http3_side *side = &stream->connection->side[stream->sender];
    bool *has = type == 0 ? &side->has_control : &side->has_encoder;
    stream->kind = type == 0 ? HTTP3_CONTROL : type == 1 ? HTTP3_MESSAGE : type == 2 ? HTTP3_ENCODER : HTTP3_OTHER;
    stream->stage = type == 0 ? HTTP3_IN_TYPE : type == 1 ? HTTP3_IN_PUSH_ID : HTTP3_IN_BYTES;
    bool pushes = type == 1 && stream->number & 1;   /* clients must not */
    if (pushes || type > 2)
        return;
    if (type == 1 || *has) {
        stream->kind = HTTP3_OTHER;
        http3_break(stream, "STREAM_CREATION_ERROR");
        return;
    }
    *has = true;
    if (type == 2)
        side->encoder = stream;
}

/* Bytes of a stream that is not split into frames. */
static inline void http3_raw(struct http3_stream *stream, const uint8_t *at, uint32_t length) {
    struct http3_connection *connection = stream->connection;
    struct http3_side *side = &connection->side[stream->sender];
    if (stream->kind != HTTP3_ENCODER || connection->unread)
        return;
    if (!connection->side[!stream->sender].settled) {
        if (!log_held_add(&stream->held, connection->budget, at, length, HTTP3_EARLY_MOST))
            http3_break(stream, stream->held.used + length > HTTP3_EARLY_MOST ? "BLOCKED" : "NO_MEMORY");
        return;
    }
    if (side->lost)
        return;
    void *decoder = http3_decoder_of(connection, stream->sender, true);
    ssize_t done = decoder ? 0 : HTTP3_NO_MEMORY;
    while (length && done >= 0 && !side->lost) {
        /* byte by byte, as an error spoils the decoder for blocks that the instructions before it complete */
        uint32_t take = side->waiting ? 1 : length;
        uint64_t before = connection->qpack->inserted(decoder);
        done = connection->qpack->insert(decoder, at, take);
        at += take;
        length -= take;
        if (done >= 0 && connection->qpack->inserted(decoder) != before)
            http3_go_on(connection, stream->sender);
    }
    if (done < 0)
        http3_break(stream, done == HTTP3_NO_MEMORY ? "NO_MEMORY" : "COMPRESSION_ERROR");
}

/* Stores bytes of a stream until the connection is known to be HTTP/3. */
static inline void http3_early(struct http3_stream *stream, const uint8_t *at, uint32_t length) {
    struct http3_connection *connection = stream->connection;
    connection->stored = true;
    bool room = stream->place || connection->early_count < HTTP3_WAITING_MOST;
    if (!room || !log_held_add(&stream->held, connection->budget, at, length, HTTP3_EARLY_MOST)) {
        connection->early_lost++;
        http3_over(stream);
    } else if (!stream->place) {
        connection->early_count++;
        http3_link(stream, &connection->early);
    }
}

/* A stream that had no bytes to store until the connection was known is read like others. */
static inline void http3_look(struct http3_stream *stream) {
    if (stream->stage == HTTP3_EARLY && stream->connection->known)
        stream->stage = HTTP3_IN_TYPE;
}

/* Processes bytes of a stream, in order. */
static inline void http3_bytes(struct http3_stream *stream, const uint8_t *at, uint32_t length) {
    uint64_t value;
    http3_look(stream);
    while (length && stream->stage != HTTP3_OVER) {
        uint32_t take;
        switch ((enum http3_stage)stream->stage) {
        case HTTP3_EARLY:
            http3_early(stream, at, length);
            return;
        case HTTP3_IN_KIND:
            if (http3_integer(stream, &at, &length, &value))
                http3_typed(stream, value);
            break;
        case HTTP3_IN_PUSH_ID:
            if (!http3_integer(stream, &at, &length, &value))
                break;
            stream->key = (value << 2) + 2;
            stream->stage = stream->connection->known ? HTTP3_IN_TYPE : HTTP3_EARLY;
            break;
        case HTTP3_IN_TYPE:
            if (!http3_integer(stream, &at, &length, &stream->type))
                break;
            stream->stage = HTTP3_IN_LENGTH;
            if (stream->type == HTTP3_WEBTRANSPORT && stream->kind == HTTP3_MESSAGE && !stream->begun)   /* no frames follow */
                http3_over(stream);
            break;
        case HTTP3_IN_LENGTH:
            if (http3_integer(stream, &at, &length, &stream->left))
                http3_framed(stream);
            break;
        case HTTP3_IN_PAYLOAD:
            take = (uint32_t)sl_min(stream->left, length);
            http3_payload(stream, at, take);
            at += take;
            length -= take;
            break;
        case HTTP3_IN_BYTES:
            http3_raw(stream, at, length);
            return;
        case HTTP3_OVER:
            return;
        }
        if (stream->stage == HTTP3_IN_PAYLOAD && !stream->left)
            http3_frame_end(stream);
    }
}

/* Begins a direction of a stream. */
static inline void http3_begin(struct http3_stream *stream, struct http3_connection *connection, uint64_t number, unsigned sender) {
    *stream = (struct http3_stream){.connection = connection, .number = number, .sender = (uint8_t)sender};
    if (number & 2) {
        stream->stage = HTTP3_IN_KIND;
        return;
    }
    stream->kind = number & 1 ? HTTP3_OTHER : HTTP3_MESSAGE;   /* servers begin streams only for extensions */
    stream->key = number + 1;
    stream->stage = number & 1 ? HTTP3_OVER : connection->known ? HTTP3_IN_TYPE : HTTP3_EARLY;
}

/* Handles missing bytes. */
static inline void http3_gap(struct http3_stream *stream, uint64_t length) {
    bool payload = stream->stage == HTTP3_IN_PAYLOAD && !http3_collects(stream);
    if (stream->kind == HTTP3_OTHER || stream->stage == HTTP3_OVER)
        return;
    if (!payload || length > stream->left) {
        http3_break(stream, "GAP");
        return;
    }
    stream->left -= length;
    if (stream->kind == HTTP3_MESSAGE && stream->type == HTTP3_DATA)
        stream->connection->owner->data(stream, 0, length);
    if (!stream->left)
        http3_frame_end(stream);
}

/* The stream has ended, after all its bytes. */
static inline void http3_end(struct http3_stream *stream) {
    http3_look(stream);
    stream->ended = true;
    if (stream->kind != HTTP3_MESSAGE || stream->stage == HTTP3_OVER || stream->stage == HTTP3_EARLY)
        return;
    if (stream->stage != HTTP3_IN_TYPE || stream->used)
        http3_break(stream, "FRAME_ERROR");
    else if (!stream->place)
        http3_finish(stream);
}

/* Its sender has reset the stream. */
static inline void http3_reset(struct http3_stream *stream, uint64_t code) {
    static const char *const codes[] = {   /* RFC 9114, 8.1, from 0x100 on */
        "NO_ERROR", "GENERAL_PROTOCOL_ERROR", "INTERNAL_ERROR", "STREAM_CREATION_ERROR", "CLOSED_CRITICAL_STREAM",
        "FRAME_UNEXPECTED", "FRAME_ERROR", "EXCESSIVE_LOAD", "ID_ERROR", "SETTINGS_ERROR", "MISSING_SETTINGS", "REQUEST_REJECTED",
        "REQUEST_CANCELLED", "REQUEST_INCOMPLETE", "MESSAGE_ERROR", "CONNECT_ERROR", "VERSION_FALLBACK"};
    stream->was_reset = true;
    bool known = code >= 0x100 && code - 0x100 < sizeof codes / sizeof *codes;
    http3_break(stream, known ? codes[code - 0x100] : "UNKNOWN_ERROR");
}

/* Frees the state of a stream; `why`: its message is broken by this if it is not complete. */
static inline void http3_stream_close(struct http3_stream *stream, const char *why) {
    if (stream->kind == HTTP3_MESSAGE && stream->place && stream->stage != HTTP3_EARLY)
        why = "BLOCKED";
    if (stream->kind == HTTP3_MESSAGE && stream->begun)
        http3_break(stream, why);
    http3_over(stream);
}

/* Frees the state of a connection; its streams are closed. */
static inline void http3_close(struct http3_connection *connection) {
    for (unsigned i = 0; i < 2; i++) {
        if (connection->side[i].decoder)
            connection->qpack->destroy(connection->side[i].decoder);
        if (connection->side[i].plain)
            connection->qpack->destroy(connection->side[i].plain);
    }
}

#endif
