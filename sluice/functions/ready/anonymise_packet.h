/* Anonymises the bytes of one packet: known headers field by field, and everything else by zeroing it. */
#ifndef ANONYMISE_PACKET_H
#define ANONYMISE_PACKET_H

#include "anonymise_address.h"
#include "sluice.h"

enum { ANONYMISE_DEPTH = 4 };   /* IP in IP, and in ICMP errors */

struct anonymised { uint64_t options, quoted, zeroed; };   /* changes to a packet */

struct anonymise_at { uint8_t *at; uint32_t length; };   /* bytes that remain of it */

static inline struct anonymise_at anonymise_after(struct anonymise_at all, uint32_t bytes) {
    bytes = bytes < all.length ? bytes : all.length;
    return (struct anonymise_at){all.at + bytes, all.length - bytes};
}

static inline void anonymise_zero(struct anonymise_at all, struct anonymised *done) {
    for (uint32_t i = 0; i < all.length; i++)
        done->zeroed += all.at[i] != 0;
    memset(all.at, 0, all.length);
}

/* The bytes after the last header that is parsed. */
static inline void anonymise_rest(const struct anonymiser *with, struct anonymise_at rest, struct anonymised *done) {
    if (!with->keep_payload)
        anonymise_zero(rest, done);
}

/* Options of TCP that hold no address: no-operation, segment size, scale, SACK, timestamps (RFC 9293, 7323, 2018). Others, as
 * those of multipath TCP (RFC 8684), become no-operations. */
static inline void anonymise_tcp_options(struct anonymise_at options, struct anonymised *done) {
    for (uint32_t i = 0; i < options.length;) {
        uint8_t kind = options.at[i];
        uint32_t length = kind == 1 ? 1 : i + 1 < options.length ? options.at[i + 1] : 0;
        if (!kind || (kind != 1 && (length < 2 || i + length > options.length))) {   /* the end, or none */
            memset(options.at + i, 0, options.length - i);
            return;
        }
        if (kind > 5 && kind != 8) {
            memset(options.at + i, 1, length);
            done->options++;
        }
        i += length;
    }
}

static inline void anonymise_tcp(struct anonymiser *with, struct anonymise_at tcp, struct anonymised *done) {
    uint32_t header = tcp.length > 12 ? 4u * (tcp.at[12] >> 4) : 20;
    header = header < 20 ? 20 : header;
    if (header > 20 && tcp.length > 20)
        anonymise_tcp_options((struct anonymise_at){tcp.at + 20, (header < tcp.length ? header : tcp.length) - 20}, done);
    anonymise_rest(with, anonymise_after(tcp, header), done);
}

static inline void anonymise_ip_packet(struct anonymiser *with, struct anonymise_at ip, unsigned depth, bool quoted, struct anonymised *done);

static inline void anonymise_quote(struct anonymiser *with, struct anonymise_at icmp, unsigned depth, struct anonymised *done) {
    done->quoted++;
    anonymise_ip_packet(with, anonymise_after(icmp, 8), depth + 1, true, done);
}

static inline void anonymise_icmp4(struct anonymiser *with, struct anonymise_at icmp, unsigned depth, struct anonymised *done) {
    uint8_t type = icmp.length ? icmp.at[0] : 255;
    if (type == 5 && icmp.length >= 8)   /* redirect: the gateway (RFC 792) */
        anonymise_ip(with, icmp.at + 4, 4);
    if ((type >= 3 && type <= 5) || type == 11 || type == 12)
        anonymise_quote(with, icmp, depth, done);
    else if (type == 0 || type == 8)
        anonymise_rest(with, anonymise_after(icmp, 8), done);
    else
        anonymise_zero(anonymise_after(icmp, 4), done);
}

/* Neighbour discovery (RFC 4861, 4) has addresses of targets after eight bytes; its options hold link addresses. */
static inline void anonymise_icmp6(struct anonymiser *with, struct anonymise_at icmp, unsigned depth, struct anonymised *done) {
    uint8_t type = icmp.length ? icmp.at[0] : 255;
    unsigned targets = type == 135 || type == 136 ? 1 : type == 137 ? 2 : 0;
    uint32_t known = targets ? 8 + 16 * targets : type == 133 ? 8 : type == 134 ? 16 : 4;
    if (type >= 1 && type <= 4) {
        anonymise_quote(with, icmp, depth, done);
        return;
    }
    if (type == 128 || type == 129) {
        anonymise_rest(with, anonymise_after(icmp, 8), done);
        return;
    }
    if (targets && icmp.length < known)
        known = 4;
    for (unsigned i = 0; i < targets && known > 4; i++)
        anonymise_ip(with, icmp.at + 8 + 16 * i, 16);
    anonymise_zero(anonymise_after(icmp, known), done);
}

/* Zeroes a transport checksum that nothing updates: it is a sum over the addresses that were replaced. */
static inline void anonymise_no_checksum(uint8_t protocol, struct anonymise_at body) {
    uint32_t place = protocol == 6 ? 16 : protocol == 17 ? 6 : protocol == 1 || protocol == 58 ? 2 : body.length;
    for (uint32_t i = place; i < body.length && i < place + 2; i++)
        body.at[i] = 0;
}

/* `updated`: whether its checksum is. */
static inline void anonymise_transport(struct anonymiser *with, uint8_t protocol, struct anonymise_at body, unsigned depth, bool first,
                                       bool updated, struct anonymised *done) {
    if (first && !updated)
        anonymise_no_checksum(protocol, body);
    if (!first)
        anonymise_rest(with, body, done);
    else if (protocol == 6)
        anonymise_tcp(with, body, done);
    else if (protocol == 17)
        anonymise_rest(with, anonymise_after(body, 8), done);
    else if (protocol == 1)
        anonymise_icmp4(with, body, depth, done);
    else if (protocol == 58)
        anonymise_icmp6(with, body, depth, done);
    else if (protocol == 4 || protocol == 41)
        anonymise_ip_packet(with, body, depth + 1, false, done);
    else
        anonymise_zero(body, done);   /* its headers are not read, and may hold addresses */
}

/* Extension headers: options become padding, addresses of a routing header are removed (RFC 8200, 4). Returns the protocol. */
static inline uint8_t anonymise_extensions(uint8_t protocol, struct anonymise_at *body, bool *first, bool *last, struct anonymised *done) {
    while (protocol == 0 || protocol == 43 || protocol == 60 || protocol == 44) {
        if (body->length < 8) {
            anonymise_zero(*body, done);
            return 59;
        }
        uint32_t length = protocol == 44 ? 8 : 8 * ((uint32_t)body->at[1] + 1);
        if (protocol == 44) {
            *first = *first && !(sl_load_be16(body->at + 2) & 0xfff8);
            *last = *last && !(body->at[3] & 1);
        } else {
            uint32_t from = protocol == 43 ? 4 : 2, to = length < body->length ? length : body->length;
            if (protocol == 43)
                body->at[3] = 0;
            done->options++;
            memset(body->at + from, 0, to - from);
        }
        protocol = body->at[0];
        *body = anonymise_after(*body, length);
    }
    return protocol;
}

/* Puts the checksum of an IPv4 header that was changed right if it was right before. */
static inline void anonymise_header_checksum(uint8_t *ip, uint32_t header, bool was_right) {
    if (!was_right)
        return;
    sl_store_be16(ip + 10, 0);
    sl_store_be16(ip + 10, (uint16_t)~sl_internet_checksum(ip, header, 0));
}

/* An IP packet. `quoted`: in an ICMP error, whose headers' checksums nothing else updates. */
static inline void anonymise_ip_packet(struct anonymiser *with, struct anonymise_at ip, unsigned depth, bool quoted, struct anonymised *done) {
    unsigned version = ip.length ? ip.at[0] >> 4 : 0;
    uint32_t header = version == 4 ? 4 * (ip.at[0] & 15u) : 40;
    bool first = true, last = true;
    if (depth > ANONYMISE_DEPTH || (version != 4 && version != 6) || header < 20 || ip.length < header) {
        anonymise_zero(ip, done);
        return;
    }
    uint8_t protocol = version == 4 ? ip.at[9] : ip.at[6];
    struct anonymise_at body = anonymise_after(ip, header);
    if (version == 4) {
        uint32_t total = (uint32_t)sl_load_be16(ip.at + 2);
        bool right = sl_internet_checksum(ip.at, header, 0) == 0xffff;
        first = !(sl_load_be16(ip.at + 6) & 0x1fff);
        last = !(sl_load_be16(ip.at + 6) & 0x2000);
        anonymise_ip(with, ip.at + 12, 4);
        anonymise_ip(with, ip.at + 16, 4);
        if (header > 20) {
            memset(ip.at + 20, 1, header - 20);
            done->options++;
        }
        if (quoted)
            anonymise_header_checksum(ip.at, header, right);
        if (total >= header && total < ip.length && !quoted) {   /* padding of the link */
            anonymise_zero(anonymise_after(ip, total), done);
            body.length = total - header;
        }
    } else {
        uint32_t payload = (uint32_t)sl_load_be16(ip.at + 4);
        anonymise_ip(with, ip.at + 8, 16);
        anonymise_ip(with, ip.at + 24, 16);
        if (payload && payload < body.length && !quoted) {
            anonymise_zero(anonymise_after(body, payload), done);
            body.length = payload;
        }
        protocol = anonymise_extensions(protocol, &body, &first, &last, done);
    }
    anonymise_transport(with, protocol, body, depth, first, last && !quoted, done);
}

/* ARP for Ethernet and IPv4 (RFC 826); false: it is another one. */
static inline bool anonymise_arp(struct anonymiser *with, struct anonymise_at arp, struct anonymised *done) {
    static const uint8_t known[6] = {0, 1, 8, 0, 6, 4};
    if (arp.length < 28 || memcmp(arp.at, known, sizeof known))
        return false;
    anonymise_mac(with, arp.at + 8, 6);
    anonymise_ip(with, arp.at + 14, 4);
    anonymise_mac(with, arp.at + 18, 6);
    anonymise_ip(with, arp.at + 24, 4);
    anonymise_zero(anonymise_after(arp, 28), done);
    return true;
}

/* The link addresses of a frame. */
static inline void anonymise_link(const struct anonymiser *with, uint32_t link_type, uint8_t *at, uint32_t header) {
    if (link_type == 1 && header >= 14) {
        anonymise_mac(with, at, 6);
        anonymise_mac(with, at + 6, 6);
    } else if (link_type == 113 && header >= 16) {
        anonymise_mac(with, at + 6, 8);
    } else if (link_type == 276 && header >= 20) {
        anonymise_mac(with, at + 12, 8);
    }
}

#endif
