/* The session of a connection to a backend: a request of HTTP/1.1 as one of HTTP/2 (RFC 9113, section 8.3.1), and its response
 * the other way. nghttp2 has refused malformed responses; what could be read as something else by a parser of HTTP/1.1 is
 * refused here again.
 */
#include "h2_parts.h"

#include <stdio.h>

/* A response that cannot be passed: its stream ends. */
static void give_up(struct service_h2_stream *stream)
{
    service_count(stream->h2->self, SERVICE_H2_GIVEN_UP, 1);
    service_h2_break(stream);
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    (void)session, (void)frame;
    service_h2_forget_head(argument);
    return 0;
}

static int take_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                      const uint8_t *value, size_t value_size, uint8_t flags, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_text field = {name, (uint32_t)name_size};

    (void)session, (void)frame, (void)flags;
    if (++h2->field_count > SERVICE_H2_FIELDS)
        h2->too_large = true;
    else if (service_same(field, service_literal(":status")) && value_size == sizeof h2->status - 1)
        memcpy(h2->status, value, sizeof h2->status - 1);
    else if (name_size && name[0] != ':')
        service_h2_append_field(h2, field, (struct service_text){value, (uint32_t)value_size});
    return 0;
}

/* The reason of a status (RFC 9110, section 15), which HTTP/2 has not, and which some clients of HTTP/1.1 need. */
static const char *reason_of(const char *status)
{
    static const struct {
        const char *status, *reason;
    } known[] = {{"100", "Continue"},        {"103", "Early Hints"},         {"200", "OK"},
                 {"201", "Created"},         {"202", "Accepted"},            {"204", "No Content"},
                 {"206", "Partial Content"}, {"301", "Moved Permanently"},   {"302", "Found"},
                 {"303", "See Other"},       {"304", "Not Modified"},        {"307", "Temporary Redirect"},
                 {"400", "Bad Request"},     {"401", "Unauthorized"},        {"403", "Forbidden"},
                 {"404", "Not Found"},       {"405", "Method Not Allowed"},  {"409", "Conflict"},
                 {"413", "Content Too Large"}, {"429", "Too Many Requests"}, {"500", "Internal Server Error"},
                 {"502", "Bad Gateway"},     {"503", "Service Unavailable"}, {"504", "Gateway Timeout"}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(status, known[i].status) == 0)
            return known[i].reason;
    return "Unknown";
}

/* Writes the head of a response as one of HTTP/1.1. False if it cannot be. */
static bool write_head(struct service_h2_stream *stream, bool whole)
{
    struct service_h2 *h2 = stream->h2;
    struct service_text status = {(const uint8_t *)h2->status, 3};
    bool interim = h2->status[0] == '1', empty = service_bodiless(status, stream->bodiless);
    char line[64];
    const char *more = "\r\n";

    stream->request->answered = true;
    service_h2_append(h2, &stream->head, line,
                      (uint32_t)snprintf(line, sizeof line, "HTTP/1.1 %s %s\r\n", h2->status, reason_of(h2->status)));
    if (h2->fields)
        service_h2_append(h2, &stream->head, h2->fields->bytes, service_buffer_held(h2->fields));
    if (!interim && !empty && !h2->length) {
        stream->chunked = !whole && !stream->request->old;
        more = whole ? "Content-Length: 0\r\n\r\n" : stream->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : more;
    }
    if (!interim && stream->request->old)
        service_h2_append(h2, &stream->head, "Connection: close\r\n", 19);
    service_h2_append(h2, &stream->head, more, (uint32_t)strlen(more));
    return !h2->no_buffer && !h2->too_large;
}

static void end_message(struct service_h2_stream *stream)
{
    stream->over = true;
    service_h2_ready(stream);
}

static int take_frame(nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, frame->hd.stream_id);
    bool whole = frame->hd.flags & NGHTTP2_FLAG_END_STREAM, good = true;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (stream && stream->fd >= 0 && h2->status[0]) { /* else trailers, which are dropped */
            good = write_head(stream, whole);
            service_h2_ready(stream);
        }
        service_h2_forget_head(h2);
        if (!good) {
            give_up(stream);
            break;
        }
        /* fall through */
    case NGHTTP2_DATA:
        if (stream && stream->fd >= 0 && whole)
            end_message(stream);
        else if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == frame->data.padlen)
            service_h2_useless(h2, 1);
        break;
    case NGHTTP2_GOAWAY:
        h2->goaway = true;
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
    struct service_h2_stream *stream = service_h2_stream_of(argument, id);

    (void)flags;
    nghttp2_session_consume_connection(session, size); /* the streams' own windows bound what is held */
    if (stream && stream->fd >= 0 && !service_h2_take(stream, data, size))
        give_up(stream);
    return 0;
}

/* A frame is malformed. It is counted now, although its answer is sent only when the backend reads. */
static int frame_refused(nghttp2_session *session, const nghttp2_frame *frame, int error, void *argument)
{
    (void)session, (void)frame, (void)error;
    service_h2_useless(argument, 1);
    return 0;
}

static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, frame->hd.stream_id);

    (void)session;
    service_h2_note_goaway(h2, frame);
    if (stream && stream->request && frame->hd.type == NGHTTP2_HEADERS)
        stream->request->asked = true;
    return 0;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t error, void *argument)
{
    struct service_h2 *h2 = argument;
    struct service_h2_stream *stream = service_h2_stream_of(h2, id);

    (void)session;
    if (!stream)
        return 0;
    h2->active--;
    stream->id = 0;
    stream->deferred = false;
    if (stream->fd < 0) {
        service_h2_free(stream);
    } else if (stream->over) {
        service_h2_answered(h2);
        service_h2_ready(stream);
    } else if ((error != NGHTTP2_REFUSED_STREAM && stream->request->asked) || !service_h2_repeat(stream)) {
        stream->h2 = h2;
        give_up(stream);
    }
    return 0;
}

bool service_h2_make_uplink(struct service_h2 *h2)
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

    return service_h2_open(h2, &reports, (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0});
}

/* The parts of a request's first line. */
struct target {
    struct service_text method, scheme, authority, path;
};

/* A target may be a path, `*`, or a URI with a server's name, which counts then (RFC 9112, section 3.2). False if there is none. */
static bool read_target(const uint8_t *at, uint64_t line, struct service_text host, bool secure, struct target *out)
{
    const uint8_t *end = at + line - 2, *first = memchr(at, ' ', line), *second, *name;
    struct service_text path;

    second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (!second || second == first + 1 || end - second != 9 || memcmp(second + 1, "HTTP/1.", 7) != 0)
        return false;
    path = (struct service_text){first + 1, (uint32_t)(second - first - 1)};
    *out = (struct target){{at, (uint32_t)(first - at)}, service_literal(secure ? "https" : "http"), host, path};
    if (path.at[0] == '/' || (path.length == 1 && path.at[0] == '*'))
        return true;
    name = memchr(path.at, ':', path.length);
    if (!name || second - name < 4 || memcmp(name, "://", 3) != 0)
        return false;
    name += 3;
    out->authority = (struct service_text){name, (uint32_t)(second - name)};
    out->path = service_literal("/");
    for (const uint8_t *c = name; c < second; c++)
        if (*c == '/' || *c == '?') {
            out->authority.length = (uint32_t)(c - name);
            out->path = (struct service_text){c, (uint32_t)(second - c)};
            break;
        }
    return true;
}

/* The path of a URI that has a query and no path: it begins with a slash in HTTP/2 (RFC 9113, section 8.3.1). `*made` is its memory,
 * or null if the path is used as it is. False if there is none. */
static bool add_slash(struct service_text *path, uint8_t **made)
{
    *made = NULL;
    if (path->at[0] != '?')
        return true;
    *made = service_h2_allocate(path->length + 1);
    if (!*made)
        return false;
    **made = '/';
    memcpy(*made + 1, path->at, path->length);
    *path = (struct service_text){*made, path->length + 1};
    return true;
}

/* The state of a request, with its head if it has no body: it can be sent again then. */
static struct service_h2_request *make_request(const struct service_h2_stream *stream, const struct service_h2_head *head)
{
    bool empty = stream->left == 0 && stream->tail.kind == SERVICE_NO_TAIL;
    struct service_h2_request *made = service_h2_allocate(sizeof *made + (empty ? head->line + head->size : 0));

    if (made && empty) {
        made->line = (uint32_t)head->line;
        made->size = (uint32_t)head->size;
        memcpy(made->head, head->at, head->line + head->size);
    }
    return made;
}

bool service_h2_ask(struct service_h2_stream *stream, const struct service_h2_head *head)
{
    struct service_h2 *h2 = stream->h2;
    struct service_text block = {head->at + head->line, (uint32_t)head->size};
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = service_h2_read_body};
    nghttp2_nv fields[SERVICE_H2_FIELDS];
    struct target target;
    uint8_t *path;
    int count;

    if (!read_target(head->at, head->line, service_header(block, service_literal("host")), h2->peer->secure, &target))
        return false;
    if (!stream->request) {
        stream->tail = (struct service_tail){0};
        if (!service_framing(block, false, false, &stream->tail, &stream->left) ||
            !(stream->request = make_request(stream, head)))
            return false;
    }
    count = service_h2_read_fields(head->at + head->line, head->size, fields, target.authority.length ? 4 : 3, true);
    if (count < 0 || !add_slash(&target.path, &path))
        return false;
    fields[0] = service_h2_field_of(":method", target.method);
    fields[1] = service_h2_field_of(":scheme", target.scheme);
    fields[2] = service_h2_field_of(":path", target.path);
    if (target.authority.length)
        fields[3] = service_h2_field_of(":authority", target.authority);
    stream->bodiless = service_same(target.method, service_literal("HEAD"));
    stream->closes = stream->request->old = head->at[head->line - 3] == '0';
    stream->state = stream->left || stream->tail.kind ? SERVICE_H2_BODY : SERVICE_H2_DONE;
    stream->request->asked = false;
    stream->id = nghttp2_submit_request(h2->session, NULL, fields, (size_t)count,
                                        stream->state == SERVICE_H2_DONE ? NULL : &provider, stream);
    service_h2_release(path);
    if (stream->id < 0) {
        stream->id = 0;
        return false;
    }
    if (h2->active++ == 0) {
        h2->heard_at = h2->self->core->now;
        h2->pinged = false;
    }
    stream->request->tries++;
    h2->self->progressed = true;
    return true;
}
