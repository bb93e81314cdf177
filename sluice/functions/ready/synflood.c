/* Finds floods of SYNs, and, inline, answers them by SYN cookies (Bernstein and Schenk, 1996; RFC 4987, 3.6).
 *
 * A flood of an endpoint is that more than `half_open` connections to it wait for the end of their handshake, and these are
 * more than `share` percent of those that were opened in the last `window` seconds; it ends below half of that number.
 *
 * While an endpoint is flooded, the box answers its SYNs itself, and stores nothing: the number in its SYN/ACK is a keyed hash
 * of the ends, the client's number and the time, with the maximum segment size in three bits. A client that acknowledges it is
 * real; only then the server gets a SYN. Its answer has another number, so the box adds the difference to the numbers of the
 * server's segments, and subtracts it from the client's acknowledgements. Options of TCP but the segment size are not offered.
 * The client is told a window of 0 until the server has answered, so that it sends nothing that would be lost. */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"
#include "syn_cookie.h"

SLUICE_INLINE
SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(half_open, number, 100, "connections to an endpoint in their handshake, above which it is flooded")
SLUICE_PARAMETER(share, number, 50, "percent of the connections of the window that these are at least")
SLUICE_PARAMETER(window, seconds, 10, "of the connections that are counted")
SLUICE_PARAMETER(cookies, text, "flood", "which SYNs the box answers: flood (those to flooded endpoints), always, or never")

SLUICE_COUNTER(synflood_opened, "connections that began with a SYN")
SLUICE_COUNTER(synflood_completed, "of these those whose handshake was completed")
SLUICE_COUNTER(synflood_floods, "floods that were found")
SLUICE_COUNTER(synflood_cookies, "SYNs that were answered by a cookie")
SLUICE_COUNTER(synflood_valid, "clients that acknowledged theirs, whose connection was opened at the server")
SLUICE_COUNTER(synflood_invalid, "acknowledgements of numbers that are no cookies, to flooded endpoints; they pass")
SLUICE_COUNTER(synflood_spliced, "connections whose server answered")
SLUICE_COUNTER(synflood_not_answered, "SYNs that got no cookie, as nothing could be sent; they are dropped")
SLUICE_COUNTER(synflood_not_rewritten, "segments of spliced connections that could not be rewritten; they are dropped")

/* Of an endpoint. */
struct synflood_target {
    uint64_t begin;          /* of the window, in nanoseconds */
    uint32_t opened, before; /* connections in this window, and in the one before it */
    uint32_t open, peak;     /* in their handshake now, and most of this flood */
    uint32_t flooded, answered;   /* 0 or 1; SYNs that were answered in this flood */
};
/* Of a connection whose client was answered by a cookie. */
struct synflood_splice { uint32_t phase, cookie, client, delta; };

SLUICE_SHARED(target, struct synflood_target, dst+dport, read_write, zero, "connections to an endpoint")
SLUICE_SHARED(splice, struct synflood_splice, flow, read_mostly, recover, "the numbers of a connection that was answered by a cookie")

enum synflood_phase { SYNFLOOD_DIRECT, SYNFLOOD_OPENING, SYNFLOOD_SPLICED };

struct synflood_flow {
    struct sl_object *splice;
    bool counted;       /* among those in their handshake */
    bool answered;      /* its SYN was answered by a cookie */
    bool established;   /* its handshake passed without the box */
};
SLUICE_STATE(struct synflood_flow)

struct synflood { FILE *out; bool always, never; uint8_t key[16]; };
SLUICE_WORKER(struct synflood)

/* --- endpoints --- */

static void synflood_report(const struct sl_event *event, const struct synflood_target *target, const char *what) {
    FILE *out = SLUICE_WORKER_OF(event->box)->out;
    uint64_t time = sl_now(event->box);
    fprintf(out, "{\"synflood\":\"%s\",\"time\":\"%llu.%09llu\",\"packet\":%llu,\"dst\":", what, (unsigned long long)(time / 1000000000),
            (unsigned long long)(time % 1000000000), (unsigned long long)sl_packet_number(event));
    sl_write_address(out, sl_address_part(event->owner), sl_event_half(event, 1));
    fputs(",\"dport\":", out);
    sl_write_port(out, sl_port_part(event->owner), sl_event_half(event, 1));
    fprintf(out, ",\"half_open\":%u,\"peak\":%u,\"opened\":%u,\"answered\":%u}\n", target->open, target->peak,
            target->opened + target->before, target->answered);
}

/* Moves the window on, and finds whether a flood begins or ends. */
static void synflood_update(const struct sl_event *event, struct synflood_target *target) {
    struct sl_box *box = event->box;
    uint64_t now = sl_now(box), window = (uint64_t)(SLUICE_PARAMETER_OF(box, window) * 1e9);
    if (now - target->begin >= window) {
        target->before = now - target->begin < 2 * window ? target->opened : 0;
        target->opened = 0;
        target->begin = now;
    }
    uint64_t most = SLUICE_PARAMETER_OF(box, half_open), all = (uint64_t)target->opened + target->before;
    target->peak = target->open > target->peak ? target->open : target->peak;
    if (!target->flooded && target->open > most && (uint64_t)target->open * 100 >= SLUICE_PARAMETER_OF(box, share) * all) {
        target->flooded = 1;
        SLUICE_COUNTER_OF(box, synflood_floods)++;
        synflood_report(event, target, "begin");
    } else if (target->flooded && target->open <= most / 2 && all <= most) {
        synflood_report(event, target, "end");
        target->flooded = target->peak = target->answered = 0;
    }
}

/* A connection was opened (`change` 1), or its handshake has ended (-1). */
static void synflood_count(const struct sl_event *event, int change) {
    struct sl_object *object = SLUICE_SHARED_OF(event, target);
    struct synflood_target *target = sl_shared_struct(object);
    struct synflood_flow *flow = SLUICE_STATE_OF(event);
    if (!target || flow->counted == (change > 0))
        return;
    flow->counted = change > 0;
    target->opened += change > 0;
    target->open += (uint32_t)(change > 0 ? 1 : target->open ? -1 : 0);
    synflood_update(event, target);
    sl_shared_put(object);
}

/* Frees the object of an endpoint to which nothing was opened within the window. */
static void synflood_forget(const struct sl_event *event) {
    struct sl_object *object = SLUICE_SHARED_OF(event, target);
    const struct synflood_target *target = sl_shared_struct(object);
    uint64_t window = (uint64_t)(SLUICE_PARAMETER_OF(event->box, window) * 1e9);
    if (target && !target->open && !target->flooded && sl_now(event->box) - target->begin >= window)
        sl_shared_drop(object);
}

static bool synflood_answers(const struct sl_event *event) {
    const struct synflood *synflood = SLUICE_WORKER_OF(event->box);
    if (synflood->never || !sl_is_inline(event->box))
        return false;
    const struct synflood_target *target = synflood->always ? NULL : sl_shared_struct(SLUICE_SHARED_OF(event, target));
    return synflood->always || (target && target->flooded);
}

/* --- cookies --- */

/* A SYN to a flooded endpoint: the box answers it. */
static void synflood_answer(const struct sl_event *event, const struct tcp_place *place) {
    struct sl_box *box = event->box;
    const struct sl_frame *frame = sl_packet_frame(event);
    uint32_t client = (uint32_t)sl_load_be32(place->at + 4);
    unsigned size = syn_cookie_size(tcp_mss(place));
    uint32_t cookie = syn_cookie(SLUICE_WORKER_OF(box)->key, place, frame->at, client, sl_now(box) / SYN_COOKIE_TICK, size);
    uint8_t out[TCP_SEGMENT_MOST];
    uint32_t length = tcp_segment(frame, place, true, cookie, client + 1, TCP_SYN | TCP_ACK, 0, syn_cookie_sizes[size], out);
    bool sent = sl_send_to(box, out, length, true);
    SLUICE_COUNTER_OF(box, synflood_cookies) += sent;
    SLUICE_COUNTER_OF(box, synflood_not_answered) += !sent;
    SLUICE_STATE_OF(event)->answered = true;
    struct sl_object *object = SLUICE_SHARED_OF(event, target);
    struct synflood_target *target = sl_shared_struct(object);
    if (target) {
        target->answered += sent;
        sl_shared_put(object);
    }
    SLUICE_DROP(box);
}

/* Opens a client's connection at the server; again, if the client continues without an answer. */
static void synflood_open_server(const struct sl_event *event, const struct tcp_place *place, const struct synflood_splice *splice, uint16_t mss) {
    uint8_t out[TCP_SEGMENT_MOST];
    uint16_t window = (uint16_t)sl_load_be16(place->at + 14);
    uint32_t length = tcp_segment(sl_packet_frame(event), place, false, splice->client, 0, TCP_SYN, window, mss, out);
    SLUICE_SEND(event->box, out, length);
    SLUICE_DROP(event->box);
}

/* The handshake of a connection that was opened past the box is complete. */
static void synflood_completes(const struct sl_event *event, struct synflood_flow *flow) {
    SLUICE_COUNTER_OF(event->box, synflood_completed)++;
    flow->established = true;
    synflood_count(event, -1);
}

/* A segment of a client without a splice: does it acknowledge a cookie? */
static void synflood_acknowledged(const struct sl_event *event, struct synflood_flow *flow, const struct tcp_place *place) {
    struct sl_box *box = event->box;
    uint32_t client = (uint32_t)sl_load_be32(place->at + 4) - 1, cookie = (uint32_t)sl_load_be32(place->at + 8) - 1;
    uint16_t mss = syn_cookie_mss(SLUICE_WORKER_OF(box)->key, place, sl_packet_frame(event)->at, client, cookie, sl_now(box));
    if (!mss) {
        /* One from before the flood, as far as the box can determine, or one that began in it. */
        if (flow->counted && !flow->answered)
            synflood_completes(event, flow);
        else
            SLUICE_COUNTER_OF(box, synflood_invalid)++;
        flow->established |= !flow->answered;
        return;
    }
    struct sl_object *object = SLUICE_SHARED_OF(event, splice);
    struct synflood_splice *splice = sl_object_bytes_of(object);
    if (!splice) {
        SLUICE_DROP(box);
        return;
    }
    *splice = (struct synflood_splice){SYNFLOOD_OPENING, cookie, client, 0};
    sl_shared_put(object);
    flow->splice = object;
    SLUICE_COUNTER_OF(box, synflood_valid)++;
    synflood_count(event, -1);
    synflood_open_server(event, place, splice, mss);
}

/* --- spliced connections --- */

static void synflood_number(const struct sl_event *event, const uint8_t *at, uint32_t number) {
    uint8_t bytes[4];
    sl_store_be32(bytes, number);
    if (SLUICE_REWRITE(event->box, at, bytes, 4))
        return;
    SLUICE_COUNTER_OF(event->box, synflood_not_rewritten)++;
    SLUICE_DROP(event->box);
}

/* The server's SYN/ACK: both ends learn that the connection is open. */
static void synflood_opened_at_server(const struct sl_event *event, struct synflood_flow *flow, struct synflood_splice *splice,
                                      const struct tcp_place *place) {
    const struct sl_frame *frame = sl_packet_frame(event);
    uint32_t server = (uint32_t)sl_load_be32(place->at + 4);
    uint16_t window = (uint16_t)sl_load_be16(place->at + 14);
    uint8_t out[TCP_SEGMENT_MOST];
    SLUICE_COUNTER_OF(event->box, synflood_spliced) += splice->phase == SYNFLOOD_OPENING;
    splice->phase = SYNFLOOD_SPLICED;
    splice->delta = splice->cookie - server;
    sl_shared_put(flow->splice);
    sl_send_to(event->box, out, tcp_segment(frame, place, true, splice->client + 1, server + 1, TCP_ACK, 65535, 0, out), true);
    uint32_t length = tcp_segment(frame, place, false, splice->cookie + 1, splice->client + 1, TCP_ACK, window, 0, out);
    SLUICE_SEND(event->box, out, length);
    SLUICE_DROP(event->box);
}

/* A segment of a connection that was answered by a cookie. `client`: its client sent it. */
static void synflood_splices(const struct sl_event *event, struct synflood_flow *flow, struct synflood_splice *splice, bool client,
                             const struct tcp_place *place) {
    uint8_t flags = place->at[13];
    uint32_t number = (uint32_t)sl_load_be32(place->at + 4);
    if (!client && (flags & (TCP_SYN | TCP_ACK | TCP_RST)) == (TCP_SYN | TCP_ACK))
        synflood_opened_at_server(event, flow, splice, place);
    else if (!client && splice->phase == SYNFLOOD_OPENING)
        synflood_number(event, place->at + 4, splice->cookie + 1);   /* it refuses the connection */
    else if (!client)
        synflood_number(event, place->at + 4, number + splice->delta);
    else if (splice->phase == SYNFLOOD_OPENING && !(flags & TCP_RST))
        synflood_open_server(event, place, splice, syn_cookie_sizes[splice->cookie >> 24 & 7]);
    else if (splice->phase == SYNFLOOD_SPLICED && flags & TCP_ACK)
        synflood_number(event, place->at + 8, (uint32_t)sl_load_be32(place->at + 8) - splice->delta);
}

SLUICE_ON(tcp, packet) {
    struct synflood_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    struct tcp_place place;
    if (!flow || event->unit.captured < 14)
        return;
    uint8_t flags = event->unit.at[13] & (TCP_SYN | TCP_RST | TCP_ACK);
    bool client = event->side == 0, whole = tcp_place_of(event, sl_packet_frame(event), &place);
    struct synflood_splice *splice = flow->splice ? sl_shared_struct(flow->splice) : NULL;
    if (splice && !whole) {   /* its numbers would be those of the other end */
        SLUICE_COUNTER_OF(event->box, synflood_not_rewritten)++;
        SLUICE_DROP(event->box);
        return;
    }
    if (splice && !(client && flags == TCP_SYN && (uint32_t)sl_load_be32(place.at + 4) != splice->client)) {
        synflood_splices(event, flow, splice, client, &place);
        return;
    }
    if (client && flags == TCP_SYN && !flow->established) {
        SLUICE_COUNTER_OF(event->box, synflood_opened) += !flow->counted;
        synflood_count(event, 1);
        if (whole && synflood_answers(event))
            synflood_answer(event, &place);
    } else if (client && flags == TCP_ACK && !flow->established && whole && synflood_answers(event)) {
        synflood_acknowledged(event, flow, &place);
    } else if (flow->counted && client && flags & TCP_ACK) {
        synflood_completes(event, flow);
    } else if (flow->counted && flags & TCP_RST) {
        synflood_count(event, -1);
    }
}

SLUICE_ON(tcp, end) {
    struct synflood_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!flow || data->reason == SL_END_EOF)
        return;
    if (flow->counted)
        synflood_count(event, -1);
    synflood_forget(event);
    sl_shared_drop(flow->splice);
    flow->splice = NULL;
}

SLUICE_OPEN {
    struct synflood *synflood = SLUICE_WORKER_OF(box);
    const char *cookies = SLUICE_PARAMETER_OF(box, cookies);
    double window = SLUICE_PARAMETER_OF(box, window);
    synflood->always = strcmp(cookies, "always") == 0;
    synflood->never = strcmp(cookies, "never") == 0;
    if ((!synflood->always && !synflood->never && strcmp(cookies, "flood") != 0) || !(window > 0 && window <= 1e6) ||
        SLUICE_PARAMETER_OF(box, share) > 100) {
        fprintf(stderr, "synflood: cookies is flood, always or never, share at most 100, and window from 0 to 1,000,000 seconds\n");
        return -1;
    }
    sl_siphash_key(synflood->key, sl_seed(box), "synflood");
    synflood->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return synflood->out ? 0 : -1;
}

SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "synflood"); }
