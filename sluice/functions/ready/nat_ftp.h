/* FTP through the function nat (RFC 2663, 2.9, an application level gateway): an inside host that announces an end of a data
 * connection (PORT and EPRT of a client, 227 and 229 of a server) gets an external port for it, and the announcement names that.
 * Its length changes, so that numbers of the control connection are translated. A part of nat.c. */
#ifndef NAT_FTP_H
#define NAT_FTP_H

#include "ftp_announce.h"
#include "tcp_segment.h"

enum { NAT_PAYLOAD_MOST = 2048, NAT_ANNOUNCED_LEAST = 1024 };

/* Is a connection with these ports a control connection? */
static bool nat_is_control(const struct sl_box *box, uint16_t port, uint16_t other) {
    uint64_t ftp = SLUICE_PARAMETER_OF(box, ftp);
    return ftp && (port == ftp || other == ftp);
}

/* The control connection of an external port with an outside end. */
static struct sl_object *nat_control_at(struct sl_box *box, uint32_t port, uint32_t address, uint16_t other) {
    return SLUICE_SHARED_AT(box, control, (uint64_t)port << 48 | (uint64_t)address << 16 | other);
}

/* After the use of a control connection. */
static void nat_control_leave(struct sl_object *object, const struct nat_control *control) {
    if (control->known)
        sl_shared_leave_to_store(object);
    else
        sl_shared_forget(object);
}

/* Releases the ports that a control connection announced. */
static void nat_control_release(struct sl_box *box, struct nat_control *control) {
    for (unsigned i = 0; i < control->endpoints; i++)
        nat_leave(box, control->endpoint[i]);
    control->endpoints = 0;
}

/* A control connection of an external port with an outside end has ended. */
static void nat_control_end(struct sl_box *box, struct sl_object *object) {
    struct nat_control *control = sl_shared_struct(object);
    if (!control)
        return;
    nat_control_release(box, control);
    if (control->known)
        sl_shared_drop(object);
    else
        sl_shared_forget(object);
}

/* Keeps the port of an announced endpoint until other ones were announced, or the connection ends. */
static bool nat_control_keeps(struct sl_box *box, struct nat_control *control, struct sl_object *object, struct nat_endpoint *endpoint,
                              uint64_t number) {
    for (unsigned i = 0; i < control->endpoints; i++)
        if (control->endpoint[i] == number)
            return true;
    if (control->endpoints == NAT_ENDPOINTS) {
        nat_leave(box, control->endpoint[0]);
        memmove(control->endpoint, control->endpoint + 1, (NAT_ENDPOINTS - 1) * sizeof *control->endpoint);
        control->endpoints--;
    }
    control->endpoint[control->endpoints++] = number;
    endpoint->flows++;
    return sl_shared_put(object) == SL_STORE_DONE;
}

/* The external port for an inside endpoint that is announced to an outside address; 0: there is none. */
static uint16_t nat_announced_port(struct sl_box *box, struct nat_control *control, uint32_t inside, uint16_t number, uint32_t outside) {
    uint64_t name = nat_endpoint_number(NAT_TCP, inside, number);
    struct sl_object *object = SLUICE_SHARED_AT(box, endpoint, name);
    struct nat_endpoint *endpoint = sl_shared_struct(object);
    if (!endpoint)
        return 0;
    if (nat_assign(box, endpoint, NAT_TCP, inside, number) != SL_STORE_DONE) {
        sl_shared_forget(object);
        return 0;
    }
    uint16_t port = (uint16_t)endpoint->port;
    nat_control_keeps(box, control, object, endpoint, name);
    sl_shared_leave_to_store(object);
    if (SLUICE_WORKER_OF(box)->filter != NAT_ALL)   /* from which port a server opens data connections is not known */
        sl_shared_insert(SLUICE_SHARED_AT(box, contacted, port), nat_outside(SLUICE_WORKER_OF(box), outside, 0), NULL);
    return port;
}

/* Finds the endpoint that a line announces: its first byte and length. False: there is none that can be replaced. */
static bool nat_announcement(enum ftp_form form, const uint8_t *line, uint32_t length, uint32_t *begin, uint32_t *size) {
    bool plain = form == FTP_PORT || form == FTP_PASSIVE;
    uint32_t at = form == FTP_PORT || form == FTP_EPRT ? 5 : 4, end, bars = 0;
    while (at < length && (plain ? line[at] < '0' || line[at] > '9' : form == FTP_EXTENDED_PASSIVE && line[at] != '('))
        at++;
    at += form == FTP_EXTENDED_PASSIVE;
    for (end = at; end < length && (plain ? line[end] == ',' || (line[end] >= '0' && line[end] <= '9') : bars < 4); end++)
        bars += line[end] == line[at];
    *begin = at;
    *size = end - at;
    return end > at && end - at <= NAT_EDIT_LENGTH;
}

/* A whole line of the inside host, at `number`: its endpoint is replaced, if that lies in the current segment. */
static void nat_ftp_line(const struct sl_event *event, const struct nat_flow *flow, struct nat_control *control, uint32_t segment,
                         uint32_t number, const uint8_t *line, uint32_t length) {
    struct sl_box *box = event->box;
    const uint8_t inside = flow->inside;
    bool of_client = ip4_port(event, inside) != SLUICE_PARAMETER_OF(box, ftp);
    uint32_t own = ip4_address(event, inside), external = SLUICE_WORKER_OF(box)->address, begin, size, at;
    enum ftp_form form = ftp_form_of(of_client, line, length);
    struct ftp_end end;
    if (form == FTP_NONE || !ftp_announced(of_client, line, length, &end))
        return;
    uint8_t address[4];
    sl_store_be32(address, own);
    /* as the firewall does: no host opens a port of another one, or of services (RFC 2577, 3) */
    uint16_t port = 0;
    if (end.port >= NAT_ANNOUNCED_LEAST && (!end.size || (end.size == 4 && memcmp(end.address, address, 4) == 0)) &&
        nat_announcement(form, line, length, &begin, &size) && !nat_after(segment, number + begin) && nat_edit_room(control, segment))
        port = nat_announced_port(box, control, own, end.port, ip4_address(event, inside ^ 1u));
    if (!port) {
        SLUICE_COUNTER_OF(box, ftp_refused)++;
        return;
    }
    struct nat_edit *edit = &control->edit[control->edits++];
    char text[NAT_EDIT_TEXT + 1], bar = (char)line[begin];
    sl_store_be32(address, external);
    if (form == FTP_PORT || form == FTP_PASSIVE)
        at = (uint32_t)snprintf(text, sizeof text, "%u,%u,%u,%u,%u,%u", address[0], address[1], address[2], address[3], port >> 8, port & 255);
    else if (form == FTP_EPRT)
        at = (uint32_t)snprintf(text, sizeof text, "%c1%c%u.%u.%u.%u%c%u%c", bar, bar, address[0], address[1], address[2], address[3], bar, port, bar);
    else
        at = (uint32_t)snprintf(text, sizeof text, "%c%c%c%u%c", bar, bar, bar, port, bar);
    *edit = (struct nat_edit){.at = number + begin, .length = (uint8_t)size, .now = (uint8_t)at};
    memcpy(edit->text, text, at);
    SLUICE_COUNTER_OF(box, ftp_announced)++;
}

/* A segment ends within a line: its beginning is stored, so that an endpoint announced in the next segment can be replaced. */
static void nat_ftp_begun(const struct sl_event *event, bool of_client, struct nat_control *control, const uint8_t *at, uint32_t length) {
    uint32_t room = NAT_BEGUN - control->begun_length;
    if (length > room) {
        uint8_t line[2 * NAT_BEGUN];
        memcpy(line, control->begun, control->begun_length);
        memcpy(line + control->begun_length, at, room);
        SLUICE_COUNTER_OF(event->box, ftp_refused) += ftp_form_of(of_client, line, NAT_BEGUN) != FTP_NONE;
        control->begun_length = 0;
        return;
    }
    memcpy(control->begun + control->begun_length, at, length);
    control->begun_length = (uint8_t)(control->begun_length + length);
}

/* The rest of a line whose beginning is stored; `end`: its LF. */
static void nat_ftp_rest(const struct sl_event *event, const struct nat_flow *flow, struct nat_control *control, uint32_t number,
                         const uint8_t *payload, const uint8_t *end) {
    uint8_t line[NAT_BEGUN + 2 * NAT_EDIT_LENGTH];
    const uint32_t begun = control->begun_length, rest = (uint32_t)sl_min((uint64_t)(end - payload), sizeof line - NAT_BEGUN);
    memcpy(line, control->begun, begun);
    memcpy(line + begun, payload, rest);
    nat_ftp_line(event, flow, control, number, control->line, line, begun + rest - (rest && payload[rest - 1] == '\r'));
}

/* Reads the lines that a segment completes, but those that were read before. */
static void nat_ftp_lines(const struct sl_event *event, const struct nat_flow *flow, struct nat_control *control, uint32_t number,
                          const uint8_t *payload, uint32_t length) {
    bool of_client = ip4_port(event, flow->inside) != SLUICE_PARAMETER_OF(event->box, ftp);
    uint32_t at = control->line - number;
    if (at >= length && !nat_after(number, control->line))
        return;
    if (at >= length) {   /* it begins in a line: the next one follows its end */
        const uint8_t *end = memchr(payload, '\n', length);
        uint32_t before = number - control->line;
        bool follows = control->begun_length && before <= control->begun_length;
        if (follows && !end && before + length <= control->begun_length)   /* sent again */
            return;
        control->begun_length = follows ? (uint8_t)before : control->begun_length;   /* current bytes replace overlaps */
        if (follows && !end)
            nat_ftp_begun(event, of_client, control, payload, length);
        if (!end)
            return;
        if (follows)
            nat_ftp_rest(event, flow, control, number, payload, end);
        at = (uint32_t)(end + 1 - payload);
    }
    if (control->line != number + at) {
        control->line = number + at;
        control->begun_length = 0;
    }
    while (at < length) {
        const uint8_t *end = memchr(payload + at, '\n', length - at);
        uint32_t size = end ? (uint32_t)(end - (payload + at)) : length - at;
        if (!end) {
            if (size > control->begun_length) {
                control->begun_length = 0;
                nat_ftp_begun(event, of_client, control, payload + at, size);
            }
            break;
        }
        nat_ftp_line(event, flow, control, number, number + at, payload + at, size && end[-1] == '\r' ? size - 1 : size);
        at += size + 1;
        control->line = number + at;
        control->begun_length = 0;
    }
}

/* A segment whose lines are not read, as it is too long or not whole: the next line begins after its last one. */
static void nat_ftp_unread(const struct sl_event *event, struct nat_control *control, uint32_t number, const uint8_t *payload, uint32_t captured) {
    while (captured && payload[captured - 1] != '\n')   /* after the loop, the length of its whole lines */
        captured--;
    if (captured && nat_after(number + captured, control->line)) {
        control->line = number + captured;
        control->begun_length = 0;
    }
    SLUICE_COUNTER_OF(event->box, ftp_unread)++;
}

/* Sends the current segment of the inside host with another payload, from the external address and a port. */
static void nat_ftp_send(const struct sl_event *event, const struct nat_control *control, const struct tcp_place *place, uint16_t port) {
    const struct sl_frame *frame = sl_packet_frame(event);
    const uint32_t number = (uint32_t)sl_load_be32(place->at + 4), options = place->header - 20, length = event->unit.length - place->header;
    const uint32_t tcp = (uint32_t)(place->at - frame->at);
    uint8_t head[TCP_LINK_MOST + 60 + 60], payload[NAT_PAYLOAD_MOST + NAT_EDITS * NAT_EDIT_TEXT];
    uint8_t out[TCP_SEGMENT_MOST + 40 + sizeof payload];
    memcpy(head, frame->at, tcp + place->header);
    sl_store_be32(head + place->ip.ip + 12, SLUICE_WORKER_OF(event->box)->address);
    sl_store_be16(head + tcp, port);
    struct sl_frame changed = *frame;
    struct tcp_place there = *place;
    changed.at = head;
    there.at = head + tcp;
    uint32_t size = tcp_segment_with(&changed, &there, false, &(struct tcp_fields){
        .number = nat_number_out(control, number), .acknowledged = (uint32_t)sl_load_be32(place->at + 8), .flags = place->at[13],
        .window = (uint16_t)sl_load_be16(place->at + 14), .options = head + tcp + 20, .option_length = options, .payload = payload,
        .payload_length = nat_edit_payload(control, number, place->at + place->header, length, payload)}, out);
    SLUICE_SEND(event->box, out, size);
    SLUICE_WORKER_OF(event->box)->done = sl_packet_number(event);
    SLUICE_DROP(event->box);
}

/* A segment of the inside host on a control connection. True: it was sent with another payload, or dropped. */
static bool nat_ftp_segment(const struct sl_event *event, const struct nat_flow *flow, struct sl_object *object,
                            struct nat_control *control, uint16_t port) {
    struct sl_box *box = event->box;
    struct tcp_place place;
    if (!tcp_place_of(event, sl_packet_frame(event), &place)) {
        const bool translated = control->edits || control->shift;
        if (translated)
            nat_drop(event, &SLUICE_COUNTER_OF(box, unchanged));
        return translated;
    }
    const uint32_t number = (uint32_t)sl_load_be32(place.at + 4), length = event->unit.length - place.header;
    const bool opens = place.at[13] & TCP_SYN, whole = event->unit.captured == event->unit.length && length <= NAT_PAYLOAD_MOST;
    if (!control->known && !opens && !length)
        return false;
    if (!control->known || (opens && control->line != number + 1)) {
        nat_control_release(box, control);
        *control = (struct nat_control){.known = 1, .line = number + opens};
        sl_shared_put(object);
    }
    if (length && control->forgot && nat_after(control->forgotten, number)) {   /* it may have an inside address */
        nat_drop(event, &SLUICE_COUNTER_OF(box, ftp_forgotten));
        return true;
    }
    nat_edits_pass(control, number);
    if (length && !opens) {
        if (whole)
            nat_ftp_lines(event, flow, control, number, place.at + place.header, length);
        else
            nat_ftp_unread(event, control, number, place.at + place.header, event->unit.captured - place.header);
        sl_shared_put(object);
    }
    const bool touches = nat_edit_touches(control, number, length);
    uint8_t changed[4];
    sl_store_be32(changed, nat_number_out(control, number));
    if (touches && whole)
        nat_ftp_send(event, control, &place, port);
    else if (touches)
        nat_drop(event, &SLUICE_COUNTER_OF(box, unchanged));
    else if (memcmp(changed, place.at + 4, 4) != 0)
        SLUICE_REWRITE(box, place.at + 4, changed, 4);
    return touches;
}

/* The same for its external port. */
static bool nat_ftp_out(const struct sl_event *event, const struct nat_flow *flow, uint16_t port) {
    const unsigned outside = flow->inside ^ 1u;
    struct sl_object *object = nat_control_at(event->box, port, ip4_address(event, outside), ip4_port(event, outside));
    struct nat_control *control = sl_shared_struct(object);
    if (!control) {   /* at a bound it leaves as it is; where the store failed, its numbers are not known */
        SLUICE_COUNTER_OF(event->box, ftp_refused) += !object;
        if (object)
            nat_drop(event, &SLUICE_COUNTER_OF(event->box, no_port));
        return object != NULL;
    }
    bool done = nat_ftp_segment(event, flow, object, control, port);
    nat_control_leave(object, control);
    return done;
}

/* Replaces a number of the current packet that the outside host has of the inside one's. */
static void nat_number_back(struct sl_box *box, const struct nat_control *control, const uint8_t *at) {
    uint8_t bytes[4];
    sl_store_be32(bytes, nat_number_in(control, (uint32_t)sl_load_be32(at)));
    SLUICE_REWRITE(box, at, bytes, 4);
}

/* A segment of the outside end `address`, `other` to an external port: its acknowledgments, also in blocks (RFC 2018, 3), are of
 * the numbers that it got. */
static void nat_ftp_back(struct sl_box *box, const struct tcp_place *place, uint16_t port, uint32_t address, uint16_t other) {
    struct sl_object *object = nat_control_at(box, port, address, other);
    const struct nat_control *control = sl_shared_struct(object);
    if (!control)
        return;
    if (control->edits || control->shift) {
        if (place->at[13] & TCP_ACK)
            nat_number_back(box, control, place->at + 8);
        for (uint32_t at = 20; at < place->header && place->at[at];) {
            uint32_t size = place->at[at] == 1 ? 1 : at + 1 < place->header ? place->at[at + 1] : 0;
            if (!size || (place->at[at] != 1 && size < 2) || size > place->header - at)
                break;
            for (uint32_t i = at + 2; place->at[at] == 5 && i + 4 <= at + size; i += 4)
                nat_number_back(box, control, place->at + i);
            at += size;
        }
    }
    nat_control_leave(object, control);
}

/* The same for the current packet of a connection, whose side `outside` is the outside end. */
static void nat_ftp_in(const struct sl_event *event, uint16_t port, unsigned outside) {
    struct tcp_place place;
    if (tcp_place_of(event, sl_packet_frame(event), &place))
        nat_ftp_back(event->box, &place, port, ip4_address(event, outside), ip4_port(event, outside));
}

#endif
