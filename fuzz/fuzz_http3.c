// made by: fuzz/make_http3.py
/* Fuzzes http3_stream.h: the streams of an HTTP/3 connection, as they are, byte by byte, and in pieces. All must give the same
 * events, and all memory must be back in the end. Without libnghttp3, it does nothing. Run: scripts/fuzz.sh fuzz_http3
 *
 * An input is a byte (the size of pieces), and steps: a byte (bits 0 to 2: the stream, 3: its sender if it has two, 4 and 5: what
 * happens), a byte with a length, and as many bytes of the stream, if it gets bytes. */
#include "../sluice/functions/ready/http3_stream.h"
#include "pieces.h"

enum { BUDGET = 1 << 20, STREAMS = 8, SLOTS = 2 * STREAMS };

static const uint64_t numbers[STREAMS] = {0, 4, 2, 3, 6, 7, 10, 11};

/* The events of a connection as a hash. Bytes of bodies are summed up, as they come in pieces. */
struct events { uint64_t hash, data, missing; };

static void mix(struct events *events, const void *at, size_t length) {
    events->hash = hash_more(events->hash, at, length);
}

static void event(const struct http3_stream *stream, char what, uint64_t first, uint64_t second) {
    uint64_t words[] = {(uint64_t)what, stream->number, stream->sender, first, second};
    mix(stream->connection->user, words, sizeof words);
}

static bool on_known(struct http3_connection *connection) {
    mix(connection->user, &connection->client, sizeof connection->client);
    return true;
}
static void on_begin(struct http3_stream *stream, uint64_t key, bool promised) { event(stream, 'b', key, promised); }
static void on_field(struct http3_stream *stream, uint64_t key, bool promised, const struct http2_field *field) {
    event(stream, 'f', key, promised);
    mix(stream->connection->user, field->name, field->name_length);
    mix(stream->connection->user, field->value, field->value_length);
}
static void on_headed(struct http3_stream *stream, uint64_t key, bool promised, bool interim) {
    event(stream, 'h', key, 2u * promised + interim);
}
static void on_data(struct http3_stream *stream, uint64_t length, uint64_t missing) {
    struct events *events = stream->connection->user;
    EXPECT(stream->kind == HTTP3_MESSAGE && stream->begun);
    events->data += length * (stream->number + 1) * (stream->sender + 1u);
    events->missing += missing * (stream->number + 1) * (stream->sender + 1u);
}
static void on_complete(struct http3_stream *stream) {
    EXPECT(stream->headed);
    event(stream, 'c', 0, 0);
}
static void on_broken(struct http3_stream *stream, const char *why) {
    EXPECT(stream->stage == HTTP3_OVER && !stream->held.at && !stream->payload.at);
    event(stream, 'x', (uint64_t)why[0], strlen(why));
}

static const struct http3_owner owner = {on_known, on_begin, on_field, on_headed, on_data, NULL, on_complete, on_broken};

static void take(void *stream, const uint8_t *at, uint32_t length) { http3_bytes(stream, at, length); }

static uint64_t run(const uint8_t *at, size_t size, size_t piece) {
    struct log_budget budget = {.most = BUDGET};
    struct http3_library qpack;
    struct events events = {.hash = UINT64_C(0xcbf29ce484222325)};
    struct http3_stream stream[SLOTS];
    bool begun[SLOTS] = {false};
    if (!http3_library_open(&qpack, &budget))
        return 0;
    struct http3_connection connection = {.owner = &owner, .qpack = &qpack, .budget = &budget, .user = &events};
    while (size >= 2) {
        unsigned which = at[0] & 7, what = at[0] >> 4 & 3;
        unsigned sender = numbers[which] & 2 ? numbers[which] & 1 : at[0] >> 3 & 1, slot = 2 * which + sender;
        size_t length = at[1];
        at += 2;
        size -= 2;
        if (!begun[slot])
            http3_begin(&stream[slot], &connection, numbers[which], sender);
        begun[slot] = true;
        if (what <= 1) {
            length = (size_t)sl_min(length, size);
            give_pieces(at, length, piece, take, &stream[slot]);
            at += length;
            size -= length;
        } else if (what == 2 && length) {
            http3_gap(&stream[slot], length);
        } else if (length & 1) {
            http3_reset(&stream[slot], 0x100u + length);
        } else {
            http3_end(&stream[slot]);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (begun[i])
            http3_stream_close(&stream[i], "EOF");
    EXPECT(!connection.early && !connection.early_count);
    for (unsigned i = 0; i < 2; i++)
        EXPECT(!connection.side[i].waiting && !connection.side[i].waiting_count && !connection.side[i].encoder);
    http3_close(&connection);
    EXPECT(!budget.used);
    mix(&events, &events.data, sizeof events.data);
    mix(&events, &events.missing, sizeof events.missing);
    return events.hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    if (!size)
        return 0;
    uint64_t whole = run(at + 1, size - 1, SIZE_MAX);
    EXPECT(run(at + 1, size - 1, 1) == whole);
    EXPECT(run(at + 1, size - 1, 1u + at[0]) == whole);
    return 0;
}
