/* Writes a row for each tunnel of GTP-U (TS 29.281) and each message of GTP-C, versions 1 (TS 29.060) and 2 (TS 29.274).
 *
 * A tunnel is what one end sends to another under one TEID. Its row has the ends of the packets within, and is written when
 * the UDP flow that carries it ends. */
#include "sluice.h"

#include "log_datagram.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(tunnels, number, 262144, "tunnels whose packets are counted at once, at most")
SLUICE_PARAMETER(contents, number, 8, "pairs of addresses within one tunnel that its row lists at most")

SLUICE_COUNTER(gtp_short, "messages that end within their header")
SLUICE_COUNTER(gtp_not_gtp, "datagrams on a port of GTP that have no header of it")
SLUICE_COUNTER(gtp_malformed, "messages whose information elements extend beyond their end")
SLUICE_COUNTER(gtp_tunnels_left_out, "packets of tunnels that are not in the log, as too many were open")
SLUICE_COUNTER(gtp_no_memory, "packets of tunnels that are not in the log for want of memory")

enum {
    GTPLOG_USER = 2152, GTPLOG_CONTROL = 2123, GTPLOG_TPDU = 255, GTPLOG_BUCKETS = 1 << 14, GTPLOG_CONTENTS = 32,
    GTPLOG_ENDS = 8, GTPLOG_DEPTH = 2, GTPLOG_EXTENSIONS = 16,
};

struct gtplog_pair { uint8_t address[2][16], size, protocol; };

struct gtplog_tunnel {
    struct gtplog_tunnel *next, *next_own;   /* in its bucket; of its flow */
    uint64_t flow, first, last, packets, bytes, left_out;
    uint32_t teid, count;
    uint8_t side;
    struct gtplog_pair pair[];
};

struct gtplog_state { struct gtplog_tunnel *first, *last; uint32_t path; };
SLUICE_STATE(struct gtplog_state)

struct gtplog {
    struct log_output log;
    struct gtplog_tunnel **bucket;
    uint64_t open, most, contents;
};
SLUICE_WORKER(struct gtplog)

/* --- the user plane --- */

static uint32_t gtplog_bucket(uint64_t flow, unsigned side, uint32_t teid)
{
    uint64_t mixed = (flow * 2 + side) * UINT64_C(0x9e3779b97f4a7c15) ^ teid * UINT64_C(0xc2b2ae3d27d4eb4f);
    return (uint32_t)(mixed >> 40) % GTPLOG_BUCKETS;
}

static struct gtplog_tunnel *gtplog_tunnel(const struct sl_event *event, uint32_t teid)
{
    struct gtplog *gtp = SLUICE_WORKER_OF(event->box);
    struct gtplog_state *state = SLUICE_STATE_OF(event);
    uint64_t flow = sl_event_number(event);
    uint8_t side = event->side & 1;
    struct gtplog_tunnel **bucket = &gtp->bucket[gtplog_bucket(flow, side, teid)];
    for (struct gtplog_tunnel *at = *bucket; at; at = at->next)
        if (at->teid == teid && at->flow == flow && at->side == side)
            return at;
    bool many = gtp->open >= gtp->most;
    struct gtplog_tunnel *tunnel = many ? NULL : calloc(1, sizeof *tunnel + gtp->contents * sizeof *tunnel->pair);
    if (!tunnel) {
        SLUICE_COUNTER_OF(event->box, gtp_tunnels_left_out) += many;
        SLUICE_COUNTER_OF(event->box, gtp_no_memory) += !many;
        return NULL;
    }
    tunnel->flow = flow;
    tunnel->side = side;
    tunnel->teid = teid;
    tunnel->first = sl_packet_time(event);
    tunnel->next = *bucket;
    *bucket = tunnel;
    *(state->last ? &state->last->next_own : &state->first) = tunnel;
    state->last = tunnel;
    gtp->open++;
    return tunnel;
}

/* Stores the ends of the IP packet within. */
static void gtplog_contents(const struct gtplog *gtp, struct gtplog_tunnel *tunnel, const struct log_reader *packet)
{
    const uint8_t *at = packet->at;
    bool older = packet->left >= 20 && at[0] >> 4 == 4, newer = packet->left >= 40 && at[0] >> 4 == 6;
    struct gtplog_pair pair = {.size = older ? 4 : 16};
    if (!older && !newer)
        return;
    pair.protocol = at[older ? 9 : 6];
    memcpy(pair.address[0], at + (older ? 12 : 8), pair.size);
    memcpy(pair.address[1], at + (older ? 16 : 24), pair.size);
    for (uint32_t i = 0; i < tunnel->count; i++)
        if (!memcmp(&tunnel->pair[i], &pair, sizeof pair))
            return;
    if (tunnel->count < gtp->contents)
        tunnel->pair[tunnel->count++] = pair;
    else
        tunnel->left_out++;
}

/* Skips the optional part after the eight bytes of the header: number, and extension headers (TS 29.281, 5.2). */
static void gtplog_skip(struct log_reader *message, uint8_t flags)
{
    if (!(flags & 7))
        return;
    log_read_part(message, 3);
    uint64_t next = log_read(message, 1);
    for (unsigned i = 0; (flags & 4) && next && i < GTPLOG_EXTENSIONS && !message->failed; i++) {
        uint64_t words = log_read(message, 1);
        log_read_part(message, words ? 4 * words - 2 : message->left + 1u);
        next = log_read(message, 1);
    }
}

static void gtplog_user(const struct sl_event *event, sl_bytes datagram)
{
    struct log_reader message = log_reader(datagram);
    uint8_t flags = (uint8_t)log_read(&message, 1), type = (uint8_t)log_read(&message, 1);
    uint32_t length = (uint32_t)log_read(&message, 2), teid = (uint32_t)log_read(&message, 4);
    if (message.failed || flags >> 5 != 1 || !(flags & 16)) {
        SLUICE_COUNTER_OF(event->box, gtp_short) += message.failed;
        SLUICE_COUNTER_OF(event->box, gtp_not_gtp) += !message.failed;
        return;
    }
    if (type != GTPLOG_TPDU)
        return;
    struct gtplog_tunnel *tunnel = gtplog_tunnel(event, teid);
    if (!tunnel)
        return;
    uint32_t before = message.left;
    gtplog_skip(&message, flags);
    tunnel->packets++;
    tunnel->last = sl_packet_time(event);
    if (message.failed) {
        SLUICE_COUNTER_OF(event->box, gtp_malformed) += datagram.captured == datagram.length;
        return;
    }
    uint32_t skipped = before - message.left;
    tunnel->bytes += length > skipped ? length - skipped : 0;
    gtplog_contents(SLUICE_WORKER_OF(event->box), tunnel, &message);
}

/* The members that only messages of GTP-C have, for a row of a tunnel. */
static void gtplog_no_message(struct log_text *row)
{
    log_put(row, ",\"version\":1,\"type\":null,\"sequence\":null,\"cause\":null,\"imsi\":null,\"msisdn\":null,\"apn\":null,"
                 "\"addresses\":[],\"ends\":[],\"malformed\":false");
}

static void gtplog_row(const struct sl_event *event, const struct gtplog_tunnel *tunnel)
{
    struct gtplog *gtp = SLUICE_WORKER_OF(event->box);
    struct log_flow flow = log_flow_of(event, SLUICE_STATE_OF(event)->path);
    struct log_text *row = log_begin(&gtp->log, event->box, &flow, tunnel->side, tunnel->first);
    log_word(row, "kind", "tunnel");
    log_number(row, "teid", tunnel->teid);
    log_seconds(row, "last_ts", tunnel->last);
    log_number(row, "packets", tunnel->packets);
    log_number(row, "bytes", tunnel->bytes);
    log_put(row, ",\"contents\":[");
    for (uint32_t i = 0; i < tunnel->count; i++) {
        const struct gtplog_pair *pair = &tunnel->pair[i];
        log_format(row, "%s{\"protocol\":%u", i ? "," : "", pair->protocol);
        log_ip(row, "src", pair->address[0], pair->size);
        log_ip(row, "dst", pair->address[1], pair->size);
        log_put(row, "}");
    }
    log_put(row, "]");
    log_number(row, "contents_left_out", tunnel->left_out);
    gtplog_no_message(row);
    log_finish(&gtp->log);
}

static void gtplog_remove(struct gtplog *gtp, struct gtplog_state *state)
{
    struct gtplog_tunnel *tunnel = state->first, **place = &gtp->bucket[gtplog_bucket(tunnel->flow, tunnel->side, tunnel->teid)];
    while (*place != tunnel)
        place = &(*place)->next;
    *place = tunnel->next;
    state->first = tunnel->next_own;
    if (!state->first)
        state->last = NULL;
    free(tunnel);
    gtp->open--;
}

/* --- the control plane --- */

static const struct log_named gtplog_types1[] = {
    {1, "Echo Request"}, {2, "Echo Response"}, {3, "Version Not Supported"}, {16, "Create PDP Context Request"},
    {17, "Create PDP Context Response"}, {18, "Update PDP Context Request"}, {19, "Update PDP Context Response"},
    {20, "Delete PDP Context Request"}, {21, "Delete PDP Context Response"}, {26, "Error Indication"},
    {27, "PDU Notification Request"}, {28, "PDU Notification Response"}, {50, "SGSN Context Request"},
    {51, "SGSN Context Response"}, {52, "SGSN Context Acknowledge"}, {53, "Forward Relocation Request"},
    {54, "Forward Relocation Response"}};
static const struct log_named gtplog_types2[] = {
    {1, "Echo Request"}, {2, "Echo Response"}, {3, "Version Not Supported"}, {32, "Create Session Request"},
    {33, "Create Session Response"}, {34, "Modify Bearer Request"}, {35, "Modify Bearer Response"}, {36, "Delete Session Request"},
    {37, "Delete Session Response"}, {66, "Delete Bearer Command"}, {95, "Create Bearer Request"}, {96, "Create Bearer Response"},
    {97, "Update Bearer Request"}, {98, "Update Bearer Response"}, {99, "Delete Bearer Request"}, {100, "Delete Bearer Response"},
    {130, "Context Request"}, {131, "Context Response"}, {132, "Context Acknowledge"}, {133, "Forward Relocation Request"},
    {134, "Forward Relocation Response"}, {170, "Release Access Bearers Request"}, {171, "Release Access Bearers Response"},
    {176, "Downlink Data Notification"}, {177, "Downlink Data Notification Acknowledge"}};

/* The information elements of a message. */
struct gtplog_message {
    struct log_reader imsi, msisdn, apn, address[GTPLOG_ENDS], end_address[GTPLOG_ENDS];
    uint32_t end_teid[GTPLOG_ENDS], addresses, ends;
    int end_interface[GTPLOG_ENDS];   /* -1: version 1 has none */
    int cause;                        /* -1: there is none */
};

static void gtplog_end(struct gtplog_message *found, int interface, uint32_t teid, struct log_reader address)
{
    if (found->ends == GTPLOG_ENDS)
        return;
    found->end_interface[found->ends] = interface;
    found->end_teid[found->ends] = teid;
    found->end_address[found->ends++] = address;
}

static void gtplog_address(struct gtplog_message *found, struct log_reader address)
{
    if (found->addresses < GTPLOG_ENDS && (address.left == 4 || address.left == 16))
        found->address[found->addresses++] = address;
}

/* Reads the elements of version 2: type, length, instance, value (TS 29.274, 8). Returns false if they extend beyond their
 * end. */
static bool gtplog_elements2(struct gtplog_message *found, struct log_reader elements, unsigned depth)
{
    while (elements.left) {
        uint32_t type = (uint32_t)log_read(&elements, 1), length = (uint32_t)log_read(&elements, 2);
        log_read(&elements, 1);
        struct log_reader value = log_read_part(&elements, length);
        if (elements.failed)
            return false;
        switch (type) {
        case 1: found->imsi = value; break;
        case 2: found->cause = found->cause < 0 && value.left ? value.at[0] : found->cause; break;
        case 71: found->apn = value; break;
        case 76: found->msisdn = value; break;
        case 79: {   /* PDN Address Allocation (8.14): IPv4, IPv6 with a prefix length, or both */
            uint8_t kind = (uint8_t)log_read(&value, 1) & 7;
            if (kind == 2 || kind == 3) {
                log_read(&value, 1);
                gtplog_address(found, log_read_part(&value, 16));
            }
            if (kind == 1 || kind == 3)
                gtplog_address(found, log_read_part(&value, 4));
            break;
        }
        case 87: {   /* F-TEID (8.22) */
            uint8_t flags = (uint8_t)log_read(&value, 1);
            uint32_t teid = (uint32_t)log_read(&value, 4);
            if (value.failed)
                return false;
            gtplog_end(found, flags & 0x3f, teid, log_read_part(&value, flags & 0x80 ? 4 : flags & 0x40 ? 16 : 0));
            break;
        }
        case 93: case 109:   /* Bearer Context, PDN Connection: grouped */
            if (depth < GTPLOG_DEPTH && !gtplog_elements2(found, value, depth + 1))
                return false;
            break;
        default: break;
        }
    }
    return true;
}

/* The length of an element of version 1 with a fixed one (TS 29.060, 7.7.0); -1 for another type. */
static int gtplog_fixed(uint8_t type)
{
    static const struct { uint8_t type, length; } lengths[] = {
        {1, 1}, {2, 8}, {3, 6}, {4, 4}, {5, 4}, {8, 1}, {9, 3}, {11, 1}, {12, 3}, {13, 1}, {14, 1}, {15, 1}, {16, 4}, {17, 4}, {18, 5},
        {19, 1}, {20, 1}, {21, 1}, {22, 1}, {23, 1}, {24, 1}, {25, 2}, {26, 2}, {27, 2}, {28, 2}, {29, 1}, {127, 4}};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i].type == type)
            return lengths[i].length;
    return -1;
}

/* Reads the elements of version 1: those with a fixed length, then those with their own (TS 29.060, 7.7). */
static bool gtplog_elements1(struct gtplog_message *found, struct log_reader elements)
{
    uint32_t teid[2] = {0};
    unsigned teids = 0, addresses = 0;
    while (elements.left) {
        uint8_t type = (uint8_t)log_read(&elements, 1);
        int fixed = type < 128 ? gtplog_fixed(type) : -1;
        if (type < 128 && fixed < 0)
            return false;
        struct log_reader value = log_read_part(&elements, fixed >= 0 ? (uint64_t)fixed : log_read(&elements, 2));
        if (elements.failed)
            return false;
        if (type == 1)
            found->cause = value.at[0];
        else if (type == 2)
            found->imsi = value;
        else if ((type == 16 || type == 17) && teids < 2)
            teid[teids++] = (uint32_t)sl_load_be32(value.at);
        else if (type == 131)
            found->apn = value;
        else if (type == 134)
            found->msisdn = value;
        else if (type == 128 && value.left > 2) {   /* End User Address (7.7.27) */
            log_read_part(&value, 2);
            gtplog_address(found, value);
        } else if (type == 133) {   /* GSN Address: the first is that of signalling, the second that of user traffic (7.3.1) */
            /* TEID Data I (16) precedes TEID Control Plane (17) */
            unsigned which = addresses == 0 && teids == 2 ? 1 : 0;
            if (addresses < 2 && teids)
                gtplog_end(found, -1, teid[which], value);
            addresses++;
        }
    }
    return true;
}

/* Writes digits of four bits each, the low ones first, up to 15 (TS 29.274, 8.3). */
static void gtplog_digits(struct log_text *row, const char *name, struct log_reader value)
{
    log_name(row, name);
    if (!value.left) {
        log_put(row, "null");
        return;
    }
    log_put(row, "\"");
    for (uint32_t i = 0; i < 2 * value.left && i < 32; i++) {
        uint8_t digit = value.at[i / 2] >> (i % 2 ? 4 : 0) & 15;
        if (digit < 10)
            log_format(row, "%u", digit);
    }
    log_put(row, "\"");
}

/* Writes an APN, which has DNS's form without the last zero (TS 23.003, 9.1). */
static void gtplog_apn(struct log_text *row, struct log_reader value)
{
    char text[256];
    uint32_t used = 0;
    while (value.left && used < 200) {
        uint32_t size = (uint32_t)log_read(&value, 1);
        struct log_reader label = log_read_part(&value, size);
        if (label.failed || size > 63)
            break;
        if (used)
            text[used++] = '.';
        if (size)
            memcpy(text + used, label.at, size);
        used += size;
    }
    log_octets(row, "apn", (const uint8_t *)text, used);
}

static void gtplog_control(const struct sl_event *event, sl_bytes datagram)
{
    struct gtplog *gtp = SLUICE_WORKER_OF(event->box);
    struct gtplog_message found = {.cause = -1};
    struct log_reader message = log_reader(datagram);
    uint8_t flags = (uint8_t)log_read(&message, 1), type = (uint8_t)log_read(&message, 1), version = flags >> 5;
    uint32_t length = (uint32_t)log_read(&message, 2), teid = 0, sequence = 0;
    char text[16];
    bool newer = version == 2, has_teid = newer ? flags & 8 : true;
    if (!message.failed && version != 1 && version != 2) {
        SLUICE_COUNTER_OF(event->box, gtp_not_gtp)++;
        return;
    }
    struct log_reader body = message;
    bool whole = length <= message.left;
    if (whole)
        body.left = length;
    if (has_teid)
        teid = (uint32_t)log_read(&body, 4);
    if (newer) {
        sequence = (uint32_t)log_read(&body, 3);
        log_read(&body, 1);
    } else if (flags & 7) {
        sequence = (uint32_t)log_read(&body, 2);
        log_read(&body, 1);
        uint64_t next = log_read(&body, 1);
        for (unsigned i = 0; (flags & 4) && next && i < GTPLOG_EXTENSIONS && !body.failed; i++) {
            uint64_t words = log_read(&body, 1);
            log_read_part(&body, words ? 4 * words - 2 : body.left + 1u);
            next = log_read(&body, 1);
        }
    }
    if (message.failed || body.failed) {
        SLUICE_COUNTER_OF(event->box, gtp_short)++;
        return;
    }
    whole &= newer ? gtplog_elements2(&found, body, 0) : gtplog_elements1(&found, body);
    SLUICE_COUNTER_OF(event->box, gtp_malformed) += !whole && datagram.captured == datagram.length;
    struct log_text *row = log_message(&gtp->log, event);
    log_word(row, "kind", "message");
    log_number_if(row, "teid", has_teid, teid);
    log_put(row, ",\"last_ts\":null,\"packets\":null");
    log_number(row, "bytes", datagram.length);
    log_put(row, ",\"contents\":[],\"contents_left_out\":0");
    log_number(row, "version", version);
    log_word(row, "type", newer ? LOG_NAMED(gtplog_types2, type, text) : LOG_NAMED(gtplog_types1, type, text));
    log_number_if(row, "sequence", newer || (flags & 7), sequence);
    log_number_if(row, "cause", found.cause >= 0, (uint64_t)found.cause);
    gtplog_digits(row, "imsi", found.imsi);
    if (!newer)
        log_read_part(&found.msisdn, found.msisdn.left ? 1 : 0);   /* the nature of the address (7.7.33) */
    gtplog_digits(row, "msisdn", found.msisdn);
    gtplog_apn(row, found.apn);
    log_put(row, ",\"addresses\":[");
    for (uint32_t i = 0; i < found.addresses; i++) {
        char address[INET6_ADDRSTRLEN];
        int family = found.address[i].left == 4 ? AF_INET : AF_INET6;
        log_format(row, "%s\"%s\"", i ? "," : "", inet_ntop(family, found.address[i].at, address, sizeof address));
    }
    log_put(row, "],\"ends\":[");
    for (uint32_t i = 0; i < found.ends; i++) {
        log_format(row, "%s{\"teid\":%u", i ? "," : "", found.end_teid[i]);
        log_number_if(row, "interface", found.end_interface[i] >= 0, (uint64_t)found.end_interface[i]);
        log_ip(row, "address", found.end_address[i].at, found.end_address[i].left);
        log_put(row, "}");
    }
    log_put(row, "]");
    log_flag(row, "malformed", !whole);
    log_finish(&gtp->log);
}

/* --- events --- */

SLUICE_ON(udp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(udp, packet) {
    sl_bytes message = log_datagram(event, data->length);
    if (!message.length)
        return;
    if (log_has_port(event, GTPLOG_USER))
        gtplog_user(event, message);
    else if (log_has_port(event, GTPLOG_CONTROL))
        gtplog_control(event, message);
}

SLUICE_ON(udp, end) {
    (void)data;
    struct gtplog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    while (state && state->first) {
        gtplog_row(event, state->first);
        gtplog_remove(SLUICE_WORKER_OF(event->box), state);
    }
}

SLUICE_DESTROY {
    while (state->first)
        gtplog_remove(SLUICE_WORKER_OF(box), state);
}

SLUICE_STORED(zero, "tunnels, and what they have carried") {
    struct gtplog *gtp = SLUICE_WORKER_OF(box);
    log_path_stored(stored, &gtp->log, box, &state->path);
    for (struct gtplog_tunnel **at = &state->first; sl_stored_more(stored, *at != NULL); at = &(*at)->next_own) {
        uint32_t count = *at ? (*at)->count : 0;   /* of the pairs that are stored */
        SL_STORED(stored, count);
        stored->failed |= count > gtp->contents;
        size_t used = sizeof **at + count * sizeof *(*at)->pair;
        struct gtplog_tunnel *tunnel = sl_stored_block(stored, *at, used, offsetof(struct gtplog_tunnel, flow));
        if (!tunnel)
            return;
        if (!stored->reads)
            continue;
        struct gtplog_tunnel *whole = realloc(tunnel, sizeof *tunnel + gtp->contents * sizeof *tunnel->pair);
        if (!whole) {
            free(tunnel);
            stored->failed = true;
            return;
        }
        tunnel = whole;
        tunnel->count = count;
        tunnel->side &= 1;
        struct gtplog_tunnel **bucket = &gtp->bucket[gtplog_bucket(tunnel->flow, tunnel->side, tunnel->teid)];
        tunnel->next = *bucket;
        *bucket = *at = state->last = tunnel;
        gtp->open++;
    }
}

SLUICE_OPEN {
    struct gtplog *gtp = SLUICE_WORKER_OF(box);
    gtp->most = SLUICE_PARAMETER_OF(box, tunnels);
    gtp->contents = sl_min(SLUICE_PARAMETER_OF(box, contents), GTPLOG_CONTENTS);
    gtp->bucket = calloc(GTPLOG_BUCKETS, sizeof *gtp->bucket);
    if (!gtp->bucket)
        return -1;
    return log_open(&gtp->log, box, "gtp", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    free(SLUICE_WORKER_OF(box)->bucket);
    log_close(&SLUICE_WORKER_OF(box)->log, box, "gtplog rows", "gtplog rows lost for want of memory", "gtplog flows without layers");
}
