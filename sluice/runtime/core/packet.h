/* What a packet is: bytes, and a received frame. Contains only types and numbers, for C11 and C++, because programs
 * that embed a box include it. */
#ifndef SL_PACKET_H
#define SL_PACKET_H

#include <stdint.h>

/* Bytes of a packet: `length` on the wire, of which the first `captured` (<= length) are in memory. */
typedef struct sl_bytes {
    const uint8_t *at;   /* may be NULL when captured is 0 */
    uint32_t captured;
    uint32_t length;
} sl_bytes;

/* Kinds of secrets that a capture file may contain: the numbers of pcapng's Decryption Secrets Blocks. */
enum { SL_SECRETS_TLS_KEY_LOG = 0x544c534b };   /* text in the format of SSLKEYLOGFILE */

/* Facts about a frame that are not in its bytes. */
enum {
    SL_FRAME_OUTGOING = 1,           /* this host sent it */
    SL_FRAME_CHECKSUM_PARTIAL = 2,   /* its transport checksum is incomplete: the network card was to fill it in */
    SL_FRAME_VLAN_RESTORED = 4,      /* the kernel or the card had removed its VLAN tag, and it was restored */
};

/* A packet as it was received. 40 bytes: a burst of frames is read from start to end, so each byte here costs cache. */
struct sl_frame {
    const uint8_t *at;   /* the captured bytes, valid until its source is released (source.h) */
    uint32_t captured;   /* how many */
    uint32_t length;     /* on the wire; never less than captured */
    uint64_t time;       /* nanoseconds since 1970; 0 if the source has no time (simple packet blocks). A time before
                          * 1970 is 0, one after 2554 is UINT64_MAX: real files contain both, so a box must accept
                          * them. */
    uint16_t link_type;  /* LINKTYPE_ number, see tcpdump.org/linktypes.html */
    uint16_t port;       /* where it was received: for a pcapng file, the number of the interface in its section; for a
                          * live source, the number of the interface in the order of their first packets; for several
                          * sources together, the number of the source, from 0 */
    uint16_t buffer;     /* number of the buffer that contains the bytes, among those that the source has handed out */
    uint8_t queue;       /* receive queue of the port, 0 if there is only one; 255: that, or a higher one */
    uint8_t flags;       /* SL_FRAME_... */
    uint64_t number;     /* 1 for the first packet of the source */
};

#endif
