/* Detectors that register themselves in a list, with an interface of function pointers and state of their own. */
#include <stdio.h>

#include "box.h"

struct detector {
  const char *name;
  void (*start)(struct detector *self);
  int (*inspect)(struct detector *self, const struct packet *packet);
  void *state;
  struct detector *next;
};

struct scan {
  uint32_t last_source;
  unsigned ports;
};

static struct detector *detectors; /* top-level; to logs */
static unsigned alarms; /* top-level updated */
static unsigned started; /* persistent */

static void scan_start(struct detector *self) {
  self->state = calloc(1, sizeof(struct scan));
  started++;
}

static int scan_inspect(struct detector *self, const struct packet *packet) {
  struct scan *scan = self->state;
  if (scan->last_source != packet->source) scan->ports = 0;
  scan->last_source = packet->source;
  return ++scan->ports > 100;
}

static int flood_inspect(struct detector *self, const struct packet *packet) {
  static unsigned syns; /* top-level updated; to logs */
  (void)self;
  if ((packet->flags & 0x12) == 2) syns++;
  return syns > 1000;
}

static struct detector scan = {"scan", scan_start, scan_inspect, NULL, NULL}; /* top-level updated; to logs */
static struct detector flood = {"flood", NULL, flood_inspect, NULL, NULL}; /* top-level; to logs */

static void add(struct detector *detector) {
  detector->next = detectors;
  detectors = detector;
  if (detector->start) detector->start(detector);
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[argc - 1], 65535, 1, 1000, error); /* top-level; to logs */
  add(&scan);
  add(&flood);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    for (struct detector *one = detectors; one; one = one->next)
      if (one->inspect(one, packet)) {
        alarms++;
        puts(one->name);
      }
  }
}
