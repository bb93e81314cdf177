/* The loop that processes packets in contexts (loop.c), in whichever threads. */
#ifndef MOS_LOOP_H
#define MOS_LOOP_H

#include "monitor.h"

struct mos_burst {
    const struct sl_frame *frames;
    size_t timed, left;             /* packets that time has reached; that have left */
};

/* A thread, and the contexts whose callbacks run in it. */
struct mos_run {
    struct mos_context *contexts[MOS_CONTEXTS];
    unsigned count;
    bool forwards;                  /* packets leave */
    uint64_t now;
    struct mos_burst burst;
    const struct mos_input *inputs; /* by the port of a packet */
    struct mos_outputs outputs;
};

/* --- threads (thread.c) --- */

extern _Thread_local struct mos_run *mos_here __attribute__((tls_model("initial-exec")));   /* the thread's own */

bool mos_loop_runs(void);
void mos_loop_set_runs(bool runs);
bool mos_loop_is_here(void);   /* do callbacks run in this thread, */
bool mos_loop_is_of(const struct mos_context *context);   /* those of this context? */

/* --- packets of a burst (burst.c) --- */

void mos_burst_begin(struct mos_context *context, const struct sl_frame *frames);
bool mos_burst_is_still(const struct sl_frame *frames, size_t count);   /* no flow ends by time meanwhile */
bool mos_burst_reaches(struct mos_context *context, size_t i);   /* time reaches a packet. False when the run was stopped */
void mos_burst_end(struct mos_context *context, size_t count);   /* all have left */

/* --- the loop --- */

void mos_loop_open(void);      /* with all contexts that there are; devices are open then */
void mos_loop_run(void);       /* all packets, up to the end of the flows */
bool mos_interfaces_forward(const struct mos_input *inputs, unsigned count);   /* are all inputs such (interfaces.c)? */

/* Delivers received packets, frame->port: the number of its input; and the time. */
struct mos_passed_on {
    void (*packets)(const struct sl_frame *frames, size_t count);
    void (*time)(uint64_t clock);
};
void mos_interfaces_run(const struct mos_input *inputs, unsigned count, const struct mos_passed_on *on);

/* --- its thread (run.c) --- */

void mos_run_beside(void);     /* with monitors: it runs, in a separate thread if necessary, and devices are open */

#endif
