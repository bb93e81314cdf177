/* Writes capture files: pcap with nanosecond times, in little-endian byte order on every machine.
 *
 * A pcap file has one link type, so a frame of another is refused; so is a time beyond its 32 bits of seconds
 * (the year 2106). A refused frame leaves the file as it was, and the writer goes on. A failed write (disk full)
 * does not: every later call fails with the same message. One writer belongs to one thread at a time. */
#ifndef SL_IO_WRITER_H
#define SL_IO_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "io/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_WRITER_SNAP_LENGTH = 262144 };  /* the largest packet that libpcap reads back */
#define SL_WRITER_FIRST UINT32_MAX        /* in place of a link type: that of the first frame; Ethernet without any */

struct sl_writer;

/* Creates the file at path, or empties it: it must not be the file that a capture is reading. Longer packets are
 * cut to snap_length; 0 stands for SL_WRITER_SNAP_LENGTH. 0: *out is the writer, to be closed by sl_writer_close.
 * -1: *out is NULL and message says why, beginning with the path. */
int sl_writer_open(struct sl_writer **out, const char *path, uint32_t link_type, uint32_t snap_length, char *message,
                   size_t message_size);

/* Appends frame: its at, captured, length, time and link_type; the rest has no place in pcap.
 * 0, or -1, and then sl_writer_fault says why. */
int sl_writer_write(struct sl_writer *w, const struct sl_frame *frame);

/* Hands what is buffered to the kernel: if the process is killed afterwards, the file has every packet up to here. 0, or -1. */
int sl_writer_flush(struct sl_writer *w);

/* Why the last sl_writer_write that failed did so; NULL if none has. Valid until the next call with w. */
const char *sl_writer_fault(const struct sl_writer *w);

/* Writes out what is buffered and ends the writer, in any case. 0: every frame that was accepted is in the file.
 * -1: some are not, and message says why. NULL is allowed. */
int sl_writer_close(struct sl_writer *w, char *message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
