/* Requests that are noted for the access log, and the ring of lines. */
#include "log_file.h"
#include "message.h"
#include "worker.h"

#include <stdlib.h>

static struct service_visit *visit_of(struct service_buffer *buffer) { return (struct service_visit *)buffer->bytes; }

static bool is_client(const struct service_channel *c)
{
    return c->port == service_lane_of(c)->config->listen_port;
}

const char *service_log_make(struct service_lane *lane)
{
    const struct service_config *config = lane->config;
    uint32_t workers = lane->worker->team->count;
    struct service_log *log;

    if (!config->log)
        return NULL;
    log = calloc(1, sizeof *log);
    if (!log)
        return "no memory for the access log";
    lane->core.log = log;
    log->file = config->log;
    for (log->size = 1024; log->size < config->log->ring; log->size *= 2)
        ;
    log->ring = malloc(log->size);
    if (!log->ring || !service_buffers_make(&log->visits, config->instances / workers, sizeof(struct service_visit)))
        return "no memory for the access log";
    return service_log_file_add(config->log, log);
}

void service_log_free(struct service_lane *lane)
{
    struct service_log *log = lane->core.log;

    if (!log)
        return;
    service_buffers_free(&log->visits);
    free(log->ring);
    free(log);
    lane->core.log = NULL;
}

/* Notes a text, as far as there is room for it. */
static uint16_t note(struct service_visit *visit, uint32_t at, uint32_t most, struct service_text text, bool *cut)
{
    uint32_t size = text.length < most ? text.length : most;

    memcpy(visit->text + at, text.at, size);
    *cut = *cut || size < text.length;
    return (uint16_t)size;
}

void service_log_request(struct service_channel *c, const uint8_t *raw, uint64_t length)
{
    static const struct service_text referrer = {(const uint8_t *)"referer", 7}, agent = {(const uint8_t *)"user-agent", 10},
                                     host = {(const uint8_t *)"host", 4};
    struct service_instance *self = c->instance;
    struct service_log *log = self->core->log;
    uint64_t line = service_line(raw, length), end = service_find(raw, length, "\r\n\r\n", 4);
    struct service_text headers = {raw + line, (uint32_t)(end + 2 > line && end < length ? end + 2 - line : 0)};
    struct service_buffer *buffer;
    struct service_visit *visit;
    struct timespec now;
    bool cut = false;

    if (!is_client(c) || line < 2)
        return;
    buffer = service_buffer_take(&log->visits);
    if (!buffer) {
        service_count(self, SERVICE_LOG_MISSED, 1);
        return;
    }
    visit = visit_of(buffer);
    clock_gettime(CLOCK_REALTIME, &now);
    memset(visit, 0, offsetof(struct service_visit, text));
    visit->begun = service_nanoseconds();
    visit->when = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    visit->line = note(visit, 0, SERVICE_VISIT_TEXT / 2, (struct service_text){raw, (uint32_t)line - 2}, &cut);
    visit->referrer = note(visit, visit->line, 384, service_header(headers, referrer), &cut);
    visit->agent = note(visit, visit->line + visit->referrer, 384, service_header(headers, agent), &cut);
    visit->host = note(visit, visit->line + visit->referrer + visit->agent, 256, service_header(headers, host), &cut);
    service_count(self, SERVICE_LOG_CUT, cut);
    buffer->next = NULL;
    if (self->visits_last)
        self->visits_last->next = buffer;
    else
        self->visits = buffer;
    self->visits_last = buffer;
}

/* Puts a line into the ring. */
static void put(struct service_instance *self, const char *line, uint32_t size)
{
    struct service_log *log = self->core->log;
    uint64_t head = atomic_load_explicit(&log->head, memory_order_relaxed);
    uint64_t used = head - atomic_load_explicit(&log->tail, memory_order_acquire);
    uint64_t at = head & (log->size - 1), first = log->size - at < size ? log->size - at : size;

    if (size == 0 || size > log->size - used) {
        service_count(self, SERVICE_LOG_LOST, 1);
        return;
    }
    memcpy(log->ring + at, line, first);
    memcpy(log->ring, line + first, size - first);
    atomic_store_explicit(&log->head, head + size, memory_order_release);
    service_count(self, SERVICE_LOGGED, 1);
    if (used < log->size / 2 && used + size >= log->size / 2)
        service_log_wake();
}

/* The first request's line. */
static void finish(struct service_instance *self)
{
    struct service_buffer *buffer = self->visits;
    struct service_log *log = self->core->log;

    self->visits = buffer->next;
    if (!self->visits)
        self->visits_last = NULL;
    put(self, log->line, service_log_write_line(&log->file->format, visit_of(buffer), self, log->line));
    service_buffer_give(&log->visits, buffer);
}

void service_log_response(struct service_channel *c, const uint8_t *raw, uint64_t size, const struct service_channel *origin,
                          bool whole)
{
    struct service_instance *self = c->instance;
    struct service_visit *visit = self->visits ? visit_of(self->visits) : NULL;
    struct service_text status = {raw, 0};

    if (!visit || !is_client(c))
        return;
    if (size >= 12 && memcmp(raw, "HTTP/1.", 7) == 0)
        status = (struct service_text){raw + 9, 3};
    if (status.length && status.at[0] == '1' && memcmp(status.at, "101", 3) != 0)
        return; /* an interim one */
    if (status.length)
        memcpy(visit->status, status.at, 3);
    visit->head = service_find(raw, size, "\r\n\r\n", 4) + 4;
    visit->answered = service_nanoseconds();
    visit->port = UINT16_MAX;
    if (origin) {
        visit->port = origin->port;
        visit->index = origin->index;
        visit->bound = origin->address;
    }
    visit->sending = !whole;
    if (whole) {
        visit->bytes = size;
        finish(self);
    }
}

void service_log_moved(struct service_channel *c, uint64_t size)
{
    if (c->instance->visits && is_client(c) && visit_of(c->instance->visits)->sending)
        visit_of(c->instance->visits)->bytes += size;
}

void service_log_passed(struct service_channel *c)
{
    if (c->instance->visits && is_client(c) && visit_of(c->instance->visits)->sending)
        finish(c->instance);
}

void service_log_end(struct service_instance *self)
{
    while (self->visits)
        finish(self);
}
