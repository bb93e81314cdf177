#include "channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FIRST_SPACE 65536
#define SNAPSHOT 1000 /* packets after which Valkey gets all state, and drops the differences before */

struct channel {
  FILE *file;
  struct valkey *valkey;
  uint8_t *bytes;
  size_t space;
};

struct channel *channel_open(const char *place, int write) {
  struct channel *made = calloc(1, sizeof(*made));
  char host[256], port[16], key[256];
  if (!made) return NULL;
  if (sscanf(place, "valkey:%255[^:]:%15[0-9]:%255s", host, port, key) == 3)
    made->valkey = valkey_open(host, port, key);
  else
    made->file = fopen(place, write ? "wb" : "rb");
  if (made->file || made->valkey) return made;
  free(made);
  return NULL;
}

void channel_close(struct channel *channel) {
  if (channel->file) fclose(channel->file);
  if (channel->valkey) valkey_close(channel->valkey);
  free(channel->bytes);
  free(channel);
}

int channel_write(struct channel *channel, const uint8_t *bytes, size_t size, uint64_t packet) {
  if (channel->valkey) {
    struct sluice_export all;
    const int whole = packet % SNAPSHOT == 1;
    if (whole && packet > 1) { /* the first export has all state already */
      if (sluice_state_export(SLUICE_ALL, &all) != 0) return -1;
      bytes = all.bytes;
      size = all.size;
    }
    return valkey_write(channel->valkey, bytes, size, whole);
  }
  const uint64_t length = size;
  if (fwrite(&length, sizeof(length), 1, channel->file) != 1) return -1;
  if (fwrite(bytes, 1, size, channel->file) != size) return -1;
  return fflush(channel->file) == 0 ? 0 : -1; /* the standby has it before the next packet is processed */
}

int channel_take(FILE *file, uint64_t length, uint8_t **bytes, size_t *space) {
  if (length > MOST_EXPORT) return CHANNEL_WRONG;
  for (uint64_t have = 0; have < length;) {
    if (have == *space) {
      const uint64_t wanted = have < FIRST_SPACE ? FIRST_SPACE : 2 * have; /* as bytes arrive, whatever the length says */
      uint8_t *grown = realloc(*bytes, wanted);
      if (!grown) return CHANNEL_WRONG;
      *bytes = grown;
      *space = wanted;
    }
    const uint64_t part = length < *space ? length - have : *space - have;
    const size_t got = fread(*bytes + have, 1, part, file);
    if (got == 0) return CHANNEL_CUT;
    have += got;
  }
  return 1;
}

int channel_read(struct channel *channel, uint8_t **bytes, size_t *size) {
  if (channel->valkey) return valkey_read(channel->valkey, bytes, size);
  uint64_t length;
  const size_t got = fread(&length, 1, sizeof(length), channel->file);
  if (got == 0) return 0;
  if (got < sizeof(length)) return CHANNEL_CUT;
  const int status = channel_take(channel->file, length, &channel->bytes, &channel->space);
  if (status < 0) return status;
  *bytes = channel->bytes;
  *size = length;
  return 1;
}
