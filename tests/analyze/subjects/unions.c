/* State in a union that is used as numbers and as bytes, in a bit field, and in an array that memset clears. */
#include <stdio.h>

#include "box.h"

union word {
  uint32_t number;
  uint8_t bytes[4];
};

struct flags {
  unsigned seen : 1, alarmed : 1, level : 6;
};

static union word last; /* top-level updated; to logs */
static union word scratch; /* top-level overwritten; to logs */
static struct flags flags; /* top-level updated; to logs */
static unsigned histogram[256]; /* top-level updated; key packet.protocol; to logs */
static uint8_t seen[32]; /* top-level updated; key packet.protocol; to logs */
static unsigned window; /* top-level updated; to logs */
static const unsigned limits[4] = {10, 20, 30, 40}; /* top-level; to logs */

static void step(const struct packet *packet) {
  scratch.number = packet->source;
  scratch.bytes[3] = 0;
  if (scratch.number == last.number) flags.seen = 1;
  last.number = scratch.number;
  last.bytes[0] = packet->ttl;
  histogram[packet->protocol]++;
  seen[packet->protocol / 8] |= (uint8_t)(1U << packet->protocol % 8);
  if (++window == 1000) {
    window = 0;
    memset(seen, 0, sizeof(seen));
  }
  if (flags.seen && !flags.alarmed && histogram[6] > limits[flags.level & 3] && seen[0]) {
    flags.alarmed = 1;
    printf("%u\n", packet->source);
  }
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error); /* top-level; to logs */
  for (;;) {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(handle, &header);
    if (!bytes) return 0;
    step((const struct packet *)bytes);
  }
}
