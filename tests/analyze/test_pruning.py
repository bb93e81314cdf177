"""A mark that is certainly set already, since the packet began, is not set again: over branches, calls and returns.
What only a consumer needs is not collected without one.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sluice.analyze.state.instrument import instrument
from sluice.analyze.toolchain import CLANG
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


def test_a_search_without_a_consumer_tests_for_none(tmp_path: Path) -> None:
    module, text = to_bitcode(SUBJECTS / "nat.c", tmp_path / "a.bc"), tmp_path / "i.ll"
    instrument(str(module), tmp_path / "i.bc")
    subprocess.run([CLANG, "-S", "-emit-llvm", "-w", "-o", text, tmp_path / "i.bc"], check=True, timeout=60)
    bodies = dict(re.findall(r"^define [^@]*@([\w.]+)\((.*?)^}", text.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    for name in ("of_inside", "of_outside"):
        assert "@sluice_state_sought(" in bodies[name] and f"@{name}.without_consumer(" in bodies[name]
        assert "sluice_state_" not in bodies[f"{name}.without_consumer"]
    assert "main.without_consumer" not in bodies  # the next packet may have a consumer
