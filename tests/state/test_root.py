"""The process of the stack (CHC: the root) is killed: another one continues with the packet log (thesis, A.3.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import Action, Ran, compiled, kill, kill_root, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAT = function("nat", inside="10.1.0.0/16")


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(3, 150)


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(NAT), packets, tmp_path_factory.mktemp("ideal"))


def ran(packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action]) -> Ran:
    return run_instances(compiled(plan_of(NAT), {"nat": 2}), packets, folder, store, actions)


def test_a_file_is_read_again_and_the_state_is_that_of_the_ideal_chain(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """No event comes twice, and no flow is lost. Packets that left twice or not are those that were in flight."""
    found = ran(packets, tmp_path, store, {3: kill_root, 7: kill_root})
    assert (found.state, found.failure) == (ideal.state, None)
    assert found.reports["root_crashes"] == 2
    assert len(ideal.left) - len(found.left) == found.reports["root_lost_packets"]
    assert is_subsequence(found.left, ideal.left)


def test_root_and_instances_fail_together(packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location) -> None:
    """Table 3.11: the packet log and the store outlive them."""

    def both(controller: object) -> None:
        for action in (kill("nat"), kill("nat#1"), kill_root):
            action(controller)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    found = ran(packets, tmp_path, store, {4: both})
    assert (found.state, found.failure) == (ideal.state, None)
    assert found.reports["root_crashes"] == found.reports["nat.crashes"] == found.reports["nat#1.crashes"] == 1


def is_subsequence(some: list[bytes], every: list[bytes]) -> bool:
    """Whether `some` are among `every`, in the same order."""
    rest = iter(every)
    return all(one in rest for one in some)
