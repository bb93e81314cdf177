/* Processing that fails by longjmp, and an unknown library that calls back. */
#include <setjmp.h>

#include "box.h"

void inspector_register(int (*callback)(void *), void *argument); /* of a library without a description */

static jmp_buf failed; /* top-level: it is written before the first packet */
static unsigned failures; /* top-level updated */
static unsigned inspected; /* top-level updated */
static unsigned *hidden = &inspected; /* top-level updated: unknown code has its address */
static unsigned starts; /* persistent */

static int inspect(void *argument) {
  unsigned **count = argument;
  return (int)++**count;
}

static void parse(const struct packet *packet) {
  if (packet->version != 4) longjmp(failed, 1);
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error); /* top-level */
  starts++;
  inspector_register(inspect, &hidden);
  if (setjmp(failed)) failures++;
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (packet) parse(packet);
  }
}
