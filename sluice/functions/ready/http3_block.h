/* The state of an HTTP/3 connection and its streams, and the header blocks of messages: a block that needs entries of the table
 * (QPACK, RFC 9204) waits for the peer's SETTINGS and for the encoder's stream; bodies do not wait. */
#ifndef HTTP3_BLOCK_H
#define HTTP3_BLOCK_H

#include "http3_qpack.h"
#include "log_held.h"

enum http3_type {   /* of frames (RFC 9114, 7.2) */
    HTTP3_DATA = 0, HTTP3_HEADERS = 1, HTTP3_CANCEL_PUSH = 3, HTTP3_SETTINGS = 4, HTTP3_PUSH_PROMISE = 5, HTTP3_GOAWAY = 7,
    HTTP3_MAX_PUSH_ID = 13, HTTP3_WEBTRANSPORT = 0x41
};
enum http3_kind { HTTP3_UNTYPED, HTTP3_MESSAGE, HTTP3_CONTROL, HTTP3_ENCODER, HTTP3_OTHER };   /* of streams */
enum http3_stage {
    HTTP3_EARLY, HTTP3_IN_KIND, HTTP3_IN_PUSH_ID, HTTP3_IN_TYPE, HTTP3_IN_LENGTH, HTTP3_IN_PAYLOAD, HTTP3_IN_BYTES, HTTP3_OVER
};
enum {
    HTTP3_EARLY_MOST = 1 << 16,      /* bytes of a stream that are stored before the connection is known to be HTTP/3 */
    HTTP3_SETTINGS_MOST = 4096,      /* bytes of a SETTINGS frame */
    HTTP3_WAITING_MOST = 256,        /* streams of a side that wait */
};

struct http3_stream;
struct http3_connection;

/* The callbacks of a connection's owner. A key is the number of an exchange in its connection: of the stream of its request, or of
 * a push; never 0. */
struct http3_owner {
    /* The connection is HTTP/3. Returns whether it is read. */
    bool (*known)(struct http3_connection *connection);
    /* A header block begins; if `promised`, of the request of a pushed response. The first one of a message, and others that do
     * not wait for their table, are announced twice: when they begin, and when they are decoded. */
    void (*begin)(struct http3_stream *stream, uint64_t key, bool promised);
    void (*field)(struct http3_stream *stream, uint64_t key, bool promised, const struct http2_field *field);
    /* The block is complete. `interim`: the final response follows. */
    void (*headed)(struct http3_stream *stream, uint64_t key, bool promised, bool interim);
    void (*data)(struct http3_stream *stream, uint64_t length, uint64_t missing);
    /* The bytes of the body that `data` has counted. NULL: they are not needed. */
    void (*content)(struct http3_stream *stream, const uint8_t *at, size_t length);
    void (*complete)(struct http3_stream *stream);
    /* The stream, of whatever kind, is not read further. */
    void (*broken)(struct http3_stream *stream, const char *why);
};

struct http3_side {
    bool has_control, has_encoder;
    bool settled;                    /* its SETTINGS are known */
    uint64_t table;                  /* by these, the maximum size of its peer's table */
    void *decoder;                   /* of its messages; NULL: no block has needed its table */
    void *plain;                     /* of blocks that need no table, for which SETTINGS need not be known */
    const char *lost;                /* why the table is not known further */
    struct http3_stream *encoder;    /* NULL: not seen, or over */
    struct http3_stream *waiting;    /* streams with header blocks that wait */
    uint32_t waiting_count;
};

struct http3_connection {
    const struct http3_owner *owner;
    struct http3_library *qpack;
    struct log_budget *budget;
    void *user;
    bool known, unread;              /* it is HTTP/3; but it is not read */
    unsigned client;                 /* the side that sends requests */
    struct http3_side side[2];
    struct http3_stream *early;      /* streams whose bytes are stored until it is known */
    uint32_t early_count;
    bool stored;                     /* there were such bytes, or streams that were not read before it was known */
    uint64_t early_lost;             /* streams that were not stored completely */
    uint64_t early_refused;          /* streams with a frame, or of a type, that must not be */
};

/* One side of a stream. */
struct http3_stream {
    struct http3_connection *connection;
    void *user;                      /* the owner's */
    struct http3_stream *next, **place;   /* in a list */
    uint64_t number, key;
    uint64_t time;                   /* of its last packet, or of the first one if its bytes are stored */
    uint64_t received;               /* its bytes so far, gaps included */
    uint8_t sender;
    uint8_t kind, stage;
    uint8_t bytes[8], used;          /* of a variable-length integer */
    bool begun, headed;              /* it has begun a header block; that of its final message is decoded */
    bool bodied, trailed;            /* a body, and trailers after it, have begun */
    bool interim;                    /* the current block is that of an interim response */
    bool ended;                      /* all its bytes were received */
    bool was_reset;                  /* by its sender */
    uint64_t type, left;             /* of the current frame, and of its payload */
    uint64_t needs;                  /* insertions that its first waiting block needs */
    struct log_held held;            /* bytes that are stored until they can be read, or blocks that wait */
    struct log_held payload;         /* of the current frame */
};

/* --- lists --- */

static inline void http3_unlink(struct http3_stream *stream) {
    if (!stream->place)
        return;
    *stream->place = stream->next;
    if (stream->next)
        stream->next->place = stream->place;
    stream->place = NULL;
}

static inline void http3_link(struct http3_stream *stream, struct http3_stream **list) {
    while (*list)                    /* a list has few members; they remain in order */
        list = &(*list)->next;
    stream->place = list;
    stream->next = NULL;
    *list = stream;
}

static inline void http3_stop_waiting(struct http3_stream *stream) {
    if (!stream->place)
        return;
    http3_unlink(stream);
    if (stream->stage == HTTP3_EARLY)
        stream->connection->early_count--;
    else
        stream->connection->side[stream->sender].waiting_count--;
}

/* --- the end of a stream --- */

/* No more of the stream is read. */
static inline void http3_over(struct http3_stream *stream) {
    struct http3_side *side = &stream->connection->side[stream->sender];
    http3_stop_waiting(stream);
    if (side->encoder == stream)
        side->encoder = NULL;
    log_held_free(&stream->held, stream->connection->budget);
    log_held_free(&stream->payload, stream->connection->budget);
    stream->stage = HTTP3_OVER;
}

static inline void http3_side_lost(struct http3_connection *connection, unsigned number, const char *why);

/* Counts a stream that is not read further before the connection is known to be HTTP/3. */
static inline void http3_break_early(struct http3_stream *stream, uint8_t kind, const char *why) {
    struct http3_connection *connection = stream->connection;
    bool lost = kind == HTTP3_MESSAGE || stream->was_reset || !strcmp(why, "GAP") || !strcmp(why, "NO_MEMORY") || !strcmp(why, "BLOCKED");
    connection->stored = true;
    connection->early_lost += lost;
    connection->early_refused += !lost;
}

static inline void http3_break(struct http3_stream *stream, const char *why) {
    struct http3_connection *connection = stream->connection;
    uint8_t kind = stream->kind, sender = stream->sender;
    if (stream->stage == HTTP3_OVER)
        return;
    http3_over(stream);
    if (connection->known)
        connection->owner->broken(stream, why);
    else
        http3_break_early(stream, kind, why);
    if (kind == HTTP3_CONTROL && !connection->side[sender].settled)
        http3_side_lost(connection, !sender, why);
    else if (kind == HTTP3_ENCODER)
        http3_side_lost(connection, sender, why);
}

/* The table of a side is no longer known: blocks that need it cannot be decoded. */
static inline void http3_side_lost(struct http3_connection *connection, unsigned number, const char *why) {
    struct http3_side *side = &connection->side[number];
    side->lost = side->lost ? side->lost : why;
    while (side->waiting)
        http3_break(side->waiting, side->lost);
}

static inline void http3_finish(struct http3_stream *stream) {
    if (stream->headed)
        stream->connection->owner->complete(stream);
    else
        http3_break(stream, "REQUEST_INCOMPLETE");
    http3_over(stream);
}

/* --- header blocks --- */

struct http3_block { struct http3_stream *stream; uint64_t key; bool promised; };

static inline void http3_field(void *user, const struct http2_field *field) {
    const struct http3_block *block = user;
    struct http3_stream *stream = block->stream;
    bool response = !block->promised && stream->sender != stream->connection->client;
    if (response && http2_field_is(field, ":status"))
        stream->interim = field->value_length && field->value[0] == '1';
    stream->connection->owner->field(stream, block->key, block->promised, field);
}

/* Whether the table of a side's messages has a known, permitted size. */
static inline bool http3_has_table(const struct http3_connection *connection, unsigned number) {
    const struct http3_side *peer = &connection->side[!number];
    return peer->settled && peer->table <= HTTP3_TABLE_MOST;
}

/* Returns the decoder for a side's messages, with its table or without; NULL without memory. */
static inline void *http3_decoder_of(struct http3_connection *connection, unsigned number, bool table) {
    struct http3_side *side = &connection->side[number];
    void **decoder = table ? &side->decoder : &side->plain;
    if (!*decoder)
        *decoder = http3_decoder(connection->qpack, table ? connection->side[!number].table : 0);
    return *decoder;
}

/* A decoder has failed, and decodes nothing more. Blocks that need no table get another one. */
static inline void http3_decoder_failed(struct http3_connection *connection, unsigned number, bool table, const char *why) {
    struct http3_side *side = &connection->side[number];
    if (table) {
        http3_side_lost(connection, number, why);
    } else {
        connection->qpack->destroy(side->plain);
        side->plain = NULL;
    }
}

/* Decodes a block. Returns false if it has to wait. A block that begins with 0 needs no table (RFC 9204, 4.5.1.1). */
static inline bool http3_decoded(struct http3_stream *stream, uint64_t key, bool promised, const uint8_t *at, uint32_t length) {
    struct http3_connection *connection = stream->connection;
    struct http3_side *side = &connection->side[stream->sender];
    struct http3_block block = {stream, key, promised};
    struct http3_result result = {.why = length ? NULL : "COMPRESSION_ERROR"};
    bool table = length && at[0];
    if (table && !http3_has_table(connection, stream->sender)) {
        if (!side->lost)
            return false;
        result.why = side->lost;
    }
    void *decoder = result.why ? NULL : http3_decoder_of(connection, stream->sender, table);
    stream->interim = false;
    connection->owner->begin(stream, key, promised);
    if (decoder)
        result = http3_decode(connection->qpack, decoder, stream->number, at, length, http3_field, &block);
    else if (!result.why)
        result.why = "NO_MEMORY";
    stream->needs = result.needs;
    if (result.needs) {
        if (!side->lost)
            return false;
        result.why = side->lost;
    }
    if (result.why) {
        http3_break(stream, result.why);
        if (result.failed)
            http3_decoder_failed(connection, stream->sender, table, result.why);
        return true;
    }
    if (!promised)
        stream->headed = !stream->interim;
    connection->owner->headed(stream, key, promised, !promised && stream->interim);
    return true;
}

/* Stores a block until its table is there. */
static inline void http3_wait(struct http3_stream *stream, uint64_t key, bool promised, const uint8_t *at, uint32_t length) {
    struct http3_connection *connection = stream->connection;
    struct http3_side *side = &connection->side[stream->sender];
    uint64_t words[3] = {key, promised, length};
    if (!stream->place) {
        if (side->waiting_count >= HTTP3_WAITING_MOST) {
            http3_break(stream, "BLOCKED");
            return;
        }
        side->waiting_count++;
        http3_link(stream, &side->waiting);
    }
    if (!log_held_add(&stream->held, connection->budget, (const uint8_t *)words, sizeof words, HTTP_HEAD_MOST) ||
        !log_held_add(&stream->held, connection->budget, at, length, HTTP_HEAD_MOST))
        http3_break(stream, stream->held.used + length + sizeof words > HTTP_HEAD_MOST ? "HEAD_TOO_LONG" : "NO_MEMORY");
}

/* The streams of a side that wait for the table decode as many of their blocks as they can. */
static inline void http3_go_on(struct http3_connection *connection, unsigned number) {
    struct http3_side *side = &connection->side[number];
    uint64_t inserted = side->decoder ? connection->qpack->inserted(side->decoder) : 0;
    for (struct http3_stream *stream = side->waiting, *next; stream; stream = next) {
        bool waits = stream->needs > inserted;
        uint32_t done = 0;
        next = stream->next;
        while (!waits && done < stream->held.used) {   /* a stream that is broken has no bytes left */
            uint64_t words[3];
            const uint8_t *at = stream->held.at + done;
            memcpy(words, at, sizeof words);
            bool skip = stream->headed && !words[1];   /* trailers */
            waits = !skip && !http3_decoded(stream, words[0], words[1], at + sizeof words, (uint32_t)words[2]);
            done += waits ? 0 : (uint32_t)(sizeof words + words[2]);
        }
        if (stream->stage == HTTP3_OVER)
            continue;
        if (done)
            log_held_skip(&stream->held, done);
        if (waits)
            continue;
        http3_stop_waiting(stream);
        if (stream->ended)
            http3_finish(stream);
    }
}

/* A block is complete. */
static inline void http3_block(struct http3_stream *stream, uint64_t key, bool promised, const uint8_t *at, uint32_t length) {
    if (stream->headed && !promised)   /* trailers */
        return;
    if (stream->place || !http3_decoded(stream, key, promised, at, length))
        http3_wait(stream, key, promised, at, length);
}

#endif
