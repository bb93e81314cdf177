/* Where packets come from and where they go: the one interface between a box's driver and files, pipes and interfaces.
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
 * A back end is one C file with a struct sl_source_back_end; source.c finds it by the URI. A source belongs to one thread at
 * a time. No call blocks but sl_source_wait, and opening a pipe that no program writes to. */
#ifndef SL_IO_SOURCE_H
#define SL_IO_SOURCE_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_SOURCE_MESSAGE = 512,      /* a message buffer of this size suits any but a very long name */
    SL_SOURCES_MOST = 65536,      /* that are read together: struct sl_frame has 16 bits for the port */
    SL_SOURCE_END = -1,           /* in place of a number of packets: there are no more */
    SL_SOURCE_FAULT = -2,         /* the same, since something is wrong with the source */
};

struct sl_source;
struct pollfd;

struct sl_source_options {
    bool follow;          /* a file that still grows: its end is not the end, as with `tail -f` */
    bool no_promiscuous;  /* an interface: only the packets that are for this host */
    uint64_t ring_bytes;  /* an interface: memory of its receive ring; 0: 64 MiB */
    uint32_t snap_length; /* an interface: captured bytes of each packet; 0: all */
    bool forwarding;      /* interfaces between which packets are forwarded: those that leave there are not received, and
                           * packets of several interfaces are not put in the order of their times, as they would wait */
};

/* What a source has done. */
struct sl_source_statistics {
    uint64_t packets;            /* received, or sent */
    uint64_t dropped_kernel;     /* packets that the kernel had no room for in the ring */
    uint64_t dropped_interface;  /* packets that the card or its driver dropped, as far as the kernel counts them */
    uint64_t refused;            /* packets that could not be sent, see sl_source_fault */
    uint64_t vlan_restored;      /* packets whose VLAN tag was put back */
    uint64_t freezes;            /* how often the ring was full */
};

/* Opens what packets come from:
 *
 *     FILE, file:FILE       a capture file (pcap, pcapng), perhaps compressed (gzip, zstd, lz4, xz); or a named pipe
 *     -                     standard input, in the same formats
 *     af_packet:INTERFACE   an interface, `any` for all of them
 *
 * 0: *out is the source, to be closed by sl_source_close. -1: *out is NULL and message says why, beginning with the name.
 * options may be NULL. */
int sl_source_open(struct sl_source **out, const char *uri, const struct sl_source_options *options, char *message,
                   size_t message_size);

/* Opens several as one: their packets in the order of their times, equal ones in the order of the sources. frame->port is
 * the place of the source in `uris`, frame->number counts over all. A live source holds back the packets of others until it
 * is known that none of its own is earlier. Of one URI it is sl_source_open. */
int sl_source_open_all(struct sl_source **out, const char *const *uris, size_t count,
                       const struct sl_source_options *options, char *message, size_t message_size);

/* Opens a place to send packets to: a capture file (pcap) that is created or emptied, or af_packet:INTERFACE. */
int sl_source_create(struct sl_source **out, const char *uri, char *message, size_t message_size);

/* Receives at most `most` packets that are there: their number; 0: none at the moment (a live source, a pipe, a file that
 * grows); SL_SOURCE_END; SL_SOURCE_FAULT. The frames are valid until sl_source_release. Without a release in between, frames
 * of several calls are valid together, and at some point the source gives no more. The end and a fault repeat. */
int32_t sl_source_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most);

/* Gives back all frames that were received. */
void sl_source_release(struct sl_source *source);

/* Whether the bytes of all frames stay where they are until the source is closed, whatever is released: files that are
 * mapped. */
bool sl_source_keeps(const struct sl_source *source);

/* Sends packets, of which the source keeps none: how many it took. One that it refuses is counted and not sent again. */
uint32_t sl_source_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count);

/* Hands on what was sent and is still buffered. 0, or -1, see sl_source_fault. */
int sl_source_flush(struct sl_source *source);

/* Waits until the source may have packets, at most so many nanoseconds: true; false when the time is over, or a signal came. */
bool sl_source_wait(struct sl_source *source, uint64_t nanoseconds);

/* A time, in nanoseconds since 1970, so that no packet that is still to come has an earlier one: of a live source what the
 * clock that stamps its packets shows, less what they may be delayed. 0 of other sources. */
uint64_t sl_source_clock(struct sl_source *source);

/* From now on sl_source_receive calls `take` with decryption secrets that a capture carries, before it gives the packets
 * after them: all packets before them were given by earlier calls. The bytes are valid during the call. */
void sl_source_on_secrets(struct sl_source *source, void (*take)(void *user, uint32_t kind, sl_bytes secrets), void *user);

/* What is wrong with the source, beginning with its name; NULL: nothing. Of a place to send to: the last packet that it
 * refused, and why. Valid until the next call with the source. */
const char *sl_source_fault(const struct sl_source *source);

/* For progress: bytes of files that were read, and bytes in all (0: unknown). */
void sl_source_progress(struct sl_source *source, uint64_t *position, uint64_t *size);

/* Counters of all kinds. It may ask the kernel for some: not for each burst. */
void sl_source_statistics(struct sl_source *source, struct sl_source_statistics *out);

/* Closes the source and ends all frames of it. 0; -1: packets that were sent are lost, and message says why. NULL is
 * allowed. */
int sl_source_close(struct sl_source *source, char *message, size_t message_size);

/* --- for back ends --- */

struct sl_source_back_end {
    const char *scheme;
    /* NULL where the back end has no such thing. */
    int32_t (*receive)(struct sl_source *source, struct sl_frame *frames, uint32_t most);
    void (*release)(struct sl_source *source);
    bool (*keeps)(const struct sl_source *source);
    uint32_t (*send)(struct sl_source *source, const struct sl_frame *frames, uint32_t count);
    int (*flush)(struct sl_source *source);
    /* Descriptors that become readable when packets may have come: fills at most `most`; how many there are. */
    unsigned (*descriptors)(struct sl_source *source, struct pollfd *fds, unsigned most);
    uint64_t (*clock)(struct sl_source *source);
    void (*progress)(struct sl_source *source, uint64_t *position, uint64_t *size);
    void (*statistics)(struct sl_source *source, struct sl_source_statistics *out);
    int (*close)(struct sl_source *source);   /* 0; -1: with source->fault */
};

/* The head of every back end's own struct. */
struct sl_source {
    const struct sl_source_back_end *back_end;
    void (*take_secrets)(void *user, uint32_t kind, sl_bytes secrets);
    void *secrets_user;
    char fault[SL_SOURCE_MESSAGE];   /* empty: none */
    char name[256];                  /* what messages begin with */
};

/* Records what is wrong, after the name. Always -1. */
__attribute__((format(printf, 2, 3))) int sl_source_fail(struct sl_source *source, const char *form, ...);

/* The back ends' own open functions. */
int sl_capture_source_open(struct sl_source **out, const char *path, const struct sl_source_options *options, char *message,
                           size_t message_size);
int sl_packet_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options,
                          char *message, size_t message_size);
int sl_packet_source_create(struct sl_source **out, const char *interface, char *message, size_t message_size);
/* Takes the sources, in any case. ordered: by time. */
int sl_merge_source_open(struct sl_source **out, struct sl_source **sources, size_t count, bool ordered, char *message,
                         size_t message_size);
int sl_writer_source_create(struct sl_source **out, const char *path, char *message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
