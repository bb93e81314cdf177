"""Pass `template`: how most packets look, see tests/golden/passes/template.txt; and what does not look so."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import compile_stack
from sluice.ir.expression import Binary, Const
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import Branch, Load, NextStateless
from sluice.ir.text import parse_graph
from sluice.lower.build import build
from sluice.passes import template
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack
from tests.differential.both import Compared, Packet, assert_same, compared
from tests.passes.golden_passes import check_graphs
from tests.support.budget import examples
from tests.support.packets import TCP, UDP, eth, fragments4, ip4, tcp, udp
from tests.support.stacks import optimised

STREAMS = frozenset({Hook("tcp", "data"), Hook("udp", "data")})
PLAIN_GTP = str(Path(__file__).parents[2] / "bench" / "stacks" / "plain_gtp.py")


@pytest.fixture(scope="module")
def tcp_ip() -> Program:
    return optimised("tcp_ip", STREAMS)


def templates(program: Program) -> dict[str, str]:
    """For every layer with a template, the layer that it forwards to."""
    found: dict[str, str] = {}
    for name, layer in program.layers.items():
        if layer.template is not None:
            (found[name],) = [i.layer for i in layer.template.instructions() if isinstance(i, NextStateless)]
    return found


def test_golden(tcp_ip: Program):
    """Version, length of the header, fragments and protocol of IPv4 are two compares."""
    check_graphs("template.txt", [tcp_ip.layers[name].template for name in ("eth", "ipv4")])


@pytest.mark.parametrize(
    ("stack", "layers"),
    [
        ("tcp_ip", {"eth": "ipv4", "ipv4": "tcp_over_ipv4"}),
        ("everything", {"eth": "ipv4", "ipv4": "tcp_over_ipv4"}),
        ("gtp", {"eth": "ipv4", "ipv4": "udp", "udp": "gtp", "gtp": "inner", "inner": "tcp"}),
        (PLAIN_GTP, {"eth": "ipv4", "ipv4": "udp", "udp": "gtp", "gtp": "inner", "inner": "tcp"}),
    ],
)
def test_the_most_frequent_path(stack: str, layers: dict[str, str]):
    """To what a description names first, up to the first layer with instances for which packets wait."""
    assert templates(optimised(stack, STREAMS)) == layers


def test_without_stateless_graphs_there_is_none():
    assert templates(run(build(find_stack("tcp_ip"), STREAMS), ["template", "lookahead"])) == {}


def test_twice_is_once(tcp_ip: Program):
    assert template.run(tcp_ip) is tcp_ip


# --- what conditions leave of a field ------------------------------------------------------------------------

HEAD = """graph g.stateless (local.unit:bytes)
entry:
  mark.0:u32 = Assign(0)
  Check(mark.0, 8) yes: there, cut: other, short: other
there:
  header.a:u4 = Load(mark.0, 0, 4, 'big')
  header.b:u12 = Load(mark.0, 4, 12, 'big')
  header.c:u16 = Load(mark.0, 16, 16, 'little')
  header.d:u24 = Load(mark.0, 40, 24, 'big')
  Branch({condition}) yes: {yes}, no: {no}
on:
  NextStateless('passed', 'up', local.unit)
other:
  Return(0)
"""


def words(condition: str, holds: bool = True) -> list[tuple[int, int, int, int]]:
    """The words that are compared if a condition holds, or does not: the first bit, the size, the mask
    and what must be there, the first byte the least.
    """
    yes, no = ("on", "other") if holds else ("other", "on")
    made = template.template_of("g", parse_graph(HEAD.format(condition=condition, yes=yes, no=no)))
    assert made is not None
    found: list[tuple[int, int, int, int]] = []
    for block in made.blocks.values():
        match block.instructions[-2:]:
            case [Load(word, _, at, bits), Branch(Binary("==", Binary("&", read, Const(mask)), Const(ones)))]:
                assert read == word
                found.append((at, bits, mask, ones))
            case _:
                pass
    return found


@pytest.mark.parametrize(
    ("condition", "holds", "found"),
    [
        ("(header.a == 3)", True, [(0, 8, 0xF0, 0x30)]),
        ("(header.a == 3)", False, []),
        ("(header.a != 3)", False, [(0, 8, 0xF0, 0x30)]),
        ("(header.a < 1)", True, [(0, 8, 0xF0, 0)]),
        ("(header.a > 0)", False, [(0, 8, 0xF0, 0)]),
        ("(header.a >= 15)", True, [(0, 8, 0xF0, 0xF0)]),
        ("(header.a <= 14)", False, [(0, 8, 0xF0, 0xF0)]),
        ("(header.a > 13)", True, []),
        (f"(header.b == {0x765})", True, [(0, 16, 0xFF0F, 0x6507)]),
        (f"((header.a == 3) & (header.c == {0x1234}))", True, [(0, 32, 0xFFFF00F0, 0x12340030)]),
        ("((header.a != 3) | (header.b != 0))", False, [(0, 16, 0xFFFF, 0x30)]),
        ("((header.a != 3) | (header.b != 0))", True, []),
        ("header.c", False, [(16, 16, 0xFFFF, 0)]),
        ("header.c", True, []),
        (f"(header.d == {0x123456})", True, [(40, 16, 0xFFFF, 0x3412), (56, 8, 0xFF, 0x56)]),
    ],
)
def test_words(condition: str, holds: bool, found: list[tuple[int, int, int, int]]):
    """Only a field with a single possible value is compared; no byte after the header is read."""
    assert words(condition, holds) == found


def test_a_field_that_no_check_of_known_size_covers_is_asked_for_itself():
    """As it is not compared, nothing may be known of it."""
    text = HEAD.format(condition="(header.a == 3)", yes="on", no="other")
    text = text.replace("Check(mark.0, 8)", "Check(mark.0, length(local.unit))")
    text = text.replace("Load(mark.0, 0, 4, 'big')", "Load(mark.0, 8, 4, 'big')")
    made = template.template_of("g", parse_graph(text))
    assert made is not None
    assert any(isinstance(i, Load) and i.target.name == "header.a" for i in made.instructions())


@pytest.mark.parametrize("other", ["header.a:u4 = Assign(3)", "header.a:u4 = Load(mark.0, 32, 4, 'big')"])
def test_a_register_that_is_set_twice_is_no_field(other: str):
    """A condition on one field says nothing about the other."""
    text = HEAD.format(condition="(header.a == 3)", yes="on", no="other")
    text = text.replace("on:\n", f"on:\n  {other}\n")
    made = template.template_of("g", parse_graph(text))
    assert made is not None
    assert not any("word" in reg.name for reg in made.registers().values())


@pytest.mark.parametrize(
    "adding",
    [
        "  slot.tags:u32 = Assign((slot.tags + 1))\n",
        "  local.tags:u32 = Assign((slot.tags + 1))\n  slot.tags:u32 = Assign(local.tags)\n",
    ],
)
def test_slots_that_are_added_to(adding: str):
    """Such a path could not be started again, because it would add twice."""
    text = HEAD.format(condition="(header.a == 3)", yes="on", no="other").replace("on:\n", "on:\n" + adding)
    assert template.template_of("g", parse_graph(text)) is None


# --- packets ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> Compared:
    stack = find_stack("tcp_ip")
    return compared(compile_stack(stack, python=STREAMS), stack)


def segment(number: int) -> bytes:
    return eth(ip4(tcp(1000 + number, 80, 1, flags="A", payload=b"some bytes"), TCP))


def changed(at: int, value: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([value]) + data[at + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        changed(12, 0x86),  # another EtherType
        changed(14, 0x46),  # options
        changed(14, 0x44),  # a header that is too short
        changed(14, 0x65),  # another version
        changed(20, 0x20),  # more fragments
        changed(20, 0x40),  # must not be fragmented: like most
        changed(20, 0x80),  # the reserved bit: like most
        changed(21, 1),  # a later fragment
        changed(23, UDP),
        changed(17, 0),  # total length 0, and one that is too short
        changed(17, 19),
        lambda data: data[:33],
        lambda data: data[:30],
        lambda data: data[:13],
    ],
)
def test_packets_that_differ(made: Compared, change: Callable[[bytes], bytes]):
    """In one thing from most: what becomes of them, and of those beside them, is the same as without passes."""
    packets: list[bytes] = []
    for number in range(40):
        packets += [segment(number), change(segment(number)), *fragments4(udp(5, 53, b"datagram"), 8)]
    assert_same(made, [Packet(data, number) for number, data in enumerate(packets)])


@settings(max_examples=examples(60, 20), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 53), st.integers(0, 255), st.integers(20, 64)), min_size=1, max_size=40))
def test_any_byte_may_differ(made: Compared, differences: list[tuple[int, int, int]]):
    packets: list[Packet] = []
    for number, (at, value, captured) in enumerate(differences):
        data = changed(at, value)(segment(number % 3))
        packets.append(Packet(data[:captured], number, length=len(data)))
    assert_same(made, packets)
