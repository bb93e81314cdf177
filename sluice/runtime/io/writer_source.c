/* The back end that writes packets to a capture file, or to a series of them, using writer.h.
 *
 * In a series, a file ends before the packet that would make it larger than a bound, or whose time is so much later than
 * that of its first packet. Files are numbered from 1: out.pcap.gz becomes out-00001.pcap.gz. A series that exists goes
 * on. Where the number of files is bounded, the oldest is removed. */
#include "io/compressor.h"
#include "io/source.h"
#include "io/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACKET_HEADER = 16, FILE_HEADER = 24 };   /* of pcap */

struct writer_source {
    struct sl_source base;
    struct sl_writer *writer;    /* NULL: the next file could not be opened */
    uint64_t sent, refused;
    uint64_t rotate_bytes, rotate_nanoseconds, first;   /* bounds of a file; the time of its first packet */
    uint64_t number, files;      /* of the current file; how many are kept, 0: all */
    bool began;                  /* the first file of this run was opened */
    bool lost;                   /* packets of an earlier file are lost; the reason is base.fault */
    char path[];
};

static struct writer_source *of(struct sl_source *source) { return (struct writer_source *)(void *)source; }

static bool is_series(const struct writer_source *s) { return s->rotate_bytes || s->rotate_nanoseconds; }

/* The name of file `number` of the series, in memory that the caller frees; NULL without memory. */
static char *name_of(const struct writer_source *s, uint64_t number)
{
    size_t length = strlen(s->path), stem = length, size = length + 32;
    const char *file = strrchr(s->path, '/');
    file = file ? file + 1 : s->path;
    if (sl_compressor_of(s->path))
        while (stem && s->path[stem] != '.')
            stem--;
    for (size_t at = stem; at > (size_t)(file - s->path); at--)
        if (s->path[at - 1] == '.' && at - 1 > (size_t)(file - s->path)) {
            stem = at - 1;
            break;
        }
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "%.*s-%05llu%s", (int)stem, s->path, (unsigned long long)number, s->path + stem);
    return name;
}

/* The name of the next file of the series. The first one follows those of earlier runs. NULL without memory. */
static char *next_name(struct writer_source *s)
{
    char *name = name_of(s, s->number + 1);
    while (!s->began && name && access(name, F_OK) == 0) {
        s->number++;
        free(name);
        name = name_of(s, s->number + 1);
    }
    return name;
}

static int open_file(struct writer_source *s, char *message, size_t message_size)
{
    char *name = is_series(s) ? next_name(s) : NULL;
    int result = -1;
    if (is_series(s) && !name)
        snprintf(message, message_size, "%s: out of memory", s->path);
    else
        result = sl_writer_open(&s->writer, name ? name : s->path, SL_WRITER_FIRST, 0, message, message_size);
    free(name);
    if (!result) {
        s->number += is_series(s);
        s->began = true;
    }
    if (!result && s->files && s->number > s->files && (name = name_of(s, s->number - s->files))) {
        unlink(name);
        free(name);
    }
    return result;
}

/* Begins the next file of a series if the packet does not belong to the current one. */
static void rotate(struct writer_source *s, const struct sl_frame *frame)
{
    uint64_t size = s->writer ? sl_writer_size(s->writer) : 0;
    bool full = s->rotate_bytes && size > FILE_HEADER && size + PACKET_HEADER + frame->captured > s->rotate_bytes;
    bool old = s->rotate_nanoseconds && size && frame->time >= s->first + s->rotate_nanoseconds;
    if (full || old) {
        char message[SL_SOURCE_MESSAGE];
        if (sl_writer_close(s->writer, message, sizeof message)) {
            s->lost = true;
            sl_source_fail(&s->base, "%s", message);
        }
        s->writer = NULL;
    }
    if (!s->writer && open_file(s, s->base.fault, sizeof s->base.fault))
        s->lost = true;
    if (full || old || !size)
        s->first = frame->time;
}

static uint32_t send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct writer_source *s = of(source);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_series(s))
            rotate(s, &frames[i]);
        if (!s->writer)
            continue;
        if (sl_writer_write(s->writer, &frames[i]) == 0)
            taken++;
        else
            sl_source_fail(source, "%s", sl_writer_fault(s->writer));
    }
    s->sent += taken;
    s->refused += count - taken;
    return taken;
}

static int flush(struct sl_source *source)
{
    struct writer_source *s = of(source);
    if (s->lost)
        return -1;
    return s->writer && sl_writer_flush(s->writer) ? sl_source_fail(source, "%s", sl_writer_fault(s->writer)) : 0;
}

static void statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    out->packets = out->sent = of(source)->sent;
    out->refused = of(source)->refused;
}

static int close_source(struct sl_source *source)
{
    char message[SL_CAPTURE_MESSAGE];
    if (sl_writer_close(of(source)->writer, message, sizeof message) == 0)
        return of(source)->lost ? -1 : 0;
    return sl_source_fail(source, "%s", message);
}

static const struct sl_source_back_end back_end = {
    .scheme = "file",
    .send = send,
    .flush = flush,
    .statistics = statistics,
    .close = close_source,
};

int sl_writer_source_create(struct sl_source **out, const char *path, const struct sl_source_options *options,
                            char *message, size_t message_size)
{
    *out = NULL;
    struct writer_source *s = calloc(1, sizeof *s + strlen(path) + 1);
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", path);
        return -1;
    }
    s->base.back_end = &back_end;
    snprintf(s->base.name, sizeof s->base.name, "%s", path);
    strcpy(s->path, path);
    if (options) {
        s->rotate_bytes = options->rotate_bytes;
        s->rotate_nanoseconds = options->rotate_nanoseconds;
        s->files = options->rotate_files;
    }
    if (open_file(s, message, message_size)) {
        free(s);
        return -1;
    }
    *out = &s->base;
    return 0;
}
