/* Verdicts of functions on packets, and packets that functions send. A box is inline if its caller applies the verdicts
 * that NAME_process returns, and transmits what functions send (embed.h). `sluice run -w FILE` writes both to a file.
 *
 * Functions always see a packet as it was received, or as it was translated when it arrived (arrival.h), even after a change. */
#ifndef SL_OUTPUT_H
#define SL_OUTPUT_H

#include "core/box.h"
#include "function/checksum_fix.h"

enum {
    SL_SENT_MOST = 64,             /* packets that functions may send during one packet */
    SL_SENT_BYTES = 256 << 10,     /* and their bytes */
    SL_SENT_WAITING = 1 << 16,     /* packets that may wait until the caller takes them */
    SL_RESET_MOST = 14 + 8 + 40 + 20,
};

/* Does the caller transmit the output of the box? */
static inline bool sl_is_inline(const struct sl_box *box) { return box->output.forwards; }

/* One function of a box may look at the current packet when it leaves, after all others, and change it once more: its `call`
 * gets `of` before the verdict. Is there none yet, in a box that transmits? */
static inline bool sl_output_unclaimed(const struct sl_box *box) { return !box->output.at_end && box->output.forwards; }
static inline void sl_output_claim(struct sl_box *box, void (*call)(struct sl_box *, const struct sl_frame *, void *), void *of) {
    box->output.at_end = call;
    box->output.at_end_of = of;
}

/* What a call gets is freed: it does not happen. */
static inline void sl_output_forget(struct sl_box *box, const void *of) {
    if (box->output.at_end_of == of)
        box->output.at_end = NULL;
}

/* The bytes with which the current packet leaves; NULL if they are those with which it came, or it leaves otherwise. */
static inline const uint8_t *sl_output_changed(const struct sl_box *box) {
    const struct sl_output *output = &box->output;
    return output->changed && !output->dropped && !output->redirected ? output->bytes + output->current : NULL;
}

/* Drops the current packet; `function`: the bit of the function that decides so. False if there is none. Functions call
 * sl_drop(box). */
static inline bool sl_drop_by(struct sl_box *box, uint64_t function) {
    if (!box->frame)
        return false;
    box->output.drops += !box->output.dropped;
    box->output.dropped = true;
    box->output.dropped_by |= function;
    return true;
}

/* Has a function dropped the current packet? */
static inline bool sl_is_dropped(const struct sl_box *box) { return box->output.dropped && box->frame; }

/* Has a function that edits connections found the current packet, for which there was an event `out_of_wnd`, to be inside
 * the window after all? */
static inline bool sl_is_inside(const struct sl_box *box) { return box->output.inside && box->output.inside == box->number; }

/* Is an event of the current packet withheld from a function, because one of those before it in its chain dropped the
 * packet? `before`: their bits. An event of another packet's instance, or of none, is not withheld. */
static inline bool sl_withheld(const struct sl_box *box, uint64_t before) {
    return (box->output.dropped_by & before) && box->frame;
}

/* Redirects the current packet to another port. False if there is no packet. */
static inline bool sl_redirect(struct sl_box *box, uint16_t port) {
    if (!box->frame)
        return false;
    box->output.redirected = true;
    box->output.port = port;
    return true;
}

/* Makes room for so many more bytes after those in use. False without memory. */
static inline bool sl_output_room(struct sl_output *output, size_t more) {
    if (more <= output->room - output->used)
        return true;
    size_t room = sl_max(2 * output->room, output->used + more);
    uint8_t *larger = realloc(output->bytes, room);
    if (!larger)
        return false;
    output->bytes = larger;
    output->room = room;
    return true;
}

/* Replaces `length` bytes of the current packet, at `at` in it (as in event->unit or box->frame), by `bytes` in the
 * output, and fixes up the checksums over them. Returns false and changes nothing if the bytes are not in the packet,
 * if a checksum over them is in another fragment, or if there is no memory. */
static inline bool sl_rewrite(struct sl_box *box, const uint8_t *at, const void *bytes, uint32_t length) {
    struct sl_output *output = &box->output;
    const struct sl_frame *frame = box->frame;
    if (!frame || !length || (uintptr_t)at < (uintptr_t)frame->at)
        return false;
    uint64_t lo = (uintptr_t)at - (uintptr_t)frame->at;
    if (lo > frame->captured || length > frame->captured - lo || sl_checksum_fix_elsewhere(frame, (uint32_t)lo + length))
        return false;
    if (!sl_output_room(output, (output->changed ? 0 : frame->captured) + (size_t)length))
        return false;
    if (!output->changed) {
        output->current = output->used;
        memcpy(output->bytes + output->current, frame->at, frame->captured);
        output->used += frame->captured;
        output->length = frame->captured;
        output->changed = true;
    }
    uint8_t *changed = output->bytes + output->current, *before = output->bytes + output->used;
    memcpy(before, changed + lo, length);   /* what the checksums have covered so far */
    memcpy(changed + lo, bytes, length);
    struct sl_frame now = *frame;
    now.at = changed;
    sl_checksum_fix(changed, &now, before, (uint32_t)lo, (uint32_t)lo + length);
    return true;
}

/* Makes room for some packets that are sent, at most 64, and for their bytes. False without memory. */
SL_COLD bool sl_sent_room(struct sl_output *output, uint32_t packets, uint32_t length) {
    if (packets > output->sent_room - output->sent_count) {
        uint32_t room = output->sent_room ? 2 * output->sent_room : 64;
        struct sl_sent *larger = realloc(output->sent, room * sizeof *larger);
        if (!larger)
            return false;
        output->sent = larger;
        output->sent_room = room;
    }
    if (length > output->sent_bytes_room - output->sent_used) {
        size_t room = sl_max(2 * output->sent_bytes_room, output->sent_used + length);
        uint8_t *larger = realloc(output->sent_bytes, room);
        if (!larger)
            return false;
        output->sent_bytes = larger;
        output->sent_bytes_room = room;
    }
    return true;
}

/* Removes the packets that the caller has taken. */
static inline void sl_sent_reset(struct sl_output *output) {
    if (!output->taken)
        return;
    output->taken = false;
    output->sent_count = output->packet_from = 0;
    output->sent_used = 0;
}

/* Whether so many more packets with so many bytes in all can be sent; then there is room for them. */
static inline bool sl_sent_fits(struct sl_output *output, uint32_t packets, uint32_t bytes) {
    sl_sent_reset(output);
    return output->packet_sent + packets <= SL_SENT_MOST && bytes <= SL_SENT_BYTES - output->packet_sent_bytes &&
           output->sent_count + packets <= SL_SENT_WAITING && sl_sent_room(output, packets, bytes);
}

/* sl_send; `back`: in the direction that the current packet came from. */
static inline bool sl_send_to(struct sl_box *box, const void *bytes, uint32_t length, bool back) {
    struct sl_output *output = &box->output;
    if (!output->forwards || !length)
        return false;
    if (!sl_sent_fits(output, 1, length)) {
        output->not_sent++;
        return false;
    }
    memcpy(output->sent_bytes + output->sent_used, bytes, length);
    output->sent[output->sent_count++] = (struct sl_sent){
        .frame = {.at = (const uint8_t *)(uintptr_t)output->sent_used, .captured = length, .length = length,
                  .time = box->time, .link_type = output->link_type, .port = output->last_port, .number = box->number},
        .after = output->in_burst ? output->place + 1 : 0,
        .back = back,
    };
    output->sent_used += length;
    output->packet_sent++;
    output->packet_sent_bytes += length;
    output->sends++;
    return true;
}

/* Sends a whole packet after the current one, in the same direction. It has the link type of the current packet, or of
 * the last one. False if the box is not inline, or if there are too many packets. */
static inline bool sl_send(struct sl_box *box, const void *bytes, uint32_t length) {
    return sl_send_to(box, bytes, length, false);
}

/* Makes a segment that resets a connection. `reverse`: in the direction that the packet came from. at: room for
 * SL_RESET_MOST bytes. Returns its length. */
static inline uint32_t sl_make_reset(const struct sl_frame *frame, const struct sl_ip_place *ip, bool reverse, uint8_t *at) {
    const uint8_t *from = frame->at, *tcp = frame->at + ip->payload;
    uint32_t link = ip->ip, header = ip->version == 4 ? 20 : 40, total = link + header + 20;
    uint32_t size = ip->version == 4 ? 4 : 16, addresses = ip->version == 4 ? 12 : 8;
    uint8_t *ip_out = at + link, *out = ip_out + header;
    memcpy(at, from, link + header);
    memset(out, 0, 20);
    memcpy(out, tcp, 4);
    if (reverse) {
        if (frame->link_type == 1) {
            memcpy(at, from + 6, 6);
            memcpy(at + 6, from, 6);
        }
        memcpy(ip_out + addresses, from + ip->ip + addresses + size, size);
        memcpy(ip_out + addresses + size, from + ip->ip + addresses, size);
        memcpy(out, tcp + 2, 2);
        memcpy(out + 2, tcp, 2);
    }
    if (ip->version == 4) {
        ip_out[0] = 0x45;
        sl_store_be16(ip_out + 2, header + 20);
        sl_store_be16(ip_out + 4, 0);
        sl_store_be16(ip_out + 6, 0x4000);
        ip_out[8] = 64;
        sl_store_be16(ip_out + 10, 0);
        sl_store_be16(ip_out + 10, (uint16_t)~sl_internet_checksum(ip_out, header, 0));
    } else {
        sl_store_be16(ip_out + 4, 20);
        ip_out[6] = 6;
        ip_out[7] = 64;
    }
    /* back: RFC 9293, 3.10.7.1; forward: as if the sender had reset the connection here */
    uint32_t words = (uint32_t)(tcp[12] >> 4) * 4, wire = ip->end > ip->payload + words ? ip->end - ip->payload - words : 0;
    bool acknowledges = tcp[13] & 0x10;
    uint32_t sequence = (uint32_t)sl_load_be32(tcp + 4), acknowledged = (uint32_t)sl_load_be32(tcp + 8);
    out[12] = 5 << 4;
    out[13] = 0x04;
    if (!reverse) {
        sl_store_be32(out + 4, sequence);
        sl_store_be32(out + 8, acknowledges ? acknowledged : 0);
        out[13] |= acknowledges ? 0x10 : 0;
    } else if (acknowledges) {
        sl_store_be32(out + 4, acknowledged);
    } else {
        sl_store_be32(out + 8, sequence + wire + (tcp[13] & 1) + (tcp[13] >> 1 & 1));   /* FIN and SYN count */
        out[13] |= 0x10;
    }
    uint64_t pseudo = sl_internet_checksum(ip_out + addresses, 2 * size, 6 + 20);
    sl_store_be16(out + 16, (uint16_t)~sl_internet_checksum(out, 20, pseudo));
    return total;
}

/* Ends the TCP connection of the current packet: the packet is dropped, and a segment with RST is sent to each end in
 * its place. This happens once, however many functions reset the connection. A packet that has RST itself is only
 * dropped (RFC 9293, 3.10.7.1). Returns false if the packet is not a TCP segment with a whole header directly in the
 * outermost IP packet, or if the segments cannot be sent; then the packet is not dropped. Functions call
 * sl_reset(box). */
static inline bool sl_reset_by(struct sl_box *box, uint64_t function) {
    const struct sl_frame *frame = box->frame;
    uint8_t forth[SL_RESET_MOST], back[SL_RESET_MOST];
    struct sl_ip_place ip;
    bool found = false;
    uint32_t first = frame ? sl_frame_ip(frame, &found) : 0;
    if (!frame || !found || first > 14 + 8 || !sl_ip_read(frame, first, &ip) || ip.protocol != 6 || !ip.first ||
        ip.payload + 20 > frame->captured || (ip.version == 6 && ip.payload != ip.ip + 40))
        return false;
    if (box->output.reset || frame->at[ip.payload + 13] & 4)
        return sl_drop_by(box, function);
    uint32_t there = sl_make_reset(frame, &ip, false, forth), here = sl_make_reset(frame, &ip, true, back);
    if (!sl_is_inline(box))
        return false;
    if (!sl_sent_fits(&box->output, 2, there + here)) {   /* one alone would leave the other end open */
        box->output.not_sent += 2;
        return false;
    }
    box->output.reset = sl_send(box, forth, there) && sl_send_to(box, back, here, true);
    return box->output.reset && sl_drop_by(box, function);
}

#include "function/held.h"

/* --- used by generated code --- */

/* Begins a burst. verdicts: see NAME_process. */
static inline void sl_output_begin(struct sl_box *box, const struct sl_frame *frames, struct sl_verdict *verdicts) {
    struct sl_output *output = &box->output;
    sl_sent_reset(output);
    output->frames = frames;
    output->verdicts = verdicts;
    output->in_burst = true;
    output->place = 0;
    output->used = 0;
    output->packet_sent = output->packet_sent_bytes = 0;
    output->packet_from = output->sent_count;
    if (SL_UNLIKELY(output->waiting != NULL) && !frames)
        sl_held_expire(box, false);
}

/* Ends the holding of packets that have waited until the time of the current one, and of those on which functions
 * decided during it, and copies it if it is held. */
SL_COLD void sl_output_hold(struct sl_box *box, const struct sl_frame *frame) {
    struct sl_output *output = &box->output;
    if (output->waiting)
        sl_held_expire(box, false);
    if (output->holders && output->release_for == output->held_for)
        output->holders &= ~output->releasing;
    if (output->releasing)
        sl_held_decide(box, output->release_for, output->releasing, true);
    output->releasing = 0;
    if (output->holders && !output->dropped && !sl_held_fits(box, output->changed ? output->length : frame->captured)) {
        output->holders = 0;
        output->held_refused++;
        if (!output->held_open)
            sl_drop_by(box, 0);
    }
    if (output->holders && !output->dropped && !output->withheld) {
        struct sl_frame copied = *frame;
        if (output->changed) {
            copied.at = output->bytes + output->current;
            copied.length += output->length - copied.captured;
            copied.captured = output->length;
        }
        sl_held_put(box, &copied, output->held_for, output->holders);
        output->holds++;
    }
}

/* Counts a packet for which not all functions were called, and drops it if one of those that failed wants that. */
SL_COLD void sl_output_without(struct sl_box *box) {
    struct sl_output *output = &box->output;
    if (output->failed & output->fault_closed) {
        output->failed_dropped++;
        sl_drop_by(box, 0);
    } else if (output->failed) {
        output->failed_passed++;
    } else {
        output->overload_passed++;
    }
}

/* Records the verdict of a packet that was processed. */
static inline void sl_output_packet(struct sl_box *box, const struct sl_frame *frame) {
    struct sl_output *output = &box->output;
    if (SL_UNLIKELY(output->off))
        sl_output_without(box);
    if (SL_UNLIKELY(output->at_end != NULL))
        output->at_end(box, frame, output->at_end_of);
    if (SL_UNLIKELY(output->waiting || output->holders))
        sl_output_hold(box, frame);
    const bool dropped = output->dropped || output->withheld, held = output->holders && !dropped;
    const bool changed = output->changed && !dropped && !held;
    if (output->verdicts)
        output->verdicts[frame - output->frames] = (struct sl_verdict){
            .at = changed ? (const uint8_t *)(uintptr_t)output->current : NULL,   /* an offset until the burst ends */
            .length = changed ? output->length : 0,
            .port = output->port,
            .action = dropped ? SL_DROP : held ? SL_HELD : SL_PASS,
            .flags = (uint8_t)((changed ? SL_VERDICT_CHANGED : 0) | (output->redirected ? SL_VERDICT_REDIRECTED : 0) |
                               (output->not_edited ? SL_VERDICT_NOT_EDITED : 0)),
        };
    if (output->changed && (dropped || held || !output->verdicts))
        output->used = output->current;   /* the changed bytes are not needed */
    for (uint32_t i = output->packet_from; i < output->sent_count; i++) {
        if (output->sent[i].held)
            continue;
        output->sent[i].frame.time = box->time;
        output->sent[i].frame.number = box->number;
        output->sent[i].frame.link_type = frame->link_type;
        output->sent[i].frame.port = frame->port;
    }
    output->changes += changed;
    output->withholds += output->withheld && !output->dropped;
    output->at_end = NULL;
    output->withheld = output->not_edited = false;
    output->link_type = frame->link_type;
    output->last_port = frame->port;
    output->place = (uint32_t)(frame - output->frames) + 1;
    output->packet_sent = output->packet_sent_bytes = 0;
    output->dropped = output->changed = output->reset = output->redirected = false;
    output->dropped_by = output->holders = output->releasing = 0;
    output->packet_from = output->sent_count;
}

/* Ends a burst of so many packets: offsets of changed bytes become pointers. */
static inline void sl_output_end(struct sl_box *box, size_t count) {
    struct sl_output *output = &box->output;
    for (size_t i = 0; output->used && output->verdicts && i < count; i++)
        if (output->verdicts[i].flags & SL_VERDICT_CHANGED)
            output->verdicts[i].at = output->bytes + (uintptr_t)output->verdicts[i].at;
    output->in_burst = false;
}

/* Reports the counters at the end of input. */
SL_COLD void sl_output_finish(struct sl_box *box) {
    sl_report(box, "packets_dropped", box->output.drops);
    sl_report(box, "packets_changed", box->output.changes);
    sl_report(box, "packets_sent", box->output.sends);
    if (box->output.waiting || box->output.held_refused) {
        if (box->output.waiting)
            sl_held_expire(box, true);
        sl_report(box, "packets_held", box->output.holds);
        sl_report(box, "held_released", box->output.released);
        sl_report(box, "held_discarded", box->output.discarded);
        sl_report(box, "held_expired", box->output.expired);
        sl_report(box, "held_at_end", box->output.held_ended);
        sl_report(box, "held_no_room", box->output.held_refused);
    }
    if (box->output.fault_open | box->output.fault_closed) {
        sl_report(box, "failed_passed", box->output.failed_passed);
        sl_report(box, "failed_dropped", box->output.failed_dropped);
    }
    if (box->output.overload_open)
        sl_report(box, "overload_passed", box->output.overload_passed);
    if (box->output.withholds)
        sl_report(box, "packets_withheld", box->output.withholds);
    if (box->output.not_sent)
        sl_report(box, "packets_not_sent", box->output.not_sent);
}

#endif
