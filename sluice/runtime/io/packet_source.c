/* The back end for interfaces. It uses AF_PACKET sockets, version 3: the kernel fills the blocks of a shared ring, and
 * hands a block to user space when it is full or RETIRE milliseconds old (packet_mmap in the kernel's documentation).
 * Frames point into the ring; packets are not copied. */
#define _GNU_SOURCE
#include "io/fanout.h"
#include "io/filter.h"
#include "io/interface.h"
#include "io/removal.h"
#include "io/source.h"

#include <stdio.h>

#if defined(__linux__) && __has_include(<linux/if_packet.h>)

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCK = 1 << 20,
    SLOT = 2048,                /* the kernel's frame size; in version 3, it only has to divide the block size */
    RING = 64 << 20,
    RETIRE = 10,                /* milliseconds */
    RETIRE_FORWARDING = 1,
    DELAY = 30 * 1000 * 1000,   /* nanoseconds: maximum delay from a packet's time stamp to its delivery */
    GONE = 100 * 1000 * 1000,   /* nanoseconds: blocks of an interface that is gone arrive for so long, also under load */
    EXAMINED = 10 * 1000 * 1000,   /* nanoseconds between two searches for an interface that is down */
    TAG = 4,                    /* bytes of a VLAN tag, reserved in front of each packet */
    SENT_TOGETHER = 64,
    INTERFACES = 1024,          /* with `any`: interfaces with a separate port; further ones share the last port */
};

struct packet_source {
    struct sl_source base;
    int socket;
    struct sl_removal removal;
    bool no_promiscuous;
    uint64_t gone_at;                /* when the interface was found to be removed; 0: not so */
    bool down;                       /* it was set down, and is not up again as far as we know */
    bool forwarding;                 /* packets that leave at the interface are left out: we may have sent them */
    unsigned index;                  /* of the interface; 0: any */
    uint16_t link_type;              /* of the interface, if it is one */
    uint8_t *ring;
    unsigned blocks, block, held;    /* total number; the current one; the number before it that are not released */
    uint32_t left;                   /* packets of the current block that are not received yet */
    struct tpacket3_hdr *next;       /* the first of these packets */
    uint64_t packets, sent, refused, restored, missed_before, downs;
    struct tpacket_stats_v3 total;   /* accumulated, because reading resets the kernel's counters */
    unsigned ports[INTERFACES], port_count;   /* with `any`: the interface index of each port */
};

static struct packet_source *of(struct sl_source *source) { return (struct packet_source *)(void *)source; }

/* The number of packets that the network card dropped because it had no buffer. */
static uint64_t missed(const struct packet_source *s)
{
    if (!s->index)
        return 0;
    return sl_read_counter(s->base.name, "rx_missed_errors") + sl_read_counter(s->base.name, "rx_fifo_errors");
}

/* --- receiving --- */

static struct tpacket_block_desc *block_at(const struct packet_source *s, unsigned block)
{
    return (struct tpacket_block_desc *)(void *)(s->ring + (size_t)block * BLOCK);
}

/* Starts reading the current block, if the kernel has handed it over. */
static bool begin_block(struct packet_source *s)
{
    struct tpacket_block_desc *block = block_at(s, s->block);
    if (s->held == s->blocks || !(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
        return false;
    s->left = block->hdr.bh1.num_pkts;
    s->next = (struct tpacket3_hdr *)(void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);
    return true;
}

static uint16_t port_of(struct packet_source *s, unsigned index)
{
    for (unsigned port = 0; port < s->port_count; port++)
        if (s->ports[port] == index)
            return (uint16_t)port;
    if (s->port_count == INTERFACES)
        return INTERFACES - 1;
    s->ports[s->port_count] = index;
    return (uint16_t)s->port_count++;
}

/* Re-inserts a VLAN tag after the MAC addresses, which are moved into the reserved bytes in front of the packet. */
static void restore_tag(struct packet_source *s, const struct tpacket3_hdr *header, uint8_t *at, struct sl_frame *frame)
{
    uint16_t protocol = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->hv1.tp_vlan_tpid : ETH_P_8021Q;
    uint16_t tag[2] = {htons(protocol), htons((uint16_t)header->hv1.tp_vlan_tci)};
    memmove(at - TAG, at, 2 * ETH_ALEN);
    memcpy(at - TAG + 2 * ETH_ALEN, tag, TAG);
    frame->at = at - TAG;
    frame->captured += TAG;
    frame->length += TAG;
    frame->flags |= SL_FRAME_VLAN_RESTORED;
    s->restored++;
}

/* Fills a frame from a packet in the ring. Returns false if the packet is skipped. */
static bool fill_frame(struct packet_source *s, struct tpacket3_hdr *header, struct sl_frame *frame)
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

/* Binds the socket to the interface. Its ring, filter and options remain, and no capability is needed for it, when that is one
 * of the same name as before. Returns 0; or -1, with errno. */
static int bind_to(struct packet_source *s)
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
static bool find_again(struct packet_source *s)
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
    if (bind_to(s)) {   /* it was removed again */
        s->index = before;
        return false;
    }
    s->missed_before = missed(s);
    return true;
}

/* The interface was removed, and the packets that were received before have been handed over. */
static int32_t await_interface(struct packet_source *s)
{
    if (!sl_is_removed(&s->removal) && sl_removal_begins(&s->removal, &s->base))
        return SL_SOURCE_FAULT;
    if (find_again(s)) {
        sl_removal_ends(&s->removal);
        s->gone_at = 0;
        s->down = true;   /* until it is found to be up */
    }
    return 0;
}

/* Called if nothing was received: reports a fault if the interface no longer exists, and the kernel has had time to hand
 * over the packets that it received before. A link that is down may recover. The kernel sets one down before it removes it,
 * and reports only that to the socket: an interface is looked for until it is up again. */
static int32_t check_interface(struct packet_source *s)
{
    int number = 0;
    socklen_t size = sizeof number;
    char name[IF_NAMESIZE];
    if (!s->index)
        return 0;
    if (!s->gone_at) {
        const bool error = !getsockopt(s->socket, SOL_SOCKET, SO_ERROR, &number, &size) && number;   /* reading clears it */
        __atomic_store_n(&s->downs, s->downs + (number == ENETDOWN), __ATOMIC_RELAXED);
        s->down |= error;
        if (!s->down)
            return 0;
    }
    if (!sl_removal_due(&s->removal, EXAMINED))
        return 0;
    if (!s->gone_at) {
        if (if_indextoname(s->index, name)) {
            s->down = !sl_is_up(s->socket, name);   /* also where it was removed since the line before */
            return 0;
        }
        s->gone_at = s->removal.examined;
    }
    return s->removal.examined - s->gone_at < GONE ? 0 : await_interface(s);
}

static int32_t packet_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct packet_source *s = of(source);
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
    struct packet_source *s = of(source);
    for (; s->held; s->held--) {
        unsigned block = (s->block + s->blocks - s->held) % s->blocks;
        __atomic_store_n(&block_at(s, block)->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

/* --- sending --- */

/* A packet without its end would be another packet. */
static bool is_cut(const struct sl_frame *frame) { return frame->captured < frame->length; }

/* Binds a destination to an interface that was removed and made again. False: not yet. */
static bool may_send_again(struct packet_source *s)
{
    if (!sl_removal_due(&s->removal, EXAMINED))
        return false;
    const bool found = find_again(s);
    errno = ENXIO;
    return found;
}

static uint32_t packet_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct packet_source *s = of(source);
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
    const struct packet_source *s = (const struct packet_source *)(const void *)source;
    if (!s->ring || s->held + s->blocks / 2 >= s->blocks)
        return false;
    struct tpacket_block_desc *block = block_at(s, (s->block + s->blocks / 2) % s->blocks);
    return __atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

static void packet_statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    struct packet_source *s = of(source);
    struct tpacket_stats_v3 now = {0};
    socklen_t size = sizeof now;
    if (getsockopt(s->socket, SOL_PACKET, PACKET_STATISTICS, &now, &size) == 0) {
        s->total.tp_drops += now.tp_drops;
        s->total.tp_freeze_q_cnt += now.tp_freeze_q_cnt;
    }
    out->packets = s->ring ? s->packets : s->sent;
    out->sent = s->sent;
    out->dropped_kernel = s->total.tp_drops;
    const uint64_t now_missed = missed(s);
    out->dropped_interface = now_missed > s->missed_before ? now_missed - s->missed_before : 0;
    out->refused = s->refused;
    out->vlan_restored = s->restored;
    out->freezes = s->total.tp_freeze_q_cnt;
    out->link_downs = __atomic_load_n(&s->downs, __ATOMIC_RELAXED);
    sl_removal_statistics(&s->removal, out);
}

static int packet_close(struct sl_source *source)
{
    struct packet_source *s = of(source);
    if (s->ring)
        munmap(s->ring, (size_t)s->blocks * BLOCK);
    if (s->socket >= 0)
        close(s->socket);
    return 0;
}

static const struct sl_source_back_end back_end = {
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

/* --- opening --- */

static int refuse(struct packet_source *s, const char *what)
{
    return sl_source_fail(&s->base, "%s: %s", what, strerror(errno));
}

static int find_interface(struct packet_source *s)
{
    struct ifreq request = {0};
    if (strcmp(s->base.name, "any") == 0)
        return 0;
    if (strlen(s->base.name) >= sizeof request.ifr_name || !(s->index = if_nametoindex(s->base.name)))
        return sl_source_fail(&s->base, "there is no interface of that name (`ip link` lists them)");
    memcpy(request.ifr_name, s->base.name, strlen(s->base.name));
    if (ioctl(s->socket, SIOCGIFFLAGS, &request))
        return refuse(s, "cannot be examined");
    if (!(request.ifr_flags & IFF_UP))
        return sl_source_fail(&s->base, "the interface is down (`ip link set %s up`)", s->base.name);
    if (ioctl(s->socket, SIOCGIFHWADDR, &request))
        return refuse(s, "cannot be examined");
    int link_type = sl_link_type_of(request.ifr_hwaddr.sa_family);
    s->link_type = (uint16_t)link_type;
    if (link_type < 0)
        return sl_source_fail(&s->base, "device type %d of the kernel has no link type that is known here",
                              request.ifr_hwaddr.sa_family);
    return 0;
}

static int attach_program(int socket, struct sock_filter *instructions, unsigned count)
{
    struct sock_fprog program = {(unsigned short)count, instructions};
    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Attaches the capture filter, or, without one, the snap length. Frames whose VLAN tag the
 * kernel has taken off all pass: the filter is evaluated again when the tag is restored. If the kernel refuses the
 * program, as it refuses long ones, or the link types of packets differ, all packets are filtered in this process. */
static int attach_filter(struct packet_source *s, int socket, const struct sl_source_options *options)
{
    enum { BEFORE = 3 };
    const uint32_t snap_length = options->snap_length ? options->snap_length : 262144;
    struct sock_filter cut = {BPF_RET | BPF_K, 0, 0, snap_length};
    const void *instructions;
    unsigned count;
    if (options->snap_length && attach_program(socket, &cut, 1))
        return refuse(s, "the snap length cannot be set");
    if (!options->filter)
        return 0;
    if (!s->base.filter)
        s->base.filter = sl_filter_open(options->filter, options->snap_length, s->base.fault, sizeof s->base.fault);
    if (!s->base.filter)
        return -1;
    if (!s->index || !(count = sl_filter_program(s->base.filter, s->link_type, &instructions)))
        return 0;
    struct sock_filter *whole = calloc(BEFORE + count, sizeof *whole);
    if (!whole)
        return sl_source_fail(&s->base, "out of memory");
    whole[0] = (struct sock_filter){BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)};
    whole[1] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0};
    whole[2] = cut;
    memcpy(whole + BEFORE, instructions, count * sizeof *whole);
    s->base.filtered_in_kernel = attach_program(socket, whole, BEFORE + count) == 0;
    free(whole);
    return 0;
}

static int set_up_ring(struct packet_source *s, const struct sl_source_options *options)
{
    int version = TPACKET_V3;
    unsigned reserve = 16;   /* at least TAG bytes */
    uint64_t bytes = options->ring_bytes ? options->ring_bytes : RING;
    s->blocks = (unsigned)(bytes / BLOCK < 4 ? 4 : bytes / BLOCK > 16384 ? 16384 : bytes / BLOCK);
    struct tpacket_req3 ring = {.tp_block_size = BLOCK, .tp_block_nr = s->blocks, .tp_frame_size = SLOT,
                                .tp_frame_nr = s->blocks * (BLOCK / SLOT), .tp_retire_blk_tov = options->forwarding ? RETIRE_FORWARDING : RETIRE};
    if (attach_filter(s, s->socket, options))
        return -1;
    if (setsockopt(s->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        setsockopt(s->socket, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve) ||
        setsockopt(s->socket, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring))
        return refuse(s, "the kernel gives no receive ring");
    void *map = mmap(NULL, (size_t)s->blocks * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, s->socket, 0);
    if (map == MAP_FAILED)
        return refuse(s, "the receive ring cannot be mapped");
    s->ring = map;
    return 0;
}

/* Lets packets pass again, as the options say: their filter replaces the one that lets none pass. */
static int let_pass(struct packet_source *s, int socket, const struct sl_source_options *options)
{
    int unused = 0;
    if (attach_filter(s, socket, options))
        return -1;
    if (options->snap_length || s->base.filtered_in_kernel)
        return 0;
    return setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) ? refuse(s, "the filter cannot be detached") : 0;
}

/* Joins the sockets that divide the packets of the interface. Each of them lets no packet pass before it has joined, and the
 * first one, which gets all, before the last one has. */
static int join_fanout(struct packet_source *s, const struct sl_source_options *options)
{
    struct sl_fanout *fanout = options->fanout;
    struct sl_fanout_group *group = sl_fanout_group_of(fanout, s->index);
    if (!group || sl_fanout_join(fanout, group, s->socket))
        return refuse(s, "the kernel does not divide its packets among sockets");
    if (group->first != s->socket && let_pass(s, s->socket, options))
        return -1;
    return group->joined == fanout->members ? let_pass(s, group->first, options) : 0;
}

static int attach(struct packet_source *s, const struct sl_source_options *options)
{
    struct sock_filter none = {BPF_RET | BPF_K, 0, 0, 0};
    if (options->fanout && (s->link_type != 1 || !s->index))
        return sl_source_fail(&s->base, "the kernel divides packets of Ethernet interfaces only");
    if (options->fanout && attach_program(s->socket, &none, 1))
        return refuse(s, "the filter cannot be attached");
    s->forwarding = options->forwarding;
#ifdef PACKET_IGNORE_OUTGOING
    int ignored = 1;   /* saves their copies; a kernel before 4.20 has no such option */
    if (s->forwarding)
        (void)setsockopt(s->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignored, sizeof ignored);
#endif
    s->removal.awaits = options->awaits_removed && !options->fanout;
    s->no_promiscuous = options->no_promiscuous;
    if (bind_to(s))
        return refuse(s, "cannot receive from it");
    s->missed_before = missed(s);
    return options->fanout ? join_fanout(s, options) : 0;
}

/* A source with its socket; NULL, with the message. */
static struct packet_source *make(const char *interface, char *message, size_t message_size)
{
    struct packet_source *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", interface);
        return NULL;
    }
    s->base.back_end = &back_end;
    snprintf(s->base.name, sizeof s->base.name, "%s", interface);
    s->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);   /* protocol 0: no packets until bind */
    if (s->socket >= 0)
        return s;
    if (errno == EPERM)
        sl_source_fail(&s->base, "to use interfaces takes root, or the capability CAP_NET_RAW");
    else
        refuse(s, "the kernel gives no packet socket");
    snprintf(message, message_size, "%s", s->base.fault);
    free(s);
    return NULL;
}

/* What was made, or, where something failed, nothing, with the message. */
static int finish(struct packet_source *s, bool failed, struct sl_source **out, char *message, size_t message_size)
{
    if (failed) {
        snprintf(message, message_size, "%s", s->base.fault);
        packet_close(&s->base);
        sl_filter_close(s->base.filter);
        free(s);
        return -1;
    }
    *out = &s->base;
    return 0;
}

int sl_packet_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options,
                          char *message, size_t message_size)
{
    *out = NULL;
    struct packet_source *s = make(interface, message, message_size);
    if (!s)
        return -1;
    bool failed = find_interface(s) || set_up_ring(s, options) || attach(s, options);
    return finish(s, failed, out, message, message_size);
}

int sl_packet_source_create(struct sl_source **out, const char *interface, char *message, size_t message_size)
{
    *out = NULL;
    struct packet_source *s = make(interface, message, message_size);
    if (!s)
        return -1;
    bool failed = find_interface(s) != 0;
    if (!failed && !s->index)
        failed = sl_source_fail(&s->base, "packets leave at one interface: give its name") != 0;
    if (!failed && bind_to(s))
        failed = refuse(s, "cannot send to it") != 0;
    return finish(s, failed, out, message, message_size);
}

#else

int sl_packet_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options,
                          char *message, size_t message_size)
{
    (void)options;
    *out = NULL;
    snprintf(message, message_size, "%s: no interfaces here: the kernel's headers (linux/if_packet.h) were not there when this "
             "was compiled", interface);
    return -1;
}

int sl_packet_source_create(struct sl_source **out, const char *interface, char *message, size_t message_size)
{
    return sl_packet_source_open(out, interface, NULL, message, message_size);
}

#endif
