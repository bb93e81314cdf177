/* Verdicts of functions on packets, and packets that functions send. A box is inline where its caller applies the verdicts
 * that NAME_process returns, and transmits what functions send (embed.h): `sluice run -w FILE` writes both to a file.
 *
 * What functions see of a packet stays as it came, also after a change. */
#ifndef SL_OUTPUT_H
#define SL_OUTPUT_H

#include "core/box.h"
#include "function/checksum_fix.h"

enum {
    SL_SENT_MOST = 64,             /* packets that functions may send while one is processed */
    SL_SENT_BYTES = 256 << 10,     /* and their bytes */
    SL_SENT_WAITING = 1 << 16,     /* packets that may wait until the caller takes them */
    SL_RESET_MOST = 14 + 8 + 40 + 20,
};

/* Does the caller transmit what leaves the box? */
static inline bool sl_is_inline(const struct sl_box *box) { return box->output.forwards; }

/* The current packet does not leave. False where there is none. */
static inline bool sl_drop(struct sl_box *box) {
    if (box->frame && !box->output.dropped) {
        box->output.dropped = true;
        box->output.drops++;
    }
    return box->frame != NULL;
}

/* The current packet leaves at another port. False where there is no packet. */
static inline bool sl_redirect(struct sl_box *box, uint16_t port) {
    if (!box->frame)
        return false;
    box->output.redirected = true;
    box->output.port = port;
    return true;
}

/* Room for so many more bytes after those that are used. False without memory. */
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

/* `length` bytes of the current packet, which lie at `at` in it (as in event->unit or box->frame), leave as `bytes`, and the
 * checksums over them are fixed up. False, and nothing is changed, where they are not in it, where a checksum over them is in
 * another fragment, or where there is no memory. */
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
        output->changed = true;
    }
    uint8_t *changed = output->bytes + output->current, *before = output->bytes + output->used;
    memcpy(before, changed + lo, length);   /* what the checksums covered up to now */
    memcpy(changed + lo, bytes, length);
    struct sl_frame now = *frame;
    now.at = changed;
    sl_checksum_fix(changed, &now, before, (uint32_t)lo, (uint32_t)lo + length);
    return true;
}

/* Room for a packet that is sent. False without memory. */
SL_COLD bool sl_sent_room(struct sl_output *output, uint32_t length) {
    if (output->sent_count == output->sent_room) {
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

/* What the caller has taken makes room. */
static inline void sl_sent_reset(struct sl_output *output) {
    if (!output->taken)
        return;
    output->taken = false;
    output->sent_count = 0;
    output->sent_used = 0;
}

/* sl_send; `back`: to where the current packet came from. */
static inline bool sl_send_to(struct sl_box *box, const void *bytes, uint32_t length, bool back) {
    struct sl_output *output = &box->output;
    if (!output->forwards || !length)
        return false;
    sl_sent_reset(output);
    if (output->packet_sent == SL_SENT_MOST || length > SL_SENT_BYTES - output->packet_sent_bytes ||
        output->sent_count == SL_SENT_WAITING || !sl_sent_room(output, length)) {
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

/* A whole packet of the link type of the current one (or the last one) leaves after it, in the same direction. False where
 * the box is not inline, or where there are too many. */
static inline bool sl_send(struct sl_box *box, const void *bytes, uint32_t length) {
    return sl_send_to(box, bytes, length, false);
}

/* One segment that resets a connection: `reverse` from where the packet came to, back. at: room for SL_RESET_MOST bytes. */
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
    /* RFC 9293, 3.10.7.1 for the direction back; in the other one as if the sender had closed here */
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

/* Ends the TCP connection of the current packet: the packet is dropped, and a segment with RST leaves for each end in its
 * place, once, however many functions reset it, and none for a segment with RST (RFC 9293, 3.10.7.1), which is only dropped.
 * False, and nothing happens, where it is no TCP segment right on the outermost IP with a whole header. */
static inline bool sl_reset(struct sl_box *box) {
    const struct sl_frame *frame = box->frame;
    uint8_t forth[SL_RESET_MOST], back[SL_RESET_MOST];
    struct sl_ip_place ip;
    bool found = false;
    uint32_t first = frame ? sl_frame_ip(frame, &found) : 0;
    if (!frame || !found || first > 14 + 8 || !sl_ip_read(frame, first, &ip) || ip.protocol != 6 || !ip.first ||
        ip.payload + 20 > frame->captured || (ip.version == 6 && ip.payload != ip.ip + 40))
        return false;
    if (box->output.reset || frame->at[ip.payload + 13] & 4)
        return sl_drop(box);
    uint32_t there = sl_make_reset(frame, &ip, false, forth), here = sl_make_reset(frame, &ip, true, back);
    if (!sl_is_inline(box) || box->output.packet_sent + 2 > SL_SENT_MOST ||
        there + here > SL_SENT_BYTES - box->output.packet_sent_bytes)
        return false;
    box->output.reset = sl_send(box, forth, there) && sl_send_to(box, back, here, true);
    return box->output.reset && sl_drop(box);
}

/* --- used by generated code --- */

/* A burst begins. verdicts: see NAME_process. */
static inline void sl_output_begin(struct sl_box *box, const struct sl_frame *frames, struct sl_verdict *verdicts) {
    struct sl_output *output = &box->output;
    sl_sent_reset(output);
    output->frames = frames;
    output->verdicts = verdicts;
    output->in_burst = true;
    output->place = 0;
    output->used = 0;
    output->packet_sent = output->packet_sent_bytes = 0;
}

/* A packet was processed: its verdict. */
static inline void sl_output_packet(struct sl_box *box, const struct sl_frame *frame) {
    struct sl_output *output = &box->output;
    const bool changed = output->changed && !output->dropped;
    if (output->verdicts)
        output->verdicts[frame - output->frames] = (struct sl_verdict){
            .at = changed ? (const uint8_t *)(uintptr_t)output->current : NULL,   /* an offset until the burst ends */
            .length = changed ? frame->captured : 0,
            .port = output->port,
            .action = output->dropped ? SL_DROP : SL_PASS,
            .flags = (uint8_t)((changed ? SL_VERDICT_CHANGED : 0) | (output->redirected ? SL_VERDICT_REDIRECTED : 0)),
        };
    if (output->changed && (output->dropped || !output->verdicts))
        output->used = output->current;   /* no one will read it */
    for (uint32_t i = output->sent_count - output->packet_sent; i < output->sent_count; i++) {
        output->sent[i].frame.time = box->time;
        output->sent[i].frame.number = box->number;
        output->sent[i].frame.link_type = frame->link_type;
        output->sent[i].frame.port = frame->port;
    }
    output->changes += changed;
    output->link_type = frame->link_type;
    output->last_port = frame->port;
    output->place = (uint32_t)(frame - output->frames) + 1;
    output->packet_sent = output->packet_sent_bytes = 0;
    output->dropped = output->changed = output->reset = output->redirected = false;
}

/* A burst of so many packets ends: offsets of changed bytes become pointers. */
static inline void sl_output_end(struct sl_box *box, size_t count) {
    struct sl_output *output = &box->output;
    for (size_t i = 0; output->used && output->verdicts && i < count; i++)
        if (output->verdicts[i].flags & SL_VERDICT_CHANGED)
            output->verdicts[i].at = output->bytes + (uintptr_t)output->verdicts[i].at;
    output->in_burst = false;
}

/* The end of input: what was counted is reported. */
SL_COLD void sl_output_finish(struct sl_box *box) {
    sl_report(box, "packets_dropped", box->output.drops);
    sl_report(box, "packets_changed", box->output.changes);
    sl_report(box, "packets_sent", box->output.sends);
    if (box->output.not_sent)
        sl_report(box, "packets_not_sent", box->output.not_sent);
}

#endif
