"""Interfaces that go down, or are removed, while a box receives from them and forwards; those that are given twice."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from sluice.cli.main import main
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
        in_matrix("xdp:", [], id="xdp"),
        pytest.param("xdp:", ["--workers", "2", "--dispatch", "queues"], id="queues"),
    ],
)
def test_a_box_goes_on_when_an_interface_is_made_again(
    wire: Wire, folder: Path, scheme: str, workers: list[str]
) -> None:
    """In both directions: it is received from, and packets leave at it. The box has given up its rights by then."""
    if scheme and (why := why_no_xdp()):
        pytest.skip(why)
    words = ("run", str(folder / "stack.py"), "-f", "none", *workers)
    with Inline(wire, folder, *words, between=(f"{scheme}b0", f"{scheme}b1")) as running:
        assert ping(wire, 2) == 2
        for link in wire.links():
            device = link[3]
            ip("-n", wire.box, "link", "del", device)
            running.wait_for(f"warning: {device} was removed")
            wire.join(*link, queues=2)
            running.wait_for(f"note: {device} was made again")
            for space in (wire.client, wire.server):  # the address of the link is another one
                ip("-n", space, "neigh", "flush", "all")
            assert ping(wire, 2) == 2
        summary = running.stop()
    received = summary["received"]
    assert (received["removals"], received["returns"]) == (2, 2) and summary["fault"] is None
    assert summary["layers"]["ipv4"]["packets"] >= 12


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
