"""Programs by somebody who had not seen the library: what they say of captures agrees with an independent reader."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.compat.mos.programs import EXAMPLES, configuration, library, run
from tests.functions.reference.tcp_segments import ACK, RST, SYN, Connection, Endpoint, place_segments, read_frames
from tests.support.capture import pcap
from tests.support.corpus import captures
from tests.support.packets import checksum, eth, ip4, pseudo_header, tcp

OWN = Path(__file__).with_name("flows.pcap")
CAPTURES = (
    OWN.name,
    "gen__tcp_clean.pcap",
    "gen__tcp_loss_reorder.pcap",
    "gen__tcp_portreuse.pcap",
    "gen__tcp_seqwrap.pcap",
    "gen__tun_vlan.pcap",
    "aol_moloch__wireshark-retrans.pcap",
    "OISF_suricata-verify__http-range-multiflows-input.pcap",
)
EXTERNAL = "203.0.113.7"
"""With two contexts dispatch gives it, and some server, to another one than the clients of `flows.pcap`."""


def capture(name: str) -> Path:
    if name == OWN.name:
        return OWN
    found = next((path for path in captures() if path.name == name), None)
    if found is None:
        pytest.skip("not in this corpus")
    return found


@dataclass
class Flow:
    """A connection that a SYN began: what each end sent, by position, until a reset."""

    connection: Connection
    bytes: dict[bool, dict[int, int]] = field(default_factory=lambda: {True: {}, False: {}})
    reset: bool = False

    def stream(self, from_active: bool) -> bytes:
        """What is contiguous from the first byte on; of a byte that was sent twice the first copy."""
        found, held = bytearray(), self.bytes[from_active]
        while len(found) + 1 in held:
            found.append(held[len(found) + 1])
        return bytes(found)


def flows(path: Path) -> list[Flow]:
    """The connections over IPv4 that begin with a SYN."""
    found: dict[int, Flow] = {}
    seen: set[int] = set()
    for segment in place_segments(str(path)):
        key = id(segment.connection)
        opens = segment.flags & (SYN | ACK | RST) == SYN and "." in segment.connection.active[0]
        if key not in seen and opens:
            found[key] = Flow(segment.connection)
        seen.add(key)
        if (flow := found.get(key)) is not None and not flow.reset:
            flow.reset = bool(segment.flags & RST)
            for index, byte in enumerate(segment.data):
                flow.bytes[segment.from_active].setdefault(segment.position + index, byte)
    return list(found.values())


def fnv(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def named(end: Endpoint) -> str:
    return f"{end[0]}:{end[1]}"


@pytest.mark.parametrize("name", CAPTURES)
def test_bytes_reads_the_streams(name: str, tmp_path: Path) -> None:
    """Both directions of every connection, whole, whatever was lost, reordered or sent again."""
    path = capture(name)
    lines = run("bytes", ["-f", str(configuration(tmp_path, path)), "-b", "1048576"]).splitlines()
    expected = Counter(
        f"{named(flow.connection.active)} {named(flow.connection.passive)} "
        + " ".join(f"{len(data)} {fnv(data)}" for data in (flow.stream(True), flow.stream(False)))
        for flow in flows(path)
    )
    assert Counter(" ".join(line.split()[:6]) for line in lines) == expected


@pytest.mark.parametrize("name", CAPTURES)
def test_midstat_sees_each_connection_begin_and_end(name: str, tmp_path: Path) -> None:
    path = capture(name)
    lines = run("midstat", ["-f", str(configuration(tmp_path, path))]).splitlines()
    total = dict(word.split("=") for word in lines[-1].split()[1:])
    started = str(len(flows(path)))
    assert total == {
        "started_snd": started, "started_rcv": started, "end_snd": started, "end_rcv": started, "ended": started,
        "live": "0", "strange": "0", "failed": "0",
    }  # fmt: skip


def segments(path: Path) -> list[bytes]:
    """The IPv4 packets with TCP of a capture of Ethernet frames without tags."""
    found: list[bytes] = []
    for frame in read_frames(str(path)):
        packet = frame.data[14:]
        if frame.data[12:14] == b"\x08\x00" and packet[9] == 6:
            found.append(packet[: struct.unpack_from("!H", packet, 2)[0]])
    return found


def ends(packet: bytes) -> tuple[Endpoint, Endpoint]:
    header = (packet[0] & 15) * 4
    sport, dport = struct.unpack_from("!HH", packet, header)
    return (".".join(map(str, packet[12:16])), sport), (".".join(map(str, packet[16:20])), dport)


def translated(path: Path, folder: Path, cores: int = 1) -> Path:
    """What the NAT makes of a capture."""
    output = folder / "nat.pcap"
    conf = configuration(folder, path, output)
    total = run("nat", ["-f", str(conf), "-e", EXTERNAL, "-c", str(cores)]).splitlines()[-1]
    assert "failed=0" in total and f"bound={len(flows(path))} freed={len(flows(path))}" in total
    return output


@pytest.mark.parametrize("name", [OWN.name, "gen__tcp_clean.pcap", "gen__tcp_portreuse.pcap"])
def test_the_nat_rewrites_addresses_ports_and_checksums(name: str, tmp_path: Path) -> None:
    """Client's packets get the external address and one port a connection; everything else of them stays."""
    path = capture(name)
    clients = {flow.connection.active for flow in flows(path)}
    before, after = segments(path), segments(translated(path, tmp_path))
    assert len(before) == len(after) > 0
    ports: dict[Endpoint, set[int]] = {}
    changed = 0
    for old, new in zip(before, after, strict=True):
        header = (new[0] & 15) * 4
        assert checksum(new[:header]) == 0
        pseudo = pseudo_header(new[12:16], new[16:20], 6, len(new) - header)
        assert checksum(pseudo + new[header:]) == 0
        source, target = ends(old)
        if source in clients and new[12:16] != old[12:16]:
            changed += 1
            (address, port), unchanged = ends(new)
            assert address == EXTERNAL and unchanged == target
            ports.setdefault(source, set()).add(port)
        else:
            assert ends(new) == (source, target)  # the capture was taken inside
        assert (
            new[header + 4 : header + 16] == old[header + 4 : header + 16] and new[header + 20 :] == old[header + 20 :]
        )
    assert changed >= len(clients) and set(ports) == clients


def context_of(folder: Path, pair: tuple[str, str]) -> int:
    """Which of two contexts segments between two addresses go to: each hands out every other port."""
    client, server = (bytes(map(int, address.split("."))) for address in pair)
    capture = folder / "syn.pcap"
    capture.write_bytes(pcap([eth(ip4(tcp(40000, 80, 1, "S"), src=client, dst=server))]))
    lines = run("nat", ["-f", str(configuration(folder, capture)), "-e", "198.51.100.9", "-c", "2", "-v"]).splitlines()
    bound = next(line for line in lines if line.startswith("bind "))
    return int(bound.split()[-1]) % 2


@pytest.mark.parametrize("cores", [1, 2])
def test_the_nat_finds_its_flows_by_the_ends_that_it_gave_them(tmp_path: Path, cores: int) -> None:
    """As a box sees them: the server's answers come to the external address, and leave to the client. That address may
    be another context's than the client's.
    """
    if cores > os.sysconf("SC_NPROCESSORS_ONLN"):
        pytest.skip("nat.c takes no more contexts than there are processors")
    inside = segments(OWN)
    outside = segments(translated(OWN, tmp_path, cores))
    if cores > 1:
        pairs = [(flow.connection.active[0], flow.connection.passive[0]) for flow in flows(OWN)]
        assert any(context_of(tmp_path, pair) != context_of(tmp_path, (EXTERNAL, pair[1])) for pair in pairs)
    clients = {flow.connection.active for flow in flows(OWN)}
    raw = bytearray(OWN.read_bytes())
    ports = {ends(old)[0]: ends(new)[0] for old, new in zip(inside, outside, strict=True) if ends(old)[0] in clients}
    for packet in inside:  # the same capture with the server's packets addressed to the outside
        _, target = ends(packet)
        if target in clients:
            at = raw.index(packet)
            address, port = ports[target]
            raw[at + 16 : at + 20] = bytes(map(int, address.split(".")))
            raw[at + 22 : at + 24] = struct.pack("!H", port)
    seen = tmp_path / "seen.pcap"
    seen.write_bytes(bytes(raw))
    conf = configuration(tmp_path, seen, tmp_path / "out.pcap")
    total = run("nat", ["-f", str(conf), "-e", EXTERNAL, "-c", str(cores)])
    assert "bound=3 freed=3" in total and "from_server=11" in total
    back = [ends(packet) for packet in segments(tmp_path / "out.pcap")]
    answered = [new for old, new in zip(inside, back, strict=True) if ends(old)[1] in clients]
    assert sum(new[1] in clients for new in answered) == 11


def test_the_firewall_drops_what_its_rules_deny(tmp_path: Path) -> None:
    """The connection to port 23 from its SYN on; the others pass whole."""
    output = tmp_path / "out.pcap"
    rules = EXAMPLES / "rules.txt"
    lines = run("firewall", ["-f", str(configuration(tmp_path, OWN, output)), "-r", str(rules)]).splitlines()
    passed = [packet for packet in segments(OWN) if 23 not in (ends(packet)[0][1], ends(packet)[1][1])]
    assert segments(output) == passed
    dropped = len(segments(OWN)) - len(passed)
    assert lines[-1] == f"total syn_events=3 accepted=2 denied=1 dropped={dropped} late=0 failed=0"


def test_orphan_counts_by_filters(tmp_path: Path) -> None:
    """By hand: 26 segments to or from port 80, one after its flow's end; six of port 23, whose SYN no filter takes."""
    lines = run("orphan", ["-f", str(configuration(tmp_path, OWN)), "-p", "80"]).splitlines()
    assert lines[-1].startswith("total flows=2 foreign=0 flow_packets=25 orphans=7 syn=1 rst=2 other=4 not_tcp=0")
    assert [line.split()[-2] for line in lines if line.startswith("raw")] == ["packets=32", "packets=26", "packets=0"]


@pytest.mark.parametrize("name", CAPTURES)
def test_order_registers_everything_and_goes_through(name: str, tmp_path: Path) -> None:
    """All events at all hooks, two monitors: each flow begins and ends once for each monitor and hook."""
    path = capture(name)
    lines = run("order", ["-f", str(configuration(tmp_path, path))]).splitlines()
    told = Counter(tuple(line.split()[3:8:2]) for line in lines if line.startswith("cb "))
    expected = len(flows(path))
    for monitor in ("S1", "S2"):
        for event in ("CONN_START", "CONN_END"):
            for hook in ("SND", "RCV"):
                assert told[monitor, hook, event] == expected, (monitor, event, hook)


def test_one_command_builds_and_runs_a_program(tmp_path: Path) -> None:
    """`--run` does what the manual page does by hand; devices of the configuration are replaced."""
    words = [
        "mos",
        "-o",
        str(library()),
        "-r",
        str(OWN),
        "--run",
        f"{EXAMPLES / 'midstat.c'} -f {EXAMPLES / 'mos.conf'}",
    ]
    done = subprocess.run([sys.executable, "-m", "sluice", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    by_hand = run("midstat", ["-f", str(configuration(tmp_path, OWN))])
    assert done.stdout.splitlines()[-1] == by_hand.splitlines()[-1]


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["mos", "-o", str(library()), "--run", str(tmp_path / "none.c")]) != 0
    assert "there is no such file; give a program in C" in capfd.readouterr().err
