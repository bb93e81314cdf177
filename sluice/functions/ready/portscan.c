/* Finds hosts that scan, by threshold random walk (Jung and others, "Fast Portscan Detection Using Sequential
 * Hypothesis Testing", 2004): each first contact of a host with another one succeeds or fails, and multiplies the
 * likelihood ratio that the host scans. Beyond a threshold the host is a scanner: it is reported, and its further
 * connections are blocked.
 *
 * The ratio is stored as its logarithm, in millionths, so that steps are added. It does not sink below the threshold
 * at which a host counts as benign: otherwise one that was benign for long could scan for long. */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"

#include <math.h>

SLUICE_INLINE
SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(benign, number, 80, "percent of first contacts of a benign host that succeed")
SLUICE_PARAMETER(scanner, number, 20, "percent of first contacts of a scanner that succeed")
SLUICE_PARAMETER(detection, number, 99, "percent of scanners that are to be found")
SLUICE_PARAMETER(false_alarm, number, 1, "percent of benign hosts that may be taken for scanners")
SLUICE_PARAMETER(wait, seconds, 30, "after which an attempt without an answer has failed")

SLUICE_COUNTER(attempts, "first contacts")
SLUICE_COUNTER(failures, "of these that failed")
SLUICE_COUNTER(scanners, "hosts that were found to scan")
SLUICE_COUNTER(blocked_connections, "connections of these that were blocked afterwards")
SLUICE_COUNTER(undecided, "connections of which the store did not say whether they are first contacts or blocked")

/* A first contact without an outcome so far: when it was attempted; 0: a connection of a scanner. */
struct portscan_pending { uint64_t time; };

SLUICE_SHARED(likelihood, number, src, read_write, recover, "logarithm of the likelihood ratio of a host, in millionths")
SLUICE_SHARED(contacts, number, src+dst, read_write, zero, "1 if a host has contacted another one")
SLUICE_SHARED(pending, struct portscan_pending, flow, read_write, zero, "when a first contact was attempted")
SLUICE_SHARED(blocked, number, src, read_mostly, recover, "1 if a host was found to scan")

SLUICE_OPERATION(walk, "return math.max(value + argument, other)") {
    int64_t sum = value + argument;
    return sum > other ? sum : other;
}

struct portscan_flow {
    struct sl_object *pending;   /* NULL: no first contact, or it has its outcome */
    bool known;                  /* `blocked` is */
    bool blocked;
};
SLUICE_STATE(struct portscan_flow)

struct portscan {
    FILE *out;
    int64_t success, failure, upper, lower;   /* steps and thresholds */
};
SLUICE_WORKER(struct portscan)

enum { PORTSCAN_SYN = 2, PORTSCAN_RST = 4, PORTSCAN_ACK = 16 };   /* RFC 9293, 3.1 */

static void portscan_report(const struct sl_event *event, int64_t likelihood) {
    const struct portscan *portscan = SLUICE_WORKER_OF(event->box);
    uint64_t time = sl_packet_time(event);
    fputs("{\"scanner\":", portscan->out);
    sl_write_address(portscan->out, sl_address_part(event->owner), sl_event_half(event, 0));
    fprintf(portscan->out, ",\"time\":\"%llu.%09llu\",\"packet\":%llu,\"log_likelihood\":%s%lld.%06lld}\n",
            (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
            (unsigned long long)sl_packet_number(event), likelihood < 0 ? "-" : "", llabs((long long)likelihood) / 1000000,
            llabs((long long)likelihood) % 1000000);
}

/* A first contact has its outcome. */
static void portscan_outcome(const struct sl_event *event, struct portscan_flow *flow, bool succeeded) {
    const struct portscan *portscan = SLUICE_WORKER_OF(event->box);
    sl_shared_drop(flow->pending);
    flow->pending = NULL;
    SLUICE_DISARM(event, tcp, attempt);
    SLUICE_COUNTER_OF(event->box, failures) += !succeeded;
    int64_t likelihood, before = 0;
    if (SLUICE_CUSTOM(SLUICE_SHARED_OF(event, likelihood), walk, succeeded ? portscan->success : portscan->failure,
                      portscan->lower, &likelihood) != SL_STORE_DONE) {
        SLUICE_COUNTER_OF(event->box, undecided)++;
        return;
    }
    if (likelihood < portscan->upper)
        return;
    if (sl_shared_compare(SLUICE_SHARED_OF(event, blocked), 0, 1, &before) == SL_STORE_DONE && !before) {
        SLUICE_COUNTER_OF(event->box, scanners)++;
        portscan_report(event, likelihood);
    }
}

SLUICE_ON(tcp, created) {
    if (!event->instance || event->unit.captured < 14 ||
        (event->unit.at[13] & (PORTSCAN_SYN | PORTSCAN_ACK)) != PORTSCAN_SYN)
        return;
    struct portscan_flow *flow = SLUICE_STATE_OF(event);
    int64_t there, before;
    flow->known = true;
    if (sl_shared_read(SLUICE_SHARED_OF(event, blocked), &there) != SL_STORE_DONE) {
        SLUICE_COUNTER_OF(event->box, undecided)++;
        return;
    }
    if (there) {
        flow->blocked = true;
        flow->pending = SLUICE_SHARED_OF(event, pending);
        sl_shared_put(flow->pending);
        SLUICE_COUNTER_OF(event->box, blocked_connections)++;
        return;
    }
    if (sl_shared_compare(SLUICE_SHARED_OF(event, contacts), 0, 1, &before) != SL_STORE_DONE) {
        SLUICE_COUNTER_OF(event->box, undecided)++;
        return;
    }
    if (before)
        return;
    flow->pending = SLUICE_SHARED_OF(event, pending);
    struct portscan_pending *pending = sl_object_bytes_of(flow->pending);
    if (!pending)
        return;
    SLUICE_COUNTER_OF(event->box, attempts)++;
    pending->time = sl_packet_time(event);
    sl_shared_put(flow->pending);
    SLUICE_ARM(event, tcp, attempt, (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9));
}

/* Restores the state that another instance has stored for a connection. */
static void portscan_take_up(const struct sl_event *event, struct portscan_flow *flow) {
    flow->known = true;
    struct sl_object *object = SLUICE_SHARED_OF(event, pending);
    if (!sl_shared_present(object)) {
        sl_shared_drop(object);
        return;
    }
    const struct portscan_pending *pending = sl_shared_struct(object);
    uint64_t wait = (uint64_t)(SLUICE_PARAMETER_OF(event->box, wait) * 1e9), now = sl_packet_time(event);
    flow->pending = object;
    flow->blocked = pending && !pending->time;
    if (pending && pending->time)
        SLUICE_ARM(event, tcp, attempt, pending->time + wait > now ? pending->time + wait - now : 1);
}

SLUICE_ON(tcp, packet) {
    struct portscan_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!flow)
        return;
    if (!flow->known)
        portscan_take_up(event, flow);
    if (flow->blocked) {
        SLUICE_DROP(event->box);
        return;
    }
    if (!flow->pending || event->side == 0 || event->unit.captured < 14)
        return;
    uint8_t flags = event->unit.at[13];
    if (flags & PORTSCAN_RST)
        portscan_outcome(event, flow, false);
    else if (flags & PORTSCAN_SYN)
        portscan_outcome(event, flow, true);
}

SLUICE_TIMER(tcp, attempt) {
    struct portscan_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (flow && !flow->known)   /* another instance has set it */
        portscan_take_up(event, flow);
    if (flow && flow->pending)
        portscan_outcome(event, flow, false);
}

SLUICE_ON(tcp, end) {
    struct portscan_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!flow || data->reason == SL_END_EOF)
        return;
    if (!flow->known)
        portscan_take_up(event, flow);
    if (flow->blocked)
        sl_shared_drop(flow->pending);
    else if (flow->pending)
        portscan_outcome(event, flow, false);
}

/* The logarithm of a quotient, in millionths. */
static int64_t portscan_log(double above, double below) { return llround(log(above / below) * 1e6); }

SLUICE_OPEN {
    struct portscan *portscan = SLUICE_WORKER_OF(box);
    double benign = (double)SLUICE_PARAMETER_OF(box, benign), scanner = (double)SLUICE_PARAMETER_OF(box, scanner);
    double detection = (double)SLUICE_PARAMETER_OF(box, detection), alarm = (double)SLUICE_PARAMETER_OF(box, false_alarm);
    if (!(0 < scanner && scanner < benign && benign < 100 && 0 < alarm && alarm < detection && detection < 100)) {
        fprintf(stderr, "portscan: percentages are from 1 to 99, scanner less than benign, false_alarm less than detection\n");
        return -1;
    }
    /* Jung and others, equations 3 and 4 */
    portscan->success = portscan_log(scanner, benign);
    portscan->failure = portscan_log(100 - scanner, 100 - benign);
    portscan->upper = portscan_log(detection, alarm);
    portscan->lower = portscan_log(100 - detection, 100 - alarm);
    portscan->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return portscan->out ? 0 : -1;
}

SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "portscan"); }
