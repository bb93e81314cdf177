/* Channels to a folder. Requests are taken out of `out`, one after the other, and files are read into `in`. */
#include "folder.h"

#include <errno.h>
#include <unistd.h>

#include "message.h"

/* The state of a channel is in the memory of the lane that allocated its instance. */
static struct service_reader *reader_of(const struct service_channel *c)
{
    const struct service_instance *self = c->instance;
    struct service_lane *home = self->home;
    uint64_t slot = (uint64_t)((const uint8_t *)self - home->memory) / home->stride;

    return &home->readers[slot * home->channels + (uint64_t)(c - self->channels)];
}

void service_folder_begin(struct service_channel *c)
{
    struct service_reader *reader = reader_of(c);

    memset(reader, 0, sizeof *reader);
    reader->file = -1;
    c->link = SERVICE_OPEN;
    c->writable = true;
}

void service_folder_end(struct service_channel *c)
{
    struct service_reader *reader = reader_of(c);

    if (reader->file >= 0)
        close(reader->file);
    reader->file = -1;
}

/* Skips the received part of a request's body. False if it is malformed. */
static bool skip(struct service_reader *reader, struct service_buffer *out)
{
    while (reader->skips && out->start < out->end) {
        uint64_t there = out->end - out->start, need, take;

        if (reader->skip) {
            take = reader->skip < there ? reader->skip : there;
            out->start += (uint32_t)take;
            reader->skip -= take;
        } else {
            enum service_parsed found =
                service_next_part(&reader->tail, out->bytes + out->start, there, &reader->skip, &need);

            if (found == SERVICE_MALFORMED)
                return false;
            if (found == SERVICE_MORE)
                return true;
        }
        reader->skips = reader->skip || reader->tail.kind != SERVICE_NO_TAIL;
    }
    return true;
}

/* Answers the request that `out` begins with. False if it is malformed; its end need not be there. */
static bool answer(struct service_channel *c, struct service_reader *reader)
{
    struct service_buffer *out = c->out;
    struct service_text all = {out->bytes + out->start, out->end - out->start}, line, headers;
    uint64_t size = service_line(all.at, all.length), block = 0;
    enum service_parsed found = size ? service_headers(all.at + size, all.length - size, &block) : SERVICE_MORE;

    if (found == SERVICE_MORE)
        return all.length < c->instance->core->buffers.size;
    if (found == SERVICE_MALFORMED)
        return false;
    line = (struct service_text){all.at, (uint32_t)size - 2};
    headers = (struct service_text){all.at + size, (uint32_t)block};
    reader->tail = (struct service_tail){.left = 1, .allowed = SERVICE_UNBOUNDED};
    if (!service_framing(headers, false, false, &reader->tail, &reader->skip))
        return false;
    service_folder_answer(service_folder_of(c), reader, line, headers);
    out->start += (uint32_t)(size + block + 2);
    reader->skips = reader->skip || reader->tail.kind != SERVICE_NO_TAIL;
    c->readable = c->instance->progressed = true;
    return true;
}

bool service_folder_flush(struct service_channel *c)
{
    struct service_reader *reader = reader_of(c);
    bool good = true;

    while (good && c->out && c->out->start < c->out->end) {
        uint32_t before = c->out->start;

        if (reader->skips)
            good = skip(reader, c->out);
        else if (reader->head_at == reader->head_size && reader->file < 0)
            good = answer(c, reader);
        if (!good || c->out->start == before)
            break;
        c->instance->progressed = true;
        service_count(c->instance, SERVICE_BYTES_OUT, c->out->start - before);
    }
    if (!good) {
        service_fail(c->instance, SERVICE_BAD_MESSAGE);
        return false;
    }
    if (c->out && c->out->start == c->out->end) {
        service_buffer_give(&c->instance->core->buffers, c->out);
        c->out = NULL;
    } else if (c->out && c->out->end == c->instance->core->buffers.size) {
        service_buffer_compact(c->out); /* room for the rest of a head */
    }
    return true;
}

bool service_folder_fill(struct service_channel *c)
{
    struct service_instance *self = c->instance;
    struct service_reader *reader = reader_of(c);
    struct service_buffers *pool = &self->core->buffers;

    while (reader->head_at < reader->head_size || reader->file >= 0) {
        uint32_t room;
        ssize_t got;

        if (!c->in && !(c->in = service_buffer_for(self)))
            return true;
        if (c->in->start && c->taken == 0 && !c->pinned && c->in->end == pool->size)
            service_buffer_compact(c->in);
        room = pool->size - c->in->end;
        if (room == 0)
            return true;
        if (reader->head_at < reader->head_size) {
            got = reader->head_size - reader->head_at < (int)room ? reader->head_size - reader->head_at : (ssize_t)room;
            memcpy(c->in->bytes + c->in->end, reader->head + reader->head_at, (size_t)got);
            reader->head_at += (uint16_t)got;
        } else {
            got = pread(reader->file, c->in->bytes + c->in->end, reader->left < room ? (size_t)reader->left : room, reader->at);
            if (got <= 0) { /* it has become shorter than the announced length */
                service_fail(self, SERVICE_TRUNCATED);
                return false;
            }
            reader->at += got;
            reader->left -= got;
            if (reader->left == 0)
                service_folder_end(c);
        }
        c->in->end += (uint32_t)got;
        c->due_since = self->core->now;
        self->progressed = true;
        service_count(self, SERVICE_BYTES_IN, (uint64_t)got);
    }
    c->readable = false;
    return true;
}
