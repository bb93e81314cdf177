/* libnghttp3, which decodes header blocks of HTTP/3 (QPACK, RFC 9204). It is loaded if it is there: version 0.8 or 1.x, whose
 * functions for this are the same. Its memory is taken from a log's budget. */
#ifndef HTTP3_QPACK_H
#define HTTP3_QPACK_H

#include "http2_hpack.h"
#include "http_message.h"

enum {
    HTTP3_TABLE_MOST = 1 << 16,      /* maximum size of a dynamic table; no common implementation has a larger one */
    HTTP3_EMIT = 1, HTTP3_FINAL = 2, HTTP3_WAITS = 4,   /* NGHTTP3_QPACK_DECODE_FLAG_... */
    HTTP3_NO_MEMORY = -901,          /* NGHTTP3_ERR_NOMEM */
    HTTP3_FIELD_COST = 32,           /* RFC 9114, 4.2.2 */
};

struct http3_pair {                  /* nghttp3_qpack_nv */
    void *name, *value;              /* nghttp3_rcbuf */
    int32_t token;
    uint8_t flags;
};

struct http3_bytes { uint8_t *at; size_t length; };   /* nghttp3_vec */
struct http3_space { uint8_t *begin, *end, *at, *last; };   /* nghttp3_buf */

struct http3_library {
    int (*create)(void **decoder, size_t table, size_t blocked, const struct http2_memory *memory);   /* NULL: no library */
    void (*destroy)(void *decoder);
    ssize_t (*insert)(void *decoder, const uint8_t *at, size_t length);   /* bytes of the encoder's stream */
    uint64_t (*inserted)(const void *decoder);
    int (*begin)(void **block, int64_t stream, const struct http2_memory *memory);
    void (*end)(void *block);
    uint64_t (*needs)(void *block);
    ssize_t (*decode)(void *decoder, void *block, struct http3_pair *pair, uint8_t *flags, const uint8_t *at, size_t length,
                      int last);
    size_t (*pending)(void *decoder);   /* bytes of the decoder's stream, which an endpoint would send */
    void (*take)(void *decoder, struct http3_space *to);
    struct http3_bytes (*text)(const void *part);
    void (*release)(void *part);
    struct http2_memory memory;
};

/* Loads the library. Returns false if it is not there. */
SL_COLD bool http3_library_open(struct http3_library *qpack, struct log_budget *budget) {
    void *library = dlopen("libnghttp3.so.9", RTLD_NOW | RTLD_LOCAL);
    library = library ? library : dlopen("libnghttp3.so.3", RTLD_NOW | RTLD_LOCAL);
    *qpack = (struct http3_library){.memory = {budget, http2_take, http2_give, http2_take_many, http2_resize}};
    if (!library)
        return false;
    *(void **)&qpack->create = dlsym(library, "nghttp3_qpack_decoder_new");
    *(void **)&qpack->destroy = dlsym(library, "nghttp3_qpack_decoder_del");
    *(void **)&qpack->insert = dlsym(library, "nghttp3_qpack_decoder_read_encoder");
    *(void **)&qpack->inserted = dlsym(library, "nghttp3_qpack_decoder_get_icnt");
    *(void **)&qpack->begin = dlsym(library, "nghttp3_qpack_stream_context_new");
    *(void **)&qpack->end = dlsym(library, "nghttp3_qpack_stream_context_del");
    *(void **)&qpack->needs = dlsym(library, "nghttp3_qpack_stream_context_get_ricnt");
    *(void **)&qpack->decode = dlsym(library, "nghttp3_qpack_decoder_read_request");
    *(void **)&qpack->pending = dlsym(library, "nghttp3_qpack_decoder_get_decoder_streamlen");
    *(void **)&qpack->take = dlsym(library, "nghttp3_qpack_decoder_write_decoder");
    *(void **)&qpack->text = dlsym(library, "nghttp3_rcbuf_get_buf");
    *(void **)&qpack->release = dlsym(library, "nghttp3_rcbuf_decref");
    if (!qpack->destroy || !qpack->insert || !qpack->inserted || !qpack->begin || !qpack->end || !qpack->needs || !qpack->decode ||
        !qpack->pending || !qpack->take || !qpack->text || !qpack->release)
        qpack->create = NULL;
    return qpack->create;
}

/* Returns a decoder of one direction; NULL without memory. `table`: the maximum size of the table as the receiver's SETTINGS state
 * it, on which the meaning of header blocks depends (RFC 9204, 4.5.1.1). */
static inline void *http3_decoder(struct http3_library *qpack, uint64_t table) {
    void *decoder = NULL;
    return qpack->create(&decoder, table, 0, &qpack->memory) ? NULL : decoder;
}

/* Discards the acknowledgments of the decoder; it stores a bounded number of bytes of this. */
static inline void http3_acknowledge(const struct http3_library *qpack, void *decoder) {
    uint8_t bytes[256];
    size_t pending = qpack->pending(decoder);
    if (pending && pending <= sizeof bytes)
        qpack->take(decoder, &(struct http3_space){bytes, bytes + sizeof bytes, bytes, bytes});
}

struct http3_result {
    const char *why;                 /* the block is not decoded; NULL: it is, or it waits */
    uint64_t needs;                  /* insertions to the table that it waits for; no field was delivered */
    bool failed;                     /* the decoder cannot be used further */
};

/* Decodes a header block, and passes its fields on. */
static inline struct http3_result http3_decode(const struct http3_library *qpack, void *decoder, uint64_t stream, const uint8_t *at,
                                               size_t length, void (*field)(void *user, const struct http2_field *field),
                                               void *user) {
    struct http3_result result = {NULL, 0, false};
    void *block = NULL;
    uint64_t list = 0;
    uint8_t flags = 0;
    if (qpack->begin(&block, (int64_t)stream, &qpack->memory))
        result.why = "NO_MEMORY";
    while (!result.why && !(flags & (HTTP3_FINAL | HTTP3_WAITS))) {
        struct http3_pair pair;
        flags = 0;
        ssize_t done = qpack->decode(decoder, block, &pair, &flags, at, length, 1);
        if (done < 0) {
            result.why = done == HTTP3_NO_MEMORY ? "NO_MEMORY" : "COMPRESSION_ERROR";
            result.failed = true;
            break;
        }
        at += done;
        length -= (size_t)done;
        if (flags & HTTP3_EMIT) {
            struct http3_bytes name = qpack->text(pair.name), value = qpack->text(pair.value);
            list += name.length + value.length + HTTP3_FIELD_COST;
            if (list > HTTP_HEAD_MOST)
                result.why = "HEAD_TOO_LONG";
            else
                field(user, &(struct http2_field){name.at, value.at, name.length, value.length, 0});
            qpack->release(pair.name);
            qpack->release(pair.value);
        } else if (!done && !flags) {
            result.why = "COMPRESSION_ERROR";   /* it ends within a field */
        }
    }
    if (flags & HTTP3_WAITS)
        result.needs = qpack->needs(block);
    if (block)
        qpack->end(block);
    http3_acknowledge(qpack, decoder);
    return result;
}

#endif
