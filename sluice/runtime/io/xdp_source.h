/* A source of an interface by AF_XDP: what its two files, xdp_source.c (packets) and xdp_open.c (opening), share. */
#ifndef SL_IO_XDP_SOURCE_H
#define SL_IO_XDP_SOURCE_H

#include "io/queues.h"
#include "io/removal.h"
#include "io/source.h"
#include "io/xdp_library.h"

#include <pthread.h>

enum {
    SL_XDP_FRAME = 4096,             /* bytes; drivers take no more than a page */
    SL_XDP_SEND_FRAMES = 2048,       /* also the size of the send and completion rings */
    SL_XDP_QUEUES = 64,
};

struct sl_xdp_queue {
    unsigned number;                 /* the driver's */
    struct xsk_socket *socket;
    int descriptor;
    struct sl_xsk_ring rx, fill;
    struct sl_xsk_ring completion;   /* of queues that send nothing */
    uint32_t held;                   /* packets before rx.consumer that are not released */
    uint64_t *addresses;             /* their frames */
};

struct sl_xdp_source {
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
    struct sl_xdp_queue queues[SL_XDP_QUEUES];
    unsigned queue_count, next;      /* next: the queue that is looked at first */
    struct sl_rss rss;               /* to set when it is closed */
    uint64_t free[SL_XDP_SEND_FRAMES];   /* frames for sending */
    uint32_t free_count;
    uint64_t packets, sent, refused, downs;
    bool down;
};

extern const struct sl_source_back_end sl_xdp_back_end;

/* Gives frames to the kernel. The fill ring has room for all frames of its queue. */
static inline void sl_xdp_fill(struct sl_xdp_queue *queue, const uint64_t *addresses, uint32_t count)
{
    uint32_t producer = *queue->fill.producer;
    for (uint32_t i = 0; i < count; i++)
        ((uint64_t *)queue->fill.ring)[(producer + i) & queue->fill.mask] = addresses[i] & ~(uint64_t)(SL_XDP_FRAME - 1);
    __atomic_store_n(queue->fill.producer, producer + count, __ATOMIC_RELEASE);
}

/* Finds the interface, and opens its sockets. Returns 0; or -1, with the fault. */
int sl_xdp_open_interface(struct sl_xdp_source *source);

/* Gives back the sockets and the memory. */
void sl_xdp_close_sockets(struct sl_xdp_source *source);
void sl_xdp_close_control(struct sl_xdp_source *source);

#endif
