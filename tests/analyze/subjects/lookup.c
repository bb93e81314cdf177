/* A hash table whose hash and comparison are functions that it has pointers to. */
#include <stdio.h>

#include "box.h"

struct entry {
  struct entry *next;
  uint32_t key[2];
  unsigned hits;
};

struct table {
  unsigned (*hash)(const uint32_t *key);
  int (*equal)(const uint32_t *a, const uint32_t *b);
  struct entry *heads[64];
};

static unsigned mix(const uint32_t *key) {
  unsigned hash = 5381;
  const unsigned char *bytes = (const unsigned char *)key;
  for (unsigned i = 0; i < 8; i++) hash = hash * 33 + bytes[i];
  return hash;
}

static int same(const uint32_t *a, const uint32_t *b) {
  return a[0] == b[0] && a[1] == b[1];
}

static struct table pairs = {mix, same, {0}}; /* top-level updated; key packet.destination packet.source; to logs */
static unsigned full; /* top-level updated */
static FILE *output; /* top-level; to logs */

static struct entry *get(struct table *table, const uint32_t *key) {
  unsigned head = table->hash(key) % 64;
  for (struct entry *entry = table->heads[head]; entry; entry = entry->next)
    if (table->equal(entry->key, key)) return entry;
  struct entry *entry = malloc(sizeof(*entry));
  if (!entry) {
    full++;
    return NULL;
  }
  memcpy(entry->key, key, sizeof(entry->key));
  entry->hits = 0;
  entry->next = table->heads[head];
  table->heads[head] = entry;
  return entry;
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error); /* top-level; to logs */
  output = argc > 2 ? fopen(argv[2], "w") : stdout;
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    uint32_t key[2] = {packet->source, packet->destination};
    struct entry *entry = get(&pairs, key);
    if (entry && ++entry->hits == 100) fprintf(output, "%u to %u\n", key[0], key[1]);
  }
}
