"""What depends on what: one program, in which each statement shows one property of slices or of overwritten memory.
Each variable is named by what it shows, and is either printed in the end, as far as the analysis can know, or is not.
"""

from __future__ import annotations

import pytest

from sluice.analyze.report.model import Analysis, Variable
from sluice.analyze.report.text import text_of
from tests.analyze.conftest import Analyses, analysis_of

PROGRAM = """
#include <stdio.h>
struct pair { unsigned first, second; };
static unsigned value, replaced, weak, in_argument, not_in_argument, gate, in_callee, first, second, copied, not_copied,
    by_index, by_pointer, unused, selects, in_loop, of_library, through_function;
static unsigned slot, other_slot, cells[4];
static struct pair pair, target;
static unsigned (*chosen)(unsigned);

static unsigned same(unsigned number) { return number; }
static unsigned add_one(unsigned number) { return number + 1; }
static void fill(unsigned *to, unsigned number) { *to = number + in_callee; }
static void set(unsigned *to) { *to = 0; }

static void process(const struct packet *packet) {
  value += packet->ttl, replaced += packet->ttl, weak++, in_argument++, not_in_argument++, gate++, in_callee++, first++;
  second++, copied++, not_copied++, by_index++, by_pointer++, unused++, selects++, in_loop++;
  of_library++, through_function++;
  printf("%u", value);
  slot = replaced;
  slot = 0;                                     /* a strong update */
  printf("%u", slot);
  unsigned *one = packet->ttl ? &slot : &other_slot;
  other_slot = weak;
  *one = 0;                                     /* may leave it as it is */
  printf("%u", other_slot);
  unsigned printed = same(in_argument), dropped = same(not_in_argument);
  if (dropped == 3) unused++;
  printf("%u", printed);
  if (gate > 3) puts("gate");
  unsigned filled;
  fill(&filled, 1);
  printf("%u", filled);
  pair.first = first;
  pair.second = second;
  printf("%u", pair.first);
  struct pair local = {copied, not_copied};
  memcpy(&target, &local, sizeof(target));
  printf("%u", target.first);
  cells[packet->ttl & 3] = by_index;
  printf("%u", cells[packet->tos & 3]);
  unsigned *memory = malloc(sizeof(*memory));
  *memory = by_pointer;
  printf("%p", (void *)memory);                 /* what it points to may be printed */
  printf("%u", selects & 1 ? 1U : 2U);
  unsigned count = 0;
  for (unsigned i = 0; i < in_loop; i++) count++;
  printf("%u", count);
  char text[16];
  snprintf(text, sizeof(text), "%u", of_library);
  puts(text);
  printf("%u", chosen(through_function));
}

static struct pair whole, half, sometimes, always, by_function, kept_by_function, before, cleared, unchanged,
    *reached;
static char line[32], lines[64], counted[8];

static void carry(const struct packet *packet) {
  struct pair fresh = {packet->ttl, packet->tos};
  memcpy(&whole, &fresh, sizeof(whole));
  memcpy(&half, &fresh, sizeof(fresh.first));
  if (packet->ttl) sometimes = fresh;
  if (packet->ttl) always = fresh; else always.first = always.second = 0;
  set(&by_function.first), set(&by_function.second);
  set(&kept_by_function.first);
  unsigned old = before.first;
  before = fresh;
  memset(&cleared, 0, sizeof(cleared));
  cleared.first++;
  snprintf(line, sizeof(line), "%u", packet->ttl);
  snprintf(lines + 8, sizeof(lines) - 8, "%u", packet->ttl);
  counted[packet->ttl & 7] = 1;
  if (whole.first + half.second + sometimes.first + always.second + by_function.first + by_function.second +
      kept_by_function.second + old + before.second + cleared.first + line[0] + lines[0] + counted[1] == 0)
    puts("zero");
  kept_by_function.second++;
  half.second++;
  unchanged.first = packet->ttl;                /* its other member is read, and never written */
  reached->first += packet->ttl + unchanged.first + unchanged.second;
}

int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  chosen = argc > 2 ? same : add_one;
  reached = calloc(1, sizeof(*reached));
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    process(packet);
    carry(packet);
  }
}
"""

PRINTED = {
    *("value", "weak", "in_argument", "gate", "in_callee", "first", "copied", "by_index", "by_pointer", "selects"),
    *("in_loop", "of_library", "through_function", "chosen"),
}
NOT_PRINTED = {"replaced", "not_in_argument", "second", "not_copied", "unused"}
OVERWRITTEN = {"whole", "always", "by_function", "cleared", "line", "unchanged"}
"""`by_function` by a small function that is called with several pointers, whose body replaces the calls."""
CARRIED = {"half", "sometimes", "kept_by_function", "before", "lines", "counted", "reached"}


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Variable]:
    analysis: Analysis = analysis_of(PROGRAM, tmp_path_factory.mktemp("dependence"))
    return {one.name: one for one in analysis.variables}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_output_depends_on(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].impacts_log
    assert variables[name].impacts_packet is None


@pytest.mark.parametrize("name", sorted(NOT_PRINTED))
def test_output_does_not_depend_on(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].updates and not variables[name].impacts_log


@pytest.mark.parametrize("name", sorted(OVERWRITTEN))
def test_is_overwritten_before_it_is_read(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].overwritten


@pytest.mark.parametrize("name", sorted(CARRIED))
def test_carries_something_to_the_next_packet(name: str, variables: dict[str, Variable]) -> None:
    assert variables[name].is_state


def test_the_lines_from_the_output_to_a_variable_are_named(variables: dict[str, Variable]) -> None:
    impact = variables["first"].impacts_log
    assert impact and impact.function == "printf" and len(impact.path) >= 2
    lines = PROGRAM.splitlines()
    assert "printf" in lines[impact.path[0].line - 2]  # after the line that includes box.h
    assert "first" in lines[impact.path[-1].line - 2]


def test_without_members_no_less_depends(variables: dict[str, Variable], program: Analyses) -> None:
    coarse = {one.name: one for one in program(PROGRAM, field_insensitive=True).variables}
    for name, one in variables.items():
        assert coarse[name].impacts_log or not one.impacts_log
        assert not coarse[name].overwritten or one.overwritten


def test_slices_that_do_not_match_calls_contain_the_others(variables: dict[str, Variable], program: Analyses) -> None:
    analysis = program(PROGRAM, slice_steps=100)
    assert analysis.json["outputs"] == {"packet": False, "log": True, "complete": True, "matched": False}
    coarse = {one.name: one for one in analysis.variables}
    for name, one in variables.items():
        assert coarse[name].impacts_log or not one.impacts_log
    assert not coarse["unused"].impacts_log
    assert "too large to match calls and returns" in text_of(analysis)
