/* Reads the bytes of a capture as a stream: from a file, a pipe or a file that still grows, decompressed where they are
 * compressed. Memory is bounded by two buffers of fixed size and what the decompressing library takes. */
#ifndef SL_IO_READER_H
#define SL_IO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_reader;

enum { SL_READER_END = -1, SL_READER_FAULT = -2 };   /* in place of a number of bytes */

/* A reader of an open file, which it closes. `follow`: see struct sl_source_options. `path` is needed to watch it then. NULL
 * without memory; then the file is closed. */
struct sl_reader *sl_reader_open(int file, const char *path, bool follow);

/* Reads at most `room` bytes: their number; 0: none are there at the moment; END; FAULT. Blocks only while a regular file is
 * read. */
ptrdiff_t sl_reader_read(struct sl_reader *reader, uint8_t *to, size_t room);

/* A descriptor that becomes readable when there may be more bytes; -1: none, look again after a while. */
int sl_reader_descriptor(const struct sl_reader *reader);

/* What is wrong; empty: nothing. */
const char *sl_reader_fault(const struct sl_reader *reader);

/* Bytes of the file that were read, and its size (0: unknown). */
void sl_reader_progress(const struct sl_reader *reader, uint64_t *position, uint64_t *size);

void sl_reader_close(struct sl_reader *reader);

#endif
