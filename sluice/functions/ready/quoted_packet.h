/* The packet that an ICMP error quotes (RFC 792; RFC 4443, 2.4): a copy, as far as it was captured, whose ends can be replaced. */
#ifndef SLUICE_QUOTED_PACKET_H
#define SLUICE_QUOTED_PACKET_H

#include "checksum_fix.h"

enum { QUOTED_MOST = 60 + 60, QUOTED_LINK = 101 /* raw IP */ };

struct quoted_packet { uint8_t bytes[QUOTED_MOST]; struct sl_frame frame; struct sl_ip_place ip; };

/* Copies at most `most` bytes of a quoted packet; false: they are not the beginning of an IP header. */
static inline bool quoted_read(struct quoted_packet *quoted, const uint8_t *at, uint64_t captured, uint32_t most) {
    uint32_t length = (uint32_t)sl_min(sl_min(captured, most), QUOTED_MOST);
    memcpy(quoted->bytes, at, length);
    quoted->frame = (struct sl_frame){.at = quoted->bytes, .captured = length, .length = length, .link_type = QUOTED_LINK};
    return sl_ip_read(&quoted->frame, 0, &quoted->ip);
}

/* Replaces bytes, and updates the checksums over them. */
static inline void quoted_replace(struct quoted_packet *quoted, uint32_t at, const uint8_t *bytes, uint32_t length) {
    uint8_t before[16];
    memcpy(before, quoted->bytes + at, length);
    memcpy(quoted->bytes + at, bytes, length);
    sl_checksum_fix(quoted->bytes, &quoted->frame, before, at, at + length);
}

#endif
