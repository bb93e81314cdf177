// made by: fuzz/make_http2.py
/* Fuzzes http2_side.h: one side of an HTTP/2 connection, as it is, byte by byte, and in pieces. All must give the same events,
 * and all memory must be back in the end. Without libnghttp2, it does nothing. Run: scripts/fuzz.sh fuzz_http2
 *
 * An input is 4 bytes of settings (bit 0: a server, 1: a gap; the place of the gap in units of 4 bytes; its length; the size of
 * pieces), and the bytes that the side sends, without the preface of a client. */
#include "../sluice/functions/ready/http2_side.h"
#include "pieces.h"

enum { BUDGET = 1 << 20 };

/* The events of a side as a hash. Bytes of bodies are summed up, as they come in pieces. */
struct events { uint64_t hash, data, missing; };

static void mix(struct http2_side *side, const void *at, size_t length) {
    struct events *events = side->user;
    events->hash = hash_more(events->hash, at, length);
}

static void event(struct http2_side *side, char what, uint64_t first, uint64_t second) {
    struct events *events = side->user;
    uint64_t words[] = {(uint64_t)what, first, second, events->data, events->missing};
    events->data = events->missing = 0;
    mix(side, words, sizeof words);
}

static void on_headers(struct http2_side *side, uint32_t stream, bool promised) { event(side, 'h', stream, promised); }
static void on_field(struct http2_side *side, const struct http2_field *field) {
    event(side, 'f', field->name_length, field->value_length);
    mix(side, field->name, field->name_length);
    mix(side, field->value, field->value_length);
}
static void on_headed(struct http2_side *side) { event(side, 'e', side->list, 0); }
static void on_body(struct http2_side *side, uint32_t stream) { event(side, 'b', stream, 0); }
static void on_data(struct http2_side *side, uint64_t length, uint64_t missing) {
    struct events *events = side->user;
    events->data += length;
    events->missing += missing;
}
static void on_complete(struct http2_side *side) { event(side, 'c', 0, 0); }
static void on_reset(struct http2_side *side, uint32_t stream, uint32_t code) { event(side, 'r', stream, code); }

static const struct http2_owner owner = {on_headers, on_field, on_headed, on_body, on_data, on_complete, on_reset, NULL};

static void take(void *side, const uint8_t *at, uint32_t length) { http2_bytes(side, at, length); }

static uint64_t run(const uint8_t *settings, const uint8_t *at, size_t length, size_t piece) {
    struct log_budget budget = {.most = BUDGET};
    struct http2_library hpack;
    struct events events = {.hash = UINT64_C(0xcbf29ce484222325)};
    if (!http2_library_open(&hpack, &budget))
        return 0;
    struct http2_side side = {.owner = &owner, .hpack = &hpack, .user = &events};
    EXPECT(http2_begin(&side, settings[0] & 1));
    if (!side.response)
        give_pieces((const uint8_t *)http2_preface, HTTP2_PREFACE_SIZE, piece, take, &side);
    size_t place = settings[0] & 2 ? (size_t)sl_min(4u * settings[1], length) : length;
    size_t lost = (size_t)sl_min(settings[2], length - place);
    give_pieces(at, place, piece, take, &side);
    if (lost)
        http2_gap(&side, lost);
    give_pieces(at + place + lost, length - place - lost, piece, take, &side);
    event(&side, 'x', side.stage, side.error ? (uint64_t)side.error[0] : 0);
    EXPECT(side.stage != HTTP2_ENDED || (side.error && !side.inflater));
    http2_side_free(&side);
    EXPECT(!budget.used);
    return events.hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    if (size < 4)
        return 0;
    uint64_t whole = run(at, at + 4, size - 4, SIZE_MAX);
    EXPECT(run(at, at + 4, size - 4, 1) == whole);
    EXPECT(run(at, at + 4, size - 4, 1u + at[3]) == whole);
    return 0;
}
