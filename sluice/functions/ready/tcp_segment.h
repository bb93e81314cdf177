/* Segments of TCP that a function sends in the place of a host: the link and IP header are those of the current packet. */
#ifndef TCP_SEGMENT_H
#define TCP_SEGMENT_H

#include "sluice.h"

enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_PSH = 8, TCP_ACK = 16 };   /* RFC 9293, 3.1 */
enum { TCP_LINK_MOST = 14 + 8, TCP_SEGMENT_MOST = TCP_LINK_MOST + 40 + 24 };

/* A segment of TCP directly in the outermost IP packet, which is whole: its place, and its header. */
struct tcp_place { struct sl_ip_place ip; const uint8_t *at; uint32_t header; };

/* Finds it in the current packet; false where the event's segment is in a tunnel, in fragments, or cut within its header. */
static inline bool tcp_place_of(const struct sl_event *event, const struct sl_frame *frame, struct tcp_place *place) {
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || at > TCP_LINK_MOST || !sl_ip_read(frame, at, &place->ip) || place->ip.protocol != 6 || !place->ip.first ||
        !place->ip.last || event->unit.at != frame->at + place->ip.payload || event->unit.captured < 20)
        return false;
    place->at = event->unit.at;
    place->header = 4u * (place->at[12] >> 4);
    return place->header >= 20 && place->header <= event->unit.captured;
}

/* The maximum segment size that a SYN announces; 536, or 1220 over IPv6, if it has none (RFC 9293, 3.7.1). */
static inline uint16_t tcp_mss(const struct tcp_place *place) {
    for (uint32_t i = 20; i < place->header && place->at[i];) {
        uint8_t kind = place->at[i], length = kind == 1 ? 1 : i + 1 < place->header ? place->at[i + 1] : 0;
        if (!length || (kind != 1 && length < 2) || i + length > place->header)
            break;
        if (kind == 2 && length == 4)
            return (uint16_t)sl_load_be16(place->at + i + 2);
        i += length;
    }
    return place->ip.version == 4 ? 536 : 1220;
}

/* The fields of a segment. options: a multiple of four bytes. */
struct tcp_fields {
    uint32_t number, acknowledged;
    uint8_t flags;
    uint16_t window;
    const uint8_t *options, *payload;
    uint32_t option_length, payload_length;
};

/* Makes a segment with the link and IP header of `frame`. `back`: in the direction that `frame` came from. out: room for
 * TCP_SEGMENT_MOST bytes, and for options and payload. Returns its length. */
static inline uint32_t tcp_segment_with(const struct sl_frame *frame, const struct tcp_place *place, bool back,
                                        const struct tcp_fields *fields, uint8_t *out) {
    uint32_t link = place->ip.ip, version = place->ip.version, ip_length = version == 4 ? 20 : 40;
    uint32_t header = 20 + fields->option_length, length = header + fields->payload_length;
    uint32_t size = version == 4 ? 4 : 16, first = version == 4 ? 12 : 8;
    const uint8_t *from = frame->at + link;
    uint8_t *ip = out + link, *tcp = ip + ip_length;
    memcpy(out, frame->at, link + ip_length);
    if (back && frame->link_type == 1) {
        memcpy(out, frame->at + 6, 6);
        memcpy(out + 6, frame->at, 6);
    }
    memcpy(ip + first, from + first + (back ? size : 0), size);
    memcpy(ip + first + size, from + first + (back ? 0 : size), size);
    if (version == 4) {
        ip[0] = 0x45;
        sl_store_be16(ip + 2, ip_length + length);
        sl_store_be16(ip + 4, 0);
        sl_store_be16(ip + 6, 0x4000);
        ip[8] = 64;
        sl_store_be16(ip + 10, 0);
        sl_store_be16(ip + 10, (uint16_t)~sl_internet_checksum(ip, ip_length, 0));
    } else {
        sl_store_be16(ip + 4, length);
        ip[6] = 6;
        ip[7] = 64;
    }
    memset(tcp, 0, 20);
    memcpy(tcp, place->at + (back ? 2 : 0), 2);
    memcpy(tcp + 2, place->at + (back ? 0 : 2), 2);
    sl_store_be32(tcp + 4, fields->number);
    sl_store_be32(tcp + 8, fields->acknowledged);
    tcp[12] = (uint8_t)(header << 2);
    tcp[13] = fields->flags;
    sl_store_be16(tcp + 14, fields->window);
    if (fields->option_length)
        memcpy(tcp + 20, fields->options, fields->option_length);
    if (fields->payload_length)
        memcpy(tcp + header, fields->payload, fields->payload_length);
    uint64_t pseudo = sl_internet_checksum(ip + first, 2 * size, 6 + length);
    sl_store_be16(tcp + 16, (uint16_t)~sl_internet_checksum(tcp, length, pseudo));
    return link + ip_length + length;
}

/* Makes a segment without data. `mss`: an option; 0: none. Returns its length. */
static inline uint32_t tcp_segment(const struct sl_frame *frame, const struct tcp_place *place, bool back, uint32_t number,
                                   uint32_t acknowledged, uint8_t flags, uint16_t window, uint16_t mss, uint8_t out[TCP_SEGMENT_MOST]) {
    const uint8_t option[4] = {2, 4, (uint8_t)(mss >> 8), (uint8_t)mss};
    return tcp_segment_with(frame, place, back, &(struct tcp_fields){
        .number = number, .acknowledged = acknowledged, .flags = flags, .window = window, .options = option,
        .option_length = mss ? 4 : 0}, out);
}

#endif
