/* A configuration that is read before the first packet, and again after a signal. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "box.h"

struct rule {
  uint32_t address;
  struct rule *next;
};

static struct rule *rules; /* top-level reload */
static volatile sig_atomic_t reload; /* top-level reload */
static const char *path; /* top-level */
static unsigned generation; /* top-level reload */
static unsigned dropped; /* top-level updated */
static char banner[64]; /* persistent */

static void on_signal(int number) {
  (void)number;
  reload = 1;
}

static void read_rules(void) {
  FILE *file = fopen(path, "r");
  char line[128];
  while (rules) {
    struct rule *rule = rules;
    rules = rule->next;
    free(rule);
  }
  while (file && fgets(line, sizeof(line), file)) {
    struct rule *rule = malloc(sizeof(*rule));
    rule->address = (uint32_t)strtoul(line, NULL, 10);
    rule->next = rules;
    rules = rule;
  }
  generation++;
}

static void read_banner(void) {
  int file = open("/etc/motd", O_RDONLY);
  if (read(file, banner, sizeof(banner)) > 0) close(file); /* a file, no packets */
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error); /* top-level */
  path = argv[argc - 1];
  read_banner();
  read_rules();
  signal(SIGHUP, on_signal);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (reload) {
      reload = 0;
      read_rules();
    }
    for (struct rule *rule = rules; packet && rule; rule = rule->next)
      if (rule->address == packet->source) dropped++;
  }
}
