/* Writes the packets of a trace in another order: reshape IN OUT [OPTION ...]
 *
 *     --open N            N connections are open at any time; the next packet is of one of them at random
 *     --connections N     so many connections in all; those beyond the trace's are copies with clients of their own
 *     --loss P            a segment with data is lost with probability P, and comes again 3 to 10 packets later
 *     --reorder P         a packet is overtaken by the 1 to 3 packets after it, with probability P
 *     --duplicate P       a packet comes twice, the copy 0 to 2 packets later, with probability P
 *     --gtp               TCP and UDP over IPv4 are put into GTP-U tunnels, one for each of 4096 subscribers
 *     --pptp              the same, into the calls of PPTP
 *     --seed N            of the random numbers (default 1)
 *
 * A connection is all packets between the same two ends, over TCP, UDP or SCTP over IPv4; other packets together are
 * one, too. Each keeps its own order but for what --loss, --reorder and --duplicate do to it; these leave a SYN or a reset
 * where it is and take nothing across one. Without --open connections lie as in the trace. "Lost" is meant as a box
 * after the loss sees it: the segment is missing, and arrives later. Prints as JSON what was done. */
#define _GNU_SOURCE

#include "core/crc.h"
#include "packets.h"

enum { SUBSCRIBERS = 4096 };

/* --- connections --- */

/* Where the headers of a packet are, and between which ends it is: address << 16 | port. */
struct ends {
    uint64_t from, to;
    uint32_t transport;   /* offset of its header; 0: none of the three */
    uint8_t protocol;
};

struct connection {
    uint32_t *packets;    /* numbers of its packets in the trace */
    uint32_t count;
    uint64_t client;      /* end that sent the first of them; 0 when its packets have no ends */
};

/* A connection as it is written: perhaps a copy. */
struct instance {
    const struct connection *connection;
    uint32_t number;      /* of all instances */
    bool copy;
    uint64_t *order;      /* of what comes: its place << 32 | number of the packet in the connection; sorted */
    uint32_t count, at;
};

static struct {
    struct sl_trace in;
    struct output out;
    struct connection *connections;
    uint32_t *packets;    /* those of all connections */
    uint32_t count;       /* of connections; the last of them may be the packets without ends */
    uint64_t random;
    double loss, reorder, duplicate;
    enum tunnel { NO_TUNNEL, IN_GTP, IN_PPTP } tunnel;
    uint32_t sent[2][SUBSCRIBERS];   /* packets of each direction of a call of PPTP */
    uint64_t lost, reordered, duplicated;
} state = {.random = 1};

static struct ends ends_of(const struct sl_frame *frame)
{
    const uint8_t *ip = frame->at + ETHERNET;
    if (frame->captured < ETHERNET + IPV4 || get16(ip - 2) != 0x0800 || ip[0] >> 4 != 4)
        return (struct ends){0};
    uint32_t transport = ETHERNET + (ip[0] & 15u) * 4;
    uint32_t least = ip[9] == IS_TCP ? TCP : ip[9] == IS_UDP ? UDP : ip[9] == IS_SCTP ? SCTP : 0;
    if (!least || get16(ip + 6) & 0x3fff || frame->captured < transport + least)
        return (struct ends){0};
    const uint8_t *ports = frame->at + transport;
    uint64_t from = (uint64_t)get32(ip + 12) << 16 | get16(ports);
    uint64_t to = (uint64_t)get32(ip + 16) << 16 | get16(ports + 2);
    return (struct ends){from, to, transport, ip[9]};
}

/* What a packet is sorted by: its connection, then its place. */
struct place {
    uint64_t low, high;
    uint32_t packet;
};

static int place_order(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return x->packet < y->packet ? -1 : 1;
}

/* By first packet; packets without ends last. */
static int connection_order(const void *a, const void *b)
{
    const struct connection *x = a, *y = b;
    if (!x->client != !y->client)
        return x->client ? -1 : 1;
    return x->packets[0] < y->packets[0] ? -1 : 1;
}

static void collect(void)
{
    size_t count = state.in.count;
    struct place *places = room_for(count, sizeof *places);
    uint32_t *packets = room_for(count, sizeof *packets);
    for (size_t i = 0; i < count; i++) {
        if (state.in.frames[i].link_type != 1)
            fail("the trace is not one of Ethernet");
        struct ends ends = ends_of(&state.in.frames[i]);
        uint64_t protocol = (uint64_t)ends.protocol << 56;
        places[i] = (struct place){protocol | (ends.from < ends.to ? ends.from : ends.to),
                                   ends.from < ends.to ? ends.to : ends.from, (uint32_t)i};
    }
    qsort(places, count, sizeof *places, place_order);
    for (size_t i = 0; i < count; i++)
        state.count += !i || places[i].low != places[i - 1].low || places[i].high != places[i - 1].high;
    state.connections = room_for(state.count, sizeof *state.connections);
    state.packets = packets;
    struct connection *connection = state.connections;
    for (size_t i = 0; i < count; i++) {
        packets[i] = places[i].packet;
        if (i && (places[i].low != places[i - 1].low || places[i].high != places[i - 1].high))
            connection++;
        if (!connection->count++) {
            connection->packets = packets + i;
            connection->client = ends_of(&state.in.frames[packets[i]]).from;
        }
    }
    qsort(state.connections, state.count, sizeof *state.connections, connection_order);
    free(places);
}

/* --- the order within a connection --- */

static uint8_t flags_of(uint32_t packet)
{
    struct ends ends = ends_of(&state.in.frames[packet]);
    return ends.protocol == IS_TCP ? state.in.frames[packet].at[ends.transport + 13] : 0;
}

static bool has_data(uint32_t packet)
{
    const struct sl_frame *frame = &state.in.frames[packet];
    struct ends ends = ends_of(frame);
    return ends.protocol == IS_TCP &&
           ETHERNET + get16(frame->at + ETHERNET + 2) > (int)ends.transport + (frame->at[ends.transport + 12] >> 4) * 4;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Fills in the order of an instance's packets. A packet's place is four times its number in the connection; one that is
 * delayed goes after another's place, and a copy after that. */
static void arrange(struct instance *instance)
{
    const struct connection *connection = instance->connection;
    uint32_t count = connection->count, made = 0;
    uint64_t *order = room_for(2 * (size_t)count, sizeof *order);
    uint32_t barrier = count;   /* the next SYN or reset, or the end: nothing is taken across it */
    for (uint32_t i = count; i-- > 0;) {
        uint32_t place = 4 * i, following = barrier - 1 - i, delay = 0;
        bool moves = connection->client && !(flags_of(connection->packets[i]) & (SYN | RST));
        if (!moves)
            barrier = i;
        else if (has_data(connection->packets[i]) && random_happens(&state.random, state.loss)) {
            delay = 3 + random_below(&state.random, 8);
            state.lost += following > 0;
        } else if (random_happens(&state.random, state.reorder)) {
            delay = 1 + random_below(&state.random, 3);
            state.reordered += following > 0;
        }
        delay = delay < following ? delay : following;
        if (delay)
            place = 4 * (i + delay) + 1;
        order[made++] = (uint64_t)place << 32 | i;
        if (moves && random_happens(&state.random, state.duplicate)) {
            uint32_t copy = random_below(&state.random, 3);
            place = 4 * (i + delay + (copy < following - delay ? copy : following - delay)) + 2;
            order[made++] = (uint64_t)place << 32 | i;
            state.duplicated++;
        }
    }
    qsort(order, made, sizeof *order, by_place);
    instance->order = order;
    instance->count = made;
}

/* --- packets as they are written --- */

/* The client that a copy has in place of the connection's own: one of 100.64.0.0/10 (RFC 6598). */
static uint64_t client_of(uint32_t number)
{
    return (uint64_t)(0x64400000 + number / 50000) << 16 | (10000 + number % 50000);
}

/* Puts another end in place of the client's, and corrects the checksums; SCTP's where all of the packet is there. */
static void readdress(uint8_t *packet, uint32_t captured, const struct ends *ends, uint64_t client, uint64_t other)
{
    bool sends = ends->from == client;
    uint8_t *ip = packet + ETHERNET, *address = ip + (sends ? 12 : 16);
    uint8_t *port = packet + ends->transport + (sends ? 0 : 2);
    uint8_t *checksum = packet + ends->transport + (ends->protocol == IS_TCP ? 16 : ends->protocol == IS_UDP ? 6 : 8);
    uint8_t new_address[4], new_port[2];
    put32(new_address, (uint32_t)(other >> 16));
    put16(new_port, (uint32_t)other);
    checksum_replace(ip + 10, address, new_address, 4);
    if (ends->protocol == IS_TCP || (ends->protocol == IS_UDP && get16(checksum))) {
        checksum_replace(checksum, address, new_address, 4);
        checksum_replace(checksum, port, new_port, 2);
    }
    memcpy(address, new_address, 4);
    memcpy(port, new_port, 2);
    uint32_t end = ETHERNET + get16(ip + 2);
    if (ends->protocol == IS_SCTP && end >= ends->transport + SCTP && end <= captured) {
        sl_bytes segment = {packet + ends->transport, end - ends->transport, end - ends->transport};
        uint32_t crc = (uint32_t)sl_crc32c(segment, 8, 12);   /* as if it were 0 (RFC 9260, 6.8) */
        for (unsigned i = 0; i < 4; i++)
            checksum[i] = (uint8_t)(crc >> 8 * i);            /* the lowest byte first (appendix A) */
    }
}

/* Headers of a tunnel after Ethernet, without options. */
enum { TUNNEL = 36 };
_Static_assert(TUNNEL == IPV4 + UDP + GTP, "IPv4, UDP and GTP-U");
_Static_assert(TUNNEL == IPV4 + 12 + 4, "IPv4, GRE with key and sequence number, and PPP");

/* GTP-U (3GPP TS 29.281) over UDP, with a tunnel for each direction. */
static void put_gtp(uint8_t *at, uint32_t length, uint32_t subscriber, bool up)
{
    at = put16(put16(put16(put16(at, 2152), 2152), UDP + GTP + length), 0);   /* no checksum, as is usual over IPv4 */
    put32(put16(put16(at, 0x30ff), length), 2 * subscriber + up + 1);
}

/* The enhanced GRE of PPTP (RFC 2637, section 4.1) with PPP in it, with a call for each direction. */
static void put_pptp(uint8_t *at, uint32_t length, uint32_t subscriber, bool up)
{
    at = put16(put16(put16(at, 0x3001), 0x880b), 4 + length);
    at = put32(put16(at, 2 * subscriber + up + 1), state.sent[up][subscriber]++);
    put16(put16(at, 0xff03), 0x0021);
}

/* Writes the headers of a tunnel in front of an IPv4 packet of `length` bytes: between a base station, or a client of
 * PPTP, and a gateway. */
static void encapsulate(uint8_t *to, const uint8_t *ethernet, uint32_t length, uint32_t subscriber, bool up)
{
    bool gtp = state.tunnel == IN_GTP;
    uint8_t *ip = to + ETHERNET;
    memcpy(to, ethernet, ETHERNET);
    memset(ip, 0, IPV4);
    put16(put16(ip, 0x4500), TUNNEL + length);
    put16(ip + 6, 0x4000);
    put16(ip + 8, 64 << 8 | (gtp ? IS_UDP : IS_GRE));
    put32(ip + 12, up ? 0x0a400001 : 0x0a400002);
    put32(ip + 16, up ? 0x0a400002 : 0x0a400001);
    put16(ip + 10, checksum_end(checksum_add(0, ip, IPV4)));
    (gtp ? put_gtp : put_pptp)(ip + IPV4, length, subscriber, up);
}

static void write_next(struct instance *instance)
{
    static uint8_t room[TUNNEL + 65536 + ETHERNET];
    uint32_t which = (uint32_t)instance->order[instance->at++];
    const struct sl_frame *frame = &state.in.frames[instance->connection->packets[which]];
    if (frame->captured > sizeof room - TUNNEL) {
        output_frame(&state.out, frame->at, frame->captured, frame->length);
        return;
    }
    uint8_t *packet = room + TUNNEL;
    memcpy(packet, frame->at, frame->captured);
    struct ends ends = ends_of(frame);
    uint64_t client = instance->connection->client;
    if (instance->copy)
        readdress(packet, frame->captured, &ends, client, client_of(instance->number));
    bool tunnelled = state.tunnel && ends.transport && frame->length <= 65535 - TUNNEL;
    if (tunnelled)
        encapsulate(room, frame->at, frame->length - ETHERNET, instance->number % SUBSCRIBERS, ends.from == client);
    uint32_t more = tunnelled ? TUNNEL : 0;
    output_frame(&state.out, tunnelled ? room : packet, frame->captured + more, frame->length + more);
}

/* --- the order of connections --- */

static struct instance open_instance(uint32_t number)
{
    uint32_t several = state.count - !state.connections[state.count - 1].client;   /* of which there may be copies */
    struct instance instance = {.number = number, .copy = number >= state.count};
    instance.connection = &state.connections[instance.copy ? (number - state.count) % several : number];
    arrange(&instance);
    return instance;
}

/* All `total` connections, `open` of them at any time. */
static void interleave(uint32_t total, uint32_t open)
{
    struct instance *instances = room_for(open, sizeof *instances);
    uint32_t begun = 0, count = 0;
    while (begun < total || count) {
        if (count < open && begun < total) {
            instances[count] = open_instance(begun++);
            write_next(&instances[count++]);   /* it is open from now on */
            if (instances[count - 1].at < instances[count - 1].count)
                continue;
            free(instances[--count].order);
            continue;
        }
        uint32_t which = random_below(&state.random, count);
        write_next(&instances[which]);
        if (instances[which].at == instances[which].count) {
            free(instances[which].order);
            instances[which] = instances[--count];
        }
    }
    free(instances);
}

/* The first `total` connections where they lie in the trace: each packet has its place there, or that of the one that
 * it is delayed to. */
static void keep(uint32_t total)
{
    struct instance *instances = room_for(total, sizeof *instances);
    uint32_t *owner = room_for(state.in.count, sizeof *owner), *place = room_for(state.in.count, sizeof *place);
    memset(owner, 0xff, state.in.count * sizeof *owner);
    for (uint32_t i = 0; i < total; i++) {
        instances[i] = open_instance(i);
        for (uint32_t n = 0; n < instances[i].connection->count; n++) {
            owner[instances[i].connection->packets[n]] = i;
            place[instances[i].connection->packets[n]] = n;
        }
    }
    for (size_t i = 0; i < state.in.count; i++) {
        struct instance *instance = &instances[owner[i] < total ? owner[i] : 0];
        while (owner[i] < total && instance->at < instance->count && instance->order[instance->at] >> 34 <= place[i])
            write_next(instance);
    }
    for (uint32_t i = 0; i < total; i++)
        free(instances[i].order);
    free(instances);
    free(owner);
    free(place);
}

/* --- the program --- */

static double chance(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || !(value >= 0 && value <= 1))
        fail("a probability is from 0 to 1");
    return value;
}

static uint32_t number(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || value > 100000000)
        fail("a number is from 0 to 100000000");
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    uint32_t open = 0, total = 0;
    const char *usage = "usage: reshape IN OUT [--open N] [--connections N] [--loss P] [--reorder P] [--duplicate P] "
                        "[--gtp | --pptp] [--seed N]";
    if (argc < 3)
        fail(usage);
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--gtp") == 0 || strcmp(argv[i], "--pptp") == 0) {
            state.tunnel = strcmp(argv[i], "--gtp") == 0 ? IN_GTP : IN_PPTP;
            continue;
        }
        if (strcmp(argv[i], "--open") == 0)
            open = number(value);
        else if (strcmp(argv[i], "--connections") == 0)
            total = number(value);
        else if (strcmp(argv[i], "--loss") == 0)
            state.loss = chance(value);
        else if (strcmp(argv[i], "--reorder") == 0)
            state.reorder = chance(value);
        else if (strcmp(argv[i], "--duplicate") == 0)
            state.duplicate = chance(value);
        else if (strcmp(argv[i], "--seed") == 0)
            state.random = number(value);
        else
            fail(usage);
        i++;
    }
    char message[SL_CAPTURE_MESSAGE];
    if (sl_trace_load(&state.in, argv[1], message, sizeof message))
        fail(message);
    if (!state.in.count)
        fail("the trace has no packets");
    collect();
    if (!state.connections[0].client && total > state.count)
        fail("the trace has no connections of which there could be copies");
    total = total ? total : state.count;
    if (total > state.count && !open)
        fail("copies need --open");
    state.out = output_open(argv[2]);
    if (open)
        interleave(total, open);
    else
        keep(total);
    output_close(&state.out);
    printf("{\"packets\":%" PRIu64 ",\"connections\":%u,\"lost\":%" PRIu64 ",\"reordered\":%" PRIu64
           ",\"duplicated\":%" PRIu64 "}\n",
           state.out.packets, total, state.lost, state.reordered, state.duplicated);
    free(state.connections);
    free(state.packets);
    sl_trace_free(&state.in);
    return 0;
}
