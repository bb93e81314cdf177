/* Compresses a stream of bytes into a file, by a program of the system that runs beside this one: gzip, zstd, lz4, xz.
 *
 * The program gets the bytes through a socket. If this process crashes, the program sees their end, and finishes the file:
 * it then has every byte that was written before. */
#ifndef SL_IO_COMPRESSOR_H
#define SL_IO_COMPRESSOR_H

#include <stddef.h>
#include <sys/types.h>

/* The program that compresses files of this name, by its suffix (.gz, .zst, .lz4, .xz); NULL: none, it is not
 * compressed. */
const char *sl_compressor_of(const char *path);

/* Starts the program. file: where it writes; not needed after the call. Returns the descriptor to which bytes are written
 * by sl_compressor_write, with the number of the process in *process; or -1, with the reason in `why`. */
int sl_compressor_start(const char *program, int file, pid_t *process, char *why, size_t why_size);

/* Writes all bytes. Returns 0, or -1 with errno: EPIPE if the program has ended. */
int sl_compressor_write(int descriptor, const void *bytes, size_t n);

/* Closes the descriptor and waits until the file is complete. Returns 0, or -1 with the reason. */
int sl_compressor_finish(const char *program, int descriptor, pid_t process, char *why, size_t why_size);

#endif
