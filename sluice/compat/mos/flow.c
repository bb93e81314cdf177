/* Flows: a segment's way through both ends, in the order that docs/mos.md tells. */
#include "monitor.h"

/* --- life --- */

static void leave_queue(struct mos_flow *flow)
{
    struct mos_queue *queue = flow->queue;
    if (!queue)
        return;
    *(flow->older ? &flow->older->newer : &queue->first) = flow->newer;
    *(flow->newer ? &flow->newer->older : &queue->last) = flow->older;
    flow->queue = NULL;
}

/* It waits from now on, behind all that wait there. */
static void enter_queue(struct mos_flow *flow, struct mos_queue *queue)
{
    if (queue->last != flow) {
        leave_queue(flow);
        flow->queue = queue;
        flow->older = queue->last;
        flow->newer = NULL;
        *(queue->last ? &queue->last->newer : &queue->first) = flow;
        queue->last = flow;
    }
    uint64_t now = flow->context->time;
    flow->deadline = queue->after > SL_NEVER - now ? SL_NEVER : now + queue->after;
}

void mos_flow_set_buffers(struct mos_flow *flow)
{
    for (unsigned side = 0; side < 2; side++) {
        struct mos_buffer *buffer = &flow->buffer[side];
        uint32_t size = 0;
        for (unsigned i = 0; i < flow->view_count; i++)
            if (!flow->views[i]->stopped[side]) {
                size = (uint32_t)sl_max(size, (uint64_t)flow->views[i]->buffer[side]);
                buffer->last = flow->views[i]->overlap[side] == MOS_OVERLAP_POLICY_LAST;
            }
        mos_buffer_resize(buffer, size);
        for (unsigned i = 0; i < flow->view_count; i++)   /* what was not kept is not lost */
            mos_reader_follow(&flow->views[i]->reader[side], buffer->base, buffer->bytes != NULL);
    }
}

/* Do all monitors that the flow is for want nothing of it? */
static bool unwatched(const struct mos_flow *flow)
{
    for (unsigned i = 0; i < flow->view_count; i++)
        if (!flow->views[i]->stopped[0] || !flow->views[i]->stopped[1])
            return false;
    return true;
}

/* A flow for the SYN in hand, or NULL when no monitor takes it. */
static struct mos_flow *begin(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance, unsigned side)
{
    unsigned count = 0;
    struct mos_socket *takers[MOS_MONITORS];
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        if (monitor->type == MOS_SOCK_MONITOR_STREAM && mos_filter_accepts(monitor->syn, &context->packet.frame))
            takers[count++] = monitor;
    if (count && context->flows >= (uint64_t)mos_configuration.conf.max_concurrency)   /* the longest quiet gives way */
        mos_flow_end(context->time_wait.first ? context->time_wait.first : context->open.first, 0);
    struct mos_flow *flow = count ? calloc(1, sizeof *flow + count * sizeof *flow->views) : NULL;
    if (!flow)
        return NULL;
    flow->context = context;
    flow->place = place;
    flow->instance = instance;
    instance->deadline = SL_NEVER;   /* the flow before it on these ports may have given it back */
    flow->client_side = side;
    mos_ip_ends(context->packet.ip, context->packet.tcp, flow->ends);
    flow->six = mos_ip_of(context->packet.ip).six;
    mos_buffer_begin(&flow->buffer[0]);
    mos_buffer_begin(&flow->buffer[1]);
    flow->end[0].state = MOS_CLOSED;
    flow->end[1].state = MOS_LISTEN;
    for (unsigned i = 0; i < count; i++) {
        struct mos_socket *view = mos_socket_new(context, MOS_SOCK_MONITOR_STREAM_ACTIVE);
        if (!view)
            continue;   /* that monitor does not hear of it */
        view->flow = flow;
        view->monitor = takers[i];
        memcpy(view->buffer, takers[i]->buffer, sizeof view->buffer);
        memcpy(view->overlap, takers[i]->overlap, sizeof view->overlap);
        flow->views[flow->view_count++] = view;
    }
    mos_flow_set_buffers(flow);
    enter_queue(flow, &context->open);
    context->flows++;
    *place = flow;
    return flow;
}

/* The monitor that comes as number i: what comes from the client meets them in order, what comes from the server the other
 * way round, so that chained monitors nest. */
static struct mos_socket *view_of(const struct mos_flow *flow, unsigned i)
{
    return flow->views[flow->sender ? flow->view_count - 1 - i : i];
}

/* One set of events for all monitors of a flow. */
static void tell(struct mos_flow *flow, unsigned side, enum mos_hook hook, event_t set)
{
    for (unsigned i = 0; i < flow->view_count; i++)
        mos_raise(flow->context, view_of(flow, i), (int)side, hook, set);
}

void mos_flow_end(struct mos_flow *flow, event_t why)
{
    struct mos_context *context = flow->context;
    bool there = context->packet.there, changeable = context->packet.changeable;
    context->packet.there = context->packet.changeable = false;
    leave_queue(flow);
    if (flow->place) {
        *flow->place = NULL;
        sl_give_back(context->box, flow->instance);
    }
    flow->place = NULL;
    flow->end[0].state = flow->end[1].state = MOS_CLOSED;
    if (why)
        tell(flow, flow->sender ^ 1, MOS_AT_NULL, why);
    const event_t set = why | MOS_ON_TCP_STATE_CHANGE | MOS_ON_CONN_END;
    tell(flow, flow->sender ^ 1, MOS_AT_RCV, set);
    tell(flow, flow->sender, MOS_AT_SND, set);
    mos_translated_forget(flow);
    for (unsigned i = 0; i < flow->view_count; i++)
        mos_socket_free(context, flow->views[i]);
    mos_buffer_free(&flow->buffer[0], &context->pool);
    mos_buffer_free(&flow->buffer[1], &context->pool);
    free(flow);
    context->flows--;
    context->packet.there = there;
    context->packet.changeable = changeable;
}

void mos_flows_end(struct mos_context *context)
{
    while (context->open.first)
        mos_flow_end(context->open.first, 0);
    while (context->time_wait.first)
        mos_flow_end(context->time_wait.first, 0);
}

void mos_flow_forgotten(struct mos_flow *flow)
{
    flow->place = NULL;
    mos_flow_end(flow, 0);
}

/* --- a segment --- */

struct segment {
    struct mos_segment_header header;
    uint64_t from, to;   /* offsets of its payload in the sender's stream, as far as it was captured */
    uint64_t behind;     /* as far as it was sent */
    const uint8_t *payload;
    bool stale;          /* all of it lies before the stream's beginning */
};

static struct mos_segment_header read_header(const uint8_t *tcp)
{
    return (struct mos_segment_header){(uint32_t)sl_load_be32(tcp + 4), (uint32_t)sl_load_be32(tcp + 8),
                                       (uint16_t)sl_load_be16(tcp + 14), tcp[13]};
}

/* Reads the segment in hand, which end `from` of a flow sent. */
static struct segment read_segment(struct mos_flow *flow, unsigned from)
{
    struct mos_packet *packet = &flow->context->packet;
    struct segment s = {.header = read_header(packet->tcp)};
    uint32_t first = s.header.seq + (s.header.flags & MOS_SYN ? 1 : 0);
    const struct mos_end *sender = &flow->end[from];
    int64_t offset = 0;
    if (sender->numbered) {
        uint64_t next = mos_buffer_next(&flow->buffer[from ^ 1]);
        offset = (int64_t)next + (int32_t)(first - (sender->isn + 1 + (uint32_t)next));
    }
    uint64_t before = offset < 0 ? (uint64_t)-offset : 0, captured = packet->payload_length, sent = packet->payload_wire;
    s.stale = before && before >= sent;
    s.from = offset < 0 ? 0 : (uint64_t)offset;
    s.to = s.from + (captured > before ? captured - before : 0);
    s.behind = s.from + (sent > before ? sent - before : 0);
    s.payload = packet->payload + sl_min(before, captured);
    packet->offset = s.from;
    return s;
}

/* The window that a segment offers, by the factor that its sender announced in a SYN (RFC 7323, 2), and how far it lets the
 * other end send. */
static void note_window(struct mos_flow *flow, unsigned from, const struct mos_segment_header *header)
{
    struct mos_end *end = &flow->end[from];
    const struct mos_end *other = &flow->end[from ^ 1];
    const struct mos_packet *packet = &flow->context->packet;
    if (header->flags & MOS_RST)
        return;
    if (header->flags & MOS_SYN && packet->payload) {
        for (const uint8_t *at = packet->tcp + 20; at < packet->payload && *at;) {
            if (*at == 1) {
                at++;
                continue;
            }
            if (packet->payload - at < 2 || at[1] < 2 || at[1] > packet->payload - at)
                break;
            if (*at == 3 && at[1] == 3)
                end->scale = at[2] > 14 ? 14 : at[2];
            at += at[1];
        }
    }
    end->window = header->flags & MOS_SYN ? header->window : (uint32_t)header->window << end->scale;
    if (header->flags & MOS_ACK && other->numbered) {
        uint64_t next = mos_buffer_next(&flow->buffer[from]);
        int64_t ack = (int64_t)next + (int32_t)(header->ack - (other->isn + 1 + (uint32_t)next));
        if (ack >= 0 && (uint64_t)ack + end->window > end->edge)
            end->edge = (uint64_t)ack + end->window;
    }
}

/* How far an end lets the other one send, as far as can be told. */
static uint64_t edge_of(const struct mos_flow *flow, unsigned to)
{
    const struct mos_end *end = &flow->end[to];
    return sl_max(mos_buffer_next(&flow->buffer[to]) + (end->numbered ? end->window : UINT16_MAX), end->edge);
}

/* Is a reset one that an end believes? */
static bool reset_counts(const struct mos_flow *flow, unsigned from, const struct mos_segment_header *header)
{
    const struct mos_end *sender = &flow->end[from], *receiver = &flow->end[from ^ 1];
    if (sender->sent && header->seq == sender->isn + 1 + (uint32_t)sender->sent + sender->finished)
        return true;   /* right behind what it has sent, although not all of that may have come through */
    if (receiver->state == MOS_SYN_SENT)   /* RFC 9293, 3.10.7.3: it acknowledges the SYN, and perhaps what follows that */
        return (header->flags & MOS_ACK) && header->ack - (receiver->isn + 1) <= (uint32_t)receiver->sent;
    int32_t ahead = (int32_t)(header->seq - (sender->isn + 1 + (uint32_t)mos_buffer_next(&flow->buffer[from ^ 1])));
    return ahead >= -1 && (uint32_t)(ahead + 1) <= sl_max(receiver->window, UINT16_MAX) + 1;
}

/* The sender's side of a segment; the events of its set. */
static event_t update_sender(struct mos_flow *flow, unsigned from, const struct segment *s, bool repeated)
{
    struct mos_end *end = &flow->end[from];
    enum mos_state before = end->state;
    uint64_t next = mos_buffer_next(&flow->buffer[from ^ 1]);
    bool near = s->from <= end->sent || s->behind <= sl_max(edge_of(flow, from ^ 1), next + UINT16_MAX);
    bool follows = !s->stale && s->behind >= next && near;
    struct mos_change change = mos_end_sends(end, &s->header, s->behind, repeated, follows);
    note_window(flow, from, &s->header);
    if (s->header.flags & MOS_RST && reset_counts(flow, from, &s->header))
        end->state = MOS_CLOSED;
    return MOS_ON_PKT_IN | (change.started ? MOS_ON_CONN_START : 0) | (change.repeated ? MOS_ON_REXMIT : 0) |
           (end->state != before ? MOS_ON_TCP_STATE_CHANGE : 0);
}

/* The receiver's side, but for the bytes. */
static event_t update_receiver(struct mos_flow *flow, unsigned from, const struct segment *s, bool repeated)
{
    struct mos_end *end = &flow->end[from ^ 1];
    const struct mos_end *sender = &flow->end[from];
    const struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    enum mos_state before = end->state;
    bool started = false;
    if (s->header.flags & MOS_RST) {
        if (reset_counts(flow, from, &s->header))
            end->state = MOS_CLOSED;
    } else {
        if (s->header.flags & MOS_SYN)
            started = mos_end_hears_syn(end, &s->header);
        if (s->header.flags & MOS_ACK)
            mos_end_hears_ack(end, s->header.ack);
        if (sender->finished && mos_buffer_next_with(buffer, s->from, s->behind) >= sender->fin)
            mos_end_hears_fin(end);
    }
    bool known = s->from < s->behind ? mos_buffer_knows(buffer, s->from, s->behind) : s->stale && flow->context->packet.payload_wire;
    return MOS_ON_PKT_IN | (started ? MOS_ON_CONN_START : 0) | (known || repeated ? MOS_ON_REXMIT : 0) |
           (end->state != before ? MOS_ON_TCP_STATE_CHANGE : 0);
}

/* Does a monitor want the bytes that an end receives? */
static bool reads(const struct mos_socket *view, unsigned to) { return view->buffer[to] && !view->stopped[to]; }

/* Tells every monitor that would lose bytes which it has not read, or all when the segment is beyond the window. */
static void tell_error(struct mos_flow *flow, unsigned to, uint64_t end, bool beyond)
{
    for (unsigned i = 0; i < flow->view_count; i++) {
        struct mos_socket *view = view_of(flow, i);
        uint64_t base = mos_buffer_base_for(&flow->buffer[to], end);
        if (reads(view, to) && (beyond || mos_reader_loses(&view->reader[to], base)))
            mos_raise(flow->context, view, (int)to, MOS_AT_NULL, MOS_ON_ERROR);
    }
}

/* Bytes reach the receive buffer of end `to`. True when there are some to read that were not before. */
static bool receive(struct mos_flow *flow, unsigned to, const struct segment *s)
{
    struct mos_buffer *buffer = &flow->buffer[to];
    uint64_t next = mos_buffer_next(buffer);
    if (s->from >= s->behind || s->header.flags & MOS_RST)
        return false;
    if (buffer->size) {
        static const uint8_t cut[UINT16_MAX];   /* what the snap length cut off reads as zeros */
        bool beyond = s->behind > edge_of(flow, to);
        if (beyond || mos_buffer_base_for(buffer, s->behind) > buffer->base)
            tell_error(flow, to, s->behind, beyond);
        if (beyond && mos_buffer_base_for(buffer, s->behind) > buffer->base)
            return false;   /* it would push out what counts */
        mos_buffer_keep(buffer, s->from, s->to, s->payload);
        if (s->behind - s->to <= sizeof cut)
            mos_buffer_keep(buffer, s->to, s->behind, cut);
    }
    mos_buffer_note(buffer, &flow->context->pool, s->from, s->behind);
    for (unsigned i = 0; buffer->size && i < flow->view_count; i++)
        mos_reader_follow(&flow->views[i]->reader[to], buffer->base, reads(flow->views[i], to));
    return mos_buffer_next(buffer) > next;
}

static void tell_new_data(struct mos_flow *flow, unsigned to)
{
    flow->context->packet.there = false;
    for (unsigned i = 0; i < flow->view_count; i++) {
        struct mos_socket *view = view_of(flow, i);
        if (reads(view, to) && (view->reader[to].read < mos_buffer_next(&flow->buffer[to]) || view->reader[to].lost))
            mos_raise(flow->context, view, (int)to, MOS_AT_NULL, MOS_ON_CONN_NEW_DATA);
    }
}

static bool is_over(const struct mos_end *end) { return end->state == MOS_CLOSED || end->state == MOS_TIME_WAIT; }

/* A flow whose ends are both closed is over, at once or when its time as TIME_WAIT is. */
static void settle(struct mos_flow *flow)
{
    struct mos_queue *wait = &flow->context->time_wait;
    if (!is_over(&flow->end[0]) || !is_over(&flow->end[1])) {
        enter_queue(flow, &flow->context->open);
        return;
    }
    bool waits = flow->end[0].state == MOS_TIME_WAIT || flow->end[1].state == MOS_TIME_WAIT;
    if (!waits || !wait->after)
        mos_flow_end(flow, 0);
    else if (flow->queue != wait)
        enter_queue(flow, wait);
}

/* The segment in hand, sent by end `from`, through both ends. */
static void both_ends(struct mos_flow *flow, unsigned from)
{
    struct mos_packet *packet = &flow->context->packet;
    flow->sender = from;
    const struct mos_segment_header header = read_header(packet->tcp);
    bool repeated = header.flags & MOS_SYN && flow->end[from].numbered && header.seq == flow->end[from].isn;
    mos_end_numbers(&flow->end[from], &header);
    struct segment s = read_segment(flow, from);
    event_t set = update_sender(flow, from, &s, repeated);
    bool watched = !unwatched(flow);
    if (watched) {
        packet->there = packet->changeable = true;
        tell(flow, from, MOS_AT_SND, set);
        packet->changeable = false;
    }
    bool data = false;
    if (!packet->dropped) {
        if (packet->changed) {
            mos_translated_note(flow);
            s = read_segment(flow, from);
        }
        set = update_receiver(flow, from, &s, (set & MOS_ON_REXMIT) != 0);
        if (watched)
            tell(flow, from ^ 1, MOS_AT_RCV, set);
        data = receive(flow, from ^ 1, &s);
    }
    packet->there = false;
    if (data)
        tell_new_data(flow, from ^ 1);
    settle(flow);
}

/* The segment in hand, which is of a flow of another context, goes through both ends there. */
static void lend(struct mos_packet *packet, struct mos_flow *flow, unsigned from)
{
    struct mos_packet *there = &flow->context->packet, own = *there;
    *there = *packet;
    both_ends(flow, from);
    *packet = *there;
    *there = own;
}

void mos_stray(struct mos_context *context)
{
    struct mos_packet *packet = &context->packet;
    unsigned from = 0;
    struct mos_flow *flow = mos_translated_find(context->run, packet, &from);
    if (flow) {
        if (flow->context == context)
            both_ends(flow, from);
        else
            lend(packet, flow, from);
        return;
    }
    packet->there = true;
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)   /* one that is closed meanwhile stays */
        if (monitor->type == MOS_SOCK_MONITOR_STREAM && mos_filter_accepts(monitor->orphan, &packet->frame))
            mos_raise(context, monitor, MOS_SIDE_BOTH, MOS_AT_NULL, MOS_ON_ORPHAN);
    packet->there = false;
}

/* Has either end sent a FIN or a reset, whether it came through or not? */
static bool is_closing(const struct mos_flow *flow)
{
    return flow->end[0].finished || flow->end[1].finished || flow->end[0].state == MOS_CLOSED || flow->end[1].state == MOS_CLOSED;
}

void mos_segment(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance, unsigned side)
{
    struct mos_flow *flow = *place;
    const uint8_t flags = context->packet.tcp[13];
    bool opens = (flags & (MOS_SYN | MOS_ACK | MOS_RST)) == MOS_SYN;
    if (flow && opens && is_closing(flow)) {
        const struct mos_end *end = &flow->end[side != flow->client_side];
        if (!end->numbered || (uint32_t)sl_load_be32(context->packet.tcp + 4) != end->isn) {
            mos_flow_end(flow, 0);   /* the ports are used again */
            flow = NULL;
        }
    }
    if (!flow && opens)
        flow = begin(context, place, instance, side);
    if (flow)
        both_ends(flow, side != flow->client_side);
    else
        mos_stray(context);
    if (!*place)
        sl_give_back(context->box, instance);   /* nothing to remember */
}

void mos_ip_packet(struct mos_context *context, sl_bytes unit)
{
    struct mos_packet *packet = &context->packet;
    packet->inner = packet->ip != NULL;
    packet->ip = (uint8_t *)(uintptr_t)unit.at;
    packet->ip_length = unit.captured;
    packet->tcp = NULL;
    packet->tcp_length = packet->tcp_wire = 0;
    const struct mos_ip ip = mos_ip_of(unit.at);
    const uint32_t total = ip.total || !ip.six ? ip.total : unit.length;
    const uint32_t length = (uint32_t)sl_min(sl_max(total, ip.header), unit.captured);
    if (!ip.fragment && ip.protocol == IPPROTO_TCP && length >= ip.header + sizeof(struct tcphdr)) {
        packet->tcp = packet->ip + ip.header;
        packet->tcp_length = length - ip.header;
        packet->tcp_wire = (uint32_t)sl_max(total, length) - ip.header;
    }
    packet->offset = 0;
    mos_packet_read(packet);
    if (packet->inner)
        return;   /* raw sockets see packets as they are on the wire */
    packet->there = true;
    for (struct mos_socket *monitor = context->first; monitor; monitor = monitor->next)
        if (monitor->type == MOS_SOCK_MONITOR_RAW && mos_filter_accepts(monitor->raw, &packet->frame))
            mos_raise(context, monitor, MOS_SIDE_BOTH, MOS_AT_NULL, MOS_ON_PKT_IN);
    packet->there = false;
}
