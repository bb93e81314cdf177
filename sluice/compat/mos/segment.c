/* A segment's path through both ends of its flow, in the order that docs/mos.md gives. */
#include "mos_ext.h"
#include "monitor.h"

struct segment {
    struct mos_segment_header header;
    uint64_t from, to;   /* offsets of its payload in the sender's stream, as far as it was captured */
    uint64_t stop;       /* as far as it was sent */
    const uint8_t *payload;
    bool stale;          /* all of it lies before the stream's beginning */
};

static struct mos_segment_header read_header(const uint8_t *tcp)
{
    return (struct mos_segment_header){(uint32_t)sl_load_be32(tcp + 4), (uint32_t)sl_load_be32(tcp + 8),
                                       (uint16_t)sl_load_be16(tcp + 14), tcp[13]};
}

/* Reads the current segment, which end `from` of a flow sent. */
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
    s.stop = s.from + (sent > before ? sent - before : 0);
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
        return true;   /* right after what it has sent, although not all of that may have come through */
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
    bool near = s->from <= end->sent || s->stop <= sl_max(edge_of(flow, from ^ 1), next + UINT16_MAX);
    bool follows = !s->stale && s->stop >= next && near;
    struct mos_change change = mos_end_sends(end, &s->header, s->stop, repeated, follows);
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
            started = mos_end_receives_syn(end, &s->header);
        if (s->header.flags & MOS_ACK)
            mos_end_receives_ack(end, s->header.ack);
        if (sender->finished && mos_buffer_next_with(buffer, s->from, s->stop) >= sender->fin)
            mos_end_receives_fin(end);
    }
    bool known = s->from < s->stop ? mos_buffer_knows(buffer, s->from, s->stop) : s->stale && flow->context->packet.payload_wire;
    return MOS_ON_PKT_IN | (started ? MOS_ON_CONN_START : 0) | (known || repeated ? MOS_ON_REXMIT : 0) |
           (end->state != before ? MOS_ON_TCP_STATE_CHANGE : 0);
}

/* Does a monitor want the bytes that an end receives? */
static bool reads(const struct mos_socket *view, unsigned to) { return view->buffer[to] && !view->stopped[to]; }

/* For every monitor that would lose bytes which it has not read, or all where the segment is beyond the window. */
static void raise_error(struct mos_flow *flow, unsigned to, uint64_t end, bool beyond)
{
    for (unsigned i = 0; i < flow->view_count; i++) {
        struct mos_socket *view = mos_flow_view(flow, i);
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
    if (s->from >= s->stop || s->header.flags & MOS_RST)
        return false;
    if (buffer->size) {
        static const uint8_t cut[UINT16_MAX];   /* what the snap length cut off reads as zeros */
        bool beyond = s->stop > edge_of(flow, to);
        if (beyond || mos_buffer_base_for(buffer, s->stop) > buffer->base)
            raise_error(flow, to, s->stop, beyond);
        if (beyond && mos_buffer_base_for(buffer, s->stop) > buffer->base)
            return false;   /* it would push out what counts */
        mos_buffer_keep(buffer, s->from, s->to, s->payload);
        if (s->stop - s->to <= sizeof cut)
            mos_buffer_keep(buffer, s->to, s->stop, cut);
    }
    mos_buffer_note(buffer, &flow->context->pool, s->from, s->stop);
    for (unsigned i = 0; buffer->size && i < flow->view_count; i++)
        mos_reader_follow(&flow->views[i]->reader[to], buffer->base, reads(flow->views[i], to));
    return mos_buffer_next(buffer) > next;
}

static void raise_new_data(struct mos_flow *flow, unsigned to)
{
    flow->context->packet.there = false;
    for (unsigned i = 0; i < flow->view_count && !flow->offload; i++) {
        struct mos_socket *view = mos_flow_view(flow, i);
        if (reads(view, to) && (view->reader[to].read < mos_buffer_next(&flow->buffer[to]) || view->reader[to].lost))
            mos_raise(flow->context, view, (int)to, MOS_AT_NULL, MOS_ON_CONN_NEW_DATA);
    }
}

void mos_segment_pass(struct mos_flow *flow, unsigned from)
{
    struct mos_packet *packet = &flow->context->packet;
    flow->sender = from;
    if (flow->offload == MOS_EXT_DROP) {
        packet->dropped = true;
        mos_flow_settle(flow);
        return;
    }
    packet->flow = flow;
    const struct mos_segment_header header = read_header(packet->tcp);
    bool repeated = header.flags & MOS_SYN && flow->end[from].numbered && header.seq == flow->end[from].isn;
    mos_end_numbers(&flow->end[from], &header);
    struct segment s = read_segment(flow, from);
    event_t set = update_sender(flow, from, &s, repeated);
    bool watched = mos_flow_is_watched(flow);
    if (watched) {
        packet->there = packet->changeable = true;
        mos_flow_raise(flow, from, MOS_AT_SND, set);
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
            mos_flow_raise(flow, from ^ 1, MOS_AT_RCV, set);
        data = receive(flow, from ^ 1, &s);
    }
    packet->there = false;
    packet->flow = NULL;
    if (data)
        raise_new_data(flow, from ^ 1);
    mos_flow_settle(flow);
}
