/* Time limits of waiting. Times are whole seconds, so that a limit of 1 is 1 to 2 s. */

#include "cache.h"
#include "h2.h"
#include "linger.h"
#include "message.h"
#include "tls.h"

bool service_too_slow(uint32_t now, uint32_t limit, uint32_t rate, uint32_t *since, uint32_t *bytes)
{
    uint64_t least = (uint64_t)rate * limit;

    if (limit == 0 || now - *since <= limit)
        return false;
    if (*bytes < (least < UINT32_MAX ? least : UINT32_MAX) || *bytes == 0) /* as far as they are counted */
        return true;
    *since = now;
    *bytes = 0;
    return false;
}

/* Whether the output of a channel is blocked because the other side accepts nothing. */
static bool blocked(const struct service_channel *c) { return c->to && c->to->out_since; }

/* Whether a backend owes something: a connection, an answer to a whole request, or the rest of one. An
 * answer that the current step has parsed is complete, and one that the program has not parsed yet has begun. */
static bool owes(const struct service_channel *c)
{
    uint32_t due = c->sent > c->received ? c->sent - c->received : 0; /* a backend can also send unasked */

    return c->reopens && c->link != SERVICE_CLOSED && !blocked(c) &&
           (service_transit(c) || c->pinned || c->need || service_left(c) == 0) &&
           (service_transit(c) || due > (uint32_t)(c->from && c->link == SERVICE_OPEN) + c->pinned);
}

/* Whether a client's message passes too slowly. The time in which the other side accepts nothing does not count. */
static bool slow_body(struct service_channel *c, uint32_t now, const struct service_config *config)
{
    if (c->reopens || !service_transit(c))
        return false;
    if (!blocked(c))
        return service_too_slow(now, config->body_time, config->body_rate, &c->waits_since, &c->pass_bytes);
    c->waits_since = now;
    c->pass_bytes = 0;
    return false;
}

/* Why an instance has waited too long; 0 if it has not. */
static enum service_counter overdue(struct service_lane *lane, struct service_instance *instance,
                                    struct service_channel **where)
{
    const struct service_config *config = lane->config;
    uint32_t now = lane->core.now;

    for (uint32_t i = 0; i < instance->channel_count; i++) {
        struct service_channel *c = *where = &instance->channels[i];

        if (c->secure && config->handshake && service_tls_waits(c) && now - service_tls_waits(c) > config->handshake)
            return SERVICE_HANDSHAKE_SLOW;
        if (config->timeout && owes(c) && now - c->due_since > config->timeout)
            return SERVICE_TIMEOUT;
        if (config->message_time && c->waits_since && !service_transit(c) && now - c->waits_since > config->message_time)
            return SERVICE_SLOW;
        if (slow_body(c, now, config))
            return SERVICE_SLOW_BODY;
        if (c->out_since && service_too_slow(now, config->body_time, config->body_rate, &c->out_since, &c->out_bytes))
            return SERVICE_SLOW_READER;
    }
    *where = NULL;
    if (instance->h2 && service_h2_silent(instance))
        return SERVICE_TIMEOUT;
    return config->idle && now - instance->active > config->idle ? SERVICE_IDLE : 0;
}

/* Of those that wait for a buffer, the ones that have waited too long get a turn, in which they end. */
static void end_starved(struct service_lane *lane)
{
    struct service_instance **link = &lane->starved, *instance;

    while ((instance = *link) != NULL) {
        struct service_channel *where;
        enum service_counter reason = overdue(lane, instance, &where);

        if (!reason) {
            link = &instance->next;
            continue;
        }
        *link = instance->next;
        instance->queued = false;
        instance->fault = (uint8_t)reason;
        if (where)
            service_instance_broken(instance, where); /* the program handles it: there is no fault then */
        service_lane_queue(lane, instance);
    }
}

void service_end_overdue(struct service_lane *lane)
{
    struct service_instance *next;

    if (lane->config->cache)
        service_cache_tick(lane);
    end_starved(lane);
    for (struct service_instance *instance = lane->oldest; instance; instance = next) {
        struct service_channel *where;
        enum service_counter reason;

        next = instance->newer;
        if (instance->queued || instance->fault)
            continue;
        if (instance->lingers) {
            if (service_linger_over(instance))
                service_lane_give(lane, instance);
            continue;
        }
        reason = overdue(lane, instance, &where);
        if (!reason && instance->h2 && service_h2_reset_slow(instance))
            service_lane_queue(lane, instance);
        if (!reason)
            continue;
        instance->fault = (uint8_t)reason;
        if (where && service_instance_broken(instance, where)) {
            service_lane_queue(lane, instance);
            continue;
        }
        service_core_count(&lane->core, reason, 1);
        service_lane_give(lane, instance);
    }
    service_lane_wake(lane); /* the buffers of ended instances are free */
}
