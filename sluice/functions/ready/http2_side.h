/* One side of an HTTP/2 connection (RFC 9113): splits the stream into frames, and decodes header blocks, independently of
 * how the stream is divided into pieces. Only the needed part of a frame is stored: no frame or block is collected.
 *
 * Without all earlier blocks, a block cannot be decoded. That is why a side ends at a gap, but for one within the payload of
 * a frame that is not part of a block, which loses only its own bytes. */
#ifndef HTTP2_SIDE_H
#define HTTP2_SIDE_H

#include "http2_hpack.h"
#include "http_message.h"

enum http2_type {
    HTTP2_DATA = 0, HTTP2_HEADERS = 1, HTTP2_RST_STREAM = 3, HTTP2_SETTINGS = 4, HTTP2_PUSH_PROMISE = 5, HTTP2_CONTINUATION = 9
};
enum { HTTP2_END_STREAM = 1, HTTP2_END_HEADERS = 4, HTTP2_PADDED = 8, HTTP2_PRIORITY = 32 };   /* flags */
enum { HTTP2_PREFACE_SIZE = 24, HTTP2_HEAD_SIZE = 9, HTTP2_FIELD_COST = 32 /* RFC 7541, 4.1 */ };
enum http2_stage { HTTP2_IN_PREFACE, HTTP2_IN_HEAD, HTTP2_IN_PREFIX, HTTP2_IN_PAYLOAD, HTTP2_IN_PADDING, HTTP2_ENDED };

static const char http2_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct http2_side;

/* The callbacks of a side's owner. Streams have numbers. */
struct http2_owner {
    /* A header block begins: of a message or its trailers, or, if `promised`, of the request of a pushed response. */
    void (*headers)(struct http2_side *side, uint32_t stream, bool promised);
    void (*field)(struct http2_side *side, const struct http2_field *field);
    void (*headed)(struct http2_side *side);
    /* A frame of a body begins. */
    void (*body)(struct http2_side *side, uint32_t stream);
    void (*data)(struct http2_side *side, uint64_t length, uint64_t missing);
    /* The frame was the last one of its message. */
    void (*complete)(struct http2_side *side);
    void (*reset)(struct http2_side *side, uint32_t stream, uint32_t code);
    /* The bytes of the body that `data` has counted. NULL: they are not needed. */
    void (*content)(struct http2_side *side, const uint8_t *at, size_t length);
};

struct http2_side {
    const struct http2_owner *owner;
    struct http2_library *hpack;
    void *user, *inflater;
    enum http2_stage stage;
    bool response;                   /* it sends responses */
    bool settled;                    /* its first frame, SETTINGS, has begun */
    bool headers;                    /* it has sent a header block */
    uint8_t bytes[HTTP2_PREFACE_SIZE], used, wanted;   /* the preface, or the fixed fields at the beginning of a frame */
    uint8_t type, flags;             /* of the current frame */
    uint32_t stream, left, padding;  /* `left`: bytes of its payload that follow, without its padding */
    bool in_block, ends;             /* in a header block; the message ends with the block */
    uint32_t block_stream;           /* the stream of its frames */
    uint64_t block, list;            /* size of the block as it is sent, and decoded */
    bool sizes_over;                 /* the sizes of the table at the beginning of the block are over */
    uint8_t shift;                   /* of such a size: bits that precede; 0: it has not begun */
    uint64_t size;
    const char *error;               /* the reason if the side has ended */
};

static inline void http2_want(struct http2_side *side, enum http2_stage stage, uint8_t bytes) {
    side->stage = stage;
    side->wanted = bytes;
    side->used = 0;
}

/* Begins a side at its first byte. Returns false without memory. */
static inline bool http2_begin(struct http2_side *side, bool response) {
    side->response = response;
    http2_want(side, response ? HTTP2_IN_HEAD : HTTP2_IN_PREFACE, response ? HTTP2_HEAD_SIZE : HTTP2_PREFACE_SIZE);
    side->inflater = http2_inflater(side->hpack);
    return side->inflater;
}

static inline void http2_side_free(struct http2_side *side) {
    if (side->inflater)
        side->hpack->destroy(side->inflater);
    side->inflater = NULL;
}

static inline void http2_end(struct http2_side *side, const char *error) {
    side->stage = HTTP2_ENDED;
    side->error = error;
    http2_side_free(side);
}

/* --- header blocks --- */

/* Reads the sizes of the table with which a block may begin (RFC 7541, 6.3). Returns false if one exceeds the bound. */
static inline bool http2_table_sizes(struct http2_side *side, const uint8_t *at, size_t length) {
    for (; length && !side->sizes_over; at++, length--) {
        bool more;
        if (!side->shift) {
            side->sizes_over = (*at & 0xe0) != 0x20;
            side->size = *at & 0x1f;
            more = !side->sizes_over && side->size == 0x1f;
            side->shift = more ? 1 : 0;   /* a prefix of ones: 7 bits of each following byte are added (RFC 7541, 5.1) */
        } else {
            if (side->shift > 28)
                return false;
            side->size += (uint64_t)(*at & 0x7f) << (side->shift - 1);
            more = *at & 0x80;
            side->shift = more ? (uint8_t)(side->shift + 7) : 0;
        }
        if (!side->sizes_over && !more && side->size > HTTP2_TABLE_MOST)
            return false;
    }
    return true;
}

/* Decodes bytes of a block; `last`: it ends after them. */
static inline void http2_inflate(struct http2_side *side, const uint8_t *at, size_t length, bool last) {
    side->block += length;
    if (!http2_table_sizes(side, at, length)) {
        http2_end(side, "TABLE_TOO_LARGE");
        return;
    }
    while (length || last) {
        struct http2_field field;
        int flags = 0;
        ssize_t done = side->hpack->inflate(side->inflater, &field, &flags, at, length, last);
        if (done < 0) {
            http2_end(side, done == HTTP2_NO_MEMORY ? "NO_MEMORY" : "COMPRESSION_ERROR");
            return;
        }
        at += done;
        length -= (size_t)done;
        if (flags & HTTP2_EMIT) {
            side->list += field.name_length + field.value_length + HTTP2_FIELD_COST;
            if (side->list > HTTP_HEAD_MOST)
                break;
            side->owner->field(side, &field);
        }
        if (flags & HTTP2_FINAL) {
            side->hpack->end(side->inflater);
            return;
        }
        if (!flags && !length)
            break;
    }
    if (side->list > HTTP_HEAD_MOST || side->block > HTTP_HEAD_MOST)
        http2_end(side, "HEAD_TOO_LONG");
}

/* --- frames --- */

static inline bool http2_is_block(const struct http2_side *side) {
    return side->type == HTTP2_HEADERS || side->type == HTTP2_CONTINUATION || side->type == HTTP2_PUSH_PROMISE;
}

/* Whether a frame may follow (RFC 9113, 3.4 and 6). `length`: of its payload. */
static inline bool http2_is_valid(const struct http2_side *side, uint32_t length) {
    bool block = http2_is_block(side);
    if (!side->settled && side->type != HTTP2_SETTINGS)
        return false;
    if (side->in_block ? side->type != HTTP2_CONTINUATION || side->stream != side->block_stream : side->type == HTTP2_CONTINUATION)
        return false;
    if (side->type == HTTP2_SETTINGS)
        return !side->stream && length % 6 == 0;
    if (side->type == HTTP2_RST_STREAM)
        return side->stream && length == 4;
    if (side->type == HTTP2_PUSH_PROMISE && !side->response)
        return false;
    if (side->type == HTTP2_HEADERS && !side->response && side->stream % 2 == 0)
        return false;
    return side->stream || !(block || side->type == HTTP2_DATA);
}

/* The head of a frame is complete. */
static inline void http2_framed(struct http2_side *side) {
    uint32_t length = (uint32_t)sl_load_be(side->bytes, 3);
    side->type = side->bytes[3];
    side->flags = side->bytes[4];
    side->stream = (uint32_t)sl_load_be(side->bytes + 5, 4) & 0x7fffffff;
    bool may_pad = side->type == HTTP2_DATA || side->type == HTTP2_HEADERS || side->type == HTTP2_PUSH_PROMISE;
    if (!may_pad)
        side->flags &= (uint8_t)~HTTP2_PADDED;
    uint8_t prefix = side->flags & HTTP2_PADDED ? 1 : 0;
    if (side->type == HTTP2_HEADERS && (side->flags & HTTP2_PRIORITY))
        prefix += 5;
    else if (side->type == HTTP2_PUSH_PROMISE || side->type == HTTP2_RST_STREAM)
        prefix += 4;
    if (!http2_is_valid(side, length) || prefix > length) {
        http2_end(side, "PROTOCOL_ERROR");
        return;
    }
    side->settled = true;
    side->left = length - prefix;
    http2_want(side, HTTP2_IN_PREFIX, prefix);
}

/* The fixed fields at the beginning of a payload are complete. */
static inline void http2_prefixed(struct http2_side *side) {
    bool padded = side->flags & HTTP2_PADDED;
    uint32_t number = (uint32_t)sl_load_be(side->bytes + padded, 4) & 0x7fffffff;
    side->padding = padded ? side->bytes[0] : 0;
    if (side->padding > side->left || (side->type == HTTP2_PUSH_PROMISE && (!number || number % 2))) {
        http2_end(side, "PROTOCOL_ERROR");
        return;
    }
    side->left -= side->padding;
    side->stage = HTTP2_IN_PAYLOAD;
    if (side->type == HTTP2_HEADERS || side->type == HTTP2_PUSH_PROMISE) {
        side->in_block = side->headers = true;
        side->block_stream = side->stream;
        side->ends = side->type == HTTP2_HEADERS && (side->flags & HTTP2_END_STREAM);
        side->block = side->list = 0;
        side->sizes_over = false;
        side->shift = 0;
        side->owner->headers(side, side->type == HTTP2_HEADERS ? side->stream : number, side->type == HTTP2_PUSH_PROMISE);
    } else if (side->type == HTTP2_DATA) {
        side->owner->body(side, side->stream);
    } else if (side->type == HTTP2_RST_STREAM) {
        side->owner->reset(side, side->stream, (uint32_t)sl_load_be(side->bytes, 4));
    }
    if (http2_is_block(side))
        side->block += HTTP2_HEAD_SIZE;   /* so that frames without bytes are bounded, too */
}

/* A frame is complete. */
static inline void http2_frame_end(struct http2_side *side) {
    http2_want(side, HTTP2_IN_HEAD, HTTP2_HEAD_SIZE);
    if (http2_is_block(side)) {
        bool over = side->flags & HTTP2_END_HEADERS;
        http2_inflate(side, (const uint8_t *)"", 0, over);
        if (!over || side->stage == HTTP2_ENDED)
            return;
        side->in_block = false;
        side->owner->headed(side);
        if (side->ends)
            side->owner->complete(side);
    } else if (side->type == HTTP2_DATA && (side->flags & HTTP2_END_STREAM)) {
        side->owner->complete(side);
    }
}

/* Leaves the stages that need no further byte. */
static inline void http2_advance(struct http2_side *side) {
    if (side->stage == HTTP2_IN_PREFACE && side->used == side->wanted) {
        if (memcmp(side->bytes, http2_preface, HTTP2_PREFACE_SIZE) == 0)
            http2_want(side, HTTP2_IN_HEAD, HTTP2_HEAD_SIZE);
        else
            http2_end(side, "PROTOCOL_ERROR");
    }
    if (side->stage == HTTP2_IN_HEAD && side->used == side->wanted)
        http2_framed(side);
    if (side->stage == HTTP2_IN_PREFIX && side->used == side->wanted)
        http2_prefixed(side);
    if (side->stage == HTTP2_IN_PAYLOAD && !side->left)
        side->stage = HTTP2_IN_PADDING;
    if (side->stage == HTTP2_IN_PADDING && !side->padding)
        http2_frame_end(side);
}

/* Processes bytes of the stream, in order. */
static inline void http2_bytes(struct http2_side *side, const uint8_t *at, uint32_t length) {
    while (length && side->stage != HTTP2_ENDED) {
        uint32_t take = 0;
        if (side->stage == HTTP2_IN_PAYLOAD) {
            take = (uint32_t)sl_min(side->left, length);
            side->left -= take;
            if (http2_is_block(side))
                http2_inflate(side, at, take, false);
            else if (side->type == HTTP2_DATA)
                side->owner->data(side, take, 0);
            if (side->type == HTTP2_DATA && side->owner->content)
                side->owner->content(side, at, take);
        } else if (side->stage == HTTP2_IN_PADDING) {
            take = (uint32_t)sl_min(side->padding, length);
            side->padding -= take;
        } else {
            take = (uint32_t)sl_min((uint32_t)(side->wanted - side->used), length);
            memcpy(side->bytes + side->used, at, take);
            side->used += (uint8_t)take;
        }
        at += take;
        length -= take;
        http2_advance(side);
    }
}

/* Handles missing bytes. */
static inline void http2_gap(struct http2_side *side, uint64_t length) {
    if (side->stage == HTTP2_ENDED)
        return;
    bool payload = side->stage == HTTP2_IN_PAYLOAD && !http2_is_block(side);
    uint64_t lost = payload ? sl_min(length, side->left) : 0;
    if (!(payload || side->stage == HTTP2_IN_PADDING) || length - lost > side->padding) {
        http2_end(side, "GAP");
        return;
    }
    side->left -= (uint32_t)lost;
    side->padding -= (uint32_t)(length - lost);
    if (side->type == HTTP2_DATA)
        side->owner->data(side, 0, lost);
    http2_advance(side);
}

#endif
