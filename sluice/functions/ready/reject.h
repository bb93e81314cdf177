/* The reply of a rejecting rule to the sender of a packet: ICMP's "destination unreachable", or a segment with RST. */
#ifndef REJECT_H
#define REJECT_H

#include "sluice.h"

enum { REJECT_LINK_MOST = 14 + 8, REJECT_QUOTE_MOST = 128, REJECT_ICMP_MOST = REJECT_LINK_MOST + 40 + 8 + REJECT_QUOTE_MOST };

/* Whether a datagram may not be answered: it was sent to or by several hosts, or by none (RFC 1122, 3.2.2; RFC 4443, 2.4). */
static inline bool reject_of_many(const struct sl_frame *frame, const uint8_t *addresses, unsigned version) {
    static const uint8_t none[16];
    if (frame->link_type == 1 && frame->at[0] & 1)
        return true;
    if (version == 4)
        return addresses[0] >= 224 || addresses[4] >= 224 || !memcmp(addresses, none, 4);
    return addresses[0] == 0xff || addresses[16] == 0xff || !memcmp(addresses, none, 16);
}

/* Sends "destination unreachable" about the current packet, with a code of ICMP (`code4`) or ICMPv6, in the direction that
 * the packet came from. False where no datagram lies directly in the outermost IP packet, where it may not be answered
 * (RFC 1122, 3.2.2: ICMP, fragments but the first), or nothing can be sent. */
static inline bool reject_unreachable(struct sl_box *box, uint8_t code4, uint8_t code6) {
    const struct sl_frame *frame = sl_box_frame(box);
    struct sl_ip_place ip;
    bool found = false;
    uint32_t link = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || link > REJECT_LINK_MOST || !sl_ip_read(frame, link, &ip) || !ip.first || ip.protocol == 1 || ip.protocol == 58)
        return false;
    uint8_t out[REJECT_ICMP_MOST], *header = out + link;
    const uint8_t *from = frame->at + link;
    uint32_t size = ip.version == 4 ? 4 : 16, addresses = ip.version == 4 ? 12 : 8, length = ip.version == 4 ? 20 : 40;
    uint32_t quote = (uint32_t)sl_min(sl_min(frame->captured, ip.end) - link, REJECT_QUOTE_MOST);
    if (quote < length + 8 || reject_of_many(frame, from + addresses, ip.version))
        return false;
    memcpy(out, frame->at, link);
    if (frame->link_type == 1) {
        memcpy(out, frame->at + 6, 6);
        memcpy(out + 6, frame->at, 6);
    }
    memcpy(header, from, length);
    memcpy(header + addresses, from + addresses + size, size);
    memcpy(header + addresses + size, from + addresses, size);
    uint8_t *icmp = header + length;
    memset(icmp, 0, 8);
    memcpy(icmp + 8, from, quote);
    uint64_t pseudo = 0;
    if (ip.version == 4) {
        header[0] = 0x45;
        sl_store_be16(header + 2, length + 8 + quote);
        sl_store_be16(header + 4, 0);
        sl_store_be16(header + 6, 0);
        header[8] = 64;
        header[9] = 1;
        sl_store_be16(header + 10, 0);
        sl_store_be16(header + 10, (uint16_t)~sl_internet_checksum(header, length, 0));
        icmp[0] = 3;          /* RFC 792 */
        icmp[1] = code4;
    } else {
        sl_store_be16(header + 4, 8 + quote);
        header[6] = 58;
        header[7] = 64;
        icmp[0] = 1;          /* RFC 4443, 3.1 */
        icmp[1] = code6;
        pseudo = sl_internet_checksum(header + addresses, 2 * size, 58 + 8 + quote);
    }
    sl_store_be16(icmp + 2, (uint16_t)~sl_internet_checksum(icmp, 8 + quote, pseudo));
    return sl_send_to(box, out, link + length + 8 + quote, true);
}

/* Sends a segment with RST to the sender of the current packet alone (SLUICE_RESET resets both ends). False where it is no
 * segment of TCP directly in the outermost IP packet, or resets itself, or nothing can be sent. */
static inline bool reject_reset(struct sl_box *box) {
    const struct sl_frame *frame = sl_box_frame(box);
    uint8_t out[SL_RESET_MOST];
    struct sl_ip_place ip;
    bool found = false;
    uint32_t link = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || link > REJECT_LINK_MOST || !sl_ip_read(frame, link, &ip) || ip.protocol != 6 || !ip.first ||
        ip.payload + 20 > frame->captured || (ip.version == 6 && ip.payload != ip.ip + 40) || frame->at[ip.payload + 13] & 4)
        return false;
    return sl_send_to(box, out, sl_make_reset(frame, &ip, true, out), true);
}

#endif
