"""Functions that decide by connections in one box with those that rewrite addresses: all see the inside ends, or the
virtual address, in both directions, in whatever order they are.

Both directions are as on the wire. What a kernel with the same rules lets pass is in test_translated_kernel.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.functions.detect.rules import Reader
from sluice.functions.detect.table import table
from tests.functions.boxes.test_nat import EXTERNAL, FAR, FAR2, IN, OTHER, datagram, ends
from tests.functions.boxes.test_nat_ftp import Talk
from tests.functions.detect.boxes import needs_ids
from tests.functions.security import Ran, icmp4, read_pcap, small_stack, wrong_checksums
from tests.functions.test_edit_with_others import firewall
from tests.support.capture import pcap
from tests.support.connection import Host
from tests.support.unoptimised import unoptimised

VIRTUAL, SERVER = bytes([203, 0, 113, 10]), bytes([10, 9, 0, 1])
RULES = """
table inet t {
  chain c {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
    ct state invalid counter drop
    ip saddr 10.0.0.0/8 tcp dport { 21, 80 } accept
    ip saddr 10.0.0.0/8 udp dport 53 accept
    ip saddr 10.0.0.0/8 icmp type echo-request accept
    ip daddr 10.0.0.5 tcp dport 8080 accept
    ip daddr 203.0.113.10 tcp dport 80 accept
    ip daddr 10.0.0.5 tcp dport 8081 reject with tcp reset
    ip daddr 10.0.0.5 udp dport 5000 reject
  }
}
"""
NAT = {"first_port": "2000", "last_port": "2009", "forward": "80:10.0.0.5:8080+81:10.0.0.5:8081"}
ORDERS = [("firewall", "nat", "balance", "flow_log"), ("balance", "nat", "firewall", "flow_log")]
order = pytest.mark.parametrize("names", ORDERS, ids=["firewall first", "firewall last"])


@cache
def compiled(names: tuple[str, ...]) -> CompiledStack:
    with unoptimised():
        return compile_stack(small_stack(), tuple(find_functions(list(names)).c))


def through(
    names: tuple[str, ...],
    frames: Sequence[bytes],
    folder: Path,
    rules: str = RULES,
    nat: dict[str, str] | None = None,
    balance: dict[str, str] | None = None,
) -> Ran:
    """What leaves a box with these functions, and the rows of flows."""
    functions = {
        "firewall": firewall(folder, rules),
        "nat": {**NAT, **(nat or {})},
        "balance": {"address": "203.0.113.10", "servers": "10.9.0.1", **(balance or {})},
        "flow_log": {"out": str(folder / "flows")},
        "ids": {"table": str(folder / "ids"), "out": str(folder / "alerts")},
    }
    capture, output = folder / "in.pcap", folder / "out.pcap"
    capture.write_bytes(pcap(frames, [1000 + 0.001 * number for number in range(len(frames))]))
    settings = Settings(seed=1, max_instances=1 << 10, memory=1 << 26)
    with Box(compiled(names), settings, function_options=[functions[name] for name in names], output=output) as box:
        reports = box.run(capture).reports
    left, times = read_pcap(output.read_bytes())
    assert not any(map(wrong_checksums, left))
    rows = [json.loads(line) for line in (folder / "flows").read_text().splitlines()] if "flow_log" in names else []
    return Ran(left, times, rows, reports)


def opened(active: Host, calls: tuple[bytes, int], passive: Host, answers: tuple[bytes, int]) -> list[bytes]:
    """A connection, and data of its passive end. calls, answers: the other end as each one knows it."""
    active.peer, passive.peer = Host(*calls, 9), Host(*answers, 1)
    return [
        active.send("S"),
        passive.send("SA", ack=2),
        active.send("A", ack=10),
        passive.send("A", b"hello", ack=2),
    ]


def text(ran: Ran) -> list[tuple[str, int, str, int]]:
    """The ends of what left."""
    return [(".".join(map(str, a)), sport, ".".join(map(str, b)), dport) for a, sport, b, dport in map(ends, ran.left)]


@order
def test_replies_of_a_translated_connection_are_established(names: tuple[str, ...], tmp_path: Path) -> None:
    """Linux' filter rules see packets after the translation of destinations, and before that of sources."""
    talk = Talk.of(other=80).open()
    talk.say("A")
    talk.say("A", b"GET")
    talk.answer("A", b"200")
    talk.say("FA")
    talk.answer("FA")
    talk.say("A")
    ran = through(names, talk.frames, tmp_path)
    there, back = ("192.0.2.1", 2000, "198.51.100.7", 80), ("198.51.100.7", 80, "10.0.0.5", 5000)
    assert text(ran) == [there, back, there, there, back, there, back, there]
    assert (ran.reports["firewall_accepted"], ran.reports["firewall_invalid"], ran.reports["translated"]) == (8, 0, 1)
    (row,) = ran.rows  # one flow, both of whose directions have the inside end
    assert "10.0.0.5" in json.dumps(row) and "192.0.2.1" not in json.dumps(row)


@order
def test_datagrams_and_echoes_are_answered(names: tuple[str, ...], tmp_path: Path) -> None:
    frames = [
        datagram(IN, 5000, FAR, 53),
        datagram(FAR, 53, EXTERNAL, 2000),
        icmp4(8, 0, b"\0\x07\0\1data", IN, FAR),
        icmp4(0, 0, b"\x07\xd1\0\1data", FAR, EXTERNAL),
        datagram(FAR2, 53, EXTERNAL, 2000),  # reaches the host by the NAT, and no rule accepts it
        datagram(FAR, 53, EXTERNAL, 2005),
    ]
    ran = through(names, frames, tmp_path, RULES.replace("reject\n", "drop\n"))
    assert [ends(frame)[2] for frame in ran.left] == [FAR, IN, FAR, IN]
    assert ran.left[3][38:40] == b"\0\x07"
    assert ran.reports["unmapped"] == 1 and ran.reports["firewall_invalid"] == 0


@order
def test_an_error_about_a_translated_packet_is_related(names: tuple[str, ...], tmp_path: Path) -> None:
    asked = datagram(IN, 5000, FAR, 53)
    router = bytes([203, 0, 113, 1])
    (outside,) = through(names, [asked], tmp_path).left
    error = icmp4(3, 3, bytes(4) + outside[14:], router, EXTERNAL)
    ran = through(names, [asked, error], tmp_path)
    assert (ran.left[1][26:34], ran.left[1][42:]) == (router + IN, asked[14:])
    assert (ran.reports["firewall_related"], ran.reports["errors_translated"]) == (1, 1)


def test_a_connection_that_rules_drop_gets_no_port(tmp_path: Path) -> None:
    host = Host(IN, 5000, 1, checksums=True, peer=Host(FAR, 25, 1))
    ran = through(ORDERS[0], [host.send("S"), datagram(IN, 5001, FAR, 54)], tmp_path)
    assert (ran.left, ran.reports["translated"], ran.reports["firewall_dropped"]) == ([], 0, 2)


@order
def test_rules_name_the_inside_end_of_a_forwarded_port(names: tuple[str, ...], tmp_path: Path) -> None:
    outside, inside = Host(FAR, 7000, 1, checksums=True), Host(IN, 8080, 9, checksums=True)
    ran = through(names, opened(outside, (EXTERNAL, 80), inside, (FAR, 7000)), tmp_path)
    there, back = ("198.51.100.7", 7000, "10.0.0.5", 8080), ("192.0.2.1", 80, "198.51.100.7", 7000)
    assert text(ran) == [there, back, there, back] and ran.reports["firewall_invalid"] == 0


@order
def test_who_is_rejected_gets_an_answer_of_the_external_end(names: tuple[str, ...], tmp_path: Path) -> None:
    """Also what an error quotes is the packet as it was sent."""
    outside = Host(FAR, 7000, 1, checksums=True, peer=Host(EXTERNAL, 81, 9))
    probe = datagram(FAR, 53, EXTERNAL, 2000)
    rules = RULES.replace("established,related", "related")
    ran = through(names, [datagram(IN, 5000, FAR, 53), outside.send("S"), probe], tmp_path, rules)
    reset, error = ran.left[1:]
    assert ends(reset) == (EXTERNAL, 81, FAR, 7000) and reset[47] == 0x14
    assert error[26:34] == EXTERNAL + FAR and error[34:36] == b"\3\3" and error[42:] == probe[14:]


@order
def test_two_inside_hosts_by_their_external_ends(names: tuple[str, ...], tmp_path: Path) -> None:
    """RFC 4787, REQ-9. Both directions are one connection."""
    a, b = Host(OTHER, 6000, 1, checksums=True), Host(IN, 8080, 9, checksums=True)
    ran = through(names, opened(a, (EXTERNAL, 80), b, (EXTERNAL, 2000)), tmp_path)
    there, back = ("192.0.2.1", 2000, "10.0.0.5", 8080), ("192.0.2.1", 80, "10.0.0.6", 6000)
    assert text(ran) == [there, back, there, back]
    assert (ran.reports["hairpinned"], ran.reports["firewall_invalid"], len(ran.rows)) == (4, 0, 1)


@order
def test_filters_between_two_inside_hosts(names: tuple[str, ...], tmp_path: Path) -> None:
    """The first one to contact the other is filtered, and its answer passes."""
    frames = [datagram(IN, 53, FAR, 53), datagram(OTHER, 53, FAR, 53)]
    frames += [datagram(IN, 53, EXTERNAL, 2001), datagram(OTHER, 53, EXTERNAL, 2000)]
    for filter_, passed in (("none", 4), ("address", 3), ("port", 3)):
        ran = through(names, frames, tmp_path, RULES.replace("udp dport 53", "udp dport 1-65535"), {"filter": filter_})
        assert len(ran.left) == passed, filter_


@order
def test_data_connections_of_ftp_are_related(names: tuple[str, ...], tmp_path: Path) -> None:
    """The announcement names the inside end in the firewall, the external one outside; numbers fit in both."""
    talk = Talk.of().open()
    talk.say("A")
    talk.say("A", b"PORT 10,0,0,5,4,1\r\n")
    more = len(b"192,0,2,1,7,209") - len(b"10,0,0,5,4,1")
    talk.answer("A", b"200 ok\r\n", ack=talk.inside.next + more)
    data = Host(FAR, 20, 77, checksums=True, peer=Host(EXTERNAL, 2001, 5))
    other = Host(FAR, 20, 77, checksums=True, peer=Host(EXTERNAL, 2002, 5))
    talk.say("A", b"LIST\r\n")
    talk.answer("A", b"150 here\r\n", ack=talk.inside.next + more)
    ran = through(names, [*talk.frames, data.send("S"), other.send("S")], tmp_path)
    assert len(ran.left) == len(talk.frames) + 1 and ends(ran.left[-1]) == (FAR, 20, IN, 1025)
    assert (ran.reports["ftp_announced"], ran.reports["firewall_invalid"]) == (1, 0)
    assert int.from_bytes(ran.left[-2][42:46], "big") == talk.inside.next & 0xFFFFFFFF


@order
def test_rules_name_the_virtual_address(names: tuple[str, ...], tmp_path: Path) -> None:
    client, server = Host(FAR, 7000, 1, checksums=True), Host(SERVER, 80, 9, checksums=True)
    frames = opened(client, (VIRTUAL, 80), server, (FAR, 7000))
    own = Host(SERVER, 80, 9, checksums=True, peer=Host(FAR2, 7000, 1))  # of no connection to the virtual address
    ran = through(names, [*frames, own.send("A")], tmp_path, RULES.replace("ct state invalid", "ct state untracked"))
    there, back = ("198.51.100.7", 7000, "10.9.0.1", 80), ("203.0.113.10", 80, "198.51.100.7", 7000)
    assert text(ran) == [there, back, there, back]
    assert (ran.reports["balanced"], ran.reports["firewall_connections"], len(ran.rows)) == (1, 1, 2)


@order
def test_errors_about_balanced_packets_reach_who_sent_them(names: tuple[str, ...], tmp_path: Path) -> None:
    """Both quote what their receiver has sent; the first one comes from the server itself."""
    client, server = Host(FAR, 7000, 1, checksums=True), Host(SERVER, 80, 9, checksums=True)
    client.peer, server.peer = Host(VIRTUAL, 80, 9), Host(FAR, 7000, 1)
    asked, answered = client.send("S"), server.send("SA", ack=2)
    there, back = through(names, [asked, answered], tmp_path).left
    router = bytes([203, 0, 113, 99])
    errors = [
        icmp4(3, 3, bytes(4) + there[14:], SERVER, FAR),
        icmp4(3, 4, b"\0\0\5\0" + back[14:], router, VIRTUAL),
    ]
    ran = through(names, [asked, answered, *errors], tmp_path)
    assert (ran.left[2][26:34], ran.left[2][42:]) == (VIRTUAL + FAR, asked[14:])
    assert (ran.left[3][26:34], ran.left[3][42:]) == (router + SERVER, answered[14:])
    assert ran.reports["firewall_related"] == 2


@order
def test_a_client_inside_and_servers_outside(names: tuple[str, ...], tmp_path: Path) -> None:
    """Both functions translate each packet, in each direction."""
    client, server = Host(IN, 5000, 1, checksums=True), Host(FAR, 80, 9, checksums=True)
    frames = opened(client, (VIRTUAL, 80), server, (EXTERNAL, 2000))
    ran = through(names, frames, tmp_path, balance={"servers": "198.51.100.7"})
    there, back = ("192.0.2.1", 2000, "198.51.100.7", 80), ("203.0.113.10", 80, "10.0.0.5", 5000)
    assert text(ran) == [there, back, there, back] and ran.reports["firewall_invalid"] == 0


@order
def test_servers_that_are_inside(names: tuple[str, ...], tmp_path: Path) -> None:
    """Their answers have the virtual address, not the external one; connections of their own have that."""
    client, server = Host(FAR, 7000, 1, checksums=True), Host(SERVER, 80, 9, checksums=True)
    client.peer, server.peer = Host(VIRTUAL, 80, 9), Host(FAR, 7000, 1)
    own = Host(SERVER, 4000, 1, checksums=True, peer=Host(FAR, 80, 1))
    ran = through(names, [client.send("S"), server.send("SA", ack=2), own.send("S")], tmp_path)
    assert [row[:2] for row in text(ran)[1:]] == [("203.0.113.10", 80), ("192.0.2.1", 2000)]


def test_fragments_to_the_external_address_are_dropped(tmp_path: Path) -> None:
    fragment = bytearray(datagram(FAR, 53, EXTERNAL, 2000))
    fragment[20] = 0x20
    ran = through(ORDERS[1], [datagram(IN, 5000, FAR, 53), bytes(fragment)], tmp_path)
    assert len(ran.left) == 1 and ran.reports["unsupported"] == 1


@needs_ids
@pytest.mark.parametrize("names, source", [(("nat", "ids"), ("192.0.2.1", 2000)), (("ids", "nat"), ("10.0.0.5", 5000))])
def test_a_reset_of_a_first_packet_by_the_order_of_functions(
    names: tuple[str, ...], source: tuple[str, int], tmp_path: Path
) -> None:
    """A connection that a function resets before nat gets no port: boxes.md says to give nat first."""
    reader = Reader({})
    reader.read('reject tcp 10.0.0.5 any -> any 80 (msg:"m"; flags:S; sid:1;)', "test.rules")
    (tmp_path / "ids").write_bytes(table(reader.found.rules))
    host = Host(IN, 5000, 1, checksums=True, peer=Host(FAR, 80, 1))
    ran = through(names, [host.send("S")], tmp_path)
    assert sorted(text(ran)) == sorted([(*source, "198.51.100.7", 80), ("198.51.100.7", 80, "10.0.0.5", 5000)])
    assert all(frame[47] & 4 for frame in ran.left)


@needs_ids
def test_a_reset_reaches_both_ends_through_a_nat(tmp_path: Path) -> None:
    """ids finds what it looks for in an answer."""
    reader = Reader({})
    rule = 'reject tcp any 80 -> 10.0.0.5 any (msg:"m"; flow:established,to_client; content:"secret"; sid:1;)'
    reader.read(rule, "test.rules")
    (tmp_path / "ids").write_bytes(table(reader.found.rules))
    talk = Talk.of(other=80).open()
    talk.say("A")
    talk.say("A", b"GET")
    talk.answer("A", b"a secret")
    ran = through(("ids", "nat"), talk.frames, tmp_path)
    assert sorted(text(ran)[-2:]) == [("192.0.2.1", 2000, "198.51.100.7", 80), ("198.51.100.7", 80, "10.0.0.5", 5000)]
    assert all(frame[47] & 4 for frame in ran.left[-2:]) and len(ran.left) == len(talk.frames) - 1 + 2
