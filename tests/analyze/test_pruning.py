"""A mark that is certainly set already, since the packet began, is not set again: over branches, calls and returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.analyze.state.instrument import instrument
from tests.analyze.conftest import SUBJECTS, to_bitcode

PROGRAM = r"""
#include <stdio.h>
#include "box.h"
static int count;
static void again(void) { count++; }
static void first(void) { count++; printf("%%d\n", count); }
static pcap_t *handle;
static const struct packet *next(void) {
  struct pcap_pkthdr header;
  return (const struct packet *)pcap_next(handle, &header);
}
int main(int argc, char **argv) {
  char error[256];
  handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (;;) {
    const struct packet *packet = next();
    if (!packet) return 0;
    %s
    printf("%%d\n", count);
  }
}
"""
CASES = {
    "in a row": ("count++; count++;", 2, 1),
    "on one branch": ("if (packet->ttl) count++; count++;", 2, 0),
    "on both branches": ("if (packet->ttl) count++; else count--; count = 0;", 3, 1),
    "before a call": ("count++; again();", 2, 1),
    "by a call": ("first(); count++;", 2, 1),
    "by a call on one branch": ("if (packet->ttl) first(); again();", 2, 0),
    "before one of two calls": ("if (packet->ttl) { count++; again(); } else again();", 2, 0),
    "before the next packet": ("count++; packet = next(); if (!packet) return 0; again();", 2, 0),
    "in an iteration before": ("for (int i = 0; i < packet->ttl; i++) count++;", 1, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_marks_that_are_set_already_are_pruned(name: str, tmp_path: Path) -> None:
    statements, updates, pruned = CASES[name]
    source = tmp_path / "program.c"
    source.write_text(PROGRAM % statements, encoding="utf-8")
    module = to_bitcode(source, tmp_path / "program.bc", f"-I{SUBJECTS}")
    done = instrument(str(module), tmp_path / "instrumented.bc")
    assert (done.updates, done.pruned) == (updates, pruned)
