"""AF_XDP (sluice/runtime/io/xdp_source.c): a box sees and forwards what hosts send over veth pairs."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.box import compile_stack
from sluice.engine.inputs import InputError, Inputs, Source
from tests.live.veth import ROOT
from tests.live.wire import PATIENCE, Inline, Wire, content, fetch, ping, serve, why_no_wire
from tests.support.bounded import killed_after
from tests.support.budget import in_matrix
from tests.support.small_stacks import small_stack


def why_no_xdp() -> str:
    """What keeps AF_XDP sockets from being used here; empty when they can be."""
    if why := why_no_wire():
        return why
    try:
        ctypes.CDLL("libxdp.so.1")
    except OSError:
        return "there is no libxdp (Debian: libxdp1)"
    library = ctypes.CDLL(str(compile_stack(small_stack(), ()).compiled.path))
    with Wire("livexdp0") as made:
        try:
            made.within(made.box, lambda: Source.open(library, Inputs(("xdp:b0",))).close())
        except InputError as error:
            return f"no AF_XDP socket can be used: {error}"
    return ""


pytestmark = pytest.mark.root


@pytest.fixture(scope="module", autouse=True)
def xdp() -> None:
    if why := why_no_xdp():
        pytest.skip(why)


STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("xdp")
    (made / "stack.py").write_text(STACK)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("livexdp") as made:
        yield made


@pytest.mark.parametrize("between", [("xdp:b0", "xdp:b1"), ("xdp:b0", "b1")], ids=["both", "one"])
@pytest.mark.parametrize("offload", [in_matrix("off"), "on"])
def test_hosts_talk_through_a_box(wire: Wire, folder: Path, between: tuple[str, str], offload: str) -> None:
    """Also where the hosts leave checksums to a card that a veth pair does not have."""
    for space, device in ((wire.client, "c0"), (wire.server, "s0")):
        subprocess.run(["ip", "netns", "exec", space, "ethtool", "-K", device, "tx", offload], check=True, timeout=300)
    with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", "none", between=between) as running:
        assert ping(wire, 3) == 3
        site = serve(wire, 8080)
        try:
            for path in ("/x/1", "/x/1500000"):
                assert fetch(wire, 8080, path, 30) == (0, hashlib.sha256(content(path)).hexdigest())
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    received = summary["received"]
    assert received["not_forwarded"] == received["dropped_kernel"] == 0
    assert received["forwarded"] == received["packets"] == summary["packets"] == summary["box"]["packets"]


def start(wire: Wire, *words: str) -> subprocess.Popen[str]:
    """`sluice run` in the box, once it receives."""
    process = wire.start(
        wire.box, [sys.executable, "-m", "sluice", "run", *words, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stderr is not None
    with killed_after(process, PATIENCE):
        assert any("receiving from" in line for line in process.stderr)
    return process


def test_every_packet_is_received_or_counted(wire: Wire, folder: Path) -> None:
    """A tagged frame has its tag; while the box stands still, the kernel counts what it drops."""
    process = start(wire, str(folder / "stack.py"), "-i", "xdp:b0", "--ring", "1", "-f", "none")
    try:
        raw = wire.within(wire.client, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        raw.bind(("c0", 0))
        packet = bytes.fromhex("020000000002 020000000001 8100 0007 88b5") + bytes(60)
        process.send_signal(signal.SIGSTOP)
        for _ in range(2000):
            raw.send(packet)
        raw.close()
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        summary = json.loads(process.communicate(timeout=PATIENCE)[0])
    finally:
        process.kill()
        process.wait(timeout=60)
    received = summary["received"]
    assert 256 <= received["packets"] and received["dropped_kernel"] >= 1700
    assert 2000 <= received["packets"] + received["dropped_kernel"] <= 2050, "the host itself sends some"
    assert summary["box"]["bytes"] >= 250 * len(packet)


def test_an_interface_that_goes_away_ends_the_run_with_a_fault(wire: Wire, folder: Path) -> None:
    process = start(wire, str(folder / "stack.py"), "-i", "xdp:b0", "-f", "none", "--on-removal", "end")
    try:
        subprocess.run(["ip", "-n", wire.box, "link", "del", "b0"], check=True, timeout=300)
        text, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait(timeout=60)
    assert process.returncode == 1 and json.loads(text)["fault"] == "b0: the interface is gone"


def test_a_box_that_is_killed_leaves_the_interface_usable(wire: Wire, folder: Path) -> None:
    process = start(wire, str(folder / "stack.py"), "-i", "xdp:b0", "-f", "none")
    process.kill()
    process.wait(timeout=60)
    process = start(wire, str(folder / "stack.py"), "-i", "xdp:b0", "-f", "none")
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and json.loads(text)["fault"] is None


def test_messages_name_the_interface(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["run", str(folder / "stack.py"), "-i", "xdp:none0", "-f", "none"]) == 1
    assert "none0: there is no interface of that name" in capsys.readouterr().err


def test_without_libxdp_the_message_names_its_package(wire: Wire, folder: Path) -> None:
    """In a mount namespace of its own, where the library is hidden."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    known = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=300).stdout.splitlines()
    library = next((line.split()[-1] for line in known if "libxdp.so.1" in line), "")
    command = f"mount --bind /dev/null $(readlink -f {library}) && exec {sys.executable} -m sluice run"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{command} {folder}/stack.py -i xdp:lo -f none"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300,
    )  # fmt: skip
    assert "lo: AF_XDP needs libxdp, version 1: install it (Debian: libxdp1)" in done.stderr, done.stderr
    assert done.returncode == 1
