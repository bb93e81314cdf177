/* What a side's stream has brought of a message that is not whole yet.
 *
 * Generated code cuts streams and packets into messages; of packets nothing is kept. Of a stream, here is what it keeps
 * from one delivery to the next. A message whose length is known is only appended to until it is whole, so that a long one
 * costs no more than its bytes.
 *
 * It lies apart from the instance, which has a pointer to it: most connections of a stack that knows such layers carry
 * none of theirs, and would have two lines more that are not read. By slot of the table, not from the pool, so that it is
 * there also when others have used up what may be held. */
#ifndef SL_MESSAGES_H
#define SL_MESSAGES_H

#include "core/bytes.h"
#include "core/pool.h"

/* What a frame graph returns instead of a length; see sluice/lower/message.py. */
#define SL_MESSAGE_INCOMPLETE UINT64_C(0)
#define SL_MESSAGE_MALFORMED UINT64_MAX
#define SL_MESSAGE_TOO_LONG (UINT64_MAX - 1)
#define SL_MESSAGE_CUT (UINT64_MAX - 2)

enum sl_messages_state {
    SL_MESSAGES_FOUND,       /* the next byte begins a message, or goes on with one */
    SL_MESSAGES_LOST,        /* it is not known, and was not reported yet */
    SL_MESSAGES_SEARCHING,   /* the next start is being looked for */
    SL_MESSAGES_OVER,        /* nothing more is understood */
};

/* Why the thread was lost: the numbers of LOSS_CAUSES in the language. */
enum sl_loss_cause {
    SL_LOSS_LIMIT, SL_LOSS_GAP, SL_LOSS_MALFORMED, SL_LOSS_CLOSE, SL_LOSS_SHORT, SL_LOSS_SNAPLEN, SL_LOSS_MEMORY,
    SL_LOSS_WORK, SL_LOSS_BUNDLE
};

/* Why what is left of a packet makes no message, by what the frame graph returned for it. */
SL_COLD uint64_t sl_packet_loss(uint64_t frame) {
    switch (frame) {
    case SL_MESSAGE_MALFORMED: return SL_LOSS_MALFORMED;
    case SL_MESSAGE_TOO_LONG: return SL_LOSS_LIMIT;
    case SL_MESSAGE_CUT: return SL_LOSS_SNAPLEN;
    default: return SL_LOSS_SHORT;
    }
}

struct sl_messages {
    uint8_t *at;      /* from the pool; NULL while room is 0 */
    uint64_t begin;   /* stream offset of the first byte that no message has had */
    uint64_t seen;    /* of the byte after all that came or was given up */
    uint32_t used;    /* bytes of an incomplete message */
    uint32_t room;
    uint32_t want;    /* how many it will have; 0 while its header is not all there */
    uint32_t taker;   /* 1 + index of the layer that took messages last, 0 none */
    uint8_t state;    /* enum sl_messages_state */
    uint8_t cause;    /* of the loss, while state is LOST */
    struct sl_holder holder;   /* while room is not 0 */
};

/* Of all instances of a table; address space until it is used. */
struct sl_messages_array {
    struct sl_messages *at;   /* of each slot one for each side */
    size_t bytes;
};

/* 0, or -1 when the address space cannot be had; then nothing needs to be closed. */
static inline int sl_messages_open(struct sl_messages_array *array, uint32_t max_instances, unsigned sides) {
    array->bytes = (size_t)max_instances * sides * sizeof *array->at;
    array->at = sl_map(array->bytes, array->bytes);
    return array->at ? 0 : -1;
}

static inline void sl_messages_close(struct sl_messages_array *array) {
    if (array->at)
        munmap(array->at, array->bytes);
    *array = (struct sl_messages_array){0};
}

/* What an instance's sides keep, for the first time at `place`. */
static inline struct sl_messages *sl_messages_begin(struct sl_messages **messages, struct sl_messages *place, unsigned sides) {
    if (!*messages)
        *messages = memset(place, 0, sides * sizeof *place);
    return *messages;
}

/* Forgets what is kept and gives its memory back; the state stays. */
static inline void sl_messages_drop(struct sl_messages *messages, struct sl_pool *pool) {
    if (messages->room) {
        sl_holder_remove(pool, &messages->holder);
        sl_pool_give(pool, messages->at, messages->room);
    }
    messages->at = NULL;
    messages->used = messages->room = messages->want = 0;
}

/* What was kept is of no use any more, because of `cause`. A side that nothing is understood of stays so. */
static inline void sl_messages_lose(struct sl_messages *messages, struct sl_pool *pool, uint8_t cause) {
    sl_messages_drop(messages, pool);
    if (messages->state != SL_MESSAGES_OVER && messages->state != SL_MESSAGES_LOST) {
        messages->state = SL_MESSAGES_LOST;
        messages->cause = cause;
    }
}

/* Bytes of the stream, up to offset `end`, do not come. */
static inline void sl_messages_gap(struct sl_messages *messages, struct sl_pool *pool, uint64_t end) {
    messages->seen = sl_max(end, messages->seen);
    sl_messages_lose(messages, pool, SL_LOSS_GAP);
}

/* The stream ends: whether the layer with index `taker` took messages last and has a loss to be notified of, which is that of
 * the part of a message that it was left with, or one before. Nothing more is understood afterwards. */
static inline bool sl_messages_end(struct sl_messages *messages, struct sl_pool *pool, uint32_t taker) {
    if (messages->taker != taker + 1)
        return false;
    if (messages->state == SL_MESSAGES_FOUND && messages->used)
        sl_messages_lose(messages, pool, SL_LOSS_CLOSE);
    sl_messages_drop(messages, pool);
    bool lost = messages->state == SL_MESSAGES_LOST;
    messages->state = SL_MESSAGES_OVER;
    return lost;
}

/* Appends bytes. False when there is no memory; then what was kept is still there. */
SL_COLD bool sl_messages_store(struct sl_messages *messages, struct sl_pool *pool, sl_bytes bytes) {
    uint64_t need = (uint64_t)messages->used + bytes.captured;
    if (need > messages->room) {
        uint64_t room = 64;   /* not for all that the header promises: a sender promises more than it sends */
        while (room < need)
            room *= 2;
        uint8_t *larger = room <= SL_POOL_MOST ? sl_pool_take(pool, (size_t)room) : NULL;
        if (!larger)
            return false;
        if (messages->used)
            memcpy(larger, messages->at, messages->used);
        if (messages->room) {
            sl_pool_give(pool, messages->at, messages->room);
        } else {
            messages->holder.kind = SL_HOLDER_MESSAGE;
            sl_holder_add(pool, &messages->holder);
        }
        messages->at = larger;
        messages->room = (uint32_t)room;
    }
    if (bytes.captured)
        memcpy(messages->at + messages->used, bytes.at, bytes.captured);
    messages->used += bytes.captured;
    return true;
}

/* What was kept and `more` after it, as one slice; nothing is kept afterwards. `more` itself when nothing was; a copy
 * in `scratch` otherwise, and an empty slice when that has no room. */
static inline sl_bytes sl_messages_join(struct sl_messages *messages, struct sl_pool *pool, struct sl_scratch *scratch,
                                        sl_bytes more) {
    if (!messages->used)
        return more;
    uint32_t total = messages->used + more.captured;
    uint8_t *at = sl_scratch_take(scratch, total);
    if (at) {
        memcpy(at, messages->at, messages->used);
        if (more.captured)
            memcpy(at + messages->used, more.at, more.captured);
    }
    sl_messages_drop(messages, pool);
    return at ? (sl_bytes){at, total, total} : (sl_bytes){NULL, 0, 0};
}

#endif
