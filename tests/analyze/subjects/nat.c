/* Rewrites addresses: an array that is searched, a counter of ports, and packets that are sent. */
#include "box.h"

#define BINDINGS 1024

struct binding {
  uint32_t inside;
  uint16_t inside_port, outside_port;
  uint64_t packets;
};

static struct binding bindings[BINDINGS]; /* top-level updated; key packet.destination_port packet.source packet.source_port; to packets */
static unsigned used; /* top-level updated; to packets */
static uint16_t next_port = 1024; /* top-level updated; to packets */
static uint32_t outside = 0x0a000001; /* top-level; to packets */
static uint64_t refused; /* top-level updated */
static pcap_t *in; /* top-level; to packets: it decides which packets are received */
static pcap_t *out; /* top-level; to packets */

static struct binding *of_inside(uint32_t address, uint16_t port) {
  for (unsigned i = 0; i < used; i++)
    if (bindings[i].inside == address && bindings[i].inside_port == port) return &bindings[i];
  return NULL;
}

static struct binding *of_outside(uint16_t port) {
  for (unsigned i = 0; i < used; i++)
    if (bindings[i].outside_port == port) return &bindings[i];
  return NULL;
}

static struct binding *bind_to(const struct packet *packet) {
  if (used == BINDINGS) {
    refused++;
    return NULL;
  }
  struct binding *binding = &bindings[used++];
  binding->inside = packet->source;
  binding->inside_port = packet->source_port;
  binding->outside_port = next_port++;
  return binding;
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  in = pcap_open_live(argv[1], 65535, 1, 1000, error);
  out = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error);
  for (;;) {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(in, &header);
    if (!bytes || header.caplen < sizeof(struct packet)) break;
    struct packet packet;
    memcpy(&packet, bytes, sizeof(packet));
    struct binding *binding;
    if (packet.destination == outside) {
      binding = of_outside(packet.destination_port);
      if (!binding) continue;
      packet.destination = binding->inside;
    } else {
      binding = of_inside(packet.source, packet.source_port);
      if (!binding) binding = bind_to(&packet);
      if (!binding) continue;
      packet.source = outside;
      packet.source_port = binding->outside_port;
    }
    binding->packets++;
    pcap_inject(out, &packet, sizeof(packet));
  }
  return 0;
}
