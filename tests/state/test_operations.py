"""Every operation on a shared object does the same in a store as on a local object, at the bounds of numbers, too."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.engine.box import Settings
from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.peer import Peer
from sluice.state.session import RUNS, RUNS_MOST
from tests.state.boxes import LOCAL, run
from tests.state.traffic import write
from tests.support.packets import eth, ip4, udp

FUNCTION = str(Path(__file__).resolve().parent / "operations.c")
OPERATIONS = 27
MOST = (1 << 53) - 1
NUMBERS = (0, 1, -1, 5, 1000, MOST, -MOST, MOST + 1, -MOST - 1, MOST - 1, (1 << 63) - 1, -(1 << 63))


def datagram(operation: int, x: int, y: int, host: int = 1, port: int = 1000) -> bytes:
    payload = bytes([operation]) + x.to_bytes(8, "big", signed=True) + y.to_bytes(8, "big", signed=True)
    return eth(ip4(udp(port, 53, payload), 17, bytes([10, 0, 0, host]), bytes([10, 0, 9, host])))


def operations(seed: int, count: int) -> list[bytes]:
    """Random operations, mostly on small numbers: of larger ones some stores would round the arguments."""
    choose = random.Random(seed)

    def number() -> int:
        return choose.choice(NUMBERS[:7]) if choose.random() < 0.05 else choose.randrange(-20, 20)

    return [
        datagram(choose.randrange(OPERATIONS), number(), number(), choose.randrange(1, 4), choose.randrange(1000, 1004))
        for _ in range(count)
    ]


@pytest.mark.parametrize("options", ["", "wait and no cache"])
@pytest.mark.parametrize("seed", range(4))
def test_random_operations(store: Location, tmp_path: Path, seed: int, options: str) -> None:
    location = replace(store, wait="wait" in options, cache="cache" not in options)
    capture = write(tmp_path / "in.pcap", operations(seed, 1500))
    local, remote = (run(capture, [FUNCTION], place, tmp_path / place.kind) for place in (LOCAL, location))
    assert remote.outcome.failure is None
    assert remote.rows == local.rows
    assert remote.state == local.state
    assert len(local.rows.splitlines()) == 1500


def test_updates_that_a_store_refuses_are_counted_without_waiting(store: Location, tmp_path: Path) -> None:
    packets = [datagram(4, MOST, 0), datagram(3, 1, 0), datagram(0, MOST, 0), datagram(1, 0, 0), datagram(0, 1, 0)]
    capture = write(tmp_path / "in.pcap", packets)
    for place in (LOCAL, store):
        ran = run(capture, [FUNCTION], place, tmp_path / place.kind)
        assert ran.outcome.reports["state_refused"] == 2, place


def test_a_run_does_not_begin_with_the_identifiers_of_an_earlier_one(store: Location, tmp_path: Path) -> None:
    capture = write(tmp_path / "in.pcap", [datagram(0, 1, 0)])
    with Peer(store) as peer:
        peer.call("SET", RUNS, RUNS_MOST - 3)
    run(capture, [FUNCTION], store, tmp_path / "last")
    with pytest.raises(StoreError, match="delete its keys sluice-runs"):
        run(capture, [FUNCTION], store, tmp_path / "beyond")


def test_arguments_beyond_the_bound_are_refused_and_counted(store: Location, tmp_path: Path) -> None:
    """The longest numbers, more than the client combines: none has an effect, with a store or without."""
    beyond = ((MOST + 1, 0), (-MOST - 1, 0), ((1 << 63) - 1, 0), (-(1 << 63), 0))
    packets = [datagram(operation, x, y) for operation in (0, 3, 4, 5, 6, 7, 8, 21, 27) for x, y in beyond]
    packets += [datagram(operation, 1, x) for operation in (1, 7, 8, 17, 19, 20) for x, _ in beyond]
    packets += [datagram(0, -(1 << 63) + number, 0) for number in range(600)]
    packets.append(datagram(0, -MOST, 0))
    capture = write(tmp_path / "in.pcap", packets)
    for place in (LOCAL, store):
        ran = run(capture, [FUNCTION], place, tmp_path / place.kind)
        assert ran.outcome.failure is None
        assert ran.outcome.reports["state_refused"] == 9 * 4 + 6 * 4 + 600, place
        assert f'"value": {-MOST}' in ran.state


def test_numbers_beyond_the_bound_are_refused_and_counted(store: Location, tmp_path: Path) -> None:
    packets = [datagram(4, MOST, 0), datagram(3, 1, 0), datagram(26, 0, 0), datagram(4, -MOST, 0), datagram(3, -1, 0)]
    capture = write(tmp_path / "in.pcap", packets)
    for place in (LOCAL, store):
        ran = run(capture, [FUNCTION], place, tmp_path / place.kind)
        assert ran.outcome.reports["state_refused"] == 2, place
        assert f'"value": {-MOST}' in ran.state


def test_objects_beyond_the_bound_are_refused_and_counted(tmp_path: Path) -> None:
    packets = [datagram(4, 1, 0, port=1000 + port) for port in range(20)]
    capture = write(tmp_path / "in.pcap", packets)
    ran = run(capture, [FUNCTION], LOCAL, tmp_path / "local", Settings(max_instances=16, memory=1 << 24, seed=1))
    numbers = [row for row in ran.state.splitlines() if '"object": "number"' in row]
    assert 0 < len(numbers) <= 16
    assert ran.outcome.reports["state_refused"] > 0


def test_nothing_remains_in_the_store_but_objects(store: Location, tmp_path: Path) -> None:
    """The logs by which duplicates are recognised are given up at the end."""
    from sluice.state.peer import Peer

    run(write(tmp_path / "in.pcap", operations(9, 300)), [FUNCTION], store, tmp_path / "store")
    with Peer(store) as peer:
        logs = [key for key in peer.keys("sluice-log:*") if not key.endswith(b"/filled")]
    assert logs == []


def test_additions_of_a_burst_are_one_request(store: Location, tmp_path: Path) -> None:
    capture = write(tmp_path / "in.pcap", [datagram(0, 2, 0)] * 320)
    ran = run(capture, [FUNCTION], store, tmp_path / "store")
    assert ran.outcome.reports["store_operations"] == 320
    assert ran.outcome.reports["store_requests"] <= 320 // 32 + 2
    assert ran.outcome.reports["store_waits"] == 0
    assert '"value": 640' in ran.state
