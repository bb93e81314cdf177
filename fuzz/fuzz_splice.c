// made by: fuzz/make_splice.py
/* Fuzzes splice over tcp_ip, inline: clients and servers that send any flags, numbers near those that are expected or far from
 * them, options, and ICMP errors, with steps of time that fire timers. Run: scripts/fuzz.sh fuzz_splice
 *
 * Whatever they send: each packet that leaves is one of TCP with right lengths and checksums; none has the address of a server
 * and goes to a client; translated numbers of a connection differ by one constant; only a packet or a timer produces some, and
 * no more than a request's segments; at the end, no memory is held.
 *
 * An input is 2 bytes of settings (bit 0: cookies, 1: without options; unused), then pieces: who (1 byte: bit 0 the server, 1-2
 * the client, 3 an ICMP error, 4-7: numbers as they are), flags (1), the number and the acknowledgement, relative to what is
 * expected (1 each, signed), options (1: bits 0 scale, 1 SACK, 2 time stamps, 3: garbage), step of time (1), length (2, little
 * endian), and the bytes. */
#include "tcp_ip.c"
#include "expect.h"

enum { CLIENTS = 4, LINK = 14, HEAD = 34, MOST_PIECE = 1400, MOST_OPTIONS = 40, REQUEST_MOST = 1024, CAUSED_MOST = CLIENTS * (REQUEST_MOST / 64 + 8) };

struct end { uint32_t next, acknowledges, stamp, echo; };   /* what it sends next, and has received */

struct world {
    struct sl_box *box;
    struct end client[CLIENTS], server[CLIENTS];
    bool shifted[CLIENTS];      /* `shift` is known: what is added to numbers of the server */
    uint32_t shift[CLIENTS];
    uint64_t time, number;
};

static const uint32_t service = 0xc000020a, server_address = 0x0a090001;

static uint32_t sum(const uint8_t *at, uint32_t length, uint32_t with) {
    for (uint32_t i = 0; i < length; i++)
        with += (uint32_t)at[i] << (i % 2 ? 0 : 8);
    while (with >> 16)
        with = (with & 0xffff) + (with >> 16);
    return with;
}

/* 0xffff if the checksum of the transport header is right. */
static uint32_t transport_sum(const uint8_t *ip) {
    uint32_t length = (uint32_t)sl_load_be16(ip + 2) - 20;
    return sum(ip + 20, length, ip[9] == 6 ? sum(ip + 12, 8, 6 + length) : 0);
}

static uint32_t options_of(uint8_t kind, bool syn, const struct end *end, uint8_t *out) {
    uint32_t used = 0;
    if (syn && kind & 1)
        out[used++] = 3, out[used++] = 3, out[used++] = kind >> 4, out[used++] = 1;
    if (syn && kind & 2)
        out[used++] = 4, out[used++] = 2, out[used++] = 1, out[used++] = 1;
    if (kind & 4) {
        out[used++] = 1, out[used++] = 1, out[used++] = 8, out[used++] = 10;
        sl_store_be32(out + used, end->stamp);
        sl_store_be32(out + used + 4, end->echo);
        used += 8;
    }
    for (unsigned i = 0; kind & 8 && i < 8; i++)
        out[used++] = (uint8_t)(kind * (i + 3) >> 2);
    return used;
}

/* Makes a frame with an IP header; returns where its payload is. */
static uint8_t *ip_head(uint8_t *frame, uint32_t from, uint32_t to, uint8_t protocol, uint32_t length) {
    memset(frame, 0, HEAD);
    frame[12] = 8;
    uint8_t *ip = frame + LINK;
    ip[0] = 0x45;
    sl_store_be16(ip + 2, 20 + length);
    ip[8] = 64;
    ip[9] = protocol;
    sl_store_be32(ip + 12, from);
    sl_store_be32(ip + 16, to);
    sl_store_be16(ip + 10, (uint16_t)~sum(ip, 20, 0));
    return frame + HEAD;
}

/* --- what leaves --- */

/* `given`: the packet that the box has changed; NULL: the box has made this one. */
static void check(struct world *world, const uint8_t *frame, uint32_t length, const uint8_t *given) {
    const uint8_t *ip = frame + LINK, *tcp = frame + HEAD;
    EXPECT(length >= HEAD + 8 && sl_load_be16(ip + 2) == length - LINK);
    EXPECT(sum(ip, 20, 0) == 0xffff && transport_sum(ip) == 0xffff);
    uint32_t from = (uint32_t)sl_load_be32(ip + 12), to = (uint32_t)sl_load_be32(ip + 16);
    if (ip[9] != 6) {
        EXPECT(given);   /* the box makes no ICMP */
        return;
    }
    EXPECT(length >= HEAD + 20 && tcp[12] >> 4 >= 5 && HEAD + 4 * (tcp[12] >> 4) <= length);
    const bool to_client = to >> 8 == 0x0a0000, from_client = from >> 8 == 0x0a0000;
    EXPECT(to_client != from_client);
    const uint32_t k = (to_client ? to : from) & (CLIENTS - 1);
    struct end *client = &world->client[k], *server = &world->server[k];
    const uint32_t number = (uint32_t)sl_load_be32(tcp + 4), payload = length - HEAD - 4 * (tcp[12] >> 4);
    const uint32_t end = number + payload + (tcp[13] & 2 ? 1 : 0) + (tcp[13] & 1);
    const uint8_t flags = tcp[13];
    if (!given) {
        EXPECT(to_client ? from == service : to == server_address || to == service);
        world->shifted[k] &= !(flags & (2 | 4));
    } else {
        const uint8_t *before = given + HEAD;
        bool translated = memcmp(given + LINK + 12, ip + 12, 8) != 0;
        uint32_t was = (uint32_t)sl_load_be32(before + 4), acknowledged = (uint32_t)sl_load_be32(tcp + 8) - (uint32_t)sl_load_be32(before + 8);
        EXPECT(payload + HEAD + 4u * (before[12] >> 4) == LINK + sl_load_be16(given + LINK + 2) || translated);
        uint32_t shift = to_client ? number - was : 0 - acknowledged;
        if (translated && (to_client || flags & 16)) {
            EXPECT(!world->shifted[k] || world->shift[k] == shift);
            EXPECT(to_client ? !acknowledged || !(flags & 16) : number == was);
            world->shifted[k] = !(flags & (1 | 2 | 4));
            world->shift[k] = shift;
        }
        EXPECT(!translated || (to_client ? from == service : to == server_address));
    }
    if (to_client && from == service) {
        client->acknowledges = end;
        client->echo = 0;
        for (uint32_t i = 20; i + 10 <= 4u * (tcp[12] >> 4); i++)   /* its time stamp, wherever it is */
            if (tcp[i] == 8 && tcp[i + 1] == 10)
                client->echo = (uint32_t)sl_load_be32(tcp + i + 2);
    } else if (from_client && to == server_address) {
        server->acknowledges = end;
    }
}

/* Processes a packet, and checks what leaves for it. */
static void give(struct world *world, const uint8_t *frame, uint32_t length) {
    uint8_t *bytes = malloc(length);
    EXPECT(bytes);
    memcpy(bytes, frame, length);
    struct sl_frame packet = {.at = bytes, .captured = length, .length = length, .time = world->time, .link_type = 1, .number = ++world->number};
    struct sl_verdict verdict = {0};
    const struct sl_sent *sent;
    tcp_ip_process(world->box, &packet, 1, &verdict);
    uint32_t count = sl_box_sent(world->box, &sent);
    EXPECT(count <= CAUSED_MOST);
    for (uint32_t i = 0; i < count; i++)
        check(world, sent[i].frame.at, sent[i].frame.length, NULL);
    if (verdict.action == SL_PASS && verdict.flags & SL_VERDICT_CHANGED)
        check(world, verdict.at, verdict.length, bytes);
    free(bytes);
}

/* Time goes on without a packet: only timers send. */
static void let_pass(struct world *world, uint8_t step) {
    const struct sl_sent *sent;
    world->time += UINT64_C(1) << (step % 36);
    tcp_ip_tick(world->box, world->time);
    uint32_t count = sl_box_sent(world->box, &sent);
    EXPECT(count <= CAUSED_MOST);
    for (uint32_t i = 0; i < count; i++)
        check(world, sent[i].frame.at, sent[i].frame.length, NULL);
}

static void say(struct world *world, const uint8_t *piece, const uint8_t *at, uint32_t length) {
    uint8_t frame[HEAD + 20 + 48 + MOST_PIECE], options[MOST_OPTIONS];
    const uint8_t what = piece[0], flags = piece[1];
    const uint32_t k = what >> 1 & (CLIENTS - 1);
    const bool of_server = what & 1;
    struct end *end = of_server ? &world->server[k] : &world->client[k];
    const uint32_t client = 0x0a000000 + k, from = of_server ? server_address : client, to = of_server ? client : service;
    uint32_t option_length = options_of(piece[4], flags & 2, end, options), head = 20 + option_length;
    uint32_t number = what & 16 ? (uint32_t)(int8_t)piece[2] << 24 : end->next + (uint32_t)(int8_t)piece[2];
    uint32_t acknowledges = what & 32 ? (uint32_t)(int8_t)piece[3] << 24 : end->acknowledges + (uint32_t)(int8_t)piece[3];
    if (flags & (1 | 2 | 4))
        world->shifted[k] = false;
    if (what & 8) {   /* an error of a router about what the other end has sent to this one */
        uint8_t *icmp = ip_head(frame, 0x0a630001, of_server ? client : service, 1, 8 + 28), quoted[HEAD];
        memset(icmp, 0, 8);
        icmp[0] = 3 + (flags & 8);
        ip_head(quoted, to, from, 6, 20);
        memcpy(icmp + 8, quoted + LINK, 20);
        sl_store_be16(icmp + 28, of_server ? 40000 + k : 80);
        sl_store_be16(icmp + 30, of_server ? 80 : 40000 + k);
        sl_store_be32(icmp + 32, acknowledges);
        sl_store_be16(icmp + 2, (uint16_t)~sum(icmp, 36, 0));
        give(world, frame, HEAD + 36);
        return;
    }
    uint8_t *tcp = ip_head(frame, from, to, 6, head + length);
    memset(tcp, 0, 20);
    sl_store_be16(tcp, of_server ? 80 : 40000 + k);
    sl_store_be16(tcp + 2, of_server ? 40000 + k : 80);
    sl_store_be32(tcp + 4, number);
    sl_store_be32(tcp + 8, acknowledges);
    tcp[12] = (uint8_t)(head / 4 << 4);
    tcp[13] = flags;
    sl_store_be16(tcp + 14, 1000);
    memcpy(tcp + 20, options, option_length);
    if (length)
        memcpy(tcp + head, at, length);
    sl_store_be16(tcp + 16, (uint16_t)~transport_sum(frame + LINK));
    if (number == end->next)
        end->next += length + (flags & 2 ? 1 : 0) + (flags & 1);
    end->stamp++;
    give(world, frame, HEAD + head + length);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    if (size < 2)
        return 0;
    char text[160];
    snprintf(text, sizeof text, "address=192.0.2.10,servers=10.9.0.1,waiting=%d,connections=3,half_open=%u%s", REQUEST_MOST,
             at[0] & 1 ? 0u : 2u, at[0] & 2 ? ",options=none" : "");
    const char *options_of_functions[] = {text};
    struct sl_options options = {.seed = 1, .memory = 1 << 20, .max_instances = 32, .timeouts = true, .forwards = true,
                                 .function_options = options_of_functions};
    struct world world = {.box = tcp_ip_open(&options), .time = UINT64_C(1700000000000000000)};
    EXPECT(world.box);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        world.client[k] = (struct end){.next = 0xfffffff0u + 1000 * k, .stamp = 5000};
        world.server[k] = (struct end){.next = 700000 * (k + 1), .stamp = 0xffffff00};
    }
    at += 2, size -= 2;
    while (size >= 8) {
        uint32_t length = (uint32_t)sl_min(sl_min(sl_load_le16(at + 6), size - 8), MOST_PIECE);
        if (at[5] % 36 > 20)
            let_pass(&world, at[5]);
        else
            world.time += UINT64_C(1) << at[5] % 36;
        say(&world, at, at + 8, length);
        at += 8 + length, size -= 8 + length;
    }
    tcp_ip_finish(world.box);
    EXPECT(world.box->pool.used == 0);
    EXPECT(!world.box->failure[0]);
    tcp_ip_close(world.box);
    return 0;
}
