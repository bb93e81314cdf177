/* libnghttp2, which decodes header blocks of HTTP/2 (HPACK, RFC 7541). It is loaded if it is there. Its memory is taken
 * from a log's budget. */
#ifndef HTTP2_HPACK_H
#define HTTP2_HPACK_H

#include "log_text.h"

#include <dlfcn.h>
#include <sys/types.h>

enum {
    HTTP2_TABLE_MOST = 1 << 16,      /* maximum size of a dynamic table; no common implementation has a larger one */
    HTTP2_EMIT = 2, HTTP2_FINAL = 1,   /* nghttp2_hd_inflate_flag */
    HTTP2_NO_MEMORY = -901,          /* NGHTTP2_ERR_NOMEM */
};

struct http2_field {                 /* nghttp2_nv */
    const uint8_t *name, *value;
    size_t name_length, value_length;
    uint8_t flags;
};

/* Whether a field has a name, which HTTP/2 and HTTP/3 send in small letters. */
static inline bool http2_field_is(const struct http2_field *field, const char *name) {
    return field->name_length == strlen(name) && !memcmp(field->name, name, field->name_length);
}

/* The number of a field, of at most 19 digits. Returns false if it is none. */
static inline bool http2_field_number(const struct http2_field *field, uint64_t *number) {
    *number = 0;
    for (size_t i = 0; i < field->value_length; i++) {
        if (i == 19 || field->value[i] < '0' || field->value[i] > '9')
            return false;
        *number = *number * 10 + (field->value[i] - '0');
    }
    return field->value_length;
}

struct http2_memory {                /* nghttp2_mem */
    void *budget;
    void *(*take)(size_t size, void *budget);
    void (*give)(void *at, void *budget);
    void *(*take_many)(size_t count, size_t size, void *budget);
    void *(*resize)(void *at, size_t size, void *budget);
};

struct http2_library {
    int (*create)(void **inflater, struct http2_memory *memory);   /* NULL: the library is not there */
    void (*destroy)(void *inflater);
    int (*table)(void *inflater, size_t most);
    ssize_t (*inflate)(void *inflater, struct http2_field *field, int *flags, const uint8_t *at, size_t length, int last);
    int (*end)(void *inflater);
    struct http2_memory memory;
};

/* --- memory: each piece is preceded by its size --- */

union http2_piece { size_t size; max_align_t aligned; };

static void *http2_resize(void *at, size_t size, void *user) {
    struct log_budget *budget = user;
    union http2_piece *piece = at ? (union http2_piece *)at - 1 : NULL;
    size_t before = piece ? piece->size : 0, after = size + sizeof *piece;
    if (after < size || (after > before && !log_take(budget, after - before)))
        return NULL;
    union http2_piece *made = realloc(piece, after);
    if (!made) {
        if (after > before)
            log_give(budget, after - before);
        return NULL;
    }
    if (after < before)
        log_give(budget, before - after);
    made->size = after;
    return made + 1;
}

static void *http2_take(size_t size, void *budget) { return http2_resize(NULL, size, budget); }

static void *http2_take_many(size_t count, size_t size, void *budget) {
    void *made = size && count > SIZE_MAX / size ? NULL : http2_resize(NULL, count * size, budget);
    return made ? memset(made, 0, count * size) : NULL;
}

static void http2_give(void *at, void *budget) {
    if (!at)
        return;
    union http2_piece *piece = (union http2_piece *)at - 1;
    log_give(budget, piece->size);
    free(piece);
}

/* Loads the library. Returns false if it is not there. */
SL_COLD bool http2_library_open(struct http2_library *hpack, struct log_budget *budget) {
    void *library = dlopen("libnghttp2.so.14", RTLD_NOW | RTLD_LOCAL);
    *hpack = (struct http2_library){.memory = {budget, http2_take, http2_give, http2_take_many, http2_resize}};
    if (!library)
        return false;
    *(void **)&hpack->create = dlsym(library, "nghttp2_hd_inflate_new2");
    *(void **)&hpack->destroy = dlsym(library, "nghttp2_hd_inflate_del");
    *(void **)&hpack->table = dlsym(library, "nghttp2_hd_inflate_change_table_size");
    *(void **)&hpack->inflate = dlsym(library, "nghttp2_hd_inflate_hd2");
    *(void **)&hpack->end = dlsym(library, "nghttp2_hd_inflate_end_headers");
    if (!hpack->destroy || !hpack->table || !hpack->inflate || !hpack->end)
        hpack->create = NULL;
    return hpack->create;
}

/* Returns a decoder of one direction; NULL without memory.
 *
 * An encoder announces each size of its table that is not the initial one in its header blocks (RFC 7541, 4.2). That is
 * why the decoder only has an upper bound, and SETTINGS of the other direction are not needed. */
static inline void *http2_inflater(struct http2_library *hpack) {
    void *inflater = NULL;
    if (hpack->create(&inflater, &hpack->memory))
        return NULL;
    if (hpack->table(inflater, HTTP2_TABLE_MOST)) {
        hpack->destroy(inflater);
        return NULL;
    }
    return inflater;
}

#endif
