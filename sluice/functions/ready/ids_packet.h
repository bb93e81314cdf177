/* Inspects single packets: those of UDP and ICMP, and those of TCP for rules about packets. */
#ifndef IDS_PACKET_H
#define IDS_PACKET_H

#include "ids_http.h"

static inline void ids_set_field(struct ids_headers *headers, enum ids_field field, uint32_t value) {
    headers->field[field] = value;
    headers->known |= 1u << field;
}

/* The fields of the IP header that the layer of an event lies in: the innermost one. */
static void ids_ip_headers(const struct sl_event *event, struct ids_headers *headers) {
    for (uint32_t depth = sl_path_depth(event); depth--;) {
        sl_bytes unit = sl_layer_unit(event->box, depth);
        const char *name = sl_path_layer(event, depth)->prototype;
        if (strcmp(name, "ipv4") == 0 && unit.captured >= 20) {
            ids_set_field(headers, IDS_TOS, unit.at[1]);
            ids_set_field(headers, IDS_ID, (uint32_t)sl_load_be16(unit.at + 4));
            ids_set_field(headers, IDS_TTL, unit.at[8]);
            return;
        }
        if (strcmp(name, "ipv6") == 0 && unit.captured >= 40) {
            ids_set_field(headers, IDS_TOS, (uint32_t)sl_load_be16(unit.at) >> 4 & 255);
            ids_set_field(headers, IDS_TTL, unit.at[7]);
            return;
        }
    }
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
    ids->scans++;
    ids->found_count = 0;
    ids_scan_group(box, number, &views[IDS_PAYLOAD]);
    uint32_t count = ids->found_count;
    for (bool again = true; again;) {
        again = false;
        uint32_t left = 0;
        for (uint32_t i = 0; i < count; i++) {
            const struct ids_part *part = &ids->table.parts[ids->found[i]];
            const struct ids_rule *rule = &ids->table.rules[part->rule];
            if (!ids_is_about(&ids->table, rule, seen))
                continue;
            if (!ids_evaluate(box, part, seen, views)) {
                ids->found[left++] = ids->found[i];
                continue;
            }
            again |= ids_bits_change(seen, rule);
            ids_alert(box, seen, part->rule);
        }
        count = left;
    }
}

#endif
