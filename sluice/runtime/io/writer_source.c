/* The back end that writes packets to a capture file, using writer.h. */
#include "io/source.h"
#include "io/writer.h"

#include <stdio.h>
#include <stdlib.h>

struct writer_source {
    struct sl_source base;
    struct sl_writer *writer;
    uint64_t sent, refused;
};

static struct writer_source *of(struct sl_source *source) { return (struct writer_source *)(void *)source; }

static uint32_t send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct writer_source *s = of(source);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
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
    return sl_writer_flush(s->writer) ? sl_source_fail(source, "%s", sl_writer_fault(s->writer)) : 0;
}

static void statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    out->packets = of(source)->sent;
    out->refused = of(source)->refused;
}

static int close_source(struct sl_source *source)
{
    char message[SL_CAPTURE_MESSAGE];
    if (sl_writer_close(of(source)->writer, message, sizeof message) == 0)
        return 0;
    return sl_source_fail(source, "%s", message);
}

static const struct sl_source_back_end back_end = {
    .scheme = "file",
    .send = send,
    .flush = flush,
    .statistics = statistics,
    .close = close_source,
};

int sl_writer_source_create(struct sl_source **out, const char *path, char *message, size_t message_size)
{
    *out = NULL;
    struct writer_source *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", path);
        return -1;
    }
    s->base.back_end = &back_end;
    snprintf(s->base.name, sizeof s->base.name, "%s", path);
    if (sl_writer_open(&s->writer, path, SL_WRITER_FIRST, 0, message, message_size)) {
        free(s);
        return -1;
    }
    *out = &s->base;
    return 0;
}
