/* Shared by the files of the HTTP cache. */
#ifndef SERVICE_CACHE_PARTS_H
#define SERVICE_CACHE_PARTS_H

#include "cache.h"
#include "message.h"

static inline struct service_cache *service_cache_of(const struct service_channel *c)
{
    return service_lane_of(c)->config->cache;
}

/* The state of a channel is in the memory of the lane that allocated its instance. */
static inline struct service_cached *service_cache_state(const struct service_channel *c)
{
    const struct service_instance *self = c->instance;

    return &self->home->cached[service_slot(self) * self->home->channels + (uint64_t)(c - self->channels)];
}

/* The seconds since another one. The clocks of workers, between which an instance can move, may differ by one. */
static inline uint32_t service_cache_elapsed(uint32_t now, uint32_t since) { return now > since ? now - since : 0; }

static inline void service_cache_give(struct service_channel *c, struct service_buffer **place)
{
    if (*place)
        service_buffer_give(&c->instance->core->buffers, *place);
    *place = NULL;
}

/* Appends a text to a buffer. False if it does not fit. */
static inline bool service_cache_put(struct service_buffer *buffer, uint32_t room, const void *bytes, uint64_t size)
{
    if (size > room - buffer->end)
        return false;
    memcpy(buffer->bytes + buffer->end, bytes, size);
    buffer->end += (uint32_t)size;
    return true;
}

/* --- cache.c: the phases of a channel */

/* The head of a request or response: its first line and its fields. `size` includes the empty line. */
enum service_parsed service_cache_split(const struct service_buffer *buffer, struct service_text *line,
                                        struct service_text *headers, uint32_t *size);

/* Parses the cache fields of the request in `asked`. */
void service_cache_asked(const struct service_cached *s, struct service_wish *wish);

/* Counts the pages that were replaced; the caller holds the lock. */
void service_cache_count_evicted(struct service_channel *c, struct service_cache *cache);

/* Nothing is stored of the current response. */
void service_cache_forget(struct service_channel *c, struct service_cached *s, bool uncacheable);

/* The request is answered, or dropped. */
void service_cache_end(struct service_channel *c, struct service_cached *s);

/* Ends the connection to the backend. Another one would parse the rest of a request as the next one. */
void service_cache_disconnect(struct service_channel *c, struct service_cached *s);

/* --- cache_wait.c: leaders, and those that wait; the caller holds the lock */

/* The list in which the leader of a hash is. */
struct service_cached **service_cache_leaders(struct service_cache *cache, uint64_t hash);

/* Adds a request to those that wait, and removes it. Only its own worker does so. */
void service_cache_wait(struct service_cache *cache, struct service_cached *s);
void service_cache_end_wait(struct service_cache *cache, struct service_cached *s);

/* Adds to a list, and removes from it. */
void service_cache_link(struct service_cached **list, struct service_cached *s);
void service_cache_unlink(struct service_cached **list, struct service_cached *s);

/* Whether a request for the same is on its way to the backend. */
bool service_cache_has_leader(struct service_cache *cache, uint64_t hash);

/* A leader ends: instances that waited for it continue. */
void service_cache_end_lead(struct service_cache *cache, struct service_cached *s);

/* Whether requests of a hash do not wait for each other: service_cache_set_pass() was called just now. */
bool service_cache_passes(const struct service_cache *cache, uint64_t hash, uint32_t now);

/* The response cannot be stored: requests like it do not wait for each other for a while. */
void service_cache_set_pass(struct service_cache *cache, uint64_t hash, uint32_t now);

/* --- cache_wait.c: without the lock */

/* The leader has ended, or it has taken too long: the request is looked at again. */
void service_cache_resume(struct service_channel *c, struct service_cached *s);

/* --- cache_answer.c: look-up, and stored responses */

/* Decides how to answer a request, from the cache or the backend. */
void service_cache_look_up(struct service_channel *c, struct service_cached *s, const struct service_wish *wish,
                           const struct service_cache_key *key);

/* Whether the stored response of a request may be used after the backend has failed; it is used. */
bool service_cache_survives(struct service_channel *c, const struct service_cached *s);
void service_cache_use_stale(struct service_channel *c, struct service_cached *s);

/* Moves `most` bytes of `raw` at most to `in`; how many. */
uint32_t service_cache_move(struct service_channel *c, struct service_cached *s, uint64_t most);

/* Copies a stored response, as far as there is room. False if it has to wait. */
bool service_cache_serve(struct service_channel *c, struct service_cached *s);

/* --- cache_record.c: responses of the backend */

/* Parses the head of a response. False if it is incomplete. */
bool service_cache_read_head(struct service_channel *c, struct service_cached *s);

/* Moves the received part of a response to `in`. False if it is incomplete, or if there is no room. */
bool service_cache_pass(struct service_channel *c, struct service_cached *s);

#endif
