/* What a receive buffer knows of a stream, and its bounds. */
#include "receive_buffer.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);             \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* As the stack has them for TCP. */
static const struct sl_sequence_rules rules = {.width = 32, .policy = SL_POLICY_FIRST, .bounded = true,
                                               .limit_bytes = INT32_MAX, .limit_pieces = 256, .limit_records = 16, .record_words = 1};
static struct sl_pool pool;
static struct sl_sequence sequence;

/* Shortly before numbers wrap. */
enum { FIRST = 0x7ffffffc };
#define ORIGIN (2u * FIRST)

static unsigned extents(const struct mos_buffer *buffer)
{
    unsigned count = 0;
    for (const struct sl_piece *piece = mos_buffer_extents(buffer); piece; piece = sl_piece_next(piece))
        count++;
    return count;
}

static struct mos_spare spare;

/* As the stack does: `units` of sequence space from `offset` on. */
static void insert(uint64_t offset, uint64_t units)
{
    struct sl_packet_data direct = {0};
    const uint32_t number = ORIGIN + (uint32_t)offset;
    sl_sequence_begin(&sequence, &rules, &pool, number, 0);
    static const uint8_t bytes[UINT16_MAX];   /* not stored */
    const sl_bytes data = {bytes, (uint32_t)units, (uint32_t)units};
    CHECK(sl_sequence_insert(&sequence, &rules, &pool, &direct, sl_sequence_position(&sequence, &rules, number), data, units));
}

static void receive(struct mos_buffer *buffer, uint64_t from, const char *bytes)
{
    uint64_t to = from + strlen(bytes);
    mos_buffer_begins_at(buffer, ORIGIN);
    mos_buffer_keep(buffer, from, to, (const uint8_t *)bytes);
    insert(from, to - from);
    mos_buffer_skip(buffer, &rules, &pool);
}

static void begin(struct mos_buffer *buffer)
{
    sl_sequence_reset(&sequence, &rules);
    mos_buffer_begin(buffer, &sequence, &spare);
    insert((uint64_t)-1, 1);   /* SYN */
    mos_buffer_begins_at(buffer, ORIGIN);
    CHECK(mos_buffer_next(buffer) == 0 && mos_buffer_offset(buffer, ORIGIN + 5) == 5 && mos_buffer_offset(buffer, ORIGIN - 1) == -1);
}

static void end(struct mos_buffer *buffer)
{
    mos_buffer_free(buffer);
    sl_sequence_clear(&sequence, &rules, &pool);
    CHECK(pool.used == 0);
}

static bool holds(const struct mos_buffer *buffer, uint64_t offset, const char *bytes)
{
    uint8_t copy[64];
    uint64_t length = strlen(bytes);
    if (mos_buffer_there(buffer, offset) != length)
        return false;
    mos_buffer_copy_out(buffer, offset, length, copy);
    return memcmp(copy, bytes, length) == 0;
}

/* Extents that touch are one; those out of order become part of the stream when the hole before them is filled. */
static void order(void)
{
    struct mos_buffer b;
    begin(&b);
    mos_buffer_resize(&b, 32);
    receive(&b, 3, "def");
    receive(&b, 6, "gh");
    receive(&b, 12, "m");
    CHECK(mos_buffer_next(&b) == 0 && extents(&b) == 2 && mos_buffer_farthest(&b) == 13);
    CHECK(holds(&b, 3, "defgh") && holds(&b, 4, "efgh") && mos_buffer_there(&b, 0) == 0 && mos_buffer_there(&b, 8) == 0);
    CHECK(mos_buffer_knows(&b, 0, 4) && mos_buffer_knows(&b, 7, 20) && !mos_buffer_knows(&b, 0, 3) && !mos_buffer_knows(&b, 8, 12));
    CHECK(mos_buffer_next_with(&b, 0, 3) == 8 && mos_buffer_next_with(&b, 0, 2) == 2 && mos_buffer_next_with(&b, 1, 3) == 0);
    receive(&b, 0, "abcXYZ");
    CHECK(mos_buffer_next(&b) == 8 && extents(&b) == 1 && holds(&b, 0, "abcdefgh"));
    CHECK(mos_buffer_knows(&b, 7, 9) && !mos_buffer_knows(&b, 8, 9));
    b.last = true;
    receive(&b, 6, "GHIJ");
    CHECK(mos_buffer_next(&b) == 10 && holds(&b, 0, "abcdefGHIJ"));
    mos_buffer_resize(&b, 8);   /* the newest eight bytes of all that was received */
    CHECK(b.base == 5 && holds(&b, 5, "fGHIJ") && holds(&b, 12, "m"));
    end(&b);
}

/* A FIN takes a number, and is no byte. */
static void fin(void)
{
    struct mos_buffer b;
    begin(&b);
    mos_buffer_resize(&b, 32);
    receive(&b, 0, "abc");
    b.fin = 3;
    insert(3, 1);
    CHECK(mos_buffer_next(&b) == 3 && holds(&b, 0, "abc") && sequence.next == b.origin + 4);
    end(&b);
    begin(&b);   /* one out of order, in whose place bytes come */
    mos_buffer_resize(&b, 32);
    struct sl_packet_data direct = {0};
    const uint64_t place = sl_sequence_position(&sequence, &rules, ORIGIN + 3);
    CHECK(sl_sequence_insert(&sequence, &rules, &pool, &direct, place, (sl_bytes){0}, 1));
    receive(&b, 0, "abcdef");
    CHECK(mos_buffer_next(&b) == 6 && holds(&b, 0, "abcdef"));
    end(&b);
}

/* What cannot be kept together with newer bytes is given up, with the holes in it. */
static void give_up(void)
{
    struct mos_buffer b;
    begin(&b);
    mos_buffer_resize(&b, 8);
    receive(&b, 2, "c");
    receive(&b, 6, "ghij");
    CHECK(b.base == 2 && mos_buffer_next(&b) == 3 && extents(&b) == 1);
    receive(&b, 12, "mn");
    CHECK(b.base == 6 && mos_buffer_next(&b) == 10 && holds(&b, 6, "ghij") && holds(&b, 12, "mn"));
    end(&b);
}

/* Byte 0 may move while nothing has come. */
static void origin(void)
{
    struct mos_buffer b;
    sl_sequence_reset(&sequence, &rules);
    mos_buffer_begin(&b, &sequence, &spare);
    mos_buffer_begins_at(&b, 77);
    mos_buffer_begins_at(&b, ORIGIN);
    CHECK(mos_buffer_offset(&b, ORIGIN + 1) == 1 && mos_buffer_next(&b) == 0);
    mos_buffer_resize(&b, 8);
    receive(&b, 0, "a");
    mos_buffer_begins_at(&b, ORIGIN);
    mos_buffer_begins_at(&b, 77);
    CHECK(mos_buffer_offset(&b, ORIGIN + 1) == 1 && mos_buffer_next(&b) == 1);
    end(&b);
}

/* Memory of a buffer that ended is the next one's of that size; what is stored is bounded. */
static void memory(void)
{
    enum { BIG = MOS_SPARE_MOST / 2 };
    struct mos_spare own = {0};
    struct mos_buffer b[4];
    for (int i = 0; i < 4; i++) {
        mos_buffer_begin(&b[i], &sequence, &own);
        CHECK(mos_buffer_resize(&b[i], i < 3 ? BIG : 64) && mos_buffer_reserve(&b[i]));
    }
    const uint8_t *second = b[1].bytes;
    for (int i = 0; i < 4; i++)
        mos_buffer_free(&b[i]);
    CHECK(own.count == 2 && own.size == BIG);   /* neither the third, nor one of another size */
    for (int i = 0; i < 2; i++) {
        mos_buffer_begin(&b[i], &sequence, &own);
        CHECK(mos_buffer_resize(&b[i], i ? 64 : BIG) && mos_buffer_reserve(&b[i]));
    }
    CHECK(b[0].bytes == second && own.count == 1);
    mos_buffer_free(&b[0]);
    mos_buffer_free(&b[1]);
    mos_spare_free(&own);
    CHECK(own.count == 0);
}

int main(void)
{
    CHECK(sl_pool_open(&pool, 1 << 20) == 0);
    order();
    fin();
    give_up();
    origin();
    memory();
    mos_spare_free(&spare);
    sl_pool_close(&pool);
    return 0;
}
