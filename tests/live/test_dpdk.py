"""DPDK (sluice/runtime/dpdk): capture files by net_pcap, and a box between two hosts by net_af_packet."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.engine.dpdk import DpdkError, dpdk_flags
from sluice.engine.packets import packets, runtime_library
from tests.live.veth import ROOT
from tests.live.wire import Inline, Wire, content, fetch, ping, serve, why_no_wire

CAPTURE = ROOT / "tests" / "corpus" / "gen__tcp_loss_reorder.pcap"
STACK = "from tests.support.small_stacks import small_stack\n\nstack = small_stack()\n"


def why_no_dpdk() -> str:
    """What keeps DPDK from being used here; empty when it can be."""
    try:
        dpdk_flags()
    except DpdkError as error:
        return str(error)
    return ""


needs_dpdk = pytest.mark.skipif(bool(why_no_dpdk()), reason=why_no_dpdk())
needs_wire = pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dpdk")
    (made / "stack.py").write_text(STACK)
    return made


def sluice(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: DPDK is initialised once in each."""
    return subprocess.run(
        [sys.executable, "-m", "sluice", *words], timeout=300,
        cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def device(name: str) -> str:
    return f"dpdk:net_af_packet_{name},iface={name}"


@needs_dpdk
def test_a_file_gives_the_same_rows(folder: Path) -> None:
    """With the times in the file, and to its end; also with a filter, a small pool, and options of DPDK."""
    same = ["--filter", "tcp", "--idle", "300"]  # without --idle, only connections of interfaces time out
    options = ["--ring", "1", "--dpdk", "--no-huge --no-shconf --no-telemetry -m 64"]
    rows: list[str] = []
    for words in (["-r", str(CAPTURE)], ["-i", f"dpdk:net_pcap0,rx_pcap={CAPTURE}", *options]):
        done = sluice(folder, "flows", "--stack", "stack.py", *words, *same, "-o", "rows.jsonl")
        assert done.returncode == 0, done.stderr
        rows.append((folder / "rows.jsonl").read_text())
    assert rows[0] == rows[1] and rows[0].count("\n") > 40


@needs_dpdk
def test_packets_of_a_file_are_forwarded_to_another(folder: Path) -> None:
    sides = f"dpdk:net_pcap0,rx_pcap={CAPTURE}", "dpdk:net_pcap1,tx_pcap=out.pcap"
    done = sluice(folder, "run", "stack.py", "-f", "none", "-i", sides[0], "--forward", sides[1], "--json")
    assert done.returncode == 0, done.stderr
    summary, library = json.loads(done.stdout), runtime_library()
    given, sent = ([packet.data for packet in packets(str(path), library)] for path in (CAPTURE, folder / "out.pcap"))
    assert sent == given
    assert summary["received"]["forwarded"] == summary["packets"] == len(sent) > 50


@pytest.mark.root
@needs_wire
@needs_dpdk
@pytest.mark.parametrize("between", [(device("b0"), device("b1")), (device("b0"), "b1")], ids=["both", "one"])
def test_hosts_talk_through_a_box(folder: Path, between: tuple[str, str]) -> None:
    """Also where the hosts leave checksums to a card that a veth pair does not have."""
    with Wire("livedpdk") as wire:
        for space, name in ((wire.client, "c0"), (wire.server, "s0")):
            subprocess.run(["ip", "netns", "exec", space, "ethtool", "-K", name, "tx", "on"], check=True, timeout=300)
        with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", "none", between=between) as running:
            assert ping(wire, 3) == 3
            site = serve(wire, 8080)
            try:
                for path in ("/x/1", "/x/700000"):
                    assert fetch(wire, 8080, path, 30) == (0, hashlib.sha256(content(path)).hexdigest())
            finally:
                site.shutdown()
                site.server_close()
            summary = running.stop()
    received = summary["received"]
    assert received["not_forwarded"] == received["dropped_kernel"] == received["dropped_interface"] == 0
    assert received["forwarded"] == received["packets"] == summary["packets"] == summary["box"]["packets"] > 500


@pytest.mark.root
@needs_wire
@needs_dpdk
def test_verdicts_and_an_interface_that_goes_away(folder: Path) -> None:
    """The page that contains the word does not arrive, the other one does. Then the run ends with a fault."""
    guard = ROOT / "examples" / "wire" / "guard.c"
    between, end = (device("b0"), device("b1")), ("--on-removal", "end")
    with (
        Wire("livedpdk") as wire,
        Inline(wire, folder, "run", str(folder / "stack.py"), "-f", str(guard), *end, between=between) as box,
    ):
        site = serve(wire, 8080)
        try:
            assert fetch(wire, 8080, "/x/1000", 30)[0] == 0
            assert fetch(wire, 8080, "/secret/1000", 30)[0] == 56, "curl: the connection was reset"
        finally:
            site.shutdown()
            site.server_close()
        subprocess.run(["ip", "-n", wire.box, "link", "del", "b0"], check=True, timeout=300)
        summary = box.ended(1)
    assert summary["fault"] in {f"net_af_packet_{name}: the interface is gone" for name in ("b0", "b1")}
    assert summary["reports"]["stopped"] == 1


@needs_dpdk
def test_messages_say_what_dpdk_lacks(folder: Path) -> None:
    done = sluice(folder, "run", "stack.py", "-f", "none", "-i", "dpdk:net_pcap0,rx_pcap=none.pcap")
    assert done.returncode == 1 and "net_pcap0: DPDK finds no such device, or cannot use it: " in done.stderr
    assert "none.pcap: No such file or directory" in done.stderr


def test_without_dpdk_the_message_names_its_package(folder: Path) -> None:
    """Before anything is compiled."""
    hidden = {"PKG_CONFIG_LIBDIR": str(folder), "PKG_CONFIG_PATH": ""}
    done = sluice(folder, "run", "stack.py", "-f", "none", "-i", "dpdk:net_null0", **hidden)
    assert done.returncode == 1
    assert "dpdk:net_null0: " in done.stderr and "install it" in done.stderr and "dpdk-dev" in done.stderr


def test_dpdk_options_without_a_device(folder: Path) -> None:
    done = sluice(folder, "run", "stack.py", "-f", "none", "-r", str(CAPTURE), "--dpdk", "-m 64")
    assert done.returncode == 2 and "--dpdk: is for devices of DPDK" in done.stderr
