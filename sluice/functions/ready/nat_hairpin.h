/* Packets between two inside hosts, by their external ends. A part of nat.c. */
#ifndef NAT_HAIRPIN_H
#define NAT_HAIRPIN_H

/* From an inside endpoint to the external port of another one: it has the external port of the first (RFC 4787, REQ-9),
 * and is sent back to the side from which it was received. */
static void nat_hairpin(const struct sl_event *event, uint8_t protocol, uint16_t port, bool tcp) {
    const struct nat *nat = SLUICE_WORKER_OF(event->box);
    const uint8_t side = SLUICE_STATE_OF(event)->inside;
    if (event->side != side) {
        nat_drop(event, &SLUICE_COUNTER_OF(event->box, unmapped));
        return;
    }
    const struct nat_inside *inside = nat_inside_at(event, protocol, ip4_port(event, side ^ 1u), nat->address, port);
    if (!inside)
        return;
    struct nat_inside to = *inside;
    if (nat_rewrite(event, true, nat->address, nat_port_place(event, true), port) &&
        nat_rewrite(event, false, to.address, nat_port_place(event, false), to.port)) {
        nat_count(event, tcp);
        SLUICE_COUNTER_OF(event->box, hairpinned)++;
        SLUICE_REDIRECT(event->box, sl_packet_frame(event)->port);
    }
}

/* The first packet of a connection of two inside hosts: it keeps the external port of the one that it is sent to. */
static void nat_call(const struct sl_event *event, struct nat_flow *flow, uint8_t protocol) {
    const unsigned side = flow->inside ^ 1u;
    const uint64_t number = nat_endpoint_number(protocol, ip4_address(event, side), ip4_port(event, side));
    struct sl_object *object = SLUICE_SHARED_AT(event->box, endpoint, number);
    struct nat_endpoint *endpoint = sl_shared_struct(object);
    if (endpoint && endpoint->port) {
        flow->called = number;
        flow->called_port = (uint16_t)endpoint->port;
        endpoint->flows++;
        sl_shared_put(object);
        sl_shared_leave_to_store(object);
    } else if (endpoint) {
        sl_shared_forget(object);
    }
}

/* A packet of such a connection, which has the inside end of its receiver already (RFC 4787, REQ-9). */
static void nat_between(const struct sl_event *event, struct nat_flow *flow, uint8_t protocol) {
    struct sl_box *box = event->box;
    if (!flow->asked && sl_is_dropped(box))
        return;
    if (!flow->asked) {
        nat_call(event, flow, protocol);
        if (flow->called)
            nat_map(event, flow, protocol, ip4_port(event, flow->inside), flow->called_port);
        flow->asked = flow->called != 0;   /* that endpoint may have expired after the packet was translated, and get a port later */
    }
    const struct nat_mapping *mapping = sl_shared_struct(flow->mapping);
    if (!mapping || !mapping->port) {
        nat_drop(event, flow->called ? &SLUICE_COUNTER_OF(box, no_port) : &SLUICE_COUNTER_OF(box, unmapped));
        return;
    }
    const uint16_t port = event->side == flow->inside ? (uint16_t)mapping->port : flow->called_port;
    if (nat_rewrite(event, true, SLUICE_WORKER_OF(box)->address, nat_port_place(event, true), port)) {
        nat_count(event, protocol == NAT_TCP);
        SLUICE_COUNTER_OF(box, hairpinned)++;
        SLUICE_REDIRECT(box, sl_packet_frame(event)->port);
    }
}

#endif
