/* Makes captures that can be shared: addresses are replaced, and what could hold some is zeroed.
 *
 * IP addresses are mapped so that two that have a common prefix of n bits have one of n bits afterwards, and no longer one: the
 * construction of Crypto-PAn (Xu, Fan, Ammar, Moon, "Prefix-Preserving IP Address Anonymization", 2002), with SipHash in place
 * of its cipher. The same key gives the same mapping in every run. Link addresses are replaced by a keyed hash.
 *
 * Packets have their lengths and times. What follows the transport header is zeroed, unless payload=keep; so are headers that
 * are not read. Frames that are neither IP nor ARP are dropped, and counted. Checksums are updated: one that was wrong is wrong
 * by the same difference, and that of a datagram in fragments or in an ICMP error is zeroed. */
#include "sluice.h"

#include "anonymise_packet.h"

#include <errno.h>

SLUICE_INLINE
SLUICE_PARAMETER(key, text, "", "secret that the mapping follows from, of at least 16 characters")
SLUICE_PARAMETER(key_file, text, "", "file with the secret, in place of key")
SLUICE_PARAMETER(payload, text, "zero", "what follows the transport header: zero it, or keep it (it may hold addresses)")
SLUICE_PARAMETER(macs, text, "hash", "link addresses: hash them, or zero them")

SLUICE_COUNTER(anonymise_packets, "packets that were anonymised")
SLUICE_COUNTER(anonymise_dropped, "frames that were dropped, as they are neither IP nor ARP, or malformed")
SLUICE_COUNTER(anonymise_options, "options of IP and TCP that were removed")
SLUICE_COUNTER(anonymise_quoted, "packets in ICMP errors, whose headers were anonymised too")
SLUICE_COUNTER(anonymise_zeroed, "bytes of payload and of headers that were zeroed")
SLUICE_COUNTER(anonymise_fragments, "fragments, whose datagram's checksum was zeroed")
SLUICE_COUNTER(anonymise_not_written, "packets that were dropped for want of room or memory")

enum { ANONYMISE_FRAME = 1 << 18, ANONYMISE_KEY = 16 };

struct anonymise {
    struct anonymiser with;
    uint64_t done;      /* the number of the last packet that was processed */
    uint8_t frame[ANONYMISE_FRAME];
};
SLUICE_WORKER(struct anonymise)

static void anonymise_drop(const struct sl_event *event, uint64_t *counter) {
    ++*counter;
    SLUICE_DROP(event->box);
}

/* Replaces the bytes of the current packet but its checksums, which are updated. */
static bool anonymise_write(struct sl_box *box, const struct sl_frame *frame, const uint8_t *bytes, const uint32_t *checksum, unsigned count) {
    uint32_t from = 0;
    for (unsigned i = 0; i <= count; i++) {
        uint32_t to = i < count ? checksum[i] : frame->captured;
        if (to > from && !SLUICE_REWRITE(box, frame->at + from, bytes + from, to - from))
            return false;
        from = i < count ? to + 2 : to;
    }
    return true;
}

/* The places of the checksums of a packet, and of those of IP in IP, in ascending order. */
static unsigned anonymise_checksums(const struct sl_frame *frame, uint32_t at, uint32_t place[2 * ANONYMISE_DEPTH]) {
    struct sl_ip_place ip, inner;
    unsigned count = 0;
    bool found = sl_ip_read(frame, at, &ip);
    while (found && count + 2 <= 2 * ANONYMISE_DEPTH) {
        if (ip.version == 4)
            place[count++] = ip.ip + 10;
        uint32_t transport = sl_transport_checksum(frame, &ip);
        if (transport)
            place[count++] = transport;
        found = (ip.protocol == 4 || ip.protocol == 41) && sl_ip_inner(frame, &ip, &inner);
        ip = inner;
    }
    return count;
}

/* A frame whose IP header begins at `at`. */
static void anonymise_ip_frame(const struct sl_event *event, const struct sl_frame *frame, uint32_t at, uint8_t *bytes) {
    struct sl_box *box = event->box;
    struct anonymise *anonymise = SLUICE_WORKER_OF(box);
    struct anonymised done = {0};
    struct sl_ip_place ip;
    bool fragment = sl_ip_read(frame, at, &ip) && (!ip.first || !ip.last), written;
    anonymise_ip_packet(&anonymise->with, (struct anonymise_at){bytes + at, frame->captured - at}, 0, false, &done);
    if (fragment) {   /* its checksum is in another one: the header's is calculated here */
        if (ip.version == 4)
            anonymise_header_checksum(bytes + at, ip.payload - at, true);
        SLUICE_COUNTER_OF(box, anonymise_fragments)++;
        written = SLUICE_SEND(box, bytes, frame->captured);
        SLUICE_DROP(box);
    } else {
        uint32_t place[2 * ANONYMISE_DEPTH];
        written = anonymise_write(box, frame, bytes, place, anonymise_checksums(frame, at, place));
        if (!written)
            SLUICE_DROP(box);
    }
    SLUICE_COUNTER_OF(box, anonymise_packets) += written;
    SLUICE_COUNTER_OF(box, anonymise_not_written) += !written;
    SLUICE_COUNTER_OF(box, anonymise_options) += done.options;
    SLUICE_COUNTER_OF(box, anonymise_quoted) += done.quoted;
    SLUICE_COUNTER_OF(box, anonymise_zeroed) += done.zeroed;
}

/* The current packet, once, whichever layer is first. */
static void anonymise_frame(const struct sl_event *event) {
    struct sl_box *box = event->box;
    struct anonymise *anonymise = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_packet_frame(event);
    bool found = false;
    if (!frame || anonymise->done == sl_packet_number(event))
        return;
    anonymise->done = sl_packet_number(event);
    uint32_t at = sl_frame_ip(frame, &found);
    uint32_t type_at = at >= 2 && frame->link_type != 276 ? at - 2 : 0;
    bool arp = !found && at >= 14 && at < frame->captured && sl_load_be16(frame->at + type_at) == 0x0806;
    uint8_t *bytes = anonymise->frame;
    if (frame->captured > ANONYMISE_FRAME || (!found && !arp) || at >= frame->captured) {
        anonymise_drop(event, &SLUICE_COUNTER_OF(box, anonymise_dropped));
        return;
    }
    memcpy(bytes, frame->at, frame->captured);
    anonymise_link(&anonymise->with, frame->link_type, bytes, at);
    if (found) {
        anonymise_ip_frame(event, frame, at, bytes);
        return;
    }
    struct anonymised done = {0};
    bool known = anonymise_arp(&anonymise->with, (struct anonymise_at){bytes + at, frame->captured - at}, &done);
    if (!known || !anonymise_write(box, frame, bytes, NULL, 0))
        anonymise_drop(event, &SLUICE_COUNTER_OF(box, anonymise_dropped));
    else
        SLUICE_COUNTER_OF(box, anonymise_packets)++;
}

SLUICE_ON(eth, packet) { anonymise_frame(event); }
SLUICE_ON(sll, packet) { anonymise_frame(event); }
SLUICE_ON(sll2, packet) { anonymise_frame(event); }
SLUICE_ON(null, packet) { anonymise_frame(event); }
SLUICE_ON(raw, packet) { anonymise_frame(event); }
SLUICE_ON(any, packet) { anonymise_frame(event); }

/* A frame without a whole link header. */
SLUICE_ON(any, malformed) { anonymise_frame(event); }

/* The secret of the parameters; false if there is none, or a short one. */
static bool anonymise_secret(struct sl_box *box, struct anonymiser *with) {
    const char *text = SLUICE_PARAMETER_OF(box, key), *path = SLUICE_PARAMETER_OF(box, key_file);
    char read[4096];
    size_t length = strlen(text);
    if (*path) {
        FILE *file = fopen(path, "rb");
        if (!file) {
            fprintf(stderr, "anonymise: %s: %s\n", path, strerror(errno));
            return false;
        }
        length = fread(read, 1, sizeof read, file);
        fclose(file);
        text = read;
    }
    if (length < ANONYMISE_KEY) {
        fprintf(stderr, "anonymise: a secret of at least 16 characters is needed, as key=SECRET or key_file=FILE\n");
        return false;
    }
    anonymise_key(with, text, length);
    return true;
}

SLUICE_OPEN {
    struct anonymise *anonymise = SLUICE_WORKER_OF(box);
    const char *payload = SLUICE_PARAMETER_OF(box, payload), *macs = SLUICE_PARAMETER_OF(box, macs);
    anonymise->with.keep_payload = strcmp(payload, "keep") == 0;
    anonymise->with.zero_macs = strcmp(macs, "zero") == 0;
    if ((!anonymise->with.keep_payload && strcmp(payload, "zero")) || (!anonymise->with.zero_macs && strcmp(macs, "hash"))) {
        fprintf(stderr, "anonymise: payload is zero or keep, macs hash or zero\n");
        return -1;
    }
    return anonymise_secret(box, &anonymise->with) ? 0 : -1;
}

SLUICE_CLOSE {
    if (sl_refused_link_types(box))
        sl_fail(box, "anonymise", "packets of link types that the stack does not begin with were not anonymised");
}
