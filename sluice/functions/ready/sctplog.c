/* Writes a row for each association of SCTP (RFC 9260): its numbers, streams, payload protocols, and how it ended. */
#include "sluice.h"

#include "log_reader.h"
#include "log_row.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(associations, number, 262144, "associations that are read at once, at most")

SLUICE_COUNTER(sctp_short, "chunks that end within their fixed part")
SLUICE_COUNTER(sctp_left_out, "associations that are not in the log, as too many were open")
SLUICE_COUNTER(sctp_no_memory, "associations that are not in the log for want of memory")

enum {
    SCTPLOG_DATA = 0, SCTPLOG_INIT = 1, SCTPLOG_INIT_ACK = 2, SCTPLOG_HEARTBEAT = 4, SCTPLOG_ABORT = 6, SCTPLOG_SHUTDOWN = 7,
    SCTPLOG_ERROR = 9, SCTPLOG_I_DATA = 64, SCTPLOG_PPIDS = 16, SCTPLOG_STREAMS = 65536 / 64,
};

struct sctplog_side {
    uint64_t packets, chunks, data_chunks, data_bytes, messages, repeated, heartbeats, errors;
    uint64_t last_packet;
    uint32_t tag, window, first_tsn;
    uint16_t out_streams, in_streams;
    bool init;
    uint64_t *streams;        /* a bit for each stream that was used */
};

struct sctplog_association {
    struct log_flow flow;
    uint64_t first, last;
    struct sctplog_side side[2];
    uint32_t ppid[SCTPLOG_PPIDS], ppids, ppids_left_out;
    bool aborted, shutdown;
    uint8_t aborted_by;
    uint16_t abort_cause;
    bool has_cause;
};

struct sctplog_state { struct sctplog_association *association; bool over; };
SLUICE_STATE(struct sctplog_state)

struct sctplog { struct log_output log; uint64_t open; };
SLUICE_WORKER(struct sctplog)

static struct sctplog_association *sctplog_association(const struct sl_event *event)
{
    struct sctplog *sctp = SLUICE_WORKER_OF(event->box);
    struct sctplog_state *state = SLUICE_STATE_OF(event);
    if (state->association || state->over)
        return state->association;
    bool many = sctp->open >= SLUICE_PARAMETER_OF(event->box, associations);
    state->association = many ? NULL : calloc(1, sizeof *state->association);
    if (!state->association) {
        SLUICE_COUNTER_OF(event->box, sctp_left_out) += many;
        SLUICE_COUNTER_OF(event->box, sctp_no_memory) += !many;
        state->over = true;
        return NULL;
    }
    sctp->open++;
    state->association->flow = log_flow_of(event, log_path_of(&sctp->log, event->box));
    state->association->first = sl_packet_time(event);
    return state->association;
}

static void sctplog_data(const struct sl_event *event, struct sctplog_association *association, struct sctplog_side *side)
{
    const uint8_t *at = event->unit.at;
    bool interleaved = at[0] == SCTPLOG_I_DATA;
    uint32_t head = interleaved ? 20 : 16;
    if (event->unit.captured < head) {
        SLUICE_COUNTER_OF(event->box, sctp_short)++;
        return;
    }
    uint16_t stream = (uint16_t)sl_load_be16(at + 8), length = (uint16_t)sl_load_be16(at + 2);
    uint32_t ppid = (uint32_t)sl_load_be32(at + (interleaved ? 16 : 12));
    side->data_chunks++;
    side->data_bytes += length > head ? length - head : 0;
    side->messages += at[1] & 1;             /* the E bit: its last fragment */
    if (!side->streams)
        side->streams = calloc(SCTPLOG_STREAMS, sizeof *side->streams);
    if (side->streams)
        side->streams[stream / 64] |= UINT64_C(1) << stream % 64;
    else
        SLUICE_COUNTER_OF(event->box, sctp_no_memory)++;
    if (!(at[1] & 2))                        /* the B bit: only the first fragment of an I-DATA message has a ppid */
        return;
    for (uint32_t i = 0; i < association->ppids; i++)
        if (association->ppid[i] == ppid)
            return;
    if (association->ppids < SCTPLOG_PPIDS)
        association->ppid[association->ppids++] = ppid;
    else
        association->ppids_left_out++;
}

static void sctplog_chunk(const struct sl_event *event, struct sctplog_association *association)
{
    struct sctplog_side *side = &association->side[event->side & 1];
    const uint8_t *at = event->unit.at;
    uint32_t captured = event->unit.captured;
    side->chunks++;
    side->packets += side->last_packet != sl_packet_number(event);
    side->last_packet = sl_packet_number(event);
    association->last = sl_packet_time(event);
    switch (at[0]) {
    case SCTPLOG_DATA: case SCTPLOG_I_DATA: sctplog_data(event, association, side); break;
    case SCTPLOG_INIT: case SCTPLOG_INIT_ACK:
        if (captured < 20) {
            SLUICE_COUNTER_OF(event->box, sctp_short)++;
            break;
        }
        side->init = true;
        side->tag = (uint32_t)sl_load_be32(at + 4);
        side->window = (uint32_t)sl_load_be32(at + 8);
        side->out_streams = (uint16_t)sl_load_be16(at + 12);
        side->in_streams = (uint16_t)sl_load_be16(at + 14);
        side->first_tsn = (uint32_t)sl_load_be32(at + 16);
        break;
    case SCTPLOG_HEARTBEAT: side->heartbeats++; break;
    case SCTPLOG_ERROR: side->errors++; break;
    case SCTPLOG_SHUTDOWN: association->shutdown = true; break;
    case SCTPLOG_ABORT:
        association->aborted = true;
        association->aborted_by = event->side & 1;
        association->has_cause = captured >= 8;
        association->abort_cause = captured >= 8 ? (uint16_t)sl_load_be16(at + 4) : 0;
        break;
    default: break;
    }
}

static uint32_t sctplog_streams(const struct sctplog_side *side)
{
    uint32_t count = 0;
    for (unsigned i = 0; side->streams && i < SCTPLOG_STREAMS; i++)
        count += (uint32_t)__builtin_popcountll(side->streams[i]);
    return count;
}

static void sctplog_row(const struct sl_event *event, const struct sctplog_association *association)
{
    struct sctplog *sctp = SLUICE_WORKER_OF(event->box);
    struct log_text *row = log_begin(&sctp->log, event->box, &association->flow, 0, association->first);
    const struct sl_layer_info *layer = event->owner;
    log_seconds(row, "duration", association->last - association->first);
    log_word(row, "state", layer->states ? layer->state[*((const uint8_t *)event->instance + layer->state_offset)].name : NULL);
    log_flag(row, "shutdown", association->shutdown);
    log_word(row, "aborted_by", !association->aborted ? NULL : association->aborted_by ? "dst" : "src");
    log_number_if(row, "abort_cause", association->has_cause, association->abort_cause);
    log_put(row, ",\"payload_protocols\":[");
    for (uint32_t i = 0; i < association->ppids; i++)
        log_format(row, "%s%u", i ? "," : "", association->ppid[i]);
    log_put(row, "]");
    log_number(row, "payload_protocols_left_out", association->ppids_left_out);
    static const char *const prefix[] = {"src", "dst"};
    for (unsigned i = 0; i < 2; i++) {
        const struct sctplog_side *side = &association->side[i];
        const struct { const char *name; bool there; uint64_t value; } members[] = {
            {"tag", side->init, side->tag}, {"window", side->init, side->window}, {"out_streams", side->init, side->out_streams},
            {"in_streams", side->init, side->in_streams}, {"first_tsn", side->init, side->first_tsn}, {"pkts", true, side->packets},
            {"chunks", true, side->chunks}, {"data_chunks", true, side->data_chunks}, {"data_bytes", true, side->data_bytes},
            {"messages", true, side->messages}, {"streams", true, sctplog_streams(side)}, {"rexmit_bytes", true, side->repeated},
            {"heartbeats", true, side->heartbeats}, {"errors", true, side->errors}};
        for (unsigned k = 0; k < sizeof members / sizeof *members; k++) {
            char name[32];
            snprintf(name, sizeof name, "%s_%s", prefix[i], members[k].name);
            log_number_if(row, name, members[k].there, members[k].value);
        }
    }
    log_finish(&sctp->log);
}

static void sctplog_free(struct sl_box *box, struct sctplog_state *state)
{
    if (!state->association)
        return;
    free(state->association->side[0].streams);
    free(state->association->side[1].streams);
    free(state->association);
    state->association = NULL;
    SLUICE_WORKER_OF(box)->open--;
}

SLUICE_ON(sctp, packet) {
    (void)data;
    struct sctplog_association *association = event->instance && event->unit.captured >= 4 ? sctplog_association(event) : NULL;
    if (association)
        sctplog_chunk(event, association);
}

SLUICE_ON(sctp, rexmit) {
    struct sctplog_association *association = event->instance ? SLUICE_STATE_OF(event)->association : NULL;
    if (association)
        association->side[event->side & 1].repeated += data->length;
}

SLUICE_ON(sctp, end) {
    (void)data;
    if (event->instance && SLUICE_STATE_OF(event)->association)
        sctplog_row(event, SLUICE_STATE_OF(event)->association);
}

SLUICE_DESTROY { sctplog_free(box, state); }

/* The streams that a side has used: the words of its bits that are not 0, each with its place. */
static void sctplog_streams_stored(struct sl_stored *stored, struct sctplog_side *side)
{
    const size_t size = SCTPLOG_STREAMS * sizeof *side->streams;
    uint32_t place = 0;
    if (!sl_stored_more(stored, side->streams != NULL))
        return;
    if (!(side->streams = sl_stored_block(stored, side->streams, size, size)))
        return;
    while (true) {
        while (!stored->reads && place < SCTPLOG_STREAMS && !side->streams[place])
            place++;
        if (!sl_stored_more(stored, place < SCTPLOG_STREAMS))
            return;
        SL_STORED(stored, place);
        if (place >= SCTPLOG_STREAMS) {
            stored->failed = true;
            return;
        }
        SL_STORED(stored, side->streams[place]);
        place++;
    }
}

SLUICE_STORED(zero, "an association, and what each side has sent") {
    struct sctplog *sctp = SLUICE_WORKER_OF(box);
    SL_STORED(stored, state->over);
    if (!sl_stored_more(stored, state->association != NULL))
        return;
    struct sctplog_association *association = sl_stored_block(stored, state->association, sizeof *association, sizeof *association);
    if (!association)
        return;
    state->association = association;
    sctp->open += stored->reads;
    log_flow_stored(stored, &sctp->log, box, &association->flow);
    SL_STORED(stored, association->first);
    SL_STORED(stored, association->last);
    for (unsigned i = 0; i < 2; i++) {
        sl_stored_bytes(stored, &association->side[i], offsetof(struct sctplog_side, streams));
        sctplog_streams_stored(stored, &association->side[i]);
    }
    sl_stored_bytes(stored, association->ppid, sizeof *association - offsetof(struct sctplog_association, ppid));
    if (association->ppids > SCTPLOG_PPIDS) {
        association->ppids = 0;
        stored->failed = true;
    }
}

SLUICE_OPEN { return log_open(&SLUICE_WORKER_OF(box)->log, box, "sctp", SLUICE_PARAMETER_OF(box, out)); }

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "sctplog rows", "sctplog rows lost for want of memory",
              "sctplog flows without layers");
}
