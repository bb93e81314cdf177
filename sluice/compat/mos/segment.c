/* A segment's path through both ends of its flow, in the order that docs/mos.md gives. The stack's TCP has read it, and has
 * not yet put it into its sequence: both sets of events are raised before that, with the receiver's end as it will be. */
#include "mos_ext.h"
#include "sluice_mos.h"

#include "monitor.h"

struct segment {
    uint32_t number, ack;   /* number: of its first byte */
    uint8_t flags;
    uint64_t from, to;   /* offsets of its payload in the sender's stream, as far as it was captured */
    uint64_t stop;       /* as far as it was sent */
    const uint8_t *payload;
    bool stale;          /* all of it lies before the stream's beginning */
    bool fin;            /* the sender's stream ends, at `fin` of the receiver's buffer */
    bool reset;
};

static uint32_t number_at(const uint8_t *at) { return (uint32_t)sl_load_be32(at); }

/* A reset that TCP believes. Of an end in SYN_SENT it answers a segment of another connection where it has that one's number:
 * the end stays as it is (RFC 9293, 3.5.1, figure 9). */
static bool resets(const struct mos_end *sender, uint32_t number, const struct mos_segment *known)
{
    return known->reset && (sender->state != MOS_SYN_SENT || number - known->base <= UINT16_MAX);
}

/* Reads the current segment, which end `from` of a flow sent. */
static struct segment read_segment(struct mos_flow *flow, unsigned from, const struct mos_segment *known)
{
    struct mos_packet *packet = &flow->context->packet;
    const struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    const uint8_t flags = packet->tcp[13];
    struct segment s = {.number = number_at(packet->tcp + 4) + (flags & MOS_SYN ? 1 : 0), .ack = number_at(packet->tcp + 8),
                        .flags = flags};
    s.fin = known->fin && buffer->fin != MOS_NO_FIN && buffer->fin >= mos_buffer_next(buffer);
    s.reset = resets(&flow->end[from], s.number, known);
    const int64_t offset = mos_buffer_offset(buffer, s.number);
    const uint64_t before = offset < 0 ? (uint64_t)-offset : 0, captured = packet->payload_length, sent = packet->payload_wire;
    s.stale = before && before >= sent;
    s.from = offset < 0 ? 0 : (uint64_t)offset;
    s.to = s.from + (captured > before ? captured - before : 0);
    s.stop = s.from + (sent > before ? sent - before : 0);
    s.payload = packet->payload + sl_min(before, captured);
    packet->offset = s.from;
    return s;
}

static event_t state_change(const struct mos_end *end, uint8_t before)
{
    return end->state != before ? MOS_ON_TCP_STATE_CHANGE : 0;
}

/* The sender's side of a segment; the events of its set. */
static event_t update_sender(struct mos_flow *flow, unsigned from, const struct segment *s, const struct mos_segment *known)
{
    struct mos_end *end = &flow->end[from];
    const uint8_t before = end->state;
    event_t set = MOS_ON_PKT_IN;
    end->sent = true;
    if (s->flags & MOS_SYN) {
        if (end->sent_syn && s->number == known->base)
            set |= MOS_ON_REXMIT;
        if (!(s->flags & MOS_ACK) && end->state == MOS_CLOSED) {
            end->state = MOS_SYN_SENT;
            set |= MOS_ON_CONN_START;
        }
        end->sent_syn = true;
    }
    if (s->flags & MOS_FIN && s->fin)
        mos_end_sends_fin(end);
    if (s->reset)
        end->state = MOS_CLOSED;
    return set | state_change(end, before);
}

/* The receiver's side, but for the bytes; `sent`: the sender's set. */
static event_t update_receiver(struct mos_flow *flow, unsigned from, const struct segment *s, const struct mos_segment *known,
                               event_t sent)
{
    struct mos_end *end = &flow->end[from ^ 1];
    const struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    const uint8_t before = end->state;
    event_t set = MOS_ON_PKT_IN | (sent & MOS_ON_REXMIT);   /* of a SYN */
    if (s->flags & MOS_RST) {
        if (s->reset)
            end->state = MOS_CLOSED;
    } else {
        if (s->flags & MOS_SYN && mos_end_receives_syn(end, s->flags, s->ack == known->its_base))
            set |= MOS_ON_CONN_START;
        if (s->flags & MOS_ACK)
            mos_end_receives_ack(end, end->sent && (int32_t)(s->ack - known->its_base) >= 0,
                                 known->its_fin && (int32_t)(s->ack - known->its_end) >= 0);
        if (s->fin && mos_buffer_next_with(buffer, s->from, s->stop) >= buffer->fin)
            mos_end_receives_fin(end);
    }
    return set | state_change(end, before);
}

/* Has the receiver got payload of it before? */
static bool repeats(const struct mos_flow *flow, unsigned from, const struct segment *s)
{
    return s->from < s->stop ? mos_buffer_knows(&flow->buffer[from ^ 1], s->from, s->stop)
                             : s->stale && flow->context->packet.payload_wire;
}

/* Does a monitor read the bytes that an end receives? */
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

/* There is no memory for bytes before `end`: readers lose them. */
static void lose(struct mos_flow *flow, struct mos_buffer *buffer, uint64_t end)
{
    if (end > buffer->base)
        flow->context->losses.unbuffered += end - buffer->base;
    buffer->base = sl_max(buffer->base, end);
}

/* Bytes reach the receive buffer of end `to`. False when they are not to be received. */
static bool receive(struct mos_flow *flow, unsigned to, const struct segment *s, bool beyond)
{
    static const uint8_t cut[UINT16_MAX];   /* bytes beyond the snap length read as zeros */
    struct mos_buffer *buffer = &flow->buffer[to];
    if (buffer->size && !mos_buffer_reserve(buffer)) {
        raise_error(flow, to, s->stop, true);   /* its callback may set a smaller one, */
        if (buffer->size && !mos_buffer_reserve(buffer)) {
            if (!beyond)
                lose(flow, buffer, s->stop);
            return !beyond;
        }
    }
    if (buffer->size) {   /* or none */
        if (beyond || mos_buffer_base_for(buffer, s->stop) > buffer->base)
            raise_error(flow, to, s->stop, beyond);
        if (beyond && mos_buffer_base_for(buffer, s->stop) > buffer->base)
            return false;   /* it would evict valid bytes */
        mos_buffer_keep(buffer, s->from, s->to, s->payload);
        if (s->stop - s->to <= sizeof cut)
            mos_buffer_keep(buffer, s->to, s->stop, cut);
    }
    return true;
}

/* Is what TCP reads of the current segment other than what it has read of it? Addresses and ports are not its. */
static bool reads_otherwise(const struct mos_packet *packet, const struct segment *s, uint32_t payload_wire)
{
    const uint32_t number = number_at(packet->tcp + 4) + (packet->tcp[13] & MOS_SYN ? 1 : 0);
    return packet->payload_wire != payload_wire || number != s->number || number_at(packet->tcp + 8) != s->ack ||
           packet->tcp[13] != s->flags;
}

/* A SYN with which the stack would begin another connection in place of the flow, in the middle of a segment of it. */
static bool begins_another(const struct mos_flow *flow, const struct mos_segment *known)
{
    const bool over = known->fin || known->its_fin || flow->was_reset;
    return over && (flow->context->packet.tcp[13] & (MOS_SYN | MOS_ACK)) == MOS_SYN;
}

/* The set of the receiver's end, once that has received the current packet. */
static void raise_received(struct mos_flow *flow)
{
    struct mos_packet *packet = &flow->context->packet;
    packet->there = mos_flow_is_watched(flow);
    packet->flow = flow;
    if (packet->there)
        mos_flow_raise(flow, flow->sender ^ 1, MOS_AT_RCV, flow->received);
    flow->received = 0;
    packet->there = false;
    packet->flow = NULL;
}

static bool forward_dropped(struct mos_flow *flow)
{
    flow->context->packet.there = false;
    flow->context->packet.flow = NULL;
    mos_flow_settle(flow);
    return false;
}

bool mos_segment_pass(struct mos_flow *flow, unsigned from, const struct mos_segment *known)
{
    struct mos_packet *packet = &flow->context->packet;
    struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    const bool changed = packet->again == MOS_CHANGED;   /* its sender's part was done */
    flow->sender = from;
    flow->received = 0;
    flow->was_reset |= known->reset;
    if (flow->offload == MOS_EXT_DROP) {
        packet->dropped = true;
        return forward_dropped(flow);
    }
    packet->flow = flow;
    const bool first_is_reset = packet->tcp[13] & MOS_RST && !buffer->sequence->based;   /* which numbers no stream */
    mos_buffer_begins_at(buffer, first_is_reset ? number_at(packet->tcp + 4) : known->base);
    flow->expects = (uint32_t)(buffer->sequence->based ? buffer->sequence->next : buffer->origin);
    if (known->fin && mos_buffer_offset(buffer, known->end - 1) >= (int64_t)mos_buffer_next(buffer))
        buffer->fin = (uint64_t)mos_buffer_offset(buffer, known->end - 1);   /* one before that is no news to the receiver */
    struct segment s = read_segment(flow, from, known);
    const bool watched = mos_flow_is_watched(flow);
    event_t set = changed ? MOS_ON_PKT_IN : update_sender(flow, from, &s, known);
    if (watched && !changed) {
        const uint32_t payload_wire = packet->payload_wire;
        packet->there = packet->changeable = true;
        mos_flow_raise(flow, from, MOS_AT_SND, set);
        packet->changeable = false;
        if (packet->dropped)
            return forward_dropped(flow);
        if (packet->changed) {
            mos_translated_note(flow);
            if (reads_otherwise(packet, &s, payload_wire)) {
                if (begins_another(flow, known))
                    return forward_dropped(flow);
                mos_packet_again(flow, from, MOS_CHANGED);   /* the receiver gets that one */
                return false;
            }
            s = read_segment(flow, from, known);   /* it lies elsewhere */
        }
    }
    flow->received = update_receiver(flow, from, &s, known, set);
    flow->next = mos_buffer_next(buffer);
    packet->there = watched;
    if (watched && repeats(flow, from, &s))
        mos_flow_raise(flow, from ^ 1, MOS_AT_RCV, MOS_ON_REXMIT);   /* while the buffer holds the old bytes */
    if (s.from < s.stop && !(s.flags & MOS_RST) && !known->outside) {
        const bool beyond = known->bounded && (int32_t)(s.number + packet->payload_wire - known->high) > 0;
        if (!receive(flow, from ^ 1, &s, beyond)) {
            raise_received(flow);
            return forward_dropped(flow);
        }
    }
    packet->there = false;
    return true;
}

/* Does a segment with payload, number `number`, only append bytes to the receive buffer of end `to`: without an error, and
 * with nothing out of order before or after it? */
static bool appends(struct mos_flow *flow, unsigned to, uint32_t number, uint32_t length, const struct mos_segment *known)
{
    struct mos_buffer *buffer = &flow->buffer[to];
    const uint64_t next = mos_buffer_next(buffer), base = mos_buffer_base_for(buffer, next + length);
    if (!buffer->has_begun || buffer->fin != MOS_NO_FIN || buffer->most != UINT64_MAX || known->outside ||
        mos_buffer_offset(buffer, number) != (int64_t)next || mos_buffer_extents(buffer) || !mos_buffer_reserve(buffer) ||
        (known->bounded && (int32_t)(number + length - known->high) > 0))
        return false;
    for (unsigned i = 0; i < flow->view_count; i++)
        if (reads(flow->views[i], to) && mos_reader_loses(&flow->views[i]->reader[to], base))
            return false;
    return true;
}

bool mos_segment_append(struct mos_flow *flow, unsigned from, const struct sl_frame *frame, uint32_t header,
                        sl_bytes segment, const struct mos_segment *known)
{
    struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    const uint32_t length = segment.length - header;
    if (segment.captured < segment.length || !appends(flow, from ^ 1, number_at(segment.at + 4), length, known) ||
        !mos_packet_pass(flow->context, frame))
        return false;
    flow->sender = from;
    flow->received = 0;   /* no set of the receiver is pending */
    flow->next = mos_buffer_next(buffer);
    mos_buffer_append(buffer, length, segment.at + header);
    return true;
}

static void raise_new_data(struct mos_flow *flow, unsigned to)
{
    if (!(flow->context->wanted[MOS_AT_NULL] & MOS_ON_CONN_NEW_DATA))
        return;
    for (unsigned i = 0; i < flow->view_count && !flow->offload; i++) {
        struct mos_socket *view = mos_flow_view(flow, i);
        if (reads(view, to) && (view->reader[to].read < mos_buffer_next(&flow->buffer[to]) || view->reader[to].lost))
            mos_raise(flow->context, view, (int)to, MOS_AT_NULL, MOS_ON_CONN_NEW_DATA);
    }
}

void mos_segment_received(struct mos_flow *flow, unsigned from, const struct sl_sequence_rules *rules)
{
    const unsigned to = from ^ 1;
    struct mos_buffer *buffer = &flow->buffer[to];
    mos_buffer_begins_at(buffer, (uint32_t)buffer->origin);
    if (buffer->size) {
        mos_buffer_skip(buffer, rules, &flow->context->box->pool);
        for (unsigned i = 0; i < flow->view_count; i++)
            mos_reader_follow(&flow->views[i]->reader[to], buffer->base, reads(flow->views[i], to));
    }
    if (flow->received)
        raise_received(flow);
    if (mos_buffer_next(buffer) > flow->next)
        raise_new_data(flow, to);
    mos_flow_settle(flow);
}

void mos_segments_given_up(struct mos_flow *flow, unsigned from, uint64_t offset, uint64_t length, unsigned cause)
{
    enum { TIMEOUT = 1, CLOSE = 2, CUT = 3 };   /* GAP_CAUSES of the language */
    struct mos_buffer *buffer = &flow->buffer[from ^ 1];
    if (cause == TIMEOUT || cause == CLOSE)
        buffer->most = sl_min(buffer->most, offset);   /* nothing after the hole has been in order */
    else if (cause != CUT) {
        buffer->base = sl_max(buffer->base, offset + length);
        flow->context->losses.given_up += length;
    }
}
