/* The fields of an IP header that the library reads, of both versions. */
#ifndef MOS_IP_H
#define MOS_IP_H

#include "core/bytes.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MOS_IPV6_HEADER = 40, MOS_ADDRESS = 16 };   /* bytes; MOS_ADDRESS: of the longer kind */

struct mos_ip {
    bool six;
    bool fragment;
    uint8_t protocol;     /* of IPv6: the next header, which may be an extension */
    uint32_t header;      /* bytes, without extensions */
    uint32_t total;       /* bytes of the packet, from its length field; 0 without one (segmentation offload) */
    uint32_t addresses;   /* where they are, the destination's after the source's, */
    uint32_t size;        /* and bytes of each */
};

static inline struct mos_ip mos_ip_of(const uint8_t *ip) {
    if (ip[0] >> 4 == 6) {
        const uint32_t payload = (uint32_t)sl_load_be16(ip + 4);
        return (struct mos_ip){true, false, ip[6], MOS_IPV6_HEADER, payload ? MOS_IPV6_HEADER + payload : 0, 8, 16};
    }
    const bool fragment = (sl_load_be16(ip + 6) & 0x3fff) != 0;
    return (struct mos_ip){false, fragment, ip[9], (uint32_t)(ip[0] & 15) * 4, (uint32_t)sl_load_be16(ip + 2), 12, 4};
}

/* Sets the packet's length. */
static inline void mos_ip_set_total(uint8_t *ip, uint32_t total) {
    const bool six = ip[0] >> 4 == 6;
    uint8_t *place = ip + (six ? 4 : 2);
    const uint32_t value = six ? total - MOS_IPV6_HEADER : total;
    place[0] = (uint8_t)(value >> 8);
    place[1] = (uint8_t)value;
}

/* One end of a connection, so that two are the same where their bytes are: addresses of IPv4 have zeros after them. */
struct mos_address {
    uint8_t ip[MOS_ADDRESS];
    in_port_t port;   /* network byte order */
};

/* The ends of a segment: source, destination. */
static inline void mos_ip_ends(const uint8_t *ip, const uint8_t *tcp, struct mos_address ends[2]) {
    const struct mos_ip header = mos_ip_of(ip);
    memset(ends, 0, 2 * sizeof *ends);
    for (unsigned i = 0; i < 2; i++) {
        memcpy(ends[i].ip, ip + header.addresses + i * header.size, header.size);
        memcpy(&ends[i].port, tcp + 2 * i, sizeof ends[i].port);
    }
}

#endif
