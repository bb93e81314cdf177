/* One JSON object per connection or bidirectional flow, in order of first packet (schema sluice-flows-1).
 *
 * A row is one instance of a connection-oriented layer. It is written once the instance has ended and all rows that
 * began earlier are written. docs/functions.md lists the key parts and instance fields that it uses. */
#include "sluice.h"

#include "decimal.h"
#include "digest.h"
#include "endpoints.h"
#include "output_file.h"
#include "reorder_queue.h"

#include <errno.h>

SLUICE_PARAMETER(key, text, "", "what joined the keys by --key, as in ways+vlan: rows tell it")
SLUICE_PARAMETER(rows, number, 0,
                 "rows in memory at most, of open flows and of those that wait for earlier ones; beyond it those that "
                 "wait are written out of order (0: as many as a table has instances, within 65,536 and 4,194,304)")
SLUICE_PARAMETER(holes, number, 65536, "gaps that one row lists at most; the others are counted")
SLUICE_PARAMETER(all_holes, number, 4194304, "gaps that all rows in memory list together at most")
SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

#ifndef FLOW_EXTRAS   /* flowlog.c includes this file, and adds members to its rows */
#define FLOW_EXTRAS_ROW
#define FLOW_EXTRAS_WORKER
#define FLOW_EXTRAS(call)
#endif

/* A row needs about 300 bytes, a hole 24. */
enum { ROWS_LEAST = 1 << 16, ROWS_MOST = 1 << 22 };

struct hole {
    uint64_t offset, length;
    uint8_t side, cause;
};

struct direction {
    uint64_t counted;           /* number of the last counted packet, because a packet may contain several messages */
    uint64_t packets, payload, rexmit, stream, after_gap;
    uint64_t before, outside, cut;   /* bytes without a place in the stream, and those that the snap length cut off */
    bool broken;                /* a gap was skipped */
    bool unhashed;              /* memory was insufficient to hash the stream */
    struct sl_digest *hash;     /* of the bytes before the first gap; NULL until the first byte */
    uint8_t digest[SL_DIGEST_SIZE];
};

struct row {
    struct sl_turn turn;        /* ordered by instance number; the first member, so that a cast yields the row */
    const struct sl_layer_info *layer;
    uint64_t first, last;       /* times of the first and the last packet */
    uint64_t first_number;      /* of the first packet */
    struct direction way[2];    /* the first sender's direction, then the other */
    struct hole *holes;
    uint64_t holes_left_out;    /* beyond the bound */
    uint32_t hole_count, hole_room;
    uint16_t path_length;
    bool own;                   /* both ends are equal, so all packets count as direction 0 */
    uint8_t syn, fin, rst;      /* bit 0: sent by the first sender; bit 1: by the other */
    uint8_t state, reason;
    uint32_t icmp_type, icmp_code, icmp_id;
    FLOW_EXTRAS_ROW
    uint64_t key[];             /* the first sender's half, the other half, then the layer indexes of the path */
};

struct flow_log {
    FILE *out;
    int failed;                 /* errno of the first failed write */
    struct sl_digests digests;
    struct sl_in_order order;   /* of rows */
    uint64_t most_holes, most_all_holes, all_holes;
    uint64_t written, holes_left_out;
    uint64_t unhashed;          /* streams that were not hashed because memory was exhausted */
    uint64_t lost;              /* rows that were not created because memory was exhausted */
    const char *joined;         /* the names that an option added to the keys, separated by '+' */
    FLOW_EXTRAS_WORKER
};
SLUICE_WORKER(struct flow_log)

struct flow {
    struct row *row;            /* until the flow has ended */
    uint32_t first_side;        /* of the sender of the first packet */
};
SLUICE_STATE(struct flow)

static const char *const gap_causes[] = {"limit", "timeout", "close", "snaplen", "skipped", "acknowledged", "memory"};
enum { GAP_CAUSES = sizeof gap_causes / sizeof *gap_causes };

static uint8_t *row_path(struct row *row) { return (uint8_t *)(row->key + 2 * row->layer->half_words); }

/* The key half of the first sender (0) or of the other side (1). */
static const uint64_t *row_half(const struct row *row, unsigned half) { return &row->key[half * row->layer->half_words]; }

/* --- collecting --- */

static uint32_t perm_value(const struct sl_event *event, const char *name)
{
    return (uint32_t)sl_field_value(event->instance, sl_layer_field(event->layer, name));
}

/* A row of a layer, whose path has `depth` layers; NULL without memory. */
static struct row *row_allocate(const struct sl_layer_info *layer, uint32_t depth)
{
    struct row *row = calloc(1, sizeof *row + 16 * layer->half_words + depth);
    if (!row)
        return NULL;
    row->layer = layer;
    row->path_length = (uint16_t)depth;
    return row;
}

static struct row *row_new(const struct sl_event *event)
{
    uint32_t words = event->layer->half_words, depth = sl_path_depth(event);
    struct row *row = row_allocate(event->layer, depth);
    if (!row)
        return NULL;
    memcpy(row->key, sl_event_half(event, event->side), 8 * words);
    memcpy(row->key + words, sl_event_half(event, event->side ^ 1), 8 * words);
    for (uint32_t i = 0; i < depth; i++)
        row_path(row)[i] = (uint8_t)sl_path_layer(event, i)->index;
    row->first = row->last = sl_packet_time(event);
    row->first_number = sl_packet_number(event);
    const struct sl_key_part *port = sl_port_part(row->layer);
    const uint64_t *first = row_half(row, 0), *other = row_half(row, 1);
    row->own = sl_part_same(sl_address_part(row->layer), first, other) && (!port || sl_part_same(port, first, other));
    FLOW_EXTRAS(flow_extras_begin(&row->extras, &SLUICE_WORKER_OF(event->box)->extras, event->box);)
    return row;
}

static void write_turns(struct flow_log *log, struct sl_box *box);

/* Instance numbers ascend in the order of creation, so rows begin in order. */
SLUICE_ON(any, created) {
    if (!event->instance || !event->layer->oriented)
        return;
    struct flow *flow = SLUICE_STATE_OF(event);
    struct flow_log *log = SLUICE_WORKER_OF(event->box);
    flow->first_side = event->side;
    flow->row = row_new(event);
    if (!flow->row) {
        log->lost++;
        return;
    }
    sl_in_order_begin(&log->order, &flow->row->turn, sl_event_number(event));
    write_turns(log, event->box);
}

/* The flow of an event; NULL if it has no row. */
static const struct flow *flow_of(const struct sl_event *event)
{
    if (!event->instance || !event->layer->oriented)
        return NULL;
    const struct flow *flow = SLUICE_STATE_OF(event);
    return flow->row ? flow : NULL;
}

/* The index of an event's direction in its row. */
static uint8_t way_number(const struct sl_event *event, const struct flow *flow)
{
    return flow->row->own ? 0 : (event->side ^ flow->first_side) & 1;
}

/* The direction of an event's side in its row; NULL if there is no row. */
static struct direction *way_of(const struct sl_event *event)
{
    const struct flow *flow = flow_of(event);
    return flow ? &flow->row->way[way_number(event, flow)] : NULL;
}

SLUICE_ON(any, packet) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    FLOW_EXTRAS(flow_extras_packet(&SLUICE_STATE_OF(event)->row->extras, &SLUICE_WORKER_OF(event->box)->extras, event,
                                   way_number(event, SLUICE_STATE_OF(event)), way->counted != sl_packet_number(event), data->length);)
    way->packets += way->counted != sl_packet_number(event);
    way->counted = sl_packet_number(event);
    way->payload += data->length;
    way->cut += sl_min(data->length, event->unit.length - event->unit.captured);
    SLUICE_STATE_OF(event)->row->last = sl_packet_time(event);
}

SLUICE_ON(any, data) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    if (way->broken) {
        way->after_gap += data->bytes.captured;
        return;
    }
    way->stream += data->bytes.captured;
    if (!sl_digest_add(&SLUICE_WORKER_OF(event->box)->digests, &way->hash, data->bytes))
        way->unhashed = true;
}

SLUICE_ON(any, rexmit) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    way->rexmit += data->length;
    FLOW_EXTRAS(flow_extras_again(&SLUICE_STATE_OF(event)->row->extras, event, way_number(event, SLUICE_STATE_OF(event)),
                                  data->length);)
}

/* The numbers of UNPLACED_CAUSES in the language. */
enum { BEFORE, REPEATED, OUTSIDE };

SLUICE_ON(any, unplaced) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    switch (data->cause) {
    case BEFORE: way->before += data->length; break;
    case REPEATED: way->rexmit += data->length; break;
    default: way->outside += data->length;
    }
}

/* Ensures space for one more hole. Returns false at a bound, or if memory is exhausted. */
static bool hole_room(struct flow_log *log, struct row *row)
{
    if (row->hole_count >= log->most_holes || log->all_holes >= log->most_all_holes)
        return false;
    if (row->hole_count < row->hole_room)
        return true;
    uint32_t room = row->hole_room ? 2 * row->hole_room : 4;
    struct hole *holes = realloc(row->holes, room * sizeof *holes);
    if (!holes)
        return false;
    row->holes = holes;
    row->hole_room = room;
    return true;
}

SLUICE_ON(any, gap) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    way->broken = true;
    struct flow_log *log = SLUICE_WORKER_OF(event->box);
    struct row *row = SLUICE_STATE_OF(event)->row;
    uint8_t side = way_number(event, SLUICE_STATE_OF(event));
    struct hole *last = row->hole_count ? &row->holes[row->hole_count - 1] : NULL;
    if (last && last->side == side && last->cause == data->cause && last->offset + last->length == data->offset) {
        last->length += data->length;   /* one hole, skipped in steps, each up to a packet without data in it */
        return;
    }
    if (!hole_room(log, row)) {
        row->holes_left_out++;
        log->holes_left_out++;
        return;
    }
    row->holes[row->hole_count++] = (struct hole){data->offset, data->length, side, (uint8_t)data->cause};
    log->all_holes++;
}

/* Converts bits for the active and passive side into bits for the first sender and the other side. */
static uint8_t sides(uint32_t bits, uint32_t first_side)
{
    return (uint8_t)(first_side ? (bits >> 1 & 1) | (bits << 1 & 2) : bits & 3);
}

static void row_free(struct flow_log *log, struct row *row)
{
    for (unsigned side = 0; side < 2; side++)
        free(row->way[side].hash);
    log->all_holes -= row->hole_count;
    free(row->holes);
    FLOW_EXTRAS(free(row->extras.application);)
    free(row);
}

static void write_and_free(struct flow_log *log, struct sl_box *box, struct row *row);

SLUICE_ON(any, end) {
    const struct flow *flow = flow_of(event);
    if (!flow)
        return;
    struct row *row = flow->row;
    struct flow_log *log = SLUICE_WORKER_OF(event->box);
    row->syn = sides(perm_value(event, "syn"), flow->first_side);
    row->fin = sides(perm_value(event, "fin"), flow->first_side);
    row->rst = sides(perm_value(event, "rst"), flow->first_side);
    row->icmp_type = perm_value(event, "type");
    row->icmp_code = perm_value(event, "code");
    row->icmp_id = perm_value(event, "id");
    row->reason = (uint8_t)data->reason;
    if (row->layer->states)
        row->state = *((const uint8_t *)event->instance + row->layer->state_offset);
    if (row->layer->has_sequence)
        for (unsigned side = 0; side < 2; side++) {
            sl_digest_finish(&log->digests, &row->way[side].hash, row->way[side].digest);
            log->unhashed += row->way[side].unhashed;
        }
    SLUICE_STATE_OF(event)->row = NULL;   /* it may be written, and freed, now */
    if (!sl_in_order_end(&log->order, &row->turn))
        write_and_free(log, event->box, row);
    write_turns(log, event->box);
}

/* The flow goes on in another process. */
SLUICE_DESTROY {
    if (!state->row)
        return;
    sl_in_order_remove(&SLUICE_WORKER_OF(box)->order, &state->row->turn);
    row_free(SLUICE_WORKER_OF(box), state->row);
    state->row = NULL;
}

#include "flow_log_stored.h"

/* --- writing --- */

static const char *row_end(const struct row *row)
{
    const struct sl_state_info *state = row->layer->states ? &row->layer->state[row->state] : NULL;
    if (row->reason == SL_END_ACCEPT || (state && (state->accept || state->closed)))
        return "closed";
    switch (row->reason) {
    case SL_END_TIMEOUT: return "timeout";
    case SL_END_REUSED: return "reused";
    case SL_END_EVICTED: return "evicted";
    case SL_END_LIMIT: return "evicted";
    default: return "eof";
    }
}

static void write_sides(FILE *out, const char *name, uint8_t bits)
{
    static const char *const words[] = {"null", "\"src\"", "\"dst\"", "\"both\""};
    fprintf(out, ",\"%s\":%s", name, words[bits & 3]);
}

/* Writes the hash of a stream as a member, whose name is given with its punctuation. */
static void write_hash(FILE *out, const char *name, const struct direction *way)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * SL_DIGEST_SIZE + 2];
    fputs(name, out);
    if (way->unhashed) {
        fputs("null", out);
        return;
    }
    text[0] = text[sizeof text - 1] = '"';
    for (unsigned k = 0; k < SL_DIGEST_SIZE; k++) {
        text[1 + 2 * k] = digits[way->digest[k] >> 4];
        text[2 + 2 * k] = digits[way->digest[k] & 15];
    }
    fwrite(text, 1, sizeof text, out);
}

static void write_stream(FILE *out, const struct row *row)
{
    static const char *const names[] = {"src", "dst"};
    if (!row->layer->has_sequence) {
        fputs(",\"src_stream\":null,\"dst_stream\":null,\"src_sha256\":null,\"dst_sha256\":null,"
              "\"src_after_gap\":null,\"dst_after_gap\":null,\"src_before\":null,\"dst_before\":null,"
              "\"src_outside\":null,\"dst_outside\":null,\"src_cut\":null,\"dst_cut\":null,\"gaps\":null", out);
        return;
    }
    sl_write_number(out, ",\"src_stream\":", row->way[0].stream);
    sl_write_number(out, ",\"dst_stream\":", row->way[1].stream);
    write_hash(out, ",\"src_sha256\":", &row->way[0]);
    write_hash(out, ",\"dst_sha256\":", &row->way[1]);
    sl_write_number(out, ",\"src_after_gap\":", row->way[0].after_gap);
    sl_write_number(out, ",\"dst_after_gap\":", row->way[1].after_gap);
    sl_write_number(out, ",\"src_before\":", row->way[0].before);
    sl_write_number(out, ",\"dst_before\":", row->way[1].before);
    sl_write_number(out, ",\"src_outside\":", row->way[0].outside);
    sl_write_number(out, ",\"dst_outside\":", row->way[1].outside);
    sl_write_number(out, ",\"src_cut\":", row->way[0].cut);
    sl_write_number(out, ",\"dst_cut\":", row->way[1].cut);
    fputs(",\"gaps\":[", out);
    for (uint32_t i = 0; i < row->hole_count; i++) {
        const struct hole *hole = &row->holes[i];
        fprintf(out, "%s{\"side\":\"%s\",\"offset\":%llu,\"length\":%llu,\"cause\":\"%s\"}", i ? "," : "", names[hole->side],
                (unsigned long long)hole->offset, (unsigned long long)hole->length,
                gap_causes[hole->cause < GAP_CAUSES ? hole->cause : 0]);
    }
    fputc(']', out);
    if (row->holes_left_out)
        fprintf(out, ",\"gaps_left_out\":%llu", (unsigned long long)row->holes_left_out);
}

/* Writes the key parts that an option added. `joined`: their names, separated by '+'. */
static void write_joined(FILE *out, const struct row *row, const char *joined)
{
    for (size_t length; (length = strcspn(joined, "+")) > 0; joined += length + (joined[length] == '+'))
        for (uint32_t i = 0; i < row->layer->key_parts; i++) {
            const struct sl_key_part *part = &row->layer->key_part[i];
            if (strncmp(part->name, joined, length) == 0 && !part->name[length])
                fprintf(out, ",\"%s\":%llu", part->name, (unsigned long long)sl_part_number(part, row_half(row, 0)));
        }
}

#ifdef FLOW_EXTRAS_H
/* Writes the members that flowlog adds to a row. */
static void write_extras(struct flow_log *log, const struct row *row)
{
    struct log_flow flow = {.layer = row->layer, .number = row->turn.number};
    for (unsigned half = 0; half < 2; half++)
        memcpy(flow.half[half], row_half(row, half), 8 * sl_min(row->layer->half_words, LOG_HALF_MOST));
    const struct log_text *text = flow_extras_text(&log->extras, &row->extras, &flow, row->first, row->last, row->icmp_type,
                                                   row->icmp_code);
    if (text)
        fwrite(text->at, 1, text->used, log->out);
}
#endif

static void write_row(FILE *out, const struct sl_box *box, struct row *row, const char *joined)
{
    const char *kind = row->layer->prototype;
    bool icmp = strcmp(kind, "icmp") == 0 || strcmp(kind, "icmp6") == 0;
    fputs("{\"schema\":\"sluice-flows-1\",\"layers\":\"", out);
    for (uint32_t i = 0; i < row->path_length; i++)
        fprintf(out, "%s%s", i ? "/" : "", sl_layer_at(box, row_path(row)[i])->layer);
    const struct sl_key_part *protocol = sl_key_part_named(row->layer, "protocol");
    if (protocol)
        fprintf(out, "\",\"proto\":\"%llu\"", (unsigned long long)sl_part_number(protocol, row_half(row, 0)));
    else
        fprintf(out, "\",\"proto\":\"%s\"", kind);
    fputc(',', out);
    sl_write_endpoints(out, row->layer, row_half(row, 0), row_half(row, 1));
    write_joined(out, row, joined);
    sl_write_seconds(out, ",\"first_ts\":\"", row->first);
    sl_write_seconds(out, "\",\"last_ts\":\"", row->last);
    sl_write_number(out, "\",\"src_pkts\":", row->way[0].packets);
    sl_write_number(out, ",\"dst_pkts\":", row->way[1].packets);
    sl_write_number(out, ",\"src_payload\":", row->way[0].payload);
    sl_write_number(out, ",\"dst_payload\":", row->way[1].payload);
    sl_write_number(out, ",\"src_rexmit\":", row->way[0].rexmit);
    sl_write_number(out, ",\"dst_rexmit\":", row->way[1].rexmit);
    write_sides(out, "syn", row->syn);
    write_sides(out, "fin", row->fin);
    write_sides(out, "rst", row->rst);
    write_stream(out, row);
    if (row->layer->states)
        fprintf(out, ",\"state\":\"%s\"", row->layer->state[row->state].name);
    else
        fputs(",\"state\":null", out);
    fprintf(out, ",\"end\":\"%s\"", row_end(row));
    if (icmp) {
        bool echo = row->layer->prototype[4] ? row->icmp_type == 128 || row->icmp_type == 129
                                             : row->icmp_type == 8 || row->icmp_type == 0;
        fprintf(out, ",\"icmp_type\":%u,\"icmp_code\":%u", row->icmp_type, row->icmp_code);
        if (echo)
            fprintf(out, ",\"icmp_id\":%u", row->icmp_id);
        else
            fputs(",\"icmp_id\":null", out);
    }
}

static void write_and_free(struct flow_log *log, struct sl_box *box, struct row *row)
{
    sl_row_order(box, row->first_number);
    write_row(log->out, box, row, log->joined);
    FLOW_EXTRAS(write_extras(log, row);)
    fputs("}\n", log->out);
    sl_row_order(box, 0);
    if (!log->failed && ferror(log->out))
        log->failed = errno;
    log->written++;
    row_free(log, row);
}

/* Writes the rows that may be written now (reorder_queue.h): the next ones in order, and those beyond the bound. */
static void write_turns(struct flow_log *log, struct sl_box *box)
{
    for (struct sl_turn *turn; (turn = sl_in_order_next(&log->order));)
        write_and_free(log, box, (struct row *)(void *)turn);
}

/* --- opening and closing --- */

SLUICE_OPEN {
    struct flow_log *log = SLUICE_WORKER_OF(box);
    *log = (struct flow_log){.joined = SLUICE_PARAMETER_OF(box, key),
                             .most_holes = SLUICE_PARAMETER_OF(box, holes),
                             .most_all_holes = SLUICE_PARAMETER_OF(box, all_holes)};
    log->order.most = SLUICE_PARAMETER_OF(box, rows);
    if (!log->order.most)
        log->order.most = sl_min(sl_max(sl_max_instances(box), ROWS_LEAST), ROWS_MOST);
    if (!sl_digests_open(&log->digests)) {
        fputs("flow_log: " SL_DIGEST_ADVICE "\n", stderr);
        return -1;
    }
    FLOW_EXTRAS(if (!flow_extras_open(&log->extras, box)) return -1;)
    log->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return log->out ? 0 : -1;
}

SLUICE_CLOSE {
    struct flow_log *log = SLUICE_WORKER_OF(box);
    write_turns(log, box);
    uint64_t late = log->order.late;
    sl_in_order_close(&log->order);
    if (fflush(log->out) != 0 && !log->failed)
        log->failed = errno;
    if (log->out != stdout && fclose(log->out) && !log->failed)
        log->failed = errno;
    if (log->failed)
        sl_fail(box, "flow_log: the rows could not all be written", strerror(log->failed));
    FLOW_EXTRAS(log_hashes_close(&log->extras.hashes);)
    FLOW_EXTRAS(free(log->extras.text.at);)
    sl_report(box, "flows", log->written);
    if (late)
        sl_report(box, "flows out of order", late);
    if (log->holes_left_out)
        sl_report(box, "gaps left out", log->holes_left_out);
    if (log->unhashed)
        sl_report(box, "streams not hashed for want of memory", log->unhashed);
    if (log->lost)
        sl_report(box, "flows lost for want of memory", log->lost);
    FLOW_EXTRAS(if (log->extras.applications_left_out)
                    sl_report(box, "applications without a row: name dpi before flowlog", log->extras.applications_left_out);)
}
