"""The comparison of a chain with the ideal one names the first difference, and its packet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sluice.state.equivalence import Comparison, compare_output, compare_rows, compare_state
from tests.state.traffic import write

INPUT = [bytes([number]) * 60 for number in range(5)]


def compared(folder: Path, ideal: dict[int, bytes], other: dict[int, bytes]) -> Comparison:
    """Packets that left two chains, by the place of the packet of the input of which they are."""
    found = Comparison()
    paths = [folder / name for name in ("in", "ideal", "other")]
    for path, given in zip(paths, (dict(enumerate(INPUT)), ideal, other), strict=True):
        packets = [given.get(number, b"") for number in range(len(INPUT))]
        _write(path, packets)
    compare_output(found, paths[1], paths[2], [str(paths[0])])
    return found


def _write(path: Path, packets: list[bytes]) -> None:
    """Those that are not empty, each with the time that its place gives."""
    whole = write(path, packets).read_bytes()
    at, kept = 24, whole[:24]
    while at < len(whole):
        size = int.from_bytes(whole[at + 8 : at + 12], "little")
        kept += whole[at : at + 16 + size] if size else b""
        at += 16 + size
    path.write_bytes(kept)


ALL = dict(enumerate(INPUT))


def test_equal_outputs_are_equivalent(tmp_path: Path) -> None:
    found = compared(tmp_path, ALL, ALL)
    assert found.equivalent and found.failure is None and found.packets == 5


@pytest.mark.parametrize(
    ("other", "what", "packet"),
    [
        (ALL | {2: INPUT[2][:10] + b"\xff" + INPUT[2][11:]}, r"packet 3 .* has ff02.* at byte 10, and 0202", 3),
        ({number: data for number, data in ALL.items() if number != 4}, r"packet 5 .* packet 5 .* is missing", 5),
    ],
    ids=["bytes", "missing"],
)
def test_the_first_difference_has_its_packet(tmp_path: Path, other: dict[int, bytes], what: str, packet: int) -> None:
    found = compared(tmp_path, ALL, other)
    (difference,) = found.differences
    assert difference.packet == packet
    assert re.search(what, difference.what)


def test_a_packet_too_many(tmp_path: Path) -> None:
    found = compared(tmp_path, {number: data for number, data in ALL.items() if number < 4}, ALL)
    assert "should not be there" in (found.failure or "")


def state(value: int) -> str:
    row = {"function": "nat", "object": "packets", "key": "", "type": "counter", "value": value}
    return json.dumps(row) + "\n"


def test_states_differ_by_an_object() -> None:
    found = Comparison()
    compare_state(found, state(3), state(3))
    assert found.equivalent
    compare_state(found, state(3), state(4))
    assert (
        found.failure == "the chain differs from the ideal one: the object nat.packets is 4, and 3 in the ideal chain"
    )
    lost = Comparison()
    compare_state(lost, state(3), "")
    assert "nothing, and 3" in (lost.failure or "")


def test_rows_are_compared_without_their_order() -> None:
    found = Comparison()
    compare_rows(found, iter(["a\n", "b\n"]), iter(["b\n", "a\n"]), "trojan")
    assert found.equivalent and found.rows == 2
    compare_rows(found, iter(["a\n", "b\n"]), iter(["b\n"]), "trojan")
    assert found.failure == "the chain differs from the ideal one: a row of 'trojan' is missing: a"
