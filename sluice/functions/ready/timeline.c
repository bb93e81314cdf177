/* Counts packets, their bytes and retransmissions over time, in a bounded number of intervals of equal width.
 *
 * The width begins at a millisecond. When a packet lies beyond the last interval, the width is doubled and pairs of
 * intervals are added up, until it fits: the number of intervals is bounded for every capture, and no packet is left out. */
#include "sluice.h"

#include "output_file.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

SLUICE_COUNTER(timeline_packets, "packets that were counted")
SLUICE_COUNTER(timeline_early, "of these, packets with a time before that of the first one; they are in the first interval")

enum { TIMELINE_INTERVALS = 4096, TIMELINE_WIDTH = 1000000 };   /* nanoseconds */

struct timeline_interval { uint64_t packets, bytes, captured, rexmit; };

struct timeline {
    FILE *out;
    uint64_t number;         /* of the last packet that was counted */
    uint64_t begin, width;   /* begin: of the first interval */
    uint64_t first, last;    /* lowest and highest time of a packet */
    uint32_t used;
    struct timeline_interval *at;
};
SLUICE_WORKER(struct timeline)

/* Adds up pairs of intervals. */
static void timeline_widen(struct timeline *timeline)
{
    for (uint32_t i = 0; i < TIMELINE_INTERVALS; i++) {
        struct timeline_interval pair = {0};
        for (uint32_t k = 2 * i; k < 2 * i + 2 && k < TIMELINE_INTERVALS; k++) {
            pair.packets += timeline->at[k].packets;
            pair.bytes += timeline->at[k].bytes;
            pair.captured += timeline->at[k].captured;
            pair.rexmit += timeline->at[k].rexmit;
        }
        timeline->at[i] = pair;
    }
    timeline->used = (timeline->used + 1) / 2;
    timeline->width *= 2;
}

/* The interval of a time. */
static struct timeline_interval *timeline_at(struct timeline *timeline, uint64_t time)
{
    uint64_t since = time > timeline->begin ? time - timeline->begin : 0;
    while (since / timeline->width >= TIMELINE_INTERVALS)
        timeline_widen(timeline);
    uint32_t index = (uint32_t)(since / timeline->width);
    timeline->used = index < timeline->used ? timeline->used : index + 1;
    return &timeline->at[index];
}

/* Counts the current packet once, whichever of its layers is first. */
static void timeline_packet(const struct sl_event *event)
{
    struct timeline *timeline = SLUICE_WORKER_OF(event->box);
    const struct sl_frame *frame = sl_packet_frame(event);
    if (!frame || timeline->number == sl_packet_number(event))
        return;
    uint64_t time = sl_packet_time(event);
    if (timeline->number == 0)
        timeline->begin = timeline->first = timeline->last = time;
    timeline->number = sl_packet_number(event);
    SLUICE_COUNTER_OF(event->box, timeline_packets)++;
    SLUICE_COUNTER_OF(event->box, timeline_early) += time < timeline->begin;
    timeline->first = time < timeline->first ? time : timeline->first;
    timeline->last = time > timeline->last ? time : timeline->last;
    struct timeline_interval *interval = timeline_at(timeline, time);
    interval->packets++;
    interval->bytes += frame->length;
    interval->captured += frame->captured;
}

SLUICE_ON(any, packet) { timeline_packet(event); }

/* `any` is every layer with instances; a packet may have none of them, so the layers in which packets begin are named. */
#define TIMELINE_LINK(layer) SLUICE_ON(layer, packet) { timeline_packet(event); }
TIMELINE_LINK(avs) TIMELINE_LINK(broadcom) TIMELINE_LINK(chdlc) TIMELINE_LINK(chdlc_direction) TIMELINE_LINK(clip)
TIMELINE_LINK(dsa) TIMELINE_LINK(edsa) TIMELINE_LINK(enc) TIMELINE_LINK(eth) TIMELINE_LINK(fddi)
TIMELINE_LINK(fr) TIMELINE_LINK(fr_direction) TIMELINE_LINK(ipnet) TIMELINE_LINK(ipoib) TIMELINE_LINK(juniper)
TIMELINE_LINK(llc) TIMELINE_LINK(nflog) TIMELINE_LINK(null) TIMELINE_LINK(pflog) TIMELINE_LINK(pktap)
TIMELINE_LINK(ppi) TIMELINE_LINK(ppp) TIMELINE_LINK(ppp_direction) TIMELINE_LINK(pppoe) TIMELINE_LINK(radiotap)
TIMELINE_LINK(raw) TIMELINE_LINK(slip) TIMELINE_LINK(sll) TIMELINE_LINK(sll2) TIMELINE_LINK(sunatm)
TIMELINE_LINK(wlan)

SLUICE_ON(any, malformed) { timeline_packet(event); }

SLUICE_ON(tcp, rexmit) {
    struct timeline *timeline = SLUICE_WORKER_OF(event->box);
    if (timeline->number)
        timeline_at(timeline, sl_packet_time(event))->rexmit++;
}

SLUICE_OPEN {
    struct timeline *timeline = SLUICE_WORKER_OF(box);
    timeline->width = TIMELINE_WIDTH;
    timeline->at = calloc(TIMELINE_INTERVALS, sizeof *timeline->at);
    timeline->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return timeline->at && timeline->out ? 0 : -1;
}

SLUICE_CLOSE {
    struct timeline *timeline = SLUICE_WORKER_OF(box);
    for (uint32_t i = 0; timeline->out && timeline->at && i < timeline->used; i++) {
        const struct timeline_interval *interval = &timeline->at[i];
        uint64_t time = timeline->begin + i * timeline->width;
        if (interval->packets || interval->rexmit)
            fprintf(timeline->out,
                    "{\"ts\":\"%llu.%09llu\",\"width\":%llu,\"interval\":%u,\"packets\":%llu,\"bytes\":%llu,\"captured\":%llu,"
                    "\"rexmit\":%llu}\n",
                    (unsigned long long)(time / 1000000000), (unsigned long long)(time % 1000000000),
                    (unsigned long long)timeline->width, i, (unsigned long long)interval->packets,
                    (unsigned long long)interval->bytes, (unsigned long long)interval->captured,
                    (unsigned long long)interval->rexmit);
    }
    if (timeline->out)
        sl_rows_close(box, timeline->out, "timeline");
    free(timeline->at);
}
