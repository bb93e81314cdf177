"""Packets with keys of several workers: connections in tunnels, and connections with further keys, stay whole."""

from __future__ import annotations

import gzip
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.common.summary import outcome_json, summary
from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.dispatch import Dispatch, LearningDispatch
from sluice.engine.functions import find_functions
from sluice.engine.workers import WorkerBoxes
from sluice.lang import AddAlias, ConnectionOriented, If, Pred, Stack, UInt, layout
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.udp import udp_parser
from tests.support.budget import examples
from tests.support.capture import pcap
from tests.support.conserve import check_conservation
from tests.support.heavy import heavy
from tests.support.packets import UDP, eth, fragments4, ip4, udp

GTP = 2152
KEYS_MOST = 1 << 19
"""Of homes_scan.c."""


class session_hdr(layout):
    id = UInt(32)  # of the receiver
    my_id = UInt(32)


def session_parser() -> Any:
    session: Any = ConnectionOriented("session")
    session.header = session_hdr
    session.selector = [session.below.src], [session.below.dst]
    session.alias = [session.header.id]
    session.prep = If(session.header.my_id != 0) >> AddAlias(session, [session.header.my_id], to_sender=True)
    session.timeout = 60
    return session


@cache
def stack() -> CompiledStack:
    made = Stack("homes_out", depth=60)
    made.eth, made.ip, made.udp, made.gtp = ethernet_parser(), ipv4_parser(), udp_parser(), gtp_parser()
    made.session = session_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.udp) + Pred(made.ip.header.protocol == UDP)
    made += (made.ip >> made.session) + Pred(made.ip.header.protocol == 200)
    made += (made.udp >> made.gtp) + Pred(made.udp.header.dport == GTP)
    made += (made.gtp >> made.ip) + Pred(made.gtp.header.MT == 255)
    return compile_stack(made, (*find_functions(["flow_log"]).c, heavy()))


def host(number: int) -> bytes:
    return bytes([10, 1, number >> 8, number & 255])


def between(one: int, other: int, text: bytes = b"text") -> bytes:
    """A datagram in IPv4."""
    return ip4(udp(5000, 5001, text), UDP, host(one), host(other))


def tunnelled(one: int, other: int, packet: bytes) -> bytes:
    """A packet in a tunnel of GTP."""
    return ip4(udp(GTP, GTP, struct.pack(">BBHI", 0x30, 255, len(packet), 1) + packet), UDP, host(one), host(other))


def session(one: int, other: int, to: int, mine: int = 0) -> bytes:
    return ip4(struct.pack(">II", to, mine), 200, host(one), host(other))


def run(path: Path, workers: int) -> tuple[list[str], Outcome]:
    with tempfile.NamedTemporaryFile() as out:
        bounds, options = Settings(seed=5, timeouts=False), [{"out": out.name}, {}]
        made = (
            WorkerBoxes(stack(), bounds, [], options, workers=workers) if workers else Box(stack(), bounds, [], options)
        )
        with made as box:
            outcome = box.run(path)
        return Path(out.name).read_text().splitlines(), outcome


@pytest.fixture
def learning() -> Iterator[LearningDispatch]:
    dealt = LearningDispatch(stack(), 64, seed=3)
    yield dealt
    dealt.close()


def workers_of(dealt: Dispatch, packets: list[bytes]) -> list[int]:
    return [dealt.worker(eth(packet)) for packet in packets]


def test_a_connection_whose_directions_are_in_tunnels_of_their_own(learning: LearningDispatch) -> None:
    """The tunnel of the answers is not known yet, and goes where the connection is."""
    packets = [tunnelled(1, 2, between(50, 60)), tunnelled(3, 4, between(60, 50)), tunnelled(4, 3, between(70, 71))]
    assert len(set(workers_of(learning, packets))) == 1 and learning.divided == 0
    assert len(set(workers_of(Dispatch(stack(), 64, seed=3), packets))) > 1


@pytest.mark.parametrize("first_outside", [True, False])
def test_a_connection_in_a_tunnel_and_outside(learning: LearningDispatch, first_outside: bool) -> None:
    whole = between(50, 60, bytes(600))[20:]
    frames = [eth(between(50, 60)), eth(tunnelled(1, 2, between(60, 50)))]
    frames += fragments4(whole, 256, protocol=UDP, src=host(50), dst=host(60))
    found = map(learning.worker, frames if first_outside else frames[::-1])
    assert len(set(found)) == 1 and learning.divided == 0


def test_connections_of_one_tunnel_and_others_are_dealt_out(learning: LearningDispatch) -> None:
    """A tunnel does not take what is beside it along."""
    packets = [between(n, 200 + n) for n in range(100)]
    found = workers_of(learning, packets)
    assert len(set(found)) > 30 and found == workers_of(Dispatch(stack(), 64, seed=3), packets)


def test_a_packet_of_two_workers_is_counted(learning: LearningDispatch) -> None:
    known = workers_of(learning, [tunnelled(1, 2, between(50, 60)), tunnelled(3, 4, between(51, 61))])
    assert known[0] != known[1]
    assert workers_of(learning, [tunnelled(3, 4, between(50, 60))]) == [known[1]]
    assert learning.divided == 1


def test_what_is_refused_in_a_tunnel_has_no_key(learning: LearningDispatch) -> None:
    damaged = bytearray(tunnelled(1, 2, between(50, 60)))
    damaged[20 + 8] = 0x10  # no version of GTP
    first = workers_of(learning, [bytes(damaged), between(50, 60)])
    assert first == workers_of(Dispatch(stack(), 64, seed=3), [bytes(damaged), between(50, 60)])


def test_a_further_key(learning: LearningDispatch) -> None:
    """A session goes on from another address, and then from there in both directions."""
    packets = [session(1, 2, 9, 77), session(2, 1, 77, 78), session(1, 2, 78), session(30, 2, 78), session(2, 30, 5)]
    assert len(set(workers_of(learning, packets))) == 1
    assert len(set(workers_of(Dispatch(stack(), 64, seed=3), packets))) > 1


steps = st.lists(
    st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from([0, 0, 1, 2, 3]), st.booleans()),
    min_size=1,
    max_size=60,
)


def capture_of(path: Path, given: list[tuple[int, bool, int, bool]]) -> Path:
    frames: list[bytes] = []
    for flow, back, tunnel, turned in given:
        packet = between(60 + flow, 50 + flow) if back else between(50 + flow, 60 + flow)
        if tunnel:
            near, far = 100 + tunnel, 200 + tunnel
            packet = tunnelled(far, near, packet) if turned else tunnelled(near, far, packet)
        frames.append(eth(packet))
    path.write_bytes(pcap(frames, [1000 + n / 1000 for n in range(len(frames))]))
    return path


@settings(max_examples=examples(60, 15), deadline=None)
@given(steps, st.integers(2, 4))
def test_a_file_gives_the_rows_of_one_box_whatever_the_tunnels(
    given: list[tuple[int, bool, int, bool]], workers: int
) -> None:
    """Its keys are found before its packets are processed."""
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        one, several = run(capture_of(Path(file.name), given), 0), run(Path(file.name), workers)
    assert one[0] == several[0] and one[1].counters == several[1].counters
    assert several[1].divided == 0 and one[1].divided is None
    check_conservation(stack().program, several[1].counters)


@settings(max_examples=examples(60, 15), deadline=None)
@given(steps)
def test_of_a_stream_it_gives_them_unless_it_says_otherwise(given: list[tuple[int, bool, int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = capture_of(Path(folder) / "all.pcap", given)
        packed = path.with_suffix(".gz")
        packed.write_bytes(gzip.compress(path.read_bytes(), 1))
        one, several = run(path, 0), run(packed, 3)
    assert several[1].divided or one[0] == several[0]
    check_conservation(stack().program, several[1].counters)


def test_keys_beyond_the_room_are_counted(tmp_path: Path) -> None:
    """More connections than the look at a file has room for; as a stream, some lines of keys are full."""
    frame = eth(between(1, 2))
    head = struct.pack("<IIII", 1000, 0, len(frame), len(frame)) + frame
    at = len(head) - len(frame) + 14 + 12  # of the addresses
    many = bytearray(head * (KEYS_MOST + 1000))
    for number in range(KEYS_MOST + 1000):
        struct.pack_into(">I", many, number * len(head) + at, 0x0A000000 | number)
    path = tmp_path / "many.pcap"
    path.write_bytes(pcap([], []) + many)
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    of_file, of_stream = run(path, 2)[1], run(packed, 2)[1]
    assert of_file.unlearned["not_scanned"] == 1000 and of_file.unlearned["left_out"] == 0
    assert of_stream.unlearned["not_scanned"] == 0 and of_stream.unlearned["forgotten"] > 0
    assert "1,000 packets with keys beyond the room" in summary(of_file)
    assert outcome_json(of_file)["keys_not_learned"] == of_file.unlearned


def test_a_17th_key_of_a_packet_is_counted(learning: LearningDispatch) -> None:
    """Each tunnel has a key, and so has the connection inside."""
    packet = between(50, 60)
    for tunnel in range(15):
        packet = tunnelled(70 + tunnel, 90 + tunnel, packet)
    learning.worker(eth(packet))
    assert learning.unlearned == {"forgotten": 0, "left_out": 0, "not_scanned": 0}
    learning.worker(eth(tunnelled(1, 2, tunnelled(3, 4, packet))))
    assert learning.unlearned["left_out"] == 2


def test_groups_move_with_connections_that_are_in_two_tunnels(tmp_path: Path) -> None:
    """Of a stream, whose keys are learned from packets: a key names a group, which takes its connections along."""
    learning = LearningDispatch(stack(), 8, seed=5)
    frames: list[bytes] = []
    for number in range(1, 200):
        there = eth(tunnelled(1000 + number, 2000 + number, between(number, 600 + number)))
        back = eth(tunnelled(3000 + number, 4000 + number, between(600 + number, number)))
        if learning.worker(there) % 2 == 0:
            assert learning.worker(there) == learning.worker(back)
            frames += [there, back]
    learning.close()
    path = tmp_path / "skewed.pcap.gz"
    path.write_bytes(gzip.compress(pcap([frames[n * 7 % len(frames)] for n in range(9_000)]), 1))
    found: list[tuple[list[str], Outcome]] = []
    for groups in (0, 4):
        out = tmp_path / str(groups)
        options = [{"out": str(out)}, {"each": "30" if groups else "0"}]
        bounds = Settings(seed=5, timeouts=False)
        made = (
            WorkerBoxes(stack(), bounds, [], options, workers=2, groups=groups)
            if groups
            else Box(stack(), bounds, [], options)
        )
        with made as box:
            outcome = box.run(path)
        found.append((out.read_text().splitlines(), outcome))
    (one, whole), (several, moved) = found
    assert one == several and whole.counters == moved.counters
    assert (moved.groups_moved or 0) >= 1 and moved.divided == 0
    assert min(moved.by_worker) > 500 and sum(moved.by_worker) == 9_000
