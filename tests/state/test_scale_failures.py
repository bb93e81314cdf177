"""A further instance whose process cannot start gets no traffic, and does not keep its place."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.process import Process
from sluice.chain.processes.scale import scale
from sluice.engine.box import RunError
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import compiled, plan_of, run_ideal, run_instances
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAT = function("nat", inside="10.1.0.0/16")


def test_an_instance_that_cannot_start_gets_no_traffic(
    tmp_path: Path, store: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is killed before it has opened; later there is another attempt."""
    packets = mixed(3, 60)
    fork = Controller.fork

    def killed(controller: Controller, process: Process, go: int = -1) -> tuple[int, int]:
        found = fork(controller, process, go)
        os.kill(found[0], signal.SIGKILL)
        return found

    def fails(controller: Controller) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Controller, "fork", killed)
            for _ in range(8):  # more often than there are places
                with pytest.raises(RunError, match="before the first packet"):
                    scale(controller, "nat", 3)
        assert len(controller.chain.instances_of("nat")) == 2

    def succeeds(controller: Controller) -> None:
        assert scale(controller, "nat", 3) > 0
        assert [process.pid > 0 for process in controller.processes] == [True] * 3

    with unoptimised():
        ideal = run_ideal(plan_of(NAT), packets, tmp_path / "ideal")
        chain = compiled(plan_of(NAT), {"nat": 2})
    found = run_instances(chain, packets, tmp_path, store, {2: fails, 3: succeeds})
    assert (found.left, found.state, found.failure) == (ideal.left, ideal.state, None)
