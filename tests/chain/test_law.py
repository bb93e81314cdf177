"""The law of chains: functions that are fused in any arrangement come to what separate runs say.

A separate run records all events of the packets in the order of the stack. By the rules of chains it follows what each
function of an arrangement sees: of each packet the events up to the drop of a function before it, data of streams and
ends of instances in any case; which packets leave, with which bytes; and what each function counts. The digest of a
function depends on the order of what it sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sluice.chain.description import Arrangement, Parallel, Sequence, function
from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.events import PythonFunction
from sluice.ir.hook import Hook
from sluice.lang.errors import DescriptionError
from tests.chain.running import SECOND, checked, run, talk
from tests.support.packets import checksum
from tests.support.small_stacks import small_stack

EVENTS = (("ipv4", "packet"), ("tcp", "created"), ("tcp", "packet"), ("tcp", "data"), ("tcp", "end"))
SEES = """
#include "sluice.h"
SLUICE_PARAMETER(salt, number, 0, "by which instances differ")
SLUICE_PARAMETER(of, number, 5, "decides about one packet of so many")
SLUICE_PARAMETER(at, number, 0, "at which event")
SLUICE_COUNTER(seen, "events")
SLUICE_COUNTER(digest, "of these, in order")
DECLARATIONS
static void decide(const struct sl_event *event);
static void see(const struct sl_event *event, uint64_t what) {
    uint64_t number = sl_packet_frame(event) ? sl_packet_number(event) : 0;
    SLUICE_COUNTER_OF(event->box, seen)++;
    uint64_t *digest = &SLUICE_COUNTER_OF(event->box, digest);
    *digest = (*digest * 1000003 + number * 8 + what) % 1000000007;
    if (number && what == SLUICE_PARAMETER_OF(event->box, at) &&
        (number + SLUICE_PARAMETER_OF(event->box, salt)) % SLUICE_PARAMETER_OF(event->box, of) == 0)
        decide(event);
}
SLUICE_ON(ipv4, packet) { see(event, 0); }
SLUICE_ON(tcp, created) { see(event, 1); }
SLUICE_ON(tcp, packet) { see(event, 2); }
SLUICE_ON(tcp, data) { see(event, 3); }
SLUICE_ON(tcp, end) { see(event, 4); }
"""
WATCH = SEES.replace("DECLARATIONS", "") + "static void decide(const struct sl_event *event) { (void)event; }\n"
DROP = (
    SEES.replace("DECLARATIONS", "SLUICE_INLINE")
    + "static void decide(const struct sl_event *event) { SLUICE_DROP(event->box); }\n"
)
WRITE = """
SLUICE_INLINE
SLUICE_WRITES(ipv4, %s)
"""
CHANGE = """
static void decide(const struct sl_event *event) {
    uint8_t value = (uint8_t)(SLUICE_PARAMETER_OF(event->box, salt) + 1);
    SLUICE_REWRITE(event->box, sl_packet_frame(event)->at + 14 + %d, &value, 1);
}
"""
FIELDS = {"tos": 1, "ttl": 8}
PYTHON = """
from sluice.functions import counter, on, parameter
salt, of, at = parameter(0, "not used"), parameter(5, "not used"), parameter(0, "not used")
seen, digest = counter("events"), counter("of these, in order")

def see(event, what):
    seen.add()
    number = event.packet if what != 4 or event.reason in ("accept", "reused") else 0
    digest.value = (digest.value * 1000003 + number * 8 + what) % 1000000007
"""
KINDS = ("watch", "drop", *FIELDS, "python")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions as files."""
    made = tmp_path_factory.mktemp("law")
    (made / "watch.c").write_text(WATCH)
    (made / "drop.c").write_text(DROP)
    for field, place in FIELDS.items():
        (made / f"{field}.c").write_text(SEES.replace("DECLARATIONS", WRITE % field) + CHANGE % place)
    handlers = [
        f'@on("{layer}", "{event}")\ndef on_{layer}_{event}(event):\n    see(event, {n})\n'
        for n, (layer, event) in enumerate(EVENTS)
    ]
    (made / "python.py").write_text(PYTHON + "\n".join(handlers))
    return made


@dataclass(frozen=True)
class Choice:
    """A function that Hypothesis chose."""

    kind: str
    salt: int
    of: int
    at: int


Tree = Choice | tuple[str, tuple[Any, ...]]


def choices() -> st.SearchStrategy[Choice]:
    return st.builds(
        Choice, st.sampled_from(KINDS), st.integers(0, 9), st.integers(2, 6), st.integers(0, len(EVENTS) - 1)
    )


def trees(most: int) -> st.SearchStrategy[Tree]:
    """Arrangements of 1 to so many functions."""
    return st.recursive(
        choices(), lambda inner: st.tuples(st.sampled_from(">|"), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        max_leaves=most,
    )  # fmt: skip


def arranged(tree: Tree, folder: Path, names: Iterator[int]) -> tuple[Arrangement, list[tuple[str, Choice]]]:
    """The arrangement, and its functions by name, in order."""
    if isinstance(tree, Choice):
        name = f"f{next(names)}"
        source = str(folder / (f"{tree.kind}.py" if tree.kind == "python" else f"{tree.kind}.c"))
        return function(source, name, salt=tree.salt, of=tree.of, at=tree.at), [(name, tree)]
    made = [arranged(part, folder, names) for part in tree[1]]
    kind = Sequence if tree[0] == ">" else Parallel
    return kind(*(part for part, _ in made)), [each for _, found in made for each in found]


@cache
def recorded() -> tuple[tuple[int, int], ...]:
    """All events in the order of the stack: the number of the packet (0: none is processed), and which event."""
    found: list[tuple[int, int]] = []

    def saw(what: int) -> Any:
        def see(event: Any) -> None:
            of_packet = what != 4 or event.reason in ("accept", "reused")
            found.append((event.packet if of_packet else 0, what))

        return see

    watching = PythonFunction("saw", [(layer, name, saw(n)) for n, (layer, name) in enumerate(EVENTS)], [])
    compiled = compile_stack(small_stack(), (), frozenset(Hook(*event) for event in EVENTS))
    with Box(compiled, Settings(max_instances=1 << 8, memory=1 << 24, seed=1), [watching]) as box:
        box.burst([(packet, n * SECOND, 1, None) for n, packet in enumerate(talk(), 1)])
        box.finish()
    return tuple(found)


def predicted(
    functions: list[tuple[str, Choice]], before: dict[str, tuple[str, ...]]
) -> tuple[dict[str, int], list[bytes]]:
    """The figures of each function and the packets that leave, by the rules alone."""
    packets = [bytearray(packet) for packet in talk()]
    dropped: dict[int, set[str]] = {}
    reports = {f"{name}.{figure}": 0 for name, _ in functions for figure in ("seen", "digest")}
    for number, what in recorded():
        in_c_first = sorted(functions, key=lambda each: each[1].kind == "python")
        for name, choice in in_c_first:
            if number and what not in (3, 4) and dropped.get(number, set()) & set(before[name]):
                continue
            reports[f"{name}.seen"] += 1
            digest = reports[f"{name}.digest"]
            reports[f"{name}.digest"] = (digest * 1000003 + number * 8 + what) % 1000000007
            if number and what == choice.at and (number + choice.salt) % choice.of == 0:
                if choice.kind == "drop":
                    dropped.setdefault(number, set()).add(name)
                elif choice.kind in FIELDS:
                    packets[number - 1][14 + FIELDS[choice.kind]] = choice.salt + 1
    left: list[bytes] = []
    for number, packet in enumerate(packets, 1):
        if number not in dropped:
            packet[24:26] = checksum(bytes(packet[14:24]) + b"\0\0" + bytes(packet[26:34])).to_bytes(2, "big")
            left.append(bytes(packet))
    return reports, left


def in_parallel_on_one_field(functions: list[tuple[str, Choice]], before: dict[str, tuple[str, ...]]) -> bool:
    """Whether the arrangement is one to refuse."""
    return any(
        one.kind == other.kind and one.kind in FIELDS and first not in before[second] and second not in before[first]
        for n, (first, one) in enumerate(functions)
        for second, other in functions[n + 1 :]
    )


def keeps_the_law(tree: Tree, folder: Path) -> None:
    arrangement, functions = arranged(tree, folder, iter(range(100)))
    earlier = [(one.name, other.name) for one, other in arrangement.earlier()]
    before = {name: tuple(one for one, other in earlier if other == name) for name, _ in functions}
    if in_parallel_on_one_field(functions, before):
        with pytest.raises(DescriptionError, match="run in parallel, and both change field"):
            checked(arrangement)
        return
    reports, left = predicted(functions, before)
    came = run(checked(arrangement), folder / "out.pcap")
    assert {name: value for name, value in came.reports.items() if "." in name} == reports
    assert came.left == left
    if any(choice.kind not in ("watch", "python") for _, choice in functions):
        assert came.reports["packets_dropped"] == len(talk()) - len(left)


def test_the_law_holds_where_a_drop_meets_a_branch(folder: Path) -> None:
    """(drop >> watch | watch | python) >> (drop | ttl | tos) >> watch, python: one of each case."""
    early, late = Choice("drop", 0, 3, 0), Choice("drop", 1, 4, 3)
    watch, python = Choice("watch", 0, 2, 0), Choice("python", 0, 2, 0)
    branch = ("|", ((">", (early, watch)), watch, python))
    keeps_the_law((">", (branch, ("|", (late, Choice("ttl", 3, 2, 0), Choice("tos", 4, 3, 2))), watch, python)), folder)


SETTINGS = {"suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate], "database": None}


@settings(max_examples=4, derandomize=True, **SETTINGS)  # each compiles a program
@given(trees(8))
def test_the_law_holds(folder: Path, tree: Tree) -> None:
    keeps_the_law(tree, folder)


@pytest.mark.slow_matrix
@settings(max_examples=100, **SETTINGS)
@given(trees(8))
def test_the_law_holds_in_many_arrangements(folder: Path, tree: Tree) -> None:
    keeps_the_law(tree, folder)


def test_the_recorded_events_are_of_all_kinds() -> None:
    """So that the law says something: each event occurs, an end with a packet and one without."""
    assert {what for _, what in recorded()} == set(range(len(EVENTS)))
    assert {bool(number) for number, what in recorded() if what == 4} == {True, False}
