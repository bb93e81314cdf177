"""Source routes and home addresses: flows, keys and checksums have the addresses of the pseudo-header."""

from __future__ import annotations

import struct

import pytest

from tests.support.packets import A4, A6, B4, B6, TCP, UDP, eth, fragment_header, ip4, ip6, tcp, udp
from tests.support.run import run
from tests.support.stacks import checking, whole

HOP6, HOME6 = bytes.fromhex("20010db80000000000000000000000aa"), bytes.fromhex("20010db80000000000000000000000bb")
HOP4 = bytes([192, 0, 2, 9])
ROUTING, DESTINATION, FRAGMENT = 43, 60, 44


def routing(kind: int, left: int, *addresses: bytes, last_entry: int = 0, following: int = UDP) -> bytes:
    """A routing header; `last_entry` is that of type 4."""
    head = struct.pack(">BBBBB3x", following, 2 * len(addresses), kind, left, last_entry)
    return head + b"".join(addresses)


def home(address: bytes, following: int = UDP) -> bytes:
    """Destination options with a home address."""
    return struct.pack(">BBBBBB", following, 2, 1, 2, 0, 0) + b"\xc9\x10" + address


def ends(*frames: bytes) -> list[tuple[str, str]]:
    return [(row["src"], row["dst"]) for row in run(whole(), frames).rows]


ROUTED6 = {
    "type 0": routing(0, 1, B6),
    "type 0, two to go": routing(0, 2, HOME6, B6),
    "type 2": routing(2, 1, B6),
    "type 4": routing(4, 1, B6, HOP6, last_entry=1),
}


@pytest.mark.parametrize("header", ROUTED6.values(), ids=ROUTED6)
def test_ipv6_routing_headers_lead_to_the_final_destination(header: bytes) -> None:
    frame = eth(ip6(header + udp(1, 2, b"x"), ROUTING, A6, HOP6))
    assert ends(frame) == [("2001:db8::1", "2001:db8::2")]


PASSED6 = {
    "no segments left": routing(0, 0, HOME6),
    "more segments left than there are": routing(0, 3, HOME6),
    "an odd length": struct.pack(">BBBB4x", UDP, 3, 0, 1) + HOME6 + bytes(8),
    "type 2 with two segments left": routing(2, 2, HOME6),
    "type 4 with more segments than addresses": routing(4, 1, HOME6, last_entry=1),
    "type 3": routing(3, 1, HOME6),
    "no address": routing(0, 1),
}


@pytest.mark.parametrize("header", PASSED6.values(), ids=PASSED6)
def test_a_routing_header_that_is_used_up_or_malformed_changes_nothing(header: bytes) -> None:
    frame = eth(ip6(header + udp(1, 2, b"x"), ROUTING, A6, B6))
    assert ends(frame) == [("2001:db8::1", "2001:db8::2")]


def test_both_directions_of_a_routed_connection_are_one_flow() -> None:
    there = eth(ip6(routing(0, 1, B6, following=TCP) + tcp(1000, 80, 7, "S"), ROUTING, A6, HOP6))
    back = eth(ip6(tcp(80, 1000, 9, "SA", ack=8), TCP, B6, A6))
    (row,) = run(whole(), [there, back]).rows
    assert (row["src_pkts"], row["dst_pkts"]) == (1, 1)


def test_a_home_address_is_the_source() -> None:
    assert ends(eth(ip6(home(HOME6) + udp(1, 2), DESTINATION, A6, B6))) == [("2001:db8::bb", "2001:db8::2")]


def test_a_home_address_after_as_much_padding_as_hosts_accept() -> None:
    """RFC 8504, 5.3: 8 options other than padding, and 7 bytes of padding before each."""
    listed = (bytes(7) + b"\x1e\1\0") * 7 + bytes(7) + b"\xc9\x10" + HOME6
    header = bytes([UDP, (len(listed) + 9) // 8 - 1]) + listed + bytes(7)
    result = run(whole(), [eth(ip6(header + udp(1, 2), DESTINATION, A6, B6))])
    assert [(row["src"], row["dst"]) for row in result.rows] == [("2001:db8::bb", "2001:db8::2")]
    assert result.count("ipv6_ext", "malformed") == 0


def test_a_home_address_and_a_routing_header() -> None:
    headers = routing(2, 1, B6, following=DESTINATION) + home(HOME6)
    assert ends(eth(ip6(headers + udp(1, 2), ROUTING, A6, HOP6))) == [("2001:db8::bb", "2001:db8::2")]


def test_the_next_packet_has_its_own_addresses() -> None:
    routed = eth(ip6(routing(0, 1, HOME6) + udp(1, 2), ROUTING, A6, HOP6))
    assert ends(routed, eth(ip6(udp(1, 2), UDP, A6, B6))) == [
        ("2001:db8::1", "2001:db8::bb"),
        ("2001:db8::1", "2001:db8::2"),
    ]


def test_fragments_after_a_routing_header() -> None:
    whole_datagram = udp(1, 2, bytes(16))
    parts = [(0, whole_datagram[:16], True), (16, whole_datagram[16:], False)]
    frames = [
        eth(ip6(routing(0, 1, B6, following=FRAGMENT) + fragment_header(part, UDP, 5, at, more), ROUTING, A6, HOP6))
        for at, part, more in parts
    ]
    assert ends(*frames) == [("2001:db8::1", "2001:db8::2")]


def test_checksums_are_those_of_the_final_destination() -> None:
    right = tcp(1000, 80, 7, "S", addresses=(A6, B6))
    wrong = tcp(1000, 80, 7, "S", addresses=(A6, HOP6))
    for segment, rows in ((right, 1), (wrong, 0)):
        frame = eth(ip6(routing(0, 1, B6, following=TCP) + segment, ROUTING, A6, HOP6))
        assert len(run(checking(), [frame]).rows) == rows


def source_route(kind: int, pointer: int, *addresses: bytes, size: int | None = None) -> bytes:
    size = 3 + 4 * len(addresses) if size is None else size
    return bytes([kind, size, pointer]) + b"".join(addresses) + b"\0"


@pytest.mark.parametrize("kind", [131, 137], ids=["loose", "strict"])
def test_ipv4_source_routes_lead_to_the_last_address(kind: int) -> None:
    options = source_route(kind, 4, HOP4, B4)
    assert ends(eth(ip4(udp(1, 2), UDP, A4, bytes([192, 0, 2, 1]), options=options))) == [("10.0.0.1", "10.0.0.2")]


@pytest.mark.parametrize("before", [b"\1\1\1\1", b"\x94\x04\0\0"], ids=["no operation", "router alert"])
def test_a_source_route_after_other_options(before: bytes) -> None:
    options = before + source_route(131, 4, B4)
    assert ends(eth(ip4(udp(1, 2), UDP, A4, HOP4, options=options))) == [("10.0.0.1", "10.0.0.2")]


@pytest.mark.parametrize("pointer", [0, 3, 8, 255])
def test_a_source_route_that_is_used_up_or_malformed_changes_nothing(pointer: int) -> None:
    options = source_route(131, pointer, HOP4)
    assert ends(eth(ip4(udp(1, 2), UDP, A4, B4, options=options))) == [("10.0.0.1", "10.0.0.2")]


def test_ipv4_checksums_are_those_of_the_last_address() -> None:
    segment = tcp(1000, 80, 7, "S", addresses=(A4, B4))
    frame = eth(ip4(segment, TCP, A4, HOP4, options=source_route(131, 4, B4)))
    assert len(run(checking(), [frame]).rows) == 1
