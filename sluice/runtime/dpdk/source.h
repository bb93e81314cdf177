/* A source of packets by DPDK: what its two files, source.c (packets) and device.c (opening), share. */
#ifndef SL_DPDK_SOURCE_H
#define SL_DPDK_SOURCE_H

#include "io/removal.h"
#include "io/source.h"

#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

enum {
    SL_DPDK_NAME = 64,
    SL_DPDK_BURST = 64,   /* packets of one call of a driver */
};

struct sl_dpdk_source {
    struct sl_source base;
    uint16_t port;              /* of DPDK */
    bool found, started, promiscuous, receives, sends;
    bool replays;               /* packets of capture files, with their times; the source ends with them */
    bool virtual;               /* an end of a veth pair: see sl_checksum_is_partial */
    bool removed;               /* the device was, as its driver has reported */
    struct sl_removal removal;
    unsigned index;             /* of the network interface that it uses; 0: none */
    char interface[IF_NAMESIZE];
    char *arguments;            /* and other options, to open it again */
    uint64_t memory;            /* bytes of received packets */
    bool no_promiscuous;
    uint32_t snap_length;
    uint16_t descriptors;       /* of the receive ring */
    struct rte_device *device;
    struct rte_mempool *pool;
    struct rte_mbuf **held;     /* received and not released; a frame has its place as number of its buffer */
    uint32_t held_count, held_most;
    uint8_t *joined;            /* packets that the driver divided, in one piece each */
    size_t joined_used;
    uint64_t stamped;           /* flag of packets with a time stamp */
    int stamp;                  /* its place in a packet buffer */
    int timer;                  /* readable when the device is to be polled again */
    bool polled;                /* the timer is readable already */
    uint64_t last;              /* when a packet was received, by the monotonic clock */
    uint64_t packets, sent, refused, tags, not_joined;
    struct rte_eth_stats before;
    uint64_t lost_earlier, dropped_earlier, freezes_earlier;   /* of `before`, of an interface that was removed */
};

/* sl_dpdk_source_open (io/source.h) calls it. */
int sl_dpdk_open(struct sl_source **out, const char *device, const struct sl_source_options *options, char *message,
                 size_t message_size);

/* Opens the device and the queues, and the pool unless there is one. DPDK runs. Returns 0; or -1, with the fault. */
int sl_dpdk_device_open(struct sl_dpdk_source *source);

/* Closes what is open of the device and the queues; the pool remains. */
void sl_dpdk_device_close(struct sl_dpdk_source *source);

/* Gives up the pool. It is freed once no source is open: other devices may still be sending from it. */
void sl_dpdk_pool_close(struct sl_dpdk_source *source);

/* The buffer of a received frame that is sent as it is, if some open source holds it; else NULL. */
struct rte_mbuf *sl_dpdk_buffer_of(const struct sl_frame *frame);

#endif
