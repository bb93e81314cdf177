#include "h2_parts.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum {
    OUTBOUND = 256,   /* acknowledgements that a client or backend does not read */
    WINDOW = 1 << 20, /* bytes, of a connection */
    FIELD = 24,       /* bytes that nghttp2 adds to its estimate of a head for each field, and more */
};

static _Atomic uint64_t used;
static uint64_t most = 64 << 20;

static void *resize(void *memory, size_t size, void *argument)
{
    size_t before = memory ? malloc_usable_size(memory) : 0;
    void *found;

    (void)argument;
    if (size > before && atomic_load_explicit(&used, memory_order_relaxed) + (size - before) > most)
        return NULL;
    found = realloc(memory, size);
    if (found)
        atomic_fetch_add_explicit(&used, malloc_usable_size(found) - before, memory_order_relaxed);
    return found;
}

static void *allocate(size_t size, void *argument) { return resize(NULL, size ? size : 1, argument); }

static void release(void *memory, void *argument)
{
    (void)argument;
    if (memory)
        atomic_fetch_sub_explicit(&used, malloc_usable_size(memory), memory_order_relaxed);
    free(memory);
}

static void *allocate_items(size_t count, size_t size, void *argument)
{
    void *found = size && count > SIZE_MAX / size ? NULL : allocate(count * size, argument);

    return found ? memset(found, 0, count * size) : NULL;
}

void *service_h2_allocate(size_t size) { return allocate_items(1, size, NULL); }
void service_h2_release(void *memory) { release(memory, NULL); }

nghttp2_mem service_h2_allocator(void) { return (nghttp2_mem){NULL, allocate, release, allocate_items, resize}; }

const char *service_h2_memory(uint64_t bytes)
{
    most = bytes;
    return NULL;
}

const char *service_h2_missing(void) { return NULL; }

bool service_h2_open(struct service_h2 *h2, const struct service_h2_reports *reports, nghttp2_settings_entry setting)
{
    const struct service_config *config = service_lane_of(h2->peer)->config;
    nghttp2_mem memory = service_h2_allocator();
    nghttp2_settings_entry settings[] = {
        setting,
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, config->buffer_size},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, config->buffer_size},
    };
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    bool good = nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0;

    if (good) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, reports->head_begins);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, reports->field);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, reports->frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, reports->data);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, reports->refused);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, reports->sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, reports->closed);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_max_outbound_ack(option, OUTBOUND);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_max_send_header_block_length(option, config->buffer_size + FIELD * SERVICE_H2_FIELDS);
        good = (h2->uplink ? nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &memory)
                           : nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &memory)) == 0 &&
               nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof settings[0]) == 0 &&
               nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return good;
}

void service_h2_ready(struct service_h2_stream *stream)
{
    if (stream->queued)
        return;
    stream->queued = true;
    stream->ready = stream->h2->ready;
    stream->h2->ready = stream;
}

void service_h2_event(void *target, uint32_t events)
{
    struct service_h2_stream *stream = target;

    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        stream->readable = true;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        stream->writable = true;
    service_h2_ready(stream);
    service_lane_queue(service_lane_of(stream->h2->peer), stream->h2->self);
}

bool service_h2_begin(struct service_instance *self)
{
    struct service_lane *lane = (struct service_lane *)self->core;
    struct service_h2 *h2 = service_h2_allocate(sizeof *h2);

    if (!h2)
        return false;
    h2->self = self;
    h2->peer = service_port(self, lane->config->listen_port);
    self->h2 = h2;
    if (service_h2_make_session(h2)) {
        service_count(self, SERVICE_H2_CONNECTIONS, 1);
        return true;
    }
    service_h2_end(self);
    return false;
}

void service_h2_end(struct service_instance *self)
{
    struct service_h2 *h2 = self->h2;
    struct service_h2_stream *stream, *next;

    service_h2_forget_head(h2);
    if (h2->uplink) {
        service_h2_end_uplink(h2);
        return;
    }
    for (stream = h2->streams; stream; stream = next) {
        next = stream->next;
        service_h2_close_pair(stream);
        service_h2_give_back(stream);
    }
    if (h2->session)
        nghttp2_session_del(h2->session);
    for (stream = h2->streams; stream; stream = next) {
        next = stream->next;
        service_h2_release(stream);
    }
    service_h2_release(h2);
    self->h2 = NULL;
}

/* Feeds received bytes to nghttp2. False if it accepts no more. */
static bool feed(struct service_h2 *h2)
{
    struct service_channel *c = h2->peer;
    ssize_t done;

    if (service_buffer_held(c->in) == 0)
        return true;
    done = nghttp2_session_mem_recv(h2->session, c->in->bytes + c->in->start, service_buffer_held(c->in));
    if (done < 0) {
        if (!h2->self->fault)
            service_fail(h2->self, done == NGHTTP2_ERR_NOMEM     ? SERVICE_H2_MEMORY
                                   : done == NGHTTP2_ERR_FLOODED ? SERVICE_H2_FLOOD
                                                                 : SERVICE_H2_BROKEN);
        return false;
    }
    c->in->start += (uint32_t)done;
    h2->self->progressed = h2->heard = true;
    h2->heard_at = h2->self->core->now;
    h2->pinged = false;
    service_empty_in(c);
    return true;
}

/* Processes the streams with pending work. */
static void run_streams(struct service_h2 *h2)
{
    struct service_h2_stream *list = h2->ready, *stream;

    h2->ready = NULL;
    while ((stream = list)) {
        list = stream->ready;
        stream->queued = false;
        if (h2->uplink) {
            service_h2_run_pair(h2, stream);
            continue;
        }
        if (stream->fd >= 0 && !stream->id) { /* an idle one: it has ended, or sends unexpected bytes */
            uint8_t byte;

            if (recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
                service_h2_close_pair(stream);
        }
        if (!stream->id || stream->fd < 0)
            continue;
        if (!service_h2_send(stream)) { /* the program has ended: it may have answered before */
            stream->sent = stream->closes = true;
            stream->readable = true;
        }
        if (stream->state != SERVICE_H2_DONE && !service_h2_answer(stream))
            service_h2_reset(stream, NGHTTP2_INTERNAL_ERROR, SERVICE_H2_UNANSWERED);
        if (h2->self->starved)
            service_h2_ready(stream);
    }
}

/* Copies the output of nghttp2 to `out`. False if it cannot continue. */
static bool draw(struct service_h2 *h2)
{
    struct service_channel *c = h2->peer;
    struct service_buffers *pool = &h2->self->core->buffers;

    while (h2->pending_size || nghttp2_session_want_write(h2->session)) {
        size_t room, size;

        if (!c->out && !(c->out = service_buffer_for(h2->self)))
            return true;
        if (!h2->pending_size) {
            ssize_t got = nghttp2_session_mem_send(h2->session, &h2->pending);

            if (got < 0) {
                service_fail(h2->self, got == NGHTTP2_ERR_NOMEM ? SERVICE_H2_MEMORY : SERVICE_H2_BROKEN);
                return false;
            }
            if (got == 0)
                return true;
            h2->pending_size = (size_t)got;
        }
        if (c->out->start)
            service_buffer_compact(c->out);
        room = pool->size - c->out->end;
        if (room == 0)
            return true;
        size = h2->pending_size < room ? h2->pending_size : room;
        memcpy(c->out->bytes + c->out->end, h2->pending, size);
        c->out->end += (uint32_t)size;
        h2->pending += size;
        h2->pending_size -= size;
        h2->self->progressed = true;
    }
    return true;
}

/* Whether nothing is to be done any more. */
static bool over(const struct service_h2 *h2)
{
    const struct service_channel *c = h2->peer;

    return (c->in_ended && service_buffer_held(c->in) == 0) ||
           (!nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session) && !h2->pending_size && !c->out);
}

enum service_life service_h2_turn(struct service_instance *self)
{
    struct service_h2 *h2 = self->h2;
    struct service_channel *c = h2->peer;
    struct service_lane *lane = service_lane_of(c);
    bool good = true;

    if (h2->uplink && !service_h2_reached(h2)) {
        if (!self->fault)
            return SERVICE_ASLEEP;
        service_count(self, self->fault, 1);
        return SERVICE_DEAD;
    }
    if (lane->draining && !h2->goaway && !h2->uplink) {
        h2->goaway = true;
        nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2->session),
                              NGHTTP2_NO_ERROR, NULL, 0);
    }
    do {
        self->progressed = false;
        good = !c->readable || nghttp2_session_want_read(h2->session) == 0 || service_io_fill(c);
        if (good || h2->uplink) /* responses that have come before a reset are complete */
            good = feed(h2) && good;
        run_streams(h2);
        if (h2->uplink)
            service_h2_admit(h2);
        good = draw(h2) && good;
        if (c->out && c->writable && !service_io_flush(c))
            good = false;
        else if (c->out && service_buffer_held(c->out) == 0)
            self->progressed = true;
    } while (good && self->progressed && !service_slice_over(self->core) && !over(h2));
    if (!good || self->fault || over(h2)) { /* with a fault it has had its turn to send why: no limit of time counts after it */
        service_count(self, self->fault ? self->fault : SERVICE_ENDED, 1);
        return SERVICE_DEAD;
    }
    return self->progressed ? SERVICE_AGAIN : SERVICE_ASLEEP;
}
