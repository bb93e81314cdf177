/* The back end for DPDK (doc.dpdk.org): a driver in this process polls a device, which is a network card, or a virtual
 * device, as a capture file, a network interface, or shared memory.
 *
 * A packet is processed in the buffer in which the driver received it, and that buffer is also sent if the packet is
 * forwarded unchanged. The device is polled: without pause while packets arrive and for a moment after, else in intervals.
 *
 * This is compiled, with eal.c, device.c and io/source_fault.c, to a library of its own, which io/dpdk_source.c loads. */
#define _GNU_SOURCE
#include "dpdk/source.h"

#include "dpdk/eal.h"
#include "function/checksum_fix.h"
#include "io/interface.h"

#include <inttypes.h>
#include <poll.h>
#include <rte_cycles.h>
#include <rte_ether.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    BUSY = 1000 * 1000,       /* nanoseconds after the last packet in which the device is polled without pause */
    PAUSE = 50 * 1000,        /* between polls after that */
    JOINED = 4 << 20,         /* bytes of packets that the driver divided */
    ATTEMPTS = 1000,          /* to send a packet, before it is refused */
    MEMORY = 64 << 20,        /* of received packets, unless the user gives another size */
    DEVICES = 4,              /* for which the default options of DPDK get memory */
    EXAMINED = 10 * 1000 * 1000,   /* nanoseconds between two looks for an interface */
};

static struct sl_dpdk_source *of(struct sl_source *source) { return (struct sl_dpdk_source *)(void *)source; }

static uint64_t clock_of(clockid_t which)
{
    struct timespec time;
    clock_gettime(which, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* --- receiving --- */

/* The bytes of a packet in one piece. NULL: there is no room for it until packets are released. */
static const uint8_t *bytes_of(struct sl_dpdk_source *s, const struct rte_mbuf *packet)
{
    if (packet->nb_segs == 1)
        return rte_pktmbuf_mtod(packet, const uint8_t *);
    const uint32_t length = rte_pktmbuf_pkt_len(packet);
    if (!s->joined && !(s->joined = malloc(JOINED)))
        return NULL;
    if (JOINED - s->joined_used < length)
        return NULL;
    uint8_t *to = s->joined + s->joined_used;
    s->joined_used += (length + 63) / 64 * 64;
    return rte_pktmbuf_read(packet, 0, length, to);
}

/* False if it is no packet for the caller: there is no room to join its parts. It is counted then. */
static bool fill_frame(struct sl_dpdk_source *s, struct rte_mbuf *packet, uint64_t time, struct sl_frame *frame)
{
    const bool restored = packet->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED && !rte_vlan_insert(&packet);
    const uint8_t *bytes = bytes_of(s, packet);
    const uint32_t length = rte_pktmbuf_pkt_len(packet);
    if (!bytes) {
        s->not_joined++;
        return false;
    }
    s->tags += restored;
    if (s->replays && packet->ol_flags & s->stamped)   /* in microseconds: net_pcap */
        time = *RTE_MBUF_DYNFIELD(packet, s->stamp, rte_mbuf_timestamp_t *) * 1000;
    *frame = (struct sl_frame){
        .at = bytes,
        .captured = s->snap_length && s->snap_length < length ? s->snap_length : length,
        .length = length,
        .time = time,
        .link_type = 1,
        .buffer = (uint16_t)s->held_count,
        .flags = restored ? SL_FRAME_VLAN_RESTORED : 0,
        .number = ++s->packets,
    };
    /* a driver does not pass on the mark of the kernel that the checksum is incomplete */
    if (s->virtual && sl_checksum_is_partial(frame))
        frame->flags |= SL_FRAME_CHECKSUM_PARTIAL;
    return true;
}

/* What the driver counts, as it is now: packets that it has accepted, and then could not send, are errors of it. */
static void count_drops(const struct sl_dpdk_source *s, uint64_t *lost, uint64_t *dropped, uint64_t *freezes)
{
    struct rte_eth_stats now = s->before;
    if (s->started)
        (void)rte_eth_stats_get(s->port, &now);
    *lost = s->lost_earlier + now.oerrors - s->before.oerrors;
    *dropped = s->dropped_earlier + now.imissed - s->before.imissed + now.ierrors - s->before.ierrors;
    *freezes = s->freezes_earlier + now.rx_nombuf - s->before.rx_nombuf;
}

static int open_again(struct sl_source *source)
{
    struct sl_dpdk_source *s = of(source);
    if (!sl_dpdk_device_open(s))
        return 0;
    sl_dpdk_device_close(s);
    return -1;
}

/* The network interface that a virtual device uses was removed: opens the device again, once there is one of the name. */
static int32_t await_interface(struct sl_dpdk_source *s)
{
    if (s->held_count || !sl_removal_due(&s->removal, EXAMINED))
        return 0;
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool up = any >= 0 && sl_is_up(any, s->interface);
    if (any >= 0)
        close(any);
    return sl_removal_try(&s->removal, &s->base, up, open_again);
}

/* Called if nothing was received. */
static int32_t check_device(struct sl_dpdk_source *s)
{
    char name[IF_NAMESIZE];
    if (s->replays)
        return SL_SOURCE_END;
    if (__atomic_load_n(&s->removed, __ATOMIC_RELAXED)) {
        s->removal.gone = true;
        sl_source_fail(&s->base, "the device was removed");
        return SL_SOURCE_FAULT;
    }
    if (!s->index || s->held_count || clock_of(CLOCK_MONOTONIC) - s->last < BUSY || !sl_removal_due(&s->removal, EXAMINED) ||
        if_indextoname(s->index, name))
        return 0;
    if (sl_removal_begins(&s->removal, &s->base))
        return SL_SOURCE_FAULT;
    count_drops(s, &s->lost_earlier, &s->dropped_earlier, &s->freezes_earlier);
    sl_dpdk_device_close(s);
    return 0;
}

static int32_t dpdk_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct sl_dpdk_source *s = of(source);
    const uint64_t time = clock_of(CLOCK_REALTIME);
    uint32_t count = 0;
    if (s->removal.gone)
        return SL_SOURCE_FAULT;
    if (sl_is_removed(&s->removal))
        return await_interface(s);
    if (!s->receives)
        return SL_SOURCE_END;
    sl_eal_use_thread();
    while (count < most && s->held_count < s->held_most) {
        struct rte_mbuf **packets = s->held + s->held_count;
        uint32_t room = most - count < s->held_most - s->held_count ? most - count : s->held_most - s->held_count;
        const uint16_t asked = (uint16_t)(room < SL_DPDK_BURST ? room : SL_DPDK_BURST);
        const uint16_t got = rte_eth_rx_burst(s->port, 0, packets, asked);
        for (uint16_t i = 0; i < got; i++) {
            struct rte_mbuf *packet = packets[i];
            s->held[s->held_count] = packet;   /* at or before packets[i] */
            if (fill_frame(s, packet, time, &frames[count])) {
                s->held_count++;
                count++;
            } else {
                rte_pktmbuf_free(packet);
            }
        }
        if (got < asked)
            break;
    }
    if (!count)
        return s->held_count < s->held_most ? check_device(s) : 0;
    s->last = clock_of(CLOCK_MONOTONIC);
    return (int32_t)count;
}

static void dpdk_release(struct sl_source *source)
{
    struct sl_dpdk_source *s = of(source);
    if (s->held_count)
        rte_pktmbuf_free_bulk(s->held, s->held_count);
    s->held_count = 0;
    s->joined_used = 0;
}

/* A device has no descriptor that becomes readable. The timer's is in place of it: it makes the caller poll again. */
static unsigned dpdk_descriptors(struct sl_source *source, struct pollfd *fds, unsigned most)
{
    struct sl_dpdk_source *s = of(source);
    const bool busy = clock_of(CLOCK_MONOTONIC) - s->last < BUSY;
    if (!most || !s->receives)
        return 0;
    if (!busy || !s->polled) {
        struct itimerspec after = {.it_value.tv_nsec = busy ? 1 : PAUSE};
        timerfd_settime(s->timer, 0, &after, NULL);
        s->polled = busy;
    }
    fds[0] = (struct pollfd){s->timer, POLLIN, 0};
    return 1;
}

static uint64_t dpdk_clock(struct sl_source *source)
{
    return of(source)->replays ? 0 : clock_of(CLOCK_REALTIME);
}

static bool dpdk_is_congested(const struct sl_source *source)
{
    const struct sl_dpdk_source *s = (const struct sl_dpdk_source *)(const void *)source;
    return s->receives && s->started && rte_eth_rx_queue_count(s->port, 0) > s->descriptors / 2;   /* negative: the driver cannot count */
}

/* --- sending --- */

static struct rte_mbuf *refuse_packet(struct sl_dpdk_source *s, const struct sl_frame *frame, const char *why)
{
    sl_source_fail(&s->base, "packet %" PRIu64 " of %" PRIu32 " bytes cannot be sent: %s", frame->number, frame->length, why);
    s->refused++;
    return NULL;
}

/* A buffer with the packet: the one in which it was received, or a copy. */
static struct rte_mbuf *buffer_for(struct sl_dpdk_source *s, const struct sl_frame *frame)
{
    struct rte_mbuf *packet = sl_dpdk_buffer_of(frame);
    if (frame->captured < frame->length)
        return refuse_packet(s, frame, "its end was not captured");
    if (packet) {
        rte_mbuf_refcnt_update(packet, 1);
        return packet;
    }
    if (frame->captured > (uint32_t)rte_pktmbuf_data_room_size(s->pool) - RTE_PKTMBUF_HEADROOM)
        return refuse_packet(s, frame, "it is longer than a buffer of this device");
    if (!(packet = rte_pktmbuf_alloc(s->pool)))
        return refuse_packet(s, frame, "the device has not sent the packets before it");
    memcpy(rte_pktmbuf_append(packet, (uint16_t)frame->captured), frame->at, frame->captured);
    return packet;
}

static uint32_t send_burst(struct sl_dpdk_source *s, struct rte_mbuf **packets, uint16_t count)
{
    uint16_t done = 0;
    for (unsigned attempt = 0; done < count && attempt < ATTEMPTS; attempt++) {
        if (attempt)
            rte_delay_us_block(1);
        done = (uint16_t)(done + rte_eth_tx_burst(s->port, 0, packets + done, (uint16_t)(count - done)));
    }
    if (done < count) {
        sl_source_fail(&s->base, "a packet of %" PRIu32 " bytes cannot be sent: the device has not sent the packets before it",
                       rte_pktmbuf_pkt_len(packets[done]));
        s->refused += (uint64_t)(count - done);
        rte_pktmbuf_free_bulk(packets + done, (unsigned)(count - done));
    }
    return done;
}

static uint32_t dpdk_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct sl_dpdk_source *s = of(source);
    struct rte_mbuf *packets[SL_DPDK_BURST];
    uint32_t taken = 0;
    uint16_t ready = 0;
    sl_eal_use_thread();
    for (uint32_t i = 0; i < count; i++) {
        if (!s->started)
            (void)refuse_packet(s, &frames[i], "the interface is gone");
        else if (!s->sends)
            (void)refuse_packet(s, &frames[i], "the device only receives");
        else if ((packets[ready] = buffer_for(s, &frames[i])))
            ready++;
        if (ready == SL_DPDK_BURST || (ready && i + 1 == count)) {
            taken += send_burst(s, packets, ready);
            ready = 0;
        }
    }
    s->sent += taken;
    return taken;
}

/* --- other functions of the back end --- */

static void dpdk_statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    struct sl_dpdk_source *s = of(source);
    uint64_t lost;
    count_drops(s, &lost, &out->dropped_interface, &out->freezes);
    lost = lost < s->sent ? lost : s->sent;
    out->packets = s->packets;
    out->sent = s->sent - lost;
    out->refused = s->refused + lost;
    out->dropped_interface += s->not_joined;
    out->vlan_restored = s->tags;
    sl_removal_statistics(&s->removal, out);
}

static int dpdk_close(struct sl_source *source)
{
    struct sl_dpdk_source *s = of(source);
    if (s->held)
        dpdk_release(source);
    sl_dpdk_device_close(s);
    sl_dpdk_pool_close(s);
    free(s->held);
    free(s->arguments);
    free(s->joined);
    if (s->timer >= 0)
        close(s->timer);
    return 0;
}

static const struct sl_source_back_end back_end = {
    .scheme = "dpdk",
    .receive = dpdk_receive,
    .release = dpdk_release,
    .send = dpdk_send,
    .descriptors = dpdk_descriptors,
    .clock = dpdk_clock,
    .is_congested = dpdk_is_congested,
    .statistics = dpdk_statistics,
    .close = dpdk_close,
};

static int open_first(struct sl_dpdk_source *s, const char *options)
{
    char why[256];
    if (s->timer < 0 || !s->arguments)
        return sl_source_fail(&s->base, "the kernel gives no %s", s->timer < 0 ? "timer" : "memory");
    if (!s->base.name[0])
        return sl_source_fail(&s->base, "dpdk: needs a device, as in dpdk:net_af_packet0,iface=eth0");
    if (sl_eal_start(options, (unsigned)(DEVICES * ((s->memory >> 20) + 48) + 64), why, sizeof why))
        return sl_source_fail(&s->base, "%s", why);
    return sl_dpdk_device_open(s);
}

int sl_dpdk_open(struct sl_source **out, const char *device, const struct sl_source_options *options, char *message,
                 size_t message_size)
{
    struct sl_dpdk_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) {
        snprintf(message, message_size, "%.128s: out of memory", device);
        return -1;
    }
    s->base.back_end = &back_end;
    s->snap_length = options->snap_length;
    s->memory = options->ring_bytes ? options->ring_bytes : MEMORY;
    s->no_promiscuous = options->no_promiscuous;
    s->removal.awaits = options->awaits_removed;
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    s->arguments = strdup(device);
    snprintf(s->base.name, sizeof s->base.name, "%.*s", (int)strcspn(device, ","), device);
    if (!open_first(s, options->dpdk_options)) {
        *out = &s->base;
        return 0;
    }
    snprintf(message, message_size, "%s", s->base.fault);
    dpdk_close(&s->base);
    free(s);
    return -1;
}
