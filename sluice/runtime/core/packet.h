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

/* A packet as it was captured. */
struct sl_frame {
    const uint8_t *at;   /* the captured bytes; of a capture file: valid until that is closed */
    uint32_t captured;   /* how many */
    uint32_t length;     /* on the wire; never less than captured */
    uint64_t time;       /* nanoseconds since 1970; 0 where the file has none (simple packet blocks). Before 1970
                          * is 0, beyond 2554 UINT64_MAX: real files have both, so a box must stand them. */
    uint32_t link_type;  /* LINKTYPE_ number, see tcpdump.org/linktypes.html */
    uint32_t interface;  /* number of the interface in its pcapng section; 0 in a pcap file */
    uint64_t number;     /* 1 for the first packet of the file */
};

#endif
