"""Programs made from small descriptions, run on packets: what happens, in which order, how it is counted."""

import itertools
import random
import struct
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ir.expression import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    MASK,
    Binary,
    Const,
    Expr,
    Flip,
    Length,
    Reg,
    Slice,
    Sum,
    calculate,
)
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.interpreter import Event, Interpreter, InterpreterError
from sluice.ir.interpreter.expressions import number, string
from sluice.ir.interpreter.frame import Context, Frame
from sluice.ir.interpreter.value import Bytes
from sluice.ir.text import parse_graph
from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    If,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
    swap_sides,
)
from sluice.lower.build import build

SECOND = 10**9


def program(stack: Stack, *events: str) -> Program:
    return build(stack, frozenset(Hook("*", event) for event in events))


def seen(box: Interpreter, *names: str) -> list[tuple[object, ...]]:
    """Events with one of these names: instance and values, and the name where there are several."""
    events = [event for event in box.events if not names or event.name in names]
    if len(names) == 1:
        return [(event.instance, *event.values) for event in events]
    return [(event.name, event.instance, *event.values) for event in events]


# --- expressions ------------------------------------------------------------------------------------------


def frame(**values: int | Bytes) -> Frame:
    made = Frame((b"", 0), Context(), 1)
    for name, value in values.items():
        if isinstance(value, int):
            made.numbers["local." + name] = value
        else:
            made.strings["local." + name] = value
    return made


numbers = st.one_of(st.integers(0, MASK), st.integers(0, 70), st.sampled_from([MASK, 1 << 63, 1 << 31, 0xFFFF]))


@given(
    st.sampled_from(ARITHMETIC + COMPARISONS),
    numbers,
    numbers,
    st.sampled_from([0, 8, 16, 32]),
    st.booleans(),
)
def test_operators_mean_what_calculate_says(operator: str, left: int, right: int, serial: int, constant: bool) -> None:
    if serial:
        left, right = left & ((1 << serial) - 1), right & ((1 << serial) - 1)
    second: Expr = Const(right) if constant else Reg("local.b", 64)
    compute = number(Binary(operator, Reg("local.a", 64), second, serial))
    assert compute(frame(a=left, b=right)) == calculate(operator, left, right, serial)


@pytest.mark.parametrize("operator", LOGICAL)
def test_logical_operators_skip_what_is_decided(operator: str) -> None:
    decided = int(operator == "||")
    for left, right in itertools.product((0, 1), repeat=2):
        compute = number(Binary(operator, Reg("local.a", 1), Reg("local.b", 1)))
        assert compute(frame(a=left, b=right)) == calculate(operator, left, right)
    assert number(Binary(operator, Reg("local.a", 1), Reg("local.unset", 1)))(frame(a=decided)) == decided


def test_flip() -> None:
    assert number(Flip(Reg("local.a", 1), 1))(frame(a=1)) == 0
    assert number(Flip(Reg("local.a", 16), 16))(frame(a=0xFF)) == 0xFF00


def test_slices_clip_both_measures() -> None:
    text: Bytes = (b"abcd", 8)

    def cut(low: int, high: int) -> Bytes:
        return string(Slice(Reg("local.t", 0), Const(low), Const(high)))(frame(t=text))

    assert cut(1, 3) == (b"bc", 2)
    assert cut(2, 6) == (b"cd", 4)
    assert cut(5, MASK) == (b"", 3)
    assert cut(9, MASK) == (b"", 0)
    assert cut(3, 2) == (b"", 0)
    assert number(Length(Reg("local.t", 0)))(frame(t=text)) == 8
    assert number(Length(Reg("local.t", 0), captured=True))(frame(t=text)) == 4


def test_checksum() -> None:
    header = bytes.fromhex("4500003044224000800600008c7c19acae241e2b")
    data = Reg("local.t", 0)

    def checksum(text: Bytes, *pseudo: Expr, **values: Bytes) -> int:
        return number(Sum(data, pseudo))(frame(t=text, **values))

    assert checksum((header, 20)) == 0x442E
    right = header[:10] + b"\x44\x2e" + header[12:]
    assert checksum((right, 20)) == 0
    assert checksum((right[:19], 20)) == 0  # cut: it cannot be known
    assert checksum((b"\0\0", 2)) == 0xFFFF
    assert checksum((b"\x12", 1)) == 0xFFFF - 0x1200
    assert checksum((b"", 0), Const(0x12345678)) == 0xFFFF - 0x68AC
    assert checksum((right[10:], 10), Reg("local.p", 0), p=(right[:10], 10)) == 0


def test_an_undefined_register_cannot_be_read() -> None:
    with pytest.raises(InterpreterError, match=r"local\.a"):
        number(Reg("local.a", 8))(frame())
    with pytest.raises(InterpreterError, match="without an instance"):
        number(Reg("perm.a", 8))(frame())


# --- graphs -----------------------------------------------------------------------------------------------


def run_text(text: str, data: bytes = b"", length: int | None = None) -> Interpreter:
    """A program of one layer, whose graph is given, on one packet."""

    class nothing(layout):
        x = Bit(8)

    stack = Stack()
    parser: Any = Connectionless(name="a")
    parser.header = nothing
    stack.a = parser
    made = build(stack)
    made.layers["a"].main = parse_graph(text)
    box = Interpreter(made)
    box.packet(data, 0, length=length)
    return box


def outcome(box: Interpreter) -> str:
    return next(name for name in box.program.layers["a"].outcomes() if box.counters["a"][name])


LOADS = """graph a (local.unit:bytes)
entry:
  mark.0:u32 = Assign(1)
  Check(mark.0, 9) yes: there, cut: was cut, short: too short
was cut:
  End('cut')
too short:
  End('short')
there:
  header.x:u%d = Load(mark.0, %d, %d, '%s')
  Branch((header.x == %d)) yes: right, no: wrong
right:
  End('right')
wrong:
  End('wrong')
"""


@pytest.mark.parametrize(
    ("at", "bits", "order", "value"),
    [
        (0, 8, "big", 0x12),
        (0, 4, "big", 0x1),
        (4, 4, "big", 0x2),
        (4, 12, "big", 0x234),
        (3, 13, "big", 0x1234),
        (0, 64, "big", 0x123456789ABCDEF0),
        (4, 64, "big", 0x23456789ABCDEF01),
        (0, 16, "little", 0x3412),
        (8, 32, "little", 0x9A785634),
    ],
)
def test_loads(at: int, bits: int, order: str, value: int) -> None:
    data = bytes.fromhex("ff123456789abcdef01f")
    assert outcome(run_text(LOADS % (bits, at, bits, order, value), data)) == "right"


def test_check_knows_cut_from_short() -> None:
    text = LOADS % (8, 0, 8, "big", 0)
    assert outcome(run_text(text, b"\xff\0" + bytes(8))) == "right"
    assert outcome(run_text(text, b"\xff\0", 10)) == "cut"
    assert outcome(run_text(text, b"\xff\0", 9)) == "short"


UNCHECKED = """graph a (local.unit:bytes)
entry:
  mark.0:u32 = Assign(0)
  header.x:u8 = Load(mark.0, 0, 8, 'big')
  End('e')
"""


def test_a_load_without_check_is_refused() -> None:
    with pytest.raises(InterpreterError, match="no check covers"):
        run_text(UNCHECKED)


def test_assign_keeps_the_low_bits() -> None:
    text = """graph a (local.unit:bytes)
entry:
  temp.x:u4 = Assign(18)
  Branch((temp.x == 2)) yes: right, no: wrong
right:
  End('right')
wrong:
  End('wrong')
"""
    assert outcome(run_text(text)) == "right"


# --- IP fragments: the paper's IP, its machine and all ----------------------------------------------------


def ip_stack(whole: bool = False) -> Stack:
    class ip_hdr(layout):
        tot_len = UInt(16)
        blank = Bit(2)
        more_frag = Bit(1)
        offset = Bit(13)
        saddr = Bit(8)
        daddr = Bit(8)

    class ip_temp(layout):
        offset = Bit(16)
        length = Bit(16)

    ip: Any = Connectionless(name="ip")
    ip.header = ip_hdr
    ip.selector = [ip.header.saddr, ip.header.daddr]
    ip.temp = ip_temp
    ip.prep = Assign(ip.temp.offset, ip.header.offset << 3) + Assign(ip.temp.length, ip.header.tot_len - 6)
    ip.seq = Sequence(meta=ip.temp.offset, data=ip.payload[: ip.temp.length], whole=whole)
    dump, frag = PSMState(start=True, accept=True), PSMState()
    psm: Any = PSM(dump, frag)
    ip.psm = psm
    ip.psm.dump = (dump >> dump) + Pred((ip.header.more_frag == 0) & (ip.temp.offset == 0))
    ip.psm.frag = (dump >> frag) + Pred((ip.header.more_frag == 1) | (ip.temp.offset != 0))
    ip.psm.more = (frag >> frag) + Pred(ip.header.more_frag == 1)
    ip.psm.last = (frag >> dump) + Pred(ip.v.header.more_frag == 0)
    ip.event.asm = If(psm.dump | psm.last) >> Assemble()
    ip.timeout = 30
    stack = Stack()
    stack.ip = ip
    return stack


def fragment(offset: int, data: bytes, more: bool, source: int = 1) -> bytes:
    return struct.pack(">HHBB", 6 + len(data), more << 13 | offset // 8, source, 2) + data


def fragments(source: int = 1, letter: bytes = b"") -> list[bytes]:
    """A datagram in four."""
    parts = [(letter or part) * 8 for part in (b"a", b"b", b"c", b"d")]
    return [fragment(8 * n, part, n < 3, source) for n, part in enumerate(parts)]


WHOLE = b"aaaaaaaabbbbbbbbccccccccdddddddd"


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=lambda order: "".join(map(str, order)))
def test_fragments_in_any_order_make_one_datagram(order: tuple[int, ...]) -> None:
    box = Interpreter(program(ip_stack(), "data", "gap", "end", "created"))
    for index in order:
        box.packet(fragments()[index], 0)
    box.packet(fragments()[0], 0)
    assert seen(box) == [("created", 1), ("data", 1, 0, WHOLE), ("end", 1, 0), ("created", 2)]
    counters = box.counters["ip"]
    assert (counters["packets"], counters["held"], counters["ended"], counters["ended:accept"]) == (
        5,
        4,
        1,
        1,
    )
    assert box.conserves()


def test_an_unfragmented_packet_is_a_datagram_of_its_own() -> None:
    box = Interpreter(program(ip_stack(), "data", "end"))
    box.packet(fragment(0, b"hello", False), 0)
    assert box.events == [Event("ip", "data", 1, 0, (0, b"hello")), Event("ip", "end", 1, 0, (0,))]


def test_datagrams_interleave() -> None:
    box = Interpreter(program(ip_stack(), "data"))
    for one, other in zip(fragments(1, b"x"), reversed(fragments(9, b"y")), strict=True):
        box.packet(one, 0)
        box.packet(other, 0)
    assert seen(box, "data") == [(1, 0, b"x" * 32), (2, 0, b"y" * 32)]


def test_a_gap_at_the_end_is_given_up_by_close() -> None:
    box = Interpreter(program(ip_stack(), "data", "gap", "end"))
    for index in (0, 1, 3):
        box.packet(fragments()[index], 0)
    assert box.events == []
    box.close()
    assert seen(box) == [
        ("data", 1, 0, WHOLE[:16]),
        ("gap", 1, 16, 8, 2),
        ("data", 1, 24, WHOLE[24:]),
        ("end", 1, 4),
    ]
    assert box.counters["ip"]["gaps"] == box.counters["ip"]["ended:eof"] == 1


def test_of_a_datagram_that_counts_only_whole_nothing_is_delivered() -> None:
    box = Interpreter(program(ip_stack(whole=True), "data", "gap", "end"))
    for index in (0, 1, 3):
        box.packet(fragments()[index], 0)
    box.close()
    assert seen(box) == [("end", 1, 4)]


def test_a_fragment_that_was_cut_is_given_up_at_once() -> None:
    box = Interpreter(program(ip_stack(), "data", "gap"))
    first = fragments()[0]
    box.packet(first[:-3], 0, length=len(first))
    assert seen(box) == [("data", 1, 0, b"aaaaa"), ("gap", 1, 5, 3, 3)]
    box = Interpreter(program(ip_stack(whole=True), "data", "gap"))
    box.packet(first[:-3], 0, length=len(first))
    assert box.events == [] and box.counters["ip"]["held"] == 1 and box.conserves()


# --- time -------------------------------------------------------------------------------------------------


def test_an_expired_instance_ends_when_it_is_looked_up() -> None:
    box = Interpreter(program(ip_stack(), "created", "end"))
    box.packet(fragments()[0], 0)
    box.packet(fragments()[1], 30 * SECOND - 1)
    box.packet(fragments()[2], 60 * SECOND - 1)  # the second one kept it
    assert seen(box) == [("created", 1), ("end", 1, 1), ("created", 2)]


def test_time_does_not_go_back() -> None:
    box = Interpreter(program(ip_stack(), "created"))
    box.packet(fragments(9)[0], 40 * SECOND)
    box.packet(fragments(1)[0], 0)
    box.packet(fragments(1)[1], 69 * SECOND)
    assert len(box.events) == 2


@pytest.mark.parametrize(
    ("options", "instances"), [({"timeouts": False}, 1), ({"idle": 5.0}, 2), ({"idle": 100.0}, 1), ({}, 2)]
)
def test_timeouts_can_be_replaced_and_switched_off(options: dict[str, float], instances: int) -> None:
    box = Interpreter(program(ip_stack()), **options)  # type: ignore[arg-type]
    box.packet(fragments()[0], 0)
    box.packet(fragments()[1], 50 * SECOND)
    assert box.counters["ip"]["instances"] == instances


def test_the_sweep_ends_what_nobody_looks_up() -> None:
    box = Interpreter(program(ip_stack(), "end"))
    for source in range(20):
        box.packet(fragments(source)[0], 0)
    for source in range(100, 111):
        box.packet(fragments(source)[0], 40 * SECOND)
    assert box.events == []
    box.packet(fragments(200)[0], 40 * SECOND)  # look-up 32
    assert seen(box, "end") == [(number, 1) for number in range(1, 9)]
    for _ in range(32):
        box.packet(fragments(200)[0], 40 * SECOND)
    assert seen(box, "end")[8:] == [(number, 1) for number in range(9, 17)]
    box.close()
    counters = box.counters["ip"]
    assert counters["ended:timeout"] == 20  # also those that the sweep had not come by when the input ended
    assert counters["ended:eof"] == 12 and counters["instances"] == 32


# --- bounds -----------------------------------------------------------------------------------------------


def test_the_one_that_would_time_out_first_is_evicted() -> None:
    box = Interpreter(program(ip_stack(), "created", "data", "end"), max_instances=3)
    for second, source in enumerate((1, 2, 3, 1)):
        box.packet(fragments(source)[second // 3], second * SECOND)
    box.packet(fragments(4)[0], 4 * SECOND)
    assert seen(box)[3:] == [("data", 2, 0, b"a" * 8), ("end", 2, 3), ("created", 4)]
    box.close()
    assert seen(box, "end")[1:] == [(1, 4), (4, 4), (3, 4)]  # by slot
    assert box.counters["ip"]["ended:evicted"] == 1


def nested(depth: int) -> Stack:
    """A layer that may carry itself."""

    class hdr(layout):
        more = Bit(8)

    stack = Stack(depth=depth)
    parser: Any = Connectionless(name="nest")
    parser.header = hdr
    stack.nest = parser
    stack += (stack.nest >> stack.nest) + Pred(stack.nest.header.more == 1)
    return stack


def test_layers_are_nested_to_a_depth() -> None:
    box = Interpreter(program(nested(3)))
    box.packet(b"\1\1\0", 0)
    assert box.box["too deep"] == 0 and box.counters["nest"]["packets"] == 3
    box.packet(b"\1\1\1\0", 0)
    assert box.box["too deep"] == 1
    assert box.counters["nest"] | {"packets": 6, "bytes": 15, "passed": 5, "ended": 1} == box.counters["nest"]
    assert box.conserves()


def test_the_deepest_stack_can_be_run() -> None:
    box = Interpreter(program(nested(255)))
    box.packet(b"\1" * 300, 0)
    assert box.box["too deep"] == 1 and box.counters["nest"]["packets"] == 255


def test_what_ends_inside_itself_ends_once() -> None:
    class hdr(layout):
        last = Bit(8)

    parser: Any = Connectionless(name="p")
    parser.header = hdr
    parser.selector = [parser.unit[:0].length]  # the same instance on all levels
    on, over = PSMState(start=True), PSMState(accept=True)
    parser.psm = PSM(on, over)
    parser.psm.end = (on >> over) + Pred(parser.header.last)
    stack = Stack(depth=3)
    stack.p = parser
    stack += (stack.p >> stack.p) + Pred(parser.payload_len > 0)
    box = Interpreter(program(stack, "created", "end"))
    box.packet(b"\1\1\1", 0)
    box.close()
    assert seen(box) == [("created", 1), ("end", 1, 0)]
    box.packet(b"\0", 0)
    assert seen(box)[2:] == [("created", 2)]


def test_a_graph_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ir.interpreter.frame.BLOCKS_MAX", 1000)
    with pytest.raises(InterpreterError, match="does not end"):
        run_text("graph a (local.unit:bytes)\nentry:\n  Goto() to: entry\n")


def test_roots_by_link_type() -> None:
    class hdr(layout):
        x = Bit(8)

    stack = Stack()
    for name, link_types in (("one", (1,)), ("two", (7, 8))):
        parser: Any = Connectionless(name=name, link_types=link_types)
        parser.header = hdr
        setattr(stack, name, parser)
    box = Interpreter(program(stack))
    for link_type in (1, 7, 8, 9):
        box.packet(b"abc", 0, link_type, length=5)
    assert box.counters["one"]["packets"] == 1 and box.counters["two"]["packets"] == 2
    assert box.box == {"packets": 4, "bytes": 20, "unknown link type": 1, "too deep": 0}


# --- a small TCP ------------------------------------------------------------------------------------------

SYN, ACK, FIN, RST = 1, 2, 4, 8


def tcp_stack(policy: str = "first", **rules: object) -> Stack:
    class tcp_hdr(layout):
        sport = Bit(8)
        dport = Bit(8)
        seq = UInt(16, serial=True)
        none = Bit(4)
        rst = Bit(1)
        fin = Bit(1)
        ack = Bit(1)
        syn = Bit(1)

    class tcp_perm(layout):
        packets = UInt(32)

    class over(layout):
        packets = UInt(32)

    tcp: Any = ConnectionOriented(name="tcp")
    tcp.header = tcp_hdr
    tcp.selector = ([tcp.header.sport], [tcp.header.dport])
    tcp.perm = tcp_perm
    tcp.prep = Assign(tcp.perm.packets, tcp.perm.packets + 1) + (
        If(tcp.created & tcp.header.syn & tcp.header.ack) >> swap_sides()
    )
    tcp.seq = Sequence(
        meta=tcp.header.seq + tcp.header.syn,
        data=tcp.payload,
        data_len=tcp.payload_len + tcp.header.fin,
        zero_based=False,
        start=tcp.header.syn,
        policy=policy,
        **rules,  # type: ignore[arg-type]
    )
    start, opened, closed, dead = (
        PSMState(start=True),
        PSMState(),
        PSMState(closed=True),
        PSMState(accept=True),
    )
    tcp.psm = PSM(start, opened, closed, dead)
    tcp.psm.reset = (opened >> dead) + Pred(tcp.header.rst)
    tcp.psm.open = (start >> opened) + Pred(1)
    tcp.psm.close = (opened >> closed) + Pred(tcp.v.header.fin)
    tcp.psm.close.timeout = 2
    tcp.psm.again = (closed >> start) + Pred(tcp.header.syn)
    tcp.psm.again.restart = True
    tcp.event.asm = Assemble()
    tcp.event.over = If(tcp.psm.close) >> Assign(over.packets, tcp.perm.packets) + Callback(over)
    tcp.timeout = 100
    stack = Stack()
    stack.tcp = tcp
    return stack


def segment(seq: int, data: bytes = b"", flags: int = 0, back: bool = False) -> bytes:
    ports = (9, 5) if back else (5, 9)
    return struct.pack(">BBHB", *ports, seq & 0xFFFF, flags) + data


@pytest.mark.parametrize("base", [0, 1000, 0xFFF0, 0xFFFF])
def test_a_stream_passes_the_wrap_in_any_order(base: int) -> None:
    text = bytes(range(65, 65 + 40))
    parts = [segment(base + 1 + at, text[at : at + 8]) for at in range(0, 40, 8)]
    fin = segment(base + 41, b"", FIN)
    for seed in range(20):
        box = Interpreter(program(tcp_stack(), "data", "gap"))
        box.packet(segment(base, b"", SYN), 0)
        rest = [*parts, fin]
        random.Random(seed).shuffle(rest)
        for packet in rest:
            box.packet(packet, 0)
        assert b"".join(event.values[1] for event in box.events if event.name == "data") == text  # type: ignore[misc]
        assert seen(box, "over") == [(1, 7)]
        assert box.conserves()


def test_sides() -> None:
    box = Interpreter(program(tcp_stack(), "data"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(1, b"ping"), 0)
    box.packet(segment(700, b"pong", back=True), 0)
    assert [(event.side, event.values) for event in box.events] == [(0, (0, b"ping")), (1, (0, b"pong"))]


def test_a_connection_first_seen_from_its_syn_ack_is_turned() -> None:
    box = Interpreter(program(tcp_stack(), "data"))
    box.packet(segment(700, b"", SYN | ACK, back=True), 0)
    box.packet(segment(1, b"ping"), 0)
    box.packet(segment(701, b"pong", back=True), 0)
    assert [(event.side, event.values) for event in box.events] == [(0, (0, b"ping")), (1, (0, b"pong"))]


def test_retransmissions_are_told_before_the_insert() -> None:
    box = Interpreter(program(tcp_stack(history=100), "data", "rexmit"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(1, b"abcd"), 0)
    box.packet(segment(9, b"ij"), 0)
    box.packet(segment(3, b"CDEFGHIJ"), 0)
    assert seen(box) == [
        ("data", 1, 0, b"abcd"),
        ("rexmit", 1, 2, 2, b"CD", b"cd"),
        ("rexmit", 1, 8, 2, b"IJ", b"ij"),
        ("data", 1, 4, b"EFGHij"),
    ]


def test_at_the_limit_a_hole_is_given_up() -> None:
    box = Interpreter(program(tcp_stack(limit=8), "data", "gap"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(11, b"aaaa"), 0)
    box.packet(segment(21, b"bbbb"), 0)
    assert box.events == []
    box.packet(segment(31, b"cccc"), 0)
    assert seen(box) == [("gap", 1, 0, 10, 0), ("data", 1, 10, b"aaaa")]
    box.close()
    assert seen(box)[2:] == [
        ("gap", 1, 14, 6, 2),
        ("data", 1, 20, b"bbbb"),
        ("gap", 1, 24, 6, 2),
        ("data", 1, 30, b"cccc"),
    ]


def test_without_buffer_nothing_is_delivered() -> None:
    stack = tcp_stack()
    stack.tcp.prototype.buffer_data = False
    box = Interpreter(program(stack, "data", "rexmit"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(5, b"efgh"), 0)
    box.packet(segment(1, b"abcd"), 0)
    box.packet(segment(3, b"cd"), 0)
    assert seen(box) == [("rexmit", 1, 2, 2, b"cd", b"")]


def test_restart() -> None:
    box = Interpreter(program(tcp_stack(), "created", "data", "end"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(1, b"one", FIN), 0)
    box.packet(segment(1, b"one", FIN), 0)
    box.packet(segment(500, b"", SYN), 0)
    box.packet(segment(501, b"two"), 0)
    assert seen(box, "created", "data", "end") == [
        ("created", 1),
        ("data", 1, 0, b"one"),
        ("end", 1, 2),
        ("created", 2),
        ("data", 2, 0, b"two"),
    ]
    box.packet(segment(504, b"", FIN), 0)
    assert seen(box, "over") == [(1, 2), (2, 3)]  # the fields began anew
    assert box.counters["tcp"]["ended:reused"] == 1


def test_a_transition_has_its_own_timeout() -> None:
    box = Interpreter(program(tcp_stack(), "created", "end"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(1, b"", FIN), 50 * SECOND)
    box.packet(segment(2, b"", ACK), 52 * SECOND)
    assert seen(box, "end") == [(1, 1)]


def test_an_accept_state_destroys_and_delivers_what_is_held() -> None:
    box = Interpreter(program(tcp_stack(), "data", "gap", "end"))
    box.packet(segment(0, b"", SYN), 0)
    box.packet(segment(5, b"late"), 0)
    box.packet(segment(1, b"", RST), 0)
    assert seen(box) == [("gap", 1, 0, 4, 2), ("data", 1, 4, b"late"), ("end", 1, 0)]


# --- instances that are not stored ------------------------------------------------------------------------


def test_a_fresh_instance_leaves_no_trace() -> None:
    class hdr(layout):
        part = Bit(8)
        key = Bit(8)

    parser: Any = Connectionless(name="p")
    parser.header = hdr
    parser.selector = If(parser.header.part != 0) >> [parser.header.key]
    done, on = PSMState(start=True, accept=True), PSMState()
    parser.psm = PSM(done, on)
    parser.psm.more = (done >> on) + Pred(parser.header.part == 1)
    parser.psm.last = (on >> done) + Pred(parser.header.part == 2)
    stack = Stack()
    stack.p = parser
    box = Interpreter(program(stack, "created", "packet", "end"))
    for data in (b"\0\7", b"\1\7", b"\0\7", b"\2\7"):
        box.packet(data, 0)
    assert seen(box) == [
        ("created", 0),
        ("packet", 0, 0),
        ("created", 1),
        ("packet", 1, 0),
        ("created", 0),
        ("packet", 0, 0),
        ("packet", 1, 0),
        ("end", 1, 0),
    ]
    counters = box.counters["p"]
    assert counters["instances"] == counters["ended:accept"] == 1 and counters["ended"] == 4


# --- lists of options -------------------------------------------------------------------------------------


def test_a_list_of_options() -> None:
    class head(layout):
        size = Bit(8)

    class end(layout):
        end_kind = Bit(8, const=0)

    class value(layout):
        value_kind = Bit(8, const=1)
        number = UInt(16)

    class seen_number(layout):
        number = UInt(16)

    parser: Any = Connectionless(name="p")
    parser.header = head
    options: Any = AnyUntil([value, end], parser.cursor < parser.header.size)
    parser.header += options
    last: Any = parser.header
    parser.event.number = If(parser.header_contain(value)) >> Assign(seen_number.number, last.number) + Callback(
        seen_number
    )
    stack = Stack()
    stack.p = parser
    box = Interpreter(program(stack))
    box.packet(b"\7\1\0\5\1\0\6rest", 0)
    box.packet(b"\1rest", 0)
    box.packet(b"\5\1\0\5\7", 0)
    box.packet(b"\7\1\0\5\1\0", 0, length=8)
    assert seen(box, "number") == [(0, 6), (0, 5), (0, 5)]
    assert box.counters["p"]["list broken"] == 1 and box.counters["p"]["list cut"] == 1
