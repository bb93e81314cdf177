/* Decompresses streams with the libraries that the machine has: zlib, libzstd, liblz4, liblzma. They are loaded when a stream
 * needs one, so none is needed to build or to read plain captures. */
#ifndef SL_IO_DECOMPRESS_H
#define SL_IO_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_decompressor;

enum { SL_MAGIC_BYTES = 6 };   /* that are enough to recognise a format */

/* The name of the compression that a stream begins with; NULL: none that is known. */
const char *sl_compression_of(const uint8_t *bytes, size_t n);

/* For a compression that sl_compression_of named. NULL, and the reason in `why`. */
struct sl_decompressor *sl_decompressor_open(const char *compression, char *why, size_t why_size);

/* Decompresses from *from (of *n bytes, which are consumed) to `to`, of which *room is what is left. `last`: nothing follows
 * these bytes. 0, or -1 with the reason. Neither consuming nor producing anything, it needs more bytes. */
int sl_decompress(struct sl_decompressor *d, const uint8_t **from, size_t *n, uint8_t **to, size_t *room, bool last,
                  char *why, size_t why_size);

/* Is the stream at a place where it may end? */
bool sl_decompressor_is_whole(const struct sl_decompressor *d);

void sl_decompressor_close(struct sl_decompressor *d);

#endif
