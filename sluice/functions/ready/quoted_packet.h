/* The packet that an ICMP error quotes (RFC 792; RFC 4443, 2.4): a copy, as far as it was captured, whose ends can be replaced. */
#ifndef SLUICE_QUOTED_PACKET_H
#define SLUICE_QUOTED_PACKET_H

#include "checksum_fix.h"

enum { QUOTED_MOST = 60 + 60, QUOTED_LINK = 101 /* raw IP */, QUOTED_ERROR_HEADER = 8 };

struct quoted_packet { uint8_t bytes[QUOTED_MOST]; struct sl_frame frame; struct sl_ip_place ip; };

/* Copies at most `most` bytes of a quoted packet; false: they are not the beginning of an IP header. */
static inline bool quoted_read(struct quoted_packet *quoted, const uint8_t *at, uint64_t captured, uint32_t most) {
    uint32_t length = (uint32_t)sl_min(sl_min(captured, most), QUOTED_MOST);
    memcpy(quoted->bytes, at, length);
    quoted->frame = (struct sl_frame){.at = quoted->bytes, .captured = length, .length = length, .link_type = QUOTED_LINK};
    return sl_ip_read(&quoted->frame, 0, &quoted->ip);
}

/* Is this the type of an ICMP message that quotes a packet, for IPv4? */
static inline bool quoted_by(uint8_t type) { return (type >= 3 && type <= 5) || type == 11 || type == 12; }

/* Reads the IPv4 packet that an error quotes: its header, and 8 to 20 bytes after it. unit: the error, from its ICMP header on. False:
 * it has none, or one that does not begin there. */
static inline bool quoted_read_ip4(struct quoted_packet *quoted, sl_bytes unit) {
    if (unit.captured < QUOTED_ERROR_HEADER + 20 + 8)
        return false;
    const uint8_t *ip = unit.at + QUOTED_ERROR_HEADER;
    return quoted_read(quoted, ip, unit.captured - QUOTED_ERROR_HEADER, 4 * (ip[0] & 15u) + 20) && quoted->ip.version == 4 &&
           quoted->ip.first && quoted->ip.payload + 8 <= quoted->frame.captured;
}

/* Replaces bytes, and updates the checksums over them. */
static inline void quoted_replace(struct quoted_packet *quoted, uint32_t at, const uint8_t *bytes, uint32_t length) {
    uint8_t before[16];
    memcpy(before, quoted->bytes + at, length);
    memcpy(quoted->bytes + at, bytes, length);
    sl_checksum_fix(quoted->bytes, &quoted->frame, before, at, at + length);
}

#endif
