/* The back end for AF_XDP: an XDP program of libxdp passes every packet of an interface to sockets, one for each receive
 * queue, past the network stack of the host. The driver writes packets into memory that is shared with this process
 * (zero copy) where it can; else the kernel copies them once. See af_xdp in the kernel's documentation.
 *
 * The memory is divided into frames. A frame is in the fill ring (the kernel may write a packet to it), in the receive
 * ring, in the hands of the caller until the release, or it is one of those for sending: free, in the send ring, or in
 * the completion ring. */
#define _GNU_SOURCE
#include "io/source.h"

#include <stdio.h>

#if defined(__linux__) && __has_include(<linux/if_xdp.h>)

#include "function/checksum_fix.h"
#include "io/interface.h"
#include "io/queues.h"
#include "io/removal.h"
#include "io/xdp_library.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif

enum {
    FRAME = 4096,               /* bytes; drivers take no more than a page */
    RING = 64 << 20,            /* default memory for received packets, of all queues */
    SEND_FRAMES = 2048,         /* also the size of the send and completion rings */
    RING_MOST = 1 << 15,        /* entries of a ring; a power of two */
    QUEUES = 64,
    ATTEMPTS = 50,              /* at opening a socket */
    EXAMINED = 100 * 1000 * 1000,   /* nanoseconds between two looks whether the interface is up, without packets */
    KICKS = 256,                /* attempts to make the kernel send before a packet is refused */
};

struct queue {
    unsigned number;                 /* the driver's */
    struct xsk_socket *socket;
    int descriptor;
    struct sl_xsk_ring rx, fill;
    struct sl_xsk_ring completion;   /* of queues that send nothing */
    uint32_t held;                   /* packets before rx.consumer that are not released */
    uint64_t *addresses;             /* their frames */
};

struct xdp_source {
    struct sl_source base;
    struct sl_xdp_library library;
    unsigned index;                  /* of the interface */
    struct sl_removal removal;
    struct sl_queues queues_of;      /* of which it has its part, if `divided`, */
    bool divided, no_promiscuous;    /* and other options, to open it again */
    uint64_t ring_bytes;
    uint64_t lost_before, freezes_before;   /* of interfaces that were removed */
    pthread_mutex_t lock;            /* held while it is opened again, as other threads read its counters */
    bool virtual;                    /* its peer is on this machine, and leaves checksums to a card that does not exist */
    uint32_t snap_length;
    int control;                     /* a packet socket, by which the interface is examined and made promiscuous */
    uint8_t *memory;
    size_t size;
    struct xsk_umem *umem;
    struct sl_xsk_ring first_fill, completion, tx;   /* of the memory, which are those of the first queue */
    uint32_t entries;                /* of each receive and fill ring */
    struct queue queues[QUEUES];
    unsigned queue_count, next;      /* next: the queue that is looked at first */
    struct sl_rss rss;               /* to set when it is closed */
    uint64_t free[SEND_FRAMES];      /* frames for sending */
    uint32_t free_count;
    uint64_t packets, sent, refused, downs;
    bool down;
};

static struct xdp_source *of(struct sl_source *source) { return (struct xdp_source *)(void *)source; }

/* --- rings --- */

static uint32_t available(const struct sl_xsk_ring *ring, uint32_t consumer)
{
    return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - consumer;
}

static bool needs_wakeup(const struct sl_xsk_ring *ring)
{
    return __atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP;
}

/* Gives frames to the kernel. The fill ring has room for all frames of its queue. */
static void fill(struct queue *queue, const uint64_t *addresses, uint32_t count)
{
    uint32_t producer = *queue->fill.producer;
    for (uint32_t i = 0; i < count; i++)
        ((uint64_t *)queue->fill.ring)[(producer + i) & queue->fill.mask] = addresses[i] & ~(uint64_t)(FRAME - 1);
    __atomic_store_n(queue->fill.producer, producer + count, __ATOMIC_RELEASE);
}

/* --- receiving --- */

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint32_t receive_queue(struct xdp_source *s, unsigned which, struct sl_frame *frames, uint32_t most, uint64_t time)
{
    struct queue *queue = &s->queues[which];
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

static int32_t await_interface(struct xdp_source *s);

/* As in packet_source.c: a link that is down may recover, one that no longer exists is a fault, or waited for. The sockets have no
 * error while it is down. */
static int32_t check_interface(struct xdp_source *s)
{
    char name[IF_NAMESIZE];
    int number = 0;
    socklen_t size = sizeof number;
    if (sl_is_removed(&s->removal))
        return await_interface(s);
    if (sl_removal_due(&s->removal, EXAMINED)) {
        const bool down = sl_is_down(s->control, s->base.name);
        __atomic_store_n(&s->downs, s->downs + (down && !s->down), __ATOMIC_RELAXED);
        s->down = down;
    }
    if (getsockopt(s->queues[0].descriptor, SOL_SOCKET, SO_ERROR, &number, &size) || !number || if_indextoname(s->index, name))
        return 0;
    return sl_removal_begins(&s->removal, &s->base);
}

static int32_t xdp_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct xdp_source *s = of(source);
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
    struct xdp_source *s = of(source);
    for (unsigned i = 0; i < s->queue_count; i++) {
        struct queue *queue = &s->queues[i];
        if (!queue->held)
            continue;
        fill(queue, queue->addresses, queue->held);
        queue->held = 0;
        if (needs_wakeup(&queue->fill))
            (void)recvfrom(queue->descriptor, NULL, 0, MSG_DONTWAIT, NULL, NULL);
    }
}

static bool xdp_is_congested(const struct sl_source *source)
{
    const struct xdp_source *s = (const struct xdp_source *)(const void *)source;
    for (unsigned i = 0; i < s->queue_count; i++)
        if (available(&s->queues[i].rx, *s->queues[i].rx.consumer) > s->entries / 2)
            return true;
    return false;
}

/* --- sending --- */

/* Takes back the frames of packets that were sent. */
static void reclaim(struct xdp_source *s)
{
    uint32_t consumer = *s->completion.consumer, count = available(&s->completion, consumer);
    for (uint32_t i = 0; i < count; i++)
        s->free[s->free_count++] = ((const uint64_t *)s->completion.ring)[(consumer + i) & s->completion.mask];
    __atomic_store_n(s->completion.consumer, consumer + count, __ATOMIC_RELEASE);
}

/* Makes the kernel send what is in the ring. It sends some packets for each call in copy mode. Ends when it has taken
 * all, or takes no more. */
static void kick(struct xdp_source *s)
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

static bool refuse_packet(struct xdp_source *s, const struct sl_frame *frame, const char *why)
{
    sl_source_fail(&s->base, "packet %" PRIu64 " of %" PRIu32 " bytes cannot be sent: %s", frame->number, frame->length, why);
    s->refused++;
    return false;
}

static bool put(struct xdp_source *s, const struct sl_frame *frame)
{
    if (sl_is_removed(&s->removal))
        return refuse_packet(s, frame, "the interface is gone");
    if (frame->captured < frame->length)
        return refuse_packet(s, frame, "its end was not captured");
    if (frame->captured > FRAME)
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
    struct xdp_source *s = of(source);
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
    struct xdp_source *s = of(source);
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
static void count_drops(const struct xdp_source *s, uint64_t *dropped, uint64_t *freezes)
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
    struct xdp_source *s = of(source);
    out->packets = s->packets;
    out->sent = s->sent;
    out->refused = s->refused;
    out->link_downs = __atomic_load_n(&s->downs, __ATOMIC_RELAXED);
    sl_removal_statistics(&s->removal, out);
    pthread_mutex_lock(&s->lock);
    count_drops(s, &out->dropped_kernel, &out->freezes);
    pthread_mutex_unlock(&s->lock);
}

/* Gives back the sockets and the memory. */
static void close_sockets(struct xdp_source *s)
{
    for (unsigned i = 0; i < s->queue_count; i++) {
        if (s->queues[i].socket)
            s->library.socket_delete(s->queues[i].socket);
        free(s->queues[i].addresses);
    }
    memset(s->queues, 0, sizeof s->queues);
    s->queue_count = s->next = s->free_count = 0;
    if (s->umem)
        s->library.umem_delete(s->umem);
    if (s->memory)
        munmap(s->memory, s->size);
    s->umem = NULL;
    s->memory = NULL;
}

static void close_control(struct xdp_source *s)
{
    if (s->control >= 0)
        close(s->control);
    s->control = -1;
}

static int xdp_close(struct sl_source *source)
{
    struct xdp_source *s = of(source);
    close_sockets(s);
    sl_rss_restore(s->control, s->base.name, &s->rss);
    close_control(s);
    if (s->library.handle)
        dlclose(s->library.handle);
    pthread_mutex_destroy(&s->lock);
    return 0;
}

static const struct sl_source_back_end back_end = {
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

/* --- opening --- */

static int refuse(struct xdp_source *s, const char *what, int number)
{
    return sl_source_fail(&s->base, "%s: %s", what, strerror(number < 0 ? -number : number));
}

/* The number of receive queues: at least 1. combined: whether they are those for sending as well. */
static unsigned count_queues(struct xdp_source *s, bool *combined)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
    *combined = true;
    if (sl_interface_ethtool(s->control, s->base.name, &channels))
        return 1;
    unsigned count = channels.combined_count + channels.rx_count;
    *combined = channels.max_combined || !channels.max_rx;
    return count < 1 ? 1 : count;
}

/* Finds the queues of this source, and makes the card divide packets symmetrically. */
static int find_queues(struct xdp_source *s, struct sl_queues *queues)
{
    const unsigned members = queues ? queues->members : 1, first = queues ? queues->member : 0;
    bool combined;
    unsigned all = count_queues(s, &combined), count = all > first ? (all - first + members - 1) / members : 0;
    const unsigned wanted = all < members ? members : (unsigned)QUEUES;
    char more[64];
    if (combined)
        snprintf(more, sizeof more, "combined %u", wanted);
    else
        snprintf(more, sizeof more, "rx %u tx %u", wanted, wanted);
    if (all < members)
        return sl_source_fail(&s->base, "it has %u receive queue%s for %u workers (`ethtool -L %s %s`)", all, all == 1 ? "" : "s",
                              members, s->base.name, more);
    if (count > QUEUES)
        return sl_source_fail(&s->base, "it has %u queues, and at most %d can be received from (`ethtool -L %s %s`)", all, QUEUES,
                              s->base.name, more);
    s->queue_count = count;
    for (unsigned i = 0; i < count; i++)
        s->queues[i].number = first + i * members;
    const char *why = queues && !first ? sl_rss_make_symmetric(s->control, s->base.name, &s->rss) : NULL;
    size_t used = why ? strlen(queues->note) : 0;
    if (why)
        snprintf(queues->note + used, sizeof queues->note - used, "%s%s: %s", used ? "; " : "", s->base.name, why);
    return 0;
}

static int find_interface(struct xdp_source *s)
{
    struct ifreq request = {0};
    if (strlen(s->base.name) >= sizeof request.ifr_name || !(s->index = if_nametoindex(s->base.name)))
        return sl_source_fail(&s->base, "there is no interface of that name (`ip link` lists them)");
    memcpy(request.ifr_name, s->base.name, strlen(s->base.name));
    s->control = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (s->control < 0)
        return errno == EPERM ? sl_source_fail(&s->base, "to use AF_XDP takes root, or CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF")
                              : refuse(s, "the kernel gives no packet socket", errno);
    if (ioctl(s->control, SIOCGIFFLAGS, &request))
        return refuse(s, "cannot be examined", errno);
    if (!(request.ifr_flags & IFF_UP))
        return sl_source_fail(&s->base, "the interface is down (`ip link set %s up`)", s->base.name);
    if (ioctl(s->control, SIOCGIFHWADDR, &request))
        return refuse(s, "cannot be examined", errno);
    if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER && request.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK)
        return sl_source_fail(&s->base, "AF_XDP is for Ethernet; give the name without xdp:");
    struct packet_mreq promiscuous = {.mr_ifindex = (int)s->index, .mr_type = PACKET_MR_PROMISC};
    if (!s->no_promiscuous &&
        setsockopt(s->control, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous))
        return refuse(s, "cannot be made promiscuous", errno);
    s->virtual = sl_is_veth(s->control, s->base.name);
    return find_queues(s, s->divided ? &s->queues_of : NULL);
}

/* The memory, and its rings. */
static int set_up_memory(struct xdp_source *s)
{
    uint64_t frames = (s->ring_bytes ? s->ring_bytes : RING) / FRAME / s->queue_count;
    s->entries = 64;
    while (s->entries * 2 <= frames && s->entries < RING_MOST)
        s->entries *= 2;
    s->size = ((size_t)s->entries * s->queue_count + SEND_FRAMES) * FRAME;
    void *memory = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return refuse(s, "no memory for packets", errno);
    s->memory = memory;
    struct sl_xsk_umem_config config = {.fill_size = s->entries, .comp_size = SEND_FRAMES, .frame_size = FRAME};
    int result = s->library.umem_create(&s->umem, memory, s->size, &s->first_fill, &s->completion, &config);
    if (result)
        return refuse(s, "the kernel takes no memory for packets", result);
    for (uint32_t i = 0; i < SEND_FRAMES; i++)
        s->free[s->free_count++] = ((uint64_t)s->entries * s->queue_count + i) * FRAME;
    return 0;
}

static int open_queue(struct xdp_source *s, unsigned which)
{
    struct queue *queue = &s->queues[which];
    struct sl_xsk_socket_config config = {.rx_size = s->entries, .tx_size = SEND_FRAMES, .bind_flags = XDP_USE_NEED_WAKEUP};
    queue->addresses = malloc(s->entries * sizeof *queue->addresses);
    if (!queue->addresses)
        return refuse(s, "no memory", ENOMEM);
    int result = -EBUSY;   /* for a moment after another socket of the queue was closed, as the kernel defers that */
    for (unsigned attempt = 0; attempt < ATTEMPTS && result == -EBUSY; attempt++) {
        if (attempt)
            nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
        result = s->library.socket_create(&queue->socket, s->base.name, queue->number, s->umem, &queue->rx,
                                          which ? NULL : &s->tx, which ? &queue->fill : &s->first_fill,
                                          which ? &queue->completion : &s->completion, &config);
    }
    if (result == -EBUSY)
        return sl_source_fail(&s->base, "another program receives from queue %u by AF_XDP", queue->number);
    if (result)
        return refuse(s, "the kernel gives no AF_XDP socket", result);
    if (!which)
        queue->fill = s->first_fill;
    queue->descriptor = s->library.socket_fd(queue->socket);
    for (uint32_t i = 0; i < s->entries; i++)
        queue->addresses[i] = ((uint64_t)which * s->entries + i) * FRAME;
    fill(queue, queue->addresses, s->entries);
    return 0;
}

/* Finds the interface, and opens its sockets. */
static int open_interface(struct xdp_source *s)
{
    int result = find_interface(s) || set_up_memory(s) ? -1 : 0;
    for (unsigned i = 0; !result && i < s->queue_count; i++)
        result = open_queue(s, i);
    return result;
}

/* Closes what was open of an interface that was removed. What the kernel has not sent of it is lost. */
static void give_up(struct xdp_source *s)
{
    if (s->umem)
        reclaim(s);
    const uint64_t lost = s->umem ? SEND_FRAMES - s->free_count : 0;
    s->sent -= lost < s->sent ? lost : s->sent;
    s->refused += lost;
    count_drops(s, &s->lost_before, &s->freezes_before);
    close_sockets(s);
    close_control(s);
    s->rss.size = 0;
}

static int open_again(struct sl_source *source)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;   /* libxdp attaches a program with the first socket */
    struct xdp_source *s = of(source);
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&s->lock);
    give_up(s);
    const int result = open_interface(s);
    if (result)
        give_up(s);
    else
        s->down = false;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&one);
    return result;
}

/* The interface was removed: opens one with its name, once that is up. */
static int32_t await_interface(struct xdp_source *s)
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

int sl_xdp_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options, char *message,
                       size_t message_size)
{
    struct xdp_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", interface);
        return -1;
    }
    s->base.back_end = &back_end;
    s->control = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->snap_length = options->snap_length;
    s->removal.awaits = options->awaits_removed;
    s->no_promiscuous = options->no_promiscuous;
    s->ring_bytes = options->ring_bytes;
    s->divided = options->queues != NULL;
    if (s->divided)
        s->queues_of = *options->queues;
    snprintf(s->base.name, sizeof s->base.name, "%s", interface);
    int result = 0;
    if (!sl_xdp_load(&s->library))
        result = sl_source_fail(&s->base, "AF_XDP needs libxdp, version 1: install it (Debian: libxdp1), or give the "
                                          "interface without xdp:");
    result = result ? result : open_interface(s);
    if (s->divided)
        memcpy(options->queues->note, s->queues_of.note, sizeof s->queues_of.note);
    if (!result) {
        *out = &s->base;
        return 0;
    }
    snprintf(message, message_size, "%s", s->base.fault);
    xdp_close(&s->base);
    free(s);
    return -1;
}

#else

int sl_xdp_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options, char *message,
                       size_t message_size)
{
    (void)options;
    *out = NULL;
    snprintf(message, message_size, "%s: no AF_XDP here: the kernel's headers (linux/if_xdp.h) were not there when this was "
             "compiled", interface);
    return -1;
}

#endif
