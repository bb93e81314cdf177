/* What leaves a box that is inline: each packet as it came, unless a function drops it or changes bytes of it, and packets
 * of functions behind it. Of a capture file that is `sluice run -w FILE`; where nobody takes what leaves, nothing is made.
 *
 * What functions see of a packet stays as it came, also behind a change. */
#ifndef SL_OUTPUT_H
#define SL_OUTPUT_H

#include "core/box.h"
#include "function/checksum_fix.h"

enum {
    /* packets that functions may send while one is processed */
    SL_SENT_MOST = sizeof ((struct sl_output *)0)->sent_length / sizeof *((struct sl_output *)0)->sent_length,
    SL_SENT_BYTES = 256 << 10,     /* and their bytes */
    SL_RESET_MOST = 14 + 8 + 40 + 20,
};

/* Does somebody take what leaves the box? */
static inline bool sl_is_inline(const struct sl_box *box) { return box->output.forward != NULL; }

/* The packet in hand goes no further. False where none is. */
static inline bool sl_drop(struct sl_box *box) {
    if (box->frame && !box->output.dropped) {
        box->output.dropped = true;
        box->output.drops++;
    }
    return box->frame != NULL;
}

/* `length` bytes of the packet in hand, which lie at `at` in it (as in event->unit or box->frame), leave as `bytes`, with
 * the checksums over them mended. False, and nothing is changed, where they are not in it, where a
 * checksum over them is in another fragment, or where there is no memory. */
static inline bool sl_rewrite(struct sl_box *box, const uint8_t *at, const void *bytes, uint32_t length) {
    struct sl_output *output = &box->output;
    const struct sl_frame *frame = box->frame;
    if (!frame || !length || (uintptr_t)at < (uintptr_t)frame->at)
        return false;
    uint64_t lo = (uintptr_t)at - (uintptr_t)frame->at;
    if (lo > frame->captured || length > frame->captured - lo || sl_checksum_fix_elsewhere(frame, (uint32_t)lo + length))
        return false;
    if (frame->captured > output->room) {
        uint8_t *larger = realloc(output->bytes, 2 * (size_t)frame->captured);
        if (!larger)
            return false;
        output->bytes = larger;
        output->room = frame->captured;
    }
    if (!output->changed) {
        memcpy(output->bytes, frame->at, frame->captured);
        output->changed = true;
    }
    uint8_t *before = output->bytes + output->room;   /* what the checksums covered up to now */
    memcpy(before, output->bytes + lo, length);
    memcpy(output->bytes + lo, bytes, length);
    struct sl_frame now = *frame;
    now.at = output->bytes;
    sl_checksum_fix(output->bytes, &now, before, (uint32_t)lo, (uint32_t)lo + length);
    return true;
}

/* A whole packet of the link type of the last one leaves behind the packet in hand. False where nobody takes it, or where
 * there are too many. */
static inline bool sl_send(struct sl_box *box, const void *bytes, uint32_t length) {
    struct sl_output *output = &box->output;
    if (!output->forward || !length || output->sent_count == SL_SENT_MOST || length > SL_SENT_BYTES - output->sent_used)
        return false;
    if (!output->sent && !(output->sent = malloc(SL_SENT_BYTES)))
        return false;
    memcpy(output->sent + output->sent_used, bytes, length);
    output->sent_used += length;
    output->sent_length[output->sent_count++] = length;
    output->sends++;
    return true;
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
    /* RFC 9293, 3.10.7.1 for the way back; in the other direction as if the sender had closed here */
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

/* Ends the TCP connection of the packet in hand: it is dropped, and a segment with RST leaves for each end in its place,
 * once, whoever asks for it, and none for a segment with RST (RFC 9293, 3.10.7.1), which is only dropped.
 * False, and nothing happens, where it is no TCP segment right on the outermost IP, and a whole header is here. */
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
    if (!sl_is_inline(box) || box->output.sent_count + 2 > SL_SENT_MOST ||
        there + here > SL_SENT_BYTES - box->output.sent_used)
        return false;
    box->output.reset = sl_send(box, forth, there) && sl_send(box, back, here);
    return box->output.reset && sl_drop(box);
}

/* What functions sent since the last packet leaves. */
SL_COLD void sl_output_sent(struct sl_box *box, uint32_t link_type) {
    struct sl_output *output = &box->output;
    const uint8_t *at = output->sent;
    for (uint32_t i = 0; i < output->sent_count; at += output->sent_length[i++]) {
        uint32_t length = output->sent_length[i];
        struct sl_frame made = {at, length, length, box->time, link_type, 0, box->number};
        output->forward(output->user, &made);
    }
    output->sent_count = output->sent_used = 0;
}

/* --- used by generated code --- */

/* A packet was processed: it leaves, and what functions sent. */
static inline void sl_output_packet(struct sl_box *box, const struct sl_frame *frame) {
    struct sl_output *output = &box->output;
    if (output->forward && !output->dropped) {
        struct sl_frame leaves = *frame;
        if (output->changed)
            leaves.at = output->bytes;
        output->forward(output->user, &leaves);
    }
    if (output->sent_count)
        sl_output_sent(box, frame->link_type);
    output->changes += output->changed && !output->dropped;
    output->link_type = frame->link_type;
    output->dropped = output->changed = output->reset = false;
}

/* The end of input: what was sent since the last packet leaves; what there was is reported. */
SL_COLD void sl_output_finish(struct sl_box *box) {
    sl_output_sent(box, box->output.link_type);
    sl_report(box, "packets_dropped", box->output.drops);
    sl_report(box, "packets_changed", box->output.changes);
    sl_report(box, "packets_sent", box->output.sends);
}

#endif
