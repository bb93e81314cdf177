"""IGMP of three versions: queries, reports, leaves, each record of a report of version 3; and ESP, which is opaque."""

from __future__ import annotations

import random
import struct

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.igmp import igmp_parser, igmp_record_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.stacks.everything import DEPTH, RECORDS
from tests.support.packets import A4, B4, checksum, eth, ip4, ip6
from tests.support.run import Result, run, watch_all
from tests.support.stacks import all_protocols

IGMP, ESP = 2, 50
GROUP = bytes([239, 1, 2, 3])
SOURCES = bytes([10, 0, 0, 1, 10, 0, 0, 2])


def igmp(kind: int, rest: bytes, response: int = 0) -> bytes:
    head = bytes([kind, response])
    return head + struct.pack(">H", checksum(head + bytes(2) + rest)) + rest


def record(kind: int, group: bytes, sources: bytes = b"", auxiliary: bytes = b"") -> bytes:
    return struct.pack(">BBH", kind, len(auxiliary) // 4, len(sources) // 4) + group + sources + auxiliary


def report(*records: bytes, count: int | None = None) -> bytes:
    return igmp(0x22, struct.pack(">HH", 0, len(records) if count is None else count) + b"".join(records))


def send(*messages: bytes, stack: CompiledStack | None = None) -> Result:
    return run(stack or all_protocols(), [eth(ip4(message, IGMP)) for message in messages])


def told(result: Result) -> list[tuple[int, int, bytes, bytes]]:
    return [
        (seen.values["type"], seen.values["kind"], seen.values["group"].to_bytes(4, "big"), seen.values["sources"])
        for seen in result.named("membership")
    ]


@pytest.mark.parametrize("kind", [0x11, 0x12, 0x16, 0x17])
def test_versions_1_and_2(kind: int) -> None:
    result = send(igmp(kind, GROUP, 100))
    assert told(result) == [(kind, 0, GROUP, b"")]
    assert result.row["proto"] == "2" and result.row["layers"] == "eth/ipv4/igmp"


@pytest.mark.parametrize("sources", [b"", SOURCES])
def test_query_of_version_3(sources: bytes) -> None:
    body = GROUP + struct.pack(">BBH", 0x0A, 125, len(sources) // 4) + sources
    assert told(send(igmp(0x11, body))) == [(0x11, 0, GROUP, sources)]


def test_report_of_version_3() -> None:
    other = bytes([239, 9, 9, 9])
    result = send(report(record(4, GROUP), record(6, other, SOURCES, b"auxiliary..."), record(3, GROUP, SOURCES[:4])))
    assert told(result) == [(0x22, 4, GROUP, b""), (0x22, 6, other, SOURCES), (0x22, 3, GROUP, SOURCES[:4])]
    assert told(send(report())) == []
    assert told(send(report(record(4, GROUP)) + b"more")) == [(0x22, 4, GROUP, b"")]


def test_what_is_too_short() -> None:
    for message in (igmp(0x16, GROUP[:3]), igmp(0x22, bytes(3)), b"\x11\0\0"):
        assert send(message).count("igmp", "malformed:header too short") == 1
    lying = GROUP + struct.pack(">BBH", 0, 0, 9) + SOURCES
    assert send(igmp(0x11, lying)).count("igmp", "malformed:header too short") == 1
    for rest in (b"", b"\x04\0\0"):
        result = send(report(record(4, GROUP), rest, count=2))
        assert len(told(result)) == 1 and result.count("igmp_record", "malformed:header too short") == 1


def test_as_many_records_as_the_stack_allows() -> None:
    result = send(report(*[record(4, GROUP)] * 500))
    assert len(told(result)) == DEPTH + RECORDS - 3 and result.counters["box"]["too many records"] == 1
    assert result.counters["box"]["too deep"] == 0


def test_other_types_are_a_conversation_only() -> None:
    result = send(igmp(0x13, b"dvmrp"))
    assert told(result) == [] and result.row["proto"] == "2"


def checking() -> CompiledStack:
    """The layers of IGMP alone, whose checksums are verified."""
    s = Stack("checking")
    s.eth, s.ipv4, s.igmp, s.igmp_record = ethernet_parser(), ipv4_parser(), igmp_parser(), igmp_record_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.ipv4 >> s.igmp) + Pred(s.ipv4.header.protocol == IGMP)
    s += (s.igmp >> s.igmp_record) + Pred(s.igmp.header.records != 0)
    s += (s.igmp_record >> s.igmp_record) + Pred(s.igmp_record.temp.records != 0)
    return watch_all(s, ("igmp", "membership"), ("igmp_record", "membership"), options=["checksums"])


def test_checksum() -> None:
    good, bad = igmp(0x16, GROUP), bytearray(igmp(0x16, GROUP))
    bad[2] ^= 1
    result = send(good, bytes(bad), stack=checking())
    assert result.count("igmp", "malformed:checksum") == 1 and len(told(result)) == 1
    assert len(told(send(bytes(bad)))) == 1


def test_noise() -> None:
    rnd = random.Random(2)
    messages: list[bytes] = []
    for _ in range(2000):
        message = bytearray(report(record(4, GROUP, SOURCES), record(1, GROUP)))
        for _ in range(rnd.randrange(1, 5)):
            message[rnd.randrange(len(message))] = rnd.randrange(256)
        messages.append(bytes(message[: rnd.randrange(len(message) + 1)]))
    send(*messages)


def test_esp_is_a_conversation_of_two_hosts() -> None:
    def esp(spi: int, number: int) -> bytes:
        return struct.pack(">II", spi, number) + b"opaque"

    there, back = ip4(esp(7, 1), ESP), ip4(esp(9, 1), ESP, B4, A4)
    result = run(all_protocols(), [eth(there), eth(back), eth(ip4(esp(7, 2), ESP)), eth(ip6(esp(7, 1), ESP))])
    assert [(row["proto"], row["layers"], row["src_pkts"], row["dst_pkts"]) for row in result.rows] == [
        ("50", "eth/ipv4/esp", 2, 1),
        ("50", "eth/ipv6/esp", 1, 0),
    ]
    assert [row["src_payload"] for row in result.rows] == [12, 6]
    result = run(all_protocols(), [eth(ip4(esp(7, 1)[:7], ESP))])
    assert result.count("esp", "malformed:header too short") == 1
