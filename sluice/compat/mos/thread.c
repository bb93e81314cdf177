/* Which thread runs the callbacks of which contexts, and the flags of a stop, which nearly all calls read. */
#include "loop.h"

/* The model costs no call in a shared library, and a program that loads one later has room for 8 bytes. */
_Thread_local struct mos_run *mos_here __attribute__((tls_model("initial-exec")));

/* Contexts by core. The memory is never freed: a program's threads may use a context that another one has destroyed, which
 * then fails, as it has stopped. The data of such threads is outside of it, and is not cleared. */
struct mos_context mos_context_memory[MOS_CONTEXTS];
static bool stopped[MOS_CONTEXTS], stopping, running;

bool mos_loop_is_of(const struct mos_context *context) { return mos_here && mos_here == context->run; }

bool mos_loop_is_here(void) { return mos_here != NULL; }

bool mos_loop_runs(void) { return __atomic_load_n(&running, __ATOMIC_SEQ_CST); }

void mos_loop_set_runs(bool runs) { __atomic_store_n(&running, runs, __ATOMIC_SEQ_CST); }

/* The sockets and flows of a context are of the thread that runs its callbacks, as long as that runs. */
bool mos_is_foreign(const struct mos_context *context)
{
    return mos_loop_runs() && !mos_loop_is_of(context);
}

bool mos_stopped(void) { return __atomic_load_n(&stopping, __ATOMIC_RELAXED); }

void mos_set_stopped(bool is) { __atomic_store_n(&stopping, is, __ATOMIC_RELAXED); }

unsigned mos_context_core(const struct mos_context *context) { return (unsigned)(context - mos_context_memory); }

bool mos_context_stopped(const struct mos_context *context)
{
    return __atomic_load_n(&stopped[mos_context_core(context)], __ATOMIC_SEQ_CST);
}

void mos_context_set_stopped(const struct mos_context *context, bool is)
{
    __atomic_store_n(&stopped[mos_context_core(context)], is, __ATOMIC_SEQ_CST);
}
