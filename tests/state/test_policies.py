"""Policies: what the ready ones decide, a user's own, and a chain with a skewed load (thesis, 3.3.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.policy import Decision, Instance, Manager, Policy, Statistics, find_policy, lag, load
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import Ran, compiled, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

NAT = function("nat", inside="10.1.0.0/16")


def known(packets: list[int], waiting: list[int] | None = None, most: int = 6, seconds: float = 2.0) -> Statistics:
    """Instances that share the traffic evenly, and what they got."""
    given = waiting or [0] * len(packets)
    each = [Instance(number, count, 100, given[number], 9, 5) for number, count in enumerate(packets)]
    return Statistics("nat", seconds, tuple(each), most)


@pytest.mark.parametrize(
    ("packets", "wanted"),
    [
        ([200, 200], None),  # 100 a second each
        ([201, 200], 3),
        ([900, 900], 6),  # all that there can be
        ([160, 160], None),  # one of two could not do it
        ([80, 80], 1),
        ([190, 20], 2),  # uneven: divided anew
        ([0, 0], 1),
        ([40], None),
    ],
)
def test_by_load_each_instance_gets_so_many_packets_at_most(packets: list[int], wanted: int | None) -> None:
    decision = load(100)(known(packets))
    assert (decision.instances if decision else None) == wanted


@pytest.mark.parametrize(
    ("waiting", "wanted"),
    [
        ([0, 0, 0], None),
        ([8, 0, 3], Decision(stragglers=(0,))),
        ([8, 9, 3], Decision(stragglers=(0, 1))),
        ([8, 5, 5], None),  # no other one is fast
        ([8, 8, 8], Decision(4)),
    ],
)
def test_by_lag_stragglers_are_cloned_and_all_that_lag_get_one_more(
    waiting: list[int], wanted: Decision | None
) -> None:
    assert lag(8)(known([10, 10, 10], waiting)) == wanted


def test_instances_without_traffic_do_not_count() -> None:
    idle = Instance(2, 0, 0, 0, 0, 0)
    statistics = known([200, 200])
    assert load(100)(Statistics("nat", 2.0, (*statistics.instances, idle), 6)) is None


def test_a_policy_is_named_by_its_text(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("def decide(known):\n    return None\n")
    assert find_policy(f"{own}:decide")(known([1])) is None
    assert find_policy("load:50")(known([200, 200])) == Decision(4)
    assert find_policy("lag")(known([1, 1], [9, 0])) == Decision(stragglers=(0,))
    for text in ("speed", "load:0", "lag:x", f"{own}:other", "none.py:decide"):
        with pytest.raises(ValueError, match=r"policy|function|number"):
            find_policy(text)


class Clock:
    """A second passes with each call."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def managed(packets: list[bytes], folder: Path, store: Location, policy: Policy) -> tuple[Ran, Manager]:
    """Two instances, of which one has all the traffic; the manager calls the policy before bursts."""
    manager = Manager({"nat": policy}, clock=Clock())

    def skew(controller: Controller) -> None:
        controller.instances.assign("nat", dict.fromkeys(range(1024), 0))

    with unoptimised():
        chain = compiled(plan_of(NAT), {"nat": 2})
    return run_instances(chain, packets, folder, store, {0: skew, 1: manager.advance, 3: manager.advance}), manager


needs_store = pytest.mark.skipif(bool(missing()), reason=missing())


@needs_store
def test_a_skewed_load_is_divided_anew(tmp_path: Path, store: Location) -> None:
    packets = mixed(3, 60)
    with unoptimised():
        ideal = run_ideal(plan_of(NAT), packets, tmp_path / "ideal")
    found, manager = managed(packets, tmp_path, store, load(70))
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert manager.decisions == 1
    assert found.reports["nat.parts_moved"] > 1


@needs_store
@pytest.mark.slow_matrix
def test_a_policy_that_fails_does_not_end_the_chain(
    tmp_path: Path, store: Location, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(known: Statistics) -> Decision | None:
        raise ZeroDivisionError(known.function)

    found, manager = managed(mixed(3, 60), tmp_path, store, wrong)
    assert found.failure is None and not manager.decisions
    assert "the policy of 'nat' failed: ZeroDivisionError: nat" in capfd.readouterr().err
