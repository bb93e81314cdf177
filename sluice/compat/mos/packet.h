/* The current packet of a context (packet.c, burst.c). */
#ifndef MOS_PACKET_H
#define MOS_PACKET_H

#include "devices.h"
#include "ip.h"

#include "core/packet.h"

struct mos_context;
struct mos_flow;

enum { MOS_FRAME_MOST = SL_WRITER_SNAP_LENGTH, MOS_FRAME_ROOM = MOS_FRAME_MOST + 65536 };
enum { MOS_SHOWN_ROOM = MOS_FRAME_ROOM + 65536 + 64 };   /* with a segment that came in fragments, and what stands around both */

/* The role of the current packet when the stack processes it once more. */
enum mos_again { MOS_NOT_AGAIN, MOS_TRANSLATED, MOS_CHANGED };

struct mos_packet {
    struct sl_frame frame;       /* its bytes are `bytes` */
    const struct sl_frame *source;   /* in the burst; NULL: none is current */
    uint8_t *memory;             /* for a copy that may be changed: MOS_FRAME_ROOM bytes */
    uint8_t *bytes;              /* those of the burst, not to be changed, until mos_packet_own */
    int device;                  /* which it came from */
    uint8_t *ip, *tcp, *payload; /* in `bytes`, or NULL; TCP may lie elsewhere when it came in fragments */
    uint32_t ip_length, tcp_length, payload_length;   /* in memory; of IP with padding after it, of TCP with its payload */
    uint32_t tcp_wire, payload_wire;                  /* as they were sent */
    uint64_t offset;             /* of the payload in the stream */
    bool there;                  /* callbacks may look at it */
    bool changeable;             /* and change it */
    bool inner;                  /* its IP packet came in another one: in a tunnel */
    bool owned, changed, dropped;
    enum mos_again again;
    const struct mos_flow *flow; /* which it is of; NULL: not known yet, or of none */
};

/* An IP packet within a frame; depth: 1 for the outer one. */
struct mos_unit { const struct sl_frame *frame; sl_bytes ip; unsigned depth; };

/* The stack's TCP has a segment of this packet, which becomes the current one; `tcp`: from its header on. False when there is
 * no such packet, or the run has been stopped (burst.c). */
bool mos_packet_begin(struct mos_context *context, const struct sl_frame *frame, sl_bytes tcp);

/* The stack, which has tunnels, reads an IP packet in this one. */
void mos_packet_carries(struct mos_context *context, const struct sl_frame *frame, sl_bytes ip);

/* Time reaches this packet, to which no program looks. False when more is to be done for it than that. */
bool mos_packet_pass(struct mos_context *context, const struct sl_frame *frame);

void mos_packet_update_checksums(struct mos_packet *packet, int option);   /* MOS_UPDATE_*_CHKSUM, or-ed */
void mos_packet_own(struct mos_packet *packet);    /* its bytes may be changed from now on: they are a copy */

void mos_packet_read(struct mos_packet *packet);   /* finds its headers again, from `ip` and `tcp` on */
bool mos_packet_inside(const struct mos_packet *packet, const uint8_t *at);

/* Fills in a checksum that the network card was to fill in: of a frame's copy in `memory`, unless it is that already. */
void mos_frame_complete(struct sl_frame *frame, uint8_t *memory);

#endif
