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
    SL_RING_BYTES = 1 << 22,   /* of copies, unless the ring says otherwise; more for a packet that is larger */
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

/* What both sides use: in shared memory where the worker is a process. */
struct sl_ring_common {
    struct sl_frame frames[SL_RING_ENTRIES];
    uint8_t kinds[SL_RING_ENTRIES];       /* enum sl_ring_kind */
    /* Each on a cache line of its own. */
    _Alignas(SL_RING_LINE_BYTES) uint64_t published;   /* entries */
    uint64_t clock;            /* no packet that is published later is earlier than it (nanoseconds); 0: not known */
    uint32_t ended;            /* enum sl_ring_ended */
    _Alignas(SL_RING_LINE_BYTES) uint64_t taken;       /* entries that the worker has processed */
};

enum sl_ring_ended {
    SL_RING_GOES_ON,
    SL_RING_ENDED,       /* no more entries come */
    SL_RING_ABANDONED,   /* the same, and the box is not to be ended */
};

/* A process that writes to one that reads has this for itself, so that a fault of the reader's cannot spoil it. */
struct sl_packet_ring {
    struct sl_ring_common *common;
    /* The writer's: */
    uint64_t written;          /* entries, also those that are not published yet */
    uint64_t handed;           /* copy of `published` */
    uint64_t taken_seen;       /* copy of `taken` */
    uint32_t ended;            /* copy of `ended` */
    uint8_t *bytes;
    uint64_t room, bytes_written;
    uint64_t room_least;       /* of `bytes`; 0: SL_RING_BYTES */
    bool shared;               /* `bytes` follow `common`, and have a bound */
    uint64_t byte_ends[SL_RING_ENTRIES];  /* position in `bytes` after those of the entry */
    uint8_t kinds[SL_RING_ENTRIES];       /* copy of `kinds` */
    /* The worker's: */
    _Alignas(SL_RING_LINE_BYTES) uint64_t published_seen;
};

static inline struct sl_packet_ring *sl_packet_ring_open(void)
{
    struct sl_packet_ring *ring = aligned_alloc(SL_RING_LINE_BYTES, sizeof *ring);
    struct sl_ring_common *common = aligned_alloc(SL_RING_LINE_BYTES, sizeof *common);
    if (!ring || !common) {
        free(ring);
        free(common);
        return NULL;
    }
    memset(ring, 0, sizeof *ring);
    memset(common, 0, sizeof *common);
    ring->common = common;
    return ring;
}

static inline void sl_packet_ring_close(struct sl_packet_ring *ring)
{
    if (ring) {
        free(ring->bytes);
        free(ring->common);
    }
    free(ring);
}

/* --- the writer's side --- */

/* Entries that the worker has given back: at least as many as before, and at most those that it got. */
static inline uint64_t sl_ring_given_back(struct sl_packet_ring *ring)
{
    uint64_t taken = __atomic_load_n(&ring->common->taken, __ATOMIC_ACQUIRE);
    if (taken - ring->taken_seen <= ring->handed - ring->taken_seen)
        ring->taken_seen = taken;
    return ring->taken_seen;
}

/* Entries that the worker has not given back. */
static inline uint64_t sl_ring_waiting(struct sl_packet_ring *ring) { return ring->written - sl_ring_given_back(ring); }

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
        uint64_t room = ring->room_least ? ring->room_least : SL_RING_BYTES;
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
    struct sl_ring_common *common = ring->common;
    common->frames[place] = *frame;
    common->kinds[place] = ring->kinds[place] = (uint8_t)kind;
    if (copies && frame->captured) {
        uint64_t at = sl_ring_begin(ring, frame->captured);
        memcpy(ring->bytes + at % ring->room, frame->at, frame->captured);
        common->frames[place].at = ring->bytes + at % ring->room;
        ring->bytes_written = (at + frame->captured + SL_RING_ALIGNED - 1) / SL_RING_ALIGNED * SL_RING_ALIGNED;
    }
    ring->byte_ends[place] = ring->bytes_written;
}

/* Hands the entries so far to the worker. */
static inline void sl_ring_publish(struct sl_packet_ring *ring)
{
    ring->handed = ring->written;
    __atomic_store_n(&ring->common->published, ring->written, __ATOMIC_RELEASE);
}

/* No more entries come. */
static inline void sl_ring_end(struct sl_packet_ring *ring, enum sl_ring_ended ended)
{
    sl_ring_publish(ring);
    ring->ended = ended;
    __atomic_store_n(&ring->common->ended, (uint32_t)ended, __ATOMIC_RELEASE);
}

/* Whether something else than the ring was written to `common`, so that what waits in it may not be what was put there. */
static inline bool sl_ring_is_spoilt(struct sl_packet_ring *ring)
{
    const struct sl_ring_common *common = ring->common;
    bool beyond = common->taken - ring->taken_seen > ring->handed - ring->taken_seen;
    return beyond || common->published != ring->handed || common->ended != ring->ended;
}

/* The packets among these entries, which the ring still has. */
static inline uint64_t sl_ring_packets(const struct sl_packet_ring *ring, uint64_t from, uint64_t to)
{
    uint64_t packets = 0;
    for (; from < to; from++)
        packets += ring->kinds[from % SL_RING_ENTRIES] == SL_RING_PACKET;
    return packets;
}

/* There is no worker, which may have written anything to `common`: the next one begins with entry `taken`. */
static inline void sl_ring_restore(struct sl_packet_ring *ring, uint64_t taken)
{
    struct sl_ring_common *common = ring->common;
    common->published = ring->handed;
    common->ended = ring->ended;
    common->clock = 0;
    common->taken = ring->taken_seen = taken;
}

/* --- the worker's side --- */

/* The next entries of one kind, neighbours in memory, at most `most`: how many there are. */
static inline uint32_t sl_ring_run(struct sl_packet_ring *ring, uint32_t most, struct sl_frame **frames, enum sl_ring_kind *kind)
{
    struct sl_ring_common *common = ring->common;
    uint64_t taken = common->taken;   /* this thread's own */
    if (ring->published_seen <= taken)   /* less in a process that was started again */
        ring->published_seen = __atomic_load_n(&common->published, __ATOMIC_ACQUIRE);
    uint64_t place = taken % SL_RING_ENTRIES, count = ring->published_seen - taken;
    if (count > most)
        count = most;
    if (count > SL_RING_ENTRIES - place)
        count = SL_RING_ENTRIES - place;
    uint32_t run = 0;
    while (run < count && common->kinds[place + run] == common->kinds[place])
        run++;
    *frames = &common->frames[place];
    *kind = run ? (enum sl_ring_kind)common->kinds[place] : SL_RING_PACKET;
    return run;
}

/* Whether it has entries. */
static inline bool sl_ring_has_run(const struct sl_packet_ring *ring)
{
    return __atomic_load_n(&ring->common->published, __ATOMIC_ACQUIRE) != ring->common->taken;
}

/* Gives back so many entries. */
static inline void sl_ring_take(struct sl_packet_ring *ring, uint32_t count)
{
    __atomic_store_n(&ring->common->taken, ring->common->taken + count, __ATOMIC_RELEASE);
}

#endif
