/* What compiled code does with messages: receive, forward, copy, write, release.
 *
 * A message that is received stays at the front of the channel's `in` until the step of the rule ends. One of which a
 * step only looks at some fields, and that it sends on as its last act, need not be in the buffer as a whole: it is
 * forwarded, and the platform passes the rest on as it comes.
 */
#ifndef SERVICE_MESSAGE_H
#define SERVICE_MESSAGE_H

#include "io.h"
#include "text.h"

/* A message that came from a channel, or one that the program made (`raw` is null then). */
struct service_message {
    const uint8_t *raw;
    uint64_t here, total; /* bytes in the buffer, and in all */
    struct service_channel *origin;
    uint8_t note;                 /* to the parser: that of the request; from it: that of the message */
    uint8_t answered;             /* a request to which an answer comes */
    bool ended;                   /* to the parser: no bytes follow */
    bool changed;                 /* has to be serialised */
};

/* What a parser finds out besides the fields; it is used when the message is received. */
struct service_found {
    uint64_t need;             /* bytes without which it cannot go on */
    struct service_tail tail;  /* what follows `total` bytes, until the message is known as a whole */
    uint64_t tail_need;        /* bytes without which no more of it can be known */
    struct service_text blank; /* bytes that are overwritten by spaces, */
    struct service_text fill;  /* after this, if it fits */
    uint32_t checksum;         /* that ends the stream */
    uint8_t final;             /* an answer that is the last one to its request */
    uint8_t last;              /* no message follows it */
    uint8_t end;               /* no message, but the end of the stream */
};

/* Whether a response of HTTP has no body whatever its header fields say (RFC 9112, section 6.3). */
static inline bool service_bodiless(struct service_text status, int64_t note)
{
    return (note & 1) || (status.length && status.at[0] == '1') ||
           (status.length == 3 && (memcmp(status.at, "204", 3) == 0 || memcmp(status.at, "304", 3) == 0));
}

/* Looks at the message that the bytes begin with; sets the fields of `out`, and its `total`. */
typedef enum service_parsed service_parse(const uint8_t *data, uint64_t length, void *out, struct service_found *found);

static inline void service_count(struct service_instance *self, enum service_counter what, uint64_t by)
{
    self->core->counters[what] += by;
}

/* Whether the end of what is sent to a channel is not shown to the backend: the answers say when nothing is due. */
static inline bool service_parks(const struct service_channel *c)
{
    return c->reopens && c->instance->core->program->ports[c->port].exact;
}

/* Gives the buffer `in` back if it is empty. */
static inline void service_empty_in(struct service_channel *c)
{
    if (c->in && c->in->start == c->in->end) {
        service_buffer_give(&c->instance->core->buffers, c->in);
        c->in = NULL;
    }
}

/* Bytes of `in` that the current step has not received. */
static inline uint64_t service_left(const struct service_channel *c)
{
    return service_buffer_held(c->in) - c->taken;
}

/* Whether all that has come from a connection that has ended was received. */
static inline bool service_drained(const struct service_channel *c)
{
    return c->in_ended && !service_transit(c) && service_left(c) == 0;
}

/* Whether nothing is to come from a channel. A backend may answer again as long as it may be sent to. */
static inline bool service_over(const struct service_channel *c)
{
    return service_drained(c) && (!c->reopens || c->out_ending);
}

/* Whether it may pay to receive from it. */
static inline bool service_waiting(const struct service_channel *c)
{
    return !service_transit(c) && c->in && service_left(c) >= (c->need ? c->need : 1);
}

/* A message that cannot be read: what comes after it cannot be told from its rest, and is dropped. */
static inline enum service_outcome service_unreadable(struct service_channel *c, enum service_counter reason)
{
    if (c->in && c->taken == 0 && !c->pinned)
        c->in->start = c->in->end;
    else if (c->in)
        c->in->end = c->in->start + c->taken;
    if (!c->pinned)
        service_empty_in(c);
    c->in_ended = true;
    c->readable = false;
    return service_fail(c->instance, reason);
}

/* The fault of a connection that has ended while the program handles such faults. It is reported once. */
static inline enum service_outcome service_notify(struct service_channel *c)
{
    enum service_counter reason = (enum service_counter)c->broken;

    c->broken = 0;
    return service_fail(c->instance, reason);
}

/* The note of the request to which the next answer of a channel belongs. */
static inline uint8_t service_note(const struct service_channel *c)
{
    return c->notes_count ? c->notes[c->notes_first] : 0;
}

/* The mark that ends a stream: nothing follows it. Its checksum is that of all before it. */
static inline enum service_outcome service_stream_end(struct service_channel *c, const uint8_t *data,
                                                      uint64_t total, uint32_t checksum)
{
    bool wrong = c->sums && service_crc(c->sum_in, data, total - 4) != checksum;

    service_unreadable(c, SERVICE_CHECKSUM);
    if (wrong)
        return SERVICE_FAULT;
    c->instance->fault = 0;
    return service_over(c) ? SERVICE_END : SERVICE_WAIT;
}

/* The message that stands next on a channel, without taking it: SERVICE_STEP if it is there. `whole`: with all its bytes,
 * not only with the fields that the program names. */
static inline enum service_outcome service_look(struct service_channel *c, service_parse *parse, bool whole,
                                                struct service_message *message, struct service_found *found)
{
    struct service_instance *self = c->instance;
    uint64_t left = service_left(c), need;
    const uint8_t *data;

    if (service_transit(c))
        return SERVICE_WAIT;
    if (c->broken)
        return service_notify(c);
    if (left == 0)
        return service_over(c) ? SERVICE_END : SERVICE_WAIT;
    if (c->waits_since == 0)
        c->waits_since = self->core->now;
    if (left < c->need)
        return c->in_ended ? service_unreadable(c, SERVICE_TRUNCATED) : SERVICE_WAIT;
    data = c->in->bytes + c->in->start + c->taken;
    message->note = service_note(c);
    message->answered = found->final = 1;
    found->last = found->end = found->tail.kind = 0;
    found->blank.length = found->fill.length = 0;
    message->ended = c->in_ended;
    switch (parse(data, left, message, found)) {
    case SERVICE_MALFORMED:
        return service_unreadable(c, SERVICE_BAD_MESSAGE);
    case SERVICE_READY:
        if (!whole || (message->total <= left && found->tail.kind == SERVICE_NO_TAIL)) {
            if (found->end)
                return service_stream_end(c, data, message->total, found->checksum);
            message->raw = data;
            message->here = message->total < left ? message->total : left;
            message->origin = c;
            message->changed = false;
            c->waits_since = 0;
            return SERVICE_STEP;
        }
        need = message->total > left ? message->total : found->tail_need;
        break;
    default:
        need = found->need;
        break;
    }
    if (need > self->core->buffers.size)
        return service_unreadable(c, SERVICE_TOO_LARGE);
    if (c->in_ended)
        return service_unreadable(c, SERVICE_TRUNCATED);
    if (c->taken && c->in->start + c->taken + need > self->core->buffers.size)
        return service_unreadable(c, SERVICE_TOO_LARGE); /* what the step has received fills the buffer */
    c->need = (uint32_t)need;
    return SERVICE_WAIT;
}

/* The same, for whether it is there. */
static inline enum service_outcome service_glance(struct service_channel *c, service_parse *parse, bool whole,
                                                  struct service_message *message)
{
    struct service_found found;

    return service_look(c, parse, whole, message, &found);
}

/* The same, for a step that uses the message without taking it. */
static inline enum service_outcome service_peek(struct service_channel *c, service_parse *parse, bool whole,
                                                struct service_message *message)
{
    struct service_found found;
    enum service_outcome outcome = service_look(c, parse, whole, message, &found);

    c->pinned = c->pinned || outcome == SERVICE_STEP;
    return outcome;
}

/* size: the messages of a channel that are there as a whole. Negative after a fault. `scratch` holds one of them. */
static inline int64_t service_messages(struct service_channel *c, service_parse *parse, struct service_message *scratch)
{
    uint64_t left = service_transit(c) ? 0 : service_left(c), at = 0;
    struct service_found found;
    int64_t count = 0;

    while (at < left) {
        enum service_parsed parsed = parse(c->in->bytes + c->in->start + c->taken + at, left - at, scratch, &found);

        if (parsed == SERVICE_MALFORMED) {
            service_unreadable(c, SERVICE_BAD_MESSAGE);
            return -1;
        }
        if (parsed == SERVICE_MORE || scratch->total > left - at)
            break;
        at += scratch->total;
        count++;
    }
    return count;
}

/* Takes the message that stands next. */
static inline enum service_outcome service_receive(struct service_channel *c, service_parse *parse, bool whole,
                                                   struct service_message *message)
{
    struct service_found found;
    enum service_outcome outcome = service_look(c, parse, whole, message, &found);

    if (outcome == SERVICE_STEP) {
        c->taken += (uint32_t)message->here;
        c->passing = message->total - message->here;
        c->tail = found.tail;
        c->to = NULL;
        c->need = 0;
        c->waits_since = 0;
        if (found.final) {
            c->received++;
            if (c->received == c->sent)
                c->received = c->sent = 0;
            c->due_since = c->instance->core->now;
            if (c->notes_count) {
                c->notes_count--;
                c->notes_first = (c->notes_first + 1) % SERVICE_NOTES;
            }
        }
        if (found.blank.length) { /* within the buffer, which is this channel's own */
            uint8_t *at = c->in->bytes + (found.blank.at - c->in->bytes);

            memset(at, ' ', found.blank.length);
            if (found.fill.length && found.fill.length <= found.blank.length)
                memcpy(at, found.fill.at, found.fill.length);
        }
        if (c->sums)
            c->sum_in = service_crc(c->sum_in, message->raw, message->total);
        c->ends |= found.last;
        c->unsent = true;
        c->instance->progressed = true;
        service_count(c->instance, SERVICE_RECEIVED, 1);
    }
    return outcome;
}

/* A channel of an array from which a message may be taken, in turn: null, and SERVICE_WAIT or SERVICE_END. */
static inline struct service_channel *service_any(struct service_instance *self, struct service_channel *first,
                                                  uint32_t count, enum service_outcome *outcome)
{
    bool over = true;

    for (uint32_t i = 0; i < count; i++) {
        struct service_channel *c = first + (self->turn + i) % count;

        if (service_waiting(c) || (!service_transit(c) && (c->broken || (c->in_ended && service_left(c))))) {
            self->turn = (uint16_t)(c - first + 1);
            return c;
        }
        over = over && service_over(c);
    }
    *outcome = over ? SERVICE_END : SERVICE_WAIT;
    return NULL;
}

/* Nothing of a connection that was closed is left. */
static inline void service_fresh(struct service_channel *c)
{
    c->in_ended = c->ends = false;
    c->received = c->sent = 0;
    c->notes_count = 0;
}

/* A backend that has closed its connection and owes no answer: the next message opens another one. */
static inline bool service_reopen(struct service_channel *c)
{
    if (!c->reopens || c->out_ending || c->link != SERVICE_OPEN || c->received < c->sent || c->out || !service_drained(c))
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
    service_reopen(c);
    if (c->link == SERVICE_CLOSED && !service_io_open(c))
        return SERVICE_FAULT;
    if (!c->out) {
        c->out = service_buffer_take(&self->core->buffers);
        if (!c->out) {
            self->starved = true;
            service_count(self, SERVICE_WAITED_BUFFER, 1);
            return SERVICE_WAIT;
        }
    }
    return SERVICE_STEP;
}

/* Whether a channel can be sent to now; `can c ! e`. */
static inline bool service_can_send(const struct service_channel *c)
{
    return !c->broken && !c->out_ending && !c->out_ended && !c->from;
}

/* load(): the connections of this worker's instances to the backend of a channel. */
static inline int64_t service_load_of(const struct service_channel *c)
{
    const uint32_t *loads = c->instance->core->loads;

    return loads ? loads[c->instance->first[c->port] + c->index] : 0;
}

/* bind(): a backend's address, from the next connection on; a connection on which nothing is due is closed. */
static inline void service_bind(struct service_channel *c, int64_t address)
{
    if (c->address == (uint32_t)address)
        return;
    c->address = (uint32_t)address;
    if (c->link != SERVICE_CLOSED && c->received >= c->sent && !c->out && !service_transit(c) && service_left(c) == 0) {
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
    if (c->sent++ == c->received)
        c->due_since = c->instance->core->now;
    if (c->instance->core->program->ports[c->port].notes && c->notes_count < SERVICE_NOTES)
        c->notes[(c->notes_first + c->notes_count++) % SERVICE_NOTES] = message->note;
}

/* `size` bytes of a message were written to where service_room() said. */
static inline void service_wrote(struct service_channel *c, uint64_t size, const struct service_message *message)
{
    if (c->sums)
        c->sum_out = service_crc(c->sum_out, c->out->bytes + c->out->end, size);
    c->out->end += (uint32_t)size;
    service_due(c, message);
    c->instance->progressed = true;
    service_count(c->instance, SERVICE_SENT, 1);
}

/* Sends a message as it came; it is in the buffer as a whole. */
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

/* The next part of a message that passes, of which the parts before are gone. False if there is none yet, or if it is
 * malformed: `fault` is set then. */
static inline bool service_more_parts(struct service_channel *c)
{
    uint64_t take = 0, need = 0;
    const uint8_t *data = c->in ? c->in->bytes + c->in->start : NULL;

    if (c->tail.kind == SERVICE_TO_THE_END && c->in_ended && service_buffer_held(c->in) == 0) {
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

/* Moves what there is of `passing` bytes, and what there is room for. */
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
            out = c->to->out = service_buffer_take(&self->core->buffers);
            if (!out) {
                self->starved = true;
                service_count(self, SERVICE_WAITED_BUFFER, 1);
                return;
            }
        }
        if (out->start == out->end)
            out->start = out->end = 0;
        if (size > capacity - out->end)
            size = capacity - out->end;
        memcpy(out->bytes + out->end, c->in->bytes + c->in->start, size);
        out->end += (uint32_t)size;
    }
    if (size) {
        c->in->start += (uint32_t)size;
        c->passing -= size;
        self->progressed = true;
    }
}

/* Moves what there is, and what there is room for, of a message that passes from `c`. */
static inline void service_pass(struct service_channel *c)
{
    do {
        service_pass_bytes(c);
        if (c->passing)
            break;
    } while (c->tail.kind && service_more_parts(c));
    service_empty_in(c);
    if (!service_transit(c)) {
        if (c->to)
            c->to->from = NULL;
        c->to = NULL;
    }
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
    c->from = origin;
    service_due(c, message);
    service_count(c->instance, SERVICE_SENT, 1);
    service_pass(origin);
    return SERVICE_STEP;
}

/* The end of a step: what it received from a channel is gone; the rest of a message that is not forwarded is skipped. */
static inline void service_release(struct service_channel *c)
{
    c->pinned = false;
    if (c->unsent) {
        c->unsent = false;
        service_count(c->instance, SERVICE_DROPPED, 1);
    }
    if (c->taken) {
        c->in->start += c->taken;
        c->taken = 0;
    }
    service_empty_in(c);
}

#endif
