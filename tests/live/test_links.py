"""Interfaces that go down, or are removed, while a box receives from them and forwards; those that are given twice."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.live.test_dpdk import device as device_of_dpdk
from tests.live.test_dpdk import why_no_dpdk
from tests.live.test_xdp import why_no_xdp
from tests.live.wire import Inline, Wire, ip, ping, why_no_wire
from tests.support.budget import in_matrix

STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("links")
    (made / "stack.py").write_text(STACK)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("livelinks", 2) as made:
        yield made


@pytest.mark.root
@pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire())
@pytest.mark.parametrize(
    "scheme, workers",
    [
        pytest.param("", [], id="one"),
        in_matrix("", ["--workers", "2"], id="workers"),
        pytest.param("", ["--workers", "2", "--dispatch", "kernel"], id="kernel"),
        in_matrix("xdp:", [], id="xdp"),
        pytest.param("xdp:", ["--workers", "2", "--dispatch", "queues"], id="queues"),
    ],
)
def test_a_box_goes_on_when_an_interface_is_up_again(wire: Wire, folder: Path, scheme: str, workers: list[str]) -> None:
    """Each time it is down, a warning says so, and it is counted."""
    if scheme and (why := why_no_xdp()):
        pytest.skip(why)
    words = ("run", str(folder / "stack.py"), "-f", "none", *workers)
    with Inline(wire, folder, *words, between=(f"{scheme}b0", f"{scheme}b1")) as running:
        assert ping(wire, 2) == 2
        for device in ("b0", "b1"):
            ip("-n", wire.box, "link", "set", device, "down")
            running.wait_for(f"warning: {device} went down")
            ip("-n", wire.box, "link", "set", device, "up")
            assert ping(wire, 2) == 2
        summary = running.stop()
    received = summary["received"]
    assert received["link_downs"] == 2 and summary["fault"] is None
    assert summary["layers"]["ipv4"]["packets"] >= 12


@pytest.mark.root
@pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire())
@pytest.mark.parametrize("scheme, dispatch", [("", "kernel"), ("xdp:", "queues")])
def test_workers_end_when_an_interface_is_removed(wire: Wire, folder: Path, scheme: str, dispatch: str) -> None:
    if scheme and (why := why_no_xdp()):
        pytest.skip(why)
    words = ("run", str(folder / "stack.py"), "-f", "none", "--workers", "2", "--dispatch", dispatch)
    words += ("--on-removal", "end")
    with Inline(wire, folder, *words, between=(f"{scheme}b0", f"{scheme}b1")) as running:
        assert ping(wire, 2) == 2
        ip("-n", wire.box, "link", "del", "b0")
        summary = running.ended(status=1)
    assert summary["fault"] == "b0: the interface is gone" and summary["received"]["forwarded"] >= 4


@pytest.mark.root
@pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire())
@pytest.mark.parametrize(
    "scheme, workers",
    [
        pytest.param("", [], id="one"),
        in_matrix("", ["--workers", "2"], id="workers"),
        pytest.param("", ["--workers", "2", "--dispatch", "kernel"], id="kernel"),
        in_matrix("xdp:", [], id="xdp"),
        pytest.param("xdp:", ["--workers", "2", "--dispatch", "queues"], id="queues"),
        pytest.param("dpdk:", [], id="dpdk"),
    ],
)
def test_a_box_goes_on_when_an_interface_is_made_again(
    wire: Wire, folder: Path, scheme: str, workers: list[str]
) -> None:
    """In both directions: it is received from, and packets leave at it. The box has given up its rights by then."""
    if why := {"xdp:": why_no_xdp, "dpdk:": why_no_dpdk}.get(scheme, str)():
        pytest.skip(why)
    words = ("run", str(folder / "stack.py"), "-f", "none", "--user", "nobody", *workers)
    names = {device: device_of_dpdk(device) if scheme == "dpdk:" else f"{scheme}{device}" for device in ("b0", "b1")}
    with Inline(wire, folder, *words, between=(names["b0"], names["b1"])) as running:
        assert ping(wire, 2) == 2
        for link in wire.links():
            device = link[3]
            shown = names[device].removeprefix(scheme).partition(",")[0]
            ip("-n", wire.box, "link", "del", device)
            running.wait_for(f"warning: {shown} was removed")
            wire.join(*link, queues=2)
            running.wait_for(f"note: {shown} was made again")
            for space in (wire.client, wire.server):  # the address of the link is another one
                ip("-n", space, "neigh", "flush", "all")
            assert ping(wire, 2) == 2
        summary = running.stop()
    received = summary["received"]
    assert (received["removals"], received["returns"]) == (2, 2) and summary["fault"] is None
    assert summary["layers"]["ipv4"]["packets"] >= 12


@contextmanager
def standing_still(running: Inline) -> Generator[None]:
    """The box does nothing meanwhile."""
    running.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        running.process.send_signal(signal.SIGCONT)


def flood(wire: Wire, packets: int) -> None:
    """Packets that the client sends to the box."""
    raw = wire.socket(wire.client, socket.AF_PACKET, socket.SOCK_RAW)
    with raw:
        raw.bind(("c0", 0))
        for _ in range(packets):
            raw.send(bytes.fromhex("020000000002 020000000001 88b5") + bytes(1400))


@pytest.mark.root
@pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire())
@pytest.mark.parametrize(
    "scheme, workers",
    [
        pytest.param("", [], id="one"),
        pytest.param("", ["--workers", "2", "--dispatch", "kernel"], id="kernel"),
        in_matrix("xdp:", [], id="xdp"),
    ],
)
def test_an_interface_is_made_again_with_the_same_index(
    wire: Wire, folder: Path, scheme: str, workers: list[str]
) -> None:
    """Before the box looks: it is noticed, and what the kernel dropped of the first one is counted."""
    if scheme and (why := why_no_xdp()):
        pytest.skip(why)
    words = ("run", str(folder / "stack.py"), "-f", "none", "--ring", "1", *workers)
    (link,) = (each for each in wire.links() if each[3] == "b0")
    shown = subprocess.run(["ip", "-j", "-n", wire.box, "link"], check=True, capture_output=True, timeout=300).stdout
    index = next(each["ifindex"] for each in json.loads(shown) if each["ifname"] == "b0")
    with Inline(wire, folder, *words, between=(f"{scheme}b0", f"{scheme}b1")) as running:
        with standing_still(running):
            flood(wire, 8000)
            ip("-n", wire.box, "link", "del", "b0")
            wire.join(*link, queues=2, index=index)
        running.wait_for("note: b0 was made again")
        for space in (wire.client, wire.server):
            ip("-n", space, "neigh", "flush", "all")
        assert ping(wire, 2) == 2
        received = running.stop()["received"]
    assert (received["removals"], received["returns"]) == (1, 1)
    assert received["dropped_kernel"] > 1000 and received["dropped_kernel"] + received["packets"] >= 8000


@pytest.mark.parametrize(
    "words, said",
    [
        (["-i", "eth0", "-i", "eth0"], "-i eth0: is given twice, so each packet would count twice"),
        (["-i", "eth0", "-i", "xdp:eth0"], "-i xdp:eth0: is given twice"),
        (
            ["-i", "eth0", "-i", "any"],
            "-i any: receives from all interfaces, so from eth0 as well",
        ),
        (["-i", "xdp:eth0", "--forward", "eth0"], "--forward eth0: is the interface of -i as well"),
    ],
)
def test_an_interface_that_is_given_twice(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tcp_ip", "-f", "none", *words]) == 2
    assert said in capsys.readouterr().err
