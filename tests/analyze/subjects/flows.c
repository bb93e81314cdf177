/* A hash table of flows with chains and a free list. */
#include <stdio.h>

#include "box.h"

#define BUCKETS 256

struct key {
  uint32_t source, destination;
  uint16_t source_port, destination_port;
};

struct flow {
  struct key key;
  uint64_t packets;
  struct flow *next;
};

static struct flow *table[BUCKETS]; /* top-level updated; key packet.destination packet.destination_port packet.source packet.source_port; to logs */
static struct flow *unused; /* top-level updated; to logs */
static struct flow *block; /* persistent: read through `unused` afterwards */
static uint32_t seed; /* top-level; to logs */
static unsigned evictions; /* top-level updated */
static FILE *output; /* top-level; to logs */

static unsigned hash(const struct key *key) {
  return (key->source ^ key->destination ^ key->source_port ^ key->destination_port ^ seed) % BUCKETS;
}

static struct flow *find(const struct key *key) {
  for (struct flow *flow = table[hash(key)]; flow; flow = flow->next)
    if (memcmp(&flow->key, key, sizeof(*key)) == 0) return flow;
  return NULL;
}

static struct flow *insert(const struct key *key) {
  static unsigned victim; /* top-level updated; to logs */
  unsigned bucket = hash(key);
  if (!unused) {
    victim = (victim + 1) % BUCKETS;
    while (!table[victim]) victim = (victim + 1) % BUCKETS;
    unused = table[victim];
    table[victim] = unused->next;
    evictions++;
  }
  struct flow *flow = unused;
  unused = flow->next;
  flow->key = *key;
  flow->packets = 0;
  flow->next = table[bucket];
  table[bucket] = flow;
  return flow;
}

static void prepare(unsigned flows) {
  static unsigned prepared; /* persistent */
  block = calloc(flows, sizeof(*block));
  for (unsigned i = 0; i < flows; i++) {
    block[i].next = unused;
    unused = &block[i];
    prepared++;
  }
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error); /* top-level; to logs */
  seed = (uint32_t)argc;
  output = fopen("flows.log", "w");
  prepare(1000);
  struct pcap_pkthdr header; /* top-level overwritten: libpcap fills it */
  const unsigned char *bytes;
  while ((bytes = pcap_next(handle, &header))) {
    const struct packet *packet = (const struct packet *)bytes;
    struct key key = {packet->source, packet->destination, packet->source_port, packet->destination_port};
    struct flow *flow = find(&key);
    if (!flow) flow = insert(&key);
    if (flow->packets++ == 0) fprintf(output, "%u\n", key.source);
  }
  return 0;
}
