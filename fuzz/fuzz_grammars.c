// made by: fuzz/make_grammars.py
// The parsers of units over any bytes, and any beginning of them: none reads outside; all that it gives lies within the bytes; it needs
// more bytes than there are; a beginning of a message is no other message, and not malformed. A message that is not changed
// is serialised to itself.
#include "../sluice/service/runtime/instance.c"
#include "../tests/service/trial.c"
#include "expect.h"

const struct service_program service_program = {.name = "none"}; /* that trial.c would run */

struct unit {
    service_parse *parse;
    void (*check)(const void *message, const uint8_t *data, uint64_t length);
    size_t size;
};

static bool within(struct service_text text, const uint8_t *data, uint64_t length)
{
    return text.length == 0 || (text.at >= data && text.at + text.length <= data + length);
}

#include "service_units.c"

/* The result for bytes that end where their memory does. `*total` is the size of a message that is there as a whole, or 0. */
static enum service_parsed parse(const struct unit *unit, uint8_t options, const uint8_t *at, size_t length, uint64_t *total)
{
    struct service_found found = {0};
    struct service_message *message = calloc(1, unit->size);
    uint8_t *data = malloc(length ? length : 1);
    enum service_parsed result;

    if (length)
        memcpy(data, at, length);
    message->note = options & 3;
    message->ended = options & 4;
    result = unit->parse(data, length, message, &found);
    *total = 0;
    if (result == SERVICE_MORE)
        EXPECT(found.need > length);
    if (result == SERVICE_READY && message->total <= length && found.tail.kind == SERVICE_NO_TAIL) {
        message->raw = data;
        *total = message->total;
    }
    if (result == SERVICE_READY)
        unit->check(message, data, length);
    free(data);
    free(message);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size)
{
    const struct unit *unit;
    uint64_t total, part;
    uint8_t options;

    if (size < 2 || size > 4096)
        return 0;
    unit = &units[at[0] % (sizeof units / sizeof units[0])];
    options = at[1];
    at += 2;
    size -= 2;
    if (parse(unit, options, at, size, &total) != SERVICE_READY || total == 0 || options & 4)
        return 0;
    for (uint64_t length = options >> 3; length < total; length += 1 + (options >> 3)) {
        EXPECT(parse(unit, options, at, length, &part) != SERVICE_MALFORMED);
        EXPECT(part == 0);
    }
    EXPECT(parse(unit, options, at, total, &part) != SERVICE_MALFORMED);
    return 0;
}
