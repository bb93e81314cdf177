/* Variables of one packet, in several places; and local variables that last. */
#include <stdio.h>

#include "box.h"

static struct packet current; /* top-level overwritten: of one packet, and global all the same; to logs */
static char line[128]; /* top-level overwritten; to logs */

static const char *text_of(uint32_t address) {
  static char text[16]; /* top-level overwritten; to logs */
  snprintf(text, sizeof(text), "%u", address);
  return text;
}

static void process(void) {
  unsigned ports = current.source_port + current.destination_port;
  snprintf(line, sizeof(line), "%s %u", text_of(current.source), ports);
  puts(line);
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error); /* top-level; to logs */
  unsigned quota = 1000; /* top-level updated; to logs */
  unsigned size;
  unsigned longest = 0; /* top-level updated; to logs */
  const char *name = argv[argc - 1];
  printf("%s\n", name);
  do {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(handle, &header);
    if (!bytes) continue;
    size = header.len;
    if (size > longest) longest = size;
    memcpy(&current, bytes, sizeof(current));
    process();
  } while (--quota);
  printf("%u\n", longest);
  return 0;
}
