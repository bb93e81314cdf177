/* Writes capture files: pcap with nanosecond times, in little-endian byte order on every machine. A file whose name ends
 * with .gz, .zst, .lz4 or .xz is compressed (compressor.h).
 *
 * Only whole packets are written at once, so that a file is intact up to its last packet whatever ends the process, a full
 * disk included. Packets since the last flush are lost by a crash.
 *
 * A pcap file has one link type, so a frame with another one is refused, and so is a time that exceeds 32 bits of
 * seconds (the year 2106). A refused frame does not change the file, and later frames can be written. After a failed
 * write (disk full), every later call fails with the same message. A writer must be used by one thread at a time. */
#ifndef SL_IO_WRITER_H
#define SL_IO_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "io/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_WRITER_SNAP_LENGTH = 262144 };  /* the largest packet that libpcap reads */
#define SL_WRITER_FIRST UINT32_MAX        /* in place of a link type: the first frame's; Ethernet if there is none */

struct sl_writer;

/* Creates or truncates the file at path, which must not be the file of an open capture. Longer packets are cut to
 * snap_length; 0 means SL_WRITER_SNAP_LENGTH. Returns 0, with the writer in *out, which sl_writer_close closes; or -1,
 * with *out NULL and the reason in message, beginning with the path. */
int sl_writer_open(struct sl_writer **out, const char *path, uint32_t link_type, uint32_t snap_length, char *message,
                   size_t message_size);

/* Appends a frame: its at, captured, length, time and link_type; pcap cannot represent the other members. Returns 0, or
 * -1, see sl_writer_fault. */
int sl_writer_write(struct sl_writer *w, const struct sl_frame *frame);

/* The bytes of the file so far, before compression. */
uint64_t sl_writer_size(const struct sl_writer *w);

/* Flushes the buffer to the kernel: if the process is killed afterwards, the file has every packet up to here. Returns
 * 0, or -1. */
int sl_writer_flush(struct sl_writer *w);

/* The reason of the last failure of sl_writer_write; NULL if there was none. Valid until the next call with w. */
const char *sl_writer_fault(const struct sl_writer *w);

/* Flushes the buffer and frees the writer, even on failure. Returns 0 if every accepted frame is in the file; or -1
 * with the reason in message. NULL is allowed. */
int sl_writer_close(struct sl_writer *w, char *message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
