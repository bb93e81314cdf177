"""A box on a wire: `sluice run -i` sees what two hosts send over a veth pair, byte for byte, and stops cleanly.

The hosts are network namespaces with the kernel's own TCP; curl and nginx where they are installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.live.veth import CLIENT, PATIENCE, ROOT, SERVER, SERVER6, Veth, Watch, why_not
from tests.support.bounded import joined
from tests.support.budget import in_matrix
from tests.support.packets import UDP, ip4, udp

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

SMALL = ROOT / "examples" / "first" / "hello.py"
"""A stack of Ethernet, IPv4 and UDP, which compiles fast."""


@pytest.fixture
def wire() -> Generator[Veth]:
    with Veth("iolive") as made:
        yield made


def flows(wire: Veth, space: str, device: str, folder: Path, *more: str) -> Watch:
    out = folder / "rows"
    return Watch(wire, space, folder, "run", "tcp_ip", "-i", device, "-f", f"flow_log:out={out}", "--json", *more)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def exchange(wire: Veth, family: int, address: str, sizes: tuple[int, int], seed: int) -> tuple[int, list[bytes]]:
    """A connection by which both sides send bytes: the client's port, and what each sent."""
    sent = [random.Random(seed + side).randbytes(size) for side, size in enumerate(sizes)]
    listener = wire.socket(wire.server, family)
    listener.bind((address, 0))
    listener.listen()
    got = [b"", b""]

    def talk(end: socket.socket, side: int) -> None:
        end.settimeout(PATIENCE)
        writer = threading.Thread(target=lambda: (end.sendall(sent[side]), end.shutdown(socket.SHUT_WR)), daemon=True)
        writer.start()
        parts: list[bytes] = []
        while part := end.recv(65536):
            parts.append(part)
        got[side] = b"".join(parts)
        joined(writer)
        end.close()

    client = wire.socket(wire.client, family)
    client.settimeout(PATIENCE)
    accepted: list[socket.socket] = []
    acceptor = threading.Thread(target=lambda: accepted.append(listener.accept()[0]), daemon=True)
    acceptor.start()
    client.connect((address, listener.getsockname()[1]))
    port = client.getsockname()[1]
    joined(acceptor)
    threads = [
        threading.Thread(target=talk, args=(end, side), daemon=True) for side, end in enumerate((client, accepted[0]))
    ]
    for thread in threads:
        thread.start()
    joined(*threads)
    listener.close()
    assert got == sent[::-1]
    return port, sent


@pytest.mark.parametrize(
    "family, address", [(socket.AF_INET, SERVER), (socket.AF_INET6, SERVER6)], ids=["IPv4", "IPv6"]
)
@pytest.mark.parametrize("number", [in_matrix(signal.SIGINT), signal.SIGTERM])
def test_streams_are_what_the_hosts_sent(
    wire: Veth, tmp_path: Path, family: int, address: str, number: signal.Signals
) -> None:
    with flows(wire, wire.server, "s0", tmp_path) as watch:
        talks = [
            exchange(wire, family, address, sizes, 10 * n)
            for n, sizes in enumerate([(0, 1), (300_000, 5), (7, 900_000)])
        ]
        summary = watch.stop(number)
        rows = {row["sport"]: row for row in watch.rows() if row["proto"] == "tcp"}
    assert rows.keys() == {port for port, _ in talks}
    for port, sent in talks:
        row = rows[port]
        assert [row["src_sha256"], row["dst_sha256"]] == [sha256(data) for data in sent]
        assert row["gaps"] == [] and (row["syn"], row["fin"], row["state"]) == ("both", "both", "TERMINATED")
    assert summary["stopped"] and summary["failure"] is None and summary["fault"] is None
    received = summary["received"]
    assert received["packets"] == summary["packets"] == summary["box"]["packets"]
    assert received["dropped_kernel"] == received["dropped_interface"] == 0


def test_any_and_several_interfaces_are_received_from(wire: Veth, tmp_path: Path) -> None:
    with flows(wire, wire.client, "any", tmp_path) as watch:
        port, sent = exchange(wire, socket.AF_INET, SERVER, (1000, 2000), 3)
        watch.stop()
        (row,) = [row for row in watch.rows() if row["proto"] == "tcp"]
    assert row["sport"] == port and row["src_sha256"] == sha256(sent[0])
    with flows(wire, wire.client, "c0", tmp_path, "-i", "lo") as watch:
        port, sent = exchange(wire, socket.AF_INET, SERVER, (1000, 2000), 3)
        summary = watch.stop()
        (row,) = [row for row in watch.rows() if row["proto"] == "tcp"]
    assert row["sport"] == port and row["dst_sha256"] == sha256(sent[1]) and summary["fault"] is None


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_what_curl_fetches_is_what_the_box_saw(wire: Veth, tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    body = random.Random(1).randbytes(1_500_000)
    (tmp_path / "www" / "body").write_bytes(body)
    serve = [sys.executable, "-m", "http.server", "8000", "--bind", SERVER, "-d", str(tmp_path / "www")]
    server = wire.start(wire.server, serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with flows(wire, wire.client, "c0", tmp_path) as watch:
            fetch = ["curl", "-s", "--noproxy", "*", "--retry", "20", "--retry-connrefused", "--retry-delay", "1", "-i"]
            got = subprocess.run(
                ["ip", "netns", "exec", wire.client, *fetch, f"http://{SERVER}:8000/body"],
                capture_output=True,
                check=True,
                timeout=300,
            ).stdout
            watch.stop()
            (row,) = [row for row in watch.rows() if row["proto"] == "tcp" and row["dst_stream"]]
    finally:
        server.kill()
        server.wait(timeout=60)
    assert got.endswith(body) and row["dst_sha256"] == sha256(got)


def test_flows_end_and_rows_appear_while_the_wire_is_idle(wire: Veth, tmp_path: Path) -> None:
    """No packet comes after the connection: only the clock can end it."""
    with flows(wire, wire.client, "c0", tmp_path, "--idle", "1") as watch:
        sender = wire.socket(wire.client, socket.AF_INET, socket.SOCK_DGRAM)
        sender.sendto(b"x" * 100, (SERVER, 9))
        sender.close()
        end = time.monotonic() + PATIENCE
        while not (found := [row for row in watch.rows() if row["proto"] == "udp"]):
            assert time.monotonic() < end
            time.sleep(0.1)
        watch.stop()
    assert (found[0]["end"], found[0]["src_payload"]) == ("timeout", 100)


def test_received_packets_are_in_a_file_at_once(wire: Veth, tmp_path: Path) -> None:
    """Also if the box is killed: each burst is written before the next one is waited for."""
    out = tmp_path / "out.pcap"
    with Watch(wire, wire.client, tmp_path, "run", str(SMALL), "-i", "c0", "-w", str(out), "--json") as watch:
        sender = wire.socket(wire.client, socket.AF_INET, socket.SOCK_DGRAM)
        for number in range(100):
            sender.sendto(b"datagram %02d" % number, (SERVER, 9))
        sender.close()
        end = time.monotonic() + PATIENCE
        while out.read_bytes().count(b"datagram") < 100:
            assert time.monotonic() < end
            time.sleep(0.05)
        watch.process.kill()
    assert b"datagram 99" in out.read_bytes()


TAG = bytes.fromhex("8100 0007")
PRINT = """
#include "sluice.h"
SLUICE_ON(udp, packet)
{
    const struct sl_frame *frame = sl_packet_frame(event);
    if (frame->captured < 60 || memcmp(frame->at + 12, "\\x81\\x00\\x00\\x07", 4))
        return;
    FILE *out = fopen(getenv("SLUICE_TEST_OUT"), "a");
    for (uint32_t i = 0; i < frame->captured; i++)
        fprintf(out, "%02x", frame->at[i]);
    fprintf(out, " %u %u\\n", frame->length, frame->flags);
    fclose(out);
}
"""


def test_a_vlan_tag_that_the_kernel_took_off_is_put_back(
    wire: Veth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes the tag off each frame that it receives, and gives it beside the frame."""
    raw = wire.socket(wire.client, socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("c0", 0))
    packet = bytes.fromhex("020000000002 020000000001") + TAG + bytes.fromhex("0800") + ip4(udp(1, 2, bytes(60)), UDP)
    monkeypatch.setenv("SLUICE_TEST_OUT", str(tmp_path / "frames"))
    (tmp_path / "print.c").write_text(PRINT)
    words = ["run", "tcp_ip", "-i", "s0", "-f", str(tmp_path / "print.c"), "--json"]
    with Watch(wire, wire.server, tmp_path, *words) as watch:
        for _ in range(3):
            raw.send(packet)
        summary = watch.stop()
    raw.close()
    restored = 4  # SL_FRAME_VLAN_RESTORED
    assert (tmp_path / "frames").read_text().splitlines() == [f"{packet.hex()} {len(packet)} {restored}"] * 3
    assert summary["received"]["vlan_restored"] == 3


def test_packets_that_found_no_room_are_counted_as_the_kernels(wire: Veth, tmp_path: Path) -> None:
    """A function that sleeps lets the smallest ring run full: received and dropped together are what was sent."""
    (tmp_path / "slow.c").write_text(
        '#include "sluice.h"\n#include <unistd.h>\nSLUICE_ON(udp, packet) { usleep(2000); }\n'
    )
    sent = 3000
    words = ["run", str(SMALL), "-i", "s0", "-f", str(tmp_path / "slow.c"), "--ring", "1", "--json"]
    with Watch(wire, wire.server, tmp_path, *words) as watch:
        sender = wire.socket(wire.client, socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(sent):
            sender.sendto(bytes(1400), (SERVER, 9))
        sender.close()
        summary = watch.stop()
    received = summary["received"]
    assert received["dropped_kernel"] > 0
    assert summary["layers"]["udp"]["packets"] + received["dropped_kernel"] <= sent + 100


@pytest.mark.parametrize(
    "interface, said",
    [
        ("absent0", "absent0: there is no interface of that name"),
        ("netmap:s0", "interfaces are received from by their names"),
    ],
)
def test_an_interface_that_cannot_be_opened_is_told(wire: Veth, interface: str, said: str) -> None:
    command = [sys.executable, "-m", "sluice", "run", str(SMALL), "-i", interface]
    process = wire.start(
        wire.server,
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    _, errors = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode != 0 and said in errors and "Traceback" not in errors


@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
def test_an_interface_that_goes_away_ends_the_run_with_a_fault(wire: Veth, tmp_path: Path, down: bool) -> None:
    with flows(wire, wire.server, "s0", tmp_path, "--on-removal", "end") as watch:
        exchange(wire, socket.AF_INET, SERVER, (10, 10), 1)
        if down:
            subprocess.run(["ip", "-n", wire.server, "link", "set", "s0", "down"], check=True, timeout=300)
            time.sleep(0.5)  # the socket reports that once, and the removal not at all
        subprocess.run(["ip", "-n", wire.server, "link", "del", "s0"], check=True, timeout=300)
        text, _ = watch.process.communicate(timeout=PATIENCE)
    summary = json.loads(text)
    assert watch.process.returncode == 1 and summary["fault"] == "s0: the interface is gone"
    assert len([row for row in watch.rows() if row["proto"] == "tcp"]) == 1


def drained(pipe: int, quiet: int = 10) -> None:
    """Waits until a pipe has been empty for a while: all that was written to it is read."""
    end, empty = time.monotonic() + PATIENCE, 0
    while empty < quiet:
        assert time.monotonic() < end
        size = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
        empty = empty + 1 if size == 0 else 0
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="there is no tcpdump")
def test_tcpdump_feeds_a_box_by_a_pipe(wire: Veth, tmp_path: Path) -> None:
    out, environment = tmp_path / "rows", {**os.environ, "PYTHONPATH": str(ROOT)}
    dump = ["tcpdump", "-i", "s0", "-U", "--immediate-mode", "-w", "-"]
    with (tmp_path / "said").open("w") as said:
        tcpdump = wire.start(wire.server, dump, stdout=subprocess.PIPE, stderr=said)
    command = [sys.executable, "-m", "sluice", "flows", "--stack", "tcp_ip", "-r", "-", "-o", str(out), "--json"]
    process = subprocess.Popen(command, stdin=tcpdump.stdout, stdout=-1, text=True, env=environment)
    assert tcpdump.stdout is not None
    pipe = os.dup(tcpdump.stdout.fileno())
    tcpdump.stdout.close()
    try:
        end = time.monotonic() + PATIENCE
        while "listening on" not in (tmp_path / "said").read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        port, sent = exchange(wire, socket.AF_INET, SERVER, (5000, 70_000), 5)
        drained(pipe)
        tcpdump.terminate()
        text, _ = process.communicate(timeout=2 * PATIENCE)
    finally:
        os.close(pipe)
        for one in (tcpdump, process):
            one.kill()
            one.wait(timeout=60)
    assert json.loads(text)["fault"] is None
    (row,) = [row for row in map(json.loads, out.read_text().splitlines()) if row["proto"] == "tcp"]
    assert (row["sport"], row["src"]) == (port, CLIENT) and row["dst_sha256"] == sha256(sent[1])


@pytest.mark.parametrize("workers", [2, in_matrix(3)])
def test_workers_share_what_comes_in(wire: Veth, tmp_path: Path, workers: int) -> None:
    """Connections are whole, rows appear while the wire is idle, no packet is lost without a counter."""
    with flows(wire, wire.server, "s0", tmp_path, "--idle", "1", "--workers", str(workers)) as watch:
        talks = [exchange(wire, socket.AF_INET, SERVER, (50_000 + n, 9 * n), 10 * n) for n in range(4)]
        sender = wire.socket(wire.client, socket.AF_INET, socket.SOCK_DGRAM)
        for port in range(20_000, 20_200):
            sender.sendto(b"x" * 100, (SERVER, port))
        sender.close()
        end = time.monotonic() + PATIENCE
        while sum(row["proto"] == "udp" for row in watch.rows()) < 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        summary = watch.stop()
        rows = {row["sport"]: row for row in watch.rows() if row["proto"] == "tcp"}
        ends = {row["end"] for row in watch.rows() if row["proto"] == "udp"}
    for port, sent in talks:
        assert [rows[port]["src_sha256"], rows[port]["dst_sha256"]] == [sha256(data) for data in sent]
    assert ends == {"timeout"} and summary["stopped"] and summary["failure"] is None
    received = summary["received"]
    assert received["packets"] == summary["packets"] == summary["box"]["packets"] + received["dropped_workers"]
    assert len(summary["packets_by_worker"]) == workers
