/* The back end for AF_XDP: an XDP program of libxdp passes every packet of an interface to sockets, one for each receive
 * queue, past the network stack of the host. The driver writes packets into memory that is shared with this process
 * (zero copy) where it can; else the kernel copies them once. See af_xdp in the kernel's documentation.
 *
 * The memory is divided into frames. A frame is in the fill ring (the kernel may write a packet to it), in the receive
 * ring, in the hands of the caller until the release, or it is one of those for sending: free, in the send ring, or in
 * the completion ring. */
#define _GNU_SOURCE
#include "io/source.h"

#if defined(__linux__) && __has_include(<linux/if_xdp.h>)

#include "function/checksum_fix.h"
#include "io/interface.h"
#include "io/xdp_source.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif

enum {
    EXAMINED = 100 * 1000 * 1000,   /* nanoseconds between two looks whether the interface is up, without packets */
    KICKS = 256,                /* attempts to make the kernel send before a packet is refused */
};

static struct sl_xdp_source *of(struct sl_source *source) { return (struct sl_xdp_source *)(void *)source; }

/* --- rings --- */

static uint32_t available(const struct sl_xsk_ring *ring, uint32_t consumer)
{
    return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - consumer;
}

static bool needs_wakeup(const struct sl_xsk_ring *ring)
{
    return __atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
}

/* --- receiving --- */

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint32_t receive_queue(struct sl_xdp_source *s, unsigned which, struct sl_frame *frames, uint32_t most, uint64_t time)
{
    struct sl_xdp_queue *queue = &s->queues[which];
    uint32_t consumer = *queue->rx.consumer, count = available(&queue->rx, consumer);
    count = count < most ? count : most;
    count = count < s->entries - queue->held ? count : s->entries - queue->held;
    for (uint32_t i = 0; i < count; i++) {
        const struct xdp_desc *descriptor = &((const struct xdp_desc *)queue->rx.ring)[(consumer + i) & queue->rx.mask];
        const uint32_t captured = s->snap_length && s->snap_length < descriptor->len ? s->snap_length : descriptor->len;
        queue->addresses[queue->held + i] = descriptor->addr;
        frames[i] = (struct sl_frame){
            .at = s->memory + descriptor->addr,
            .captured = captured,
            .length = descriptor->len,
            .time = time,
            .link_type = 1,
            .queue = (uint8_t)(queue->number < UINT8_MAX ? queue->number : UINT8_MAX),
            .number = ++s->packets,
        };
        /* an XDP program cannot see the mark of the kernel that the checksum is incomplete */
        if (s->virtual && sl_checksum_is_partial(&frames[i]))
            frames[i].flags = SL_FRAME_CHECKSUM_PARTIAL;
    }
    __atomic_store_n(queue->rx.consumer, consumer + count, __ATOMIC_RELEASE);
    queue->held += count;
    return count;
}

static int32_t await_interface(struct sl_xdp_source *s);

/* As in packet_source.c: a link that is down may recover, one that no longer exists is a fault, or waited for. The sockets have no
 * error while it is down. */
static int32_t check_interface(struct sl_xdp_source *s)
{
    int number = 0;
    socklen_t size = sizeof number;
    if (sl_is_removed(&s->removal))
        return await_interface(s);
    if (sl_removal_due(&s->removal, EXAMINED)) {
        const bool down = sl_is_down(s->control, s->base.name);
        __atomic_store_n(&s->downs, s->downs + (down && !s->down), __ATOMIC_RELAXED);
        s->down = down;
    }
    /* the kernel sets no other error: another interface may have the index by now */
    if (getsockopt(s->queues[0].descriptor, SOL_SOCKET, SO_ERROR, &number, &size) || !number)
        return 0;
    return sl_removal_begins(&s->removal, &s->base);
}

static int32_t xdp_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct sl_xdp_source *s = of(source);
    uint32_t count = 0;
    if (s->removal.gone)
        return SL_SOURCE_FAULT;
    const uint64_t time = now();   /* XDP has no time stamps: packets have the time at which they are fetched */
    for (unsigned i = 0; i < s->queue_count && count < most; i++)
        count += receive_queue(s, (s->next + i) % s->queue_count, frames + count, most - count, time);
    s->next = s->queue_count ? (s->next + 1) % s->queue_count : 0;
    return count ? (int32_t)count : check_interface(s);
}

static void xdp_release(struct sl_source *source)
{
    struct sl_xdp_source *s = of(source);
    for (unsigned i = 0; i < s->queue_count; i++) {
        struct sl_xdp_queue *queue = &s->queues[i];
        if (!queue->held)
            continue;
        sl_xdp_fill(queue, queue->addresses, queue->held);
        queue->held = 0;
        if (needs_wakeup(&queue->fill))
            (void)recvfrom(queue->descriptor, NULL, 0, MSG_DONTWAIT, NULL, NULL);
    }
}

static bool xdp_is_congested(const struct sl_source *source)
{
    const struct sl_xdp_source *s = (const struct sl_xdp_source *)(const void *)source;
    for (unsigned i = 0; i < s->queue_count; i++)
        if (available(&s->queues[i].rx, *s->queues[i].rx.consumer) > s->entries / 2)
            return true;
    return false;
}

/* --- sending --- */

/* Takes back the frames of packets that were sent. */
static void reclaim(struct sl_xdp_source *s)
{
    uint32_t consumer = *s->completion.consumer, count = available(&s->completion, consumer);
    for (uint32_t i = 0; i < count; i++)
        s->free[s->free_count++] = ((const uint64_t *)s->completion.ring)[(consumer + i) & s->completion.mask];
    __atomic_store_n(s->completion.consumer, consumer + count, __ATOMIC_RELEASE);
}

/* Makes the kernel send what is in the ring. It sends some packets for each call in copy mode. Ends when it has taken
 * all, or takes no more. */
static void kick(struct sl_xdp_source *s)
{
    for (unsigned i = 0; i < KICKS; i++) {
        uint32_t left = *s->tx.producer - __atomic_load_n(s->tx.consumer, __ATOMIC_ACQUIRE);
        if (!left || !needs_wakeup(&s->tx))
            break;
        if (sendto(s->queues[0].descriptor, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY &&
            errno != ENOBUFS)
            break;
    }
    reclaim(s);
}

static bool refuse_packet(struct sl_xdp_source *s, const struct sl_frame *frame, const char *why)
{
    sl_source_fail(&s->base, "packet %" PRIu64 " of %" PRIu32 " bytes cannot be sent: %s", frame->number, frame->length, why);
    s->refused++;
    return false;
}

static bool put(struct sl_xdp_source *s, const struct sl_frame *frame)
{
    if (sl_is_removed(&s->removal))
        return refuse_packet(s, frame, "the interface is gone");
    if (frame->captured < frame->length)
        return refuse_packet(s, frame, "its end was not captured");
    if (frame->captured > SL_XDP_FRAME)
        return refuse_packet(s, frame, "AF_XDP sends at most 4096 bytes");
    if (!s->free_count)
        reclaim(s);
    if (!s->free_count)
        kick(s);
    if (!s->free_count)
        return refuse_packet(s, frame, "the kernel has not sent the packets before it");
    uint64_t address = s->free[--s->free_count];
    uint32_t producer = *s->tx.producer;
    memcpy(s->memory + address, frame->at, frame->captured);
    ((struct xdp_desc *)s->tx.ring)[producer & s->tx.mask] = (struct xdp_desc){.addr = address, .len = frame->captured};
    __atomic_store_n(s->tx.producer, producer + 1, __ATOMIC_RELEASE);   /* as large as the number of frames: has room */
    return true;
}

static uint32_t xdp_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct sl_xdp_source *s = of(source);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        taken += put(s, &frames[i]);
    if (taken)
        kick(s);
    s->sent += taken;
    return taken;
}

/* --- other functions of the back end --- */

static unsigned xdp_descriptors(struct sl_source *source, struct pollfd *fds, unsigned most)
{
    struct sl_xdp_source *s = of(source);
    unsigned count = s->queue_count < most ? s->queue_count : most;
    if (sl_is_removed(&s->removal))
        return 0;
    for (unsigned i = 0; i < count; i++)
        fds[i] = (struct pollfd){s->queues[i].descriptor, POLLIN, 0};
    return count;
}

static uint64_t xdp_clock(struct sl_source *source)
{
    (void)source;
    return now();
}

/* What the kernel dropped, and how often it found no empty frame, also at interfaces that were removed. */
static void count_drops(const struct sl_xdp_source *s, uint64_t *dropped, uint64_t *freezes)
{
    *dropped = s->lost_before;
    *freezes = s->freezes_before;
    for (unsigned i = 0; i < s->queue_count; i++) {
        struct xdp_statistics one = {0};
        socklen_t size = sizeof one;
        if (getsockopt(s->queues[i].descriptor, SOL_XDP, XDP_STATISTICS, &one, &size))
            continue;
        *dropped += one.rx_dropped + one.rx_ring_full;   /* the former includes those for an empty fill ring */
        *freezes += one.rx_fill_ring_empty_descs;
    }
}

static void xdp_statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    struct sl_xdp_source *s = of(source);
    out->packets = s->packets;
    out->sent = s->sent;
    out->refused = s->refused;
    out->link_downs = __atomic_load_n(&s->downs, __ATOMIC_RELAXED);
    sl_removal_statistics(&s->removal, out);
    pthread_mutex_lock(&s->lock);
    count_drops(s, &out->dropped_kernel, &out->freezes);
    pthread_mutex_unlock(&s->lock);
}

/* --- an interface that is removed and made again --- */

/* Closes what was open of an interface that was removed. What the kernel has not sent of it is lost. */
static void give_up(struct sl_xdp_source *s)
{
    if (s->umem)
        reclaim(s);
    const uint64_t lost = s->umem ? SL_XDP_SEND_FRAMES - s->free_count : 0;
    s->sent -= lost < s->sent ? lost : s->sent;
    s->refused += lost;
    count_drops(s, &s->lost_before, &s->freezes_before);
    sl_xdp_close_sockets(s);
    sl_xdp_close_control(s);
    s->rss.size = 0;
}

static int open_again(struct sl_source *source)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;   /* libxdp attaches a program with the first socket */
    struct sl_xdp_source *s = of(source);
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&s->lock);
    give_up(s);
    const int result = sl_xdp_open_interface(s);
    if (result)
        give_up(s);
    else
        s->down = false;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&one);
    return result;
}

/* The interface was removed: opens one with its name, once that is up. */
static int32_t await_interface(struct sl_xdp_source *s)
{
    for (unsigned i = 0; i < s->queue_count; i++)
        if (s->queues[i].held)
            return 0;   /* packets of the memory that is given back */
    if (!sl_removal_due(&s->removal, EXAMINED))
        return 0;
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool up = any >= 0 && sl_is_up(any, s->base.name);
    if (any >= 0)
        close(any);
    return sl_removal_try(&s->removal, &s->base, up, open_again);
}

/* --- the end --- */

static int xdp_close(struct sl_source *source)
{
    struct sl_xdp_source *s = of(source);
    sl_xdp_close_sockets(s);
    sl_rss_restore(s->control, s->base.name, &s->rss);
    sl_xdp_close_control(s);
    if (s->library.handle)
        dlclose(s->library.handle);
    pthread_mutex_destroy(&s->lock);
    return 0;
}

const struct sl_source_back_end sl_xdp_back_end = {
    .scheme = "xdp",
    .receive = xdp_receive,
    .release = xdp_release,
    .send = xdp_send,
    .descriptors = xdp_descriptors,
    .clock = xdp_clock,
    .is_congested = xdp_is_congested,
    .statistics = xdp_statistics,
    .close = xdp_close,
};

#endif
