#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "io/reader.h"

#include "io/decompress.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RAW = 256 << 10 };   /* size of the buffer for bytes of the file */

struct sl_reader {
    int file, watch;            /* watch: inotify descriptor for a growing file; -1: none */
    bool follow, regular;
    bool ended;                 /* the end of the file was reached */
    bool recognised;            /* it is known whether the stream is compressed */
    struct sl_decompressor *decompressor;   /* NULL: not compressed */
    uint64_t position, size;
    size_t from, filled;        /* the unused bytes in raw: begin and end */
    char fault[256];
    uint8_t raw[RAW];
};

struct sl_reader *sl_reader_open(int file, const char *path, bool follow)
{
    struct stat status;
    struct sl_reader *r = malloc(sizeof *r);
    if (!r) {
        close(file);
        return NULL;
    }
    memset(r, 0, offsetof(struct sl_reader, raw));
    r->file = file;
    r->watch = -1;
    r->follow = follow;
    r->regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    r->size = r->regular ? (uint64_t)status.st_size : 0;
    if (follow && r->regular) {
        r->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (r->watch >= 0 && inotify_add_watch(r->watch, path, IN_MODIFY) < 0) {
            close(r->watch);
            r->watch = -1;   /* then the file is polled */
        }
    }
    return r;
}

static int fail(struct sl_reader *r, const char *what, int number)
{
    snprintf(r->fault, sizeof r->fault, "%s: %s", what, strerror(number));
    return SL_READER_FAULT;
}

/* Checks that a growing file can still be followed, and updates its size. A truncated file is a fault, because its
 * contents were replaced. */
static int check_growing(struct sl_reader *r)
{
    struct stat status;
    uint8_t events[1024];
    while (r->watch >= 0 && read(r->watch, events, sizeof events) > 0)
        ;
    if (fstat(r->file, &status))
        return fail(r, "cannot read", errno);
    r->size = (uint64_t)status.st_size;
    if (r->size >= r->position)
        return 0;
    snprintf(r->fault, sizeof r->fault, "was truncated to %" PRIu64 " bytes, of which %" PRIu64 " had been read", r->size,
             r->position);
    return SL_READER_FAULT;
}

/* Reads from the file. Returns a number of bytes, 0, END or FAULT. */
static ptrdiff_t read_file(struct sl_reader *r, uint8_t *to, size_t room)
{
    struct pollfd one = {r->file, POLLIN, 0};
    if (r->ended)
        return SL_READER_END;
    if (r->follow && r->regular && check_growing(r))
        return SL_READER_FAULT;
    if (!r->regular && poll(&one, 1, 0) <= 0)
        return 0;
    ssize_t got = read(r->file, to, room);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : fail(r, "cannot read", errno);
    if (got == 0 && r->follow && r->regular)
        return 0;
    r->ended = got == 0;
    r->position += (uint64_t)got;
    return got ? got : SL_READER_END;
}

/* Reads more of the file into `raw`. Returns the result of read_file. */
static ptrdiff_t fill(struct sl_reader *r)
{
    memmove(r->raw, r->raw + r->from, r->filled - r->from);
    r->filled -= r->from;
    r->from = 0;
    ptrdiff_t got = read_file(r, r->raw + r->filled, RAW - r->filled);
    if (got > 0)
        r->filled += (size_t)got;
    return got;
}

/* Determines whether the stream is compressed. Returns 1 if it is known; 0 if more bytes are needed; or FAULT. */
static ptrdiff_t recognise(struct sl_reader *r)
{
    while (r->filled < SL_MAGIC_BYTES) {
        ptrdiff_t got = fill(r);
        if (got == SL_READER_END)
            break;
        if (got <= 0)
            return got;
    }
    const char *compression = sl_compression_of(r->raw, r->filled);
    if (compression && !(r->decompressor = sl_decompressor_open(compression, r->fault, sizeof r->fault)))
        return SL_READER_FAULT;
    r->recognised = true;
    return 1;
}

static ptrdiff_t read_plain(struct sl_reader *r, uint8_t *to, size_t room)
{
    size_t there = r->filled - r->from;
    if (there == 0)
        return read_file(r, to, room);
    there = there < room ? there : room;
    memcpy(to, r->raw + r->from, there);
    r->from += there;
    return (ptrdiff_t)there;
}

static ptrdiff_t read_compressed(struct sl_reader *r, uint8_t *to, size_t room)
{
    for (;;) {
        const uint8_t *from = r->raw + r->from;
        size_t left = r->filled - r->from, before = left, rest = room;
        const bool last = r->ended;
        sl_decompress(r->decompressor, &from, &left, &to, &rest, last, r->fault, sizeof r->fault);
        r->from = r->filled - left;
        if (rest < room)
            return (ptrdiff_t)(room - rest);   /* a fault after these bytes is reported by the next call */
        if (r->fault[0])
            return SL_READER_FAULT;
        if (left < before)
            continue;
        if (last && sl_decompressor_is_whole(r->decompressor))
            return SL_READER_END;
        if (last || left == RAW) {
            snprintf(r->fault, sizeof r->fault, "%s", last ? "cut short: the compressed data ends in the middle"
                                                           : "corrupt: the compressed data does not go on");
            return SL_READER_FAULT;
        }
        ptrdiff_t got = fill(r);
        if (got == 0 || got == SL_READER_FAULT)
            return got;
    }
}

ptrdiff_t sl_reader_read(struct sl_reader *r, uint8_t *to, size_t room)
{
    if (r->fault[0])
        return SL_READER_FAULT;
    if (!r->recognised) {
        ptrdiff_t got = recognise(r);
        if (got != 1)
            return got;
    }
    return r->decompressor ? read_compressed(r, to, room) : read_plain(r, to, room);
}

int sl_reader_descriptor(const struct sl_reader *r)
{
    return r->regular ? r->watch : r->file;
}

const char *sl_reader_fault(const struct sl_reader *r)
{
    return r->fault;
}

void sl_reader_progress(const struct sl_reader *r, uint64_t *position, uint64_t *size)
{
    *position = r->position;
    *size = r->size;
}

void sl_reader_close(struct sl_reader *r)
{
    if (!r)
        return;
    sl_decompressor_close(r->decompressor);
    close(r->file);
    if (r->watch >= 0)
        close(r->watch);
    free(r);
}
