/* Parts of a box: the batch of events for Python, timers of functions, the output, and the end of input in steps. */
#ifndef SL_BOX_PARTS_H
#define SL_BOX_PARTS_H

#include "core/bytes.h"
#include "core/packet.h"
#include "driver/embed.h"

#include <stdio.h>

struct sl_batch {
    uint8_t *at;
    size_t size, used;
    void (*deliver)(void *user, const uint8_t *at, size_t used);
    void *user;
};

/* --- timers of functions, see timers.h --- */

/* A timer of an instance, or of the box. Entries whose time differs from `entry` are obsolete. */
struct sl_timer {
    uint64_t at;      /* when it fires; SL_NEVER: it is not set */
    uint64_t entry;   /* the time of its entry in the heap; SL_NEVER: it has none */
};

/* An entry of the heap. */
struct sl_timer_entry {
    uint64_t time;
    uint64_t number;   /* of the instance; 0: a timer of the box */
    uint32_t slot;     /* in its table */
    uint16_t layer;    /* index of the layer whose instance it is */
    uint16_t timer;    /* number of the timer among those of the box's functions */
};

struct sl_timers {
    struct sl_timer_entry *entry;   /* a heap: the earliest first */
    uint32_t count, room;
    struct sl_timer *own;           /* the box's own */
    struct sl_timer *(*find)(struct sl_box *box, const struct sl_timer_entry *entry);   /* NULL: it no longer exists */
};

/* --- the output of the box, see output.h --- */

struct sl_held_packets;

struct sl_output {
    bool forwards;               /* the caller applies verdicts and transmits what functions send */
    bool dropped, changed, reset, redirected;   /* of the current packet; `reset`: its connection is reset */
    bool in_burst;               /* a burst is processed */
    bool taken;                  /* the caller has taken what is in `sent` */
    uint64_t dropped_by;         /* bits of the functions that dropped the current packet */
    uint16_t port;               /* where the current packet is redirected to */
    uint16_t link_type;          /* of the last packet */
    uint16_t last_port;          /* where it was received */
    const struct sl_frame *frames;   /* of the burst */
    struct sl_verdict *verdicts; /* of these; NULL: the caller does not need them */
    uint32_t place;              /* of the current packet in the burst */
    uint8_t *bytes;              /* the changed bytes of the burst's packets, one packet after the other, and free
                                  * room */
    size_t used, room;
    size_t current;              /* offset of those of the current packet, and their number */
    uint32_t length;
    bool withheld;               /* the current packet is not transmitted, as nothing of it is left (edit.h) */
    bool not_edited;             /* a function edits its connection, which is not possible for this packet */
    void (*at_end)(struct sl_box *box, const struct sl_frame *frame, void *of);   /* called before its verdict; or NULL */
    void *at_end_of;
    uint64_t withholds;
    struct sl_sent *sent;        /* packets that functions sent; frame.at is an offset in sent_bytes until they are taken */
    uint32_t sent_count, sent_room;
    uint8_t *sent_bytes;
    size_t sent_used, sent_bytes_room;
    uint32_t packet_sent, packet_sent_bytes;   /* by functions during the current packet */
    uint64_t drops, changes, sends, not_sent;
    /* Packets that functions hold, see held.h: */
    struct sl_held_packets *waiting;     /* NULL before the first one */
    uint64_t held_bytes, held_nanoseconds;   /* the bounds */
    bool held_open;              /* at a bound: packets pass; else they are dropped */
    uint64_t holders, held_for;  /* functions that hold the current packet, and for which instance; 0: none */
    uint64_t releasing, release_for;         /* functions that release packets at its end, and of which instance */
    uint32_t packet_from;        /* entries of `sent` that precede those of the current packet */
    uint64_t holds, released, discarded, expired, held_ended, held_refused;
    /* Functions with a policy of their own, as bits (sl_options): */
    uint64_t fault_open, fault_closed, overload_open;
    uint64_t failed;             /* those that have failed */
    uint64_t off;                /* those that are not called: they have failed, or are left out while the box is congested */
    uint64_t failed_passed, failed_dropped, overload_passed;   /* packets that passed or were dropped without them */
    char failure[256];           /* of the first that failed; empty: none */
    uint64_t inside;             /* the number of a packet outside of the window that the stack knows, and inside of the
                                  * one that its sender knows, as acknowledgements are of edited bytes (edit.h); 0: none */
};

/* --- translation of arriving packets, see function/arrival.h --- */

struct sl_arrival {
    struct sl_frame *frames;      /* those of the burst; that of a translated packet refers to `bytes` */
    size_t count, room;           /* 0 without memory: packets are not translated */
    uint8_t *bytes;               /* the current packet as it was translated */
    size_t bytes_room;
    struct sl_frame received;     /* as it was received */
    uint64_t by;                  /* bits of the functions that translated it */
};

/* --- the end of input in steps, see NAME_finish_step --- */

struct sl_finish {
    uint32_t table, slot;   /* where the next step continues */
    uint32_t round;
    bool again;             /* this round has ended instances: another one follows */
    bool done;
};

/* --- random numbers, see function/random.h --- */

enum { SL_RANDOM_FLOWS = 63 };   /* struct sl_random has whole cache lines */

struct sl_random {
    uint64_t packet, time;       /* at which these were counted; packet is 0 without one */
    bool ending;                 /* at the end of input */
    uint32_t flows;              /* entries that were ever in use; a further one replaces the oldest */
    struct {
        uint64_t number, function;   /* of the instance; a hash of the function's name */
        uint64_t count;
    } flow[SL_RANDOM_FLOWS];
};

#endif
