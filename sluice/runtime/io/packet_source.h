/* A source of an interface by AF_PACKET: what its two files, packet_source.c (packets) and packet_open.c (opening), share. */
#ifndef SL_IO_PACKET_SOURCE_H
#define SL_IO_PACKET_SOURCE_H

#include "io/fanout.h"
#include "io/interface.h"
#include "io/removal.h"
#include "io/source.h"

#include <linux/if_packet.h>
#include <pthread.h>

enum {
    SL_PACKET_BLOCK = 1 << 20,       /* bytes of a block of the ring */
    SL_PACKET_TAG = 4,               /* bytes of a VLAN tag, reserved in front of each packet */
    SL_PACKET_INTERFACES = 1024,     /* with `any`: interfaces with a separate port; further ones share the last port */
};

struct sl_packet_source {
    struct sl_source base;
    int socket;
    struct sl_removal removal;
    struct sl_fanout_member fanout;  /* its `of` is NULL: the source gets all packets of the interface */
    pthread_mutex_t lock;            /* of what is read for statistics, perhaps by another thread */
    uint32_t snap_length;
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
    uint64_t packets, sent, refused, restored, downs;
    struct sl_interface_counter missed;   /* packets that the card had no buffer for */
    struct tpacket_stats_v3 total;   /* accumulated, because reading resets the kernel's counters */
    unsigned ports[SL_PACKET_INTERFACES], port_count;   /* with `any`: the interface index of each port */
};

extern const struct sl_source_back_end sl_packet_back_end;

/* Binds the socket to the interface. Its ring, filter and options remain, and no capability is needed for it, when that is one
 * of the same name as before. Returns 0; or -1, with errno. */
int sl_packet_bind(struct sl_packet_source *source);

/* One of several sockets that divide the packets of an interface, which the kernel binds only once: receives from the interface
 * that was made again by another socket, with another ring. It takes CAP_NET_RAW. Returns 0; or -1, with the fault. */
int sl_packet_open_again(struct sl_source *source);

/* Adds what the kernel and the card have dropped since the last time to the counters. An interface has its own with it only
 * while it exists. */
void sl_packet_count_drops(struct sl_packet_source *source);

/* Counts what the card drops from now on, that of an interface which was found now. */
void sl_packet_count_from_now(struct sl_packet_source *source);

#endif
