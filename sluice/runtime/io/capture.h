/* Reads capture files: pcap and pcapng, mapped into memory.
 *
 *     struct sl_capture *c;
 *     char why[SL_CAPTURE_MESSAGE];
 *     if (sl_capture_open(&c, path, why, sizeof why)) ...print why...
 *     while ((got = sl_capture_next(c, &frame)) == 1) ...use frame...
 *     if (got < 0) ...print sl_capture_fault(c)...
 *     sl_capture_close(c);
 *
 * A frame points into the map: nothing is copied or allocated per packet, and no system call is made. However corrupt a file
 * is, nothing outside it is read, and the packets before the fault are delivered.
 *
 * Limits. The size is the one at opening: packets that are appended later are not seen, and a file that is *truncated* while
 * open ends the process (SIGBUS); so never write to a file that is being read. Pipes, compressed and growing files cannot be
 * mapped: source.h reads them. One reader belongs to one thread at a time. */
#ifndef SL_IO_CAPTURE_H
#define SL_IO_CAPTURE_H

#include "core/packet.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_CAPTURE_MESSAGE = 512,                  /* a message buffer of this size suits any but a very long path */
    SL_CAPTURE_LARGEST_PACKET = 256 << 20,     /* a captured length above this is corruption */
    SL_CAPTURE_MOST_INTERFACES = 1 << 16,      /* of one pcapng section */
};

struct sl_capture;

/* Opens the capture file at path. 0: *out is the reader, to be closed by sl_capture_close. -1: *out is NULL and
 * message says why, beginning with the path. */
int sl_capture_open(struct sl_capture **out, const char *path, char *message, size_t message_size);

/* The same for a capture that is in memory already; bytes must stay as they are until the capture is closed. */
int sl_capture_open_memory(struct sl_capture **out, const uint8_t *bytes, size_t n, char *message,
                           size_t message_size);

/* 1: *frame is the next packet. 0: the end, without fault. -1: a fault, see sl_capture_fault. Unless it returns 1
 * it leaves *frame alone, and so does every later call, with the same result. */
int sl_capture_next(struct sl_capture *c, struct sl_frame *frame);

/* From now on sl_capture_next calls `take` with the secrets that it passes in a pcapng file, before it returns the packet
 * after them. They may be of any kind and content, and are valid until the capture is closed. A block that states more bytes
 * than it has gives those that it has. */
void sl_capture_on_secrets(struct sl_capture *c, void (*take)(void *user, uint32_t kind, sl_bytes secrets), void *user);

/* What ended the capture early: where, at which packet (that would have been next), and "cut short" or
 * "corrupt" with the reason. NULL when there was no fault. Valid until the capture is closed. */
const char *sl_capture_fault(const struct sl_capture *c);

/* For progress: bytes that were read (after a fault: where the faulty record or block begins), and bytes in all. */
uint64_t sl_capture_position(const struct sl_capture *c);
uint64_t sl_capture_size(const struct sl_capture *c);

/* Ends the capture and all frames of it. NULL is allowed. */
void sl_capture_close(struct sl_capture *c);

#ifdef __cplusplus
}
#endif

#endif
