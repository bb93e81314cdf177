/* Merges several sources by time.
 *
 * Some packets of each source are received in advance. The next packet is the earliest of the first packets (a binary
 * heap by time, then by the source's index). A source without packets may still receive one that is earlier than those
 * of the others, so packets of other sources are held back until it has a packet, it ends, or its clock is past their
 * times. The order within a source is preserved: a packet with an earlier time than its predecessor is treated as if it
 * had the predecessor's time.
 *
 * If packets are forwarded, they are not ordered by time: no packet is held back. Then a fault of one source is one of
 * all: with one of its two interfaces, nothing can be forwarded. */
#define _GNU_SOURCE
#include "io/source.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64 };   /* maximum number of packets received in advance per source */

struct input {
    struct sl_source *source;
    struct sl_frame frames[BATCH];
    uint32_t next, count;
    uint64_t time;        /* sort key of frames[next]; without packets: a lower bound for the next packet */
    bool ended;
};

struct merge_source {
    struct sl_source base;
    struct input *inputs;
    size_t count;
    uint32_t *heap, *idle;       /* indexes of inputs with packets; of inputs without packets that have not ended */
    size_t in_heap, idle_count;
    uint64_t packets;
    bool ordered;                /* by time; else packets are not held back */
    bool out;                    /* some received frames are not released yet */
    bool faulty;                 /* a source ended with a fault; base.fault is the first one */
};

static struct merge_source *of(struct sl_source *source) { return (struct merge_source *)(void *)source; }

static bool is_before(const struct merge_source *s, uint32_t one, uint32_t other)
{
    uint64_t a = s->inputs[one].time, b = s->inputs[other].time;
    return a != b ? a < b : one < other;
}

static void push(struct merge_source *s, uint32_t which)
{
    size_t place = s->in_heap++;
    for (size_t up; place && is_before(s, which, s->heap[up = (place - 1) / 2]); place = up)
        s->heap[place] = s->heap[up];
    s->heap[place] = which;
}

/* Replaces the first element of the heap by `which`. */
static void replace_first(struct merge_source *s, uint32_t which)
{
    size_t place = 0, down;
    while ((down = 2 * place + 1) < s->in_heap) {
        if (down + 1 < s->in_heap && is_before(s, s->heap[down + 1], s->heap[down]))
            down++;
        if (!is_before(s, s->heap[down], which))
            break;
        s->heap[place] = s->heap[down];
        place = down;
    }
    s->heap[place] = which;
}

static void remove_first(struct merge_source *s)
{
    uint32_t last = s->heap[--s->in_heap];
    if (s->in_heap)
        replace_first(s, last);
}

/* Receives packets of a source without packets, and adds the source to the heap or to the idle ones. */
static void refill(struct merge_source *s, uint32_t which)
{
    struct input *input = &s->inputs[which];
    uint64_t clock = sl_source_clock(input->source);   /* read first: a packet may arrive in between */
    sl_source_release(input->source);
    int32_t got = sl_source_receive(input->source, input->frames, BATCH);
    input->next = 0;
    input->count = got > 0 ? (uint32_t)got : 0;
    if (got > 0) {
        input->time = input->frames[0].time > input->time ? input->frames[0].time : input->time;
        push(s, which);
    } else if (got == 0) {
        s->base.more = s->base.more || input->source->more;   /* it has packets, which a filter rejects */
        input->time = clock > input->time ? clock : input->time;
        s->idle[s->idle_count++] = which;
    } else {
        input->ended = true;
        if (got == SL_SOURCE_FAULT && !s->faulty) {
            s->faulty = true;
            snprintf(s->base.fault, sizeof s->base.fault, "%s", sl_source_fault(input->source));
        }
    }
}

/* The time up to which packets may be delivered: no idle source can receive an earlier packet. */
static uint64_t known_until(const struct merge_source *s)
{
    uint64_t until = UINT64_MAX;
    for (size_t i = 0; i < s->idle_count; i++)
        if (s->inputs[s->idle[i]].time < until)
            until = s->inputs[s->idle[i]].time;
    return until;
}

static int32_t receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct merge_source *s = of(source);
    uint32_t count = 0;
    const bool broken = s->faulty && !s->ordered;   /* then only packets that were received in advance */
    if (!s->out && !broken) {   /* otherwise frames of idle sources may still be in use */
        size_t idle = s->idle_count;
        s->idle_count = 0;
        for (size_t i = 0; i < idle; i++)
            refill(s, s->idle[i]);   /* writes to s->idle at or before index i */
    }
    uint64_t until = s->ordered ? known_until(s) : UINT64_MAX;
    while (count < most && s->in_heap) {
        uint32_t which = s->heap[0];
        struct input *input = &s->inputs[which];
        if (input->time > until)
            break;
        struct sl_frame *frame = &frames[count++];
        *frame = input->frames[input->next++];
        frame->port = (uint16_t)which;
        frame->number = ++s->packets;
        if (input->next < input->count) {
            const uint64_t time = input->frames[input->next].time;
            input->time = time > input->time ? time : input->time;
            replace_first(s, which);
            continue;
        }
        remove_first(s);
        s->idle[s->idle_count++] = which;
        break;   /* the next packet of this source is unknown until the frames are released */
    }
    s->out = s->out || count;
    if (s->faulty && !s->ordered && !count)
        return SL_SOURCE_FAULT;
    if (count || s->in_heap || s->idle_count)
        return (int32_t)count;
    return s->faulty ? SL_SOURCE_FAULT : SL_SOURCE_END;
}

static void release(struct sl_source *source) { of(source)->out = false; }

static bool keeps(const struct sl_source *source)
{
    const struct merge_source *s = (const struct merge_source *)(const void *)source;
    for (size_t i = 0; i < s->count; i++)
        if (!sl_source_keeps(s->inputs[i].source))
            return false;
    return true;
}

static unsigned descriptors(struct sl_source *source, struct pollfd *fds, unsigned most)
{
    struct merge_source *s = of(source);
    unsigned count = 0;
    for (size_t i = 0; i < s->idle_count && count < most; i++) {
        struct sl_source *one = s->inputs[s->idle[i]].source;
        if (one->back_end->descriptors)
            count += one->back_end->descriptors(one, fds + count, most - count);
    }
    return count;
}

static uint64_t earliest_clock(struct sl_source *source)
{
    struct merge_source *s = of(source);
    uint64_t earliest = UINT64_MAX;
    for (size_t i = 0; i < s->count; i++) {
        if (s->inputs[i].ended)
            continue;
        uint64_t clock = sl_source_clock(s->inputs[i].source);
        if (clock < earliest)
            earliest = clock;
    }
    return s->in_heap || earliest == UINT64_MAX ? 0 : earliest;
}

static struct sl_source *part(struct sl_source *source, size_t index)
{
    return index < of(source)->count ? of(source)->inputs[index].source : NULL;
}

static bool is_congested(const struct sl_source *source)
{
    const struct merge_source *s = (const struct merge_source *)(const void *)source;
    for (size_t i = 0; i < s->count; i++)
        if (sl_source_is_congested(s->inputs[i].source))
            return true;
    return false;
}

static void statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    struct merge_source *s = of(source);
    for (size_t i = 0; i < s->count; i++) {
        struct sl_source_statistics one;
        sl_source_statistics(s->inputs[i].source, &one);
        out->dropped_kernel += one.dropped_kernel;
        out->dropped_interface += one.dropped_interface;
        out->vlan_restored += one.vlan_restored;
        out->filtered += one.filtered;
        out->freezes += one.freezes;
        out->link_downs += one.link_downs;
        out->removals += one.removals;
        out->returns += one.returns;
    }
    out->packets = s->packets;
}

static void progress(struct sl_source *source, uint64_t *position, uint64_t *size)
{
    struct merge_source *s = of(source);
    bool known = true;
    for (size_t i = 0; i < s->count; i++) {
        uint64_t one, whole;
        sl_source_progress(s->inputs[i].source, &one, &whole);
        *position += one;
        *size += whole;
        known = known && whole;
    }
    *size = known ? *size : 0;
}

static void take(void *user, uint32_t kind, sl_bytes secrets)
{
    struct merge_source *s = user;
    if (s->base.take_secrets)
        s->base.take_secrets(s->base.secrets_user, kind, secrets);
}

static int close_source(struct sl_source *source)
{
    struct merge_source *s = of(source);
    for (size_t i = 0; s->inputs && i < s->count; i++)
        sl_source_close(s->inputs[i].source, NULL, 0);
    free(s->inputs);
    free(s->heap);
    free(s->idle);
    return 0;
}

static const struct sl_source_back_end back_end = {
    .scheme = "merge",
    .receive = receive,
    .release = release,
    .keeps = keeps,
    .descriptors = descriptors,
    .clock = earliest_clock,
    .part = part,
    .is_congested = is_congested,
    .progress = progress,
    .statistics = statistics,
    .close = close_source,
};

int sl_merge_source_open(struct sl_source **out, struct sl_source **sources, size_t count, bool ordered, char *message,
                         size_t message_size)
{
    struct merge_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s) {
        s->base.back_end = &back_end;
        snprintf(s->base.name, sizeof s->base.name, "%.200s and %zu more", sources[0]->name, count - 1);
        s->count = count;
        s->ordered = ordered;
        s->inputs = calloc(count, sizeof *s->inputs);
        s->heap = calloc(count, sizeof *s->heap);
        s->idle = calloc(count, sizeof *s->idle);
    }
    if (!s || !s->inputs || !s->heap || !s->idle) {
        snprintf(message, message_size, "%s: out of memory", sources[0]->name);
        for (size_t i = 0; i < count; i++)
            sl_source_close(sources[i], NULL, 0);
        if (s) {
            s->count = 0;
            close_source(&s->base);
        }
        free(s);
        free(sources);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        s->inputs[i].source = sources[i];
        sl_source_on_secrets(sources[i], take, s);
        s->idle[s->idle_count++] = (uint32_t)i;
    }
    free(sources);
    *out = &s->base;
    return 0;
}
