/* A compiled program over channels in memory, for comparison with the interpreter: bytes are given in pieces, and what is
 * sent is collected. Implements io.h. */
#include <stdlib.h>

#include "../../sluice/service/runtime/instance.h"
#include "../../sluice/service/runtime/send.h"

struct end {
    uint8_t *given, *taken;
    size_t given_length, given_at, given_room, taken_length, taken_room;
    bool over, shut;
};

struct trial {
    struct service_core core;
    struct service_shared shared;
    struct service_instance *instance;
    struct end *ends;
    unsigned budget; /* bytes that each read and write may move */
    int life;
};

extern const struct service_program service_program;

/* Each time slice is over when it is looked at. */
bool service_slice_over(struct service_core *core)
{
    (void)core;
    return true;
}

/* There is no access log. */
void service_log_request(struct service_channel *c, const uint8_t *raw, uint64_t length) { (void)c, (void)raw, (void)length; }

void service_log_response(struct service_channel *c, const uint8_t *raw, uint64_t size, const struct service_channel *origin,
                          bool whole)
{
    (void)c, (void)raw, (void)size, (void)origin, (void)whole;
}

void service_log_moved(struct service_channel *c, uint64_t size) { (void)c, (void)size; }
void service_log_passed(struct service_channel *c) { (void)c; }

/* There is no cache, and nothing is counted of backends. */
bool service_cache_rescue(struct service_channel *c) { return (void)c, false; }
int64_t service_tallied(const struct service_channel *c, size_t offset) { return (void)c, (void)offset, 0; }

bool service_turn_over(struct service_core *core) { return service_slice_over(core); }

/* Makes room for `size` bytes, and one: a pointer to no bytes is none that memcpy takes. */
static void grow(uint8_t **bytes, size_t *room, size_t size)
{
    if (size + 1 <= *room)
        return;
    *room = 2 * size + 64;
    *bytes = realloc(*bytes, *room);
    if (!*bytes)
        abort();
}

static struct end *end_of(const struct service_channel *c)
{
    struct trial *trial = (struct trial *)c->instance->core;

    return &trial->ends[c - c->instance->channels];
}

static unsigned budget_of(const struct service_channel *c)
{
    return ((struct trial *)c->instance->core)->budget;
}

bool service_io_open(struct service_channel *c)
{
    c->link = SERVICE_OPEN;
    c->readable = c->writable = true;
    return true;
}

bool service_io_fill(struct service_channel *c)
{
    struct service_buffers *pool = &c->instance->core->buffers;
    struct end *end = end_of(c);
    size_t size = end->given_length - end->given_at;

    if (!c->in && !(c->in = service_buffer_take(pool)))
        return true;
    if (c->in->start && c->taken == 0 && !c->pinned)
        service_buffer_compact(c->in);
    if (size > pool->size - c->in->end)
        size = pool->size - c->in->end;
    if (size > budget_of(c))
        size = budget_of(c);
    if (size)
        memcpy(c->in->bytes + c->in->end, end->given + end->given_at, size);
    c->in->end += (uint32_t)size;
    end->given_at += size;
    c->instance->progressed |= size > 0;
    if (end->given_at == end->given_length && end->over && !c->in_ended) {
        c->in_ended = true;
        c->instance->progressed = true;
    }
    service_empty_in(c);
    return true;
}

bool service_io_flush(struct service_channel *c)
{
    struct end *end = end_of(c);

    if (c->out) {
        uint32_t size = c->out->end - c->out->start;

        if (size > budget_of(c))
            size = budget_of(c);
        grow(&end->taken, &end->taken_room, end->taken_length + size);
        memcpy(end->taken + end->taken_length, c->out->bytes + c->out->start, size);
        end->taken_length += size;
        c->out->start += size;
        c->instance->progressed |= size > 0;
        if (c->out->start == c->out->end) {
            service_buffer_give(&c->instance->core->buffers, c->out);
            c->out = NULL;
        }
    }
    if (!c->out && c->out_ending && !c->out_ended && !c->from)
        c->out_ended = end->shut = c->instance->progressed = true;
    return true;
}

bool service_io_splices(struct service_channel *c)
{
    (void)c;
    return false; /* there is no kernel here */
}

bool service_io_splice(struct service_channel *c)
{
    (void)c;
    return true;
}

uint32_t service_io_piped(const struct service_channel *c)
{
    (void)c;
    return 0;
}

void service_io_close(struct service_channel *c)
{
    struct service_buffers *pool = &c->instance->core->buffers;

    if (c->in)
        service_buffer_give(pool, c->in);
    if (c->out)
        service_buffer_give(pool, c->out);
    c->in = c->out = NULL;
    c->link = SERVICE_CLOSED;
}

struct trial *trial_make(const uint32_t *counts, uint32_t buffer_size, unsigned budget)
{
    struct trial *trial = calloc(1, sizeof *trial);
    struct service_core other; /* of a worker that hands the instance to this one, which has made none itself */
    uint32_t channels;

    trial->core.program = &service_program;
    trial->core.work = 60;
    trial->budget = budget;
    pthread_mutex_init(&trial->shared.lock, NULL);
    trial->core.shared = &trial->shared;
    if (service_program.shared_size) {
        struct service_instance scratch = {.core = &trial->core};

        trial->shared.state = calloc(1, service_program.shared_size);
        if (service_program.begin_shared)
            service_program.begin_shared(&scratch);
    }
    channels = service_core_channels(&trial->core, counts);
    memset(&other, 0, sizeof other);
    other.program = &service_program;
    service_core_channels(&other, counts);
    service_buffers_make(&trial->core.buffers, 2 * channels, buffer_size);
    service_frames_make(&trial->core.frames, 1, service_program.frame_size);
    trial->instance = aligned_alloc(64, (service_instance_head(channels) + service_program.own_size + 63) & ~(size_t)63);
    service_instance_begin(trial->instance, &other);
    trial->instance->core = &trial->core;
    trial->instance->home = (struct service_lane *)(void *)&trial->core;
    trial->ends = calloc(channels, sizeof *trial->ends);
    for (uint32_t i = 0; i < channels; i++) {
        trial->instance->channels[i].address = 0x7f000001;
        trial->instance->channels[i].reopens = false; /* its end is an end, not a fault */
        service_io_open(&trial->instance->channels[i]);
    }
    service_instance_start(trial->instance);
    return trial;
}

void trial_give(struct trial *trial, uint32_t channel, const uint8_t *data, uint32_t length, bool over)
{
    struct end *end = &trial->ends[channel];

    grow(&end->given, &end->given_room, end->given_length + length);
    if (length)
        memcpy(end->given + end->given_length, data, length);
    end->given_length += length;
    end->over = end->over || over;
}

/* Runs until nothing changes; the life of the instance. */
int trial_run(struct trial *trial)
{
    for (unsigned i = 0; i < 100000 && trial->life != SERVICE_DEAD; i++) {
        trial->life = (int)service_instance_turn(trial->instance);
        if (trial->life == SERVICE_ASLEEP)
            break;
    }
    return trial->life;
}

int trial_fault(const struct trial *trial) { return trial->instance->fault; }

const uint8_t *trial_sent(const struct trial *trial, uint32_t channel, uint64_t *length)
{
    *length = trial->ends[channel].taken_length;
    return trial->ends[channel].taken;
}

uint64_t trial_counter(const struct trial *trial, uint32_t counter) { return trial->core.counters[counter]; }

uint64_t trial_buffers(const struct trial *trial) { return trial->core.buffers.taken; }

void trial_free(struct trial *trial)
{
    for (uint32_t i = 0; i < trial->instance->channel_count; i++) {
        free(trial->ends[i].given);
        free(trial->ends[i].taken);
    }
    for (uint32_t i = 0; i < trial->instance->channel_count; i++)
        service_io_close(&trial->instance->channels[i]);
    service_buffers_free(&trial->core.buffers);
    service_frames_free(&trial->core.frames);
    free(trial->ends);
    free(trial->shared.state);
    free(trial->instance);
    free(trial);
}
