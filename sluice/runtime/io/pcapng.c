/* Reads pcapng: blocks, each with its length at both ends. A section header block sets the byte order and discards the
 * interfaces, interface blocks add interfaces, packet blocks refer to one, and decryption secrets blocks hold keys for
 * the packets after them. Reference: draft-ietf-opsawg-pcapng. */
#include "io/capture_reader.h"

#include <inttypes.h>
#include <stdlib.h>

__extension__ typedef __int128 wide;

#define NS_PER_SECOND 1000000000u

enum { BLOCK_INTERFACE = 1, BLOCK_PACKET = 2, BLOCK_SIMPLE = 3, BLOCK_ENHANCED = 6, BLOCK_SECRETS = 10,
       BLOCK_SECTION = 0x0a0d0d0a };
enum { OPTION_END = 0, OPTION_TSRESOL = 9, OPTION_TSOFFSET = 14 };
enum { BLOCK_SMALLEST = 12, SECTION_SMALLEST = 28 };

struct block {
    uint32_t type, length;
    const uint8_t *body;
    uint32_t body_length;
};

/* Sets the byte order from a section's byte-order magic. */
static bool set_order(struct sl_capture *c, const uint8_t *magic)
{
    c->swapped = false;
    if (sl_capture_load32(c, magic) == 0x1a2b3c4d)
        return true;
    c->swapped = true;
    return sl_capture_load32(c, magic) == 0x1a2b3c4d;
}

/* Reads type and length of the block at the current position. For a section header, sets the byte order. Returns 0 if
 * *b is a complete block inside the window; MORE; or -1 with a fault. */
static int read_block(struct sl_capture *c, struct block *b)
{
    const uint8_t *at = c->bytes + c->position;
    size_t left = c->size - c->position;
    if (left < BLOCK_SMALLEST && sl_capture_want(c, BLOCK_SMALLEST))
        return SL_CAPTURE_MORE;
    if (left < BLOCK_SMALLEST)
        return sl_capture_fail(c, "cut short: %zu bytes are left for a block of %d or more", left, BLOCK_SMALLEST);
    b->type = sl_capture_load32(c, at);
    /* The type of a section header is a palindrome, so it is recognised in either byte order. */
    if (b->type == BLOCK_SECTION && !set_order(c, at + 8))
        return sl_capture_fail(c, "corrupt: a section header without byte-order magic");
    b->length = sl_capture_load32(c, at + 4);
    if (b->length < BLOCK_SMALLEST || b->length % 4 != 0)
        return sl_capture_fail(c, "corrupt: a block (type 0x%" PRIx32 ") of %" PRIu32 " bytes", b->type, b->length);
    if (b->length > left && sl_capture_want(c, b->length))
        return SL_CAPTURE_MORE;
    if (b->length > left)
        return sl_capture_fail(c, "cut short: %zu bytes are left for a block (type 0x%" PRIx32 ") of %" PRIu32, left, b->type,
                     b->length);
    uint32_t repeated = sl_capture_load32(c, at + b->length - 4);
    if (repeated != b->length)
        return sl_capture_fail(c, "corrupt: a block (type 0x%" PRIx32 ") has length %" PRIu32 " in front and %" PRIu32 " at its end",
                     b->type, b->length, repeated);
    b->body = at + 8;
    b->body_length = b->length - BLOCK_SMALLEST;
    return 0;
}

/* Checks that a block is large enough for the fixed part of its type. Returns 0, or -1 with a fault. */
static int need(struct sl_capture *c, const struct block *b, uint32_t body_length)
{
    if (b->body_length >= body_length)
        return 0;
    return sl_capture_fail(c, "corrupt: a block (type 0x%" PRIx32 ") of %" PRIu32 " bytes, which needs %" PRIu32, b->type,
                 b->length, body_length + BLOCK_SMALLEST);
}

static int begin_section(struct sl_capture *c, const struct block *b)
{
    if (need(c, b, SECTION_SMALLEST - BLOCK_SMALLEST))
        return -1;
    uint16_t major = sl_capture_load16(c, b->body + 4);
    if (major != 1)
        return sl_capture_fail(c, "corrupt: a section of pcapng version %" PRIu16 ", only 1 is known", major);
    c->interface_count = 0;
    return 0;
}

/* Sets the duration of a tick, in seconds: a negative power of 10 or, if the top bit is set, of 2. */
static void set_resolution(struct sl_capture_interface *i, uint8_t resolution)
{
    i->multiply = NS_PER_SECOND;
    i->divide = 1;
    i->shift = 0;
    if (resolution & 0x80) {
        i->shift = resolution & 0x7f;
        return;
    }
    for (; resolution > 0 && i->multiply > 1; resolution--)
        i->multiply /= 10;
    if (resolution > 19)  /* a 64-bit count of such short ticks is less than a nanosecond */
        i->multiply = 0;
    else
        for (; resolution > 0; resolution--)
            i->divide *= 10;
}

/* Nanoseconds since 1970, rounded down and clamped to the range of the result. */
static uint64_t nanoseconds(const struct sl_capture_interface *i, uint32_t ticks_high, uint32_t ticks_low)
{
    uint64_t ticks = (uint64_t)ticks_high << 32 | ticks_low;
    wide time = (wide)(ticks / i->divide) * i->multiply >> i->shift;
    time += (wide)i->offset * NS_PER_SECOND;
    return time < 0 ? 0 : time > UINT64_MAX ? UINT64_MAX : (uint64_t)time;
}

/* Reads the resolution and offset from an interface's options. An option that exceeds the block ends the list, because
 * many writers omit or corrupt the end of the list. */
static void read_options(const struct sl_capture *c, struct sl_capture_interface *i, const uint8_t *at, uint32_t left)
{
    while (left >= 4) {
        uint16_t code = sl_capture_load16(c, at), length = sl_capture_load16(c, at + 2);
        uint32_t whole = 4 + ((length + 3u) & ~3u);
        if (code == OPTION_END || whole > left)
            return;
        if (code == OPTION_TSRESOL && length >= 1)
            set_resolution(i, at[4]);
        else if (code == OPTION_TSOFFSET && length >= 8)
            i->offset = (int64_t)sl_capture_load64(c, at + 4);
        at += whole;
        left -= whole;
    }
}

static int add_interface(struct sl_capture *c, const struct block *b)
{
    if (need(c, b, 8))
        return -1;
    if (c->interface_count == SL_CAPTURE_MOST_INTERFACES)
        return sl_capture_fail(c, "corrupt: more than %d interfaces in a section", SL_CAPTURE_MOST_INTERFACES);
    if (c->interface_count == c->interface_room) {
        uint32_t room = c->interface_room ? c->interface_room * 2 : 8;
        struct sl_capture_interface *grown = realloc(c->interfaces, room * sizeof *grown);
        if (!grown)
            return sl_capture_fail(c, "out of memory for %" PRIu32 " interfaces", room);
        c->interfaces = grown;
        c->interface_room = room;
    }
    struct sl_capture_interface *i = &c->interfaces[c->interface_count++];
    i->link_type = sl_capture_load16(c, b->body);
    i->snap_length = sl_capture_load32(c, b->body + 4);
    i->offset = 0;
    set_resolution(i, 6);
    read_options(c, i, b->body + 8, b->body_length - 8);
    return 0;
}

/* The interface with a number. Returns NULL and sets a fault if the section has no such interface. */
static const struct sl_capture_interface *find_interface(struct sl_capture *c, uint32_t number)
{
    if (number < c->interface_count)
        return &c->interfaces[number];
    sl_capture_fail(c, "corrupt: a packet of interface %" PRIu32 ", the section has %" PRIu32, number, c->interface_count);
    return NULL;
}

/* A packet block, enhanced or obsolete. They differ only in the encoding of the interface. */
static int packet(struct sl_capture *c, const struct block *b, struct sl_frame *frame)
{
    if (need(c, b, 20))
        return -1;
    uint32_t number = b->type == BLOCK_PACKET ? sl_capture_load16(c, b->body) : sl_capture_load32(c, b->body);
    const struct sl_capture_interface *i = find_interface(c, number);
    if (!i)
        return -1;
    uint32_t captured = sl_capture_load32(c, b->body + 12);
    if (captured > SL_CAPTURE_LARGEST_PACKET || captured > b->body_length - 20)
        return sl_capture_fail(c, "corrupt: a packet of %" PRIu32 " bytes in a block of %" PRIu32, captured, b->length);
    frame->time = nanoseconds(i, sl_capture_load32(c, b->body + 4), sl_capture_load32(c, b->body + 8));
    frame->link_type = (uint16_t)i->link_type;
    frame->port = (uint16_t)number;
    return sl_capture_deliver(c, frame, b->body + 20, captured, sl_capture_load32(c, b->body + 16));
}

/* A simple packet block has no interface, time or captured length. It belongs to the first interface, its time is 0,
 * and its captured length is the minimum of the length on the wire, the snap length and the size of the block's
 * data. */
static int simple_packet(struct sl_capture *c, const struct block *b, struct sl_frame *frame)
{
    if (need(c, b, 4))
        return -1;
    const struct sl_capture_interface *i = find_interface(c, 0);
    if (!i)
        return -1;
    uint32_t length = sl_capture_load32(c, b->body), captured = b->body_length - 4;
    if (captured > length)
        captured = length;
    if (i->snap_length && captured > i->snap_length)
        captured = i->snap_length;
    if (captured > SL_CAPTURE_LARGEST_PACKET)
        return sl_capture_fail(c, "corrupt: a packet of %" PRIu32 " bytes", captured);
    frame->time = 0;
    frame->link_type = (uint16_t)i->link_type;
    frame->port = 0;
    return sl_capture_deliver(c, frame, b->body + 4, captured, length);
}

/* Decryption secrets. Packets can be read without them, so a malformed block is not a fault. If a block states a length
 * that exceeds the block, the bytes in the block are used. */
static int find_secrets(const struct sl_capture *c, const struct block *b, struct sl_capture_secrets *secrets)
{
    if (b->body_length < 8)
        return SL_CAPTURE_NOTHING;
    uint32_t length = sl_capture_load32(c, b->body + 4), there = b->body_length - 8;
    length = length < there ? length : there;
    *secrets = (struct sl_capture_secrets){sl_capture_load32(c, b->body), {b->body + 8, length, length}};
    return SL_CAPTURE_SECRETS;
}

/* Processes a block. Returns what it contains, or -1 with a fault. */
static int use_block(struct sl_capture *c, const struct block *b, struct sl_frame *frame, struct sl_capture_secrets *secrets)
{
    switch (b->type) {
    case BLOCK_SECTION: return begin_section(c, b) ? -1 : SL_CAPTURE_NOTHING;
    case BLOCK_INTERFACE: return add_interface(c, b) ? -1 : SL_CAPTURE_NOTHING;
    case BLOCK_ENHANCED:
    case BLOCK_PACKET: return packet(c, b, frame);
    case BLOCK_SIMPLE: return simple_packet(c, b, frame);
    case BLOCK_SECRETS: return find_secrets(c, b, secrets);
    default: return SL_CAPTURE_NOTHING;  /* names, statistics, custom blocks are not needed */
    }
}

int sl_pcapng_step(struct sl_capture *c, struct sl_frame *frame, struct sl_capture_secrets *secrets)
{
    while (c->position < c->size) {
        struct block b = {0};
        int got = read_block(c, &b);
        if (got)
            return got;
        got = use_block(c, &b, frame, secrets);
        if (got < 0)
            return -1;
        c->position += b.length;
        if (got != SL_CAPTURE_NOTHING)
            return got;
    }
    return sl_capture_want(c, BLOCK_SMALLEST);
}

int sl_pcapng_start(struct sl_capture *c)
{
    struct block section = {0};
    int got = read_block(c, &section);
    return got ? got : begin_section(c, &section);   /* the first step reads the block again */
}
