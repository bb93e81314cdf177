/* Packet sources and destinations: the interface between a box's driver and files, pipes and network interfaces.
 *
 *     struct sl_source *in;
 *     char why[SL_SOURCE_MESSAGE];
 *     if (sl_source_open(&in, "capture.pcap.gz", NULL, why, sizeof why)) ...print why...
 *     int32_t got;
 *     while ((got = sl_source_receive(in, frames, 256)) >= 0) {
 *         if (got == 0)
 *             sl_source_wait(in, 100 * 1000000);
 *         ...use frames...
 *         sl_source_release(in);
 *     }
 *     if (got == SL_SOURCE_FAULT) ...print sl_source_fault(in)...
 *     sl_source_close(in);
 *
 * A back end is one C file with a struct sl_source_back_end; source.c selects it by the URI. A source must be used by
 * one thread at a time. Only two calls block: sl_source_wait, and opening a named pipe that has no writer. */
#ifndef SL_IO_SOURCE_H
#define SL_IO_SOURCE_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SL_DPDK_LIBRARY "libsluice_dpdk.so"

enum {
    SL_SOURCE_MESSAGE = 512,      /* a message buffer of this size suits any but a very long name */
    SL_SOURCES_MOST = 65536,      /* maximum number of merged sources: struct sl_frame has 16 bits for the port */
    SL_SOURCE_END = -1,           /* result in place of a number of packets: the source has ended */
    SL_SOURCE_FAULT = -2,         /* the same: the source has failed */
};

struct sl_source;
struct sl_fanout;
struct sl_queues;
struct sl_filter;
struct pollfd;

struct sl_source_options {
    bool follow;          /* files: wait for more bytes at the end, like `tail -f` */
    bool no_promiscuous;  /* interfaces: receive only packets for this host */
    uint64_t ring_bytes;  /* interfaces: size of the receive ring; 0: 64 MiB */
    uint32_t snap_length; /* interfaces: captured bytes of each packet; 0: all */
    const char *filter;   /* in pcap syntax (filter.h): only packets that it accepts are received; NULL: all */
    bool forwarding;      /* interfaces between which packets are forwarded: transmitted packets are not received, and
                           * packets of several interfaces are not ordered by time, which would hold them back */
    uint64_t rotate_bytes, rotate_nanoseconds;   /* written files: bounds of one in a series, before compression, and in
                                                  * time of packets; both 0: one file without bounds */
    uint32_t rotate_files;                       /* the number of files that are kept; 0: all */
    const char *dpdk_library;   /* dpdk: the path of its back end (dpdk/source.c); NULL: SL_DPDK_LIBRARY, which the dynamic
                                 * linker searches for */
    const char *dpdk_options;   /* dpdk: options of its environment abstraction layer, in place of the default ones; NULL:
                                 * these, which need no hugepages */
    struct sl_fanout *fanout;   /* af_packet: the source gets a part of the interface's packets (fanout.h), and refers to
                                 * the struct as long as it is open; NULL: all */
    struct sl_queues *queues;   /* xdp: it gets a part of the interface's receive queues (queues.h); NULL: all */
    bool awaits_removed;        /* an interface that is removed is received from again once it is made again with its name, and
                                 * up; else it is a fault. af_packet with `fanout`, and dpdk, which receives so from virtual
                                 * devices over an interface only, need CAP_NET_RAW for that */
};

/* The counters of a source. */
struct sl_source_statistics {
    uint64_t packets;            /* received, or, by a destination, sent */
    uint64_t sent;
    uint64_t dropped_kernel;     /* packets that the kernel dropped because the ring was full */
    uint64_t dropped_interface;  /* packets that the card or its driver dropped, as far as the kernel counts them */
    uint64_t refused;            /* packets that could not be sent, see sl_source_fault */
    uint64_t vlan_restored;      /* packets whose VLAN tag was re-inserted */
    uint64_t filtered;           /* packets that the filter rejected here; those that it rejected in the kernel do not count */
    uint64_t freezes;            /* how often the ring was full */
    uint64_t link_downs;         /* how often an interface was found to be down; it is received from again when it is up */
    uint64_t removals, returns;  /* how often one was removed, and made again (`awaits_removed`) */
};

/* Opens a source of packets:
 *
 *     FILE, file:FILE       a capture file (pcap, pcapng), optionally compressed (gzip, zstd, lz4, xz); or a named pipe
 *     -                     standard input, in the same formats
 *     af_packet:INTERFACE   a network interface; `any` for all of them
 *     xdp:INTERFACE         the same by AF_XDP, with libxdp; packets are withheld from the network stack of the host
 *     tap:NAME              a TAP device of this host, which is created where there is none
 *     dpdk:DEVICE           a device of DPDK with its arguments (net_pcap0,rx_pcap=in.pcap), or a PCI address
 *
 * Returns 0, with the source in *out, which sl_source_close closes; or -1, with *out NULL and the reason in message,
 * beginning with the name. options may be NULL. */
int sl_source_open(struct sl_source **out, const char *uri, const struct sl_source_options *options, char *message,
                   size_t message_size);

/* Opens several sources as one. Packets are ordered by time, and those with equal times by source. frame->port is the
 * index of the source in `uris`; frame->number counts the packets of all sources. A live source delays packets of the
 * others until it can no longer receive an earlier one. With one URI, it is the same as sl_source_open. */
int sl_source_open_all(struct sl_source **out, const char *const *uris, size_t count,
                       const struct sl_source_options *options, char *message, size_t message_size);

/* Opens a destination of packets: a capture file (pcap), which is created or truncated, compressed by its suffix (.gz,
 * .zst, .lz4, .xz), or af_packet:INTERFACE. options may be NULL. */
int sl_source_create(struct sl_source **out, const char *uri, const struct sl_source_options *options, char *message,
                     size_t message_size);

/* The source with that index among those that sl_source_open_all opened; one of AF_XDP, TAP or DPDK is a destination as well,
 * as it is the only one that can use its queues. It must not be closed. NULL if there is none. */
struct sl_source *sl_source_part(struct sl_source *source, size_t index);

/* Receives at most `most` available packets. Returns their number; 0 if none is available now (a live source, a pipe or
 * a growing file); SL_SOURCE_END; or SL_SOURCE_FAULT. The frames are valid until sl_source_release. If several calls
 * are made without a release, all their frames stay valid, and the source returns 0 once its buffers are in use. After
 * END or FAULT, further calls return the same. */
int32_t sl_source_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most);

/* Releases all frames that were received. */
void sl_source_release(struct sl_source *source);

/* Whether the bytes of all frames stay where they are until the source is closed, whatever is released: files that are
 * mapped. */
bool sl_source_keeps(const struct sl_source *source);

/* Sends packets. Their bytes are not needed after the call. Returns the number accepted; a refused packet is counted
 * and not sent again. */
uint32_t sl_source_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count);

/* Flushes buffered packets that were sent. Returns 0, or -1, see sl_source_fault. */
int sl_source_flush(struct sl_source *source);

/* Waits until the source may have packets. Returns true; or false after the timeout or a signal. */
bool sl_source_wait(struct sl_source *source, uint64_t nanoseconds);

/* A lower bound for the times of packets not received yet, in nanoseconds since 1970. For a live source, it is the
 * clock that stamps its packets, minus their maximum delay. For other sources, it is 0. */
uint64_t sl_source_clock(struct sl_source *source);

/* Whether more than half of the memory for received packets waits to be received: the caller does not keep up. */
bool sl_source_is_congested(const struct sl_source *source);

/* Subscribes `take` to decryption secrets in a capture. sl_source_receive calls it before it returns the packets after
 * the secrets, and after earlier calls have returned all packets before them. The bytes are valid during the call. */
void sl_source_on_secrets(struct sl_source *source, void (*take)(void *user, uint32_t kind, sl_bytes secrets), void *user);

/* The fault of the source, beginning with its name; NULL if there is none. For a destination, the last refused packet
 * and the reason. Valid until the next call with the source. */
const char *sl_source_fault(const struct sl_source *source);

/* For progress: the number of bytes read from files, and their total size (0: unknown). */
void sl_source_progress(struct sl_source *source, uint64_t *position, uint64_t *size);

/* Reads the counters. This may take system calls, so do not call it for each burst. */
void sl_source_statistics(struct sl_source *source, struct sl_source_statistics *out);

/* Closes the source; its frames become invalid. Returns 0; or -1 if packets that were sent are lost, with the reason in
 * message. NULL is allowed. */
int sl_source_close(struct sl_source *source, char *message, size_t message_size);

/* --- for back ends --- */

struct sl_source_back_end {
    const char *scheme;
    /* Each may be NULL, except close. */
    int32_t (*receive)(struct sl_source *source, struct sl_frame *frames, uint32_t most);
    void (*release)(struct sl_source *source);
    bool (*keeps)(const struct sl_source *source);
    uint32_t (*send)(struct sl_source *source, const struct sl_frame *frames, uint32_t count);
    int (*flush)(struct sl_source *source);
    /* Fills in at most `most` descriptors that become readable when packets may have arrived. Returns their number. */
    unsigned (*descriptors)(struct sl_source *source, struct pollfd *fds, unsigned most);
    uint64_t (*clock)(struct sl_source *source);
    struct sl_source *(*part)(struct sl_source *source, size_t index);
    bool (*is_congested)(const struct sl_source *source);
    void (*progress)(struct sl_source *source, uint64_t *position, uint64_t *size);
    void (*statistics)(struct sl_source *source, struct sl_source_statistics *out);
    int (*close)(struct sl_source *source);   /* returns 0, or -1 with source->fault */
};

/* The first member of every back end's struct. */
struct sl_source {
    const struct sl_source_back_end *back_end;
    void (*take_secrets)(void *user, uint32_t kind, sl_bytes secrets);
    void *secrets_user;
    char fault[SL_SOURCE_MESSAGE];   /* empty: none */
    char name[256];                  /* the beginning of messages */
    struct sl_filter *filter;        /* NULL: none. source.c opens it, and closes it */
    bool filtered_in_kernel;         /* it need be evaluated only for frames whose tag was restored */
    bool out;                        /* frames are not released yet; used with a filter */
    bool more;                       /* the last call returned 0, although packets may be available: all were rejected */
    uint64_t filtered;
};

/* Records a fault, prefixed by the source's name. Returns -1. */
__attribute__((format(printf, 2, 3))) int sl_source_fail(struct sl_source *source, const char *form, ...);

/* The open functions of the back ends. */
int sl_capture_source_open(struct sl_source **out, const char *path, const struct sl_source_options *options, char *message,
                           size_t message_size);
int sl_packet_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options,
                          char *message, size_t message_size);
int sl_xdp_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options, char *message,
                       size_t message_size);
int sl_tap_source_open(struct sl_source **out, const char *name, const struct sl_source_options *options, char *message,
                       size_t message_size);
int sl_dpdk_source_open(struct sl_source **out, const char *device, const struct sl_source_options *options, char *message,
                        size_t message_size);
int sl_packet_source_create(struct sl_source **out, const char *interface, char *message, size_t message_size);
/* Takes ownership of the sources, even on failure. ordered: by time. */
int sl_merge_source_open(struct sl_source **out, struct sl_source **sources, size_t count, bool ordered, char *message,
                         size_t message_size);
int sl_writer_source_create(struct sl_source **out, const char *path, const struct sl_source_options *options,
                            char *message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
