"""A structure that is read through a pointer to its bytes (C11, 6.3.2.3): the pointer does not stay in the array of
characters with which the structure begins.
"""

from __future__ import annotations

import pytest

from sluice.analyze.report.model import Variable
from tests.analyze.conftest import analysis_of

PROGRAM = """
#include <stdio.h>
struct record { char name[8]; unsigned count; };
struct cursor { const unsigned char *at; };
static struct record by_step, backward, by_four, in_memory, hashed, element[2], chosen, by_index, untouched;
static unsigned other;

static unsigned hash(const void *bytes, unsigned length) {
  const unsigned char *at = bytes;
  unsigned found = 0;
  while (length--) found = found * 31 + *at++;
  return found;
}
static unsigned sum(const unsigned char *at, const unsigned char *end) {
  unsigned found = 0;
  for (; at < end; at += 4) found += *(const unsigned *)at;
  return found;
}
static unsigned next(struct cursor *cursor) { return *cursor->at++; }

static void process(const struct packet *packet) {
  unsigned found = 0;
  unsigned char *at = (unsigned char *)&by_step;
  for (unsigned i = 0; i < sizeof(by_step); i++) found += *at++;
  at = (unsigned char *)(&backward + 1);
  for (unsigned i = 0; i < sizeof(backward); i++) found += *--at;
  found += sum((unsigned char *)&by_four, (unsigned char *)(&by_four + 1));
  struct cursor cursor = {(unsigned char *)&in_memory};
  for (unsigned i = 0; i < sizeof(in_memory); i++) found += next(&cursor);
  found += hash(&hashed, sizeof(hashed));
  at = (unsigned char *)&element[packet->ttl & 1];
  for (unsigned i = 0; i < sizeof(*element); i++) found += *at++;
  at = packet->tos ? (unsigned char *)&chosen : (unsigned char *)untouched.name;
  for (unsigned i = 0; i < sizeof(chosen); i++)
    if (i & 1) found += *at++; else found -= *at++;
  at = (unsigned char *)&by_index;
  for (unsigned i = 0; i < sizeof(by_index); i++) found += at[i];
  for (char *text = untouched.name; *text; text++) found++;
  printf("%u", found);
  by_step.count = backward.count = by_four.count = in_memory.count = hashed.count = packet->ttl;
  element[packet->tos & 1].count = chosen.count = by_index.count = packet->ttl;
  other = packet->ttl;
}

int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    process(packet);
  }
}
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Variable]:
    return {one.name: one for one in analysis_of(PROGRAM, tmp_path_factory.mktemp("bytes")).variables}


READ = ["by_step", "backward", "by_four", "in_memory", "hashed", "element", "chosen", "by_index"]


@pytest.mark.parametrize("name", READ)
def test_a_read_of_all_bytes_reads_each_member(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].is_state


def test_what_is_not_read_is_no_state(variables: dict[str, Variable]) -> None:
    assert not variables["other"].is_state
