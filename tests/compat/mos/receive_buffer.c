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

static struct sl_pool pool;

static unsigned extents(const struct mos_buffer *buffer)
{
    unsigned count = 0;
    for (const struct sl_piece *piece = mos_buffer_extents(buffer); piece; piece = sl_piece_next(piece))
        count++;
    return count;
}

static void receive(struct mos_buffer *buffer, uint64_t from, const char *bytes)
{
    uint64_t to = from + strlen(bytes);
    mos_buffer_keep(buffer, from, to, (const uint8_t *)bytes);
    mos_buffer_note(buffer, &pool, from, to);
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
    mos_buffer_begin(&b);
    mos_buffer_resize(&b, 32);
    receive(&b, 3, "def");
    receive(&b, 6, "gh");
    receive(&b, 12, "m");
    CHECK(mos_buffer_next(&b) == 0 && extents(&b) == 2 && b.farthest == 13);
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
    mos_buffer_free(&b, &pool);
    CHECK(pool.used == 0);
}

/* Beyond MOS_EXTENTS the first hole is given up, with what lies before it. */
static void many(void)
{
    struct mos_buffer b;
    mos_buffer_begin(&b);
    for (uint64_t i = 1; i <= MOS_EXTENTS + 10; i++)
        mos_buffer_note(&b, &pool, 10 * i, 10 * i + 1);
    CHECK(extents(&b) == MOS_EXTENTS && mos_buffer_next(&b) == 101 && b.base == 100);
    mos_buffer_free(&b, &pool);
    CHECK(pool.used == 0);
}

/* Without memory the buffer that holds extents for the longest time gives up its holes; the others stay. */
static void memory(void)
{
    enum { BUFFERS = 64 };
    static struct mos_buffer b[BUFFERS];
    sl_pool_close(&pool);
    CHECK(sl_pool_open(&pool, 64 << 10) == 0);
    for (unsigned i = 0; i < BUFFERS; i++) {
        mos_buffer_begin(&b[i]);
        for (uint64_t n = 1; n <= 20; n++)
            mos_buffer_note(&b[i], &pool, 10 * n, 10 * n + 1);
        CHECK(pool.used <= pool.budget && b[i].farthest == 201);
    }
    CHECK(extents(&b[0]) == 0 && mos_buffer_next(&b[0]) == 201);
    CHECK(extents(&b[BUFFERS - 1]) == 20 && mos_buffer_next(&b[BUFFERS - 1]) == 0);
    for (unsigned i = 0; i < BUFFERS; i++)
        mos_buffer_free(&b[i], &pool);
    CHECK(pool.used == 0);
    sl_pool_close(&pool);   /* and with none at all */
    CHECK(sl_pool_open(&pool, 0) == 0);
    mos_buffer_note(&b[0], &pool, 10, 20);
    CHECK(mos_buffer_next(&b[0]) == 20 && b[0].base == 10);
    mos_buffer_free(&b[0], &pool);
}

int main(void)
{
    CHECK(sl_pool_open(&pool, 1 << 20) == 0);
    order();
    many();
    memory();
    sl_pool_close(&pool);
    return 0;
}
