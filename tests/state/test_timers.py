"""Timers of connections that have moved, or whose instance was killed: they fire where the connection is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import Action, Ran, compiled, kill, move, plan_of, run_ideal, run_instances
from tests.state.traffic import address, connection, hosts
from tests.support.connection import handshake
from tests.support.unoptimised import unoptimised

LAPSES = Path(__file__).with_name("lapses.c")
INSIDE, OUTSIDE = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0])

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    """Connections that begin and are silent from then on, before others that take so long that timers fire."""
    out: list[bytes] = []
    for number in range(60):
        out += handshake(*hosts(address(INSIDE, 1 + number % 9), address(OUTSIDE, 7), 3000 + number))
    for number in range(70):
        out += connection(address(INSIDE, 50 + number % 8), address(OUTSIDE, 9), 4000 + number)
    return out


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(function(str(LAPSES))), packets, tmp_path_factory.mktemp("ideal"))


def ran(packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action]) -> Ran:
    chain = compiled(plan_of(function(str(LAPSES))), {"lapses": 2})
    return run_instances(chain, packets, folder, store, actions)


def lapsed(found: Ran) -> int:
    (row,) = (row for row in found.state if '"object": "lapsed"' in row)
    return int(row.rpartition(" ")[2].rstrip("}"))


def test_timers_move_with_their_connections(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    """No packet of a silent connection comes after the moves, and its timer fires at the same packet."""
    found = ran(packets, tmp_path, store, {3: move("lapses", 1), 4: move("lapses", 0)})
    assert lapsed(ideal) >= 60
    assert found.state == ideal.state and found.failure is None


def test_timers_of_an_instance_that_was_killed(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """The silent connections are those of both instances; they are killed before, and while, timers fire."""
    found = ran(
        packets, tmp_path, store, {3: kill("lapses"), 4: kill("lapses#1"), 7: kill("lapses"), 9: kill("lapses#1")}
    )
    assert found.state == ideal.state and found.failure is None
    assert found.reports["lapses.crashes"] >= 1


def test_a_timer_that_was_stopped_or_has_fired_does_not_fire_again(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """Moves after most timers have fired, and of connections that have ended."""
    found = ran(packets, tmp_path, store, {8: move("lapses", 1), 10: move("lapses", 0), 11: kill("lapses")})
    assert found.state == ideal.state and found.failure is None
