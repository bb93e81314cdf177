/* Counters that packet processing knows only by pointers, which were set up before. */
#include "box.h"

static unsigned tcp_packets; /* top-level updated */
static unsigned udp_packets; /* top-level updated */
static unsigned other_packets; /* top-level updated */
static unsigned unrelated; /* persistent */

struct counter {
  uint8_t protocol;
  unsigned *count;
};

static struct counter counters[3]; /* top-level; key packet.protocol */
static unsigned **indirect; /* top-level */
static unsigned *chosen = &other_packets; /* top-level */

static void prepare(void) {
  counters[0].protocol = 6;
  counters[0].count = &tcp_packets;
  counters[1].protocol = 17;
  counters[1].count = &udp_packets;
  indirect = &chosen;
  unrelated = 1;
}

static void count(uint8_t protocol) {
  for (struct counter *one = counters; one->count; one++)
    if (one->protocol == protocol) {
      ++*one->count;
      return;
    }
  ++**indirect;
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error); /* top-level */
  prepare();
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (packet) count(packet->protocol);
  }
}
