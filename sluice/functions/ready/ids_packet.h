/* Inspects single packets: those of UDP and ICMP, and those of TCP for rules about packets. */
#ifndef IDS_PACKET_H
#define IDS_PACKET_H

#include "ids_dns.h"
#include "ids_http.h"
#include "ids_tls.h"

static inline void ids_set_field(struct ids_headers *headers, enum ids_field field, uint32_t value) {
    headers->field[field] = value;
    headers->known |= 1u << field;
}

/* The options of an IPv4 header (RFC 791, 3.1) as bits, in the order of header_options.py: the last one is any of them. */
static uint32_t ids_ip_options(sl_bytes unit) {
    static const uint8_t numbers[] = {7, 0, 1, 68, 130, 133, 131, 137, 136};
    uint32_t end = (uint32_t)sl_min((unit.at[0] & 15) * 4u, unit.captured), bits = 0, any = 1u << sizeof numbers;
    for (uint32_t at = 20; at < end;) {
        uint8_t number = unit.at[at];
        bits |= any;
        for (uint32_t i = 0; i < sizeof numbers; i++)
            bits |= number == numbers[i] ? 1u << i : 0;
        uint32_t length = number <= 1 ? 1 : at + 1 < end ? unit.at[at + 1] : 0;
        if (!number || !length)
            break;
        at += length;
    }
    return bits;
}

static void ids_ip4_headers(sl_bytes unit, struct ids_headers *headers) {
    ids_set_field(headers, IDS_TOS, unit.at[1]);
    ids_set_field(headers, IDS_ID, (uint32_t)sl_load_be16(unit.at + 4));
    ids_set_field(headers, IDS_TTL, unit.at[8]);
    ids_set_field(headers, IDS_FRAGOFFSET, (uint32_t)sl_load_be16(unit.at + 6) & 0x1fff);
    ids_set_field(headers, IDS_FRAGBITS, unit.at[6] >> 5);
    ids_set_field(headers, IDS_IP_PROTO, unit.at[9]);
    ids_set_field(headers, IDS_IPOPTS, ids_ip_options(unit));
}

/* The fields of the IP header that the layer of an event lies in: the innermost one. Of a datagram that was reassembled it is
 * that of the fragment that completed it. */
static void ids_ip_headers(const struct sl_event *event, struct ids_headers *headers) {
    ids_set_field(headers, IDS_REBUILT, 0);
    for (uint32_t depth = sl_path_depth(event); depth--;) {
        sl_bytes unit = sl_layer_unit(event->box, depth);
        const char *name = sl_path_layer(event, depth)->prototype;
        if (strcmp(name, "ipv4") == 0 && unit.captured >= 20) {
            ids_ip4_headers(unit, headers);
            ids_set_field(headers, IDS_REBUILT, (sl_load_be16(unit.at + 6) & 0x3fff) != 0);
            return;
        }
        if (strcmp(name, "frag") == 0 && unit.captured >= 4)   /* the header of RFC 8200, 4.5 */
            ids_set_field(headers, IDS_REBUILT, (sl_load_be16(unit.at + 2) & 0xfff9) != 0);
        if (strcmp(name, "ipv6") == 0 && unit.captured >= 40) {
            ids_set_field(headers, IDS_TOS, (uint32_t)sl_load_be16(unit.at) >> 4 & 255);
            ids_set_field(headers, IDS_TTL, unit.at[7]);
            return;
        }
    }
}

/* Inspects a packet of IPv4, whole or a fragment, for the rules about its header. */
static void ids_ip_packet(const struct sl_event *event) {
    struct sl_box *box = event->box;
    sl_bytes unit = event->unit;
    if (unit.captured < 20)
        return;
    struct ids_headers headers = {0};
    struct log_flow flow = {.layer = event->owner};
    struct flow_ends ends = {.size = 4};
    struct ids_view views[IDS_BUFFERS] = {{0}};
    uint32_t header = (unit.at[0] & 15) * 4u, total = (uint32_t)sl_load_be16(unit.at + 2);
    sl_bytes payload = sl_bytes_slice(unit, header, total > header ? total : header);
    const struct sl_key_part *address = sl_address_part(event->owner);
    for (unsigned side = 0; side < 2; side++) {   /* a packet that is no fragment has no instance with a key */
        memcpy(ends.address[side], unit.at + 12 + 4 * side, 4);
        if (log_has(address) && address->bits == 32)
            flow.half[side][address->word] |= (uint64_t)sl_load_be32(unit.at + 12 + 4 * side) << address->shift;
    }
    ids_ip4_headers(unit, &headers);
    ids_set_field(&headers, IDS_DSIZE, payload.length);
    ids_set_field(&headers, IDS_REBUILT, 0);
    uint8_t protocol = unit.at[9];
    struct ids_seen seen = {
        .flow = &flow, .ends = &ends, .time = sl_packet_time(event), .number = sl_packet_number(event), .event = event,
        .protocol = protocol == 6 ? IDS_TCP_BIT : protocol == 17 ? IDS_UDP_BIT : protocol == 1 ? IDS_ICMP_BIT : IDS_OTHER_BIT,
        .headers = &headers,
    };
    ids_set_view(&views[IDS_PAYLOAD], payload.at, payload.captured);
    SLUICE_WORKER_OF(box)->work.left = IDS_SCAN_MOST;
    ids_scan_begin(box);
    ids_scan_group(box, IDS_IP, &views[IDS_PAYLOAD]);
    ids_found_evaluate(box, NULL, &seen, views, 3, false);
}

/* The payload of the packet of an event, whose header in its layer has so many bytes at least. */
static sl_bytes ids_payload(const struct sl_event *event, uint8_t protocol) {
    sl_bytes unit = event->unit;
    if (protocol == IDS_TCP_BIT)
        return sl_bytes_after(unit, unit.captured > 12 ? (uint64_t)(unit.at[12] >> 4) * 4 : unit.length);
    if (protocol == IDS_UDP_BIT && unit.captured >= 8) {
        uint32_t length = (uint32_t)sl_load_be16(unit.at + 4);
        return sl_bytes_slice(unit, 8, length >= 8 ? length : unit.length);
    }
    return sl_bytes_after(unit, 8);
}

/* Echo, timestamp and information messages (RFC 792), and echo of ICMPv6 (RFC 4443, 4). */
static bool ids_icmp_has_id(uint8_t type) {
    return type == 0 || type == 8 || (type >= 13 && type <= 16) || type == 128 || type == 129;
}

static void ids_transport_headers(const struct sl_event *event, uint8_t protocol, struct ids_headers *headers) {
    sl_bytes unit = event->unit;
    if (protocol == IDS_TCP_BIT && unit.captured >= 16) {
        ids_set_field(headers, IDS_SEQ, (uint32_t)sl_load_be(unit.at + 4, 4));
        ids_set_field(headers, IDS_ACK, (uint32_t)sl_load_be(unit.at + 8, 4));
        ids_set_field(headers, IDS_WINDOW, (uint32_t)sl_load_be16(unit.at + 14));
        headers->flags = unit.at[13];
    } else if (protocol == IDS_ICMP_BIT && unit.captured >= 2) {
        ids_set_field(headers, IDS_ITYPE, unit.at[0]);
        ids_set_field(headers, IDS_ICODE, unit.at[1]);
        if (unit.captured >= 8 && ids_icmp_has_id(unit.at[0])) {
            ids_set_field(headers, IDS_ICMP_ID, (uint32_t)sl_load_be16(unit.at + 4));
            ids_set_field(headers, IDS_ICMP_SEQ, (uint32_t)sl_load_be16(unit.at + 6));
        }
    }
}

/* Inspects the packet of an event. */
static void ids_packet(const struct sl_event *event, struct ids_seen *seen, unsigned number) {
    struct sl_box *box = event->box;
    struct ids *ids = SLUICE_WORKER_OF(box);
    struct ids_headers headers = {0};
    struct ids_view views[IDS_BUFFERS] = {{0}};
    sl_bytes payload = ids_payload(event, seen->protocol);
    ids_set_field(&headers, IDS_DSIZE, payload.length);
    ids_ip_headers(event, &headers);
    ids_transport_headers(event, seen->protocol, &headers);
    seen->headers = &headers;
    ids_set_view(&views[IDS_PAYLOAD], payload.at, payload.captured);
    SLUICE_COUNTER_OF(box, ids_cut_packets) += payload.captured < payload.length;
    ids_scan_begin(box);
    ids_scan_group(box, number, &views[IDS_PAYLOAD]);
    ids_found_evaluate(box, NULL, seen, views, 3, false);
    if (ids->table.dns && seen->protocol == IDS_UDP_BIT && ids_is_dns(seen))
        ids_dns_inspect(box, NULL, seen, payload, views);
}

#endif
