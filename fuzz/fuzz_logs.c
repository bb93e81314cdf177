// made by: fuzz/make_logs.py
/* Fuzzes httplog, tlslog and dnslog over tcp_ip: what connections and datagrams carry, as the two ends would send it, cut,
 * out of order, again, and with holes. All memory must be back in the end, and every row be one JSON object in a line.
 * Run: scripts/fuzz.sh fuzz_logs
 *
 * An input is 2 bytes of settings (the server's port, and bit 5 whether there is a key log; how many exchanges are stored), then pieces: what (1 byte: bits 0-1
 * side and UDP, 2 out of order, 3 again, 4 a hole, 5 small segments, 6 ICMP instead of UDP), length (2, little endian), and the bytes. */
#include "tcp_ip.c"
#include "key_log.h"

#ifndef FUZZ_PORTS   /* fuzz_more_logs.c includes this file */
#define FUZZ_PORTS {80, 443, 53, 3128}
#define FUZZ_DATAGRAMS {53, 53, 53, 53}
#define FUZZ_OPTIONS {"pipelined", "certificates", "queries"}
#define FUZZ_KEYED {true, true, false}   /* which have a parameter keylog */
#endif

enum { MOST_PIECE = 1400, HEAD = 14 + 20 + 20 };

struct world {
    struct sl_box *box;
    uint32_t next[2];     /* sequence numbers */
    uint64_t number;
    uint16_t port, datagrams;   /* the server's, of TCP and of UDP */
    uint8_t delayed[HEAD + MOST_PIECE];   /* a segment that comes after the next one */
    uint32_t delayed_length;
};

/* A packet lies in memory of its own, which ends where it ends. */
static void give(struct world *world, const uint8_t *frame, uint32_t length) {
    uint8_t *bytes = malloc(length);
    EXPECT(bytes);
    memcpy(bytes, frame, length);
    const uint64_t time = UINT64_C(1700000000000000000) + world->number * 1000000;
    struct sl_frame packet = {.at = bytes, .captured = length, .length = length, .time = time, .link_type = 1, .number = ++world->number};
    tcp_ip_process(world->box, &packet, 1, NULL);
    free(bytes);
}

static uint32_t ip_head(uint8_t *frame, unsigned side, uint8_t protocol, uint32_t length) {
    memset(frame, 0, HEAD);
    frame[12] = 8;
    uint8_t *ip = frame + 14;
    ip[0] = 0x45;
    sl_store_be16(ip + 2, 20 + length);
    ip[8] = 64;
    ip[9] = protocol;
    sl_store_be32(ip + 12, 0x0a000001 + side);
    sl_store_be32(ip + 16, 0x0a000002 - side);
    return 34;
}

static uint32_t segment(struct world *world, uint8_t *frame, unsigned side, uint8_t flags, const uint8_t *at, uint32_t length) {
    uint32_t head = ip_head(frame, side, 6, 20 + length);
    uint8_t *tcp = frame + head;
    sl_store_be16(tcp, side ? world->port : 40000);
    sl_store_be16(tcp + 2, side ? 40000 : world->port);
    sl_store_be32(tcp + 4, world->next[side]);
    sl_store_be32(tcp + 8, world->next[side ^ 1]);
    tcp[12] = 0x50;
    tcp[13] = flags;
    sl_store_be16(tcp + 14, 65535);
    if (length)
        memcpy(tcp + 20, at, length);
    world->next[side] += length + (flags & 2 ? 1 : 0);
    return HEAD + length;
}

static void say(struct world *world, uint8_t what, const uint8_t *at, uint32_t length) {
    uint8_t frame[HEAD + MOST_PIECE];
    unsigned side = what & 1;
    if (what & 2) {
        bool icmp = what & 64;
        uint32_t head = ip_head(frame, side, icmp ? 1 : 17, icmp ? length : 8 + length);
        if (icmp) {
            memcpy(frame + head, at, length);
            give(world, frame, head + length);
            return;
        }
        sl_store_be16(frame + head, side ? world->datagrams : 40001);
        sl_store_be16(frame + head + 2, side ? 40001 : world->datagrams);
        sl_store_be16(frame + head + 4, 8 + length);
        memcpy(frame + head + 8, at, length);
        give(world, frame, head + 8 + length);
        return;
    }
    uint32_t cut = what & 32 ? 1 + what % 7 : MOST_PIECE;
    for (uint32_t done = 0; done < length;) {
        uint32_t take = (uint32_t)sl_min(cut, length - done);
        uint32_t size = segment(world, frame, side, 0x10, at + done, take);
        done += take;
        if ((what & 4) && !world->delayed_length) {
            memcpy(world->delayed, frame, size);
            world->delayed_length = size;
            continue;
        }
        if (!(what & 16))
            give(world, frame, size);
        if (what & 8)
            give(world, frame, size);
        if (world->delayed_length)
            give(world, world->delayed, world->delayed_length);
        world->delayed_length = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    static const uint16_t ports[] = FUZZ_PORTS, datagrams[] = FUZZ_DATAGRAMS;
    static const char *const names[] = FUZZ_OPTIONS;
    static const bool keyed[] = FUZZ_KEYED;
    enum { FUNCTIONS = sizeof names / sizeof *names };
    if (size < 2)
        return 0;
    char texts[FUNCTIONS][128];
    const char *options_of[FUNCTIONS];
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        if (names[i])
            snprintf(texts[i], sizeof texts[i], "out=/dev/null,%s=%u", names[i], 1u + at[1] % 8u);
        else
            snprintf(texts[i], sizeof texts[i], "out=/dev/null");
        if (keyed[i] && at[0] & 32)
            snprintf(texts[i] + strlen(texts[i]), 64, ",keylog=%s", key_log());
        options_of[i] = texts[i];
    }
    struct sl_options options = {.seed = 1, .memory = 1 << 20, .max_instances = 16, .function_options = options_of};
    struct world world = {.box = tcp_ip_open(&options), .next = {1000, 9000}, .port = ports[at[0] % 4], .datagrams = datagrams[at[0] >> 3 & 3]};
    EXPECT(world.box);
    uint8_t frame[HEAD + MOST_PIECE];
    if (!(at[0] & 4)) {   /* else the beginning was not captured */
        give(&world, frame, segment(&world, frame, 0, 2, NULL, 0));
        give(&world, frame, segment(&world, frame, 1, 0x12, NULL, 0));
    }
    at += 2, size -= 2;
    while (size >= 3) {
        uint32_t length = (uint32_t)sl_min(sl_min(sl_load_le16(at + 1), size - 3), MOST_PIECE);
        say(&world, at[0], at + 3, length);
        at += 3 + length, size -= 3 + length;
    }
    tcp_ip_finish(world.box);
    EXPECT(world.box->pool.used == 0);
    EXPECT(!world.box->failure[0]);
    tcp_ip_close(world.box);
    return 0;
}
