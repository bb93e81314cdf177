/* The back end for interfaces. It uses AF_PACKET sockets, version 3: the kernel fills the blocks of a shared ring, and
 * hands a block to user space when it is full or RETIRE (packet_open.c) milliseconds old (packet_mmap in the kernel's
 * documentation). Frames point into the ring; packets are not copied. */
#define _GNU_SOURCE
#include "io/source.h"

#if defined(__linux__) && __has_include(<linux/if_packet.h>)

#include "io/packet_source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    DELAY = 30 * 1000 * 1000,   /* nanoseconds: maximum delay from a packet's time stamp to its delivery */
    GONE = 100 * 1000 * 1000,   /* nanoseconds: blocks of an interface that is gone arrive for so long, also under load */
    EXAMINED = 10 * 1000 * 1000,   /* nanoseconds between two searches for an interface that is down */
    SENT_TOGETHER = 64,
};

static struct sl_packet_source *of(struct sl_source *source) { return (struct sl_packet_source *)(void *)source; }

/* --- drops --- */

static uint64_t missed(const struct sl_packet_source *s)
{
    if (!s->index)
        return 0;
    return sl_read_counter(s->base.name, "rx_missed_errors") + sl_read_counter(s->base.name, "rx_fifo_errors");
}

void sl_packet_count_from_now(struct sl_packet_source *s) { sl_interface_counter_begin(&s->missed, missed(s)); }

void sl_packet_count_drops(struct sl_packet_source *s)
{
    struct tpacket_stats_v3 now = {0};
    socklen_t size = sizeof now;
    if (getsockopt(s->socket, SOL_PACKET, PACKET_STATISTICS, &now, &size) == 0) {
        s->total.tp_drops += now.tp_drops;
        s->total.tp_freeze_q_cnt += now.tp_freeze_q_cnt;
    }
    sl_interface_counter_set(&s->missed, missed(s));
}

/* --- receiving --- */

static struct tpacket_block_desc *block_at(const struct sl_packet_source *s, unsigned block)
{
    return (struct tpacket_block_desc *)(void *)(s->ring + (size_t)block * SL_PACKET_BLOCK);
}

/* Starts reading the current block, if the kernel has handed it over. */
static bool begin_block(struct sl_packet_source *s)
{
    struct tpacket_block_desc *block = block_at(s, s->block);
    if (s->held == s->blocks || !(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
        return false;
    s->left = block->hdr.bh1.num_pkts;
    s->next = (struct tpacket3_hdr *)(void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);
    return true;
}

static uint16_t port_of(struct sl_packet_source *s, unsigned index)
{
    for (unsigned port = 0; port < s->port_count; port++)
        if (s->ports[port] == index)
            return (uint16_t)port;
    if (s->port_count == SL_PACKET_INTERFACES)
        return SL_PACKET_INTERFACES - 1;
    s->ports[s->port_count] = index;
    return (uint16_t)s->port_count++;
}

/* Re-inserts a VLAN tag after the MAC addresses, which are moved into the reserved bytes in front of the packet. */
static void restore_tag(struct sl_packet_source *s, const struct tpacket3_hdr *header, uint8_t *at, struct sl_frame *frame)
{
    uint16_t protocol = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->hv1.tp_vlan_tpid : ETH_P_8021Q;
    uint16_t tag[2] = {htons(protocol), htons((uint16_t)header->hv1.tp_vlan_tci)};
    memmove(at - SL_PACKET_TAG, at, 2 * ETH_ALEN);
    memcpy(at - SL_PACKET_TAG + 2 * ETH_ALEN, tag, SL_PACKET_TAG);
    frame->at = at - SL_PACKET_TAG;
    frame->captured += SL_PACKET_TAG;
    frame->length += SL_PACKET_TAG;
    frame->flags |= SL_FRAME_VLAN_RESTORED;
    s->restored++;
}

/* Fills a frame from a packet in the ring. Returns false if the packet is skipped. */
static bool fill_frame(struct sl_packet_source *s, struct tpacket3_hdr *header, struct sl_frame *frame)
{
    const struct sockaddr_ll *from = (const void *)((uint8_t *)header + TPACKET_ALIGN(sizeof *header));
    bool outgoing = from->sll_pkttype == PACKET_OUTGOING;
    int link_type = sl_link_type_of(from->sll_hatype);
    if (outgoing && (s->forwarding || from->sll_hatype == ARPHRD_LOOPBACK))
        return false;   /* the loopback device delivers it as an incoming packet, too */
    uint8_t *at = (uint8_t *)header + header->tp_mac;
    *frame = (struct sl_frame){
        .at = at,
        .captured = header->tp_snaplen,
        .length = header->tp_len < header->tp_snaplen ? header->tp_snaplen : header->tp_len,
        .time = (uint64_t)header->tp_sec * 1000000000 + header->tp_nsec,
        .link_type = (uint16_t)(link_type < 0 ? UINT16_MAX : link_type),
        .port = s->index ? 0 : port_of(s, (unsigned)from->sll_ifindex),
        .buffer = (uint16_t)s->block,
        .flags = (uint8_t)((outgoing ? SL_FRAME_OUTGOING : 0) |
                           (header->tp_status & TP_STATUS_CSUMNOTREADY ? SL_FRAME_CHECKSUM_PARTIAL : 0)),
        .number = ++s->packets,
    };
    if ((header->tp_status & TP_STATUS_VLAN_VALID) && link_type == 1 && frame->captured >= 2 * ETH_ALEN)
        restore_tag(s, header, at, frame);
    return true;
}

int sl_packet_bind(struct sl_packet_source *s)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)s->index};   /* receives nothing */
    struct packet_mreq promiscuous = {.mr_ifindex = (int)s->index, .mr_type = PACKET_MR_PROMISC};
    if (s->ring)
        address.sll_protocol = htons(ETH_P_ALL);
    if (bind(s->socket, (struct sockaddr *)&address, sizeof address))
        return -1;
    if (!s->ring || !s->index || s->no_promiscuous)
        return 0;
    return setsockopt(s->socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous);
}

/* Looks for an interface with the name of the one that was removed. False: there is none, or one of another link type. */
static bool find_again(struct sl_packet_source *s)
{
    struct ifreq request = {0};
    const unsigned index = if_nametoindex(s->base.name), before = s->index;
    if (!index || sl_interface_ioctl(s->socket, s->base.name, SIOCGIFHWADDR, &request) ||
        sl_link_type_of(request.ifr_hwaddr.sa_family) != s->link_type)
        return false;
    s->index = index;
    int number;
    socklen_t size = sizeof number;
    (void)getsockopt(s->socket, SOL_SOCKET, SO_ERROR, &number, &size);   /* of the removal */
    if (sl_packet_bind(s)) {   /* it was removed again */
        s->index = before;
        return false;
    }
    pthread_mutex_lock(&s->lock);
    sl_packet_count_from_now(s);
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* The interface was removed, and the packets that were received before have been handed over and released. */
static int32_t await_interface(struct sl_packet_source *s)
{
    if (!sl_is_removed(&s->removal) && sl_removal_begins(&s->removal, &s->base))
        return SL_SOURCE_FAULT;
    if (s->fanout.of) {
        if (!sl_fanout_begin(&s->fanout))
            return 0;
        int32_t result = sl_removal_try(&s->removal, &s->base, sl_is_up(s->socket, s->base.name), sl_packet_open_again);
        sl_fanout_end();
        if (result || sl_is_removed(&s->removal))
            return result;
    } else if (find_again(s)) {
        sl_removal_ends(&s->removal);
    } else {
        return 0;
    }
    s->gone_at = 0;
    s->down = true;   /* until it is found to be up */
    return 0;
}

/* Whether the kernel has taken the interface from the socket, as it was removed; also if another one has its index by now. */
static bool is_unbound(const struct sl_packet_source *s)
{
    struct sockaddr_ll address = {.sll_ifindex = 0};
    socklen_t size = sizeof address;
    return getsockname(s->socket, (struct sockaddr *)&address, &size) == 0 && address.sll_ifindex != (int)s->index;
}

/* Called if nothing was received: reports a fault if the interface no longer exists, and the kernel has had time to hand
 * over the packets that it received before. A link that is down may recover. The kernel sets one down before it removes it,
 * and reports only that to the socket: an interface is looked at until it is up again. */
static int32_t check_interface(struct sl_packet_source *s)
{
    int number = 0;
    socklen_t size = sizeof number;
    char name[IF_NAMESIZE];
    if (!s->index)
        return 0;
    if (!s->gone_at) {
        const bool error = !getsockopt(s->socket, SOL_SOCKET, SO_ERROR, &number, &size) && number;   /* reading clears it */
        __atomic_store_n(&s->downs, s->downs + (number == ENETDOWN), __ATOMIC_RELAXED);
        if (error && !s->down) {   /* its counters perhaps can be read for the last time */
            pthread_mutex_lock(&s->lock);
            sl_packet_count_drops(s);
            pthread_mutex_unlock(&s->lock);
        }
        s->down |= error;
        if (!s->down)
            return 0;
    }
    if (!sl_removal_due(&s->removal, EXAMINED))
        return 0;
    if (!s->gone_at) {
        if (!is_unbound(s)) {
            /* also where it was removed since the line before */
            s->down = !if_indextoname(s->index, name) || !sl_is_up(s->socket, name);
            return 0;
        }
        s->gone_at = s->removal.examined;
    }
    return s->removal.examined - s->gone_at < GONE ? 0 : await_interface(s);
}

static int32_t packet_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct sl_packet_source *s = of(source);
    uint32_t count = 0;
    if (s->removal.gone)   /* not fault[0], which a refused packet sets, too */
        return SL_SOURCE_FAULT;
    while (count < most) {
        if (!s->left && !begin_block(s))
            break;
        for (; s->left && count < most; s->left--) {
            count += fill_frame(s, s->next, &frames[count]);
            s->next = (struct tpacket3_hdr *)(void *)((uint8_t *)s->next + s->next->tp_next_offset);
        }
        if (!s->left) {
            s->held++;
            s->block = (s->block + 1) % s->blocks;
        }
    }
    return count ? (int32_t)count : s->held ? 0 : check_interface(s);
}

static void packet_release(struct sl_source *source)
{
    struct sl_packet_source *s = of(source);
    for (; s->held; s->held--) {
        unsigned block = (s->block + s->blocks - s->held) % s->blocks;
        __atomic_store_n(&block_at(s, block)->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

/* --- sending --- */

/* A packet without its end would be another packet. */
static bool is_cut(const struct sl_frame *frame) { return frame->captured < frame->length; }

/* Binds a destination to an interface that was removed and made again. False: not yet. */
static bool may_send_again(struct sl_packet_source *s)
{
    if (!sl_removal_due(&s->removal, EXAMINED))
        return false;
    const bool found = find_again(s);
    errno = ENXIO;
    return found;
}

static uint32_t packet_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct sl_packet_source *s = of(source);
    uint32_t taken = 0;
    for (uint32_t first = 0; first < count;) {
        struct mmsghdr messages[SENT_TOGETHER];
        struct iovec bytes[SENT_TOGETHER];
        unsigned most = count - first < SENT_TOGETHER ? count - first : SENT_TOGETHER, together = 0;
        if (is_cut(&frames[first])) {
            sl_source_fail(source, "packet %" PRIu64 " cannot be sent: %" PRIu32 " of its %" PRIu32 " bytes were captured",
                           frames[first].number, frames[first].captured, frames[first].length);
            s->refused++;
            first++;
            continue;
        }
        memset(messages, 0, sizeof messages);
        while (together < most && !is_cut(&frames[first + together])) {
            const unsigned i = together++;
            bytes[i] = (struct iovec){(void *)(uintptr_t)frames[first + i].at, frames[first + i].captured};
            messages[i].msg_hdr.msg_iov = &bytes[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        int sent = sendmmsg(s->socket, messages, together, MSG_DONTWAIT);
        if (sent <= 0 && errno == ENXIO && may_send_again(s))
            sent = sendmmsg(s->socket, messages, together, MSG_DONTWAIT);
        if (sent <= 0) {   /* the first packet is refused: too long, or the queue is full */
            sl_source_fail(source, "packet %" PRIu64 " of %" PRIu32 " bytes cannot be sent: %s", frames[first].number,
                           frames[first].captured, strerror(errno));
            s->refused++;
            first++;
            continue;
        }
        taken += (uint32_t)sent;
        first += (uint32_t)sent;
    }
    s->sent += taken;
    return taken;
}

/* --- other functions of the back end --- */

static unsigned packet_descriptors(struct sl_source *source, struct pollfd *fds, unsigned most)
{
    if (most == 0)
        return 0;
    fds[0] = (struct pollfd){of(source)->socket, POLLIN, 0};
    return 1;
}

static uint64_t packet_clock(struct sl_source *source)
{
    struct timespec now;
    (void)source;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - DELAY;
}

/* The kernel fills blocks in order, so that more than half of the ring is full if the block half a ring further on is. Of
 * blocks that were received and are not released, that says nothing. */
static bool packet_is_congested(const struct sl_source *source)
{
    const struct sl_packet_source *s = (const struct sl_packet_source *)(const void *)source;
    if (!s->ring || s->held + s->blocks / 2 >= s->blocks)
        return false;
    struct tpacket_block_desc *block = block_at(s, (s->block + s->blocks / 2) % s->blocks);
    return __atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

static void packet_statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    struct sl_packet_source *s = of(source);
    pthread_mutex_lock(&s->lock);
    sl_packet_count_drops(s);
    out->dropped_kernel = s->total.tp_drops;
    out->freezes = s->total.tp_freeze_q_cnt;
    out->dropped_interface = sl_interface_counted(&s->missed);
    pthread_mutex_unlock(&s->lock);
    out->packets = s->ring ? s->packets : s->sent;
    out->sent = s->sent;
    out->refused = s->refused;
    out->vlan_restored = s->restored;
    out->link_downs = __atomic_load_n(&s->downs, __ATOMIC_RELAXED);
    sl_removal_statistics(&s->removal, out);
}

static int packet_close(struct sl_source *source)
{
    struct sl_packet_source *s = of(source);
    if (s->ring)
        munmap(s->ring, (size_t)s->blocks * SL_PACKET_BLOCK);
    if (s->socket >= 0)
        close(s->socket);
    pthread_mutex_destroy(&s->lock);
    return 0;
}

const struct sl_source_back_end sl_packet_back_end = {
    .scheme = "af_packet",
    .receive = packet_receive,
    .release = packet_release,
    .send = packet_send,
    .descriptors = packet_descriptors,
    .clock = packet_clock,
    .is_congested = packet_is_congested,
    .statistics = packet_statistics,
    .close = packet_close,
};

#endif
