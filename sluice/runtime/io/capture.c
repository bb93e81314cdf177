/* pcap: a file header, then records. pcapng: blocks, each with its length in front and behind; a section header
 * block sets the byte order and forgets the interfaces, interface blocks add them, packet blocks name one, and blocks of
 * decryption secrets hold the keys to what is encrypted in the packets behind them.
 * References: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "io/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__extension__ typedef __int128 wide;

#define NS_PER_SECOND 1000000000u

/* One interface of a pcapng section. A time of t ticks is t / divide * multiply >> shift nanoseconds. */
struct interface {
    uint32_t link_type;
    uint32_t snap_length;  /* 0: no limit */
    uint64_t divide;
    uint32_t multiply;
    uint8_t shift;
    int64_t offset;        /* seconds, added to every time */
};

struct sl_capture {
    const uint8_t *bytes;
    size_t size;
    size_t position;            /* of the record or block to read next; never beyond size */
    uint64_t packets;           /* delivered so far */
    bool mapped;                /* bytes are our map, not the caller's */
    bool pcapng;
    bool swapped;               /* the file's byte order (pcapng: the section's) is not ours */
    uint32_t record_header;     /* pcap: bytes in front of each packet */
    uint32_t link_type;         /* pcap: of every packet */
    uint32_t multiply;          /* pcap: nanoseconds in a unit of the fraction */
    struct interface *interfaces;  /* pcapng: of the current section */
    uint32_t interface_count, interface_room;
    void (*take_secrets)(void *user, uint32_t kind, sl_bytes secrets);   /* NULL: nobody asks for them */
    void *secrets_user;
    char fault[256];            /* empty: none */
};

static uint16_t load16(const struct sl_capture *c, const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return c->swapped ? __builtin_bswap16(value) : value;
}

static uint32_t load32(const struct sl_capture *c, const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return c->swapped ? __builtin_bswap32(value) : value;
}

static uint64_t load64(const struct sl_capture *c, const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return c->swapped ? __builtin_bswap64(value) : value;
}

/* Records the fault with its place. Always -1. */
__attribute__((format(printf, 2, 3))) static int fault(struct sl_capture *c, const char *form, ...)
{
    int n = snprintf(c->fault, sizeof c->fault, "byte %zu, packet %" PRIu64 ": ", c->position, c->packets + 1);
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(c->fault + n, sizeof c->fault - (size_t)n, form, arguments);
    va_end(arguments);
    return -1;
}

/* Delivers captured bytes from at on. The caller has checked that they are inside the file. Always 1. */
static int deliver(struct sl_capture *c, struct sl_frame *frame, const uint8_t *at, uint32_t captured,
                   uint32_t length)
{
    frame->at = at;
    frame->captured = captured;
    frame->length = length < captured ? captured : length;
    frame->number = ++c->packets;
    return 1;
}

/* ---- pcap ---- */

enum { PCAP_HEADER = 24, PCAP_RECORD = 16, PCAP_MODIFIED_RECORD = 24 };

/* True if the file begins with a pcap magic; then the byte order, resolution and record size are set. */
static bool is_pcap(struct sl_capture *c)
{
    static const struct { uint32_t magic, record_header, multiply; } kinds[] = {
        {0xa1b2c3d4, PCAP_RECORD, 1000},
        {0xa1b23c4d, PCAP_RECORD, 1},
        {0xa1b2cd34, PCAP_MODIFIED_RECORD, 1000},  /* old Linux patch: interface and protocol in each record */
    };
    for (int order = 0; order < 2; order++) {
        c->swapped = order == 1;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (load32(c, c->bytes) == kinds[i].magic) {
                c->record_header = kinds[i].record_header;
                c->multiply = kinds[i].multiply;
                return true;
            }
    }
    return false;
}

static int next_record(struct sl_capture *c, struct sl_frame *frame)
{
    const uint8_t *at = c->bytes + c->position;
    size_t left = c->size - c->position;
    if (left == 0)
        return 0;
    if (left < c->record_header)
        return fault(c, "cut short: %zu bytes are left for a packet header of %" PRIu32, left, c->record_header);
    left -= c->record_header;
    uint32_t captured = load32(c, at + 8);
    if (captured > SL_CAPTURE_LARGEST_PACKET)
        return fault(c, "corrupt: a packet of %" PRIu32 " bytes", captured);
    if (captured > left)
        return fault(c, "cut short: %zu bytes are left for a packet of %" PRIu32, left, captured);
    frame->time = (uint64_t)load32(c, at) * NS_PER_SECOND + (uint64_t)load32(c, at + 4) * c->multiply;
    frame->link_type = c->link_type;
    frame->interface = 0;
    c->position += c->record_header + captured;
    return deliver(c, frame, at + c->record_header, captured, load32(c, at + 12));
}

/* ---- pcapng ---- */

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
    if (load32(c, magic) == 0x1a2b3c4d)
        return true;
    c->swapped = true;
    return load32(c, magic) == 0x1a2b3c4d;
}

/* Reads the frame of the block at the current position and, for a section header, sets the byte order. 0: *b is
 * a block that lies inside the file whole. */
static int read_block(struct sl_capture *c, struct block *b)
{
    const uint8_t *at = c->bytes + c->position;
    size_t left = c->size - c->position;
    if (left < BLOCK_SMALLEST)
        return fault(c, "cut short: %zu bytes are left for a block of %d or more", left, BLOCK_SMALLEST);
    b->type = load32(c, at);
    /* The section's type reads the same in both orders, so that it can be known before its length is read. */
    if (b->type == BLOCK_SECTION && !set_order(c, at + 8))
        return fault(c, "corrupt: a section header without byte-order magic");
    b->length = load32(c, at + 4);
    if (b->length < BLOCK_SMALLEST || b->length % 4 != 0)
        return fault(c, "corrupt: a block (type 0x%" PRIx32 ") of %" PRIu32 " bytes", b->type, b->length);
    if (b->length > left)
        return fault(c, "cut short: %zu bytes are left for a block (type 0x%" PRIx32 ") of %" PRIu32, left, b->type,
                     b->length);
    uint32_t behind = load32(c, at + b->length - 4);
    if (behind != b->length)
        return fault(c, "corrupt: a block (type 0x%" PRIx32 ") has length %" PRIu32 " in front and %" PRIu32 " behind",
                     b->type, b->length, behind);
    b->body = at + 8;
    b->body_length = b->length - BLOCK_SMALLEST;
    return 0;
}

/* Faults a block that is too small for the fixed part of its type. 0: it is large enough. */
static int need(struct sl_capture *c, const struct block *b, uint32_t body_length)
{
    if (b->body_length >= body_length)
        return 0;
    return fault(c, "corrupt: a block (type 0x%" PRIx32 ") of %" PRIu32 " bytes, which needs %" PRIu32, b->type,
                 b->length, body_length + BLOCK_SMALLEST);
}

static int begin_section(struct sl_capture *c, const struct block *b)
{
    if (need(c, b, SECTION_SMALLEST - BLOCK_SMALLEST))
        return -1;
    uint16_t major = load16(c, b->body + 4);
    if (major != 1)
        return fault(c, "corrupt: a section of pcapng version %" PRIu16 ", only 1 is known", major);
    c->interface_count = 0;
    return 0;
}

/* Sets what a tick is: a negative power of 10 or, with the top bit set, of 2, in seconds. */
static void set_resolution(struct interface *i, uint8_t resolution)
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
    if (resolution > 19)  /* 10^20 ticks a nanosecond: no 64-bit count of them makes one */
        i->multiply = 0;
    else
        for (; resolution > 0; resolution--)
            i->divide *= 10;
}

/* Nanoseconds since 1970, rounded down; what does not fit stops at the nearest end of the range. */
static uint64_t nanoseconds(const struct interface *i, uint32_t ticks_high, uint32_t ticks_low)
{
    uint64_t ticks = (uint64_t)ticks_high << 32 | ticks_low;
    wide time = (wide)(ticks / i->divide) * i->multiply >> i->shift;
    time += (wide)i->offset * NS_PER_SECOND;
    return time < 0 ? 0 : time > UINT64_MAX ? UINT64_MAX : (uint64_t)time;
}

/* Reads what we need of an interface's options. An option that does not fit in the block ends the list: many
 * writers leave out or garble its end. */
static void read_options(const struct sl_capture *c, struct interface *i, const uint8_t *at, uint32_t left)
{
    while (left >= 4) {
        uint16_t code = load16(c, at), length = load16(c, at + 2);
        uint32_t whole = 4 + ((length + 3u) & ~3u);
        if (code == OPTION_END || whole > left)
            return;
        if (code == OPTION_TSRESOL && length >= 1)
            set_resolution(i, at[4]);
        else if (code == OPTION_TSOFFSET && length >= 8)
            i->offset = (int64_t)load64(c, at + 4);
        at += whole;
        left -= whole;
    }
}

static int add_interface(struct sl_capture *c, const struct block *b)
{
    if (need(c, b, 8))
        return -1;
    if (c->interface_count == SL_CAPTURE_MOST_INTERFACES)
        return fault(c, "corrupt: more than %d interfaces in a section", SL_CAPTURE_MOST_INTERFACES);
    if (c->interface_count == c->interface_room) {
        uint32_t room = c->interface_room ? c->interface_room * 2 : 8;
        struct interface *grown = realloc(c->interfaces, room * sizeof *grown);
        if (!grown)
            return fault(c, "out of memory for %" PRIu32 " interfaces", room);
        c->interfaces = grown;
        c->interface_room = room;
    }
    struct interface *i = &c->interfaces[c->interface_count++];
    i->link_type = load16(c, b->body);
    i->snap_length = load32(c, b->body + 4);
    i->offset = 0;
    set_resolution(i, 6);
    read_options(c, i, b->body + 8, b->body_length - 8);
    return 0;
}

/* The interface that a packet block names; NULL, and a fault, if the section has none of that number. */
static const struct interface *find_interface(struct sl_capture *c, uint32_t number)
{
    if (number < c->interface_count)
        return &c->interfaces[number];
    fault(c, "corrupt: a packet of interface %" PRIu32 ", the section has %" PRIu32, number, c->interface_count);
    return NULL;
}

/* A packet block, enhanced or obsolete: they differ in how they write the interface, and agree from there. */
static int packet(struct sl_capture *c, const struct block *b, struct sl_frame *frame)
{
    if (need(c, b, 20))
        return -1;
    uint32_t number = b->type == BLOCK_PACKET ? load16(c, b->body) : load32(c, b->body);
    const struct interface *i = find_interface(c, number);
    if (!i)
        return -1;
    uint32_t captured = load32(c, b->body + 12);
    if (captured > SL_CAPTURE_LARGEST_PACKET || captured > b->body_length - 20)
        return fault(c, "corrupt: a packet of %" PRIu32 " bytes in a block of %" PRIu32, captured, b->length);
    frame->time = nanoseconds(i, load32(c, b->body + 4), load32(c, b->body + 8));
    frame->link_type = i->link_type;
    frame->interface = number;
    return deliver(c, frame, b->body + 20, captured, load32(c, b->body + 16));
}

/* A simple packet block has neither interface, time nor captured length: it is of the first interface, without
 * time, and as long as the length on the wire, the snap length and the block allow. */
static int simple_packet(struct sl_capture *c, const struct block *b, struct sl_frame *frame)
{
    if (need(c, b, 4))
        return -1;
    const struct interface *i = find_interface(c, 0);
    if (!i)
        return -1;
    uint32_t length = load32(c, b->body), captured = b->body_length - 4;
    if (captured > length)
        captured = length;
    if (i->snap_length && captured > i->snap_length)
        captured = i->snap_length;
    if (captured > SL_CAPTURE_LARGEST_PACKET)
        return fault(c, "corrupt: a packet of %" PRIu32 " bytes", captured);
    frame->time = 0;
    frame->link_type = i->link_type;
    frame->interface = 0;
    return deliver(c, frame, b->body + 4, captured, length);
}

/* Hands on what keys the file carries. No packet depends on it, so nothing in it is a fault. */
static int give_secrets(const struct sl_capture *c, const struct block *b)
{
    if (!c->take_secrets || b->body_length < 8)
        return 0;
    uint32_t length = load32(c, b->body + 4), there = b->body_length - 8;
    length = length < there ? length : there;
    c->take_secrets(c->secrets_user, load32(c, b->body), (sl_bytes){b->body + 8, length, length});
    return 0;
}

/* What the block gives: 1 a packet, 0 none, -1 a fault. */
static int use_block(struct sl_capture *c, const struct block *b, struct sl_frame *frame)
{
    switch (b->type) {
    case BLOCK_SECTION: return begin_section(c, b);
    case BLOCK_INTERFACE: return add_interface(c, b);
    case BLOCK_ENHANCED:
    case BLOCK_PACKET: return packet(c, b, frame);
    case BLOCK_SIMPLE: return simple_packet(c, b, frame);
    case BLOCK_SECRETS: return give_secrets(c, b);
    default: return 0;  /* names, statistics, custom: nothing for us */
    }
}

static int next_block(struct sl_capture *c, struct sl_frame *frame)
{
    while (c->position < c->size) {
        struct block b;
        if (read_block(c, &b))
            return -1;
        int got = use_block(c, &b, frame);
        if (got < 0)
            return -1;
        c->position += b.length;
        if (got > 0)
            return 1;
    }
    return 0;
}

/* ---- opening and closing ---- */

/* The name of the compression or archive format that a file of at least 4 bytes begins like; NULL for none that is known. */
static const char *compression(const uint8_t *bytes, size_t n)
{
    static const struct { const char *name; uint8_t length, magic[6]; } formats[] = {
        {"gzip", 2, {0x1f, 0x8b}},
        {"zstd", 4, {0x28, 0xb5, 0x2f, 0xfd}},
        {"xz", 6, {0xfd, '7', 'z', 'X', 'Z', 0}},
        {"lz4", 4, {0x04, 0x22, 0x4d, 0x18}},
        {"bzip2", 3, {'B', 'Z', 'h'}},
        {"compress", 2, {0x1f, 0x9d}},
        {"lzip", 4, {'L', 'Z', 'I', 'P'}},
        {"lzop", 4, {0x89, 'L', 'Z', 'O'}},
        {"lzma", 4, {0x5d, 0, 0, 0x80}},
        {"zip", 4, {'P', 'K', 3, 4}},
        {"7z", 6, {'7', 'z', 0xbc, 0xaf, 0x27, 0x1c}},
        {"rar", 4, {'R', 'a', 'r', '!'}},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= formats[i].length && memcmp(bytes, formats[i].magic, formats[i].length) == 0)
            return formats[i].name;
    return NULL;
}

/* Recognises the format and checks the file's header. 0, or -1 and the reason. */
static int start(struct sl_capture *c, char *reason, size_t reason_size)
{
    const uint8_t *b = c->bytes;
    if (c->size == 0) {
        snprintf(reason, reason_size, "empty file");
    } else if (c->size < 4) {
        snprintf(reason, reason_size, "header cut short: the file has %zu bytes", c->size);
    } else if (is_pcap(c)) {
        if (c->size >= PCAP_HEADER) {
            c->link_type = load32(c, b + 20) & 0xffff;  /* above: length of the frame check sequence, flags */
            c->position = PCAP_HEADER;
            return 0;
        }
        snprintf(reason, reason_size, "header cut short: %zu of its %d bytes", c->size, PCAP_HEADER);
    } else if (load32(c, b) == BLOCK_SECTION) {
        struct block section;
        c->pcapng = true;
        if (c->size < SECTION_SMALLEST)
            snprintf(reason, reason_size, "header cut short: %zu of its %d bytes", c->size, SECTION_SMALLEST);
        else if (read_block(c, &section) == 0 && begin_section(c, &section) == 0)
            return 0;  /* sl_capture_next reads the block once more, as any other section's */
        else
            snprintf(reason, reason_size, "%s", c->fault);
    } else {
        const char *format = compression(b, c->size);
        snprintf(reason, reason_size, "unknown format, neither pcap nor pcapng: magic %02x%02x%02x%02x%s%s%s", b[0],
                 b[1], b[2], b[3], format ? " (" : "", format ? format : "", format ? ": decompress it first)" : "");
    }
    return -1;
}

int sl_capture_open_memory(struct sl_capture **out, const uint8_t *bytes, size_t n, char *message,
                           size_t message_size)
{
    *out = NULL;
    struct sl_capture *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(message, message_size, "out of memory");
        return -1;
    }
    c->bytes = bytes;
    c->size = n;
    if (start(c, message, message_size)) {
        sl_capture_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

/* Maps the whole regular file at path. 0: *bytes (NULL if the file is empty) and *size; -1 and the reason. */
static int map_file(const char *path, const uint8_t **bytes, size_t *size, char *reason, size_t reason_size)
{
    struct stat status;
    *bytes = NULL;
    *size = 0;
    int result = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  /* a FIFO is to be refused, not waited for */
    if (file < 0 || fstat(file, &status) != 0) {
        snprintf(reason, reason_size, "cannot open: %s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        snprintf(reason, reason_size, "cannot open: not a regular file");
    } else if ((uintmax_t)status.st_size > SIZE_MAX) {
        snprintf(reason, reason_size, "cannot open: too large for this machine's address space");
    } else if (status.st_size == 0) {
        result = 0;
    } else {
        void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (map == MAP_FAILED) {
            snprintf(reason, reason_size, "cannot map: %s", strerror(errno));
        } else {
            posix_madvise(map, (size_t)status.st_size, POSIX_MADV_SEQUENTIAL);
            *bytes = map;
            *size = (size_t)status.st_size;
            result = 0;
        }
    }
    if (file >= 0)
        close(file);
    return result;
}

int sl_capture_open(struct sl_capture **out, const char *path, char *message, size_t message_size)
{
    char reason[sizeof ((struct sl_capture *)0)->fault];
    const uint8_t *bytes;
    size_t size;
    *out = NULL;
    if (map_file(path, &bytes, &size, reason, sizeof reason) == 0) {
        if (sl_capture_open_memory(out, bytes, size, reason, sizeof reason) == 0) {
            (*out)->mapped = true;
            return 0;
        }
        if (bytes)
            munmap((void *)bytes, size);
    }
    snprintf(message, message_size, "%s: %s", path, reason);
    return -1;
}

int sl_capture_next(struct sl_capture *c, struct sl_frame *frame)
{
    if (c->fault[0])
        return -1;
    return c->pcapng ? next_block(c, frame) : next_record(c, frame);
}

void sl_capture_on_secrets(struct sl_capture *c, void (*take)(void *user, uint32_t kind, sl_bytes secrets), void *user)
{
    c->take_secrets = take;
    c->secrets_user = user;
}

const char *sl_capture_fault(const struct sl_capture *c)
{
    return c->fault[0] ? c->fault : NULL;
}

uint64_t sl_capture_position(const struct sl_capture *c)
{
    return c->position;
}

uint64_t sl_capture_size(const struct sl_capture *c)
{
    return c->size;
}

void sl_capture_close(struct sl_capture *c)
{
    if (!c)
        return;
    if (c->mapped)
        munmap((void *)c->bytes, c->size);
    free(c->interfaces);
    free(c);
}
