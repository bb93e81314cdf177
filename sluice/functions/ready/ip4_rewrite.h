/* Shared by functions that rewrite IPv4 endpoints: addresses in parameters, the endpoints of a flow, the place of
 * an address in the current packet. */
#ifndef SLUICE_IP4_REWRITE_H
#define SLUICE_IP4_REWRITE_H

#include "sluice.h"

#include "endpoints.h"

/* Reads ADDRESS, or, with a mask, ADDRESS/BITS; false if the text is none. */
static inline bool ip4_read(const char *text, uint32_t *address, uint32_t *mask) {
    char at[32];
    size_t length = strcspn(text, "/");
    uint64_t bits = 32;
    uint8_t network[4];
    if (length >= sizeof at || (text[length] && (!mask || !sl_parameter_number(text + length + 1, &bits) || bits > 32)))
        return false;
    memcpy(at, text, length);
    at[length] = 0;
    if (inet_pton(AF_INET, at, network) != 1)
        return false;
    if (mask)
        *mask = bits ? UINT32_MAX << (32 - bits) : 0;
    *address = (uint32_t)sl_load_be32(network) & (mask ? *mask : UINT32_MAX);
    return true;
}

/* The IPv4 address of a side of the event's instance; 0 for an IPv6 one. */
static inline uint32_t ip4_address(const struct sl_event *event, unsigned side) {
    const struct sl_key_part *part = sl_address_part(event->owner);
    return part->bits == 32 ? (uint32_t)sl_part_number(part, sl_event_half(event, side)) : 0;
}

static inline uint16_t ip4_port(const struct sl_event *event, unsigned side) {
    return (uint16_t)sl_part_number(sl_port_part(event->owner), sl_event_half(event, side));
}

/* Is the header of an event of an IPv4 layer the outermost one of the current packet? */
static inline bool ip4_is_outermost(const struct sl_event *event) {
    const struct sl_frame *frame = sl_packet_frame(event);
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    return found && event->unit.at == frame->at + at;
}

/* Is the outermost IPv4 header of the current packet one of a fragment? */
static inline bool ip4_is_fragment(const struct sl_event *event) {
    const struct sl_frame *frame = sl_packet_frame(event);
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    return found && frame->captured >= at + 20 && frame->at[at] >> 4 == 4 && (sl_load_be16(frame->at + at + 6) & 0x3fff);
}

/* Where the source or destination address is in the outermost IPv4 header of the current packet. NULL: there is
 * none, or the event is not of a transport header directly in it, as in a tunnel. */
static inline const uint8_t *ip4_address_place(const struct sl_event *event, bool source) {
    const struct sl_frame *frame = sl_packet_frame(event);
    struct sl_ip_place ip;
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || !sl_ip_read(frame, at, &ip) || ip.version != 4 || event->unit.at != frame->at + ip.payload)
        return NULL;
    return frame->at + at + (source ? 12 : 16);
}

#endif
