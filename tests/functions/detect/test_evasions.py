"""Evasions: what `ids` sees of them by default, and with each option. docs/detect.md has the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluice.engine.box import Box, CompiledStack, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from tests.functions.detect import boxes
from tests.functions.detect.boxes import START, needs_ids, rule
from tests.support.connection import Host, handshake, pair
from tests.support.packets import checksum, eth, fragments4, ip4, tcp

pytestmark = needs_ids

RULES = rule('content:"evil";') + rule('content:"good";', sid=2)
EVIL, GOOD = {1}, {2}
Made = Callable[[Host, Host], list[bytes]]


def overlap_old_evil(client: Host, _: Host) -> list[bytes]:
    """Two copies of bytes that wait for others before them."""
    return [client.at(4, b"evil"), client.at(4, b"good"), client.at(0, b"----")]


def overlap_new_evil(client: Host, _: Host) -> list[bytes]:
    return [client.at(4, b"good"), client.at(4, b"evil"), client.at(0, b"----")]


def changed_after_delivery(client: Host, _: Host) -> list[bytes]:
    """A copy of bytes that were delivered: a receiver has taken the first ones, too."""
    return [client.at(0, b"evil"), client.at(0, b"good")]


def bad_checksum(client: Host, _: Host) -> list[bytes]:
    """A decoy that receivers discard."""
    decoy = bytearray(client.at(0, b"good"))
    decoy[50] ^= 0xFF
    return [bytes(decoy), client.at(0, b"evil")]


def low_ttl(client: Host, _: Host) -> list[bytes]:
    """A decoy that does not reach the receiver."""
    decoy = bytearray(client.at(0, b"good"))
    decoy[22] = 1
    decoy[24:26] = bytes(2)
    decoy[24:26] = checksum(bytes(decoy[14:34])).to_bytes(2, "big")
    return [bytes(decoy), client.at(0, b"evil")]


def tiny_segments(client: Host, _: Host) -> list[bytes]:
    return [client.data(bytes([byte])) for byte in b"an evil text"]


def tiny_fragments(client: Host, _: Host) -> list[bytes]:
    segment = client.data(b"----evil")[34:]
    return fragments4(segment, 24)[::-1]


def data_on_reset(client: Host, _: Host) -> list[bytes]:
    """Receivers discard what is on a reset (RFC 9293, 3.10.7.4)."""
    return [client.at(0, b"evil", "RA"), client.at(0, b"good")]


def reset_outside_the_window(client: Host, _: Host) -> list[bytes]:
    """A reset that the receiver does not believe, to end the inspection."""
    return [client.send("R", number=client.isn + 900_000), client.at(0, b"evil")]


def data_on_syn(client: Host, _: Host) -> list[bytes]:
    segment = tcp(41000, 80, 77, "S", b"evil", addresses=(client.address, _.address))
    return [eth(ip4(segment))]


def gap_within(client: Host, server: Host) -> list[bytes]:
    """A part of the pattern was not captured, and is acknowledged."""
    return [client.at(0, b"ev"), client.at(3, b"l good"), server.send("A", ack=client.isn + 10), client.at(9, b"-")]


def outside_the_window(client: Host, _: Host) -> list[bytes]:
    """A decoy that the receiver cannot accept."""
    return [client.send("A", b"good", number=client.isn + 5_000_000), client.at(0, b"evil")]


CASES: list[tuple[Made, set[int], set[int], set[int]]] = [
    # by default, with --checksums, with the policy `last`
    (overlap_old_evil, EVIL, EVIL, GOOD),
    (overlap_new_evil, GOOD, GOOD, EVIL),
    (changed_after_delivery, EVIL, EVIL, EVIL),
    (bad_checksum, GOOD, EVIL, GOOD),
    (low_ttl, GOOD, GOOD, GOOD),
    (tiny_segments, EVIL, EVIL, EVIL),
    (tiny_fragments, EVIL, EVIL, EVIL),
    (data_on_reset, GOOD, GOOD, GOOD),
    (reset_outside_the_window, EVIL, EVIL, EVIL),
    (data_on_syn, EVIL, EVIL, EVIL),
    (gap_within, GOOD, GOOD, GOOD),
    (outside_the_window, EVIL, EVIL, EVIL),
]


def small(policy: str = "first", checksums: bool = False) -> CompiledStack:
    """IPv4 and TCP alone."""
    s = Stack(f"evasions_{policy}")
    s.eth, s.ipv4, s.tcp = ethernet_parser(), ipv4_parser(), tcp_parser(policy=policy)
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.header.protocol == 6)
    options = frozenset({"checksums"}) if checksums else frozenset[str]()
    return compile_stack(s, tuple(find_functions(["ids"]).c), options=options)


@pytest.mark.parametrize(
    ("column", "policy", "checksums"),
    [
        (1, "first", False),
        pytest.param(2, "first", True, marks=pytest.mark.slow_matrix),
        pytest.param(3, "last", False, marks=pytest.mark.slow_matrix),
    ],
)
def test_what_is_seen(column: int, policy: str, checksums: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = small(policy, checksums)
    monkeypatch.setattr(boxes, "compiled", lambda _="": stack)
    seen: dict[str, set[int]] = {}
    for made, *_ in CASES:
        client, server = pair(checksums=True)
        frames = [*handshake(client, server), *made(client, server)]

        def feed(box: Box, frames: list[bytes] = frames) -> None:
            for number, frame in enumerate(frames):
                box.packet(frame, START + number * 10**8, 1, len(frame))

        seen[made.__name__] = set(boxes.run(feed, RULES).sids)
    assert seen == {case[0].__name__: case[column] for case in CASES}


def test_a_rule_sees_the_decoy() -> None:
    client, server = pair()
    found = boxes.packets([*handshake(client, server), *low_ttl(client, server)], rule("ttl:<5; dsize:>0;"))
    assert found.sids == [1]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        # request lines that many servers read, though they are not well-formed
        (b"FOO /etc/passwd HTTP/1.1", True),
        (b"get /etc/passwd HTTP/1.1", True),
        (b"X-Y_Z /etc/passwd HTTP/1.0", True),
        (b"GET /\xff/etc/passwd HTTP/1.1", True),
        (b"GET /\0?\xc3\xa9=/etc/passwd HTTP/1.1", True),
        (b"FOO /\xff/etc/passwd HTTP/1.1", True),
        (b"GET  /etc/passwd HTTP/1.1", True),
        (b"GET /etc/passwd", True),
        (b"GET HTTP://www.example/etc/passwd HTTP/1.1", True),
        (b"GET /x/../%65tc\\pas%73wd HTTP/1.1", True),
        # those that they do not; and what is decoded once
        (b"RETR /etc/passwd", False),
        (b"GET\t/etc/passwd\tHTTP/1.1", False),
        (b"GET /%2565tc/passwd HTTP/1.1", False),
        (b"GET /%u0065tc/passwd HTTP/1.1", False),
        (b"GET /etc%c0%afpasswd HTTP/1.1", False),
    ],
)
def test_request_lines(line: bytes, seen: bool) -> None:
    """As the first request of a connection, and after another one, however they are cut."""
    rules = rule('content:"/etc/passwd"; http_uri;') + rule('content:"Host: b"; http_header;', sid=2)
    rest = b"\r\nHost: b\r\n\r\n"
    for before in (b"", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nx=1"):
        for cut in (1, 5, 1460):
            if before and not seen and not line.startswith(b"GET /"):
                continue
            found = boxes.packets(boxes.connection([(">", before + line + rest)], cut), rules)
            assert (1 in found.sids) == seen, (before, cut)


def test_methods_of_a_server_are_in_their_buffer() -> None:
    said = b"PURGE2 /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nevil" * 2
    rules = rule('content:"PURGE2"; http_method; content:"evil"; http_client_body;')
    for cut in (1, 4, 1460):
        assert boxes.packets(boxes.connection([(">", said)], cut), rules).sids == [1, 1]
