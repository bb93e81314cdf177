"""Captures with a small snap length: what the headers tell makes rows; only the bytes are unknown."""

from __future__ import annotations

import struct

import pytest

from sluice.stacks.sctp import sctp
from tests.support.packets import TCP, UDP, eth, fragments4, fragments6, ip4, tcp, udp
from tests.support.run import Result, run, watch_all
from tests.support.stacks import checking, whole

ETHERNET_IP = 14 + 20


def cut(frames: list[bytes], size: int) -> list[tuple[bytes, int]]:
    return [(frame[:size], len(frame)) for frame in frames]


def seen(frames: list[bytes], size: int) -> Result:
    return run(whole(), cut(frames, size))


@pytest.mark.parametrize("fragments", [fragments4, fragments6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_fragments_count_by_their_ip_lengths(fragments, order: tuple[int, ...]) -> None:
    frames = fragments(udp(1, 2, bytes(1200)), 400, 400, protocol=UDP)
    result = seen([frames[number] for number in order], 96)
    assert result.row["src_payload"] == 1200


def test_what_was_captured_before_the_first_missing_byte_is_known() -> None:
    frames = fragments4(tcp(1, 2, 99, "A", bytes(range(200))), 120, protocol=TCP)
    result = seen(frames, ETHERNET_IP + 60)
    assert result.row["src_payload"] == 200
    assert result.stream(1) == bytes(range(40))


def test_a_fragment_that_is_whole_replaces_one_that_was_cut() -> None:
    frames = fragments4(tcp(1, 2, 99, "A", bytes(range(200))), 120, protocol=TCP)
    result = run(whole(), [(frames[0][:70], len(frames[0])), frames[0], frames[1]])
    assert result.stream(1) == bytes(range(200))


SEGMENT = eth(ip4(tcp(1000, 80, 100, "A", b"hello" * 4, options=bytes(12)), TCP))


@pytest.mark.parametrize("captured", range(14, 33))
def test_tcp_needs_ports_numbers_and_flags(captured: int) -> None:
    result = seen([SEGMENT], ETHERNET_IP + captured)
    row = result.row
    assert (row["src_pkts"], row["src_payload"]) == (1, 20)
    assert row["gaps"] == [{"side": "src", "offset": 0, "length": 20, "cause": "snaplen"}]


def test_a_shorter_header_is_counted_as_cut() -> None:
    result = seen([SEGMENT], ETHERNET_IP + 13)
    assert result.rows == [] and result.count("tcp", "cut:header") == 1 and result.count("tcp") == 1


def test_the_packet_is_counted_once() -> None:
    result = seen([SEGMENT], ETHERNET_IP + 14)
    assert result.count("tcp") == 1 and result.count("tcp", "bytes") == 52


def test_a_header_that_ends_early_on_the_wire_is_malformed() -> None:
    result = run(whole(), [eth(ip4(tcp(1000, 80, 100, "A")[:16], TCP))])
    assert result.rows == [] and result.count("tcp", "malformed:header too short") == 1


@pytest.mark.parametrize("captured", range(4, 8))
def test_udp_needs_its_ports(captured: int) -> None:
    row = seen([eth(ip4(udp(1000, 80, b"abc"), UDP))], ETHERNET_IP + captured).row
    assert (row["src_pkts"], row["src_payload"]) == (1, 3)


def test_no_checksum_is_taken_for_wrong_because_it_was_cut() -> None:
    for segment, rows in ((SEGMENT, 1), (eth(ip4(tcp(1000, 80, 100, "A"), TCP)), 0)):
        result = run(checking(), cut([segment], ETHERNET_IP + 14))
        assert len(result.rows) == rows and result.count("tcp", "malformed:checksum") == 0


def test_a_tcp_header_length_below_20_is_counted_as_such() -> None:
    for words in range(5):
        segment = bytearray(tcp(1000, 80, 100, "A", b"data"))
        segment[12] = words << 4
        result = run(whole(), [eth(ip4(bytes(segment), TCP))])
        assert result.count("tcp", "malformed:header length") == 1


def test_sctp_packets_without_chunks_have_a_row() -> None:
    packet = eth(ip4(struct.pack(">HHII", 7, 9, 1, 0), 132))
    (row,) = run(watch_all(sctp()), [packet, packet]).rows
    assert (row["proto"], row["sport"], row["dport"], row["src_pkts"]) == ("sctp", 7, 9, 2)
