/* Extensions of mOS's interface by its users (mos_ext.h). */
#include "mos_ext.h"

#include "loop.h"

#include <errno.h>

static int failed(int error)
{
    errno = error;
    return -1;
}

/* The socket of a flow, for a call of the program's; NULL, and errno is the reason. */
static struct mos_socket *view_of(mctx_t mctx, int sock)
{
    struct mos_socket *view = mos_socket_get(mctx, sock);
    if (view && (view->type != MOS_SOCK_MONITOR_STREAM_ACTIVE || !view->flow || !view->monitor)) {
        errno = ENOTCONN;
        return NULL;
    }
    return view;
}

/* --- threads --- */

int mos_ext_on_start(mctx_t mctx, void (*start)(mctx_t mctx, void *arg), void *arg)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!context)
        return failed(EACCES);
    if (mos_loop_runs() || context->run)
        return failed(EPERM);
    context->start = start;
    context->start_arg = arg;
    return 0;
}

void mos_context_start(struct mos_context *context)
{
    void (*start)(mctx_t, void *) = context->start;
    context->start = NULL;
    if (start)
        start(&context->public, context->start_arg);
}

/* --- streams --- */

/* The buffer of a side that a socket reads; NULL, and errno is the reason. */
static const struct mos_buffer *buffer_of(const struct mos_socket *view, int side)
{
    if (!view)
        return NULL;
    if (side != MOS_SIDE_CLI && side != MOS_SIDE_SVR)
        errno = EINVAL;
    else if (!view->flow->buffer[side].size)
        errno = ENODATA;
    else
        return &view->flow->buffer[side];
    return NULL;
}

static uint64_t unread(const struct mos_socket *view, const struct mos_buffer *buffer, int side)
{
    const uint64_t at = view->reader[side].read;
    return at < mos_buffer_next(buffer) ? mos_buffer_there(buffer, at) : 0;
}

ssize_t mos_ext_view(mctx_t mctx, int sock, int side, const char **bytes)
{
    struct mos_socket *view = view_of(mctx, sock);
    const struct mos_buffer *buffer = buffer_of(view, side);
    if (!buffer)
        return -1;
    if (!bytes)
        return failed(EFAULT);
    struct mos_reader *reader = &view->reader[side];
    if (reader->lost) {
        const ssize_t lost = (ssize_t)reader->lost;
        reader->lost = 0;
        errno = ENODATA;
        return -lost;
    }
    const uint64_t count = unread(view, buffer, side);
    const uint32_t place = (uint32_t)(reader->read % buffer->size);
    *bytes = count ? (const char *)buffer->bytes + place : NULL;
    return (ssize_t)sl_min(count, buffer->size - place);
}

int mos_ext_consume(mctx_t mctx, int sock, int side, size_t count)
{
    struct mos_socket *view = view_of(mctx, sock);
    const struct mos_buffer *buffer = buffer_of(view, side);
    if (!buffer)
        return -1;
    if (count > unread(view, buffer, side))
        return failed(EINVAL);
    view->reader[side].read += count;
    return 0;
}

/* --- callbacks of a flow --- */

/* Bytes that arrived while they were not read are not lost: reading continues with the expected one. */
static void go_on_reading(struct mos_flow *flow, struct mos_socket *view, unsigned side)
{
    struct mos_reader *reader = &view->reader[side];
    reader->read = sl_max(reader->read, mos_buffer_next(&flow->buffer[side]));
    reader->lost = 0;
}

int mos_ext_resume(mctx_t mctx, int sock, int side)
{
    struct mos_socket *view = view_of(mctx, sock);
    if (!view)
        return -1;
    if (side < MOS_SIDE_CLI || side > MOS_SIDE_BOTH)
        return failed(EINVAL);
    bool resumed[2];
    for (int i = 0; i < 2; i++) {
        resumed[i] = view->stopped[i] && (side == i || side == MOS_SIDE_BOTH);
        view->stopped[i] = view->stopped[i] && !resumed[i];
    }
    mos_flow_set_buffers(view->flow);
    for (unsigned i = 0; i < 2; i++)
        if (resumed[i])
            go_on_reading(view->flow, view, i);
    return 0;
}

int mos_ext_offload(mctx_t mctx, int sock, enum mos_ext_offload what)
{
    const struct mos_socket *view = view_of(mctx, sock);
    if (!view)
        return -1;
    if (what != MOS_EXT_BYPASS && what != MOS_EXT_DROP)
        return failed(EINVAL);
    for (unsigned i = 0; i < view->flow->view_count; i++) {
        const struct mos_socket *other = view->flow->views[i];
        if (other != view && !(other->stopped[0] && other->stopped[1]))
            return failed(EBUSY);
    }
    view->flow->offload = what;
    mos_flow_set_buffers(view->flow);
    return 0;
}

int mos_ext_take_back(mctx_t mctx, int sock)
{
    struct mos_socket *view = view_of(mctx, sock);
    if (!view)
        return -1;
    if (!view->flow->offload)
        return 0;
    view->flow->offload = 0;
    mos_flow_set_buffers(view->flow);
    for (unsigned i = 0; i < 2; i++)
        go_on_reading(view->flow, view, i);
    return 0;
}

static int read_address(struct mos_address *out, const struct sockaddr *in)
{
    memset(out, 0, sizeof *out);
    if (!in)
        return failed(EFAULT);
    if (in->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, in, sizeof four);
        memcpy(out->ip, &four.sin_addr, sizeof four.sin_addr);
        out->port = four.sin_port;
    } else if (in->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, in, sizeof six);
        memcpy(out->ip, &six.sin6_addr, sizeof six.sin6_addr);
        out->port = six.sin6_port;
    } else {
        return failed(EAFNOSUPPORT);
    }
    return 0;
}

int mos_ext_find(mctx_t mctx, int monitor, const struct sockaddr *client, const struct sockaddr *server)
{
    const struct mos_socket *socket = mos_socket_get(mctx, monitor);
    struct mos_address ends[2];
    if (!socket || read_address(&ends[0], client) || read_address(&ends[1], server))
        return -1;
    if (socket->type != MOS_SOCK_MONITOR_STREAM)
        return failed(EINVAL);
    const struct mos_flow *flow = mos_flow_index_find(mos_context_of(mctx), ends);
    if (!flow)
        return -1;
    for (unsigned i = 0; i < flow->view_count; i++)
        if (flow->views[i]->monitor == socket)
            return flow->views[i]->id;
    return failed(ENOENT);
}

/* --- packets --- */

int mos_ext_inject(mctx_t mctx, int device, const void *frame, size_t length)
{
    struct mos_context *context = mos_context_of(mctx);
    if (!context)
        return failed(EACCES);
    if (mos_is_foreign(context))
        return failed(EPERM);
    if (!frame)
        return failed(EFAULT);
    if (!length || length > UINT16_MAX)
        return failed(EMSGSIZE);
    const struct sl_frame out = {.at = frame, .captured = (uint32_t)length, .length = (uint32_t)length,
                                 .time = context->time, .link_type = 1};
    return context->run && mos_output(&context->run->outputs, device, &out) == 0 ? 0 : failed(ENETUNREACH);
}

/* Where packets leave that go the other way than those of a device. */
static int opposite(int device)
{
    const struct mos_device *own = &mos_configuration.devices[device];
    const struct mos_device *other = own->live && own->to ? mos_device_named(own->to) : NULL;
    return other && other->to ? (int)(other - mos_configuration.devices) : device;
}

/* The sequence number that the other end expects from this one next: of the current packet's sender, the one before that
 * packet, which does not reach it. */
static uint32_t expected_from(const struct mos_flow *flow, unsigned from)
{
    if (from == flow->sender)
        return flow->end[from].sent ? flow->expects : 0;
    const struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    return flow->end[from].sent ? (uint32_t)(buffer->sequence->based ? buffer->sequence->next : buffer->origin) : 0;
}

static void put32(uint8_t *at, uint32_t value)
{
    const uint32_t big = htonl(value);
    memcpy(at, &big, sizeof big);
}

/* A reset to an end, in the packet's link header and IP version: with exactly the number that it expects (RFC 5961, 3.2),
 * and an acknowledgement, by which an end in SYN_SENT believes it. Addresses are those that this end's packets have: the
 * current ones where the packet goes to it, turned round those that it came with. */
static int send_reset(struct mos_context *context, const struct mos_flow *flow, unsigned to)
{
    const struct mos_packet *packet = &context->packet;
    const bool back = to == flow->sender;
    const size_t link = (size_t)(packet->ip - packet->bytes), tcp_at = (size_t)(packet->tcp - packet->bytes);
    const uint8_t *from = back ? packet->source->at : packet->bytes;
    const struct mos_ip ip = mos_ip_of(from + link);
    const uint32_t header = ip.six ? MOS_IPV6_HEADER : sizeof(struct iphdr);
    const uint32_t total = header + sizeof(struct tcphdr), length = (uint32_t)link + total;
    uint8_t *bytes = calloc(1, length);
    if (!bytes)
        return failed(ENOMEM);
    uint8_t *own_ip = bytes + link, *tcp = own_ip + header;
    memcpy(bytes, from, link);
    if (back && packet->frame.link_type == 1 && link >= 12) {
        memcpy(bytes, from + 6, 6);
        memcpy(bytes + 6, from, 6);
    }
    own_ip[0] = ip.six ? 0x60 : 0x45;
    own_ip[ip.six ? 6 : 9] = IPPROTO_TCP;
    own_ip[ip.six ? 7 : 8] = 64;
    for (unsigned i = 0; i < 2; i++) {
        memcpy(own_ip + ip.addresses + i * ip.size, from + link + ip.addresses + (i ^ back) * ip.size, ip.size);
        memcpy(tcp + 2 * i, from + tcp_at + 2 * (i ^ back), 2);
    }
    put32(tcp + 4, expected_from(flow, to ^ 1));
    put32(tcp + 8, expected_from(flow, to));
    tcp[12] = 5 << 4;
    tcp[13] = MOS_RST | (flow->end[to].sent ? MOS_ACK : 0);
    mos_ip_set_total(own_ip, total);
    struct mos_packet made = {.ip = own_ip, .tcp = tcp, .tcp_length = sizeof(struct tcphdr)};
    mos_packet_update_checksums(&made, MOS_UPDATE_IP_CHKSUM | MOS_UPDATE_TCP_CHKSUM);
    const struct sl_frame out = {.at = bytes, .captured = length, .length = length, .time = context->time,
                                 .link_type = packet->frame.link_type};
    const int device = back ? opposite(packet->device) : packet->device;
    const int result = mos_output(&context->run->outputs, device, &out);
    free(bytes);
    return result ? failed(ENETUNREACH) : 0;
}

int mos_ext_reset(mctx_t mctx, int sock)
{
    const struct mos_socket *view = view_of(mctx, sock);
    if (!view)
        return -1;
    struct mos_flow *flow = view->flow;
    struct mos_packet *packet = &flow->context->packet;
    if (!packet->there || packet->flow != flow)
        return failed(ENODATA);
    if (packet->inner || !mos_packet_inside(packet, packet->ip) || !mos_packet_inside(packet, packet->tcp))
        return failed(ENOTSUP);
    const bool first = send_reset(flow->context, flow, flow->sender ^ 1) == 0;
    if (!(send_reset(flow->context, flow, flow->sender) == 0 && first))
        return -1;
    packet->dropped = true;
    flow->end[0].state = flow->end[1].state = MOS_CLOSED;
    return 0;
}

int mtcp_reset_conn(mctx_t mctx, int sock) { return mos_ext_reset(mctx, sock); }
