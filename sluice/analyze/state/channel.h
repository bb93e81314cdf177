/* Targets and sources of exports: a file or FIFO, in which each has its length before it, or Valkey. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MOST_EXPORT ((uint64_t)1 << 34)
enum { CHANNEL_CUT = -1, CHANNEL_WRONG = -2 };

struct channel;

/* Of `FILE` or `valkey:HOST:PORT:KEY`. NULL if it cannot be opened. */
struct channel *channel_open(const char *place, int write);
void channel_close(struct channel *channel);
/* Returns 0, or -1. The packet's number decides when Valkey gets all state again. */
int channel_write(struct channel *channel, const uint8_t *bytes, size_t size, uint64_t packet);
/* Returns 1; 0 at the end; CHANNEL_CUT if the last export is not complete; or CHANNEL_WRONG if the data is no list of
 * exports. The bytes are valid until the next call. */
int channel_read(struct channel *channel, uint8_t **bytes, size_t *size);

/* Reads bytes of a length that is not trusted. Returns 1, CHANNEL_CUT or CHANNEL_WRONG. */
int channel_take(FILE *file, uint64_t length, uint8_t **bytes, size_t *space);

/* valkey.c: the same, for a key of Valkey. */
struct valkey;
struct valkey *valkey_open(const char *host, const char *port, const char *key);
void valkey_close(struct valkey *valkey);
int valkey_write(struct valkey *valkey, const uint8_t *bytes, size_t size, int first);
int valkey_read(struct valkey *valkey, uint8_t **bytes, size_t *size);
