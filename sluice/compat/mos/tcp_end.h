/* One end of a connection as a monitor in the middle infers it: RFC 9293's eleven states, from what it sends and what
 * reaches it. */
#ifndef MOS_TCP_END_H
#define MOS_TCP_END_H

#include <stdbool.h>
#include <stdint.h>

enum mos_state {
    MOS_CLOSED, MOS_LISTEN, MOS_SYN_SENT, MOS_SYN_RCVD, MOS_ESTABLISHED, MOS_FIN_WAIT_1, MOS_FIN_WAIT_2, MOS_CLOSE_WAIT,
    MOS_CLOSING, MOS_LAST_ACK, MOS_TIME_WAIT,
};

enum { MOS_FIN = 1, MOS_SYN = 2, MOS_RST = 4, MOS_ACK = 16 };

/* A segment's header; the sequence number of its payload is `seq`, or the one after a SYN. */
struct mos_segment_header {
    uint32_t seq, ack;
    uint16_t window;
    uint8_t flags;
};

struct mos_end {
    enum mos_state state;
    bool numbered;       /* it has sent something, so `isn` is known, */
    bool guessed;        /* or guessed, as that was no SYN */
    bool finished;       /* it has sent a FIN, after offset `fin` */
    bool received_fin;      /* the other's FIN has reached it in order */
    uint32_t isn;        /* its initial sequence number */
    uint64_t fin, sent;  /* sent: after the last byte that it has sent */
    uint32_t window;     /* that it offered last, scaled */
    uint64_t edge;       /* the farthest offset of the other's stream that it has allowed */
    uint8_t scale;
};

/* What a segment brought about at an end. */
struct mos_change { bool started, repeated; };

/* An end numbers its stream by a SYN, else by the first that it sends: half-open connections are answered by a segment of
 * another one (RFC 9293, 3.5.1), so what was guessed gives way to a SYN while no data has come. */
static inline void mos_end_numbers(struct mos_end *end, const struct mos_segment_header *header) {
    bool syn = header->flags & MOS_SYN;
    if (end->numbered && !(syn && end->guessed && !end->sent))
        return;
    end->isn = syn ? header->seq : header->seq - 1;
    end->guessed = !syn;
    end->numbered = true;
}

/* An end sends a segment whose payload ends at offset `stop` of its stream; `repeated`: it had sent this SYN before.
 * `follows`: it lies where it may, in the other's window or right after what was sent. */
static inline struct mos_change mos_end_sends(struct mos_end *end, const struct mos_segment_header *header, uint64_t stop,
                                              bool repeated, bool follows) {
    struct mos_change change = {false, repeated};
    if (header->flags & MOS_SYN) {
        if (!(header->flags & MOS_ACK) && (end->state == MOS_CLOSED)) {
            end->state = MOS_SYN_SENT;
            change.started = true;
        }
    }
    if (follows && stop > end->sent)
        end->sent = stop;
    if (follows && header->flags & MOS_FIN && !end->finished) {
        end->finished = true;
        end->fin = stop;
        if (end->state == MOS_CLOSE_WAIT)
            end->state = MOS_LAST_ACK;
        else if (end->state == MOS_ESTABLISHED || end->state == MOS_SYN_RCVD)
            end->state = MOS_FIN_WAIT_1;
    }
    return change;
}

/* A SYN, with or without an acknowledgement, reaches an end. True when it is the first of the connection. */
static inline bool mos_end_receives_syn(struct mos_end *end, const struct mos_segment_header *header) {
    if (end->state == MOS_LISTEN) {
        end->state = MOS_SYN_RCVD;
        return true;
    }
    if (end->state == MOS_SYN_SENT) {
        if (!(header->flags & MOS_ACK))
            end->state = MOS_SYN_RCVD;   /* both open at once */
        else if (header->ack == end->isn + 1)
            end->state = MOS_ESTABLISHED;
    }
    return false;
}

/* An acknowledgement reaches an end. */
static inline void mos_end_receives_ack(struct mos_end *end, uint32_t ack) {
    bool of_fin = end->finished && (int32_t)(ack - (end->isn + 2 + (uint32_t)end->fin)) >= 0;
    switch (end->state) {
    case MOS_SYN_RCVD:
        if (end->numbered && (int32_t)(ack - (end->isn + 1)) >= 0)
            end->state = MOS_ESTABLISHED;
        break;
    case MOS_FIN_WAIT_1: end->state = of_fin ? MOS_FIN_WAIT_2 : end->state; break;
    case MOS_CLOSING: end->state = of_fin ? MOS_TIME_WAIT : end->state; break;
    case MOS_LAST_ACK: end->state = of_fin ? MOS_CLOSED : end->state; break;
    default: break;
    }
}

/* The other's FIN reaches an end in order: all that was sent before it was received. */
static inline void mos_end_receives_fin(struct mos_end *end) {
    if (end->received_fin)
        return;
    end->received_fin = true;
    switch (end->state) {
    case MOS_SYN_RCVD:
    case MOS_ESTABLISHED: end->state = MOS_CLOSE_WAIT; break;
    case MOS_FIN_WAIT_1: end->state = MOS_CLOSING; break;
    case MOS_FIN_WAIT_2: end->state = MOS_TIME_WAIT; break;
    default: break;
    }
}

#endif
