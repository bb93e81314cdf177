/* Messages that have arrived, before they are received: their kind, and whether they are complete. message.h has what a
 * program does with them.
 *
 * A message that is received stays at the front of the channel's `in` until the step of the rule ends. One of which a
 * step only looks at some fields, and that it sends on as its last act, need not be in the buffer as a whole: it is
 * forwarded, and the platform forwards the rest as it arrives.
 */
#ifndef SERVICE_LOOK_H
#define SERVICE_LOOK_H

#include "backend.h"
#include "io.h"
#include "log.h"
#include "parts.h"

/* A message that came from a channel, or one that the program made (`raw` is null then). */
struct service_message {
    const uint8_t *raw;
    uint64_t here, total; /* bytes in the buffer, and in all */
    struct service_channel *origin;
    uint8_t note;                 /* to the parser: that of the request; from it: that of the message */
    uint8_t answered;             /* a request that has an answer */
    bool ended;                   /* to the parser: no bytes follow */
    bool changed;                 /* has to be serialised */
    bool open;                    /* only the end of its bytes ends it: nothing is sent after it */
    bool partial;                 /* its rest may be missing: it can only be forwarded */
};

/* The results of a parser besides the fields; it is used when the message is received. */
struct service_found {
    uint64_t need;             /* bytes without which it cannot go on */
    struct service_tail tail;  /* the part after `total` bytes, until the whole message is parsed */
    uint64_t tail_need;        /* bytes without which no more of it can be known */
    struct service_text hops;  /* header fields, of which those of the connection are blanked */
    struct service_text fill;  /* the value of Connection then, if there is room */
    struct service_text mute;  /* a line of Memcached whose request for no answer is blanked */
    uint32_t checksum;         /* that ends the stream */
    uint8_t final;             /* an answer that is the last one to its request */
    uint8_t last;              /* no message follows it */
    uint8_t open;              /* it lasts to the end of the bytes, which is there */
    uint8_t end;               /* no message, but the end of the stream */
};

/* Whether a response of HTTP has no body whatever its header fields are (RFC 9112, section 6.3). */
static inline bool service_bodiless(struct service_text status, int64_t note)
{
    return (note & 1) || (status.length && status.at[0] == '1') ||
           (status.length == 3 && (memcmp(status.at, "204", 3) == 0 || memcmp(status.at, "304", 3) == 0));
}

/* Looks at the message that the bytes begin with; sets the fields of `out`, and its `total`. */
typedef enum service_parsed service_parse(const uint8_t *data, uint64_t length, void *out, struct service_found *found);

/* Whether the end of the bytes to a channel is not shown to the backend: the answers show when nothing is due. */
static inline bool service_parks(const struct service_channel *c)
{
    return c->reopens && c->instance->core->program->ports[c->port].exact;
}

/* Counts bytes of a period, up to the largest number. */
static inline void service_moved(uint32_t *bytes, uint64_t by)
{
    *bytes = by < UINT32_MAX - *bytes ? *bytes + (uint32_t)by : UINT32_MAX;
}

/* A connection accepts no more for now. */
static inline void service_blocked(struct service_channel *c)
{
    c->writable = false;
    if (c->out_since == 0) {
        c->out_since = c->instance->core->now;
        c->out_bytes = 0;
    }
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

/* Whether all bytes of a connection that has ended were received. */
static inline bool service_drained(const struct service_channel *c)
{
    return c->in_ended && !service_transit(c) && service_left(c) == 0;
}

/* Whether a channel has ended. A backend may answer again as long as it may be sent to. */
static inline bool service_over(const struct service_channel *c)
{
    return service_drained(c) && (!c->reopens || c->out_ending);
}

/* Whether it may pay to receive from it. */
static inline bool service_waiting(const struct service_channel *c)
{
    return !service_transit(c) && c->in && service_left(c) >= (c->need ? c->need : 1);
}

/* A malformed message: later bytes cannot be separated from its rest, and are dropped. */
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

/* Nothing of a connection that was closed is left. */
static inline void service_fresh(struct service_channel *c)
{
    c->in_ended = c->ends = false;
    c->received = c->sent = 0;
    c->asked_at = 0;
    c->notes_count = c->interims = 0;
}

/* Whether one more interim response of a backend is to be taken. If not, a final one that followed would answer the next
 * request: the connection is closed. */
static inline bool service_interim(struct service_channel *c)
{
    if (!c->instance->core->program->ports[c->port].notes || c->interims++ < SERVICE_INTERIMS)
        return true;
    service_unreadable(c, SERVICE_INTERIM);
    if (c->from || c->in) {
        c->interims = 0;
        return false; /* half of a request was sent, or the current step uses its bytes: settle_closed() closes it */
    }
    service_io_close(c);
    service_fresh(c);
    return false;
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

/* Bytes of a backend while no answer is due would be taken as the answer to the next request. They are dropped, and the
 * connection is closed; the next message opens another one. (A server may say so that it closes an idle connection: RFC
 * 9110, section 15.5.9.) False if there are none. */
static inline bool service_unasked(struct service_channel *c)
{
    if (!c->reopens || c->fd < 0 || c->received < c->sent || !c->instance->core->program->ports[c->port].strict ||
        c->taken || c->pinned || service_transit(c) || service_left(c) == 0)
        return false;
    c->in->start = c->in->end;
    service_empty_in(c);
    c->in_ended = c->ends = c->instance->progressed = true;
    c->readable = false;
    service_count(c->instance, SERVICE_UNASKED, 1);
    return true;
}

/* How much of a message has to be there: the fields that the program names; all of it, if it fits into a buffer; or all. */
enum service_want { SERVICE_FIELDS, SERVICE_FITTING, SERVICE_WHOLE };

/* The next message on a channel, without consuming it: SERVICE_STEP if it is complete. */
static inline enum service_outcome service_look(struct service_channel *c, service_parse *parse, enum service_want want,
                                                struct service_message *message, struct service_found *found)
{
    struct service_instance *self = c->instance;
    uint64_t left = service_left(c), need;
    const uint8_t *data;
    bool complete;

    if (service_transit(c))
        return SERVICE_WAIT;
    if (c->broken)
        return service_notify(c);
    if (service_unasked(c))
        return service_over(c) ? SERVICE_END : SERVICE_WAIT;
    if (left == 0)
        return service_over(c) ? SERVICE_END : SERVICE_WAIT;
    if (c->waits_since == 0)
        c->waits_since = self->core->now;
    if (left < c->need)
        return c->in_ended ? service_unreadable(c, SERVICE_TRUNCATED) : SERVICE_WAIT;
    data = c->in->bytes + c->in->start + c->taken;
    message->note = service_note(c);
    message->answered = found->final = 1;
    found->last = found->end = found->open = found->tail.kind = 0;
    found->hops.length = found->fill.length = found->mute.length = 0;
    message->ended = c->in_ended && !c->cut; /* a message up to an unannounced end may be incomplete */
    switch (parse(data, left, message, found)) {
    case SERVICE_MALFORMED:
        return service_unreadable(c, SERVICE_BAD_MESSAGE);
    case SERVICE_READY:
        complete = message->total <= left && found->tail.kind == SERVICE_NO_TAIL;
        need = message->total > left ? message->total : found->tail_need;
        if (complete || want == SERVICE_FIELDS || (want == SERVICE_FITTING && need > self->core->buffers.size)) {
            if (found->end)
                return service_stream_end(c, data, message->total, found->checksum);
            message->raw = data;
            message->here = message->total < left ? message->total : left;
            message->origin = c;
            message->changed = false;
            message->open = found->open;
            message->partial = want == SERVICE_FIELDS || !complete;
            c->waits_since = 0;
            return SERVICE_STEP;
        }
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
        return service_unreadable(c, SERVICE_TOO_LARGE); /* the data of the step fills the buffer */
    c->need = (uint32_t)need;
    return SERVICE_WAIT;
}

/* The same, for whether it is there. */
static inline enum service_outcome service_glance(struct service_channel *c, service_parse *parse, enum service_want want,
                                                  struct service_message *message)
{
    struct service_found found;

    return service_look(c, parse, want, message, &found);
}

/* The same, for a step that uses the message without taking it. */
static inline enum service_outcome service_peek(struct service_channel *c, service_parse *parse, enum service_want want,
                                                struct service_message *message)
{
    struct service_found found;
    enum service_outcome outcome = service_look(c, parse, want, message, &found);

    if (outcome == SERVICE_STEP) {
        c->fresh = c->taken == 0 && !c->pinned; /* else data of the step outlives an iteration */
        c->pinned = true;
    }
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

#endif
