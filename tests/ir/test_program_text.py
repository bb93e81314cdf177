"""Whole programs as text: what is printed is read back as it was, and does the same."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.ir.build import Hook, build
from sluice.ir.expression import Reg
from sluice.ir.graph import Block, EventShape, Graph, InstanceLayout, KeyPart, LayerProgram, Program, Rules, State
from sluice.ir.instruction import Return
from sluice.ir.interpreter import Interpreter
from sluice.ir.text import IrSyntaxError, parse_program, print_program
from sluice.ir.verify import verify
from sluice.lang import DescriptionWarning, Stack
from sluice.lang.events import BUILT_IN
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack, stack_names
from tests.differential.choices import Choices, Chosen, chosen
from tests.differential.stacks import stack as random_stack
from tests.differential.traffic import Seeded
from tests.ir.descriptions import STACKS
from tests.ir.test_text import NAMES
from tests.paper.programs import figure2, gtp_stack
from tests.paper.test_programs import tcp_over_ip


def program(stack: Stack) -> Program:
    """With every event hooked."""
    defined = {name for layer in stack.layers.values() for name in layer.prototype.events.defined}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        return build(stack, frozenset(Hook("*", name) for name in defined | set(BUILT_IN)))


def assert_read_back(made: Program) -> Program:
    """As it was, with the lines of the description and without."""
    for lines in (True, False):
        text = print_program(made, lines)
        again = parse_program(text)
        assert again == made
        assert list(again.layers) == list(made.layers)
        assert print_program(again) == text
    return again


DESCRIPTIONS: dict[str, Callable[[], Stack]] = {
    **{name: lambda name=name: find_stack(name) for name in stack_names()},
    **STACKS,
    "first example": lambda: find_stack("examples/first/hello.py"),
    "figure 2": lambda: figure2.st,
    "paper's tcp": tcp_over_ip,
    "paper's gtp": lambda: gtp_stack.stack,
}


@pytest.mark.parametrize("describe", DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_a_program_is_read_back(describe: Callable[[], Stack]) -> None:
    built = program(describe())
    assert_read_back(built)
    passed = run(built)
    verify(assert_read_back(passed))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(what=chosen, seed=st.integers(0, 99))
def test_a_program_that_was_read_does_the_same(what: Chosen, seed: int) -> None:
    built = program(random_stack(Choices(what)))
    one, other = Interpreter(built), Interpreter(assert_read_back(built))
    for interpreter in (one, other):
        for packet in Seeded(seed, 60).packets():
            interpreter.packet(packet.data, packet.time, packet.link_type, packet.length)
        interpreter.close()
    assert one.events == other.events
    assert one.counters == other.counters


def graph(name: str, *parameters: Reg) -> Graph:
    return Graph(name, "entry", parameters, {"entry": Block("entry", [Return(parameters[0])])})


SIDE = Reg("local.side", 1)
FULL = Program(
    name="it's; all",
    roots=((None, "one"), (12, "the other")),
    slots=(Reg("slot.a", 16), Reg("slot.b c", 0)),
    depth=7,
    layers={
        "one": LayerProgram("one", "One", "p q", graph("g", SIDE), home=3),
        "the other": LayerProgram(
            name="the other",
            layer="a layer",
            prototype="p'",
            main=graph("main one", SIDE),
            drain=graph("d", SIDE),
            end=graph("e", SIDE),
            frame=graph("f", SIDE),
            lost=graph("l", SIDE),
            resyncs=True,
            instance=InstanceLayout(
                table="t 1",
                key=(KeyPart("src", 128, "dst"), KeyPart("a key", 7)),
                oriented=True,
                stored=False,
                fields=((Reg("perm.x", 64), 5), (Reg("inst.y z", 1), 0)),
                sides=2,
            ),
            rules=Rules(32, True, "bsd_right", True, False, 1, 2, 3, 4, (Reg("v.f", 1), Reg("v.g", 64))),
            states=(State("ON", False, True), State("over now", True, False), State("b", True, True)),
            timeouts=(0.0, 1e-05, 2.5, 1e22, float("inf")),
            events={
                "data": EventShape("data", (("offset", 64), ("bytes", 0)), ""),
                "my own": EventShape("my own", (), "a layout", "/there/x.py:12"),
            },
            above=("one", "the other"),
            home=1,
        ),
    },
)
"""A program that has all that a program may have, with names of all sorts."""


def test_all_that_a_program_holds_is_in_the_text() -> None:
    assert_read_back(FULL)


def changed(value: object) -> object:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return "last" if value in ("bsd_right",) else value + "x"
        case Reg(name, bits):
            return Reg(name, bits + 1)
        case tuple():
            return value[1:] if value else (0.5,)
        case _:
            raise AssertionError(value)


@pytest.mark.parametrize("what", ["resyncs", "above", "home", "states", "timeouts", "layer", "prototype"])
def test_a_change_of_a_layer_shows(what: str) -> None:
    layer = FULL.layers["the other"]
    other = dataclasses.replace(layer, **{what: changed(getattr(layer, what))})
    assert_shows(other)


@pytest.mark.parametrize("part", ["rules", "instance"])
def test_a_change_of_every_constant_shows(part: str) -> None:
    layer = FULL.layers["the other"]
    held = getattr(layer, part)
    for item in dataclasses.fields(held):
        value = changed(getattr(held, item.name))
        assert_shows(dataclasses.replace(layer, **{part: dataclasses.replace(held, **{item.name: value})}))


def assert_shows(layer: LayerProgram) -> None:
    """The layer is not the one of FULL, so nor are its text and what is read of it."""
    made = dataclasses.replace(FULL, layers={**FULL.layers, layer.name: layer})
    assert print_program(made) != print_program(FULL)
    assert assert_read_back(made) != FULL


@pytest.mark.parametrize("name", [name for name in NAMES.values() if name], ids=[key for key in NAMES if NAMES[key]])
def test_any_name_of_a_layer_is_read_back(name: str) -> None:
    layer = dataclasses.replace(FULL.layers["one"], name=name, layer=name, prototype=name)
    assert_read_back(Program(name, {name: layer}, ((1, name),), (), 3))


def test_the_line_of_an_event_stays_with_it() -> None:
    (own,) = [line for line in print_program(FULL).splitlines() if "'my own'" in line]
    assert own.endswith("; x.py:12")
    assert parse_program(print_program(FULL)).layers["the other"].events["my own"].where == "x.py:12"
    assert "x.py" not in print_program(FULL, lines=False)


TEXT = """program p (1 -> a), at most 3 layers
  slots (slot.x:u8)

layer a (layer 'a', parser 'a', home 0)
  above (b)
  instance of table t, key (k:8/l) both ways, 2 sequences
    inst.state:u8 = 0
  sequence of 32 bits, wrapping, policy first, limit 1 bytes 2 pieces 3 records, history 0, record ()
  states (ON, OFF accept)
  timeouts (0.0)
  event seen (x:u8) of layout seen
graph a (local.unit:bytes)
entry:
  End('passed')

drain graph a.drain (local.unit:bytes)
entry:
  Return(0)

layer b (layer 'b', parser 'b', home 1)
graph b (local.unit:bytes)
entry:
  End('ended')
"""
ERRORS = {
    "nothing": ("(?s).*", "", "line 1: an empty text: a program begins with"),
    "no program": (r"^program.*\n.*\n", "", "line 1: a layer outside a program: begin with"),
    "something else": ("^program", "programme", "line 1: a program begins with"),
    "no root": ("-> a", "->", "line 1: expected the name of a layer"),
    "root to nowhere": ("-> a", "-> aa", "line 1: there is no layer 'aa': did you mean 'a'?"),
    "step to nowhere": (r"above \(b", "above (bb", "line 4: there is no layer 'bb': did you mean 'b'?"),
    "no depth": (", at most 3 layers", "", "line 1: missing ','"),
    "slots twice": (r"(  slots .*\n)", r"\1\1", "line 3: expected one line 'slots (REGISTERS)'"),
    "slot without a type": ("slot.x:u8", "slot.x", "line 2: missing ':'"),
    "head of a layer": (", home 0", "", "line 4: missing ','"),
    "layer twice": ("layer b ", "layer a ", "line 20: there is a layer 'a' already: give"),
    "unknown property": (
        "  states",
        "  state",
        "line 9: expected what the layer has, or its graph, not 'state': did you",
    ),
    "not indented": ("  states", "states", "line 9: expected what the layer has, or its graph, not 'states (ON"),
    "field without an instance": ("  instance.*\n", "", "line 6: a field without an instance: a line 'instance of"),
    "field without a value": ("u8 = 0", "u8", "line 7: missing '='"),
    "key without a width": ("k:8", "k", "line 6: missing ':'"),
    "unknown kind of sequence": (
        "wrapping",
        "linear",
        "line 8: a sequence is 'zero_based' or 'wrapping', not 'linear'",
    ),
    "unknown policy": ("policy first", "policy frist", "line 8: there is no policy 'frist': did you mean 'first'?"),
    "no limit": ("limit 1 bytes", "limit bytes", "line 8: expected a number, found 'bytes'"),
    "state with more": ("OFF accept", "OFF final", "line 9: missing ')' before 'final"),
    "timeouts that are none": (r"timeouts \(0.0", "timeouts (soon", "line 10: expected seconds before 'soon"),
    "event twice": (r"(  event .*\n)", r"\1\1", "line 12: there is an event 'seen' already"),
    "layer without graphs": (r"graph b[^$]*", "", "line 20: a layer without graphs: it needs"),
    "no main graph": (r"graph a (?s:.*?)drain", "drain", "line 4: layer 'a' has no main graph"),
    "graph twice": ("drain graph", "graph", "line 16: layer 'a' has a main graph already: it has one of each"),
    "unknown instruction": (r"Return\(0", "Retrun(0", "line 18: unknown instruction 'Retrun': did you mean 'Return'?"),
    "what follows a line": ("accept\\)", "accept) 5", "line 9: unexpected '5'"),
}


def test_the_text_that_the_errors_are_made_of_is_right() -> None:
    assert print_program(parse_program(TEXT)) == TEXT


@pytest.mark.parametrize(("old", "new", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_line_and_what_to_do(old: str, new: str, message: str) -> None:
    wrong = re.sub(old, new, TEXT, count=1, flags=re.MULTILINE)
    assert wrong != TEXT
    with pytest.raises(IrSyntaxError) as caught:
        parse_program(wrong)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("at", range(len(TEXT.splitlines())))
def test_a_text_that_is_cut_is_read_or_refused(at: int) -> None:
    """Wherever: never another error."""
    lines = TEXT.splitlines()
    for text in (
        "\n".join(lines[:at]),
        "\n".join(lines[:at] + lines[at + 1 :]),
        "\n".join([*lines[:at], lines[at][:9]]),
    ):
        try:
            parse_program(text)
        except IrSyntaxError as error:
            assert re.match(r"line \d+: ", str(error)), error
