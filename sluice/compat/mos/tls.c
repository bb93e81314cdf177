/* Events of TLS on top of MOS_ON_CONN_NEW_DATA (mos_tls.h): user-defined ones, whose filters follow the records of a side. */
#include "mos_tls.h"

#include "monitor.h"

#include <errno.h>

enum { HEADER = 5, MOST = 16384 + 2048 };   /* RFC 5246, 6.2.3: bytes of a protected record */

/* Reads a header; false where it is none of TLS. */
static bool read_header(const struct mos_buffer *buffer, uint64_t at, struct mos_tls_record *record)
{
    uint8_t header[HEADER];
    mos_buffer_copy_out(buffer, at, sizeof header, header);
    *record = (struct mos_tls_record){at, (uint16_t)sl_load_be16(header + 1), (uint16_t)sl_load_be16(header + 3), header[0]};
    return record->type >= MOS_TLS_CHANGE_CIPHER_SPEC && record->type <= MOS_TLS_APPLICATION_DATA &&
           header[1] == 3 && record->length <= MOST;
}

/* Parses the received bytes of a stream; true with whole records. */
static bool follow(struct mos_tls *tls, struct mos_tls_stream *stream, const struct mos_buffer *buffer)
{
    const uint64_t next = mos_buffer_next(buffer);
    stream->given = stream->at;   /* records that a callback has not read are dropped */
    while (!stream->foreign) {
        struct mos_tls_record record;
        if (!stream->end) {
            if (next < stream->at + HEADER)
                break;
            stream->foreign = mos_buffer_there(buffer, stream->at) < HEADER || !read_header(buffer, stream->at, &record);
            if (stream->foreign)
                break;
            stream->end = stream->at + HEADER + record.length;
            stream->type = record.type;
        }
        if (next < stream->end)
            break;
        tls->handshake |= stream->type == MOS_TLS_HANDSHAKE;
        stream->is_protected |= stream->type == MOS_TLS_CHANGE_CIPHER_SPEC || stream->type == MOS_TLS_APPLICATION_DATA;
        stream->at = stream->end;
        stream->end = 0;
    }
    return stream->at > stream->given;
}

static bool records_came(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct mos_socket *view = mos_socket_of(mctx, sock);
    (void)event, (void)arg;
    if (!view || !view->flow || side < MOS_SIDE_CLI || side > MOS_SIDE_SVR)
        return false;
    struct mos_tls *tls = &view->tls;
    tls->handshake = false;
    const bool came = follow(tls, &tls->stream[side], &view->flow->buffer[side]);
    tls->session = !tls->was_session && tls->stream[0].is_protected && tls->stream[1].is_protected;
    tls->was_session |= tls->session;
    return came;
}

static bool is_handshake(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    const struct mos_socket *view = mos_socket_of(mctx, sock);
    (void)side, (void)event, (void)arg;
    return view && view->tls.handshake;
}

static bool is_session(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    const struct mos_socket *view = mos_socket_of(mctx, sock);
    (void)side, (void)event, (void)arg;
    return view && view->tls.session;
}

int mos_tls_define(struct mos_tls_events *events)
{
    if (!events) {
        errno = EFAULT;
        return -1;
    }
    events->record = mtcp_define_event(MOS_ON_CONN_NEW_DATA, records_came, NULL);
    events->handshake = events->record ? mtcp_define_event(events->record, is_handshake, NULL) : MOS_NULL_EVENT;
    events->session = events->handshake ? mtcp_define_event(events->record, is_session, NULL) : MOS_NULL_EVENT;
    return events->session ? 0 : -1;
}

int mos_tls_next(mctx_t mctx, int sock, int side, struct mos_tls_record *record)
{
    struct mos_socket *view = mos_socket_get(mctx, sock);
    if (!view)
        return -1;
    if (!record || side < MOS_SIDE_CLI || side > MOS_SIDE_SVR || view->type != MOS_SOCK_MONITOR_STREAM_ACTIVE || !view->flow) {
        errno = record ? EINVAL : EFAULT;
        return -1;
    }
    struct mos_tls_stream *stream = &view->tls.stream[side];
    const struct mos_buffer *buffer = &view->flow->buffer[side];
    if (stream->given >= stream->at)
        return 0;
    if (mos_buffer_there(buffer, stream->given) < HEADER || !read_header(buffer, stream->given, record)) {
        stream->given = stream->at;
        errno = ENODATA;
        return -1;
    }
    stream->given += HEADER + (uint64_t)record->length;
    return 1;
}
