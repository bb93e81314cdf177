/* State in a local variable of main, to which the callback of pcap_loop has a pointer. */
#include <stdio.h>

#include "box.h"

struct context {
  uint64_t packets;
  uint64_t bytes;
  uint32_t last_source;
};

static int verbose; /* top-level; to logs */
static const char *device = "eth0"; /* persistent */
static uint64_t too_short; /* top-level updated */

static void on_packet(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes) {
  struct context *context = (struct context *)user;
  const struct packet *packet = (const struct packet *)bytes;
  if (header->caplen < sizeof(*packet)) {
    too_short++;
    return;
  }
  context->packets++;
  context->bytes += header->len;
  context->last_source = packet->source;
  if (verbose) printf("%u\n", packet->source);
}

int main(int argc, char **argv) {
  struct context context = {0, 0, 0}; /* top-level updated; to logs */
  char error[256]; /* persistent: its address was given to libpcap before the loop */
  int status;
  if (argc > 1) device = argv[1];
  verbose = argc > 2;
  pcap_t *handle = pcap_open_live(device, 65535, 1, 1000, error);
  status = pcap_loop(handle, -1, on_packet, (unsigned char *)&context);
  printf("%llu packets\n", (unsigned long long)context.packets);
  return status;
}
