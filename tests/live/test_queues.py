"""`--dispatch queues`: by AF_XDP, each worker has receive queues of its own, and hands over packets of others."""

from __future__ import annotations

import ctypes
import hashlib
import socket
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.engine.box import compile_stack
from sluice.engine.fanout import WorkerSources
from sluice.engine.inputs import Frame, Inputs
from sluice.stacks.find import find_stack
from tests.live.divided import rows, run_alone, send_by_turns, tunnelled
from tests.live.test_xdp import why_no_xdp
from tests.live.veth import Watch
from tests.live.wire import Inline, Wire, content, fetch, ip, serve
from tests.support.bounded import until
from tests.support.budget import in_matrix

QUEUES, WORKERS = 3, 2
STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""
TUNNELS = """
from sluice.lang import Pred
from tests.support.small_stacks import small_stack

stack = small_stack()
stack += (stack.ipv4 >> stack.ipv4) + Pred(stack.ipv4.header.protocol == 4)
"""

pytestmark = pytest.mark.root


@pytest.fixture(scope="module", autouse=True)
def xdp() -> None:
    if why := why_no_xdp():
        pytest.skip(why)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("queues")
    (made / "stack.py").write_text(STACK)
    (made / "tunnels.py").write_text(TUNNELS)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("livequeue", QUEUES) as made:
        yield made


def test_hosts_talk_through_workers_with_queues_of_their_own(wire: Wire, folder: Path) -> None:
    """Connections of several hosts at once. Each worker sends by a queue of its own, what others received, too."""
    hosts = [f"10.79.0.{number}" for number in range(11, 27)]
    for host in hosts:
        ip("-n", wire.client, "addr", "add", f"{host}/24", "dev", "c0")
    words = ("run", str(folder / "stack.py"), "-f", "none", "--workers", str(WORKERS), "--dispatch", "queues")
    with Inline(wire, folder, *words, between=("xdp:b0", "xdp:b1")) as running:
        site = serve(wire, 8080)
        try:
            with ThreadPoolExecutor(3) as pool:
                got = list(pool.map(lambda host: fetch(wire, 8080, "/x/90000", 60, host), hosts))
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    assert got == [(0, hashlib.sha256(content("/x/90000")).hexdigest())] * len(hosts)
    received = summary["received"]
    assert summary["dispatch"]["by"] == "queues" and summary["dispatch"]["handed_over"] > 0
    assert min(summary["packets_by_worker"]) > 0 and received["dropped_workers"] == received["not_forwarded"] == 0
    assert received["forwarded"] == received["packets"] == summary["packets"] == sum(summary["packets_by_worker"])
    assert "both directions of a connection may come by different queues: b0:" in running.errors.read_text()


@pytest.mark.parametrize("stack", [in_matrix("stack.py"), "tunnels.py"])
def test_rows_are_those_of_one_box(wire: Wire, folder: Path, tmp_path: Path, stack: str) -> None:
    """A packet of several keys goes to the worker of the first that any worker has seen."""
    turns = tunnelled(60)
    given = [frame for frames in turns for frame in frames]
    one = run_alone(folder / stack, given, tmp_path / "alone")
    words = ["flows", "--stack", str(folder / stack), "--json", "-o", str(tmp_path / "rows")]
    own = ["-i", "xdp:b0", "--workers", str(WORKERS), "--dispatch", "queues"]
    with Watch(wire, wire.box, tmp_path, *words, *own) as running:
        end = wire.socket(wire.client, socket.AF_PACKET, socket.SOCK_RAW)
        end.bind(("c0", 0))
        send_by_turns(end, turns)
        end.close()
        summary = running.stop()
    assert rows(tmp_path / "rows") == rows(tmp_path / "alone")
    assert summary["packets"] == sum(summary["packets_by_worker"]) and summary["received"]["dropped_workers"] == 0
    assert summary["layers"]["tcp"] == one["layers"]["tcp"]
    assert summary["dispatch"]["handed_over"] > 0 and not summary.get("packets_divided")


def test_each_time_that_a_link_is_down_is_counted_once(wire: Wire, folder: Path) -> None:
    """Also where each worker sees another one of two."""
    library = ctypes.CDLL(str(compile_stack(find_stack(str(folder / "stack.py")), ()).compiled.path))
    inputs = Inputs(("xdp:b0", "xdp:b1"), forwarding=True, awaits_removed=True)
    sources = wire.within(wire.box, lambda: WorkerSources.of_queues(library, inputs, WORKERS))
    space = (Frame * 64)()

    def looks(worker: int, number: int) -> None:
        """Until the worker has seen it. The others do nothing meanwhile."""
        one = sources.each[worker]

        def seen() -> bool:
            assert ctypes.c_int32(library.sl_source_receive(one.handle, space, ctypes.c_uint32(64))).value >= 0
            library.sl_source_release(one.handle)
            return one.statistics_of(number)["link_downs"] == 1

        until(seen)

    try:
        for number, device in enumerate(("b0", "b1")):
            ip("-n", wire.box, "link", "set", device, "down")
            looks(number, number)
            ip("-n", wire.box, "link", "set", device, "up")
        assert [sources.statistics_of(number)["link_downs"] for number in range(2)] == [1, 1]
        assert sources.statistics()["link_downs"] == 2
    finally:
        sources.close()


@pytest.mark.parametrize(
    "words, said",
    [
        (("-i", "xdp:b0", "--workers", "4"), "b0: it has 3 receive queues for 4 workers (`ethtool -L b0 rx 4 tx 4`)"),
        (("-i", "b0", "--workers", "2"), "--dispatch queues: queues are received from by AF_XDP, as in -i xdp:eth0"),
        (("-i", "xdp:b0"), "--dispatch queues: packets are divided among several workers: give --workers, too"),
    ],
)
def test_where_workers_cannot_have_queues_the_command_says_why(
    wire: Wire, folder: Path, words: tuple[str, ...], said: str
) -> None:
    command = [sys.executable, "-m", "sluice", "run", str(folder / "stack.py"), "-f", "none", *words]
    with wire.start(wire.box, [*command, "--dispatch", "queues"], stderr=subprocess.PIPE) as done:
        _, errors = done.communicate(timeout=600)
    assert done.returncode != 0 and said in errors
