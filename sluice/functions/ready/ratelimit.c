/* Limits packets or bytes per second of each source, destination or flow: token buckets by packet time, which drop what exceeds
 * the rate. A bucket that is full again says nothing more, and is given up when a flow of its key ends, or room is needed. */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"
#include "token_bucket.h"

SLUICE_INLINE
SLUICE_PARAMETER(key, text, "src", "what is limited: src, dst (addresses), or flow (each direction of one)")
SLUICE_PARAMETER(packets, number, 0, "packets per second; 0: not limited")
SLUICE_PARAMETER(bytes, number, 0, "bytes of IP packets per second; 0: not limited")
SLUICE_PARAMETER(burst, seconds, 1, "whose packets or bytes may come at once, at least a packet of 1,500 bytes")
SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

SLUICE_COUNTER(ratelimit_passed, "packets within the rate")
SLUICE_COUNTER(ratelimit_dropped, "packets beyond it")
SLUICE_COUNTER(ratelimit_dropped_bytes, "bytes of their IP packets")
SLUICE_COUNTER(ratelimit_no_key, "packets of IP that are no flow's, such as malformed ones; they pass")
SLUICE_COUNTER(ratelimit_no_room, "packets whose bucket was not stored, as there was no room; they pass")

/* The times at which the buckets are full again; when a packet was dropped last. */
struct ratelimit_bucket { uint64_t packets, bytes, dropped; };

SLUICE_SHARED(by_src, struct ratelimit_bucket, src, read_write, zero, "buckets of senders")
SLUICE_SHARED(by_dst, struct ratelimit_bucket, dst, read_write, zero, "buckets of receivers")
SLUICE_SHARED(by_forth, struct ratelimit_bucket, flow, read_write, zero, "buckets of the active sides of flows")
SLUICE_SHARED(by_back, struct ratelimit_bucket, flow, read_write, zero, "buckets of the passive sides of flows")

enum ratelimit_key { RATELIMIT_SRC, RATELIMIT_DST, RATELIMIT_FLOW };
enum { RATELIMIT_PACKET = 1500, RATELIMIT_SWEEP = 16 };   /* bytes; buckets that are looked at for room */
#define RATELIMIT_FUTILE 1000000u    /* nanoseconds without a sweep after one that found no room */
#define RATELIMIT_QUIET 1000000000u   /* nanoseconds without a drop, after which another one is reported */

struct ratelimit {
    FILE *out;
    enum ratelimit_key key;
    struct token_rate packets, bytes;
    uint64_t done;      /* the number of the last packet that was decided on */
    uint32_t hand;      /* the bucket that was looked at last */
    uint64_t sweep;     /* the time before which there is no sweep */
};
SLUICE_WORKER(struct ratelimit)

static struct sl_object *ratelimit_object(const struct sl_event *event, unsigned side) {
    switch (SLUICE_WORKER_OF(event->box)->key) {
    case RATELIMIT_SRC: return SLUICE_SHARED_SIDE(event, by_src, side);
    case RATELIMIT_DST: return SLUICE_SHARED_SIDE(event, by_dst, side);
    default: return side ? SLUICE_SHARED_OF(event, by_back) : SLUICE_SHARED_OF(event, by_forth);
    }
}

static bool ratelimit_is_full(const struct sl_box *box, const struct ratelimit_bucket *bucket) {
    return bucket && bucket->packets <= sl_now(box) && bucket->bytes <= sl_now(box);
}

/* Frees those of the next few buckets that are full again: left by flows that ended before theirs was. A sweep that
 * finds none delays the next one, so that a sender that forges addresses does not cost a sweep for each packet. */
static void ratelimit_sweep(struct sl_box *box) {
    struct ratelimit *ratelimit = SLUICE_WORKER_OF(box);
    struct sl_shared *of = ratelimit->key == RATELIMIT_SRC ? SL_SHARED_NAMED(box, by_src) : SL_SHARED_NAMED(box, by_dst);
    bool found = false;
    if (sl_now(box) < ratelimit->sweep)
        return;
    for (unsigned i = 0; i < RATELIMIT_SWEEP; i++) {
        struct sl_object *object = sl_shared_next(of, &ratelimit->hand);
        if (ratelimit_is_full(box, sl_shared_struct(object))) {
            sl_shared_drop(object);
            found = true;
        }
    }
    ratelimit->sweep = found ? 0 : sl_now(box) + RATELIMIT_FUTILE;
}

static void ratelimit_report(const struct sl_event *event) {
    const struct ratelimit *ratelimit = SLUICE_WORKER_OF(event->box);
    uint64_t time = sl_packet_time(event);
    fprintf(ratelimit->out, "{\"ratelimit\":\"%s\",\"time\":\"%llu.%09llu\",\"packet\":%llu,\"protocol\":\"%s\",",
            ratelimit->key == RATELIMIT_SRC   ? "src"
            : ratelimit->key == RATELIMIT_DST ? "dst"
                                              : "flow",
            (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
            (unsigned long long)sl_packet_number(event), event->owner->prototype);
    sl_write_endpoints(ratelimit->out, event->owner, sl_event_half(event, event->side), sl_event_half(event, event->side ^ 1));
    fputs("}\n", ratelimit->out);
}

static void ratelimit_packet(const struct sl_event *event) {
    struct sl_box *box = event->box;
    struct ratelimit *ratelimit = SLUICE_WORKER_OF(box);
    const struct sl_frame *frame = sl_packet_frame(event);
    bool found = false;
    uint32_t at = frame ? sl_frame_ip(frame, &found) : 0;
    if (!found || ratelimit->done == sl_packet_number(event))
        return;   /* within a tunnel: the outermost flow was decided on */
    ratelimit->done = sl_packet_number(event);
    struct sl_object *object = event->instance ? ratelimit_object(event, event->side & 1) : NULL;
    if (event->instance && !object && ratelimit->key != RATELIMIT_FLOW) {
        ratelimit_sweep(box);
        object = ratelimit_object(event, event->side & 1);
    }
    struct ratelimit_bucket *bucket = sl_shared_struct(object);
    if (!bucket) {
        SLUICE_COUNTER_OF(box, ratelimit_no_room)++;
        return;
    }
    struct sl_ip_place ip;
    bool whole = sl_ip_read(frame, at, &ip) && ip.first && ip.last;
    /* of a datagram in fragments, as if it had arrived whole: without its last fragment, the others are useless */
    uint64_t bytes = whole && ip.end > at ? ip.end - at : event->unit.length + 20, now = sl_now(box);
    struct ratelimit_bucket before = *bucket;
    bool fits = (!ratelimit->packets.rate || token_take(&ratelimit->packets, &bucket->packets, now, 1)) &&
                (!ratelimit->bytes.rate || token_take(&ratelimit->bytes, &bucket->bytes, now, bytes));
    if (fits) {
        SLUICE_COUNTER_OF(box, ratelimit_passed)++;
    } else {
        *bucket = before;   /* a packet that is dropped takes nothing from either bucket */
        bucket->dropped = now;
        SLUICE_COUNTER_OF(box, ratelimit_dropped)++;
        SLUICE_COUNTER_OF(box, ratelimit_dropped_bytes) += bytes;
        if (!before.dropped || now - before.dropped > RATELIMIT_QUIET)
            ratelimit_report(event);
        SLUICE_DROP(box);
    }
    sl_shared_put(object);
}

/* A flow has ended: buckets that are full again, or of the flow alone, are freed. */
static void ratelimit_end(const struct sl_event *event, uint64_t reason) {
    if (!event->instance || reason == SL_END_EOF)
        return;
    for (unsigned side = 0; side < 2; side++) {
        struct sl_object *object = ratelimit_object(event, side);
        if (object && (SLUICE_WORKER_OF(event->box)->key == RATELIMIT_FLOW || ratelimit_is_full(event->box, sl_shared_struct(object))))
            sl_shared_drop(object);
    }
}

static void ratelimit_no_flow(const struct sl_event *event) {
    struct ratelimit *ratelimit = SLUICE_WORKER_OF(event->box);
    bool found = false;
    if (!sl_packet_frame(event) || ratelimit->done == sl_packet_number(event))
        return;
    sl_frame_ip(sl_packet_frame(event), &found);
    ratelimit->done = sl_packet_number(event);
    SLUICE_COUNTER_OF(event->box, ratelimit_no_key) += found;
}

SLUICE_ON(tcp, packet) { ratelimit_packet(event); }
SLUICE_ON(tcp, end) { ratelimit_end(event, data->reason); }
SLUICE_ON(udp, packet) { ratelimit_packet(event); }
SLUICE_ON(udp, end) { ratelimit_end(event, data->reason); }
SLUICE_ON(sctp, packet) { ratelimit_packet(event); }
SLUICE_ON(sctp, end) { ratelimit_end(event, data->reason); }
SLUICE_ON(icmp, packet) { ratelimit_packet(event); }
SLUICE_ON(icmp, end) { ratelimit_end(event, data->reason); }
SLUICE_ON(icmp6, packet) { ratelimit_packet(event); }
SLUICE_ON(icmp6, end) { ratelimit_end(event, data->reason); }
SLUICE_ON(other, packet) { ratelimit_packet(event); }
SLUICE_ON(other, end) { ratelimit_end(event, data->reason); }
SLUICE_ON(any, malformed) { ratelimit_no_flow(event); }
SLUICE_ON(any, dropped) { ratelimit_no_flow(event); }

/* A rate per second, whose bucket holds the burst, and `least` units at least. */
static struct token_rate ratelimit_rate(uint64_t rate, double burst, uint64_t least) {
    double units = (double)rate * burst;
    uint64_t bounded = units < 1e18 ? (uint64_t)units : (uint64_t)1e18;
    return (struct token_rate){rate, 1000000000, sl_max(bounded, least)};
}

SLUICE_OPEN {
    static const char *const keys[] = {"src", "dst", "flow"};
    struct ratelimit *ratelimit = SLUICE_WORKER_OF(box);
    const char *key = SLUICE_PARAMETER_OF(box, key);
    unsigned which = 0;
    while (which < 3 && strcmp(key, keys[which]))
        which++;
    uint64_t packets = SLUICE_PARAMETER_OF(box, packets), bytes = SLUICE_PARAMETER_OF(box, bytes);
    double burst = SLUICE_PARAMETER_OF(box, burst);
    if (which == 3 || (!packets && !bytes) || packets > UINT32_MAX || bytes > (uint64_t)1 << 50 || !(burst >= 0 && burst <= 1e6)) {
        fprintf(stderr, "ratelimit: key is src, dst or flow, and packets or bytes per second are given, as in "
                        "key=src,packets=1000,bytes=1000000; a burst has at most 1,000,000 seconds\n");
        return -1;
    }
    ratelimit->key = (enum ratelimit_key)which;
    ratelimit->packets = ratelimit_rate(packets, burst, 1);
    ratelimit->bytes = ratelimit_rate(bytes, burst, RATELIMIT_PACKET);
    ratelimit->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return ratelimit->out ? 0 : -1;
}

SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "ratelimit"); }
