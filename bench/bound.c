/* The hand-written bound: the least that any program must do that tracks TCP connections and hands over their bytes.
 *
 *     cc -O3 -march=native -I sluice/runtime bench/bound.c sluice/runtime/io/capture.c \
 *         sluice/runtime/io/pcapng.c -o bound
 *     ./bound TRACE none|assemble|search [--warm] [--connections N] [--patterns FILE]
 *
 * A burst of packets is processed in two sweeps. The first parses each to its 5-tuple, hashes that and asks for the
 * line of its connection, and for the headers of a packet of the next burst: one by one, since asking for all of them
 * at once fills the buffers for misses (it cost a fifth more); and into the second-level cache, which has more, where
 * packets lie apart (a third less). So are connections where no cache has all of them. The second looks the connections
 * up and brings them forward. One connection is one cache line of one open-addressing table in huge pages.
 *
 * What it leaves out is what makes it a bound and no product: it knows IPv4 without fragments, VLAN or tunnels; bytes
 * that are out of order are not held but counted (`left_out`), as are other packets; nothing times out, is evicted or
 * freed: a closed connection stays in its slot until a SYN starts a new one; the hash has no seed. */
#include "peer.h"
#include "core/bytes.h"
#include "patterns.h"

#include <nmmintrin.h>
#include <sys/mman.h>

/* --- connections --- */

enum state { FREE, OPENING, ESTABLISHED, CLOSING, CLOSED };

/* The two ends, each address << 16 | port, so that the lower one names the side and both directions meet. */
struct ends {
    uint64_t low, high;
};

struct side {
    uint32_t next;         /* sequence number that is to come */
    bool known;            /* there was a packet that set it */
    bool finished;         /* it has sent its FIN */
};

struct connection {
    struct ends ends;
    struct side side[2];   /* of the low and the high end */
    enum state state;
    struct pattern_stream stream[2];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct connection) == 64, "a connection is a cache line");

static struct {
    struct connection *slots;
    uint32_t mask;
    uint64_t used, most;
    bool far;              /* connections come from memory, and not from a cache */
    uint64_t flows, left_out;
    enum peer_function function;
} table;

/* Memory in huge pages where the kernel has them, zeroed and there. */
static void *huge(size_t size)
{
    const size_t page = 2 << 20;
    size = (size + page - 1) / page * page;
    uint8_t *at = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    at += page - (uintptr_t)at % page;
    madvise(at, size, MADV_HUGEPAGE);
    memset(at, 0, size);
    return at;
}

/* --- packets --- */

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { ETHERNET = 14, IPV4 = 20, TCP = 20 };
enum { APART = 512 };         /* bytes from one packet to the next, from more of which on none comes with another */
enum { FAR = 32 << 20 };      /* bytes of connections, with more than which they come from memory, and not from a cache */

struct segment {
    struct ends ends;
    uint32_t slot;         /* where its connection is looked for first */
    uint32_t number;       /* of its first byte */
    uint32_t length;       /* of its bytes, in the packet */
    uint8_t side, flags;
    const uint8_t *bytes;
};

static inline uint16_t load16(const uint8_t *at)
{
    uint16_t x;
    memcpy(&x, at, sizeof x);
    return __builtin_bswap16(x);
}

static inline uint32_t load32(const uint8_t *at)
{
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return __builtin_bswap32(x);
}

/* Reads a packet; whether it is TCP over IPv4 over Ethernet, whole. */
static inline bool parse(struct segment *segment, const struct sl_frame *frame)
{
    const uint8_t *ip = frame->at + ETHERNET;
    if (frame->link_type != 1 || frame->captured < ETHERNET + IPV4 + TCP || load16(ip - 2) != 0x0800 || ip[0] >> 4 != 4)
        return false;
    uint32_t ip_header = (ip[0] & 15) * 4u, total = load16(ip + 2);
    if (ip[9] != 6 || (load16(ip + 6) & 0x3fff) || ETHERNET + total > frame->captured)
        return false;   /* another protocol, a fragment, or cut short */
    if (ip_header < IPV4 || ip_header + TCP > total)
        return false;
    const uint8_t *tcp = ip + ip_header;
    uint32_t headers = ip_header + (tcp[12] >> 4) * 4u;
    if (tcp[12] >> 4 < 5 || headers > total)
        return false;
    uint64_t from = (uint64_t)load32(ip + 12) << 16 | load16(tcp);
    uint64_t to = (uint64_t)load32(ip + 16) << 16 | load16(tcp + 2);
    segment->side = from > to;
    segment->ends = (struct ends){from < to ? from : to, from < to ? to : from};
    segment->slot = (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, segment->ends.low), segment->ends.high) & table.mask;
    segment->number = load32(tcp + 4);
    segment->flags = tcp[13];
    segment->bytes = ip + headers;
    segment->length = total - headers;
    return true;
}

/* --- a segment and its connection --- */

static inline void deliver(struct connection *connection, unsigned side, const uint8_t *at, uint32_t length,
                           enum peer_function function)
{
    if (function == PEER_NONE)
        return;
    peer_deliver(at, length);
    if (function == PEER_SEARCH)
        patterns_search(&connection->stream[side], at, length);
}

__attribute__((cold, noreturn)) static void full(void)
{
    fputs("bound: the table is full; give more --connections\n", stderr);
    exit(1);
}

static void begin(struct connection *connection, const struct segment *segment)
{
    if (table.function == PEER_SEARCH)
        for (unsigned side = 0; side < 2; side++)
            patterns_end(&connection->stream[side]);
    *connection = (struct connection){.ends = segment->ends, .state = OPENING};
    table.flows++;
}

/* A connection's line for a segment; a new one if there is none. */
static inline struct connection *find(const struct segment *segment)
{
    for (uint32_t slot = segment->slot;; slot = (slot + 1) & table.mask) {
        struct connection *connection = &table.slots[slot];
        if (connection->ends.low == segment->ends.low && connection->ends.high == segment->ends.high)
            return connection;
        if (connection->state == FREE) {
            if (++table.used > table.most)
                full();
            begin(connection, segment);
            return connection;
        }
    }
}

/* All but the next bytes of a side without SYN, FIN and RST. */
__attribute__((noinline)) static void seldom(struct connection *connection, const struct segment *segment)
{
    struct side *side = &connection->side[segment->side];
    uint32_t number = segment->number, length = segment->length, flags = segment->flags;
    if (flags & SYN) {
        if (!(flags & ACK) && (connection->state >= CLOSING || (side->known && side->next != number + 1)))
            begin(connection, segment);
        number++;   /* of its bytes: the SYN takes one */
    }
    if (flags & RST) {
        connection->state = CLOSED;
        return;     /* its bytes are none of the stream */
    }
    if (!side->known) {
        side->known = true;
        side->next = number;
    }
    int32_t old = (int32_t)(side->next - number);   /* bytes that were there before */
    if (old < 0 || (uint32_t)old > length) {
        table.left_out += old < 0 && (length || flags & FIN);
        return;
    }
    if (length > (uint32_t)old)
        deliver(connection, segment->side, segment->bytes + old, length - (uint32_t)old, table.function);
    side->next = number + length;
    if (flags & FIN && !side->finished) {
        side->next++;
        side->finished = true;
        connection->state = connection->side[segment->side ^ 1].finished ? CLOSED : CLOSING;
    }
}

static inline __attribute__((always_inline)) void advance(struct connection *connection, const struct segment *segment,
                                                          enum peer_function function)
{
    struct side *side = &connection->side[segment->side];
    if (__builtin_expect(segment->number != side->next || segment->flags & (SYN | FIN | RST) || !side->known, 0)) {
        seldom(connection, segment);
        return;
    }
    if (connection->state == OPENING)
        connection->state = ESTABLISHED;
    if (segment->length) {
        side->next += segment->length;
        deliver(connection, segment->side, segment->bytes, segment->length, function);
    }
}

static inline __attribute__((always_inline)) void sweep(const struct sl_frame *frames, size_t count, size_t ahead,
                                                        enum peer_function function)
{
    struct segment segments[SL_BURST];
    size_t found = 0;
    const size_t last = ETHERNET + IPV4 + TCP - 1;
    /* Packets that lie apart come from memory each by itself: into the second level first, which has more buffers. */
    const bool apart = count && (uintptr_t)frames[count - 1].at - (uintptr_t)frames[0].at > APART * (count - 1);
    for (size_t i = 0; apart && i < count; i++) {
        __builtin_prefetch(frames[i].at);
        __builtin_prefetch(frames[i].at + last);
    }
    for (size_t i = 0; i < count; i++) {
        if (i < ahead) {
            const uint8_t *next = frames[count + i].at;
            sl_prefetch((uintptr_t)next, !apart);
            sl_prefetch((uintptr_t)next + last, !apart);
        }
        if (!parse(&segments[found], &frames[i]))
            continue;
        sl_prefetch_written((uintptr_t)&table.slots[segments[found].slot], !table.far);
        found++;
    }
    table.left_out += count - found;
    for (size_t i = 0; i < found; i++)
        advance(find(&segments[i]), &segments[i], function);
}

/* --- the peer --- */

static void peer_burst(void *user, const struct sl_frame *frames, size_t count, size_t ahead)
{
    (void)user;
    if (table.function == PEER_NONE)
        sweep(frames, count, ahead, PEER_NONE);
    else if (table.function == PEER_ASSEMBLE)
        sweep(frames, count, ahead, PEER_ASSEMBLE);
    else
        sweep(frames, count, ahead, PEER_SEARCH);
}

static const char *peer_open(const struct peer_options *options)
{
    uint64_t slots = 1 << 10;
    while (slots < 2 * options->connections)
        slots *= 2;
    table.slots = huge(slots * sizeof *table.slots);
    table.mask = (uint32_t)(slots - 1);
    table.most = slots / 8 * 7;
    table.far = options->connections * sizeof *table.slots > FAR;
    table.function = options->function;
    if (!table.slots)
        return "not enough memory for the table";
    return options->function == PEER_SEARCH ? patterns_open(options->patterns) : NULL;
}

static void peer_close(struct peer_found *found)
{
    found->flows = (int64_t)table.flows;
    found->left_out = (int64_t)table.left_out;
    found->deliveries = (int64_t)peer_deliveries.calls;
    found->delivered_bytes = (int64_t)peer_deliveries.bytes;
    if (table.function == PEER_SEARCH) {
        for (uint64_t slot = 0; slot <= table.mask; slot++)
            for (unsigned side = 0; side < 2; side++)
                patterns_end(&table.slots[slot].stream[side]);
        found->matches = (int64_t)patterns_matches();
    }
}
