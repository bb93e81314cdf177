/* Segments that a box makes from a received one: other payload, numbers and options, with the lengths and checksums of all
 * headers around it.
 *
 * The headers are known by the layers that the packet is in. Where one of them authenticates its content, is part of a
 * fragment, or is not known here, no other segment can be made: sl_edit_places says so. */
#ifndef SL_EDIT_SEGMENT_H
#define SL_EDIT_SEGMENT_H

#include "core/box.h"
#include "function/checksum_fix.h"

SL_RUNTIME_BEGIN

enum {
    SL_EDIT_HEADERS_MOST = 12,   /* headers with a length, one in the other */
    SL_EDIT_HEAD_MOST = 320,     /* bytes of all headers */
};

enum sl_edit_header { SL_EDIT_IPV4, SL_EDIT_IPV6, SL_EDIT_UDP, SL_EDIT_GTP, SL_EDIT_PPPOE };

/* Why segments cannot be made. */
enum sl_edit_obstacle {
    SL_EDIT_NONE,
    SL_EDIT_TUNNEL,      /* a header of another kind, or one that authenticates or checks its content otherwise */
    SL_EDIT_FRAGMENT,    /* the segment is in several packets */
    SL_EDIT_CUT,         /* not all bytes were captured */
    SL_EDIT_SIGNED,      /* an option of TCP authenticates it (RFC 2385, RFC 5925) */
    SL_EDIT_NUMBERS,     /* another function changes its numbers */
    SL_EDIT_OTHER,       /* another function edits the connection */
    SL_EDIT_OBSTACLES,
};

/* Offsets in a frame. */
struct sl_edit_places {
    uint16_t tcp, payload, count;
    struct { uint16_t at; uint8_t kind; } header[SL_EDIT_HEADERS_MOST];   /* from the outermost on */
};

static inline bool sl_edit_is(const char *name, const char *other) { return strcmp(name, other) == 0; }

/* Adds one header; `next`: the offset of what it contains. */
static inline enum sl_edit_obstacle sl_edit_place(struct sl_edit_places *places, const struct sl_frame *frame,
                                                  const char *name, uint32_t at) {
    static const char *const plain[] = {"eth", "vlan", "snap", "sll", "sll2", "null", "raw", "ppp", "mpls", "mpls_payload",
                                        "vxlan", "geneve", "ext", "pdu"};
    static const char *const known[] = {"ipv4", "ipv6", "udp", "gtp", "pppoe"};
    const uint8_t *header = frame->at + at;
    for (uint32_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (sl_edit_is(name, plain[i]))
            return i == 0 && sl_frame16(frame, at + 12) <= 1500 ? SL_EDIT_TUNNEL : SL_EDIT_NONE;   /* 802.3: a length */
    if (sl_edit_is(name, "gre"))   /* a checksum covers all; bits of version 0 without one (RFC 2784, 2890) */
        return (sl_frame16(frame, at) & 0xc007) ? SL_EDIT_TUNNEL : SL_EDIT_NONE;
    if (sl_edit_is(name, "frag"))
        return sl_frame16(frame, at + 2) & 0xfff9 ? SL_EDIT_FRAGMENT : SL_EDIT_NONE;
    uint8_t kind = 0;
    while (kind < sizeof known / sizeof *known && !sl_edit_is(name, known[kind]))
        kind++;
    if (kind == sizeof known / sizeof *known || places->count == SL_EDIT_HEADERS_MOST || at + 20 > frame->captured)
        return SL_EDIT_TUNNEL;
    if (kind == SL_EDIT_IPV4 && (sl_load_be16(header + 6) & 0x3fff))
        return SL_EDIT_FRAGMENT;
    if ((kind == SL_EDIT_IPV4 || kind == SL_EDIT_IPV6) && !sl_load_be16(header + (kind == SL_EDIT_IPV4 ? 2 : 4)))
        return SL_EDIT_TUNNEL;   /* a jumbogram, or one that a card is to divide */
    places->header[places->count].at = (uint16_t)at;
    places->header[places->count++].kind = kind;
    return SL_EDIT_NONE;
}

/* Finds the headers of the current packet of an event of TCP. */
static inline enum sl_edit_obstacle sl_edit_find_places(const struct sl_event *event, struct sl_edit_places *places) {
    const struct sl_box *box = event->box;
    const struct sl_frame *frame = box->frame;
    *places = (struct sl_edit_places){0};
    if (!frame || frame->captured < frame->length || event->unit.captured < event->unit.length || event->unit.length < 20)
        return SL_EDIT_CUT;
    for (uint32_t depth = 0; depth < box->depth; depth++) {
        uint64_t at = (uintptr_t)sl_layer_unit(box, depth).at - (uintptr_t)frame->at;
        if (at >= frame->captured)
            return SL_EDIT_FRAGMENT;   /* its bytes are those of a reassembled datagram */
        if (at > SL_EDIT_HEAD_MOST)
            return SL_EDIT_TUNNEL;
        const char *name = box->layers[box->path[depth]].prototype;
        if (depth + 1 == box->depth) {
            uint32_t words = (uint32_t)(event->unit.at[12] >> 4) * 4;
            places->tcp = (uint16_t)at;
            places->payload = (uint16_t)(at + words);
            bool fits = words >= 20 && words <= event->unit.length && places->payload <= SL_EDIT_HEAD_MOST;
            return sl_edit_is(name, "tcp") && fits && places->count ? SL_EDIT_NONE : SL_EDIT_TUNNEL;
        }
        enum sl_edit_obstacle obstacle = sl_edit_place(places, frame, name, (uint32_t)at);
        if (obstacle)
            return obstacle;
    }
    return SL_EDIT_TUNNEL;
}

/* The sum of the pseudo header of TCP or UDP in the header `ip`, for a segment or datagram of so many bytes. */
static inline uint64_t sl_edit_pseudo(const uint8_t *frame, uint32_t at, uint8_t kind, uint8_t protocol, uint32_t length) {
    return kind == SL_EDIT_IPV4 ? sl_internet_checksum(frame + at + 12, 8, (uint64_t)protocol + length)
                                : sl_internet_checksum(frame + at + 8, 32, (uint64_t)protocol + length);
}

/* One's complement addition. */
static inline uint16_t sl_edit_plus(uint16_t a, uint16_t b) { return sl_checksum_fold((uint64_t)a + b); }

/* The innermost IP header. */
static inline uint32_t sl_edit_ip(const struct sl_edit_places *places) {
    uint32_t i = places->count - 1u;
    while (i && places->header[i].kind > SL_EDIT_IPV6)
        i--;
    return i;
}

/* What the checksum of TCP should be. */
static inline uint16_t sl_edit_checksum(const struct sl_edit_places *places, uint8_t *frame, uint32_t end) {
    uint32_t ip = sl_edit_ip(places), at = places->tcp, length = end - at;
    uint8_t field[2] = {frame[at + 16], frame[at + 17]};
    frame[at + 16] = frame[at + 17] = 0;
    uint64_t pseudo = sl_edit_pseudo(frame, places->header[ip].at, places->header[ip].kind, 6, length);
    uint16_t sum = sl_internet_checksum(frame + at, length, pseudo);
    memcpy(frame + at + 16, field, 2);
    return (uint16_t)~sum;
}

/* By how much the checksum of a received segment differs from the right one; `frame` is changed meanwhile. A wrong one
 * stays as wrong. */
static inline uint16_t sl_edit_error(const struct sl_edit_places *places, uint8_t *frame, uint32_t end) {
    uint16_t right = sl_edit_checksum(places, frame, end), is = (uint16_t)sl_load_be16(frame + places->tcp + 16);
    return sl_edit_plus(is, (uint16_t)~right);
}

/* Sets the lengths and checksums of a frame that ends at `end`. error: see sl_edit_error. partial: only the sum of the
 * pseudo header is set, as a card is to do the rest. number: added to the identification of IPv4. */
static inline void sl_edit_seal(const struct sl_edit_places *places, uint8_t *frame, uint32_t end, uint16_t error,
                                bool partial, uint16_t number) {
    uint32_t inner = sl_edit_ip(places);
    for (uint32_t i = 0; i < places->count; i++) {
        uint32_t at = places->header[i].at, length = end - at;
        uint8_t before[4];
        switch (places->header[i].kind) {
        case SL_EDIT_IPV4:
            memcpy(before, frame + at + 2, 4);
            sl_store_be16(frame + at + 2, length);
            sl_store_be16(frame + at + 4, (uint16_t)(sl_load_be16(frame + at + 4) + number));
            sl_checksum_fix_one(frame, at + 10, before, at + 2, at + 6, at, at + (uint32_t)(frame[at] & 15) * 4, false);
            break;
        case SL_EDIT_IPV6: sl_store_be16(frame + at + 4, length - 40); break;
        case SL_EDIT_UDP: sl_store_be16(frame + at + 4, length); break;
        case SL_EDIT_GTP: sl_store_be16(frame + at + 2, length - 8); break;
        default: sl_store_be16(frame + at + 4, length - 6); break;
        }
    }
    uint32_t tcp = places->tcp;
    if (partial)
        sl_store_be16(frame + tcp + 16,
                      sl_edit_pseudo(frame, places->header[inner].at, places->header[inner].kind, 6, end - tcp));
    else
        sl_store_be16(frame + tcp + 16, sl_edit_plus(sl_edit_checksum(places, frame, end), error));
    for (uint32_t i = places->count; i-- > 1;) {   /* UDP around it, from the inside out */
        uint32_t at = places->header[i].at, ip = i - 1;
        while (ip && places->header[ip].kind > SL_EDIT_IPV6)
            ip--;
        if (places->header[i].kind != SL_EDIT_UDP || !sl_load_be16(frame + at + 6))
            continue;
        sl_store_be16(frame + at + 6, 0);
        uint64_t pseudo = sl_edit_pseudo(frame, places->header[ip].at, places->header[ip].kind, 17, end - at);
        uint16_t sum = (uint16_t)~sl_internet_checksum(frame + at, end - at, pseudo);
        sl_store_be16(frame + at + 6, sum ? sum : 0xffff);
    }
}

/* The value of an option of TCP, in the bytes `at` of a header of so many bytes; NULL if it has none, or not of this
 * length. */
static inline uint8_t *sl_edit_option(uint8_t *tcp, uint32_t header, uint8_t kind, uint8_t length) {
    for (uint32_t at = 20; at < header && tcp[at] != 0;) {
        uint32_t size = tcp[at] == 1 ? 1 : at + 1 < header ? tcp[at + 1] : 0;
        if (!size || (tcp[at] != 1 && size < 2) || size > header - at)
            return NULL;
        if (tcp[at] == kind && (!length || size == length))
            return tcp + at + 2;
        at += size;
    }
    return NULL;
}

SL_RUNTIME_END

#endif
