/* What a packet is: bytes, and a frame that came in. Types and numbers only, for C11 and C++: they are seen by programs that embed. */
#ifndef SL_PACKET_H
#define SL_PACKET_H

#include <stdint.h>

/* Bytes of a packet: `length` on the wire, of which the first `captured` (<= length) are in memory. */
typedef struct sl_bytes {
    const uint8_t *at;   /* may be NULL when captured is 0 */
    uint32_t captured;
    uint32_t length;
} sl_bytes;

/* What kind of secrets a capture file carries along: the number of pcapng's Decryption Secrets Blocks. */
enum { SL_SECRETS_TLS_KEY_LOG = 0x544c534b };   /* text, as SSLKEYLOGFILE has it */

/* Facts about a frame that are not in its bytes. */
enum {
    SL_FRAME_OUTGOING = 1,           /* this host sent it */
    SL_FRAME_CHECKSUM_PARTIAL = 2,   /* its transport checksum is not complete: the network card would have filled it in */
    SL_FRAME_VLAN_RESTORED = 4,      /* its VLAN tag was taken off by the kernel or the card, and put back */
};

/* A packet as it was received. 40 bytes: a burst of frames is read from start to end, so each byte here costs cache. */
struct sl_frame {
    const uint8_t *at;   /* the captured bytes, valid until its source is released (source.h) */
    uint32_t captured;   /* how many */
    uint32_t length;     /* on the wire; never less than captured */
    uint64_t time;       /* nanoseconds since 1970; 0 where the source has none (simple packet blocks). Before 1970
                          * is 0, after 2554 UINT64_MAX: real files have both, so a box must accept them. */
    uint16_t link_type;  /* LINKTYPE_ number, see tcpdump.org/linktypes.html */
    uint16_t port;       /* where it came in: of one pcapng file the number of the interface in its section, of one live
                          * source that of the interface in the order of their first packets; of several sources together
                          * the place of the source, from 0 */
    uint16_t buffer;     /* number of the buffer that the bytes lie in, of those that its source has handed out */
    uint8_t queue;       /* receive queue of the port, 0 where there is one */
    uint8_t flags;       /* SL_FRAME_... */
    uint64_t number;     /* 1 for the first packet of the source */
};

#endif
