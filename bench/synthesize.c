/* Writes a trace of made-up traffic: synthesize KIND OUT [--packets N] [--flows N] [--good IN] [--seed N]
 *
 *     small         no attack: connections of 64-byte packets (6 bytes of data each; 4 are the check sequence of the
 *                   link, which captures do not have)
 *     ahead         every segment has one byte, far ahead of what is to come, and touches no other
 *     alternating   single bytes: every other one from the end to the front, then those between
 *     overlaps      the first byte is missing, and every segment of 1,400 bytes lies a byte after the one before
 *     collisions    connections whose keys have one hash in Sluice's table when its seed is 0 (`--seed 0` of a run;
 *                   without, they must not stand out)
 *     syn-flood     every packet is a SYN from another client
 *     fragments     every packet is a fragment of another datagram, of which nothing else comes
 *
 * All ends are of 198.18.0.0/15, which are for such tests (RFC 2544), and all checksums right. With --good the packets
 * of another trace come between them, evenly, so that one can see whether its connections suffer. 1,000,000 packets
 * unless given, besides the good ones, of 512 connections at a time (8192 at most) that send at random. The same seed (1
 * unless given) gives the same trace. Prints the number of packets as JSON. */
#define _GNU_SOURCE

#include "packets.h"
#include "core/table.h"

enum { FLOWS = 512, FLOWS_MOST = 8192 };   /* connections at a time, unless given, and at most */
enum { COLLIDING = 20000 };    /* connections with one hash */

struct flow {
    uint32_t client;           /* address */
    uint16_t port;
    uint32_t number[2];        /* that are to come, of client and server */
    uint32_t step;
};

static struct {
    struct output out;
    uint64_t random;
    uint32_t clients;          /* how many there were */
    struct flow flows[FLOWS_MOST];
    struct flow *colliding;    /* all of one hash */
    uint64_t colliding_count;
    uint64_t step;             /* packets written so far of the kind */
} state = {.random = 1};

enum { SERVER = 0xc6130001 };  /* 198.19.0.1 */
enum { LARGEST = 1400 };

/* --- packets --- */

static void finish_ipv4(uint8_t *frame, uint32_t length, uint32_t from, uint32_t to, uint8_t protocol, uint32_t id,
                        uint32_t fragment)
{
    static const uint8_t ethernet[ETHERNET] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0};
    uint8_t *ip = frame + ETHERNET;
    memcpy(frame, ethernet, ETHERNET);
    memset(ip, 0, IPV4);
    put16(put16(ip, 0x4500), length);
    put16(put16(ip + 4, id), fragment);
    put16(ip + 8, 64u << 8 | protocol);
    put32(put32(ip + 12, from), to);
    put16(ip + 10, checksum_end(checksum_add(0, ip, IPV4)));
}

/* Sends `length` bytes at `number` from a side of the flow; beyond what matters to a stream they are letters. */
static void segment(const struct flow *flow, unsigned side, uint32_t number, uint8_t flags, uint32_t length)
{
    uint8_t frame[ETHERNET + IPV4 + TCP + LARGEST] = {0};
    uint8_t *tcp = frame + ETHERNET + IPV4, *at;
    uint32_t from = side ? SERVER : flow->client, to = side ? flow->client : SERVER;
    at = put16(put16(tcp, side ? 80 : flow->port), side ? flow->port : 80);
    at = put32(put32(at, number), flags & ACK ? flow->number[!side] : 0);
    put16(put16(at, 0x5000u | flags), 65535);
    for (uint32_t i = 0; i < length; i++)
        tcp[TCP + i] = (uint8_t)('a' + (number + i) % 26);
    finish_ipv4(frame, IPV4 + TCP + length, from, to, IS_TCP, 0, 0x4000);
    uint32_t sum = checksum_add(IS_TCP + TCP + length, frame + ETHERNET + 12, 8);   /* the pseudo header */
    put16(tcp + 16, checksum_end(checksum_add(sum, tcp, TCP + length)));
    uint32_t size = ETHERNET + IPV4 + TCP + length;
    size = size < 60 ? 60 : size;   /* Ethernet's least, without the check sequence */
    output_frame(&state.out, frame, size, size);
}

static void new_flow(struct flow *flow)
{
    uint32_t client = state.clients++;
    *flow = (struct flow){.client = 0xc6120000 + (client / 60000) % 65536, .port = (uint16_t)(1024 + client % 60000)};
    flow->number[0] = (uint32_t)random_next(&state.random);
    flow->number[1] = (uint32_t)random_next(&state.random);
}

/* The next packet of the handshake; false when it is over. */
static bool opens(struct flow *flow)
{
    static const uint8_t flags[] = {SYN, SYN | ACK, ACK};
    if (flow->step == 0)
        new_flow(flow);
    if (flow->step >= 3)
        return false;
    unsigned side = flow->step == 1;
    segment(flow, side, flow->number[side], flags[flow->step], 0);
    flow->number[side] += flow->step < 2;
    flow->step++;
    return true;
}

/* --- kinds: each writes the next packet of a flow --- */

static void small(struct flow *flow)
{
    enum { SEGMENTS = 40, BYTES = 6 };
    if (opens(flow))
        return;
    uint32_t step = flow->step++ - 3;
    unsigned side = step & 1;
    if (step < SEGMENTS) {
        segment(flow, side, flow->number[side], PSH | ACK, BYTES);
        flow->number[side] += BYTES;
        return;
    }
    bool fin = step < SEGMENTS + 2;   /* each side's FIN, which acknowledges the other's, and the last ACK */
    segment(flow, side, flow->number[side], fin ? FIN | ACK : ACK, 0);
    flow->number[side] += fin;
    if (!fin)
        flow->step = 0;
}

static void ahead(struct flow *flow)
{
    enum { SEGMENTS = 2000 };
    if (opens(flow))
        return;
    /* every second place of a window, each once, in an order without order: 2,003 is prime */
    uint32_t place = (flow->step - 2) * 1117 % 2003;
    segment(flow, 0, flow->number[0] + 1000 + 2 * place, ACK, 1);
    if (++flow->step == 3 + SEGMENTS)
        flow->step = 0;
}

static void alternating(struct flow *flow)
{
    enum { HALF = 1000 };
    if (opens(flow))
        return;
    uint32_t step = flow->step++ - 3;
    segment(flow, 0, flow->number[0] + (step < HALF ? 2 * (HALF - step) - 1 : 2 * (step - HALF)), ACK, 1);
    if (step + 1 == 2 * HALF)
        flow->step = 0;
}

static void overlaps(struct flow *flow)
{
    enum { SEGMENTS = 1000 };
    if (opens(flow))
        return;
    uint32_t step = flow->step++ - 3;
    if (step < SEGMENTS) {
        segment(flow, 0, flow->number[0] + 1 + step, ACK, LARGEST);
        return;
    }
    segment(flow, 0, flow->number[0], ACK, 1);
    flow->step = 0;
}

static void syn_flood(struct flow *flow)
{
    uint32_t random = (uint32_t)random_next(&state.random);
    *flow = (struct flow){.client = 0xc6120000 | random >> 16, .port = (uint16_t)(1024 + (uint16_t)random % 64000)};
    segment(flow, 0, (uint32_t)random_next(&state.random), SYN, 0);
}

static void fragments(struct flow *flow)
{
    uint8_t frame[60] = {0};
    uint64_t random = random_next(&state.random);
    (void)flow;
    put16(put16(frame + ETHERNET + IPV4, 1024 + (uint32_t)(random & 0x7fff)), 53);
    put16(frame + ETHERNET + IPV4 + 4, 1024);
    uint32_t offset = (uint32_t)(random >> 16) % 3 * 8;   /* the first or a later one; more are to come */
    uint32_t client = 0xc6120000 | (uint32_t)(random >> 48), id = (uint32_t)(random >> 32) & 0xffff;
    finish_ipv4(frame, IPV4 + 24, client, SERVER, IS_UDP, id, 0x2000 | offset);
    output_frame(&state.out, frame, sizeof frame, sizeof frame);
}

/* --- keys with one hash --- */

/* The hash that a connection's key has in the table of `tcp_ip` with seed 0: each end is its address | port << 32, the
 * lower one first. */
static uint32_t hash_of(const struct sl_table *table, const struct flow *flow)
{
    uint64_t client = flow->client | (uint64_t)flow->port << 32, server = SERVER | (uint64_t)80 << 32;
    uint64_t key[2] = {client < server ? client : server, client < server ? server : client};
    return sl_table_hash(table, key, 2);
}

static void find_colliding(uint64_t packets)
{
    enum { BITS = (1 << 14) - 1 };   /* of the hash, more than there are buckets for so many connections */
    struct sl_table table;
    uint64_t wanted = packets / 2 < COLLIDING ? packets / 2 + 1 : COLLIDING;
    if (sl_table_open(&table, 256, 2, 1024, 0))
        fail("not enough memory");
    state.colliding = room_for(COLLIDING, sizeof *state.colliding);
    for (uint32_t number = 0; state.colliding_count < wanted; number++) {
        struct flow flow = {.client = 0xc6120000 | number >> 16, .port = (uint16_t)number};
        if (flow.port < 1024 || (hash_of(&table, &flow) & BITS))
            continue;
        flow.number[0] = (uint32_t)random_next(&state.random);
        state.colliding[state.colliding_count++] = flow;
    }
    sl_table_close(&table);
}

/* First a SYN of each, then bytes of each in turn. */
static void collisions(struct flow *unused)
{
    struct flow *flow = &state.colliding[state.step % state.colliding_count];
    (void)unused;
    segment(flow, 0, flow->number[0], flow->step ? ACK : SYN, flow->step ? 1 : 0);
    flow->number[0]++;
    flow->step = 1;
}

/* --- the program --- */

static const struct kind {
    const char *name;
    void (*next)(struct flow *flow);
} kinds[] = {{"small", small},           {"ahead", ahead},         {"alternating", alternating}, {"overlaps", overlaps},
             {"collisions", collisions}, {"syn-flood", syn_flood}, {"fragments", fragments}};

int main(int argc, char **argv)
{
    const char *usage = "usage: synthesize KIND OUT [--packets N] [--flows N] [--good IN] [--seed N]", *good = NULL;
    const struct kind *kind = NULL;
    uint64_t packets = 1000000, flows = FLOWS;
    for (size_t i = 0; argc >= 3 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            kind = &kinds[i];
    if (!kind)
        fail(usage);
    for (int i = 3; i < argc; i += 2) {
        if (i + 1 == argc)
            fail(usage);
        if (strcmp(argv[i], "--packets") == 0)
            packets = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--flows") == 0)
            flows = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            state.random = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--good") == 0)
            good = argv[i + 1];
        else
            fail(usage);
    }
    if (!flows || flows > FLOWS_MOST)
        fail("there may be 1 to 8192 flows");
    struct sl_trace trace = {0};
    char message[SL_CAPTURE_MESSAGE];
    if (good && sl_trace_load(&trace, good, message, sizeof message))
        fail(message);
    if (kind->next == collisions)
        find_colliding(packets);
    state.out = output_open(argv[2]);
    size_t written = 0;
    for (; state.step < packets; state.step++) {
        kind->next(&state.flows[random_below(&state.random, (uint32_t)flows)]);
        for (; written < trace.count && written * packets < (state.step + 1) * trace.count; written++) {
            const struct sl_frame *frame = &trace.frames[written];
            output_frame(&state.out, frame->at, frame->captured, frame->length);
        }
    }
    output_close(&state.out);
    printf("{\"packets\":%" PRIu64 ",\"good\":%zu}\n", state.out.packets, trace.count);
    free(state.colliding);
    sl_trace_free(&trace);
    return 0;
}
