"""flow_log: the order of rows, its bounds, whose ends a row names."""

import json
import struct
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, RunError, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Bit, ConnectionOriented, Pred, Stack, UInt, layout
from sluice.protocols.ethernet import ethernet_parser
from sluice.stacks.tcp_ip import tcp_ip
from tests.support.connection import Host, handshake, pair
from tests.support.packets import A4, B4, B6, UDP, eth, ip4, ip6, udp

SECOND = 10**9
Row = dict[str, Any]


def logging(stack: Stack) -> CompiledStack:
    return compile_stack(stack, tuple(find_functions(["flow_log"]).c))


@cache
def whole() -> CompiledStack:
    return logging(tcp_ip())


def log(
    out: Path, frames: Iterable[tuple[float, bytes]], options: str = "", compiled: CompiledStack | None = None
) -> tuple[list[Row], dict[str, int]]:
    """Rows and reports of frames at their times, in seconds."""
    with Box(compiled or whole(), Settings(seed=1, max_instances=1 << 10), [], [f"{options}out={out}"]) as box:
        for time, frame in frames:
            box.packet(frame, int(time * SECOND))
        box.finish()
        reports = box.reports()
    return [json.loads(line) for line in out.read_text().splitlines()], reports


def ports(rows: list[Row]) -> list[int]:
    return [row["sport"] for row in rows]


# --- order ------


def datagram(port: int) -> bytes:
    return eth(ip4(udp(port, 9), UDP))


TRAFFIC = [(time, datagram(1)) for time in range(0, 1000, 40)]  # a flow that does not end
TRAFFIC = sorted([*TRAFFIC, *((100.0 * n + 5, datagram(n)) for n in range(2, 10))])


def test_rows_wait_for_those_of_flows_that_began_earlier(tmp_path: Path) -> None:
    rows, reports = log(tmp_path / "rows", TRAFFIC)
    assert ports(rows) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert reports == {"flows": 9}


def test_beyond_the_bound_the_earliest_that_waits_is_written(tmp_path: Path) -> None:
    """The flow that never ends holds back no more than the bound says; its own row is the only one that comes late."""
    rows, reports = log(tmp_path / "rows", TRAFFIC, "rows=3,")
    assert ports(rows) == [2, 3, 4, 5, 6, 7, 1, 8, 9]
    assert reports == {"flows": 9, "flows out of order": 1}
    whole_rows, _ = log(tmp_path / "rows", TRAFFIC)
    assert sorted(ports(rows)) == ports(whole_rows)


def test_a_row_is_written_when_its_turn_comes(tmp_path: Path) -> None:
    """Not at the end of input: what is in the file before it, the C library's buffer has been full of."""
    out = tmp_path / "rows"
    with Box(whole(), Settings(seed=1, max_instances=1 << 10), [], [f"out={out}"]) as box:
        for n in range(1, 5000):
            box.packet(datagram(n), n * SECOND)
        assert len(out.read_text().splitlines()) > 2500
        box.finish()
    assert ports([json.loads(line) for line in out.read_text().splitlines()]) == list(range(1, 5000))


# --- gaps ------


def holed(port: int, holes: int) -> list[bytes]:
    """A connection in whose first stream every second byte is missing."""
    client, server = pair(port=port)
    return [*handshake(client, server), *(client.at(2 * n + 1, b"x") for n in range(holes))]


def in_turn(*connections: list[bytes]) -> list[tuple[float, bytes]]:
    return [(0, frame) for frames in connections for frame in frames]


def test_gaps_of_a_row_are_bounded_and_counted(tmp_path: Path) -> None:
    rows, reports = log(tmp_path / "rows", in_turn(holed(1, 5), holed(2, 2)), "holes=2,")
    assert [[gap["offset"] for gap in row["gaps"]] for row in rows] == [[0, 2], [0, 2]]
    assert rows[0]["gaps_left_out"] == reports["gaps left out"] == 3
    assert "gaps_left_out" not in rows[1]
    assert rows[0]["src_after_gap"] == 5


def test_gaps_of_all_rows_are_bounded_together(tmp_path: Path) -> None:
    frames = [(0.0, datagram(9)), *in_turn(holed(1, 5), holed(2, 5))]
    rows, reports = log(tmp_path / "rows", frames, "all_holes=7,")
    assert [len(row["gaps"] or []) for row in rows] == [0, 5, 2]  # the first one keeps the others waiting
    assert rows[2]["gaps_left_out"] == reports["gaps left out"] == 3


# --- options ------


@pytest.mark.parametrize("options", ["rows=x", "rows=-1", "holes=", "row=1", "rows=1;holes=2", "nonsense"])
def test_wrong_options(capfd: pytest.CaptureFixture[str], options: str) -> None:
    with pytest.raises(RunError, match="a function refused"):
        Box(whole(), Settings(max_instances=1 << 10), [], [options])
    assert "flow_log: '" in capfd.readouterr().err


def test_without_libcrypto_it_says_what_to_install(capfd: pytest.CaptureFixture[str]) -> None:
    (function,) = find_functions(["flow_log"]).c
    text = f'#define SL_DIGEST_LIBRARIES "libnone.so.1"\n{function.text}'
    with pytest.raises(RunError, match="a function refused"):
        Box(compile_stack(talk(narrow_hdr), (replace(function, text=text),)), Settings(max_instances=1 << 10), [], [""])
    said = capfd.readouterr().err
    assert "libcrypto" in said and "apt install libssl3" in said


# --- ends ------


class narrow_hdr(layout):
    station = Bit(32)
    mate = Bit(32)
    from_port = UInt(16)
    to_port = UInt(16)


class wide_hdr(layout):
    station = Bit(80)
    mate = Bit(80)


def talk(header: type[layout]) -> Stack:
    """A protocol of the user's, right over Ethernet, whose fields have names of the user's."""
    talk = ConnectionOriented("talk")
    talk.header = header
    own, other = [talk.header.station], [talk.header.mate]
    if header is narrow_hdr:
        own.append(talk.header.from_port)
        other.append(talk.header.to_port)
    talk.selector = own, other
    stack = Stack("talk")
    stack.eth, stack.talk = ethernet_parser(), talk
    stack += (stack.eth >> stack.talk) + Pred(1)
    return stack


def test_ends_are_found_by_position_where_names_are_the_users(tmp_path: Path) -> None:
    head = bytes(12) + b"\x90\x00"
    there = head + A4 + B4 + bytes([0, 7, 0, 9])
    back = head + B4 + A4 + bytes([0, 9, 0, 7])
    (row,), _ = log(tmp_path / "rows", [(0, there), (1, back)], compiled=logging(talk(narrow_hdr)))
    assert (row["src"], row["sport"], row["dst"], row["dport"]) == ("10.0.0.1", 7, "10.0.0.2", 9)
    assert (row["src_pkts"], row["dst_pkts"], row["proto"], row["syn"]) == (1, 1, "talk", None)


def test_an_address_that_is_none_of_ip_is_hexadecimal(tmp_path: Path) -> None:
    frame = bytes(12) + b"\x90\x00" + bytes(range(1, 11)) + bytes(range(11, 21))
    (row,), _ = log(tmp_path / "rows", [(0, frame)], compiled=logging(talk(wide_hdr)))
    assert (row["src"], row["sport"]) == ("0102030405060708090a", None)
    assert (row["dst"], row["dport"]) == ("0b0c0d0e0f1011121314", None)


def icmp(kind: int, rest: bytes, back: bool = False) -> bytes:
    message = struct.pack(">BBH", kind, 0, 0) + rest
    return eth(ip4(message, 1, *((B4, A4) if back else (A4, B4))))


def echo(id: int) -> bytes:
    return struct.pack(">HH", id, 1) + b"data"


def test_echoes_pair_with_their_replies_and_errors_with_the_flow_that_they_are_about(tmp_path: Path) -> None:
    quotes = [bytes(4) + ip4(udp(1, port), UDP) for port in (2, 3, 2)]
    frames = [
        icmp(8, echo(7)),
        icmp(8, echo(7), back=True),  # the other host asks, with the same identifier
        icmp(0, echo(7), back=True),
        icmp(0, echo(7)),
        *(icmp(3, quote, back=True) for quote in quotes),
    ]
    rows, _ = log(tmp_path / "rows", [(0, frame) for frame in frames])
    keys = ("src", "icmp_type", "icmp_id", "src_pkts", "dst_pkts", "sport", "dport")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("10.0.0.1", 8, 7, 1, 1, None, None),
        ("10.0.0.2", 8, 7, 1, 1, None, None),
        ("10.0.0.2", 3, None, 2, 0, None, None),
        ("10.0.0.2", 3, None, 1, 0, None, None),
    ]
    assert rows[2]["src_payload"] == 2 * (4 + 28)


def test_when_both_ends_are_equal_all_packets_are_the_sources(tmp_path: Path) -> None:
    one, other = Host(A4, 7, 100), Host(A4, 7, 500)
    one.peer, other.peer = other, one
    frames = [one.send("S"), other.send("SA"), eth(ip4(udp(5, 5), UDP, B4, B4)), eth(ip6(udp(5, 5), UDP, B6, B6))]
    ping = [struct.pack(">BBHHH", kind, 0, 0, 1, 1) for kind in (8, 0, 128, 129)]
    frames += [eth(ip4(message, 1, A4, A4)) for message in ping[:2]]
    frames += [eth(ip6(message, 58, B6, B6)) for message in ping[2:]]
    rows, _ = log(tmp_path / "rows", [(0, frame) for frame in frames])
    assert [(row["src"], row["src_pkts"], row["dst_pkts"]) for row in rows] == [
        ("10.0.0.1", 2, 0), ("10.0.0.2", 1, 0), ("2001:db8::2", 1, 0), ("10.0.0.1", 2, 0), ("2001:db8::2", 2, 0),
    ]  # fmt: skip
