/* Finds the back end for a URI, and provides defaults for functions that a back end lacks. */
#define _GNU_SOURCE
#include "io/filter.h"
#include "io/source.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DESCRIPTORS = 64,   /* maximum per wait; packets of further sources are found after the timeout */
    REJECTED = 4096,    /* bursts that a filter rejects in one call, so that the caller can stop */
};

static const char *after_scheme(const char *uri, const char *scheme)
{
    size_t n = strlen(scheme);
    return strncmp(uri, scheme, n) == 0 && uri[n] == ':' ? uri + n + 1 : NULL;
}

static int open_back_end(struct sl_source **out, const char *uri, const struct sl_source_options *options, char *message,
                         size_t message_size)
{
    const char *rest;
    if ((rest = after_scheme(uri, "af_packet")))
        return sl_packet_source_open(out, rest, options, message, message_size);
    if ((rest = after_scheme(uri, "xdp")))
        return sl_xdp_source_open(out, rest, options, message, message_size);
    if ((rest = after_scheme(uri, "tap")))
        return sl_tap_source_open(out, rest, options, message, message_size);
    if ((rest = after_scheme(uri, "dpdk")))
        return sl_dpdk_source_open(out, rest, options, message, message_size);
    rest = after_scheme(uri, "file");
    return sl_capture_source_open(out, rest ? rest : uri, options, message, message_size);
}

int sl_source_open(struct sl_source **out, const char *uri, const struct sl_source_options *options, char *message,
                   size_t message_size)
{
    static const struct sl_source_options none;
    options = options ? options : &none;
    int result = open_back_end(out, uri, options, message, message_size);
    if (result || !options->filter || (*out)->filter)
        return result;
    if (((*out)->filter = sl_filter_open(options->filter, options->snap_length, message, message_size)))
        return 0;
    sl_source_close(*out, NULL, 0);
    *out = NULL;
    return -1;
}

int sl_source_open_all(struct sl_source **out, const char *const *uris, size_t count,
                       const struct sl_source_options *options, char *message, size_t message_size)
{
    *out = NULL;
    if (count == 1)
        return sl_source_open(out, uris[0], options, message, message_size);
    if (count == 0 || count > SL_SOURCES_MOST) {
        snprintf(message, message_size, "%zu sources: give from 1 to %d", count, SL_SOURCES_MOST);
        return -1;
    }
    struct sl_source **sources = calloc(count, sizeof(struct sl_source *));
    if (!sources) {
        snprintf(message, message_size, "%s: out of memory", uris[0]);
        return -1;
    }
    int result = 0;
    size_t opened = 0;
    while (opened < count && !(result = sl_source_open(&sources[opened], uris[opened], options, message, message_size)))
        opened++;
    if (!result)
        return sl_merge_source_open(out, sources, count, !options || !options->forwarding, message, message_size);
    while (opened)
        sl_source_close(sources[--opened], NULL, 0);
    free(sources);
    return -1;
}

int sl_source_create(struct sl_source **out, const char *uri, const struct sl_source_options *options, char *message,
                     size_t message_size)
{
    const char *rest = after_scheme(uri, "af_packet");
    if (rest)
        return sl_packet_source_create(out, rest, message, message_size);
    rest = after_scheme(uri, "file");
    return sl_writer_source_create(out, rest ? rest : uri, options, message, message_size);
}

/* Moves the frames that the filter accepts to the front. Returns their number. */
static uint32_t keep_accepted(struct sl_source *source, struct sl_frame *frames, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if ((source->filtered_in_kernel && !(frames[i].flags & SL_FRAME_VLAN_RESTORED)) ||
            sl_filter_accepts(source->filter, &frames[i]))
            frames[kept++] = frames[i];
    source->filtered += count - kept;
    return kept;
}

int32_t sl_source_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    if (!source->back_end->receive)
        return SL_SOURCE_END;
    for (unsigned round = 0; round < REJECTED; round++) {
        int32_t got = source->back_end->receive(source, frames, most);
        if (got <= 0 || !source->filter)
            return got;
        uint32_t kept = keep_accepted(source, frames, (uint32_t)got);
        source->out = source->out || kept;
        if (kept)
            return (int32_t)kept;
        if (!source->out)
            sl_source_release(source);   /* none of these frames was returned */
    }
    source->more = true;
    return 0;
}

void sl_source_release(struct sl_source *source)
{
    source->out = false;
    if (source->back_end->release)
        source->back_end->release(source);
}

bool sl_source_keeps(const struct sl_source *source)
{
    return source->back_end->keeps && source->back_end->keeps(source);
}

uint32_t sl_source_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    return source->back_end->send ? source->back_end->send(source, frames, count) : 0;
}

int sl_source_flush(struct sl_source *source)
{
    return source->back_end->flush ? source->back_end->flush(source) : 0;
}

bool sl_source_wait(struct sl_source *source, uint64_t nanoseconds)
{
    struct pollfd fds[DESCRIPTORS];
    if (source->more) {
        source->more = false;
        return true;
    }
    unsigned count = source->back_end->descriptors ? source->back_end->descriptors(source, fds, DESCRIPTORS) : 0;
    if (count > DESCRIPTORS)
        count = DESCRIPTORS;
    struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    return ppoll(fds, count, &time, NULL) > 0;
}

uint64_t sl_source_clock(struct sl_source *source)
{
    return source->back_end->clock ? source->back_end->clock(source) : 0;
}

struct sl_source *sl_source_part(struct sl_source *source, size_t index)
{
    return source->back_end->part ? source->back_end->part(source, index) : index ? NULL : source;
}

bool sl_source_is_congested(const struct sl_source *source)
{
    return source->back_end->is_congested && source->back_end->is_congested(source);
}

void sl_source_on_secrets(struct sl_source *source, void (*take)(void *user, uint32_t kind, sl_bytes secrets), void *user)
{
    source->take_secrets = take;
    source->secrets_user = user;
}

const char *sl_source_fault(const struct sl_source *source)
{
    return source->fault[0] ? source->fault : NULL;
}

void sl_source_progress(struct sl_source *source, uint64_t *position, uint64_t *size)
{
    *position = *size = 0;
    if (source->back_end->progress)
        source->back_end->progress(source, position, size);
}

void sl_source_statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    memset(out, 0, sizeof *out);
    if (source->back_end->statistics)
        source->back_end->statistics(source, out);
    out->filtered += source->filtered;
}

int sl_source_close(struct sl_source *source, char *message, size_t message_size)
{
    if (!source)
        return 0;
    int result = source->back_end->close(source);
    sl_filter_close(source->filter);
    if (result && message_size)
        snprintf(message, message_size, "%s", source->fault);
    free(source);
    return result;
}
