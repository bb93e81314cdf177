/* Requests for the same response: one of them, the leader, is on its way to the backend; the others wait. */
#include "cache_parts.h"

enum { WAIT_MOST = 5 }; /* seconds for which a request waits for another one */

bool service_cache_waits(const struct service_instance *self)
{
    for (uint32_t i = 0; i < self->channel_count; i++)
        if (self->channels[i].cached && service_cache_state(&self->channels[i])->phase == SERVICE_CACHE_WAITS)
            return true;
    return false;
}

struct service_cached **service_cache_leaders(struct service_cache *cache, uint64_t hash)
{
    return &cache->leaders[hash % SERVICE_CACHE_LEADERS];
}

void service_cache_link(struct service_cached **list, struct service_cached *s)
{
    s->before = NULL;
    s->next = *list;
    if (*list)
        (*list)->before = s;
    *list = s;
}

void service_cache_unlink(struct service_cached **list, struct service_cached *s)
{
    *(s->before ? &s->before->next : list) = s->next;
    if (s->next)
        s->next->before = s->before;
}

static struct service_cached **waiters(struct service_cache *cache, uint64_t hash)
{
    return &cache->waiting[hash % SERVICE_CACHE_LEADERS];
}

void service_cache_wait(struct service_cache *cache, struct service_cached *s)
{
    struct service_cached **list = &service_lane_of(s->channel)->cache_waiting;

    service_cache_link(waiters(cache, s->hash), s);
    s->lane_before = NULL;
    s->lane_next = *list;
    if (*list)
        (*list)->lane_before = s;
    *list = s;
}

void service_cache_end_wait(struct service_cache *cache, struct service_cached *s)
{
    service_cache_unlink(waiters(cache, s->hash), s);
    *(s->lane_before ? &s->lane_before->lane_next : &service_lane_of(s->channel)->cache_waiting) = s->lane_next;
    if (s->lane_next)
        s->lane_next->lane_before = s->lane_before;
}

bool service_cache_has_leader(struct service_cache *cache, uint64_t hash)
{
    struct service_cached *each = *service_cache_leaders(cache, hash);

    while (each && each->hash != hash)
        each = each->next;
    return each;
}

/* Those that wait for a response get a turn of their worker. */
static void wake(struct service_cache *cache, uint64_t hash)
{
    for (struct service_cached *each = *waiters(cache, hash); each; each = each->next) {
        struct service_lane *lane = service_lane_of(each->channel);

        if (each->hash != hash || __atomic_exchange_n(&each->ready, true, __ATOMIC_RELEASE))
            continue;
        if (!atomic_exchange(&lane->cache_woken, true))
            service_worker_wake(lane->worker);
    }
}

void service_cache_end_lead(struct service_cache *cache, struct service_cached *s)
{
    if (!s->leads)
        return;
    service_cache_unlink(service_cache_leaders(cache, s->hash), s);
    s->leads = false;
    wake(cache, s->hash);
}

bool service_cache_passes(const struct service_cache *cache, uint64_t hash, uint32_t now)
{
    return cache->passes[hash % SERVICE_CACHE_PASSES].hash == hash && cache->passes[hash % SERVICE_CACHE_PASSES].until > now;
}

void service_cache_set_pass(struct service_cache *cache, uint64_t hash, uint32_t now)
{
    cache->passes[hash % SERVICE_CACHE_PASSES].hash = hash;
    cache->passes[hash % SERVICE_CACHE_PASSES].until = now + SERVICE_CACHE_PASS_TIME;
}

void service_cache_wake(struct service_lane *lane)
{
    if (!atomic_load_explicit(&lane->cache_woken, memory_order_relaxed) || !atomic_exchange(&lane->cache_woken, false))
        return;
    for (struct service_cached *each = lane->cache_waiting; each; each = each->lane_next)
        if (__atomic_load_n(&each->ready, __ATOMIC_RELAXED))
            service_lane_queue(lane, each->channel->instance);
}

void service_cache_tick(struct service_lane *lane)
{
    for (struct service_cached *each = lane->cache_waiting; each; each = each->lane_next) {
        each->channel->due_since = lane->core.now; /* its backend has no request yet */
        if (lane->core.now - each->since >= WAIT_MOST) {
            __atomic_store_n(&each->ready, true, __ATOMIC_RELEASE);
            service_lane_queue(lane, each->channel->instance);
        }
    }
}

void service_cache_resume(struct service_channel *c, struct service_cached *s)
{
    struct service_cache *cache = service_cache_of(c);

    pthread_mutex_lock(&cache->lock);
    service_cache_end_wait(cache, s);
    pthread_mutex_unlock(&cache->lock);
    s->ready = false;
    s->alone = c->instance->core->now - s->since >= WAIT_MOST;
    s->phase = SERVICE_CACHE_IDLE;
    c->due_since = c->instance->core->now;
}
