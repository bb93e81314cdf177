"""What the controller of a running chain does not wait for: a silent store, and a function that does not open."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes import policy, scale
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.policy import Decision, Manager, Statistics
from sluice.chain.processes.process import Process
from sluice.engine.box import RunError
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import Action, Trigger, compiled, kill, plan_of, run_ideal, run_instances
from tests.state.peers import Hole
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAT = function("nat", inside="10.1.0.0/16")
REQUEST = 99


def test_a_silent_store_does_not_hold_the_controller(tmp_path: Path, store: Location) -> None:
    """An instance ends while the store does not reply: a request is served, and the instance has a successor later."""
    packets, served = mixed(3, 60), list[bool]()
    with Hole(store.path) as hole:

        def silent(controller: Controller) -> None:
            hole.swallow("requests")
            kill("nat#1")(controller)
            assert isinstance(controller.requests, Trigger)
            threading.Timer(1.2, os.write, (controller.requests.files_[1], bytes([REQUEST]))).start()

        def speaks(controller: Controller) -> None:
            served.append(any(process.waits is not None for process in controller.processes))
            hole.swallow("")

        with unoptimised():
            ideal = run_ideal(plan_of(NAT), packets, tmp_path / "ideal")
            chain = compiled(plan_of(NAT), {"nat": 2})
        actions: dict[int, Action] = {3: silent, REQUEST: speaks}
        found = run_instances(chain, packets, tmp_path, Location("server", path=hole.path, timeout=600), actions)
    assert served == [True]
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert found.reports["nat#1.crashes"] == 1


def test_an_instance_that_waits_for_the_store_does_not_hang(tmp_path: Path, store: Location) -> None:
    """The store does not reply for longer than a function may need for an event: no process is killed for that."""
    packets = mixed(3, 60)
    with Hole(store.path) as hole:

        def silent(controller: Controller) -> None:
            before, controller.patience = controller.patience, 3.0  # a busy machine needs less for a batch

            def speaks() -> None:
                controller.patience = before
                hole.swallow("")

            hole.swallow("requests")
            threading.Timer(9.0, speaks).start()

        with unoptimised():
            ideal = run_ideal(plan_of(NAT), packets, tmp_path / "ideal")
            chain = compiled(plan_of(NAT), {"nat": 2})
        location = Location("server", path=hole.path, timeout=1500)
        found = run_instances(chain, packets, tmp_path, location, {3: silent})
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
    assert not [name for name in found.reports if name.endswith(".crashes")]


def test_a_further_instance_that_does_not_open_is_ended(
    tmp_path: Path, store: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets, fork = mixed(3, 60), Controller.fork

    def stopped(controller: Controller, process: Process, go: int = -1) -> tuple[int, int]:
        found = fork(controller, process, go)
        os.kill(found[0], signal.SIGSTOP)
        return found

    def fails(controller: Controller) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Controller, "fork", stopped)
            patched.setattr(scale, "OPENING", 0.3)
            with pytest.raises(RunError, match=r"'nat' has not opened within 0\.3 s"):
                scale.scale(controller, "nat", 3)
        assert len(controller.chain.instances_of("nat")) == 2

    with unoptimised():
        ideal = run_ideal(plan_of(NAT), packets, tmp_path / "ideal")
        chain = compiled(plan_of(NAT), {"nat": 2})
    found = run_instances(chain, packets, tmp_path, store, {2: fails})
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)


def test_a_straggler_is_cloned_once_until_it_has_caught_up(
    tmp_path: Path, store: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy says again and again that it lags; then that it does not; and then again."""
    cloned: list[str] = []
    monkeypatch.setattr(policy, "clone", lambda _, process: cloned.append(process.part.label) or True)
    decisions = [Decision(stragglers=(1,))] * 3 + [None] + [Decision(stragglers=(0, 1))] * 2
    said = iter(decisions)

    def decide(_: Statistics) -> Decision | None:
        return next(said)

    clock = iter(range(100))
    manager = Manager({"nat": decide}, clock=lambda: float(next(clock)))

    def manage(controller: Controller) -> None:
        for _ in range(1 + len(decisions)):
            manager.advance(controller)

    with unoptimised():
        chain = compiled(plan_of(NAT), {"nat": 2})
    assert run_instances(chain, mixed(3, 20), tmp_path, store, {1: manage}).failure is None
    assert cloned == ["nat#1", "nat", "nat#1"]
    assert manager.decisions == 3
