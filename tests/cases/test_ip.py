"""Layers below TCP: header options, tags, other protocols, fragments in every order."""

import struct
from itertools import permutations

import pytest

from tests.cases.trace import trace
from tests.support.connection import goodbye, handshake, pair
from tests.support.packets import (
    A4,
    A6,
    TCP,
    UDP,
    cuts,
    eth,
    fragment_header,
    fragments4,
    fragments6,
    ip4,
    ip6,
    tcp,
    udp,
)

BODY = bytes(range(200))


@pytest.mark.parametrize("size", range(4, 44, 4))
def test_ipv4_header_with_options(size: int) -> None:
    result = trace(eth(ip4(tcp(1, 2, 99, "A", BODY), options=b"\1" * size)))
    assert result.stream(1) == BODY
    assert result.count("ipv4", "passed") == 1


def test_vlan_ipv6_and_arp_are_told_apart() -> None:
    client, server = pair()
    client6, server6 = pair(version=6)
    client.tags = server.tags = (7,)
    client6.tags = server6.tags = (7, 8)
    arp = bytes(12) + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + bytes(20 + 18)
    frames: list[bytes] = []
    for here, there in ((client, server), (client6, server6)):
        frames += [arp, *handshake(here, there), here.data(b"tagged"), arp, *goodbye(here, there)]
    result = trace(frames)
    assert [row["layers"] for row in result.rows] == ["eth/vlan/ipv4/tcp", "eth/vlan/vlan/ipv6/tcp"]
    assert result.streams(40000) == [b"tagged", b"tagged"]
    assert [row["state"] for row in result.rows] == ["TERMINATED", "TERMINATED"]
    assert result.count("arp", "ended") == 4
    assert result.count("ipv4") + result.count("ipv6") == len(frames) - 4


VERSIONS = pytest.mark.parametrize(
    "fragments, layer", [(fragments4, "ipv4"), (fragments6, "frag")], ids=["ipv4", "ipv6"]
)


@VERSIONS
def test_fragments_in_reverse_order(fragments, layer) -> None:
    result = trace(*reversed(fragments(tcp(1, 2, 99, "A", BODY), 64, 64)))
    assert result.stream(1) == BODY
    assert result.count(layer, "held") == 2 and result.count(layer, "ended:accept") == 1


@VERSIONS
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_fragments_in_any_order(fragments, layer, order: tuple[int, ...]) -> None:
    frames = fragments(tcp(1, 2, 99, "A", BODY), 8, 96, 64)
    result = trace([frames[number] for number in order])
    assert result.stream(1) == BODY and result.row["src_pkts"] == 1


@VERSIONS
def test_fragments_of_two_datagrams_of_one_pair_interleaved(fragments, layer) -> None:
    first = fragments(tcp(1, 2, 99, "A", BODY), 64, 64, id=1)
    second = fragments(tcp(3, 4, 99, "A", BODY[::-1]), 64, 64, id=2)
    mixed = [frame for both in zip(first, reversed(second), strict=True) for frame in both]
    result = trace(mixed)
    assert result.streams(1) == [BODY, b""] and result.streams(3) == [b"", BODY[::-1]]


@VERSIONS
def test_other_protocol_between_fragments(fragments, layer) -> None:
    """The protocol is part of IPv4's key: another protocol may use the same id at the same time."""
    first = fragments(tcp(1, 2, 99, "A", BODY), 64, 64, id=1)
    second = fragments(udp(3, 4, BODY), 64, 64, id=1 if layer == "ipv4" else 2, protocol=UDP)
    mixed = [frame for both in zip(first, second, strict=True) for frame in both]
    result = trace(mixed)
    assert {row["proto"]: row["src_payload"] for row in result.rows} == {"tcp": 200, "udp": 200}
    assert result.streams(1)[-1] == BODY or result.streams(1)[0] == BODY


def test_whole_packets_between_fragments() -> None:
    frames = fragments4(tcp(1, 2, 99, "A", BODY), 64, 64)
    whole = eth(ip4(tcp(1, 2, 99 + 200, "A", b"behind")))
    result = trace(frames[0], whole, frames[2], whole, frames[1])
    assert result.stream(1) == BODY + b"behind"  # byte 0 is the lowest that was not acknowledged yet
    assert result.row["src_pkts"] == 3 and result.row["src_payload"] == 212


@pytest.mark.parametrize("more", [(True, True), (True, False), (False, True), (False, False)])
def test_two_empty_fragments(more: tuple[bool, bool]) -> None:
    frames = [eth(ip4(b"", more=more[0], offset=0)), eth(ip4(b"", more=more[1], offset=8))]
    assert [len(frame) for frame in frames] == [34, 34]
    result = trace(frames)
    assert result.streams(1) == [] or result.stream(1) == b""
    result = trace(frames[::-1], *fragments4(tcp(1, 2, 99, "A", BODY), 64, 64, id=9))
    assert BODY in result.streams(1)


@VERSIONS
def test_late_fragment_does_not_deliver_again(fragments, layer) -> None:
    frames = fragments(tcp(1, 2, 99, "A", BODY), 64, 64)
    result = trace(frames, frames[1])
    assert result.stream(1) == BODY and result.row["src_pkts"] == 1
    assert result.count(layer, "ended:accept") == 1 and result.count(layer, "ended:eof") == 1


@VERSIONS
def test_overlapping_fragments_first_copy_wins(fragments, layer) -> None:
    body = tcp(1, 2, 99, "A", BODY)
    frames = fragments(body, 64, 64)
    wrong = fragments(body[:64] + bytes(48) + bytes(len(body) - 112), 64, 48)[1]
    result = trace(frames[1], wrong, frames[2], frames[0])
    assert result.stream(1) == BODY


@VERSIONS
def test_missing_fragment_delivers_nothing(fragments, layer) -> None:
    frames = fragments(tcp(1, 2, 99, "A", BODY), 64, 64)
    result = trace(frames[0], frames[2])
    assert result.rows == [] and result.count(layer, "held") == 2 and result.count(layer, "ended:eof") == 1


def test_datagram_of_65535_bytes() -> None:
    body = tcp(1, 2, 99, "A", bytes(number % 251 for number in range(65535 - 40)))
    frames = [
        eth(ip4(part, id=3, offset=at, more=more)) for at, part, more in cuts(body, *[1480] * (len(body) // 1480))
    ]
    result = trace(frames[::-1])
    assert result.stream(1) == body[20:]


@VERSIONS
@pytest.mark.parametrize("offset", [192, 224, 65528])
def test_fragment_beyond_the_end_is_not_delivered(fragments, layer, offset: int) -> None:
    """The fragment crosses the datagram's end, lies after it, or as far after it as in the ping of death."""
    body = tcp(1, 2, 99, "A", BODY + b"last")
    frames = fragments(body, 64, 64)
    if layer == "ipv4":
        beyond = eth(ip4(bytes(64), offset=offset))
    else:
        beyond = eth(ip6(fragment_header(bytes(64), TCP, 7, offset, False), 44))
    result = trace(frames[0], frames[2], beyond, frames[1])
    assert result.stream(1) == BODY + b"last"


@pytest.mark.parametrize("tunnel", [4, 6])
def test_fragments_of_a_tunnel(tunnel: int) -> None:
    """The inner packet is fragmented, and each outer packet again."""
    inner = [frame[14:] for frame in fragments4(tcp(1, 2, 99, "A", BODY), 64, 64)]
    frames: list[bytes] = []
    for number, packet in enumerate(inner):
        if tunnel == 4:
            frames += fragments4(packet, 32, protocol=4, id=100 + number)
        else:
            frames += fragments6(packet, 32, protocol=4, id=100 + number)
    result = trace(frames[::-1])
    assert result.stream(1) == BODY


def test_atomic_fragments_need_no_instance() -> None:
    packet = ip6(fragment_header(tcp(1, 2, 99, "A", BODY), TCP, 5, 0, False), 44, A6)
    result = trace([eth(packet)] * 2)
    assert result.stream(1) == BODY and result.count("frag", "instances") == 0
    assert A4 != A6
