/* Intrusive lists, whose nodes lie in the middle of what they link, and a union. */
#include <stddef.h>

#include "box.h"

struct node {
  struct node *next, *before;
};

struct session {
  uint32_t address;
  union {
    uint32_t *counter;
    uint64_t number;
  } use;
  struct node node;
};

static struct node sessions = {&sessions, &sessions}; /* top-level updated; key packet.source */
static uint32_t known; /* top-level updated */
static uint32_t strangers; /* top-level updated */
static uint32_t never; /* persistent */

static struct session *session_of(struct node *node) {
  return (struct session *)((char *)node - offsetof(struct session, node));
}

static struct session *find(uint32_t address) {
  for (struct node *node = sessions.next; node != &sessions; node = node->next)
    if (session_of(node)->address == address) return session_of(node);
  return NULL;
}

static void add(uint32_t address, uint32_t *counter) {
  struct session *session = malloc(sizeof(*session));
  session->address = address;
  session->use.counter = counter;
  session->node.next = sessions.next;
  session->node.before = &sessions;
  sessions.next->before = &session->node;
  sessions.next = &session->node;
}

int main(int argc, char **argv) {
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error); /* top-level */
  for (int i = 2; i < argc; i++) add((uint32_t)atoi(argv[i]), &known);
  never = (uint32_t)argc;
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    struct session *session = find(packet->source);
    if (!session)
      add(packet->source, &strangers);
    else
      ++*session->use.counter;
  }
}
