/* Copies of packets wait in a ring until there are enough of them. */
#include "box.h"

#define SLOTS 32

struct slot {
  unsigned length;
  unsigned char bytes[2048];
};

static struct slot ring[SLOTS]; /* top-level updated; to packets */
static unsigned first; /* top-level updated; to packets */
static unsigned count; /* top-level updated; to packets */
static unsigned batch = 8; /* top-level; to packets */
static unsigned longest; /* top-level updated */
static pcap_t *handle; /* top-level; to packets */

static void put(const unsigned char *bytes, unsigned length) {
  struct slot *slot = &ring[(first + count++) % SLOTS];
  slot->length = length < sizeof(slot->bytes) ? length : sizeof(slot->bytes);
  memcpy(slot->bytes, bytes, slot->length);
  if (length > longest) longest = length;
}

static void flush(void) {
  for (; count; count--) {
    pcap_inject(handle, ring[first].bytes, ring[first].length);
    first = (first + 1) % SLOTS;
  }
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error);
  for (;;) {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(handle, &header);
    if (!bytes) return 0;
    put(bytes, header.caplen);
    if (count == batch) flush();
  }
}
