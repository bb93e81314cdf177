/* Reads capture files: pcap and pcapng, mapped into memory.
 *
 *     struct sl_capture *c;
 *     char why[SL_CAPTURE_MESSAGE];
 *     if (sl_capture_open(&c, path, why, sizeof why)) ...print why...
 *     while ((got = sl_capture_next(c, &frame)) == 1) ...use frame...
 *     if (got < 0) ...print sl_capture_fault(c)...
 *     sl_capture_close(c);
 *
 * A frame points into the map: there is no copy, allocation or system call per packet. However corrupt a file is,
 * nothing outside it is read, and the packets before the fault are delivered.
 *
 * Limits. The size is fixed at opening: packets that are appended later are ignored, and truncating an open file kills
 * the process (SIGBUS), so never write to a file that is being read. Pipes, compressed files and growing files cannot
 * be mapped; source.h reads them. A reader must be used by one thread at a time. */
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

/* Opens the capture file at path. Returns 0, with the reader in *out, which sl_capture_close closes; or -1, with *out
 * NULL and the reason in message, beginning with the path. */
int sl_capture_open(struct sl_capture **out, const char *path, char *message, size_t message_size);

/* The same for a capture in memory. `bytes` must not change until the capture is closed. */
int sl_capture_open_memory(struct sl_capture **out, const uint8_t *bytes, size_t n, char *message,
                           size_t message_size);

/* Returns 1: *frame is the next packet. 0: the end of the capture. -1: a fault, see sl_capture_fault. After 0 or -1,
 * every later call returns the same result. Only a result of 1 changes *frame. */
int sl_capture_next(struct sl_capture *c, struct sl_frame *frame);

/* Subscribes `take` to the secrets in a pcapng file: sl_capture_next calls it with secrets before it returns the packet
 * after them. Secrets may be of any kind and content, and are valid until the capture is closed. If a block states a
 * length that exceeds the block, the bytes in the block are used. */
void sl_capture_on_secrets(struct sl_capture *c, void (*take)(void *user, uint32_t kind, sl_bytes secrets), void *user);

/* The fault that ended the capture: the position, the number of the packet that would have been next, and "cut short"
 * or "corrupt" with the reason. NULL if there was none. Valid until the capture is closed. */
const char *sl_capture_fault(const struct sl_capture *c);

/* For progress: the bytes read so far (after a fault: the position of the faulty record or block), and the total
 * size. */
uint64_t sl_capture_position(const struct sl_capture *c);
uint64_t sl_capture_size(const struct sl_capture *c);

/* Closes the capture; its frames become invalid. NULL is allowed. */
void sl_capture_close(struct sl_capture *c);

#ifdef __cplusplus
}
#endif

#endif
