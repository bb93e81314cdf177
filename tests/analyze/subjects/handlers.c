/* Handlers in a table of function pointers; one is never put into it, and one only runs before the first packet. */
#include "box.h"

typedef void (*handler)(const struct packet *packet);

static handler handlers[256]; /* top-level; key packet.protocol */
static unsigned syns; /* top-level updated */
static unsigned datagrams; /* top-level updated */
static unsigned icmp; /* persistent */
static unsigned checks; /* persistent */

static void on_tcp(const struct packet *packet) {
  if (packet->flags & 2) syns++;
}

static void on_udp(const struct packet *packet) {
  datagrams += packet->length > 0;
}

void on_icmp(const struct packet *packet) {
  icmp += packet->length > 0;
}

static void self_test(handler tested) {
  struct packet packet = {0};
  checks++;
  tested(&packet);
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  struct pcap_pkthdr header; /* top-level overwritten: as in flows.c */
  pcap_t *handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error); /* top-level */
  handlers[6] = on_tcp;
  handlers[17] = on_udp;
  self_test(on_udp);
  const unsigned char *bytes;
  while ((bytes = pcap_next(handle, &header)) != NULL) {
    const struct packet *packet = (const struct packet *)bytes;
    if (handlers[packet->protocol]) handlers[packet->protocol](packet);
  }
  return 0;
}
