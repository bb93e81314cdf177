/* A ring of packets from the reader to one worker: one thread writes, one reads, and neither locks anything.
 *
 * The writer fills entries and publishes them together; the reader of the ring gets a run of frames that are neighbours
 * in memory, as a box wants a burst, and gives it back when the box has processed it. Bytes of packets remain where the
 * source has them, or are copied into the ring's own memory, also as a ring: with each entry stands where its bytes
 * end, so that one position gives back both. Both sides keep a copy of the other one's position, and look at the shared
 * one only where the copy does not suffice (Lee et al., "MCRingBuffer", 2010). */
#ifndef SL_RING_H
#define SL_RING_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    SL_RING_ENTRIES = 4096,
    SL_RING_BYTES = 1 << 22,   /* of copies; more for a packet that is larger */
    SL_RING_SHARED_BYTES = 1 << 24,   /* at most, in a ring between processes */
    SL_RING_ALIGNED = 16,
    SL_RING_LINE_BYTES = 64,
};

/* What an entry is. */
enum sl_ring_kind {
    SL_RING_PACKET,
    SL_RING_TIME,      /* it is frame.time; no packet */
    SL_RING_SECRETS,   /* the bytes are secrets of kind frame.number */
};

struct sl_packet_ring {
    struct sl_frame frames[SL_RING_ENTRIES];
    uint8_t kinds[SL_RING_ENTRIES];       /* enum sl_ring_kind */
    uint64_t byte_ends[SL_RING_ENTRIES];  /* position in `bytes` after those of the entry */
    /* The writer's: */
    uint64_t written;          /* entries, also those that are not published yet */
    uint64_t taken_seen;       /* copy of `taken` */
    uint8_t *bytes;
    uint64_t room, bytes_written;
    bool shared;               /* `bytes` follow the ring, and have a bound */
    /* Shared, each on a cache line of its own. */
    _Alignas(SL_RING_LINE_BYTES) uint64_t published;   /* entries */
    uint64_t clock;            /* no packet that is published later is earlier than it (nanoseconds); 0: not known */
    uint32_t ended;            /* no more entries come */
    _Alignas(SL_RING_LINE_BYTES) uint64_t taken;       /* entries that the worker has processed */
    /* The worker's: */
    _Alignas(SL_RING_LINE_BYTES) uint64_t published_seen;
};

static inline struct sl_packet_ring *sl_packet_ring_open(void)
{
    struct sl_packet_ring *ring = aligned_alloc(SL_RING_LINE_BYTES, sizeof *ring);
    if (ring)
        memset(ring, 0, sizeof *ring);
    return ring;
}

static inline void sl_packet_ring_close(struct sl_packet_ring *ring)
{
    if (ring)
        free(ring->bytes);
    free(ring);
}

/* --- the writer's side --- */

/* Entries that the worker has not given back. */
static inline uint64_t sl_ring_waiting(struct sl_packet_ring *ring)
{
    ring->taken_seen = __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE);
    return ring->written - ring->taken_seen;
}

static inline bool sl_ring_has_entry(struct sl_packet_ring *ring)
{
    return ring->written - ring->taken_seen < SL_RING_ENTRIES || sl_ring_waiting(ring) < SL_RING_ENTRIES;
}

/* Where so many bytes would begin: bytes of one packet are in one piece, so that the end of the memory may remain free. */
static inline uint64_t sl_ring_begin(const struct sl_packet_ring *ring, uint64_t size)
{
    uint64_t at = ring->bytes_written % ring->room;
    return ring->room - at < size ? ring->bytes_written + ring->room - at : ring->bytes_written;
}

/* Room for a copy of so many bytes: false while there is none, or without memory (`*failed`). A packet that is larger
 * than a quarter of the memory waits until the ring is empty, and gets a larger one then. */
static inline bool sl_ring_has_bytes(struct sl_packet_ring *ring, uint64_t size, bool *failed)
{
    if (!size)
        return true;   /* there may be no memory yet */
    size = (size + SL_RING_ALIGNED - 1) / SL_RING_ALIGNED * SL_RING_ALIGNED;
    if (size > ring->room / 4) {
        if (sl_ring_waiting(ring))
            return false;
        uint64_t room = SL_RING_BYTES;
        while (room / 4 < size)
            room *= 2;
        uint8_t *larger = ring->shared ? ring->bytes : malloc(room);
        *failed = !larger;
        if (!larger)
            return false;
        if (!ring->shared)
            free(ring->bytes);
        ring->bytes = larger;
        ring->room = ring->shared ? SL_RING_SHARED_BYTES : room;
        ring->bytes_written = 0;
        ring->byte_ends[(ring->written - 1) % SL_RING_ENTRIES] = 0;   /* the worker has given this entry back */
    }
    /* bytes before the end of the last entry that was given back are free */
    for (unsigned again = 0; again < 2; again++, sl_ring_waiting(ring)) {
        if (ring->written == ring->taken_seen)
            return true;
        uint64_t freed = ring->taken_seen ? ring->byte_ends[(ring->taken_seen - 1) % SL_RING_ENTRIES] : 0;
        if (sl_ring_begin(ring, size) + size - freed <= ring->room)
            return true;
    }
    return false;
}

/* Adds an entry, which there is room for, and a copy of its bytes if `copies`. */
static inline void sl_ring_put(struct sl_packet_ring *ring, enum sl_ring_kind kind, const struct sl_frame *frame, bool copies)
{
    uint64_t place = ring->written++ % SL_RING_ENTRIES;
    ring->frames[place] = *frame;
    ring->kinds[place] = (uint8_t)kind;
    if (copies && frame->captured) {
        uint64_t at = sl_ring_begin(ring, frame->captured);
        memcpy(ring->bytes + at % ring->room, frame->at, frame->captured);
        ring->frames[place].at = ring->bytes + at % ring->room;
        ring->bytes_written = (at + frame->captured + SL_RING_ALIGNED - 1) / SL_RING_ALIGNED * SL_RING_ALIGNED;
    }
    ring->byte_ends[place] = ring->bytes_written;
}

/* Hands the entries so far to the worker. */
static inline void sl_ring_publish(struct sl_packet_ring *ring)
{
    __atomic_store_n(&ring->published, ring->written, __ATOMIC_RELEASE);
}

/* --- the worker's side --- */

/* The next entries of one kind, neighbours in memory, at most `most`: how many there are. */
static inline uint32_t sl_ring_run(struct sl_packet_ring *ring, uint32_t most, struct sl_frame **frames, enum sl_ring_kind *kind)
{
    uint64_t taken = ring->taken;   /* this thread's own */
    if (ring->published_seen == taken)
        ring->published_seen = __atomic_load_n(&ring->published, __ATOMIC_ACQUIRE);
    uint64_t place = taken % SL_RING_ENTRIES, count = ring->published_seen - taken;
    if (count > most)
        count = most;
    if (count > SL_RING_ENTRIES - place)
        count = SL_RING_ENTRIES - place;
    uint32_t run = 0;
    while (run < count && ring->kinds[place + run] == ring->kinds[place])
        run++;
    *frames = &ring->frames[place];
    *kind = run ? (enum sl_ring_kind)ring->kinds[place] : SL_RING_PACKET;
    return run;
}

/* Whether it has entries. */
static inline bool sl_ring_has_run(const struct sl_packet_ring *ring)
{
    return __atomic_load_n(&ring->published, __ATOMIC_ACQUIRE) != ring->taken;
}

/* Gives back so many entries. */
static inline void sl_ring_take(struct sl_packet_ring *ring, uint32_t count)
{
    __atomic_store_n(&ring->taken, ring->taken + count, __ATOMIC_RELEASE);
}

#endif
