/* A thread that takes packets from a list, with state in its local variables. */
#include <pthread.h>
#include <stdio.h>

#include "box.h"

struct job {
  struct packet packet;
  struct job *next;
};

static struct job *jobs; /* top-level updated; to logs */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* top-level */
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER; /* top-level */
static int limit = 10; /* top-level; to logs */

static struct job *take(void) {
  pthread_mutex_lock(&lock);
  while (!jobs) pthread_cond_wait(&ready, &lock);
  struct job *job = jobs;
  jobs = job->next;
  pthread_mutex_unlock(&lock);
  return job;
}

static void *work(void *unused) {
  unsigned syns = 0; /* top-level updated; to logs */
  unsigned last = 0; /* top-level updated; to logs */
  for (;;) {
    struct job *job = take();
    unsigned source = job->packet.source;
    if (job->packet.flags & 2) syns++;
    if (source == last && syns > (unsigned)limit) printf("%u\n", source);
    last = source;
    free(job);
  }
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread; /* persistent */
  char error[256]; /* persistent */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error); /* top-level; to logs */
  if (argc > 2) limit = atoi(argv[2]);
  pthread_create(&thread, NULL, work, NULL);
  for (;;) {
    struct pcap_pkthdr header;
    const unsigned char *bytes = pcap_next(handle, &header);
    if (!bytes) continue;
    struct job *job = malloc(sizeof(*job));
    memcpy(&job->packet, bytes, sizeof(job->packet));
    pthread_mutex_lock(&lock);
    job->next = jobs;
    jobs = job;
    pthread_cond_signal(&ready);
    pthread_mutex_unlock(&lock);
  }
}
