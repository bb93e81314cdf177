/* Segments of joined connections: addresses, numbers, time stamps, blocks and windows are translated, nothing is stored. */
#ifndef SPLICE_JOIN_H
#define SPLICE_JOIN_H

#include "splice_segment.h"

enum { SPLICE_REGION = 128 };

/* Rewrites from `from`, an address, up to the checksum of TCP; `out` begins with that many bytes. */
static inline bool splice_write(struct sl_box *box, const uint8_t *from, const struct tcp_place *place, const uint8_t *out) {
    return sl_rewrite(box, from, out, (uint32_t)(place->at + 16 - from));
}

/* Replaces an option by no-operations. */
static inline void splice_strike(uint8_t *option) { memset(option, 1, option[1]); }

static inline void splice_add32(uint8_t *at, uint32_t value) { sl_store_be32(at, (uint32_t)sl_load_be32(at) + value); }

/* Translates the options of a segment; returns whether one has changed. `options`: a copy of those of the packet. */
static inline bool splice_options(const struct splice_connection *c, bool of_client, bool syn, uint8_t *options, uint32_t length) {
    bool changed = false;
    for (uint32_t at = 0; at < length && options[at];) {
        uint32_t size = options[at] == 1 ? 1 : at + 1 < length ? options[at + 1] : 0;
        uint8_t *option = options + at;
        if (!size || (option[0] != 1 && size < 2) || size > length - at)
            break;
        at += size;
        if (option[0] == 8 && size == 10) {
            if (!(c->agreed & SPLICE_STAMPS))
                splice_strike(option);
            else if (of_client)
                splice_add32(option + 6, -c->stamp_shift);
            else
                splice_add32(option + 2, c->stamp_shift);
            changed = true;
        } else if (option[0] == 5) {   /* blocks of the client are of numbers that it got (RFC 2018, 3) */
            if (!(c->agreed & SPLICE_SACK))
                splice_strike(option);
            for (uint32_t i = 2; of_client && c->agreed & SPLICE_SACK && i + 8 <= size; i += 8) {
                splice_add32(option + i, -c->number_shift);
                splice_add32(option + i + 4, -c->number_shift);
            }
            changed = changed || of_client || !(c->agreed & SPLICE_SACK);
        } else if ((option[0] == 19 || option[0] == 29 || option[0] == 30) && !syn) {   /* signed, or of several paths */
            splice_strike(option);
            changed = true;
        }
    }
    return changed;
}

/* The window of a server as the client expects it. */
static inline uint32_t splice_server_window(const struct splice_connection *c, uint32_t window) {
    if (!(c->options & SPLICE_SCALE) || c->server_scale == c->box_scale)
        return window;
    return (uint32_t)sl_min((uint64_t)window << c->server_scale >> c->box_scale, 65535);
}

/* Translates the current packet, of the client or of the server. False: it cannot be. */
static inline bool splice_translate(struct sl_box *box, const struct splice *splice, const struct splice_connection *c, bool of_client,
                                    const struct tcp_place *place) {
    uint8_t out[SPLICE_REGION], options[40];
    const uint32_t size = splice_address_size(c), source = c->version == 4 ? 12 : 8;
    const uint8_t *from = sl_box_frame(box)->at + place->ip.ip + source + (of_client ? size : 0);
    const uint8_t flags = place->at[13];
    if (place->at + 16 - from > SPLICE_REGION)
        return false;
    memcpy(out, from, (size_t)(place->at + 16 - from));
    uint8_t *tcp = out + (place->at - from);
    const struct splice_endpoint *end = of_client ? &splice->servers.server[c->server] : &splice->servers.service;
    memcpy(out, end->address, size);
    sl_store_be16(tcp + (of_client ? 2 : 0), end->port);
    uint32_t window = (uint32_t)sl_load_be16(tcp + 14);
    if (of_client) {
        if (flags & TCP_ACK)
            splice_add32(tcp + 8, -c->number_shift);
        sl_store_be16(tcp + 14, splice_client_window(c, window));
    } else {
        splice_add32(tcp + 4, c->number_shift);
        sl_store_be16(tcp + 14, splice_server_window(c, window));
    }
    uint32_t length = place->header - 20;
    memcpy(options, place->at + 20, length);
    if (length && splice_options(c, of_client, flags & TCP_SYN, options, length) &&
        !sl_rewrite(box, place->at + 20, options, length))
        return false;
    return splice_write(box, from, place, out);
}

#endif
