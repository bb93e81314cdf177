"""Random numbers and times are the same when a packet is handled again, and in all processes (CHC: non-determinism)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.cli.main import main
from sluice.state.location import Location
from tests.state.boxes import missing
from tests.state.instances import Action, Ran, compiled, kill, kill_root, move, plan_of, run_ideal, run_instances
from tests.state.traffic import address, connection, hosts, mixed, write
from tests.support.connection import handshake
from tests.support.packets import eth, ip4, udp
from tests.support.unoptimised import unoptimised

CHAIN = """
from sluice.chain import Chain, function
from tests.state.instances import stack

chain = Chain(function("{source}"), stack=stack(), name="random")
"""
DRAWS = Path(__file__).with_name("draws.c")
INSIDE, OUTSIDE = bytes([10, 1, 0, 0]), bytes([198, 51, 100, 0])

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def packets() -> list[bytes]:
    """Connections that are silent after their handshake, others that end, and some that last until the end of input."""
    out: list[bytes] = []
    for number in range(40):
        out += handshake(*hosts(address(INSIDE, 1 + number % 9), address(OUTSIDE, 7), 3000 + number))
    out += mixed(3, 100)
    for number in range(20):
        out += connection(address(INSIDE, 1 + number), address(OUTSIDE, 9), 4000 + number)[:5]
    return [*out, eth(ip4(udp(7, 7, b"the end"), 17, address(INSIDE, 1), address(OUTSIDE, 7)))]


@pytest.fixture(scope="module")
def ideal(packets: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    with unoptimised():
        return run_ideal(plan_of(function(str(DRAWS))), packets, tmp_path_factory.mktemp("ideal"))


def ran(packets: list[bytes], folder: Path, store: Location, actions: dict[int, Action]) -> Ran:
    chain = compiled(plan_of(function(str(DRAWS))), {"draws": 3})
    return run_instances(chain, packets, folder, store, actions)


def kill_all(controller: Controller) -> None:
    for action in (kill("draws"), kill("draws#1"), kill("draws#2"), kill_root):
        action(controller)


def value(found: Ran, name: str) -> int:
    """A number of the final state."""
    rows = [row for row in found.state if f'"object": "{name}"' in row]
    return sum(int(row.rpartition(" ")[2].rstrip("}")) for row in rows)


def same(one: Ran, other: Ran) -> bool:
    return (one.left, one.state) == (other.left, other.state) and one.failure is None


def test_random_numbers_are_used(packets: list[bytes], ideal: Ran) -> None:
    """About one in eight packets of TCP was dropped; timers and ends drew numbers."""
    assert len(packets) // 16 < len(packets) - len(ideal.left) < len(packets) // 4
    assert value(ideal, "dropped") and value(ideal, "silent") and value(ideal, "ended")


def test_instances_draw_what_the_ideal_chain_draws(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """Connections move meanwhile, and timers and the end of input are where they are then."""
    assert same(ran(packets, tmp_path, store, {3: move("draws", 1), 6: move("draws", 0), 8: move("draws", 2)}), ideal)


def test_instances_that_were_killed_draw_the_same_again(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    kills = {2: kill("draws"), 3: kill("draws#1"), 5: kill("draws#2"), 8: kill("draws"), 9: kill("draws#1")}
    found = ran(packets, tmp_path, store, kills)
    assert same(found, ideal)
    assert sum(found.reports.get(f"{name}.crashes", 0) for name in ("draws", "draws#1", "draws#2")) >= 3


def test_root_and_instances_that_were_killed_draw_the_same(
    packets: list[bytes], ideal: Ran, tmp_path: Path, store: Location
) -> None:
    """The packets that left differ by those that were in flight."""
    found = ran(packets, tmp_path, store, {4: kill_all})
    assert (found.state, found.failure) == (ideal.state, None)
    assert len(ideal.left) - len(found.left) == found.reports["root_lost_packets"]


def command(path: Path, source: str, *options: str) -> int:
    """Run a chain of one function over a capture, and compare it with the ideal one."""
    function_file, chain, capture = path / "draws.c", path / "chain.py", path / "in.pcap"
    function_file.write_text(source)
    chain.write_text(CHAIN.format(source=str(function_file)))
    write(capture, mixed(5, 60))
    outputs = ["-w", str(path / "out.pcap"), "--state", str(path / "state")]
    store = ["--isolate", "--store", "embedded", "--instances", "draws=2", "--check-equivalence"]
    with unoptimised():
        return main(["chain", str(chain), "-r", str(capture), *outputs, *store, *options])


def test_a_chain_and_the_ideal_one_have_one_random_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No --seed is given: the seed is another one in each run, and the same one in all processes of a run."""
    states: list[str] = []
    for _ in range(2):
        assert command(tmp_path, DRAWS.read_text()) == 0
        err = capsys.readouterr().err
        assert "equivalent to the ideal chain" in err and "handled again" not in err
        states.append((tmp_path / "state").read_text())
    assert states[0] != states[1]


def test_calls_of_libc_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With their line, and what to write. The comparison finds the difference."""
    source = DRAWS.read_text()
    for one, other in (
        ("second = sl_random(event)", "second = (uint64_t)random()"),
        ("sl_now(event->box);", "(uint64_t)time(NULL);"),
    ):
        assert one in source
        source = source.replace(one, other)
    assert command(tmp_path, "#include <stdlib.h>\n#include <time.h>\n" + source) == 1
    lines = [number for number, line in enumerate(source.splitlines(), 3) if "random()" in line or "time(" in line]
    err = capsys.readouterr().err
    assert f"draws.c:{lines[0]}: random() gives another value" in err and "write sl_random(event)" in err
    assert f"draws.c:{lines[1]}: time() gives another value" in err and "differs from the ideal one" in err
    assert err.count("another value") == 2
