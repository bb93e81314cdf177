/* Edits of TCP streams, of any length: both ends' TCP goes on as if each had talked to the other.
 *
 * A function stores a struct sl_edits for each connection and a struct sl_edit_box for the box, and calls
 *
 *     sl_edits_packet(event, edits, own)                    from its handler of tcp's `packet`
 *     sl_edits_data(event, edits, data->offset, data->bytes)   from that of `data`, first; if false, it cannot edit
 *     sl_edits_replace(edits, side, offset, length, bytes, now)   bytes [offset, offset + length) become others
 *     sl_edits_decide(edits, side, offset)                  bytes before `offset` may leave
 *     sl_edits_flush(event, edits, side)                    as from a timer: all bytes that were delivered leave
 *     sl_edits_close(box, edits)                            from SLUICE_DESTROY
 *     sl_edits_outside(event, edits)                        from each `out_of_wnd`, if others have one; edits: or NULL
 *
 * Bytes leave in order, once they are decided: of a packet with undecided bytes at its end only the others, and the rest
 * with the next one. For bytes after a hole, which cannot be decided, the box sends duplicate acknowledgements to their
 * sender, with the block that it holds (RFC 2018), so that the hole is filled as soon as without a box. Sequence numbers,
 * acknowledgements and their blocks are translated, and a retransmission is edited as its first copy was.
 *
 * Only connections whose SYNs were seen are edited. One function edits a connection; others may rewrite headers. */
#ifndef SL_EDIT_H
#define SL_EDIT_H

#include "function/edit_connection.h"
#include "function/peek.h"

SL_RUNTIME_BEGIN

struct sl_edits {
    struct sl_edit_connection *open;   /* NULL: not (or not yet) edited */
    uint32_t number[2];                /* of each side's SYN */
    uint16_t mss[2];
    uint8_t scale[2];
    uint8_t syn, stamps, sacks;        /* bits of sides */
    bool refused;
    struct sl_edit_syn again;          /* the last SYN without ACK: perhaps of the next connection on the same ports */
    struct sl_edit_box *own;
};

static inline void sl_edits_close(struct sl_box *box, struct sl_edits *edits) {
    struct sl_edit_connection *c = edits->open;
    if (edits->own && edits->again.known) {   /* the connection that it opens may follow with the current packet */
        edits->own->again = edits->again;
        edits->own->again_for = box->number;
    }
    if (!c)
        return;
    sl_output_forget(box, c);
    for (unsigned side = 0; side < 2; side++) {
        sl_edit_map_close(&c->side[side].map);
        free(c->side[side].tail);
        c->side[side].room = 0;
    }
    sl_edit_count(c);
    c->own->held -= c->counted;
    c->own->open--;
    free(c);
    edits->open = NULL;
}

#include "function/edit_packet.h"

/* Reads what a SYN says. False if its header is not whole. */
static inline bool sl_edits_read_syn(const struct sl_event *event, struct sl_edit_syn *out) {
    uint8_t header[60], *option;
    uint32_t length = (uint32_t)(event->unit.at[12] >> 4) * 4;
    if (length < 20 || length > event->unit.captured)
        return false;
    memcpy(header, event->unit.at, length);
    *out = (struct sl_edit_syn){.known = true, .number = (uint32_t)sl_load_be32(header + 4)};
    option = sl_edit_option(header, length, 2, 4);
    out->mss = option ? (uint16_t)sl_load_be16(option) : 536;   /* RFC 9293, 3.7.1 */
    option = sl_edit_option(header, length, 3, 3);
    out->scale = option ? (uint8_t)sl_min(*option, 14) : 255;
    out->stamps = sl_edit_option(header, length, 8, 10) != NULL;
    out->sacks = sl_edit_option(header, length, 4, 2) != NULL;
    return true;
}

static inline void sl_edits_note_syn(struct sl_edits *edits, unsigned side, const struct sl_edit_syn *syn) {
    edits->number[side] = syn->number;
    edits->mss[side] = syn->mss;
    edits->scale[side] = syn->scale;
    edits->stamps |= (uint8_t)(syn->stamps << side);
    edits->sacks |= (uint8_t)(syn->sacks << side);
    edits->syn |= (uint8_t)(1 << side);
}

/* Notes what a SYN says, and opens the connection once both are known. The first one may have come while the ports still
 * belonged to the connection before. */
SL_COLD void sl_edits_syn(const struct sl_event *event, struct sl_edits *edits, struct sl_edit_box *own) {
    const unsigned side = event->side & 1;
    const struct sl_edit_syn before = own->again;
    struct sl_edit_syn syn;
    own->again.known = false;
    if (!sl_edits_read_syn(event, &syn))
        return;
    if (!(event->unit.at[13] & SL_TCP_ACK))
        edits->again = syn;
    if (edits->refused || edits->open)
        return;
    sl_edits_note_syn(edits, side, &syn);
    if (before.known && own->again_for == event->box->number && event->unit.at[13] & SL_TCP_ACK &&
        (uint32_t)sl_load_be32(event->unit.at + 8) == before.number + 1 && !(edits->syn >> (side ^ 1) & 1))
        sl_edits_note_syn(edits, side ^ 1, &before);
    if (edits->syn != 3)
        return;
    struct sl_edit_connection *c = own->open < (own->open_most ? own->open_most : 1 << 18) ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        edits->refused = true;
        own->no_room++;
        return;
    }
    own->open++;
    edits->open = c;
    c->own = own;
    for (unsigned each = 0; each < 2; each++) {
        struct sl_edit_side *of = &c->side[each];
        of->base = of->sent = of->decided = of->acked = of->told = ((uint64_t)1 << 32) + edits->number[each] + 1;
        of->map.folded = of->base;
        of->mss = edits->mss[each];
        of->scale = edits->scale[0] == 255 || edits->scale[1] == 255 ? 0 : edits->scale[each];
        of->stamps = edits->stamps == 3;
        of->sacks = edits->sacks == 3;
    }
}

/* The connection is not edited any more; its numbers must not have been changed. */
static inline void sl_edits_refuse(struct sl_box *box, struct sl_edits *edits) {
    sl_edits_close(box, edits);
    edits->refused = true;
}

static inline void sl_edits_packet(const struct sl_event *event, struct sl_edits *edits, struct sl_edit_box *own) {
    struct sl_box *box = event->box;
    if (!event->instance || !box->frame || event->unit.captured < 20)
        return;
    const bool opens = event->unit.at[13] & SL_TCP_SYN && !edits->open;
    edits->own = own;
    if (event->unit.at[13] & SL_TCP_SYN)
        sl_edits_syn(event, edits, own);
    struct sl_edit_connection *c = edits->open;
    if (!c || (!opens && event->unit.at[13] & SL_TCP_SYN))
        return;
    if (!box->output.forwards) {   /* nothing leaves */
        sl_edits_refuse(box, edits);
        return;
    }
    c->event = *event;
    c->obstacle = (uint8_t)sl_edit_find_places(event, &c->places);
    c->end = c->places.tcp + event->unit.length;
    if (!c->obstacle) {
        uint8_t *tcp = (uint8_t *)(uintptr_t)event->unit.at;
        uint32_t length = (uint32_t)c->places.payload - c->places.tcp;
        if (sl_edit_option(tcp, length, 19, 0) || sl_edit_option(tcp, length, 29, 0))
            c->obstacle = SL_EDIT_SIGNED;
    }
    if (c->renumbered)
        c->obstacle = SL_EDIT_NUMBERS;
    if (!sl_output_unclaimed(box) && box->output.at_end_of != c)
        c->obstacle = SL_EDIT_OTHER;
    if (c->obstacle && sl_edit_is_untouched(c)) {
        own->unable[c->obstacle]++;
        box->output.not_edited = true;
        sl_edits_refuse(box, edits);
        return;
    }
    sl_output_claim(box, sl_edit_packet, c);
}

/* Is the current packet within the window that its sender knows, after translation? From a handler of `out_of_wnd`: the stack
 * has compared it with what the receiver acknowledged, which are numbers of edited bytes. */
static inline bool sl_edits_in_window(const struct sl_event *event, const struct sl_edits *edits) {
    const struct sl_edit_connection *c = edits->open;
    if (!c || event->unit.captured < 20)
        return false;
    const struct sl_edit_side *mine = &c->side[event->side & 1], *its = &c->side[(event->side & 1) ^ 1];
    if (sl_edit_map_is_identity(&mine->map))
        return false;
    const uint32_t header = (uint32_t)(event->unit.at[12] >> 4) * 4;
    const uint64_t length = event->unit.length > header ? event->unit.length - header : 0;
    const uint64_t s = sl_edit_position(mine->sent, (uint32_t)sl_load_be32(event->unit.at + 4));
    const uint64_t low = sl_edit_in(&mine->map, mine->acked), size = (uint64_t)its->window << its->scale;
    return size && (s - low < size || low - s < sl_max(length, 1));
}

/* Lets other functions take such a packet for one inside (sl_is_inside). edits: NULL where the packet has none. */
static inline void sl_edits_outside(const struct sl_event *event, const struct sl_edits *edits) {
    if (edits && sl_edits_in_window(event, edits))
        event->box->output.inside = event->box->number;
}

/* Takes bytes that were delivered. False if the connection is not edited: they leave, or have left, as they are. */
static inline bool sl_edits_data(const struct sl_event *event, struct sl_edits *edits, uint64_t offset, sl_bytes bytes) {
    struct sl_edit_connection *c = edits->open;
    if (!c)
        return false;
    struct sl_edit_side *side = &c->side[event->side & 1];
    const struct sl_sequence *seq = sl_event_sequence(event, event->side & 1);
    uint64_t position = side->base + offset;
    if (!seq || (uint32_t)(seq->start + (seq->skipped - seq->trailing) + offset) != (uint32_t)position ||
        bytes.captured < bytes.length) {
        if (sl_edit_is_untouched(c))
            sl_edits_refuse(event->box, edits);
        return false;
    }
    if (position != side->sent + side->count) {   /* after a gap: its bytes, and those before it, pass if they still come */
        side->count = 0;
        side->sent = side->decided = position;
    }
    if (c->own->held > sl_edit_held_most ||
        !sl_edit_reserve(&side->tail, &side->room, side->count + bytes.captured)) {
        side->count = 0;
        side->sent = side->decided = position + bytes.length;
        c->own->no_room++;
        return false;
    }
    memcpy(side->tail + side->count, bytes.at, bytes.captured);
    side->count += bytes.captured;
    sl_edit_count(c);
    return true;
}

/* Replaces bytes of a stream that were not decided yet; length must not be 0. False at a bound, or if they have left. */
static inline bool sl_edits_replace(struct sl_edits *edits, unsigned side, uint64_t offset, uint32_t length, const void *bytes,
                                    uint32_t now) {
    struct sl_edit_connection *c = edits->open;
    if (!c)
        return false;
    struct sl_edit_side *of = &c->side[side & 1];
    if (of->base + offset < of->sent || c->own->held + now > sl_edit_held_most || !sl_edit_add(&of->map, of->base + offset, length, bytes, now)) {
        c->own->no_room++;
        return false;
    }
    c->own->edits++;
    sl_edit_count(c);
    return true;
}

static inline void sl_edits_decide(struct sl_edits *edits, unsigned side, uint64_t offset) {
    struct sl_edit_side *of = edits->open ? &edits->open->side[side & 1] : NULL;
    if (of)
        of->decided = sl_max(of->decided, sl_min(of->base + offset, of->sent + of->count));
}

/* All bytes of a side that were delivered leave. */
static inline void sl_edits_flush(const struct sl_event *event, struct sl_edits *edits, unsigned side) {
    struct sl_edit_connection *c = edits->open;
    if (!c)
        return;
    c->side[side & 1].decided = c->side[side & 1].sent + c->side[side & 1].count;
    sl_edit_flush(event->box, c, side);
}

/* The offset after all bytes of a side that were delivered. */
static inline uint64_t sl_edits_delivered(const struct sl_edits *edits, unsigned side) {
    const struct sl_edit_side *of = edits->open ? &edits->open->side[side & 1] : NULL;
    return of ? of->sent + of->count - of->base : 0;
}

/* The offset after those that may leave. */
static inline uint64_t sl_edits_decided(const struct sl_edits *edits, unsigned side) {
    const struct sl_edit_side *of = edits->open ? &edits->open->side[side & 1] : NULL;
    return of ? of->decided - of->base : 0;
}

/* The current packet is dropped, and both ends get a reset that they accept. False if the connection is not edited. */
static inline bool sl_edits_reset(const struct sl_event *event, struct sl_edits *edits) {
    if (!edits->open || !event->box->frame)
        return false;
    return edits->open->resets = true;
}

/* Will the current packet be replaced by resets? */
static inline bool sl_edits_resets(const struct sl_edits *edits, const struct sl_box *box) {
    return edits->open && edits->open->resets && box->output.at_end_of == edits->open && box->output.at_end;
}

/* Have bytes been delivered that are not decided? */
static inline bool sl_edits_waiting(const struct sl_edits *edits, unsigned side) {
    const struct sl_edit_side *of = edits->open ? &edits->open->side[side & 1] : NULL;
    return of && of->count && of->decided < of->sent + of->count;
}

SL_RUNTIME_END

#endif
