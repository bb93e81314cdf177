/* Drives a box: moves packets from a source to the box, transmits its output, and advances its time while no packets
 * arrive. The common loop of `sluice run`, of programs that embed a stack, and of libsluice_mos.
 *
 *     struct sl_drive drive = {.process = tcp_ip_process, .tick = tcp_ip_tick, .finish_step = tcp_ip_finish_step,
 *                              .box = box, .in = source};
 *     int ended = sl_drive(&drive);
 *     sl_drive_finish(&drive);
 *     ...read counters and reports...
 *     sl_drive_close(&drive);
 *
 * One thread runs it; another one, or a signal handler, may call sl_drive_stop. */
#ifndef SL_DRIVE_H
#define SL_DRIVE_H

#include "driver/embed.h"
#include "io/source.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_box *(*sl_open_function)(const struct sl_options *options);
typedef void (*sl_process_function)(struct sl_box *box, const struct sl_frame *frames, size_t count,
                                    struct sl_verdict *verdicts);
typedef uint64_t (*sl_tick_function)(struct sl_box *box, uint64_t now);
typedef bool (*sl_step_function)(struct sl_box *box, uint32_t slots);
typedef void (*sl_box_function)(struct sl_box *box);

/* How much of its time a thread spends with packets. Written by one thread, read by others: each number alone is
 * consistent. */
struct sl_busy {
    uint64_t packets;      /* that were processed */
    uint64_t nanoseconds;  /* while packets were processed */
    uint64_t longest;      /* of these, without a look for new packets */
};

struct sl_leaving;   /* the send buffer of a port */
struct sl_workers;   /* several boxes in threads, see workers.h */

/* What happens to packets that the box does not process. */
enum sl_drive_policy {
    SL_DRIVE_STOP,     /* there are none: the run ends */
    SL_DRIVE_OPEN,     /* they are transmitted */
    SL_DRIVE_CLOSED,   /* they are dropped */
};

struct sl_drive {
    sl_process_function process;
    sl_tick_function tick;           /* NULL: time does not advance while no packets arrive */
    sl_step_function finish_step;
    struct sl_box *box;
    struct sl_source *in;            /* NULL: packets are passed by sl_drive_burst only */
    /* The output of each port. NULL: the box is passive and makes no verdicts. A box with ports must have been opened
     * with sl_options.forwards. */
    struct sl_source *const *ports;
    uint32_t port_count;
    const uint16_t *peer;            /* the output port for each receiving port; NULL: port 0 for all packets */
    /* Called every few megabytes of a file and ten times a second; a result other than 0 stops the run. May be NULL. */
    int (*progress)(void *user, uint64_t position, uint64_t size, uint64_t packets);
    void *user;

    int stop;                        /* see sl_drive_stop */
    uint64_t packets;                /* received */
    uint64_t no_port;                /* packets whose output port does not exist */
    uint64_t no_checksum;            /* packets that were not sent, as their checksum was left to a card and is unknown */
    struct sl_leaving *leaving;      /* by port; private to the driver */
    struct sl_workers *workers;      /* the boxes that get the packets in place of `box`; NULL: one box. Without ports */

    /* Inline, that is with `peer`: */
    struct sl_source *copy;          /* gets what is transmitted at any port; may be NULL */
    int fault;                       /* set by the caller when a function failed; sl_box_failure counts as well */
    uint8_t on_fault;                /* enum sl_drive_policy, for packets after a function failed */
    /* For packets that arrive while the source is congested. SL_DRIVE_CLOSED, as SL_DRIVE_STOP: the box processes them,
     * and what then finds no room in the ring is dropped by the kernel. */
    uint8_t on_overload;
    uint64_t unseen_fault, unseen_overload;   /* packets that the box did not process, for these reasons */
    bool leaves_out;                 /* functions are left out while the source is congested (sl_box_overloaded) */
    int trial;                       /* a socket that gets copies of the packets (trial.h); 0: none */
    uint64_t trial_left_out;         /* packets of which it got none, as it had no room */
    struct sl_busy *busy;            /* the time that this thread spends with packets; NULL: it is not measured */
};

enum sl_driven {
    SL_DRIVEN_END,       /* the source has no more packets */
    SL_DRIVEN_FAULT,     /* the source failed, see sl_source_fault */
    SL_DRIVEN_STOPPED,   /* by sl_drive_stop, or by progress */
};

/* Runs until the source ends or the run is stopped. */
enum sl_driven sl_drive(struct sl_drive *drive);

/* Makes sl_drive return after it has processed the packets that have arrived so far, at most half a second later. */
void sl_drive_stop(struct sl_drive *drive);

/* Processes the caller's packets in the same way as sl_drive processes packets of a source. */
void sl_drive_burst(struct sl_drive *drive, const struct sl_frame *frames, size_t count);

/* Advances the time of the box while no packets arrive, and transmits what functions send meanwhile. Returns when it is to be
 * called again (see NAME_tick). */
uint64_t sl_drive_tick(struct sl_drive *drive, uint64_t now);

/* Flushes the outputs. */
void sl_drive_flush(struct sl_drive *drive);

/* Ends the input: every instance ends, functions report, and what they send is transmitted. This is done in steps,
 * between which progress is called; its result is ignored, because all steps must be done. */
void sl_drive_finish(struct sl_drive *drive);

/* Frees the driver's memory. The box and the sources are not closed. */
void sl_drive_close(struct sl_drive *drive);

#ifdef __cplusplus
}
#endif

#endif
