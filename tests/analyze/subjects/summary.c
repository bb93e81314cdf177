/* Variables that change on the path to the exit, in a handler of exit, and in the loop. */
#include <signal.h>
#include <stdio.h>

#include "box.h"

static unsigned packets; /* top-level updated; to logs */
static unsigned average; /* top-level exit; to logs */
static unsigned bytes_seen; /* top-level updated; to logs */
static volatile sig_atomic_t killed; /* top-level reload; to logs: it decides when the summary is printed */
static int finished; /* top-level exit */

static void on_signal(int number) {
  killed = number;
}

static void summarise(void) {
  average = packets ? bytes_seen / packets : 0;
  printf("%u packets of %u bytes\n", packets, average);
  finished = 1;
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error); /* top-level; to logs */
  signal(SIGINT, on_signal);
  while (!killed) {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(handle, &header);
    if (!bytes) break;
    packets++;
    bytes_seen += header.len;
  }
  summarise();
  return 0;
}
