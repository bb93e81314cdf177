#include "instance.h"

#include "cache.h"
#include "send.h"

uint32_t service_core_channels(struct service_core *core, const uint32_t *counts)
{
    uint32_t channels = 0;

    for (uint32_t port = 0; port < core->program->port_count; port++) {
        core->first[port] = channels;
        core->counts[port] = counts[port];
        channels += counts[port];
    }
    return channels;
}

void service_instance_begin(struct service_instance *self, struct service_core *core)
{
    const struct service_program *program = core->program;
    struct service_channel *c = self->channels;
    uint32_t count = 0;

    for (uint32_t port = 0; port < program->port_count; port++)
        count += core->counts[port];
    memset(self, 0, service_instance_head(count) + program->own_size);
    self->core = core;
    self->channel_count = count;
    self->alive = program->rule_count == 64 ? UINT64_MAX : (UINT64_C(1) << program->rule_count) - 1;
    self->own = (uint8_t *)self + service_instance_head(count);
    self->in_use = true;
    for (uint32_t port = 0; port < program->port_count; port++)
        for (uint32_t i = 0; i < core->counts[port]; i++, c++) {
            c->instance = self;
            c->fd = -1;
            c->port = (uint16_t)port;
            c->index = (uint16_t)i;
            c->reopens = program->ports[port].sends;
            c->sums = program->ports[port].sums;
        }
}

/* Connects the backends that are not sent anything: no message would do so. */
static void open_inputs(struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count && !self->fault; i++) {
        struct service_channel *c = &self->channels[i];

        if (c->link == SERVICE_CLOSED && !self->core->program->ports[c->port].sends && !service_io_open(c))
            service_instance_broken(self, c);
    }
}

void service_instance_start(struct service_instance *self)
{
    const struct service_program *program = self->core->program;

    open_inputs(self);
    if (!program->begin || self->fault)
        return;
    if (program->shared_size)
        pthread_mutex_lock(&self->core->shared->lock);
    if (program->begin(self) != SERVICE_STEP && !self->fault)
        self->fault = SERVICE_LIMIT;
    if (program->shared_size)
        pthread_mutex_unlock(&self->core->shared->lock);
}

bool service_instance_broken(struct service_instance *self, struct service_channel *c)
{
    enum service_counter reason = (enum service_counter)self->fault;

    if (reason == SERVICE_CONNECT_FAILED || reason == SERVICE_TIMEOUT || reason == SERVICE_HANDSHAKE_FAILED ||
        reason == SERVICE_HANDSHAKE_SLOW || reason == SERVICE_UNVERIFIED ||
        ((reason == SERVICE_BACKEND_CLOSED || reason == SERVICE_RESET) && !c->reused && c->sent > c->received))
        service_backend_failed(c);
    if (c->cached && service_cache_rescue(c)) {
        self->fault = 0;
        return true;
    }
    if (self->h2 || self->begins) /* the program has not seen the connection */
        return false;
    if (!(self->core->program->handles >> service_class(reason) & 1) || service_transit(c) || c->from)
        return false;
    for (uint32_t i = 0; i < self->channel_count; i++)
        if (self->channels[i].to == c)
            return false; /* half of a message was sent */
    self->fault = 0;
    if (c->taken == 0 && !c->pinned)
        service_io_close(c);
    else
        c->in_ended = true; /* the current step uses the received bytes */
    if (c->reopens) {
        if (c->link == SERVICE_CLOSED)
            service_fresh(c);
    } else {
        c->in_ended = c->out_ending = c->out_ended = true;
    }
    c->broken = (uint8_t)reason;
    self->progressed = true;
    return true;
}

static bool read_all(struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++) {
        struct service_channel *c = &self->channels[i];

        if (c->readable && c->link == SERVICE_OPEN && !(c->to && service_io_splices(c)) && !service_io_fill(c) &&
            !service_instance_broken(self, c))
            return false;
    }
    return true;
}

static bool write_all(struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++) {
        struct service_channel *c = &self->channels[i];

        if (c->link == SERVICE_OPEN && c->writable && (c->out || (c->out_ending && !c->out_ended)) &&
            !service_io_flush(c) && !service_instance_broken(self, c))
            return false;
    }
    return true;
}

/* No message follows the one that was received last: other bytes are dropped. */
static void end_input(struct service_channel *c)
{
    if (c->in) {
        service_buffer_give(&c->instance->core->buffers, c->in);
        c->in = NULL;
    }
    c->in_ended = true;
    c->readable = false;
    c->instance->progressed = true;
}

static bool pass_all(struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++) {
        struct service_channel *c = &self->channels[i];

        if (service_transit(c) && c->taken == 0) {
            if (c->pipe && !service_io_splice(c))
                return false;
            if (!c->pipe) /* also for the bytes after those that passed in the kernel */
                service_pass(c);
            if (self->fault)
                return false;
            if (service_transit(c) && c->in_ended && service_io_piped(c) == 0 &&
                (service_buffer_held(c->in) == 0 || c->passing == 0)) {
                service_fail(self, SERVICE_TRUNCATED);
                return false;
            }
        }
        if (c->ends && !c->in_ended && c->taken == 0 && !service_transit(c))
            end_input(c);
    }
    return true;
}

/* Writes the end of a stream of messages. False if there is no room for it yet. */
static bool finish(struct service_channel *c, const struct service_port *port)
{
    uint32_t size = port->finish_size + (port->sums ? 4 : 0);
    uint8_t *at;

    if (c->finished || !port->finish)
        return true;
    if (service_room(c, size, &at) != SERVICE_STEP)
        return c->instance->fault != 0;
    memcpy(at, port->finish, port->finish_size);
    if (port->sums)
        service_store(at + port->finish_size, service_crc(c->sum_out, at, port->finish_size), 4, true);
    c->out->end += size;
    c->finished = c->instance->progressed = true;
    return true;
}

/* A backend that nothing more is sent to: its connection stays open for other instances when all answers are there. */
static void park(struct service_channel *c)
{
    if (!service_parks(c) || !c->out_ending || c->out_ended || c->link != SERVICE_OPEN || c->out ||
        c->received < c->sent || service_transit(c))
        return;
    c->parked = !c->in_ended; /* one that the backend has ended, perhaps only by close_notify of TLS, is closed */
    c->out_ended = c->in_ended = c->instance->progressed = true;
}

/* Shuts channels to which no rule can send any more; where no request can be sent, no answer is expected. */
static void end_outputs(struct service_instance *self)
{
    const struct service_program *program = self->core->program;
    uint64_t written = 0;

    for (uint32_t i = 0; i < program->rule_count; i++)
        if (self->alive >> i & 1)
            written |= program->rules[i].writes;
    for (uint32_t i = 0; i < self->channel_count; i++) {
        struct service_channel *c = &self->channels[i];

        if (written >> c->port & 1 || c->from)
            continue;
        if (program->ports[c->port].sends && !c->out_ending) {
            if (!finish(c, &program->ports[c->port]))
                continue;
            c->out_ending = true;
        }
        park(c);
        if (c->link == SERVICE_CLOSED)
            c->in_ended = true;
    }
}

/* Backends that have closed their connections: a fault where an answer is due. */
static bool settle_closed(struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++) {
        struct service_channel *c = &self->channels[i];

        if (!c->reopens || c->out_ending || c->link != SERVICE_OPEN || !service_drained(c) || c->broken)
            continue;
        if (!service_reopen(c)) {
            service_fail(self, SERVICE_BACKEND_CLOSED);
            if (!service_instance_broken(self, c))
                return false;
        }
    }
    return true;
}

/* Whether all that was sent has left. */
static bool all_sent(const struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++) {
        const struct service_channel *c = &self->channels[i];

        if (c->out || service_transit(c))
            return false;
    }
    return true;
}

static enum service_outcome run_rule(struct service_instance *self, const struct service_rule *rule)
{
    enum service_outcome outcome;

    if (!rule->shared)
        return rule->run(self);
    pthread_mutex_lock(&self->core->shared->lock);
    outcome = rule->run(self);
    pthread_mutex_unlock(&self->core->shared->lock);
    return outcome;
}

void service_instance_frame(struct service_instance *self)
{
    if (!self->frame)
        self->frame = service_frame_take(&self->core->frames, self->core->program->rule_count);
}

/* Each rule once. False if one has failed. */
static bool run_rules(struct service_instance *self)
{
    const struct service_program *program = self->core->program;

    service_instance_frame(self);
    for (uint32_t i = 0; i < program->rule_count; i++) {
        if (!(self->alive >> i & 1))
            continue;
        switch (run_rule(self, &program->rules[i])) {
        case SERVICE_STEP: /* also the end of a step that began in an earlier turn */
        case SERVICE_YIELD:
            self->progressed = true;
            break;
        case SERVICE_WAIT:
            break;
        case SERVICE_END:
            self->alive &= ~(UINT64_C(1) << i);
            self->progressed = true;
            break;
        case SERVICE_FAULT:
            return false;
        }
    }
    return true;
}

void service_instance_unframe(struct service_instance *self)
{
    if (self->frame)
        service_frame_give(&self->core->frames, self->frame);
    self->frame = NULL;
}

enum service_life service_instance_turn(struct service_instance *self)
{
    enum service_life life = SERVICE_AGAIN;

    do {
        self->progressed = false;
        if (!read_all(self) || !pass_all(self) || !run_rules(self)) {
            life = SERVICE_DEAD;
            break;
        }
        end_outputs(self);
        if (self->progressed)
            continue;
        if (!write_all(self) || !settle_closed(self)) {
            life = SERVICE_DEAD;
            break;
        }
        if (!self->progressed) { /* nothing was read, done, or written that would make room */
            life = SERVICE_ASLEEP;
            if (service_at_home(self) && !service_frame_needed(self->frame, self->alive))
                service_instance_unframe(self);
            break;
        }
    } while (!service_turn_over(self->core));
    if (life == SERVICE_AGAIN && !write_all(self))
        life = SERVICE_DEAD;
    if (life != SERVICE_DEAD && self->alive == 0 && all_sent(self)) {
        service_count(self, SERVICE_ENDED, 1);
        return SERVICE_DEAD;
    }
    if (life == SERVICE_DEAD)
        service_count(self, self->fault, 1);
    return life;
}
