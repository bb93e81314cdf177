/* A token bucket for each source, in a table without chains; and a structure of settings that is only read. */
#include <stdio.h>

#include "box.h"

struct settings {
  unsigned rate, burst;
  const char *name;
};

struct bucket {
  long updated;
  unsigned tokens;
};

static struct settings settings = {100, 200, "limiter"}; /* top-level; to packets logs */
static struct bucket *buckets; /* top-level updated; key packet.source; to packets logs */
static unsigned mask = 0xfff; /* top-level; to packets logs */
static struct { unsigned passed, limited; } counts; /* top-level updated: its numbers are printed in the end; to logs */
static pcap_t *handle; /* top-level; to packets logs */

static int allowed(const struct packet *packet, long now) {
  struct bucket *bucket = buckets + (packet->source & mask);
  unsigned fresh = (unsigned)(now - bucket->updated) * settings.rate;
  bucket->updated = now;
  bucket->tokens = bucket->tokens + fresh > settings.burst ? settings.burst : bucket->tokens + fresh;
  if (bucket->tokens == 0) return 0;
  bucket->tokens--;
  return 1;
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  if (argc > 2) settings.rate = (unsigned)atoi(argv[2]);
  buckets = calloc(mask + 1, sizeof(*buckets));
  handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (;;) {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(handle, &header);
    if (!bytes) break;
    if (allowed((const struct packet *)bytes, header.seconds)) {
      counts.passed++;
      pcap_inject(handle, bytes, header.caplen);
    } else {
      counts.limited++;
    }
  }
  printf("%u passed, %u limited\n", counts.passed, counts.limited);
  return 0;
}
