"""Forward slices, backward slices and chops of one program whose lines are named by comments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.analyze.slices import slice_of
from tests.analyze.conftest import SUBJECTS, to_bitcode
from tests.cli.conftest import Command

PROGRAM = """#include "box.h"
#include <stdio.h>
struct counts { unsigned small, large; };
static struct counts counts;
static unsigned limit, other, total;
static unsigned twice(unsigned number) {
  return number * 2;                                   /* twice */
}
static void add(unsigned *to, unsigned amount) {
  *to += amount;                                       /* add */
}
static void report(unsigned number) {
  printf("%u", number);                                /* report */
}
int main(int argc, char **argv) {
  char error[256];
  limit = argc;                                        /* limit */
  other = atoi(argv[2]);                               /* other */
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header); /* receive */
    if (!packet) return 0;                             /* end */
    unsigned length = packet->length;                  /* length */
    unsigned ttl = packet->ttl;                        /* ttl */
    unsigned first = twice(length);                    /* first */
    unsigned second = twice(limit);                    /* second */
    if (ttl > 3)                                       /* test */
      add(&counts.small, first);                       /* small */
    add(&counts.large, second);                        /* large */
    total = other;                                     /* replaced */
    total = counts.small;                              /* total */
    report(total);                                     /* put small */
    report(counts.large);                              /* put large */
    unsigned copy = second;                            /* copy */
    puts(copy ? "copy" : "none");                      /* put copy */
  }
}
"""

LINES = {
    found[1]: number
    for number, line in enumerate(PROGRAM.splitlines(), 1)
    if (found := re.search(r"/\* ([a-z ]+) \*/", line))
}
NAMES = {number: name for name, number in LINES.items()}
Slices = Callable[..., set[str]]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slices")
    source = folder / "program.c"
    source.write_text(PROGRAM, encoding="utf-8")
    return to_bitcode(source, folder / "program.bc", f"-I{SUBJECTS}")


@pytest.fixture(scope="module")
def named(module: Path) -> Slices:
    """The names of the lines of a slice between two named lines."""

    def lines(source: str | None = None, target: str | None = None, steps: int | None = None) -> set[str]:
        first, last = (f"program.c:{LINES[one]}" if one in LINES else one for one in (source, target))
        found = slice_of(str(module), first, last, slice_steps=steps)
        assert found.matched or steps
        return {NAMES[line] for part in found.parts for line in part.lines if line in NAMES}

    return lines


CASES = {
    # what `limit` is given to twice() for does not get into what `length` is
    ("limit", None): {"limit", "second", "twice", "large", "add", "put large", "report", "put copy"},
    ("other", None): {"other", "replaced"},
    ("first", None): {"first", "small", "twice", "add", "total", "put small", "report"},
    ("ttl", None): {"ttl", "test", "small", "add", "total", "put small", "report"},
    ("total", None): {"total", "put small", "report"},
    # a copy between local variables has no code: what else its value is used for counts as well
    ("copy", None): {"put copy", "second", "large", "add", "put large", "report"},
    (None, "put copy"): {"put copy", "second", "twice", "limit"},
    (None, "other"): {"other"},
    (None, "total"): {"total", "small", "add", "test", "ttl", "first", "twice", "length", "receive", "end"},
    ("limit", "put copy"): {"limit", "second", "twice", "put copy"},
    ("ttl", "total"): {"ttl", "test", "small", "add", "total"},
    ("length", "put large"): set[str](),
    ("limit", "put large"): {"limit", "second", "twice", "large", "add", "put large"},
    ("length", "logs"): {"length", "first", "twice", "small", "add", "total", "put small", "report"},
}
LOOP = {"receive", "end"}
"""Whether the loop goes on is a matter of each packet; lines of the loop are controlled by it."""


@pytest.mark.parametrize(("source", "target"), CASES)
def test_the_lines_of_a_slice(source: str | None, target: str | None, named: Slices) -> None:
    assert named(source, target) - LOOP == CASES[source, target] - LOOP


def test_all_that_depends_on_a_packet(named: Slices) -> None:
    found = named("receive")
    assert {"length", "ttl", "first", "total", "put small", "put large"} <= found  # `end` decides what runs
    assert not {"limit", "other"} & found
    assert {"length", "small", "total", "report"} <= named("receive", "logs") <= found


@pytest.mark.parametrize(("source", "target"), CASES)
def test_without_matching_calls_a_slice_is_no_smaller(source: str | None, target: str | None, named: Slices) -> None:
    assert named(source, target, 3) >= named(source, target)


def test_a_chop_is_part_of_both_slices(named: Slices) -> None:
    chop = named("limit", "put large")
    assert chop <= named("limit") & named(None, "put large")


def test_the_command_prints_the_source(sluice: Command, module: Path) -> None:
    places = ("--from", f"program.c:{LINES['ttl']}", "--to", f"program.c:{LINES['total']}")
    done = sluice("analyze", "slice", module, *places)
    assert done.status == 0 and "through which program.c:" in done.out
    assert re.search(r"^add \(.*program\.c\)\n  10  \*to \+= amount;", done.out, re.MULTILINE)
    found = json.loads(sluice("analyze", "slice", "--json", module, *places).out)
    assert found["matched"] and {"add", "main"} == {part["function"] for part in found["parts"]}
    done = sluice("analyze", "slice", "--slice-steps", "3", module, *places)
    assert "too large to match calls and returns" in done.out


def test_a_place_without_code_is_refused(sluice: Command, module: Path) -> None:
    def refused(*options: str) -> str:
        done = sluice("analyze", "slice", module, *options)
        assert done.status != 0 and "Traceback" not in done.err
        return done.err

    assert "give --from PLACE, --to PLACE or both" in refused()
    assert "no code that may run is in this line; the nearest lines with code are 7, 10" in refused(
        "--to", "program.c:3"
    )
    assert "no code that may run is in a file other.c" in refused("--from", "other.c:3")
    assert "is no place in the source; write FILE:LINE" in refused("--from", "main")
    assert "packet processing calls no function that puts out packets" in refused("--to", "packets")
