"""Whole programs as text: what is printed is read back as it was, and does the same."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.engine.compiler import INCLUDES, compiler, flags
from sluice.ir import graph as ir
from sluice.ir.expression import Const, Reg
from sluice.ir.graph import (
    Block,
    EventShape,
    Graph,
    InstanceLayout,
    KeyPart,
    LayerProgram,
    NativeModule,
    NativeShape,
    Program,
    Rules,
    State,
)
from sluice.ir.graph_kinds import KINDS, MAIN
from sluice.ir.hook import Hook
from sluice.ir.instruction import Return
from sluice.ir.interpreter import Interpreter
from sluice.ir.text import IrSyntaxError, parse_program, print_program
from sluice.ir.verify import verify
from sluice.lang import DescriptionWarning, Stack
from sluice.lang.events import BUILT_IN
from sluice.lower.build import build
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack, stack_names
from tests.differential.choices import Choices, Chosen, chosen
from tests.differential.stacks import MODULE
from tests.differential.stacks import stack as random_stack
from tests.differential.traffic import Seeded
from tests.ir.descriptions import STACKS
from tests.ir.test_text import NAMES
from tests.paper.programs import figure2, gtp_stack
from tests.paper.test_programs import tcp_over_ip
from tests.support.budget import examples, in_matrix


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


LARGE = set(stack_names()) - {"gtp"}
"""Ready stacks that take long, and have nothing for the text that the others have not."""


@pytest.mark.parametrize(
    "describe",
    [in_matrix(each, id=name) if name in LARGE else pytest.param(each, id=name) for name, each in DESCRIPTIONS.items()],
)
def test_a_program_is_read_back(describe: Callable[[], Stack]) -> None:
    built = program(describe())
    assert_read_back(built)
    passed = run(built)
    verify(assert_read_back(passed))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions in C that random stacks call."""
    made = tmp_path_factory.mktemp("native") / "module.so"
    subprocess.run(
        [*compiler(), *flags(), "-shared", *INCLUDES, str(MODULE.path), "-o", str(made)], check=True, timeout=300
    )
    return made


@settings(max_examples=examples(60, 8), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(what=chosen, seed=st.integers(0, 99))
def test_a_program_that_was_read_does_the_same(library: Path, what: Chosen, seed: int) -> None:
    built = program(random_stack(Choices(what)))
    again = assert_read_back(built)
    assert_read_back(run(built))
    one, other = Interpreter(built, library=library), Interpreter(again, library=library)
    for interpreter in (one, other):
        for packet in Seeded(seed, 60).packets():
            interpreter.packet(packet.data, packet.time, packet.link_type, packet.length)
        interpreter.close()
    assert one.events == other.events
    assert one.counters == other.counters


def graph(name: str, *parameters: Reg) -> Graph:
    return Graph(name, "entry", parameters, {"entry": Block("entry", [Return(Const(0))])})


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
            others={kind: graph(kind, SIDE) for kind in KINDS if kind != MAIN},
            resyncs=True,
            of_streams=True,
            of_packets=True,
            instance=InstanceLayout(
                table="t 1",
                key=(KeyPart("src", 128, "dst"), KeyPart("a key", 7)),
                oriented=True,
                stored=False,
                fields=((Reg("perm.x", 64), 5), (Reg("inst.y z", 1), 0)),
                sides=2,
                aliases="further keys",
                alias=(KeyPart("id", 160), KeyPart("tag", 32)),
                more_keys="more of its own",
                most=65536,
            ),
            rules=Rules(32, True, "bsd_right", True, False, 1, 2, 3, 4, (Reg("v.f", 1), Reg("v.g", 64)), units=True),
            states=(State("ON", False, True), State("over now", True, False), State("b", True, True)),
            timeouts=(0.0, 1e-05, 2.5, 1e22, float("inf")),
            events={
                "data": EventShape("data", (("offset", 64), ("bytes", 0)), ""),
                "malformed": EventShape("malformed", (("reason", 64),), "", ("header too short", "const")),
                "my own": EventShape("my own", (), "a layout", where="/there/x.py:12"),
            },
            above=("one", "the other"),
            home=1,
        ),
    },
    natives=(
        NativeModule("plain", "/there/it's.c", (), "", ()),
        NativeModule(
            name="cipher",
            path="cipher.c",
            libraries=("crypto", "z-1"),
            option="key-log",
            functions=(
                ("open", NativeShape((True, False), 3, 65536, ("no key", "broken"))),
                ("close", NativeShape((), 0, 0, ())),
            ),
        ),
        NativeModule("other", "other.c", (), "option", ()),
        NativeModule("libraries", "libraries", ("option",), "", ()),
    ),
)
"""A program that has all that a program may have, with names of all sorts."""


def test_all_that_a_program_holds_is_in_the_text() -> None:
    assert_read_back(FULL)


HELD: list[Any] = [
    made for made in vars(ir).values() if dataclasses.is_dataclass(made) and made.__module__ == ir.__name__
]
"""All kinds of things that programs are made of, besides instructions; those see test_text."""
REFERRED_TO = {"LayerProgram.name", "Graph.entry", "Block.name"}
"""Names under which others find a thing: changed in one place, nothing is there any more. They have tests."""


def changes_of_item(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Of something in a tuple: a name there may be that of a layer, and a tuple there has as many items as it has."""
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            for to, new in changes_of_item(item, path):
                yield to, (*value[:at], new, *value[at + 1 :])
    elif not isinstance(value, str):
        yield from changes(value, path)


def changes(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Others of the same kind, each changed in one place: the fields that lead there, and the value."""
    match value:
        case bool():
            yield path, not value
        case int():
            yield path, value + 1
        case float():
            yield path, 0.25 if value else 1.5
        case str():
            yield path, "last" if value == "bsd_right" else value + "x"
        case Reg(name, bits):
            yield from ((path, made) for made in (Reg(name + "x", bits), Reg(name, bits + 1)))
        case Return():
            yield path, Return(Const(7))
        case tuple():
            yield from ((path, value[:at] + value[at + 1 :]) for at in range(len(value)))
            for at, item in enumerate(value):
                for to, new in changes_of_item(item, path):
                    yield to, (*value[:at], new, *value[at + 1 :])
        case list():
            for at, item in enumerate(value):
                yield from ((to, [*value[:at], new, *value[at + 1 :]]) for to, new in changes(item, path))
        case dict():
            for key, item in value.items():
                for to, new in changes(item, path):
                    name = key if isinstance(item, Graph) else new.name  # graphs are found by their kind
                    yield to, {(name if old == key else old): (new if old == key else value[old]) for old in value}
        case _:
            for item in dataclasses.fields(value) if type(value) in HELD else ():
                name = f"{type(value).__name__}.{item.name}"
                if item.compare and name not in REFERRED_TO:
                    for to, new in changes(getattr(value, item.name), (*path, name)):
                        yield to, dataclasses.replace(value, **{item.name: new})


CHANGES = list(changes(FULL))


@pytest.mark.parametrize("made", [made for _, made in CHANGES], ids=[path[-1] for path, _ in CHANGES])
def test_a_change_shows(made: Program) -> None:
    assert made != FULL
    assert print_program(made) != print_program(FULL)
    assert_read_back(made)


@pytest.mark.parametrize("kind", HELD, ids=[kind.__name__ for kind in HELD])
def test_what_a_program_may_hold_is_among_these_changes(kind: Any) -> None:
    """So that the text carries every field of a program: whoever adds one gives FULL a value of it."""
    fields = {f"{kind.__name__}.{item.name}" for item in dataclasses.fields(kind) if item.compare}
    assert fields - REFERRED_TO - {name for path, _ in CHANGES for name in path} == set()


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
  native c of 'c.c', libraries (z), option keys
    f (bytes, number) gives 2 numbers, 9 bytes, reasons (broken)

layer a (layer 'a', parser 'a', home 0)
  above (b)
  instance of table t, key (k:8/l) both ways, 2 sequences, aliases more (id:160)
    inst.state:u8 = 0
  sequence of 32 bits, wrapping, policy first, units, limit 1 bytes 2 pieces 3 records, history 0, record ()
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
  messages of streams, packets
  resyncs
graph b (local.unit:bytes)
entry:
  End('ended')
"""
ERRORS = {
    "nothing": ("(?s).*", "", "line 1: an empty text: a program begins with"),
    "no program": (r"^program(?s:.*?)\n\n", "", "line 1: a layer outside a program: begin with"),
    "something else": ("^program", "programme", "line 1: a program begins with"),
    "no root": ("-> a", "->", "line 1: expected the name of a layer"),
    "root to nowhere": ("-> a", "-> aa", "line 1: there is no layer 'aa': did you mean 'a'?"),
    "step to nowhere": (r"above \(b", "above (bb", "line 6: there is no layer 'bb': did you mean 'b'?"),
    "no depth": (", at most 3 layers", "", "line 1: missing ','"),
    "slots twice": (r"(  slots .*\n)", r"\1\1", "line 3: expected one line 'slots (REGISTERS)'"),
    "slot without a type": ("slot.x:u8", "slot.x", "line 2: missing ':'"),
    "head of a layer": (", home 0", "", "line 6: missing ','"),
    "layer twice": ("layer b ", "layer a ", "line 22: there is a layer 'a' already: give"),
    "unknown property": (
        "  states",
        "  state",
        "line 11: expected what the layer has, or its graph, not 'state': did you",
    ),
    "not indented": ("  states", "states", "line 11: expected what the layer has, or its graph, not 'states (ON"),
    "field without an instance": ("  instance.*\n", "", "line 8: a field without an instance: a line 'instance of"),
    "field without a value": ("u8 = 0", "u8", "line 9: missing '='"),
    "key without a width": ("k:8", "k", "line 8: missing ':'"),
    "unknown kind of sequence": (
        "wrapping",
        "linear",
        "line 10: a sequence is 'zero_based' or 'wrapping', not 'linear'",
    ),
    "unknown policy": ("policy first", "policy frist", "line 10: there is no policy 'frist': did you mean 'first'?"),
    "messages of nothing": ("of streams, packets", "of", "line 23: the line ends too early"),
    "messages of something else": ("s, packets", "s, files", "line 23: messages are cut of 'streams', 'packets'"),
    "messages twice": (r"(  messages .*\n)", r"\1\1", "line 24: what messages are cut of stands in one line"),
    "messages of one twice": ("s, packets", "s, streams", "line 23: what messages are cut of stands in one line"),
    "further keys without a table": ("aliases more", "aliases", "line 8: expected the name of the table of further"),
    "more keys without a table": (
        r"more \(id:160\)",
        "more (id:160), more keys",
        "line 8: the line ends too early",
    ),
    "more of something else": (r"more \(id:160\)", "more (id:160), more", "line 8: missing 'keys'"),
    "further keys of nothing": (r"more \(id:160\)", "more", "line 8: missing '('"),
    "something else than further keys": ("aliases more", "alias more", "line 8: missing 'aliases' before 'alias more"),
    "module without a path": (" of 'c.c'", "", "line 3: missing 'of'"),
    "module twice": (r"(  native .*\n)", r"\1\1", "line 4: there is a native module 'c' already: give each one"),
    "option twice": ("option keys", "option keys, option keys", "line 3: unexpected ', option keys'"),
    "libraries twice": (r"libraries \(z\)", "libraries (z), libraries (z)", "line 3: missing 'option' before 'lib"),
    "function without a module": ("  native .*\n", "", "line 3: a function without a module: a line 'native NAME of"),
    "function twice": (r"(    f .*\n)", r"\1\1", "line 5: module 'c' has a function 'f' already: tell each one once"),
    "input of another kind": ("bytes, number", "bytes, text", "line 4: an input is 'bytes' or 'number', not 'text'"),
    "function without a limit": ("numbers, 9 bytes", "numbers", "line 4: expected a number"),
    "no limit": ("limit 1 bytes", "limit bytes", "line 10: expected a number, found 'bytes'"),
    "state with more": ("OFF accept", "OFF final", "line 11: missing ')' before 'final"),
    "timeouts that are none": (r"timeouts \(0.0", "timeouts (soon", "line 12: expected seconds before 'soon"),
    "event twice": (r"(  event .*\n)", r"\1\1", "line 14: there is an event 'seen' already"),
    "layer without graphs": (r"graph b[^$]*", "", "line 22: a layer without graphs: it needs"),
    "no main graph": (r"graph a (?s:.*?)drain", "drain", "line 6: layer 'a' has no main graph"),
    "graph twice": ("drain graph", "graph", "line 18: layer 'a' has a main graph already: it has one of each"),
    "unknown instruction": (r"Return\(0", "Retrun(0", "line 20: unknown instruction 'Retrun': did you mean 'Return'?"),
    "what follows a line": ("accept\\)", "accept) 5", "line 11: unexpected '5'"),
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
