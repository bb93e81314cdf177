"""Errors of existing stacks below TCP, within tunnels: header options, tags, fragments inside and outside."""

from itertools import permutations

import pytest

from tests.cases.tunnel import ETHERNET, OUTER, TUNNELS, Wrap, gtp, inside, none, pptp, through, vxlan
from tests.support.connection import goodbye, handshake, pair
from tests.support.packets import UDP, eth, fragments4, fragments6, ip4, tcp, udp

BODY = bytes(range(200))
everywhere = pytest.mark.parametrize("wrap", TUNNELS.values(), ids=TUNNELS)
VERSIONS = pytest.mark.parametrize("fragments", [fragments4, fragments6], ids=["ipv4", "ipv6"])


@everywhere
@pytest.mark.parametrize("size", [4, 20, 40])
def test_ipv4_header_with_options(wrap: Wrap, size: int) -> None:
    result = through(wrap, eth(ip4(tcp(1, 2, 99, "A", BODY), options=b"\1" * size)))
    assert result.stream(1) == BODY


@pytest.mark.parametrize("wrap", [none, vxlan], ids=["none", "vxlan"])
def test_vlan_tag_ipv6_and_arp_are_told_apart(wrap: Wrap) -> None:
    """Only for tunnels that carry Ethernet."""
    frames: list[bytes] = []
    arp = bytes(12) + bytes.fromhex("0806 0001 0800 06 04 0001") + bytes(20 + 18)
    for version, tags in ((4, (7,)), (6, (7, 8))):
        client, server = pair(version=version, tags=tags)
        frames += [arp, *handshake(client, server), client.data(b"tagged"), arp, *goodbye(client, server)]
    result = through(wrap, frames)
    assert [row["layers"].split("eth/")[-1] for row in result.rows] == ["vlan/ipv4/tcp", "vlan/vlan/ipv6/tcp"]
    assert result.streams(40000) == [b"tagged", b"tagged"] and result.count("arp", "ended") == 4
    assert [row["state"] for row in result.rows] == ["TERMINATED", "TERMINATED"]


@everywhere
@VERSIONS
def test_fragments_in_any_order(wrap: Wrap, fragments) -> None:
    """In every order, including the reverse."""
    frames = fragments(tcp(1, 2, 99, "A", BODY), 64, 64)
    for order in permutations(frames):
        result = through(wrap, order)
        assert result.stream(1) == BODY and result.row["src_pkts"] == 1


@everywhere
@VERSIONS
def test_fragments_of_two_datagrams_of_one_pair_interleaved(wrap: Wrap, fragments) -> None:
    first = fragments(tcp(1, 2, 99, "A", BODY), 64, 64, id=1)
    second = fragments(tcp(3, 4, 99, "A", BODY[::-1]), 64, 64, id=2)
    result = through(wrap, [frame for both in zip(first, reversed(second), strict=True) for frame in both])
    assert result.streams(1) == [BODY, b""] and result.streams(3) == [b"", BODY[::-1]]


@everywhere
@VERSIONS
def test_other_protocol_between_fragments(wrap: Wrap, fragments) -> None:
    other = 1 if fragments is fragments4 else 2
    first = fragments(tcp(1, 2, 99, "A", BODY), 64, 64, id=1)
    second = fragments(udp(3, 4, BODY), 64, 64, id=other, protocol=UDP)
    result = through(wrap, [frame for both in zip(first, second, strict=True) for frame in both])
    assert result.stream(1) == BODY


@everywhere
@pytest.mark.parametrize("more", [(True, True), (True, False), (False, True), (False, False)])
def test_two_empty_fragments(wrap: Wrap, more: tuple[bool, bool]) -> None:
    """Empty fragments are harmless in either order; a later datagram is reassembled."""
    frames = [eth(ip4(b"", more=more[0], offset=0)), eth(ip4(b"", more=more[1], offset=8))]
    for order in permutations(frames):
        result = through(wrap, order, fragments4(tcp(1, 2, 99, "A", BODY), 64, 64, id=9))
        assert BODY in result.streams(1)


@pytest.mark.parametrize("wrap", [gtp, pptp, vxlan])
@VERSIONS
def test_fragments_within_and_of_the_tunnel(wrap: Wrap, fragments) -> None:
    """The tunnel's own packets are fragmented again; all fragments arrive in reverse order."""
    frames: list[bytes] = []
    for number, frame in enumerate(fragments(tcp(1, 2, 99, "A", BODY), 64, 64)):
        outer = wrap(frame)[ETHERNET:]
        frames += fragments4(outer[20:], 48, protocol=outer[9], id=100 + number, src=OUTER[0], dst=OUTER[1])
    result = inside(frames[::-1])
    assert result.stream(1) == BODY and len(result.rows) == 1
