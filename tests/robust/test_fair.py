"""Fairness under a full pool: the longest holder gives up, and good traffic next to an attack keeps its bytes.

Each attack that fills the memory of held data runs next to good connections. Of four segments, their first comes last.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.events import PythonFunction, Seen
from sluice.engine.functions import READY
from sluice.ir.graph import GAVE_UP
from sluice.ir.hook import Hook
from sluice.lang import Assign, Bit, Callback, Connectionless, Length, Pred, layout
from sluice.stacks.tcp_ip import tcp_ip
from tests.differential.both import REFUSED
from tests.support.connection import pair
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.law import check_law
from tests.support.packets import UDP, eth, fragments4, ip4, tcp, udp
from tests.support.unoptimised import unoptimised

BURST = 32
GOOD_PORT, MESSAGES = 80, 7777
SECOND = 10**9


class head(layout):
    length = Bit(32)


class got(layout):
    body = Bit(999)


@pytest.fixture(scope="module")
def made() -> CompiledStack:
    """TCP/IP with messages on a port, a flow log, and what a run of these tests looks at."""
    stack = tcp_ip()
    m: Any = Connectionless("message")
    m.header = head
    m.message = Length(m.header.length, limit=1 << 17)
    m.event.whole = Assign(got.body, m.payload) + Callback(got)
    stack.message = m
    stack += (stack.tcp >> stack.message) + Pred(stack.tcp.header.dport == MESSAGES)
    flow_log = READY / "flow_log.c"
    functions = (read_c_function("flow_log", flow_log.read_text(), str(flow_log)), REFUSED)
    names = [("tcp", "data"), ("tcp", "gap"), ("message", "whole"), ("message", "lost")]
    with unoptimised():
        return compile_stack(stack, functions, frozenset(Hook(layer, event) for layer, event in names))


class Outcome:
    """What a run came to: streams by the sender's port, gaps and messages, counters summed over a layer's variants."""

    def __init__(self) -> None:
        self.streams: dict[int, bytearray] = {}
        self.gaps: list[tuple[int, str]] = []
        self.bodies: list[bytes] = []
        self.lost: list[str] = []
        self.counters: dict[str, dict[str, int]] = {}
        self.reports: dict[str, int] = {}

    def see(self, event: Seen) -> None:
        if event.name == "data":
            self.streams.setdefault(event.sport, bytearray()).extend(event.bytes)
        elif event.name == "gap":
            self.gaps.append((event.sport, event.cause))
        elif event.name == "whole":
            self.bodies.append(event.body)
        else:
            self.lost.append(event.cause)

    def count(self, name: str, layer: str) -> int:
        return sum(own.get(name, 0) for variant, own in self.counters.items() if variant.startswith(layer))


def run(made: CompiledStack, packets: Iterable[bytes], memory: int, rows: Path | None = None) -> Outcome:
    """Run the packets, one a microsecond, with so much memory; the laws hold."""
    outcome = Outcome()
    handlers = [(hook.layer, hook.event, outcome.see) for hook in made.functions.python]
    settings = Settings(memory=memory, max_instances=1 << 18, timeouts=False, seed=1)
    with Box(made, settings, [PythonFunction("seen", handlers, [])], [f"out={rows or '/dev/null'}", ""]) as box:
        ahead, number = iter(packets), 0
        while burst := list(islice(ahead, BURST)):
            box.burst([(data, SECOND + 1000 * (number + n), 1, None) for n, data in enumerate(burst)])
            number += len(burst)
        box.finish()
        outcome.counters, outcome.reports = box.counters(), box.reports()
    check_conservation(made.program, outcome.counters)
    check_all_ended(made.program, outcome.counters)
    assert outcome.reports["pool left"] == 0
    if rows is not None:
        check_law(json.loads(line) for line in rows.read_text().splitlines())
    return outcome


def beside(good: list[bytes], attack: Iterable[bytes], every: int) -> Iterator[bytes]:
    """One good packet after `every` packets of the attack."""
    waiting = iter(good)
    for number, packet in enumerate(attack):
        if number % every == every - 1:
            yield from islice(waiting, 1)
        yield packet
    yield from waiting


def text(port: int) -> bytes:
    """What the good connection from this port sends."""
    return bytes((port + at * at) % 251 for at in range(20_000))


def good(ports: Iterable[int], reordered: int = 4) -> list[bytes]:
    """Connections, one after the other. Of `reordered` segments each, the first comes last."""
    found: list[bytes] = []
    for port in ports:
        a, b = pair(port=port)
        found += [a.send("S"), b.send("SA"), a.send("A")]
        body = text(port)
        segments = [a.at(at, body[at : at + 500]) for at in range(0, len(body), 500)]
        for at in range(0, len(segments), reordered):
            first, *rest = segments[at : at + reordered]
            found += [*rest, first]
    return found


def attackers(count: int) -> Iterator[tuple[bytes, int]]:
    """Addresses and ports of as many hosts."""
    return ((struct.pack(">I", 0x0B000000 + n // 1000), 1024 + n % 1000) for n in range(count))


def half_open(count: int, size: int = 1400, pieces: int = 1) -> Iterator[bytes]:
    """Connections that never become whole: a SYN, and `pieces` segments after a hole."""
    body = bytes(size)
    packets = [tcp(1, GOOD_PORT, 999, "S")]
    packets += [tcp(1, GOOD_PORT, 1001 + n * (size + 1), "A", body) for n in range(pieces)]
    return from_each(count, [eth(ip4(packet)) for packet in packets])


def from_each(count: int, packets: list[bytes]) -> Iterator[bytes]:
    """The packets from each of the attackers: in Ethernet and IPv4, whose checksum is not verified."""
    for src, port in attackers(count):
        for packet in packets:
            yield b"".join((packet[:26], src, packet[30:34], port.to_bytes(2, "big"), packet[36:]))


def assert_nothing_is_lost(outcome: Outcome, ports: Iterable[int]) -> None:
    for port in ports:
        assert bytes(outcome.streams[port]) == text(port)
    assert not [cause for port, cause in outcome.gaps if port in ports]


PORTS = range(30_000, 30_010)


def test_good_connections_lose_nothing_beside_100_000_half_open_ones(made: CompiledStack) -> None:
    outcome = run(made, beside(good(PORTS), half_open(100_000), 400), 16 << 20)
    assert_nothing_is_lost(outcome, PORTS)
    assert outcome.count(GAVE_UP, "tcp") > 90_000
    assert outcome.reports["pool refused"] == 0


@pytest.mark.parametrize("memory", [1 << 20, 3 << 19])
def test_the_law_of_payload_holds_where_sides_give_up(made: CompiledStack, tmp_path: Path, memory: int) -> None:
    outcome = run(made, beside(good(PORTS[:3]), half_open(3000, 700, 2), 60), memory, tmp_path / "rows")
    assert_nothing_is_lost(outcome, PORTS[:3])
    assert outcome.count(GAVE_UP, "tcp") > 2000
    assert {cause for _, cause in outcome.gaps} == {"memory", "close"}


def test_a_side_that_gave_up_goes_on(made: CompiledStack) -> None:
    """What it held is delivered after the gap, and what follows, too."""
    a, _ = pair(port=40_000)
    before = [a.send("S"), a.at(0, b"one "), a.at(10, b"three ")]
    after = [a.at(16, b"four "), a.at(4, b"two   ")]
    outcome = run(made, [*before, *half_open(2000), *after], 1 << 20)
    assert bytes(outcome.streams[40_000]) == b"one three four "
    assert outcome.gaps[0] == (40_000, "memory")  # it held for longest


def test_pieces_of_one_byte(made: CompiledStack) -> None:
    outcome = run(made, beside(good(PORTS[:3]), half_open(3000, 1, 8), 60), 1 << 20)
    assert_nothing_is_lost(outcome, PORTS[:3])
    assert outcome.count(GAVE_UP, "tcp") > 1000


def test_blocks_of_all_sizes_leave_room_for_a_packet(made: CompiledStack) -> None:
    """Sizes alternate, so that the blocks that are given back lie apart."""
    sizes = [half_open(1500, size) for size in (1, 200, 1400, 60)]
    attack = (packet for flows in zip(*sizes, strict=True) for packet in flows)
    outcome = run(made, beside(good(PORTS[:3]), attack, 60), 1 << 20)
    assert_nothing_is_lost(outcome, PORTS[:3])
    assert outcome.reports["pool refused"] == 0


def test_fragments_of_datagrams_that_never_become_whole(made: CompiledStack) -> None:
    def attack() -> Iterator[bytes]:
        for src, id in attackers(3000):
            yield fragments4(bytes(2800), 1400, protocol=UDP, id=id, src=src)[0]

    whole = fragments4(udp(9, 9, bytes(2000)), 1000, 1000, protocol=UDP, id=9)
    outcome = run(made, beside([*good(PORTS[:2]), *whole], attack(), 20), 1 << 20)
    assert_nothing_is_lost(outcome, PORTS[:2])
    assert outcome.count(GAVE_UP, "ipv4") == outcome.count("ended:evicted", "ipv4") > 2000
    assert outcome.count("packets", "udp") == 1


def test_messages_that_never_become_whole(made: CompiledStack) -> None:
    """Each promises 100,000 bytes, and holds memory only for those that it has sent."""
    begun = struct.pack(">I", 100_000) + bytes(500)
    packets = [tcp(1, MESSAGES, 999, "S"), tcp(1, MESSAGES, 1000, "A", begun)]
    attack = from_each(3000, [eth(ip4(packet)) for packet in packets])
    a, b = pair(port=40_000)
    b.port = MESSAGES
    body = bytes(range(200)) * 4
    message = struct.pack(">I", 4 + len(body)) + body
    parts = [a.send("S"), a.at(0, message[:500]), a.at(500, message[500:])]
    outcome = run(made, beside([*good(PORTS[:2]), *parts], attack, 20), 1 << 20)
    assert_nothing_is_lost(outcome, PORTS[:2])
    assert outcome.bodies == [body]
    assert outcome.count(GAVE_UP, "message") > 1000
    assert outcome.lost.count("memory") == outcome.count("lost:memory", "message") == outcome.count(GAVE_UP, "message")


def test_nothing_gives_up_while_there_is_room(made: CompiledStack) -> None:
    outcome = run(made, beside(good(PORTS[:3]), half_open(1000), 20), 16 << 20)
    assert sum(own.get(GAVE_UP, 0) for own in outcome.counters.values()) == 0
    assert {cause for _, cause in outcome.gaps} == {"close"}


def test_one_burst_may_hold_more_than_there_is(made: CompiledStack) -> None:
    """Then its last packets are refused, as ever; and the next bursts find room again."""
    outcome = run(made, [*half_open(200), *repeat(eth(ip4(udp(9, 9), UDP)), BURST), *good(PORTS[:1])], 1 << 16)
    assert outcome.reports["pool refused"] > 0
    assert_nothing_is_lost(outcome, PORTS[:1])
