/* Changes bytes of a frame and fixes up the checksums over them: a correct checksum stays correct, a wrong one stays
 * wrong (RFC 1624).
 *
 * A checksum is not recomputed, but updated by the difference. So it does not matter what the snap length cut off, nor
 * whether a network card was to fill it in. Headers are found from the outside in: Ethernet with VLAN tags, Linux
 * cooked captures, raw IP; IPv4 and IPv6 within each other or within plain GRE; TCP, UDP, ICMP and ICMPv6. If the
 * change lies deeper, as in a tunnel over UDP, the outer checksums cover it, and the inner ones are not changed.
 * Lengths and protocol numbers of IP headers are not treated as parts of the pseudo header: changing them makes another
 * packet. */
#ifndef SL_CHECKSUM_FIX_H
#define SL_CHECKSUM_FIX_H

#include "core/bytes.h"
#include "core/packet.h"

enum { SL_CHECKSUM_DEPTH = 8 };   /* nested IP headers that are followed */

/* Offsets of the headers of a frame; 0 for one that does not exist. */
struct sl_ip_place {
    uint32_t ip, payload, end;   /* the header; what follows it and its options; the end of that on the wire */
    uint8_t version, protocol;
    bool first, last;            /* first fragment, last fragment; both are set for a packet that is not fragmented */
};

static inline uint16_t sl_frame16(const struct sl_frame *frame, uint32_t at) {
    return at + 2 <= frame->captured ? (uint16_t)sl_load_be16(frame->at + at) : 0;
}

/* The offset of the first IP header. If it is not known, 0, and *found is false. */
static inline uint32_t sl_frame_ip(const struct sl_frame *frame, bool *found) {
    uint32_t at, type;
    *found = true;
    switch (frame->link_type) {
    case 1: at = 14; type = sl_frame16(frame, 12); break;      /* Ethernet */
    case 113: at = 16; type = sl_frame16(frame, 14); break;    /* Linux cooked */
    case 276: at = 20; type = sl_frame16(frame, 0); break;     /* version 2 */
    case 12: case 101: case 228: case 229: return 0;           /* raw IP */
    case 0: case 108: return 4;                                /* BSD loopback */
    default: *found = false; return 0;
    }
    while ((type == 0x8100 || type == 0x88a8 || type == 0x9100 || type == 0x9200) && at + 4 <= frame->captured) {
        type = sl_frame16(frame, at + 2);
        at += 4;
    }
    static const uint8_t snap[] = {0xaa, 0xaa, 3, 0, 0, 0};   /* RFC 1042 */
    if (type <= 1500 && at + 8 <= frame->captured && memcmp(frame->at + at, snap, sizeof snap) == 0) {
        type = sl_frame16(frame, at + 6);
        at += 8;
    }
    *found = type == 0x0800 || type == 0x86dd;
    return at;
}

/* Reads the IP header at `at`; false if there is none, or not a whole one. */
static inline bool sl_ip_read(const struct sl_frame *frame, uint32_t at, struct sl_ip_place *out) {
    const uint8_t *ip = frame->at + at;
    if (at >= frame->captured)
        return false;
    uint32_t here = frame->captured - at;
    *out = (struct sl_ip_place){.ip = at, .version = ip[0] >> 4, .first = true, .last = true};
    if (out->version == 4) {
        uint32_t header = (uint32_t)(ip[0] & 15) * 4;
        if (header < 20 || here < header)
            return false;
        uint32_t total = (uint32_t)sl_load_be16(ip + 2), fragment = (uint32_t)sl_load_be16(ip + 6);
        out->payload = at + header;
        out->end = total >= header ? at + total : frame->length;   /* 0 if a card was to segment it */
        out->protocol = ip[9];
        out->first = !(fragment & 0x1fff);
        out->last = !(fragment & 0x2000);
        return true;
    }
    if (out->version != 6 || here < 40)
        return false;
    uint32_t length = (uint32_t)sl_load_be16(ip + 4);
    out->end = length ? at + 40 + length : frame->length;
    out->protocol = ip[6];
    out->payload = at + 40;
    for (unsigned i = 0; i < SL_CHECKSUM_DEPTH; i++) {   /* extension headers */
        const uint8_t *extension = frame->at + out->payload;
        bool fragment = out->protocol == 44;
        if (!fragment && out->protocol != 0 && out->protocol != 43 && out->protocol != 60)
            return true;
        if (out->payload + 8 > frame->captured)
            return false;
        if (fragment) {
            uint32_t word = (uint32_t)sl_load_be16(extension + 2);
            out->first = !(word & 0xfff8);
            out->last = !(word & 1);
        }
        out->protocol = extension[0];
        out->payload += fragment ? 8 : ((uint32_t)extension[1] + 1) * 8;
    }
    return false;
}

/* Reads the IP header within another one, if any: IP in IP, or in GRE without options. */
static inline bool sl_ip_inner(const struct sl_frame *frame, const struct sl_ip_place *outer, struct sl_ip_place *out) {
    if (!outer->first)
        return false;
    if (outer->protocol == 4 || outer->protocol == 41)
        return sl_ip_read(frame, outer->payload, out);
    uint16_t type = sl_frame16(frame, outer->payload + 2);
    if (outer->protocol != 47 || sl_frame16(frame, outer->payload) || (type != 0x0800 && type != 0x86dd))
        return false;
    return sl_ip_read(frame, outer->payload + 4, out);
}

/* The offset of the transport header's checksum; 0 if there is none, or it was not captured or is in another
 * fragment. */
static inline uint32_t sl_transport_checksum(const struct sl_frame *frame, const struct sl_ip_place *ip) {
    uint32_t at = ip->payload;
    if (!ip->first)
        return 0;
    switch (ip->protocol) {
    case 6: at += 16; break;
    case 17: at += 6; break;
    case 1: case 58: at += 2; break;
    default: return 0;
    }
    return at + 2 <= frame->captured && at + 2 <= ip->end ? at : 0;
}

/* The sum of bytes [lo, hi) of `at` as 16-bit words; a byte at an even offset from `origin` is the upper half of a
 * word. */
static inline uint64_t sl_checksum_fix_sum(const uint8_t *at, uint32_t lo, uint32_t hi, uint32_t origin) {
    uint64_t sum = 0;
    for (uint32_t i = lo; i < hi; i++)
        sum += (uint64_t)at[i] << ((i - origin) & 1 ? 0 : 8);
    return sum;
}

/* Updates the checksum at `place` after a change of bytes [lo, hi). It covers bytes [low, high). */
static inline void sl_checksum_fix_one(uint8_t *frame, uint32_t place, const uint8_t *before, uint32_t lo, uint32_t hi, uint32_t low,
                               uint32_t high, bool udp) {
    uint32_t from = (uint32_t)sl_max(lo, low), to = (uint32_t)sl_min(hi, high);
    uint16_t old = (uint16_t)sl_load_be16(frame + place);
    if (from >= to || (udp && old == 0))   /* RFC 768: there is no checksum */
        return;
    uint64_t removed = sl_checksum_fix_sum(before, from - lo, to - lo, low - lo), added = sl_checksum_fix_sum(frame, from, to, low);
    while (removed >> 16)
        removed = (removed & 0xffff) + (removed >> 16);
    /* RFC 1624, [Eqn. 3]: HC' = ~(~HC + ~m + m') */
    uint64_t sum = (uint16_t)~old + (uint16_t)~removed + added;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    uint16_t now = (uint16_t)~sum;
    if (udp && now == 0)
        now = 0xffff;
    frame[place] = (uint8_t)(now >> 8);
    frame[place + 1] = (uint8_t)now;
}

static inline bool sl_checksum_overlaps(uint32_t lo, uint32_t hi, uint32_t place) { return lo < place + 2 && place < hi; }

/* Is a checksum over bytes before `hi` in another fragment? For the payload of a later fragment it is in the first one,
 * which has already been transmitted. A first fragment may be so small that the checksum is in the second. */
static inline bool sl_checksum_fix_elsewhere(const struct sl_frame *frame, uint32_t hi) {
    bool found;
    struct sl_ip_place ip, inner;
    uint32_t first = sl_frame_ip(frame, &found);
    if (!found || !sl_ip_read(frame, first, &ip))
        return false;
    for (unsigned depth = 0; depth < SL_CHECKSUM_DEPTH; depth++, ip = inner) {
        bool has_one = ip.protocol == 6 || ip.protocol == 17 || ip.protocol == 58 || ip.protocol == 1;
        if (!ip.first ? hi > ip.payload : !ip.last && has_one && hi > ip.ip && !sl_transport_checksum(frame, &ip))
            return true;
        if (!sl_ip_inner(frame, &ip, &inner))
            break;
    }
    return false;
}

/* The end of what a UDP checksum covers: given by the length in its header (RFC 768), after which other bytes may
 * follow (RFC 9868). A length of 0 is that of a jumbogram (RFC 2675). */
static inline uint32_t sl_udp_end(const uint8_t *at, const struct sl_ip_place *ip) {
    uint32_t length = (uint32_t)sl_load_be16(at + ip->payload + 4);
    return length ? (uint32_t)sl_min(ip->end, ip->payload + length) : ip->end;
}

/* Bytes [lo, hi) of a frame, whose bytes are at `at`, have been changed and were `before`: updates the checksums over
 * them, except those that were changed themselves. */
static inline void sl_checksum_fix(uint8_t *at, const struct sl_frame *frame, const uint8_t *before, uint32_t lo, uint32_t hi) {
    bool found;
    struct sl_ip_place ip, inner;
    uint32_t first = sl_frame_ip(frame, &found);
    if (!found || !sl_ip_read(frame, first, &ip))
        return;
    for (unsigned depth = 0; depth < SL_CHECKSUM_DEPTH; depth++, ip = inner) {
        uint32_t header = ip.ip + 10, transport = sl_transport_checksum(frame, &ip);
        if (ip.version == 4 && !sl_checksum_overlaps(lo, hi, header))
            sl_checksum_fix_one(at, header, before, lo, hi, ip.ip, ip.ip + (uint32_t)(at[ip.ip] & 15) * 4, false);
        if (transport && !sl_checksum_overlaps(lo, hi, transport)) {
            bool udp = ip.protocol == 17;
            uint32_t addresses = ip.ip + (ip.version == 4 ? 12 : 8), beyond = addresses + (ip.version == 4 ? 8 : 32);
            if (ip.protocol != 1)   /* ICMP has no pseudo header */
                sl_checksum_fix_one(at, transport, before, lo, hi, addresses, beyond, udp);
            sl_checksum_fix_one(at, transport, before, lo, hi, ip.payload, udp ? sl_udp_end(at, &ip) : ip.end, udp);
        }
        if (!sl_ip_inner(frame, &ip, &inner))
            return;
    }
}

/* Finds the TCP or UDP checksum of a frame that is neither cut nor a fragment: its offset, the end of what it covers, and
 * the sum of its pseudo header. False if there is none. */
static inline bool sl_checksum_find(const struct sl_frame *frame, struct sl_ip_place *ip, uint32_t *place, uint32_t *end,
                                    uint64_t *pseudo) {
    bool found;
    uint32_t first = sl_frame_ip(frame, &found);
    if (!found || frame->captured != frame->length || !sl_ip_read(frame, first, ip) || !ip->first || !ip->last ||
        (ip->protocol != 6 && ip->protocol != 17) || ip->end > frame->captured)
        return false;
    const uint32_t addresses = ip->ip + (ip->version == 4 ? 12 : 8);
    *place = sl_transport_checksum(frame, ip);
    if (!*place)
        return false;
    *end = ip->protocol == 17 ? sl_udp_end(frame->at, ip) : ip->end;
    if (*place + 2 > *end)
        return false;
    *pseudo = sl_checksum_fix_sum(frame->at, addresses, addresses + (ip->version == 4 ? 8 : 32), addresses) + ip->protocol +
              (*end - ip->payload);
    return true;
}

static inline uint16_t sl_checksum_fold(uint64_t sum) {
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* Whether a frame has only the sum of the pseudo header where its TCP or UDP checksum belongs. */
static inline bool sl_checksum_is_partial(const struct sl_frame *frame) {
    struct sl_ip_place ip;
    uint32_t place, end;
    uint64_t pseudo;
    return sl_checksum_find(frame, &ip, &place, &end, &pseudo) && sl_frame16(frame, place) == sl_checksum_fold(pseudo);
}

/* Computes the TCP or UDP checksum of a frame that has only the sum of the pseudo header, as it was left to the network
 * card (SL_FRAME_CHECKSUM_PARTIAL). `at`: the frame's bytes. False if not all bytes are there, or in a fragment. */
static inline bool sl_checksum_complete(uint8_t *at, const struct sl_frame *frame) {
    struct sl_ip_place ip;
    uint32_t place, end;
    uint64_t pseudo;
    if (!sl_checksum_find(frame, &ip, &place, &end, &pseudo))
        return false;
    at[place] = at[place + 1] = 0;
    uint16_t now = (uint16_t)~sl_checksum_fold(pseudo + sl_checksum_fix_sum(at, ip.payload, end, ip.payload));
    if (ip.protocol == 17 && now == 0)
        now = 0xffff;
    at[place] = (uint8_t)(now >> 8);
    at[place + 1] = (uint8_t)now;
    return true;
}

#endif
