/* Decompresses streams with installed libraries: zlib, libzstd, liblz4, liblzma. A library is loaded when a stream
 * needs it, so none is required to build, or to read uncompressed captures. */
#ifndef SL_IO_DECOMPRESS_H
#define SL_IO_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_decompressor;

enum { SL_MAGIC_BYTES = 6 };   /* sufficient to recognise a format */

/* The name of the compression of a stream, by its first bytes; NULL if it is unknown. */
const char *sl_compression_of(const uint8_t *bytes, size_t n);

/* Opens a decompressor for a name returned by sl_compression_of. Returns NULL on failure, with the reason in `why`. */
struct sl_decompressor *sl_decompressor_open(const char *compression, char *why, size_t why_size);

/* Decompresses the *n bytes at *from to *to, which has space for *room bytes. All four are advanced. `last`: no bytes
 * follow these. Returns 0, or -1 with the reason. If it neither consumes nor produces bytes, it needs more input. */
int sl_decompress(struct sl_decompressor *d, const uint8_t **from, size_t *n, uint8_t **to, size_t *room, bool last,
                  char *why, size_t why_size);

/* Whether the stream may end at its current position. */
bool sl_decompressor_is_whole(const struct sl_decompressor *d);

void sl_decompressor_close(struct sl_decompressor *d);

#endif
