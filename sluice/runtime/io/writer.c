#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "io/writer.h"

#include "core/create.h"
#include "io/compressor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

struct sl_writer {
    FILE *file;              /* only its descriptor is used */
    int to;                  /* the descriptor that packets are written to */
    const char *program;     /* which compresses them; NULL: they go to the file */
    pid_t process;           /* its number */
    uint32_t link_type;
    uint32_t snap_length;
    uint64_t written;        /* bytes before compression, with those in the buffer */
    bool failed;             /* a write failed, so later packets are not in the file */
    char fault[256];         /* empty: none */
    size_t used;
    uint8_t buffer[BUFFER];  /* whole packets */
};

static void store16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void store32(uint8_t *at, uint32_t value)
{
    store16(at, (uint16_t)value);
    store16(at + 2, (uint16_t)(value >> 16));
}

__attribute__((format(printf, 2, 3))) static int fault(struct sl_writer *w, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(w->fault, sizeof w->fault, form, arguments);
    va_end(arguments);
    return -1;
}

/* Writes bytes after those that the file has. If that fails, the file is cut to the packets before them. */
static int write_all(struct sl_writer *w, const uint8_t *at, size_t n)
{
    if (w->program && sl_compressor_write(w->to, at, n) == 0)
        return 0;
    bool appends = fcntl(w->to, F_GETFL) & O_APPEND;   /* its position is that of its end only after a write */
    off_t before = w->program ? -1 : lseek(w->to, 0, appends ? SEEK_END : SEEK_CUR);
    while (n && !w->program) {
        ssize_t done = write(w->to, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            errno = done ? errno : ENOSPC;
            break;
        }
        at += done;
        n -= (size_t)done;
    }
    if (n == 0)
        return 0;
    int number = errno;
    w->failed = true;
    if (before >= 0 && ftruncate(w->to, before) == 0)
        (void)lseek(w->to, before, SEEK_SET);
    return fault(w, "cannot write: %s", number == EPIPE && w->program ? "the compressing program has ended" : strerror(number));
}

static int flush(struct sl_writer *w)
{
    size_t used = w->used;
    w->used = 0;
    return used ? write_all(w, w->buffer, used) : 0;
}

/* Appends a header and the bytes after it: both together or neither. */
static int put(struct sl_writer *w, const void *header, size_t header_size, const void *bytes, size_t n)
{
    if (header_size + n > BUFFER - w->used && flush(w))
        return -1;
    w->written += header_size + n;
    if (header_size + n > BUFFER) {
        uint8_t *whole = malloc(header_size + n);   /* rare: more than a link carries */
        if (!whole)
            return fault(w, "no memory for a packet of %zu bytes", n);
        memcpy(whole, header, header_size);
        memcpy(whole + header_size, bytes, n);
        int result = write_all(w, whole, header_size + n);
        free(whole);
        return result;
    }
    memcpy(w->buffer + w->used, header, header_size);
    if (n)
        memcpy(w->buffer + w->used + header_size, bytes, n);
    w->used += header_size + n;
    return 0;
}

static int put_header(struct sl_writer *w)
{
    uint8_t header[24] = {0};
    store32(header, 0xa1b23c4d);
    store16(header + 4, 2);
    store16(header + 6, 4);
    store32(header + 16, w->snap_length);
    store32(header + 20, w->link_type);
    return put(w, header, sizeof header, NULL, 0);
}

int sl_writer_open(struct sl_writer **out, const char *path, uint32_t link_type, uint32_t snap_length, char *message,
                   size_t message_size)
{
    *out = NULL;
    if (link_type > 0xffff && link_type != SL_WRITER_FIRST) {
        snprintf(message, message_size, "%s: link type %" PRIu32 " is beyond the 16 bits of pcap", path, link_type);
        return -1;
    }
    if (snap_length > SL_CAPTURE_LARGEST_PACKET) {
        snprintf(message, message_size, "%s: snap length %" PRIu32 " is beyond the largest packet, %d", path, snap_length,
                 SL_CAPTURE_LARGEST_PACKET);
        return -1;
    }
    struct sl_writer *w = calloc(1, sizeof *w);
    if (!w) {
        snprintf(message, message_size, "%s: out of memory", path);
        return -1;
    }
    w->file = sl_create(path);
    if (!w->file) {
        snprintf(message, message_size, "%s: cannot create: %s", path, strerror(errno));
        free(w);
        return -1;
    }
    w->to = fileno(w->file);
    w->program = sl_compressor_of(path);
    if (w->program && (w->to = sl_compressor_start(w->program, w->to, &w->process, w->fault, sizeof w->fault)) < 0) {
        snprintf(message, message_size, "%s: %s", path, w->fault);
        fclose(w->file);
        free(w);
        return -1;
    }
    w->link_type = link_type;
    w->snap_length = snap_length ? snap_length : SL_WRITER_SNAP_LENGTH;
    if (link_type != SL_WRITER_FIRST && put_header(w)) {
        snprintf(message, message_size, "%s: %s", path, w->fault);
        sl_writer_close(w, NULL, 0);
        return -1;
    }
    *out = w;
    return 0;
}

int sl_writer_write(struct sl_writer *w, const struct sl_frame *frame)
{
    if (w->failed)
        return -1;
    uint64_t seconds = frame->time / 1000000000;
    if (w->link_type == SL_WRITER_FIRST) {
        w->link_type = frame->link_type;
        if (put_header(w))
            return -1;
    }
    if (frame->link_type != w->link_type)
        return fault(w, "packet %" PRIu64 " has link type %" PRIu16 ", the file %" PRIu32, frame->number,
                     frame->link_type, w->link_type);
    if (seconds > UINT32_MAX)
        return fault(w, "packet %" PRIu64 ": a time of %" PRIu64 " seconds is beyond the 32 bits of pcap", frame->number,
                     seconds);
    uint32_t captured = frame->captured < w->snap_length ? frame->captured : w->snap_length;
    uint8_t header[16];
    store32(header, (uint32_t)seconds);
    store32(header + 4, (uint32_t)(frame->time % 1000000000));
    store32(header + 8, captured);
    store32(header + 12, frame->length < frame->captured ? frame->captured : frame->length);
    return put(w, header, sizeof header, frame->at, captured);
}

int sl_writer_flush(struct sl_writer *w)
{
    return w->failed ? -1 : flush(w);
}

uint64_t sl_writer_size(const struct sl_writer *w) { return w->written; }

const char *sl_writer_fault(const struct sl_writer *w)
{
    return w->fault[0] ? w->fault : NULL;
}

int sl_writer_close(struct sl_writer *w, char *message, size_t message_size)
{
    if (!w)
        return 0;
    if (w->link_type == SL_WRITER_FIRST) {
        w->link_type = 1;
        put_header(w);
    }
    if (!w->failed)
        flush(w);
    if (w->program && sl_compressor_finish(w->program, w->to, w->process, w->fault, sizeof w->fault))
        w->failed = true;
    if (fclose(w->file) != 0 && !w->failed) {   /* the error of an earlier write, as of a network file system */
        w->failed = true;
        fault(w, "cannot write: %s", strerror(errno));
    }
    int result = w->failed ? -1 : 0;
    if (result)
        snprintf(message, message_size, "%s", w->fault);
    free(w);
    return result;
}
