/* One JSON object per connection or bidirectional flow, in order of first packet (schema sluice-flows-1).
 *
 * A row is one instance of a connection-oriented layer. Rows are kept until the end of input, so that they can be
 * written in order. Option: out=FILE. Hashes come from OpenSSL's libcrypto, loaded when the box opens. */
#include "function.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>

struct evp_context;
struct evp_digest;

/* The stable part of OpenSSL's EVP interface, versions 1.1 and 3. */
struct crypto {
    void *library;
    const struct evp_digest *(*sha256)(void);
    struct evp_context *(*create)(void);
    void (*destroy)(struct evp_context *);
    int (*begin)(struct evp_context *, const struct evp_digest *, void *engine);
    int (*update)(struct evp_context *, const void *, size_t);
    int (*finish)(struct evp_context *, unsigned char *, unsigned *);
};

struct hole {
    uint64_t offset, length;
    uint8_t side, cause;
};

struct direction {
    uint64_t packets, payload, rexmit, stream, after_gap;
    struct evp_context *hash;   /* of the bytes before the first gap; NULL while there are none */
    bool broken;                /* a gap was given up */
    uint8_t digest[32];
};

struct row {
    const struct sl_layer_info *layer;
    uint64_t *key;              /* both halves, that of the first sender first */
    uint64_t first, last;       /* times of the first and the last packet */
    struct direction way[2];    /* that of the first sender first */
    struct hole *holes;
    uint32_t hole_count, hole_room;
    uint16_t path_length;
    uint8_t *path;              /* layer indexes */
    uint8_t syn, fin, rst;      /* 1: the first sender, 2: the other */
    uint8_t state, reason;
    uint32_t icmp_type, icmp_code, icmp_id;
};

struct flow_log {
    FILE *out;
    struct crypto crypto;
    struct row **rows;          /* by number of the instance */
    uint64_t room;
    uint64_t lost;              /* rows that there was no memory for */
};
SLUICE_WORKER(struct flow_log)

struct flow {
    struct row *row;
    uint32_t first_side;        /* of the sender of the first packet */
};
SLUICE_STATE(struct flow)

static const char *const gap_causes[] = {"limit", "timeout", "close", "snaplen"};

/* --- hashing --- */

static bool crypto_open(struct crypto *c)
{
    const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !c->library; i++)
        c->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!c->library)
        return false;
    *(void **)&c->sha256 = dlsym(c->library, "EVP_sha256");
    *(void **)&c->create = dlsym(c->library, "EVP_MD_CTX_new");
    *(void **)&c->destroy = dlsym(c->library, "EVP_MD_CTX_free");
    *(void **)&c->begin = dlsym(c->library, "EVP_DigestInit_ex");
    *(void **)&c->update = dlsym(c->library, "EVP_DigestUpdate");
    *(void **)&c->finish = dlsym(c->library, "EVP_DigestFinal_ex");
    return c->sha256 && c->create && c->destroy && c->begin && c->update && c->finish;
}

static void hash_add(const struct crypto *c, struct direction *way, sl_bytes bytes)
{
    if (!way->hash) {
        way->hash = c->create();
        if (way->hash)
            c->begin(way->hash, c->sha256(), NULL);
    }
    if (way->hash)
        c->update(way->hash, bytes.at, bytes.captured);
}

/* The digest of what was added; that of nothing when nothing was. The context is given back. */
static void hash_finish(const struct crypto *c, struct direction *way)
{
    if (!way->hash)
        hash_add(c, way, (sl_bytes){(const uint8_t *)"", 0, 0});
    if (way->hash) {
        c->finish(way->hash, way->digest, NULL);
        c->destroy(way->hash);
        way->hash = NULL;
    }
}

/* --- collecting --- */

static uint32_t perm_value(const struct sl_event *event, const char *name)
{
    return (uint32_t)sl_field_value(event->instance, sl_layer_field(event->layer, name));
}

static struct row *row_new(struct flow_log *log, const struct sl_event *event)
{
    uint64_t number = sl_event_number(event);
    if (number >= log->room) {
        uint64_t room = log->room ? log->room : 1024;
        while (room <= number)
            room *= 2;
        struct row **rows = realloc(log->rows, room * sizeof *rows);
        if (!rows)
            return NULL;
        memset(rows + log->room, 0, (room - log->room) * sizeof *rows);
        log->rows = rows;
        log->room = room;
    }
    uint32_t words = event->layer->half_words, depth = event->box->depth;
    struct row *row = calloc(1, sizeof *row + 16 * words + depth);
    if (!row)
        return NULL;
    row->layer = event->layer;
    row->key = (uint64_t *)(void *)(row + 1);
    memcpy(row->key, sl_event_half(event, event->side), 8 * words);
    memcpy(row->key + words, sl_event_half(event, event->side ^ 1), 8 * words);
    row->path = (uint8_t *)(row->key + 2 * words);
    row->path_length = (uint16_t)depth;
    memcpy(row->path, event->box->path, depth);
    row->first = event->box->time;
    log->rows[number] = row;
    return row;
}

/* The flow that an event belongs to, with its row; NULL where no row is kept. Events of the first packet may come before
 * its `packet`: data behind which the snap length cut, and the gap. */
static struct flow *flow_of(const struct sl_event *event)
{
    if (!event->instance || !event->layer->oriented)
        return NULL;
    struct flow *flow = SLUICE_STATE_OF(event);
    if (!flow->row) {
        struct flow_log *log = SLUICE_WORKER_OF(event->box);
        flow->first_side = event->side;
        flow->row = row_new(log, event);
        if (!flow->row) {
            log->lost++;
            return NULL;
        }
    }
    return flow;
}

/* The row's direction of what an event of `side` tells; NULL where no row is kept. */
static struct direction *way_of(const struct sl_event *event)
{
    const struct flow *flow = flow_of(event);
    return flow ? &flow->row->way[(event->side ^ flow->first_side) & 1] : NULL;
}

SLUICE_ON(any, packet) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    way->packets++;
    way->payload += data->length;
    SLUICE_STATE_OF(event)->row->last = event->box->time;
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
    hash_add(&SLUICE_WORKER_OF(event->box)->crypto, way, data->bytes);
}

SLUICE_ON(any, rexmit) {
    struct direction *way = way_of(event);
    if (way)
        way->rexmit += data->length;
}

SLUICE_ON(any, gap) {
    struct direction *way = way_of(event);
    if (!way)
        return;
    way->broken = true;
    struct row *row = SLUICE_STATE_OF(event)->row;
    uint8_t side = (uint8_t)((event->side ^ SLUICE_STATE_OF(event)->first_side) & 1);
    struct hole *last = row->hole_count ? &row->holes[row->hole_count - 1] : NULL;
    if (last && last->side == side && last->cause == data->cause && last->offset + last->length == data->offset) {
        last->length += data->length;   /* one hole, given up in steps: up to a packet without data that lay in it */
        return;
    }
    if (row->hole_count == row->hole_room) {
        uint32_t room = row->hole_room ? 2 * row->hole_room : 4;
        struct hole *holes = realloc(row->holes, room * sizeof *holes);
        if (!holes)
            return;
        row->holes = holes;
        row->hole_room = room;
    }
    row->holes[row->hole_count++] = (struct hole){data->offset, data->length, side, (uint8_t)data->cause};
}

/* Two bits for the active and the passive side, as they are for the first sender and the other. */
static uint8_t sides(uint32_t bits, uint32_t first_side)
{
    return (uint8_t)(first_side ? (bits >> 1 & 1) | (bits << 1 & 2) : bits & 3);
}

SLUICE_ON(any, end) {
    if (!way_of(event))
        return;
    struct flow *flow = SLUICE_STATE_OF(event);
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
        for (unsigned side = 0; side < 2; side++)
            hash_finish(&log->crypto, &row->way[side]);
}

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

/* Part `name` of half `half` of the key, or NULL. */
static const struct sl_key_part *key_part(const struct row *row, const char *name)
{
    for (uint32_t i = 0; i < row->layer->key_parts; i++)
        if (strcmp(row->layer->key_part[i].name, name) == 0)
            return &row->layer->key_part[i];
    return NULL;
}

static uint64_t part_number(const struct row *row, unsigned half, const struct sl_key_part *part)
{
    uint64_t word = row->key[half * row->layer->half_words + part->word] >> part->shift;
    return word & sl_mask(part->bits);
}

static void write_address(FILE *out, const struct row *row, unsigned half)
{
    const struct sl_key_part *part = key_part(row, "src");
    if (!part) {
        fputs("null", out);
        return;
    }
    const uint64_t *words = &row->key[half * row->layer->half_words + part->word];
    uint64_t number = part->bits <= 64 ? part_number(row, half, part) : 0;
    char text[INET6_ADDRSTRLEN];
    if (part->bits == 32) {
        uint32_t network = htonl((uint32_t)number);
        inet_ntop(AF_INET, &network, text, sizeof text);
    } else if (part->bits == 128) {
        uint64_t network[2] = {htobe64(words[0]), htobe64(words[1])};
        inet_ntop(AF_INET6, network, text, sizeof text);
    } else {
        snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    }
    fprintf(out, "\"%s\"", text);
}

static void write_port(FILE *out, const struct row *row, unsigned half)
{
    const struct sl_key_part *part = key_part(row, "sport");
    if (part)
        fprintf(out, "%llu", (unsigned long long)part_number(row, half, part));
    else
        fputs("null", out);
}

static void write_sides(FILE *out, const char *name, uint8_t bits)
{
    static const char *const words[] = {"null", "\"src\"", "\"dst\"", "\"both\""};
    fprintf(out, ",\"%s\":%s", name, words[bits & 3]);
}

static void write_stream(FILE *out, const struct row *row)
{
    static const char *const names[] = {"src", "dst"};
    if (!row->layer->has_sequence) {
        fputs(",\"src_stream\":null,\"dst_stream\":null,\"src_sha256\":null,\"dst_sha256\":null,"
              "\"src_after_gap\":null,\"dst_after_gap\":null,\"gaps\":null", out);
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        fprintf(out, ",\"%s_stream\":%llu", names[i], (unsigned long long)row->way[i].stream);
    for (unsigned i = 0; i < 2; i++) {
        fprintf(out, ",\"%s_sha256\":\"", names[i]);
        for (unsigned k = 0; k < 32; k++)
            fprintf(out, "%02x", row->way[i].digest[k]);
        fputc('"', out);
    }
    for (unsigned i = 0; i < 2; i++)
        fprintf(out, ",\"%s_after_gap\":%llu", names[i], (unsigned long long)row->way[i].after_gap);
    fputs(",\"gaps\":[", out);
    for (uint32_t i = 0; i < row->hole_count; i++) {
        const struct hole *hole = &row->holes[i];
        fprintf(out, "%s{\"side\":\"%s\",\"offset\":%llu,\"length\":%llu,\"cause\":\"%s\"}", i ? "," : "", names[hole->side],
                (unsigned long long)hole->offset, (unsigned long long)hole->length, gap_causes[hole->cause & 3]);
    }
    fputc(']', out);
}

static void write_row(FILE *out, const struct sl_box *box, const struct row *row)
{
    const char *kind = row->layer->prototype;
    bool icmp = strcmp(kind, "icmp") == 0 || strcmp(kind, "icmp6") == 0;
    fputs("{\"schema\":\"sluice-flows-1\",\"layers\":\"", out);
    for (uint32_t i = 0; i < row->path_length; i++)
        fprintf(out, "%s%s", i ? "/" : "", box->layers[row->path[i]].layer);
    const struct sl_key_part *protocol = key_part(row, "protocol");
    if (protocol)
        fprintf(out, "\",\"proto\":\"%llu\"", (unsigned long long)part_number(row, 0, protocol));
    else
        fprintf(out, "\",\"proto\":\"%s\"", kind);
    fputs(",\"src\":", out);
    write_address(out, row, 0);
    fputs(",\"sport\":", out);
    write_port(out, row, 0);
    fputs(",\"dst\":", out);
    write_address(out, row, 1);
    fputs(",\"dport\":", out);
    write_port(out, row, 1);
    fprintf(out, ",\"first_ts\":\"%llu.%09llu\",\"last_ts\":\"%llu.%09llu\"", (unsigned long long)(row->first / 1000000000),
            (unsigned long long)(row->first % 1000000000), (unsigned long long)(row->last / 1000000000),
            (unsigned long long)(row->last % 1000000000));
    fprintf(out, ",\"src_pkts\":%llu,\"dst_pkts\":%llu,\"src_payload\":%llu,\"dst_payload\":%llu",
            (unsigned long long)row->way[0].packets, (unsigned long long)row->way[1].packets,
            (unsigned long long)row->way[0].payload, (unsigned long long)row->way[1].payload);
    fprintf(out, ",\"src_rexmit\":%llu,\"dst_rexmit\":%llu", (unsigned long long)row->way[0].rexmit,
            (unsigned long long)row->way[1].rexmit);
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
    fputs("}\n", out);
}

SLUICE_OPEN {
    struct flow_log *log = SLUICE_WORKER_OF(box);
    const char *path = strncmp(options, "out=", 4) == 0 ? options + 4 : "";
    if (!crypto_open(&log->crypto)) {
        fputs("flow_log: OpenSSL's libcrypto cannot be loaded; install it (Debian: libssl3)\n", stderr);
        return -1;
    }
    log->out = *path ? fopen(path, "w") : stdout;
    if (!log->out) {
        perror(path);
        return -1;
    }
    return 0;
}

SLUICE_CLOSE {
    struct flow_log *log = SLUICE_WORKER_OF(box);
    uint64_t count = 0;
    for (uint64_t i = 0; i < log->room; i++) {
        struct row *row = log->rows[i];
        if (!row)
            continue;
        write_row(log->out, box, row);
        count++;
        free(row->holes);
        free(row);
    }
    free(log->rows);
    log->rows = NULL;
    log->room = 0;
    bool failed = fflush(log->out) != 0 || ferror(log->out);
    if (failed)
        sl_fail(box, "flow_log: the rows could not all be written", strerror(errno));
    if (log->out != stdout && fclose(log->out) && !failed)
        sl_fail(box, "flow_log: the rows could not all be written", strerror(errno));
    sl_report(box, "flows", count);
    if (log->lost)
        sl_report(box, "flows lost for want of memory", log->lost);
}
