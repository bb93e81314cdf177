/* The ring from the reader to a worker: what comes out is what went in, whatever the sizes and the order of both sides. */
#include "check.h"

#include "driver/ring.h"

static struct choices choices = {.seed = 88172645463325252u};

static uint64_t chance(uint64_t below) { return choose_word(&choices) % below; }

static uint8_t byte_of(uint64_t number, uint32_t at) { return (uint8_t)(number * 31 + at * 7); }

/* Writes packet `number` of a size that follows from it; false where the ring is full. */
static bool write_one(struct sl_packet_ring *ring, uint64_t number, uint8_t *bytes, uint32_t size)
{
    bool failed = false;
    if (!sl_ring_has_entry(ring) || !sl_ring_has_bytes(ring, size, &failed))
        return false;
    for (uint32_t i = 0; i < size; i++)
        bytes[i] = byte_of(number, i);
    struct sl_frame frame = {.at = bytes, .captured = size, .length = size, .number = number};
    sl_ring_put(ring, number % 50 == 0 ? SL_RING_SECRETS : SL_RING_PACKET, &frame, true);
    return true;
}

static uint32_t read_some(struct sl_packet_ring *ring, uint64_t *next)
{
    struct sl_frame *frames;
    enum sl_ring_kind kind;
    uint32_t count = sl_ring_run(ring, (uint32_t)chance(300) + 1, &frames, &kind);
    for (uint32_t i = 0; i < count; i++, ++*next) {
        CHECK(frames[i].number == *next);
        CHECK(kind == (*next % 50 == 0 ? SL_RING_SECRETS : SL_RING_PACKET));
        for (uint32_t k = 0; k < frames[i].captured; k += 1 + k / 8)
            CHECK(frames[i].at[k] == byte_of(*next, k));
    }
    sl_ring_take(ring, count);
    return count;
}

static void test_order_and_bytes(void)
{
    CASE("order and bytes");
    struct sl_packet_ring *ring = sl_packet_ring_open();
    uint8_t *bytes = malloc(1 << 24);
    uint64_t written = 1, read = 1, full = 0;
    while (written < 60000) {
        for (uint64_t burst = chance(600); burst; burst--) {
            uint32_t size = (uint32_t)(chance(400) == 0 ? chance(3000000) : chance(3) ? chance(200) : chance(9000));
            if (!write_one(ring, written, bytes, size)) {
                full++;
                break;
            }
            written++;
        }
        sl_ring_publish(ring);
        for (uint64_t turns = chance(4); turns; turns--)
            read_some(ring, &read);
    }
    while (read_some(ring, &read))
        continue;
    CHECK(read == written);
    CHECK(full > 0);
    free(bytes);
    sl_packet_ring_close(ring);
}

static void test_what_is_not_published_is_not_seen(void)
{
    CASE("what is not published is not seen");
    struct sl_packet_ring *ring = sl_packet_ring_open();
    uint8_t bytes[64];
    uint64_t next = 1;
    CHECK(write_one(ring, 1, bytes, 10));
    CHECK(read_some(ring, &next) == 0);
    sl_ring_publish(ring);
    CHECK(read_some(ring, &next) == 1);
    sl_packet_ring_close(ring);
}

static void test_packets_without_bytes(void)
{
    CASE("packets without bytes");
    struct sl_packet_ring *ring = sl_packet_ring_open();
    uint8_t bytes[64];
    uint64_t next = 1;
    for (uint64_t number = 1; number < 6; number++)
        CHECK(write_one(ring, number, bytes, 0));
    CHECK(!write_one(ring, 6, bytes, 60));   /* its memory is made when the ring is empty */
    sl_ring_publish(ring);
    while (read_some(ring, &next))
        continue;
    CHECK(write_one(ring, 6, bytes, 60));
    CHECK(write_one(ring, 7, bytes, 0));
    sl_ring_publish(ring);
    while (read_some(ring, &next))
        continue;
    CHECK(next == 8);
    sl_packet_ring_close(ring);
}

static void test_a_full_ring_refuses(void)
{
    CASE("a full ring refuses");
    struct sl_packet_ring *ring = sl_packet_ring_open();
    for (uint32_t i = 0; i < SL_RING_ENTRIES; i++) {
        CHECK(sl_ring_has_entry(ring));
        sl_ring_put(ring, SL_RING_PACKET, &(struct sl_frame){.number = i}, false);
    }
    CHECK(!sl_ring_has_entry(ring));
    sl_ring_publish(ring);
    struct sl_frame *frames;
    enum sl_ring_kind kind;
    CHECK(sl_ring_run(ring, 1, &frames, &kind) == 1);
    sl_ring_take(ring, 1);
    CHECK(sl_ring_has_entry(ring));
    sl_packet_ring_close(ring);
}

int main(void)
{
    test_order_and_bytes();
    test_what_is_not_published_is_not_seen();
    test_packets_without_bytes();
    test_a_full_ring_refuses();
    return 0;
}
