"""`sluice run -i A --forward B`: two hosts talk through a box whose functions decide on their packets."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import socket
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.live.wire import SERVER, Inline, Wire, content, fetch, ip, ping, serve, why_no_wire
from tests.support.budget import in_matrix

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]

STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""
SHIELD = """
#include "sluice.h"
#include <unistd.h>
SLUICE_INLINE
SLUICE_PARAMETER(mode, text, "ports", "ports, fail, slow or hold")
SLUICE_COUNTER(seen, "segments")
struct flow { bool stopped; };
SLUICE_STATE(struct flow)

static bool is(const struct sl_event *event, const char *mode) {
    return !strcmp(SLUICE_PARAMETER_OF(event->box, mode), mode);
}
static bool has(sl_bytes bytes, const char *word) {
    for (uint32_t at = 0, n = (uint32_t)strlen(word); at + n <= bytes.captured; at++)
        if (memcmp(bytes.at + at, word, n) == 0)
            return true;
    return false;
}
SLUICE_ON(tcp, packet) {
    uint32_t port = (uint32_t)sl_load_be16(event->unit.at + 2);
    uint64_t seen = ++SLUICE_COUNTER_OF(event->box, seen);
    if (is(event, "ports") && port == 8023)
        SLUICE_RESET(event->box);
    if (is(event, "fail") && seen == 30)
        sl_fail(event->box, "shield", "out of paper");
    if (is(event, "slow"))
        usleep(20000);
    if (is(event, "hold") && SLUICE_STATE_OF(event)->stopped)
        SLUICE_DROP(event->box);
    else if (is(event, "hold"))
        SLUICE_HOLD(event);
}
SLUICE_ON(tcp, data) {
    if (is(event, "ports") && has(data->bytes, "GET /colour/"))
        SLUICE_REWRITE(event->box, data->bytes.at, "GET /flavor/", 12);
    if (is(event, "hold") && has(data->bytes, "attack")) {
        SLUICE_STATE_OF(event)->stopped = true;
        SLUICE_DISCARD(event);
        SLUICE_RESET(event->box);
    }
}
"""
PYTHON = """
from sluice.functions import Verdicts, on

verdicts = Verdicts()


@on("tcp", "data")
def look(event):
    if b"GET /attack" in event.bytes:
        verdicts.reset(event)
    if b"GET /bug" in event.bytes:
        raise ValueError("a bug")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stack and its functions, which are compiled once."""
    made = tmp_path_factory.mktemp("forward")
    for name, text in (("stack.py", STACK), ("shield.c", SHIELD), ("guard.py", PYTHON)):
        (made / name).write_text(text)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    """Of each test its own: the kernel keeps what it learnt of a path, and a slow box slows down the next test's."""
    with Wire("livefwd") as made:
        yield made


def run(wire: Wire, folder: Path, function: str, *options: str) -> Inline:
    return Inline(wire, folder, "run", str(folder / "stack.py"), "-f", str(folder / function), *options)


def digest(path: str) -> str:
    return hashlib.sha256(content(path)).hexdigest()


NOTHING = hashlib.sha256(b"").hexdigest()
RESET = 56
"""The status of curl whose connection was reset."""


def test_packets_pass_are_changed_and_connections_are_reset(wire: Wire, folder: Path, tmp_path: Path) -> None:
    """/colour becomes /flavor; port 8023 is closed by a reset; a file gets what is transmitted."""
    with run(wire, folder, "shield.c", "-w", str(tmp_path / "out.pcap.gz")) as running:
        assert ping(wire, 3) == 3
        site, refused = serve(wire, 8080), serve(wire, 8023)
        try:
            assert fetch(wire, 8080, "/x/700000", 30) == (0, digest("/x/700000"))
            assert fetch(wire, 8080, "/colour/900", 30) == (0, digest("/flavor/900"))
            with wire.socket(wire.client) as end, pytest.raises(ConnectionRefusedError):
                end.settimeout(30)
                end.connect((SERVER, 8023))
        finally:
            for server in (site, refused):
                server.shutdown()
                server.server_close()
        summary = running.stop()
    reports, received = summary["reports"], summary["received"]
    assert reports["packets_changed"] >= 1 and reports["packets_dropped"] >= 1 and reports["packets_sent"] >= 2
    assert received["not_forwarded"] == received["unseen_overload"] == received["unseen_fault_dropped"] == 0
    assert received["forwarded"] == summary["packets"] - reports["packets_dropped"] + reports["packets_sent"]
    written = gzip.decompress((tmp_path / "out.pcap.gz").read_bytes())
    assert b"GET /flavor/900" in written and b"GET /colour" not in written
    assert packets_of(written) == received["forwarded"]


@pytest.mark.parametrize("dispatch", ["box", "kernel"])
def test_two_workers_forward(wire: Wire, folder: Path, dispatch: str) -> None:
    """Connections of several hosts, at once: each is on one worker, which transmits its packets in their order."""
    hosts = [f"10.79.0.{number}" for number in range(11, 19)]
    for host in hosts:
        ip("-n", wire.client, "addr", "add", f"{host}/24", "dev", "c0")
    with run(wire, folder, "shield.c", "--workers", "2", "--dispatch", dispatch) as running:
        site, refused = serve(wire, 8080), serve(wire, 8023)
        try:
            with ThreadPoolExecutor(4) as pool:
                got = list(pool.map(lambda host: fetch(wire, 8080, "/x/300000", 60, host), hosts))
            assert got == [(0, digest("/x/300000"))] * len(hosts)
            for host in hosts[:3]:
                assert fetch(wire, 8023, "/x/9", 30, host)[0] == 7, "refused"
            assert ping(wire, 3) == 3
        finally:
            for server in (site, refused):
                server.shutdown()
                server.server_close()
        summary = running.stop()
    received, reports, by_worker = summary["received"], summary["reports"], summary["packets_by_worker"]
    assert summary["dispatch"]["by"] == dispatch
    assert min(by_worker) > 100 and sum(by_worker) == summary["packets"] - received["dropped_workers"]
    sent = summary["packets"] - received["dropped_workers"] - reports["packets_dropped"] + reports["packets_sent"]
    assert (received["forwarded"], received["not_forwarded"]) == (sent, 0)


def test_a_worker_that_is_killed_is_started_again(wire: Wire, folder: Path) -> None:
    """Connections of its worker pass on: it picks them up where they are."""
    with run(wire, folder, "shield.c", "--workers", "2", "--isolate", "--on-overload", "closed") as running:
        site = serve(wire, 8080)
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        try:
            with ThreadPoolExecutor(1) as pool:
                transfer = pool.submit(fetch, wire, 8080, "/x/3000000", 60)
                end = time.monotonic() + 60
                while len(found := children.read_text().split()) < 2:  # it receives before it starts its workers
                    assert time.monotonic() < end
                    time.sleep(0.05)
                for number in map(int, found):
                    os.kill(number, signal.SIGKILL)
                for worker in (0, 1):
                    running.wait_for(f"worker {worker} crashed: Killed")
                assert transfer.result() == (0, digest("/x/3000000"))
            assert fetch(wire, 8080, "/x/9000", 30) == (0, digest("/x/9000"))
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop(status=1)
    lost, received = summary["lost_by_crashes"], summary["received"]
    assert lost["crashes"] == 2 and "worker" in summary["failure"]
    assert summary["packets"] == summary["box"]["packets"] + lost["packets"] + received["dropped_workers"]


def test_a_function_in_python_resets_and_its_fault_lets_packets_pass(wire: Wire, folder: Path) -> None:
    with run(wire, folder, "guard.py", "--on-fault", "open") as running:
        site = serve(wire, 8080)
        try:
            assert fetch(wire, 8080, "/x/1000", 30) == (0, digest("/x/1000"))
            assert fetch(wire, 8080, "/attack/1000", 30) == (RESET, NOTHING)
            assert fetch(wire, 8080, "/bug/1000", 30) == (0, digest("/bug/1000"))
            assert fetch(wire, 8080, "/attack/1000", 30) == (0, digest("/attack/1000"))
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop(status=1)
    assert summary["failure"].endswith("ValueError: a bug") and "guard.py:12" in summary["failure"]
    assert summary["received"]["unseen_fault_passed"] > 0


def packets_of(pcap: bytes) -> int:
    """How many packets a capture has, whole ones only."""
    at, count = 24, 0
    while at < len(pcap):
        at += 16 + int.from_bytes(pcap[at + 8 : at + 12], "little")
        count += 1
    assert at == len(pcap)
    return count


@pytest.mark.parametrize("policy", ["open", in_matrix("closed"), "stop"])
def test_after_a_fault_packets_pass_or_are_dropped_or_the_run_ends(wire: Wire, folder: Path, policy: str) -> None:
    site = serve(wire, 8080)
    try:
        with run(wire, folder, "shield.c:mode=fail", "--on-fault", policy) as running:
            got = fetch(wire, 8080, "/x/500000", 30 if policy == "open" else 2)
            assert (got == (0, digest("/x/500000"))) == (policy == "open")
            if policy == "stop":
                summary = running.ended(status=1)
            else:
                summary = running.stop(status=1)
    finally:
        site.shutdown()
        site.server_close()
    received = summary["received"]
    assert summary["failure"] == "shield: out of paper"
    unseen = received.get("unseen_fault_passed", 0), received.get("unseen_fault_dropped", 0)
    assert [number > 0 for number in unseen] == [policy == "open", policy != "open"], "with stop, the rest of the burst"
    assert received["forwarded"] == summary["packets"] - unseen[1]


@pytest.mark.parametrize("policy", [in_matrix("open"), "closed"])
def test_after_a_fault_the_box_goes_on_without_the_function(wire: Wire, folder: Path, policy: str) -> None:
    """The policy of one function: the rest of the box still processes the packets, and the run fails at its end."""
    site = serve(wire, 8080)
    try:
        with run(wire, folder, "shield.c:mode=fail", "--on-fault", f"shield={policy}") as running:
            got = fetch(wire, 8080, "/x/500000", 30 if policy == "open" else 2)
            assert (got == (0, digest("/x/500000"))) == (policy == "open")
            summary = running.stop(status=1)
    finally:
        site.shutdown()
        site.server_close()
    reports, received = summary["reports"], summary["received"]
    assert summary["failure"] == "shield: out of paper" and reports["seen"] == 30
    assert [reports["failed_passed"] > 0, reports["failed_dropped"] > 0] == [policy == "open", policy != "open"]
    assert summary["layers"]["tcp"]["packets"] > 30 and received["unseen_fault_dropped"] == 0
    assert received["forwarded"] == summary["packets"] - reports["failed_dropped"]


def fetch_and_flood(wire: Wire) -> None:
    """Beside a download, connections to a closed port, one every 5 ms whatever the box does. A segment takes 20 ms
    there, and the kernel begins a block every 10 ms: a ring of eight is soon half full.
    """
    ends: list[socket.socket] = []
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(fetch, wire, 8080, "/x/20000", 60)
        try:
            for _ in range(300):
                ends.append(wire.socket(wire.client, socket.AF_INET))
                ends[-1].setblocking(False)
                ends[-1].connect_ex((SERVER, 9))
                time.sleep(0.005)
        finally:
            for end in ends:
                end.close()
        assert got.result() == (0, digest("/x/20000"))


def test_one_function_is_left_out_while_packets_come_too_fast(wire: Wire, folder: Path) -> None:
    options = ("--on-overload", "shield=open", "--ring", "4")
    with run(wire, folder, "shield.c:mode=slow", *options) as running:
        site = serve(wire, 8080)
        try:
            fetch_and_flood(wire)
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    reports = summary["reports"]
    assert reports["overload_passed"] > 0 and summary["received"]["unseen_overload"] == 0
    assert summary["box"]["packets"] == summary["packets"], "the rest of the box sees them"


def test_packets_pass_unseen_while_functions_do_not_keep_up(wire: Wire, folder: Path) -> None:
    with run(wire, folder, "shield.c:mode=slow", "--on-overload", "open", "--ring", "4") as running:
        site = serve(wire, 8080)
        try:
            fetch_and_flood(wire)
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    unseen = summary["received"]["unseen_overload"]
    assert 0 < unseen < summary["packets"] and summary["box"]["packets"] == summary["packets"] - unseen


def test_packets_that_are_held_until_the_bound_are_counted(wire: Wire, folder: Path) -> None:
    """Every segment waits 20 ms, as the function never decides; a request with the word gets no further."""
    with run(wire, folder, "shield.c:mode=hold", "--hold-time", "0.02", "--on-overload", "open") as running:
        site = serve(wire, 8080)
        try:
            assert fetch(wire, 8080, "/x/20000", 30) == (0, digest("/x/20000"))
            with wire.socket(wire.client, socket.AF_INET) as end:
                end.settimeout(30)
                end.connect((SERVER, 8080))
                end.sendall(b"GET /attack/9 HTTP/1.0\r\n\r\n")
                with pytest.raises(ConnectionResetError):
                    end.recv(1)
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    reports = summary["reports"]
    assert reports["held_expired"] > 10
    ends = ("held_released", "held_discarded", "held_expired", "held_at_end")
    assert reports["packets_held"] == sum(reports[name] for name in ends)


@pytest.mark.parametrize(
    "words, said",
    [
        (["-i", "b0", "--on-fault", "open"], "--on-fault open: is for packets that are forwarded: add --forward B"),
        (["-i", "b0", "--forward", "b1", "--on-fault", "x=open"], "--on-fault x=open: no function in C of this name"),
        (["-i", "b0", "--forward", "b0"], "--forward b0: is the interface of -i as well"),
        (["-i", "b0", "--forward", "b1", "--workers", "2", "--on-overload", "open"], "one worker can let packets pass"),
    ],
)
def test_options_that_exclude_each_other(
    folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / "stack.py"), "-f", "none", *words]) == 2
    assert said in capsys.readouterr().err


def test_several_workers_leave_no_function_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-i", "b0", "--forward", "b1", "--workers", "2", "--on-overload", "shield=open"]
    assert main(["run", str(folder / "stack.py"), "-f", str(folder / "shield.c"), *words]) == 2
    assert "one worker can leave a function out: leave out --workers 2" in capsys.readouterr().err
