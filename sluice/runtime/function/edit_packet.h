/* How a packet of an edited connection leaves. edit.h includes it. */
#ifndef SL_EDIT_PACKET_H
#define SL_EDIT_PACKET_H

#include "function/edit_connection.h"
#include "function/peek.h"

SL_RUNTIME_BEGIN

/* Are all bytes transmitted as they came, and is none held back? */
static inline bool sl_edit_is_untouched(const struct sl_edit_connection *c) {
    for (unsigned side = 0; side < 2; side++)
        if (!sl_edit_map_is_identity(&c->side[side].map) || c->side[side].count)
            return false;
    return true;
}

/* Translates an acknowledgement of the bytes of `sender`, notes it, and returns what its sender is to get. */
static inline uint32_t sl_edit_take_ack(struct sl_edit_side *sender, uint32_t ack) {
    uint64_t end = sender->fin && sender->sent == sender->fin ? sender->fin + 1 : sender->sent;
    uint64_t most = sl_edit_out(&sender->map, end), position = sl_edit_position(most, ack);
    uint64_t acknowledged = sl_edit_in(&sender->map, position);
    if (position <= most && position > sender->acked) {
        sender->acked = position;
        sl_edit_fold(&sender->map, position);
    }
    if (position <= most)
        sender->told = sl_max(sender->told, acknowledged);
    sender->missed = position > most;
    return (uint32_t)acknowledged;
}

/* Keeps the stack from taking acknowledgements of output, whose numbers are larger where edits have made bytes longer, for
 * those of bytes that it has not seen: it would give up the hole before these. */
static inline void sl_edit_keep_holes(struct sl_edit_connection *c) {
    for (unsigned side = 0; side < 2; side++) {
        struct sl_sequence *seq = sl_event_sequence(&c->event, side);
        if (seq && !c->side[side].missed)
            sl_sequence_wait_on(seq);
    }
}

/* Translates the blocks of a selective acknowledgement of the bytes of `sender`. Blocks of which nothing remains become
 * the bytes of option 1, which have no meaning. */
static inline void sl_edit_translate_blocks(const struct sl_edit_side *sender, uint8_t *tcp, uint32_t length) {
    uint8_t *block = sl_edit_option(tcp, length, 5, 0);
    if (!block || sl_edit_map_is_identity(&sender->map))
        return;
    uint32_t size = block[-1], left = 2;
    uint64_t near = sl_edit_out(&sender->map, sender->sent);
    for (uint32_t at = 2; at + 8 <= size; at += 8) {
        uint64_t lo = sl_edit_in_from(&sender->map, sl_edit_position(near, (uint32_t)sl_load_be32(block - 2 + at)));
        uint64_t hi = sl_edit_in(&sender->map, sl_edit_position(near, (uint32_t)sl_load_be32(block - 2 + at + 4)));
        if (lo >= hi)
            continue;
        sl_store_be32(block - 2 + left, (uint32_t)lo);
        sl_store_be32(block - 2 + left + 4, (uint32_t)hi);
        left += 8;
    }
    memset(block - 2 + left, 1, size - left);
    if (left > 2)
        block[-1] = (uint8_t)left;
    else
        memset(block - 2, 1, 2);
}

/* The window that the sender is to see, so that its bytes still fit after edits have made them longer. It never shrinks
 * below two segments: a connection must go on. */
static inline uint16_t sl_edit_window(const struct sl_edit_side *sender, const struct sl_edit_side *receiver, uint16_t window) {
    uint64_t out = sl_edit_out(&sender->map, sender->sent) - sender->acked;
    uint64_t in = sender->sent - sl_edit_in(&sender->map, sender->acked), bytes = (uint64_t)window << receiver->scale;
    uint64_t least = sl_min(bytes, 2920);
    return out <= in ? window : (uint16_t)(sl_max(bytes > out - in ? bytes - (out - in) : 0, least) >> receiver->scale);
}

/* Notes what the headers of a packet say, which later segments of its side have. */
static inline void sl_edit_note(struct sl_edit_connection *c, struct sl_edit_side *side, const struct sl_frame *frame,
                                const uint8_t *head, uint32_t ack) {
    uint8_t *tcp = (uint8_t *)(uintptr_t)(head + c->places.tcp);
    const uint8_t *stamp = sl_edit_option(tcp, (uint32_t)c->places.payload - c->places.tcp, 8, 10);
    if (stamp) {
        side->stamp = (uint32_t)sl_load_be32(stamp);
        side->echo = (uint32_t)sl_load_be32(stamp + 4);
    }
    side->window = (uint16_t)sl_load_be16(tcp + 14);
    side->ack = ack;
    side->places = c->places;
    side->head_length = (uint16_t)(c->places.tcp + 20);
    memcpy(side->head, head, side->head_length);
    side->link_type = frame->link_type;
    side->port = frame->port;
}

/* Makes the current packet's bytes those of the first segment, and queues the others. */
static inline bool sl_edit_divide(struct sl_box *box, struct sl_edit_connection *c, struct sl_edit_side *side, uint32_t start,
                                  size_t count, uint32_t ack, uint8_t flags, uint32_t limit) {
    struct sl_output *output = &box->output;
    const struct sl_frame *frame = box->frame;
    const struct sl_edit_places *places = &c->places;
    const bool partial = frame->flags & SL_FRAME_CHECKSUM_PARTIAL;
    uint8_t head[SL_EDIT_HEAD_MOST];
    uint32_t first = (uint32_t)sl_min(count, limit), payload = places->payload, length = payload - places->tcp;
    if (!sl_output_room(output, (output->changed ? 0 : frame->captured) + (size_t)limit + payload))
        return false;
    if (!output->changed) {
        output->current = output->used;
        memcpy(output->bytes + output->current, frame->at, frame->captured);
        output->changed = true;
        output->length = frame->captured;
        output->used += frame->captured;
    }
    uint8_t *at = output->bytes + output->current, *tcp = head + places->tcp;
    uint16_t error = partial ? 0 : sl_edit_error(places, at, c->end);
    memcpy(head, at, payload);
    sl_store_be32(tcp + 8, ack);
    sl_edit_translate_blocks(&c->side[(side == &c->side[0])], tcp, length);
    sl_store_be16(tcp + 14, sl_edit_window(&c->side[(side == &c->side[0])], side, (uint16_t)sl_load_be16(tcp + 14)));
    for (size_t done = 0; done < count || !done; done += limit) {
        uint32_t here = (uint32_t)sl_min(count - done, limit);
        bool last = done + here == count;
        sl_store_be32(tcp + 4, start + (uint32_t)done);
        tcp[13] = (uint8_t)(last ? flags : flags & ~SL_TCP_FIN);
        if (!done) {
            memcpy(at, head, payload);
            if (first)
                memcpy(at + payload, c->own->bytes, first);
            sl_edit_seal(places, at, payload + first, error, partial, 0);
        } else {
            uint8_t *more = sl_edit_queue(box, frame, head, payload, c->own->bytes + done, here, false, false);
            if (!more)
                return true;   /* counted; the sender sends it again */
            sl_edit_seal(places, more, payload + here, error, partial, (uint16_t)(done / limit));
        }
        if (last)
            break;
    }
    output->length = payload + first;
    output->used = output->current + output->length;
    return true;
}

/* Transmits the bytes of a side that are decided, in segments of their own. */
static inline void sl_edit_flush(struct sl_box *box, struct sl_edit_connection *c, unsigned which) {
    struct sl_edit_side *side = &c->side[which & 1], *receiver = &c->side[(which & 1) ^ 1];
    uint8_t head[SL_EDIT_HEAD_MOST + 40];
    size_t used = 0;
    uint64_t start = sl_edit_out(&side->map, side->sent);
    if (side->decided == side->sent || !sl_edit_collect(c->own, &side->map, side->sent, side->decided, side->tail, &used))
        return;
    const uint32_t options = side->stamps ? 12 : 0, limit = sl_edit_limit(side, receiver, options);
    const struct sl_frame frame = {.time = box->now, .link_type = side->link_type, .port = side->port};
    for (size_t done = 0; done < used; done += limit) {
        uint32_t here = (uint32_t)sl_min(used - done, limit), ack = (uint32_t)sl_edit_in(
            &receiver->map, sl_edit_position(receiver->acked, side->ack));
        uint32_t length = sl_edit_header_of(side, SL_TCP_ACK, (uint32_t)(start + done), ack, side->echo, NULL, head);
        uint8_t *at = length ? sl_edit_queue(box, &frame, head, length, c->own->bytes + done, here, false, true) : NULL;
        if (at)
            sl_edit_seal(&side->places, at, length + here, 0, false, 0);
    }
    sl_edit_advance(side, side->decided);
}

/* Drops the current packet and sends a reset to each end, with the number that it expects: others only make it send an
 * acknowledgement (RFC 5961, 3.2). */
static inline void sl_edit_reset(struct sl_box *box, struct sl_edit_connection *c, unsigned which, uint32_t expects) {
    struct sl_edit_side *mine = &c->side[which], *its = &c->side[which ^ 1];
    const struct sl_frame frame = {.time = box->now, .link_type = mine->link_type, .port = box->frame->port};
    const uint32_t numbers[2] = {(uint32_t)sl_edit_out(&mine->map, mine->sent), expects};
    const uint32_t acks[2] = {(uint32_t)sl_edit_in(&its->map, sl_edit_position(its->acked, expects)), (uint32_t)mine->sent};
    for (unsigned back = 0; back < 2; back++) {
        uint8_t head[SL_EDIT_HEAD_MOST + 40];
        const struct sl_edit_side *from = back ? its : mine;
        uint32_t length = sl_edit_header_of(from, SL_TCP_RST | SL_TCP_ACK, numbers[back], acks[back], 0, NULL, head);
        if (!length)
            continue;
        sl_edit_seal(&from->places, head, length, 0, false, 0);
        sl_edit_queue(box, &frame, head, length, NULL, 0, back, false);
    }
    c->resets = false;
    c->closed = true;
    sl_drop_by(box, 0);
}

/* Drops the current packet of a connection that was reset, and answers with a reset as an end without the connection does
 * (RFC 9293, 3.10.7.1): of an end that still sends, the first reset was lost, or had a number that it did not expect any more as
 * packets were on their way to it. */
static inline void sl_edit_reset_again(struct sl_box *box, struct sl_edit_connection *c, unsigned which, const uint8_t *tcp) {
    const struct sl_edit_side *from = &c->side[which ^ 1];
    uint8_t head[SL_EDIT_HEAD_MOST + 40];
    sl_drop_by(box, 0);
    if ((tcp[13] & (SL_TCP_RST | SL_TCP_ACK)) != SL_TCP_ACK)
        return;
    uint32_t length = sl_edit_header_of(from, SL_TCP_RST, (uint32_t)sl_load_be32(tcp + 8), 0, 0, NULL, head);
    if (!length)
        return;
    const struct sl_frame frame = {.time = box->now, .link_type = from->link_type, .port = box->frame->port};
    sl_edit_seal(&from->places, head, length, 0, false, 0);
    c->own->reset_again += sl_edit_queue(box, &frame, head, length, NULL, 0, true, false) != NULL;
}

/* Another function has changed numbers of the current packet: the connection is not edited from the next one on. If nothing was
 * edited so far, the packet passes, and its bytes with it. number: its own, as received. */
SL_COLD void sl_edit_renumbered(struct sl_box *box, struct sl_edit_connection *c, unsigned which, uint32_t number) {
    struct sl_edit_side *mine = &c->side[which], *its = &c->side[which ^ 1];
    c->renumbered = true;
    box->output.not_edited = true;
    if (sl_edit_map_is_identity(&mine->map) && sl_edit_map_is_identity(&its->map) && !its->count &&
        (!mine->count || number == (uint32_t)mine->sent)) {
        sl_edit_advance(mine, mine->sent + mine->count);
    } else {
        c->own->not_mapped++;
        sl_drop_by(box, 0);
    }
}

/* Decides how the current packet leaves, at the end of its processing. */
SL_COLD void sl_edit_packet(struct sl_box *box, const struct sl_frame *frame, void *connection) {
    struct sl_edit_connection *c = connection;
    struct sl_output *output = &box->output;
    const unsigned which = c->event.side & 1;
    struct sl_edit_side *mine = &c->side[which], *its = &c->side[which ^ 1];
    const uint8_t *at = output->changed ? output->bytes + output->current : frame->at;
    if (c->obstacle) {   /* its numbers cannot be translated, so neither end may get it */
        c->own->not_mapped++;
        output->not_edited = true;
        sl_drop_by(box, 0);
        return;
    }
    const uint8_t *tcp = at + c->places.tcp;
    if (output->changed && memcmp(tcp + 4, frame->at + c->places.tcp + 4, 8) != 0) {   /* as nat does for FTP */
        sl_edit_renumbered(box, c, which, (uint32_t)sl_load_be32(frame->at + c->places.tcp + 4));
        return;
    }
    if (tcp[13] & SL_TCP_SYN) {
        sl_edit_note(c, mine, frame, at, (uint32_t)sl_load_be32(tcp + 8));
        return;
    }
    if (c->closed) {
        sl_edit_reset_again(box, c, which, tcp);
        return;
    }
    if (c->resets) {
        if (!mine->head_length)   /* the first packet after the SYN has the pattern */
            sl_edit_note(c, mine, frame, at, (uint32_t)sl_load_be32(tcp + 8));
        sl_edit_reset(box, c, which, (uint32_t)sl_load_be32(tcp + 8));
        return;
    }
    const uint32_t length = c->end - c->places.payload;
    uint8_t flags = tcp[13];
    const uint64_t s = sl_edit_position(mine->sent, (uint32_t)sl_load_be32(tcp + 4)), e = s + length, sent = mine->sent;
    const uint64_t after = sent + mine->count;   /* bytes before it were delivered */
    const uint32_t ack_was = (uint32_t)sl_load_be32(tcp + 8);
    const bool news = ack_was != mine->ack || (uint16_t)sl_load_be16(tcp + 14) != mine->window;
    const uint32_t ack = flags & SL_TCP_ACK ? sl_edit_take_ack(its, ack_was) : ack_was;
    sl_edit_keep_holes(c);
    sl_edit_count(c);
    if ((flags & SL_TCP_FIN) && e >= sent && e - sent < SL_FAR)
        mine->fin = e;
    const bool resets = flags & SL_TCP_RST, resets_in_order = resets && s == after;
    if ((mine->fin && after == mine->fin) || resets_in_order)
        mine->decided = after;   /* no bytes follow that could change the decision */
    mine->largest = (uint32_t)sl_max(mine->largest, length);
    sl_edit_note(c, mine, frame, at, ack_was);
    if (output->dropped) {   /* as if the link had lost it: a retransmission is edited by the map */
        sl_edit_advance(mine, mine->decided);
        return;
    }
    const bool late_fin = mine->fin && mine->decided == mine->fin && sent < mine->fin && !(flags & SL_TCP_FIN);
    if (sl_edit_map_is_identity(&mine->map) && sl_edit_map_is_identity(&its->map) && mine->decided == after && !late_fin &&
        (mine->count ? sent >= s && after == e : e <= after || !length) && (s >= mine->map.folded || !length)) {
        sl_edit_advance(mine, after);   /* nothing is to be changed: of edits before, no byte is in the packet */
        return;
    }
    size_t used = 0;
    uint64_t from = sl_max(s, mine->map.folded), to = sl_min(e, sent), start = sl_edit_out(&mine->map, sent);
    bool complete = true, emits = mine->decided > sent && (!resets || resets_in_order);
    if (from < to && (to == sent || !emits)) {   /* bytes that have left before */
        start = sl_edit_out(&mine->map, from);
        complete = sl_edit_collect(c->own, &mine->map, from, to, at + c->places.payload + (from - s), &used);
    } else if (!length && !emits) {   /* the sender's number is after bytes that wait */
        start = sl_edit_out(&mine->map, s > sent && s <= after ? sent : s);
    }
    if (emits)
        complete = complete && sl_edit_collect(c->own, &mine->map, sent, mine->decided, mine->tail, &used);
    if (!complete) {
        c->own->no_room++;
        sl_drop_by(box, 0);
        return;
    }
    if (emits)
        sl_edit_advance(mine, mine->decided);
    const bool ends = mine->fin && mine->sent == mine->fin && start + used == sl_edit_out(&mine->map, mine->fin) &&
                      ((flags & SL_TCP_FIN) || sent < mine->fin);
    flags = (uint8_t)(ends ? flags | SL_TCP_FIN : flags & ~SL_TCP_FIN);
    const uint32_t limit = (uint32_t)sl_max(sl_edit_limit(mine, its, c->places.payload - c->places.tcp - 20u), length);
    /* Of a keep-alive with a byte of garbage (RFC 9293, 3.8.4) nothing is left after an edit. The receiver itself answers it, as
     * otherwise one that is gone would seem to be alive. */
    const bool keeps_alive = length == 1 && e == sent && !used && !emits && !ends;
    if (keeps_alive)
        start = sl_edit_out(&mine->map, sent) - 1;
    if (!keeps_alive && !used && (length || (tcp[13] & SL_TCP_FIN)) && !ends && !news && !resets)
        output->withheld = true;   /* it would only repeat an acknowledgement */
    else if (!sl_edit_divide(box, c, mine, (uint32_t)start, used, ack, flags, limit))
        sl_drop_by(box, 0);
    /* What the sender is to know, and the receiver will not say: */
    const uint64_t received = sl_edit_in(&mine->map, mine->acked);
    uint8_t held;
    uint64_t block[2] = {s, e};
    if (length && s > after && mine->sacks) {
        if (sl_peek(&c->event, which, s - mine->base, &held, 1))
            sl_edit_acknowledge(box, c, which, sl_max(mine->told, received), ack_was, block);
    } else if (length && !keeps_alive && (received > mine->told || (!used && e <= received))) {
        sl_edit_acknowledge(box, c, which, received, ack_was, NULL);
    }
    if (its->decided > its->sent)   /* a gap of the other side ended */
        sl_edit_flush(box, c, which ^ 1);
}

SL_RUNTIME_END

#endif
