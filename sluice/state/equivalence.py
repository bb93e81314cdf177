"""Chain output equivalence (CHC, 3.1): the output and the final state of a chain are compared with those of the ideal
one, which has one instance of each function, and local state, and handles packets in the order of their arrival.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from sluice.engine.packets import Packet, packets, runtime_library

SHOWN = 8
"""Bytes that are printed from a difference on."""


@dataclass(frozen=True)
class Difference:
    """The first difference. what: a sentence. packet: the number of the packet of the input, from 1; 0: none."""

    what: str
    packet: int = 0


@dataclass
class Comparison:
    """What was compared: packets that left, objects of the state, rows of functions. differences: the first of each."""

    packets: int = 0
    objects: int = 0
    rows: int = 0
    differences: list[Difference] = field(default_factory=lambda: [])

    @property
    def equivalent(self) -> bool:
        """Whether there is no difference."""
        return not self.differences

    @property
    def failure(self) -> str | None:
        """Why the chain is not equivalent; None if it is."""
        if self.equivalent:
            return None
        return "the chain differs from the ideal one: " + "; ".join(one.what for one in self.differences)


def compare_output(comparison: Comparison, ideal: Path, other: Path, inputs: Iterable[str]) -> None:
    """Compare two captures of the chains' output. inputs: the captures of their input. Raises RunError."""
    library = runtime_library()
    count = 0
    for one, two in zip_longest(packets(str(ideal), library), packets(str(other), library)):
        count += 1
        if one is not None and two is not None and (one.data, one.length, one.time) == (two.data, two.length, two.time):
            continue
        comparison.differences.append(_difference(count, one, two, inputs, library))
        break
    comparison.packets = count


def _difference(
    number: int, ideal: Packet | None, other: Packet | None, inputs: Iterable[str], library: Path
) -> Difference:
    seen = ideal or other
    assert seen is not None
    origin = _origin(seen, inputs, library)
    where = (
        f"packet {number} of the output, of packet {origin} of the input"
        if origin
        else f"packet {number} of the output"
    )
    if other is None:
        return Difference(f"{where}, is missing", origin)
    if ideal is None:
        return Difference(f"{where}, should not be there", origin)
    if ideal.data == other.data:
        return Difference(f"{where}, has time {other.time}, not {ideal.time}", origin)
    at = next(
        (place for place, pair in enumerate(zip(ideal.data, other.data, strict=False)) if pair[0] != pair[1]),
        min(len(ideal.data), len(other.data)),
    )
    got, wanted = (one.data[at : at + SHOWN].hex() or "its end" for one in (other, ideal))
    return Difference(f"{where}, has {got} at byte {at}, and {wanted} in the ideal chain", origin)


def _origin(packet: Packet, inputs: Iterable[str], library: Path) -> int:
    """The number of the packet of the input that has the same time, as packets that leave have; 0 if there is none."""
    number = 0
    for path in inputs:
        for one in packets(path, library):
            number += 1
            if one.time == packet.time:
                return number
    return 0


def compare_state(comparison: Comparison, ideal: str, other: str) -> None:
    """Compare two final states, as --state writes them."""
    one, two = _objects(ideal), _objects(other)
    comparison.objects = len(one.keys() | two.keys())
    for name in sorted(one.keys() | two.keys()):
        if one.get(name) == two.get(name):
            continue
        function, item, key = name
        what = f"{function}.{item}" + (f" of {key}" if key else "")
        values = (two.get(name, "nothing"), one.get(name, "nothing"))
        comparison.differences.append(
            Difference(f"the object {what} is {values[0]}, and {values[1]} in the ideal chain")
        )
        break


def _objects(text: str) -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for line in text.splitlines():
        row = json.loads(line)
        found[row["function"], row["object"], row["key"]] = json.dumps(row["value"])
    return found


def compare_rows(comparison: Comparison, ideal: Iterator[str], other: Iterator[str], name: str) -> None:
    """Compare the rows that a function wrote; those of several instances have no order."""
    one, two = sorted(ideal), sorted(other)
    comparison.rows += len(one)
    for wanted, got in zip_longest(one, two):
        if wanted != got:
            text = (
                f"is missing: {wanted}" if got is None or (wanted is not None and wanted < got) else f"is there: {got}"
            )
            comparison.differences.append(Difference(f"a row of '{name}' {text.strip()}"))
            break
