#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "io/writer.h"

#include "core/create.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sl_writer {
    FILE *file;
    uint32_t link_type;
    uint32_t snap_length;
    bool failed;          /* a write failed, so the file is incomplete */
    char fault[256];      /* empty: none */
    char buffer[1 << 16]; /* for stdio, whose default buffer has 4 KiB */
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

static int put(struct sl_writer *w, const void *bytes, size_t n)
{
    if (n == 0 || fwrite(bytes, 1, n, w->file) == n)
        return 0;
    w->failed = true;
    return fault(w, "cannot write: %s", strerror(errno));
}

static int put_header(struct sl_writer *w)
{
    uint8_t header[24] = {0};
    store32(header, 0xa1b23c4d);
    store16(header + 4, 2);
    store16(header + 6, 4);
    store32(header + 16, w->snap_length);
    store32(header + 20, w->link_type);
    return put(w, header, sizeof header);
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
    struct sl_writer *w = malloc(sizeof *w);
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
    setvbuf(w->file, w->buffer, _IOFBF, sizeof w->buffer);
    w->link_type = link_type;
    w->snap_length = snap_length ? snap_length : SL_WRITER_SNAP_LENGTH;
    w->failed = false;
    w->fault[0] = 0;
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
    if (put(w, header, sizeof header))
        return -1;
    return put(w, frame->at, captured);
}

int sl_writer_flush(struct sl_writer *w)
{
    if (w->failed)
        return -1;
    if (fflush(w->file) == 0)
        return 0;
    w->failed = true;
    return fault(w, "cannot write: %s", strerror(errno));
}

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
    if (fclose(w->file) != 0 && !w->failed) {
        w->failed = true;
        fault(w, "cannot write: %s", strerror(errno));
    }
    int result = w->failed ? -1 : 0;
    if (result)
        snprintf(message, message_size, "%s", w->fault);
    free(w);
    return result;
}
