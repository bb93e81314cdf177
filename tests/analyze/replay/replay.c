/* Lets a subject read a capture: a device's name is the file, and the program ends where the file does. With libpcap. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct pcap pcap_t;
struct pcap_pkthdr;

pcap_t *pcap_open_offline(const char *file, char *error);
int pcap_next_ex(pcap_t *handle, struct pcap_pkthdr **header, const unsigned char **bytes);

struct header {
  long seconds, microseconds;
  uint32_t caplen, len;
};

pcap_t *pcap_open_live(const char *device, int snaplen, int promiscuous, int timeout, char *error) {
  (void)snaplen;
  (void)promiscuous;
  (void)timeout;
  pcap_t *handle = pcap_open_offline(device, error);
  if (!handle) exit(3);
  return handle;
}

const unsigned char *pcap_next(pcap_t *handle, struct header *header) {
  struct pcap_pkthdr *found;
  const unsigned char *bytes;
  if (pcap_next_ex(handle, &found, &bytes) != 1) exit(0);
  *header = *(struct header *)found;
  return bytes;
}

/* What is sent goes to the standard output, so that two runs can be compared. */
int pcap_inject(pcap_t *handle, const void *bytes, size_t size) {
  (void)handle;
  return (int)fwrite(bytes, 1, size, stdout);
}
