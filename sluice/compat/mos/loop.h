/* The loop that takes packets through contexts (loop.c), in whichever threads. */
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
    struct mos_outputs outputs;
};

void mos_loop_open(void);      /* with all contexts that there are; devices are open then */
void mos_loop_run(void);       /* all packets, up to the end of the flows */
void mos_loop_process(const struct sl_frame *frames, size_t count);   /* frame->port: which of the inputs it came from */
void mos_loop_tick(uint64_t clock);       /* time goes on to it */
bool mos_loop_is_here(void);   /* do callbacks run in this thread, */
bool mos_loop_is_of(const struct mos_context *context);   /* those of this context? */

bool mos_interfaces_forward(const struct mos_input *inputs, unsigned count);   /* are all inputs such (interfaces.c)? */
void mos_interfaces_run(const struct mos_input *inputs, unsigned count);

/* --- its thread (run.c) --- */

bool mos_loop_runs(void);
void mos_run_beside(void);     /* with monitors: it runs, in a thread of its own if need be, and devices are open */

/* It has ended, for mtcp_destroy; waits for a thread of its own if it may. False where the caller is in it, or may not wait, or
 * it runs in mtcp_app_join: that calls mtcp_destroy again. */
bool mos_loop_finish(bool may_wait);
void mos_loop_forget(void);    /* it may begin again */

#endif
