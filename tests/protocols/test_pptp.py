"""PPTP's control connection: every message with its fields, whole however the stream was cut."""

from __future__ import annotations

import random
import struct
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from scapy.fields import StrFixedLenField
from scapy.layers import pptp as written

from sluice.engine.box import CompiledStack
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.pptp import LONGEST, pptp_parser
from sluice.protocols.tcp import tcp_parser
from sluice.stacks.find import find_stack
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.corpus import captures
from tests.support.fields import tell_fields
from tests.support.run import Result, run, run_capture, watch_all

START_REQUEST, ECHO_REPLY, CLEAR_REQUEST = 1, 6, 12
KINDS = [kind for kind in vars(written).values() if isinstance(kind, type) and kind.__name__.startswith("PPTP")]
MESSAGES = {kind().ctrl_msg_type: kind for kind in KINDS if kind is not written.PPTP}
HEADER = 5
"""Fields that all messages begin with."""


def name_of(type: int) -> str:
    return MESSAGES[type].__name__.removeprefix("PPTP")


def build(type: int, seed: int) -> tuple[bytes, list[int | bytes]]:
    """A message as scapy writes it, with other values in all its fields; and these, without the reserved ones."""
    rnd = random.Random(seed)
    message: Any = MESSAGES[type]()
    values: list[int | bytes] = []
    for field in message.fields_desc[HEADER:]:
        is_text = isinstance(field, StrFixedLenField)
        value = rnd.randbytes(field.length_from(message) if is_text else int(field.sz))
        given = value if is_text else int.from_bytes(value, "big")
        setattr(message, field.name, given)
        if not field.name.startswith("reserved"):
            values.append(given)
    body = bytes(message)
    return struct.pack(">H", len(body)) + body[2:], values


def echo(identifier: int) -> bytes:
    return struct.pack(">HHIHHI", 16, 1, 0x1A2B3C4D, 5, 0, identifier)


@cache
def stack() -> CompiledStack:
    s = Stack("control")
    s.eth, s.ipv4, s.tcp, s.pptp = ethernet_parser(), ipv4_parser(), tcp_parser(limit=4096), tell_fields(pptp_parser())
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.header.protocol == 6)
    s += (s.tcp >> s.pptp) + Pred(1)
    return watch_all(s, ("pptp", "fields"), ("pptp", "control"), ("pptp", "lost"))


def send(*pieces: bytes) -> Result:
    """A connection on which the client sends these segments."""
    client, server = pair()
    return run(stack(), [*handshake(client, server), *(client.data(piece) for piece in pieces)])


def identifiers(result: Result) -> list[int]:
    return [event.values["identifier"] for event in result.named("fields")]


def losses(result: Result) -> dict[str, int]:
    found = result.counters["pptp"]
    return {key.removeprefix("lost:"): value for key, value in found.items() if key.startswith("lost:") and value}


def test_there_are_fifteen_messages() -> None:
    assert sorted(MESSAGES) == list(range(1, 16))


@pytest.mark.parametrize("type", sorted(MESSAGES), ids=name_of)
def test_every_field(type: int) -> None:
    for seed in range(5):
        body, values = build(type, seed)
        (seen,) = send(body).named("fields")
        told = {key: value for key, value in seen.values.items() if value and "reserved" not in key}
        header = {"length": len(body), "message_type": 1, "magic_cookie": 0x1A2B3C4D, "type": type}
        assert {key: told.pop(key) for key in header} == header
        assert list(told.values()) == [value for value in values if value]


@pytest.mark.parametrize("type", sorted(MESSAGES), ids=name_of)
def test_call_ids_and_results_are_told(type: int) -> None:
    for seed in range(5):
        body, values = build(type, seed)
        names = [f.name for f in MESSAGES[type]().fields_desc[HEADER:] if not f.name.startswith("reserved")]
        sent = dict(zip(names, values, strict=True))
        (seen,) = send(body).named("control")
        assert seen.values == {
            "type": type,
            "call_id": sent.get("call_id", 0),
            "peer_call_id": sent.get("peer_call_id", 0),
            "result": sent.get("result_code", 0),
            "error": sent.get("error_code", 0),
        }


@pytest.mark.parametrize("type", sorted(MESSAGES), ids=name_of)
def test_cut_at_every_byte(type: int) -> None:
    body, _ = build(type, 1)
    stream = echo(1) + body + echo(2)
    for cut in range(1, len(stream)):
        result = send(stream[:cut], stream[cut:])
        assert [event.values["type"] for event in result.named("control")] == [5, type, 5]
        assert losses(result) == {}


def test_several_in_a_segment_and_one_over_several() -> None:
    stream = b"".join(echo(number) for number in range(50))
    assert identifiers(send(stream)) == list(range(50))
    for size in (1, 3, 15, 17, 100):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert identifiers(send(*pieces)) == list(range(50))


def test_both_sides_in_any_order() -> None:
    client, server = pair()
    packets = handshake(client, server)
    segments: list[bytes] = []
    for number in range(20):
        who: Host = (client, server)[number % 2]
        segments += [who.data(echo(number)[:7]), who.data(echo(number)[7:])]
    random.Random(1).shuffle(segments)
    result = run(stack(), [*packets, *segments])
    told = [(event.side, event.values["identifier"]) for event in result.named("fields")]
    assert sorted(told, key=lambda item: item[1]) == [(number % 2, number) for number in range(20)]
    for one, next in pairwise(sorted(told)):
        assert one[0] != next[0] or told.index(one) < told.index(next)


@pytest.mark.parametrize(
    "junk, cause",
    [
        (b"\x00", "malformed"),
        (b"SSH-2.0-something", "malformed"),
        (struct.pack(">HHIHH", 11, 1, 0x1A2B3C4D, 5, 0), "malformed"),
        (struct.pack(">HHIHH", 0, 1, 0x1A2B3C4D, 5, 0), "malformed"),
        (struct.pack(">HHIHHI", 15, 1, 0x1A2B3C4D, 5, 0, 9), "malformed"),
        (struct.pack(">HHIHHI", LONGEST + 1, 1, 0x1A2B3C4D, 5, 0, 9), "limit"),
        (b"\x1a\x2b\x3c\x4d" * 4, "limit"),
    ],
)
def test_the_next_message_is_found_by_the_magic_cookie(junk: bytes, cause: str) -> None:
    result = send(echo(1) + junk + echo(2) + echo(3))
    assert identifiers(result)[0] == 1 and identifiers(result)[-2:] == [2, 3]
    assert losses(result) == {cause: 1}


def test_after_a_gap() -> None:
    """Bytes that are never seen: what is after them is looked at once they are given up, and understood again."""
    client, server = pair()
    first, later = echo(1), [echo(number) for number in range(2, 400)]
    packets = [*handshake(client, server), client.data(first)]
    client.data(echo(0))  # is lost on the way
    packets += [client.data(item) for item in later]
    result = run(stack(), packets)
    assert identifiers(result) == [1, *range(2, 400)]
    assert losses(result) == {"gap": 1}


def test_a_message_that_is_never_whole() -> None:
    client, server = pair()
    packets = [*handshake(client, server), client.data(echo(1) + echo(2)[:-1]), *goodbye(client, server)]
    result = run(stack(), packets)
    assert identifiers(result) == [1] and losses(result) == {"close": 1}


def test_messages_that_are_not_known() -> None:
    """A type of a later version, and a message that is no control message: whole, and without fields."""
    later = struct.pack(">HHIHHI", 16, 1, 0x1A2B3C4D, 99, 0, 7)
    management = struct.pack(">HHIHHI", 16, 2, 0x1A2B3C4D, 5, 0, 7)
    result = send(later + management + echo(1))
    assert [event.values["type"] for event in result.named("control")] == [99, 5]
    assert identifiers(result) == [0, 0, 1] and losses(result) == {}


def test_longer_than_it_must_be() -> None:
    """What a message has after its fields is no part of the next one."""
    body = struct.pack(">HHIHHI", 20, 1, 0x1A2B3C4D, 5, 0, 7) + b"more"
    assert identifiers(send(body + echo(1))) == [7, 1]


def test_noise() -> None:
    rnd = random.Random(3)
    for _ in range(20):
        noise = bytearray(rnd.randbytes(rnd.randrange(400)) + echo(7) * 3 + build(START_REQUEST, 1)[0])
        noise[rnd.randrange(len(noise))] ^= 1 << rnd.randrange(8)
        send(bytes(noise))


def calls(name: str) -> list[tuple[int, int, int]]:
    path = next((path for path in captures() if path.name == name), None)
    if path is None:
        pytest.skip("not in this corpus")
    result = run_capture(real(), path)
    assert losses(result) == {}
    return [(e.values["type"], e.values["call_id"], e.values["peer_call_id"]) for e in result.named("control")]


@cache
def real() -> CompiledStack:
    return watch_all(find_stack("pptp"), ("pptp", "control"), ("pptp", "lost"))


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name, expected",
    [
        ("gen__pptp_plain.pcap", [(1, 0, 0), (2, 0, 0), (7, 18996, 0), (8, 0, 18996), (12, 18996, 0)]),
        ("epiecs_packetlife-backup__PPTP_negotiation.pcap", [(1, 0, 0), (2, 0, 0), (7, 1, 0), (8, 24, 1)]),
        ("ntop_PF_RING__pptp.pcap", [(1, 0, 0), (2, 0, 0), (7, 0, 0), (8, 0, 0), (15, 0, 0)]),
    ],
)
def test_real_connections(name: str, expected: list[tuple[int, int, int]]) -> None:
    assert calls(name) == expected
