/* What the subjects use of libpcap and of packets, so that they compile where libpcap's headers are missing. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct pcap pcap_t;
struct pcap_pkthdr {
  long seconds, microseconds;
  uint32_t caplen, len;
};
typedef void (*pcap_handler)(unsigned char *user, const struct pcap_pkthdr *header, const unsigned char *bytes);

pcap_t *pcap_open_live(const char *device, int snaplen, int promiscuous, int timeout, char *error);
const unsigned char *pcap_next(pcap_t *handle, struct pcap_pkthdr *header);
int pcap_loop(pcap_t *handle, int count, pcap_handler callback, unsigned char *user);
int pcap_inject(pcap_t *handle, const void *bytes, size_t length);

struct packet { /* IPv4 and TCP without options */
  uint8_t version, tos;
  uint16_t length, id, fragment;
  uint8_t ttl, protocol;
  uint16_t checksum;
  uint32_t source, destination;
  uint16_t source_port, destination_port;
  uint32_t sequence, acknowledgement;
  uint8_t offset, flags;
};
