/* Operations of compiled code on output messages: send, forward, copy, write, release. */
#ifndef SERVICE_SEND_H
#define SERVICE_SEND_H

#include "message.h"

/* A backend that has closed its connection and owes no answer: the next message opens another one. Not while a message is
 * being forwarded, which was answered before its end: another connection would parse its rest as the next message. */
static inline bool service_reopen(struct service_channel *c)
{
    if (!c->reopens || c->out_ending || c->link != SERVICE_OPEN || c->received < c->sent || c->out || c->from ||
        !service_drained(c))
        return false;
    service_io_close(c);
    service_fresh(c);
    service_count(c->instance, SERVICE_REOPENED, 1);
    return true;
}

/* Makes a channel ready to be sent to, with a buffer: SERVICE_STEP if it is. */
static inline enum service_outcome service_sendable(struct service_channel *c)
{
    struct service_instance *self = c->instance;

    if (c->broken)
        return service_notify(c);
    if (c->out_ending || c->out_ended)
        return service_fail(self, SERVICE_CLOSED_CHANNEL);
    if (c->from || (c->reopens && c->notes_count == SERVICE_NOTES))
        return SERVICE_WAIT;
    service_unasked(c);
    service_reopen(c);
    if (c->link == SERVICE_CLOSED && !service_io_open(c)) {
        if (self->fault == SERVICE_CONNECT_FAILED)
            service_backend_failed(c);
        return SERVICE_FAULT;
    }
    if (!c->out && !(c->out = service_buffer_for(self)))
        return SERVICE_WAIT;
    return SERVICE_STEP;
}

/* Whether a channel can be sent to now; `can c ! e`. */
static inline bool service_can_send(const struct service_channel *c)
{
    return !c->broken && !c->out_ending && !c->out_ended && !c->from;
}

/* bind(): a backend's address, from the next connection on; a connection on which nothing is due is closed. */
static inline void service_bind(struct service_channel *c, int64_t address)
{
    if (c->address == (uint32_t)address)
        return;
    c->address = (uint32_t)address;
    if (c->link != SERVICE_CLOSED && c->received >= c->sent && !c->out && !c->from && !service_transit(c) &&
        service_left(c) == 0) {
        service_io_close(c);
        service_fresh(c);
    }
}

/* Room for `size` bytes at the end of `out`: SERVICE_STEP and where they go. */
static inline enum service_outcome service_room(struct service_channel *c, uint64_t size, uint8_t **at)
{
    enum service_outcome outcome = service_sendable(c);
    uint32_t capacity = c->instance->core->buffers.size;

    if (outcome != SERVICE_STEP)
        return outcome;
    if (size > capacity)
        return service_fail(c->instance, SERVICE_TOO_LARGE);
    if (size > capacity - c->out->end && size <= capacity - service_buffer_held(c->out))
        service_buffer_compact(c->out);
    if (size > capacity - c->out->end)
        return SERVICE_WAIT;
    *at = c->out->bytes + c->out->end;
    return SERVICE_STEP;
}

/* A request was sent: an answer is due. */
static inline void service_due(struct service_channel *c, const struct service_message *message)
{
    if (!message->answered)
        return;
    service_tally_request(c, c->sent == c->received);
    if (c->sent++ == c->received)
        c->due_since = c->instance->core->now;
    if (c->instance->core->program->ports[c->port].notes && c->notes_count < SERVICE_NOTES)
        c->notes[(c->notes_first + c->notes_count++) % SERVICE_NOTES] = message->note;
}

/* The end of the bytes to a client is all that ends a message which has no length (RFC 9112, section 6.3). */
static inline void service_close_after(struct service_channel *c, const struct service_message *message)
{
    if (message->open && !c->reopens)
        c->out_ending = true;
}

/* `size` bytes of a message were written at the place from service_room(). */
static inline void service_wrote(struct service_channel *c, uint64_t size, const struct service_message *message)
{
    if (c->sums)
        c->sum_out = service_crc(c->sum_out, c->out->bytes + c->out->end, size);
    if (c->instance->core->log)
        service_log_response(c, c->out->bytes + c->out->end, size, message->origin, true);
    c->out->end += (uint32_t)size;
    service_due(c, message);
    service_close_after(c, message);
    c->instance->progressed = true;
    service_count(c->instance, SERVICE_SENT, 1);
}

/* Sends a received message unchanged; the whole message is in the buffer. */
static inline enum service_outcome service_copy(struct service_channel *c, const struct service_message *message)
{
    uint8_t *at;
    enum service_outcome outcome = service_room(c, message->total, &at);

    if (outcome == SERVICE_STEP) {
        memcpy(at, message->raw, message->total);
        if (message->origin)
            message->origin->unsent = false;
        service_wrote(c, message->total, message);
    }
    return outcome;
}

/* The next part of a message that passes, of which the parts before are sent. False if there is none yet, or if it is
 * malformed: `fault` is set then. */
static inline bool service_more_parts(struct service_channel *c)
{
    uint64_t take = 0, need = 0;
    const uint8_t *data = c->in ? c->in->bytes + c->in->start : NULL;

    if (c->tail.kind == SERVICE_TO_THE_END && c->in_ended && service_buffer_held(c->in) == 0) {
        if (c->cut) {
            service_fail(c->instance, SERVICE_TRUNCATED);
            return false;
        }
        c->tail.kind = SERVICE_NO_TAIL;
        c->ends = true;
        if (c->to)
            c->to->out_ending = true; /* the end of its bytes is all that ends the message */
        return true;
    }
    if (!data)
        return false;
    switch (service_next_part(&c->tail, data, service_buffer_held(c->in), &take, &need)) {
    case SERVICE_MALFORMED:
        service_fail(c->instance, SERVICE_BAD_MESSAGE);
        return false;
    case SERVICE_MORE:
        return false;
    case SERVICE_READY:
        break;
    }
    c->passing = take;
    return true;
}

/* A message has passed. */
static inline void service_passed(struct service_channel *c)
{
    if (c->to) {
        c->to->from = NULL;
        if (c->instance->core->log)
            service_log_passed(c->to);
        if (c->to->sent - c->to->received == 1) /* the time to answer begins when the request is there as a whole */
            c->to->due_since = c->instance->core->now;
    }
    c->to = NULL;
    c->waits_since = 0;
}

/* Moves the received part of `passing` bytes, as far as there is room. */
static inline void service_pass_bytes(struct service_channel *c)
{
    struct service_instance *self = c->instance;
    uint64_t size = service_buffer_held(c->in);

    if (size > c->passing)
        size = c->passing;
    if (c->to && size) {
        struct service_buffer *out = c->to->out;
        uint32_t capacity = self->core->buffers.size;

        if (!out) { /* it was flushed meanwhile */
            out = c->to->out = service_buffer_for(self);
            if (!out)
                return;
        }
        if (out->start == out->end)
            out->start = out->end = 0;
        if (size > capacity - out->end)
            size = capacity - out->end;
        memcpy(out->bytes + out->end, c->in->bytes + c->in->start, size);
        out->end += (uint32_t)size;
    }
    if (size) {
        if (c->to && self->core->log)
            service_log_moved(c->to, size);
        c->in->start += (uint32_t)size;
        c->passing -= size;
        if (!c->sums)
            service_moved(&c->pass_bytes, size);
        service_count(self, SERVICE_BYTES_PASSED, size);
        self->progressed = true;
    }
}

/* Moves the received part, as far as there is room, of a message that passes from `c`. */
static inline void service_pass(struct service_channel *c)
{
    do {
        service_pass_bytes(c);
        if (c->passing)
            break;
    } while (c->tail.kind && service_more_parts(c));
    service_empty_in(c);
    if (!service_transit(c))
        service_passed(c);
}

/* Sends the message that the step received last, as its last act: the platform passes it on. It is not copied as a whole
 * before, so that its size has no limit but that of its grammar. */
static inline enum service_outcome service_forward(struct service_channel *c, const struct service_message *message)
{
    struct service_channel *origin = message->origin;
    enum service_outcome outcome = service_sendable(c);

    if (outcome != SERVICE_STEP)
        return outcome;
    origin->unsent = false;
    origin->taken = 0;
    origin->passing = message->total;
    origin->to = c;
    origin->waits_since = c->instance->core->now;
    c->from = origin;
    service_due(c, message);
    service_count(c->instance, SERVICE_SENT, 1);
    if (c->instance->core->log)
        service_log_response(c, message->raw, message->here, origin, false);
    service_pass(origin);
    service_close_after(c, message);
    return SERVICE_STEP;
}

#endif
