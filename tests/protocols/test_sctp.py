"""SCTP by hand-made packets: set-up and tear-down, restart, tags, order, fragments, and what is hostile.

Compiled code and interpreter are held against each other on all of it.
"""

from __future__ import annotations

import itertools
import json
import random
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Assign, Callback, Connectionless, Stack, UInt, crc32c, layout
from sluice.stacks.sctp import sctp
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.budget import examples

SETTINGS = Settings(memory=1 << 24, max_instances=64, seed=1, bundle=1 << 10)  # of chunks in any packets
A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
TAGS = {A: 0xA0A0, B: 0xB0B0}
TSN = {A: 2**32 - 2, B: 500}
SPORT, DPORT = 5000, 36412
BEGIN, END, UNORDERED, REFLECTED = 2, 1, 4, 1
DATA, INIT, INIT_ACK, SACK, HEARTBEAT = 0, 1, 2, 3, 4
ABORT, SHUTDOWN, SHUTDOWN_ACK, COOKIE_ECHO, COOKIE_ACK, COMPLETE = 6, 7, 8, 10, 11, 14


@cache
def stack() -> Compared:
    return compiled(sctp())


def chunk(kind: int, value: bytes = b"", flags: int = 0, length: int | None = None, pad: bool = True) -> bytes:
    whole = struct.pack(">BBH", kind, flags, 4 + len(value) if length is None else length) + value
    return whole + bytes(-len(whole) % 4) * pad


def data(tsn: int, body: bytes, flags: int = BEGIN | END, stream: int = 0, ssn: int = 0, src: str = A) -> bytes:
    """A DATA chunk; `tsn` counts from the first of its sender."""
    number = (TSN[src] + tsn) % 2**32
    return chunk(DATA, struct.pack(">IHHI", number, stream, ssn, 46) + body, flags)


def init(src: str, kind: int = INIT, tag: int | None = None, tsn: int | None = None) -> bytes:
    first = TSN[src] if tsn is None else tsn
    return chunk(kind, struct.pack(">IIHHI", TAGS[src] if tag is None else tag, 9999, 5, 5, first % 2**32))


def packet(chunks: bytes, src: str = A, dst: str | None = None, tag: int | None = None, time: float = 0) -> Packet:
    """Under the tag of the receiver, if no other is given."""
    dst = dst or (B if src == A else A)
    tag = TAGS.get(dst, TAGS[A]) if tag is None else tag
    ports = (SPORT, DPORT) if dst == B else (DPORT, SPORT)
    body = struct.pack(">HHII", *ports, tag, 0) + chunks
    ends = b"".join(bytes(map(int, end.split("."))) for end in (src, dst))
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 132, 0) + ends
    return Packet(bytes(12) + b"\x08\0" + ip + body, int(time * 10**9))


def handshake(time: float = 0) -> list[Packet]:
    return [
        packet(init(A), tag=0, time=time),
        packet(init(B, INIT_ACK), B, time=time),
        packet(chunk(COOKIE_ECHO, b"biscuit"), time=time),
        packet(chunk(COOKIE_ACK), B, time=time),
    ]


class Heard(NamedTuple):
    """What came out: messages (side, stream, ssn, unordered, bytes), gaps, ends with the states, counters."""

    messages: list[tuple[int, int, int, int, bytes]]
    gaps: list[tuple[int, int, int]]
    ends: int
    lost: list[tuple[int, int, int]]
    counters: dict[str, dict[str, int]]

    @property
    def bodies(self) -> list[bytes]:
        return [message[-1] for message in self.messages]


def hear(packets: list[Packet], settings: Settings = SETTINGS) -> Heard:
    assert_same(stack(), packets, settings)
    events, counters = run_compiled(stack(), packets, settings)

    def named(name: str, layer: str = "sctp_over_ipv4_sctp_packet") -> list[Any]:
        return [(side, *values) for known, event, _, side, values in events if known == layer and event == name]

    messages = [(m[2], m[4], m[5], m[3], m[7]) for m in named("message", "sctp_message")]
    return Heard(messages, named("gap"), len(named("end")), named("lost"), counters)


def associations(heard: Heard) -> int:
    return heard.counters["sctp_over_ipv4_sctp_packet"]["instances"]


# --- order and messages ------------------------------------------------------------------------------------------


def test_messages_of_both_sides() -> None:
    packets = [
        *handshake(),
        packet(data(0, b"one", stream=3, ssn=0) + data(1, b"two", stream=4, ssn=0)),
        packet(data(0, b"answer", BEGIN | END | UNORDERED, 1, src=B), B),
        packet(data(2, b"three", stream=3, ssn=1)),
    ]
    heard = hear(packets)
    assert heard.messages == [
        (0, 3, 0, 0, b"one"),
        (0, 4, 0, 0, b"two"),
        (1, 1, 0, 1, b"answer"),
        (0, 3, 1, 0, b"three"),
    ]
    assert (heard.gaps, heard.lost, associations(heard)) == ([], [], 1)


def test_messages_that_waited_for_a_chunk_let_those_after_it_pass() -> None:
    """A retransmission is followed by new chunks in its packet, and begins ten messages, whose chunks came before."""
    parts = [data(tsn, b"x", END if tsn % 2 else BEGIN, ssn=tsn // 2) for tsn in range(20)]
    new = [data(20 + number, b"new", ssn=10 + number) for number in range(6)]
    packets = [*handshake(), *map(packet, parts[1:]), packet(parts[0] + b"".join(new))]
    heard = hear(packets, replace(SETTINGS, bundle=16))
    assert heard.bodies == [b"xx"] * 10 + [b"new"] * 6 and heard.lost == []


SENT = [
    data(0, b"a", BEGIN, 1),
    data(1, b"b" * 5, 0, 1),
    data(2, b"c", END, 1),
    data(3, b"whole", stream=2),
    data(4, b"d", BEGIN | UNORDERED, 1),
    data(5, b"e", END | UNORDERED, 1),
    data(6, b"", stream=2, ssn=1),
    data(7, b"last", stream=1, ssn=1),
]
MESSAGES = [(0, 1, 0, 0, b"abbbbbc"), (0, 2, 0, 0, b"whole"), (0, 1, 0, 1, b"de"), (0, 1, 1, 0, b"last")]


@settings(max_examples=examples(80, 25), deadline=None)
@given(
    order=st.permutations(range(len(SENT))),
    again=st.lists(st.integers(0, 7), max_size=3),
    cuts=st.sets(st.integers(1, 9)),
)
def test_any_order_gives_the_same_messages(order: list[int], again: list[int], cuts: set[int]) -> None:
    """The law: chunks in any order, any copies, in packets of any number of chunks."""
    chunks = [SENT[number] for number in [*order, *again]]
    edges = [0, *sorted(cut for cut in cuts if cut < len(chunks)), len(chunks)]
    packets = [packet(b"".join(chunks[low:high])) for low, high in itertools.pairwise(edges)]
    heard = hear([*handshake(), *packets])
    assert [message for message in heard.messages if message[-1]] == MESSAGES
    assert heard.gaps == []


def test_a_message_in_the_middle_of_an_association() -> None:
    """Picked up: numbers begin with the first DATA chunk."""
    assert hear([packet(data(7, b"seven")), packet(data(8, b"eight"))]).bodies == [b"seven", b"eight"]


def test_a_fragment_that_is_missing_takes_its_message_along() -> None:
    packets = [
        *handshake(),
        packet(data(0, b"a", BEGIN)),
        packet(data(2, b"c", END)),
        packet(data(3, b"next")),
    ]
    heard = hear(packets)
    assert heard.bodies == [b"next"]
    assert len(heard.gaps) == 1


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        ([data(0, b"a", BEGIN), data(1, b"b", BEGIN), data(2, b"c", END)], [b"bc"]),
        ([data(0, b"a", 0), data(1, b"b", END), data(2, b"c")], [b"c"]),
        ([data(0, b"a", BEGIN), data(1, b"whole"), data(2, b"c", END), data(3, b"d")], [b"whole", b"d"]),
        ([data(0, b"a", END), data(1, b"b", BEGIN), data(2, b"c", END)], [b"bc"]),
    ],
    ids=["two beginnings", "no beginning", "a whole one in between", "an end first"],
)
def test_fragments_that_do_not_fit(chunks: list[bytes], wanted: list[bytes]) -> None:
    assert hear([*handshake(), *map(packet, chunks)]).bodies == wanted


def test_a_message_that_never_ends_is_bounded() -> None:
    chunks = [data(0, bytes(1200), BEGIN), *(data(number, bytes(1200), 0) for number in range(1, 150))]
    heard = hear([*handshake(), *map(packet, chunks), packet(data(150, b"x"))])
    assert heard.bodies == [b"x"]
    assert heard.counters["sctp_message"]["ended:limit"] >= 1


# --- set-up, tear-down, restart ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "state"),
    [
        ([], "ESTABLISHED"),
        ([packet(chunk(SHUTDOWN, bytes(4)))], "SHUTDOWN_SENT"),
        ([packet(chunk(SHUTDOWN, bytes(4))), packet(chunk(SHUTDOWN_ACK), B)], "SHUTDOWN_ACK_SENT"),
        ([packet(chunk(SHUTDOWN_ACK), B), packet(chunk(COMPLETE))], "TERMINATED"),
        ([packet(chunk(ABORT))], "ABORTED"),
        ([packet(chunk(ABORT), tag=1)], "ESTABLISHED"),
        ([packet(chunk(ABORT, flags=REFLECTED), tag=TAGS[A])], "ABORTED"),
        ([packet(chunk(ABORT), tag=TAGS[A])], "ESTABLISHED"),
        ([packet(chunk(COMPLETE, flags=REFLECTED), B, tag=TAGS[B])], "TERMINATED"),
        ([packet(chunk(SHUTDOWN, bytes(4)), tag=7)], "ESTABLISHED"),
    ],
    ids=[
        "open",
        "shutdown",
        "acknowledged",
        "complete",
        "abort",
        "abort under a wrong tag",
        "abort that reflects",
        "reflected without saying so",
        "complete that reflects",
        "shutdown under a wrong tag",
    ],
)
def test_states(chunks: list[Packet], state: str) -> None:
    assert state_of([*handshake(), *chunks]) == state


@pytest.mark.parametrize(("count", "state"), [(1, "COOKIE_WAIT"), (2, "COOKIE_WAIT"), (3, "COOKIE_ECHOED")])
def test_states_of_the_handshake(count: int, state: str) -> None:
    assert state_of(handshake()[:count]) == state


@cache
def logging() -> CompiledStack:
    wanted = find_functions(["flow_log"])
    return compile_stack(sctp(), tuple(wanted.c), wanted.python_hooks())


def state_of(packets: list[Packet]) -> str:
    """The state of the only association, as the row tells it."""
    with TemporaryDirectory() as folder:
        rows = Path(folder, "rows")
        with Box(logging(), Settings(timeouts=False, seed=1), [], [f"out={rows}"]) as box:
            for one in packets:
                box.packet(one.data, one.time, one.link_type, one.length)
            box.finish()
        (row,) = [json.loads(line) for line in rows.read_text().splitlines()]
    return row["state"]


def test_a_lost_handshake_packet_does_no_harm() -> None:
    for left_out in range(4):
        packets = [one for number, one in enumerate(handshake()) if number != left_out]
        heard = hear([*packets, packet(data(0, b"one")), packet(data(0, b"two", src=B), B)])
        assert heard.bodies == [b"one", b"two"]
        assert associations(heard) == 1


def test_an_init_that_is_repeated_restarts_nothing() -> None:
    packets = [packet(init(A), tag=0), *handshake(), packet(data(0, b"one")), packet(init(A), tag=0)]
    heard = hear([*packets, packet(data(1, b"two"))])
    assert heard.bodies == [b"one", b"two"]
    assert associations(heard) == 1


def test_an_init_with_another_tag_restarts() -> None:
    """What waited before is told, and numbers begin anew."""
    packets = [*handshake(), packet(data(0, b"one")), packet(data(2, b"three"))]
    again = [
        packet(init(A, tag=0xA1, tsn=77), tag=0),
        packet(init(B, INIT_ACK, tag=0xB1), B, tag=0xA1),
        packet(chunk(DATA, struct.pack(">IHHI", 77, 0, 0, 1) + b"new", BEGIN | END), tag=0xB1),
    ]
    heard = hear([*packets, *again])
    assert heard.bodies == [b"one", b"three", b"new"]
    assert associations(heard) == 2
    assert heard.counters["sctp_over_ipv4_sctp_packet"]["ended:reused"] == 1


def test_the_other_side_may_restart() -> None:
    packets = [*handshake(), packet(data(0, b"one")), packet(init(B, tag=0xB7), B, tag=0)]
    assert associations(hear(packets)) == 2


def test_both_sides_may_open_at_once() -> None:
    """INITs that cross (5.2.1) are one association."""
    packets = [
        packet(init(A), tag=0),
        packet(init(B), B, tag=0),
        packet(init(B, INIT_ACK), B),
        packet(init(A, INIT_ACK)),
    ]
    heard = hear([*packets, *handshake()[2:], packet(data(0, b"one")), packet(data(0, b"two", src=B), B)])
    assert heard.bodies == [b"one", b"two"]
    assert associations(heard) == 1


def test_another_address_of_an_end() -> None:
    """Multi-homing: found by tag and ports, both ways."""
    packets = [
        *handshake(),
        packet(data(0, b"one")),
        packet(data(1, b"two"), C, B),
        packet(data(0, b"answer", src=B), B, C, tag=TAGS[A]),
        packet(data(2, b"three")),
    ]
    heard = hear(packets)
    assert heard.bodies == [b"one", b"two", b"answer", b"three"]
    assert associations(heard) == 1


def test_a_chunk_under_a_wrong_tag_is_not_believed() -> None:
    packets = [*handshake(), packet(data(0, b"injected"), tag=5), packet(data(0, b"true"))]
    assert hear(packets).bodies == [b"true"]


def test_an_association_ends_by_time() -> None:
    packets = [*handshake(), packet(data(0, b"one")), packet(data(2, b"three")), packet(chunk(HEARTBEAT), C, time=400)]
    heard = hear(packets)
    assert heard.bodies == [b"one", b"three"]
    assert heard.counters["sctp_over_ipv4_sctp_packet"]["ended:timeout"] == 1


# --- hostile -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "cause"),
    [
        (chunk(SACK, length=0), 2),
        (chunk(SACK, length=3), 2),
        (chunk(DATA, bytes(12), length=15), 2),
        (chunk(SACK, bytes(4), length=60), 4),
        (chunk(SACK, bytes(8), length=0xFFFF), 4),
        (b"\3\0", 4),
    ],
    ids=["length 0", "length 3", "data without its header", "beyond the packet", "longest", "no header"],
)
def test_a_chunk_with_a_wrong_length_ends_the_packet(rest: bytes, cause: int) -> None:
    """Those before it count; with the next packet all is well."""
    heard = hear([*handshake(), packet(data(0, b"one") + rest), packet(data(1, b"two"))])
    assert heard.bodies == [b"one", b"two"]
    assert [values[-1] for values in heard.lost] == [cause]


def test_the_last_chunk_may_lack_its_padding() -> None:
    for size in range(8):
        chunks = data(0, b"x" * size) + chunk(DATA, struct.pack(">IHHI", TSN[A] + 1, 0, 1, 1) + b"y" * 5, 3, pad=False)
        heard = hear([*handshake(), packet(chunks)])
        assert heard.bodies == ([b"x" * size] if size else [b""]) + [b"y" * 5]
        assert heard.lost == []


def test_as_many_chunks_as_a_packet_has_room_for() -> None:
    heard = hear([*handshake(), packet(chunk(SACK) * 16000), packet(data(0, b"one"))])
    assert heard.bodies == [b"one"]


def test_numbers_far_ahead_are_bounded() -> None:
    """Each takes room of its own until the limit; then what is missing is given up."""
    packets = [packet(data(3 * number + 1, bytes(1000))) for number in range(1500)]
    heard = hear([*handshake(), *packets])
    assert len(heard.bodies) == 1500
    assert sum(1 for gap in heard.gaps if gap[-1] == 0) > 400  # by the limit of bytes, before the end


def test_a_flood_of_inits_is_bounded() -> None:
    rnd = random.Random(1)
    packets = [
        packet(init(A, tag=rnd.randrange(1, 2**32)), f"10.9.{number >> 8}.{number & 255}", B, 0)
        for number in range(500)
    ]
    heard = hear([*packets, *handshake(), packet(data(0, b"one"))])
    assert heard.bodies == [b"one"]
    assert heard.counters["sctp_over_ipv4_sctp_packet"]["ended:evicted"] == 501 - 64


def test_the_snap_length() -> None:
    """A chunk that is cut is passed up with its captured bytes if its header is there, and a message of fragments with
    the bytes before the first that is missing.
    """

    def cut(one: Packet, missing: int) -> Packet:
        return Packet(one.data[:-missing], one.time, 1, len(one.data))

    packets = [
        *handshake(),
        packet(data(0, b"one.")),
        cut(packet(data(1, b"twotwotw")), 4),
        packet(data(2, b"three...")),
    ]
    assert hear(packets).bodies == [b"one.", b"twot", b"three..."]
    parts = [packet(data(0, b"abcd", BEGIN)), cut(packet(data(1, b"efgh", 0)), 2), packet(data(2, b"ijkl", END))]
    assert hear([*handshake(), *parts, packet(data(3, b"next"))]).bodies == [b"abcdef", b"next"]
    for missing in range(1, 60):
        hear([*handshake(), cut(packet(data(0, b"one.") + data(1, b"twotwotw") + chunk(SACK)), missing)])


def test_any_packets() -> None:
    """Real chunks with bits turned, bytes cut out and put in: both agree, and nothing is left."""
    rnd = random.Random(1)
    for _ in range(examples(12, 5)):
        packets = handshake()
        for number in range(120):
            src = rnd.choice([A, A, A, B, C])
            kinds = [
                data(rnd.randrange(number + 4), rnd.randbytes(rnd.randrange(40)), rnd.randrange(8), rnd.randrange(3)),
                chunk(rnd.choice([SACK, HEARTBEAT, SHUTDOWN, SHUTDOWN_ACK, 192, 64]), rnd.randbytes(12)),
                init(rnd.choice([A, B]), rnd.choice([INIT, INIT_ACK]), rnd.choice([None, 5]), rnd.choice([None, 9])),
                chunk(rnd.choice([ABORT, COMPLETE, COOKIE_ECHO, COOKIE_ACK]), b"", rnd.randrange(2)),
            ]
            chunks = bytearray(b"".join(rnd.choices(kinds, [20, 3, 1, 1], k=rnd.randrange(1, 5))))
            for _ in range(rnd.choice([0, 0, 1, 3])):
                chunks[rnd.randrange(len(chunks))] ^= 1 << rnd.randrange(8)
            if rnd.random() < 0.1:
                del chunks[rnd.randrange(len(chunks)) :]
            tag = rnd.choice([None, None, None, 0, 7])
            packets.append(
                packet(bytes(chunks), src, None if src != C else B, tag, time=number * rnd.choice([0, 0.1, 3]))
            )
        hear(packets)


# --- the checksum ------------------------------------------------------------------------------------------------


class summed_hdr(layout):
    checksum = UInt(32)


class found(layout):
    sum = UInt(32)


@cache
def summing() -> Compared:
    """Tells the CRC-32C of each packet, of which the first four bytes count as 0."""
    p: Any = Connectionless("summed")
    p.header = summed_hdr
    p.event.sum = Assign(found.sum, crc32c(p.unit, blank=(0, 4))) + Callback(found)
    made = Stack("summing")
    made.summed = p
    return compiled(made)


def sums(packets: list[Packet]) -> list[int]:
    assert_same(summing(), packets, SETTINGS)
    events, _ = run_compiled(summing(), packets, SETTINGS)
    return [values[0] for _, name, _, _, values in events if name == "sum"]


def test_crc32c() -> None:
    """RFC 3720, B.4: 32 bytes of zeroes, which blank bytes are like; and others with an independent calculation."""
    rnd = random.Random(1)
    bodies = [bytes(28), *(rnd.randbytes(rnd.randrange(200)) for _ in range(20))]
    packets = [Packet(rnd.randbytes(4) + body, 0) for body in bodies]
    assert sums(packets) == [crc(bytes(4) + body) for body in bodies]
    assert sums(packets[:1]) == [0x8A9136AA]


def crc(data: bytes) -> int:
    """Bit by bit."""
    remainder = 0xFFFFFFFF
    for byte in data:
        for place in range(8):
            bit = (remainder ^ byte >> place) & 1
            remainder = remainder >> 1 ^ 0x82F63B78 * bit
    return remainder ^ 0xFFFFFFFF


def test_what_was_cut_has_no_checksum() -> None:
    assert sums([Packet(bytes(8), 0, 1, 9)]) == [0]


@pytest.mark.parametrize("turned", [None, 0, 9, 13, 39])
def test_checksums_are_checked_when_asked_for(turned: int | None) -> None:
    """Of a packet, in its checksum too, one bit is turned."""
    made = compiled(sctp(), options=frozenset({"checksums"}))
    one = packet(data(0, b"twelve bytes"))
    ip, segment = one.data[14:34], one.data[34:]
    total = sum(struct.unpack(">10H", ip))
    ip = ip[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    segment = bytearray(segment[:8] + struct.pack("<I", crc(segment)) + segment[12:])
    if turned is not None:
        segment[turned] ^= 1
    packets = [Packet(one.data[:14] + ip + bytes(segment), 0)]
    assert_same(made, packets, SETTINGS)
    _, counters = run_compiled(made, packets, SETTINGS)
    wrong = counters["sctp_packet_over_ipv4"]["malformed:checksum"]
    assert wrong == (turned is not None)
