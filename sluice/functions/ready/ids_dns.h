/* The names that DNS messages query (RFC 1035, 4.1.2), for rules with dns.query: of UDP's packets, of SCTP's messages, and of the
 * streams of TCP and QUIC (RFC 9250), from or to the ports of DNS, multicast DNS and LLMNR, or over QUIC. */
#ifndef IDS_DNS_H
#define IDS_DNS_H

#include "dns_message.h"
#include "ids_whole.h"

enum { IDS_DNS_STORED = 2048 };   /* bytes of a message over TCP that are stored: its questions are first */

struct ids_dns_side {
    uint8_t head[2], head_used;
    uint32_t left, used;      /* bytes of the message that are missing, and that are stored */
    bool lost;
    uint8_t bytes[IDS_DNS_STORED];
};

struct ids_dns { struct ids_dns_side side[2]; };

static inline bool ids_is_dns(const struct ids_seen *seen) {
    for (unsigned side = 0; side < 2; side++) {
        uint16_t port = seen->ends->port[side];
        if (port == 53 || port == 5353 || port == 5355 || (port == 853 && seen->protocol == IDS_QUIC_BIT))
            return true;
    }
    return false;
}

/* Inspects each name that a message queries. `views`: those of its packet. */
static void ids_dns_inspect(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen, sl_bytes message,
                            struct ids_view *views) {
    if (message.captured < DNS_HEADER)
        return;
    struct dns_reader reader = {.at = message.at, .length = message.captured, .place = DNS_HEADER};
    struct dns_question question;
    for (uint32_t left = (uint32_t)sl_load_be16(message.at + 4); left && dns_question(&reader, &question); left--) {
        ids_set_view(&views[IDS_DNS_QUERY], question.name.text, question.name.length);
        ids_scan_begin(box);
        ids_scan_group(box, IDS_DNS_NAME, &views[IDS_DNS_QUERY]);
        ids_scan_group(box, IDS_DNS_ALWAYS, &views[IDS_PAYLOAD]);
        ids_found_evaluate(box, side, seen, views, 3, false);
    }
}

/* Bytes of a stream, whose messages have their length in front of them (RFC 1035, 4.2.2). */
static void ids_dns_bytes(struct sl_box *box, struct ids_flow *flow, const struct ids_seen *seen, const uint8_t *at,
                          uint32_t length) {
    if (!flow->dns && !(flow->dns = ids_take(box, sizeof *flow->dns)))
        return;
    struct ids_dns_side *dns = &flow->dns->side[seen->side];
    while (length && !dns->lost) {
        if (!dns->left) {
            dns->head[dns->head_used++] = *at++;
            length--;
            if (dns->head_used == 2) {
                dns->left = (uint32_t)sl_load_be16(dns->head);
                dns->head_used = 0;
                dns->used = 0;
            }
            continue;
        }
        uint32_t take = (uint32_t)sl_min(dns->left, length), store = (uint32_t)sl_min(take, IDS_DNS_STORED - dns->used);
        memcpy(dns->bytes + dns->used, at, store);
        dns->used += store;
        dns->left -= take;
        at += take;
        length -= take;
        if (dns->left)
            continue;
        SLUICE_COUNTER_OF(box, ids_dns_cut) += sl_load_be16(dns->head) > IDS_DNS_STORED;
        struct ids_view views[IDS_BUFFERS] = {{0}};
        ids_dns_inspect(box, &flow->side[seen->side], seen, (sl_bytes){dns->bytes, dns->used, dns->used}, views);
    }
}

#endif
