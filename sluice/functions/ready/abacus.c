/* Measures the reordering of TCP segments: one row for each direction of a connection with out-of-order or repeated
 * segments.
 *
 * A segment is reordered in the sense of RFC 4737, 3.3, if it begins below the highest position sent before it, and
 * contains bytes that were not sent before. Its extent is the distance to that position (in packets in the RFC, in
 * bytes here). */
#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

SLUICE_COUNTER(data_segments, "segments with data")
SLUICE_COUNTER(retransmitted_segments, "of these with bytes that were sent before")
SLUICE_COUNTER(reordered_segments, "of these with new bytes that come late")

struct abacus_direction {
    uint64_t segments, retransmitted, retransmitted_bytes, reordered;
    uint32_t farthest, extent;   /* highest sequence number sent, plus 1; largest extent of a reordered segment */
    bool seen;                   /* a segment was seen, so `farthest` is valid */
};

struct abacus_directions { struct abacus_direction direction[2]; };
SLUICE_STATE(struct abacus_directions)
SLUICE_STORED(zero, "what each side of a connection has sent") { SL_STORED(stored, *state); }

struct abacus {
    FILE *out;
    uint64_t packet, known;      /* number of the current packet; how many of its bytes were sent before */
};
SLUICE_WORKER(struct abacus)

SLUICE_ON(tcp, rexmit) {
    struct abacus *abacus = SLUICE_WORKER_OF(event->box);
    if (abacus->packet != sl_packet_number(event))
        abacus->known = 0;
    abacus->packet = sl_packet_number(event);
    abacus->known += data->length;
}

enum { ABACUS_FIN = 1, ABACUS_SYN = 2, ABACUS_RST = 4 };   /* RFC 9293, 3.1 */

/* Counts a segment of `length` bytes at sequence number `number`, `known` of which were sent before. */
static void abacus_count(const struct sl_event *event, struct abacus_direction *direction, uint32_t number, uint32_t length, uint32_t known)
{
    direction->segments++;
    SLUICE_COUNTER_OF(event->box, data_segments)++;
    if (known) {
        direction->retransmitted++;
        direction->retransmitted_bytes += known;
        SLUICE_COUNTER_OF(event->box, retransmitted_segments)++;
    }
    uint32_t distance = direction->farthest - number;
    if (direction->seen && known < length && (int32_t)distance > 0) {
        direction->reordered++;
        direction->extent = distance > direction->extent ? distance : direction->extent;
        SLUICE_COUNTER_OF(event->box, reordered_segments)++;
    }
}

SLUICE_ON(tcp, packet) {
    struct abacus *abacus = SLUICE_WORKER_OF(event->box);
    uint32_t known = abacus->packet == sl_packet_number(event) ? (uint32_t)sl_min(abacus->known, data->length) : 0;
    abacus->packet = 0;   /* another TCP layer in this packet, for example in a tunnel, starts at 0 */
    if (!event->instance || event->unit.captured < 14 || event->unit.at[13] & ABACUS_RST)
        return;
    uint8_t flags = event->unit.at[13];
    struct abacus_direction *direction = &SLUICE_STATE_OF(event)->direction[event->side];
    uint32_t number = (uint32_t)sl_load_be32(event->unit.at + 4) + (flags & ABACUS_SYN ? 1 : 0), length = (uint32_t)data->length;
    if (length)
        abacus_count(event, direction, number, length, known);
    if (!length && !(flags & (ABACUS_SYN | ABACUS_FIN)))
        return;   /* an acknowledgement, whose number may be far off (RFC 5961, 3) */
    uint32_t next = number + length + (flags & ABACUS_FIN);
    if (!direction->seen || (int32_t)(next - direction->farthest) > 0)
        direction->farthest = next;
    direction->seen = true;
}

SLUICE_ON(tcp, end) {
    if (!event->instance)
        return;
    FILE *out = SLUICE_WORKER_OF(event->box)->out;
    for (unsigned side = 0; side < 2; side++) {
        const struct abacus_direction *direction = &SLUICE_STATE_OF(event)->direction[side];
        if (!direction->retransmitted && !direction->reordered)
            continue;
        fputc('{', out);
        sl_write_endpoints(out, event->owner, sl_event_half(event, side), sl_event_half(event, side ^ 1));
        fprintf(out, ",\"segments\":%llu,\"retransmitted\":%llu,\"retransmitted_bytes\":%llu,\"reordered\":%llu,"
                "\"extent\":%u}\n", (unsigned long long)direction->segments, (unsigned long long)direction->retransmitted,
                (unsigned long long)direction->retransmitted_bytes, (unsigned long long)direction->reordered, direction->extent);
    }
}

SLUICE_OPEN {
    struct abacus *abacus = SLUICE_WORKER_OF(box);
    abacus->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return abacus->out ? 0 : -1;
}

SLUICE_CLOSE {
    struct abacus *abacus = SLUICE_WORKER_OF(box);
    sl_rows_close(box, abacus->out, "abacus");
}
