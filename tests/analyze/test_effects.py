"""What each kind of instruction and call reads, writes and decides: one program, in which each statement shows one
effect. Each variable is named by what it shows.
"""

from __future__ import annotations

import pytest

from sluice.analyze.report.model import Variable
from tests.analyze.conftest import Analyses, analysis_of

PROGRAM = """
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
struct pair { unsigned first, second; };
struct node { struct node *next; unsigned value; };
struct stream { char *in; unsigned left; unsigned long total; char *out; };
int deflate(struct stream *stream, int flush);
int unknown(void *memory), unknown_of_all(void);
int inspector_register(int (*callback)(int), void *argument);

static unsigned long added, exchanged, replaced_by, by_assembly;
static unsigned given, escaped, *hidden = &escaped, called_back, deep, by_index, where, length, text_source;
static unsigned said, noted, noted_source, shared_now, shared_source, order, bias, chooses, enables, kept, exits;
static struct pair across[4];
static char compressed[64], source_text[16], filled[300];
static va_list written_list, read_list, copied_list;
static unsigned cells[4], sorted[4];
static unsigned by_return[4], by_branch[4], by_argument[4], by_store[4];
static unsigned x, y;

static void arguments(int count, ...) {
  va_start(written_list, count);
  va_copy(copied_list, read_list);
  vprintf("%u", copied_list);
}
static int compare(const void *one, const void *other) {
  order++;
  return *(const unsigned *)one > *(const unsigned *)other + bias;
}
static int inspect(int number) {
  called_back++;
  return (int)kept;
}
static void say(void) { puts("said"); }
static void note(unsigned number) { noted = number; }
static void bye(void) { printf("%u", exits); }
static void *work(void *argument) {
  for (;;) {
    unknown_of_all();
    printf("%p %u", argument, shared_now);
  }
}
static unsigned kind(const struct packet *packet) {
  if (packet->protocol == 6) return 1;
  return 2;
}
static void count(unsigned number) { by_argument[number]++; }

static void process(const struct packet *packet) {
  chooses += packet->ttl, enables += packet->ttl, bias++, given++, deep++, by_index++, where++, length++, kept++;
  text_source++, exits = packet->ttl;
  said++, noted_source++, shared_source++;
  if (said > 3) say();
  note(noted_source);
  printf("%u", noted);
  shared_now = shared_source;
  printf("%lu", __atomic_fetch_add(&added, packet->ttl, 5));
  __atomic_exchange_n(&exchanged, replaced_by++, 5);
  printf("%lu", exchanged);
  unsigned long old = packet->ttl;
  __asm__ volatile("lock xaddq %0, %1" : "+r"(old), "+m"(by_assembly) : : "memory");
  printf("%lu", old);
  printf("%d", unknown(&given));
  printf("%d", unknown_of_all());
  arguments(1, packet->ttl);
  struct stream stream = {(char *)packet, 16, 0, compressed};
  deflate(&stream, 0);
  printf("%c", compressed[3]);
  struct node *node = malloc(sizeof(*node));
  node->next = malloc(sizeof(*node));
  node->next->value = deep;
  printf("%p", (void *)node);
  across[packet->ttl & 3].first = by_index;
  struct pair copy;
  memcpy(&copy, &across[packet->tos & 1].second, sizeof(copy));
  printf("%u", copy.second);
  cells[where & 3] = 1;
  printf("%u", cells[packet->tos & 3]);
  unsigned target[4] = {0};
  memcpy(target, packet, length & 15);
  printf("%u", target[0]);
  snprintf(source_text, sizeof(source_text), "%u", text_source);
  char text[32];
  snprintf(text, sizeof(text), "%s", source_text);
  puts(text);
  memset(filled + packet->ttl, 0, packet->length & 15);
  unsigned key = packet->ttl;
  qsort(sorted, 4, sizeof(*sorted), compare);
  printf("%d", bsearch(&key, sorted, 4, sizeof(*sorted), compare) != NULL);
  by_return[kind(packet)]++;
  by_branch[packet->protocol == 6 ? 1 : 2]++;
  if (packet->protocol == 6) count(1); else count(2);
  unsigned stored, *at = &stored;
  if (packet->protocol == 6) *at = 1; else *at = 2;
  by_store[stored]++;
}

int main(int argc, char **argv) {
  char error[256];
  pthread_t thread;
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  unknown(&hidden);
  inspector_register(inspect, &hidden);
  atexit(bye);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) exit(0);
    process(packet);
    if (enables > 3) pthread_create(&thread, NULL, work, chooses ? &x : &y);
  }
}
"""

PRINTED = {
    *(
        "added",
        "exchanged",
        "replaced_by",
        "by_assembly",
        "given",
        "escaped",
        "compressed",
        "deep",
        "by_index",
        "where",
    ),
    *("length", "text_source", "bias", "chooses", "enables", "read_list", "said"),
    *("noted_source", "shared_source"),
}
UPDATED = {
    *("added", "exchanged", "by_assembly", "given", "escaped", "called_back", "compressed", "order", "written_list"),
    *("copied_list", "across", "filled"),
}
CARRIED = {"exits", "order"}
KEYS = {"by_return", "by_branch", "by_argument", "by_store"}


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Variable]:
    return {one.name: one for one in analysis_of(PROGRAM, tmp_path_factory.mktemp("effects")).variables}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_output_depends_on(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].impacts_log


@pytest.mark.parametrize("name", sorted(UPDATED))
def test_is_updated(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].updates


@pytest.mark.parametrize("name", sorted(CARRIED))
def test_carries_something_to_the_next_packet(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].is_state


@pytest.mark.parametrize("name", sorted(KEYS))
def test_constants_that_a_field_selects_are_a_key(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].fields == ["packet.protocol"]


def test_without_members_it_is_no_less(variables: dict[str, Variable], program: Analyses) -> None:
    coarse = {one.name: one for one in program(PROGRAM, field_insensitive=True).variables}
    for name, one in variables.items():
        assert coarse[name].updates or not one.updates
        assert coarse[name].impacts_log or not one.impacts_log
