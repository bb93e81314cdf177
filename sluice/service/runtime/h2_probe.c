/* HTTP/2 of health checks: a GET as the first stream of a connection, and the status of its answer. */
#include "h2_parts.h"

struct service_probe_h2 {
    nghttp2_session *session;
    int status; /* 0: none is known */
};

static int take_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                      const uint8_t *value, size_t value_size, uint8_t flags, void *argument)
{
    struct service_probe_h2 *probe = argument;

    (void)session, (void)frame, (void)flags;
    if (service_same((struct service_text){name, (uint32_t)name_size}, service_literal(":status")) && value_size == 3 &&
        value[0] != '1') /* an interim response is followed by another one */
        probe->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + value[2] - '0';
    return 0;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t error, void *argument)
{
    struct service_probe_h2 *probe = argument;

    (void)session, (void)id, (void)error;
    if (!probe->status)
        probe->status = -1;
    return 0;
}

struct service_probe_h2 *service_probe_h2_begin(void)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_mem memory = service_h2_allocator();
    struct service_probe_h2 *made = service_h2_allocate(sizeof *made);

    if (made && nghttp2_session_callbacks_new(&callbacks) == 0) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks, take_field);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
        nghttp2_session_client_new3(&made->session, callbacks, made, NULL, &memory);
    }
    nghttp2_session_callbacks_del(callbacks);
    if (made && made->session)
        return made;
    service_h2_release(made);
    return NULL;
}

uint32_t service_probe_h2_ask(struct service_probe_h2 *probe, const char *host, const char *path, bool secure, char *to,
                              uint32_t room)
{
    const char *texts[][2] = {{":method", "GET"},
                              {":scheme", secure ? "https" : "http"},
                              {":authority", host},
                              {":path", path},
                              {"user-agent", "sluice"}};
    enum { FIELDS = sizeof texts / sizeof texts[0] };
    nghttp2_nv fields[FIELDS];
    uint32_t size = 0;
    const uint8_t *bytes;
    ssize_t got;

    for (int i = 0; i < FIELDS; i++)
        fields[i] = service_h2_field_of(texts[i][0], service_literal(texts[i][1]));
    if (nghttp2_submit_settings(probe->session, NGHTTP2_FLAG_NONE, NULL, 0) != 0 ||
        nghttp2_submit_request(probe->session, NULL, fields, FIELDS, NULL, NULL) < 0)
        return 0;
    while ((got = nghttp2_session_mem_send(probe->session, &bytes)) > 0) {
        if ((size_t)got > room - size)
            return 0;
        memcpy(to + size, bytes, (size_t)got);
        size += (uint32_t)got;
    }
    return got < 0 ? 0 : size;
}

int service_probe_h2_take(struct service_probe_h2 *probe, const char *bytes, size_t size)
{
    if (nghttp2_session_mem_recv(probe->session, (const uint8_t *)bytes, size) < 0)
        return -1;
    return probe->status;
}

void service_probe_h2_end(struct service_probe_h2 *probe)
{
    nghttp2_session_del(probe->session);
    service_h2_release(probe);
}
