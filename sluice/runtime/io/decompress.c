/* Decompression with four libraries that are loaded at run time. The declarations here repeat the stable binary
 * interface of each: zlib.h (RFC 1952), zstd.h (RFC 8878), lz4frame.h, lzma.h. */
#define _GNU_SOURCE
#include "io/decompress.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_MOST ((uint64_t)256 << 20)   /* maximum for xz, whose streams state the memory they need */

struct buffers {
    const uint8_t **from;
    size_t *n;
    uint8_t **to;
    size_t *room;
};

struct sl_decompressor {
    const struct library *library;
    void *handle;          /* of dlopen */
    void *symbols[5];
    void *state;           /* the library's state, if it allocates one */
    union {
        struct {
            const uint8_t *next_in;
            unsigned avail_in;
            unsigned long total_in;
            uint8_t *next_out;
            unsigned avail_out;
            unsigned long total_out;
            const char *message;
            void *internal, *alloc, *free, *opaque;
            int data_type;
            unsigned long adler, reserved;
        } z;
        struct {
            const uint8_t *next_in;
            size_t avail_in;
            uint64_t total_in;
            uint8_t *next_out;
            size_t avail_out;
            uint64_t total_out;
            void *allocator, *internal, *reserved_pointers[4];
            uint64_t seek, reserved_integer;
            size_t reserved_size[2];
            int reserved_enum[2];
        } lzma;
    } stream;
    bool whole;            /* a member has ended, and no other one has begun */
};

/* One compression format. `symbols`: the names of sl_decompressor.symbols, in the same order. */
struct library {
    const char *compression, *name, *package;
    uint8_t magic[SL_MAGIC_BYTES];
    unsigned magic_bytes;
    const char *symbols[5];
    int (*begin)(struct sl_decompressor *d);
    int (*run)(struct sl_decompressor *d, struct buffers *b, bool last, char *why, size_t why_size);
    void (*end)(struct sl_decompressor *d);
};

/* A library function, cast to its type. */
#define CALL(d, index, type) ((type)(uintptr_t)(d)->symbols[index])

/* --- gzip --- */

static int gzip_begin(struct sl_decompressor *d)
{
    typedef int init(void *stream, int window_bits, const char *version, int size);
    return CALL(d, 0, init *)(&d->stream.z, 15 + 16, "1.2.11", (int)sizeof d->stream.z) ? -1 : 0;   /* +16: gzip only */
}

static int gzip_run(struct sl_decompressor *d, struct buffers *b, bool last, char *why, size_t why_size)
{
    enum { NO_FLUSH = 0, OK = 0, STREAM_END = 1, BUFFER_ERROR = -5 };
    typedef int inflate(void *stream, int flush);
    typedef int reset(void *stream);
    (void)last;
    if (d->whole && *b->n) {   /* another member */
        CALL(d, 2, reset *)(&d->stream.z);
        d->whole = false;
    }
    const unsigned most = 1 << 30;
    unsigned in = *b->n < most ? (unsigned)*b->n : most, out = *b->room < most ? (unsigned)*b->room : most;
    d->stream.z.next_in = *b->from;
    d->stream.z.avail_in = in;
    d->stream.z.next_out = *b->to;
    d->stream.z.avail_out = out;
    int result = CALL(d, 1, inflate *)(&d->stream.z, NO_FLUSH);
    in -= d->stream.z.avail_in;
    out -= d->stream.z.avail_out;
    *b->from += in, *b->n -= in, *b->to += out, *b->room -= out;
    d->whole = result == STREAM_END;
    if (result == OK || result == STREAM_END || result == BUFFER_ERROR)
        return 0;
    snprintf(why, why_size, "%s", d->stream.z.message ? d->stream.z.message : "no memory for it");
    return -1;
}

static void gzip_end(struct sl_decompressor *d)
{
    typedef int end(void *stream);
    CALL(d, 3, end *)(&d->stream.z);
}

/* --- zstd --- */

struct zstd_in { const void *at; size_t size, position; };
struct zstd_out { void *at; size_t size, position; };

static int zstd_begin(struct sl_decompressor *d)
{
    typedef void *create(void);
    d->state = CALL(d, 0, create *)();
    return d->state ? 0 : -1;
}

static int zstd_run(struct sl_decompressor *d, struct buffers *b, bool last, char *why, size_t why_size)
{
    typedef size_t decompress(void *state, struct zstd_out *out, struct zstd_in *in);
    typedef unsigned is_error(size_t code);
    typedef const char *error_name(size_t code);
    (void)last;
    struct zstd_in in = {*b->from, *b->n, 0};
    struct zstd_out out = {*b->to, *b->room, 0};
    size_t result = CALL(d, 1, decompress *)(d->state, &out, &in);
    *b->from += in.position, *b->n -= in.position, *b->to += out.position, *b->room -= out.position;
    if (CALL(d, 2, is_error *)(result)) {
        snprintf(why, why_size, "%s", CALL(d, 3, error_name *)(result));
        return -1;
    }
    if (in.position || out.position)
        d->whole = result == 0;   /* 0: a frame has ended, and all of its output is flushed */
    return 0;
}

static void zstd_end(struct sl_decompressor *d)
{
    typedef size_t end(void *state);
    CALL(d, 4, end *)(d->state);
}

/* --- lz4 --- */

static int lz4_begin(struct sl_decompressor *d)
{
    typedef size_t create(void **state, unsigned version);
    return CALL(d, 0, create *)(&d->state, 100) ? -1 : 0;
}

static int lz4_run(struct sl_decompressor *d, struct buffers *b, bool last, char *why, size_t why_size)
{
    typedef size_t decompress(void *state, void *to, size_t *to_size, const void *from, size_t *from_size, const void *options);
    typedef unsigned is_error(size_t code);
    typedef const char *error_name(size_t code);
    (void)last;
    size_t in = *b->n, out = *b->room;
    size_t result = CALL(d, 1, decompress *)(d->state, *b->to, &out, *b->from, &in, NULL);
    if (CALL(d, 2, is_error *)(result)) {
        snprintf(why, why_size, "%s", CALL(d, 3, error_name *)(result));
        return -1;
    }
    *b->from += in, *b->n -= in, *b->to += out, *b->room -= out;
    if (in || out)
        d->whole = result == 0;
    return 0;
}

static void lz4_end(struct sl_decompressor *d)
{
    typedef size_t end(void *state);
    CALL(d, 4, end *)(d->state);
}

/* --- xz --- */

static int xz_begin(struct sl_decompressor *d)
{
    enum { CONCATENATED = 8 };
    typedef int decoder(void *stream, uint64_t memory, uint32_t flags);
    return CALL(d, 0, decoder *)(&d->stream.lzma, MEMORY_MOST, CONCATENATED) ? -1 : 0;
}

static int xz_run(struct sl_decompressor *d, struct buffers *b, bool last, char *why, size_t why_size)
{
    enum { RUN = 0, FINISH = 3, OK = 0, STREAM_END = 1, MEMORY_LIMIT = 6, FORMAT = 7, OPTIONS = 8, DATA = 9, BUFFER = 10 };
    typedef int code(void *stream, int action);
    d->stream.lzma.next_in = *b->from;
    d->stream.lzma.avail_in = *b->n;
    d->stream.lzma.next_out = *b->to;
    d->stream.lzma.avail_out = *b->room;
    int result = CALL(d, 1, code *)(&d->stream.lzma, last ? FINISH : RUN);
    *b->from = d->stream.lzma.next_in, *b->n = d->stream.lzma.avail_in;
    *b->to = d->stream.lzma.next_out, *b->room = d->stream.lzma.avail_out;
    d->whole = result == STREAM_END;
    if (result == OK || result == STREAM_END || result == BUFFER)
        return 0;
    if (result == MEMORY_LIMIT)
        snprintf(why, why_size, "needs more than %u MiB of memory: compress it again with a smaller dictionary",
                 (unsigned)(MEMORY_MOST >> 20));
    else
        snprintf(why, why_size, "%s",
                 result == FORMAT || result == DATA ? "the data is damaged" : result == OPTIONS ? "unknown options" : "no memory for it");
    return -1;
}

static void xz_end(struct sl_decompressor *d)
{
    typedef void end(void *stream);
    CALL(d, 2, end *)(&d->stream.lzma);
}

/* --- all of them --- */

static const struct library libraries[] = {
    {"gzip", "libz.so.1", "zlib1g", {0x1f, 0x8b}, 2, {"inflateInit2_", "inflate", "inflateReset", "inflateEnd", "inflate"},
     gzip_begin, gzip_run, gzip_end},
    {"zstd", "libzstd.so.1", "libzstd1", {0x28, 0xb5, 0x2f, 0xfd}, 4,
     {"ZSTD_createDStream", "ZSTD_decompressStream", "ZSTD_isError", "ZSTD_getErrorName", "ZSTD_freeDStream"},
     zstd_begin, zstd_run, zstd_end},
    {"lz4", "liblz4.so.1", "liblz4-1", {0x04, 0x22, 0x4d, 0x18}, 4,
     {"LZ4F_createDecompressionContext", "LZ4F_decompress", "LZ4F_isError", "LZ4F_getErrorName",
      "LZ4F_freeDecompressionContext"},
     lz4_begin, lz4_run, lz4_end},
    {"xz", "liblzma.so.5", "liblzma5", {0xfd, '7', 'z', 'X', 'Z', 0}, 6,
     {"lzma_stream_decoder", "lzma_code", "lzma_end", "lzma_code", "lzma_code"}, xz_begin, xz_run, xz_end},
};

enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };

const char *sl_compression_of(const uint8_t *bytes, size_t n)
{
    for (const struct library *library = libraries; library < libraries + LIBRARIES; library++)
        if (n >= library->magic_bytes && memcmp(bytes, library->magic, library->magic_bytes) == 0)
            return library->compression;
    return NULL;
}

struct sl_decompressor *sl_decompressor_open(const char *compression, char *why, size_t why_size)
{
    const struct library *library = libraries;
    while (strcmp(library->compression, compression) != 0)
        library++;
    struct sl_decompressor *d = calloc(1, sizeof *d);
    if (!d) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    d->library = library;
    d->handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; d->handle && i < sizeof d->symbols / sizeof d->symbols[0]; i++)
        if (!(d->symbols[i] = dlsym(d->handle, library->symbols[i]))) {
            dlclose(d->handle);
            d->handle = NULL;
        }
    if (!d->handle) {
        snprintf(why, why_size, "is compressed by %s, and the library %s is missing: install it (Debian: %s), or decompress the "
                 "file first", compression, library->name, library->package);
    } else if (library->begin(d)) {
        snprintf(why, why_size, "the library %s does not start: no memory, or another version than is known", library->name);
        dlclose(d->handle);
    } else {
        return d;
    }
    free(d);
    return NULL;
}

int sl_decompress(struct sl_decompressor *d, const uint8_t **from, size_t *n, uint8_t **to, size_t *room, bool last,
                  char *why, size_t why_size)
{
    struct buffers buffers = {from, n, to, room};
    char reason[160];
    if (d->library->run(d, &buffers, last, reason, sizeof reason) == 0)
        return 0;
    snprintf(why, why_size, "corrupt %s data: %s", d->library->compression, reason);
    return -1;
}

bool sl_decompressor_is_whole(const struct sl_decompressor *d)
{
    return d->whole;
}

void sl_decompressor_close(struct sl_decompressor *d)
{
    if (!d)
        return;
    d->library->end(d);
    dlclose(d->handle);
    free(d);
}
