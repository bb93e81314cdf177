/* The state of a flow and of the worker, and the path from a part that holds to an alert. */
#ifndef IDS_FLOW_H
#define IDS_FLOW_H

#include "reject.h"
#include "http2_hpack.h"
#include "http3_quic.h"
#include "ids_rule.h"
#include "tls_connection.h"

enum {
    IDS_HOT_MOST = 256,       /* parts of one side that wait for more of the stream */
    IDS_HELD_MOST = 256,      /* rules that one side remembers: those that have alerted, or of which a part holds */
};

/* A part whose pattern was found, and that does not hold yet. `at`: the end of the pattern in the stream, where it was found
 * last; `count`: how often. */
struct ids_hot { uint64_t at; uint32_t part, count; };
/* What a side remembers of a rule. `after`: the end of the last match of one that counts its matches. */
struct ids_held { uint32_t rule, bits; uint64_t after; };
enum { IDS_ALERTED = 1u << 31 };   /* of ids_held.bits */

/* One side's stream: bytes [begin, end) are in `window`. */
struct ids_side {
    uint64_t origin, begin, end;
    uint8_t *window;
    uint32_t room;
    hs_stream_t *patterns;
    uint32_t group;           /* of rules about it */
    struct ids_frames frames; /* that carried the window, where packets that match are written */
    struct ids_hot *hot;
    uint32_t hot_count, hot_room;
    struct ids_held *held;
    uint32_t held_count, held_room;
    uint64_t time, number;    /* of the packet that brought the last bytes */
    bool over;                /* it is not inspected any further */
};

struct ids_http;
struct ids_tls;
struct ids_dns;
struct ids_flow;

/* The state of a flow with secrets of TLS. */
struct ids_opened {
    struct tls_connection *tls;
    struct ids_side side[2];       /* the application data that are opened */
    struct sl_box *box;
    struct ids_flow *flow;
    const struct ids_seen *seen;   /* the packet that is processed */
};

struct ids_flow {
    struct log_flow flow;
    struct flow_ends ends;
    struct ids_side side[2];
    struct ids_http *http;
    struct ids_tls *tls;
    struct ids_dns *dns;
    struct ids_opened *opened;
    bool unopened;                 /* there was no memory for `opened` */
    struct ids_message *message;   /* of HTTP/3: of the stream, that is not complete */
    uint64_t *bits;
};

/* The side of a flow that HTTP is read of. */
static inline struct ids_side *ids_side_of(struct ids_flow *flow, unsigned number) {
    return flow->opened && tls_connection_has_begun(flow->opened->tls, number) ? &flow->opened->side[number] : &flow->side[number];
}

struct ids_state {
    struct ids_flow *flow;
    uint32_t path;
    bool established, sent[2], left_out;
    bool passed, blocked;     /* a rule lets the rest of the flow pass, or blocks it */
    struct http3_state quic;  /* of a connection of QUIC, or of one of its streams */
};
SLUICE_STATE(struct ids_state)

/* The cost of evaluating a rule (`profile`). */
struct ids_cost { uint64_t checks, matches, nanoseconds; };

/* The connection of QUIC or SCTP that the current packet is of; its streams and messages are those of a layer above. */
struct ids_carrier { struct log_flow flow; struct ids_state *state; uint64_t packet; unsigned side; };

struct ids {
    struct log_output log;
    struct log_budget budget;
    struct ids_table table;
    struct ids_work work;
    struct ids_counts counts;
    struct tls_secrets secrets;
    struct http2_library hpack;
    struct http3_library qpack;
    hs_scratch_t *scratch;
    uint64_t *alerts;         /* by rule */
    struct ids_cost *costs;   /* by rule; NULL without `profile` */
    struct sl_writer *packets;   /* the file of packets that matched, or NULL */
    struct ids_carrier carrier;
    bool ported[IDS_PORTED];  /* there are rules, whatever their ports */
    uint32_t *found;          /* parts whose pattern one scan has found */
    uint32_t found_count;
    uint64_t *mark, scans;    /* by part: the scan that has found it */
    uint64_t flows, block;
    bool flush_due;           /* the timer that writes the buffer is set */
};
SLUICE_WORKER(struct ids)

/* Are there rules of a kind of group, whatever their ports? */
static bool ids_has(const struct sl_box *box, unsigned number)
{
    const struct ids_table *table = &SLUICE_WORKER_OF(box)->table;
    if (number < IDS_PORTED)
        return SLUICE_WORKER_OF(box)->ported[number];
    return table->groups[number].count || table->groups[number].always_count;
}

/* Memory of flows, within the budget; NULL beyond it. */
static inline void *ids_take(struct sl_box *box, size_t size) {
    void *made = log_allocate(&SLUICE_WORKER_OF(box)->budget, size);
    SLUICE_COUNTER_OF(box, ids_no_room) += !made;
    return made;
}

static inline void ids_give(struct sl_box *box, void *at, size_t size) {
    if (at)
        log_give(&SLUICE_WORKER_OF(box)->budget, size);
    free(at);
}

/* Twice the room for items of a list, up to `most` items; false beyond it. */
static inline bool ids_grow(struct sl_box *box, void **items, uint32_t *room, uint32_t most, size_t size) {
    uint32_t larger = *room ? 2 * *room : 4;
    if (larger > most)
        return false;
    void *made = ids_take(box, larger * size);
    if (!made)
        return false;
    if (*items)
        memcpy(made, *items, *room * size);
    ids_give(box, *items, *room * size);
    *items = made;
    *room = larger;
    return true;
}

static inline uint64_t ids_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline sl_bytes ids_packet_bytes(const struct sl_event *event) {
    const struct sl_frame *frame = sl_packet_frame(event);
    return frame ? (sl_bytes){frame->at, frame->captured, frame->length} : (sl_bytes){0};
}

static inline size_t ids_bits_size(const struct ids *ids) { return ((size_t)ids->table.bit_count + 63) / 64 * 8; }

/* Alerts are written a second after the first that is buffered, so that those of an interface are seen soon. */
SLUICE_TIMER(box, flush) {
    struct ids *ids = SLUICE_WORKER_OF(event->box);
    ids->flush_due = false;
    if (ids->log.out)
        fflush(ids->log.out);   /* an error stays with the file, and is reported at the end */
}

/* Applies a rule's decision to the current packet; was it stopped? A rule on a stream (`rest`) decides about what
 * follows in its flow as well, as a segment that is dropped will be sent again. Without a packet, as where the end of a
 * stream decides, there is nothing to stop. */
static inline bool ids_act(struct sl_box *box, const struct ids_seen *seen, const struct ids_rule *rule, bool rest) {
    bool stopped = false;
    if (rule->action == IDS_PASS && seen->passed && rest)
        *seen->passed = true;
    if (!sl_is_inline(box))   /* no output: the flow continues */
        return false;
    switch (rule->action) {
    case IDS_REJECT:
        stopped = seen->protocol == IDS_TCP_BIT ? SLUICE_RESET(box) : reject_unreachable(box, 3, 4);
        SLUICE_COUNTER_OF(box, ids_not_rejected) += !stopped;
        stopped |= SLUICE_DROP(box);
        break;
    case IDS_DROP:
    case IDS_SILENT_DROP: stopped = SLUICE_DROP(box); break;
    default: return false;
    }
    if (rest && seen->blocked)
        *seen->blocked = true;
    return stopped;
}

/* A rule matches: its verdict, and the alert unless a threshold or its action suppresses it. `rest`: it is about a stream. */
SL_COLD void ids_alert(struct sl_box *box, const struct ids_seen *seen, uint32_t number, bool rest) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_rule *rule = &ids->table.rules[number];
    if (rule->threshold == IDS_FILTER && !ids_counts_allow(&ids->counts, sl_seed(box), seen, number, rule)) {
        SLUICE_COUNTER_OF(box, ids_below_thresholds)++;   /* it does not match yet */
        return;
    }
    bool blocked = ids_act(box, seen, rule, rest);
    if (rule->silent || rule->action == IDS_PASS || rule->action == IDS_SILENT_DROP)
        return;
    if (rule->threshold != IDS_FILTER && !ids_counts_allow(&ids->counts, sl_seed(box), seen, number, rule)) {
        SLUICE_COUNTER_OF(box, ids_below_thresholds)++;
        return;
    }
    if (ids->packets)
        SLUICE_COUNTER_OF(box, ids_packets_not_written) +=
            ids_frames_write(ids->packets, seen->frames, seen->begin, seen->end, sl_packet_frame(seen->event));
    if (rule->action == IDS_LOG) {
        SLUICE_COUNTER_OF(box, ids_logged)++;
        return;
    }
    SLUICE_COUNTER_OF(box, ids_alerts)++;
    ids->alerts[number]++;
    if (SLUICE_PARAMETER_OF(box, fast))
        ids_fast(&ids->log, seen, rule, blocked);
    else
        ids_row(&ids->log, box, seen, rule, blocked);
    SLUICE_EMIT(seen->event, ids_alert, .gid = rule->gid, .sid = rule->sid, .rev = rule->rev, .priority = rule->priority,
                .blocked = blocked, .msg = {(const uint8_t *)rule->msg, rule->msg_length, rule->msg_length},
                .packet = ids_packet_bytes(seen->event));
    if (!ids->flush_due)
        ids->flush_due = SLUICE_ARM_BOX(box, flush, 1000000000);
}

/* May further rules be evaluated? Not where one that passes has matched. */
static inline bool ids_open_to(const struct ids_seen *seen) { return !seen->passed || !*seen->passed; }

/* Evaluates a part; does it hold? Bits of the flow are tested before the bytes, which costs less. */
static inline bool ids_evaluate(struct sl_box *box, const struct ids_part *part, const struct ids_seen *seen,
                                const struct ids_view *views) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_rule *rule = &ids->table.rules[part->rule];
    if (!ids_applies(rule, seen) || !ids_bits_allow(seen, rule))
        return false;
    uint64_t begin = ids->costs ? ids_clock() : 0;
    bool holds = ids_part_holds(&ids->work, views, part);
    if (ids->costs) {
        struct ids_cost *cost = &ids->costs[part->rule];
        cost->nanoseconds += ids_clock() - begin;
        cost->checks++;
        cost->matches += holds;
    }
    SLUICE_COUNTER_OF(box, ids_bounded_matches) += ids->work.bounded;
    return holds;
}

/* --- rules of a side --- */

/* What a side remembers of a rule; NULL: nothing. */
static inline struct ids_held *ids_held_of(const struct ids_side *side, uint32_t rule) {
    for (uint32_t i = 0; i < side->held_count; i++)
        if (side->held[i].rule == rule)
            return &side->held[i];
    return NULL;
}

static inline uint32_t ids_held_bits(const struct ids_side *side, uint32_t rule) {
    const struct ids_held *held = ids_held_of(side, rule);
    return held ? held->bits : 0;
}

/* Where the last match of a rule ended that counts its matches; 0: there was none. */
static inline uint64_t ids_held_after(const struct ids_side *side, uint32_t rule) {
    const struct ids_held *held = ids_held_of(side, rule);
    return held ? held->after : 0;
}

/* Remembers that bits of a rule hold, and where its last match ended; false where there is no room for it. */
static inline bool ids_hold(struct sl_box *box, struct ids_side *side, uint32_t rule, uint32_t bits, uint64_t after) {
    struct ids_held *held = ids_held_of(side, rule);
    if (held) {
        held->bits |= bits;
        held->after = after;
        return true;
    }
    void *list = side->held;
    if (side->held_count == side->held_room && !ids_grow(box, &list, &side->held_room, IDS_HELD_MOST, sizeof *side->held)) {
        SLUICE_COUNTER_OF(box, ids_many_rules)++;
        return false;
    }
    side->held = list;
    side->held[side->held_count++] = (struct ids_held){rule, bits, after};
    return true;
}

/* Does a rule count its matches in a stream? One with a threshold or detection_filter does, unless it is about messages, too. */
static inline bool ids_repeats(const struct ids_rule *rule) {
    return rule->threshold != IDS_NO_THRESHOLD && rule->needed == IDS_ON_STREAM;
}

/* A part of a rule on streams holds: with all of its parts the rule alerts. A rule with a part on the stream alerts once for
 * a side, but for one that counts its matches; one on HTTP alone once for each message. True where bits of the flow changed. */
static inline bool ids_part_found(struct sl_box *box, struct ids_side *side, const struct ids_seen *seen,
                                  const struct ids_part *part) {
    struct ids *ids = SLUICE_WORKER_OF(box);
    const struct ids_rule *rule = &ids->table.rules[part->rule];
    uint32_t held = ids_held_bits(side, part->rule) | part->bit;
    bool once = rule->needed & IDS_ON_STREAM;
    if ((held & rule->needed) != rule->needed) {
        ids_hold(box, side, part->rule, part->bit, 0);
        return false;
    }
    bool later = ids->work.first < ids->work.last && ids->work.last > ids_held_after(side, part->rule);
    bool repeats = ids_repeats(rule) && (part->alone || later);
    if (once && (held & IDS_ALERTED || !ids_hold(box, side, part->rule, repeats ? 0 : part->bit | IDS_ALERTED, ids->work.last)))
        return false;
    bool changed = ids_bits_change(seen, rule);
    struct ids_seen here = *seen;
    bool placed = part->bit == IDS_ON_STREAM && ids->work.first < ids->work.last;
    here.begin = placed ? ids->work.first : side->begin;
    here.end = placed ? ids->work.last : side->end;
    ids_alert(box, &here, part->rule, true);
    return changed;
}

#endif
