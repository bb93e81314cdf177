/* The loop that takes packets through the contexts.
 *
 * All contexts run in one thread: the one that calls mtcp_app_join first, or, where a program has end hosts beside its
 * monitors, one of the library's own, as in mOS. Each packet goes to the context that the stack's dispatch chooses. Packets of
 * capture files come in the order of their times, and time is packet time: a run gives the same every time. */
#include "monitor.h"

#include "sluice_mos.h"

#include <poll.h>
#include <signal.h>

enum {
    SAME_EACH_TIME = 0,      /* the seed that chooses contexts: they share one thread, so no sender can crowd one of them */
    BURST = 256,             /* packets of an interface that are received at once */
    WAIT = 10,               /* milliseconds: how long timers and a stop may be delayed while no packet comes */
};

static struct {
    struct sl_drive drive;
    struct mos_context *contexts[MOS_CONTEXTS];
    unsigned count;
    struct mos_input *inputs;       /* by the port of a packet */
    unsigned input_count;
    uint64_t now;
    struct mos_burst {
        const struct sl_frame *frames;
        size_t count, timed, left;      /* packets that time has reached; that have left */
        const struct mos_input *input;  /* NULL: by their ports */
    } burst;
} loop;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool began, opened, running;
    bool beside;                    /* in a thread of the library's own, which is to be joined */
    bool destroy;                   /* mtcp_destroy was called while it ran in mtcp_app_join: a signal's handler may do so */
    pthread_t thread;               /* that it runs in */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* --- packets --- */

static int device_of(const struct sl_frame *frame)
{
    return (loop.burst.input ? loop.burst.input : &loop.inputs[frame->port])->device;
}

/* A packet of the burst goes where its device's packets go: as the callbacks left it, or, without a callback, as it came. */
static void leave(struct mos_context *context, size_t i)
{
    const struct sl_frame *frame = &loop.burst.frames[i];
    struct mos_packet *packet = &context->packet;
    const bool seen = packet->source == frame;
    packet->source = NULL;
    if (!mos_forwards(device_of(frame), frame->link_type) || (seen && packet->dropped))
        return;
    struct sl_frame out = seen ? packet->frame : *frame;
    if (out.flags & SL_FRAME_CHECKSUM_PARTIAL)
        mos_frame_complete(&out, packet->memory);
    mos_output(device_of(frame), &out);
}

/* Packets up to number i of the burst: each leaves before time goes on to the next one. */
static void go_on_to(struct mos_context *context, size_t i)
{
    struct mos_burst *burst = &loop.burst;
    while (burst->timed <= i && !mos_stopped()) {
        if (burst->left < burst->timed)
            leave(context, burst->left++);
        loop.now = sl_max(loop.now, burst->frames[burst->timed].time);
        mos_advance(loop.contexts, loop.count, loop.now);
        mos_sockets_free_closed(context);
        burst->timed += !mos_stopped();
    }
}

bool mos_packet_begin(struct mos_context *context, const struct sl_frame *frame)
{
    struct mos_packet *packet = &context->packet;
    if (packet->source == frame)
        return !mos_stopped();
    go_on_to(context, (size_t)(frame - loop.burst.frames));
    *packet = (struct mos_packet){.memory = packet->memory, .bytes = (uint8_t *)(uintptr_t)frame->at, .frame = *frame,
                                  .source = frame, .device = device_of(frame)};
    packet->frame.captured = (uint32_t)sl_min(frame->captured, MOS_FRAME_MOST);
    return !mos_stopped();
}

static void process(struct mos_context *context, const struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    loop.burst = (struct mos_burst){.frames = frames, .count = count, .input = input};
    sluice_mos_process(context->box, frames, count, NULL);
    if (count)
        go_on_to(context, count - 1);
    if (loop.burst.left < loop.burst.timed)
        leave(context, loop.burst.left);   /* the last, or the one during which it was stopped */
    context->packet.source = NULL;
    mos_sockets_free_closed(context);
}

/* Runs of packets of one context each: several contexts see packets in the order of time, too. */
static void process_frames(const struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    for (size_t first = 0, next; first < count && !mos_stopped(); first = next) {
        unsigned worker = loop.count > 1 ? sluice_mos_worker(&frames[first], loop.count, SAME_EACH_TIME) : 0;
        next = loop.count > 1 ? first + 1 : count;
        while (next < count && sluice_mos_worker(&frames[next], loop.count, SAME_EACH_TIME) == worker)
            next++;
        process(loop.contexts[worker], frames + first, next - first, input);
    }
}

/* Packets of an interface that packets are forwarded from, but for those that this host itself sends there. */
static void process_received(struct sl_frame *frames, size_t count, const struct mos_input *input)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!(frames[i].flags & SL_FRAME_OUTGOING) || !input->forwards)
            frames[kept++] = frames[i];
    process_frames(frames, kept, input);
}

/* In place of a box's functions, for the driver. */
static void process_burst(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts)
{
    (void)box, (void)verdicts;
    process_frames(frames, count, NULL);
    if (mos_stopped())
        sl_drive_stop(&loop.drive);
}

static uint64_t tick(struct sl_box *box, uint64_t clock)
{
    (void)box;
    if (mos_stopped())
        sl_drive_stop(&loop.drive);
    if (!clock)
        return SL_NEVER;   /* captures: time goes on with packets */
    loop.now = sl_max(loop.now, clock);
    mos_advance(loop.contexts, loop.count, loop.now);
    return mos_next_due(loop.contexts, loop.count);
}

/* Interfaces, one after the other: an answer comes after what it answers has been forwarded, and to hold packets back until
 * those of the other interfaces are known to be later would delay every round trip. */
static void run_interfaces(void)
{
    struct pollfd fds[MOS_DEVICES];
    for (unsigned i = 0; i < loop.input_count; i++) {
        fds[i] = (struct pollfd){.fd = -1};
        loop.inputs[i].source->back_end->descriptors(loop.inputs[i].source, &fds[i], 1);
    }
    while (!mos_stopped()) {
        bool idle = true, open = false;
        for (unsigned i = 0; i < loop.input_count; i++) {
            struct sl_frame frames[BURST];
            int32_t got = sl_source_receive(loop.inputs[i].source, frames, BURST);
            if (got > 0)
                process_received(frames, (size_t)got, &loop.inputs[i]);
            sl_source_release(loop.inputs[i].source);
            idle = idle && got <= 0;
            open = open || got >= 0;
            if (got < 0)
                fds[i].fd = -1;   /* its socket reports an error for ever, and poll would return at once */
        }
        if (!open)
            break;   /* no interface is left */
        tick(NULL, sl_source_clock(loop.inputs[0].source));
        if (idle)
            poll(fds, loop.input_count, WAIT);
    }
}

/* As one source, in the order of time. */
static bool run_merged(void)
{
    char message[SL_SOURCE_MESSAGE];
    struct sl_source **sources = calloc(loop.input_count, sizeof(struct sl_source *)), *all = NULL;
    for (unsigned i = 0; sources && i < loop.input_count; i++)
        sources[i] = loop.inputs[i].source;
    if (!sources || sl_merge_source_open(&all, sources, loop.input_count, true, message, sizeof message)) {
        fprintf(stderr, "libsluice_mos: %s\n", sources ? message : "not enough memory");
        return true;
    }
    loop.drive = (struct sl_drive){.process = process_burst, .tick = tick, .in = all};
    bool stopped = sl_drive(&loop.drive) == SL_DRIVEN_STOPPED;
    return stopped;
}

static bool forwards_live(void)
{
    bool forwards = false;
    for (unsigned i = 0; i < loop.input_count; i++) {
        if (!loop.inputs[i].live)
            return false;
        forwards = forwards || loop.inputs[i].forwards;
    }
    return forwards;
}

/* The devices are: packets that are sent from now on will be seen. */
static void opened(void)
{
    pthread_mutex_lock(&state.lock);
    __atomic_store_n(&state.opened, true, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

static void run(void)
{
    memset(&loop, 0, sizeof loop);
    loop.count = mos_contexts(loop.contexts);
    for (unsigned i = 0; i < loop.count; i++)
        loop.contexts[i]->thread = pthread_self();
    loop.input_count = mos_inputs_open(&loop.inputs);
    opened();
    bool stopped = false;
    if (loop.input_count && forwards_live())
        run_interfaces();
    else if (loop.input_count)
        stopped = run_merged();
    mos_inputs_report(stopped);
    for (unsigned i = 0; i < loop.count; i++) {
        mos_flows_end(loop.contexts[i]);
        sluice_mos_finish(loop.contexts[i]->box);
    }
    mos_outputs_close();
    if (loop.drive.in)
        sl_source_close(loop.drive.in, NULL, 0);   /* and those that it merges */
    else
        for (unsigned i = 0; i < loop.input_count; i++)
            sl_source_close(loop.inputs[i].source, NULL, 0);
}

/* --- its life --- */

static void ended(void)
{
    pthread_mutex_lock(&state.lock);
    __atomic_store_n(&state.running, false, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

static void *run_thread(void *argument)
{
    (void)argument;
    run();
    ended();
    return NULL;
}

bool mos_loop_runs(void) { return __atomic_load_n(&state.running, __ATOMIC_SEQ_CST); }

static bool in_loop(void) { return mos_loop_runs() && pthread_equal(state.thread, pthread_self()); }

/* mtcp_destroy was called while it ran. Taken once: by the loop as it ends, or by the caller, if the loop has ended before. */
static bool take_request(void) { return __atomic_exchange_n(&state.destroy, false, __ATOMIC_SEQ_CST); }

void mtcp_app_join(mctx_t mctx)
{
    if (!mctx || in_loop())
        return;
    pthread_mutex_lock(&state.lock);
    if (state.began) {   /* in another thread */
        while (state.running)
            pthread_cond_wait(&state.changed, &state.lock);
        pthread_mutex_unlock(&state.lock);
        return;
    }
    state.began = state.running = true;
    state.thread = pthread_self();
    pthread_mutex_unlock(&state.lock);
    run();
    ended();
    if (take_request())
        mtcp_destroy();
}

/* Signals are for the program's own threads. */
static int start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&state.thread, NULL, run_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void mos_run_beside(void)
{
    if (__atomic_load_n(&state.opened, __ATOMIC_ACQUIRE) || !mos_monitors())
        return;
    pthread_mutex_lock(&state.lock);
    if (!state.began) {
        state.began = state.running = state.beside = true;
        int error = start_thread();
        if (error) {
            fprintf(stderr, "libsluice_mos: no thread for the monitors: %s\n", strerror(error));
            state.running = state.beside = false;
        }
    }
    while (state.running && !state.opened)   /* so that it sees the program's own first packets */
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

bool mos_loop_finish(bool may_wait)
{
    if (may_wait && !in_loop() && __atomic_exchange_n(&state.beside, false, __ATOMIC_SEQ_CST)) {
        pthread_join(state.thread, NULL);   /* also where it has ended */
        return true;
    }
    if (!mos_loop_runs())
        return true;
    __atomic_store_n(&state.destroy, true, __ATOMIC_SEQ_CST);
    return !mos_loop_runs() && take_request();
}

void mos_loop_forget(void)
{
    pthread_mutex_lock(&state.lock);
    state.began = false;
    __atomic_store_n(&state.opened, false, __ATOMIC_RELEASE);   /* end hosts that still return read these two */
    __atomic_store_n(&state.running, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&state.beside, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&state.destroy, false, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&state.lock);
}
