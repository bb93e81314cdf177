"""DNS over UDP and TCP: header, questions and records in their order, names as they stand, and what is no message."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from scapy.layers.dns import DNS

from sluice.engine.box import CompiledStack, Settings
from sluice.lang import Stack
from sluice.protocols.dns import dns_parser
from sluice.stacks.everything import DEPTH, RECORDS
from tests.support.connection import goodbye, handshake, pair
from tests.support.corpus import captures, truth
from tests.support.fields import tell_fields
from tests.support.packets import eth, ip4, udp
from tests.support.run import Result, run, run_capture, watch_all
from tests.support.stacks import all_protocols

UDP_LAYERS = 3
"""Ethernet, IP and UDP, below a message."""
MOST = DEPTH + RECORDS - UDP_LAYERS - 1
"""Records that a message has at most."""


def stack() -> CompiledStack:
    return all_protocols()


def name(text: str) -> bytes:
    parts = [part.encode() for part in text.split(".") if part]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def pointer(offset: int) -> bytes:
    return struct.pack(">H", 0xC000 | offset)


def question(text: bytes, kind: int = 1, class_: int = 1) -> bytes:
    return text + struct.pack(">HH", kind, class_)


def record(text: bytes, kind: int = 1, data: bytes = b"\x0a\0\0\1", ttl: int = 60, class_: int = 1) -> bytes:
    return text + struct.pack(">HHIH", kind, class_, ttl, len(data)) + data


def message(
    questions: list[bytes],
    answers: list[bytes] | None = None,
    authorities: list[bytes] | None = None,
    additionals: list[bytes] | None = None,
    id: int = 77,
    flags: int = 0x0100,
) -> bytes:
    sections = [questions, answers or [], authorities or [], additionals or []]
    head = struct.pack(">HHHHHH", id, flags, *map(len, sections))
    return head + b"".join(b"".join(section) for section in sections)


def in_udp(body: bytes, sport: int = 40000, dport: int = 53) -> bytes:
    return eth(ip4(udp(sport, dport, body), 17))


def over_udp(*bodies: bytes) -> Result:
    return run(stack(), [in_udp(body) for body in bodies])


def over_tcp(*pieces: bytes) -> Result:
    client, server = pair()
    client.port = 53
    return run(stack(), [*handshake(client, server), *(client.data(p) for p in pieces), *goodbye(client, server)])


def framed(body: bytes) -> bytes:
    return struct.pack(">H", len(body)) + body


def told(result: Result, event: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(seen.values[name] for name in names) for seen in result.named(event)]


def records(result: Result) -> list[tuple[int, bytes]]:
    return told(result, "answered", "section", "data")


EXAMPLE = message(
    [question(name("www.example.org"), 28)],
    [record(pointer(12), 5, b"\x03web\xc0\x10", 300), record(b"\x03web" + pointer(16), 28, bytes(range(16)))],
    [record(pointer(16), 2, name("ns.example.org"))],
    [record(b"\0", 41, b"\0\x0a\0\x02ab", 0x8000, 1232)],
    id=0x1234,
    flags=0x8180,
)


def test_questions_and_records_in_their_order() -> None:
    for result in (over_udp(EXAMPLE), over_tcp(framed(EXAMPLE))):
        assert told(result, "message", "id", "response", "opcode", "rcode", "bytes") == [(0x1234, 1, 0, 0, EXAMPLE)]
        assert told(result, "asked", "id", "response", "name", "type", "class_") == [
            (0x1234, 1, name("www.example.org"), 28, 1)
        ]
        assert told(result, "answered", "id", "section", "name", "type", "class_", "ttl", "data") == [
            (0x1234, 1, pointer(12), 5, 1, 300, b"\x03web\xc0\x10"),
            (0x1234, 1, b"\x03web" + pointer(16), 28, 1, 60, bytes(range(16))),
            (0x1234, 2, pointer(16), 2, 1, 60, name("ns.example.org")),
            (0x1234, 3, b"\0", 41, 1232, 0x8000, b"\0\x0a\0\x02ab"),
        ]
        order = [seen.name for seen in result.named("message", "asked", "answered")]
        assert order == ["message", "asked", *["answered"] * 4]


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 1), (2, 0, 3, 0), (0, 0, 0, 2), (3, 2, 2, 3)])
def test_sections(counts: tuple[int, int, int, int]) -> None:
    parts = [[bytes([section, at]) for at in range(count)] for section, count in enumerate(counts)]
    asked = [question(b"\x02" + part + b"\0") for part in parts[0]]
    answers, authorities, additionals = ([record(b"\0", 16, part) for part in section] for section in parts[1:])
    result = over_udp(message(asked, answers, authorities, additionals))
    assert told(result, "asked", "name") == [(b"\x02" + part + b"\0",) for part in parts[0]]
    assert records(result) == [(number, part) for number in (1, 2, 3) for part in parts[number]]


def test_header() -> None:
    """Every bit of it, by its name."""
    s: Any = Stack("header")
    s.dns = tell_fields(dns_parser())
    made = watch_all(s, ("dns", "fields"))
    rnd = random.Random(1)
    for _ in range(20):
        words = [rnd.getrandbits(16) for _ in range(6)]
        (seen,) = run(made, [struct.pack(">6H", *words)]).named("fields")
        flags = words[1]
        assert seen.values == {
            "id": words[0],
            "response": flags >> 15,
            "opcode": flags >> 11 & 15,
            "authoritative": flags >> 10 & 1,
            "truncated": flags >> 9 & 1,
            "recursion_desired": flags >> 8 & 1,
            "recursion_available": flags >> 7 & 1,
            "reserved": flags >> 6 & 1,
            "authentic": flags >> 5 & 1,
            "checking_disabled": flags >> 4 & 1,
            "rcode": flags & 15,
            "questions": words[2],
            "answers": words[3],
            "authorities": words[4],
            "additionals": words[5],
        }


LONG = b"".join(b"\x3f" + b"x" * 63 for _ in range(3))


@pytest.mark.parametrize(
    "text",
    [b"\0", name("a"), name("a.b.c"), pointer(12), b"\x01a" + pointer(0x3FFF), LONG + b"\x3d" + b"x" * 61 + b"\0"],
)
def test_names(text: bytes) -> None:
    result = over_udp(message([question(text, 1, 9)], [record(text)]))
    assert told(result, "asked", "name", "type", "class_") == [(text, 1, 9)]
    assert told(result, "answered", "name", "data") == [(text, b"\x0a\0\0\1")]


@pytest.mark.parametrize(
    "text, reason",
    [
        (b"\x41a\0", "name"),
        (b"\x80", "name"),
        (b"\x01a\x7f\0", "name"),
        (b"\x3fshort", "name"),
        (LONG + b"\x3e" + b"x" * 62 + b"\0", "long name"),
    ],
)
def test_names_that_are_none(text: bytes, reason: str) -> None:
    result = over_udp(message([question(text)]))
    assert result.count("dns_question", f"malformed:{reason}") == 1
    assert not result.named("asked")
    result = over_udp(message([], [record(text, 16, b"")]))
    outcomes = [f"malformed:{reason}", "malformed:header too short"]  # the length after it may be nonsense
    assert sum(result.count("dns_record", outcome) for outcome in outcomes) == 1
    assert not result.named("answered")


def test_more_announced_than_there_is() -> None:
    body = message([question(name("a"))], [record(b"\0")])
    for at, layer in ((5, "dns_question"), (7, "dns_record")):
        lying = bytearray(body)
        lying[at] = 9
        assert over_udp(bytes(lying)).count(layer, "malformed:header too short") == 1
    result = over_udp(message([question(b"\0")], [record(b"\0", 16, b"whole")]) + b"behind the records")
    assert records(result) == [(1, b"whole")] and result.count("dns_record", "ended") == 1


@pytest.mark.parametrize("count", [1, MOST, MOST + 1, 4000])
def test_as_many_records_as_the_stack_allows(count: int) -> None:
    result = over_udp(message([], [record(b"\0", 16, b"")] * count))
    assert len(records(result)) == min(count, MOST)
    assert result.counters["box"]["too many records"] == (count > MOST)
    assert result.counters["box"]["too deep"] == 0


def test_a_box_may_allow_other_numbers_of_records() -> None:
    """Each number of layers and of records, whatever the stack says."""
    body = udp(4000, 53, message([question(name("a"))], [record(b"\0", 16, b"")] * 400))
    for depth, most in ((16, 1), (20, 30), (200, 55), (200, 200)):
        result = run(stack(), [eth(ip4(body, 17))], settings=Settings(seed=1, depth=depth, records=most))
        assert len(records(result)) == min(depth + most, 255) - UDP_LAYERS - 2
        assert result.counters["box"]["too many records"] == 1


def test_over_tcp_cut_at_every_byte() -> None:
    other = message([question(name("b"))], id=2)
    stream = framed(EXAMPLE) + framed(other)
    for cut in range(1, len(stream)):
        result = over_tcp(stream[:cut], stream[cut:])
        assert told(result, "message", "id", "bytes") == [(0x1234, EXAMPLE), (2, other)]
        assert len(records(result)) == 4 and not result.named("lost")


def test_over_tcp_many_and_in_pieces() -> None:
    bodies = [message([question(name(f"host{number}"))], id=number) for number in range(40)]
    stream = b"".join(map(framed, bodies))
    for size in (1, 7, 100, len(stream)):
        result = over_tcp(*(stream[at : at + size] for at in range(0, len(stream), size)))
        assert told(result, "message", "id", "bytes") == list(enumerate(bodies))


def test_the_longest_over_tcp() -> None:
    body = message([], [record(b"\0", 16, bytes(65000))])
    body += bytes(0xFFFF - len(body))
    stream = framed(body) + framed(EXAMPLE)
    result = over_tcp(*(stream[at : at + 1400] for at in range(0, len(stream), 1400)))
    assert told(result, "message", "bytes") == [(body,), (EXAMPLE,)]


def test_an_empty_one_over_tcp() -> None:
    result = over_tcp(framed(b"") + framed(b"short") + framed(EXAMPLE))
    assert result.count("dns", "malformed:header too short") == 2
    assert told(result, "message", "id") == [(0x1234,)]


def test_a_stream_that_ends_within_a_message() -> None:
    result = over_tcp(framed(EXAMPLE) + framed(EXAMPLE)[:-1])
    assert len(result.named("message")) == 1 and result.count("dns_stream", "lost:close") == 1


def test_ports() -> None:
    for sport, dport, seen in ((40000, 53, 1), (53, 40000, 1), (5353, 5353, 1), (40000, 5300, 0)):
        result = run(stack(), [in_udp(EXAMPLE, sport, dport)])
        assert len(result.named("message")) == seen


def test_cut_by_the_snap_length_at_every_byte() -> None:
    whole = in_udp(EXAMPLE)
    result = run(stack(), [(whole[:size], len(whole)) for size in range(len(whole))])
    assert result.count("dns", "cut:header") == 12 + 4  # cut in its header, or in UDP's beyond the ports
    assert len(result.named("answered")) > 0


def test_noise() -> None:
    """Whatever stands on the port, nothing is read beyond it, and all is counted."""
    rnd = random.Random(5)
    packets: list[bytes] = []
    for _ in range(3000):
        noise = bytearray(EXAMPLE)
        for _ in range(rnd.randrange(1, 6)):
            noise[rnd.randrange(len(noise))] = rnd.randrange(256)
        packets.append(in_udp(bytes(noise[: rnd.randrange(len(noise) + 1)])))
    packets += [in_udp(rnd.randbytes(rnd.randrange(200))) for _ in range(1000)]
    run(stack(), packets)


WITH_DNS = [
    path
    for path in captures()
    if "fuzz" not in path.name
    and "synscan" not in path.name  # what is on the port there is no DNS
    and any(53 in (flow["a"][1], flow["b"][1]) for flow in truth()[path.name]["udp"] + truth()[path.name]["tcp"])
]


@pytest.mark.corpus
@pytest.mark.parametrize("path", WITH_DNS, ids=lambda path: path.name)
def test_real_messages(path: Any) -> None:
    """What scapy finds in the bytes of each message is what was told of it."""
    result = run_capture(stack(), path)
    expected: list[tuple[int, int, int]] = []
    messages = [seen for seen in result.named("message") if seen.layer.startswith("dns")]
    for seen in messages:
        parsed = DNS(seen.values["bytes"])
        expected += [(parsed.id, 0, item.qtype) for item in parsed.qd or []]
        for section, items in ((1, parsed.an), (2, parsed.ns), (3, parsed.ar)):
            expected += [(parsed.id, section, item.type) for item in items or []]
    found = [
        (seen.values["id"], seen.values.get("section", 0), seen.values["type"])
        for seen in result.named("asked", "answered")
    ]
    assert found == expected and messages
