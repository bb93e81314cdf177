/* SYN cookies (Bernstein and Schenk, 1996; RFC 4987, 3.6): a number of a SYN/ACK from which the box recognises a client that
 * acknowledges it, without having stored anything. It has five bits of the time, three of the segment size, 24 of a keyed hash
 * of the ends, the client's number and these. */
#ifndef SYN_COOKIE_H
#define SYN_COOKIE_H

#include "core/siphash.h"
#include "tcp_segment.h"

/* Sizes that a cookie has three bits for; those of Ethernet, tunnels over it, and the least of IPv4 and IPv6. */
static const uint16_t syn_cookie_sizes[8] = {536, 1220, 1300, 1360, 1380, 1440, 1460, 8960};
#define SYN_COOKIE_TICK (64 * (uint64_t)1000000000)   /* nanoseconds; a cookie is valid in its tick and the next one */

/* The index of the largest size that is not above a client's. */
static inline unsigned syn_cookie_size(uint16_t mss) {
    unsigned size = 0;
    while (size < 7 && syn_cookie_sizes[size + 1] <= mss)
        size++;
    return size;
}

/* The cookie of a client's segment in `frame`, whose first number is `client`. */
static inline uint32_t syn_cookie(const uint8_t key[16], const struct tcp_place *place, const uint8_t *frame, uint32_t client,
                                  uint64_t tick, unsigned size) {
    uint8_t text[32 + 4 + 4 + 8 + 1] = {0};
    uint32_t addresses = place->ip.version == 4 ? 12 : 8;
    memcpy(text, frame + place->ip.ip + addresses, place->ip.version == 4 ? 8 : 32);
    memcpy(text + 32, place->at, 4);
    sl_store_be32(text + 36, client);
    sl_store_be32(text + 40, tick >> 32);
    sl_store_be32(text + 44, tick);
    text[48] = (uint8_t)size;
    return (uint32_t)(tick & 31) << 27 | (uint32_t)size << 24 | (uint32_t)(sl_siphash(key, text, sizeof text) & 0xffffff);
}

/* The segment size of a cookie that a client acknowledges; 0: it is none of the last two ticks. */
static inline uint16_t syn_cookie_mss(const uint8_t key[16], const struct tcp_place *place, const uint8_t *frame, uint32_t client,
                                      uint32_t cookie, uint64_t time) {
    uint64_t now = time / SYN_COOKIE_TICK;
    unsigned size = cookie >> 24 & 7;
    for (uint64_t tick = now; tick + 1 >= now && tick != UINT64_MAX; tick--)
        if (syn_cookie(key, place, frame, client, tick, size) == cookie)
            return syn_cookie_sizes[size];
    return 0;
}

#endif
