"""dnslog: pairs, retries, what records say, and what hostile messages come to."""

from __future__ import annotations

import struct

import pytest

from tests.functions.logs.boxes import Logs, connection, needs_parsers, run_packets
from tests.support.packets import A4, B4, eth, ip4, udp

pytestmark = needs_parsers

NAME = b"\x03www\x07example\x00"
MULTICAST = bytes([224, 0, 0, 251])


def header(id: int = 7, flags: int = 0x0100, *counts: int) -> bytes:
    return struct.pack(">6H", id, flags, *(*counts, 0, 0, 0, 0)[:4])


def query(id: int = 7, name: bytes = NAME, kind: int = 1) -> bytes:
    return header(id, 0x0100, 1) + name + struct.pack(">2H", kind, 1)


def record(kind: int, data: bytes, name: bytes = b"\xc0\x0c", ttl: int = 60) -> bytes:
    return name + struct.pack(">2HIH", kind, 1, ttl, len(data)) + data


def response(*records: bytes, id: int = 7, flags: int = 0x8180, more: int = 0) -> bytes:
    return header(id, flags, 1, len(records) - more, 0, more) + NAME + struct.pack(">2H", 1, 1) + b"".join(records)


def ask(message: bytes, port: int = 53, back: bool = False, sport: int = 40000) -> bytes:
    ports, ends = ((port, sport), (B4, A4)) if back else ((sport, port), (A4, B4))
    return eth(ip4(udp(*ports, message), 17, *ends))


def run(*packets: bytes, parameters: str = "") -> Logs:
    return run_packets(packets, {"dnslog": parameters})


def test_a_query_is_paired_with_its_response() -> None:
    (row,) = run(ask(query()), ask(response(record(1, bytes([10, 0, 0, 1]))), back=True))["dnslog"]
    assert (row["query"], row["qtype"], row["rcode"], row["delay"]) == ("www.example", "A", "NOERROR", "0.001000000")
    assert row["answers"] == [{"name": "www.example", "type": "A", "ttl": 60, "data": "10.0.0.1"}]
    assert (row["src"], row["dport"]) == ("10.0.0.1", 53)


def test_a_response_may_be_captured_first() -> None:
    (row,) = run(ask(response(), back=True), ask(query()))["dnslog"]
    assert (row["request"], row["response"], row["delay"], row["dport"]) == (True, True, "0.000000000", 53)


def test_the_same_query_again_is_a_retry() -> None:
    (row,) = run(ask(query()), ask(query()), ask(query()), ask(response(flags=0x8183), back=True))["dnslog"]
    assert (row["retries"], row["rcode"], row["delay"]) == (2, "NXDOMAIN", "0.001000000")


def test_names_are_equal_in_either_case() -> None:
    (row,) = run(ask(query(name=b"\x03WwW\x07eXample\x00")), ask(response(), back=True))["dnslog"]
    assert row["request"] and row["response"]


def test_what_has_no_counterpart_is_a_row() -> None:
    found = run(ask(query(1)), ask(response(id=2), back=True))["dnslog"]
    assert [(row["id"], row["request"], row["response"]) for row in found] == [(1, True, False), (2, False, True)]


def test_truncation_and_edns() -> None:
    options = b"\x00" + struct.pack(">2HIH", 41, 1232, 0x01008000, 0)
    (row,) = run(ask(query()), ask(response(options, flags=0x8380, more=1), back=True))["dnslog"]
    assert row["truncated"] and row["edns"] == {"version": 0, "udp_size": 1232, "dnssec_ok": True}
    assert (row["rcode"], row["additionals"]) == ("BADVERS", [])


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (28, bytes(15) + b"\1", "::1"),
        (5, b"\1a\xc0\x10", "a.example"),
        (15, b"\0\x0a\xc0\x10", "10 example"),
        (33, struct.pack(">3H", 1, 2, 443) + b"\0", "1 2 443 ."),
        (6, b"\xc0\x0c\xc0\x10" + struct.pack(">5I", 1, 2, 3, 4, 5), "www.example example 1 2 3 4 5"),
        (16, b"\2ab\1c", "ab c"),
        (1, b"\1\2", "\\# 2 0102"),
        (65, b"\0\1\0", "\\# 3 000100"),
        (12, b"\4a.b\xff\0", "a\\.b\\255"),
    ],
)
def test_data_of_records(kind: int, data: bytes, text: str) -> None:
    (row,) = run(ask(query()), ask(response(record(kind, data)), back=True))["dnslog"]
    assert row["answers"][0]["data"] == text


def test_messages_over_tcp_are_found_in_the_stream() -> None:
    messages = b"".join(struct.pack(">H", len(message)) + message for message in (query(1), query(2)))
    answers = b"".join(struct.pack(">H", len(message)) + message for message in (response(id=2), response(id=1)))
    found = run_packets(connection([(">", messages), ("<", answers)], 5, port=53))["dnslog"]
    assert [(row["id"], row["proto"], row["response"]) for row in found] == [(2, "tcp", True), (1, "tcp", True)]


def test_each_message_of_mdns_is_a_row() -> None:
    packets = [eth(ip4(udp(5353, 5353, message), 17, A4, MULTICAST)) for message in (query(0), response(id=0))]
    found = run(*packets)["dnslog"]
    assert [(row["proto"], row["src"], row["response"]) for row in found] == [
        ("mdns", "10.0.0.1", False),
        ("mdns", "10.0.0.1", True),
    ]


def test_dns_is_found_on_other_ports_but_not_in_anything() -> None:
    assert [row["dport"] for row in run(ask(query(), 4000))["dnslog"]] == [4000]
    assert run(ask(query() + b"x", 4000), ask(bytes(200), 4001), ask(query(), 137))["dnslog"] == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (b"\xc0\x0c", "compression pointer"),
        (b"\1a\xc0\x0c", "compression pointer"),
        (b"\1a\xc0\xff", "compression pointer"),
        (b"\x40", "label type"),
        (b"\x3f" + b"a" * 63, "short"),
        ((b"\x3f" + b"a" * 63) * 4 + b"\0", "name too long"),
    ],
)
def test_hostile_names_end_with_a_reason(name: bytes, reason: str) -> None:
    logs = run(ask(header(7, 0x0100, 1) + name))
    (row,) = logs["dnslog"]
    assert row["malformed"] == reason and logs.reports["dns_malformed"] == 1


def test_a_message_of_64_kib_is_read() -> None:
    records = [record(16, b"\xff" + b"x" * 255) for _ in range(200)]
    message = response(*records)
    talk = [("<", struct.pack(">H", len(message)) + message)]
    (row,) = run_packets(connection(talk, port=53))["dnslog"]
    assert len(row["answers"]) == 200
    (row,) = run_packets(connection(talk, port=53), {"dnslog": ",answers=3"})["dnslog"]
    assert len(row["answers"]) == 3 and row["answers_left_out"]


def test_queries_that_wait_are_bounded() -> None:
    logs = run(*(ask(query(id)) for id in range(10)), parameters=",queries=4")
    assert len(logs["dnslog"]) == 10 and logs.reports["dns_early"] == 6
    logs = run(*(ask(query(id), sport=1000 + id) for id in range(10)), parameters=",all_queries=4")
    assert len(logs["dnslog"]) == 10 and logs.reports["dns_early"] == 6


def test_memory_is_bounded() -> None:
    logs = run(*(ask(query(id), sport=1000 + id) for id in range(10)), parameters=",memory=500")
    assert len(logs["dnslog"]) == 10 and 0 < logs.reports["dns_early"] < 10
    stream = struct.pack(">H", 5000) + bytes(4000)
    assert run_packets(connection([(">", stream)], port=53), {"dnslog": ",memory=2000"}).reports["dns_no_memory"] == 1


def test_what_is_no_message_is_counted() -> None:
    logs = run(ask(b"short"))
    assert logs["dnslog"] == [] and logs.reports["dns_not_dns"] == 1
