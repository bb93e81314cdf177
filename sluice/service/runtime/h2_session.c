/* The session of a client's connection: what nghttp2 reports, and the streams. */
#include "h2_parts.h"

#include <unistd.h>

enum {
    RESET_WEIGHT = 5, /* of a stream that the client ends before its response, among frames that bring nothing */
    ANSWERED = 10,    /* such frames that a response outweighs */
};

static struct service_poll *poll_of(const struct service_h2_stream *stream) { return &stream->lane->worker->poll; }

void service_h2_give_back(struct service_h2_stream *stream)
{
    struct service_buffer **all[] = {&stream->head, &stream->body, &stream->input};

    for (int i = 0; i < 3; i++) {
        if (*all[i])
            service_buffer_give(&stream->lane->core.buffers, *all[i]);
        *all[i] = NULL;
    }
}

void service_h2_close_pair(struct service_h2_stream *stream)
{
    if (stream->fd < 0)
        return;
    service_poll_remove(poll_of(stream), stream->fd, true);
    close(stream->fd);
    stream->fd = -1;
}

int service_h2_open_pair(struct service_h2_stream *stream, enum service_tag tag)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    if (!service_poll_add(poll_of(stream), pair[0], SERVICE_WATCH_CHANNEL, (uint64_t)(uintptr_t)stream | tag)) {
        close(pair[0]);
        close(pair[1]);
        return -1;
    }
    stream->fd = pair[0];
    return pair[1];
}

/* A place for a stream: one that was used before, or another; null without memory. */
static struct service_h2_stream *take_place(struct service_h2 *h2)
{
    struct service_h2_stream *found = NULL;

    for (struct service_h2_stream *each = h2->streams; each; each = each->next)
        if (!each->id && (!found || each->fd >= 0))
            found = each;
    if (found)
        return found;
    found = service_h2_allocate(sizeof *found);
    if (!found)
        return NULL;
    found->h2 = h2;
    found->lane = service_lane_of(h2->peer);
    found->fd = -1;
    found->next = h2->streams;
    return h2->streams = found;
}

/* Connects a stream to an instance of the program. False if there is none. */
static bool connect_stream(struct service_h2_stream *stream)
{
    int other;

    if (stream->fd >= 0)
        return true;
    other = service_h2_open_pair(stream, SERVICE_STREAM);
    if (other < 0)
        return false;
    if (service_lane_adopt(stream->lane, other, stream->h2->self))
        return true;
    service_h2_close_pair(stream);
    return false;
}

void service_h2_reset(struct service_h2_stream *stream, uint32_t error, enum service_counter reason)
{
    service_count(stream->h2->self, reason, 1);
    stream->closes = true;
    stream->state = SERVICE_H2_DONE;
    nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, error);
}

void service_h2_useless(struct service_h2 *h2, uint32_t weight)
{
    h2->useless += weight;
    if (h2->useless <= SERVICE_H2_USELESS || h2->failed)
        return;
    h2->failed = true;
    service_fail(h2->self, SERVICE_H2_FLOOD);
    nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

void service_h2_answered(struct service_h2 *h2) { h2->useless -= h2->useless < ANSWERED ? h2->useless : ANSWERED; }

void service_h2_note_goaway(struct service_h2 *h2, const nghttp2_frame *frame)
{
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR && !h2->self->fault)
        service_fail(h2->self, SERVICE_H2_BROKEN);
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    service_h2_forget_head(h2);
    stream = take_place(h2);
    if (!stream) {
        service_count(h2->self, SERVICE_H2_REFUSED, 1);
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    h2->peer->waits_since = h2->self->core->now;
    *stream = (struct service_h2_stream){.h2 = h2,
                                         .lane = stream->lane,
                                         .next = stream->next,
                                         .ready = stream->ready,
                                         .queued = stream->queued,
                                         .fd = stream->fd,
                                         .readable = true,
                                         .writable = true,
                                         .id = frame->hd.stream_id};
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    return 0;
}

static int take_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                      const uint8_t *value, size_t value_size, uint8_t flags, void *argument)
{
    (void)session, (void)flags;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) /* else trailers, which are dropped */
        service_h2_field(argument, (struct service_text){name, (uint32_t)name_size},
                         (struct service_text){value, (uint32_t)value_size});
    return 0;
}

/* The head of a request is here. */
static void begin_request(struct service_h2 *h2, struct service_h2_stream *stream, bool whole)
{
    bool good = service_h2_write_head(stream, whole);

    service_h2_forget_head(h2);
    h2->peer->waits_since = 0;
    if (!good)
        return;
    if (!connect_stream(stream)) {
        service_h2_reset(stream, NGHTTP2_REFUSED_STREAM, SERVICE_H2_REFUSED);
        return;
    }
    service_count(h2->self, SERVICE_H2_STREAMS, 1);
    service_h2_ready(stream);
}

static int take_frame(nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, frame->hd.stream_id);
    bool whole = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (stream && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            begin_request(h2, stream, whole);
            break;
        }
        /* fall through */
    case NGHTTP2_DATA:
        if (stream && whole) {
            stream->over = true;
            service_h2_ready(stream);
        } else if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == frame->data.padlen) {
            service_h2_useless(h2, 1);
        }
        break;
    case NGHTTP2_RST_STREAM:
        service_h2_useless(h2, RESET_WEIGHT);
        break;
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PRIORITY:
        service_h2_useless(h2, 1);
        break;
    default:
        break;
    }
    return 0;
}

static int take_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, id);

    (void)flags;
    if (!stream || stream->state == SERVICE_H2_DONE || stream->fd < 0) {
        nghttp2_session_consume(session, id, size); /* it is discarded */
        return 0;
    }
    if (!service_h2_take(stream, data, size)) {
        nghttp2_session_consume(session, id, size);
        service_h2_reset(stream, NGHTTP2_REFUSED_STREAM, SERVICE_H2_REFUSED);
    }
    return 0;
}

/* A frame is malformed, or opens a stream too many. Its answer is sent only when the client reads: it is counted now, so that a
 * client that reads nothing does not queue any number of them. */
static int frame_refused(nghttp2_session *session, const nghttp2_frame *frame, int error, void *argument)
{
    struct service_h2 *h2 = argument;

    (void)session, (void)error;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        service_h2_forget_head(h2);
        h2->peer->waits_since = 0;
    }
    service_h2_useless(h2, 1);
    return 0;
}

/* Whether the client has made this side reset a stream, which costs as much as one that it resets itself. */
static bool provoked(uint32_t error)
{
    return error == NGHTTP2_PROTOCOL_ERROR || error == NGHTTP2_FLOW_CONTROL_ERROR || error == NGHTTP2_STREAM_CLOSED ||
           error == NGHTTP2_FRAME_SIZE_ERROR;
}

static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, frame->hd.stream_id);

    service_h2_note_goaway(h2, frame);
    if (stream && frame->hd.type == NGHTTP2_HEADERS && stream->informs) {
        stream->informs = false;
        service_h2_ready(stream);
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM && provoked(frame->rst_stream.error_code))
        service_h2_useless(h2, RESET_WEIGHT);
    if (stream && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        frame->hd.flags & NGHTTP2_FLAG_END_STREAM && !stream->over) /* the rest of the request is not needed (section 8.1) */
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t error, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, id);
    uint32_t kept;

    if (!stream)
        return 0;
    if (stream->body) /* it leaves the window of its stream only */
        nghttp2_session_consume_connection(session, service_buffer_held(stream->body));
    if (error == NGHTTP2_INTERNAL_ERROR && stream->state != SERVICE_H2_DONE)
        service_count(h2->self, SERVICE_H2_UNANSWERED, 1);
    kept = service_buffer_held(stream->input);
    if (error != NGHTTP2_NO_ERROR || stream->state != SERVICE_H2_DONE || !stream->sent || stream->closes || stream->ended || kept)
        service_h2_close_pair(stream);
    else
        service_h2_answered(h2);
    service_h2_give_back(stream);
    stream->id = 0;
    return 0;
}

/* Whether a response waits for a window of the client, and for nothing else. */
static bool waits_for_window(const struct service_h2_stream *stream)
{
    nghttp2_session *session = stream->h2->session;

    return stream->id && stream->state == SERVICE_H2_BODY && !stream->deferred &&
           (nghttp2_session_get_remote_window_size(session) <= 0 ||
            nghttp2_session_get_stream_remote_window_size(session, stream->id) <= 0);
}

bool service_h2_reset_slow(struct service_instance *self)
{
    const struct service_config *config = service_lane_of(self->h2->peer)->config;
    uint32_t now = self->core->now;
    bool found = false;

    for (struct service_h2_stream *stream = self->h2->streams; stream; stream = stream->next) {
        if (!waits_for_window(stream)) {
            stream->slow_since = 0;
        } else if (!stream->slow_since) {
            stream->slow_since = now;
            stream->slow_bytes = 0;
        } else if (service_too_slow(now, config->body_time, config->body_rate, &stream->slow_since, &stream->slow_bytes)) {
            service_h2_reset(stream, NGHTTP2_CANCEL, SERVICE_SLOW_READER);
            found = true;
        }
    }
    return found;
}

bool service_h2_make_session(struct service_h2 *h2)
{
    static const struct service_h2_reports reports = {
        .head_begins = begin_headers,
        .field = take_field,
        .frame = take_frame,
        .data = take_data,
        .refused = frame_refused,
        .sent = frame_sent,
        .closed = stream_closed,
    };
    uint32_t streams = service_lane_of(h2->peer)->config->http2;

    return service_h2_open(h2, &reports, (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams});
}
