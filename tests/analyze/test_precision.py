"""What is told apart: memory of an allocator of the program's own by its calls, threads that run once from those that
run several times at once, and what a thread begins with from what packets change."""

from __future__ import annotations

import pytest

from sluice.analyze.report.model import Analysis, Variable
from tests.analyze.conftest import analysis_of

HELPERS = r"""
#include <stdio.h>
static void *allocate(size_t bytes) {
  void *memory = malloc(bytes);
  if (!memory) { fprintf(stderr, "no memory for %zu\n", bytes); exit(1); }
  return memory;
}
static void *allocate_many(size_t bytes, int times) { return allocate(bytes * times); }
static void put(int *to, int value) { *to = value; }
static int *counted, *configured, *never;
static const char *const names[] = {"a", "b"};
static const char *chosen = "c";
static int early;

int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  counted = allocate(sizeof(int));
  configured = allocate(sizeof(int));
  never = allocate_many(sizeof(int), 4);
  put(configured, argc);
  put(&early, argc);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    put(counted, *counted + 1);
    char *text = packet->ttl ? (char *)chosen : (char *)names[packet->tos & 1];
    text[0] = 0;  /* of a constant: no defined run gets here */
    printf("%d %d %d %d %s\n", *counted, *configured, *never, early, chosen);
  }
}
"""


def test_calls_of_an_allocator_are_told_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = analysis_of(HELPERS, tmp_path_factory.mktemp("helpers"))
    by_name = {one.name: one for one in found.variables}
    assert {name for name, one in by_name.items() if one.updates} == {"counted"}
    assert "put" in {one.name for one in found.procedures}
    (update,) = by_name["counted"].updates
    assert update.place.function == "put"
    assert update.chain[1].startswith("malloc at ") and " for " in update.chain[1]


THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
struct when { long sec, nsec; };
static pthread_mutex_t lock;
static pthread_cond_t changed;
static int queue[64], head, tail, rate;
static int scratch, scratch_of_many;
static int *shown;

static int next(void) { return head == tail ? -1 : queue[tail++ & 63]; }

static void *once(void *argument) {
  struct timespec limit;
  int sent = 0, i, delayed;
  limit.tv_nsec = 0;
  for (;;) {
    pthread_mutex_lock(&lock);
    limit.tv_sec = time(NULL) + 1;
    pthread_cond_timedwait(&changed, &lock, &limit);
    scratch = next();
    pthread_mutex_unlock(&lock);
    delayed = 0;
    for (i = 0; i < 4; i++) {
      if (delayed++ == rate) usleep(10);
      printf("%d %d\n", sent++, scratch);
    }
  }
}
static void *often(void *argument) {
  int own = 0, given = 0;
  shown = &given;
  for (;;) {
    pthread_mutex_lock(&lock);
    pthread_cond_wait(&changed, &lock);
    own = next();
    given = own;
    scratch_of_many = own;
    pthread_mutex_unlock(&lock);
    printf("%d %d %d\n", own, *shown, scratch_of_many);
  }
}
static void *polls(void *argument) {
  for (;;) {
    int seen = 0;
    while (rate > 0) {
      usleep(10);
      if (head != tail) seen++;
    }
    printf("%d\n", seen);
  }
}
static void *(*const table[])(void *) = {once, polls};

int main(int argc, char **argv) {
  char error[256];
  pthread_t id;
  rate = argc;
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (int i = 0; i < 2; i++) pthread_create(&id, NULL, table[i], NULL);
  for (int i = 0; i < argc; i++) pthread_create(&id, NULL, often, NULL);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    pthread_mutex_lock(&lock);
    queue[head++ & 63] = packet->ttl;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
  }
}
"""


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Variable]:
    found: Analysis = analysis_of(THREADS, tmp_path_factory.mktemp("threads"))
    return {one.name: one for one in found.variables}


@pytest.mark.parametrize("name", ["limit", "scratch", "own"])
def test_a_thread_overwrites_what_only_it_can_reach(name: str, threads: dict[str, Variable]) -> None:
    assert name not in threads or not threads[name].is_state


@pytest.mark.parametrize("name", ["sent", "queue", "head", "tail", "seen", "given", "scratch_of_many"])
def test_what_threads_carry_or_share_is_state(name: str, threads: dict[str, Variable]) -> None:
    assert threads[name].is_state


@pytest.mark.parametrize("name", ["i", "delayed"])
def test_a_loop_that_only_delays_receives_nothing(name: str, threads: dict[str, Variable]) -> None:
    assert name not in threads
