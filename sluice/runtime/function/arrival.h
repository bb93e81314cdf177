/* Functions that translate packets when they arrive, before the stack reads them: SLUICE_ARRIVAL.
 *
 * A function that rewrites the ends of a connection in one direction gets the other direction with the ends with which the
 * first one left. When such a packet arrives, it replaces these by the ends with which that direction was received. So the
 * stack has one instance for both directions, and all functions see the same ends in both, in whatever order they are: as
 * Linux' filter rules do, which run after the translation of destinations and before that of sources.
 *
 * Packets that functions send during the current packet have its ends as functions see them; sl_arrival_sent gives them
 * those with which the packet leaves, or, in the other direction, was received. */
#ifndef SL_ARRIVAL_H
#define SL_ARRIVAL_H

#include "function/output.h"

SL_RUNTIME_BEGIN

/* Did a function, by its bit, translate the current packet when it arrived? Functions call sl_arrived(box). */
static inline bool sl_arrived_by(const struct sl_box *box, uint64_t function) {
    return box->arrival && box->frame && box->arrival->by & function;
}

/* Does the box call SLUICE_ARRIVAL? Not that of a process in which a function of a chain is alone. */
static inline bool sl_translates(const struct sl_box *box) { return box->arrival != NULL; }

/* --- used by generated code --- */

/* Begins a burst: a copy of its frames, which translation replaces; the frames themselves without memory. */
static inline const struct sl_frame *sl_arrival_begin(struct sl_box *box, const struct sl_frame *frames, size_t count) {
    struct sl_arrival *arrival = box->arrival;
    if (SL_UNLIKELY(!arrival))
        arrival = box->arrival = calloc(1, sizeof *arrival);
    if (arrival && arrival->room < count) {
        struct sl_frame *larger = realloc(arrival->frames, count * sizeof *larger);
        arrival->frames = larger ? larger : arrival->frames;
        arrival->room = larger ? count : arrival->room;
    }
    if (!arrival || !count || arrival->room < count) {
        if (arrival)
            arrival->count = arrival->by = 0;
        return frames;
    }
    arrival->count = count;
    memcpy(arrival->frames, frames, count * sizeof *frames);
    box->lookahead.coming = 0;   /* no other frames follow the copy */
    return arrival->frames;
}

/* Begins the arrival of packet `i` of the burst. False: it is not translated. */
static inline bool sl_arrival_packet(struct sl_box *box, size_t i) {
    struct sl_arrival *arrival = box->arrival;
    if (!arrival || i >= arrival->count)
        return false;
    const struct sl_frame *frame = &arrival->frames[i];
    arrival->received = *frame;
    arrival->by = 0;
    box->now = sl_max(box->now, frame->time);
    box->time = frame->time;
    box->number = frame->number;
    box->frame = frame;
    return true;
}

/* The same as SL_CALL, for the translation of an arriving packet, which handles no event. `translated`: a call. */
static inline bool sl_arrival_called(struct sl_box *box, bool translated) {
    box->calling = 0;
    return translated;
}
#define SL_CALL_ARRIVAL(box, function, call) ((box)->called = NULL, (box)->calling = (function), sl_arrival_called((box), (call)))

/* Is a function asked to translate the current packet? Once, unless it has failed. */
static inline bool sl_arrival_asks(const struct sl_box *box, uint64_t function) {
    return !((box->arrival->by | box->output.off) & function);
}

/* A function has translated packet `i`, the current one: from now on it is that for all functions. */
static inline void sl_arrival_take(struct sl_box *box, size_t i, uint64_t function) {
    struct sl_arrival *arrival = box->arrival;
    struct sl_output *output = &box->output;
    if (!output->changed)
        return;
    if (arrival->bytes_room < output->length) {
        uint8_t *larger = malloc(output->length);
        if (!larger) {   /* it stays as it was received, or as the function before has left it */
            output->changed = arrival->by != 0;
            if (arrival->by)
                memcpy(output->bytes + output->current, arrival->bytes, output->length);
            else
                output->used = output->current;
            return;
        }
        free(arrival->bytes);
        arrival->bytes = larger;
        arrival->bytes_room = output->length;
    }
    memcpy(arrival->bytes, output->bytes + output->current, output->length);
    arrival->frames[i].at = arrival->bytes;
    arrival->by |= function;
}

/* The ends of a packet, in one of its directions: addresses, and ports of TCP and UDP. */
struct sl_arrival_ends { uint8_t at[2 * 16 + 4]; };

static inline bool sl_arrival_has_ports(const struct sl_frame *frame, const struct sl_ip_place *ip) {
    return (ip->protocol == 6 || ip->protocol == 17) && ip->first && ip->payload + 4 <= frame->captured;
}

static inline struct sl_arrival_ends sl_arrival_ends(const uint8_t *packet, const struct sl_ip_place *ip, bool ports, bool reverse) {
    struct sl_arrival_ends ends = {0};
    const uint32_t size = ip->version == 4 ? 4 : 16;
    const uint8_t *from = packet + ip->ip + (ip->version == 4 ? 12 : 8), *port = packet + ip->payload;
    memcpy(ends.at, from + (reverse ? size : 0), size);
    memcpy(ends.at + 16, from + (reverse ? 0 : size), size);
    if (ports) {
        memcpy(ends.at + 32, port + (reverse ? 2 : 0), 2);
        memcpy(ends.at + 34, port + (reverse ? 0 : 2), 2);
    }
    return ends;
}

/* Replaces bytes of a packet, and updates the checksums over them. */
static inline void sl_arrival_replace(uint8_t *packet, const struct sl_frame *frame, uint32_t at, const uint8_t *bytes, uint32_t length) {
    uint8_t before[256];
    if (length > sizeof before)
        return;
    memcpy(before, packet + at, length);
    memcpy(packet + at, bytes, length);
    sl_checksum_fix(packet, frame, before, at, at + length);
}

static inline void sl_arrival_set_ends(uint8_t *packet, const struct sl_frame *frame, const struct sl_ip_place *ip, bool ports,
                                       const struct sl_arrival_ends *ends) {
    const uint32_t size = ip->version == 4 ? 4 : 16, at = ip->ip + (ip->version == 4 ? 12 : 8);
    sl_arrival_replace(packet, frame, at, ends->at, size);
    sl_arrival_replace(packet, frame, at + size, ends->at + 16, size);
    if (ports)
        sl_arrival_replace(packet, frame, ip->payload, ends->at + 32, 4);
}

/* Gives an error of ICMP about the current packet, which goes back, what was received: the ends, and the bytes that it quotes. */
static inline void sl_arrival_sent_error(const struct sl_arrival *arrival, const struct sl_frame *view, const struct sl_ip_place *seen,
                                         uint8_t *packet, const struct sl_frame *frame, const struct sl_ip_place *ip) {
    const uint32_t from = ip->payload + 8, quotes = frame->captured > from ? frame->captured - from : 0;
    if (!quotes || quotes > view->captured - seen->ip || memcmp(packet + from, view->at + seen->ip, quotes) != 0)
        return;
    for (uint32_t done = 0; done < quotes; done += 128)
        sl_arrival_replace(packet, frame, from + done, arrival->received.at + seen->ip + done, (uint32_t)sl_min(128, quotes - done));
    struct sl_arrival_ends back = sl_arrival_ends(arrival->received.at, seen, false, true);
    sl_arrival_set_ends(packet, frame, ip, false, &back);
}

/* Gives packets that functions sent during the current one the ends that theirs have outside of the box. */
SL_COLD void sl_arrival_translate_sent(struct sl_box *box, const struct sl_frame *view) {
    const struct sl_arrival *arrival = box->arrival;
    struct sl_output *output = &box->output;
    struct sl_ip_place seen, ip;
    bool found = false;
    uint32_t first = sl_frame_ip(view, &found);
    if (!found || !sl_ip_read(view, first, &seen))
        return;
    const bool ports = sl_arrival_has_ports(view, &seen);
    const uint8_t *leaves = output->changed ? output->bytes + output->current : view->at;
    const struct sl_arrival_ends forth = sl_arrival_ends(view->at, &seen, ports, false), back = sl_arrival_ends(view->at, &seen, ports, true);
    const struct sl_arrival_ends forth_outside = sl_arrival_ends(leaves, &seen, ports, false);
    const struct sl_arrival_ends back_outside = sl_arrival_ends(arrival->received.at, &seen, ports, true);
    for (uint32_t i = output->packet_from; i < output->sent_count; i++) {
        if (output->sent[i].held)
            continue;
        struct sl_frame frame = output->sent[i].frame;
        uint8_t *packet = output->sent_bytes + (uintptr_t)frame.at;
        frame.at = packet;
        frame.link_type = view->link_type;
        first = sl_frame_ip(&frame, &found);
        if (!found || !sl_ip_read(&frame, first, &ip) || ip.version != seen.version)
            continue;
        if (ip.protocol != seen.protocol && (ip.protocol == 1 || ip.protocol == 58)) {
            sl_arrival_sent_error(arrival, view, &seen, packet, &frame, &ip);
            continue;
        }
        if (ip.protocol != seen.protocol || sl_arrival_has_ports(&frame, &ip) != ports)
            continue;
        const struct sl_arrival_ends ends = sl_arrival_ends(packet, &ip, ports, false);
        if (memcmp(&ends, &forth, sizeof ends) == 0)
            sl_arrival_set_ends(packet, &frame, &ip, ports, &forth_outside);
        else if (memcmp(&ends, &back, sizeof ends) == 0)
            sl_arrival_set_ends(packet, &frame, &ip, ports, &back_outside);
    }
}

static inline void sl_arrival_sent(struct sl_box *box, const struct sl_frame *view) {
    if (SL_UNLIKELY(box->output.sent_count > box->output.packet_from) && box->arrival && box->arrival->count)
        sl_arrival_translate_sent(box, view);
}

SL_RUNTIME_END

#endif
