/* Finds resets of TCP that a third party forged, by what does not fit the host whose address they have (Weaver, Sommer, Paxson,
 * "Detecting Forged TCP Reset Packets", NDSS 2009). What counts as evidence, for each side of a connection:
 *
 *   ttl        the TTL of the reset differs by more than `ttl` from all that the side's other packets had
 *   sequence   its number is below what the side has sent already (their DATA_SEQ_RST)
 *   change     several resets came within a second, with rising numbers that nothing acknowledged (RST_SEQ_CHANGE): the sender
 *              guesses the number that will be expected
 *   goes_on    the side sends on after its reset, as if there was none (RST_SEQ_DATA)
 *   early      the reset answers a SYN at once, and the side's SYN/ACK follows (SYN_RST)
 *
 * A side with `least` kinds of evidence is reported; inline, its resets are dropped from then on. */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"
#include "tcp_segment.h"

SLUICE_INLINE
SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(ttl, number, 2, "hops by which a path may change")
SLUICE_PARAMETER(least, number, 2, "kinds of evidence with which a reset is reported as forged")
SLUICE_PARAMETER(pass, flag, no, "resets that are forged pass, inline too")

SLUICE_COUNTER(fakereset_resets, "segments with RST")
SLUICE_COUNTER(fakereset_suspicious, "of these those with some evidence")
SLUICE_COUNTER(fakereset_forged, "sides of connections in whose name resets were forged")
SLUICE_COUNTER(fakereset_dropped, "resets that were dropped")

enum fakereset_evidence { FAKERESET_TTL = 1, FAKERESET_SEQUENCE = 2, FAKERESET_CHANGE = 4, FAKERESET_GOES_ON = 8, FAKERESET_EARLY = 16 };
#define FAKERESET_BACK_TO_BACK 1000000000u   /* nanoseconds */

struct fakereset_side {
    uint64_t reset_time, reset_packet;   /* of the first reset */
    uint64_t last_reset;                 /* time of the last one */
    uint32_t next;                       /* number after all that the side has sent */
    uint32_t acknowledged;               /* the greatest acknowledgement of the other side */
    uint32_t last_number;                /* of the last reset */
    uint8_t ttl_low, ttl_high;           /* of other packets */
    uint8_t reset_ttl, resets;           /* of the first reset; how many, at most 255 */
    uint8_t evidence;
    bool sent, reported, was_acknowledged;
};
struct fakereset_flow { struct fakereset_side side[2]; };
SLUICE_STATE(struct fakereset_flow)
SLUICE_STORED(zero, "what each side of a connection has sent, and the resets in its name") { SL_STORED(stored, *state); }

struct fakereset { FILE *out; };
SLUICE_WORKER(struct fakereset)

static bool fakereset_after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }   /* RFC 1982 */

static bool fakereset_is_forged(const struct sl_event *event, const struct fakereset_side *side) {
    return (unsigned)__builtin_popcount(side->evidence) >= SLUICE_PARAMETER_OF(event->box, least) && side->evidence;
}

static void fakereset_report(const struct sl_event *event, struct fakereset_side *side) {
    static const char *const kinds[] = {"ttl", "sequence", "change", "goes_on", "early"};
    FILE *out = SLUICE_WORKER_OF(event->box)->out;
    if (side->reported || !fakereset_is_forged(event, side))
        return;
    side->reported = true;
    SLUICE_COUNTER_OF(event->box, fakereset_forged)++;
    fprintf(out, "{\"fakereset\":{");
    sl_write_endpoints(out, event->owner, sl_event_half(event, event->side), sl_event_half(event, event->side ^ 1));
    fprintf(out, "},\"time\":\"%llu.%09llu\",\"packet\":%llu,\"decided\":%llu,\"evidence\":[",
            (unsigned long long)(side->reset_time / 1000000000), (unsigned long long)(side->reset_time % 1000000000),
            (unsigned long long)side->reset_packet, (unsigned long long)sl_packet_number(event));
    for (unsigned i = 0, some = 0; i < 5; i++)
        if (side->evidence >> i & 1)
            fprintf(out, "%s\"%s\"", some++ ? "," : "", kinds[i]);
    fprintf(out, "],\"resets\":%u,\"ttl\":%u,\"usual_ttl\":[%u,%u]}\n", side->resets, side->reset_ttl, side->ttl_low, side->ttl_high);
}

/* A segment with RST of a side. */
static void fakereset_reset(const struct sl_event *event, struct fakereset_side *side, uint32_t number, uint8_t ttl) {
    struct sl_box *box = event->box;
    uint64_t hops = SLUICE_PARAMETER_OF(box, ttl), time = sl_packet_time(event);
    SLUICE_COUNTER_OF(box, fakereset_resets)++;
    uint8_t before = side->evidence;
    if (side->ttl_high && (ttl > side->ttl_high + hops || ttl + hops < side->ttl_low))
        side->evidence |= FAKERESET_TTL;
    /* A reset that answers a segment has the number that this acknowledges (RFC 9293, 3.10.7): old, but no guess. */
    bool answers = side->was_acknowledged && number == side->acknowledged;
    if (side->sent && !side->resets && !answers && number && fakereset_after(side->next, number))
        side->evidence |= FAKERESET_SEQUENCE;
    if (side->resets && fakereset_after(number, side->last_number) && !answers && time - side->last_reset < FAKERESET_BACK_TO_BACK)
        side->evidence |= FAKERESET_CHANGE;
    if (!side->resets) {
        side->reset_time = time;
        side->reset_packet = sl_packet_number(event);
        side->reset_ttl = ttl;
    }
    side->last_reset = time;
    side->last_number = number;
    side->resets += side->resets < 255;
    SLUICE_COUNTER_OF(box, fakereset_suspicious) += side->evidence != before || side->evidence;
    fakereset_report(event, side);
    if (fakereset_is_forged(event, side) && !SLUICE_PARAMETER_OF(box, pass)) {
        SLUICE_COUNTER_OF(box, fakereset_dropped)++;
        SLUICE_DROP(box);
    }
}

SLUICE_ON(tcp, packet) {
    struct tcp_place place;
    if (!event->instance || !tcp_place_of(event, sl_packet_frame(event), &place))
        return;
    struct fakereset_flow *flow = SLUICE_STATE_OF(event);
    struct fakereset_side *side = &flow->side[event->side & 1], *other = &flow->side[(event->side & 1) ^ 1];
    uint8_t flags = place.at[13], ttl = sl_packet_frame(event)->at[place.ip.ip + (place.ip.version == 4 ? 8 : 7)];
    uint32_t number = (uint32_t)sl_load_be32(place.at + 4), acknowledged = (uint32_t)sl_load_be32(place.at + 8);
    if (flags & TCP_RST) {
        fakereset_reset(event, side, number, ttl);
        return;
    }
    uint32_t payload = place.ip.end > place.ip.payload + place.header ? place.ip.end - place.ip.payload - place.header : 0;
    uint32_t after = number + payload + (flags & TCP_FIN) + (flags >> 1 & 1);
    bool advances = !side->sent || fakereset_after(after, side->next);
    /* Data in flight when the host reset the connection repeats, or precedes the reset's number; new data does not. */
    if (side->resets && advances && fakereset_after(after, side->last_number) && sl_packet_time(event) > side->last_reset)
        side->evidence |= flags & TCP_SYN ? FAKERESET_EARLY : FAKERESET_GOES_ON;
    if (advances)
        side->next = after;
    side->sent = true;
    side->ttl_low = side->ttl_low && side->ttl_low < ttl ? side->ttl_low : ttl;
    side->ttl_high = side->ttl_high > ttl ? side->ttl_high : ttl;
    if (flags & TCP_ACK && (!other->was_acknowledged || fakereset_after(acknowledged, other->acknowledged))) {
        other->acknowledged = acknowledged;
        other->was_acknowledged = true;
    }
    if (side->resets)
        fakereset_report(event, side);
}

SLUICE_OPEN {
    struct fakereset *fakereset = SLUICE_WORKER_OF(box);
    if (!SLUICE_PARAMETER_OF(box, least) || SLUICE_PARAMETER_OF(box, least) > 5 || SLUICE_PARAMETER_OF(box, ttl) > 255) {
        fprintf(stderr, "fakereset: least is from 1 to 5, ttl at most 255\n");
        return -1;
    }
    fakereset->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return fakereset->out ? 0 : -1;
}

SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "fakereset"); }
