/* The internal state of a capture reader, for capture.c (pcap, opening), pcapng.c, and the back end that reads captures
 * as streams (capture_source.c).
 *
 * The reader parses a window of bytes. For a mapped file, the window is the whole file. For a stream, it holds the
 * bytes that have arrived and are not parsed yet, and the owner of the reader moves it (sl_capture_window). */
#ifndef SL_IO_CAPTURE_READER_H
#define SL_IO_CAPTURE_READER_H

#include "io/capture.h"

#include <stdbool.h>
#include <string.h>

/* One interface of a pcapng section. A time of t ticks is t / divide * multiply >> shift nanoseconds. */
struct sl_capture_interface {
    uint32_t link_type;
    uint32_t snap_length;  /* 0: no limit */
    uint64_t divide;
    uint32_t multiply;
    uint8_t shift;
    int64_t offset;        /* seconds, added to every time */
};

struct sl_capture {
    const uint8_t *bytes;       /* the window */
    size_t size;
    size_t position;            /* of the next record or block in the window; at most `size` */
    uint64_t before;            /* bytes of the capture before the window */
    size_t needed;              /* after MORE: the number of bytes from the position that the step needs */
    uint64_t packets;           /* delivered so far */
    bool growing;               /* more bytes may follow the window */
    bool begun;                 /* the header of the file is parsed */
    bool mapped;                /* the reader has mapped the window; otherwise it is the caller's memory */
    bool pcapng;
    bool swapped;               /* the file's byte order (pcapng: the section's) differs from the machine's */
    uint32_t record_header;     /* pcap: length of the header before each packet */
    uint32_t link_type;         /* pcap: of every packet */
    uint32_t multiply;          /* pcap: nanoseconds per unit of the fraction */
    struct sl_capture_interface *interfaces;  /* pcapng: of the current section */
    uint32_t interface_count, interface_room;
    void (*take_secrets)(void *user, uint32_t kind, sl_bytes secrets);   /* NULL: no subscriber */
    void *secrets_user;
    char fault[256];            /* empty: none */
};

struct sl_capture_secrets {
    uint32_t kind;
    sl_bytes bytes;   /* in the window */
};

/* The result of a step. */
enum sl_capture_found {
    SL_CAPTURE_FAULT = -1,
    SL_CAPTURE_END = 0,
    SL_CAPTURE_PACKET = 1,
    SL_CAPTURE_SECRETS = 2,   /* decryption secrets, for the packets after them */
    SL_CAPTURE_MORE = 3,      /* the window is growing, and ends within the next record: c->needed bytes are needed */
    SL_CAPTURE_NOTHING = 4,   /* a block without a packet (internal to pcapng.c) */
};

/* Parses the next packet or secrets. Other blocks of pcapng are skipped. */
int sl_capture_step(struct sl_capture *c, struct sl_frame *frame, struct sl_capture_secrets *secrets);

/* pcapng.c: the same for a pcapng file, and the check of the first section header (0, MORE, or -1 with a fault). */
int sl_pcapng_step(struct sl_capture *c, struct sl_frame *frame, struct sl_capture_secrets *secrets);
int sl_pcapng_start(struct sl_capture *c);

/* Recognises the format and checks the file's header. Returns 0; MORE; or -1 with the reason in c->fault. */
int sl_capture_start(struct sl_capture *c);

/* Maps an open regular file, which may be closed afterwards. Returns 0, or -1 with the reason, without the file's
 * name. */
int sl_capture_map(struct sl_capture **out, int file, char *reason, size_t reason_size);

/* Creates a reader of a stream, with an empty window. Returns NULL if memory is exhausted. */
struct sl_capture *sl_capture_stream(void);

/* Moves the window of a stream's reader. `bytes` starts with the first byte that is not parsed yet. `growing`: see the
 * field. */
void sl_capture_window(struct sl_capture *c, const uint8_t *bytes, size_t size, bool growing);

/* Records a fault and its position. Returns -1. */
__attribute__((format(printf, 2, 3))) int sl_capture_fail(struct sl_capture *c, const char *form, ...);

static inline uint16_t sl_capture_load16(const struct sl_capture *c, const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return c->swapped ? __builtin_bswap16(value) : value;
}

static inline uint32_t sl_capture_load32(const struct sl_capture *c, const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return c->swapped ? __builtin_bswap32(value) : value;
}

static inline uint64_t sl_capture_load64(const struct sl_capture *c, const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return c->swapped ? __builtin_bswap64(value) : value;
}

/* Records that the step needs `needed` bytes, which the window does not have. Returns MORE if the window is growing;
 * else 0, and the caller reports a capture that is cut short. */
static inline int sl_capture_want(struct sl_capture *c, size_t needed)
{
    c->needed = needed;
    return c->growing ? SL_CAPTURE_MORE : 0;
}

/* Delivers captured bytes from `at` on. The caller has checked that they are inside the window. */
static inline int sl_capture_deliver(struct sl_capture *c, struct sl_frame *frame, const uint8_t *at, uint32_t captured,
                                     uint32_t length)
{
    frame->at = at;
    frame->captured = captured;
    frame->length = length < captured ? captured : length;
    frame->buffer = 0;
    frame->queue = 0;
    frame->flags = 0;
    frame->number = ++c->packets;
    return SL_CAPTURE_PACKET;
}

#endif
