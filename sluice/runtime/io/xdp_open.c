/* Opens interfaces by AF_XDP. */
#define _GNU_SOURCE
#include "io/source.h"

#include <stdio.h>

#if defined(__linux__) && __has_include(<linux/if_xdp.h>)

#include "io/interface.h"
#include "io/xdp_source.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    RING = 64 << 20,            /* default memory for received packets, of all queues */
    RING_MOST = 1 << 15,        /* entries of a ring; a power of two */
    ATTEMPTS = 50,              /* at opening a socket */
};

void sl_xdp_close_sockets(struct sl_xdp_source *s)
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

void sl_xdp_close_control(struct sl_xdp_source *s)
{
    if (s->control >= 0)
        close(s->control);
    s->control = -1;
}

static int refuse(struct sl_xdp_source *s, const char *what, int number)
{
    return sl_source_fail(&s->base, "%s: %s", what, strerror(number < 0 ? -number : number));
}

/* The number of receive queues: at least 1. combined: whether they are those for sending as well. */
static unsigned count_queues(struct sl_xdp_source *s, bool *combined)
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
static int find_queues(struct sl_xdp_source *s, struct sl_queues *queues)
{
    const unsigned members = queues ? queues->members : 1, first = queues ? queues->member : 0;
    bool combined;
    unsigned all = count_queues(s, &combined), count = all > first ? (all - first + members - 1) / members : 0;
    const unsigned wanted = all < members ? members : (unsigned)SL_XDP_QUEUES;
    char more[64];
    if (combined)
        snprintf(more, sizeof more, "combined %u", wanted);
    else
        snprintf(more, sizeof more, "rx %u tx %u", wanted, wanted);
    if (all < members)
        return sl_source_fail(&s->base, "it has %u receive queue%s for %u workers (`ethtool -L %s %s`)", all,
                              all == 1 ? "" : "s", members, s->base.name, more);
    if (count > SL_XDP_QUEUES)
        return sl_source_fail(&s->base, "it has %u queues, and at most %d can be received from (`ethtool -L %s %s`)", all,
                              SL_XDP_QUEUES, s->base.name, more);
    s->queue_count = count;
    for (unsigned i = 0; i < count; i++)
        s->queues[i].number = first + i * members;
    const char *why = queues && !first ? sl_rss_make_symmetric(s->control, s->base.name, &s->rss) : NULL;
    size_t used = why ? strlen(queues->note) : 0;
    if (why)
        snprintf(queues->note + used, sizeof queues->note - used, "%s%s: %s", used ? "; " : "", s->base.name, why);
    return 0;
}

static int find_interface(struct sl_xdp_source *s)
{
    unsigned type = 0;
    if (strlen(s->base.name) >= IF_NAMESIZE || !(s->index = if_nametoindex(s->base.name)))
        return sl_source_fail(&s->base, "there is no interface of that name (`ip link` lists them)");
    s->control = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (s->control < 0)
        return errno == EPERM ? sl_source_fail(&s->base, "to use AF_XDP takes root, or CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF")
                              : refuse(s, "the kernel gives no packet socket", errno);
    if (sl_interface_examine(&s->base, s->control, &type))
        return -1;
    if (type != ARPHRD_ETHER && type != ARPHRD_LOOPBACK)
        return sl_source_fail(&s->base, "AF_XDP is for Ethernet; give the name without xdp:");
    struct packet_mreq promiscuous = {.mr_ifindex = (int)s->index, .mr_type = PACKET_MR_PROMISC};
    if (!s->no_promiscuous &&
        setsockopt(s->control, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous))
        return refuse(s, "cannot be made promiscuous", errno);
    s->virtual = sl_is_veth(s->control, s->base.name);
    return find_queues(s, s->divided ? &s->queues_of : NULL);
}

/* The memory, and its rings. */
static int set_up_memory(struct sl_xdp_source *s)
{
    uint64_t frames = (s->ring_bytes ? s->ring_bytes : RING) / SL_XDP_FRAME / s->queue_count;
    s->entries = 64;
    while (s->entries * 2 <= frames && s->entries < RING_MOST)
        s->entries *= 2;
    s->size = ((size_t)s->entries * s->queue_count + SL_XDP_SEND_FRAMES) * SL_XDP_FRAME;
    void *memory = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return refuse(s, "no memory for packets", errno);
    s->memory = memory;
    struct sl_xsk_umem_config config = {.fill_size = s->entries, .comp_size = SL_XDP_SEND_FRAMES, .frame_size = SL_XDP_FRAME};
    int result = s->library.umem_create(&s->umem, memory, s->size, &s->first_fill, &s->completion, &config);
    if (result)
        return refuse(s, "the kernel takes no memory for packets", result);
    for (uint32_t i = 0; i < SL_XDP_SEND_FRAMES; i++)
        s->free[s->free_count++] = ((uint64_t)s->entries * s->queue_count + i) * SL_XDP_FRAME;
    return 0;
}

static int open_queue(struct sl_xdp_source *s, unsigned which)
{
    struct sl_xdp_queue *queue = &s->queues[which];
    struct sl_xsk_socket_config config = {.rx_size = s->entries, .tx_size = SL_XDP_SEND_FRAMES,
                                           .bind_flags = XDP_USE_NEED_WAKEUP};
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
        queue->addresses[i] = ((uint64_t)which * s->entries + i) * SL_XDP_FRAME;
    sl_xdp_fill(queue, queue->addresses, s->entries);
    return 0;
}

int sl_xdp_open_interface(struct sl_xdp_source *s)
{
    int result = find_interface(s) || set_up_memory(s) ? -1 : 0;
    for (unsigned i = 0; !result && i < s->queue_count; i++)
        result = open_queue(s, i);
    return result;
}

int sl_xdp_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options, char *message,
                       size_t message_size)
{
    struct sl_xdp_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", interface);
        return -1;
    }
    s->base.back_end = &sl_xdp_back_end;
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
    result = result ? result : sl_xdp_open_interface(s);
    if (s->divided)
        memcpy(options->queues->note, s->queues_of.note, sizeof s->queues_of.note);
    if (!result) {
        *out = &s->base;
        return 0;
    }
    snprintf(message, message_size, "%s", s->base.fault);
    s->base.back_end->close(&s->base);
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
