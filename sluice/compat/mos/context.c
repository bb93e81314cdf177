/* Contexts, and the loop that takes packets of capture files through them.
 *
 * All contexts run in the thread that joins the first of them, packet by packet in the order of their times, each packet in
 * the context that the stack's dispatch chooses. So a run gives the same every time; time is packet time. */
#include "monitor.h"

#include "sluice_mos.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>

enum {
    CONTEXTS = 64,
    ETHER_ALIGNED = 2,       /* bytes before an Ethernet header of 14 bytes, so that what follows lies at a multiple of 4 */
    TIMERS_AT_ONCE = 4096,   /* callbacks of timers between two packets; a clock that jumps farther does so at once */
    SAME_EACH_TIME = 0,      /* the seed that chooses contexts: they share one thread, so that nobody can crowd one of them */
};

void mos_boxed_for(struct sl_box *box, struct mos_context *context);

static struct {
    bool read;                       /* the configuration */
    bool running, ran;
    bool destroy;                    /* mtcp_destroy was called while it ran */
    struct mos_context *contexts[CONTEXTS];
    uint64_t seed;
} library;

static struct output {
    const char *name;                /* the configuration's */
    struct sl_writer *writer;
    bool failed;                     /* it could not be opened */
    bool told;                       /* that a frame could not be written: of another link type, or no space */
} outputs[MOS_DEVICES];

struct mos_context *mos_context_of(mctx_t mctx) { return (struct mos_context *)(void *)mctx; }

/* --- set-up --- */

int mtcp_init(const char *config_file)
{
    if (mos_configuration_read(config_file))
        return -1;
    library.read = true;
    if (getrandom(&library.seed, sizeof library.seed, 0) != sizeof library.seed)
        library.seed = 1;
    return 0;
}

int mtcp_getconf(struct mtcp_conf *conf)
{
    if (!conf) {
        errno = EFAULT;
        return -1;
    }
    *conf = mos_configuration.conf;
    return 0;
}

int mtcp_setconf(const struct mtcp_conf *conf)
{
    if (!conf || conf->num_cores < 0 || conf->max_concurrency < 0 || conf->rcvbuf_size < 0) {
        errno = EINVAL;
        return -1;
    }
    struct mtcp_conf *own = &mos_configuration.conf;
    own->num_cores = conf->num_cores > 0 ? conf->num_cores : own->num_cores;
    own->max_concurrency = conf->max_concurrency > 0 ? conf->max_concurrency : own->max_concurrency;
    own->rcvbuf_size = conf->rcvbuf_size;
    own->tcp_timeout = conf->tcp_timeout;
    int before = own->tcp_tw_interval;   /* one value by two names: the one that was changed counts */
    own->tcp_tw_interval = own->tcp_timewait = conf->tcp_tw_interval != before ? conf->tcp_tw_interval : conf->tcp_timewait;
    return 0;
}

mtcp_sighandler_t mtcp_register_signal(int signum, mtcp_sighandler_t handler) { return signal(signum, handler); }

static uint64_t nanoseconds(int seconds) { return seconds > 0 ? (uint64_t)seconds * 1000000000u : 0; }

static void free_context(struct mos_context *context)
{
    if (context->box)
        sluice_mos_close(context->box);
    for (int id = 0; id < context->socket_count; id++)
        if (context->sockets[id])
            mos_socket_free(context, context->sockets[id]);
    mos_sockets_free_closed(context);
    free(context->sockets);
    free(context->free_id);
    free(context->timers);
    free(context->packet.memory);
    free(context->shown);
    free(context);
}

mctx_t mtcp_create_context(int cpu)
{
    const struct mtcp_conf *conf = &mos_configuration.conf;
    if (!library.read || cpu < 0 || cpu >= conf->num_cores || cpu >= CONTEXTS || library.contexts[cpu]) {
        errno = EINVAL;
        return NULL;
    }
    struct mos_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->public.cpu = cpu;
    context->thread = pthread_self();
    context->open.after = conf->tcp_timeout > 0 ? nanoseconds(conf->tcp_timeout) : SL_NEVER;
    context->time_wait.after = nanoseconds(conf->tcp_tw_interval);
    context->packet.memory = malloc(MOS_FRAME_ROOM + ETHER_ALIGNED);
    context->shown = malloc(MOS_SHOWN_ROOM);
    const uint64_t instances = 2 * (uint64_t)conf->max_concurrency;   /* also for SYNs without a flow */
    const struct sl_options options = {
        .seed = library.seed,
        .memory = (uint64_t)64 << 20,   /* fragments */
        .max_instances = (uint32_t)sl_min(instances, SL_TABLE_MOST),
        .timeouts = true,
    };
    context->box = context->packet.memory && context->shown ? sluice_mos_open(&options) : NULL;
    const uint32_t of_all = (uint32_t)sl_min(instances * CONTEXTS, SL_TABLE_MOST);
    if (!context->box || mos_translated_open(of_all, library.seed)) {
        fputs("libsluice_mos: not enough memory for a context\n", stderr);
        free_context(context);
        errno = ENOMEM;
        return NULL;
    }
    mos_boxed_for(context->box, context);
    library.contexts[cpu] = context;
    return &context->public;
}

static void end_all(struct mos_context *context)
{
    while (context->open.first)
        mos_flow_end(context->open.first, 0);
    while (context->time_wait.first)
        mos_flow_end(context->time_wait.first, 0);
}

int mtcp_destroy_context(mctx_t mctx)
{
    struct mos_context *context = NULL;
    for (int cpu = 0; cpu < CONTEXTS; cpu++)   /* it may be gone already */
        if (library.contexts[cpu] && mctx == &library.contexts[cpu]->public)
            context = library.contexts[cpu];
    if (!context) {
        errno = EINVAL;
        return -1;
    }
    context->stopping = true;   /* perhaps out of a signal's handler: the loop ends first */
    if (library.running)
        return 0;
    end_all(context);
    library.contexts[context->public.cpu] = NULL;
    free_context(context);
    return 0;
}

int mtcp_destroy(void)
{
    if (library.running) {   /* out of a callback or a signal's handler: the loop ends first */
        for (int cpu = 0; cpu < CONTEXTS; cpu++)
            if (library.contexts[cpu])
                library.contexts[cpu]->stopping = true;
        library.destroy = true;
        return 0;
    }
    for (int cpu = 0; cpu < CONTEXTS; cpu++)
        if (library.contexts[cpu])
            mtcp_destroy_context(&library.contexts[cpu]->public);
    mos_translated_close();
    mos_events_forget();
    mos_configuration_free();
    library.read = library.ran = library.destroy = false;
    return 0;
}

/* --- time --- */

static bool earlier(const struct mos_timer *a, const struct mos_timer *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void swap_timers(struct mos_timer *a, struct mos_timer *b)
{
    struct mos_timer timer = *a;
    *a = *b;
    *b = timer;
}

int mtcp_settimer(mctx_t mctx, int id, struct timeval *timeout, callback_t callback)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!context || !timeout || !callback || timeout->tv_sec < 0 || timeout->tv_usec < 0) {
        errno = EINVAL;
        return -1;
    }
    if (context->timer_count == context->timer_room) {
        unsigned room = context->timer_room ? 2 * context->timer_room : 16;
        struct mos_timer *timers = realloc(context->timers, room * sizeof *timers);
        if (!timers) {
            errno = ENOMEM;
            return -1;
        }
        context->timers = timers;
        context->timer_room = room;
    }
    uint64_t seconds = sl_min((uint64_t)timeout->tv_sec, SL_NEVER / 2000000000u);
    uint64_t after = seconds * 1000000000u + sl_min((uint64_t)timeout->tv_usec, 1000000u) * 1000u;
    after = sl_max(after, 1);   /* else one that sets itself again would be due at once for ever */
    uint64_t when = after > SL_NEVER - context->time ? SL_NEVER : context->time + after;   /* never, behind the end of time */
    unsigned at = context->timer_count++;
    context->timers[at] = (struct mos_timer){when, context->timer_order++, id, callback};
    for (; at && earlier(&context->timers[at], &context->timers[(at - 1) / 2]); at = (at - 1) / 2)
        swap_timers(&context->timers[at], &context->timers[(at - 1) / 2]);
    return 0;
}

static struct mos_timer take_timer(struct mos_context *context)
{
    struct mos_timer first = context->timers[0];
    context->timers[0] = context->timers[--context->timer_count];
    for (unsigned at = 0, child; (child = 2 * at + 1) < context->timer_count; at = child) {
        if (child + 1 < context->timer_count && earlier(&context->timers[child + 1], &context->timers[child]))
            child++;
        if (!earlier(&context->timers[child], &context->timers[at]))
            break;
        swap_timers(&context->timers[at], &context->timers[child]);
    }
    return first;
}

uint32_t mtcp_cb_get_ts(mctx_t mctx) { return (uint32_t)(mos_context_of(mctx)->time / 1000); }

static uint64_t due(const struct mos_queue *queue) { return queue->first ? queue->first->deadline : SL_NEVER; }

/* When the next timer of a context fires, or the next flow ends; SL_NEVER for none. */
static uint64_t next_due(const struct mos_context *context)
{
    uint64_t timer = context->timer_count ? context->timers[0].due : SL_NEVER;
    return sl_min(timer, sl_min(due(&context->open), due(&context->time_wait)));
}

/* What was set before the first packet counts from there. */
static void start(struct mos_context *context, uint64_t now)
{
    if (context->started)
        return;
    context->started = true;
    for (unsigned i = 0; i < context->timer_count; i++)
        context->timers[i].due = context->timers[i].due > SL_NEVER - now ? SL_NEVER : context->timers[i].due + now;
    context->time = now;
}

/* What is due next happens. */
static void happen(struct mos_context *context, uint64_t next)
{
    if (context->timer_count && context->timers[0].due == next) {
        struct mos_timer first = take_timer(context);
        first.callback(&context->public, first.id, MOS_SIDE_BOTH, MOS_NULL_EVENT, NULL);
    } else if (due(&context->open) == next) {
        mos_flow_end(context->open.first, MOS_ON_TIMEOUT);
    } else {
        mos_flow_end(context->time_wait.first, 0);
    }
}

static bool stopped(void)
{
    for (int cpu = 0; cpu < CONTEXTS; cpu++)
        if (library.contexts[cpu] && library.contexts[cpu]->stopping)
            return true;
    return false;
}

/* Time goes on to `now`: timers fire and flows end, each at its time, of all contexts in the order of time. */
static void advance(struct mos_context **contexts, unsigned count, uint64_t now)
{
    for (unsigned i = 0; i < count; i++)
        start(contexts[i], now);
    for (unsigned happened = 0; !stopped(); happened++) {
        struct mos_context *first = contexts[0];
        for (unsigned i = 1; i < count; i++)
            first = next_due(contexts[i]) < next_due(first) ? contexts[i] : first;
        uint64_t next = next_due(first);
        if (next > now || next == SL_NEVER)
            break;
        first->time = sl_max(first->time, happened > TIMERS_AT_ONCE ? now : next);
        happen(first, next);
    }
    for (unsigned i = 0; i < count; i++)
        contexts[i]->time = sl_max(contexts[i]->time, now);
}

/* --- the loop --- */

/* What the driver's bursts are processed by. */
static struct {
    struct sl_drive drive;
    struct mos_context *contexts[CONTEXTS];
    unsigned count;
    int devices[MOS_DEVICES];   /* by the port of a packet */
    uint64_t now;
} loop;

static struct output *output_of(const char *name)
{
    for (struct output *output = outputs; output < outputs + MOS_DEVICES; output++) {
        if (!output->name)
            output->name = name;
        if (strcmp(output->name, name) == 0)
            return output;
    }
    return NULL;
}

/* Where packets of a device are written, begun if it is not yet; NULL when they are not. */
static struct output *output_for(int device, uint32_t link_type)
{
    const char *name = device >= 0 && device < mos_configuration.device_count ? mos_configuration.devices[device].to : NULL;
    struct output *output = name && mos_configuration.forward ? output_of(name) : NULL;
    if (!output || output->failed)
        return NULL;
    char message[SL_CAPTURE_MESSAGE];
    if (!output->writer && sl_writer_open(&output->writer, name, link_type, 0, message, sizeof message)) {
        fprintf(stderr, "libsluice_mos: %s\n", message);
        output->failed = true;
        return NULL;
    }
    return output;
}

int mos_output(int device, const struct sl_frame *frame)
{
    struct output *output = output_for(device, frame->link_type);
    if (!output)
        return -1;
    if (sl_writer_write(output->writer, frame) == 0)
        return 0;
    if (!output->told)
        fprintf(stderr, "libsluice_mos: %s: %s\n", output->name, sl_writer_fault(output->writer));
    output->told = true;
    return -1;
}

static void close_outputs(void)
{
    for (struct output *output = outputs; output < outputs + MOS_DEVICES; output++) {
        char message[SL_CAPTURE_MESSAGE];
        if (sl_writer_close(output->writer, message, sizeof message))
            fprintf(stderr, "libsluice_mos: %s\n", message);
        *output = (struct output){0};
    }
}

static void process(struct mos_context *context, const struct sl_frame *frame, int device)
{
    struct mos_packet *packet = &context->packet;
    uint8_t *memory = packet->memory, *bytes = memory + (frame->link_type == 1 ? ETHER_ALIGNED : 0);
    *packet = (struct mos_packet){.memory = memory, .bytes = bytes, .frame = *frame, .device = device};
    packet->frame.at = bytes;
    packet->frame.captured = (uint32_t)sl_min(frame->captured, MOS_FRAME_MOST);
    if (packet->frame.captured)
        memcpy(bytes, frame->at, packet->frame.captured);
    output_for(device, frame->link_type);   /* a file, even if everything is dropped */
    sluice_mos_process(context->box, &packet->frame, 1, NULL);
    if (!packet->dropped)
        mos_output(device, &packet->frame);
    mos_sockets_free_closed(context);
}

/* In place of a box's function: each packet goes to the context of its connection, whose time is that of all. */
static void process_burst(struct sl_box *box, const struct sl_frame *frames, size_t count, struct sl_verdict *verdicts)
{
    (void)box, (void)verdicts;
    for (const struct sl_frame *frame = frames; frame < frames + count; frame++) {
        if (stopped()) {
            sl_drive_stop(&loop.drive);
            return;
        }
        loop.now = sl_max(loop.now, frame->time);
        advance(loop.contexts, loop.count, loop.now);
        process(loop.contexts[sluice_mos_worker(frame, loop.count, SAME_EACH_TIME)], frame, loop.devices[frame->port]);
    }
}

/* Opens the devices as one source; NULL where there is none. inputs: by port, the source of each, which belongs to that one. */
static struct sl_source *open_devices(struct sl_source **inputs, size_t *count)
{
    struct sl_source **opened = calloc(MOS_DEVICES, sizeof(struct sl_source *)), *all = NULL;
    char message[SL_SOURCE_MESSAGE];
    *count = 0;
    for (int device = 0; opened && device < mos_configuration.device_count; device++) {
        if (sl_source_open(&opened[*count], mos_configuration.devices[device].name, NULL, message, sizeof message)) {
            fprintf(stderr, "libsluice_mos: %s\n", message);
            continue;
        }
        inputs[*count] = opened[*count];
        loop.devices[(*count)++] = device;
    }
    if (*count && sl_merge_source_open(&all, opened, *count, true, message, sizeof message))
        fprintf(stderr, "libsluice_mos: %s\n", message);
    else if (!*count)
        free(opened);
    return all;
}

static void run(void)
{
    struct sl_source *inputs[MOS_DEVICES];
    size_t count;
    memset(&loop, 0, sizeof loop);
    for (int cpu = 0; cpu < CONTEXTS; cpu++)
        if (library.contexts[cpu]) {
            library.contexts[cpu]->thread = pthread_self();
            loop.contexts[loop.count++] = library.contexts[cpu];
        }
    loop.drive = (struct sl_drive){.process = process_burst, .in = open_devices(inputs, &count)};
    library.running = library.ran = true;
    if (loop.drive.in && sl_drive(&loop.drive) != SL_DRIVEN_STOPPED)
        for (size_t port = 0; port < count; port++)
            if (sl_source_fault(inputs[port]))
                fprintf(stderr, "libsluice_mos: %s\n", sl_source_fault(inputs[port]));
    for (unsigned i = 0; i < loop.count; i++) {
        end_all(loop.contexts[i]);
        sluice_mos_finish(loop.contexts[i]->box);
    }
    library.running = false;
    close_outputs();
    sl_source_close(loop.drive.in, NULL, 0);
    if (library.destroy)
        mtcp_destroy();
}

void mtcp_app_join(mctx_t mctx)
{
    if (mctx && !library.ran)
        run();
}
