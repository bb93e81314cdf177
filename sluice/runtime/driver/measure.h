/* Code that all measurements share: the trace in memory, pinning to a core, the clocks, and warm packets.
 *
 * sl_bench uses it, and so do the programs in bench/ with which it is compared. They define _GNU_SOURCE before all
 * headers, for the functions that pin the thread. */
#ifndef SL_MEASURE_H
#define SL_MEASURE_H

#include "core/bytes.h"
#include "driver/bench.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- the trace --- */

/* The secrets in a capture, in order. */
struct sl_secrets {
    struct sl_secret { uint32_t kind; sl_bytes bytes; } *all;
    size_t count, room;
    bool complete;   /* false: memory was insufficient for all of them */
};

/* A copy of a capture file in allocated memory, so that the timed loop has no page faults of a mapped file, and the
 * frames of its packets. */
struct sl_trace {
    uint8_t *file;
    struct sl_capture *capture;
    struct sl_frame *frames;
    size_t count;
    uint64_t bytes;   /* the total length of all packets on the wire */
    struct sl_secrets secrets;
};

static inline void sl_trace_free(struct sl_trace *trace)
{
    sl_capture_close(trace->capture);
    free(trace->frames);
    free(trace->secrets.all);
    free(trace->file);
    *trace = (struct sl_trace){0};
}

static inline void sl_secrets_store(void *user, uint32_t kind, sl_bytes bytes)
{
    struct sl_secrets *kept = user;
    if (kept->count == kept->room) {
        size_t room = kept->room ? 2 * kept->room : 8;
        struct sl_secret *more = realloc(kept->all, room * sizeof *more);
        if (!more) {
            kept->complete = false;
            return;
        }
        kept->all = more;
        kept->room = room;
    }
    kept->all[kept->count++] = (struct sl_secret){kind, bytes};
}

static inline uint8_t *sl_trace_read(const char *path, size_t *size, char *message, size_t room)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(message, room, "%s: %s", path, strerror(errno));
        return NULL;
    }
    uint8_t *bytes = NULL;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        bytes = malloc(*size);
        if (bytes && fread(bytes, 1, *size, file) != *size) {
            free(bytes);
            bytes = NULL;
        }
    }
    fclose(file);
    if (!bytes)
        snprintf(message, room, "%s: cannot be loaded into memory", path);
    return bytes;
}

/* Loads the capture at `path`. Returns 0, or -1 with the reason in `message`. A fault in the file is an error, too,
 * because a part of a trace is not the requested workload. */
static inline int sl_trace_load(struct sl_trace *trace, const char *path, char *message, size_t room)
{
    size_t size = 0, frames = 0;
    char why[SL_CAPTURE_MESSAGE];
    *trace = (struct sl_trace){0};
    trace->file = sl_trace_read(path, &size, message, room);
    if (!trace->file)
        return -1;
    if (sl_capture_open_memory(&trace->capture, trace->file, size, why, sizeof why)) {
        snprintf(message, room, "%.200s: %.300s", path, why);
        sl_trace_free(trace);
        return -1;
    }
    trace->secrets.complete = true;
    sl_capture_on_secrets(trace->capture, sl_secrets_store, &trace->secrets);
    struct sl_frame frame;
    int got;
    while ((got = sl_capture_next(trace->capture, &frame)) == 1) {
        if (trace->count == frames) {
            frames = frames ? 2 * frames : 1024;
            struct sl_frame *more = realloc(trace->frames, frames * sizeof *more);
            if (!more) {
                snprintf(message, room, "not enough memory");
                sl_trace_free(trace);
                return -1;
            }
            trace->frames = more;
        }
        trace->frames[trace->count++] = frame;
        trace->bytes += frame.length;
    }
    if (got < 0 || !trace->secrets.complete) {
        snprintf(message, room, "%.200s: %.300s", path, got < 0 ? sl_capture_fault(trace->capture) : "not enough memory");
        sl_trace_free(trace);
        return -1;
    }
    return 0;
}

/* The number of packets in the burst that begins with packet `at`. */
static inline size_t sl_trace_burst(const struct sl_trace *trace, size_t at)
{
    return trace->count - at < SL_BURST ? trace->count - at : SL_BURST;
}

/* --- the core and the clocks --- */

/* Pins this thread to the last core that it may run on. */
static inline void sl_pin(void)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static inline uint64_t sl_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct sl_elapsed sl_elapsed_now(void)
{
    return (struct sl_elapsed){sl_clock(CLOCK_THREAD_CPUTIME_ID), sl_clock(CLOCK_MONOTONIC)};
}

static inline struct sl_elapsed sl_elapsed_since(struct sl_elapsed begin)
{
    struct sl_elapsed end = sl_elapsed_now();
    return (struct sl_elapsed){end.cpu - begin.cpu, end.wall - begin.wall};
}

/* --- warm packets --- */

/* A ring into which each burst is copied just before it is processed, like the packets that a network card writes into
 * the cache. Its size is 128 buffers of 2 KB, which fit in a second-level cache, or twice the largest burst. Packets
 * are aligned to cache lines, as in the buffers of a network card. */
struct sl_ring {
    uint8_t *bytes;
    size_t size, at;
    struct sl_frame frames[SL_BURST];   /* the most recently copied burst */
};

enum { SL_RING_LEAST = 128 * 2048, SL_RING_LINE = 64 };

static inline size_t sl_ring_room(const struct sl_frame *frames, size_t count)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        room += (frames[i].captured + SL_RING_LINE - 1) / SL_RING_LINE * SL_RING_LINE;
    return room;
}

/* Allocates a ring for the bursts of a trace. Returns 0, or -1 if memory is exhausted. The caller frees ring->bytes. */
static inline int sl_ring_open(struct sl_ring *ring, const struct sl_trace *trace)
{
    *ring = (struct sl_ring){.size = SL_RING_LEAST};
    for (size_t at = 0; at < trace->count; at += SL_BURST) {
        size_t twice = 2 * sl_ring_room(trace->frames + at, sl_trace_burst(trace, at));
        if (ring->size < twice)
            ring->size = twice;
    }
    ring->bytes = aligned_alloc(SL_RING_LINE, ring->size);
    if (!ring->bytes)
        return -1;
    memset(ring->bytes, 0, ring->size);   /* populates its pages before the timed loop */
    return 0;
}

/* Copies a burst. The returned frames point to the copies and are valid until the next call. */
static inline const struct sl_frame *sl_ring_copy(struct sl_ring *ring, const struct sl_frame *frames, size_t count)
{
    if (ring->size - ring->at < sl_ring_room(frames, count))
        ring->at = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = ring->bytes + ring->at;
        if (frames[i].captured)
            memcpy(to, frames[i].at, frames[i].captured);
        ring->frames[i] = frames[i];
        ring->frames[i].at = to;
        ring->at += sl_ring_room(&frames[i], 1);
    }
    return ring->frames;
}

/* --- the timed loop --- */

/* Prefetches the frames of the burst after the next one. A driver writes frames into a ring that stays in the cache.
 * Here they are an array as long as the trace, and whether the hardware prefetcher recognises the sequential access
 * depends on the position of the load in the code that reads them, which would distort the measurement. */
SL_PREFETCH void sl_trace_ahead(const struct sl_trace *trace, size_t at) {
    const uintptr_t frames = (uintptr_t)(trace->frames + at) + 2 * SL_BURST * sizeof *trace->frames;
    for (size_t i = 0; i < SL_BURST * sizeof *trace->frames; i += 64)
        sl_prefetch(frames + i, false);
}

/* Processes one burst. In memory, the frames of the next `ahead` packets follow, whose bytes may be prefetched. `ahead`
 * is 0 with warm packets and at the end. */
typedef void (*sl_burst_function)(void *user, const struct sl_frame *frames, size_t count, size_t ahead);

/* Processes all packets once, each burst where it is in the file (ring NULL) or from the ring. Returns the elapsed
 * time.
 *
 * With warm packets, copying and reading the clock are excluded. Each burst is timed with the monotonic clock, which is
 * read without a system call. Querying the kernel for CPU time before and after each burst would cost more than the
 * burst, and would leave caches and branch predictors in another state than in a program that polls a network card.
 * This would slow down a stack, but not a program with a small footprint. The CPU time of the bursts is computed as
 * their share of the CPU time of the whole loop.
 *
 * Inlined, so that `burst` is called directly. */
static inline __attribute__((always_inline)) struct sl_elapsed
sl_measure(const struct sl_trace *trace, struct sl_ring *ring, sl_burst_function burst, void *user)
{
    struct sl_elapsed begin = sl_elapsed_now();
    if (!ring) {
        for (size_t at = 0; at < trace->count; at += SL_BURST) {
            size_t count = sl_trace_burst(trace, at);
            sl_trace_ahead(trace, at);
            burst(user, trace->frames + at, count, sl_trace_burst(trace, at + count));
        }
        return sl_elapsed_since(begin);
    }
    uint64_t bursts = 0, reading = 0;
    for (size_t at = 0; at < trace->count; at += SL_BURST) {
        size_t count = sl_trace_burst(trace, at);
        const struct sl_frame *copied = sl_ring_copy(ring, trace->frames + at, count);
        uint64_t before = sl_clock(CLOCK_MONOTONIC), from = sl_clock(CLOCK_MONOTONIC);
        burst(user, copied, count, 0);
        bursts += sl_clock(CLOCK_MONOTONIC) - from;
        reading += from - before;
    }
    struct sl_elapsed all = sl_elapsed_since(begin);
    bursts -= reading < bursts ? reading : bursts;
    return (struct sl_elapsed){all.wall ? (uint64_t)((double)bursts * (double)all.cpu / (double)all.wall) : 0, bursts};
}

#endif
