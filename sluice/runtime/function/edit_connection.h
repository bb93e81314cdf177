/* What a box stores of a TCP connection whose bytes functions edit; and the segments that it makes for it. edit.h uses it.
 */
#ifndef SL_EDIT_CONNECTION_H
#define SL_EDIT_CONNECTION_H

#include "function/edit_map.h"
#include "function/edit_segment.h"
#include "function/output.h"

SL_RUNTIME_BEGIN

enum { SL_TCP_FIN = 1, SL_TCP_SYN = 2, SL_TCP_RST = 4, SL_TCP_ACK = 16, SL_TCP_URG = 32 };   /* RFC 9293, 3.1 */

/* One side, as a sender. Positions: see edit_map.h. */
struct sl_edit_side {
    struct sl_edit_map map;
    uint64_t base;              /* of byte 0 of the stream */
    uint64_t sent;              /* bytes before it were transmitted */
    uint64_t decided;           /* bytes before it are not edited any more than the map says; from `sent` on */
    uint64_t fin;               /* of its FIN; 0: none was seen */
    uint64_t acked;             /* output position that the receiver has acknowledged */
    uint64_t told;              /* input position that was acknowledged to the sender */
    uint8_t *tail;              /* the bytes from `sent` on that were delivered */
    size_t count, room;
    uint32_t stamp, echo, ack;  /* of its last segment: time stamp option, acknowledgement as it was transmitted */
    uint32_t largest;           /* bytes of its largest segment */
    uint16_t mss, window;       /* that it announced */
    uint8_t scale;              /* of its window, as its SYN says */
    bool stamps, sacks;         /* it uses these options */
    bool missed;                /* the receiver has acknowledged bytes that the box has not transmitted */
    /* The headers of its last packet: */
    uint16_t head_length, link_type, port;
    struct sl_edit_places places;
    uint8_t head[SL_EDIT_HEAD_MOST];
};

/* What a SYN says. */
struct sl_edit_syn {
    uint32_t number;
    uint16_t mss;
    uint8_t scale;               /* 255: none */
    bool known, stamps, sacks;
};

/* What all connections of a box share; a part of the state of the function that edits. */
struct sl_edit_box {
    uint8_t *bytes;              /* where output is put together */
    size_t room;
    uint64_t open, open_most;    /* connections, and their bound; 0: 262,144 */
    uint64_t held;               /* bytes that all of them hold: edits, bytes that wait, and what the function adds of its own */
    uint64_t edits;              /* that were made */
    uint64_t acknowledged;       /* acknowledgements that the box sent in the receiver's place */
    uint64_t unable[SL_EDIT_OBSTACLES];   /* connections whose segments cannot be made, by enum sl_edit_obstacle */
    uint64_t no_room;            /* edits that were not made, and connections that are not edited, at a bound */
    uint64_t not_mapped;         /* packets of edited connections that were dropped, as their numbers cannot be changed */
    uint64_t reset_again;        /* packets of connections that were reset, whose senders got another reset */
    struct sl_edit_syn again;    /* that came to a connection which has ended during packet number `again_for` */
    uint64_t again_for;
};

struct sl_edit_connection {
    struct sl_edit_side side[2];
    struct sl_edit_box *own;
    struct sl_event event;       /* of the current packet */
    struct sl_edit_places places;
    uint32_t end;                /* of its segment */
    uint8_t obstacle;            /* enum sl_edit_obstacle */
    uint64_t counted;            /* bytes of it in own->held */
    bool renumbered;             /* another function has changed numbers of a packet */
    bool resets;                 /* the next packet is replaced by resets to both ends */
    bool closed;                 /* they were sent */
};

/* Bytes that all connections of a box may hold. */
static const uint64_t sl_edit_held_most = 256 << 20;

/* Counts again what a connection holds. */
static inline void sl_edit_count(struct sl_edit_connection *c) {
    uint64_t now = sl_edit_map_held(&c->side[0].map) + c->side[0].room + sl_edit_map_held(&c->side[1].map) + c->side[1].room;
    c->own->held += now - c->counted;
    c->counted = now;
}

/* The position of a number that is near `near`. */
static inline uint64_t sl_edit_position(uint64_t near, uint32_t number) {
    return near + (uint64_t)(int64_t)(int32_t)(number - (uint32_t)near);
}

static inline bool sl_edit_reserve(uint8_t **bytes, size_t *room, size_t wanted) {
    if (wanted <= *room)
        return true;
    size_t larger = sl_max(2 * *room, sl_max(wanted, 2048));
    uint8_t *at = realloc(*bytes, larger);
    if (!at)
        return false;
    *bytes = at;
    *room = larger;
    return true;
}

/* Queues a packet of head and payload for transmission; returns where its bytes are, NULL without room. back: in the
 * direction that packets of frame->port came from. apart: there is no current packet; the frame has its own port. */
static inline uint8_t *sl_edit_queue(struct sl_box *box, const struct sl_frame *frame, const uint8_t *head, uint32_t head_length,
                                     const uint8_t *payload, uint32_t count, bool back, bool apart) {
    struct sl_output *output = &box->output;
    uint32_t length = head_length + count;
    sl_sent_reset(output);
    if (!output->forwards || output->sent_count >= SL_SENT_WAITING || !sl_sent_room(output, 1, length)) {
        output->not_sent++;
        return NULL;
    }
    uint8_t *at = output->sent_bytes + output->sent_used;
    memcpy(at, head, head_length);
    if (count)
        memcpy(at + head_length, payload, count);
    struct sl_sent *sent = &output->sent[output->sent_count++];
    *sent = (struct sl_sent){.frame = *frame, .back = back, .held = apart};
    sent->after = output->in_burst ? output->place + !apart : 0;
    sent->frame.at = (const uint8_t *)(uintptr_t)output->sent_used;
    sent->frame.captured = sent->frame.length = length;
    output->sent_used += length;
    output->sends++;
    return at;
}

/* Sends a whole packet that is not about the current one, with the time, the link type and the port of `frame`. back: as
 * above. False without room. */
static inline bool sl_send_apart(struct sl_box *box, const struct sl_frame *frame, const void *bytes, uint32_t length, bool back) {
    if (length > SL_SENT_BYTES) {
        box->output.not_sent++;
        return false;
    }
    return sl_edit_queue(box, frame, bytes, length, NULL, 0, back, true) != NULL;
}

/* Makes the header of a segment of a side without a received one: `at` has room for SL_EDIT_HEAD_MOST + 40 bytes. block:
 * two positions for an option of selective acknowledgement, or NULL. Returns the bytes of all headers; 0 if the side has
 * sent none yet. */
static inline uint32_t sl_edit_header_of(const struct sl_edit_side *side, uint8_t flags, uint32_t number, uint32_t ack,
                                         uint32_t echo, const uint64_t *block, uint8_t *at) {
    if (!side->head_length)
        return 0;
    uint8_t *tcp = at + side->places.tcp, *option = tcp + 20;
    memcpy(at, side->head, side->places.tcp + 20u);
    if (side->stamps) {
        memcpy(option, (const uint8_t[]){1, 1, 8, 10}, 4);
        sl_store_be32(option + 4, side->stamp);
        sl_store_be32(option + 8, echo);
        option += 12;
    }
    if (block) {
        memcpy(option, (const uint8_t[]){1, 1, 5, 10}, 4);
        sl_store_be32(option + 4, (uint32_t)block[0]);
        sl_store_be32(option + 8, (uint32_t)block[1]);
        option += 12;
    }
    sl_store_be32(tcp + 4, number);
    sl_store_be32(tcp + 8, ack);
    tcp[12] = (uint8_t)((option - tcp) / 4 << 4);
    tcp[13] = flags;
    sl_store_be16(tcp + 14, side->window);
    memset(tcp + 16, 0, 4);
    return (uint32_t)(option - at);
}

/* How many bytes a segment of a side may have, with an option list of so many bytes: the receiver's maximum, and not
 * more than the sender has used, which is what it knows of the path. */
static inline uint32_t sl_edit_limit(const struct sl_edit_side *side, const struct sl_edit_side *receiver, uint32_t options) {
    uint32_t most = receiver->mss > options + 64 ? receiver->mss - options : 64;
    return (uint32_t)sl_min(most, sl_max(side->largest, 536));
}

/* Sends an acknowledgement to the sender of `side` in the receiver's place: up to an input position, with a block that the
 * box holds, or NULL. `expects`: the number that the sender expects next. */
static inline void sl_edit_acknowledge(struct sl_box *box, struct sl_edit_connection *c, unsigned side, uint64_t position,
                                       uint32_t expects, const uint64_t *block) {
    uint8_t head[SL_EDIT_HEAD_MOST + 40];
    struct sl_edit_side *sender = &c->side[side], *receiver = &c->side[side ^ 1];
    uint32_t length = sl_edit_header_of(receiver, SL_TCP_ACK, expects, (uint32_t)position, sender->stamp, block, head);
    if (!length)
        return;
    sl_edit_seal(&receiver->places, head, length, 0, false, 0);
    struct sl_frame frame = {.time = box->now, .link_type = receiver->link_type, .port = box->frame->port};
    if (sl_edit_queue(box, &frame, head, length, NULL, 0, true, false)) {
        c->own->acknowledged++;
        sender->told = sl_max(sender->told, position);
    }
}

/* Puts the output of [from, to), whose input is at `bytes`, after `used` bytes of the box's buffer. False without memory. */
static inline bool sl_edit_collect(struct sl_edit_box *own, const struct sl_edit_map *map, uint64_t from, uint64_t to,
                                   const uint8_t *bytes, size_t *used) {
    size_t more = (size_t)(sl_edit_out(map, to) - sl_edit_out(map, from));
    if (!sl_edit_reserve(&own->bytes, &own->room, *used + more))
        return false;
    sl_edit_apply(map, from, bytes, to - from, own->bytes + *used);
    *used += more;
    return true;
}

/* Removes the bytes of the tail before `position`, which were transmitted. */
static inline void sl_edit_advance(struct sl_edit_side *side, uint64_t position) {
    size_t count = (size_t)(position - side->sent);
    side->count -= count;
    if (side->count)
        memmove(side->tail, side->tail + count, side->count);
    side->sent = position;
    side->decided = sl_max(side->decided, position);
    if (!side->count && side->room > 65536) {   /* after a large hole was filled */
        free(side->tail);
        side->tail = NULL;
        side->room = 0;
    }
}

SL_RUNTIME_END

#endif
