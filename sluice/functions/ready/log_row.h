/* The common beginning of the rows of all logs (time, flow, community-id, layers and the two ends), and the output
 * file. */
#ifndef LOG_ROW_H
#define LOG_ROW_H

#include "sluice.h"

#include "endpoints.h"
#include "output_file.h"

#include "log_hash.h"
#include "log_text.h"

enum {
    LOG_PATHS_MOST = 1024,   /* maximum number of distinct paths of layers that are stored */
    LOG_HALF_MOST = 8,       /* maximum number of words of a key half */
};

/* A path of layers from the link up; flows store its number. */
struct log_path {
    uint32_t hash, depth;
    uint8_t path[SL_DEPTH_MOST];
};

struct log_output {
    const char *name;        /* of the function */
    FILE *out;
    struct log_hashes hashes;
    struct log_path *paths;
    uint32_t path_count;
    struct log_text row;
    uint64_t written, lost;  /* number of rows; rows lost because memory was exhausted */
    uint64_t paths_left_out;
    int failed;              /* errno of the first failed write */
};

/* A copy of a flow's properties for its rows, which stays valid after the instance has ended. */
struct log_flow {
    const struct sl_layer_info *layer;
    uint64_t number;
    uint32_t path;           /* number of the path, plus 1; 0: the path is not stored */
    uint8_t icmp_type, icmp_code;   /* of ICMP: for the community-id */
    uint64_t half[2][LOG_HALF_MOST];   /* the key halves of the active and the passive side */
};

/* Stores a path. Returns its number, plus 1; 0 beyond the bound. */
SL_COLD uint32_t log_path_number(struct log_output *log, uint32_t hash, const uint8_t *layers, uint32_t depth) {
    for (uint32_t i = 0; i < log->path_count; i++)
        if (log->paths[i].hash == hash && log->paths[i].depth == depth && memcmp(log->paths[i].path, layers, depth) == 0)
            return i + 1;
    if (log->path_count < LOG_PATHS_MOST && !log->paths)
        log->paths = calloc(LOG_PATHS_MOST, sizeof *log->paths);
    if (log->path_count == LOG_PATHS_MOST || !log->paths) {
        log->paths_left_out++;
        return 0;
    }
    struct log_path *path = &log->paths[log->path_count];
    path->hash = hash;
    path->depth = depth;
    memcpy(path->path, layers, depth);
    return ++log->path_count;
}

/* The same of the path of the current packet. */
SL_COLD uint32_t log_path_of(struct log_output *log, const struct sl_box *box) {
    return log_path_number(log, sl_path(box), sl_box_path(box), sl_box_depth(box));
}

/* The path of a number, plus 1, in the state of a connection: numbers are those of a process. */
SL_COLD void log_path_stored(struct sl_stored *stored, struct log_output *log, const struct sl_box *box, uint32_t *number) {
    struct log_path path = {0};
    if (!stored->reads && *number)
        path = log->paths[*number - 1];
    SL_STORED(stored, path);
    if (!stored->reads)
        return;
    bool known = path.depth <= SL_DEPTH_MOST;
    for (uint32_t i = 0; known && i < path.depth; i++)
        known = path.path[i] < sl_layer_count(box);
    stored->failed |= !known;
    *number = known && path.depth ? log_path_number(log, path.hash, path.path, path.depth) : 0;
}

/* Copies the flow of an event. The event must have an instance; `path` was stored when the flow began. */
static inline struct log_flow log_flow_of(const struct sl_event *event, uint32_t path) {
    struct log_flow flow = {.layer = event->owner, .number = sl_event_number(event), .path = path};
    size_t words = sl_min(event->owner->half_words, LOG_HALF_MOST);
    for (unsigned side = 0; side < 2; side++)
        memcpy(flow.half[side], sl_event_half(event, side), 8 * words);
    return flow;
}

/* The same of a flow. */
SL_COLD void log_flow_stored(struct sl_stored *stored, struct log_output *log, const struct sl_box *box, struct log_flow *flow) {
    uint32_t layer = stored->reads ? 0 : flow->layer->index, path = flow->path;
    SL_STORED(stored, layer);
    SL_STORED(stored, flow->number);
    SL_STORED(stored, flow->icmp_type);
    SL_STORED(stored, flow->icmp_code);
    SL_STORED(stored, flow->half);
    log_path_stored(stored, log, box, &path);
    flow->path = path;
    stored->failed |= layer >= sl_layer_count(box);
    flow->layer = sl_layer_at(box, stored->failed ? 0 : layer);
}

/* Whether a key part is within the stored words of a half. */
static inline bool log_has(const struct sl_key_part *part) {
    return part && part->word + (part->bits + 63) / 64 <= LOG_HALF_MOST;
}

/* The protocol number for a community-id, from the key or else from the layer's protocol; 0 if there is none. */
static inline uint8_t log_protocol(const struct log_flow *flow) {
    static const struct { const char *name; uint8_t number; } known[] = {
        {"tcp", 6}, {"udp", 17}, {"quic", 17}, {"sctp", 132}, {"icmp", 1}, {"icmp6", 58}, {"esp", 50}, {"gre", 47}};
    const struct sl_key_part *part = sl_key_part_named(flow->layer, "protocol");
    if (log_has(part))
        return (uint8_t)sl_part_number(part, flow->half[0]);
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(flow->layer->prototype, known[i].name) == 0)
            return known[i].number;
    return 0;
}

/* Stores an address in network byte order. Returns its size, 4 or 16, or 0 if it is not an IP address. */
static inline unsigned log_address(const struct sl_key_part *part, const uint64_t *half, uint8_t to[16]) {
    if (!log_has(part))
        return 0;
    if (part->bits == 32) {
        sl_store_be32(to, sl_part_number(part, half));
        return 4;
    }
    if (part->bits != 128)
        return 0;
    for (unsigned word = 0; word < 2; word++) {
        sl_store_be32(to + 8 * word, half[part->word + word] >> 32);
        sl_store_be32(to + 8 * word + 4, half[part->word + word]);
    }
    return 16;
}

/* Sets the values that replace ports in a community-id for ICMP: the type and its counterpart (request and reply), or
 * the type and the code if the type has none. Returns whether it has one. */
static inline bool log_icmp_ports(uint8_t protocol, uint8_t type, uint8_t code, uint16_t port[2]) {
    static const uint8_t pairs4[][2] = {{8, 0}, {0, 8}, {13, 14}, {14, 13}, {15, 16}, {16, 15}, {10, 9}, {9, 10}, {17, 18}, {18, 17}};
    static const uint8_t pairs6[][2] = {{128, 129}, {129, 128}, {133, 134}, {134, 133}, {135, 136}, {136, 135}, {130, 131},
                                        {131, 130}, {144, 145}, {145, 144}};
    const uint8_t (*pairs)[2] = protocol == 1 ? pairs4 : pairs6;
    port[0] = type;
    for (unsigned i = 0; i < 10; i++)
        if (pairs[i][0] == type) {
            port[1] = pairs[i][1];
            return true;
        }
    port[1] = code;
    return false;
}

/* Writes the community-id, version 1 with seed 0, of a flow's ends. `type` and `code` are those of an ICMP message that
 * `from` sent. It is null if the ends are not IP addresses. */
SL_COLD void log_community(struct log_text *row, const struct log_hashes *hashes, const struct log_flow *flow, unsigned from,
                           uint8_t type, uint8_t code) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const struct sl_key_part *address = sl_address_part(flow->layer), *port = sl_port_part(flow->layer);
    port = log_has(port) ? port : NULL;
    uint8_t end[2][16], text[40] = {0}, hash[LOG_HASH_MOST], protocol = log_protocol(flow);
    unsigned size = log_address(address, flow->half[from], end[0]);
    log_address(address, flow->half[from ^ 1], end[1]);
    bool icmp = protocol == 1 || protocol == 58, one_way = false, ports = icmp || port;
    uint16_t number[2] = {0, 0};
    if (icmp)
        one_way = !log_icmp_ports(protocol, type, code, number);
    else if (port)
        for (unsigned i = 0; i < 2; i++)
            number[i] = (uint16_t)sl_part_number(port, flow->half[from ^ i]);
    int order = memcmp(end[0], end[1], size);
    bool turned = !one_way && (order > 0 || (order == 0 && number[0] > number[1]));
    if (!size || !protocol) {
        log_put(row, ",\"community_id\":null");
        return;
    }
    memcpy(text + 2, end[turned], size);
    memcpy(text + 2 + size, end[!turned], size);
    uint8_t *at = text + 2 + 2 * size;
    *at++ = protocol;
    *at++ = 0;
    if (ports) {
        sl_store_be16(at, number[turned]);
        sl_store_be16(at + 2, number[!turned]);
        at += 4;
    }
    log_hash(hashes, &hashes->sha1, text, (size_t)(at - text), hash);
    hash[20] = 0;
    char id[28];
    for (unsigned i = 0; i < 21; i += 3) {
        uint32_t word = (uint32_t)hash[i] << 16 | (uint32_t)hash[i + 1] << 8 | hash[i + 2];
        for (unsigned k = 0; k < 4; k++)
            id[i / 3 * 4 + k] = digits[word >> (18 - 6 * k) & 63];
    }
    id[27] = '=';   /* base64 (RFC 4648, 4) of 20 bytes ends with one padding character */
    log_put(row, ",\"community_id\":\"1:");
    log_bytes(row, id, sizeof id);
    log_put(row, "\"");
}

SL_COLD void log_end(struct log_text *row, const struct log_flow *flow, unsigned side, const char *address, const char *port) {
    const struct sl_key_part *part = sl_address_part(flow->layer), *number = sl_port_part(flow->layer);
    char text[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    unsigned size = log_address(part, flow->half[side], bytes);
    if (size == 4)
        text[sl_ip4_text(text, (uint32_t)sl_load_be32(bytes))] = 0;
    else if (size)
        inet_ntop(AF_INET6, bytes, text, sizeof text);
    if (size)
        log_word(row, address, text);
    else if (log_has(part) && part->bits <= 64)
        log_number(row, address, sl_part_number(part, flow->half[side]));
    else
        log_word(row, address, NULL);
    if (log_has(number))
        log_number(row, port, sl_part_number(number, flow->half[side]));
    else
        log_word(row, port, NULL);
}

/* Writes the layers of a path as a member of the row. */
SL_COLD void log_layers(struct log_text *row, const struct log_output *log, const struct sl_box *box, uint32_t path) {
    log_name(row, "layers");
    if (!path) {
        log_put(row, "null");
        return;
    }
    const struct log_path *stored = &log->paths[path - 1];
    log_put(row, "\"");
    for (uint32_t i = 0; i < stored->depth; i++) {
        log_put(row, i ? "/" : "");
        log_put(row, sl_layer_at(box, stored->path[i])->layer);
    }
    log_put(row, "\"");
}

/* Begins a row about something that side `from` of a flow started at `time`. */
SL_COLD struct log_text *log_begin(struct log_output *log, const struct sl_box *box, const struct log_flow *flow, unsigned from,
                                   uint64_t time) {
    struct log_text *row = &log->row;
    row->used = 0;
    row->failed = false;
    log_format(row, "{\"log\":\"%s\"", log->name);
    log_seconds(row, "ts", time);
    log_number(row, "flow", flow->number);
    log_community(row, &log->hashes, flow, from, flow->icmp_type, flow->icmp_code);
    log_layers(row, log, box, flow->path);
    log_end(row, flow, from, "src", "sport");
    log_end(row, flow, from ^ 1, "dst", "dport");
    return row;
}

/* Ends a line and writes it. */
SL_COLD void log_write(struct log_output *log) {
    log_put(&log->row, "\n");
    if (log->row.failed) {
        log->lost++;
        return;
    }
    if (log->failed)
        return;
    errno = 0;
    if (fwrite(log->row.at, 1, log->row.used, log->out) != log->row.used)
        log->failed = errno ? errno : EIO;
    log->written++;
}

/* Ends a row and writes it. */
SL_COLD void log_finish(struct log_output *log) {
    log_put(&log->row, "}");
    log_write(log);
}

/* Returns 0, or -1 if it cannot be opened; the error has been printed. */
SL_COLD int log_open(struct log_output *log, struct sl_box *box, const char *name, const char *path) {
    *log = (struct log_output){.name = name};
    if (!log_hashes_open(&log->hashes)) {
        fprintf(stderr, "%s: " SL_DIGEST_ADVICE "\n", name);
        return -1;
    }
    log->out = sl_output_file_open(box, path);
    return log->out ? 0 : -1;
}

/* `written`, `lost`, `left_out`: the names of the figures in the summary. */
SL_COLD void log_close(struct log_output *log, struct sl_box *box, const char *written, const char *lost, const char *left_out) {
    if (fflush(log->out) && !log->failed)
        log->failed = errno;
    if (log->out != stdout && fclose(log->out) && !log->failed)
        log->failed = errno;
    if (log->failed) {
        char what[64];
        snprintf(what, sizeof what, "%s: the rows could not all be written", log->name);
        (sl_fail)(box, what, strerror(log->failed));
    }
    sl_report(box, written, log->written);
    if (log->lost)
        sl_report(box, lost, log->lost);
    if (log->paths_left_out)
        sl_report(box, left_out, log->paths_left_out);
    log_hashes_close(&log->hashes);
    free(log->row.at);
    free(log->paths);
}

#endif
