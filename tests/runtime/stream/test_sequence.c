/* sequence.h: what it does, case by case; at the end against the naive model. */
#include "sequence_model.h"

/* --- one side of a connection, and a few verbs --- */

static const struct sl_sequence_rules TCP = {
    .width = 32, .buffer_data = true, .limit_bytes = 1 << 20, .limit_pieces = 1 << 20, .limit_records = 100,
    .record_words = 1,
};

struct side {
    struct sl_sequence seq;
    struct sl_sequence_rules rules;
    struct sl_pool pool;
    struct sl_packet_data direct;
    uint8_t memory[4096];
};
static struct side side;

static void open_side(struct sl_sequence_rules rules, uint64_t budget) {
    side.rules = rules;
    side.direct.present = false;
    CHECK(sl_pool_open(&side.pool, budget) == 0);
    memset(&side.seq, 0xa5, sizeof side.seq);   /* reset needs nothing of the memory */
    sl_sequence_reset(&side.seq, &side.rules);
}

static void close_side(void) {
    sl_sequence_clear(&side.seq, &side.rules, &side.pool);
    CHECK(side.pool.used == 0);
    sl_pool_close(&side.pool);
}

static sl_bytes text(const char *string) {
    uint32_t n = (uint32_t)strlen(string);
    return (sl_bytes){(const uint8_t *)string, n, n};
}

static uint64_t position_of(uint64_t meta) { return sl_sequence_position(&side.seq, &side.rules, meta); }

/* A packet arrives; its bytes stay lent until `read` or `leave`. */
static bool insert(uint64_t meta, sl_bytes data, uint64_t units) {
    sl_sequence_begin(&side.seq, &side.rules, &side.pool, meta, false);
    bool complete =
        sl_sequence_insert(&side.seq, &side.rules, &side.pool, &side.direct, position_of(meta), data, units);
    sequence_check(&side.seq);
    return complete;
}

static bool leave(void) {
    bool complete = sl_sequence_settle(&side.seq, &side.rules, &side.pool, &side.direct);
    sequence_check(&side.seq);
    return complete;
}

static void send_units(uint64_t meta, const char *string, uint64_t more) {
    CHECK(insert(meta, text(string), strlen(string) + more));
}

static void arrive(uint64_t meta, const char *string) { send_units(meta, string, 0); }

static sl_bytes assemble(uint64_t *offset) {
    struct sl_scratch scratch = {side.memory, sizeof side.memory, 0};
    sl_bytes all = sl_sequence_assemble(&side.seq, &side.rules, &side.pool, &side.direct, &scratch, offset);
    sequence_check(&side.seq);
    return all;
}

/* What is delivered now is this, from this stream offset on. */
#define READS(expected_offset, string)                                         \
    do {                                                                       \
        uint64_t offset_;                                                      \
        sl_bytes all_ = assemble(&offset_);                                    \
        CHECK_EQUAL(offset_, expected_offset);                                 \
        CHECK_EQUAL(all_.length, strlen(string));                              \
        CHECK(all_.captured == all_.length);                                   \
        CHECK(all_.length == 0 || memcmp(all_.at, string, all_.length) == 0);  \
    } while (0)

#define HOLDS(expected_bytes, expected_pieces, expected_records)                \
    do {                                                                        \
        struct sl_holding holding_ = sl_sequence_holding(&side.seq);            \
        CHECK_EQUAL(holding_.bytes, expected_bytes);                            \
        CHECK_EQUAL(holding_.pieces, expected_pieces);                          \
        CHECK_EQUAL(holding_.records, expected_records);                        \
    } while (0)

static bool give_up(struct sl_gap *gap) {
    bool given_up = sl_sequence_give_up(&side.seq, &side.rules, &side.pool, gap);
    sequence_check(&side.seq);
    return given_up;
}

#define SKIPS_TO(meta) \
    sl_sequence_skip_to(&side.seq, &side.rules, &side.pool, position_of(meta), &gap)

#define GAP(expected_offset, expected_length, expected_cut)  \
    do {                                                     \
        struct sl_gap gap_;                                  \
        CHECK(give_up(&gap_));                               \
        CHECK_EQUAL(gap_.offset, expected_offset);           \
        CHECK_EQUAL(gap_.length, expected_length);           \
        CHECK(gap_.cut == (expected_cut));                   \
    } while (0)

static bool room(uint64_t meta, const char *string) {
    return sl_sequence_room(&side.seq, &side.rules, &side.pool, position_of(meta), text(string),
                            *string ? strlen(string) : 1);
}

/* --- positions --- */

static void test_positions(void) {
    CASE("a number is unwrapped around the next expected one, every boundary of the circle");
    const unsigned widths[] = {2, 8, 16, 32, 63, 64};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct sl_sequence_rules rules = {.width = (uint8_t)widths[i]};
        uint64_t half = UINT64_C(1) << (widths[i] - 1), mask = sl_mask(widths[i]);
        const uint64_t nexts[] = {0, 1, half - 1, half, mask - 1, mask, mask + 1, 5 * mask};
        for (size_t n = 0; n < sizeof nexts / sizeof *nexts; n++) {
            struct sl_sequence seq = {.based = 1, .next = nexts[n]};
            const uint64_t ahead[] = {0, 1, half - 1};
            const uint64_t distance[] = {1, half - 1, half};
            for (int k = 0; k < 3; k++) {
                CHECK_EQUAL(sl_sequence_position(&seq, &rules, (nexts[n] + ahead[k]) & mask), nexts[n] + ahead[k]);
                CHECK_EQUAL(sl_sequence_position(&seq, &rules, (nexts[n] - distance[k]) & mask), nexts[n] - distance[k]);
            }
        }
        struct sl_sequence unbased = {.next = 7};
        CHECK_EQUAL(sl_sequence_position(&unbased, &rules, mask), mask);
    }

    CASE("a window is half open, modulo the width");
    struct sl_sequence_rules rules = {.width = 16};
    const struct { uint64_t meta, length, low, high; bool in; } rows[] = {
        {10, 1, 10, 20, true},          {9, 1, 10, 20, false},         {9, 2, 10, 20, true},
        {19, 1, 10, 20, true},          {20, 1, 10, 20, false},        {10, 0, 10, 20, true},
        {9, 0, 10, 20, false},          {20, 0, 10, 20, false},        {0, 100, 10, 20, true},
        {10, 5, 10, 10, false},         /* over the end of 16 bits: */ {0xfffe, 1, 0xfffe, 4, true},
        {3, 1, 0xfffe, 4, true},        {4, 1, 0xfffe, 4, false},      {0xfffd, 1, 0xfffe, 4, false},
        {0xfff0, 15, 0xfffe, 4, true},  {0xfff0, 14, 0xfffe, 4, false}, {20, 0x10000, 10, 20, true},
        {20, 0xfff6, 10, 20, false},    {20, 0xfff7, 10, 20, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(sl_sequence_in_window(&rules, rows[i].meta, rows[i].length, rows[i].low, rows[i].high) == rows[i].in);
    rules.width = 64;
    CHECK(sl_sequence_in_window(&rules, UINT64_MAX, 1, UINT64_MAX, 3) && !sl_sequence_in_window(&rules, 3, 1, 9, 3));

    CASE("a stream goes on over the end of its numbers");
    for (unsigned width = 8; width <= 64; width += 8) {
        struct sl_sequence_rules narrow = TCP;
        narrow.width = (uint8_t)width;
        open_side(narrow, 1 << 16);
        uint64_t first = sl_mask(width) - 2, mask = sl_mask(width);
        arrive(first, "ab");
        READS(0, "ab");
        arrive((first + 5) & mask, "fg");   /* over the end, and out of order */
        CHECK(leave());
        READS(2, "");
        arrive((first + 2) & mask, "cde");
        READS(2, "cdefg");
        CHECK_EQUAL(side.seq.next - side.seq.start, 7);
        close_side();
    }

    CASE("packets from before the start are dropped, also when the start is 0");
    open_side(TCP, 1 << 16);
    arrive(0, "ab");
    READS(0, "ab");
    arrive(0xfffffff0, "0123456789abcdefXYZ");   /* 16 before the start, 2 known, 1 new */
    READS(2, "Z");
    arrive(0xfffffff0, "0123");
    CHECK(!sl_sequence_waiting(&side.seq, &side.direct));
    close_side();

    CASE("a linear sequence begins at 0 and ends before 2^63");
    struct sl_sequence_rules linear = TCP;
    linear.linear = true;
    open_side(linear, 1 << 16);
    CHECK(side.seq.based);
    sl_sequence_begin(&side.seq, &side.rules, &side.pool, 77, true);
    CHECK(side.seq.start == 0 && side.seq.next == 0);
    arrive(3, "de");
    CHECK(leave());
    arrive(0, "abc");
    READS(0, "abcde");
    const uint64_t far[] = {SL_FARTHEST - 2, SL_FARTHEST, SL_FARTHEST + 1, UINT64_MAX - 1, UINT64_MAX};
    for (int i = 0; i < 5; i++) {
        arrive(far[i], "abcdef");
        uint64_t cursor = 0;
        struct sl_overlap overlap;
        CHECK(sl_sequence_overlap(&side.seq, &side.rules, position_of(far[i]), text("abcdef"), &cursor, &overlap) ==
              (i == 0));
        HOLDS(2, 1, 0);
        CHECK(insert(far[i], text(""), UINT64_MAX));
    }
    GAP(5, SL_FARTHEST - 2 - 5, false);
    READS(SL_FARTHEST - 2, "ab");
    arrive(SL_FARTHEST, "x");
    READS(SL_FARTHEST, "");
    close_side();
}

/* --- the start --- */

static void test_start(void) {
    CASE("the first packet sets the base; a SYN moves it while nothing is held or delivered");
    open_side(TCP, 1 << 16);
    struct sl_sequence *seq = &side.seq;
    sl_sequence_begin(seq, &side.rules, &side.pool, 1000, false);
    CHECK(seq->based && seq->start == 1000 && seq->next == 1000 && seq->delivered == 1000);
    sl_sequence_begin(seq, &side.rules, &side.pool, 2000, false);
    CHECK(seq->start == 1000);
    const uint64_t word = 1;
    CHECK(sl_sequence_record(seq, &side.rules, &side.pool, 1005, &word));
    CHECK(insert(1010, text(""), 1));   /* a FIN far ahead is no data */
    HOLDS(0, 1, 1);
    sl_sequence_begin(seq, &side.rules, &side.pool, 500, true);
    CHECK(seq->start == 500 && seq->next == 500);
    HOLDS(0, 0, 0);
    CHECK(side.pool.used == 0);

    CASE("a SYN is sequence space in front of offset 0; retransmitted, it changes nothing");
    for (int i = 0; i < 3; i++) {
        sl_sequence_begin(seq, &side.rules, &side.pool, 500, true);
        CHECK(insert(500, text(""), 1));
        CHECK(seq->start == 501 && seq->next == 501 && seq->skipped == 0);
    }
    arrive(501, "abc");
    sl_sequence_begin(seq, &side.rules, &side.pool, 900, true);   /* the bytes of this very packet count */
    CHECK(seq->start == 501);
    READS(0, "abc");
    sl_sequence_begin(seq, &side.rules, &side.pool, 900, true);
    CHECK(seq->start == 501 && seq->next == 504);
    close_side();

    CASE("held data keeps the base, too; so does a gap");
    open_side(TCP, 1 << 16);
    sl_sequence_begin(seq, &side.rules, &side.pool, 10, false);
    arrive(15, "x");
    sl_sequence_begin(seq, &side.rules, &side.pool, 900, true);
    CHECK(seq->start == 10);
    GAP(0, 5, false);
    READS(5, "x");
    sl_sequence_begin(seq, &side.rules, &side.pool, 900, true);
    CHECK(seq->start == 10);
    close_side();

    CASE("data on a SYN lies at its number + 1");
    open_side(TCP, 1 << 16);
    CHECK(insert(100, text(""), 1));
    arrive(101, "hello");
    READS(0, "hello");
    close_side();
}

/* --- order --- */

static void test_order(void) {
    CASE("in order: the packet's own bytes, nothing held");
    open_side(TCP, 1 << 16);
    static const char first[] = "first", second[] = "second";
    CHECK(sl_sequence_idle(&side.seq));
    arrive(7, first);
    CHECK(sl_sequence_waiting(&side.seq, &side.direct) && side.direct.present && side.direct.position == 7);
    CHECK(!sl_sequence_idle(&side.seq));
    uint64_t offset;
    CHECK(assemble(&offset).at == (const uint8_t *)first && offset == 0);
    CHECK(!sl_sequence_waiting(&side.seq, &side.direct));
    arrive(12, second);
    CHECK(assemble(&offset).at == (const uint8_t *)second && offset == 5);
    CHECK(side.pool.reserved == 0 && side.seq.held == NULL);
    READS(11, "");

    CASE("a retransmission with a new end: only the end, still not copied");
    arrive(12, "secondary");
    CHECK(side.direct.present);
    READS(11, "ary");
    arrive(12, "secondary");
    READS(14, "");

    CASE("out of order: held until the hole is filled");
    CHECK(sl_sequence_idle(&side.seq));
    arrive(24, "df");   /* 21 is next */
    CHECK(leave());
    HOLDS(2, 1, 0);
    CHECK(!sl_sequence_idle(&side.seq));
    READS(14, "");
    arrive(27, "zz");
    HOLDS(4, 2, 0);
    arrive(21, "abc");
    READS(14, "abcdf");
    HOLDS(2, 1, 0);
    arrive(26, "y");
    READS(19, "yzz");
    CHECK(side.pool.used == 0 && side.seq.held == NULL);

    CASE("not assembled: the bytes are kept for later");
    arrive(29, "12");
    CHECK(leave());
    CHECK(!side.direct.present && sl_sequence_waiting(&side.seq, &side.direct));
    HOLDS(2, 1, 0);
    arrive(31, "34");
    CHECK(leave());
    arrive(31, "345");
    READS(22, "12345");
    CHECK(side.pool.used == 0);

    CASE("two inserts for one packet");
    arrive(34, "uv");
    arrive(36, "wx");
    arrive(40, "??");
    READS(27, "uvwx");
    HOLDS(2, 1, 0);
    close_side();

    CASE("a scratch that is too small delivers what fits, then the rest");
    open_side(TCP, 1 << 16);
    arrive(0, "aaaa");
    CHECK(leave());
    arrive(4, "bbbb");
    CHECK(leave());
    arrive(8, "cccc");
    CHECK(leave());
    uint8_t memory[9];
    struct sl_scratch scratch = {memory, sizeof memory, 0};
    sl_bytes all = sl_sequence_assemble(&side.seq, &side.rules, &side.pool, &side.direct, &scratch, &offset);
    CHECK(offset == 0 && all.length == 8 && memcmp(all.at, "aaaabbbb", 8) == 0);
    CHECK(sl_sequence_waiting(&side.seq, &side.direct) && scratch.used == 8);
    all = sl_sequence_assemble(&side.seq, &side.rules, &side.pool, &side.direct, &scratch, &offset);
    CHECK(offset == 8 && all.length == 0);
    READS(8, "cccc");
    close_side();

    CASE("more bytes than a block holds");
    open_side(TCP, 1 << 20);
    enum { LARGE = 300000 };
    uint8_t *large = malloc(LARGE), *copy = malloc(LARGE + 1);
    for (int i = 0; i < LARGE; i++)
        large[i] = (uint8_t)(i ^ i >> 8);
    arrive(0, "");
    CHECK(insert(1, (sl_bytes){large, LARGE, LARGE}, LARGE));
    HOLDS(LARGE, 3, 0);
    arrive(0, "x");
    scratch = (struct sl_scratch){copy, LARGE + 1, 0};
    all = sl_sequence_assemble(&side.seq, &side.rules, &side.pool, &side.direct, &scratch, &offset);
    CHECK(all.length == LARGE + 1 && all.at[0] == 'x' && memcmp(all.at + 1, large, LARGE) == 0);
    free(large);
    free(copy);
    close_side();

    CASE("a hundred thousand pieces, ascending, descending and in no order: no walk over all of them");
    for (int order = 0; order < 3; order++) {
        open_side(TCP, 1 << 26);
        arrive(0, "");
        for (uint64_t i = 0; i < 100000; i++) {
            const uint64_t places[] = {i + 1, 100000 - i, 1 + i * 7919 % 100000};
            uint64_t meta = 2 * places[order], word = meta;
            CHECK(sl_sequence_insert(&side.seq, &side.rules, &side.pool, &side.direct, meta, text("x"), 1));
            side.rules.limit_records = 1000000;
            CHECK(sl_sequence_record(&side.seq, &side.rules, &side.pool, meta, &word));
        }
        HOLDS(100000, 100000, 100000);
        close_side();
    }
}

static void test_joined(void) {
    CASE("small pieces that touch are one, whichever came first; not over a hole");
    open_side(TCP, 1 << 20);
    arrive(0, "");
    arrive(5, "fg");
    arrive(7, "hi");
    HOLDS(4, 1, 0);
    arrive(3, "de");
    HOLDS(6, 1, 0);
    arrive(11, "l");
    HOLDS(7, 2, 0);
    arrive(1, "bcdefghijklm");
    HOLDS(12, 1, 0);
    arrive(0, "a");
    READS(0, "abcdefghijklm");
    close_side();

    CASE("a run of single bytes takes few pieces, of nearly 2 KiB each");
    open_side(TCP, 1 << 20);
    arrive(0, "");
    char expected[4001] = ".";
    for (unsigned i = 1; i < 4000; i++) {
        expected[i] = (char)('a' + i % 26);
        insert(i, (sl_bytes){(const uint8_t *)expected + i, 1, 1}, 1);
        sequence_check(&side.seq);
    }
    HOLDS(3999, 2, 0);
    CHECK(side.pool.used <= 2 * 2048 + 256);
    arrive(0, ".");
    READS(0, expected);
    close_side();

    CASE("segments of ordinary size are not moved");
    open_side(TCP, 1 << 20);
    arrive(0, "");
    insert(1, (sl_bytes){(const uint8_t *)expected + 1, 1448, 1448}, 1448);
    const struct sl_piece *held = sl_piece_first(side.seq.held);
    insert(1449, (sl_bytes){(const uint8_t *)expected + 1449, 1448, 1448}, 1448);
    HOLDS(2896, 2, 0);
    CHECK(sl_piece_first(side.seq.held) == held);
    close_side();

    CASE("a policy that asks where segments began finds them as they came");
    struct sl_sequence_rules rules = TCP;
    rules.policy = SL_POLICY_BSD;
    open_side(rules, 1 << 20);
    arrive(0, "");
    arrive(5, "fg");
    arrive(7, "hi");
    HOLDS(4, 2, 0);
    close_side();

    CASE("what has no bytes is joined, however long: cut bytes, extents");
    open_side(TCP, 1 << 20);
    arrive(0, "");
    for (unsigned i = 0; i < 5000; i++)
        insert(10 + i, (sl_bytes){NULL, 0, 1400}, 1400);
    HOLDS(0, 1, 0);
    struct sl_gap gap;
    CHECK(give_up(&gap) && gap.length == 10 && !gap.cut);
    CHECK(give_up(&gap) && gap.length == 4999 + 1400 && gap.cut);
    close_side();
    rules = TCP;
    rules.buffer_data = false;
    open_side(rules, 1 << 20);
    arrive(0, "");
    for (unsigned i = 0; i < 5000; i++)
        insert(10 + 1400 * i, (sl_bytes){(const uint8_t *)expected, 1400, 1400}, 1400);
    HOLDS(5000 * 1400, 1, 0);
    close_side();

    CASE("no memory to join: they stay as they are");
    open_side(TCP, 256 + 64 + 128);
    arrive(0, "");
    arrive(5, "fghijkl");
    arrive(12, "mnopqrstuvwxyzABCDEFGHIJ");
    HOLDS(31, 2, 0);
    sequence_check(&side.seq);
    arrive(0, "abcde");
    READS(0, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ");
    close_side();
}

/* --- which copy wins --- */

static void test_policies(void) {
    CASE("each policy, by the place of the new segment n to the piece o at [4, 8)");
    static const char *const names[] = {"first", "last", "bsd", "bsd_right", "linux", "windows", "solaris",
                                        "linux fragments", "windows fragments", "solaris fragments"};
    enum { POLICIES = sizeof names / sizeof *names };
    const struct { unsigned start, end; char winner[POLICIES]; } table[] = {
        /* in the order of the names: who keeps the bytes that both have */
        {4, 8, {'o', 'n', 'o', 'n', 'o', 'o', 'n', 'n', 'o', 'o'}},    /* the same */
        {2, 6, {'o', 'n', 'n', 'o', 'n', 'n', 'o', 'n', 'o', 'o'}},    /* over its start */
        {6, 10, {'o', 'n', 'o', 'n', 'o', 'o', 'n', 'o', 'o', 'o'}},   /* over its end */
        {5, 7, {'o', 'n', 'o', 'n', 'o', 'o', 'o', 'o', 'o', 'o'}},    /* inside */
        {2, 10, {'o', 'n', 'n', 'o', 'n', 'n', 'n', 'n', 'n', 'n'}},   /* around */
        {4, 10, {'o', 'n', 'o', 'n', 'n', 'o', 'n', 'n', 'o', 'o'}},   /* same start, longer */
        {4, 6, {'o', 'n', 'o', 'n', 'o', 'o', 'o', 'n', 'o', 'o'}},    /* same start, shorter */
        {2, 8, {'o', 'n', 'n', 'o', 'n', 'n', 'n', 'n', 'o', 'n'}},    /* same end, longer */
        {6, 8, {'o', 'n', 'o', 'n', 'o', 'o', 'o', 'o', 'o', 'o'}},    /* same end, shorter */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (uint8_t policy = 0; policy < POLICIES; policy++) {
            check_context = names[policy];
            unsigned start = table[i].start, end = table[i].end;
            struct sl_sequence_rules rules = TCP;
            rules.policy = policy;
            open_side(rules, 1 << 16);
            arrive(0, "");
            arrive(4, "oooo");
            char segment[11] = "nnnnnnnnnn", filler[11] = "..........", expected[11] = "";
            segment[end - start] = 0;
            arrive(start, segment);
            for (unsigned p = 0; p < 8 || p < end; p++) {
                bool new = p >= start && p < end, old = p >= 4 && p < 8;
                expected[p] = new && old ? table[i].winner[policy] : new ? 'n' : old ? 'o' : '.';
                expected[p + 1] = 0;
            }
            filler[start < 4 ? start : 4] = 0;
            arrive(0, filler);
            READS(0, expected);
            close_side();
        }

    CASE("each piece is asked for itself; the parts between become pieces of their own");
    struct sl_sequence_rules rules = TCP;
    rules.policy = SL_POLICY_SOLARIS;
    open_side(rules, 1 << 16);
    arrive(0, "");
    arrive(2, "aa");
    arrive(6, "bb");
    arrive(10, "cccc");
    HOLDS(8, 3, 0);
    arrive(1, "nnnnnnnnnnn");   /* [1, 12): covers a and b, not c */
    HOLDS(13, 6, 0);
    arrive(0, ".");
    READS(0, ".nnnnnnnnncccc");
    close_side();

    CASE("what was delivered stays, whatever the policy");
    rules.policy = SL_POLICY_LAST;
    open_side(rules, 1 << 16);
    arrive(0, "abcd");
    READS(0, "abcd");
    arrive(0, "ABCDE");
    READS(4, "E");

    CASE("contiguous, but not delivered yet, can still be replaced");
    arrive(5, "fg");
    CHECK(leave());
    arrive(6, "GH");
    READS(5, "fGH");
    close_side();
}

/* --- what is known already --- */

#define OVERLAP(expected_offset, new_copy, old_copy)                                              \
    do {                                                                                          \
        struct sl_overlap out_;                                                                   \
        const char *old_ = (old_copy);                                                            \
        CHECK(sl_sequence_overlap(&side.seq, &side.rules, position, data, &cursor, &out_));       \
        CHECK_EQUAL(out_.offset, expected_offset);                                                \
        CHECK_EQUAL(out_.length, strlen(new_copy));                                               \
        CHECK(out_.arrived.captured == out_.length && out_.old.length == out_.length);              \
        CHECK(memcmp(out_.arrived.at, new_copy, out_.length) == 0);                                 \
        CHECK((out_.old.at != NULL) == (old_ != NULL));                                           \
        CHECK_EQUAL(out_.old.captured, old_ ? strlen(old_) : 0);                                   \
        CHECK(!old_ || !memcmp(out_.old.at, old_, out_.old.captured));                            \
    } while (0)
#define OVERLAPS_OF(meta, string) \
    position = position_of(meta), data = text(string), cursor = 0
#define NO_MORE CHECK(!sl_sequence_overlap(&side.seq, &side.rules, position, data, &cursor, &(struct sl_overlap){0}))

static void test_overlaps(void) {
    uint64_t position, cursor;
    sl_bytes data;

    CASE("overlaps: the delivered part, then each piece, with both copies");
    open_side(TCP, 1 << 16);
    arrive(100, "abcd");
    READS(0, "abcd");
    OVERLAPS_OF(104, "new");
    NO_MORE;
    OVERLAPS_OF(102, "CDE");
    OVERLAP(2, "CD", NULL);
    NO_MORE;
    arrive(106, "gh");
    arrive(110, "kl");
    OVERLAPS_OF(98, "yzABCDEFGHIJKLM");   /* y and z lie before the start */
    OVERLAP(0, "ABCD", NULL);
    OVERLAP(6, "GH", "gh");
    OVERLAP(10, "KL", "kl");
    NO_MORE;
    NO_MORE;
    OVERLAPS_OF(107, "HIJK");
    OVERLAP(7, "H", "h");
    OVERLAP(10, "K", "k");
    NO_MORE;
    OVERLAPS_OF(104, "EF");
    NO_MORE;
    OVERLAPS_OF(108, "IJ");
    NO_MORE;
    OVERLAPS_OF(112, "M");
    NO_MORE;
    OVERLAPS_OF(90, "0123456789");
    NO_MORE;
    OVERLAPS_OF(106, "");
    NO_MORE;
    OVERLAPS_OF(105, "FGH");
    data.captured = 2;   /* only captured bytes are compared */
    OVERLAP(6, "G", "g");
    NO_MORE;
    close_side();

    CASE("history: the old copy of the last delivered bytes, if the first of the range is one");
    struct sl_sequence_rules rules = TCP;
    rules.history = 5;
    open_side(rules, 1 << 16);
    arrive(0, "abcdefgh");
    READS(0, "abcdefgh");
    OVERLAPS_OF(3, "DEFGHI");
    OVERLAP(3, "DEFGH", "defgh");
    NO_MORE;
    OVERLAPS_OF(2, "CDE");
    OVERLAP(2, "CDE", NULL);
    NO_MORE;
    for (unsigned i = 8; i < 200; i++) {   /* byte by byte, through every state of the buffer */
        char byte[2] = {(char)('a' + i % 26), 0}, last[6];
        arrive(i, byte);
        READS(i, byte);
        for (unsigned k = 0; k < 5; k++)
            last[k] = (char)('a' + (i - 4 + k) % 26);
        last[5] = 0;
        OVERLAPS_OF(i - 4, "VWXYZ");
        OVERLAP(i - 4, "VWXYZ", last);
        OVERLAPS_OF(i - 5, "UVWXYZ");
        OVERLAP(i - 5, "UVWXYZ", NULL);
    }

    CASE("history: also of what was assembled from pieces; not across a gap");
    arrive(202, "34");
    CHECK(leave());
    arrive(200, "12");
    READS(200, "1234");
    OVERLAPS_OF(200, "ABCD");
    OVERLAP(200, "ABCD", "1234");
    arrive(205, "67");
    GAP(204, 1, false);
    READS(205, "67");
    OVERLAPS_OF(205, "FG");
    OVERLAP(205, "FG", "67");
    OVERLAPS_OF(203, "DEFG");
    OVERLAP(203, "DEFG", NULL);

    CASE("a retransmission after the FIN has the offsets of the first time");
    send_units(207, "89", 1);
    READS(207, "89");
    CHECK(side.seq.skipped == 1 && side.seq.next == 210);
    OVERLAPS_OF(206, "GHI");
    OVERLAP(206, "GHI", "789");
    NO_MORE;
    OVERLAPS_OF(206, "GHIJ");   /* where the FIN lay there was no byte */
    OVERLAP(206, "GHIJ", "789");
    close_side();

    CASE("history of 65536 and more");
    const uint32_t sizes[] = {65536, 70000, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        rules.history = sizes[i];
        open_side(rules, 1 << 20);
        static uint8_t bytes[1000];
        for (unsigned n = 0; n < 300; n++) {
            memset(bytes, (int)n, sizeof bytes);
            CHECK(insert(n * 1000, (sl_bytes){bytes, 1000, 1000}, 1000));
            uint64_t offset;
            CHECK(assemble(&offset).length == 1000);
        }
        struct sl_overlap out;
        memset(bytes, 0, sizeof bytes);
        data = (sl_bytes){bytes, 1000, 1000};
        position = position_of(300000 - 65536), cursor = 0;
        CHECK(sl_sequence_overlap(&side.seq, &rules, position, data, &cursor, &out) && out.old.at);
        CHECK(out.old.at[0] == (uint8_t)234 && out.old.at[999] == (uint8_t)235);
        position--, cursor = 0;
        CHECK(sl_sequence_overlap(&side.seq, &rules, position, data, &cursor, &out) && !out.old.at);
        close_side();
    }
}

/* --- what is not bytes --- */

static void test_cut_and_phantom(void) {
    CASE("cut by the snap length: delivered up to there, then a hole that knows its cause");
    open_side(TCP, 1 << 16);
    sl_bytes snapped = text("abcdef");
    snapped.length = 10;
    CHECK(insert(0, snapped, 10));
    CHECK(side.direct.present && sl_sequence_cut(&side.seq));
    HOLDS(0, 1, 0);
    READS(0, "abcdef");
    CHECK(side.seq.next == 6);
    arrive(10, "kl");
    CHECK(leave());
    READS(6, "");
    GAP(6, 4, true);
    READS(10, "kl");
    CHECK(!sl_sequence_cut(&side.seq) && side.pool.used == 0);

    CASE("bytes take the place of a cut; what they leave of it stays a cut");
    snapped = (sl_bytes){NULL, 0, 10};
    CHECK(insert(12, snapped, 10));
    CHECK(sl_sequence_cut(&side.seq));
    arrive(15, "pqr");                       /* out of its middle */
    HOLDS(3, 3, 0);
    arrive(12, "m");                         /* off its start */
    READS(12, "m");
    CHECK(sl_sequence_cut(&side.seq));
    arrive(20, "uvw");                       /* off its end */
    GAP(13, 2, true);
    READS(15, "pqr");
    GAP(18, 2, true);
    READS(20, "uvw");
    struct sl_gap gap;
    CHECK(!give_up(&gap) && side.pool.used == 0);

    CASE("neither a cut nor a FIN covers what is known");
    arrive(24, "yz");
    CHECK(insert(23, (sl_bytes){NULL, 0, 5}, 8));   /* cut [23, 28), FIN [28, 31) */
    HOLDS(2, 4, 0);
    CHECK(sl_sequence_cut(&side.seq));
    arrive(23, "x");
    READS(23, "xyz");
    CHECK(sl_sequence_cut(&side.seq) && side.seq.next == 26);
    GAP(26, 2, true);
    CHECK(side.seq.next == 31 && side.seq.skipped == 3 && side.seq.held == NULL);
    READS(28, "");
    close_side();

    CASE("a FIN in order costs nothing; it counts after the bytes before it");
    open_side(TCP, 1 << 16);
    send_units(0, "abc", 1);
    CHECK(side.seq.next == 4 && side.seq.skipped == 0 && side.pool.reserved == 0);
    READS(0, "abc");
    CHECK(side.seq.skipped == 1 && side.seq.delivered == 4);
    arrive(4, "more");   /* nobody should, but then it is the next byte of the stream */
    READS(3, "more");
    CHECK(insert(8, text(""), 2));
    CHECK(side.seq.skipped == 3 && side.seq.delivered == 10);
    close_side();

    CASE("a FIN settled with its bytes, and a FIN that comes early");
    open_side(TCP, 1 << 16);
    send_units(0, "abc", 1);
    CHECK(leave());
    HOLDS(3, 2, 0);
    CHECK(side.seq.next == 4 && side.seq.delivered == 0);
    READS(0, "abc");
    CHECK(side.seq.skipped == 1 && side.pool.used == 0);
    send_units(6, "gh", 1);
    arrive(4, "ef");
    READS(3, "efgh");
    CHECK(side.seq.skipped == 2 && side.seq.next == 9 && side.pool.used == 0);
    close_side();

    CASE("bytes replace a FIN that waits, also when they go on after it");
    open_side(TCP, 1 << 16);
    send_units(0, "abc", 3);
    CHECK(leave());
    CHECK(side.seq.next == 6);
    arrive(4, "EFGHI");
    CHECK(side.seq.next == 9);
    HOLDS(8, 3, 0);
    READS(0, "abcEFGHI");
    CHECK(side.seq.skipped == 1);
    close_side();

    CASE("units below the data clip it; the sequence space is never smaller than 0");
    open_side(TCP, 1 << 16);
    CHECK(insert(0, text("abcdef"), 4));
    READS(0, "abcd");
    CHECK(insert(4, text("abc"), 0));
    CHECK(side.seq.next == 4 && !sl_sequence_waiting(&side.seq, &side.direct));
    snapped = text("ef");
    snapped.length = 9;
    CHECK(insert(4, snapped, 2));
    CHECK(!sl_sequence_cut(&side.seq));
    READS(4, "ef");

    CASE("sequence space without end is clipped");
    CHECK(insert(10, text("x"), UINT64_MAX));
    GAP(6, 4, false);
    READS(10, "x");
    CHECK(side.seq.next - 6 == SL_FARTHEST);   /* as far as could be seen from where it was inserted */
    arrive((uint32_t)side.seq.next, "y");
    READS(11, "y");
    close_side();
}

static void test_gaps(void) {
    CASE("a gap ends at the first piece or record beyond");
    open_side(TCP, 1 << 16);
    struct sl_gap gap;
    CHECK(!give_up(&gap));
    arrive(0, "ab");
    CHECK(!give_up(&gap));   /* bytes wait */
    READS(0, "ab");
    CHECK(!give_up(&gap));
    arrive(5, "fg");
    arrive(7, "hi");
    const uint64_t word = 9;
    CHECK(sl_sequence_record(&side.seq, &side.rules, &side.pool, 4, &word));
    CHECK(sl_sequence_record(&side.seq, &side.rules, &side.pool, 30, &word));
    GAP(2, 2, false);   /* to the record */
    GAP(4, 1, false);   /* over the released record, to the piece */
    CHECK(side.seq.next == 9);
    CHECK(!give_up(&gap));
    READS(5, "fghi");
    GAP(9, 21, false);
    CHECK(!give_up(&gap));
    HOLDS(0, 0, 2);
    close_side();
}

static void test_records(void) {
    CASE("records come back lowest first, in order of arrival, when they are not beyond any more");
    open_side(TCP, 1 << 16);
    arrive(0, "");
    const uint64_t positions[] = {5, 3, 8, 3, 5, 1, 8, 4};
    for (uint64_t i = 0; i < 8; i++)
        CHECK(sl_sequence_record(&side.seq, &side.rules, &side.pool, positions[i], &i));
    uint64_t word = 99;
    CHECK(!sl_sequence_release(&side.seq, &side.rules, &side.pool, &word) && word == 99);
    arrive(0, "abcde");
    const uint64_t order[] = {5, 1, 3, 7, 0, 4};
    for (int i = 0; i < 6; i++) {
        CHECK(sl_sequence_release(&side.seq, &side.rules, &side.pool, &word));
        CHECK_EQUAL(word, order[i]);
    }
    CHECK(!sl_sequence_release(&side.seq, &side.rules, &side.pool, &word));
    HOLDS(0, 0, 2);
    READS(0, "abcde");
    close_side();

    CASE("records over the end of 64 bits");
    struct sl_sequence_rules rules = TCP;
    rules.width = 64;
    rules.record_words = 2;
    open_side(rules, 1 << 16);
    arrive(UINT64_MAX - 1, "");
    for (uint64_t i = 0; i < 6; i++)
        CHECK(sl_sequence_record(&side.seq, &rules, &side.pool, UINT64_MAX - 1 + (i * 5) % 6, (uint64_t[2]){i, ~i}));
    arrive(UINT64_MAX - 1, "abcde");
    const uint64_t wrapped[] = {0, 5, 4, 3, 2, 1};
    for (int i = 0; i < 6; i++) {
        uint64_t words[2];
        CHECK(sl_sequence_release(&side.seq, &rules, &side.pool, words));
        CHECK(words[0] == wrapped[i] && words[1] == ~wrapped[i]);
    }
    READS(0, "abcde");
    CHECK(side.pool.used == 0);
    close_side();

    CASE("records of no words are positions only; at the limit it is full for what is beyond, and data may still come");
    rules.record_words = 0;
    rules.limit_records = 1;
    open_side(rules, 1 << 16);
    arrive(0, "");
    CHECK(!sl_sequence_full(&side.seq, &rules, 5));
    CHECK(sl_sequence_record(&side.seq, &rules, &side.pool, 5, NULL));
    CHECK(sl_sequence_full(&side.seq, &rules, 6) && !sl_sequence_full(&side.seq, &rules, 0));
    CHECK(room(7, "x") && room(0, "x") && !sl_sequence_release(&side.seq, &rules, &side.pool, NULL));
    GAP(0, 5, false);
    CHECK(sl_sequence_release(&side.seq, &rules, &side.pool, NULL));
    CHECK(!sl_sequence_full(&side.seq, &rules, 6));
    close_side();
}

/* --- bounds --- */

static void test_limits(void) {
    CASE("room: each limit at its boundary");
    struct sl_sequence_rules rules = TCP;
    rules.limit_bytes = 10;
    rules.limit_pieces = 3;
    open_side(rules, 1 << 16);
    arrive(0, "ab");
    READS(0, "ab");
    CHECK(room(2, "in order, as long as it may be"));
    CHECK(room(0, "ab"));
    CHECK(room(4, "0123456789") && !room(4, "0123456789a"));
    arrive(4, "01234");
    CHECK(room(20, "01234") && !room(20, "012345"));
    CHECK(room(2, "cd") && room(2, "cdefgh"));    /* it fills the hole, and leaves with what it frees */
    CHECK(room(0, "ab") && room(1, "b"));         /* delivered before */
    arrive(20, "0");
    CHECK(room(30, ""));
    arrive(22, "1");
    CHECK(!room(30, "") && room(2, "c"));         /* three pieces */
    close_side();

    CASE("room: while much is held, of small pieces an eighth, and less the more there is; large ones as else");
    static void *blocks[4 * SL_BLOCKS_MANY];
    unsigned taken = 0;
    rules = TCP;
    rules.limit_pieces = 800;
    open_side(rules, 1 << 26);
    while (taken < SL_BLOCKS_MANY)
        blocks[taken++] = sl_pool_take(&side.pool, 100);
    arrive(0, "");
    for (unsigned i = 0; i < 100; i++) {
        CHECK(room(10 + 2 * i, "x"));
        arrive(10 + 2 * i, "x");
    }
    uint8_t large[256];
    memset(large, 'x', sizeof large);
    const sl_bytes whole = {large, 256, 256}, cut = {large, 10, 256}, less = {large, 255, 255};
    CHECK(!room(1000, "x") && !sl_sequence_room(&side.seq, &side.rules, &side.pool, 1000, less, 255));
    CHECK(sl_sequence_room(&side.seq, &side.rules, &side.pool, 1000, whole, 256));
    CHECK(sl_sequence_room(&side.seq, &side.rules, &side.pool, 1000, cut, 256));
    CHECK(!sl_sequence_room(&side.seq, &side.rules, &side.pool, 1000, whole, 255));
    side.rules.whole = true;
    CHECK(room(1000, "x"));
    side.rules.whole = false;
    CHECK(insert(1000, whole, 256) && insert(1256, less, 255));   /* one large piece, of two that touch */
    CHECK(!room(2000, "x"));
    arrive(11, "x");                                              /* three small ones become one */
    CHECK(room(2000, "x"));
    arrive(2000, "x");
    arrive(2002, "x");
    CHECK(!room(2004, "x"));
    for (unsigned most = 100; taken < 4 * SL_BLOCKS_MANY; most = most == 100 ? 12 : SL_SMALL_LEAST) {
        CHECK_EQUAL(sl_sequence_small_most(&rules, &side.pool), most);
        for (unsigned doubled = 2 * taken; taken < doubled;)
            blocks[taken++] = sl_pool_take(&side.pool, 100);
    }
    CHECK_EQUAL(sl_sequence_small_most(&rules, &side.pool), SL_SMALL_LEAST);
    while (side.pool.blocks >= SL_BLOCKS_MANY) {
        CHECK(!room(2004, "x"));
        sl_pool_give(&side.pool, blocks[--taken], 100);
    }
    CHECK(room(2004, "x"));
    while (taken)
        sl_pool_give(&side.pool, blocks[--taken], 100);
    close_side();

    CASE("room: the pool must have what it may take, each block rounded up");
    open_side(TCP, 640);
    arrive(0, "");
    CHECK(room(9, "0123456789") && !room(9, "a piece of memory, larger than what is left of 640 bytes for it ... "
                                            "as there is the head, too; and what it is held in; and a record"));
    arrive(9, "0123456789");
    CHECK(room(30, "y"));
    arrive(30, "y");
    arrive(40, "z");
    CHECK(!room(50, "z"));
    close_side();

    CASE("no memory: insert says so, and what is missing may come again");
    open_side(TCP, 384);
    arrive(9, "0123456");
    arrive(30, "y");
    CHECK(!insert(40, text("z"), 1));
    HOLDS(8, 2, 0);
    CHECK(side.pool.refused > 0);
    close_side();

    CASE("no memory: what is next in order needs none, and what it covers gives way");
    open_side(TCP, 384);
    arrive(0, "");
    arrive(9, "0123456");
    arrive(30, "y");
    arrive(0, "abc");
    READS(0, "abc");
    arrive(3, "defghi");
    READS(3, "defghi0123456");
    arrive(22, "FGHIJ");
    HOLDS(6, 2, 0);
    arrive(16, "abcdefghijk++++++");
    READS(16, "abcdefghijk++++++");
    CHECK(side.pool.used == 0);
    close_side();

    CASE("a side holds from its first piece or record on, and is the newest holder then");
    struct sl_holder other = {0};
    struct sl_sequence_rules remembering = TCP;
    remembering.history = 64;
    open_side(remembering, 1 << 16);
    arrive(0, "abc");
    READS(0, "abc");
    CHECK(side.pool.oldest == &side.seq.held->holder && side.seq.held->owner == &side.seq);   /* of its history */
    sl_holder_add(&side.pool, &other);
    arrive(5, "f");
    CHECK(side.pool.oldest == &other && side.pool.newest == &side.seq.held->holder);
    sl_holder_renew(&side.pool, &other);
    arrive(9, "j");
    CHECK(side.pool.newest == &other);   /* a further piece changes nothing */

    CASE("a side that gave up its holes frees history and records, and goes on");
    const uint64_t word = 7;
    CHECK(sl_sequence_record(&side.seq, &side.rules, &side.pool, 9, &word));
    GAP(3, 2, false);
    READS(5, "f");
    GAP(6, 3, false);
    READS(9, "j");
    sl_sequence_gave_up(&side.seq, &side.pool);
    CHECK(!side.seq.held && side.pool.used == 0 && side.pool.oldest == &other);
    arrive(10, "k");
    READS(10, "k");
    sl_sequence_gave_up(&side.seq, &side.pool);

    CASE("bytes that wait to be delivered stay");
    arrive(13, "n");
    sl_holder_renew(&side.pool, &other);
    sl_sequence_gave_up(&side.seq, &side.pool);
    HOLDS(1, 1, 0);
    CHECK(side.pool.newest == &side.seq.held->holder);
    close_side();

    CASE("where nothing is held, all before a position can be given up");
    open_side(TCP, 0);
    arrive(0, "a");
    READS(0, "a");
    struct sl_gap gap;
    CHECK(!SKIPS_TO(1) && !SKIPS_TO(0));
    CHECK(SKIPS_TO(10) && gap.offset == 1 && gap.length == 9 && !gap.cut);
    arrive(10, "k");
    READS(10, "k");
    close_side();

    CASE("up to what is held, which then waits");
    open_side(TCP, 1 << 20);
    arrive(10, "k");
    READS(0, "k");
    arrive(14, "o");
    arrive(20, "u");
    CHECK(SKIPS_TO(17) && gap.offset == 1 && gap.length == 3);
    CHECK(!SKIPS_TO(17));
    READS(4, "o");
    CHECK(SKIPS_TO(17) && gap.offset == 5 && gap.length == 2);
    CHECK(!SKIPS_TO(17));
    arrive(17, "rst");
    READS(7, "rstu");
    close_side();

    CASE("no memory to settle: as if the bytes had not arrived");
    open_side(TCP, 64);
    arrive(0, "ab");
    READS(0, "ab");
    send_units(2, "cd", 1);
    CHECK(side.seq.next == 5);
    CHECK(!sl_sequence_fits(&side.seq, &side.rules, &side.pool, &side.direct));
    CHECK(!leave());
    CHECK(side.seq.next == 2 && side.seq.delivered == 2 && side.pool.used == 0);
    send_units(2, "cd", 1);
    READS(2, "cd");
    close_side();

    CASE("no memory for history: the old copy is not known");
    rules = TCP;
    rules.history = 100;
    open_side(rules, 0);
    arrive(0, "abc");
    READS(0, "abc");
    uint64_t position, cursor;
    sl_bytes data;
    OVERLAPS_OF(0, "ABC");
    OVERLAP(0, "ABC", NULL);
    close_side();
}

static void test_without_bytes(void) {
    CASE("nobody asks for bytes: extents only, delivered follows next");
    struct sl_sequence_rules rules = TCP;
    rules.buffer_data = false;
    open_side(rules, 1 << 16);
    CHECK(insert(99, text(""), 1));
    arrive(100, "abc");
    CHECK(!side.direct.present && !sl_sequence_waiting(&side.seq, &side.direct));
    CHECK(side.seq.next == 103 && side.seq.delivered == 103 && side.seq.start == 100);
    arrive(105, "fgh");
    HOLDS(3, 1, 0);
    CHECK(side.pool.used == 64 + 256);   /* a piece without bytes, and the head */
    uint64_t position, cursor;
    sl_bytes data;
    OVERLAPS_OF(101, "BCDEFG");
    OVERLAP(1, "BC", NULL);
    OVERLAP(5, "FG", NULL);
    NO_MORE;
    send_units(103, "de", 0);
    CHECK(side.seq.next == 108 && side.seq.delivered == 108 && side.pool.used == 0);
    send_units(108, "i", 1);
    CHECK(side.seq.next == 110 && side.seq.skipped == 1);
    close_side();
}

static bool forward(uint64_t meta, sl_bytes data, uint64_t units, uint64_t *offset) {
    bool done = sl_sequence_forward(&side.seq, &side.rules, position_of(meta), data, units, offset);
    sequence_check(&side.seq);
    return done;
}

static void test_forward(void) {
    CASE("forward: what insert and assemble leave, for every order of data, ends and both");
    static const char *const strings[] = {"", "a", "bcd"};
    for (unsigned which = 0; which < 2 * 6 * 6 * 6; which++) {
        struct sl_sequence_rules rules = TCP;
        rules.buffer_data = which % 2;
        struct sl_sequence by_two, by_one;
        uint64_t offsets[2][3] = {{0}};
        for (unsigned way = 0; way < 2; way++) {
            open_side(rules, 1 << 16);
            sl_sequence_begin(&side.seq, &side.rules, &side.pool, 0xfffffffe, false);   /* across the end of the circle */
            uint64_t meta = 0xfffffffe;
            for (unsigned turn = 0, rest = which / 2; turn < 3; turn++, rest /= 6) {
                sl_bytes data = text(strings[rest % 3]);
                uint64_t units = data.length + rest / 3 % 2;
                if (way) {
                    CHECK(forward(meta, data, units, &offsets[way][turn]));
                } else {
                    offsets[way][turn] = sl_sequence_offset(&side.seq, side.seq.delivered);
                    CHECK(insert(meta, data, units));
                    assemble(&(uint64_t){0});
                }
                meta = (meta + units) & 0xffffffff;
            }
            *(way ? &by_one : &by_two) = side.seq;
            close_side();
        }
        CHECK(by_one.start == by_two.start && by_one.next == by_two.next && by_one.delivered == by_two.delivered);
        CHECK(by_one.skipped == by_two.skipped && by_one.trailing == by_two.trailing && by_one.lent == by_two.lent);
        CHECK(memcmp(offsets[0], offsets[1], sizeof offsets[0]) == 0);
    }

    CASE("forward: not what was cut, is not next, is cut to fewer units, or comes while something is held or waits");
    uint64_t offset = 7;
    sl_bytes data = text("abc"), cut = {data.at, 2, 3};
    open_side(TCP, 1 << 16);
    arrive(0, "");
    CHECK(!forward(0, cut, 3, &offset) && !forward(1, data, 3, &offset) && !forward(0, data, 2, &offset));
    CHECK(!forward(0xffffffff, data, 3, &offset) && side.seq.next == 0 && offset == 7);
    arrive(10, "held");
    CHECK(!forward(0, data, 3, &offset));
    CHECK(leave());
    arrive(0, "0123456789");
    READS(0, "0123456789held");
    arrive(14, "lent");
    CHECK(!forward(18, data, 3, &offset));
    READS(14, "lent");
    CHECK(forward(18, data, 3, &offset) && offset == 18);
    close_side();
}

static void test_against_model(void) {
    CASE("against the naive model: seeds 1 to 2000");
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        char name[32];
        snprintf(name, sizeof name, "seed %" PRIu64, seed);
        check_context = name;
        sequence_drive(&(struct choices){.seed = seed});
    }
    check_context = "";
}

int main(void) {
    test_positions();
    test_start();
    test_order();
    test_joined();
    test_policies();
    test_overlaps();
    test_cut_and_phantom();
    test_gaps();
    test_records();
    test_limits();
    test_without_bytes();
    test_forward();
    test_against_model();
    return 0;
}
