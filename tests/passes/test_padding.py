"""Pass `padding`: lists with the usual layout, see tests/golden/passes/padding.txt; and other lists."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.engine.box import compile_stack
from sluice.ir.expression import Binary, Const
from sluice.ir.graph import Graph
from sluice.ir.hook import Hook
from sluice.ir.instruction import Branch
from sluice.ir.text import parse_graph
from sluice.lower.build import build
from sluice.passes import padding
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack
from tests.differential.both import Compared, Packet, assert_same, compared
from tests.passes.golden_passes import Case, cases, check, program_of
from tests.support.budget import examples
from tests.support.packets import TCP, eth, ip4, tcp
from tests.support.stacks import optimised

GOLDEN = cases("padding.txt")
STREAMS = frozenset({Hook("tcp", "data")})
TIMESTAMPS = bytes([1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4])
"""The layout of RFC 7323, appendix A."""


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, "padding.txt", padding.run)


def compared_words(graph: Graph) -> list[int]:
    """The values that the words of a list are compared with."""
    found: list[int] = []
    for instruction in graph.instructions():
        match instruction:
            case Branch(Binary("==", word, Const(value))) if "word" in str(word):
                found.append(value)
            case _:
                pass
    return found


@pytest.mark.parametrize("passes", ["padding", "all"])
def test_the_options_of_most_segments(passes: str):
    """Two NOPs, then kind and length of timestamps: one word."""
    program = run(build(find_stack("tcp_ip"), STREAMS), passes)
    for name in ("tcp_over_ipv4", "tcp_over_ipv6"):
        assert compared_words(program.layers[name].main) == [int.from_bytes(TIMESTAMPS[:4], "little")]


def test_only_main_graphs():
    """A lookahead graph skips lists, so that the pass would only add tests."""
    program = optimised("tcp_ip", STREAMS)
    for layer in program.layers.values():
        assert layer.lookahead is None or not compared_words(layer.lookahead)


def test_zeros_are_no_padding_in_front():
    """A byte of 0 ends the list: it is padding after an option, not in front of one."""
    (case, *_) = GOLDEN
    text = case.before.replace("Branch((local.kind == 1)) yes: byte, no: not byte", "Goto() to: not byte")
    graph = padding.run(program_of(parse_graph(text))).layers["g"].main
    assert compared_words(graph) == []


def changed(old: str, new: str) -> list[int]:
    """The compared values of the first case after a change of its text."""
    text = GOLDEN[0].before
    assert old in text
    return compared_words(padding.run(program_of(parse_graph(text.replace(old, new)))).layers["g"].main)


def test_a_byte_that_would_have_to_be_two_things():
    asks = "  Branch((header.length == 10)) yes: {}, no: broken\n"
    before = "  header.again:u8 = Load(mark.2, 8, 8, 'big')\n"
    again = "again:\n  Branch((header.again == 9)) yes: stamped, no: broken\n"
    assert changed(asks.format("stamped"), before + asks.format("again") + again) == []


def test_a_register_that_no_longer_holds_the_byte():
    more = "  header.length:u8 = Assign((header.length + 1))\n  Branch((header.length == 10))"
    assert changed("  Branch((header.length == 10))", more) == []


def test_an_end_that_more_than_one_value_tells():
    """In the 32 bits of its register."""
    assert changed("Assign((header.words << 2))", "Assign(((header.words << 30) + 16))") == []


def joins(old: str, new: str) -> str:
    """The block where the path joins the others, in the second case after a change of its text."""
    text = GOLDEN[1].before
    assert old in text
    main = padding.run(program_of(parse_graph(text.replace(old, new)))).layers["g"].main
    ways = [block.terminator for block in main.blocks.values() if "local.word" in str(block.terminator)]
    assert len(ways) == 1 and isinstance(ways[0], Branch)
    (to,) = main.blocks[ways[0].yes].terminator.targets()
    return to


@pytest.mark.parametrize(
    ("old", "new", "to"),
    [
        pytest.param("'ended'", "'over'", "told", id="all of it"),
        pytest.param(
            "(local.end - 4)) yes: on", "(local.end - 3)) yes: on", "done", id="a byte more than was looked at"
        ),
        pytest.param("CheckWire(mark.1,", "CheckWire(mark.2,", "done", id="from the end of the list on"),
        pytest.param("Branch((header.words >= 2))", "Branch((header.value >= 2))", "on the wire", id="a value decides"),
        pytest.param("  mark.end:u32 =", "  Count('told')\n  mark.end:u32 =", "on the wire", id="an effect"),
    ],
)
def test_the_path_continues_as_far_as_the_length_decides(old: str, new: str, to: str):
    assert joins(old, new) == to


# --- packets ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> Compared:
    stack = find_stack("tcp_ip")
    return compared(compile_stack(stack, python=STREAMS), stack)


def segment(number: int, time: int, options: bytes, cut: int = 0) -> Packet:
    """A segment with options as they are, the last `cut` bytes of the frame not captured."""
    whole = tcp(1000 + number, 80, 1, flags="A", payload=options + b"some bytes")
    header = bytearray(whole)
    header[12] = (5 + len(options) // 4) << 4
    frame = eth(ip4(bytes(header), TCP))
    return Packet(frame[: len(frame) - cut], time, length=len(frame))


LISTS = [
    TIMESTAMPS,
    TIMESTAMPS[2:] + bytes([1, 1]),  # padding after it
    TIMESTAMPS[2:] + bytes(2),
    bytes([1, 1, 8, 11]) + TIMESTAMPS[4:],  # another length
    bytes([1, 0, 8, 10]) + TIMESTAMPS[4:],
    bytes([1, 1, 9, 10]) + TIMESTAMPS[4:],
    TIMESTAMPS[:8],  # no room for all of it
    TIMESTAMPS + bytes([1, 1, 4, 2]),
    bytes(4) + TIMESTAMPS,
    b"",
]


@pytest.mark.parametrize("options", LISTS)
@pytest.mark.parametrize("cut", [0, 10, 11, 15, 21, 22, 23])
def test_lists_that_differ(made: Compared, options: bytes, cut: int):
    """In one respect from the usual layout. The result, also for invalid and cut lists, is that without passes."""
    assert_same(made, [segment(n, n, options if n % 2 else TIMESTAMPS, cut if n % 2 else 0) for n in range(6)])


@settings(max_examples=examples(60, 20))
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 255), st.integers(0, 30)), max_size=8))
def test_any_byte_of_a_list(made: Compared, changes: list[tuple[int, int, int]]):
    trace: list[Packet] = []
    for number, (at, value, cut) in enumerate(changes):
        options = TIMESTAMPS[:at] + bytes([value]) + TIMESTAMPS[at + 1 :]
        trace.append(segment(number, number, options, cut))
    assert_same(made, trace)
