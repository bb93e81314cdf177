/* Reads the bytes of a capture as a stream from a file, a pipe or a growing file, and decompresses them if necessary.
 * Memory is bounded by two buffers of fixed size and the memory of the decompression library. */
#ifndef SL_IO_READER_H
#define SL_IO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_reader;

enum { SL_READER_END = -1, SL_READER_FAULT = -2 };   /* results in place of a number of bytes */

/* Creates a reader of an open file, which it closes. `follow`: see struct sl_source_options; in this case, `path` is
 * used to watch the file. Returns NULL if memory is exhausted, and closes the file. */
struct sl_reader *sl_reader_open(int file, const char *path, bool follow);

/* Reads at most `room` bytes. Returns their number; 0 if none are available now; END; or FAULT. It blocks only to read
 * a regular file. */
ptrdiff_t sl_reader_read(struct sl_reader *reader, uint8_t *to, size_t room);

/* A descriptor that becomes readable when there may be more bytes; -1 if there is none, so that the caller must
 * poll. */
int sl_reader_descriptor(const struct sl_reader *reader);

/* The fault; an empty text if there is none. */
const char *sl_reader_fault(const struct sl_reader *reader);

/* The number of bytes read from the file, and the size of the file (0: unknown). */
void sl_reader_progress(const struct sl_reader *reader, uint64_t *position, uint64_t *size);

void sl_reader_close(struct sl_reader *reader);

#endif
