/* The sequence against a naive one: for each position one cell that says what is known there. Driven by
 * choices, so that the random test and the fuzzer are the same program. */
#ifndef SEQUENCE_MODEL_H
#define SEQUENCE_MODEL_H

#include "stream/sequence.h"
#include "check.h"
#include "ordered_check.h"

enum {
    MODEL_CELLS = 1 << 16,
    MODEL_PIECES = 1 << 15,
    MODEL_RECORDS = 64,
    MODEL_BEFORE = 256,   /* cells before the base, for packets older than it */
    MODEL_STEPS = 200,
    MODEL_ADVANCE = 160,  /* more than a packet can move the end of what is known; a step has one or two */
};
_Static_assert(MODEL_BEFORE + 2 * MODEL_STEPS * MODEL_ADVANCE < MODEL_CELLS, "the cells suffice");

enum cell_kind { CELL_NONE, CELL_DATA, CELL_CUT, CELL_PHANTOM };

struct cell {
    uint8_t kind;
    uint8_t byte;
    uint16_t owner;    /* which insertion made it: DATA pieces keep their extent, so it names a piece */
    uint8_t phantom;   /* a phantom was passed here: no place in the stream */
};

/* All positions are indices of `cells`; `origin` is the real position of index 0. */
struct sequence_model {
    struct cell cells[MODEL_CELLS];
    unsigned lo[MODEL_PIECES], hi[MODEL_PIECES];   /* extent of each owner */
    unsigned owners;
    uint64_t origin;
    unsigned start, next, delivered, end;          /* end: after everything known */
    unsigned skipped;
    unsigned history_lo, history_hi;               /* the last unbroken run of delivered bytes */
    struct { unsigned position; uint64_t words[2]; } records[MODEL_RECORDS];
    unsigned record_count;
};

static struct sequence_model model;

static inline void model_base(uint64_t position) {
    memset(&model.cells, 0, sizeof *model.cells * (model.end + 1));
    model.owners = 1;
    model.origin = position - MODEL_BEFORE;
    model.start = model.next = model.delivered = model.end = MODEL_BEFORE;
    model.skipped = model.record_count = 0;
    model.history_lo = model.history_hi = 0;
}

static inline void model_pass_phantom(void) {
    if (model.delivered - model.start == model.skipped)
        model.start++;
    else
        model.skipped++;
    model.cells[model.delivered].phantom = 1;
    model.delivered++;
}

static inline void model_pass_byte(const struct sl_sequence_rules *rules) {
    if (rules->buffer_data) {
        if (model.history_hi != model.delivered)
            model.history_lo = model.delivered;
        model.history_hi = model.delivered + 1;
    }
    model.delivered++;
}

static inline void model_advance(const struct sl_sequence_rules *rules) {
    for (;; model.next++) {
        struct cell *cell = &model.cells[model.next];
        bool idle = model.delivered == model.next;
        if (cell->kind == CELL_PHANTOM && idle)
            model_pass_phantom();
        else if (cell->kind == CELL_DATA && !rules->buffer_data)
            model_pass_byte(rules);
        else if (cell->kind != CELL_DATA && cell->kind != CELL_PHANTOM)
            return;
    }
}

/* Pieces of one kind that touch at a place of [lo, hi] become one. */
static inline void model_join(const struct sl_sequence_rules *rules, unsigned lo, unsigned hi) {
    for (unsigned p = lo; p <= hi; p++) {
        struct cell *left = &model.cells[p - 1], *right = &model.cells[p];
        if (left->kind != right->kind || left->kind == CELL_NONE || left->owner == right->owner)
            continue;
        if (left->kind == CELL_DATA) {
            bool moves = rules->policy == SL_POLICY_FIRST || rules->policy == SL_POLICY_LAST;
            unsigned length = model.hi[right->owner] - model.lo[left->owner];
            if (rules->buffer_data && (!moves || length > SL_PIECE_JOINED))
                continue;
            model.hi[left->owner] = model.hi[right->owner];
        }
        uint16_t owner = right->owner;
        for (unsigned i = p; model.cells[i].kind == left->kind && model.cells[i].owner == owner; i++)
            model.cells[i].owner = left->owner;
    }
}

static inline void model_insert(const struct sl_sequence_rules *rules, unsigned position, sl_bytes data,
                                unsigned units) {
    unsigned length = (unsigned)sl_min(data.length, units), captured = (unsigned)sl_min(data.captured, units);
    unsigned from = position > model.delivered ? position : model.delivered;
    unsigned data_end = position + captured, cut_end = position + length, end = position + units;
    if (end > model.end)
        model.end = end;
    /* Who wins is asked of the pieces as they stand before. */
    for (unsigned p = from; p < data_end; p++) {
        struct cell *cell = &model.cells[p];
        if (cell->kind == CELL_DATA) {
            if (sl_policy_new_wins(rules->policy, from, data_end, model.lo[cell->owner], model.hi[cell->owner]))
                cell->byte = data.at[p - position];
            continue;
        }
        bool joins = p > from && model.cells[p - 1].owner == model.owners - 1 && model.hi[model.owners - 1] == p;
        if (!joins) {
            model.lo[model.owners] = p;
            model.owners++;
        }
        model.hi[model.owners - 1] = p + 1;
        *cell = (struct cell){CELL_DATA, data.at[p - position], (uint16_t)(model.owners - 1), 0};
    }
    for (int phantom = 0; phantom < 2; phantom++) {
        unsigned lo = phantom ? cut_end : data_end, hi = phantom ? end : cut_end;
        model.owners++;
        for (unsigned p = lo > from ? lo : from; p < hi; p++)
            if (model.cells[p].kind == CELL_NONE)
                model.cells[p] = (struct cell){phantom ? CELL_PHANTOM : CELL_CUT, 0, (uint16_t)(model.owners - 1), 0};
    }
    if (position > model.next && from < end)
        model_join(rules, position, end);
    model_advance(rules);
}

static inline struct sl_holding model_holding(void) {
    struct sl_holding holding = {0, 0, model.record_count};
    for (unsigned p = model.delivered; p < model.end; p++) {
        const struct cell *cell = &model.cells[p];
        holding.bytes += cell->kind == CELL_DATA;
        holding.pieces += cell->kind != CELL_NONE &&
                          (p == model.delivered || cell[-1].kind != cell->kind || cell[-1].owner != cell->owner);
    }
    return holding;
}

/* The invariants of sequence_state.h. */
static inline void sequence_check(const struct sl_sequence *seq) {
    CHECK(seq->delivered - seq->start >= seq->skipped && seq->skipped >= seq->trailing);
    const struct sl_held *held = seq->held;
    if (!held) {
        CHECK(seq->lent || seq->delivered == seq->next);
        return;
    }
    CHECK(held->pieces.first || held->records.first || held->history);
    uint64_t at = seq->delivered, bytes = 0, next = seq->next - seq->delivered;
    uint32_t pieces = 0, small = 0;
    const struct sl_piece *previous = NULL, *ahead = NULL;
    bool hint = held->hint_from == held->hint_to;   /* nothing is remembered */
    for (const struct sl_piece *piece = sl_piece_first(held); piece; previous = piece, piece = sl_piece_next(piece)) {
        uint64_t position = piece->node.position - seq->delivered;
        CHECK(sl_piece_previous(piece) == previous && piece->length > 0);
        CHECK(position >= at - seq->delivered && position + piece->length <= SL_FARTHEST);
        if (position < next) {
            if (seq->lent && !previous)
                at = piece->node.position;   /* after the bytes that are lent */
            CHECK(position == at - seq->delivered && piece->kind != SL_PIECE_CUT && position + piece->length <= next);
            CHECK(seq->lent || previous || piece->kind == SL_PIECE_DATA);
        } else if (!ahead) {
            ahead = piece;
            CHECK(seq->lent || at == seq->next || previous == NULL);
            CHECK(position != next || piece->kind == SL_PIECE_CUT);
        }
        if (piece == held->hint && !hint) {
            CHECK(held->hint_to == piece->node.position + piece->length);
            CHECK(!previous || !sl_position_before(held->hint_from, previous->node.position + previous->length));
            hint = true;
        }
        if (held->pieces.root) {
            const struct sl_index_entry *entry = sl_index_of(held->pieces.root, piece->node.position);
            CHECK(sl_entry_node(entry) == &piece->node && entry->length == (piece->length <= UINT16_MAX ? piece->length : 0));
        }
        at = piece->node.position + piece->length;
        bytes += piece->kind == SL_PIECE_DATA ? piece->length : 0;
        pieces++;
        small += piece->length < SL_PIECE_SMALL;
    }
    if (!ahead && !seq->lent)
        CHECK(at == seq->next || (!previous && seq->delivered == seq->next));
    CHECK(sl_piece_last(held) == previous && held->beyond == ahead && hint);
    CHECK(held->bytes == bytes && held->pieces.count == pieces && held->pieces.small == small);
    ordered_check(&held->pieces, held->pieces.count);
    ordered_check(&held->records, held->records.count);
}

static inline void model_compare(const struct sl_sequence *seq) {
    CHECK_EQUAL(seq->start - model.origin, model.start);
    CHECK_EQUAL(seq->delivered - model.origin, model.delivered);
    CHECK_EQUAL(seq->next - model.origin, model.next);
    CHECK_EQUAL(seq->skipped, model.skipped);
    CHECK(sl_sequence_waiting(seq, NULL) == (model.delivered != model.next));
    CHECK(sl_sequence_cut(seq) == (model.cells[model.next].kind == CELL_CUT));
    struct sl_holding is = sl_sequence_holding(seq), should_be = model_holding();
    if (!seq->lent) {
        CHECK_EQUAL(is.bytes, should_be.bytes);
        CHECK_EQUAL(is.pieces, should_be.pieces);
    }
    CHECK_EQUAL(is.records, should_be.records);
}

/* All overlaps of a segment, each with both copies. */
static inline void model_compare_overlaps(const struct sl_sequence *seq, const struct sl_sequence_rules *rules,
                                          unsigned position, sl_bytes data) {
    uint64_t cursor = 0;
    struct sl_overlap overlap;
    unsigned p = position, end = position + data.captured;
    while (sl_sequence_overlap(seq, rules, model.origin + position, data, &cursor, &overlap)) {
        while (p < end && (p < model.start || (p >= model.delivered && model.cells[p].kind != CELL_DATA)))
            p++;
        CHECK(p < end);
        unsigned lo = p, hi = p;
        bool old = p < model.delivered;
        while (hi < end && (old ? hi < model.delivered
                                : model.cells[hi].kind == CELL_DATA && model.cells[hi].owner == model.cells[lo].owner))
            hi++;
        CHECK_EQUAL(overlap.length, hi - lo);
        CHECK(overlap.arrived.at == data.at + (lo - position) && overlap.arrived.captured == hi - lo);
        unsigned known = model.history_hi - model.history_lo;
        if (known > rules->history)
            known = rules->history;
        unsigned there = rules->buffer_data ? hi : lo;   /* the end of what is in memory of [lo, hi) */
        if (old)
            there = lo < model.history_hi - known || lo >= model.history_hi ? lo : hi < model.history_hi ? hi : model.history_hi;
        CHECK((overlap.old.at != NULL) == (there > lo));
        CHECK(overlap.old.length == hi - lo && overlap.old.captured == there - lo);
        for (unsigned i = lo; i < there; i++)
            CHECK_EQUAL(overlap.old.at[i - lo], model.cells[i].byte);
        if (old) {
            unsigned offset = 0, later = 0;
            for (unsigned i = MODEL_BEFORE; i < model.delivered - seq->trailing; i++)
                *(i < lo ? &offset : &later) += i < lo ? !model.cells[i].phantom : model.cells[i].phantom;
            if (!later)
                CHECK_EQUAL(overlap.offset, offset);
        } else {
            CHECK_EQUAL(overlap.offset, lo - model.start - model.skipped);
        }
        p = hi;
    }
    for (; p < end; p++)
        CHECK(p < model.start || (p >= model.delivered && model.cells[p].kind != CELL_DATA));
}

static inline void model_compare_assembled(const struct sl_sequence_rules *rules, sl_bytes all, uint64_t offset) {
    CHECK_EQUAL(offset, model.delivered - model.start - model.skipped);
    unsigned n = 0;
    while (model.delivered < model.next) {
        if (model.cells[model.delivered].kind == CELL_PHANTOM) {
            model_pass_phantom();
            continue;
        }
        CHECK(n < all.captured);
        CHECK_EQUAL(all.at[n++], model.cells[model.delivered].byte);
        model_pass_byte(rules);
    }
    CHECK(all.captured == n && all.length == n);
}

static inline void model_compare_gap(const struct sl_sequence_rules *rules, bool given_up, const struct sl_gap *gap) {
    unsigned end = model.next;
    bool cut = model.cells[end].kind == CELL_CUT;
    if (cut) {
        while (model.cells[end].kind == CELL_CUT && model.cells[end].owner == model.cells[model.next].owner)
            end++;
    } else {
        unsigned farthest = model.end, record = 0;
        while (record < model.record_count && model.records[record].position <= model.next)
            record++;
        if (record < model.record_count && model.records[record].position > farthest)
            farthest = model.records[record].position;
        while (end < farthest && model.cells[end].kind == CELL_NONE &&
               !(record < model.record_count && end == model.records[record].position))
            end++;
        if (end == model.next || (end == farthest && (record == model.record_count ||
                                                      model.records[record].position != end))) {
            CHECK(!given_up);
            return;
        }
    }
    CHECK(given_up);
    CHECK(gap->cut == cut);
    CHECK_EQUAL(gap->offset, model.next - model.start - model.skipped);
    CHECK_EQUAL(gap->length, end - model.next);
    model.next = model.delivered = end;
    if (end > model.end)
        model.end = end;
    model_advance(rules);
}

static inline void model_record(unsigned position, const uint64_t *words) {
    unsigned i = model.record_count++;
    for (; i > 0 && model.records[i - 1].position > position; i--)
        model.records[i] = model.records[i - 1];
    model.records[i].position = position;
    memcpy(model.records[i].words, words, sizeof model.records[i].words);
}

/* One life of a sequence. With a small pool the memory runs out and model and sequence part: then only the
 * invariants are checked. */
static inline void sequence_drive(struct choices *choices) {
    static const uint8_t widths[] = {16, 32, 64, 9};
    const uint32_t histories[] = {0, 0, 1, 7, 40, 300};
    struct sl_sequence_rules rules = {
        .width = widths[choose(choices, 4)],
        .linear = choose(choices, 4) == 0,
        .policy = (uint8_t)choose(choices, SL_POLICY_SOLARIS_FRAGMENTS + 1),
        .buffer_data = choose(choices, 8) != 0,
        .limit_bytes = choose(choices, 4) ? 1 << 20 : choose(choices, 200),
        .limit_pieces = choose(choices, 4) ? 1 << 20 : choose(choices, 8),
        .limit_records = choose(choices, 4) ? MODEL_RECORDS : 1 + choose(choices, 8),
        .history = histories[choose(choices, 6)],
        .record_words = (uint8_t)choose(choices, 3),
    };
    bool exact = choose(choices, 4) != 0;
    const unsigned reach = rules.width == 9 ? 60 : 100;
    struct sl_pool pool;
    CHECK(sl_pool_open(&pool, exact ? 1 << 20 : 64 * choose(choices, 40)) == 0);
    struct sl_sequence seq;
    sl_sequence_reset(&seq, &rules);
    /* A base that soon wraps, in its own width and in 64 bits. */
    uint64_t base = rules.linear ? 0 : (uint64_t)0 - choose(choices, 300);
    model_base(base & (rules.linear ? 0 : sl_mask(rules.width)));
    bool based = rules.linear;
    unsigned steps = choices->at ? MODEL_STEPS : 30 + choose(choices, 60);
    uint8_t bytes[64], memory[4096];

    for (unsigned step = 0; step < steps && (!choices->at || choices->left); step++) {
        struct sl_packet_data direct = {.present = false};
        struct sl_scratch scratch = {memory, sizeof memory, 0};
        unsigned next = exact ? model.next : MODEL_BEFORE;

        for (unsigned packets = 1 + (choose(choices, 16) == 0); packets; packets--) {
            /* Near `next`: before, at, or beyond it. */
            unsigned where = choose(choices, 4);
            unsigned position = next;
            if (where == 1)
                position -= choose(choices, 40);
            else if (where > 1)
                position += choose(choices, reach);
            if (rules.linear && position < MODEL_BEFORE)
                position = MODEL_BEFORE;
            if (!based)
                position = next = MODEL_BEFORE;
            unsigned length = choose(choices, 33);
            unsigned captured = choose(choices, 8) ? length : choose(choices, length + 1);
            unsigned units = choose(choices, 6) ? length : choose(choices, length + 4);
            for (unsigned i = 0; i < captured; i++)
                bytes[i] = (uint8_t)(step * 64 + i);
            sl_bytes data = {captured ? bytes : NULL, captured, length};
            uint64_t real = exact ? model.origin + position : seq.next + position - next;
            if (rules.linear && real > SL_FARTHEST)
                real = 0;   /* only where model and sequence have parted */
            uint64_t meta = rules.linear ? real : real & sl_mask(rules.width);

            bool anew = choose(choices, 16) == 0;
            bool nothing_yet =
                model.delivered - model.start == model.skipped && model_holding().bytes == 0 && !direct.present;
            sl_sequence_begin(&seq, &rules, &pool, meta, anew);
            if (exact && !rules.linear && based && anew && nothing_yet) {
                model_base(meta);
                next = position = MODEL_BEFORE;
            }
            based = true;
            real = sl_sequence_position(&seq, &rules, meta);
            if (exact)
                CHECK_EQUAL(real, model.origin + position);
            if (exact && !seq.lent)
                model_compare_overlaps(&seq, &rules, position, data);
            uint64_t cursor = 0;
            struct sl_overlap overlap;
            while (!exact && sl_sequence_overlap(&seq, &rules, real, data, &cursor, &overlap))
                CHECK(overlap.length > 0 && cursor <= captured);

            bool room = sl_sequence_room(&seq, &rules, &pool, real, data, units);
            if (exact && !seq.lent) {
                struct sl_holding holding = model_holding();
                bool in_order = model.delivered == model.next && position <= model.next;
                bool known = units == 0 || position + captured <= model.delivered;
                CHECK(room == (in_order || known ||
                               (holding.bytes + captured <= rules.limit_bytes && holding.pieces < rules.limit_pieces)));
                CHECK(sl_sequence_full(&seq, &rules, real) ==
                      (model.record_count > 0 && model.record_count >= rules.limit_records && position > model.next));
            }
            if (sl_position_before(seq.next, real) && !sl_sequence_full(&seq, &rules, real) && choose(choices, 2)) {
                uint64_t words[2] = {step, position};
                bool kept = sl_sequence_record(&seq, &rules, &pool, real, words);
                if (exact) {
                    CHECK(kept);
                    model_record(position, words);
                }
            }
            if (!room && choose(choices, 4))
                continue;
            bool lent = seq.lent;
            bool complete = sl_sequence_insert(&seq, &rules, &pool, &direct, real, data, units);
            sequence_check(&seq);
            if (room && !lent && units == length && captured == length)
                CHECK(complete);   /* whatever the pool has */
            if (exact) {
                CHECK(complete);
                model_insert(&rules, position, data, units);
                next = model.next;
                model_compare(&seq);
            }
        }
        if (choose(choices, 3)) {
            uint64_t offset;
            if (choose(choices, 16) == 0)
                scratch.used = choose(choices, sizeof memory + 1);
            sl_bytes all = sl_sequence_assemble(&seq, &rules, &pool, &direct, &scratch, &offset);
            if (exact) {
                /* A scratch that was too small delivers in parts; none here is larger than the whole. */
                unsigned n = all.captured;
                if (model.origin + model.next != seq.delivered) {
                    unsigned stop = (unsigned)(seq.delivered - model.origin), next_was = model.next;
                    CHECK(stop < model.next && n <= sizeof memory);
                    model.next = stop;
                    model_compare_assembled(&rules, all, offset);
                    model.next = next_was;
                } else {
                    model_compare_assembled(&rules, all, offset);
                }
            }
        }
        bool fits = sl_sequence_fits(&seq, &rules, &pool, &direct);
        bool settled = sl_sequence_settle(&seq, &rules, &pool, &direct);
        CHECK(settled || !fits);
        memset(bytes, 0xee, sizeof bytes);   /* the packet is gone */
        CHECK(settled || !exact);
        sequence_check(&seq);
        if (exact)
            model_compare(&seq);

        uint64_t words[2] = {0, 0};
        while (choose(choices, 8) && sl_sequence_release(&seq, &rules, &pool, words))
            if (exact) {
                CHECK(model.record_count > 0 && model.records[0].position <= model.next);
                for (unsigned i = 0; i < rules.record_words; i++)
                    CHECK_EQUAL(words[i], model.records[0].words[i]);
                memmove(&model.records[0], &model.records[1], sizeof *model.records * --model.record_count);
            }
        if (choose(choices, 10) == 0 && seq.delivered == seq.next) {
            struct sl_gap gap;
            bool given_up = sl_sequence_give_up(&seq, &rules, &pool, &gap);
            sequence_check(&seq);
            if (exact)
                model_compare_gap(&rules, given_up, &gap);
        }
        if (choose(choices, 100) == 0) {
            sl_sequence_clear(&seq, &rules, &pool);
            CHECK(pool.used == 0);
            model_base(base & (rules.linear ? 0 : sl_mask(rules.width)));
            based = rules.linear;
        }
        sequence_check(&seq);
        if (exact && based)
            model_compare(&seq);
    }
    sl_sequence_clear(&seq, &rules, &pool);
    CHECK(pool.used == 0);
    sl_pool_close(&pool);
}

#endif
