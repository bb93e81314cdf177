/* Opens and closes devices of DPDK. */
#define _GNU_SOURCE
#include "dpdk/source.h"

#include "dpdk/eal.h"
#include "io/interface.h"

#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_errno.h>
#include <rte_mbuf_dyn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOURCES = 64,              /* open at the same time */
    RECEIVE_RING = 1024,       /* descriptors, as far as the device has so many */
    SEND_RING = 1024,
    CACHE = 256,               /* buffers in the cache of a thread */
    PAGE_ROOM = RTE_MBUF_DEFAULT_BUF_SIZE,
    LONG_ROOM = RTE_PKTMBUF_HEADROOM + 9216,
    OVERHEAD = 256,            /* of a buffer, besides its data */
};

static struct sl_dpdk_source *open_sources[SOURCES];
static struct rte_mempool *left[SOURCES];   /* pools of sources that were closed while others are open */
static unsigned source_count, left_count;

struct rte_mbuf *sl_dpdk_buffer_of(const struct sl_frame *frame)
{
    for (unsigned i = 0; i < source_count; i++) {
        const struct sl_dpdk_source *s = open_sources[i];
        if (frame->buffer >= s->held_count)
            continue;
        struct rte_mbuf *packet = s->held[frame->buffer];
        if (packet->nb_segs == 1 && rte_pktmbuf_mtod(packet, const uint8_t *) == frame->at &&
            rte_pktmbuf_pkt_len(packet) == frame->captured)
            return packet;
    }
    return NULL;
}

static int refuse(struct sl_dpdk_source *s, const char *what, int number)
{
    return sl_source_fail(&s->base, "%s: %s (%s)", what, rte_strerror(number < 0 ? -number : number), sl_eal_logged());
}

static int find_port(struct sl_dpdk_source *s)
{
    struct rte_dev_iterator iterator;
    uint16_t port, found = RTE_MAX_ETHPORTS;
    if (rte_eth_dev_get_port_by_name(s->base.name, &s->port) == 0)
        return 0;
    /* a PCI address has a long and a short form, and a card may have several ports */
    RTE_ETH_FOREACH_MATCHING_DEV(port, s->arguments, &iterator)
        found = found == RTE_MAX_ETHPORTS ? port : found;
    s->port = found;
    return found == RTE_MAX_ETHPORTS ? -1 : 0;
}

static int find_device(struct sl_dpdk_source *s)
{
    if (source_count == SOURCES)
        return sl_source_fail(&s->base, "at most %d devices of DPDK", SOURCES);
    if (find_port(s)) {
        int result = rte_dev_probe(s->arguments);
        if (result)
            return sl_source_fail(&s->base, "DPDK finds no such device, or cannot use it: %s", sl_eal_logged());
        if (find_port(s))
            return sl_source_fail(&s->base, "this device of DPDK does not carry packets");
    }
    for (unsigned i = 0; i < source_count; i++)
        if (open_sources[i]->port == s->port)
            return sl_source_fail(&s->base, "this device is open already: give each a name of its own, as in net_pcap0, net_pcap1");
    s->found = true;
    return 0;
}

/* The pool. Buffers are as large as the driver can use: a page for what hands them to the kernel or a card. */
static int make_pool(struct sl_dpdk_source *s, bool is_long, uint16_t send_ring)
{
    static unsigned number;
    char name[RTE_MEMPOOL_NAMESIZE];
    const uint16_t room = is_long ? LONG_ROOM : PAGE_ROOM;
    const uint32_t others = s->descriptors + send_ring + 2 * CACHE + 2 * SL_DPDK_BURST;
    uint64_t count = s->memory / (room + OVERHEAD);
    if (s->pool)   /* of the device that was removed: a virtual one is made with the same properties again */
        return 0;
    count = count > UINT16_MAX ? UINT16_MAX : count < 4 * SL_DPDK_BURST ? 4 * SL_DPDK_BURST : count;
    s->held_most = (uint32_t)count;
    s->held = calloc(count + SL_DPDK_BURST, sizeof(struct rte_mbuf *));
    snprintf(name, sizeof name, "sluice%u", number++);
    s->pool = rte_pktmbuf_pool_create(name, (unsigned)count + others, CACHE, 0, room, SOCKET_ID_ANY);
    if (s->pool && s->held)
        return 0;
    return sl_source_fail(&s->base, "DPDK has no memory for %u packet buffers: give a smaller --ring, or more memory, as in "
                          "--dpdk '--no-huge --no-shconf -m 1024'", (unsigned)count + others);
}

static int on_removal(uint16_t port, enum rte_eth_event_type type, void *user, void *result)
{
    (void)port, (void)type, (void)result;
    __atomic_store_n(&((struct sl_dpdk_source *)user)->removed, true, __ATOMIC_RELAXED);
    return 0;
}

static int set_up_queues(struct sl_dpdk_source *s, const struct rte_eth_dev_info *info)
{
    struct rte_eth_conf configuration = {0};
    uint16_t send_ring = SEND_RING;
    s->descriptors = RECEIVE_RING;
    s->receives = info->max_rx_queues > 0;
    s->sends = info->max_tx_queues > 0;
    configuration.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
    int result = rte_eth_dev_configure(s->port, s->receives, s->sends, &configuration);
    if (result)
        return refuse(s, "cannot be configured", result);
    if ((result = rte_eth_dev_adjust_nb_rx_tx_desc(s->port, &s->descriptors, &send_ring)))
        return refuse(s, "has no queue of a suitable length", result);
    const bool is_long = strncmp(s->base.name, "net_", 4) == 0 &&
                         strcmp(info->driver_name, "net_af_xdp") != 0;
    if (make_pool(s, is_long, send_ring))
        return -1;
    if (s->receives && (result = rte_eth_rx_queue_setup(s->port, 0, s->descriptors, (unsigned)rte_eth_dev_socket_id(s->port),
                                                        NULL, s->pool)))
        return refuse(s, "gives no receive queue", result);
    if (s->sends && (result = rte_eth_tx_queue_setup(s->port, 0, send_ring, (unsigned)rte_eth_dev_socket_id(s->port), NULL)))
        return refuse(s, "gives no send queue", result);
    return 0;
}

/* What a packet of this device may lack, or have. */
static void examine(struct sl_dpdk_source *s, const struct rte_eth_dev_info *info)
{
    s->index = info->if_index;
    if (s->index && if_indextoname(s->index, s->interface)) {
        int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        s->virtual = control >= 0 && sl_is_veth(control, s->interface);
        if (control >= 0)
            close(control);
    }
    s->replays = strcmp(info->driver_name, "net_pcap") == 0 && !strstr(s->arguments, "iface=") &&
                 !strstr(s->arguments, "infinite_rx=1");
}

static void find_stamp(struct sl_dpdk_source *s)
{
    int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);
    s->stamp = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
    s->stamped = flag >= 0 && s->stamp >= 0 ? RTE_BIT64(flag) : 0;
}

int sl_dpdk_device_open(struct sl_dpdk_source *s)
{
    struct rte_eth_dev_info info;
    sl_eal_forget();
    if (find_device(s))
        return -1;
    int result = rte_eth_dev_info_get(s->port, &info);
    if (result)
        return refuse(s, "cannot be examined", result);
    s->device = info.device;
    examine(s, &info);
    if (set_up_queues(s, &info))
        return -1;
    if ((result = rte_eth_dev_start(s->port)))
        return refuse(s, "cannot be started", result);
    s->started = true;
    find_stamp(s);
    (void)rte_eth_dev_callback_register(s->port, RTE_ETH_EVENT_INTR_RMV, on_removal, s);
    /* a virtual device may have no such mode */
    s->promiscuous = !s->no_promiscuous && rte_eth_promiscuous_get(s->port) != 1 && rte_eth_promiscuous_enable(s->port) == 0;
    (void)rte_eth_stats_get(s->port, &s->before);
    open_sources[source_count++] = s;
    return 0;
}

void sl_dpdk_device_close(struct sl_dpdk_source *s)
{
    for (unsigned i = 0; i < source_count; i++)
        if (open_sources[i] == s)
            open_sources[i--] = open_sources[--source_count];
    if (s->started) {
        if (s->promiscuous)
            (void)rte_eth_promiscuous_disable(s->port);
        (void)rte_eth_dev_callback_unregister(s->port, RTE_ETH_EVENT_INTR_RMV, on_removal, s);
        (void)rte_eth_dev_stop(s->port);
    }
    if (s->found) {
        (void)rte_eth_dev_close(s->port);
        if (s->device && strncmp(s->base.name, "net_", 4) == 0)
            (void)rte_dev_remove(s->device);
    }
    s->started = s->found = s->promiscuous = false;
    s->device = NULL;
}

void sl_dpdk_pool_close(struct sl_dpdk_source *s)
{
    if (s->pool && left_count < SOURCES)
        left[left_count++] = s->pool;
    s->pool = NULL;
    while (source_count == 0 && left_count)
        rte_mempool_free(left[--left_count]);
}
