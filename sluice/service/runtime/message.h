/* Operations of compiled code on received messages: receive, and release. look.h has their inspection, send.h their
 * output. */
#ifndef SERVICE_MESSAGE_H
#define SERVICE_MESSAGE_H

#include "look.h"

/* The end of a step: its message of a channel is released; the rest of a message that is not forwarded is skipped. */
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

/* Receives the next message. */
static inline enum service_outcome service_receive(struct service_channel *c, service_parse *parse, enum service_want want,
                                                   struct service_message *message)
{
    struct service_found found;
    enum service_outcome outcome;

    if (c->taken && service_transit(c))
        service_release(c); /* a message that could have been forwarded, and was not: nothing uses it any more */
    c->fresh = c->taken == 0 && !c->pinned;
    outcome = service_look(c, parse, c->fresh ? want : SERVICE_WHOLE, message, &found);
    if (outcome == SERVICE_STEP && !found.final && !service_interim(c))
        return SERVICE_FAULT;
    if (outcome == SERVICE_STEP && found.hops.length && /* within the buffer, which is this channel's own */
        !service_hops(c->in->bytes + (found.hops.at - c->in->bytes), found.hops.length, found.fill))
        return service_unreadable(c, SERVICE_BAD_MESSAGE);
    if (outcome == SERVICE_STEP && found.mute.length)
        service_mute(c->in->bytes + (found.mute.at - c->in->bytes), found.mute.length);
    if (outcome == SERVICE_STEP) {
        c->taken += (uint32_t)message->here;
        c->passing = message->total - message->here;
        c->tail = found.tail;
        c->to = NULL;
        c->copies = false;
        if (service_transit(c))
            c->pass_bytes = 0;
        c->need = 0;
        c->waits_since = service_transit(c) ? c->instance->core->now : 0;
        c->reused = false;
        if (found.final) {
            c->interims = 0;
            service_tally_answer(c);
            c->received++;
            if (c->received == c->sent)
                c->received = c->sent = 0;
            c->due_since = c->instance->core->now;
            if (c->notes_count) {
                c->notes_count--;
                c->notes_first = (c->notes_first + 1) % SERVICE_NOTES;
            }
        }
        if (c->sums)
            c->sum_in = service_crc(c->sum_in, message->raw, message->total);
        if (c->instance->core->log)
            service_log_request(c, message->raw, message->here);
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

#endif
