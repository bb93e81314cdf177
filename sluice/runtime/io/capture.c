/* Opens captures, and reads pcap: a file header, then records (draft-ietf-opsawg-pcap). pcapng.c reads pcapng. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include "io/capture_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000u

int sl_capture_fail(struct sl_capture *c, const char *form, ...)
{
    int n = snprintf(c->fault, sizeof c->fault, "byte %" PRIu64 ", packet %" PRIu64 ": ", c->before + c->position,
                     c->packets + 1);
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(c->fault + n, sizeof c->fault - (size_t)n, form, arguments);
    va_end(arguments);
    return -1;
}

/* ---- pcap ---- */

enum { PCAPNG_HEADER = 28, PCAP_HEADER = 24, PCAP_RECORD = 16, PCAP_MODIFIED_RECORD = 24 };

/* Whether the file begins with a pcap magic. If so, sets the byte order, resolution and record size. */
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
            if (sl_capture_load32(c, c->bytes) == kinds[i].magic) {
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
        return sl_capture_want(c, c->record_header);
    if (left < c->record_header && sl_capture_want(c, c->record_header))
        return SL_CAPTURE_MORE;
    if (left < c->record_header)
        return sl_capture_fail(c, "cut short: %zu bytes are left for a packet header of %" PRIu32, left, c->record_header);
    left -= c->record_header;
    uint32_t captured = sl_capture_load32(c, at + 8);
    if (captured > SL_CAPTURE_LARGEST_PACKET)
        return sl_capture_fail(c, "corrupt: a packet of %" PRIu32 " bytes", captured);
    if (captured > left && sl_capture_want(c, (size_t)c->record_header + captured))
        return SL_CAPTURE_MORE;
    if (captured > left)
        return sl_capture_fail(c, "cut short: %zu bytes are left for a packet of %" PRIu32, left, captured);
    frame->time = (uint64_t)sl_capture_load32(c, at) * NS_PER_SECOND + (uint64_t)sl_capture_load32(c, at + 4) * c->multiply;
    frame->link_type = (uint16_t)c->link_type;
    frame->port = 0;
    c->position += c->record_header + captured;
    return sl_capture_deliver(c, frame, at + c->record_header, captured, sl_capture_load32(c, at + 12));
}

/* ---- opening and closing ---- */

/* The name of the compression or archive format of a file of at least 4 bytes, by its magic; NULL if it is unknown. The
 * formats of decompress.h are not listed, because their files can be read. */
static const char *compression(const uint8_t *bytes, size_t n)
{
    static const struct { const char *name; uint8_t length, magic[6]; } formats[] = {
        {"bzip2", 3, {'B', 'Z', 'h'}},
        {"compress", 2, {0x1f, 0x9d}},
        {"lzip", 4, {'L', 'Z', 'I', 'P'}},
        {"lzop", 4, {0x89, 'L', 'Z', 'O'}},
        {"lzma", 3, {0x5d, 0, 0}},   /* then the size of its dictionary */
        {"lrzip", 4, {'L', 'R', 'Z', 'I'}},
        {"snappy", 6, {0xff, 6, 0, 0, 's', 'N'}},
        {"lz4, legacy frame", 4, {0x02, 0x21, 0x4c, 0x18}},
        {"zlib", 2, {0x78, 0x01}},
        {"zlib", 2, {0x78, 0x9c}},
        {"zlib", 2, {0x78, 0xda}},
        {"zip", 4, {'P', 'K', 3, 4}},
        {"7z", 6, {'7', 'z', 0xbc, 0xaf, 0x27, 0x1c}},
        {"rar", 4, {'R', 'a', 'r', '!'}},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= formats[i].length && memcmp(bytes, formats[i].magic, formats[i].length) == 0)
            return formats[i].name;
    return NULL;
}

/* Recognises the format and checks the file's header. Returns 0; MORE; or -1 with the reason in c->fault. */
int sl_capture_start(struct sl_capture *c)
{
    if (c->fault[0])
        return -1;
    const uint8_t *b = c->bytes;   /* c->position is 0 */
    size_t size = c->size;
    char *reason = c->fault;
    const size_t room = sizeof c->fault;
    if (size < 4 && sl_capture_want(c, PCAP_HEADER)) {
        return SL_CAPTURE_MORE;
    } else if (size == 0) {
        snprintf(reason, room, "empty file");
    } else if (size < 4) {
        snprintf(reason, room, "header cut short: the file has %zu bytes", size);
    } else if (is_pcap(c)) {
        if (size >= PCAP_HEADER) {
            c->link_type = sl_capture_load32(c, b + 20) & 0xffff;  /* upper bits: length of the FCS, flags */
            c->position += PCAP_HEADER;
            c->begun = true;
            return 0;
        }
        if (sl_capture_want(c, PCAP_HEADER))
            return SL_CAPTURE_MORE;
        snprintf(reason, room, "header cut short: %zu of its %d bytes", size, PCAP_HEADER);
    } else if (sl_capture_load32(c, b) == 0x0a0d0d0a) {
        c->pcapng = true;
        if (size < PCAPNG_HEADER && sl_capture_want(c, PCAPNG_HEADER))
            return SL_CAPTURE_MORE;
        if (size < PCAPNG_HEADER) {
            snprintf(reason, room, "header cut short: %zu of its %d bytes", size, PCAPNG_HEADER);
            return -1;
        }
        int got = sl_pcapng_start(c);
        c->begun = got == 0;
        return got;
    } else {
        const char *format = compression(b, size);
        snprintf(reason, room, "unknown format, neither pcap nor pcapng: magic %02x%02x%02x%02x%s%s%s", b[0], b[1], b[2], b[3],
                 format ? " (" : "", format ? format : "", format ? ": decompress it first)" : "");
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
    if (sl_capture_start(c)) {
        snprintf(message, message_size, "%s", c->fault);
        sl_capture_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

int sl_capture_map(struct sl_capture **out, int file, char *reason, size_t reason_size)
{
    struct stat status;
    *out = NULL;
    if (fstat(file, &status) != 0) {
        snprintf(reason, reason_size, "cannot open: %s", strerror(errno));
        return -1;
    }
    if (!S_ISREG(status.st_mode)) {
        snprintf(reason, reason_size, "cannot open: not a regular file");
        return -1;
    }
    if ((uintmax_t)status.st_size > SIZE_MAX) {
        snprintf(reason, reason_size, "cannot open: too large for this machine's address space");
        return -1;
    }
    size_t size = (size_t)status.st_size;
    void *map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    if (map == MAP_FAILED) {
        snprintf(reason, reason_size, "cannot map: %s", strerror(errno));
        return -1;
    }
    if (map)
        posix_madvise(map, size, POSIX_MADV_SEQUENTIAL);
    if (sl_capture_open_memory(out, map, size, reason, reason_size)) {
        if (map)
            munmap(map, size);
        return -1;
    }
    (*out)->mapped = true;
    return 0;
}

int sl_capture_open(struct sl_capture **out, const char *path, char *message, size_t message_size)
{
    char reason[sizeof ((struct sl_capture *)0)->fault];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  /* do not block on a FIFO, which is refused */
    *out = NULL;
    if (file < 0)
        snprintf(reason, sizeof reason, "cannot open: %s", strerror(errno));
    int result = file < 0 ? -1 : sl_capture_map(out, file, reason, sizeof reason);
    if (result)
        snprintf(message, message_size, "%s: %s", path, reason);
    if (file >= 0)
        close(file);
    return result;
}

int sl_capture_step(struct sl_capture *c, struct sl_frame *frame, struct sl_capture_secrets *secrets)
{
    if (c->fault[0])
        return SL_CAPTURE_FAULT;
    if (!c->begun) {
        int got = sl_capture_start(c);
        if (got)
            return got;
    }
    return c->pcapng ? sl_pcapng_step(c, frame, secrets) : next_record(c, frame);
}

int sl_capture_next(struct sl_capture *c, struct sl_frame *frame)
{
    struct sl_capture_secrets secrets;
    int got;
    while ((got = sl_capture_step(c, frame, &secrets)) == SL_CAPTURE_SECRETS)
        if (c->take_secrets)
            c->take_secrets(c->secrets_user, secrets.kind, secrets.bytes);
    return got;
}

struct sl_capture *sl_capture_stream(void)
{
    struct sl_capture *c = calloc(1, sizeof *c);
    if (c)
        c->growing = true;
    return c;
}

void sl_capture_window(struct sl_capture *c, const uint8_t *bytes, size_t size, bool growing)
{
    c->before += c->position;
    c->position = 0;
    c->bytes = bytes;
    c->size = size;
    c->growing = growing;
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
    return c->before + c->position;
}

uint64_t sl_capture_size(const struct sl_capture *c)
{
    return c->before + c->size;
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
