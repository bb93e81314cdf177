/* The current packet: reading it, changing it, and sending others. */
#include "loop.h"
#include "rss.h"
#include "function/checksum_fix.h"

#include <errno.h>

static int failed(int error)
{
    errno = error;
    return -1;
}

bool mos_packet_inside(const struct mos_packet *packet, const uint8_t *at)
{
    return at >= packet->bytes && at < packet->bytes + packet->frame.captured;
}

void mos_packet_read(struct mos_packet *packet)
{
    packet->payload = NULL;
    packet->payload_length = packet->payload_wire = 0;
    if (packet->tcp && packet->tcp_length >= sizeof(struct tcphdr)) {
        uint32_t header = (uint32_t)(packet->tcp[12] >> 4) * 4;
        if (header >= sizeof(struct tcphdr) && header <= packet->tcp_length) {
            packet->payload = packet->tcp + header;
            packet->payload_length = packet->tcp_length - header;
            packet->payload_wire = packet->tcp_wire - header;
        }
    }
}

void mos_packet_own(struct mos_packet *packet)
{
    if (packet->owned)
        return;
    packet->owned = true;
    uint8_t *bytes = packet->memory;
    memcpy(bytes, packet->bytes, packet->frame.captured);
    if (packet->tcp && mos_packet_inside(packet, packet->tcp)) {
        packet->payload = packet->payload ? bytes + (packet->payload - packet->bytes) : NULL;
        packet->tcp = bytes + (packet->tcp - packet->bytes);
    }
    packet->ip = bytes + (packet->ip - packet->bytes);
    packet->frame.at = packet->bytes = bytes;
}

/* Copies the current packet to where a program may write as it likes, with its IP header at a multiple of 4, and fills in
 * where its headers are there. In front of an IP packet without an Ethernet header, or of one that was reassembled, is one
 * that only has the type, and after the payload a byte of 0: programs look at the one, and search the other as a
 * string. */
static void show(struct mos_context *context, struct pkt_info *info)
{
    const struct mos_packet *packet = &context->packet;
    const bool inside = mos_packet_inside(packet, packet->ip), ether = packet->frame.link_type == 1 && inside;
    const size_t length = inside ? (size_t)(packet->bytes + packet->frame.captured - packet->ip) : packet->ip_length;
    uint32_t before = ether ? (uint32_t)(packet->ip - packet->bytes) : (uint32_t)sizeof(struct ethhdr);
    uint8_t *ip = context->shown + (before + 3) / 4 * 4, *end = ip + length;
    info->ethh = (struct ethhdr *)(void *)(ip - before);
    if (ether)
        memcpy(ip - before, packet->bytes, before);
    else
        *info->ethh = (struct ethhdr){.h_proto = htons(mos_ip_of(packet->ip).six ? ETH_P_IPV6 : ETH_P_IP)};
    memcpy(ip, packet->ip, length);
    info->iph = (struct iphdr *)(void *)ip;
    if (!packet->tcp)
        return;
    uint8_t *tcp = ip + (packet->tcp - packet->ip);
    if (packet->tcp < packet->ip || packet->tcp >= packet->ip + length) {   /* it came in fragments */
        tcp = ip + (end - ip + 3) / 4 * 4;
        memcpy(tcp, packet->tcp, packet->tcp_length);
    }
    info->tcph = (struct tcphdr *)(void *)tcp;
    if (packet->payload) {
        info->payload = tcp + (packet->payload - packet->tcp);
        info->payload[packet->payload_length] = 0;
    }
}

/* The same for both directions of a flow: GetRSSHash of its ends, whose addresses are summed up over IPv6. */
static uint32_t flow_hash(const struct mos_packet *packet)
{
    struct mos_address ends[2];
    uint32_t address[2] = {0, 0};
    mos_ip_ends(packet->ip, packet->tcp, ends);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned at = 0; at < MOS_ADDRESS; at += 4) {
            uint32_t word;
            memcpy(&word, ends[i].ip + at, sizeof word);
            address[i] += word;
        }
    return GetRSSHash(address[0], address[1], ends[0].port, ends[1].port);
}

int mtcp_getlastpkt(mctx_t mctx, int sock, int side, struct pkt_info *info)
{
    struct mos_context *context = mos_context_of(mctx);
    (void)side;   /* both sides' last packet is the current one */
    if (!mos_socket_get(mctx, sock))
        return -1;
    const struct mos_packet *packet = &context->packet;
    if (!packet->there)
        return failed(ENODATA);
    if (!info)
        return failed(EFAULT);
    *info = (struct pkt_info){0};
    info->cur_ts = (uint32_t)(context->time / 1000000);
    info->in_ifidx = packet->device;
    info->eth_len = (uint16_t)sl_min(packet->frame.captured, UINT16_MAX);
    uint64_t total = mos_ip_of(packet->ip).total;   /* 0 where the network card was to cut it up */
    info->ip_len = (uint16_t)(total ? total : sl_min(packet->ip_length, UINT16_MAX));
    show(context, info);
    if (packet->tcp) {
        info->hash = flow_hash(packet);
        info->seq = (uint32_t)sl_load_be32(packet->tcp + 4);
        info->ack_seq = (uint32_t)sl_load_be32(packet->tcp + 8);
        info->window = (uint16_t)sl_load_be16(packet->tcp + 14);
        info->offset = packet->offset;
        info->payloadlen = (uint16_t)sl_min(packet->payload_length, UINT16_MAX);
    }
    return 0;
}

/* --- changing it --- */

/* The checksum of `n` bytes, begun with `initial` (RFC 1071). */
static void put_checksum(uint8_t *place, const uint8_t *at, uint32_t n, uint64_t initial)
{
    place[0] = place[1] = 0;
    uint16_t sum = (uint16_t)~sl_internet_checksum(at, n, initial);
    place[0] = (uint8_t)(sum >> 8);
    place[1] = (uint8_t)sum;
}

/* The sum of the pseudo header (RFC 9293, 3.1; RFC 8200, 8.1). */
static uint64_t pseudo_header(const uint8_t *ip, uint32_t protocol, uint32_t length)
{
    const struct mos_ip header = mos_ip_of(ip);
    return sl_internet_checksum(ip + header.addresses, 2 * header.size, protocol + length);
}

/* Can the checksums that an option requests be computed: are all their bytes captured? */
static bool can_update(const struct mos_packet *packet, int option)
{
    return !(option & MOS_UPDATE_TCP_CHKSUM) ||
           (packet->tcp && packet->tcp_length >= sizeof(struct tcphdr) && packet->frame.captured == packet->frame.length);
}

void mos_packet_update_checksums(struct mos_packet *packet, int option)
{
    const struct mos_ip ip = mos_ip_of(packet->ip);
    if ((option & MOS_UPDATE_IP_CHKSUM) && !ip.six)   /* IPv6 has none */
        put_checksum(packet->ip + 10, packet->ip, ip.header, 0);
    if (option & MOS_UPDATE_TCP_CHKSUM)
        put_checksum(packet->tcp + 16, packet->tcp, packet->tcp_length,
                     pseudo_header(packet->ip, IPPROTO_TCP, packet->tcp_length));
}

/* A network card may leave the checksum to the one that sends the packet, and only sum up the pseudo header (Linux,
 * CHECKSUM_PARTIAL): the forwarded packet has none then that its receiver would accept. */
void mos_frame_complete(struct sl_frame *frame, uint8_t *memory)
{
    if (frame->captured > MOS_FRAME_MOST)
        return;
    if (frame->at != memory)
        memcpy(memory, frame->at, frame->captured);
    struct sl_frame copy = *frame;
    copy.at = memory;
    if (!sl_checksum_complete(memory, &copy))
        return;
    frame->at = memory;
    frame->flags &= (uint8_t)~SL_FRAME_CHECKSUM_PARTIAL;
}

/* The bytes of the header, or the payload, that an option means; NULL when there are none. */
static uint8_t *part(struct mos_packet *packet, int option, uint32_t *length)
{
    switch (option & (MOS_ETH_HDR | MOS_IP_HDR | MOS_TCP_HDR | MOS_TCP_PAYLOAD)) {
    case MOS_ETH_HDR: *length = (uint32_t)(packet->ip - packet->bytes); return packet->bytes;
    case MOS_IP_HDR: *length = mos_ip_of(packet->ip).header; return packet->ip;
    case MOS_TCP_HDR: *length = packet->tcp_length - packet->payload_length; return packet->payload ? packet->tcp : NULL;
    case MOS_TCP_PAYLOAD: *length = packet->payload_length; return packet->payload;
    default: return NULL;
    }
}

/* Puts `added` bytes in place of `removed` ones at `at`. The IP packet's length follows from what there is, not from its
 * header, in which programs may have set the later length before (mOS's manual page of mtcp_setlastpkt). */
static int splice(struct mos_packet *packet, uint8_t *at, const uint8_t *added, uint32_t count, uint32_t removed)
{
    uint32_t total = (uint32_t)(packet->tcp - packet->ip) + packet->tcp_wire + count - removed;
    if (packet->frame.captured < packet->frame.length)
        return failed(EINVAL);
    if (packet->inner)
        return failed(ENOTSUP);   /* the lengths of the outer headers would be wrong */
    if (total > UINT16_MAX || packet->frame.captured + count > MOS_FRAME_ROOM)
        return failed(EMSGSIZE);
    uint8_t *end = packet->bytes + packet->frame.captured;
    memmove(at + count, at + removed, (size_t)(end - (at + removed)));
    if (count)
        memcpy(at, added, count);
    packet->frame.captured += count - removed;
    packet->frame.length += count - removed;
    packet->ip_length += count - removed;
    packet->tcp_length += count - removed;
    packet->tcp_wire += count - removed;
    mos_ip_set_total(packet->ip, total);
    mos_packet_read(packet);
    return 0;
}

int mtcp_setlastpkt(mctx_t mctx, int sock, int side, off_t offset, byte *data, uint16_t len, int option)
{
    struct mos_context *context = mos_context_of(mctx);
    (void)side;
    if (!mos_socket_get(mctx, sock))
        return -1;
    struct mos_packet *packet = &context->packet;
    if (!packet->there)
        return failed(ENODATA);
    if (!packet->changeable)
        return failed(EPERM);
    if (option & MOS_DROP) {
        packet->dropped = true;
        return 0;
    }
    if (!mos_packet_inside(packet, packet->ip) || (packet->tcp && !mos_packet_inside(packet, packet->tcp)))
        return failed(ENOTSUP);   /* it came in fragments, of which the last is here */
    if (!can_update(packet, option))
        return failed(EINVAL);
    mos_packet_own(packet);
    int action = option & (MOS_OVERWRITE | MOS_CHOMP | MOS_INSERT);
    if (action) {
        uint32_t length = 0;
        uint8_t *at = part(packet, option, &length);
        bool inside = at && offset >= 0 && (uint64_t)offset <= length;
        if (!inside || (action != MOS_CHOMP && len && !data) || (action != MOS_INSERT && len > length - (uint32_t)offset))
            return failed(EINVAL);
        if (action == MOS_OVERWRITE)
            memmove(at + offset, data, len);
        else if (!(option & MOS_TCP_PAYLOAD) || (action != MOS_CHOMP && action != MOS_INSERT))
            return failed(EINVAL);
        else if (splice(packet, at + offset, data, action == MOS_INSERT ? len : 0, action == MOS_CHOMP ? len : 0))
            return -1;
        mos_packet_read(packet);
    } else if (!(option & (MOS_UPDATE_IP_CHKSUM | MOS_UPDATE_TCP_CHKSUM))) {
        return failed(EINVAL);
    }
    mos_packet_update_checksums(packet, option);
    packet->changed = true;
    return 0;
}

/* --- sending --- */

int mtcp_sendpkt(mctx_t mctx, int sock, const struct pkt_info *info)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!mos_socket_get(mctx, sock))
        return -1;
    if (!info || !info->iph || !info->tcph || (info->payloadlen && !info->payload))
        return failed(EINVAL);
    const bool six = info->iph->version == 6;
    uint32_t ip = six ? MOS_IPV6_HEADER : info->iph->ihl * 4u, tcp = info->tcph->doff * 4u, link = sizeof(struct ethhdr);
    if (ip < sizeof(struct iphdr) || tcp < sizeof(struct tcphdr))
        return failed(EINVAL);
    uint32_t total = link + ip + tcp + info->payloadlen;
    if (total - link > UINT16_MAX)
        return failed(EMSGSIZE);
    uint8_t *bytes = calloc(1, total);
    if (!bytes)
        return failed(ENOMEM);
    if (info->ethh)
        memcpy(bytes, info->ethh, link);
    else
        memcpy(bytes + 12, six ? "\x86\xdd" : "\x08\x00", 2);
    memcpy(bytes + link, info->iph, ip);
    memcpy(bytes + link + ip, info->tcph, tcp);
    if (info->payloadlen)
        memcpy(bytes + link + ip + tcp, info->payload, info->payloadlen);
    struct mos_packet made = {.bytes = bytes, .ip = bytes + link, .tcp = bytes + link + ip,
                              .tcp_length = total - link - ip, .frame = {.at = bytes, .captured = total, .length = total,
                                        .time = context->time, .link_type = 1}};
    mos_ip_set_total(made.ip, total - link);
    mos_packet_update_checksums(&made, MOS_UPDATE_IP_CHKSUM | MOS_UPDATE_TCP_CHKSUM);
    int result = context->run ? mos_output(&context->run->outputs, info->in_ifidx, &made.frame) : -1;
    free(bytes);
    if (result) {
        fputs("libsluice_mos: mtcp_sendpkt: nowhere to send to: name an output of Ethernet frames in nic_forward_table\n", stderr);
        return failed(ENETUNREACH);
    }
    return 0;
}
