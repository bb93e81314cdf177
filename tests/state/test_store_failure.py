"""A store is killed and has lost what it acknowledged: it is recovered from the write-ahead logs (thesis, 3.4.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.state.chain_store import ChainStore
from tests.state.boxes import missing
from tests.state.instances import (
    Action,
    NotYetError,
    Ran,
    compiled,
    kill,
    kill_root,
    move,
    plan_of,
    run_ideal,
    run_instances,
)
from tests.state.servers import Server
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAT = function("nat", inside="10.1.0.0/16")


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    return mixed(3, 60)


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(NAT), packets, tmp_path_factory.mktemp("ideal"))


@pytest.fixture
def server(own_server: Server) -> Server:
    return own_server


def ran(packets: list[bytes], folder: Path, server: Server, actions: dict[int, Action], *off: str) -> Ran:
    with unoptimised():
        chain = compiled(plan_of(NAT), {"nat": 2})
    return run_instances(chain, packets, folder, server.location, actions, frozenset(off))


def same(one: Ran, other: Ran) -> bool:
    return one.left == other.left and one.state == other.state and one.failure is None


def recovered(count: int, act: Action) -> Action:
    """An action that first waits until the store was recovered so many times: it may else fail again before that."""

    def done(controller: Controller) -> None:
        store = controller.stores
        assert isinstance(store, ChainStore)
        if store.recovery.count < count or store.busy():
            raise NotYetError
        act(controller)

    return done


def test_r6_an_empty_store_gets_all_that_was_acknowledged(
    packets: list[bytes], ideal: Ran, tmp_path: Path, server: Server
) -> None:
    found = ran(packets, tmp_path, server, {4: lambda _: server.fail(empty=True)})
    assert same(found, ideal)
    assert found.reports["store_recoveries"] == 1
    assert found.reports["store_replayed_calls"] > 100


def test_r6_a_store_with_an_old_checkpoint_gets_what_came_after_it(
    packets: list[bytes], ideal: Ran, tmp_path: Path, server: Server
) -> None:
    """Twice, as what was recovered may be lost again; parts of the traffic move in between."""
    fail, save = (lambda _: server.fail()), recovered(1, lambda _: server.save())
    first = {1: lambda _: server.save(), 2: move("nat", 1), 3: fail}
    found = ran(packets, tmp_path, server, {**first, 4: save, 5: fail})
    assert same(found, ideal)
    assert found.reports["store_recoveries"] == 2


def test_store_instance_and_root_fail_together(
    packets: list[bytes], ideal: Ran, tmp_path: Path, server: Server
) -> None:
    """More than table 3.11 promises: logs outlive the processes that wrote them."""

    def all_of_them(controller: Controller) -> None:
        for act in (kill("nat"), kill("nat#1")):
            act(controller)
        server.fail()
        kill_root(controller)

    found = ran(packets, tmp_path, server, {2: lambda _: server.save(), 4: all_of_them})
    assert (found.state, found.failure) == (ideal.state, None)
    assert found.reports["nat.crashes"] == 1


def test_r6_without_logs_the_loss_is_said(packets: list[bytes], ideal: Ran, tmp_path: Path, server: Server) -> None:
    found = ran(packets, tmp_path, server, {1: lambda _: server.save(), 3: lambda _: server.fail()}, "logs")
    assert not same(found, ideal)
    assert "it had acknowledged" in (found.failure or "")


@pytest.mark.slow_matrix
def test_a_checkpoint_makes_logs_shorter(packets: list[bytes], ideal: Ran, tmp_path: Path, server: Server) -> None:
    sizes: list[int] = []

    def save(controller: Controller) -> None:
        store = controller.stores
        logs = store.recovery.logs["nat"]  # type: ignore[union-attr]
        for log in logs:  # which the controller does step by step, and may not have done yet
            while log.look(now=True):
                pass
        sizes.append(sum(log.size for log in logs))
        while not store.recovery.save(store.peer):  # type: ignore[union-attr]
            pass
        sizes.append(sum(log.size for log in logs))

    found = ran(packets, tmp_path, server, {3: save, 5: lambda _: server.fail()})
    assert same(found, ideal)
    assert sizes[1] < sizes[0]
