/* The bytes of a connection of TLS, from the first record of each side on, for tls_open.h. */
#ifndef TLS_OPENER_H
#define TLS_OPENER_H

#include "tls_open.h"

/* Stores bytes, which fit, after those that are held. Returns false without memory. */
static inline bool tls_hold(struct tls_opener *opener, unsigned number, const uint8_t *at, uint32_t length) {
    struct tls_open_side *side = &opener->side[number];
    if (side->used + length > side->room) {
        uint32_t room = (uint32_t)sl_min(TLS_HELD_MOST, 2 * (uint64_t)(side->used + length));
        bool taken = log_take(opener->budget, room - side->room);
        uint8_t *larger = taken ? realloc(side->held, room) : NULL;
        if (!larger) {
            if (taken)
                log_give(opener->budget, room - side->room);
            tls_shut(opener, number, TLS_SHUT_NO_MEMORY);
            return false;
        }
        side->held = larger;
        side->room = room;
    }
    memcpy(side->held + side->used, at, length);
    side->used += length;
    return true;
}

/* Processes the records that are held, as far as they need not wait. */
static inline void tls_open_held(struct tls_opener *opener, unsigned number) {
    struct tls_open_side *side = &opener->side[number];
    uint32_t done = side->used ? tls_open_front(opener, number, side->held, side->used) : 0;
    if (side->why || !done)
        return;
    memmove(side->held, side->held + done, side->used - done);
    side->used -= done;
    if (!side->used) {   /* idle connections hold nothing */
        log_give(opener->budget, side->room);
        free(side->held);
        side->held = NULL;
        side->room = 0;
    }
}

/* Processes waiting data: the other side's records, for this side's hello, or its answer to early data; and then this side's,
 * for the secrets of those. */
static inline void tls_open_waiting(struct tls_opener *opener, unsigned number) {
    if (!opener->side[!number].why && opener->side[!number].begun)
        tls_open_held(opener, !number);
    if (!opener->side[number].why)
        tls_open_held(opener, number);
}

/* Processes bytes of a side, in order, from its first record on. */
static inline void tls_open_bytes(struct tls_opener *opener, unsigned number, const uint8_t *at, uint32_t length) {
    struct tls_open_side *side = &opener->side[number];
    uint32_t over = (uint32_t)sl_min(side->skip, length);
    side->skip -= over;
    at += over;
    length -= over;
    while (length && !side->why) {
        uint32_t done = side->used ? 0 : tls_open_front(opener, number, at, length);
        at += done;
        length -= done;
        uint32_t take = (uint32_t)sl_min(length, TLS_HELD_MOST - side->used);
        if (side->why || !length)
            break;
        if (!take)   /* the longest record fits: these wait, for a hello or a secret */
            tls_shut(opener, number, opener->answered ? TLS_SHUT_NO_KEY : TLS_SHUT_GAP);
        else if (tls_hold(opener, number, at, take))
            tls_open_held(opener, number);
        at += take;
        length -= take;
    }
    tls_open_waiting(opener, number);
}

/* Handles missing bytes: within the content of a record they lose this record only; of AES-CBC its length is not known. */
static inline void tls_open_gap(struct tls_opener *opener, unsigned number, uint64_t length) {
    struct tls_open_side *side = &opener->side[number];
    uint32_t over = (uint32_t)sl_min(side->skip, length);
    side->skip -= over;
    length -= over;
    if (!length || side->why)
        return;
    uint32_t size = side->used >= TLS_RECORD_HEAD ? TLS_RECORD_HEAD + (uint32_t)sl_load_be16(side->held + 3) : 0;
    bool within = !opener->suite.mac && side->used < size && length <= size - side->used && side->keys.known && side->phase == TLS_IN_TRAFFIC;
    uint32_t extra = TLS_RECORD_HEAD + tls_record_extra(&opener->suite);
    if (!within || side->held[0] != TLS_APPLICATION || size < extra) {
        tls_shut(opener, number, TLS_SHUT_GAP);
        tls_open_waiting(opener, number);
        return;
    }
    side->skip = size - side->used - (uint32_t)length;
    side->used = 0;
    side->keys.sequence++;
    opener->owner->gap(opener->user, number, size - extra);
}

/* Whether no more messages of a handshake are read: both sides have sent Finished, or are shut. */
__attribute__((unused)) static inline bool tls_open_has_finished(const struct tls_opener *opener) {
    for (unsigned i = 0; i < 2; i++)
        if (!opener->side[i].why && opener->side[i].phase != TLS_IN_TRAFFIC)
            return false;
    return true;
}

/* The connection has ended. */
static inline void tls_open_end(struct tls_opener *opener) {
    opener->failures = 0;   /* the log is read once more for the records that still wait */
    tls_open_waiting(opener, opener->client);
    for (unsigned i = 0; i < 2; i++) {
        struct tls_open_side *side = &opener->side[i];
        uint32_t size = side->used >= TLS_RECORD_HEAD ? TLS_RECORD_HEAD + (uint32_t)sl_load_be16(side->held + 3) : UINT32_MAX;
        if (side->begun && !side->why && side->used >= size)   /* a whole record waits */
            tls_shut(opener, i, opener->answered ? TLS_SHUT_NO_KEY : TLS_SHUT_GAP);
        else if (side->skipped && !side->keys.sequence)   /* nothing but records that no key opens */
            tls_shut(opener, i, TLS_SHUT_REFUSED);
    }
}

#endif
