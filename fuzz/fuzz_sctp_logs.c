// made by: fuzz/make_sctp_logs.py
/* Fuzzes httplog, tlslog and filelog over sctp: what the streams of an association carry, in chunks of any numbers and flags, out
 * of order, again, and with holes. All memory must be back in the end. Run: scripts/fuzz.sh fuzz_sctp_logs
 *
 * An input is a byte of settings (bit 0: there is a key log; bit 1: INIT was not captured; bits 4-7: a bound of memory), then pieces:
 * what (bit 0 side, 1 the message begins, 2 it ends, 3 unordered, 4 I-DATA, 5 again, 6 a transmission number is left out before it,
 * 7 it comes after the next one), the stream, the number within it (1 each), the length (2, little endian), and the bytes. */
#include "sctp.c"
#include "key_log.h"

enum { MOST_PIECE = 1400, HEAD = 14 + 20 + 12 + 20 };

struct world {
    struct sl_box *box;
    uint32_t next[2];     /* transmission sequence numbers */
    uint64_t number;
    uint8_t delayed[HEAD + MOST_PIECE];   /* a packet that comes after the next one */
    uint32_t delayed_length;
};

/* A packet lies in memory of its own, which ends where it ends. */
static void give(struct world *world, const uint8_t *frame, uint32_t length) {
    uint8_t *bytes = malloc(length);
    EXPECT(bytes);
    memcpy(bytes, frame, length);
    const uint64_t time = UINT64_C(1700000000000000000) + world->number * 1000000;
    struct sl_frame packet = {.at = bytes, .captured = length, .length = length, .time = time, .link_type = 1, .number = ++world->number};
    sctp_process(world->box, &packet, 1, NULL);
    free(bytes);
}

/* Writes the headers before a chunk. Returns their length. */
static uint32_t heads(uint8_t *frame, unsigned side, uint32_t chunk, uint32_t tag) {
    memset(frame, 0, 14 + 20 + 12);
    frame[12] = 8;
    uint8_t *ip = frame + 14, *sctp = ip + 20;
    ip[0] = 0x45;
    sl_store_be16(ip + 2, 20 + 12 + chunk);
    ip[8] = 64;
    ip[9] = 132;
    sl_store_be32(ip + 12, 0x0a000001 + side);
    sl_store_be32(ip + 16, 0x0a000002 - side);
    sl_store_be16(sctp, side ? 80 : 40000);
    sl_store_be16(sctp + 2, side ? 40000 : 80);
    sl_store_be32(sctp + 4, tag);
    return 14 + 20 + 12;
}

static void begin(struct world *world, unsigned side) {
    uint8_t frame[HEAD + MOST_PIECE];
    uint8_t *chunk = frame + heads(frame, side, 20, side ? 7 : 0);
    memset(chunk, 0, 20);
    chunk[0] = (uint8_t)(1 + side);   /* INIT, INIT ACK */
    sl_store_be16(chunk + 2, 20);
    sl_store_be32(chunk + 4, side ? 8 : 7);
    sl_store_be32(chunk + 16, world->next[side]);
    give(world, frame, HEAD);
}

static void say(struct world *world, uint8_t what, uint8_t stream, uint8_t number, const uint8_t *at, uint32_t length) {
    uint8_t frame[HEAD + MOST_PIECE];
    unsigned side = what & 1;
    bool interleaved = what & 16;
    uint32_t head = interleaved ? 20 : 16, padded = (head + length + 3) & ~3u;
    uint8_t *chunk = frame + heads(frame, side, padded, side ? 7 : 8);
    world->next[side] += what & 64 ? 1 : 0;
    memset(chunk, 0, padded);
    chunk[0] = interleaved ? 64 : 0;
    chunk[1] = (uint8_t)((what & 2 ? 2 : 0) | (what & 4 ? 1 : 0) | (what & 8 ? 4 : 0));
    sl_store_be16(chunk + 2, head + length);
    sl_store_be32(chunk + 4, world->next[side]++);
    sl_store_be16(chunk + 8, stream);
    sl_store_be16(chunk + (interleaved ? 14 : 10), number);
    memcpy(chunk + head, at, length);
    uint32_t size = (uint32_t)(chunk - frame) + padded;
    if ((what & 128) && !world->delayed_length) {
        memcpy(world->delayed, frame, size);
        world->delayed_length = size;
        return;
    }
    for (unsigned i = 0; i < (what & 32 ? 2 : 1); i++)
        give(world, frame, size);
    if (world->delayed_length)
        give(world, world->delayed, world->delayed_length);
    world->delayed_length = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    if (size < 1)
        return 0;
    char text[128];
    snprintf(text, sizeof text, "out=/dev/null,memory=%u", at[0] >> 4 ? 4096u * (at[0] >> 4) : 1u << 24);
    if (at[0] & 1)
        snprintf(text + strlen(text), 64, ",keylog=%s", key_log());
    const char *options_of[3] = {text, text, text};
    struct sl_options options = {.seed = 1, .memory = 1 << 20, .max_instances = 16, .function_options = options_of};
    struct world world = {.box = sctp_open(&options), .next = {1000, 9000}};
    EXPECT(world.box);
    for (unsigned side = 0; side < 2 && !(at[0] & 2); side++)
        begin(&world, side);
    at++, size--;
    while (size >= 5) {
        uint32_t length = (uint32_t)sl_min(sl_min(sl_load_le16(at + 3), size - 5), MOST_PIECE - 4);
        say(&world, at[0], at[1], at[2], at + 5, length);
        at += 5 + length, size -= 5 + length;
    }
    sctp_finish(world.box);
    EXPECT(world.box->pool.used == 0);
    EXPECT(!world.box->failure[0]);
    sctp_close(world.box);
    return 0;
}
