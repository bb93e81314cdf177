/* Where exports go to and come from: a file or FIFO, in which each has its length before it, or Valkey. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct channel;

/* Of `FILE` or `valkey:HOST:PORT:KEY`. NULL if it cannot be opened. */
struct channel *channel_open(const char *place, int write);
void channel_close(struct channel *channel);
/* Returns 0, or -1. The packet's number decides when Valkey gets all state anew. */
int channel_write(struct channel *channel, const uint8_t *bytes, size_t size, uint64_t packet);
/* Returns 1, 0 at the end, or -1 if the last export is not complete. The bytes are valid until the next call. */
int channel_read(struct channel *channel, uint8_t **bytes, size_t *size);

/* valkey.c: the same, for a key of Valkey. */
struct valkey;
struct valkey *valkey_open(const char *host, const char *port, const char *key);
void valkey_close(struct valkey *valkey);
int valkey_write(struct valkey *valkey, const uint8_t *bytes, size_t size, int first);
int valkey_read(struct valkey *valkey, uint8_t **bytes, size_t *size);
