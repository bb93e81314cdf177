"""What is told apart: the memory of an allocator of the program's own by its calls, threads that run once from those
that run several times at once, and what a thread begins with from what packets change.
"""

from __future__ import annotations

from pathlib import Path

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


CONSTANTS = r"""
#include <stdio.h>
static int names[8], known, kept, switched, passed, before_it, by_pointer, twice;
static int find(int name, int create) {
  for (int i = 0; i < known; i++)
    if (names[i] == name) return i;
  if (!create) return -1;
  names[known++] = name;
  return known - 1;
}
static void choose(int kind) {
  switch (kind) {
    case 1: kept = 1; break;
    case 2: switched++; break;
    default: break;
  }
}
static void deep(int enabled) { if (enabled && known) passed++; }
static void through(int enabled) { deep(enabled); }
static void called(int create) { if (create) by_pointer++; }
static void (*call)(int) = called;
static void again(int times) { if (times) twice++; else if (known) again(times + 1); }
static const unsigned char *next(pcap_t *handle, int count) {
  struct pcap_pkthdr header;
  const unsigned char *found = pcap_next(handle, &header);
  if (count) before_it++;
  return found;
}

int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  find(argc, 1), choose(1), through(1);
  next(handle, 1);
  for (;;) {
    const unsigned char *packet = next(handle, 0);
    if (!packet) return 0;
    through(0);
    choose(2);
    call(argc > 1);
    again(0);
    printf("%d %d %d %d %d %d\n", find(packet[0], 0), kept, switched, passed, before_it, by_pointer + twice);
  }
}
"""


def test_what_constant_arguments_rule_out_is_not_reached(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = analysis_of(CONSTANTS, tmp_path_factory.mktemp("constants"))
    by_name = {one.name: one for one in found.variables}
    not_changed = {"names", "known", "kept", "passed"}
    changed = {"switched", "before_it", "by_pointer", "twice"}  # before_it: the first packet was received there
    assert {name for name in not_changed | changed if by_name[name].updates} == changed


LIBRARY = r"""
#include <stdio.h>
struct stream { unsigned char *next_in; long available; unsigned char *next_out; };
int compress_some(struct stream *stream);
void unknown(const char *, char *);
struct record { int *counted; int *fixed; };
static unsigned char taken[64], made[64];
static const char page[] = "a page";
static char given[8];
static int counts, fixed;
static struct record *records;
static unsigned records_count;

static void *grow(void *old, unsigned before, unsigned bytes) {
  char *memory = realloc(old, bytes);
  memset(memory + before, 0, bytes - before);
  return memory;
}

int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (int i = 0; i < argc; i++) {
    records = grow(records, records_count * sizeof(*records), (records_count + 1) * sizeof(*records));
    records[records_count].counted = &counts;
    records[records_count++].fixed = &fixed;
  }
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    struct stream stream = {taken, sizeof(taken), made};
    compress_some(&stream);
    unknown(page, given);
    ++*records[packet->ttl % records_count].counted;
    printf("%d %d %s %s %d\n", counts, fixed, given, page, made[0] + taken[0]);
  }
}
"""


def test_what_descriptions_and_unknown_functions_write(tmp_path: Path) -> None:
    models = tmp_path / "stream.yaml"
    models.write_text('externals:\n  - functions: [compress_some]\n    writes: [arg0, "*arg0+16"]\n', encoding="utf-8")
    by_name = {one.name: one for one in analysis_of(LIBRARY, tmp_path, models=[str(models)]).variables}
    assert {name for name in ("taken", "made", "page", "given") if by_name[name].updates} == {"made", "given"}
    # memory that has grown is filled from a variable distance on, and keeps its members
    assert {name for name in ("counts", "fixed") if by_name[name].updates} == {"counts"}
