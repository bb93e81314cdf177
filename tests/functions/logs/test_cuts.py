"""No log depends on how its input is cut: segments of any size, out of order, again, in tunnels and with VLAN tags."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

import pytest

from tests.functions.logs.boxes import Logs, Talk, connection, lasting, needs_parsers, run_packets
from tests.functions.logs.hellos import client_hello, record, server_hello
from tests.functions.logs.http2 import CLIENT, DATA, END_STREAM, SERVER, frame, needs_nghttp2, request, response
from tests.support.packets import eth, ip4, udp

pytestmark = needs_parsers

HTTP: Talk = (
    (">", b"POST /a?b=c HTTP/1.1\r\nHost: one.example\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("<", b"HTTP/1.1 100 Continue\r\n\r\n"),
    (">", b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: two.example\r\n\r\n"),
    (">", b"HEAD /third HTTP/1.1\r\nHost: two.example\r\n\r\n"),
    ("<", b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("<", b"a;x=y\r\n0123456789\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"),
    (">", b"GET /last HTTP/1.0\r\n\r\n"),
    ("<", b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end"),
)
PROXY: Talk = (
    (">", b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"),
    ("<", b"HTTP/1.1 200 OK\r\n\r\n"),
    (">", record(client_hello())),
    ("<", record(server_hello())),
)
TLS: Talk = (
    (">", record(client_hello(), 50)),
    ("<", record(server_hello(), 33) + b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x02ab"),
    (">", b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x02ab"),
)
QUESTION = b"\x03www\x07example\x00\x00\x01\x00\x01"
ASKED = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + QUESTION
ANSWERED = (
    struct.pack(">6H", 7, 0x8180, 1, 1, 0, 0) + QUESTION + b"\xc0\x0c\x00\x01\x00\x01\0\0\0\x3c\0\x04\x0a\0\0\x01"
)
DNS: Talk = (
    (">", struct.pack(">H", len(ASKED)) + ASKED),
    ("<", struct.pack(">H", len(ANSWERED)) + ANSWERED),
)
HTTP2: Talk = (
    (">", CLIENT + request(1, "/first", method="POST", ends=False) + frame(DATA, END_STREAM, 1, b"hello")),
    ("<", SERVER + response(1, 103, ends=False) + response(1, 200, ("content-type", "text/plain"), ends=False)),
    (">", request(3, "/second", ("user-agent", "agent/1"))),
    ("<", frame(DATA, END_STREAM, 1, b"body") + response(3, 204)),
)
UPGRADE: Talk = (
    (
        ">",
        b"GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n",
    ),
    ("<", b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + SERVER),
    (">", CLIENT + request(3, "/more")),
    ("<", response(1, 200) + response(3, 404)),
)
TALKS: dict[str, tuple[Talk, int]] = {
    "http": (HTTP, 80),
    "proxy": (PROXY, 3128),
    "tls": (TLS, 443),
    "dns": (DNS, 53),
    "http2": (HTTP2, 80),
    "upgrade": (UPGRADE, 80),
}
NAMES = [pytest.param(name, marks=[needs_nghttp2] if name in ("http2", "upgrade") else []) for name in TALKS]


def said(logs: Logs) -> list[object]:
    """All rows of the three logs."""
    return [lasting(logs[log]) for log in ("httplog", "tlslog", "dnslog")]


@pytest.mark.parametrize("name", NAMES)
def test_segments_of_any_size(name: str) -> None:
    talk, port = TALKS[name]
    whole = said(run_packets(connection(talk, port=port)))
    assert any(whole)
    for cut in (1, 2, 3, 7, 20, 61):
        assert said(run_packets(connection(talk, cut, port=port))) == whole, cut


@pytest.mark.parametrize("name", NAMES)
def test_segments_out_of_order_and_again(name: str) -> None:
    talk, port = TALKS[name]
    whole = said(run_packets(connection(talk, port=port)))
    for seed in range(8):
        dice = random.Random(seed)
        frames = connection(talk, 9, port=port)
        begin, middle, end = frames[:3], frames[3:-3], frames[-3:]
        middle += dice.sample(middle, len(middle) // 3)
        keys = {frame: number + dice.uniform(0, 12) for number, frame in enumerate(middle)}
        assert said(run_packets([*begin, *sorted(middle, key=lambda frame: keys[frame]), *end])) == whole, seed


def gtp(frame: bytes) -> bytes:
    """A packet in GTP-U."""
    packet = frame[14:]
    return eth(ip4(udp(2152, 2152, struct.pack(">BBHI", 0x30, 255, len(packet), 5) + packet), 17))


def vxlan(frame: bytes) -> bytes:
    """A frame in VXLAN."""
    return eth(ip4(udp(5000, 4789, struct.pack(">II", 0x08000000, 9 << 8) + frame), 17))


def gre(frame: bytes) -> bytes:
    """A packet in GRE."""
    return eth(ip4(struct.pack(">HH", 0, 0x0800) + frame[14:], 47))


def vlan(frame: bytes) -> bytes:
    """A frame with a VLAN tag."""
    return frame[:12] + struct.pack(">HH", 0x8100, 5) + frame[12:]


@pytest.mark.parametrize("wrapped", [gtp, vxlan, gre, vlan])
@pytest.mark.parametrize("name", NAMES)
def test_tunnels_and_tags(name: str, wrapped: Callable[[bytes], bytes]) -> None:
    talk, port = TALKS[name]
    frames: Sequence[bytes] = connection(talk, 61, port=port)
    assert said(run_packets([wrapped(frame) for frame in frames])) == said(run_packets(frames))
