/* Blocks external hosts that create too many connections: the running example of StateAlyzr (Khalid, 2019, figure 4.5),
 * completed so that it compiles. */
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <net/ethernet.h>
#include <pthread.h>

#include "box.h"

struct host {
  unsigned ip;
  int count;
  struct host *next;
};

pcap_t *intPcap; /* top-level; to packets */
pcap_t *extPcap; /* top-level; to packets */
int threshold;   /* top-level; to packets */
char *queue[100]; /* top-level updated; to packets: the thread that counts takes them from it */
int head = 0;    /* top-level updated; to packets */
int tail = 0;    /* top-level updated; to packets */
struct host *hosts = NULL; /* top-level updated; key ip.ip_src; to packets */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* top-level */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* top-level */

void *processPacket(void *unused);
struct host *lookup(unsigned ip);
int loopProcedure(void);

int main(int argc, char **argv) {
  char errbuf[256];
  pthread_t thread;
  if (argc < 4) return 2;
  intPcap = pcap_open_live(argv[1], 65535, 1, 1000, errbuf);
  extPcap = pcap_open_live(argv[2], 65535, 1, 1000, errbuf);
  threshold = atoi(argv[3]);
  pthread_create(&thread, NULL, processPacket, NULL);
  return loopProcedure();
}

static void ifFull_Wait(void) {
  pthread_mutex_lock(&lock);
  while ((head + 1) % 100 == tail) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

static void ifEmpty_Wait(void) {
  pthread_mutex_lock(&lock);
  while (head == tail) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

void enqueue(char *pkt) {
  head = (head + 1) % 100;
  queue[head] = pkt;
}

char *dequeue(void) {
  int *index = &tail;
  *index = (*index + 1) % 100;
  return queue[*index];
}

int loopProcedure(void) {
  while (1) {
    struct pcap_pkthdr pcapHdr;
    char *pkt = (char *)pcap_next(extPcap, &pcapHdr);
    ifFull_Wait();
    enqueue(pkt);
    struct ip *ipHdr = (struct ip *)(pkt + sizeof(struct ether_header));
    struct host *entry = lookup(ipHdr->ip_src.s_addr);
    if (entry && entry->count < threshold) pcap_inject(intPcap, pkt, pcapHdr.caplen);
  }
}

void *processPacket(void *unused) {
  while (1) {
    ifEmpty_Wait();
    char *pkt = dequeue();
    struct ether_header *ethHdr = (struct ether_header *)pkt;
    struct ip *ipHdr = (struct ip *)(ethHdr + 1);
    struct tcphdr *tcpHdr = (struct tcphdr *)(ipHdr + 1);
    struct host *entry = lookup(ipHdr->ip_src.s_addr);
    if (NULL == entry) {
      struct host *new = malloc(sizeof(struct host));
      new->ip = ipHdr->ip_src.s_addr;
      new->next = hosts;
      hosts = new;
      entry = new;
    }
    if (tcpHdr->syn && !tcpHdr->ack) entry->count++;
  }
  return unused;
}

struct host *lookup(unsigned ip) {
  struct host *curr = hosts;
  while (curr != NULL) {
    if (curr->ip == ip) return curr;
    curr = curr->next;
  }
  return NULL;
}
