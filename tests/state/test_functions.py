"""The ready functions with shared state: what they do to packets, against models in Python and scapy's checksums."""

from __future__ import annotations

import json
import math
from pathlib import Path

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import rdpcap

from sluice.state.location import Location
from tests.state.boxes import Ran, needs_store, run_one
from tests.state.traffic import (
    INSIDE,
    OUTSIDE,
    VIRTUAL,
    address,
    connection,
    hosts,
    lines,
    mixed,
    refused,
    trojan,
    write,
)
from tests.support.capture import pcap
from tests.support.connection import goodbye, handshake
from tests.support.packets import eth, ip4, ip6, tcp, udp

EXTERNAL = "192.0.2.1"
NAT = "nat:inside=10.1.0.0/16,first_port=2000,last_port=2999"
ONE, TWO, FAR = address(INSIDE, 1), address(INSIDE, 2), address(OUTSIDE, 9)


def text(packed: bytes) -> str:
    return ".".join(map(str, packed))


def left(ran: Ran, folder: Path) -> list[Packet]:
    path = folder / "left.pcap"
    path.write_bytes(ran.left)
    return [Ether(bytes(packet)) for packet in rdpcap(str(path))]


def ends(packet: Packet) -> tuple[str, int, str, int]:
    layer = packet[TCP] if TCP in packet else packet[UDP]
    return packet[IP].src, layer.sport, packet[IP].dst, layer.dport


def has_right_checksums(packet: Packet) -> bool:
    made = packet.copy()
    layer = made
    while layer:
        if layer.fields.get("chksum"):
            del layer.chksum
        layer = layer.payload
    return bytes(made) == bytes(packet)


def state(ran: Ran) -> dict[tuple[str, str], object]:
    rows = [json.loads(row) for row in ran.state.splitlines()]
    return {(row["object"], row["key"]): row["value"] for row in rows}


# --- nat ---


def test_nat_gives_each_connection_a_port(tmp_path: Path) -> None:
    first, second = connection(ONE, FAR, 5000), connection(TWO, FAR, 5000)
    packets = [packet for pair in zip(first, second, strict=True) for packet in pair]
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    out = left(ran, tmp_path)
    assert len(out) == len(packets)
    for number, packet in enumerate(out):
        before = Ether(packets[number])
        port = 2000 + number % 2
        here, there = (EXTERNAL, port), (text(FAR), 80)
        assert ends(packet) == ((*here, *there) if before[IP].src.startswith("10.1.") else (*there, *here))
        assert has_right_checksums(packet)
        assert bytes(packet[TCP].payload) == bytes(before[TCP].payload)


def test_nat_sends_answers_to_the_inside(tmp_path: Path) -> None:
    """Answers that come to the external address, as on the wire."""
    client, server = hosts(ONE, FAR, 5000)
    asked = handshake(client, server)
    answer, _ = hosts(FAR, bytes([192, 0, 2, 1]), 80, 2000)
    unknown, _ = hosts(FAR, bytes([192, 0, 2, 1]), 80, 2500)
    packets = [asked[0], answer.send("SA"), asked[2], unknown.send("A")]
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    out = left(ran, tmp_path)
    assert [ends(packet) for packet in out] == [
        (EXTERNAL, 2000, text(FAR), 80),
        (text(FAR), 80, text(ONE), 5000),
        (EXTERNAL, 2000, text(FAR), 80),
    ]
    assert all(map(has_right_checksums, out))
    assert ran.reports["unmapped"] == 1


def test_nat_opens_a_port_for_one_protocol(tmp_path: Path) -> None:
    """The port of a connection of TCP is none of UDP; the connection goes on after datagrams to it."""
    client, server = hosts(ONE, FAR, 5000)
    external = bytes([192, 0, 2, 1])
    answer, _ = hosts(FAR, external, 80, 2000)
    packets = [
        handshake(client, server)[0],
        eth(ip4(udp(80, 2000, b"x"), 17, FAR, external)),
        answer.send("SA"),
    ]
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    assert [ends(packet) for packet in left(ran, tmp_path)] == [
        (EXTERNAL, 2000, text(FAR), 80),
        (text(FAR), 80, text(ONE), 5000),
    ]
    assert ran.reports["unmapped"] == 1


def test_nat_releases_ports(tmp_path: Path) -> None:
    """A port is free again when its connection has ended, which the sweep finds within some packets."""
    nat = "nat:inside=10.1.0.0/16,first_port=2000,last_port=2001"
    a, b = hosts(ONE, FAR, 5000)
    reset = [*handshake(a, b), a.send("RA")]
    later = [hosts(ONE, FAR, 6000 + n)[0].send("S") for n in range(40)]
    path = tmp_path / "in.pcap"
    path.write_bytes(pcap(reset + later, [*range(1000, 1004), *range(2000, 2040)]))
    ran = run_one(path, nat, tmp_path / "out")
    sources = [ends(packet)[1] for packet in left(ran, tmp_path)[4:]]
    assert sources == [2001, 2000]
    assert ran.reports["translated"] == 3 and ran.reports["no_port"] == 38


def test_nat_drops_what_it_cannot_translate(tmp_path: Path) -> None:
    """A packet that it does not translate must not leave with an inside address."""
    fragment = eth(ip4(udp(1, 2, bytes(16)), 17, ONE, FAR, more=True))
    packets = [eth(ip4(bytes(8), 1, ONE, FAR)), fragment, eth(ip4(udp(1, 2, b"x"), 17, FAR, TWO))]
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    assert left(ran, tmp_path) == []
    assert (ran.reports["unsupported"], ran.reports["unsolicited"]) == (2, 1)


def test_nat_translates_after_a_first_datagram_in_fragments(tmp_path: Path) -> None:
    whole = udp(5000, 53, bytes(range(64)))
    cut = [ip4(whole[:32], 17, ONE, FAR, more=True), ip4(whole[32:], 17, ONE, FAR, offset=32)]
    packets = [*map(eth, cut), eth(ip4(udp(5000, 53, b"x"), 17, ONE, FAR)), eth(ip4(udp(53, 5000, b"y"), 17, FAR, ONE))]
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    here, there = (EXTERNAL, 2000), (text(FAR), 53)
    assert [ends(packet) for packet in left(ran, tmp_path)] == [(*here, *there), (*there, *here)]
    assert ran.reports["unsupported"] == 2


def test_nat_drops_malformed_headers(tmp_path: Path) -> None:
    """Of UDP, TCP and IPv4, too short ones, and ones that were not captured."""
    bad_length = udp(1, 2, bytes(8))[:4] + b"\0\3" + bytes(10)
    bad_offset = tcp(1, 2, 1, "S")[:12] + b"\x10" + bytes(7)
    bodies = [(bad_length, 17), (udp(1, 2)[:7], 17), (bad_offset, 6), (tcp(1, 2, 1, "S")[:19], 6), (b"", 17), (b"", 6)]
    packets = [eth(ip4(body, protocol, ONE, FAR)) for body, protocol in bodies]
    packets.append(eth(ip4(udp(1, 2), 17, ONE, FAR, length=19)))
    packets += [eth(ip4(udp(1, 2, bytes(40)), 17, ONE, FAR))[:36], eth(ip4(tcp(1, 2, 1, "S"), 6, ONE, FAR))[:40]]
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    assert left(ran, tmp_path) == []
    assert ran.reports["unsupported"] + ran.reports.get("unchanged", 0) == len(packets)


def test_nat_on_random_traffic_agrees_with_a_model(tmp_path: Path) -> None:
    packets = mixed(3, 200)
    ran = run_one(write(tmp_path / "in.pcap", packets), NAT, tmp_path / "out")
    free, mapped = list(range(2000, 3000)), dict[tuple[object, ...], int]()
    expected: list[tuple[str, int, str, int]] = []
    for data in packets:
        src, sport, dst, dport = ends(Ether(data))
        protocol = Ether(data)[IP].proto
        outward = src.startswith("10.1.")
        key = (protocol, src, sport, dst, dport) if outward else (protocol, dst, dport, src, sport)
        if key not in mapped:
            mapped[key] = free.pop(0)
        port = mapped[key]
        expected.append((EXTERNAL, port, dst, dport) if outward else (src, sport, EXTERNAL, port))
    assert [ends(packet) for packet in left(ran, tmp_path)] == expected
    assert state(ran)["packets", ""] == len(packets)


# --- balance ---


def test_balance_chooses_the_least_loaded(tmp_path: Path) -> None:
    servers = ["10.9.0.1", "10.9.0.2", "10.9.0.3"]
    balance = f"balance:servers={'+'.join(servers)}"
    streams = [hosts(address(OUTSIDE, n + 1), VIRTUAL, 4000 + n) for n in range(7)]
    packets = [packet for a, b in streams for packet in handshake(a, b)]
    ran = run_one(write(tmp_path / "in.pcap", packets), balance, tmp_path / "out")
    out = left(ran, tmp_path)
    for number, packet in enumerate(out):
        server = servers[number // 3 % 3]
        assert (packet[IP].src if number % 3 == 1 else packet[IP].dst) == server
        assert has_right_checksums(packet)
    numbers = {str(int.from_bytes(bytes(map(int, server.split("."))), "big")): 0 for server in servers}
    assert state(ran)["active", ""] == dict(zip(numbers, (3, 2, 2), strict=True))
    assert state(ran)["bytes", servers[0]] == 9 * 40


def test_balance_counts_connections_that_ended(tmp_path: Path) -> None:
    a, b = hosts(ONE, VIRTUAL, 4000)
    c, _ = hosts(ONE, VIRTUAL, 4001)
    d, _ = hosts(ONE, VIRTUAL, 4002)
    packets = [*handshake(a, b), c.send("S"), a.send("RA"), d.send("S")]
    path = tmp_path / "in.pcap"
    path.write_bytes(pcap(packets, [1000, 1001, 1002, 1003, 1004, 5000]))
    ran = run_one(path, "balance:servers=10.9.0.1+10.9.0.2", tmp_path / "out")
    assert [packet[IP].dst for packet in left(ran, tmp_path)][-1] == "10.9.0.1"


def test_balance_gives_answers_of_servers_the_virtual_address(tmp_path: Path) -> None:
    server, client = hosts(bytes([10, 9, 0, 1]), ONE, 80, 4000)
    packets = [server.send("SA"), client.send("A")]
    ran = run_one(write(tmp_path / "in.pcap", packets), "balance:servers=10.9.0.1", tmp_path / "out")
    assert ends(left(ran, tmp_path)[0]) == (text(VIRTUAL), 80, text(ONE), 4000)


@needs_store
def test_balance_passes_over_servers_of_an_earlier_run(store: Location, tmp_path: Path) -> None:
    first, second = ("balance:servers=10.9.0.1+10.9.0.2", "balance:servers=10.9.0.2+10.9.0.3")
    packets = [hosts(ONE, VIRTUAL, 4000 + n)[0].send("S") for n in range(6)]
    run_one(write(tmp_path / "in.pcap", packets), first, tmp_path / "out", store)
    packets = [hosts(TWO, VIRTUAL, 4000 + n)[0].send("S") for n in range(9)]
    ran = run_one(write(tmp_path / "in.pcap", packets), second, tmp_path / "out", store)
    servers = [packet[IP].dst for packet in left(ran, tmp_path)]
    assert len(servers) == 9 and set(servers) == {"10.9.0.2", "10.9.0.3"}
    assert ran.reports["balanced"] == 9


def test_balance_after_a_first_datagram_in_fragments(tmp_path: Path) -> None:
    """The last fragment is dropped, as it cannot be rewritten; the datagrams after it have a server."""
    whole = udp(5000, 53, bytes(range(64)))
    cut = [ip4(whole[:32], 17, ONE, VIRTUAL, more=True), ip4(whole[32:], 17, ONE, VIRTUAL, offset=32)]
    packets = [*map(eth, cut), eth(ip4(udp(5000, 53, b"x"), 17, ONE, VIRTUAL))]
    ran = run_one(write(tmp_path / "in.pcap", packets), "balance:servers=10.9.0.1", tmp_path / "out")
    assert [packet[IP].dst for packet in left(ran, tmp_path)] == [text(VIRTUAL), "10.9.0.1"]
    assert (ran.reports["balanced"], ran.reports["unchanged"]) == (1, 1)


# --- portscan ---


def scanners(attempts: list[tuple[str, str, bool]]) -> list[str]:
    """Jung's test, written out: attempts as source, destination, success."""
    ratio, seen, found = dict[str, float](), set[tuple[str, str]](), list[str]()
    for source, target, success in attempts:
        if (source, target) in seen or source in found:
            continue
        seen.add((source, target))
        step = math.log(0.2 / 0.8) if success else math.log(0.8 / 0.2)
        ratio[source] = max(ratio.get(source, 0.0) + step, math.log(0.01 / 0.99))
        if ratio[source] >= math.log(0.99 / 0.01):
            found.append(source)
    return found


def test_portscan_finds_scanners_and_blocks_them(tmp_path: Path) -> None:
    attempts, packets = list[tuple[str, str, bool]](), list[bytes]()
    for number in range(120):
        source, target = address(INSIDE, number % 6), address(OUTSIDE, number // 6 + 1)
        success = number % 6 in (0, 1) or (number % 6 == 2 and number % 4 == 0)
        attempts.append((text(source), text(target), success))
        make = connection if success else refused
        packets += make(source, target, 3000 + number)
    ran = run_one(write(tmp_path / "in.pcap", packets), "portscan", tmp_path / "out")
    found = [json.loads(row)["scanner"] for row in ran.rows.splitlines()]
    assert found == scanners(attempts) and 2 <= len(found) < 6
    assert {key for (name, key), value in state(ran).items() if name == "blocked" and value == 1} == set(found)
    last = {Ether(packet)[IP].src for packet in packets[-30:]}
    assert ran.reports["blocked_connections"] > 0
    assert {packet[IP].src for packet in left(ran, tmp_path)[-10:]} & last.intersection(found) == set()


def test_portscan_counts_attempts_without_an_answer(tmp_path: Path) -> None:
    packets = [hosts(ONE, address(OUTSIDE, n), 3000)[0].send("S") for n in range(1, 12)]
    ran = run_one(write(tmp_path / "in.pcap", packets, step=2.0), "portscan:wait=3", tmp_path / "out")
    assert json.loads(ran.rows)["scanner"] == text(ONE)


def test_portscan_compares_whole_ipv6_addresses(tmp_path: Path) -> None:
    """Hosts whose addresses differ in few bits are different hosts, and different contacts."""

    def syn(source: int, target: int) -> bytes:
        source6, target6 = (
            bytes.fromhex("20010db8") + bytes(10) + bytes([net, n]) for net, n in ((1, source), (2, target))
        )
        return eth(ip6(tcp(3000, 80, 1, "S"), 6, source6, target6))

    packets = [syn(n % 2, n // 2 if n % 2 else 1) for n in range(24)]
    ran = run_one(write(tmp_path / "in.pcap", packets, step=2.0), "portscan:wait=3", tmp_path / "out")
    assert [json.loads(row)["scanner"] for row in ran.rows.splitlines()] == ["2001:db8::101"]
    contacts = {key for name, key in state(ran) if name == "contacts"}
    assert "2001:db8::100,2001:db8::201" in contacts and len(contacts) > 4


# --- trojan ---


def test_trojan_depends_on_the_order(tmp_path: Path) -> None:
    ssh, ftp, irc = trojan(ONE)
    orders = {
        "in order": [ssh, ftp, irc],
        "FTP first": [ftp, ssh, irc],
        "IRC first": [irc, ssh, ftp],
        "without SSH": [ftp, irc],
        "SSH last": [ftp, irc, ssh],
    }
    for name, streams in orders.items():
        packets = [packet for stream in streams for packet in stream]
        ran = run_one(write(tmp_path / "in.pcap", packets), "trojan", tmp_path / "out")
        assert [json.loads(row)["trojan"] for row in ran.rows.splitlines()] == ([text(ONE)] * (name == "in order")), (
            name
        )


def test_trojan_needs_all_files_of_one_host(tmp_path: Path) -> None:
    ssh, _, irc = trojan(ONE)
    some = lines(ONE, address(OUTSIDE, 2), 7000, 21, b"USER me", b"RETR a.html", b"RETR b.zip")
    other = lines(TWO, address(OUTSIDE, 2), 7001, 21, b"USER me", b"RETR c.exe")
    packets = [packet for stream in (ssh, some, other, irc) for packet in stream]
    assert run_one(write(tmp_path / "in.pcap", packets), "trojan", tmp_path / "out").rows == ""


def test_trojan_is_found_however_its_lines_are_cut(tmp_path: Path) -> None:
    """In segments of one byte, at other ports, among lines of other lengths."""
    packets: list[bytes] = []
    said = (
        b"SSH-2.0-" + b"x" * 200 + b"\r\n",
        b"USER me\r\nPASS " + b"y" * 100 + b"\r\nretr " + b"z" * 90 + b".htm\r\nRETR b.zip\r\nRETR c.exe\n",
        b"CAP LS\r\nNICK me\r\n",
    )
    for number, body in enumerate(said):
        a, b = hosts(ONE, FAR, 4000 + number, 1000 + number)
        packets += handshake(a, b)
        packets += [a.data(body[at : at + 1]) for at in range(len(body))]
        packets += goodbye(a, b)
    ran = run_one(write(tmp_path / "in.pcap", packets), "trojan", tmp_path / "out")
    assert json.loads(ran.rows)["trojan"] == text(ONE)
    assert (ran.reports["ssh"], ran.reports["downloads"], ran.reports["irc"]) == (1, 3, 1)
