/* The state of one end of a connection by the names of RFC 9293, 3.3.2, from the stack's TCP and the segments that
 * it sends and receives. Numbers, windows and acceptance are the stack's; the end itself is these bytes. */
#ifndef MOS_TCP_STATE_H
#define MOS_TCP_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum mos_state {
    MOS_CLOSED, MOS_LISTEN, MOS_SYN_SENT, MOS_SYN_RCVD, MOS_ESTABLISHED, MOS_FIN_WAIT_1, MOS_FIN_WAIT_2, MOS_CLOSE_WAIT,
    MOS_CLOSING, MOS_LAST_ACK, MOS_TIME_WAIT,
};

enum { MOS_FIN = 1, MOS_SYN = 2, MOS_RST = 4, MOS_ACK = 16 };

struct mos_end {
    uint8_t state;    /* enum mos_state */
    bool sent;        /* a segment, */
    bool sent_syn;    /* a SYN */
};

/* A SYN reaches an end; `acknowledges`: exactly the end's own. True when it is the first of the connection. */
static inline bool mos_end_receives_syn(struct mos_end *end, uint8_t flags, bool acknowledges) {
    if (end->state == MOS_LISTEN) {
        end->state = MOS_SYN_RCVD;
        return true;
    }
    if (end->state == MOS_SYN_SENT) {
        if (!(flags & MOS_ACK))
            end->state = MOS_SYN_RCVD;   /* both open at once */
        else if (acknowledges)
            end->state = MOS_ESTABLISHED;
    }
    return false;
}

/* An acknowledgement reaches an end: of its SYN, or of its FIN, too. */
static inline void mos_end_receives_ack(struct mos_end *end, bool of_syn, bool of_fin) {
    switch (end->state) {
    case MOS_SYN_RCVD: end->state = of_syn ? MOS_ESTABLISHED : MOS_SYN_RCVD; break;
    case MOS_FIN_WAIT_1: end->state = of_fin ? MOS_FIN_WAIT_2 : MOS_FIN_WAIT_1; break;
    case MOS_CLOSING: end->state = of_fin ? MOS_TIME_WAIT : MOS_CLOSING; break;
    case MOS_LAST_ACK: end->state = of_fin ? MOS_CLOSED : MOS_LAST_ACK; break;
    default: break;
    }
}

/* An end sends a FIN that the stack accepts. */
static inline void mos_end_sends_fin(struct mos_end *end) {
    if (end->state == MOS_CLOSE_WAIT)
        end->state = MOS_LAST_ACK;
    else if (end->state == MOS_ESTABLISHED || end->state == MOS_SYN_RCVD)
        end->state = MOS_FIN_WAIT_1;
}

/* The other's FIN reaches an end in order: all that was sent before it was received. */
static inline void mos_end_receives_fin(struct mos_end *end) {
    switch (end->state) {
    case MOS_SYN_RCVD:
    case MOS_ESTABLISHED: end->state = MOS_CLOSE_WAIT; break;
    case MOS_FIN_WAIT_1: end->state = MOS_CLOSING; break;
    case MOS_FIN_WAIT_2: end->state = MOS_TIME_WAIT; break;
    default: break;
    }
}

#endif
